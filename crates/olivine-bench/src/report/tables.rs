//! The tables of the page: every row that was measured or failed, published figures, machines, floors.

use super::Source;
use super::select::{Entry, Param, constant, main_placement, varied};
use super::svg::escape;
use super::table::Table;
use crate::privileges::Privileges;
use crate::result::{Load, Measured, ResultFile, Row};
use crate::spread::Spread;
use crate::text;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Cells of a distribution.
const LATENCY_CELLS: usize = 9;

/// Every row of a scenario; those without figures say why.
pub(super) fn rows(load: Load, entries: &[Entry<'_>]) -> String {
    let mut params = varied(entries);
    if !params.contains(&Param::Method) {
        params.insert(0, Param::Method);
    }
    let common = constant(entries, &params);
    let mut heads: Vec<(&str, bool)> = params.iter().map(|param| (param.head(), false)).collect();
    heads.push(("CPUs were", false));
    if load == Load::Saturated {
        heads.extend([
            ("received", true),
            ("least of runs", true),
            ("most of runs", true),
            ("payload", true),
            ("per floor round trip", true),
            ("to a copy", true),
            ("n slices", true),
        ]);
    } else {
        heads.extend(
            ["p50 (runs)", "p90", "p99", "p99.9", "p99.99", "max"].map(|head| (head, true)),
        );
        heads.extend([
            ("× floor (runs)", true),
            ("n samples", true),
            ("likely cause of max", false),
        ]);
    }
    heads.push(("does without", false));
    let mut table = Table::new(&heads);
    let mut sorted: Vec<&Entry<'_>> = entries.iter().collect();
    let main = main_placement(entries);
    sorted.sort_by(|a, b| {
        let aside = |entry: &Entry<'_>| {
            entry
                .measured()
                .is_none_or(|found| Some(found.placement) != main)
        };
        aside(a).cmp(&aside(b)).then(rank(a).total_cmp(&rank(b)))
    });
    for entry in sorted {
        let mut cells: Vec<String> = params
            .iter()
            .map(|param| escape(&param.text(entry)))
            .collect();
        let Some(measured) = entry.measured() else {
            let reasons = match &entry.row.outcome {
                crate::result::Outcome::Failed { reason } => reason.as_str(),
                crate::result::Outcome::Measured(_) => "",
            };
            table.broken_row(&cells, &format!("no figure: {}", escape(reasons)));
            continue;
        };
        cells.push(measured.placement.to_string());
        cells.extend(if load == Load::Saturated {
            rate_cells(measured, entry.row.parameters.subscribers_count)
        } else {
            latency_cells(measured)
        });
        cells.push(escape(&entry.row.lacks));
        table.row(if entry.is_ours() { "ours" } else { "" }, &cells);
    }
    let caption = if common.is_empty() {
        String::new()
    } else {
        format!("<p>All rows: {}.</p>\n", escape(&common))
    };
    format!("{caption}{}", table.finish())
}

/// Fastest first, failures last, within the rows of the main placement and the others.
fn rank(entry: &Entry<'_>) -> f64 {
    let Some(measured) = entry.measured() else {
        return f64::INFINITY;
    };
    match measured.deliveries_per_s {
        Some(rate) => -rate,
        None => measured.distribution().map_or(f64::MAX, |(_, found)| {
            let p50 = measured.p50_ns().map(|p50| p50.median);
            p50.unwrap_or(found.percentiles.max_ns)
        }),
    }
}

fn latency_cells(measured: &Measured) -> Vec<String> {
    let Some((_, found)) = measured.distribution() else {
        return vec![String::new(); LATENCY_CELLS];
    };
    let table = &found.percentiles;
    let shown = [
        table.p90_ns,
        table.p99_ns,
        table.p99_9_ns,
        table.p99_99_ns,
        Some(table.max_ns),
    ];
    let p50 = measured.p50_ns();
    let mut cells = vec![p50.map_or_else(String::new, |p50| spread(&p50, text::nanos))];
    cells.extend(shown.map(|ns| ns.map(text::nanos).unwrap_or_default()));
    cells.push(
        measured
            .ratio_p50
            .map(|ratio| spread(&ratio, text::three_figures))
            .unwrap_or_default(),
    );
    cells.push(text::count(table.count));
    cells.push(measured.worst.as_ref().map_or_else(String::new, |worst| {
        escape(&format!("{}, at {:.1} s", worst.cause, worst.at_s))
    }));
    cells
}

