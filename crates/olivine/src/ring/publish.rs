//! The publishing side of one lane.
//!
//! # Protocol
//!
//! 1. Room: the frame and the next header must end at or below the limit; else [`Producer::make_room`].
//! 2. Write the payload, zero the *next* header unless it was zeroed ahead, then one release store of this header:
//!    **COMMIT**.
//! 3. Store the cursor (**CURSOR**), then look at the sleepers hint (**SLEEP**).
//!
//! A publisher killed before the store of 2 has published nothing: the header still reads 0. One killed after
//! it has published everything: the next header reads 0, so readers stop there, and the cursor is only behind.

mod limit;
mod takeover;

use super::gate::Gate;
use super::layout::{control, header_word, lane};
use super::pages::{Pages, Sleepers};
use crate::error::NotSent;
use crate::points;
use crate::region::{HEADER_BYTES, Ring, Word, Words};
use crate::sync::{AtomicU64, Ordering, light_barrier, mutant, unless};
use crate::wait::RAISED;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes of a cache line; a guess about the machine that only costs time where it is wrong.
const LINE_BYTES: u64 = 64;
/// Bytes behind a frame whose lines are taken early: as many lines as the processor's store queue drains at leisure.
const TAKEN_MAX: u64 = 1088;
/// Bytes of the frames for which that is done: for shorter ones it gains nothing, longer ones are streamed and not answered.
const TAKEN_FOR: RangeInclusive<u64> = 513..=4160;

/// Writes frames into one lane. Exactly one exists per lane: whoever holds the lane's lock.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    /// End of the last committed frame; ours alone.
    position: u64,
    /// A place behind the position whose header word reads zero, as long as nothing but a frame that ends there
    /// was written; 0 for none.
    zeroed: u64,
    /// Cached limit, on a page that reads as zeros in a forked child: there every call takes the slow path.
    limit: Word,
    align_mask: u64,
    /// Lengths from here on take the slow path: those that are too long, or all of them.
    slow_from: u64,
    message_max: u64,
    cursor: Word,
    /// The sleepers hint, or a word that is always 1 where membarrier is missing.
    hint: Word,
    // What follows is touched once per lap or less.
    lane: Words,
    gate: Gate,
    /// The limit as subscribers see it; at least the cached one.
    published_limit: u64,
    /// Subscribers with pages of their own, on a sealed channel.
    apart: Option<Box<Sleepers>>,
}

impl Producer {
    /// From here on the subscribers are those with these pages, and nobody trusts them. Their hints are looked at after
    /// each commit, whatever the channel's own says.
    pub(crate) fn keep_apart(&mut self, pages: &Arc<Pages>) {
        self.hint = self.gate.control().resolve(control::ALWAYS);
        self.apart = Some(Box::new(Sleepers::new(pages)));
    }

    /// The pages of subscribers that nobody trusts, if they are such.
    pub(crate) fn pages(&self) -> Option<&Arc<Pages>> {
        self.apart.as_ref().map(|sleepers| sleepers.pages())
    }

    /// Bytes of a frame in the ring, given those of its header and payload.
    #[inline(always)]
    fn padded(&self, frame: u64) -> u64 {
        (frame + self.align_mask) & !self.align_mask
    }

    /// End of the last committed frame.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Longest payload in bytes.
    pub(crate) fn message_max(&self) -> usize {
        usize::try_from(self.message_max).unwrap_or(usize::MAX)
    }

    /// The subscribers that hold this lane back.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// This lane's header words.
    pub(crate) fn lane(&self) -> &Words {
        &self.lane
    }

    /// Where a frame of `length` bytes that starts at `at` ends, if it fits below the limit.
    ///
    /// # Errors
    ///
    /// [`NotSent::TooLong`], for every length after [`Producer::take_slow_path`]; [`NotSent::BackPressured`] if the
    /// cached limit is used up, which says only that the gate must be asked.
    #[inline(always)]
    pub(crate) fn fits(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        if length as u64 >= self.slow_from {
            return Err(self.too_long());
        }
        self.ends(at, length)
    }

    /// From now on [`Producer::fits`] refuses every length: the caller has to add something to each message, and
    /// asks [`Producer::fits_whole`].
    #[cfg(not(loom))]
    pub(crate) fn take_slow_path(&mut self) {
        self.slow_from = 0;
    }

    /// As [`Producer::fits`], whatever path is taken.
    ///
    /// # Errors
    ///
    /// As [`Producer::fits`].
    #[cfg(not(loom))]
    pub(crate) fn fits_whole(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        if length as u64 > self.message_max {
            return Err(self.too_long());
        }
        self.ends(at, length)
    }

