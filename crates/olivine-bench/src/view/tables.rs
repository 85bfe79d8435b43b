//! From ranked rows to tables.

use super::model::{Cell, Column, Line, Table};
use super::rank::Group;
use super::select::{Entry, OF_TABLES, Param, Part, constant, varied};
use crate::latency::Percentiles;
use crate::result::{ClockAhead, Load, Measured, Published};
use crate::text;

/// Most rows of one method with a table of percentiles.
const PERCENTILES_MAX: usize = 16;
/// Text for a missing figure of ours.
const BLANK: &str = "-";

/// A cell of a row.
type Of = fn(&Entry<'_>) -> Cell;

/// Every table of a part.
pub(super) fn tables(part: &Part<'_>, groups: &[Group<'_>]) -> Vec<Table> {
    let mut tables: Vec<Table> = groups
        .iter()
        .map(|group| ranked(part.load, group))
        .collect();
    if !part.compares && part.load != Load::Saturated {
        tables.extend(groups.iter().filter_map(percentiles));
    }
    tables.extend(published(part));
    tables
}

/// The rows of a group with their figures.
fn ranked(load: Load, group: &Group<'_>) -> Table {
    let entries = &group.main.entries;
    let others = group.others.iter().flat_map(|place| &place.entries);
    let all: Vec<Entry<'_>> = entries.iter().chain(others.clone()).copied().collect();
    let mut columns: Vec<Column> = Vec::new();
    // For one method, the varying parameters; at least the size.
    let mut params: Vec<Param> = Vec::new();
    if group.compares {
        columns.push(Column::number("#", ""));
        columns.extend(["method", "waits"].map(Column::words));
    } else {
        params = varied(&OF_TABLES, &all);
        if params.is_empty() {
            params.push(Param::Size);
        }
        columns.extend(params.iter().map(|param| Column::words(param.head())));
    }
    let figures = if load == Load::Saturated {
        rates(group.compares)
    } else {
        latencies(group.compares)
    };
    columns.extend(figures.iter().map(|(column, _)| *column));
    let cells = |entry: &Entry<'_>, place: Option<u64>| {
        let mut cells: Vec<Cell> = if group.compares {
            let place = place.map(Cell::count).unwrap_or_default();
            vec![place, Cell::word(entry.name()), Cell::word(entry.waits())]
        } else {
            params
                .iter()
                .map(|param| Cell::word(param.text(entry)))
                .collect()
        };
        cells.extend(figures.iter().map(|(_, of)| of(entry)));
        cells
    };
    let line = |entry: &Entry<'_>, place: Option<u64>, is_detail| Line {
        is_ours: group.compares && entry.is_ours(),
        is_detail,
        cells: cells(entry, place),
    };
    let mut lines: Vec<Line> = (1..)
        .zip(entries)
        .map(|(place, entry)| line(entry, Some(place), false))
        .collect();
    lines.extend(others.map(|entry| line(entry, None, true)));
    let constant = constant(entries);
    let mut notes = group.notes();
    notes.extend(clocks(entries));
    let table = Table {
        title: format!("{constant}, {}", group.main.text()),
        columns,
        lines,
        notes,
    };
    table.only(|_| true)
}

fn latencies(compares: bool) -> Vec<(Column, Of)> {
    fn at(entry: &Entry<'_>, pick: fn(&Percentiles) -> Option<f64>) -> Cell {
        let found = entry.measured.distribution();
        Cell::number(
            found.and_then(|(_, found)| pick(&found.percentiles)),
            text::nanos,
        )
    }
    let mut columns: Vec<(Column, Of)> = vec![
        (Column::number("p50", "of the median run"), |e| {
            Cell::median(e.measured.p50_ns(), text::nanos)
        }),
        (
            Column::number("p50 runs", "least and most p50 of the runs").detail_if(compares),
            |e| Cell::range(e.measured.p50_ns(), text::nanos),
        ),
        (Column::number("p90", "").detail_if(true), |e| {
            at(e, |p| p.p90_ns)
        }),
        (
            Column::number("p99", "p90 and above are of all samples"),
            |e| at(e, |p| p.p99_ns),
        ),
        (Column::number("p99.9", ""), |e| at(e, |p| p.p99_9_ns)),
        (Column::number("p99.99", "").detail_if(true), |e| {
            at(e, |p| p.p99_99_ns)
        }),
        (Column::number("max", "").detail_if(compares), |e| {
            at(e, |p| Some(p.max_ns))
        }),
        (
            Column::number(
                "× floor",
                "p50 to that of a bare cache line, median of the runs",
            ),
            |e| Cell::median(e.measured.ratio_p50, text::three_figures),
        ),
        (
            Column::number("× runs", "least and most of the runs"),
            |e| Cell::range(e.measured.ratio_p50, text::three_figures),
        ),
        (Column::number("samples", "").detail_if(true), |e| {
            let found = e.measured.distribution();
            found.map_or_else(Cell::default, |(_, found)| {
                Cell::count(found.percentiles.count)
            })
        }),
        (Column::words("likely cause of max").detail_if(true), |e| {
            let worst = e.measured.worst.as_ref();
            Cell::word(worst.map_or_else(String::new, |worst| {
                format!("{}, at {:.1} s", worst.cause, worst.at_s)
            }))
        }),
    ];
    columns.extend(surroundings());
    columns
}

