//! The headline of recorded results in Markdown: what a README quotes.
//!
//! Each table stands under the command that gave it. Machine, load, spread over the runs and ratio to the floor are part
//! of it, and what forbids to quote it is said in it.

use super::methods::rank;
use super::points::what;
use super::ranking::{Place, Ranking, name, threads_note};
use olivine_bench::method::{self, OLIVINE_PREFIX};
use olivine_bench::report::Source;
use olivine_bench::result::file::RUNS_QUOTABLE;
use olivine_bench::result::{Measured, ResultFile, Row};
use olivine_bench::spread::Spread;
use olivine_bench::text;

/// How built-in methods wait that have a line together instead of a row each, once they are far from the front.
const BLOCKS: &str = "block";
/// What no reader needs of a command: where it wrote its result.
const SAVE: &str = "--save";

/// Every result of `sources` that has rows, in their order.
pub(in super::super) fn headline(sources: &[Source]) -> String {
    let mut out = String::new();
    let mut machines: Vec<String> = Vec::new();
    for Source { file, .. } in sources
        .iter()
        .filter(|source| !source.file.results.is_empty())
    {
        let machine = machine(file);
        if !machines.contains(&machine) {
            out.push_str(&format!("{machine}\n\n"));
            machines.push(machine);
        }
        out.push_str(&of_file(file));
        out.push('\n');
    }
    out.push_str(LEGEND);
    out
}

/// How to read all of it.
const LEGEND: &str = "Two processes, each pinned to a CPU, every byte checked. Figures are medians of the runs, in \
brackets the least and the most of them; percentiles above p50 are of all samples. Ratios are to the floor, a bare cache line to and fro between the same two \
processes in the same run. `*`: more processes than CPUs.\n";

/// What stands below a table with other people's libraries in it.
const THEIRS: &str = "\nOther people's libraries were measured after these methods, each in a program of its own, in turns \
with its own floor.\n";

/// One file: its command and conditions, then its table.
fn of_file(file: &ResultFile) -> String {
    let command = without_files(&file.machine.command);
    let mut facts = vec![
        format!("{} runs", file.runs),
        format!("load {:.1} before the start", file.machine.load_average_1m),
    ];
    if let Some(error) = &file.measuring_error {
        let share = text::three_figures(error.share() * 100.0);
        facts.push(format!("measuring error {share} %"));
    }
    if !file.is_quotable() {
        facts.push(format!(
            "**not to be quoted: fewer than {RUNS_QUOTABLE} whole runs**"
        ));
    }
    let compared = file
        .results
        .windows(2)
        .any(|pair| pair[0].method != pair[1].method);
    let table = match (file.scenario.as_str(), compared) {
        ("throughput", true) => methods(file, by_rate, rate),
        ("pingpong", true) => methods(file, rank, round_trip),
        _ => alone(file),
    };
    let mut out = format!("`{command}` ({}):\n\n{table}", facts.join(", "));
    let failed = file.failures().map(|(row, reason)| {
        let size = text::bytes(row.parameters.size_bytes);
        format!("{}, {size} ({reason})", row.method)
    });
    let failed: Vec<String> = failed.collect();
    if !failed.is_empty() {
        out.push_str(&format!("\nNo figure: {}.\n", failed.join("; ")));
    }
    out
}

