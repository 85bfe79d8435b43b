//! A byte ring that is mapped twice in a row, so that no message is split; both sides spin.
//!
//! The counters of both sides are on separate cache lines. The writer waits for room, so nothing is
//! lost. Many shared-memory rings look like this; messages carry their length.

use super::{Driven, End, Method, Rendezvous, Side, drive};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::mirror::{place, rings};
use olivine_arena::sys::mapping::Mapping;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a ring, if one message fits.
const RING: usize = 1 << 20;
/// Bytes of the length before each message.
const LENGTH: usize = 8;
/// Offsets of the counters: two cache lines apart.
const WRITTEN: usize = 0;
const READ: usize = 128;

/// Two mirrored rings.
pub(super) const MIRROR: Method = Method::new(
    "mirrored-ring",
    "byte ring of 1 MiB, mapped twice in a row, spinning",
    "spin",
    open,
)
.streaming()
.lacking("one reader, stuck for ever if either side dies");

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let frame = LENGTH + size.next_multiple_of(8);
    if frame > RING {
        return Err(ArenaError::TooLong {
            bytes: size,
            max: RING - LENGTH,
            limit: "the ring",
        });
    }
    let (from, to) = rings(side, rendezvous, RING)?;
    let rings = Rings {
        from,
        to,
        written: 0,
        read: 0,
        their_read: 0,
        frame,
        size,
    };
    Ok(drive(rings, size))
}

struct Rings {
    from: Mapping,
    to: Mapping,
    /// Bytes that we wrote and read.
    written: u64,
    read: u64,
    /// Bytes that the other side had read at the last check.
    their_read: u64,
    frame: usize,
    size: usize,
}

impl Rings {
    /// The other side's count of bytes read and written.
    fn counters(&self) -> (&AtomicU64, &AtomicU64) {
        (self.to.word(READ), self.from.word(WRITTEN))
    }
}

impl End for Rings {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let frame = self.frame as u64;
        while self.written + frame - self.their_read > RING as u64 {
            // Acquire: the read bytes are ours again; pairs with the store in `receive`.
            self.their_read = self.counters().0.load(Ordering::Acquire);
        }
        let at = place(self.written, RING);
        // Relaxed: published by the store of the counter.
        self.to.word(at).store(self.size as u64, Ordering::Relaxed);
        // SAFETY: the other side has read these bytes, and sees them again only after the store
        // below. Their second mapping is not used in the meantime: only we write to this ring.
        fill(unsafe { self.to.bytes_mut(at + LENGTH, self.size) });
        self.written += frame;
        // Release: the message is complete; pairs with the load in `receive`.
        self.to.word(WRITTEN).store(self.written, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        // Acquire: pairs with the store in `send`.
        while self.counters().1.load(Ordering::Acquire) == self.read {}
        let at = place(self.read, RING);
        // Relaxed: ordered by the load of the counter.
        let length = self.from.word(at).load(Ordering::Relaxed);
        if length != self.size as u64 {
            return Err(ArenaError::Protocol {
                found: format!("a message of {length} bytes"),
            });
        }
        // SAFETY: written before the counter, and not written again before our count is stored
        // below.
        let result = handle(unsafe { self.from.bytes(at + LENGTH, self.size) });
        self.read += self.frame as u64;
        // Release: we are done with the bytes; pairs with the load in `send`.
        self.from.word(READ).store(self.read, Ordering::Release);
        Ok(result)
    }
}
