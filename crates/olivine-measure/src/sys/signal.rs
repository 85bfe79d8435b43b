//! Signals between threads of two processes.
//!
//! Both are kept blocked in the receiving thread and fetched with `sigtimedwait`, so that no
//! handler runs.

use olivine_arena::sys::checked;
use std::{io, mem, ptr};

/// Longest single wait.
const WAIT: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

/// A thread of some process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) process: i32,
    pub(crate) thread: i32,
}

impl Thread {
    /// The calling thread.
    pub(crate) fn own() -> Self {
        Self {
            process: rustix::process::getpid().as_raw_nonzero().get(),
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
        }
    }
}

/// A signal that the calling thread keeps blocked and fetches.
#[derive(Debug)]
pub(crate) struct Signal {
    number: i32,
    set: libc::sigset_t,
    before: libc::sigset_t,
}

/// The part of the kernel's `siginfo_t` that a queued signal has.
#[repr(C)]
struct Queued {
    number: i32,
    error: i32,
    code: i32,
    padding: i32,
    process: i32,
    user: u32,
    word: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());

impl Signal {
    /// `SIGUSR1`: several pending ones count as one.
    pub(crate) fn plain() -> io::Result<Self> {
        Self::block(libc::SIGUSR1)
    }

    /// A real-time signal: each one is queued, in order, with its word.
    pub(crate) fn queued() -> io::Result<Self> {
        Self::block(libc::SIGRTMIN() + 3)
    }

    fn block(number: i32) -> io::Result<Self> {
        // SAFETY: all bytes zero are an empty set.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: the set lives; the number is that of a signal.
        checked(unsafe { libc::sigaddset(&raw mut set, number) })?;
        // SAFETY: all bytes zero are an empty set.
        let mut before: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: both sets live.
        let code =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(Self {
            number,
            set,
            before,
        })
    }

    /// Sends the signal to a thread, without a word.
    pub(crate) fn send(&self, to: Thread) -> io::Result<()> {
        // SAFETY: takes no pointers.
        let done = unsafe { libc::syscall(libc::SYS_tgkill, to.process, to.thread, self.number) };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Sends the signal to a thread, with a word. [`io::ErrorKind::WouldBlock`] if too many are
    /// queued.
    pub(crate) fn queue(&self, to: Thread, word: u64) -> io::Result<()> {
        let queued = Queued {
            number: self.number,
            error: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            process: rustix::process::getpid().as_raw_nonzero().get(),
            user: rustix::process::getuid().as_raw(),
            word,
            rest: [0; 12],
        };
        let info = ptr::from_ref(&queued);
        let (process, thread) = (to.process, to.thread);
        // SAFETY: the information lives and has the kernel's form and size.
        let done = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                self.number,
                info,
            )
        };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Fetches a signal; returns its word. Sleeps until there is one; `None` after a while.
    pub(crate) fn fetch(&self) -> io::Result<Option<u64>> {
        self.fetch_within(&WAIT)
    }

    fn fetch_within(&self, limit: &libc::timespec) -> io::Result<Option<u64>> {
        // SAFETY: all bytes zero are a valid `Queued`.
        let mut info: Queued = unsafe { mem::zeroed() };
        let place = ptr::from_mut(&mut info).cast::<libc::siginfo_t>();
        // SAFETY: the set and the limit live; the place has the kernel's size.
        let number = unsafe { libc::sigtimedwait(&raw const self.set, place, limit) };
        if number != -1 {
            return Ok(Some(info.word));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A pending signal would end the process once it is unblocked.
        while matches!(self.fetch_within(&at_once), Ok(Some(_))) {}
        // SAFETY: the set lives.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_signals_keep_their_order_and_words() {
        let signal = Signal::queued().unwrap();
        for word in [3, u64::MAX, 0] {
            signal.queue(Thread::own(), word).unwrap();
        }
        for word in [3, u64::MAX, 0] {
            assert_eq!(signal.fetch().unwrap(), Some(word));
        }
        signal.queue(Thread::own(), 9).unwrap();
    }
}
