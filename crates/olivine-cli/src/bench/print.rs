//! Results of scenarios as people read them.

use crate::output::table;
use olivine_bench::floor::Placement;
use olivine_bench::latency::Percentiles;
use olivine_bench::result::file::RUNS_QUOTABLE;
use olivine_bench::result::{Distribution, Measured, ResultFile, Row};
use olivine_bench::scenario::floor::{COPY_BYTES, COPY_RING_BYTES, FloorResult};
use olivine_bench::spread::Spread;
use olivine_bench::text;
use std::collections::BTreeMap;

pub(super) fn floor(result: &FloorResult) -> String {
    let mut out = "The machine without a channel\n".to_owned();
    for line in &result.cache_line {
        out.push_str(&format!(
            "\nbare cache line, round trip, {}\n",
            place(line.placement, line.slices)
        ));
        out.push_str(&distributions(&[("round trip", Some(&line.round_trip))]));
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

/// The middle of a method's round trips beside the floor, fastest first, each placement on its own.
pub(super) fn methods(rows: &[Row]) -> String {
    let mut out = "Round trip of a message and its answer, two processes\n".to_owned();
    let mut groups: BTreeMap<(u64, Placement), Vec<(&Row, &Measured)>> = BTreeMap::new();
    for (row, measured) in rows.iter().filter_map(|row| Some((row, row.measured()?))) {
        let key = (row.parameters.size_bytes, measured.placement);
        groups.entry(key).or_default().push((row, measured));
    }
    for ((size, placement), mut found) in groups {
        let p50 = |measured: &Measured| {
            let table = measured.round_trip.as_ref();
            table.and_then(|table| table.percentiles.p50_ns)
        };
        let rank = |measured: &Measured| {
            let ratio = measured.ratio_p50.map(|ratio| ratio.median);
            ratio.or_else(|| p50(measured)).unwrap_or(f64::MAX)
        };
        found.sort_by(|(_, a), (_, b)| rank(a).total_cmp(&rank(b)));
        let slices = found
            .iter()
            .map(|(_, measured)| measured.slices_count)
            .sum();
        out.push_str(&format!(
            "\n{}, {}\n",
            text::bytes(size),
            place(placement, slices)
        ));
        let heads = [
            "#",
            "METHOD",
            "WAITS",
            "P50",
            "P99",
            "P99.9",
            "FLOOR",
            "P50/FLOOR",
            "RUNS",
        ];
        let cells = found.iter().enumerate().map(|(index, (row, measured))| {
            let table = measured.round_trip.as_ref().map(|table| &table.percentiles);
            let ns = |pick: fn(&Percentiles) -> Option<f64>| {
                table.and_then(pick).map(text::nanos).unwrap_or_default()
            };
            let floor = measured.floor_round_trip.as_ref().and_then(|f| f.p50_ns);
            let ratio = measured.ratio_p50;
            vec![
                (index + 1).to_string(),
                format!("{} {}", row.method, row.parameters.settings)
                    .trim_end()
                    .to_owned(),
                row.parameters.wait.clone().unwrap_or_default(),
                ns(|table| table.p50_ns),
                ns(|table| table.p99_ns),
                ns(|table| table.p99_9_ns),
                floor.map(text::nanos).unwrap_or_default(),
                ratio.map_or_else(|| "-".to_owned(), |r| text::three_figures(r.median)),
                ratio.map_or_else(String::new, |r| {
                    format!(
                        "{} to {}",
                        text::three_figures(r.min),
                        text::three_figures(r.max)
                    )
                }),
            ]
        });
        out.push_str(&table(&heads, &[0, 3, 4, 5, 6, 7], cells.collect()));
        out.push_str(&our_place(&found));
    }
    out.push_str(
        "\nFLOOR: a bare cache line to and fro between the same two processes, beside the same slices\n\
         P50/FLOOR, RUNS: median ratio of the runs, least and most; blank: too few samples above\n",
    );
    out
}

/// Where the best of our own methods stands.
fn our_place(found: &[(&Row, &Measured)]) -> String {
    let ours = |(row, _): &(&Row, &Measured)| row.method.starts_with("olivine-");
    let Some(place) = found.iter().position(ours) else {
        return String::new();
    };
    let (row, _) = found[place];
    let ahead: Vec<&str> = found[..place]
        .iter()
        .map(|(row, _)| row.method.as_str())
        .collect();
    if ahead.is_empty() {
        return format!("olivine: place 1 of {} ({})\n", found.len(), row.method);
    }
    format!(
        "olivine: place {} of {} ({}), behind {}\n",
        place + 1,
        found.len(),
        row.method,
        ahead.join(", ")
    )
}

pub(super) fn pingpong(rows: &[Row]) -> String {
    let mut out = "Round trip of a message and its answer: fill, check, answer, check\n".to_owned();
    for (row, measured) in rows.iter().filter_map(|row| Some((row, row.measured()?))) {
        out.push_str(&format!(
            "\n{}, {}{}{}, {}\n",
            text::bytes(row.parameters.size_bytes),
            row.method,
            if row.parameters.settings.is_empty() {
                ""
            } else {
                ", "
            },
            row.parameters.settings,
            place(measured.placement, measured.slices_count)
        ));
        out.push_str(&distributions(&[
            ("message", percentiles(measured.round_trip.as_ref())),
            ("floor", measured.floor_round_trip.as_ref()),
        ]));
        out.push_str(&ratio(
            measured.placement,
            "p50 to the floor's",
            measured.ratio_p50.as_ref(),
        ));
    }
    out.push_str("\nfloor: a bare cache line to and fro between the same two processes\n");
    out
}

pub(super) fn throughput(rows: &[Row]) -> String {
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
    let measured = || rows.iter().filter_map(|row| Some((row, row.measured()?)));
    let cells = measured().map(|(row, measured)| {
        let rate = |pick: fn(&Spread) -> f64| {
            let rate = measured.messages_per_s.as_ref();
            rate.map_or_else(String::new, |rate| text::rate(pick(rate)))
        };
        vec![
            text::bytes(row.parameters.size_bytes),
            row.parameters.batch_count.to_string(),
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
    out.push_str(&table(&heads, &[0, 1, 3, 4, 5, 6, 7, 8], cells.collect()));
    out.push_str(
        "\nMESSAGES, MIN, MAX: median, least and most of the runs\n\
         /FLOOR: messages in the time of one bare cache-line round trip\n\
         /COPY: payload bytes to a copy of as many bytes through a ring's length\n",
    );
    for (row, measured) in measured() {
        let floor = measured.floor_round_trip.as_ref().and_then(|f| f.p50_ns);
        out.push_str(&format!(
            "{} x {}, {}: floor {}{}\n",
            text::bytes(row.parameters.size_bytes),
            row.parameters.batch_count,
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

pub(super) fn latency(rows: &[Row]) -> String {
    let mut out = "One-way latency from the intended send time, evenly paced\n".to_owned();
    for (row, measured) in rows.iter().filter_map(|row| Some((row, row.measured()?))) {
        out.push_str(&format!(
            "\n{}, {}, {}, {}\n",
            text::rate(row.parameters.rate_per_s.unwrap_or(0.0)),
            text::bytes(row.parameters.size_bytes),
            row.parameters.settings,
            place(measured.placement, measured.slices_count)
        ));
        out.push_str(&distributions(&[
            ("one-way", percentiles(measured.one_way.as_ref())),
            ("left late", percentiles(measured.send_delay.as_ref())),
            ("floor", measured.floor_round_trip.as_ref()),
        ]));
        out.push_str(&ratio(
            measured.placement,
            "p50 to the floor's round trip",
            measured.ratio_p50.as_ref(),
        ));
    }
    out.push_str(
        "\nleft late: from the intended to the real send time, part of one-way\n\
         floor: round trip of a bare cache line between the same two processes\n",
    );
    out
}

/// Several participants on one channel.
pub(super) fn many(rows: &[Row]) -> String {
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

/// The points of a sweep: one figure each, beside what was published for it.
pub(super) fn points(rows: &[Row]) -> String {
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
    let ours = ours.map_or_else(
        || "not measured".to_owned(),
        |ours| format!("{label} {}", unit(ours)),
    );
    (ours, format!("{name} {}", unit(value)))
}

fn percentiles(distribution: Option<&Distribution>) -> Option<&Percentiles> {
    distribution.map(|distribution| &distribution.percentiles)
}

/// Runs, CPUs and machine: what every figure above depends on.
pub(super) fn conditions(file: &ResultFile) -> String {
    let cpus: Vec<String> = file.cpus.iter().map(u32::to_string).collect();
    let mut out = format!(
        "\n{} runs on CPUs {}, a process each, every byte checked{}\n",
        file.runs,
        cpus.join(", "),
        if file.interrupted {
            "; interrupted"
        } else {
            ""
        },
    );
    if !file.is_quotable() {
        out.push_str(&format!(
            "fewer than {RUNS_QUOTABLE} whole runs: not a figure to quote\n"
        ));
    }
    out.push_str(&file.machine.text());
    out
}

/// One line for each row without a figure.
pub(super) fn failed(file: &ResultFile) -> String {
    let mut out = String::new();
    for (row, reason) in file.failures() {
        out.push_str(&format!(
            "\nno figure: {}, {}: {reason}",
            row.method,
            text::bytes(row.parameters.size_bytes)
        ));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Percentiles side by side, one distribution a row.
fn distributions(rows: &[(&str, Option<&Percentiles>)]) -> String {
    let heads = ["", "min", "50", "90", "99", "99.9", "99.99", "max"];
    let cells = |(name, table): &(&str, Option<&Percentiles>)| {
        let mut row = vec![(*name).to_owned()];
        let figures = table.iter().flat_map(|table| table.rows());
        row.extend(figures.map(|(_, ns)| ns.map(text::nanos).unwrap_or_default()));
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
