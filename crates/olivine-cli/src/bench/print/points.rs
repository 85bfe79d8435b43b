//! The points of a sweep beside what others published for them.

use crate::output::table;
use olivine_bench::latency::Percentiles;
use olivine_bench::result::{Measured, Row};
use olivine_bench::text;

/// The points of a sweep: one figure each, beside what was published for it.
pub(in super::super) fn points(rows: &[Row]) -> String {
    let heads = ["SCENARIO", "METHOD", "WHAT", "CPUS", "OURS", "PUBLISHED"];
    let mut out = Vec::new();
    let mut sources: Vec<String> = Vec::new();
    for (row, measured) in rows.iter().filter_map(|row| Some((row, row.measured()?))) {
        let mut cells = vec![
            row.scenario.clone(),
            row.method.clone(),
            what(row),
            measured.placement.to_string(),
        ];
        if row.published.is_empty() {
            cells.extend([headline(measured), String::new()]);
            out.push(cells);
            continue;
        }
        for published in &row.published {
            let line = format!("{}; machine: {}", published.source, published.machine);
            let number = sources
                .iter()
                .position(|known| *known == line)
                .unwrap_or_else(|| {
                    sources.push(line);
                    sources.len() - 1
                });
            let (ours, theirs) = beside(measured, &published.figure, published.value);
            let mut cells = cells.clone();
            cells.extend([ours, format!("{theirs} [{}]", number + 1)]);
            out.push(cells);
        }
    }
    let mut text = table(&heads, &[4], out);
    for (number, source) in (1..).zip(sources) {
        text.push_str(&format!("\n[{number}] {source}"));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// What varies in a row, in a few words.
fn what(row: &Row) -> String {
    let parameters = &row.parameters;
    let mut words = vec![text::bytes(parameters.size_bytes)];
    if let Some(rate) = parameters.rate_per_s {
        words.push(format!("at {}", text::rate(rate)));
    }
    if parameters.batch_count > 1 {
        words.push(format!("x {}", parameters.batch_count));
    }
    if parameters.publishers_count + parameters.subscribers_count > 2 {
        let crowd = if parameters.oversubscribed {
            ", shared CPUs"
        } else {
            ""
        };
        words.push(format!(
            "{} -> {}{crowd}",
            parameters.publishers_count, parameters.subscribers_count
        ));
    }
    if !parameters.settings.is_empty() {
        words.push(parameters.settings.clone());
    }
    words.join(" ")
}

/// The figure that stands for a row.
fn headline(measured: &Measured) -> String {
    let p50 = measured
        .distribution()
        .and_then(|(_, found)| found.percentiles.p50_ns);
    let rate = measured.messages_per_s.map(|rate| text::rate(rate.median));
    p50.map(|ns| format!("p50 {}", text::nanos(ns)))
        .or(rate)
        .unwrap_or_default()
}

/// Our figure and a published one of the same name, both with their unit.
fn beside(measured: &Measured, figure: &str, value: f64) -> (String, String) {
    let percentiles = measured.distribution().map(|(_, found)| &found.percentiles);
    let p = |pick: fn(&Percentiles) -> Option<f64>| percentiles.and_then(pick);
    let rate = measured.messages_per_s.map(|rate| rate.median);
    // Round trips a second are those that the middle round trip leaves time for.
    let round_trips = p(|p| p.p50_ns).map(|ns| 1e9 / ns);
    let (ours, name, unit): (Option<f64>, &str, fn(f64) -> String) = match figure {
        "p50_ns" => (p(|p| p.p50_ns), "p50", text::nanos),
        "p99_ns" => (p(|p| p.p99_ns), "p99", text::nanos),
        "p99_9_ns" => (p(|p| p.p99_9_ns), "p99.9", text::nanos),
        // No mean of latencies is kept here: the middle stands beside it, and says so.
        "mean_ns" => (p(|p| p.p50_ns), "mean", text::nanos),
        "messages_per_s" => (rate, "messages", text::rate),
        "deliveries_per_s" => (measured.deliveries_per_s, "deliveries", text::rate),
        "bytes_per_s" => (measured.bytes_per_s, "bytes", text::byte_rate),
        "round_trips_per_s" => (round_trips, "round trips", text::rate),
        other => (None, other, text::rate),
    };
    let label = if figure == "mean_ns" { "p50" } else { name };
    let blank = if percentiles.is_some() && figure.starts_with('p') {
        "too few samples"
    } else {
        "not measured"
    };
    let ours = ours.map_or_else(
        || blank.to_owned(),
        |ours| format!("{label} {}", unit(ours)),
    );
    (ours, format!("{name} {}", unit(value)))
}
