//! The points of a sweep beside what others published for them.

use super::ranking::{Entry, Place};
use super::rates::shape;
use crate::output::table;
use olivine_bench::latency::Percentiles;
use olivine_bench::result::{Measured, Row};
use olivine_bench::scenario::throughput::OWN;
use olivine_bench::text;

/// Where there is no figure of ours.
const BLANK: &str = "-";

/// The points of a sweep: one figure each, beside what was published for it.
pub(in super::super) fn points(rows: &[Row]) -> String {
    let heads = ["WHAT", "FIGURE", "HERE", "PUBLISHED"];
    let mut text = String::new();
    let mut sources: Vec<String> = Vec::new();
    for place in Place::of(rows) {
        let mut out = Vec::new();
        for entry in &place.ranked {
            let (row, measured) = entry;
            let mut name = what(entry);
            if row.published.is_empty() {
                let (figure, ours) = headline(measured);
                out.push(vec![name.clone(), figure.to_owned(), ours, String::new()]);
            }
            for published in &row.published {
                let line = format!("{}; machine: {}", published.source, published.machine);
                let known = sources.iter().position(|known| *known == line);
                let number = known.unwrap_or_else(|| {
                    sources.push(line);
                    sources.len() - 1
                });
                let (figure, ours, theirs) = beside(measured, &published.figure, published.value);
                let theirs = format!("{theirs} [{}]", number + 1);
                // Said once for all its figures.
                let name = std::mem::take(&mut name);
                out.push(vec![name, figure.to_owned(), ours, theirs]);
            }
        }
        text.push_str(&format!("{}\n", place.text()));
        text.push_str(&table(&heads, &[2, 3], out));
        text.push('\n');
    }
    text.push_str("-: too few samples, or not measured here; *: more processes than CPUs\n");
    for (number, source) in (1..).zip(sources) {
        text.push_str(&format!("[{number}] {source}\n"));
    }
    text
}

/// What a row measured, in a few words.
pub(super) fn what(entry: &Entry<'_>) -> String {
    let (row, _) = entry;
    let parameters = &row.parameters;
    let mut words = vec![row.scenario.clone()];
    if row.method != OWN {
        words.push(row.method.clone());
    }
    words.push(text::bytes(parameters.size_bytes));
    if let Some(rate) = parameters.rate_per_s {
        words.push(format!("at {}", text::rate(rate)));
    }
    if parameters.batch_count > 1 {
        words.push(format!("x {}", parameters.batch_count));
    }
    if parameters.publishers_count + parameters.subscribers_count > 2 {
        words.push(shape(parameters));
    }
    let settings = parameters
        .settings
        .split('&')
        .filter(|pair| !pair.is_empty());
    // How it waits and how large its ring is are told from their values.
    words.extend(settings.map(|pair| match pair.split_once('=') {
        Some(("wait" | "capacity", value)) => value.to_owned(),
        _ => pair.to_owned(),
    }));
    words.join(" ")
}

/// The figure that stands for a row, and its name.
fn headline(measured: &Measured) -> (&'static str, String) {
    let p50 = measured.p50_ns().map(|p50| p50.median);
    let rate = measured.messages_per_s.map(|rate| text::rate(rate.median));
    match (p50, rate) {
        (Some(ns), _) => ("p50", text::nanos(ns)),
        (None, Some(rate)) => ("messages", rate),
        (None, None) => ("", BLANK.to_owned()),
    }
}

/// The name of a published figure, ours of that name and theirs, both with their unit.
fn beside<'a>(measured: &Measured, figure: &'a str, value: f64) -> (&'a str, String, String) {
    let percentiles = measured.distribution().map(|(_, found)| &found.percentiles);
    let p = |pick: fn(&Percentiles) -> Option<f64>| percentiles.and_then(pick);
    let rate = measured.messages_per_s.map(|rate| rate.median);
    let p50 = measured.p50_ns().map(|p50| p50.median);
    // Round trips a second are those that the middle round trip leaves time for.
    let round_trips = p50.map(|ns| 1e9 / ns);
    let (name, ours, unit): (&str, Option<f64>, fn(f64) -> String) = match figure {
        "p50_ns" => ("p50", p50, text::nanos),
        "p99_ns" => ("p99", p(|p| p.p99_ns), text::nanos),
        "p99_9_ns" => ("p99.9", p(|p| p.p99_9_ns), text::nanos),
        // No mean of latencies is kept here: the middle stands beside it, and says so.
        "mean_ns" => ("p50 to mean", p50, text::nanos),
        "messages_per_s" => ("messages", rate, text::rate),
        "deliveries_per_s" => ("deliveries", measured.deliveries_per_s, text::rate),
        "bytes_per_s" => ("bytes", measured.bytes_per_s, text::byte_rate),
        "round_trips_per_s" => ("round trips", round_trips, text::rate),
        "requests_per_s" => ("requests", None, text::rate),
        other => (other, None, text::rate),
    };
    let ours = ours.map_or_else(|| BLANK.to_owned(), unit);
    (name, ours, unit(value))
}
