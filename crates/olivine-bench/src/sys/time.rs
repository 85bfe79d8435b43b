//! The processor's time-stamp counter, and a timer whose signal interrupts sleeps in the kernel:
//! every wait can check the time.
//!
//! [`Bound`] limits waits that no signal ends: a condition variable reacquires its mutex before it
//! returns, however long that takes.

use super::checked;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::{io, mem, ptr};

/// Time between two signals in nanoseconds: longer than most slices, so that few of them are hit.
const PERIOD_NS: libc::c_long = 400_000_000;
/// Signals within one bounded wait that are too many: more than the deadline of a method.
const RINGS_MAX: u32 = 15;

/// The process that the current wait depends on; 0 if it is limited otherwise.
static HOLDER: AtomicI32 = AtomicI32::new(0);
/// Signals since that wait began.
static RINGS: AtomicU32 = AtomicU32::new(0);

/// Interrupts the calling thread's system calls periodically while it lives.
///
/// Calls return early with [`io::ErrorKind::Interrupted`].
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: libc::timer_t,
}

extern "C" fn ring(_signal: libc::c_int) {
    let holder = HOLDER.load(Ordering::Relaxed);
    if holder != 0 && RINGS.fetch_add(1, Ordering::Relaxed) >= RINGS_MAX {
        // SAFETY: may be called at any instruction; takes no pointer. A number above 0 is one
        // process.
        unsafe { libc::kill(holder, libc::SIGKILL) };
    }
}

/// Limits a wait that no signal ends: the process that holds the awaited mutex is killed after
/// about six seconds, which the robust mutex reports to the waiter. One at a time, under an
/// [`Alarm`].
#[derive(Debug)]
pub(crate) struct Bound(());

impl Bound {
    /// Limits a wait for process `holder`; no limit if it is 0.
    pub(crate) fn to(holder: i32) -> Self {
        RINGS.store(0, Ordering::Relaxed);
        HOLDER.store(holder.max(0), Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        HOLDER.store(0, Ordering::Relaxed);
    }
}

impl Alarm {
    /// Starts the timer.
    pub(crate) fn start() -> io::Result<Self> {
        let handler: extern "C" fn(libc::c_int) = ring;
        // SAFETY: all bytes zero are a valid `sigaction`: no flags, so that calls are not
        // restarted.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the structure lives; the handler does only what is safe at any instruction.
        checked(unsafe { libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) })?;
        // SAFETY: all bytes zero are a valid `sigevent`.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both structures live; the timer's number is written before it is read.
        checked(unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        })?;
        let alarm = Self { timer };
        let period = libc::timespec {
            tv_sec: 0,
            tv_nsec: PERIOD_NS,
        };
        let spec = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the timer was just made; the structure lives.
        checked(unsafe { libc::timer_settime(timer, 0, &raw const spec, ptr::null_mut()) })?;
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The counter now, if it runs at a constant rate. Miri has no counter.
#[inline(always)]
pub(crate) fn counter() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if counter_is_constant() {
        // SAFETY: every x86-64 processor has the instruction.
        return Some(unsafe { core::arch::x86_64::_rdtsc() });
    }
    None
}

/// Whether the time-stamp counter runs at a constant rate in all power states (invariant TSC).
#[inline(always)]
pub(crate) fn counter_is_constant() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        static CONSTANT: OnceLock<bool> = OnceLock::new();
        *CONSTANT.get_or_init(|| {
            // Leaf 0x8000_0007, EDX bit 8: invariant TSC (AMD APM vol. 3, appendix E; Intel SDM
            // vol. 2A, CPUID).
            #[allow(
                unused_unsafe,
                reason = "it is safe in later versions of Rust than 1.89"
            )]
            // SAFETY: every x86-64 processor has the instruction.
            let leaf = |number| unsafe { core::arch::x86_64::__cpuid(number) };
            leaf(0x8000_0000).eax >= 0x8000_0007 && leaf(0x8000_0007).edx & (1 << 8) != 0
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}
