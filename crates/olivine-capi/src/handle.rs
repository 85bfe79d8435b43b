//! What an opaque pointer of C points to.

use crate::failure::{Failure, guard};
use crate::status::Status;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use olivine::NotSent;
use std::sync::atomic::{AtomicU8, Ordering};

/// A value behind an opaque pointer, used by one call at a time.
///
/// A handler that calls back into its own subscriber is always found. Two threads that use one
/// handle at the same time are nearly always found. So is a closed handle, as long as its memory is
/// not used again. Both remain forbidden. The mark is not a lock, so it costs almost nothing.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Handle<T> {
    value: UnsafeCell<T>,
    // Behind the value: allocators write into the first words of freed memory.
    mark: AtomicU8,
}

/// No call is using it.
const IDLE: u8 = 0xa0;
/// A call is using it.
const USED: u8 = 0xa1;
/// It was taken back.
const CLOSED: u8 = 0xa2;

/// A type that C sees pointers to.
pub(crate) trait Opaque: Sized {
    type Value;
    /// What it is called, in texts and as an argument.
    const WHAT: &'static str;

    fn new(handle: Handle<Self::Value>) -> Self;
    fn handle(&self) -> &Handle<Self::Value>;
    fn into_handle(self) -> Handle<Self::Value>;
    /// What each call answers in a forked child; `None` in the process that opened it.
    fn forked(value: &Self::Value) -> Option<Failure>;
}

/// Takes the mark away, also where a panic passes by.
struct Unmark<'a>(&'a AtomicU8);

impl Drop for Unmark<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Relaxed: the handle is one thread's at a time, and what hands it over orders.
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

impl<T> Handle<T> {
    #[inline(always)]
    fn mark(&self, what: &'static str) -> Result<Unmark<'_>, Failure> {
        // Relaxed, and not in one step: see above.
        let mark = self.mark.load(Ordering::Relaxed);
        if mark != IDLE {
            return Err(refusal(mark, what));
        }
        self.mark.store(USED, Ordering::Relaxed);
        Ok(Unmark(&self.mark))
    }
}

#[cold]
fn refusal(mark: u8, what: &'static str) -> Failure {
    match mark {
        USED => Failure::InUse { what },
        // Or it never was a handle.
        _ => Failure::Closed { what },
    }
}

/// Hands a value out as a pointer that [`take`] takes back.
pub(crate) fn give<O: Opaque>(value: O::Value) -> *mut O {
    Box::into_raw(Box::new(O::new(Handle {
        value: UnsafeCell::new(value),
        mark: AtomicU8::new(IDLE),
    })))
}

/// The handle behind a pointer.
///
/// # Safety
///
/// `pointer` is NULL, or came from [`give`] and is not taken back for as long as `'a`.
#[inline(always)]
unsafe fn shared<'a, O: Opaque>(pointer: *const O) -> Result<&'a O, Failure> {
    // SAFETY: by contract alive, and only ever shared: the value is behind a cell.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::Null { argument: O::WHAT })
}

/// Runs one call on the value behind `pointer`.
///
/// # Safety
///
/// `pointer` is NULL, or came from [`give`] and was not taken back; one thread uses it at a time.
#[inline(always)]
pub(crate) unsafe fn with<O: Opaque, R>(
    pointer: *const O,
    call: impl FnOnce(&mut O::Value) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the contract is the same.
    let handle = unsafe { shared(pointer) }?.handle();
    let _unmark = handle.mark(O::WHAT)?;
    // SAFETY: the mark refuses a second call of this thread, and the contract one of another.
    call(unsafe { &mut *handle.value.get() })
}

/// Runs one call of the handle behind `pointer`, as [`guard`]. In a forked child it answers that
/// before anything else that is wrong.
///
/// # Safety
///
/// As for [`with`], also after the call.
#[inline(always)]
pub(crate) unsafe fn guard_of<O: Opaque>(
    pointer: *const O,
    call: impl FnOnce() -> Result<(), Failure>,
) -> Status {
    // SAFETY: the contract is the same.
    guard(|| call().map_err(|failure| unsafe { forked_or(pointer, failure) }))
}

/// That the process is a forked child, else `failure`.
///
/// # Safety
///
/// As for [`with`].
#[cold]
#[inline(never)]
unsafe fn forked_or<O: Opaque>(pointer: *const O, failure: Failure) -> Failure {
    match failure {
        // The handle cannot be looked at; or it was, which came first.
        Failure::InUse { .. }
        | Failure::Closed { .. }
        | Failure::TimedOut { .. }
        | Failure::Sent(NotSent::BackPressured | NotSent::NotConnected) => failure,
        // SAFETY: the contract is the same.
        _ => match unsafe { with(pointer, |value| Ok(O::forked(value))) } {
            Ok(Some(forked)) => forked,
            _ => failure,
        },
    }
}

/// Takes the value back; the pointer is worth nothing from here on.
///
/// # Safety
///
/// As for [`with`].
pub(crate) unsafe fn take<O: Opaque>(pointer: *mut O) -> Result<O::Value, Failure> {
    // SAFETY: the contract is the same.
    let opaque = unsafe { shared(pointer.cast_const()) }?;
    let handle = opaque.handle();
    // Marked for good: it goes.
    let _marked = ManuallyDrop::new(handle.mark(O::WHAT)?);
    handle.mark.store(CLOSED, Ordering::Relaxed);
    // SAFETY: it came from `Box::into_raw`, is taken once by contract, and no call is using it.
    let boxed = unsafe { Box::from_raw(pointer) };
    Ok(boxed.into_handle().value.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Publisher;

    #[test]
    fn a_handle_says_whether_it_is_in_use_or_closed() {
        let handle = Handle {
            value: UnsafeCell::new(()),
            mark: AtomicU8::new(IDLE),
        };
        let said = || match handle.mark(Publisher::WHAT) {
            Ok(_) => "idle",
            Err(Failure::InUse { .. }) => "in use",
            Err(Failure::Closed { .. }) => "closed",
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(said(), "idle");
        let used = handle.mark(Publisher::WHAT);
        assert_eq!(said(), "in use");
        drop(used);
        assert_eq!(said(), "idle");
        handle.mark.store(CLOSED, Ordering::Relaxed);
        assert_eq!(said(), "closed");
    }
}
