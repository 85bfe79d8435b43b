//! Rates: one to one by any method, several to several.

use super::place;
use super::ranking::{Ranking, below, name};
use crate::output::table;
use olivine_bench::result::{Measured, Row};
use olivine_bench::spread::Spread;
use olivine_bench::text;

/// Rates of one method, a row for each size and batch, beside what a cache line and a copy take.
pub(in super::super) fn throughput(rows: &[Row]) -> String {
    let mut out = "One publisher, one subscriber, full speed\n\n".to_owned();
    let heads = [
        "SIZE", "BATCH", "RING", "CPUS", "MESSAGES", "MIN", "MAX", "BYTES", "/FLOOR", "/COPY",
    ];
    let measured = || rows.iter().filter_map(|row| Some((row, row.measured()?)));
    let cells = measured().map(|(row, measured)| {
        let rate = |pick: fn(&Spread) -> f64| {
            let rate = measured.messages_per_s.as_ref();
            rate.map_or_else(String::new, |rate| text::rate(pick(rate)))
        };
        vec![
            text::bytes(row.parameters.size_bytes),
            row.parameters.batch_count.to_string(),
            ring(row),
            measured.placement.to_string(),
            rate(|spread| spread.median),
            rate(|spread| spread.min),
            rate(|spread| spread.max),
            measured
                .bytes_per_s
                .map(text::byte_rate)
                .unwrap_or_default(),
            figure(measured.messages_per_floor_round_trip.as_ref()),
            figure(measured.ratio_to_copy.as_ref()),
        ]
    });
    out.push_str(&table(
        &heads,
        &[0, 1, 2, 4, 5, 6, 7, 8, 9],
        cells.collect(),
    ));
    out.push_str(
        "\nMESSAGES, MIN, MAX: median, least and most of the runs\n\
         /FLOOR: messages in the time of one bare cache-line round trip\n\
         /COPY: payload bytes to a copy of as many bytes through a ring's length\n",
    );
    for (row, measured) in measured() {
        let floor = measured.floor_round_trip.as_ref().and_then(|f| f.p50_ns);
        out.push_str(&format!(
            "{} x {}, ring {}, {}: floor {}{}\n",
            text::bytes(row.parameters.size_bytes),
            row.parameters.batch_count,
            ring(row),
            place(measured.placement, measured.slices_count),
            floor.map_or_else(|| "unknown".to_owned(), text::nanos),
            measured
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

/// Rates of many methods, highest first.
pub(in super::super) fn methods_at_full_speed(rows: &[Row]) -> String {
    let mut out = "One publisher, one subscriber, full speed, nothing lost\n".to_owned();
    let rank = |measured: &Measured| measured.messages_per_s.map_or(0.0, |rate| -rate.median);
    for ranking in Ranking::all(rows, rank) {
        let batch = match ranking.batch_count {
            1 => "one by one".to_owned(),
            batch => format!("in batches of {batch}"),
        };
        out.push_str(&format!(
            "\n{} {batch}, {}\n",
            text::bytes(ranking.size_bytes),
            place(ranking.main.placement, ranking.main.slices)
        ));
        let cells = (1..).zip(&ranking.main.ranked).map(|(index, entry)| {
            let (row, measured) = entry;
            let rate = |pick: fn(&Spread) -> f64| {
                let rate = measured.messages_per_s.as_ref();
                rate.map_or_else(String::new, |rate| text::rate(pick(rate)))
            };
            vec![
                index.to_string(),
                name(entry),
                row.parameters.wait.clone().unwrap_or_default(),
                rate(|spread| spread.median),
                rate(|spread| spread.min),
                rate(|spread| spread.max),
                figure(measured.messages_per_floor_round_trip.as_ref()),
            ]
        });
        let heads = ["#", "METHOD", "WAITS", "MESSAGES", "MIN", "MAX", "/FLOOR"];
        out.push_str(&table(&heads, &[0, 3, 4, 5, 6], cells.collect()));
        out.push_str(&below(&ranking, |measured| {
            let rate = measured.messages_per_s;
            rate.map_or_else(|| "no rate".to_owned(), |rate| text::rate(rate.median))
        }));
    }
    out.push_str(
        "\nMESSAGES, MIN, MAX: median, least and most of the runs\n\
         /FLOOR: messages in the time of one bare cache-line round trip\n",
    );
    out
}

/// Bytes of the ring, where there is one that we know of.
fn ring(row: &Row) -> String {
    let bytes = row.parameters.ring_bytes;
    bytes.map_or_else(|| "-".to_owned(), text::bytes)
}

fn figure(spread: Option<&Spread>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |spread| text::three_figures(spread.median),
    )
}

/// Several participants on one channel.
pub(in super::super) fn many(rows: &[Row]) -> String {
    let mut out =
        "Several processes on one channel, full speed, every byte checked by every subscriber\n\n"
            .to_owned();
    let heads = [
        "SHAPE",
        "SIZE",
        "BATCH",
        "CPUS",
        "MESSAGES",
        "DELIVERIES",
        "BYTES",
        "RUNS",
    ];
    let measured = rows.iter().filter_map(|row| Some((row, row.measured()?)));
    let cells = measured.map(|(row, measured)| {
        let parameters = &row.parameters;
        let spread = measured.messages_per_s;
        let crowd = if parameters.oversubscribed {
            ", shared"
        } else {
            ""
        };
        vec![
            format!(
                "{} -> {}",
                parameters.publishers_count, parameters.subscribers_count
            ),
            text::bytes(parameters.size_bytes),
            parameters.batch_count.to_string(),
            format!("{}{crowd}", measured.placement),
            spread.map(|s| text::rate(s.median)).unwrap_or_default(),
            measured
                .deliveries_per_s
                .map(text::rate)
                .unwrap_or_default(),
            measured
                .bytes_per_s
                .map(text::byte_rate)
                .unwrap_or_default(),
            spread.map_or_else(String::new, |s| {
                format!("{} to {}", text::rate(s.min), text::rate(s.max))
            }),
        ]
    });
    out.push_str(&table(&heads, &[1, 2, 4, 5, 6], cells.collect()));
    out.push_str(
        "\nMESSAGES: published by all; DELIVERIES, BYTES: received by all\n\
         shared: more processes than CPUs, so the scheduler is part of the figure\n",
    );
    out
}
