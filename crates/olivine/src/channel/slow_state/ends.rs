//! What a subscriber reports of ends and failures, and what its durable name keeps of that in its
//! slot.

use super::is_replay;
use super::{StreamEnd, SubscriberSlowState};
use crate::channel::attached::Attached;
use crate::channel::status::Durable;
use crate::error::{LinkError, ReceiveError, chain};
use crate::region::Word;
use crate::ring::consume::Consumer;
use crate::ring::ending;
use crate::ring::layout::slot;
use crate::sync::Ordering;

/// The state of a lane when this subscriber joined it or mapped it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::channel) struct Joined {
    /// The lane's state word.
    pub(in crate::channel) state: u64,
    /// The newest failure of the lane's source that must not be reported again:
    /// [`ending::failed_state`].
    pub(in crate::channel) reported_failure: u64,
}

impl Joined {
    /// For a lane that existed before the join. A failure at or before our position is not
    /// reported, except to a durable name that was absent: [`SubscriberSlowState::recall_reports`].
    pub(in crate::channel) fn of(consumer: &Consumer) -> Self {
        let words = consumer.lane();
        let failure = ending::failure(words);
        let before_us = failure.filter(|failure| failure.position <= consumer.position());
        Self {
            state: ending::state(words),
            reported_failure: before_us.map_or(0, |failure| failure.state),
        }
    }
}

impl Joined {
    /// The state of the lane's newest failure, if that is not reported.
    fn owed_failure(&self, consumer: &Consumer) -> Option<u64> {
        let failed = ending::failed_state(consumer.lane());
        (failed != 0 && failed != self.reported_failure).then_some(failed)
    }
}

impl SubscriberSlowState {
    /// Compares what a durable name has reported with the lanes. An end or failure that it has not
    /// reported is reported now: its last holder was absent, or died before the report. What came
    /// before a new name is not reported.
    pub(in crate::channel) fn recall_reports(&mut self, lanes: &[Consumer]) {
        let Some(durable) = self.durable else {
            return;
        };
        let mut states = lanes.iter().map(|lane| ending::state(lane.lane()));
        let is_ended = !lanes.is_empty() && states.all(|state| state & 1 == 0);
        let (end, failures) = (
            self.told_word(slot::TOLD_END),
            self.told_word(slot::TOLD_FAILURES),
        );
        if durable == Durable::Created {
            if is_ended {
                end.store(end_mark(lanes), Ordering::Relaxed);
            }
            failures.store(self.reported_failures(), Ordering::Relaxed);
            return;
        }
        self.stream_started |= is_ended && end.load(Ordering::Relaxed) != end_mark(lanes);
        // Over all lanes: only then an equal sum says that each of them was reported.
        let newest = lanes.iter().map(|lane| ending::failed_state(lane.lane()));
        if failures.load(Ordering::Relaxed) != newest.fold(0, u64::wrapping_add) {
            for joined in &mut self.joined {
                joined.reported_failure = 0;
            }
        }
    }

    /// While a failure is not reported, each call takes the careful path: later messages of the
    /// lane come after it.
    pub(in crate::channel) fn stop_at_failures(&self, lanes: &[Consumer]) {
        let mut lanes = lanes.iter().zip(&self.joined);
        if lanes.any(|(consumer, joined)| joined.owed_failure(consumer).is_some()) {
            self.page.set_plain(false);
        }
    }

    /// Stores which end and which failures were reported, once a call follows the report. A durable
    /// name keeps that.
    pub(in crate::channel) fn store_reports(&self) {
        if self.durable.is_none() {
            return;
        }
        if self.reported_end != 0 {
            self.told_word(slot::TOLD_END)
                .store(self.reported_end, Ordering::Relaxed);
        }
        if self.has_reported_failure {
            self.told_word(slot::TOLD_FAILURES)
                .store(self.reported_failures(), Ordering::Relaxed);
        }
    }

