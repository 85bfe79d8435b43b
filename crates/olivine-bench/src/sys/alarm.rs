//! A timer whose signal ends a sleep in the kernel: every wait gets a chance to look at the time.

use super::checked;
use std::{io, mem, ptr};

/// Time between two signals in nanoseconds: longer than most slices, so that it falls into few of them.
const PERIOD_NS: libc::c_long = 400_000_000;

/// Interrupts the calling thread's system calls now and then for as long as it lives.
///
/// Calls return early with [`io::ErrorKind::Interrupted`].
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: libc::timer_t,
}

extern "C" fn nothing(_signal: libc::c_int) {}

impl Alarm {
    /// Starts the timer.
    pub(crate) fn start() -> io::Result<Self> {
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: all bytes zero are a valid `sigaction`: no flags, so that calls are not restarted.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the structure lives; the handler does nothing, which is safe at any instruction.
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
