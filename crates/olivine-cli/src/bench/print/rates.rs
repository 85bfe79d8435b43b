//! Rates: one to one by any method, several to several.

use super::methods::waits;
use super::ranking::{Place, Ranking, below, name};
use crate::output::table;
use olivine_bench::result::{Measured, Parameters, Row};
use olivine_bench::spread::Spread;
use olivine_bench::text;

/// Rates of one method, a row for each size and batch, beside what a cache line and a copy take.
pub(in super::super) fn throughput(rows: &[Row]) -> String {
    let mut out = "One publisher, one subscriber, full speed\n".to_owned();
    let heads = [
        "SIZE", "BATCH", "RING", "MESSAGES", "MIN", "MAX", "BYTES", "/FLOOR", "/COPY",
    ];
    for place in Place::of(rows) {
        out.push_str(&format!("\n{}\n", place.text()));
        let cells = place.ranked.iter().map(|(row, measured)| {
            let mut cells = vec![
                text::bytes(row.parameters.size_bytes),
                row.parameters.batch_count.to_string(),
                ring(row),
            ];
            cells.extend(rates(measured));
            cells.extend([
                measured
                    .bytes_per_s
                    .map(text::byte_rate)
                    .unwrap_or_default(),
                figure(measured.messages_per_floor_round_trip.as_ref()),
                figure(measured.ratio_to_copy.as_ref()),
            ]);
            cells
        });
        let right: Vec<usize> = (0..heads.len()).collect();
        out.push_str(&table(&heads, &right, cells.collect()));
        for (row, measured) in &place.ranked {
            if let Some(copy) = &measured.copy_bytes_per_s {
                out.push_str(&format!(
                    "copies of {} through {}: {}\n",
                    text::bytes(row.parameters.size_bytes),
                    ring(row),
                    text::byte_rate(copy.median)
                ));
            }
        }
    }
    out.push_str(
        "\nMESSAGES, MIN, MAX: median, least and most of the runs\n\
         /FLOOR: messages in the time of one bare cache-line round trip\n\
         /COPY: payload bytes to a copy of as many bytes through a ring's length\n",
    );
    out
}

/// Median, least and most of the runs.
fn rates(measured: &Measured) -> [String; 3] {
    let picks: [fn(&Spread) -> f64; 3] = [|rate| rate.median, |rate| rate.min, |rate| rate.max];
    picks.map(|pick| {
        let rate = measured.messages_per_s.as_ref();
        rate.map_or_else(String::new, |rate| text::rate(pick(rate)))
    })
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
            ranking.main.text()
        ));
        let cells = (1..).zip(&ranking.main.ranked).map(|(index, entry)| {
            let (row, measured) = entry;
            let mut cells = vec![index.to_string(), name(entry), waits(row)];
            cells.extend(rates(measured));
            cells.push(figure(measured.messages_per_floor_round_trip.as_ref()));
            cells
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
        "Several processes on one channel, full speed, all subscribers check every byte\n"
            .to_owned();
    let heads = [
        "SHAPE",
        "SIZE",
        "BATCH",
        "MESSAGES",
        "MIN",
        "MAX",
        "DELIVERIES",
        "BYTES",
    ];
    for place in Place::of(rows) {
        out.push_str(&format!("\n{}\n", place.text()));
        let cells = place.ranked.iter().map(|(row, measured)| {
            let parameters = &row.parameters;
            let mut cells = vec![
                shape(parameters),
                text::bytes(parameters.size_bytes),
                parameters.batch_count.to_string(),
            ];
            cells.extend(rates(measured));
            let deliveries = measured.deliveries_per_s.map(text::rate);
            let bytes = measured.bytes_per_s.map(text::byte_rate);
            cells.extend([deliveries, bytes].map(Option::unwrap_or_default));
            cells
        });
        out.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6, 7], cells.collect()));
    }
    out.push_str(
        "\nMESSAGES, MIN, MAX: published by all: median, least and most of the runs\n\
         DELIVERIES, BYTES: received by all\n\
         *: more processes than CPUs, so the scheduler is part of the figure\n",
    );
    out
}

/// How many publish to how many; a star where they share CPUs.
pub(super) fn shape(parameters: &Parameters) -> String {
    format!(
        "{} -> {}{}",
        parameters.publishers_count,
        parameters.subscribers_count,
        if parameters.oversubscribed { "*" } else { "" }
    )
}
