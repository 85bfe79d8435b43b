//! How a lossy subscriber finds out that a publisher has overwritten what it reads (OVERRUN).

use super::{Consumer, Frame};
use crate::error::ReceiveError;
use crate::region::Copied;
use crate::ring::layout::slot;
use crate::sync::{Ordering, fence, mutant};

impl Consumer {
    /// For a subscriber that may be overrun: whether the publisher may have written over the frame at the position. The
    /// header there may read zero then, a whole number of rings behind the publisher.
    pub(crate) fn is_lapped(&self) -> bool {
        self.position + self.ring.capacity() < self.limit.load(Ordering::Acquire)
            && !self.has_place()
    }

    /// Whether publishers stay behind our position, however far their limit is: a publisher stores its limit before it
    /// looks for those who joined meanwhile (JOIN), and goes no further than they allow. Asked behind a look at the limit.
    #[cold]
    fn has_place(&self) -> bool {
        // Acquire: a place is taken before its bit goes, and the bit goes before a limit that does without it is stored.
        // Who has seen that limit, or what was written below it, sees that the place was taken.
        fence(Ordering::Acquire);
        let state = self.gate.as_ref().and_then(|gate| gate.state.as_ref());
        state.is_some_and(|state| state.load(Ordering::Relaxed) != slot::EVICTED)
    }

    /// For a subscriber that may be overrun: copies the frames from the position to `end` out; `false` if a
    /// publisher may have written there meanwhile.
    #[cfg(not(loom))]
    pub(crate) fn copy_frames(&self, end: u64, into: &mut Vec<u8>) -> bool {
        let length = usize::try_from(end - self.position).unwrap_or(usize::MAX);
        self.ring.copy_frames(self.position, length, into);
        // OVERRUN: the loads above come before the limit is read again.
        fence(Ordering::Acquire);
        self.position + self.ring.capacity() >= self.limit.load(Ordering::Relaxed)
            || self.has_place()
    }

    /// For a subscriber that may be overrun: copies the next frame out and makes sure the copy is whole.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Overrun`] after skipping to the newest frame; [`ReceiveError::Corrupt`].
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
        if self.position + self.ring.capacity() < self.limit.load(Ordering::Relaxed)
            && !self.has_place()
        {
            // Whatever was found may be torn: the publisher was free to write there. Skip to the cursor.
            let from = self.position;
            self.known = self.cursor();
            self.position = self.known;
            self.released = self.position;
            return Err(ReceiveError::Overrun {
                lost_bytes: self.position - from,
            });
        }
        found
    }
}
