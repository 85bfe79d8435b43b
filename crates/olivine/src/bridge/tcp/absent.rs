//! Far sides that an earlier listener left: their lanes stay reserved in the ring, and end if they
//! do not come back in time. Also where each far side that stayed away had stopped.

use crate::bridge::Destination;
use crate::bridge::egress::Egress;
use crate::bridge::ingress::SourcePosition;
use crate::bridge::wire::LaneResume;
use crate::channel::raw::LaneSource;
use crate::error::chain;
use crate::link::Control;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most far sides whose positions are kept after their session has expired; the oldest are dropped.
const EXPIRED_MAX: usize = 4096;

/// What is kept of far sides that stayed away, oldest first.
#[derive(Debug)]
struct Expired<T>(Mutex<VecDeque<T>>);

impl<T> Default for Expired<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Expired<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is left of one far side.
    fn keep(&self, left: T) {
        let mut kept = self.lock();
        if kept.len() == EXPIRED_MAX {
            kept.pop_front();
        }
        kept.push_back(left);
    }

    /// Takes the newest that fits.
    fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut kept = self.lock();
        let found = kept.iter().rposition(fits);
        found.and_then(|place| kept.remove(place))
    }
}

/// Positions of far sides whose lanes have ended because they stayed away.
///
/// A far side that comes back after all continues there. At its last acknowledgement it would
/// repeat what was committed since.
#[derive(Debug, Default)]
pub(super) struct ExpiredSources(Expired<Vec<SourcePosition>>);

impl ExpiredSources {
    /// Keeps the positions of one far side.
    pub(super) fn keep(&self, positions: Vec<SourcePosition>) {
        if !positions.is_empty() {
            self.0.keep(positions);
        }
    }

    /// Takes the positions in the channel of this incarnation.
    pub(super) fn take(&self, incarnation: u64) -> Vec<SourcePosition> {
        let is_of = |positions: &Vec<SourcePosition>| {
            positions
                .iter()
                .any(|known| known.incarnation == incarnation)
        };
        self.0.take(is_of).unwrap_or_default()
    }
}

/// Destinations whose session has expired, and what each had acknowledged.
///
/// If such a destination comes back without its positions, it starts where it wants to. If that is
/// later than what it had acknowledged, it must learn that messages are missing.
#[derive(Debug, Default)]
pub(super) struct ExpiredDestinations(Expired<Acknowledged>);

/// What a destination had acknowledged when its session expired.
#[derive(Debug)]
struct Acknowledged {
    /// The key of its session.
    key: String,
    /// Of the source's channel.
    incarnation: u64,
    /// Whether everything in that channel was acknowledged.
    is_all: bool,
    /// Lanes and positions.
    lanes: Vec<(u32, u64)>,
}

impl ExpiredDestinations {
    /// Keeps what the destination of this session had acknowledged.
    pub(super) fn keep(&self, key: &str, egress: &mut Egress) {
        let is_of = |known: &Acknowledged| known.key == key;
        // It has not said where it continues since then.
        let before = self.0.take(is_of);
        self.0.keep(before.unwrap_or_else(|| Acknowledged {
            key: key.to_owned(),
            incarnation: egress.incarnation(),
            is_all: egress.is_settled(),
            lanes: acknowledged(egress),
        }));
    }

    /// Forgets the destination of this session.
    pub(super) fn forget(&self, key: &str) {
        drop(self.0.take(|known| known.key == key));
    }

    /// Forgets the destination of this session, which continues at `places`, and elsewhere where
    /// `egress` is. Returns a lane with messages that it did not get.
    pub(super) fn take_missed(
        &self,
        key: &str,
        egress: &mut Egress,
        places: &[LaneResume],
    ) -> Option<u32> {
        let known = self.0.take(|known| known.key == key)?;
        let is_same = known.incarnation == egress.incarnation();
        if !is_same && !known.is_all {
            return Some(known.lanes.first().map_or(0, |(lane, _)| *lane));
        }
        let before = |lane| {
            let mut lanes = known.lanes.iter().filter(|_| is_same);
            lanes
                .find(|known| known.0 == lane)
                .map_or(0, |known| known.1)
        };
        let is_placed = |lane| places.iter().any(|place| place.lane == lane);
        let mut now = acknowledged(egress).into_iter();
        let missed = now.find(|(lane, start)| !is_placed(*lane) && *start > before(*lane));
        missed.map(|(lane, _)| lane)
    }
}

/// The lanes that were found so far, and the end of what was acknowledged of each.
fn acknowledged(egress: &mut Egress) -> Vec<(u32, u64)> {
    let lanes = 0..egress.lanes();
    lanes
        .map(|place| (egress.lane(place), egress.acknowledged(place)))
        .collect()
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
