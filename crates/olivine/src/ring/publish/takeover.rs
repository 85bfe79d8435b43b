//! How a publisher continues a lane where the last publisher left it.

use super::Producer;
use crate::points;
use crate::region::{HEADER_BYTES, PrivateWord, Ring, Words};
use crate::ring::gate::Gate;
use crate::ring::layout::{Geometry, POSITION_MAX, control, frame_bytes, lane};
use crate::sync::{Ordering, fence, mutant};

impl Producer {
    /// Makes the publisher of a lane: new, closed before, or left by a dead publisher. It continues
    /// behind the last committed message of the publisher before it. Its cached limit is 0, so its
    /// first message asks the gate.
    ///
    /// The caller holds the lane's lock. The private words are the cached limit, and the length of
    /// a message that takes the fast path.
    pub(crate) fn take_over(
        ring: Ring,
        lane: Words,
        control: &Words,
        geometry: &Geometry,
        index: usize,
        [limit, ready]: [PrivateWord; 2],
    ) -> Self {
        let hint = if crate::sync::light_side_is_covered() {
            control::SLEEPERS
        } else {
            control::ALWAYS
        };
        let mut producer = Self {
            // CURSOR (acquire): the frames of the publisher before us are visible to this walk.
            position: lane
                .word(lane::CURSOR)
                .load(Ordering::Acquire)
                .min(POSITION_MAX),
            stride: 0,
            ready,
            prefetched: 0,
            #[cfg(not(loom))]
            pace: super::pace::Pace::new(ring.capacity()),
            align_mask: geometry.align - 1,
            align_bits: !(geometry.align - 1),
            slow_from: geometry.message_max() + 1,
            message_max: geometry.message_max(),
            cursor: lane.resolve(lane::CURSOR),
            hint: control.resolve(hint),
            // Never below a whole ring, also if the stored word is damaged.
            published_limit: lane
                .word(lane::LIMIT)
                .load(Ordering::Acquire)
                .clamp(ring.capacity(), POSITION_MAX),
            gate: Gate::new(control.clone(), geometry.clone(), index),
            ring,
            limit,
            lane,
            private_pages: None,
            found_awake: 0,
        };
        producer.shut();
        if !mutant("overrun_takeover_no_fence") {
            // The publisher before us may have died between its store of the limit and its fence.
            // We may write below that limit before we store a new one. OVERRUN: its limit is
            // visible before anything that we write. JOIN: SeqCst fence between its limit and our
            // first look at the positions.
            fence(if mutant("join_takeover_release_fence") {
                Ordering::Release
            } else {
                // SeqCst: for JOIN; OVERRUN alone would do with a release fence.
                Ordering::SeqCst
            });
        }
        points::pass("takeover.begun");
        producer.recover();
        // No publisher's position exceeds its limit, and no limit exceeds the position by more than
        // a ring. In a damaged lane a walk from the limit to the position would take many laps, and
        // a limit too far ahead would let a batch be longer than the ring.
        let last = producer.position + producer.ring.capacity();
        producer.published_limit = producer.published_limit.clamp(producer.position, last);
        producer
    }

    /// Walks frames that were committed after the cursor was last stored. A zero header follows the
    /// last one: every publisher zeroes the next header before it commits. So a torn tail is
    /// invisible.
    fn recover(&mut self) {
        // No lane holds more than a ring of frames. The walk over a damaged lane must end.
        let last = self.position.wrapping_add(self.ring.capacity());
        while self.position < last {
            // COMMIT (acquire): of the publisher before us.
            let word = self.ring.header(self.position).load(Ordering::Acquire);
            let padded = self.padded(frame_bytes(word));
            let end = self
                .position
                .wrapping_add(padded)
                .wrapping_add(HEADER_BYTES);
            // An invalid length ends the walk, too: nothing after it can be trusted.
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
        // Relaxed: readers see the zero that is already there, or read after the COMMIT that
        // follows.
        self.ring.header(self.position).store(0, Ordering::Relaxed);
        // CURSOR (release).
        self.cursor.store(self.position, Ordering::Release);
    }
}
