//! What bridges need of a lane: runs of whole frames, in place, and released later.

use super::Consumer;
use crate::error::{Damage, ReceiveError};
use crate::region::View;
use crate::sync::Ordering;

impl Consumer {
    /// Everything before this was handed back.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// Goes on from `position`, a frame boundary from [`Consumer::released`] to the cursor, without handing
    /// anything back.
    pub(crate) fn go_to(&mut self, position: u64) {
        self.position = position;
        self.known = position;
    }

    /// End of the committed frames from the position on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if there is more than a ring holds, or a header that no publisher writes.
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
        // A publisher that died between the commit and its cursor leaves a frame that only its header tells of.
        self.run = 0;
        Ok(self.next()?.map_or(cursor, |frame| frame.end))
    }

    /// The last end of a frame at or before `most`, walking from `from`, a frame boundary at or after the
    /// position, to `committed`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if a header is one that no publisher writes.
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
    /// [`Consumer::committed`], as they lie.
    ///
    /// # Panics
    ///
    /// If `from` was handed back already: a bug of ours.
    pub(crate) fn frames(&mut self, from: u64, end: u64) -> View<'_> {
        assert!(self.released <= from && from <= end);
        // No caller's mistake shows what is not committed.
        let mut committed = self.cursor();
        if end > committed {
            // COMMIT (acquire): a frame that only its header tells of, as `committed` finds it.
            let word = self.ring.header(committed).load(Ordering::Acquire);
            let shape = (word != 0).then(|| self.shape(committed, word));
            if let Some(Ok(shape)) = shape {
                committed += shape.padded;
            }
        }
        let end = end.min(committed);
        let length = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        // SAFETY: committed (CURSOR, or the header that moved our position); our own position in the gate, at or
        // before `from`, holds the publisher back until `release_to`, which needs `&mut self`.
        unsafe { self.ring.frames(from, length) }
    }
}
