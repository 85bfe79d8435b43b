//! Results for other programs: CSV for spreadsheets, `.hlog` for the plotters of `HdrHistogram`.

use super::{Measured, Placement, ResultFile, Row};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::io;
use std::time::{Duration, UNIX_EPOCH};

/// Columns of the CSV, in order. Names are those of the JSON, except `p50_ns`: it is that of the
/// median run, and `p50_ns_of_samples` that of the distribution.
const COLUMNS: [&str; 42] = [
    "scenario",
    "load",
    "method",
    "size_bytes",
    "batch_count",
    "rate_per_s",
    "ring_bytes",
    "wait",
    "publishers_count",
    "subscribers_count",
    "oversubscribed",
    "settings",
    "status",
    "reason",
    "placement",
    "slices_count",
    "runs",
    "samples",
    "count",
    "min_ns",
    "p50_ns",
    "p50_ns_min",
    "p50_ns_max",
    "p50_ns_of_samples",
    "p90_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
    "max_at_s",
    "max_cause",
    "ratio_p50",
    "floor_p50_ns",
    "messages_per_s",
    "messages_per_s_min",
    "messages_per_s_max",
    "deliveries_per_s",
    "bytes_per_s",
    "messages_per_floor_round_trip",
    "ratio_to_copy",
    "cpu_model",
    "commit",
];

/// One line a row, with a head line; what does not apply is empty.
#[must_use]
pub fn csv(file: &ResultFile) -> String {
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for row in &file.results {
        let mut cells = situation(row);
        match &row.outcome {
            super::Outcome::Failed { reason } => {
                cells.extend(["failed".to_owned(), reason.clone()]);
                cells.resize(COLUMNS.len() - 2, String::new());
            }
            super::Outcome::Measured(measured) => {
                cells.extend(["measured".to_owned(), String::new()]);
                cells.extend(figures(measured));
            }
        }
        cells.extend([file.machine.cpu_model.clone(), file.machine.commit.clone()]);
        let quoted: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        out.push_str(&quoted.join(","));
        out.push('\n');
    }
    out
}

fn situation(row: &Row) -> Vec<String> {
    let of = &row.parameters;
    vec![
        row.scenario.clone(),
        name_of(&row.load),
        row.method.clone(),
        of.size_bytes.to_string(),
        of.batch_count.to_string(),
        number(of.rate_per_s),
        of.ring_bytes
            .map(|bytes| bytes.to_string())
            .unwrap_or_default(),
        of.wait.clone().unwrap_or_default(),
        of.publishers_count.to_string(),
        of.subscribers_count.to_string(),
        of.oversubscribed.to_string(),
        of.settings.clone(),
    ]
}

fn figures(measured: &Measured) -> Vec<String> {
    let found = measured.distribution();
    let table = found.map(|(_, found)| &found.percentiles);
    let worst = measured.worst.as_ref();
    let rate = measured.messages_per_s;
    let p50 = measured.p50_ns();
    let runs = measured
        .ratio_p50
        .or(rate)
        .map_or(measured.runs.len(), |spread| spread.runs);
    vec![
        name_of(&measured.placement),
        measured.slices_count.to_string(),
        runs.to_string(),
        found
            .map(|(what, _)| what.replace(' ', "_"))
            .unwrap_or_default(),
        table
            .map(|table| table.count.to_string())
            .unwrap_or_default(),
        number(table.map(|table| table.min_ns)),
        number(p50.map(|p50| p50.median)),
        number(p50.map(|p50| p50.min)),
        number(p50.map(|p50| p50.max)),
        number(table.and_then(|table| table.p50_ns)),
        number(table.and_then(|table| table.p90_ns)),
        number(table.and_then(|table| table.p99_ns)),
        number(table.and_then(|table| table.p99_9_ns)),
        number(table.and_then(|table| table.p99_99_ns)),
        number(table.map(|table| table.max_ns)),
        number(worst.map(|worst| worst.at_s)),
        worst.map(|worst| name_of(&worst.cause)).unwrap_or_default(),
        number(measured.ratio_p50.map(|ratio| ratio.median)),
        number(
            measured
                .floor_round_trip
                .as_ref()
                .and_then(|floor| floor.p50_ns),
        ),
        number(rate.map(|rate| rate.median)),
        number(rate.map(|rate| rate.min)),
        number(rate.map(|rate| rate.max)),
        number(measured.deliveries_per_s),
        number(measured.bytes_per_s),
        number(
            measured
                .messages_per_floor_round_trip
                .map(|ratio| ratio.median),
        ),
        number(measured.ratio_to_copy.map(|ratio| ratio.median)),
    ]
}

/// A value's name in the JSON.
fn name_of(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value
        .as_ref()
        .and_then(|value| value.as_str())
        .unwrap_or_default()
        .to_owned()
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A cell that holds commas, quotes or line ends is quoted, as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Writes every distribution as one interval of a histogram log, version 1.3, values in
/// nanoseconds.
///
/// Each line is tagged with method, parameters and placement, and stamped with the time at which
/// the measurement began.
///
/// # Errors
///
/// Errors of `out`.
pub fn hlog(file: &ResultFile, out: &mut impl io::Write) -> io::Result<()> {
    // The log format asks for the compressed form; other libraries refuse the plain one.
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_secs(file.started_unix_s);
    let mut builder = IntervalLogWriterBuilder::new();
    let comment = format!(
        "{}; values in nanoseconds; {}",
        file.machine.command, file.machine.cpu_model
    );
    builder.add_comment(&comment).with_start_time(start);
    // The largest value is written with each interval; nanoseconds are divided by nothing.
    builder.with_max_value_divisor(1.0);
    let mut writer = builder.begin_log_with(out, &mut serializer)?;
    for row in &file.results {
        let Some((measured, (_, found))) = row
            .measured()
            .and_then(|measured| Some((measured, measured.distribution()?)))
            // Buckets may have been left out to make a file small.
            .filter(|(_, (_, found))| !found.buckets_ns.is_empty())
        else {
            continue;
        };
        let name = tag(row, measured.placement);
        let recorder = found.recorder_ns();
        let length = Duration::from_secs_f64(file.seconds_per_variant.max(0.0));
        writer
            .write_histogram(
                recorder.histogram(),
                Duration::ZERO,
                length,
                Tag::new(&name),
            )
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

/// A name without the characters that a tag may not hold: commas, spaces and line ends.
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
    let name = parts.join("/");
    name.replace([',', ' ', '\r', '\n'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_survive() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(name_of(&Placement::SharedL3), "shared_l3");
    }
}