    /// This handle's bridge has stopped. If its failure was reported, the durable name does not get
    /// the lanes that it has closed with that failure reported again.
    pub(in crate::channel) fn link_stopped(&mut self, lanes: &[Consumer]) {
        if !self.has_reported_link {
            return;
        }
        for (joined, lane) in self.joined.iter_mut().zip(lanes) {
            joined.reported_failure = ending::failed_state(lane.lane());
        }
        self.has_reported_failure = true;
        self.reported_end = end_mark(lanes);
        self.store_reports();
    }

    /// The mark of the reported failures: the sum of the lanes' states at those. It grows with each
    /// failure, because a lane's state grows with each publisher.
    fn reported_failures(&self) -> u64 {
        let reported = self.joined.iter().map(|joined| joined.reported_failure);
        reported.fold(0, u64::wrapping_add)
    }

    /// A word of the slot for what the durable name has reported. Relaxed: only the holder of the
    /// slot's lock uses it.
    fn told_word(&self, word: usize) -> Word {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        control.resolve(geometry.slot(self.slot) + word)
    }

    /// Reports each failure of a lane's source once, after everything before it was read.
    pub(in crate::channel) fn report_lane_failures(
        &mut self,
        lanes: &[Consumer],
    ) -> Result<(), ReceiveError> {
        let Some((place, state)) = self.unreported_failure(lanes) else {
            return Ok(());
        };
        crate::points::look("failure.due");
        // A newer failure that has come meanwhile stays due: messages come before it.
        self.joined[place].reported_failure = state;
        self.has_reported_failure = true;
        failure_of(&lanes[place]).map_or(Ok(()), Err)
    }

    /// The index of a lane whose failure must be reported now, and the failure's state.
    pub(in crate::channel) fn unreported_failure(
        &self,
        lanes: &[Consumer],
    ) -> Option<(usize, u64)> {
        let mut pairs = lanes.iter().zip(&self.joined).enumerate();
        let due = pairs.find_map(|(place, (consumer, joined))| {
            let state = joined.owed_failure(consumer)?;
            let is_reached = consumer.position() >= ending::failed_position(consumer.lane());
            is_reached.then_some((place, state))
        });
        due.filter(|(place, _)| !self.link_reports(&lanes[*place]))
    }

    /// Whether our own bridge reports the newest failure of this lane: all that it closed its lanes
    /// with when it failed. A replay has also closed them for recordings that failed before.
    fn link_reports(&self, lane: &Consumer) -> bool {
        if !self.own_link_has_failed() {
            return false;
        }
        let link = self.link.as_ref().filter(|link| is_replay(link));
        let Some(failure) = link.and_then(|link| link.control().failure()) else {
            return true;
        };
        let told = ending::kept(&chain(&failure));
        ending::failure(lane.lane()).is_some_and(|failure| failure.reason == told)
    }

    /// The error for this end of the stream.
    pub(in crate::channel) fn end(
        &self,
        lanes: &[Consumer],
        end: StreamEnd,
    ) -> Result<(), ReceiveError> {
        let failure = match end {
            StreamEnd::Closed => None,
            StreamEnd::Failed { place } => failure_of(&lanes[place]),
        };
        match failure {
            // The link reports it.
            Some(_) if self.own_link_has_failed() => Ok(()),
            Some(failure) => Err(failure),
            None => Err(ReceiveError::Closed),
        }
    }
}

/// A number for this end of the stream: from the lanes' state words, which count openings, and the
/// positions.
pub(in crate::channel) fn end_mark(lanes: &[Consumer]) -> u64 {
    let marks = lanes
        .iter()
        .map(|lane| ending::state(lane.lane()).wrapping_add(lane.position()));
    marks.fold(1, u64::wrapping_add)
}

/// The error for a lane's newest failure.
pub(in crate::channel) fn failure_of(consumer: &Consumer) -> Option<ReceiveError> {
    let failure = ending::failure(consumer.lane())?;
    Some(ReceiveError::Failed(LinkError::Upstream {
        lane: consumer.index(),
        reason: failure.reason,
    }))
}
