//! Lanes that are closed with a failure: of one publisher, of the whole source, or of the bridge.

#[cfg(feature = "tcp")]
use super::SourcePosition;
use super::{Ingress, Lane, NotTaken};
use crate::channel::publisher::Publisher;
#[cfg(feature = "journal")]
use crate::channel::raw::{BridgeLaneOwner, kept_failure};
use crate::error::{OpenError, chain};
#[cfg(feature = "journal")]
use crate::ring::ending;
use std::borrow::Cow;

/// What becomes of a lane that is closed with the failure of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// It stays reserved for the source, with its position.
    Kept,
    /// Other publishers may take it.
    Freed,
}

impl Ingress {
    /// Whether the failure in an open lane is read, which a newer one would replace:
    /// [`Publisher::ask_failure_read`].
    #[cfg(feature = "journal")]
    pub(crate) fn is_failure_read(&mut self, index: u32) -> bool {
        let lanes = self.lanes.iter_mut().filter(|lane| lane.index == index);
        let mut publishers = lanes.filter_map(|lane| lane.publisher.as_mut());
        publishers.all(Publisher::ask_failure_read)
    }

    /// From here on a failure that closes a lane also names the one before it, unless that was
    /// read: a lane keeps one.
    #[cfg(feature = "journal")]
    pub(crate) fn keep_unread_failures(&mut self) {
        self.keeps_unread_failures = true;
    }

    /// The failure with which the bridge before this one closed a lane.
    #[cfg(feature = "journal")]
    pub(crate) fn kept_failure(&self, index: u32) -> Option<String> {
        let (source, lane) = (self.source, index);
        let kept = self.is_failed(index);
        kept.then(|| kept_failure(&self.attached, BridgeLaneOwner { source, lane }))?
    }

    /// The publisher of an open lane of the source has failed: closes the lane with this reason,
    /// and keeps its position. The source may go on with it.
    pub(crate) fn close_lane_failed(&mut self, index: u32, reason: &str) {
        let keeps = self.keeps_unread_failures();
        let mut lanes = self.lanes.iter_mut();
        if let Some(lane) = lanes.find(|lane| lane.index == index)
            && let Some(publisher) = lane.publisher.take()
        {
            lane.partial = None;
            lane.is_failed = true;
            let reason = with_unread(&publisher, reason, keeps);
            publisher.pass_on_failure(&reason);
        }
    }

    /// A failure cuts a lane of the source off at this point: closes it with this reason, and makes
    /// it available to others.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Ring`] if it was closed and cannot be opened again.
    pub(crate) fn fail_lane(&mut self, index: u32, reason: &str) -> Result<(), NotTaken> {
        if let Some(place) = self.lanes.iter().position(|lane| lane.index == index) {
            if self.lanes[place].publisher.is_none() {
                self.lanes[place] = self.open_lane(index)?;
            }
            if let Some(mut publisher) = self.lanes.swap_remove(place).publisher {
                publisher.forget_origin();
                publisher.fail(reason);
            }
        }
        Ok(())
    }

    /// The far side of these lanes does not come back: closes each lane without an end with this
    /// reason, and makes all of them available to others. Returns where it would continue.
    #[cfg(feature = "tcp")]
    pub(crate) fn abandon(mut self, reason: &str) -> Vec<SourcePosition> {
        // A lane without an incarnation got no frames.
        let known = self.positions().filter(|known| known.incarnation != 0);
        let known = known.collect();
        self.fail_open_lanes(reason, AfterFailure::Freed);
        self.end();
        known
    }

    /// The source's channel has failed: closes each lane without an end with this reason. If every
    /// lane has ended, or none was seen, one lane reports it.
    ///
    /// # Errors
    ///
    /// That lane cannot be opened: nothing reports the failure.
    pub(crate) fn fail_lanes(
        &mut self,
        reason: &str,
        after: AfterFailure,
    ) -> Result<(), OpenError> {
        if !self.lanes.iter().any(Lane::is_unfinished) {
            let index = self.lanes.first().map_or(0, |lane| lane.index);
            let opened = match self
                .lanes
                .first_mut()
                .and_then(|lane| lane.publisher.take())
            {
                // It had ended before this bridge opened it.
                Some(publisher) => Lane::of(index, publisher),
                None => self.open_lane(index)?,
            };
            match self.lanes.first_mut() {
                Some(lane) => *lane = opened,
                None => self.lanes.push(opened),
            }
        }
        self.fail_open_lanes(reason, after);
        Ok(())
    }

    /// Messages of the source are missing: closes its lanes as [`Self::fail_lanes`] does, forgets
    /// where it stopped, and makes all of them available to others.
    ///
    /// # Errors
    ///
    /// No lane reports it.
    #[cfg(feature = "tcp")]
    pub(crate) fn lose(&mut self, reason: &str) -> Result<(), OpenError> {
        if self.lanes.is_empty() {
            return Ok(());
        }
        let told = self.fail_lanes(reason, AfterFailure::Freed);
        self.end();
        told
    }

    /// Whether a lane has reported that the source failed, or none was ever seen.
    fn has_reported_failure(&self) -> bool {
        self.lanes.is_empty() || self.lanes.iter().any(|lane| lane.is_failed)
    }

    /// Closes each lane without an end with this reason.
    fn fail_open_lanes(&mut self, reason: &str, after: AfterFailure) {
        let keeps = self.keeps_unread_failures();
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_unfinished()) {
            let Some(mut publisher) = lane.publisher.take() else {
                continue;
            };
            lane.partial = None;
            lane.is_failed = true;
            if after == AfterFailure::Freed {
                publisher.forget_origin();
            }
            let reason = with_unread(&publisher, reason, keeps);
            publisher.fail(&reason);
        }
    }

    fn keeps_unread_failures(&self) -> bool {
        #[cfg(feature = "journal")]
        return self.keeps_unread_failures;
        #[cfg(not(feature = "journal"))]
        false
    }

    /// The bridge ends: closes the open lanes with the reason of its failure, or leaves them to the
    /// next bridge.
    pub(super) fn stop_lanes(&mut self) {
        match self.failure() {
            // A bridge that ended in order has closed every lane. If it failed then, another stream
            // would have followed: one lane reports the failure, unless one did so already.
            Some(reason) if self.control.has_failed() && !self.has_reported_failure() => {
                // A lane that cannot be opened reports nothing.
                let _ = self.fail_lanes(&reason, AfterFailure::Kept);
            }
            Some(reason) => self.fail_open_lanes(&reason, AfterFailure::Kept),
            None => {
                for lane in self.lanes.iter_mut().filter(|lane| lane.is_unfinished()) {
                    if let Some(publisher) = lane.publisher.take() {
                        publisher.leave_open();
                    }
                }
            }
        }
    }

    /// Reason with which the open lanes are closed as failed; `None` if they are left to the next
    /// bridge.
    fn failure(&self) -> Option<String> {
        match self.control.failure() {
            Some(failure) => Some(chain(&failure)),
            None if self.control.stopping().is_some() => None,
            None => Some("it ended before its source, without a reason".to_owned()),
        }
    }
}

/// `reason`, and the lane's failure before it if `keeps` and that may be unread.
fn with_unread<'a>(publisher: &Publisher, reason: &'a str, keeps: bool) -> Cow<'a, str> {
    #[cfg(feature = "journal")]
    if let Some(before) = publisher.unread_failure().filter(|_| keeps) {
        let before = before.reason;
        return match before.contains(&*ending::printable(reason)) {
            true => before.into(),
            false => format!("{reason}; before that: {before}").into(),
        };
    }
    let _ = (publisher, keeps);
    reason.into()
}
