//! From ranked rows to tables.

use super::model::{Cell, Column, Line, Section, Table};
use super::rank::Group;
use super::select::{Entry, OF_TABLES, Param, Part, constant, varied};
use crate::latency::Percentiles;
use crate::result::ratio::{Ratio, Target};
use crate::result::statistic::{STATISTICS, Shown, Statistic, find};
use crate::result::{ClockAhead, Distribution, Load, Measured, Published, floor};
use crate::text::{self, three_figures};

/// Most rows of one method with a table of percentiles.
const PERCENTILES_MAX: usize = 16;
/// Text for a missing figure of ours.
const BLANK: &str = "-";

/// A table of further statistics: its title, when it is shown, and their names. It needs the first.
type More = (&'static str, fn(&Part<'_>) -> bool, &'static [&'static str]);
const MORE: [More; 2] = [
    (
        "Mean and deviation, of all samples",
        compares_means,
        &[
            "mean_ns",
            "min_ns",
            "max_ns",
            "deviation_ns",
            "round_trips_per_s",
        ],
    ),
    (
        "CPU time of the server",
        |part| part.is_of_servers(),
        &["user_busy", "system_busy", "softirq_busy"],
    ),
];

/// A cell of a row.
type Of = Box<dyn Fn(&Entry<'_>) -> Cell>;
/// The words of a cell.
type Words = fn(&Entry<'_>) -> String;

/// Every table of a part.
pub(super) fn tables(part: &Part<'_>, groups: &[Group<'_>]) -> Vec<Table> {
    let mut tables: Vec<Table> = groups.iter().map(|group| ranked(part, group)).collect();
    if !part.compares && part.load != Load::Saturated {
        tables.extend(groups.iter().filter_map(|group| percentiles(part, group)));
    }
    tables.extend(MORE.iter().filter_map(|more| further(more, part, groups)));
    tables.extend(groups.iter().flat_map(worst_messages));
    tables.extend(published(groups));
    tables
}

/// The rows of a group with their figures.
fn ranked(part: &Part<'_>, group: &Group<'_>) -> Table {
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
            let has_size = all.iter().all(|entry| entry.row.parameters.size_bytes > 0);
            params.push(if has_size { Param::Size } else { Param::Method });
        }
        if part.is_of_servers() && !params.contains(&Param::Method) {
            params.insert(0, Param::Method);
        }
        columns.extend(params.iter().map(|param| Column::words(param.head())));
    }
    let figures = self::columns(part);
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
    let has_methods = group.compares || params.contains(&Param::Method);
    let line = |entry: &Entry<'_>, place: Option<u64>, is_detail| Line {
        is_ours: has_methods && entry.is_ours(),
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
    let comma = if constant.is_empty() { "" } else { ", " };
    let table = Table {
        title: format!("{constant}{comma}{}", group.main.text()),
        columns,
        lines,
        notes,
    };
    table.only(|_| true)
}

/// A column for each statistic that is shown, and the surroundings.
fn columns(part: &Part<'_>) -> Vec<(Column, Of)> {
    let heads = part.heads();
    let is_detail = |head: &str, shown: Shown| match (heads, shown) {
        (Some(heads), _) => !heads.contains(&head),
        (None, Shown::Everywhere) => false,
        (None, Shown::Unranked) => part.compares,
        _ => true,
    };
    let mut columns: Vec<(Column, Of)> = Vec::new();
    let shown = STATISTICS.iter().filter(|one| one.shown != Shown::Nowhere);
    for statistic in shown {
        let (head, unit) = (statistic.head, statistic.unit.text());
        // One subscriber receives what is published.
        let is_known = move |e: &Entry<'_>| {
            statistic.name == "deliveries_per_s" && e.row.parameters.subscribers_count == 1
        };
        let column = Column::number(head, statistic.meaning);
        columns.push((
            column.detail_if(is_detail(head, statistic.shown)),
            Box::new(move |e| {
                let value = e.measured.value(statistic).filter(|_| !is_known(e));
                Cell::number(value, unit)
            }),
        ));
        if let Some((head, meaning, shown)) = statistic.range {
            columns.push((
                Column::number(head, meaning).detail_if(is_detail(head, shown)),
                Box::new(move |e| Cell::range(e.measured.spread(statistic.name), unit)),
            ));
        }
    }
    let words: [(&str, Words); 3] = [
        ("likely cause of max", |e| {
            let worst = e.measured.worst.as_ref();
            worst.map_or_else(String::new, |worst| {
                format!("{}, at {:.1} s", worst.cause, worst.at_s)
            })
        }),
        ("CPUs", |e| e.measured.placement.to_string()),
        ("does without", |e| e.row.lacks.clone()),
    ];
    columns.extend(words.map(|(head, of)| -> (Column, Of) {
        let column = Column::words(head).detail_if(true);
        (column, Box::new(move |e| Cell::word(of(e))))
    }));
    columns
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
fn percentiles<'a>(part: &Part<'_>, group: &Group<'a>) -> Option<Table> {
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
            let name = format!("{label}{what}");
            let mut cells = vec![Cell::word(name.trim_end_matches(": "))];
            cells.extend(found.rows().map(|(_, ns)| Cell::number(ns, text::nanos)));
            rows.push(cells);
        };
        let Measured {
            distribution,
            send_delay,
            floor: beside,
            ..
        } = entry.measured;
        let times = |found: &'a Distribution| &found.percentiles;
        if part.scenario == floor::SCENARIO {
            // The limits of the hardware are a floor themselves.
            row("", distribution.as_ref().map(times));
            continue;
        }
        let what = match entry.row.load {
            _ if entry.row.parameters.depth_count.is_some() => "answer",
            Load::Open => "one way",
            _ => "round trip",
        };
        row(what, distribution.as_ref().map(times));
        row("left late", send_delay.as_ref().map(times));
        row("floor", beside.as_ref());
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

