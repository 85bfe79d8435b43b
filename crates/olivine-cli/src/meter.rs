//! Counts of a running stream: totals, a row per interval, CSV, the summary at the end.

use crate::args::{ReportArgs, Stat};
use crate::failure::{Failure, Outcome};
use crate::output::{json_line, print};
use olivine::clock;
use olivine_bench::latency::Percentiles;
use olivine_bench::tally::Counts;
use olivine_bench::text;
use olivine_bench::worst::WorstReport;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Column names of the CSV file; a subscriber without latency leaves those cells empty.
const CSV_HEAD: &str = "time_s,messages_count,payload_bytes,messages_per_s,bytes_per_s,\
     lag_bytes,lost_count,\
                        min_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns\n";

/// Messages and payload bytes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// The figures of one interval.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    event: &'static str,
    time_s: f64,
    #[serde(rename = "messages_count")]
    messages: u64,
    payload_bytes: u64,
    messages_per_s: f64,
    bytes_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Percentiles>,
}

/// Additional figures of a subscriber.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    pub(crate) lag_bytes: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) latency: Option<Percentiles>,
}

impl Row {
    fn csv(&self) -> String {
        fn cell<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(String::new, |value| value.to_string())
        }
        let percentiles = match &self.latency {
            Some(table) => table.rows().map(|(_, ns)| cell(ns)).join(","),
            None => ",".repeat(6),
        };
        format!(
            "{:.3},{},{},{:.1},{:.1},{},{},{percentiles}\n",
            self.time_s,
            self.messages,
            self.payload_bytes,
            self.messages_per_s,
            self.bytes_per_s,
            cell(self.lag_bytes),
            cell(self.lost_count),
        )
    }

    fn text(&self) -> String {
        let mut line = format!(
            "{:>8.1} s  {:>10}  {:>10}",
            self.time_s,
            text::rate(self.messages_per_s),
            text::byte_rate(self.bytes_per_s)
        );
        if let Some(lag) = self.lag_bytes {
            line.push_str(&format!("  lag {:>9}", text::bytes(lag)));
        }
        if let Some(table) = &self.latency {
            let p50 = table.p50_ns.map_or_else(|| "-".to_owned(), text::nanos);
            line.push_str(&format!(
                "  p50 {p50:>8}  max {:>8}",
                text::nanos(table.max_ns)
            ));
        }
        if let Some(lost) = self.lost_count.filter(|lost| *lost > 0) {
            line.push_str(&format!("  lost {lost}"));
        }
        line.push('\n');
        line
    }
}

/// Destination of the reports of a command.
#[derive(Debug)]
pub(crate) struct Meter {
    json: bool,
    /// Payload goes to standard output, so reports go to standard error.
    stdout_taken: bool,
    interval: bool,
    csv: Option<(PathBuf, File)>,
    period_ns: u64,
    start_ns: u64,
    row_ns: u64,
    row_start: Totals,
}

impl Meter {
    /// Starts counting now; opens the CSV file.
    pub(crate) fn start(args: &ReportArgs, json: bool, stdout_taken: bool) -> Outcome<Self> {
        let open = |path: &PathBuf| -> Outcome<(PathBuf, File)> {
            let mut file = File::create(path).map_err(|error| csv_failure(path, error))?;
            let written = file.write_all(CSV_HEAD.as_bytes());
            written.map_err(|error| csv_failure(path, error))?;
            Ok((path.clone(), file))
        };
        let period = args.interval()?;
        let now = clock::monotonic_ns();
        Ok(Self {
            json,
            stdout_taken,
            interval: args.wants(Stat::Interval),
            csv: args.csv.as_ref().map(open).transpose()?,
            period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
            start_ns: now,
            row_ns: now,
            row_start: Totals::default(),
        })
    }

    /// Restarts counting: the time before was waiting.
    pub(crate) fn restart(&mut self) {
        self.start_ns = clock::monotonic_ns();
        self.row_ns = self.start_ns;
    }

