//! Far sides that an earlier listener left: their lanes stay reserved in the ring, and end if they
//! do not come back in time.

use crate::bridge::Destination;
use crate::channel::raw::LaneSource;
use crate::error::chain;
use crate::link::Control;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The far sides without a session whose lanes the ring keeps for a time.
#[derive(Debug)]
pub(super) struct AbsentSources {
    /// From when on they are awaited.
    since: Instant,
    sources: Mutex<Vec<LaneSource>>,
}

impl AbsentSources {
    /// Those that were left in the ring when this listener started.
    pub(super) fn find(destination: &Destination) -> Self {
        Self {
            since: Instant::now(),
            sources: Mutex::new(destination.absent_sources()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LaneSource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The far side of these lanes has a session from here on.
    pub(super) fn came_back(&self, source: LaneSource) {
        self.lock().retain(|absent| absent.key != source.key);
    }

    /// Ends the lanes of those that are away for longer than they had asked to be waited for.
    /// Returns whether others are still awaited.
    pub(super) fn await_them(
        &self,
        destination: &Destination,
        control: &Control,
        reason: &str,
    ) -> bool {
        let away = self.since.elapsed();
        // The lock keeps a far side that comes back now from its lanes until they have ended.
        let mut sources = self.lock();
        let is_late = |source: &LaneSource| away > source.expire;
        if sources.iter().any(is_late) {
            // Some may be connected to another listener of this ring.
            let absent = destination.absent_sources();
            for late in sources.extract_if(.., |source| is_late(source)) {
                if absent.iter().all(|source| source.key != late.key) {
                    continue;
                }
                if let Err(error) = destination.abandon(late, reason) {
                    control.report(|status| {
                        status.note =
                            format!("cannot end the lanes of a far side: {}", chain(&error));
                    });
                }
            }
        }
        !sources.is_empty()
    }
}
