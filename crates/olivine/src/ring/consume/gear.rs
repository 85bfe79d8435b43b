//! The two gears of a subscriber: how it looks for the next frame.
//!
//! A subscriber that has caught up looks at the next header itself: header and payload of a small message
//! arrive with one cache line, which is the latency gear. One that is behind reads the cursor once and walks
//! everything before it without touching the line being written. A subscriber that has never found the tail empty
//! for a run of messages, and finds the cursor moving by several of them meanwhile, is in the streaming gear: it rests for a moment
//! before it looks at the tail again, because a reader that hangs on the writer's line makes every commit a line
//! transfer. It rests when it is asked for more, not before it hands out what it has. One message or none
//! at a time, as in an exchange of requests and replies, never rests: the cursor stands still. Nor does one that gets a
//! few million a second: each of them would wait for the end of a rest.

use super::Consumer;
use crate::sync::Ordering;

/// A run of this many messages without an empty tail may be a stream: the cursor tells.
pub(super) const STREAM_RUN: u32 = if cfg!(loom) { 1 } else { 24 };
/// The longest run after which a subscriber asks the cursor, if it stood still the last times.
const STREAM_RUN_MAX: u32 = 32 * STREAM_RUN;
/// Fewer messages than this between two rests are no stream any more.
const STREAM_KEPT: u32 = if cfg!(loom) { 8 } else { 64 };
/// How long the cursor is given to move, in `pause` instructions.
const STREAM_PROBE: u32 = 10;
/// How far it moves meanwhile in a stream, in bytes: several small messages, so that ten million of them a second are none.
const STREAM_PACE: u64 = if cfg!(loom) { 1 } else { 256 };
/// How long a streaming reader rests at the tail, in `pause` instructions.
const STREAM_REST: u32 = 200;

impl Consumer {
    /// Whether frames are known to lie before the cursor, which is read afresh.
    #[inline(never)]
    pub(super) fn is_behind(&mut self) -> bool {
        // Relaxed: says only how long not to ask again; every header is acquired by itself (COMMIT).
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
        self.known > self.position
    }

    /// Rests if this may be the tail of a stream.
    #[inline(always)]
    pub(super) fn rest_at_tail(&mut self) {
        if self.position >= self.known && self.run >= self.run_asked {
            self.rest();
        }
    }

    /// Finds out whether a publisher streams, unless it just did, and lets it, for a moment, if so. What lies before
    /// the cursor can be walked without touching the line that the publisher writes.
    #[inline(never)]
    fn rest(&mut self) {
        // Relaxed, here and below: says only how long not to ask again; every header is acquired by itself (COMMIT).
        let streamed = self.run_asked == 0 && self.run >= STREAM_KEPT;
        self.run = 0;
        if streamed {
            pause(STREAM_REST);
        } else {
            let before = self.cursor.load(Ordering::Relaxed);
            pause(STREAM_PROBE);
            let moved = self.cursor.load(Ordering::Relaxed).wrapping_sub(before);
            if moved < STREAM_PACE {
                self.run_asked = (self.run_asked * 2).clamp(STREAM_RUN, STREAM_RUN_MAX);
            } else {
                pause(STREAM_REST - STREAM_PROBE);
                self.run_asked = 0;
            }
        }
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
    }

    /// The tail was found empty: ends the run and gives back what is held.
    #[inline]
    pub(crate) fn at_tail(&mut self) {
        self.run = 0;
        self.run_asked = self.run_asked.max(STREAM_RUN);
        if self.released != self.position {
            self.release();
        }
    }
}

fn pause(times: u32) {
    for _ in 0..times {
        core::hint::spin_loop();
    }
}
