//! A ring of slots with a mutex and condition variables: the textbook bounded buffer. Both sides
//! sleep.

use super::exchange::{Memory, share};
use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::sys::monitor::{Change, MONITOR_BYTES, Monitor};
use olivine_arena::error::{Result, io};
use olivine_arena::sys::mapping::Mapping;
use std::sync::atomic::Ordering;

/// Slots of a ring.
const SLOTS: u64 = 64;
/// Offsets of the two counters and the slots after the monitor.
const WRITTEN: usize = MONITOR_BYTES;
const READ: usize = MONITOR_BYTES + 8;
const FIRST_SLOT: usize = MONITOR_BYTES + 64;

/// Two rings, each under a process-shared mutex.
pub(super) const CONDVAR: Method = Method::new(
    "condvar-ring",
    "ring of 64 slots with a process-shared mutex and condition variables, blocking",
    "block",
    open,
)
.streaming();

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let stride = size.next_multiple_of(64);
    let slots = stride * usize::try_from(SLOTS).unwrap_or(0);
    let length = (FIRST_SLOT + slots).next_multiple_of(128);
    let mapping = share(Memory::Posix, side, rendezvous, 2 * length)?;
    match side {
        Side::Client => {
            for ring in [0, length] {
                let made = Monitor::at(&mapping, ring).make();
                made.map_err(io("make a mutex in shared memory"))?;
            }
            rendezvous.tell("made")?;
        }
        Side::Server => drop(rendezvous.hear()?),
    }
    let (from, to) = side.from_to(0, length);
    let rings = Rings {
        mapping,
        from,
        to,
        stride,
        size,
    };
    Ok(drive(rings, size))
}

struct Rings {
    mapping: Mapping,
    from: usize,
    to: usize,
    stride: usize,
    size: usize,
}

impl Rings {
    /// Runs `act` on the next slot once `is_ready` accepts (written, read), and counts it.
    fn turn<T>(&self, ring: usize, wanted: Change, act: impl FnOnce(usize) -> T) -> Result<T> {
        let monitor = Monitor::at(&self.mapping, ring);
        let (written, read) = (
            self.mapping.word(ring + WRITTEN),
            self.mapping.word(ring + READ),
        );
        let mut held = monitor.hold().map_err(io("lock a mutex"))?;
        loop {
            // Relaxed: the mutex orders them.
            let (w, r) = (
                written.load(Ordering::Relaxed),
                read.load(Ordering::Relaxed),
            );
            let (ready, at, counter, told) = match wanted {
                Change::Emptied => (w - r < SLOTS, w, written, Change::Filled),
                Change::Filled => (w != r, r, read, Change::Emptied),
            };
            if ready {
                let slot = usize::try_from(at % SLOTS).unwrap_or(0);
                let result = act(ring + FIRST_SLOT + slot * self.stride);
                counter.store(at + 1, Ordering::Relaxed);
                drop(held);
                monitor
                    .tell(told)
                    .map_err(io("tell a condition variable"))?;
                return Ok(result);
            }
            held.sleep(wanted)
                .map_err(io("wait for a condition variable"))?;
        }
    }
}

impl End for Rings {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        self.turn(self.to, Change::Emptied, |slot| {
            // SAFETY: called under the mutex of this ring, which guards its slots.
            fill(unsafe { self.mapping.bytes_mut(slot, self.size) });
        })
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.turn(self.from, Change::Filled, |slot| {
            // SAFETY: called under the mutex of this ring, which guards its slots.
            handle(unsafe { self.mapping.bytes(slot, self.size) })
        })
    }
}
