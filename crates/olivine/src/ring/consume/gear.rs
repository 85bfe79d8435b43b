//! The two gears of a subscriber: how it looks for the next frame.
//!
//! The latency gear: a subscriber without lag reads the next header directly. Header and payload of
//! a small message arrive with one cache line. A subscriber with a lag reads the cursor once and
//! walks all frames before it. So it does not touch the line that the publisher is writing. The
//! streaming gear: a subscriber that keeps reading a line makes each commit a transfer of that
//! line. So it rests before it reads the tail again. It enters this gear after a run of messages
//! without an empty tail, if the cursor moves by 256 bytes or more during a short pause. It leaves
//! it at the first look that finds no message, or when a later check of that kind fails. It rests
//! when it is asked for more messages, never before it passes on those that it has. In an exchange
//! of requests and replies it does not rest, because the cursor does not move. At a few million
//! messages a second it does not rest either: a rest would delay each message.

use super::{Consumer, HOLD_STEP};
use crate::sync::Ordering;

/// After a run of this many messages without an empty tail the subscriber checks the cursor.
pub(super) const STREAM_RUN: u32 = if cfg!(loom) { 1 } else { 24 };
/// The longest run before a check, after checks in which the cursor did not move.
const STREAM_RUN_MAX: u32 = 32 * STREAM_RUN;
/// After fewer messages than this between two rests the subscriber checks the cursor again.
const STREAM_KEPT: u32 = if cfg!(loom) { 8 } else { 64 };
/// Length of the check of the cursor, in `pause` instructions.
const STREAM_PROBE: u32 = 10;
/// Bytes by which the cursor of a stream moves during the check: several small messages. Ten
/// million of them a second are less.
const STREAM_PACE: u64 = if cfg!(loom) { 1 } else { 256 };
/// Length of a rest at the tail, in `pause` instructions.
const STREAM_REST: u32 = 200;

impl Consumer {
    /// Reads the cursor. Whether there are frames before it.
    #[inline(never)]
    pub(super) fn is_behind(&mut self) -> bool {
        // Relaxed: only decides when to read the cursor again; each header is acquired (COMMIT).
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
        self.known > self.position
    }

    /// Checks for a stream, or rests, if a run has ended at the tail.
    #[inline(always)]
    pub(super) fn rest_at_tail(&mut self) {
        if self.position >= self.known && self.run >= self.run_threshold {
            self.rest();
        }
    }

    /// Finds out whether a publisher streams, unless it just did. If so, rests. Frames before the
    /// cursor can be walked without touching the line that the publisher writes.
    #[inline(never)]
    fn rest(&mut self) {
        // Relaxed, here and below: only decides when to rest; each header is acquired (COMMIT).
        let streamed = self.run_threshold == 0 && self.run >= STREAM_KEPT;
        self.run = 0;
        if streamed {
            pause(STREAM_REST);
        } else {
            let before = self.cursor.load(Ordering::Relaxed);
            pause(STREAM_PROBE);
            let moved = self.cursor.load(Ordering::Relaxed).wrapping_sub(before);
            if moved < STREAM_PACE {
                self.run_threshold = (self.run_threshold * 2).clamp(STREAM_RUN, STREAM_RUN_MAX);
            } else {
                pause(STREAM_REST - STREAM_PROBE);
                self.run_threshold = 0;
            }
        }
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
    }

    /// The tail is empty: ends the run and releases all frames that were read and are not held.
    #[inline]
    pub(crate) fn at_tail(&mut self) {
        self.run = 0;
        self.run_threshold = self.run_threshold.max(STREAM_RUN);
        if self.released != self.position && self.release_step != HOLD_STEP {
            self.release();
        }
    }
}

fn pause(times: u32) {
    for _ in 0..times {
        core::hint::spin_loop();
    }
}
