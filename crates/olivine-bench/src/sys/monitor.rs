//! A POSIX mutex with two condition variables in shared memory.
//!
//! The mutex is robust: the death of its holder is an error for the next one, never a hang.

use super::mapping::Mapping;
use super::time::Bound;
use std::{io, mem, ptr};

/// Bytes that a monitor takes.
pub(crate) const MONITOR_BYTES: usize = 256;
/// Longest single wait.
const WAIT_NS: libc::c_long = 400_000_000;

const MUTEX: usize = 0;
const FILLED: usize = 64;
const EMPTIED: usize = 128;
const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= FILLED - MUTEX);
const _: () = assert!(size_of::<libc::pthread_cond_t>() <= EMPTIED - FILLED);
const _: () = assert!(size_of::<libc::pthread_cond_t>() <= MONITOR_BYTES - EMPTIED);

/// The awaited condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A message is available.
    Filled,
    /// There is room.
    Emptied,
}

/// A mutex and its condition variables at a place in shared memory.
#[derive(Debug)]
pub(crate) struct Monitor<'a> {
    mapping: &'a Mapping,
    offset: usize,
}

/// Holds the mutex; unlocks it when dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Monitor<'a>);

fn code(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

/// The end of the longest single wait, on `clock`.
fn in_a_while(clock: libc::clockid_t) -> io::Result<libc::timespec> {
    let mut until = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives.
    super::checked(unsafe { libc::clock_gettime(clock, &raw mut until) })?;
    until.tv_nsec += WAIT_NS;
    if until.tv_nsec >= 1_000_000_000 {
        until.tv_nsec -= 1_000_000_000;
        until.tv_sec += 1;
    }
    Ok(until)
}

impl<'a> Monitor<'a> {
    /// A monitor that one process has created at `offset`, a multiple of 64.
    pub(crate) fn at(mapping: &'a Mapping, offset: usize) -> Self {
        assert!(offset.is_multiple_of(64), "no monitor is at {offset}");
        Self { mapping, offset }
    }

    /// Makes the monitor; no side may use it yet.
    pub(crate) fn make(&self) -> io::Result<()> {
        let mut kind = mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the place for the attributes lives.
        code(unsafe { libc::pthread_mutexattr_init(kind.as_mut_ptr()) })?;
        // SAFETY: the attributes were made just above.
        code(unsafe {
            libc::pthread_mutexattr_setpshared(kind.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED)
        })?;
        // SAFETY: the attributes were made just above.
        code(unsafe {
            libc::pthread_mutexattr_setrobust(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST)
        })?;
        // SAFETY: the place is large and aligned enough, and no side uses it yet.
        code(unsafe { libc::pthread_mutex_init(self.mutex(), kind.as_ptr()) })?;
        let mut kind = mem::MaybeUninit::<libc::pthread_condattr_t>::uninit();
        // SAFETY: the place for the attributes lives.
        code(unsafe { libc::pthread_condattr_init(kind.as_mut_ptr()) })?;
        // SAFETY: the attributes were made just above.
        code(unsafe {
            libc::pthread_condattr_setpshared(kind.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED)
        })?;
        // SAFETY: the attributes were made just above.
        code(unsafe { libc::pthread_condattr_setclock(kind.as_mut_ptr(), libc::CLOCK_MONOTONIC) })?;
        for change in [Change::Filled, Change::Emptied] {
            // SAFETY: the place is large and aligned enough, and no side uses it yet.
            code(unsafe { libc::pthread_cond_init(self.condition(change), kind.as_ptr()) })?;
        }
        Ok(())
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.mapping.at(self.offset + MUTEX, FILLED - MUTEX).cast()
    }

    fn condition(&self, change: Change) -> *mut libc::pthread_cond_t {
        let offset = match change {
            Change::Filled => FILLED,
            Change::Emptied => EMPTIED,
        };
        let length = size_of::<libc::pthread_cond_t>();
        self.mapping.at(self.offset + offset, length).cast()
    }

    /// Locks the mutex; `None` if its holder keeps it for a while: it may be stopped, and no signal
    /// to us ends that.
    pub(crate) fn hold(&'a self) -> io::Result<Option<Held<'a>>> {
        // SAFETY: made by `make` before other processes know the place.
        let mut held = unsafe { libc::pthread_mutex_trylock(self.mutex()) };
        if held == libc::EBUSY {
            let until = in_a_while(libc::CLOCK_REALTIME)?;
            // SAFETY: as above; the structure lives. A clock that is set meanwhile makes one step
            // longer or shorter.
            held = unsafe { libc::pthread_mutex_timedlock(self.mutex(), ptr::from_ref(&until)) };
        }
        if held == libc::ETIMEDOUT {
            return Ok(None);
        }
        code(held)?;
        Ok(Some(Held(self)))
    }

    /// Signals one waiter.
    pub(crate) fn tell(&self, change: Change) -> io::Result<()> {
        // SAFETY: made by `make` before other processes know the place.
        code(unsafe { libc::pthread_cond_signal(self.condition(change)) })
    }
}

impl Held<'_> {
    /// Unlocks, sleeps until signalled or for a while, and locks again, which process `other` may
    /// delay.
    pub(crate) fn sleep(&mut self, change: Change, other: i32) -> io::Result<()> {
        let _bound = Bound::to(other);
        let until = in_a_while(libc::CLOCK_MONOTONIC)?;
        let (condition, mutex) = (self.0.condition(change), self.0.mutex());
        // SAFETY: made by `make`; this thread holds the mutex; the structure lives.
        let told = unsafe { libc::pthread_cond_timedwait(condition, mutex, ptr::from_ref(&until)) };
        if told == libc::ETIMEDOUT {
            return Ok(());
        }
        code(told)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex()) };
    }
}
