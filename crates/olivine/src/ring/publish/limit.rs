//! How far a publisher may write: the gate, and the history where no subscriber gates.

use super::Producer;
use crate::points;
use crate::region::HEADER_BYTES;
#[cfg(not(loom))]
use crate::region::Word;
use crate::ring::gate::Slowest;
use crate::ring::layout::{frame_bytes, lane};
use crate::sync::{Ordering, fence, mutant};

impl Producer {
    /// Asks the gate for room up to `need`. `true` if there is.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(&mut self, need: u64) -> bool {
        let capacity = self.ring.capacity();
        // The limit may fall below them.
        self.forget_zeroed();
        self.prefetched = 0;
        #[cfg(not(loom))]
        self.pace.look(self.position, crate::clock::monotonic_ns);
        self.collect();
        let wanted = match self.gate.slowest() {
            Some(slowest) => self.whole_frames(slowest) + capacity,
            None => self.step_history(need),
        };
        points::look("gate.scanned");
        if wanted > self.published_limit {
            // JOIN and OVERRUN (release): a participant that reads the new limit sees whole frames
            // after it.
            self.lane.word(lane::LIMIT).store(wanted, Ordering::Release);
            self.published_limit = wanted;
            points::pass("gate.limit_stored");
            if !mutant("overrun_no_fence_writer") {
                // JOIN: SeqCst fence between our limit and the joiner's position (see `join_lane`).
                // OVERRUN: the limit is visible before anything is written into what it freed.
                fence(if mutant("join_gate_release_fence") {
                    Ordering::Release
                } else {
                    // SeqCst: for JOIN; OVERRUN alone would do with a release fence.
                    Ordering::SeqCst
                });
            }
            let joined = if mutant("join_gate_no_rescan") {
                None
            } else {
                self.gate.slowest()
            };
            let limit = joined.map_or(wanted, |joined| {
                wanted.min(joined.position.saturating_add(capacity))
            });
            self.limit.set(limit);
        } else {
            // The published limit stays: a joiner saw at least this one, so it is safe.
            // OVERRUN (release): a subscriber that finds bytes written from here on sees that its
            // slot holds us no longer.
            fence(Ordering::Release);
            self.limit.set(wanted);
        }
        need <= self.limit.get()
    }

    /// Collects the positions from the subscribers' private pages.
    fn collect(&self) {
        if let Some(pages) = self.pages() {
            pages.collect(self.position);
        }
    }

    /// The end of the last frame at or before the position of the slowest subscriber.
    fn whole_frames(&self, slowest: Slowest) -> u64 {
        // A position after our own is invalid. It must not lead beyond our frames.
        let position = slowest.position.min(self.position);
        let Some(pages) = self.pages() else {
            return position;
        };
        // A position inside a frame would be an invalid start for others. A position before the
        // start of the walk belongs to a subscriber that is joining.
        let mut at = self.published_limit - self.ring.capacity();
        if position <= at {
            return position;
        }
        while let Some(next) = self.next_frame(at).filter(|next| *next <= position) {
            at = next;
        }
        if at != position {
            pages.report_invalid_position(slowest.slot, slowest.position);
        }
        at
    }

    /// Start of the frame after our frame at `at`. `None` at our position, or if the lane is
    /// damaged.
    fn next_frame(&self, at: u64) -> Option<u64> {
        // Relaxed: our own frames, or frames taken over with CURSOR.
        let frame = frame_bytes(self.ring.header(at).load(Ordering::Relaxed));
        let next = at + self.padded(frame);
        (frame >= HEADER_BYTES && next <= self.position).then_some(next)
    }

    /// Whether every gating subscriber has read everything.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_read_to(self.position)
    }

    /// Whether every gating subscriber has read everything before `position`.
    pub(crate) fn is_read_to(&self, position: u64) -> bool {
        self.collect();
        self.gate.drained(position)
    }

    /// The word to sleep on until there is room, if it is on the page of the slowest subscriber.
    #[cfg(not(loom))]
    pub(crate) fn room_of_slowest(&self) -> Option<(Slowest, Word)> {
        let pages = self.pages()?;
        let slowest = self.gate.slowest()?;
        Some((slowest, pages.room_of(slowest.slot)?))
    }

    /// The position up to which frames have room now, by the subscribers' positions. It is only a
    /// snapshot.
    #[cfg(not(loom))]
    pub(crate) fn room_end(&self) -> u64 {
        let slowest = self.gate.slowest();
        let from = slowest.map_or(self.position, |slowest| slowest.position.min(self.position));
        from + self.ring.capacity() - HEADER_BYTES
    }

    /// The next limit if no subscriber gates. It drops the oldest frames, an eighth of the ring at
    /// a time. So late joiners find most of a ring of history, and `limit - capacity` stays a frame
    /// boundary.
    fn step_history(&self, need: u64) -> u64 {
        let capacity = self.ring.capacity();
        if need <= self.published_limit {
            return self.published_limit;
        }
        let target = need.max((self.published_limit + capacity / 8).min(self.position + capacity))
            - capacity;
        let mut oldest = self.published_limit - capacity;
        while oldest < target {
            // Our own frames never fail this. A damaged lane drops its whole history.
            let Some(next) = self.next_frame(oldest) else {
                oldest = self.position;
                break;
            };
            oldest = next;
        }
        oldest + capacity
    }
}
