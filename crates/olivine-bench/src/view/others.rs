//! Sections without channel rows: the floor, ratios of bridges, servers under load.

use super::model::{Cell, Column, Section, Table};
use super::tables::percentile_table;
use crate::load::Plan;
use crate::load::compare::Row;
use crate::load::frames::Rates;
use crate::result::FloorResult;
use crate::scenario::bridge::{Beside, Ratio, Target};
use crate::scenario::floor::{COPY_BYTES, COPY_RING_BYTES};
use crate::spread::Spread;
use crate::text::{self, three_figures};

/// How names of our own servers begin.
const OURS: &str = "olivine";

/// The machine without a channel.
pub(super) fn floor(found: &FloorResult) -> Section {
    let columns = [
        Column::words("what"),
        Column::number("median", "of the runs"),
        Column::number("runs", "least and most of the runs"),
    ];
    let mut rows = Vec::new();
    let mut row = |what: String, spread: Option<Spread>, unit: fn(f64) -> String| {
        if let Some(spread) = spread {
            let (median, range) = (
                Cell::median(Some(spread), unit),
                Cell::range(Some(spread), unit),
            );
            rows.push(vec![Cell::word(what), median, range]);
        }
    };
    for line in &found.cache_line {
        let what = format!("bare cache line, to and fro, CPUs {}", line.placement);
        row(what, Some(line.round_trip_p50_ns), text::nanos);
    }
    let sizes = [COPY_BYTES, COPY_RING_BYTES].map(|bytes| text::bytes(bytes as u64));
    let copy = format!("copy of {} within {}", sizes[0], sizes[1]);
    row(copy, Some(found.copy_bytes_per_s), text::byte_rate);
    row(
        "empty system call".to_owned(),
        Some(found.system_call_ns),
        text::nanos,
    );
    let wake = "futex wake without a sleeper";
    row(wake.to_owned(), found.futex_wake_ns, text::nanos);
    let trip = "round trip of two that sleep on a futex";
    row(trip.to_owned(), found.futex_round_trip_ns, text::nanos);
    row(
        "clock reading".to_owned(),
        Some(found.clock_cost_ns),
        text::nanos,
    );
    let lines = found.cache_line.iter().map(|line| {
        let mut cells = vec![Cell::word(format!(
            "bare cache line, CPUs {}",
            line.placement
        ))];
        let values = line.round_trip.rows();
        cells.extend(values.map(|(_, ns)| Cell::number(ns, text::nanos)));
        cells
    });
    Section {
        heading: "The machine without a channel".to_owned(),
        tables: vec![
            Table::plain("", &columns, rows),
            percentile_table(&lines.collect::<Vec<_>>()),
        ],
        ..Section::default()
    }
}

