//! Far sides that an earlier listener left: their lanes stay reserved in the ring, and end if they
//! do not come back in time. Also where each of them continues if it comes back later.

use crate::bridge::Destination;
use crate::bridge::ingress::SourcePosition;
use crate::channel::raw::LaneSource;
use crate::error::chain;
use crate::link::Control;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most far sides whose positions are kept after their lanes have ended; the oldest are dropped.
const EXPIRED_MAX: usize = 4096;

/// Positions of far sides whose lanes have ended because they stayed away.
///
/// A far side that comes back after all continues there. At its last acknowledgement it would
/// repeat what was committed since.
#[derive(Debug, Default)]
pub(super) struct ExpiredSources(Mutex<VecDeque<Vec<SourcePosition>>>);

impl ExpiredSources {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<SourcePosition>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the positions of one far side.
    pub(super) fn keep(&self, positions: Vec<SourcePosition>) {
        if positions.is_empty() {
            return;
        }
        let mut kept = self.lock();
        if kept.len() == EXPIRED_MAX {
            kept.pop_front();
        }
        kept.push_back(positions);
    }

    /// Takes the positions in the channel of this incarnation.
    pub(super) fn take(&self, incarnation: u64) -> Vec<SourcePosition> {
        let mut kept = self.lock();
        let is_of = |positions: &Vec<SourcePosition>| {
            positions
                .iter()
                .any(|known| known.incarnation == incarnation)
        };
        let found = kept.iter().rposition(is_of);
        found
            .and_then(|place| kept.remove(place))
            .unwrap_or_default()
    }
}

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
        expired: &ExpiredSources,
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
                match destination.abandon(late, reason) {
                    Ok(positions) => expired.keep(positions),
                    Err(error) => control.report(|status| {
                        status.note =
                            format!("cannot end the lanes of a far side: {}", chain(&error));
                    }),
                }
            }
        }
        !sources.is_empty()
    }
}
