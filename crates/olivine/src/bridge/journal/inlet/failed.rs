//! Recordings of the journal that failed, also where a later one follows.
//!
//! A replay ends its lane as a failed publisher does, and opens it again for what follows. So each
//! reader gets the failure once, at its place, and goes on. A replay into shared memory leaves the
//! lane closed with the failure: the next one knows that it was passed on.

use super::LANE;
use super::replaying::Replaying;
use crate::bridge::journal::outlet::link_error;
use crate::error::{JournalError, LinkError, chain};
use crate::link::Control;
use std::time::Duration;

/// Pause between two looks whether a failure was read.
const READ_NAP: Duration = Duration::from_millis(1);

/// Failures of recordings that this replay came to.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// It stands between the last run and the next one, at this position of the journal.
    ahead: Option<(String, u64)>,
    /// The replay before this one has passed on the failure where it stopped.
    is_passed_on: bool,
    /// A failure is in the lane: a newer one would take its place.
    is_in_lane: bool,
    /// Failures that were accepted, and the last of them.
    accepted: u64,
    last: String,
}

impl Failures {
    /// At the start of a replay; whether the one before has passed on the failure where it stopped.
    pub(super) fn new(is_passed_on: bool) -> Self {
        Self {
            is_passed_on,
            ..Self::default()
        }
    }

    /// A recording failed before `position`.
    pub(super) fn come_to(&mut self, reason: Option<String>, position: u64) {
        if let Some(reason) = reason {
            self.ahead = Some((reason, position));
        }
    }

    /// Something was delivered behind the place where the replay began.
    pub(super) fn delivered(&mut self) {
        self.is_passed_on = false;
    }

    /// The failures that were accepted, for the status.
    pub(super) fn note(&self, path: &str) -> Option<String> {
        (self.accepted > 0).then(|| {
            let (count, last) = (self.accepted, &self.last);
            format!("earlier recordings into {path} failed in {count} places, last {last}")
        })
    }
}

impl Replaying {
    /// Passes on the failure that stands before what follows, if there is one. `false` if an end
    /// request leaves no time.
    pub(super) fn pass_failure(&mut self, control: &Control) -> Result<bool, LinkError> {
        let Some((reason, position)) = self.failures.ahead.take() else {
            return Ok(true);
        };
        let reason = JournalError::given(&reason);
        if self.accepts_holes {
            self.failures.accepted += 1;
            self.failures.last = format!("at position {position}: {reason}");
            let note = self.holes_note();
            control.report(|status| status.note = note);
            return Ok(true);
        }
        let text = format!(
            "the recording failed at position {position} of the journal, and a later one follows: \
             receive again to go on with it, or use 'unfinished=accept': {reason}; {}",
            self.path
        );
        self.fail(&text, control)
    }

    /// The journal ends with this failure.
    pub(super) fn end_failed(
        &mut self,
        error: JournalError,
        control: &Control,
    ) -> Result<LinkError, LinkError> {
        let error = link_error(error);
        // First, as for each failure: our own subscriber gets it from there, with its kind.
        control.give_up(&error);
        self.fail(&chain(&error), control)?;
        Ok(error)
    }

    /// Closes the lane as failed, unless it is closed with this failure already. `false` if an end
    /// request leaves no time.
    fn fail(&mut self, reason: &str, control: &Control) -> Result<bool, LinkError> {
        if std::mem::take(&mut self.failures.is_passed_on) {
            return Ok(true);
        }
        self.open()?;
        while self.failures.is_in_lane && !self.destination.is_drained(LANE) {
            if control.must_stop() {
                return Ok(false);
            }
            control.pause(READ_NAP);
        }
        self.failures.is_in_lane = true;
        self.destination.close_lane_failed(LANE, reason);
        self.is_open = false;
        Ok(true)
    }
}