fn rate_cells(measured: &Measured, subscribers: u32) -> Vec<String> {
    let each = f64::from(subscribers);
    let rate = |value: Option<f64>| value.map(text::rate).unwrap_or_default();
    let of = measured.messages_per_s;
    let figure = |found: Option<Spread>| {
        found
            .map(|found| text::three_figures(found.median))
            .unwrap_or_default()
    };
    vec![
        rate(measured.deliveries_per_s),
        rate(of.map(|of| of.min * each)),
        rate(of.map(|of| of.max * each)),
        measured
            .bytes_per_s
            .map(text::byte_rate)
            .unwrap_or_default(),
        figure(measured.messages_per_floor_round_trip),
        figure(measured.ratio_to_copy),
        text::count(measured.slices_count),
    ]
}

fn spread(spread: &Spread, unit: impl Fn(f64) -> String) -> String {
    let range = if spread.runs > 1 {
        format!(
            " <small>({} to {})</small>",
            unit(spread.min),
            unit(spread.max)
        )
    } else {
        String::new()
    };
    format!("{}{range}", unit(spread.median))
}

/// Figures that others published, beside ours.
pub(super) fn published(entries: &[Entry<'_>]) -> String {
    let mut params = varied(entries);
    params.retain(|param| *param != Param::Method);
    let heads = [
        ("situation", false),
        ("figure", false),
        ("published", true),
        ("measured here", true),
        ("who", false),
        ("on what machine", false),
    ];
    let mut table = Table::new(&heads);
    for entry in entries {
        for published in &entry.row.published {
            let write = |value: f64| {
                if published.figure.ends_with("_ns") {
                    text::nanos(value)
                } else if published.figure == "bytes_per_s" {
                    text::byte_rate(value)
                } else {
                    text::rate(value)
                }
            };
            let ours = entry
                .measured()
                .and_then(|measured| figure(measured, &published.figure));
            table.row(
                "",
                &[
                    escape(&entry.name(&params)),
                    escape(&published.figure),
                    write(published.value),
                    ours.map(write).unwrap_or_default(),
                    escape(&published.source),
                    escape(&published.machine),
                ],
            );
        }
    }
    if table.is_empty() {
        return String::new();
    }
    format!("<h3>Published elsewhere</h3>\n{}", table.finish())
}

/// A figure by the name it has in result files.
fn figure(measured: &Measured, name: &str) -> Option<f64> {
    let table = measured.distribution().map(|(_, found)| &found.percentiles);
    match name {
        "p50_ns" => measured.p50_ns().map(|p50| p50.median),
        "p90_ns" => table?.p90_ns,
        "p99_ns" => table?.p99_ns,
        "p99_9_ns" => table?.p99_9_ns,
        "p99_99_ns" => table?.p99_99_ns,
        "max_ns" => Some(table?.max_ns),
        "messages_per_s" => measured.messages_per_s.map(|rate| rate.median),
        "deliveries_per_s" => measured.deliveries_per_s,
        "bytes_per_s" => measured.bytes_per_s,
        _ => None,
    }
}

/// The machine without a channel, where a file has it.
pub(super) fn floors(sources: &[Source]) -> String {
    let mut out = String::new();
    for Source { name, file } in sources {
        let Some(floor) = &file.floor else {
            continue;
        };
        let mut table = Table::new(&[("what", false), ("median (runs)", true), ("n", true)]);
        for line in &floor.cache_line {
            let cells = [
                format!("bare cache line, round trip, CPUs {}", line.placement),
                spread(&line.round_trip_p50_ns, text::nanos),
                text::count(line.round_trip.count),
            ];
            table.row("", &cells);
        }
        let copy = (
            "copy of 8 KiB within 1 MiB",
            spread(&floor.copy_bytes_per_s, text::byte_rate),
        );
        let call = (
            "empty system call",
            spread(&floor.system_call_ns, text::nanos),
        );
        let clock = ("clock reading", spread(&floor.clock_cost_ns, text::nanos));
        let woken = |what, found: &Option<Spread>| {
            found
                .as_ref()
                .map(|found| (what, spread(found, text::nanos)))
        };
        let wake = woken("futex wake, nobody asleep", &floor.futex_wake_ns);
        let trip = woken(
            "round trip of two that sleep on a futex",
            &floor.futex_round_trip_ns,
        );
        let rows = [copy, call].into_iter().chain(wake).chain(trip);
        for (what, value) in rows.chain([clock]) {
            let runs = floor.system_call_ns.runs.to_string();
            table.row("", &[what.to_owned(), value, runs]);
        }
        out.push_str(&format!("<h3>{}</h3>\n{}", escape(name), table.finish()));
    }
    if out.is_empty() {
        return out;
    }
    format!("<section>\n<h2>The machine without a channel</h2>\n{out}</section>\n")
}

/// What both processes ran with beyond what any process has.
fn privileges(privileges: Privileges) -> &'static str {
    match (privileges.real_time, privileges.locked_memory) {
        (true, true) => "SCHED_FIFO, locked memory",
        (true, false) => "SCHED_FIFO",
        (false, true) => "locked memory",
        (false, false) => "",
    }
}