/// Whether others published means of this situation, or a number of messages was asked for.
fn compares_means(part: &Part<'_>) -> bool {
    part.entries.iter().any(|entry| {
        let mut names = entry.row.published.iter().map(|one| one.figure.as_str());
        entry.row.parameters.messages_count.is_some()
            || names.any(|name| ["mean_ns", "round_trips_per_s"].contains(&name))
    })
}

/// Further statistics of the ranked rows, if there are some.
fn further(
    (title, is_shown, names): &More,
    part: &Part<'_>,
    groups: &[Group<'_>],
) -> Option<Table> {
    let entries = groups.iter().flat_map(|group| &group.main.entries);
    let entries: Vec<Entry<'_>> = entries.filter(|_| is_shown(part)).copied().collect();
    let differ = varied(&OF_TABLES, &entries);
    let is_fit = |name: &&str| part.load == Load::Closed || *name != "round_trips_per_s";
    let names = names.iter().copied().filter(is_fit);
    let statistics: Vec<&Statistic> = names.filter_map(find).collect();
    let row = |entry: &Entry<'_>| {
        let value = |one: &&Statistic| Cell::number(entry.measured.value(one), one.unit.text());
        let mut cells = vec![Cell::word(entry.label(&differ))];
        cells.extend(statistics.iter().map(value));
        cells
    };
    let mut columns = vec![Column::words("situation")];
    let heads = statistics.iter();
    columns.extend(heads.map(|one| Column::number(one.head, one.meaning)));
    let table = Table::plain(title, &columns, entries.iter().map(row).collect());
    let mut heads = table.columns.iter().map(|column| column.head);
    let has_them = heads.any(|head| head == statistics[0].head);
    has_them.then_some(table)
}

/// The worst messages of each row that kept them, with the sentence about those above p99.
#[allow(clippy::cast_precision_loss, reason = "numbers far below 2^52")]
fn worst_messages(group: &Group<'_>) -> Vec<Table> {
    let entries = &group.main.entries;
    let differ = varied(&OF_TABLES, entries);
    let columns = [
        Column::number("message", ""),
        Column::number("due at", ""),
        Column::number("latency", ""),
        Column::words("cause"),
    ];
    let table = |entry: &Entry<'_>| {
        let report = entry.measured.worst_messages.as_ref()?;
        let rows = report.messages.iter().map(|message| {
            vec![
                Cell::count(message.sequence),
                Cell::number(Some(message.at_s), |at_s| format!("{at_s:.3} s")),
                Cell::number(Some(message.latency_ns as f64), text::nanos),
                Cell::word(message.why()),
            ]
        });
        let label = entry.label(&differ);
        let title = format!("Worst messages: {label}");
        let title = title.trim_end_matches(": ");
        let mut table = Table::plain(title, &columns, rows.collect());
        table.notes.extend(report.sentence());
        Some(table)
    };
    entries.iter().filter_map(table).collect()
}

/// Figures that others published, beside ours of the main placement.
fn published(groups: &[Group<'_>]) -> Option<Table> {
    let mut sources: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let entries = groups.iter().flat_map(Group::shown).copied();
    let entries: Vec<Entry<'_>> = entries.collect();
    let differ = varied(&OF_TABLES, &entries);
    for entry in &entries {
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
    match find(&published.figure) {
        Some(statistic) => (
            statistic.head,
            measured.value(statistic),
            statistic.unit.text(),
        ),
        None => (&published.figure, None, text::rate),
    }
}

/// Ratios of rows within runs, each with its target; `None` if there are none.
pub(super) fn ratios(ratios: &[Ratio]) -> Option<Section> {
    let rows = ratios.iter().map(|ratio| {
        let (target, result) = ratio.target.map_or_else(Default::default, |target| {
            let is_met = target.is_met(ratio.ratio.median);
            let target = match target {
                Target::AtMost(most) => format!("<= {most}"),
                Target::AtLeast(least) => format!(">= {least}"),
            };
            (target, if is_met { "met" } else { "missed" })
        });
        vec![
            Cell::word(ratio.ours.as_str()),
            Cell::word(ratio.situation.as_str()),
            Cell::word(ratio.beside.as_str()),
            Cell::word(find(&ratio.figure).map_or("", |statistic| statistic.head)),
            Cell::median(Some(ratio.ratio), three_figures),
            Cell::range(Some(ratio.ratio), three_figures),
            Cell::word(target),
            Cell::word(result),
        ]
    });
    let columns = [
        Column::words("ours"),
        Column::words("with"),
        Column::words("beside"),
        Column::words("figure"),
        Column::number("ratio", "median of the runs"),
        Column::number("runs", "least and most of the runs"),
        Column::words("target"),
        Column::words("result"),
    ];
    (!ratios.is_empty()).then(|| Section {
        heading: "Ratios, run by run".to_owned(),
        tables: vec![Table::plain("", &columns, rows.collect())],
        ..Section::default()
    })
}
