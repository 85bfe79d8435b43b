//! The loops of the bare stream: positions and limits in registers, messages of common sizes built
//! and checked without an inner loop.

use super::{BareEnd, CURSOR, HEADER, MARK, POSITION, Reader, Writer};
use crate::error::{ArenaError, Result};
use crate::mirror::HEAD;
use crate::payload::{self, Stamp};
use crate::protocol::Batches;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a reader without messages waits for, at most an eighth of the ring.
const REST_BYTES: u64 = 16 << 10;
/// Pauses of a rest, at most.
const REST_PAUSES: u32 = 256;
/// Pauses between two looks at the cursor.
const LOOK_PAUSES: u32 = 16;

impl BareEnd {
    /// Streams messages one by one, or in batches of which the first header is stored last.
    pub(super) fn stream(&mut self, batches: Batches) {
        match self.size {
            16 => self.stream_built::<16>(batches),
            32 => self.stream_built::<32>(batches),
            64 => self.stream_built::<64>(batches),
            _ => self.stream_filled(batches),
        }
    }

    #[inline(never)]
    fn stream_built<const SIZE: usize>(&mut self, batches: Batches) {
        self.stream_by(SIZE, batches, |place, stamp| {
            place.copy_from_slice(&payload::build::<SIZE>(stamp));
        });
    }

    #[inline(never)]
    fn stream_filled(&mut self, batches: Batches) {
        self.stream_by(self.size, batches, payload::fill);
    }

    #[inline(always)]
    fn stream_by(&mut self, size: usize, batches: Batches, fill: impl Fn(&mut [u8], Stamp)) {
        let frame = (HEADER + size.next_multiple_of(8)) as u64;
        let capacity = self.capacity as u64;
        let most = (capacity / 4 / frame).max(1);
        let Writer {
            ring: mapping,
            written,
            limit,
        } = &mut self.writer;
        let (ring, cursor) = (mapping.doubled(HEAD, self.capacity), mapping.word(CURSOR));
        let (mut at, mut room) = (*written, *limit);
        let mut next = batches.first;
        let end = batches.first + batches.count;
        while next != end {
            let count = match batches.batch {
                0 | 1 => 1,
                batch => most.min(batch as u64).min(end - next),
            };
            let needed = at + count * frame + HEADER as u64;
            if needed > room {
                room = wait(mapping.word(POSITION), needed - capacity) + capacity;
            }
            // Relaxed, here and below: published by the store of the first header.
            ring.word(at + count * frame).store(0, Ordering::Relaxed);
            for number in 0..count {
                let position = at + number * frame;
                let stamp = Stamp {
                    sequence: next + number,
                    ticks: 0,
                };
                // SAFETY: below the limit, so the reader has read these bytes, or never saw their
                // header. It sees them again only after the store of the first header.
                fill(unsafe { ring.bytes_mut(position, size) }, stamp);
                if number > 0 {
                    let header = ring.word(position);
                    header.store(size as u64 | MARK, Ordering::Relaxed);
                }
            }
            // Release: the messages are complete; pairs with the load in `take_by`.
            ring.word(at).store(size as u64 | MARK, Ordering::Release);
            at += count * frame;
            cursor.store(at, Ordering::Release);
            next += count;
        }
        (*written, *limit) = (at, room);
    }

    /// Checks `count` messages from number `first` on.
    pub(super) fn take_all(&mut self, first: u64, count: u64) -> Result<()> {
        if self.size == payload::COMMON {
            return self.take_common(first, count);
        }
        self.take_any(first, count)
    }

    #[inline(never)]
    fn take_common(&mut self, first: u64, count: u64) -> Result<()> {
        self.take_by(payload::COMMON, first, count, payload::check_common)
    }

    #[inline(never)]
    fn take_any(&mut self, first: u64, count: u64) -> Result<()> {
        let size = self.size;
        self.take_by(size, first, count, |message| {
            payload::check_whole(message, size)
        })
    }

    #[inline(always)]
    fn take_by(
        &mut self,
        size: usize,
        first: u64,
        count: u64,
        check: impl Fn(&[u8]) -> Option<Stamp>,
    ) -> Result<()> {
        let frame = (HEADER + size.next_multiple_of(8)) as u64;
        let step = self.capacity as u64 / 8;
        let Reader {
            ring: mapping,
            read,
            stored,
        } = &mut self.reader;
        let (ring, cursor) = (mapping.doubled(HEAD, self.capacity), mapping.word(CURSOR));
        let (mut at, mut released) = (*read, *stored);
        let store = |position| {
            // Release: the bytes are read; pairs with the load in `wait`.
            mapping.word(POSITION).store(position, Ordering::Release);
            position
        };
        let mut outcome = Ok(());
        let mut next = first;
        let end = first + count;
        while next != end && outcome.is_ok() {
            let known = rest(cursor, at, ((end - next) * frame).min(step));
            if known == at {
                // The writer waits for room, or has not begun.
                if released != at {
                    released = store(at);
                }
                continue;
            }
            while at < known && next != end {
                // Acquire: pairs with the store in `stream_by`.
                let header = ring.word(at).load(Ordering::Acquire);
                // SAFETY: written before its header, and not written again before the position is
                // stored.
                let found = check(unsafe { ring.bytes(at, size) });
                let is_next = found.is_some_and(|stamp| stamp.sequence == next);
                if header != size as u64 | MARK || !is_next {
                    outcome = Err(ArenaError::Wrong { sequence: next });
                    break;
                }
                at += frame;
                next += 1;
                if at - released >= step {
                    released = store(at);
                }
            }
        }
        (*read, *stored) = (at, store(at));
        outcome
    }
}

/// Waits until the reader has read the bytes before `position`; returns how far it is.
#[cold]
#[inline(never)]
fn wait(read: &AtomicU64, position: u64) -> u64 {
    loop {
        // Acquire: the read bytes are ours again; pairs with the store in `take_by`.
        let found = read.load(Ordering::Acquire);
        if found >= position {
            return found;
        }
        spin_loop();
    }
}

/// Gives the writer time to fill `wanted` bytes or [`REST_BYTES`] from `at` on; returns the cursor.
/// A reader that looks at each message takes its cache line from the writer.
#[inline(never)]
fn rest(cursor: &AtomicU64, at: u64, wanted: u64) -> u64 {
    let wanted = wanted.min(REST_BYTES);
    let mut pauses = 0;
    loop {
        // Acquire: the headers before it are complete; pairs with the store of the cursor.
        let known = cursor.load(Ordering::Acquire);
        if known - at >= wanted || pauses >= REST_PAUSES {
            return known;
        }
        (0..LOOK_PAUSES).for_each(|_| spin_loop());
        pauses += LOOK_PAUSES;
    }
}