/// Ratios of bridges within runs, each with its target; `None` if there are none.
#[must_use]
pub fn ratios(ratios: &[Ratio]) -> Option<Section> {
    let rows = ratios.iter().filter_map(|ratio| {
        let found = ratio.ratio?;
        let target = match ratio.target {
            Target::AtMost(most) => format!("<= {most}"),
            Target::AtLeast(least) => format!(">= {least}"),
        };
        let beside = match &ratio.beside {
            Beside::Candidate(name) => name.clone(),
            Beside::Rate(per_s) => text::rate(*per_s),
        };
        let is_met = ratio.target.is_met(found.median);
        Some(vec![
            Cell::word(ratio.ours.as_str()),
            Cell::word(text::bytes(ratio.size_bytes)),
            Cell::word(beside),
            Cell::median(Some(found), three_figures),
            Cell::range(Some(found), three_figures),
            Cell::word(target),
            Cell::word(if is_met { "met" } else { "missed" }),
        ])
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let columns = [
        Column::words("ours"),
        Column::words("size"),
        Column::words("beside"),
        Column::number("ratio", "median of the runs"),
        Column::number("runs", "least and most of the runs"),
        Column::words("target"),
        Column::words("result"),
    ];
    let section = Section {
        heading: "Bridges, run by run".to_owned(),
        tables: vec![Table::plain("", &columns, rows)],
        ..Section::default()
    };
    (!section.tables[0].lines.is_empty()).then_some(section)
}

/// Servers under HTTP load; `left_out` are the missing ones, with the reasons.
#[must_use]
pub fn http(rows: &[Row], left_out: &[(String, String)]) -> Section {
    let columns = [
        Column::words("server"),
        Column::words("depth"),
        Column::number("requests", "answered a second, median of the runs"),
        Column::number("runs", "least and most of the runs"),
        Column::number("CPU", "the server's CPU time for a request"),
        Column::number("× first", "CPU to that of the first server"),
        Column::number("busy", "share of a CPU that the server used"),
        Column::number(
            "generator",
            "share of a CPU that the generator used; near 100 % it is the limit",
        ),
        Column::number("p50", "time from request to answer, all runs"),
        Column::number("p99", ""),
    ];
    let cells = rows.iter().map(|row| {
        let p = row.latency.as_ref();
        vec![
            Cell::word(row.server.as_str()),
            Cell::word(row.plan.depth.to_string()),
            Cell::median(row.per_s, text::rate),
            Cell::range(row.per_s, text::rate),
            Cell::median(row.server_ns, text::nanos),
            Cell::median(row.server_ns_ratio, three_figures),
            Cell::median(row.server_busy, percent),
            Cell::median(row.client_busy, percent),
            Cell::number(p.and_then(|p| p.p50_ns), text::nanos),
            Cell::number(p.and_then(|p| p.p99_ns), text::nanos),
        ]
    });
    let mut table = servers(
        "HTTP/1.1, one page, every answer checked",
        rows,
        &columns,
        cells,
    );
    let left_out = left_out
        .iter()
        .map(|(name, why)| format!("left out: {name} ({why})"));
    table.notes.extend(left_out);
    section("Servers under load", table)
}

/// Servers that echo messages of `size` bytes.
#[must_use]
pub fn echo(rows: &[Row], size: u64) -> Section {
    let columns = [
        Column::words("server"),
        Column::number("messages", "echoed a second, median of the runs"),
        Column::number("min", ""),
        Column::number("p50", "time there and back, all runs"),
        Column::number("p99", ""),
        Column::number("p99.9", ""),
        Column::number("max", ""),
        Column::number("× last", "p50 to that of the last server, run by run"),
        Column::number("× runs", "least and most of the runs"),
    ];
    let cells = rows.iter().map(|row| {
        let p = row.latency.as_ref();
        let nanos = |value: Option<f64>| Cell::number(value, text::nanos);
        vec![
            Cell::word(row.server.as_str()),
            Cell::median(row.per_s, text::rate),
            nanos(p.map(|p| p.min_ns)),
            nanos(p.and_then(|p| p.p50_ns)),
            nanos(p.and_then(|p| p.p99_ns)),
            nanos(p.and_then(|p| p.p99_9_ns)),
            nanos(p.map(|p| p.max_ns)),
            Cell::median(row.p50_ratio, three_figures),
            Cell::range(row.p50_ratio, three_figures),
        ]
    });
    let what = format!("{} there and back, every byte checked", text::bytes(size));
    section("Echo servers", servers(&what, rows, &columns, cells))
}

/// Servers that receive frames.
#[must_use]
pub fn frames(rows: &[Rates]) -> Section {
    let columns = [
        Column::words("server"),
        Column::words("batch"),
        Column::number("frames", "received a second, median of the runs"),
        Column::number("runs", "least and most of the runs"),
        Column::number("bytes", "received a second"),
        Column::number("CPU", "the receiver's CPU time for a frame"),
    ];
    let cells = rows.iter().map(|row| {
        vec![
            Cell::word(row.server.as_str()),
            Cell::word(row.batch.to_string()),
            Cell::median(Some(row.frames_per_s), text::rate),
            Cell::range(Some(row.frames_per_s), text::rate),
            Cell::median(Some(row.bytes_per_s), text::byte_rate),
            Cell::median(row.server_ns, text::nanos),
        ]
    });
    let title = "32 B frames one way, decoded and checked by the receiver; batch: frames in a send";
    let mut table = Table::plain(title, &columns, cells.collect());
    ours(&mut table);
    section("Frames over TCP", table)
}

fn section(heading: &str, table: Table) -> Section {
    Section {
        heading: heading.to_owned(),
        tables: vec![table],
        ..Section::default()
    }
}

fn servers(
    what: &str,
    rows: &[Row],
    columns: &[Column],
    cells: impl Iterator<Item = Vec<Cell>>,
) -> Table {
    let plan = rows
        .first()
        .map_or_else(String::new, |row| loop_of(&row.plan));
    let mut table = Table::plain(&format!("{what}, {plan}"), columns, cells.collect());
    ours(&mut table);
    table.notes = remarks(rows);
    table
}

/// Marks the rows of our own servers.
fn ours(table: &mut Table) {
    for line in &mut table.lines {
        line.is_ours = line
            .cells
            .first()
            .is_some_and(|cell| cell.text.starts_with(OURS));
    }
}

/// How many connections there are and what keeps them busy.
fn loop_of(plan: &Plan) -> String {
    let kind = plan.rate_per_s.map_or_else(
        || "closed loop".to_owned(),
        |rate| {
            let rate = text::rate(rate);
            format!("open loop at {rate}, latency from when each was due")
        },
    );
    format!(
        "{}, {kind}",
        text::plural(plan.connections as u64, "connection")
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Remarks about errors and unusual events.
fn remarks(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows {
        let place = format!("{}, depth {}", row.server, row.plan.depth);
        notes.extend(
            row.failure
                .iter()
                .map(|failure| format!("{place}: FAILED: {failure}")),
        );
        for (count, what) in [
            (row.cut_count, "connections ended inside an answer"),
            (row.closed_count, "connections were closed by the server"),
            (row.unanswered_count, "requests were not answered"),
        ] {
            if count > 0 {
                notes.push(format!("{place}: {} {what}", text::count(count)));
            }
        }
        if let Some(delay) = row.send_delay.as_ref().and_then(|delay| delay.p99_ns) {
            let delay = text::nanos(delay);
            notes.push(format!("{place}: requests left up to {delay} late (p99)"));
        }
    }
    notes
}
