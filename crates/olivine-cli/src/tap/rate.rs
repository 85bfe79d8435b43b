//! `olivine tap --hz`: how many messages pass, how long they are, and the longest pause.

use olivine::admin::Tapped;
use olivine_bench::text;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Time of a row.
const PERIOD: Duration = Duration::from_secs(1);

/// Counts of a period.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    begun: Instant,
    counts: Counts,
    /// When a look found a message last.
    last: Option<Instant>,
    /// Whether the current look found a message.
    found: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    payload_bytes: u64,
    payload_min: Option<u64>,
    payload_max: u64,
    missed_bytes: u64,
    damaged: u64,
    pause_max: Duration,
}

/// A row of figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    event: &'static str,
    period_ns: u64,
    #[serde(rename = "messages_count")]
    messages: u64,
    payload_bytes: u64,
    messages_per_s: f64,
    payload_bytes_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_min_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_max_bytes: Option<u64>,
    /// Longest time without a message, to the interval between two looks.
    pause_max_ns: u64,
    /// Frames that were overwritten before the look; they are in no other figure.
    missed_bytes: u64,
    #[serde(rename = "damaged_count")]
    damaged: u64,
}

impl Rate {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            counts: Counts::default(),
            last: None,
            found: false,
        }
    }

    pub(super) fn take(&mut self, seen: Tapped<'_>) {
        let counts = &mut self.counts;
        match seen {
            Tapped::Message(message) => {
                let bytes = message.payload_bytes;
                counts.messages += 1;
                counts.payload_bytes += bytes;
                counts.payload_min = Some(counts.payload_min.map_or(bytes, |min| min.min(bytes)));
                counts.payload_max = counts.payload_max.max(bytes);
            }
            Tapped::Missed { bytes, .. } => counts.missed_bytes += bytes,
            Tapped::Damaged { .. } => counts.damaged += 1,
            _ => return,
        }
        self.found = true;
    }

    /// After each look: the row of a period that is over.
    pub(super) fn row(&mut self) -> Option<Row> {
        self.row_at(Instant::now())
    }

    fn row_at(&mut self, now: Instant) -> Option<Row> {
        let since = now.duration_since(self.last.unwrap_or(self.begun));
        self.counts.pause_max = self.counts.pause_max.max(since);
        if std::mem::take(&mut self.found) {
            self.last = Some(now);
        }
        let period = now.duration_since(self.begun);
        if period < PERIOD {
            return None;
        }
        self.begun = now;
        let counts = std::mem::take(&mut self.counts);
        #[allow(clippy::cast_precision_loss, reason = "a rate")]
        let per_s = |count: u64| count as f64 / period.as_secs_f64();
        Some(Row {
            event: "rate",
            period_ns: nanos(period),
            messages: counts.messages,
            payload_bytes: counts.payload_bytes,
            messages_per_s: per_s(counts.messages),
            payload_bytes_per_s: per_s(counts.payload_bytes),
            payload_min_bytes: counts.payload_min,
            payload_max_bytes: counts.payload_min.map(|_| counts.payload_max),
            pause_max_ns: nanos(counts.pause_max),
            missed_bytes: counts.missed_bytes,
            damaged: counts.damaged,
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Row {
    pub(super) fn text(&self) -> String {
        let mut line = format!(
            "{:>10}  {:>10}",
            text::rate(self.messages_per_s),
            text::byte_rate(self.payload_bytes_per_s)
        );
        if let (Some(min), Some(max)) = (self.payload_min_bytes, self.payload_max_bytes) {
            line.push_str(&format!("  {} to {}", text::bytes(min), text::bytes(max)));
        }
        #[allow(clippy::cast_precision_loss, reason = "for display")]
        let pause = text::nanos(self.pause_max_ns as f64);
        line.push_str(&format!("  longest pause {pause}"));
        if self.missed_bytes > 0 {
            line.push_str(&format!("  missed {}", text::bytes(self.missed_bytes)));
        }
        if self.damaged > 0 {
            line.push_str(&format!("  damaged {}", self.damaged));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_rates_of_its_period_and_the_longest_pause() {
        let mut rate = Rate::new();
        let start = rate.begun;
        let after = |ms| start + Duration::from_millis(ms);
        rate.take(Tapped::Missed {
            lane: 0,
            bytes: 512,
        });
        assert!(rate.row_at(after(100)).is_none());
        assert!(rate.row_at(after(800)).is_none());
        rate.take(Tapped::Missed {
            lane: 0,
            bytes: 512,
        });
        assert!(rate.row_at(after(900)).is_none());
        let row = rate.row_at(after(2000)).unwrap();
        assert_eq!(row.period_ns, 2_000_000_000);
        assert_eq!((row.missed_bytes, row.messages), (1024, 0));
        assert_eq!(row.pause_max_ns, 1_100_000_000);
        assert!(
            row.text().ends_with("longest pause 1.10 s  missed 1 KiB"),
            "{}",
            row.text()
        );
        // The pause goes on in the next period.
        assert!(rate.row_at(after(2500)).is_none());
        assert_eq!(
            rate.row_at(after(3000)).unwrap().pause_max_ns,
            2_100_000_000
        );
    }
}
