//! Round trips of many methods in one table.

use super::ranking::{Entry, Ranking, below, name};
use crate::output::table;
use olivine_bench::latency::Percentiles;
use olivine_bench::result::{Measured, Row};
use olivine_bench::text;

/// The middle of each method's round trips beside the floor, best first.
pub(in super::super) fn methods(rows: &[Row]) -> String {
    let mut out = "Round trip of a message and its answer, two processes\n".to_owned();
    for ranking in Ranking::all(rows, rank) {
        out.push_str(&format!(
            "\n{}, {}\n",
            text::bytes(ranking.size_bytes),
            ranking.main.text()
        ));
        let cells = (1..)
            .zip(&ranking.main.ranked)
            .map(|(index, entry)| cells(index, entry));
        let heads = [
            "#", "METHOD", "WAITS", "P50", "P99", "P99.9", "/FLOOR", "RUNS",
        ];
        out.push_str(&table(&heads, &[0, 3, 4, 5, 6], cells.collect()));
        out.push_str(&below(&ranking, figure));
    }
    out.push_str(
        "\nfloor: a bare cache line to and fro between the same two processes, in turns\n\
         P50: of the median run; P99, P99.9: of all samples\n\
         /FLOOR, RUNS: p50 to that, median of the runs, least and most\n\
         blank: too few samples above; a name that ends in how it waits says so itself\n",
    );
    out
}

fn cells(index: usize, entry: &Entry<'_>) -> Vec<String> {
    let (row, measured) = entry;
    let table = measured.round_trip.as_ref().map(|found| &found.percentiles);
    let ns = |pick: fn(&Percentiles) -> Option<f64>| {
        table.and_then(pick).map(text::nanos).unwrap_or_default()
    };
    let ratio = measured.ratio_p50;
    vec![
        index.to_string(),
        name(entry),
        waits(row),
        p50_ns(measured).map(text::nanos).unwrap_or_default(),
        ns(|table| table.p99_ns),
        ns(|table| table.p99_9_ns),
        ratio.map_or_else(|| "-".to_owned(), |r| text::three_figures(r.median)),
        ratio.map_or_else(String::new, |r| {
            format!(
                "{}–{}",
                text::three_figures(r.min),
                text::three_figures(r.max)
            )
        }),
    ]
}

/// How a method waits, where its name does not end in that.
pub(super) fn waits(row: &Row) -> String {
    let wait = row.parameters.wait.as_deref().unwrap_or_default();
    if row.method.ends_with(wait) {
        return String::new();
    }
    wait.to_owned()
}

/// Ratio to the floor; where there is none, the figure itself, after all that have one.
pub(super) fn rank(measured: &Measured) -> f64 {
    let ratio = measured.ratio_p50.map(|ratio| ratio.median);
    ratio.unwrap_or_else(|| p50_ns(measured).map_or(f64::MAX, |ns| ns * 1e9))
}

/// p50 of the median run, and how often the floor goes into it.
fn figure(measured: &Measured) -> String {
    let p50 = p50_ns(measured).map_or_else(|| "no p50".to_owned(), text::nanos);
    match measured.ratio_p50 {
        Some(ratio) => format!("{p50}, {} x floor", text::three_figures(ratio.median)),
        None => p50,
    }
}

fn p50_ns(measured: &Measured) -> Option<f64> {
    Some(measured.p50_ns()?.median)
}
