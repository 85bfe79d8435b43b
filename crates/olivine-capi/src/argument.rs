//! What C passes, looked at before it is used.

use crate::failure::Failure;
use crate::structs::{Label, Setting, Type, Versioned};
use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use olivine::{Config, Label as RustLabel, MessageType};
use std::time::Duration;

/// More than any version of a structure will ever have: what is larger was never set.
const STRUCT_SIZE_MAX: usize = 4096;

/// A text of C.
///
/// # Safety
///
/// `pointer` is NULL, or a text that ends with a NUL and stays as it is for as long as `'a`.
pub(crate) unsafe fn text<'a>(
    argument: &'static str,
    pointer: *const c_char,
) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::Null { argument });
    }
    // SAFETY: not NULL; the rest is the contract.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| Failure::Bad {
        argument,
        problem: format!(
            "is not UTF-8 ('{}'): {error}",
            text.to_string_lossy().escape_default()
        )
        .into(),
    })
}

/// `count` things of C in a row; NULL is fine where there are none.
///
/// # Safety
///
/// `pointer` is NULL, or `count` values that stay as they are for as long as `'a`.
#[inline(always)]
pub(crate) unsafe fn row<'a, T>(
    argument: &'static str,
    pointer: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::Null { argument });
    }
    if !pointer.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::Bad {
            argument,
            problem: format!(
                "cannot be {count} elements at {pointer:p}: pass their address and number"
            )
            .into(),
        });
    }
    // SAFETY: not NULL, aligned, and no longer than anything can be; the rest is the contract.
    Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
}

/// The bytes of a message.
///
/// # Safety
///
/// As for [`row`].
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the contract is the same.
    unsafe { row("data", data.cast(), length) }
}

/// A label; NULL is none.
///
/// # Safety
///
/// `label` is NULL, or may be read; its topic is NULL or as for [`text`].
#[inline(always)]
pub(crate) unsafe fn label<'a>(label: *const Label) -> Result<RustLabel<'a>, Failure> {
    // SAFETY: by contract NULL, or ours to read.
    let Some(label) = (unsafe { label.as_ref() }) else {
        return Ok(RustLabel::new());
    };
    // SAFETY: the contract is the same.
    unsafe { labelled(label.tag, label.topic) }
}

/// A label of this tag and topic; a NULL topic is the publisher's own.
///
/// # Safety
///
/// `topic` is NULL or as for [`text`].
#[inline(always)]
pub(crate) unsafe fn labelled<'a>(
    tag: u32,
    topic: *const c_char,
) -> Result<RustLabel<'a>, Failure> {
    let label = RustLabel::new().tag(tag);
    if topic.is_null() {
        return Ok(label);
    }
    // SAFETY: the contract is the same.
    Ok(label.topic(unsafe { text("topic", topic) }?))
}

/// The settings that a URI and a list of settings give.
///
/// # Safety
///
/// `uri` is as for [`text`]; `settings` is as for [`row`], with texts as for [`text`].
pub(crate) unsafe fn config(
    uri: *const c_char,
    settings: *const Setting,
    count: usize,
) -> Result<Config, Failure> {
    // SAFETY: the contract is the same.
    let uri = unsafe { text("uri", uri) }?;
    // SAFETY: the contract is the same.
    let settings = unsafe { row("settings", settings, count) }?;
    let mut pairs = Vec::with_capacity(count);
    for setting in settings {
        // SAFETY: the contract is the same.
        let key = unsafe { text("settings[].key", setting.key) }?;
        // SAFETY: the contract is the same.
        let value = unsafe { text("settings[].value", setting.value) }?;
        pairs.push((key, value));
    }
    Ok(Config::parse_with(uri, pairs)?)
}

/// The type that a program states.
///
/// # Safety
///
/// `stated` is NULL or may be read; its name is as for [`text`], its fields as well or NULL.
pub(crate) unsafe fn message_type(stated: *const Type) -> Result<MessageType, Failure> {
    // SAFETY: by contract NULL, or ours to read.
    let stated = unsafe { stated.as_ref() }.ok_or_else(|| Failure::Null { argument: "type" })?;
    // SAFETY: the contract is the same.
    let name = unsafe { text("type.name", stated.name) }?;
    let fields = if stated.fields.is_null() {
        ""
    } else {
        // SAFETY: the contract is the same.
        unsafe { text("type.fields", stated.fields) }?
    };
    let message_type = MessageType::new(name, stated.size, stated.align);
    let message_type = message_type.and_then(|stated| stated.with_fields(fields));
    message_type.map_err(|error| Failure::Bad {
        argument: "type",
        problem: format!("names no type of messages: {error}").into(),
    })
}

/// Where a result goes; NULL where the caller does not want it.
///
/// # Safety
///
/// `to` is NULL or may be written.
#[inline(always)]
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if let Some(to) = NonNull::new(to) {
        // SAFETY: may be written by contract.
        unsafe { to.write(value) };
    }
}

/// Where a result goes that the caller must want.
///
/// # Safety
///
/// `to` is NULL or may be written for as long as `'a`.
#[inline(always)]
pub(crate) unsafe fn place<'a, T>(
    argument: &'static str,
    to: *mut T,
) -> Result<&'a mut T, Failure> {
    // SAFETY: by contract ours to write while the call lasts.
    unsafe { to.as_mut() }.ok_or_else(|| Failure::Null { argument })
}

/// The bytes of a structure of which there may be versions, as its first word says.
///
/// # Safety
///
/// `to` is NULL or begins with a word that may be read.
#[inline(always)]
pub(crate) unsafe fn check<T: Versioned>(
    argument: &'static str,
    to: *const T,
) -> Result<usize, Failure> {
    if to.is_null() {
        return Err(Failure::Null { argument });
    }
    // SAFETY: not NULL; every version begins with its size.
    let size = unsafe { to.cast::<usize>().read() };
    if (T::FIRST..=STRUCT_SIZE_MAX).contains(&size) {
        return Ok(size);
    }
    Err(Failure::Bad {
        argument,
        problem: format!(
            "has struct_size {size}, which no version has: begin with its _INIT macro"
        )
        .into(),
    })
}

/// Fills a structure of which there may be versions, as far as the caller's goes.
///
/// # Safety
///
/// `to` is NULL, or has as many bytes that may be written as its first word says.
#[inline(always)]
pub(crate) unsafe fn fill<T: Versioned>(
    argument: &'static str,
    to: *mut T,
    value: T,
) -> Result<(), Failure> {
    // SAFETY: the contract is the same.
    let size = unsafe { check(argument, to.cast_const()) }?;
    // SAFETY: the contract is the same; checked just now.
    unsafe { fill_checked(to, size, value) };
    Ok(())
}

/// As [`fill`], after [`check`] found `size`.
///
/// # Safety
///
/// `to` has as many bytes that may be written as its first word says: `size`.
#[inline(always)]
pub(crate) unsafe fn fill_checked<T: Versioned>(to: *mut T, size: usize, value: T) {
    if size == size_of::<T>() {
        // A length that the compiler knows: no call.
        // SAFETY: it has that many bytes by contract.
        unsafe { to.write_unaligned(value) };
    } else {
        let length = size.min(size_of::<T>());
        let from = (&raw const value).cast::<u8>();
        // SAFETY: both have `length` bytes, by contract and by type; they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to.cast(), length) };
    }
    // SAFETY: as it was read.
    unsafe { to.cast::<usize>().write(size) };
}

/// A time-out in milliseconds; negative is none.
#[inline(always)]
pub(crate) fn timeout(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}