/// Each file's machine and command.
pub(super) fn machines(sources: &[Source]) -> String {
    let mut out = "<section id=\"machines\">\n<h2>Machines and commands</h2>\n".to_owned();
    for Source { name, file } in sources {
        let machine = &file.machine;
        let cpus: Vec<String> = file.cpus.iter().map(u32::to_string).collect();
        let facts = [
            (
                "command",
                format!("<code>{}</code>", escape(&machine.command)),
            ),
            ("started", escape(&file.started())),
            (
                "processor",
                escape(&format!(
                    "{}, {} CPUs allowed{}",
                    machine.cpu_model,
                    machine.cpus_allowed,
                    if machine.virtual_machine {
                        ", virtual machine"
                    } else {
                        ""
                    }
                )),
            ),
            (
                "kernel",
                escape(&format!(
                    "Linux {}, governor {}",
                    machine.kernel, machine.governor
                )),
            ),
            ("load before", format!("{:.2}", machine.load_average_1m)),
            ("pinned to", escape(&format!("CPUs {}", cpus.join(", ")))),
            (
                "clock",
                escape(&format!(
                    "{}, {} a reading, in every figure",
                    machine.clock,
                    text::nanos(machine.clock_cost_ns)
                )),
            ),
            (
                "runs",
                escape(&format!(
                    "{} of each variant{}, {} s in all{}",
                    file.runs,
                    turns(file),
                    text::three_figures(file.seconds_per_variant),
                    match (file.interrupted, file.cut_short) {
                        (true, _) => "; stopped before its end",
                        (false, true) => "; fewer of some, for lack of time",
                        (false, false) => "",
                    }
                )),
            ),
            (
                "measuring error",
                file.measuring_error
                    .as_ref()
                    .map_or_else(String::new, |error| escape(&error.sentence())),
            ),
            ("privileges", privileges(file.privileges).to_owned()),
            (
                "build",
                escape(&format!("olivine {} ({})", machine.version, machine.commit)),
            ),
        ];
        let _ = write!(out, "<h3>{}</h3>\n<dl>\n", escape(name));
        for (what, value) in facts {
            if !value.is_empty() {
                let _ = writeln!(out, "<dt>{what}</dt><dd>{value}</dd>");
            }
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</section>\n");
    out
}

/// Which variants took turns, as far as the file says.
fn turns(file: &ResultFile) -> String {
    let measured = file.results.iter().filter_map(Row::measured);
    let sessions: BTreeSet<&String> = measured.flat_map(|found| &found.session).collect();
    match sessions.len() {
        0 => String::new(),
        1 => ", in turns".to_owned(),
        count => format!(", in turns within each of {count} sessions"),
    }
}