/// A command without the files that it wrote.
fn without_files(command: &str) -> String {
    let mut kept = Vec::new();
    let mut words = command.split(' ');
    while let Some(word) = words.next() {
        if word == SAVE {
            words.next();
        } else if !word.starts_with("--save=") {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// What the figures are of, in a line.
fn machine(file: &ResultFile) -> String {
    let machine = &file.machine;
    format!(
        "{}, {} CPUs{}, Linux {}, olivine {} ({}), {}.",
        machine.cpu_model,
        machine.cpus_allowed,
        if machine.virtual_machine {
            ", virtual"
        } else {
            ""
        },
        machine.kernel,
        machine.version,
        machine.commit,
        file.started().split(' ').next().unwrap_or_default()
    )
}

/// A row for each method, a column for each size or batch.
fn methods(
    file: &ResultFile,
    rank: impl Fn(&Measured) -> f64,
    cell: impl Fn(&Measured) -> String,
) -> String {
    let rankings = Ranking::all(&file.results, rank);
    let Some(first) = rankings.first() else {
        return "nothing was measured\n".to_owned();
    };
    let heads: Vec<String> = rankings.iter().map(head).collect();
    let mut out = format!(
        "| method | waits | {} |\n| --- | ---{} |\n",
        heads.join(" | "),
        " | ---".repeat(heads.len())
    );
    let mut blocking = Vec::new();
    for entry in &first.main.ranked {
        let (row, _) = entry;
        let of_it = |ranking: &Ranking<'_>| {
            let all = &ranking.main.ranked;
            let found = all.iter().find(|other| name(other) == name(entry));
            found.map_or_else(|| "-".to_owned(), |(_, measured)| cell(measured))
        };
        let cells: Vec<String> = rankings.iter().map(of_it).collect();
        let wait = row.parameters.wait.as_deref().unwrap_or_default();
        if wait == BLOCKS && method::find(method::BUILT_IN, &row.method).is_ok() {
            blocking.push(format!("{} {}", row.method, cells[0]));
            continue;
        }
        let mark = if row.method.starts_with(OLIVINE_PREFIX) {
            "**"
        } else {
            ""
        };
        out.push_str(&format!(
            "| {mark}{}{mark} | {wait} | {} |\n",
            name(entry),
            cells.join(" | ")
        ));
    }
    if !blocking.is_empty() {
        out.push_str(&format!(
            "\nThrough the kernel, blocking, {}: {}.\n",
            heads[0],
            blocking.join("; ")
        ));
    }
    let is_theirs = |row: &Row| {
        let ours = row.method.starts_with(OLIVINE_PREFIX);
        !ours && method::find(method::BUILT_IN, &row.method).is_err()
    };
    if file.results.iter().any(is_theirs) {
        out.push_str(THEIRS);
    }
    if let Some(note) = rankings.iter().find_map(threads_note) {
        out.push_str(&format!("\n{note}.\n"));
    }
    let reasons = first.main.reasons();
    if !reasons.is_empty() {
        out.push_str(&format!("\nOf those {}.\n", reasons.join("; of those ")));
    }
    let aside = first.aside.iter().map(|entry| {
        let placement = entry.1.placement;
        format!("{} {} (CPUs {placement})", name(entry), cell(entry.1))
    });
    let aside: Vec<String> = aside.collect();
    if !aside.is_empty() {
        out.push_str(&format!("\nElsewhere only: {}.\n", aside.join("; ")));
    }
    out
}

/// What a column is of.
fn head(ranking: &Ranking<'_>) -> String {
    let batch = match ranking.batch_count {
        1 => String::new(),
        batch => format!(", batches of {batch}"),
    };
    format!(
        "{}{batch}, {}",
        text::bytes(ranking.size_bytes),
        ranking.main.text()
    )
}

/// p50 of the median run, and its ratio to the floor.
fn round_trip(measured: &Measured) -> String {
    let p50 = measured.p50_ns();
    let p50 = p50.map_or_else(|| "-".to_owned(), |p50| text::nanos(p50.median));
    match &measured.ratio_p50 {
        Some(ratio) => format!("{p50}, {}", spread(ratio, text::three_figures)),
        None => p50,
    }
}

fn rate(measured: &Measured) -> String {
    let rate = measured.messages_per_s.as_ref();
    rate.map_or_else(|| "-".to_owned(), |rate| spread(rate, text::rate))
}

fn by_rate(measured: &Measured) -> f64 {
    measured.messages_per_s.map_or(0.0, |rate| -rate.median)
}

/// The rows of one method, each with its figure.
fn alone(file: &ResultFile) -> String {
    let mut out = String::new();
    // What was measured while the CPUs were elsewhere is in the file.
    for place in Place::of(&file.results).iter().take(1) {
        out.push_str(&format!(
            "| {} | measured | to the floor |\n| --- | --- | --- |\n",
            place.text()
        ));
        for entry in &place.ranked {
            let (figure, ratio) = figure(entry.1);
            out.push_str(&format!("| {} | {figure} | {ratio} |\n", what(entry)));
        }
    }
    out
}

/// The figure that stands for a row, and what it is to the floor.
fn figure(measured: &Measured) -> (String, String) {
    let ratio = |ratio: Option<&Spread>| {
        ratio.map_or_else(|| "-".to_owned(), |r| spread(r, text::three_figures))
    };
    let Some((_, found)) = measured.distribution() else {
        let bytes = measured.bytes_per_s.map(text::byte_rate);
        let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes} received"));
        let messages = measured.messages_per_floor_round_trip.as_ref();
        return (
            format!("{}{bytes}", rate(measured)),
            messages.map_or_else(
                || "-".to_owned(),
                |_| format!("{} messages", ratio(messages)),
            ),
        );
    };
    let at = |name: &str, ns: Option<f64>| ns.map(|ns| format!("{name} {}", text::nanos(ns)));
    let percentiles = &found.percentiles;
    let shown = [
        measured
            .p50_ns()
            .map(|p50| format!("p50 {}", spread(&p50, text::nanos))),
        at("p99", percentiles.p99_ns),
        at("p99.9", percentiles.p99_9_ns),
    ];
    let shown: Vec<String> = shown.into_iter().flatten().collect();
    (shown.join(", "), ratio(measured.ratio_p50.as_ref()))
}

/// The median, with the least and the most of the runs where there are several.
fn spread(spread: &Spread, unit: impl Fn(f64) -> String) -> String {
    if spread.runs < 2 {
        return unit(spread.median);
    }
    let (min, max) = (unit(spread.min), unit(spread.max));
    // A unit that both have is said once.
    let least = match (min.split_once(' '), max.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number,
        _ => min.as_str(),
    };
    format!("{} ({least}–{max})", unit(spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_without_its_files() {
        let of = |words: &str| without_files(&format!("olivine bench {words}"));
        assert_eq!(of("--save a.json"), "olivine bench");
        assert_eq!(
            of("floor --save a.json --save=b.md --runs 5"),
            "olivine bench floor --runs 5"
        );
    }

    #[test]
    fn a_spread_says_its_unit_once_where_both_ends_have_it() {
        let of = |values: &[f64]| spread(&Spread::of(values).unwrap(), text::rate);
        assert_eq!(of(&[250e6, 273e6, 281e6]), "273 M/s (250–281 M/s)");
        assert_eq!(of(&[273e6]), "273 M/s");
        assert_eq!(of(&[9e5, 1e6, 2e6]), "1.00 M/s (900 K/s–2.00 M/s)");
    }
}
