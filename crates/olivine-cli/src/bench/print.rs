//! Results of scenarios as people read them.

use crate::output::table;
use olivine_bench::floor::Placement;
use olivine_bench::latency::Percentiles;
use olivine_bench::scenario::Failed;
use olivine_bench::scenario::floor::{COPY_BYTES, COPY_RING_BYTES, FloorResult};
use olivine_bench::scenario::latency::LatencyResult;
use olivine_bench::scenario::pingpong::PingPongResult;
use olivine_bench::scenario::throughput::ThroughputResult;
use olivine_bench::spread::Spread;
use olivine_bench::text;

pub(super) fn floor(result: &FloorResult) -> String {
    let mut out = "The machine without a channel\n".to_owned();
    for line in &result.cache_line {
        out.push_str(&format!(
            "\nbare cache line, round trip, {}\n",
            place(line.placement, line.slices)
        ));
        out.push_str(&distributions(&[("round trip", &line.round_trip)]));
        out.push_str(&format!(
            "p50 over the runs: {}\n",
            spread(&line.round_trip_p50_ns, text::nanos)
        ));
    }
    let row = |what: String, value: String| vec![what, value];
    let rows = vec![
        row(
            format!(
                "copy of {} within {}",
                text::bytes(COPY_BYTES as u64),
                text::bytes(COPY_RING_BYTES as u64)
            ),
            spread(&result.copy_bytes_per_s, text::byte_rate),
        ),
        row(
            "empty system call".into(),
            spread(&result.system_call_ns, text::nanos),
        ),
        row(
            "clock reading".into(),
            spread(&result.clock_cost_ns, text::nanos),
        ),
    ];
    out.push('\n');
    out.push_str(&table(&["WHAT", "MEDIAN (RUNS)"], &[], rows));
    out
}

pub(super) fn pingpong(results: &[PingPongResult]) -> String {
    let mut out =
        "Round trip of a message and its answer: claim, check, answer, check\n".to_owned();
    for result in results {
        out.push_str(&format!(
            "\n{}, {}, {}\n",
            text::bytes(result.variant.size_bytes as u64),
            result.variant.settings,
            place(result.placement, result.slices)
        ));
        out.push_str(&distributions(&[
            ("message", &result.round_trip),
            ("floor", &result.floor_round_trip),
        ]));
        out.push_str(&ratio(
            result.placement,
            "p50 to the floor's",
            result.ratio_p50.as_ref(),
        ));
    }
    out.push_str("\nfloor: a bare cache line to and fro between the same two processes\n");
    out
}

pub(super) fn throughput(results: &[ThroughputResult]) -> String {
    let mut out = "One publisher, one subscriber, full speed\n\n".to_owned();
    let heads = [
        "SIZE", "BATCH", "CPUS", "MESSAGES", "MIN", "MAX", "BYTES", "/FLOOR", "/COPY",
    ];
    let figure = |spread: Option<&Spread>| {
        spread.map_or_else(
            || "-".to_owned(),
            |spread| text::three_figures(spread.median),
        )
    };
    let rows = results.iter().map(|result| {
        vec![
            text::bytes(result.variant.size_bytes as u64),
            result.variant.batch.to_string(),
            result.placement.to_string(),
            text::rate(result.messages_per_s.median),
            text::rate(result.messages_per_s.min),
            text::rate(result.messages_per_s.max),
            text::byte_rate(result.bytes_per_s),
            figure(result.messages_per_floor_round_trip.as_ref()),
            figure(result.ratio_to_copy.as_ref()),
        ]
    });
    out.push_str(&table(&heads, &[0, 1, 3, 4, 5, 6, 7, 8], rows.collect()));
    out.push_str(
        "\nMESSAGES, MIN, MAX: median, least and most of the runs\n\
         /FLOOR: messages in the time of one bare cache-line round trip\n\
         /COPY: payload bytes to a copy of as many bytes through a ring's length\n",
    );
    for result in results {
        let (floor, batch) = (result.floor_round_trip.p50_ns, result.variant.batch);
        out.push_str(&format!(
            "{} x {batch}, {}: floor {}{}\n",
            text::bytes(result.variant.size_bytes as u64),
            place(result.placement, result.slices),
            floor.map_or_else(|| "unknown".to_owned(), text::nanos),
            result
                .copy_bytes_per_s
                .as_ref()
                .map_or_else(String::new, |copy| format!(
                    ", copy {}",
                    text::byte_rate(copy.median)
                )),
        ));
    }
    out
}

pub(super) fn latency(results: &[LatencyResult]) -> String {
    let mut out = "One-way latency from the intended send time, evenly paced\n".to_owned();
    for result in results {
        out.push_str(&format!(
            "\n{}, {}, {}, {}\n",
            text::rate(result.variant.rate_per_s),
            text::bytes(result.variant.size_bytes as u64),
            result.variant.settings,
            place(result.placement, result.slices)
        ));
        out.push_str(&distributions(&[
            ("one-way", &result.one_way),
            ("left late", &result.send_delay),
            ("floor", &result.floor_round_trip),
        ]));
        out.push_str(&ratio(
            result.placement,
            "p50 to the floor's round trip",
            result.ratio_p50.as_ref(),
        ));
    }
    out.push_str(
        "\nleft late: from the intended to the real send time, part of one-way\n\
         floor: round trip of a bare cache line between the same two processes\n",
    );
    out
}

/// One line for each variant that gave no figure.
pub(super) fn failed(failed: &[Failed]) -> String {
    let mut out = String::new();
    for Failed { what, reason } in failed {
        out.push_str(&format!("\nno figure: {what}: {reason}"));
    }
    if !failed.is_empty() {
        out.push('\n');
    }
    out
}

/// Percentiles side by side, one distribution a row.
fn distributions(rows: &[(&str, &Percentiles)]) -> String {
    let heads = ["", "min", "50", "90", "99", "99.9", "99.99", "max"];
    let cells = |(name, table): &(&str, &Percentiles)| {
        let mut row = vec![(*name).to_owned()];
        row.extend(
            table
                .rows()
                .map(|(_, ns)| ns.map(text::nanos).unwrap_or_default()),
        );
        row
    };
    table(
        &heads,
        &[1, 2, 3, 4, 5, 6, 7],
        rows.iter().map(cells).collect(),
    )
}

fn place(placement: Placement, slices: u64) -> String {
    format!("CPUs {placement} ({slices} slices)")
}

fn spread(spread: &Spread, unit: impl Fn(f64) -> String) -> String {
    format!(
        "{} ({} to {})",
        unit(spread.median),
        unit(spread.min),
        unit(spread.max)
    )
}

fn ratio(placement: Placement, what: &str, ratio: Option<&Spread>) -> String {
    match ratio {
        Some(_) if placement == Placement::Changed => {
            "the CPUs moved during these slices: no ratio\n".to_owned()
        }
        Some(found) => format!("{what}: {}\n", spread(found, text::three_figures)),
        None => String::new(),
    }
}
