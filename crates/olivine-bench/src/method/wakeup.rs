//! Ways to wake the other side without payload: futex, eventfd, plain signal.
//!
//! The message is in plain shared memory (see `exchange`); the wake-up reports it. Both sides sleep
//! in the kernel.

use super::bytes::refused;
use super::exchange::{Memory, Slots};
use super::harness::{Driver, End, drive};
use super::{Described, Rendezvous, Side};
use crate::deadline::Deadline;
use crate::error::Result;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Longest single wait.
const WAIT: rustix::time::Timespec = rustix::time::Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

pub(super) const FUTEX: Described = Described {
    name: "futex",
    about: "futex; the message is in shared memory, blocking",
    wait: "block",
    streams: false,
    batches: false,
    threads: false,
    lacks: super::ONE_SLOT,
    open: open_futex,
};
pub(super) const EVENT_FD: Described = Described {
    name: "eventfd",
    about: "one eventfd each way; the message is in shared memory, blocking",
    wait: "block",
    streams: false,
    batches: false,
    threads: false,
    lacks: super::ONE_SLOT,
    open: open_event_fd,
};

fn open_futex(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Driver>> {
    let slots = Slots::open(Memory::Posix, side, rendezvous, size)?;
    Ok(drive(
        NotifiedEnd {
            slots,
            wakeup: Futex,
        },
        size,
    ))
}

fn open_event_fd(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Driver>> {
    let slots = Slots::open(Memory::Posix, side, rendezvous, size)?;
    let make = || eventfd(0, EventfdFlags::CLOEXEC).map_err(refused("make an eventfd"));
    let there: OwnedFd = rendezvous.share(side, make)?;
    let back: OwnedFd = rendezvous.share(side, make)?;
    let (theirs, ours) = side.from_to(there, back);
    let wakeup = EventFd { ours, theirs };
    Ok(drive(NotifiedEnd { slots, wakeup }, size))
}

/// Wakes the other side, and waits for its wake-up.
pub(super) trait Wakeup {
    /// Reports that our slot has a message.
    fn wake(&self, slots: &Slots) -> Result<()>;

    /// Sleeps until the other side wakes us, or for a while.
    fn sleep(&self, slots: &Slots) -> Result<()>;
}

/// Slots with a wakeup.
pub(super) struct NotifiedEnd<B> {
    pub(super) slots: Slots,
    pub(super) wakeup: B,
}

impl<B: Wakeup> NotifiedEnd<B> {
    fn wait(&self, deadline: &mut Deadline<'_>) -> Result<()> {
        loop {
            self.wakeup.sleep(&self.slots)?;
            if self.slots.is_filled() {
                return Ok(());
            }
            deadline.look()?;
        }
    }
}

impl<B: Wakeup> End for NotifiedEnd<B> {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), _deadline: &mut Deadline<'_>) -> Result<()> {
        self.slots.put(fill)?;
        self.wakeup.wake(&self.slots)
    }

    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        deadline: &mut Deadline<'_>,
    ) -> Result<T> {
        self.wait(deadline)?;
        Ok(self.slots.take(handle))
    }

    fn echo(
        &mut self,
        _stage: &mut [u8],
        check: impl FnOnce(&[u8]) -> bool,
        deadline: &mut Deadline<'_>,
    ) -> Result<bool> {
        self.wait(deadline)?;
        let fits = self.slots.put_back(check)?;
        if fits {
            self.wakeup.wake(&self.slots)?;
        }
        Ok(fits)
    }
}

/// The slots' own numbers as futexes.
struct Futex;

impl Wakeup for Futex {
    fn wake(&self, slots: &Slots) -> Result<()> {
        futex::wake(slots.our_half(), futex::Flags::empty(), 1).map_err(refused("wake a futex"))?;
        Ok(())
    }

    fn sleep(&self, slots: &Slots) -> Result<()> {
        let half = slots.their_half();
        // Acquire: pairs with the store of the number, of which this is the lower half.
        let seen = half.load(Ordering::Acquire);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the lower half is compared"
        )]
        if seen != slots.received() as u32 {
            return Ok(());
        }
        match futex::wait(half, futex::Flags::empty(), seen, Some(&WAIT)) {
            Ok(())
            | Err(
                rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT,
            ) => Ok(()),
            Err(error) => Err(refused("wait on a futex")(error)),
        }
    }
}

/// An eventfd for each direction.
struct EventFd {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Wakeup for EventFd {
    fn wake(&self, _slots: &Slots) -> Result<()> {
        rustix::io::write(&self.ours, &1_u64.to_ne_bytes()).map_err(refused("ring an eventfd"))?;
        Ok(())
    }

    fn sleep(&self, _slots: &Slots) -> Result<()> {
        match rustix::io::read(&self.theirs, &mut [0; 8]) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(refused("wait on an eventfd")(error)),
        }
    }
}
