//! How a publisher continues a lane where the last publisher left it.

use super::Producer;
use crate::points;
use crate::region::{HEADER_BYTES, Ring, Word, Words};
use crate::ring::gate::Gate;
use crate::ring::layout::{Geometry, POSITION_MAX, control, frame_bytes, lane};
use crate::sync::{Ordering, fence, mutant};

impl Producer {
    /// Takes the lane over where its last publisher left it, and holds it at a limit of 0: the first message
    /// asks the gate.
    ///
    /// The caller holds the lane's lock. `limit` is a private word.
    pub(crate) fn take_over(
        ring: Ring,
        lane: Words,
        control: &Words,
        geometry: &Geometry,
        index: usize,
        limit: Word,
    ) -> Self {
        let hint = if crate::sync::light_side_is_covered() {
            control::SLEEPERS
        } else {
            control::ALWAYS
        };
        let mut producer = Self {
            // CURSOR (acquire): the frames of a publisher before us are ours to walk.
            position: lane
                .word(lane::CURSOR)
                .load(Ordering::Acquire)
                .min(POSITION_MAX),
            zeroed: 0,
            align_mask: geometry.align - 1,
            slow_from: geometry.message_max() + 1,
            message_max: geometry.message_max(),
            cursor: lane.resolve(lane::CURSOR),
            hint: control.resolve(hint),
            // It never lies below a whole ring, whatever stands there.
            published_limit: lane
                .word(lane::LIMIT)
                .load(Ordering::Acquire)
                .clamp(ring.capacity(), POSITION_MAX),
            gate: Gate::new(control.clone(), geometry.clone(), index),
            ring,
            limit,
            lane,
            apart: None,
        };
        // Relaxed: a private word.
        producer.limit.store(0, Ordering::Relaxed);
        if !mutant("overrun_takeover_no_fence") {
            // The publisher before us may have died between its store of the limit and its fence, and we may write
            // below that limit without storing one of our own.
            // OVERRUN: its limit is visible before anything that we write.
            // JOIN: SeqCst fence between its limit and our first look at the positions.
            fence(if mutant("join_takeover_release_fence") {
                Ordering::Release
            } else {
                // SeqCst: for JOIN; OVERRUN alone would do with a release fence.
                Ordering::SeqCst
            });
        }
        points::pass("takeover.begun");
        producer.recover();
        // No publisher is ever past its limit; in a damaged lane, frames would be walked from there to the position,
        // lap after lap. A ring behind the position is the furthest that there can be any.
        producer.published_limit = producer.published_limit.max(producer.position);
        producer
    }

    /// Walks frames that were committed after the cursor was last stored. What follows the last of them is a
    /// zero header: every publisher zeroes the next header before it commits, so a torn tail is invisible.
    fn recover(&mut self) {
        // No lane holds more than a ring of frames; a damaged one must not be walked for ever.
        let last = self.position.wrapping_add(self.ring.capacity());
        while self.position < last {
            // COMMIT (acquire): of the publisher before us.
            let word = self.ring.header(self.position).load(Ordering::Acquire);
            let padded = self.padded(frame_bytes(word));
            let end = self
                .position
                .wrapping_add(padded)
                .wrapping_add(HEADER_BYTES);
            // A length that no publisher writes ends the walk too: nothing behind it can be trusted.
            if word == 0
                || frame_bytes(word) < HEADER_BYTES
                || padded > self.ring.capacity()
                || end > self.published_limit
            {
                break;
            }
            self.position += padded;
        }
        points::pass("takeover.walked");
        // Relaxed: nobody reads here before the COMMIT that follows, or sees the zero it already is.
        self.ring.header(self.position).store(0, Ordering::Relaxed);
        // CURSOR (release).
        self.cursor.store(self.position, Ordering::Release);
    }
}