fn rates(compares: bool) -> Vec<(Column, Of)> {
    let mut columns: Vec<(Column, Of)> = vec![
        (
            Column::number("messages", "published a second by all, median of the runs"),
            |e| Cell::median(e.measured.messages_per_s, text::rate),
        ),
        (Column::number("runs", "least and most of the runs"), |e| {
            Cell::range(e.measured.messages_per_s, text::rate)
        }),
        (
            Column::number("received", "messages received a second by all subscribers"),
            |e| {
                let is_many = e.row.parameters.subscribers_count > 1;
                let rate = e.measured.deliveries_per_s.filter(|_| is_many);
                Cell::number(rate, text::rate)
            },
        ),
        (
            Column::number("bytes", "received a second by all subscribers").detail_if(compares),
            |e| Cell::number(e.measured.bytes_per_s, text::byte_rate),
        ),
        (
            Column::number(
                "per floor",
                "messages in the time of one bare cache-line round trip",
            ),
            |e| {
                Cell::median(
                    e.measured.messages_per_floor_round_trip,
                    text::three_figures,
                )
            },
        ),
        (
            Column::number(
                "× copy",
                "bytes to a copy of as many through a ring's length",
            )
            .detail_if(compares),
            |e| Cell::median(e.measured.ratio_to_copy, text::three_figures),
        ),
        (Column::number("copy", "").detail_if(true), |e| {
            Cell::median(e.measured.copy_bytes_per_s, text::byte_rate)
        }),
        (Column::number("slices", "").detail_if(true), |e| {
            Cell::count(e.measured.slices_count)
        }),
    ];
    columns.extend(surroundings());
    columns
}

fn surroundings() -> Vec<(Column, Of)> {
    vec![
        (Column::words("CPUs").detail_if(true), |e| {
            Cell::word(e.measured.placement.to_string())
        }),
        (Column::words("does without").detail_if(true), |e| {
            Cell::word(e.row.lacks.as_str())
        }),
    ]
}

