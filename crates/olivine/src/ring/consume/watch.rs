//! What a thread checks that waits on behalf of a subscriber.

use super::Consumer;
use crate::region::{Ring, Word};
use crate::ring::layout::lane;
use crate::sync::Ordering;

/// The state of a lane for a thread that waits on behalf of a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct WatchPoint {
    ring: Ring,
    /// Start of the next frame.
    pub(crate) position: u64,
    state: Word,
    state_before: u64,
    /// Present for a lossy subscriber.
    limit: Option<Word>,
}

impl WatchPoint {
    /// Whether a frame is there, the lane was closed or opened, or the subscriber was overrun.
    pub(crate) fn has_changed(&self) -> bool {
        // COMMIT (acquire).
        self.ring.header(self.position).load(Ordering::Acquire) != 0
            || self.state.load(Ordering::Acquire) != self.state_before
            || self.limit.as_ref().is_some_and(|limit| {
                self.position + self.ring.capacity() < limit.load(Ordering::Acquire)
            })
    }
}

impl Consumer {
    /// What to check for the next frame, and the lane's state word with its value now: for a thread
    /// that waits on our behalf. `checked` is set for a lossy subscriber.
    pub(crate) fn watch_point(&self, checked: bool) -> WatchPoint {
        let state = self.lane.resolve(lane::STATE);
        // Acquire: if the lane is closed here, the next load finds it closed.
        let state_before = state.load(Ordering::Acquire);
        WatchPoint {
            ring: self.ring.clone(),
            position: self.position,
            state,
            state_before,
            limit: checked.then(|| self.limit.clone()),
        }
    }
}
