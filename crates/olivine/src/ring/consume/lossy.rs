//! How a lossy subscriber detects that a publisher has overwritten frames (OVERRUN).

use super::{Consumer, Frame};
use crate::error::{Damage, ReceiveError};
use crate::region::Copied;
use crate::ring::layout::slot;
use crate::sync::{Ordering, fence, mutant};

impl Consumer {
    /// For a lossy subscriber: whether the publisher may have overwritten the frame at the
    /// position. Then the header there may read zero, a whole number of rings behind the publisher.
    pub(crate) fn is_lapped(&self) -> bool {
        self.position + self.ring.capacity() < self.limit.load(Ordering::Acquire)
            && !self.holds_slot()
    }

    /// Whether our slot still holds publishers back, although the limit is further ahead. A
    /// publisher stores its limit before it scans for new joiners (JOIN), and stops where they
    /// require. Called after a load of the limit.
    #[cold]
    fn holds_slot(&self) -> bool {
        // Acquire: an eviction, or the end of a sealed session, comes before the clearing of the
        // gating bit, and that before the store of a limit without it. After a load of that limit,
        // or of bytes written below it, the new state is visible.
        fence(Ordering::Acquire);
        let state = self.gate.as_ref().and_then(|gate| gate.state.as_ref());
        state.is_some_and(|state| {
            matches!(
                state.load(Ordering::Relaxed),
                slot::ATTACHED | slot::DURABLE
            )
        })
    }

    /// For a lossy subscriber: copies the frames from the position to `end`; `false` if a publisher
    /// may have written there meanwhile.
    #[cfg(not(loom))]
    pub(crate) fn copy_frames(&self, end: u64, into: &mut Vec<u8>) -> bool {
        let length = usize::try_from(end - self.position).unwrap_or(usize::MAX);
        self.ring.copy_frames(self.position, length, into);
        // OVERRUN: the loads above come before the limit is read again.
        fence(Ordering::Acquire);
        self.position + self.ring.capacity() >= self.limit.load(Ordering::Relaxed)
            || self.holds_slot()
    }

    /// For a lossy subscriber, after a walk over headers behind the released position: whether a
    /// publisher may have overwritten them meanwhile.
    #[cfg(not(loom))]
    pub(crate) fn is_overwritten(&self) -> bool {
        // OVERRUN: the loads of the walk come before the limit is read again.
        fence(Ordering::Acquire);
        self.released() + self.ring.capacity() < self.limit.load(Ordering::Relaxed)
            && !self.holds_slot()
    }

    /// For a lossy subscriber: copies the next frame and makes sure that the copy is whole.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Overrun`] after skipping to the cursor; [`ReceiveError::Corrupt`].
    pub(crate) fn next_checked(
        &mut self,
        into: &mut Copied,
    ) -> Result<Option<Frame>, ReceiveError> {
        let found = self.next();
        if let Ok(Some(frame)) = &found {
            self.ring.copy_out(frame.position, frame.length, into);
        }
        if !mutant("overrun_no_fence_reader") {
            // OVERRUN: the loads above come before the limit is read again.
            fence(Ordering::Acquire);
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if self.position + self.ring.capacity() < limit && !self.holds_slot() {
            // The copy may be torn: the publisher was free to write there. Skip to the cursor.
            let from = self.position;
            self.known = self.cursor();
            if self.known == from {
                // No publisher writes a limit more than a ring after its cursor.
                let damage = Damage::Limit {
                    bytes: limit - from,
                    capacity: self.ring.capacity(),
                };
                return Err(self.corrupt(from, damage));
            }
            self.position = self.known;
            self.released = self.position;
            return Err(ReceiveError::Overrun {
                lost_bytes: self.position - from,
            });
        }
        found
    }
}
