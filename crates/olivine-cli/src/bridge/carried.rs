//! What bridges carry, as a line each second, where a person at a terminal waits for them.

use olivine::LinkStatus;
use olivine_bench::text;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Time between two lines of a bridge.
const EVERY: Duration = Duration::from_secs(1);

/// Messages and bytes of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    /// A side that sends counts bytes only.
    messages: u64,
    bytes: u64,
}

impl Amount {
    fn of(status: &LinkStatus) -> Self {
        let (messages, bytes) = (status.messages, status.bytes);
        Self { messages, bytes }
    }
}

/// The progress of one bridge.
#[derive(Debug)]
pub(super) struct Carried {
    /// Whether standard error is a terminal.
    is_shown: bool,
    since: Instant,
    before: Amount,
}

impl Carried {
    pub(super) fn new() -> Self {
        Self::begin(std::io::stderr().is_terminal(), Instant::now())
    }

    fn begin(is_shown: bool, now: Instant) -> Self {
        Self {
            is_shown,
            since: now,
            before: Amount::default(),
        }
    }

    /// The line that is due. `None` too soon after the last one, without new messages, and where no
    /// person sees it.
    pub(super) fn line(
        &mut self,
        place: &str,
        status: &LinkStatus,
        now: Instant,
    ) -> Option<String> {
        let elapsed = now.saturating_duration_since(self.since);
        if !self.is_shown || elapsed < EVERY {
            return None;
        }
        let carried = Amount::of(status);
        let before = std::mem::replace(&mut self.before, carried);
        self.since = now;
        (carried != before).then(|| line(place, before, carried, elapsed))
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn line(place: &str, before: Amount, carried: Amount, elapsed: Duration) -> String {
    let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
    let mut line = format!("{place}: ");
    if carried.messages > 0 {
        let rate = text::rate(per_s(before.messages, carried.messages));
        let messages = text::plural(carried.messages, "message");
        line.push_str(&format!("{messages}, {rate}, "));
    }
    let rate = text::byte_rate(per_s(before.bytes, carried.bytes));
    line.push_str(&format!("{}, {rate}", text::bytes(carried.bytes)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(messages: u64, bytes: u64) -> LinkStatus {
        let mut status = LinkStatus::default();
        (status.messages, status.bytes) = (messages, bytes);
        status
    }

    #[test]
    fn line_comes_each_second_in_which_something_was_carried_and_on_a_terminal_only() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut carried = Carried::begin(true, start);
        assert_eq!(carried.line("a", &status(5, 80), at(999)), None);
        assert_eq!(
            carried
                .line("a", &status(1_500, 3_072), at(1_000))
                .as_deref(),
            Some("a: 1,500 messages, 1.50 K/s, 3 KiB, 3.07 kB/s")
        );
        assert_eq!(carried.line("a", &status(9_000, 9_000), at(1_500)), None);
        assert_eq!(
            carried
                .line("a", &status(2_500, 5_072), at(3_000))
                .as_deref(),
            Some("a: 2,500 messages, 500 /s, 4.95 KiB, 1.00 kB/s")
        );
        assert_eq!(carried.line("a", &status(2_500, 5_072), at(4_000)), None);
        // A side that sends.
        assert_eq!(
            carried.line("a", &status(0, 6_072), at(5_000)).as_deref(),
            Some("a: 5.93 KiB, 1.00 kB/s")
        );
        let mut hidden = Carried::begin(false, start);
        assert_eq!(hidden.line("a", &status(5, 80), at(2_000)), None);
    }
}
