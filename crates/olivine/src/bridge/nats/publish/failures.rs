//! Failures of lanes: each is stored behind the messages before it, then the bridge fails.

use super::{Kind, Outgoing, SendRetry, Session, post};
use crate::ReceiveError;
use crate::raw::{LaneFailure, NotRead};
use bytes::Bytes;

/// A failure of a lane that is not stored. Nothing behind it is sent.
#[derive(Clone, Debug)]
pub(super) struct OwedFailure {
    pub(super) failure: LaneFailure,
    pub(super) is_in_flight: bool,
}

impl Outgoing<'_> {
    /// Number of lanes. A failure of a lane is an error only once it is stored.
    pub(super) fn look(&mut self) -> Result<usize, NotRead> {
        let looked = self.egress.look();
        match self.unless_owed(looked)? {
            Some(lanes) => Ok(lanes),
            None => self.egress.known_lanes(),
        }
    }

    /// The ring's `answer`; `None` if it is the error of failures that are not stored yet.
    pub(super) fn unless_owed<T>(
        &mut self,
        answer: Result<T, NotRead>,
    ) -> Result<Option<T>, NotRead> {
        if matches!(answer, Err(NotRead::Ring(ReceiveError::Failed(_)))) {
            for failure in self.egress.due_failures()? {
                self.owe(failure);
            }
            if !self.failures.is_empty() {
                return Ok(None);
            }
        }
        answer.map(Some)
    }

    /// The failure of a lane must be stored.
    pub(super) fn owe(&mut self, failure: LaneFailure) {
        let lane = self.lanes.get(failure.place).copied().unwrap_or_default();
        let is_owed = self.failures.iter().any(|owed| owed.failure == failure);
        if lane.stored_failure != failure.number && !is_owed {
            self.failures.push(OwedFailure {
                failure,
                is_in_flight: false,
            });
        }
    }

    /// Whether a failure of the lane is not stored.
    pub(super) fn owes_failure(&self, place: usize) -> bool {
        self.failures.iter().any(|owed| owed.failure.place == place)
    }

    /// Whether a failure can be sent: nothing else of its lane without a frame is in flight.
    pub(super) fn is_sendable(&self, owed: &OwedFailure) -> bool {
        !owed.is_in_flight && !self.lanes[owed.failure.place].is_ending
    }

    /// The end or the failure of a lane that was in flight is stored.
    pub(super) fn end_stored(&mut self, place: usize) {
        let lane = &mut self.lanes[place];
        lane.ended = self.window.settled(place);
        let mut owed = self.failures.iter();
        match owed.position(|owed| owed.failure.place == place && owed.is_in_flight) {
            Some(at) => lane.stored_failure = self.failures.remove(at).failure.number,
            None => (lane.is_open, lane.is_ending) = (false, false),
        }
    }

    /// Sends the failures that are not in flight.
    pub(super) async fn send_failures(&mut self, session: &Session<'_>) -> Result<bool, SendRetry> {
        let mut sent = false;
        for at in 0..self.failures.len() {
            let owed = &self.failures[at];
            if !self.is_sendable(owed) || !self.has_room() {
                continue;
            }
            let (place, position) = (owed.failure.place, owed.failure.position);
            let kind = Kind::Failed(owed.failure.number);
            let reason = Bytes::from(owed.failure.reason.clone());
            self.failures[at].is_in_flight = true;
            let number = self.window.send(place, position, 0);
            let headers = self.headers(place, position, 0, kind)?;
            post(session, number, headers, reason).await?;
            sent = true;
        }
        Ok(sent)
    }
}
