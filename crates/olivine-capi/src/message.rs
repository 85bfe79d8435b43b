//! One message of C: copied in, or claimed and filled in place.

use crate::argument::{bytes, check, fill_checked, give, label};
use crate::failure::Failure;
use crate::handle::{guard_of, with};
use crate::publisher::Publisher;
use crate::sending::{NOT_AT_ALL, Sending};
use crate::status::Status;
use crate::structs::{Claim, Label};
use core::ffi::c_void;
use olivine::{Label as RustLabel, Outgoing};
use std::time::Duration;

/// Runs one call that sends, or waits for who receives.
///
/// # Safety
///
/// As for [`with`].
#[inline(always)]
pub(crate) unsafe fn send<R>(
    publisher: *mut Publisher,
    call: impl FnOnce(&mut Sending) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the contract is the same.
    unsafe {
        with(publisher, |end| {
            call(end).map_err(|failure| end.explained(failure))
        })
    }
}

/// Sends a copy of a message within a time.
///
/// `timeout` is a function, so that each caller has an instance of [`guard`] for itself: then the
/// compiler puts everything into one function, and the arguments stay in registers.
///
/// # Safety
///
/// As for the functions that call it.
#[inline(always)]
pub(crate) unsafe fn publish(
    publisher: *mut Publisher,
    (data, length): (*const c_void, usize),
    with_label: *const Label,
    timeout: impl FnOnce() -> Option<Duration>,
    position: *mut u64,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let message = Outgoing::new(unsafe { bytes(data, length) }?);
        // SAFETY: the contract is the same.
        let message = message.label(unsafe { label(with_label) }?);
        // SAFETY: the contract is the same.
        let sent = unsafe {
            send(publisher, |end| {
                end.check("length", length)?;
                let publisher = end.idle()?;
                Ok(match timeout() {
                    None => publisher.publish(message)?,
                    NOT_AT_ALL => publisher.try_publish(message)?,
                    Some(timeout) => {
                        let sent = publisher.publish_timeout(message, timeout);
                        sent.map_err(|error| end.described(error))?
                    }
                })
            })
        }?;
        // SAFETY: the contract is the same.
        unsafe { give(position, sent.0) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// Reserves a message within a time, a function as in [`publish`].
///
/// # Safety
///
/// As for the functions that call it.
#[inline(always)]
pub(crate) unsafe fn claim(
    publisher: *mut Publisher,
    length: usize,
    with_label: *const Label,
    timeout: impl FnOnce() -> Option<Duration>,
    claim: *mut Claim,
) -> Status {
    let call = || {
        // Looked at before anything is reserved.
        // SAFETY: the contract is the same.
        let size = unsafe { check("claim", claim) }?;
        let hand_over = |data| {
            let reserved = Claim {
                struct_size: size,
                data,
                length,
            };
            // SAFETY: the contract is the same; `check` found its size.
            unsafe { fill_checked(claim, size, reserved) };
        };
        // In both branches, so that a place stays in a register.
        if with_label.is_null() {
            // SAFETY: the contract is the same.
            hand_over(unsafe { reserve(publisher, length, || Ok(RustLabel::new()), timeout) }?);
        } else {
            // SAFETY: the contract is the same.
            hand_over(unsafe { reserve_labelled(publisher, length, with_label, timeout) }?);
        }
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// The place of a claimed message. `with_label` gives the same label each time.
///
/// # Safety
///
/// As for the functions that call it.
#[inline(always)]
unsafe fn reserve<'l>(
    publisher: *mut Publisher,
    length: usize,
    with_label: impl Fn() -> Result<RustLabel<'l>, Failure>,
    timeout: impl FnOnce() -> Option<Duration>,
) -> Result<*mut u8, Failure> {
    let room = || Ok(Outgoing::sized(length).label(with_label()?));
    let wanted = room()?;
    // SAFETY: the contract is the same.
    unsafe {
        send(publisher, |end| {
            end.check("length", length)?;
            end.claim(wanted, room, timeout())
        })
    }
}

/// As [`reserve`], apart from it: without a label there is nothing to carry along.
///
/// # Safety
///
/// As for the functions that call it.
#[inline(never)]
unsafe fn reserve_labelled(
    publisher: *mut Publisher,
    length: usize,
    with_label: *const Label,
    timeout: impl FnOnce() -> Option<Duration>,
) -> Result<*mut u8, Failure> {
    // SAFETY: the contract is the same.
    let label = || unsafe { label(with_label) };
    // SAFETY: the contract is the same.
    unsafe { reserve(publisher, length, label, timeout) }
}
