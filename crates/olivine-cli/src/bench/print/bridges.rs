//! Bridges and what they are compared with.

use crate::output::table;
use olivine_bench::result::{Measured, Row};
use olivine_bench::scenario::bridge::{Beside, BridgeResult, PARTS, Part, Ratio, Target};
use olivine_bench::spread::Spread;
use olivine_bench::text;

/// Figures part by part, then ratios with their targets.
pub(in super::super) fn bridges(found: &BridgeResult) -> String {
    let mut out = "Bridges, all contenders in turns\n".to_owned();
    for (part, name) in PARTS {
        let rows: Vec<(&Row, &Measured)> = found
            .rows
            .iter()
            .filter(|row| row.scenario == name)
            .filter_map(|row| Some((row, row.measured()?)))
            .collect();
        if rows.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{}\n", title(part)));
        let cells = rows.iter().map(|(row, measured)| match part {
            Part::Paced => latencies(row, measured),
            _ => rates(row, measured),
        });
        let heads: &[&str] = match part {
            Part::Paced => &["METHOD", "WAITS", "CPUS", "RATE", "50", "90", "99", "99.9"],
            _ => &["METHOD", "SIZE", "CPUS", "MESSAGES", "MIN", "MAX", "BYTES"],
        };
        let right: &[usize] = match part {
            Part::Paced => &[3, 4, 5, 6, 7],
            _ => &[1, 3, 4, 5, 6],
        };
        out.push_str(&table(heads, right, cells.collect()));
    }
    out.push_str(&ratios(&found.ratios));
    out
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Paced => "One way over loopback at a fixed rate, 32 B, from the intended send time",
        Part::Stream => "Full speed over loopback, nothing lost",
        Part::Cost => "Publishing in bursts of 1000: what a message costs its publisher",
        Part::Stored => "Stored in a stream of a NATS server, one replica, in a file",
        Part::Disk => "Recorded, and written one after the other",
        _ => "",
    }
}

fn latencies(row: &Row, measured: &Measured) -> Vec<String> {
    let of = &row.parameters;
    let mut cells = vec![
        row.method.clone(),
        of.wait.clone().unwrap_or_default(),
        measured.placement.to_string(),
        text::rate(of.rate_per_s.unwrap_or(0.0)),
    ];
    let figures = measured.one_way.as_ref().map(|found| &found.percentiles);
    let figures = figures.into_iter().flat_map(|found| found.rows());
    let shown = figures.filter(|(name, _)| ["50", "90", "99", "99.9"].contains(name));
    cells.extend(shown.map(|(_, ns)| ns.map(text::nanos).unwrap_or_default()));
    cells
}

fn rates(row: &Row, measured: &Measured) -> Vec<String> {
    let rate = |pick: fn(&Spread) -> f64| {
        let rate = measured.messages_per_s.as_ref();
        rate.map_or_else(String::new, |rate| text::rate(pick(rate)))
    };
    let bytes = measured.bytes_per_s.map(text::byte_rate);
    vec![
        row.method.clone(),
        text::bytes(row.parameters.size_bytes),
        measured.placement.to_string(),
        rate(|spread| spread.median),
        rate(|spread| spread.min),
        rate(|spread| spread.max),
        bytes.unwrap_or_default(),
    ]
}

/// Ratios within runs, each with what it should be.
fn ratios(ratios: &[Ratio]) -> String {
    let cells = ratios.iter().filter_map(|ratio| {
        let found = ratio.ratio.as_ref()?;
        let (word, target) = match ratio.target {
            Target::AtMost(most) => ("<=", most),
            Target::AtLeast(least) => (">=", least),
            _ => return None,
        };
        let beside = match &ratio.beside {
            Beside::Candidate(name) => name.clone(),
            Beside::Rate(per_s) => text::rate(*per_s),
        };
        let met = if ratio.target.is_met(found.median) {
            "met"
        } else {
            "missed"
        };
        Some(vec![
            ratio.ours.clone(),
            text::bytes(ratio.size_bytes),
            beside,
            text::three_figures(found.median),
            text::three_figures(found.min),
            text::three_figures(found.max),
            format!("{word} {target}"),
            met.to_owned(),
        ])
    });
    let cells: Vec<Vec<String>> = cells.collect();
    if cells.is_empty() {
        return String::new();
    }
    let heads = [
        "OURS", "SIZE", "BESIDE", "RATIO", "MIN", "MAX", "TARGET", "",
    ];
    let mut out = "\nOurs to what stands beside it, run by run\n".to_owned();
    out.push_str(&table(&heads, &[1, 3, 4, 5], cells));
    out
}
