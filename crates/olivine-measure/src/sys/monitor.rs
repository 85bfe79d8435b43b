//! A POSIX mutex with two condition variables in shared memory.
//!
//! The mutex is robust: the death of its holder is an error for the next one, never a hang.

use olivine_arena::sys::mapping::Mapping;
use std::{io, mem};

/// Bytes that a monitor takes.
pub(crate) const MONITOR_BYTES: usize = 256;

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

    /// Locks the mutex.
    pub(crate) fn hold(&'a self) -> io::Result<Held<'a>> {
        // SAFETY: made by `make` before other processes know the place.
        code(unsafe { libc::pthread_mutex_lock(self.mutex()) })?;
        Ok(Held(self))
    }

    /// Signals one waiter.
    pub(crate) fn tell(&self, change: Change) -> io::Result<()> {
        // SAFETY: made by `make` before other processes know the place.
        code(unsafe { libc::pthread_cond_signal(self.condition(change)) })
    }
}

impl Held<'_> {
    /// Unlocks, sleeps until signalled, and locks again.
    pub(crate) fn sleep(&mut self, change: Change) -> io::Result<()> {
        let (condition, mutex) = (self.0.condition(change), self.0.mutex());
        // SAFETY: made by `make`; this thread holds the mutex.
        code(unsafe { libc::pthread_cond_wait(condition, mutex) })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex()) };
    }
}
