//! Attempts to reach a far side: reports that it is away, and repeats with a growing pause.

use crate::channel::attach::random_id;
use crate::link::{Control, LinkStage};
use std::time::{Duration, Instant};

/// First and longest pause between attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Attempts to reach one far side, with a growing random pause between them.
#[derive(Debug)]
pub struct ReconnectBackoff<'a> {
    control: &'a Control,
    /// After a request to end: the longest backoff to wait for.
    close_timeout: Duration,
    pause: Duration,
    /// Connections made before the current attempt.
    connections: u64,
    since: Option<Instant>,
}

impl<'a> ReconnectBackoff<'a> {
    /// No attempt has been made yet. `close_timeout`: after a request to end, how long to wait for
    /// a far side that is away ([`Config::close_timeout`](crate::Config::close_timeout)).
    pub fn new(control: &'a Control, close_timeout: Duration) -> Self {
        Self {
            control,
            close_timeout,
            pause: PAUSE_FIRST,
            connections: 0,
            since: None,
        }
    }

    /// An attempt begins.
    pub fn begin(&mut self) {
        self.connections = self.control.status().connections;
    }

    /// The attempt failed, or its connection broke: reports `note`, and pauses. Returns `false` if
    /// no other attempt follows: an end is requested, and everything `is_delivered` or the far side
    /// is away for too long.
    pub fn may_retry(&mut self, note: String, is_delivered: impl FnOnce() -> bool) -> bool {
        let was_connected = self.control.status().connections > self.connections;
        self.control.report(|status| {
            status.stage = LinkStage::Waiting;
            status.peers = 0;
            status.failures += 1;
            status.note = note;
        });
        self.control.tried();
        if was_connected {
            (self.pause, self.since) = (PAUSE_FIRST, None);
        }
        let away = self.since.get_or_insert_with(Instant::now).elapsed();
        let asked = self.control.stopping().is_some();
        if asked && (is_delivered() || away > self.close_timeout) {
            return false;
        }
        // Random, because many connections may lose the same far side at once.
        let share = u32::try_from(random_id() % 128).unwrap_or(0);
        let mut pause = self.pause * (128 + share) / 256;
        if asked {
            // One more look once it has been away for too long, not later.
            pause = pause.min(self.close_timeout - away);
        }
        self.control.pause(pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        !self.control.must_stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Stop;

    const HOUR: Duration = Duration::from_secs(3600);

    /// The pause before the next attempt went on, up to a second.
    #[test]
    fn deadline_of_a_request_to_end_ends_a_pause() {
        let control = Control::new().unwrap();
        control.stop(Stop::Delivered(Some(Instant::now())));
        control.pause(HOUR);
    }

    /// After the deadline a wait of nothing would be one of many: a far side that is silent then
    /// gets a moment to read the last block.
    #[cfg(feature = "tcp")]
    #[test]
    fn waits_end_at_a_deadline_that_is_to_come() {
        let until = |deadline| {
            let control = Control::new().unwrap();
            control.stop(Stop::Delivered(deadline));
            control.until_deadline(HOUR * 2)
        };
        assert!(until(Some(Instant::now() + HOUR)) <= HOUR);
        assert_eq!(until(Some(Instant::now())), HOUR * 2);
        assert_eq!(until(None), HOUR * 2);
    }

    #[test]
    fn backoff_reports_waiting_and_ends_on_request_after_delivery() {
        let control = Control::new().unwrap();
        let mut backoff = ReconnectBackoff::new(&control, Duration::from_secs(3600));
        backoff.begin();
        assert!(backoff.may_retry("waiting for x".into(), || false));
        assert_eq!(backoff.pause, PAUSE_FIRST * 2);
        let status = control.status();
        assert_eq!(
            (status.stage, status.note.as_str(), status.failures),
            (LinkStage::Waiting, "waiting for x", 1)
        );
        backoff.begin();
        control.connected("connected to x".into());
        assert_eq!(control.status().peers, 1);
        assert!(
            backoff.may_retry(String::new(), || true),
            "no end was requested"
        );
        assert_eq!(backoff.pause, PAUSE_FIRST * 2, "the pause begins anew");
        assert_eq!(control.status().peers, 0);
        control.stop(Stop::Delivered(None));
        assert!(
            backoff.may_retry(String::new(), || false),
            "something is left"
        );
        assert!(!backoff.may_retry(String::new(), || true));
        backoff.close_timeout = Duration::ZERO;
        assert!(
            !backoff.may_retry(String::new(), || false),
            "away for too long"
        );
    }
}
