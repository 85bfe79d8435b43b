//! What a subscriber reports of ends and failures, and what its durable name keeps of that in its
//! slot.

use super::SubscriberSlowState;
use crate::channel::attached::Attached;
use crate::channel::status::Durable;
use crate::error::{LinkError, ReceiveError};
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
    /// reported.
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

impl SubscriberSlowState {
    /// Stores which end of the stream was reported, once a call follows the report. A durable name
    /// keeps that.
    pub(in crate::channel) fn store_reported_end(&self) {
        if self.reported_end != 0 && self.durable.is_some() {
            self.reported_end_word()
                .store(self.reported_end, Ordering::Relaxed);
        }
    }

    /// The mark of the end that a durable name has reported. Relaxed: only the holder of the slot's
    /// lock uses it.
    fn reported_end_word(&self) -> Word {
        let Attached {
            control, geometry, ..
        } = &self.attached;
        control.resolve(geometry.slot(self.slot) + slot::TOLD_END)
    }

    /// Whether a durable name that returns must still report the end of the stream. Its last holder
    /// died between the last message and the report, or was absent. An end from before the name
    /// existed is not reported.
    pub(in crate::channel) fn must_report_end(&self, lanes: &[Consumer]) -> bool {
        let states = || lanes.iter().map(|lane| ending::state(lane.lane()));
        let is_ended = !lanes.is_empty() && states().all(|state| state & 1 == 0);
        match self.durable {
            Some(Durable::Created) if is_ended => {
                self.reported_end_word()
                    .store(end_mark(lanes), Ordering::Relaxed);
                false
            }
            None | Some(Durable::Created) => false,
            // `report_lane_failures` reports a failure.
            Some(_) if lanes.iter().any(|lane| ending::is_failed(lane.lane())) => false,
            Some(_) => {
                is_ended && self.reported_end_word().load(Ordering::Relaxed) != end_mark(lanes)
            }
        }
    }

    /// Reports each failure of a lane's source once, after everything before it was read.
    pub(in crate::channel) fn report_lane_failures(
        &mut self,
        lanes: &[Consumer],
    ) -> Result<(), ReceiveError> {
        let Some(place) = self.unreported_failure(lanes) else {
            return Ok(());
        };
        let words = lanes[place].lane();
        self.joined[place].reported_failure = ending::failed_state(words);
        failure_of(&lanes[place]).map_or(Ok(()), Err)
    }

    /// The index of a lane whose failure must be reported now.
    pub(super) fn unreported_failure(&self, lanes: &[Consumer]) -> Option<usize> {
        let mut lanes = lanes.iter().zip(&self.joined);
        let place = lanes.position(|(consumer, joined)| {
            let failed = ending::failed_state(consumer.lane());
            failed != joined.reported_failure
                && failed != 0
                && consumer.position() >= ending::failed_position(consumer.lane())
        });
        place.filter(|_| !self.own_link_has_failed())
    }

    /// The error for the end of the stream: failed if the newest publisher of a lane failed, else
    /// closed.
    pub(in crate::channel) fn end(&self, lanes: &[Consumer]) -> Result<(), ReceiveError> {
        let failed = lanes.iter().find(|lane| ending::is_failed(lane.lane()));
        match failed.and_then(failure_of) {
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
