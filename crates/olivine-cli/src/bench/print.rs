//! Results of scenarios as people read them.

mod bridges;
mod headline;
#[cfg(test)]
mod kept;
mod methods;
mod points;
mod ranking;
mod rates;

pub(super) use bridges::bridges;
pub(super) use headline::headline;
pub(super) use methods::methods;
pub(super) use points::points;
pub(super) use rates::{many, methods_at_full_speed, throughput};

use crate::output::table;
use olivine_bench::latency::Percentiles;
use olivine_bench::result::file::RUNS_QUOTABLE;
use olivine_bench::result::{Distribution, FloorResult, Measured, Placement, ResultFile, Row};
use olivine_bench::scenario::floor::{COPY_BYTES, COPY_RING_BYTES};
use olivine_bench::spread::Spread;
use olivine_bench::text;

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
    let mut rows = vec![
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
    ];
    let woken = |what: &str, found: &Option<Spread>| {
        let found = found.as_ref()?;
        Some(row(what.to_owned(), spread(found, text::nanos)))
    };
    rows.extend(woken("futex wake, nobody asleep", &result.futex_wake_ns));
    rows.extend(woken(
        "round trip of two that sleep on a futex",
        &result.futex_round_trip_ns,
    ));
    rows.push(row(
        "clock reading".into(),
        spread(&result.clock_cost_ns, text::nanos),
    ));
    out.push('\n');
    out.push_str(&table(&["WHAT", "MEDIAN (RUNS)"], &[], rows));
    out
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
        out.push_str(&middle(measured));
        out.push_str(&ratio(
            measured.placement,
            "p50 to the floor's",
            measured.ratio_p50.as_ref(),
        ));
    }
    out.push_str("\nfloor: a bare cache line to and fro between the same two processes\n");
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
        out.push_str(&middle(measured));
        out.push_str(&ratio(
            measured.placement,
            "p50 to the floor's round trip",
            measured.ratio_p50.as_ref(),
        ));
        out.push_str(&clocks(measured));
    }
    out.push_str(
        "\nleft late: from the intended to the real send time, part of one-way\n\
         floor: round trip of a bare cache line between the same two processes\n",
    );
    out
}

/// How far apart the clocks of the two CPUs may be, which one-way figures are wrong by.
fn clocks(measured: &Measured) -> String {
    let Some(ahead) = &measured.clock_ahead else {
        return String::new();
    };
    let mut out = format!(
        "the subscriber's clock is ahead by {:.1} to {:.1} ns, which is part of one-way\n",
        ahead.least_ns, ahead.most_ns
    );
    if let Some(negative) = measured.negative_count.filter(|count| *count > 0) {
        let samples = text::count(negative);
        out.push_str(&format!(
            "{samples} samples were below 0 by that, and count as 0\n"
        ));
    }
    out
}

fn percentiles(distribution: Option<&Distribution>) -> Option<&Percentiles> {
    distribution.map(|distribution| &distribution.percentiles)
}

/// Runs, CPUs and machine: what every figure above depends on.
pub(super) fn conditions(file: &ResultFile) -> String {
    let cpus: Vec<String> = file.cpus.iter().map(u32::to_string).collect();
    let at_most = if file.interrupted || file.cut_short {
        "up to "
    } else {
        ""
    };
    let mut out = format!(
        "\n{at_most}{} on CPUs {}, a process each, every byte checked{}\n",
        text::plural(file.runs.into(), "run"),
        cpus.join(", "),
        if file.interrupted {
            "; interrupted"
        } else {
            ""
        },
    );
    if let Some(error) = &file.measuring_error {
        out.push_str(&format!("measuring error: {}\n", error.sentence()));
    }
    if file.privileges.real_time {
        out.push_str("both under SCHED_FIFO\n");
    }
    if file.privileges.locked_memory {
        out.push_str("memory of both locked\n");
    }
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
        let of = &row.parameters;
        let batch = match of.batch_count {
            1 => String::new(),
            batch => format!(" x {batch}"),
        };
        let (method, size) = (&row.method, text::bytes(of.size_bytes));
        out.push_str(&format!("\nno figure: {method}, {size}{batch}: {reason}"));
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

/// The p50 that is quoted: the table's is of all samples, most of which come from the fastest slices.
fn middle(measured: &Measured) -> String {
    let p50 = measured.p50_ns();
    p50.map_or_else(String::new, |p50| {
        format!("p50 over the runs: {}\n", spread(&p50, text::nanos))
    })
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
