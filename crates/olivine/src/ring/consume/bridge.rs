//! Access for bridges: runs of whole frames, in place, released later.

use super::Consumer;
use crate::error::{Damage, ReceiveError};
use crate::region::View;
use crate::sync::Ordering;

impl Consumer {
    /// Every frame before this position was released.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// Continues from `position`, a frame boundary from [`Consumer::released`] to the cursor.
    /// Releases nothing.
    pub(crate) fn go_to(&mut self, position: u64) {
        self.position = position;
        self.known = position;
    }

    /// End of the committed frames from the position on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if there is more than a ring holds, or an invalid header.
    pub(crate) fn committed(&mut self) -> Result<u64, ReceiveError> {
        let cursor = self.cursor();
        if cursor - self.position > self.ring.capacity() {
            let damage = Damage::Lead {
                bytes: cursor - self.position,
                capacity: self.ring.capacity(),
            };
            return Err(self.corrupt(self.position, damage));
        }
        if cursor > self.position {
            return Ok(cursor);
        }
        // A publisher that died between its commit and its cursor leaves a frame after the cursor.
        self.run = 0;
        Ok(self.next()?.map_or(cursor, |frame| frame.end))
    }

    /// The last end of a frame at or before `most`, walking from `from`, a frame boundary at or
    /// after the position, to `committed`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if a header is invalid.
    pub(crate) fn boundary(
        &self,
        from: u64,
        committed: u64,
        most: u64,
    ) -> Result<u64, ReceiveError> {
        let mut at = from;
        while at < committed {
            // Relaxed: committed before the cursor that the caller has acquired (CURSOR).
            let word = self.ring.header(at).load(Ordering::Relaxed);
            let end = at + self.shape(at, word)?.padded;
            if end > most {
                break;
            }
            at = end;
        }
        Ok(at)
    }

    /// The frames from `from`, at or after [`Consumer::released`], to `end`, at or before
    /// [`Consumer::committed`], as stored in the ring.
    ///
    /// # Panics
    ///
    /// If `from` was released already: a bug of ours.
    pub(crate) fn frames(&mut self, from: u64, end: u64) -> View<'_> {
        assert!(self.released <= from && from <= end);
        // A wrong `end` must not show uncommitted bytes.
        let mut committed = self.cursor();
        if end > committed {
            // COMMIT (acquire): a frame after the cursor, as in `committed`.
            let word = self.ring.header(committed).load(Ordering::Acquire);
            let shape = (word != 0).then(|| self.shape(committed, word));
            if let Some(Ok(shape)) = shape {
                committed += shape.padded;
            }
        }
        let end = end.min(committed);
        let length = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        // SAFETY: committed (CURSOR, or the header that moved our position). Our own position in
        // the gate, at or before `from`, holds the publisher back until `release_to`, which needs
        // `&mut self`.
        unsafe { self.ring.frames(from, length) }
    }
}
