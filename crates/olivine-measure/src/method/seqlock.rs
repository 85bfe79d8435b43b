//! A ring of slots, each under a sequence lock: the writer never waits, the reader notices if it
//! was overtaken.
//!
//! Loses messages if the reader is slower, so it is measured for round trips only. Both sides spin.

use super::exchange::{Memory, share};
use super::{Driven, End, Method, Rendezvous, Side, drive};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::sys::mapping::Mapping;
use std::sync::atomic::{Ordering, fence};

/// Slots of a ring.
const SLOTS: u64 = 64;
const WORD: usize = 8;

/// Two rings of slots under sequence locks.
pub(super) const SEQ_LOCK: Method = Method::new(
    "seqlock-ring",
    "ring of 64 slots with sequence locks, overwrites unread slots, spinning",
    "spin",
    open,
)
.lacking("overwrites what is not read in time");

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let stride = (WORD + size.next_multiple_of(WORD)).next_multiple_of(64);
    let ring = stride * usize::try_from(SLOTS).unwrap_or(0);
    let mapping = share(Memory::Posix, side, rendezvous, 2 * ring)?;
    let (from, to) = side.from_to(0, ring);
    let rings = Rings {
        mapping,
        from,
        to,
        stride,
        sent: 0,
        received: 0,
        message: vec![0; size],
    };
    Ok(drive(rings, size))
}

struct Rings {
    mapping: Mapping,
    from: usize,
    to: usize,
    stride: usize,
    sent: u64,
    received: u64,
    message: Vec<u8>,
}

impl Rings {
    fn slot(&self, ring: usize, number: u64) -> usize {
        ring + usize::try_from(number % SLOTS).unwrap_or(0) * self.stride
    }
}

impl End for Rings {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let slot = self.slot(self.to, self.sent);
        let version = self.mapping.word(slot);
        fill(&mut self.message);
        // Odd: being written. Message n has version 2n + 2.
        // Relaxed: the fence below keeps it before the words.
        version.store(2 * self.sent + 1, Ordering::Relaxed);
        // A reader of one of the words below also sees the odd version; pairs with the fence in
        // `receive`.
        fence(Ordering::Release);
        for (index, piece) in self.message.chunks(WORD).enumerate() {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            let place = self.mapping.word(slot + WORD + index * WORD);
            // Relaxed: the version around the words orders them.
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        self.sent += 1;
        // Release: the words are complete; pairs with the load in `receive`.
        version.store(2 * self.sent, Ordering::Release);
        Ok(())
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let slot = self.slot(self.from, self.received);
        let wanted = 2 * (self.received + 1);
        let version = self.mapping.word(slot);
        loop {
            // Acquire: pairs with the last store in `send`.
            let seen = version.load(Ordering::Acquire);
            if seen > wanted {
                return Err(ArenaError::Wrong {
                    sequence: self.received,
                });
            }
            if seen < wanted {
                continue;
            }
            for (index, piece) in self.message.chunks_mut(WORD).enumerate() {
                let place = self.mapping.word(slot + WORD + index * WORD);
                // Relaxed: the version around the words orders them.
                let word = place.load(Ordering::Relaxed).to_ne_bytes();
                piece.copy_from_slice(&word[..piece.len()]);
            }
            // The version shows a writer in between; pairs with the fence in `send`.
            fence(Ordering::Acquire);
            // Relaxed: the fence orders it.
            if version.load(Ordering::Relaxed) == wanted {
                break;
            }
        }
        self.received += 1;
        Ok(handle(&self.message))
    }
}
