//! Pipes as wake-ups: the message is in plain shared memory, and a byte in a pipe reports it, as
//! programs did before eventfd.

use super::Described;
use super::bytes::{pipes, refused};
use super::exchange::{Slots, Wakeup, open_with, sleep_until_filled};
use crate::deadline::Deadline;
use crate::error::{BenchError, Result};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

pub(super) const PIPE_WAKEUP: Described = Described {
    name: "pipe-wakeup",
    about: "one pipe each way for a byte; the message is in shared memory, blocking",
    wait: "block",
    streams: false,
    batches: false,
    threads: false,
    lacks: super::ONE_SLOT,
    open: |side, rendezvous, size, _settings| {
        let (from, to) = pipes(side, rendezvous)?;
        open_with(Pipes { from, to }, side, rendezvous, size)
    },
};

/// The end that this side reads, and the end that it writes.
struct Pipes {
    from: OwnedFd,
    to: OwnedFd,
}

impl Wakeup for Pipes {
    fn wake(&self, _slots: &Slots) -> Result<()> {
        match rustix::io::write(&self.to, &[1]) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE) => Err(BenchError::EndClosed),
            Err(error) => Err(refused("write to a pipe")(error)),
        }
    }

    fn wait(&self, slots: &Slots, deadline: &mut Deadline<'_>) -> Result<()> {
        sleep_until_filled(slots, deadline, || {
            match rustix::io::read(&self.from, &mut [0; 8]) {
                Ok(0) => Err(BenchError::EndClosed),
                Ok(_) | Err(Errno::INTR) => Ok(()),
                Err(error) => Err(refused("read from a pipe")(error)),
            }
        })
    }
}