/// The possible difference of the two clocks: the possible error of one-way times.
fn clocks(entries: &[Entry<'_>]) -> Vec<String> {
    let bounds = entries
        .iter()
        .filter_map(|entry| entry.measured.clock_ahead);
    let Some(ahead) = bounds.reduce(ClockAhead::or) else {
        return Vec::new();
    };
    let negative: u64 = entries
        .iter()
        .filter_map(|entry| entry.measured.negative_count)
        .sum();
    let mut notes = vec![format!(
        "the subscriber's clock is ahead by {:.1} to {:.1} ns, which is part of one way",
        ahead.least_ns, ahead.most_ns
    )];
    if negative > 0 {
        let samples = text::count(negative);
        notes.push(format!(
            "{samples} samples were below 0 by that, and count as 0"
        ));
    }
    notes
}

/// Whole distributions beside the floor.
fn percentiles(group: &Group<'_>) -> Option<Table> {
    let entries = &group.main.entries;
    if entries.len() > PERCENTILES_MAX {
        return None;
    }
    let differ = varied(&OF_TABLES, entries);
    let mut rows = Vec::new();
    for entry in entries {
        let label = if differ.is_empty() {
            String::new()
        } else {
            format!("{}: ", entry.label(&differ))
        };
        let mut row = |what: &str, found: Option<&Percentiles>| {
            let Some(found) = found else { return };
            let mut cells = vec![Cell::word(format!("{label}{what}"))];
            cells.extend(found.rows().map(|(_, ns)| Cell::number(ns, text::nanos)));
            rows.push(cells);
        };
        let Measured {
            send_delay,
            floor_round_trip,
            ..
        } = entry.measured;
        let found = entry.measured.distribution();
        if let Some((what, found)) = found {
            row(what, Some(&found.percentiles));
        }
        row(
            "left late",
            send_delay.as_ref().map(|found| &found.percentiles),
        );
        row("floor", floor_round_trip.as_ref());
    }
    Some(percentile_table(&rows))
}

/// A table of rows of percentiles, each with its name first.
pub(super) fn percentile_table(rows: &[Vec<Cell>]) -> Table {
    let mut columns = vec![Column::words("of all samples")];
    let heads = ["min", "50", "90", "99", "99.9", "99.99", "max"];
    columns.extend(heads.map(|head| Column::number(head, "")));
    let mut table = Table::plain("Percentiles", &columns, rows.to_vec());
    let is_there = |what: &str| {
        let mut names = rows.iter().filter_map(|cells| cells.first());
        names.any(|name| name.text.ends_with(what))
    };
    if is_there("left late") {
        let note = "left late: from the intended to the real send time, part of one way";
        table.notes.push(note.to_owned());
    }
    if is_there("floor") {
        let note = "floor: a bare cache line to and fro between the same two processes";
        table.notes.push(note.to_owned());
    }
    table
}

/// Figures that others published, beside ours.
fn published(part: &Part<'_>) -> Option<Table> {
    let mut sources: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let differ = varied(&OF_TABLES, &part.entries);
    for entry in &part.entries {
        for published in &entry.row.published {
            let source = format!("{}; machine: {}", published.source, published.machine);
            let known = sources.iter().position(|known| *known == source);
            let number = known.unwrap_or_else(|| {
                sources.push(source);
                sources.len() - 1
            });
            let (what, ours, unit) = beside(entry.measured, published);
            let mut theirs = Cell::number(Some(published.value), unit);
            theirs.text.push_str(&format!(" [{}]", number + 1));
            let ours = match ours {
                Some(ours) => Cell::number(Some(ours), unit),
                None => Cell::word(BLANK),
            };
            let situation = Cell::word(entry.label(&differ));
            rows.push(vec![situation, Cell::word(what), ours, theirs]);
        }
    }
    let columns = [
        Column::words("situation"),
        Column::words("figure"),
        Column::number("here", ""),
        Column::number("published", "by others, on their machines"),
    ];
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::plain("Published elsewhere", &columns, rows);
    table.notes = (1..)
        .zip(sources)
        .map(|(number, source)| format!("[{number}] {source}"))
        .collect();
    Some(table)
}

/// The name of a published figure, ours of that name, and its unit.
fn beside<'a>(
    measured: &Measured,
    published: &'a Published,
) -> (&'a str, Option<f64>, fn(f64) -> String) {
    let percentiles = measured.distribution().map(|(_, found)| &found.percentiles);
    let p = |pick: fn(&Percentiles) -> Option<f64>| percentiles.and_then(pick);
    let rate = measured.messages_per_s.map(|rate| rate.median);
    let p50 = measured.p50_ns().map(|p50| p50.median);
    match published.figure.as_str() {
        "p50_ns" => ("p50", p50, text::nanos),
        "p90_ns" => ("p90", p(|p| p.p90_ns), text::nanos),
        "p99_ns" => ("p99", p(|p| p.p99_ns), text::nanos),
        "p99_9_ns" => ("p99.9", p(|p| p.p99_9_ns), text::nanos),
        "p99_99_ns" => ("p99.99", p(|p| p.p99_99_ns), text::nanos),
        "max_ns" => ("max", p(|p| Some(p.max_ns)), text::nanos),
        // Means of latencies are not stored: the median is compared, and the name says so.
        "mean_ns" => ("p50 to mean", p50, text::nanos),
        "messages_per_s" => ("messages", rate, text::rate),
        "deliveries_per_s" => ("received", measured.deliveries_per_s, text::rate),
        "bytes_per_s" => ("bytes", measured.bytes_per_s, text::byte_rate),
        // As many as fit with the median round trip.
        "round_trips_per_s" => ("round trips", p50.map(|ns| 1e9 / ns), text::rate),
        "requests_per_s" => ("requests", None, text::rate),
        other => (other, None, text::rate),
    }
}