    #[inline(always)]
    fn ends(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        let end = at + self.padded(length as u64 + HEADER_BYTES);
        // Relaxed: a private word.
        if end + HEADER_BYTES > self.limit.load(Ordering::Relaxed) {
            return Err(NotSent::BackPressured);
        }
        Ok(end)
    }

    /// Room that a frame of `length` bytes at `at` needs: up to the end of the next header.
    pub(crate) fn need(&self, at: u64, length: usize) -> u64 {
        at + self.padded(length as u64 + HEADER_BYTES) + HEADER_BYTES
    }

    #[cold]
    fn too_long(&self) -> NotSent {
        NotSent::TooLong {
            max: self.message_max(),
        }
    }

    /// A claim up to `end` begins, and may be given up: what else is behind the position may change.
    #[inline(always)]
    pub(crate) fn begin(&mut self, end: u64) {
        if end != self.zeroed && !mutant("claim_keeps_zeroed") {
            self.zeroed = 0;
        }
    }

    /// Writes the payload of the frame at `at`, which [`Producer::fits`] found room for, of a batch that may be
    /// given up.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: u64, message: &[u8]) {
        self.zeroed = 0;
        // SAFETY: `fits` holds the frame below the limit, so no reliable subscriber reads these bytes
        // (REUSE), and its header is not committed: `at` is at or behind our uncommitted position.
        unsafe { self.ring.write(at, message) };
    }

    /// The payload place of the claimed frame at the position. In a forked child, whose parent may be filling it,
    /// bytes that lead nowhere and are never given back.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn payload_mut(&mut self, length: usize) -> &mut [u8] {
        if self.is_shut() {
            return nowhere(length);
        }
        // SAFETY: as in `write`; `&mut self` makes the slice the only one.
        unsafe { self.ring.payload_mut(self.position, length) }
    }

    /// The payload place of the frame at `at`, which [`Producer::fits_whole`] found room for, of a batch that may be
    /// given up.
    #[cfg(not(loom))]
    pub(crate) fn place_mut(&mut self, at: u64, length: usize) -> &mut [u8] {
        self.zeroed = 0;
        // SAFETY: as in `write`; `&mut self` makes the slice the only one.
        unsafe { self.ring.payload_mut(at, length) }
    }

    /// What [`Producer::payload_mut`] wrote.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn payload(&self, length: usize) -> &[u8] {
        // SAFETY: claimed and not committed: only we write here, and not while `self` is borrowed.
        unsafe { self.ring.view(self.position, length) }
    }

    /// Writes `message` at the position and makes it visible; `end` is what [`Producer::fits`] said.
    #[inline(always)]
    pub(crate) fn send(&mut self, end: u64, tag: u32, message: &[u8]) -> u64 {
        // Both places before the first store: the compiler cannot know that it leaves the ring's own words alone.
        let (spot, next) = (self.ring.spot(self.position), self.next_header(end));
        // SAFETY: `fits` refused what is longer than a ring holds, and held the frame below the limit, so no
        // reliable subscriber reads these bytes (REUSE); its header is not committed: it is at our position.
        unsafe { spot.write(message) };
        points::pass("publish.written");
        show(spot.header(), next, tag, message.len());
        points::pass("publish.shown");
        self.advance(end)
    }

    /// Makes the frame from the position to `end` visible; the position after it. In a forked child, whose parent's
    /// frame it is, it does nothing.
    #[inline(always)]
    pub(crate) fn commit(&mut self, end: u64, tag: u32, length: usize) -> u64 {
        if self.is_shut() {
            return self.position;
        }
        points::pass("publish.written");
        self.show(end, tag, length);
        points::pass("publish.shown");
        self.advance(end)
    }

    /// The commit itself: whoever dies after it has published everything up to `end`.
    #[inline(always)]
    pub(super) fn show(&self, end: u64, tag: u32, length: usize) {
        show(
            self.ring.header(self.position),
            self.next_header(end),
            tag,
            length,
        );
    }

    /// The header word at `end`, if it has to be zeroed.
    #[inline(always)]
    fn next_header(&self, end: u64) -> Option<&AtomicU64> {
        let reads_zero = end == self.zeroed || mutant("commit_without_next_zero");
        (!reads_zero).then(|| self.ring.header(end))
    }

    /// Writes the header of a later frame of a batch: invisible until the first is committed.
    #[inline(always)]
    pub(crate) fn prepare(&mut self, at: u64, tag: u32, length: usize) {
        // Relaxed: released by the COMMIT of the batch's first frame.
        self.ring
            .header(at)
            .store(header_word(tag, length), Ordering::Relaxed);
    }

    /// Stores the cursor and wakes sleepers, after COMMIT.
    #[inline(always)]
    fn advance(&mut self, end: u64) -> u64 {
        // Where a next frame of this length would end.
        let ahead = end + (end - self.position);
        self.position = end;
        // CURSOR (release): pairs with the acquire load in `Consumer::cursor`.
        self.cursor
            .store(end, unless(mutant("cursor_relaxed"), Ordering::Release));
        // Zeroes the header there, and takes its line away from whoever has it, now and not between the next message
        // and its commit (ADR 0012). Below the limit and behind the header at `end`, every byte is ours to fill.
        // Relaxed: a private word; the zero is released by the next COMMIT.
        if ahead + HEADER_BYTES <= self.limit.load(Ordering::Relaxed) || mutant("zero_past_limit") {
            self.ring.header(ahead).store(0, Ordering::Relaxed);
            self.zeroed = ahead;
            if TAKEN_FOR.contains(&(ahead - end)) {
                self.take_lines(end, ahead);
            }
        } else {
            self.zeroed = 0;
        }
        // SLEEP (light side): the commit above comes before the look at the hint.
        light_barrier(mutant("sleep_no_light_barrier"));
        // Relaxed: only a hint to look; the waker reads it again (WAKE).
        if self.hint.load(Ordering::Relaxed) & RAISED != 0 {
            self.wake_sleepers();
        }
        end
    }

    /// Takes the lines behind that of `from` up to `to` as that of `to` was taken (ADR 0018). What is stored there is what a
    /// claim leaves that is given up.
    #[inline(never)]
    fn take_lines(&self, from: u64, to: u64) {
        let mut line = from + LINE_BYTES;
        while line < to.min(from + TAKEN_MAX) {
            // Relaxed: no header, and nobody reads it before the COMMIT of the frame that it becomes a part of.
            self.ring.header(line).store(0, Ordering::Relaxed);
            line += LINE_BYTES;
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleepers(&mut self) {
        let woken = self.wake_everybody();
        if woken > 0 {
            bump(&self.lane, lane::WAKES, woken);
        }
    }

    /// Wakes every subscriber that sleeps; returns how many.
    pub(crate) fn wake_everybody(&mut self) -> u64 {
        match &mut self.apart {
            Some(sleepers) => sleepers.wake(),
            None => crate::wait::wake_sleepers(self.gate.control(), self.gate.geometry()),
        }
    }

    /// Bytes of frames that have room behind the position as far as the cached limit tells.
    #[cfg(not(loom))]
    pub(crate) fn room_left(&self) -> u64 {
        // Relaxed: a private word.
        let limit = self.limit.load(Ordering::Relaxed);
        limit.saturating_sub(self.position + HEADER_BYTES)
    }

    /// Makes whole frames of another ring with the same `align` visible together, as they lie there. At least one,
    /// the first with these words in its header, and no more bytes than [`Producer::room_left`] said.
    #[cfg(not(loom))]
    pub(crate) fn send_frames(&mut self, frames: &[u8], tag: u32, length: usize) {
        // As a batch: everything but the first header, which commits.
        if let Some((_, behind)) = frames.split_first_chunk::<8>() {
            self.write(self.position, behind);
            self.commit(self.position + frames.len() as u64, tag, length);
        }
    }

    /// As a publisher asks: where a frame of `length` bytes at `at` ends, once the gate has made room if need be.
    #[cfg(any(test, fuzzing))]
    pub(super) fn room(&mut self, at: u64, length: usize) -> Option<u64> {
        if self.fits(at, length).is_err() && !self.make_room(self.need(at, length)) {
            return None;
        }
        self.fits(at, length).ok()
    }

    /// Whether nothing may be sent, whatever had room: in a forked child, where the limit reads zero.
    #[inline(always)]
    pub(crate) fn is_shut(&self) -> bool {
        // Relaxed: a private word.
        self.limit.load(Ordering::Relaxed) == 0
    }

    /// Refuses everything from now on: the next call takes the slow path.
    pub(crate) fn shut(&mut self) {
        // Relaxed: a private word.
        self.limit.store(0, Ordering::Relaxed);
    }
}

/// Zeros of a forked child's own.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
fn nowhere(length: usize) -> &'static mut [u8] {
    vec![0; length].leak()
}

/// Commits the frame, or the batch, that begins with `header`; `next` is the header behind it unless it reads zero.
#[inline(always)]
fn show(header: &AtomicU64, next: Option<&AtomicU64>, tag: u32, length: usize) {
    if let Some(next) = next {
        // Relaxed: released by COMMIT below.
        next.store(0, Ordering::Relaxed);
    }
    // COMMIT (release): pairs with the acquire load in `Consumer::next` and `Consumer::walk`.
    header.store(
        header_word(tag, length),
        unless(mutant("commit_relaxed"), Ordering::Release),
    );
}

/// Adds to a counter that only this process writes.
pub(crate) fn bump(words: &Words, index: usize, by: u64) {
    let word = words.word(index);
    // Relaxed: one writer, display only.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
