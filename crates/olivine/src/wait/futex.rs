//! The kernel's part: sleeping while a park word is raised, and taking it together with the
//! wake-up.

use crate::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::time::Duration;

// The low half of the word is the futex: little-endian, checked in `sync`.
#[cfg(not(any(loom, miri)))]
fn address(word: &AtomicU64) -> *const u32 {
    word.as_ptr().cast()
}

/// Sleeps while the word's low half is 1. Returns on a wake-up, a change, a signal or the time-out;
/// the caller checks again in any case. Shared, not private: the waker is another process.
#[cfg(not(any(loom, miri)))]
pub(super) fn wait(word: &AtomicU64, longest: Option<Duration>) {
    let longest = longest.map(|longest| libc::timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    });
    let longest = longest.as_ref();
    let longest = longest.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the address is a mapped, aligned 32-bit word and the time-out lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            address(word),
            libc::FUTEX_WAIT,
            1_u32,
            longest,
        );
    }
}

/// The same without the kernel, for Miri. The kernel loads half of the word, which Miri would
/// report as a race with stores of the whole word.
#[cfg(all(miri, not(loom)))]
pub(super) fn wait(_: &AtomicU64, _: Option<Duration>) {
    std::thread::yield_now();
}

/// Sets the word to 0 and wakes each thread that sleeps on it, in one call of the kernel: no death
/// or stop of this process comes between the two.
#[cfg(not(any(loom, miri)))]
pub(super) fn take_and_wake(word: &AtomicU64) {
    /// The operation: set to 0. The second wake-up, at the same address, needs a word below 0,
    /// which never occurs.
    const SET_0: libc::c_int = (libc::FUTEX_OP_SET << 28) | (libc::FUTEX_OP_CMP_LT << 24);
    /// Whether the kernel refused the combined call: a sandbox does not allow it.
    static REFUSED: AtomicU64 = AtomicU64::new(0);
    // Relaxed: remembers what the kernel supports; both paths are correct.
    if REFUSED.load(Ordering::Relaxed) == 0 {
        // SAFETY: both addresses are one mapped, aligned and writable 32-bit word, which only
        // atomics touch.
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address(word),
                libc::FUTEX_WAKE_OP,
                i32::MAX,
                0_usize,
                address(word),
                SET_0,
            )
        };
        if done >= 0 {
            return;
        }
        REFUSED.store(1, Ordering::Relaxed);
    }
    // AcqRel: taken once, by one waker. After a death between the two the sleeper sleeps to the end
    // of its nap.
    word.swap(0, Ordering::AcqRel);
    // SAFETY: the address is a mapped, aligned 32-bit word; waking reads no other memory.
    unsafe {
        libc::syscall(libc::SYS_futex, address(word), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Without the kernel, as the kernel does it: by read-modify-write.
#[cfg(any(loom, miri))]
pub(super) fn take_and_wake(word: &AtomicU64) {
    // AcqRel: taken once, by one waker.
    word.swap(0, Ordering::AcqRel);
}