    /// Nanoseconds since the start.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        clock::monotonic_ns() - self.start_ns
    }

    /// Whether rows are requested.
    pub(crate) fn has_rows(&self) -> bool {
        self.interval || self.csv.is_some()
    }

    /// Writes a row if the interval is over.
    #[inline]
    pub(crate) fn tick(&mut self, totals: Totals, extra: impl FnOnce() -> Extra) -> Outcome {
        if self.has_rows() && clock::monotonic_ns() - self.row_ns >= self.period_ns {
            return self.row(totals, extra());
        }
        Ok(())
    }

    /// Writes the last, shorter row, if it has any message.
    pub(crate) fn finish(&mut self, totals: Totals, extra: Extra) -> Outcome {
        if self.has_rows() && totals != self.row_start {
            self.row(totals, extra)
        } else {
            Ok(())
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn row(&mut self, totals: Totals, extra: Extra) -> Outcome {
        let now = clock::monotonic_ns();
        let seconds = (now - self.row_ns) as f64 / 1e9;
        let messages = totals.messages - self.row_start.messages;
        let payload_bytes = totals.bytes - self.row_start.bytes;
        let row = Row {
            event: "interval",
            time_s: ((now - self.start_ns) as f64 / 1e6).round() / 1e3,
            messages,
            payload_bytes,
            messages_per_s: per_s(messages, seconds),
            bytes_per_s: per_s(payload_bytes, seconds),
            lag_bytes: extra.lag_bytes,
            lost_count: extra.lost,
            latency: extra.latency,
        };
        self.row_ns = now;
        self.row_start = totals;
        if let Some((path, file)) = &mut self.csv {
            file.write_all(row.csv().as_bytes())
                .map_err(|error| csv_failure(path, error))?;
        }
        if self.interval {
            self.say(&row.text(), &row)
        } else {
            Ok(())
        }
    }

    /// Reports text or JSON, to the stream without payload.
    pub(crate) fn say(&self, text: &str, value: &impl Serialize) -> Outcome {
        let line = if self.json {
            json_line(value)?
        } else {
            text.to_owned()
        };
        if !self.stdout_taken {
            return print(&line);
        }
        // If standard error is closed, the payload still matters.
        let _ = std::io::stderr().write_all(line.as_bytes());
        Ok(())
    }
}

fn csv_failure(path: &std::path::Path, error: std::io::Error) -> Failure {
    Failure::Failed(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
}

/// The summary of a stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) event: &'static str,
    pub(crate) role: &'static str,
    pub(crate) uri: String,
    pub(crate) messages_count: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) messages_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) interrupted: bool,
    #[serde(flatten)]
    pub(crate) publisher: Option<PublisherSummary>,
    #[serde(flatten)]
    pub(crate) subscriber: Option<SubscriberSummary>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PublisherSummary {
    pub(crate) back_pressure_count: u64,
    pub(crate) back_pressure_ns: u64,
    pub(crate) wakes_count: u64,
    pub(crate) evicted_count: u64,
    pub(crate) reclaimed_count: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SubscriberSummary {
    pub(crate) overrun_bytes: u64,
    /// Why the stream failed before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst: Option<WorstReport>,
}

impl Summary {
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(crate) fn new(
        role: &'static str,
        uri: String,
        totals: Totals,
        elapsed_ns: u64,
        interrupted: bool,
    ) -> Self {
        let seconds = elapsed_ns as f64 / 1e9;
        Self {
            event: "summary",
            role,
            uri,
            messages_count: totals.messages,
            payload_bytes: totals.bytes,
            elapsed_ns,
            messages_per_s: per_s(totals.messages, seconds),
            bytes_per_s: per_s(totals.bytes, seconds),
            interrupted,
            publisher: None,
            subscriber: None,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(crate) fn text(&self) -> String {
        let verb = if self.role == "publisher" {
            "sent"
        } else {
            "received"
        };
        let mut lines = format!(
            "{verb} {}, {}, in {}: {}, {}{}\n",
            text::plural(self.messages_count, "message"),
            text::bytes(self.payload_bytes),
            text::nanos(self.elapsed_ns as f64),
            text::rate(self.messages_per_s),
            text::byte_rate(self.bytes_per_s),
            if self.interrupted {
                " (interrupted)"
            } else {
                ""
            },
        );
        if let Some(publisher) = self
            .publisher
            .as_ref()
            .filter(|p| p.back_pressure_count > 0)
        {
            lines.push_str(&format!(
                "back-pressure: {} for subscribers, {} in all\n",
                text::plural(publisher.back_pressure_count, "wait"),
                text::nanos(publisher.back_pressure_ns as f64),
            ));
        }
        if let Some(publisher) = self.publisher.as_ref().filter(|p| p.evicted_count > 0) {
            lines.push_str(&format!(
                "evicted {}\n",
                text::plural(publisher.evicted_count, "slow subscriber")
            ));
        }
        let Some(subscriber) = &self.subscriber else {
            return lines;
        };
        if subscriber.overrun_bytes > 0 {
            lines.push_str(&format!(
                "overrun: {} were not read\n",
                text::bytes(subscriber.overrun_bytes)
            ));
        }
        if let Some(counts) = &subscriber.verified {
            lines.push_str(&counts_line(counts));
        }
        if let Some(table) = &subscriber.latency {
            lines.push_str("latency from the intended send time:\n");
            lines.push_str(&percentile_lines(table));
        }
        if let Some(worst) = &subscriber.worst {
            lines.push_str(&worst.text());
        }
        lines
    }
}

/// `verified: 0 lost, …`
pub(crate) fn counts_line(counts: &Counts) -> String {
    format!(
        "verified {}: {} lost, {} repeated, {} reordered, {} corrupt\n",
        text::plural(counts.intact, "message"),
        text::count(counts.lost),
        text::count(counts.repeated),
        text::count(counts.reordered),
        text::count(counts.corrupt),
    )
}

/// A percentile table, one row per line; blank if too few samples are above.
pub(crate) fn percentile_lines(table: &Percentiles) -> String {
    let row = |(name, ns): (&str, Option<f64>)| {
        format!(
            "  {name:>6}  {:>9}",
            ns.map(text::nanos).unwrap_or_default()
        )
        .trim_end()
        .to_owned()
            + "\n"
    };
    table.rows().into_iter().map(row).collect()
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn per_s(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        (number as f64 / seconds * 10.0).round() / 10.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(latency: Option<Percentiles>) -> Row {
        Row {
            event: "interval",
            time_s: 1.5,
            messages: 10,
            payload_bytes: 320,
            messages_per_s: 6.7,
            bytes_per_s: 213.3,
            lag_bytes: latency.as_ref().map(|_| 64),
            lost_count: None,
            latency,
        }
    }

    fn percentiles() -> Percentiles {
        Percentiles {
            count: 100,
            min_ns: 80.0,
            p50_ns: Some(90.5),
            p90_ns: Some(120.0),
            p99_ns: None,
            p99_9_ns: None,
            p99_99_ns: None,
            max_ns: 2500.0,
            mean_ns: None,
            deviation_ns: None,
        }
    }

    #[test]
    fn every_csv_row_has_as_many_cells_as_the_head() {
        let cells = |line: &str| line.trim_end().split(',').count();
        for latency in [None, Some(percentiles())] {
            let line = row(latency).csv();
            assert_eq!(cells(&line), cells(CSV_HEAD), "{line}");
        }
        assert_eq!(
            row(Some(percentiles())).csv(),
            "1.500,10,320,6.7,213.3,64,,80,90.5,120,,,,2500\n"
        );
    }

    #[test]
    fn json_names_carry_their_units() {
        let mut summary = Summary::new(
            "subscriber",
            "shm://x".into(),
            Totals {
                messages: 4,
                bytes: 8,
            },
            2_000_000_000,
            false,
        );
        summary.subscriber = Some(SubscriberSummary {
            overrun_bytes: 0,
            failure: None,
            verified: Some(Counts::default()),
            worst: None,
            latency: Some(percentiles()),
        });
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(value["messages_per_s"], 2.0);
        assert_eq!(value["verified"]["lost_count"], 0);
        assert_eq!(value["latency"]["p50_ns"], 90.5);
        assert_eq!(value["latency"]["p99_99_ns"], serde_json::Value::Null);
        assert!(value.get("back_pressure_ns").is_none());
    }

    #[test]
    fn table_is_blank_for_too_few_samples() {
        let table = percentile_lines(&percentiles());
        assert!(table.contains("    50    90.5 ns\n"), "{table}");
        assert!(table.contains("  99.9\n"), "{table}");
        assert!(table.ends_with("   max    2.50 us\n"), "{table}");
    }
}
