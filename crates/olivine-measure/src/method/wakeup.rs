//! Ways to wake the other side without payload: futex, eventfd, and a byte in a pipe, as programs
//! did before eventfd. `signals` has the others.
//!
//! The message is in plain shared memory (see `exchange`); the wake-up reports it. Both sides sleep
//! in the kernel.

use super::bytes::{pipes, refused};
use super::exchange::{Slots, Wakeup, open_with, sleep_until_filled};
use super::{Driven, Method, Rendezvous, Side};
use olivine_arena::error::{ArenaError, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Longest single wait.
const WAIT: rustix::time::Timespec = rustix::time::Timespec {
    tv_sec: 0,
    tv_nsec: 400_000_000,
};

pub(super) const FUTEX: Method = Method::new(
    "futex",
    "futex; the message is in shared memory, blocking",
    "block",
    |side, rendezvous, size, _settings| open_with(Futex, side, rendezvous, size),
)
.lacking(super::ONE_SLOT);
pub(super) const EVENT_FD: Method = Method::new(
    "eventfd",
    "one eventfd each way; the message is in shared memory, blocking",
    "block",
    |side, rendezvous, size, _settings| open_event_fd(side, rendezvous, size),
)
.lacking(super::ONE_SLOT);

pub(super) const PIPE_WAKEUP: Method = Method::new(
    "pipe-wakeup",
    "one pipe each way for a byte; the message is in shared memory, blocking",
    "block",
    |side, rendezvous, size, _settings| {
        let (from, to) = pipes(side, rendezvous)?;
        let token = &[1];
        open_with(Pair { from, to, token }, side, rendezvous, size)
    },
)
.lacking(super::ONE_SLOT);

fn open_event_fd(side: Side, rendezvous: &mut Rendezvous, size: usize) -> Driven {
    const ONE: [u8; 8] = 1_u64.to_ne_bytes();
    let make = || eventfd(0, EventfdFlags::CLOEXEC).map_err(refused("make an eventfd"));
    let there: OwnedFd = rendezvous.share(side, make)?;
    let back: OwnedFd = rendezvous.share(side, make)?;
    let (from, to) = side.from_to(there, back);
    let token = &ONE;
    open_with(Pair { from, to, token }, side, rendezvous, size)
}

/// The slots' own numbers as futexes.
struct Futex;

impl Wakeup for Futex {
    fn wake(&self, slots: &Slots) -> Result<()> {
        futex::wake(slots.our_half(), futex::Flags::empty(), 1).map_err(refused("wake a futex"))?;
        Ok(())
    }

    fn wait(&self, slots: &Slots) -> Result<()> {
        let half = slots.their_half();
        sleep_until_filled(slots, || {
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
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
                Err(error) => Err(refused("wait on a futex")(error)),
            }
        })
    }
}

/// Descriptors: this side reads the first, and writes the token to the second.
struct Pair {
    from: OwnedFd,
    to: OwnedFd,
    token: &'static [u8],
}

impl Wakeup for Pair {
    fn wake(&self, _slots: &Slots) -> Result<()> {
        match rustix::io::write(&self.to, self.token) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE) => Err(ArenaError::EndClosed),
            Err(error) => Err(refused("wake the other end")(error)),
        }
    }

    fn wait(&self, slots: &Slots) -> Result<()> {
        sleep_until_filled(slots, || match rustix::io::read(&self.from, &mut [0; 8]) {
            Ok(0) => Err(ArenaError::EndClosed),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(refused("wait for the other end")(error)),
        })
    }
}
