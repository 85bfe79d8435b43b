//! The far side of `tcp://` that reads: its number, its absence, and the failures that it was sent.

use super::Egress;
use crate::channel::attach::ShapeRole;
use crate::channel::slots::AbsentName;
use crate::error::{LinkError, OpenError};
use crate::ring::ending::Failure;
use crate::uri::{Config, Expire};
use std::sync::Arc;

/// A failure of a lane that a far side was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentFailure {
    /// [`crate::ring::ending::failed_state`]; 0 for none.
    state: u64,
    /// The far side has stored it.
    is_confirmed: bool,
}

impl Egress {
    /// Opens the place of a far side that is away, before it comes back. If it does not, the clock
    /// of its `expire` goes on.
    pub(crate) fn open_absent(ring: &Config, absent: &AbsentName) -> Result<Self, OpenError> {
        let mut ring = ring.clone();
        ring.name = Some(absent.name.clone());
        ring.expire = absent.expire;
        let mut egress = Self::open(&ring, ShapeRole::Names)?;
        egress.absent_since = absent.since;
        Ok(egress)
    }

    /// The far side `number` reads from here on, and asks for this `expire=`. If it comes back, it
    /// gets again what it may have missed; another gets the messages behind the failures that the
    /// one before confirmed.
    pub(crate) fn set_reader(&mut self, number: u64, expire: Expire) {
        self.absent_since = 0;
        self.subscriber.set_expire(expire);
        if self.reader.replace(number) == Some(number) {
            return;
        }
        for (reported, sent) in self.reported.iter_mut().zip(&self.sent) {
            if sent.is_confirmed {
                *reported = sent.state;
            }
        }
        self.sent.clear();
    }

    /// The far side was sent the failures `due`, and may have confirmed that it stored them.
    pub(crate) fn mark_failure_sent(&mut self, due: &[(usize, Failure)], is_confirmed: bool) {
        self.sent
            .resize(self.reported.len(), SentFailure::default());
        for (place, Failure { state, .. }) in due {
            self.sent[*place] = SentFailure {
                state: *state,
                is_confirmed,
            };
        }
    }

    /// Whether the far side has everything: each message is acknowledged, and each failure that is
    /// due was sent.
    pub(crate) fn is_settled(&mut self) -> bool {
        if self.map_lanes().is_err() {
            return false;
        }
        let due = self.due_failures();
        let is_sent = |(place, failure): &(usize, Failure)| {
            self.sent
                .get(*place)
                .is_some_and(|sent| sent.state == failure.state)
        };
        due.iter().all(is_sent) && matches!(self.is_acknowledged(), Ok(true))
    }

    /// Whether the far side has confirmed each failure that is due.
    pub(crate) fn is_confirmed(&mut self) -> bool {
        let due = self.due_failures();
        let is_confirmed = |(place, failure): &(usize, Failure)| {
            self.sent
                .get(*place)
                .is_some_and(|sent| sent.state == failure.state && sent.is_confirmed)
        };
        due.iter().all(is_confirmed)
    }

    /// Whether [`Egress::look`] reports a failure.
    pub(crate) fn is_failed(&mut self) -> bool {
        !self.due_failures().is_empty()
    }

    /// The failure that [`Egress::look`] reports, as that of a bridge.
    pub(crate) fn failure(&mut self) -> Option<LinkError> {
        let due = self.due_failures();
        let source = Arc::new(self.error_of(due)?);
        Some(LinkError::Receive { source })
    }

    /// Whether the stream has ended or failed, and the far side must get that.
    pub(crate) fn has_end(&mut self) -> bool {
        self.subscriber.is_at_end() || self.is_failed()
    }

    /// Whether every publisher has closed or failed, and everything is acknowledged.
    pub(crate) fn is_over(&mut self) -> bool {
        self.subscriber.is_at_end() || self.subscriber.is_failed_and_released()
    }
}
