//! Results for other programs: CSV for spreadsheets, `.hlog` for the plotters of `HdrHistogram`.

use super::{Distribution, Measured, Outcome, Placement, ResultFile, Row, STATISTICS, Worst};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A column of the CSV: its head, and its cell in a row.
type Column = (&'static str, fn(&Row) -> String);
/// Columns before the statistics.
const BEFORE: [Column; 21] = [
    ("scenario", |row| row.scenario.clone()),
    ("load", |row| name_of(&row.load)),
    ("method", |row| row.method.clone()),
    ("size_bytes", |row| row.parameters.size_bytes.to_string()),
    ("batch_count", |row| row.parameters.batch_count.to_string()),
    ("rate_per_s", |row| text(row.parameters.rate_per_s)),
    ("ring_bytes", |row| text(row.parameters.ring_bytes)),
    ("wait", |row| text(row.parameters.wait.as_ref())),
    ("publishers_count", |row| {
        row.parameters.publishers_count.to_string()
    }),
    ("subscribers_count", |row| {
        row.parameters.subscribers_count.to_string()
    }),
    ("connections_count", |row| {
        text(row.parameters.connections_count)
    }),
    ("depth_count", |row| text(row.parameters.depth_count)),
    ("messages_count", |row| text(row.parameters.messages_count)),
    ("oversubscribed", |row| {
        row.parameters.oversubscribed.to_string()
    }),
    ("settings", |row| row.parameters.settings.clone()),
    ("status", |row| {
        text(Some(if row.measured().is_some() {
            "measured"
        } else {
            "failed"
        }))
    }),
    ("reason", |row| match &row.outcome {
        Outcome::Measured(_) => String::new(),
        Outcome::Failed { reason } => reason.clone(),
    }),
    ("placement", |row| {
        text(row.measured().map(|found| name_of(&found.placement)))
    }),
    ("runs", |row| text(row.measured().map(runs))),
    ("max_at_s", |row| text(worst(row).map(|worst| worst.at_s))),
    ("max_cause", |row| {
        text(worst(row).map(|worst| name_of(&worst.cause)))
    }),
];
/// And behind them.
const BEHIND: [&str; 3] = ["p50_ns_of_samples", "cpu_model", "commit"];

/// One line a row, with a head line; what does not apply is empty. Each statistic is a column; one
/// of runs also has the least and the most run.
///
/// # Errors
///
/// None: it is written to memory.
pub fn csv(file: &ResultFile) -> io::Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let statistics = STATISTICS.iter().flat_map(|statistic| {
        let ends: &[&str] = if statistic.is_of_runs() {
            &["", "_min", "_max"]
        } else {
            &[""]
        };
        ends.iter().map(|end| format!("{}{end}", statistic.name))
    });
    let before = BEFORE.iter().map(|(head, _)| (*head).to_owned());
    let behind = BEHIND.iter().map(|head| (*head).to_owned());
    out.write_record(before.chain(statistics).chain(behind))?;
    for row in &file.results {
        let mut cells: Vec<String> = BEFORE.iter().map(|(_, of)| of(row)).collect();
        cells.extend(figures(row.measured()));
        cells.extend([file.machine.cpu_model.clone(), file.machine.commit.clone()]);
        out.write_record(cells)?;
    }
    out.into_inner().map_err(|error| error.into_error())
}

fn worst(row: &Row) -> Option<&Worst> {
    row.measured()?.worst.as_ref()
}

/// Runs behind the figures.
fn runs(measured: &Measured) -> usize {
    let spreads = measured.values.values();
    spreads.map(|spread| spread.runs).max().unwrap_or(0)
}

fn figures(measured: Option<&Measured>) -> Vec<String> {
    let mut cells = Vec::new();
    for statistic in STATISTICS {
        cells.push(text(
            measured.and_then(|measured| measured.value(statistic)),
        ));
        if statistic.is_of_runs() {
            let spread = measured.and_then(|measured| measured.spread(statistic.name));
            cells.push(text(spread.map(|spread| spread.min)));
            cells.push(text(spread.map(|spread| spread.max)));
        }
    }
    let found = measured.and_then(|measured| measured.distribution.as_ref());
    cells.push(text(found.and_then(|found| found.percentiles.p50_ns)));
    cells
}

/// A value's name in the JSON.
fn name_of(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    let name = value.as_ref().and_then(|value| value.as_str());
    name.unwrap_or_default().to_owned()
}

/// A value; empty if there is none.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Writes every distribution as one interval of a histogram log.
///
/// Each line is tagged with method, parameters and placement, and stamped with the time at which
/// the measurement began.
///
/// # Errors
///
/// Errors of `out`.
pub fn hlog(file: &ResultFile, out: &mut impl io::Write) -> io::Result<()> {
    let start = UNIX_EPOCH + Duration::from_secs(file.started_unix_s);
    let comment = format!(
        "{}; values in nanoseconds; {}",
        file.machine.command, file.machine.cpu_model
    );
    let length = Duration::from_secs_f64(file.seconds_per_variant.max(0.0));
    let interval = |row| {
        let measured = Row::measured(row)?;
        let found = measured.distribution.as_ref()?;
        Some((tag(row, measured.placement), length, found))
    };
    hlog_of(
        &comment,
        start,
        file.results.iter().filter_map(interval),
        out,
    )
}

/// Writes distributions as a histogram log, version 1.3, values in nanoseconds. Each has its tag
/// and the length of its measurement.
///
/// # Errors
///
/// Errors of `out`.
pub fn hlog_of<'a>(
    comment: &str,
    start: SystemTime,
    intervals: impl Iterator<Item = (String, Duration, &'a Distribution)>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    // The log format asks for the compressed form; other libraries refuse the plain one.
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(comment).with_start_time(start);
    // The largest value is written with each interval; nanoseconds are divided by nothing.
    builder.with_max_value_divisor(1.0);
    let mut writer = builder.begin_log_with(out, &mut serializer)?;
    // Buckets may have been left out to make a file small.
    for (name, length, found) in intervals.filter(|(_, _, found)| !found.buckets_ns.is_empty()) {
        let recorder = found.recorder_ns();
        // A tag may not hold these.
        let name = name.replace([',', ' ', '\r', '\n'], "_");
        let (histogram, tag) = (recorder.histogram(), Tag::new(&name));
        let written = writer.write_histogram(histogram, Duration::ZERO, length, tag);
        written.map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

/// The name of a row.
fn tag(row: &Row, placement: Placement) -> String {
    let mut parts = vec![row.scenario.clone(), row.method.clone()];
    parts.push(format!("{}B", row.parameters.size_bytes));
    parts.extend(row.parameters.rate_per_s.map(|rate| format!("{rate}per_s")));
    parts.extend(
        row.parameters
            .ring_bytes
            .map(|bytes| format!("ring{bytes}")),
    );
    parts.extend(row.parameters.wait.clone());
    if !row.parameters.settings.is_empty() {
        parts.push(row.parameters.settings.clone());
    }
    parts.push(name_of(&placement));
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_json() {
        assert_eq!(name_of(&Placement::SharedL3), "shared_l3");
    }
}
