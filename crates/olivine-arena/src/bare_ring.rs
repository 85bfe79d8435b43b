//! The bare stream: the frames of a channel in a ring of the same size, and nothing else.
//!
//! Each frame has its header last; the header behind it is cleared first. The writer stores a
//! cursor; the reader stores its position once it has read an eighth of the ring. Neither side
//! checks a length, sleeps, or survives the other's death. Streams are compared with it: they have
//! separate loops (`stream.rs`), as streams of a channel have (`docs/method.md`).

mod stream;

use crate::error::{ArenaError, Result};
use crate::harness::{Driven, End, drive};
use crate::method::{Method, Rendezvous, Side};
use crate::mirror::{place, rings};
use crate::protocol::Batches;
use crate::sys::mapping::Mapping;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a ring, if the settings do not say.
const RING: usize = 1 << 20;
/// Bytes of the header before each message: its length and a mark.
const HEADER: usize = 8;
/// Distinguishes a header from cleared memory.
const MARK: u64 = 1 << 63;
/// Offsets of the writer's cursor and the reader's position: two cache lines apart.
const CURSOR: usize = 0;
const POSITION: usize = 128;

/// Two bare rings.
pub const BARE_RING: Method = Method::new(
    "bare-ring",
    "the frames of a channel in a mirrored ring without checks, spinning",
    "spin",
    open,
)
.batching()
.lacking("one reader, no checks, stuck for ever if either side dies");

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, settings: &str) -> Driven {
    let capacity = capacity(settings)?.next_power_of_two();
    let frame = HEADER + size.next_multiple_of(8);
    if frame + HEADER > capacity {
        return Err(ArenaError::TooLong {
            bytes: size,
            max: capacity - 2 * HEADER,
            limit: "the ring",
        });
    }
    let (from, to) = rings(side, rendezvous, capacity)?;
    let end = BareEnd {
        writer: Writer {
            ring: to,
            written: 0,
            limit: capacity as u64,
        },
        reader: Reader {
            ring: from,
            read: 0,
            stored: 0,
        },
        capacity,
        frame: frame as u64,
        size,
    };
    Ok(drive(end, size))
}

/// The capacity in the settings of a channel, in bytes or with a unit: `capacity=4MiB`.
fn capacity(settings: &str) -> Result<usize> {
    let given = settings
        .split('&')
        .find_map(|pair| pair.strip_prefix("capacity="));
    let Some(given) = given else { return Ok(RING) };
    let units = [
        ("KiB", 1_usize << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("", 1),
    ];
    let found = units.iter().find_map(|(unit, bytes)| {
        let number: usize = given.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*bytes)
    });
    found.ok_or_else(|| ArenaError::Protocol {
        found: format!("capacity={given}"),
    })
}

struct BareEnd {
    writer: Writer,
    reader: Reader,
    /// Bytes of a ring.
    capacity: usize,
    /// Bytes of a frame.
    frame: u64,
    size: usize,
}

struct Writer {
    ring: Mapping,
    /// End of what is published.
    written: u64,
    /// End of what may be written.
    limit: u64,
}

struct Reader {
    ring: Mapping,
    /// End of what was read.
    read: u64,
    /// The position that the writer sees.
    stored: u64,
}

impl BareEnd {
    /// The header at a position of the ring that is read.
    #[inline(always)]
    fn header(&self) -> &AtomicU64 {
        self.reader
            .ring
            .word(place(self.reader.read, self.capacity))
    }

    /// Waits until the bytes before `end` have room.
    #[inline(always)]
    fn reserve(&mut self, end: u64) {
        while end > self.writer.limit {
            // Acquire: the read bytes are ours again; pairs with the store in `store`.
            let position = self.writer.ring.word(POSITION).load(Ordering::Acquire);
            self.writer.limit = position + self.capacity as u64;
        }
    }

    /// Writes the message of the next frame, and clears the header behind it.
    #[inline(always)]
    fn write(&mut self, fill: impl FnOnce(&mut [u8])) {
        let position = self.writer.written;
        let ring = &self.writer.ring;
        let at = place(position, self.capacity);
        // SAFETY: the reader has read these bytes, or never saw their header: see `reserve`. It
        // sees them again only after the store of their header.
        fill(unsafe { ring.bytes_mut(at + HEADER, self.size) });
        let next = place(position + self.frame, self.capacity);
        // Relaxed: published by the store of the header before it.
        ring.word(next).store(0, Ordering::Relaxed);
    }

    /// Publishes the next frame.
    #[inline(always)]
    fn commit(&mut self) {
        let ring = &self.writer.ring;
        let header = ring.word(place(self.writer.written, self.capacity));
        // Release: the messages are complete; pairs with the load in `next`.
        header.store(self.size as u64 | MARK, Ordering::Release);
        self.writer.written += self.frame;
        ring.word(CURSOR)
            .store(self.writer.written, Ordering::Release);
    }

    /// Whether there is a message; fails if it has another length.
    #[inline(always)]
    fn next(&self) -> Result<bool> {
        // Acquire: pairs with the store in `commit`.
        let header = self.header().load(Ordering::Acquire);
        if header == 0 {
            return Ok(false);
        }
        if header != self.size as u64 | MARK {
            return Err(ArenaError::Protocol {
                found: format!("a message of {} bytes", header & !MARK),
            });
        }
        Ok(true)
    }

    /// Handles the message that [`BareEnd::next`] saw.
    #[inline(always)]
    fn take<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> T {
        let at = place(self.reader.read, self.capacity);
        // SAFETY: written before its header, and not written again before the position is stored.
        let result = handle(unsafe { self.reader.ring.bytes(at + HEADER, self.size) });
        self.reader.read += self.frame;
        if self.reader.read - self.reader.stored >= self.capacity as u64 / 8 {
            self.store(self.reader.read);
        }
        result
    }

    /// Gives the bytes before `position` back.
    #[inline(always)]
    fn store(&mut self, position: u64) {
        self.reader.stored = position;
        // Release: the bytes are read; pairs with the load in `reserve`.
        let word = self.reader.ring.word(POSITION);
        word.store(position, Ordering::Release);
    }
}

impl End for BareEnd {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let end = self.writer.written + self.frame + HEADER as u64;
        self.reserve(end);
        self.write(fill);
        self.commit();
        Ok(())
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        while !self.next()? {}
        Ok(self.take(handle))
    }

    fn stream_specialised(&mut self, batches: Batches) -> Option<Result<()>> {
        self.stream(batches);
        Some(Ok(()))
    }

    fn take_specialised(&mut self, first: u64, count: u64) -> Option<Result<()>> {
        Some(self.take_all(first, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_has_a_unit_or_a_default() {
        assert_eq!(capacity("").unwrap(), RING);
        assert_eq!(capacity("align=64").unwrap(), RING);
        assert_eq!(capacity("align=64&capacity=64KiB").unwrap(), 64 << 10);
        assert_eq!(capacity("capacity=4194304").unwrap(), 4 << 20);
        for wrong in ["capacity=much", "capacity=4TiB", "capacity="] {
            assert!(capacity(wrong).is_err(), "{wrong}");
        }
    }
}
