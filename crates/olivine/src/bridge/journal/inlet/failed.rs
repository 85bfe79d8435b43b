//! Recordings of the journal that failed, also where a later one follows.
//!
//! A replay ends its lane as a failed publisher does, and opens it again for what follows. So each
//! reader gets the failure once, at its place, and goes on. A lane keeps one failure: the next one
//! waits until it is read, and names it if nothing was delivered between the two. Failures without
//! a message between them are passed on together. A replay into shared memory leaves the lane
//! closed with the failure: the next one knows that it was passed on.

use super::LANE;
use super::replaying::Replaying;
use crate::error::{JournalError, LinkError, chain};
use crate::link::Control;
use crate::ring::ending;
use std::time::Duration;

/// Pause between two looks whether a failure was read.
const READ_NAP: Duration = Duration::from_millis(1);
/// Meanwhile in the status.
const WAITS: &str = "waiting until each subscriber has read a message behind the failed recording \
                     before this one: 'slow=evict:' ends this wait, like one for room";

/// Failures of recordings that this replay came to.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// They stand between the last run and the next one, oldest first, each at this position of the
    /// journal.
    ahead: Vec<(String, u64)>,
    /// The failure that the replay before this one has passed on where it stopped.
    passed_on: Option<String>,
    /// This replay has closed the lane with a failure.
    is_in_lane: bool,
    /// Failures that were accepted, and the last of them.
    accepted: u64,
    last: String,
}

impl Failures {
    /// At the start of a replay; the failure that the one before has passed on where it stopped.
    pub(super) fn new(passed_on: Option<String>) -> Self {
        Self {
            passed_on,
            ..Self::default()
        }
    }

    /// Recordings failed before `position`, for these reasons, oldest first.
    pub(super) fn come_to(&mut self, reasons: Vec<String>, position: u64) {
        let places = reasons.into_iter().map(|reason| (reason, position));
        self.ahead.extend(places);
    }

    /// Drops those ahead that the replay before this one has passed on where it stopped: the first
    /// that it named, all before it, and those that follow as long as it named them, too. It knows
    /// reasons only, so each text that it named counts for one failure: one may be passed on again,
    /// none is left out. `last` is the failure behind them, if the journal ends with one; `true` if
    /// it was passed on.
    fn drop_passed_on(&mut self, last: Option<&str>) -> bool {
        let Some(mut told) = self.passed_on.take() else {
            return false;
        };
        let reasons = self.ahead.iter().map(|(reason, _)| reason.as_str());
        let mut newest = None;
        for (place, reason) in reasons.chain(last).enumerate() {
            let text = ending::kept(&beginning(JournalError::given(reason)));
            match told.find(&text) {
                Some(at) => {
                    told.replace_range(at..at + text.len(), "");
                    newest = Some(place);
                }
                None if newest.is_some() => break,
                None => {}
            }
        }
        let Some(newest) = newest else {
            return false;
        };
        let is_last = newest == self.ahead.len();
        self.ahead.drain(..self.ahead.len().min(newest + 1));
        is_last
    }

    /// Something was delivered behind the place where the replay began.
    pub(super) fn delivered(&mut self) {
        self.passed_on = None;
    }

    /// The failures that were accepted, for the status.
    pub(super) fn note(&self, path: &str) -> Option<String> {
        (self.accepted > 0).then(|| {
            let failed = JournalError::earlier_failures(self.accepted, &self.last);
            format!("{path}: {failed}")
        })
    }
}

impl Replaying {
    /// Passes on the failures that stand before what follows, if there are any: as one, which names
    /// the newest first. `false` if an end request leaves no time.
    pub(super) fn pass_failures(&mut self, control: &Control) -> Result<bool, LinkError> {
        if !self.failures.ahead.is_empty() && !self.accepts_holes {
            self.failures.drop_passed_on(None);
        }
        self.pass_ahead(control)
    }

    /// As [`Self::pass_failures`], also those that the replay before this one has passed on.
    fn pass_ahead(&mut self, control: &Control) -> Result<bool, LinkError> {
        let ahead = std::mem::take(&mut self.failures.ahead);
        let Some((newest, position)) = ahead.last() else {
            return Ok(true);
        };
        let newest = JournalError::given(newest);
        if self.accepts_holes {
            self.failures.accepted += ahead.len() as u64;
            self.failures.last = format!("at position {position}: {newest}");
            let note = self.holes_note();
            control.report(|status| status.note = note);
            return Ok(true);
        }
        let mut text = beginning(newest);
        for (reason, _) in ahead.iter().rev().skip(1) {
            if text.len() > ending::TEXT_MAX {
                // The lane keeps no more.
                break;
            }
            text.push_str(&format!(" before that: {};", JournalError::given(reason)));
        }
        text.push_str(&format!(
            " a later one follows at position {position} of the journal: receive again to go on \
             with it, or use 'unfinished=accept'; {}",
            self.path
        ));
        self.fail(&text, control)
    }

    /// Whether a failure stands before what follows, and was not passed on yet.
    pub(super) fn has_failure_ahead(&self) -> bool {
        !self.failures.ahead.is_empty()
    }

    /// Whether the lane exists, so that a failure can be passed on before a message has come.
    pub(super) fn has_lane(&self) -> bool {
        self.is_open || self.is_resumed || self.failures.is_in_lane
    }

    /// The replay ends with this error, behind the failures that it came to: our own subscriber
    /// gets the error from there, with its kind. Without time for it the next replay finds it.
    pub(super) fn end_with(
        &mut self,
        error: LinkError,
        control: &Control,
    ) -> Result<(), LinkError> {
        let last = match &error {
            LinkError::Journal(why) => match &**why {
                JournalError::Failed { reason, .. } => Some(reason.as_str()),
                _ => None,
            },
            _ => None,
        };
        let is_passed_on = !self.accepts_holes && self.failures.drop_passed_on(last);
        if !self.pass_ahead(control)? || !self.wait_until_read(control) {
            control.leave_undelivered(0);
            return Ok(());
        }
        control.give_up(&error);
        // From here on our subscriber may have the error and close: the lane gets it all the same.
        if last.is_some() {
            if !is_passed_on {
                self.open()?;
                self.close_failed(&chain(&error));
            }
        } else if self.failures.is_in_lane && !self.is_open {
            // Subscribers elsewhere would take the failure there for the end.
            self.open()?;
            self.close_failed(&chain(&error));
        }
        Err(error)
    }

    /// Closes the lane as failed. `false` if an end request leaves no time.
    fn fail(&mut self, reason: &str, control: &Control) -> Result<bool, LinkError> {
        self.open()?;
        if !self.wait_until_read(control) {
            return Ok(false);
        }
        self.close_failed(reason);
        Ok(true)
    }

    /// The open lane ends with this failure.
    fn close_failed(&mut self, reason: &str) {
        self.failures.is_in_lane = true;
        self.destination.close_lane_failed(LANE, reason);
        self.is_open = false;
    }

    /// Waits until the failure in the lane is read; `false` if an end request leaves no time.
    fn wait_until_read(&mut self, control: &Control) -> bool {
        let mut before = None;
        while !self.destination.is_failure_read(LANE) {
            if control.must_stop() {
                return false;
            }
            if before.is_none() {
                before = Some(control.status().note);
                control.report(|status| WAITS.clone_into(&mut status.note));
            }
            control.pause(READ_NAP);
        }
        if let Some(note) = before {
            control.report(|status| status.note = note);
        }
        true
    }
}

/// The beginning of the text for a recording that failed for this reason: it is known again by it.
fn beginning(reason: &str) -> String {
    format!("the recording failed: {reason};")
}
