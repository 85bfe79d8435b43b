//! Conditions of figures: machine, command, runs.

use super::Source;
use super::model::Conditions;
use crate::machine::Processor;
use crate::privileges::Privileges;
use crate::result::file::RUNS_QUOTABLE;
use crate::result::{ResultFile, Row};
use crate::text::{self, three_figures};
use std::collections::BTreeSet;

/// Options that readers do not need: the output files.
const SAVE: &str = "--save";
/// Load of a machine before the start above which it was not idle.
const IDLE_BELOW: f64 = 0.5;

/// The machine of a file in a line.
pub(super) fn machine(file: &ResultFile) -> String {
    let machine = &file.machine;
    let started = file.started();
    let day = started.split(' ').next().unwrap_or_default();
    let comma = if day.is_empty() { "" } else { ", " };
    format!(
        "{}, Linux {}, olivine {} ({}){comma}{day}",
        machine.brief(),
        machine.kernel,
        machine.version,
        machine.commit,
    )
}

/// A command without the files that it wrote.
pub(super) fn command(file: &ResultFile) -> String {
    let mut kept = Vec::new();
    let mut words = file.machine.command.split(' ');
    while let Some(word) = words.next() {
        if word == SAVE {
            words.next();
        } else if !word.starts_with("--save=") {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Runs, load and measuring error, a few words each. `held` are the runs of each shown row, which
/// may be fewer than were asked for; rows of the hardware limits do not say it.
pub(super) fn facts(file: &ResultFile, held: impl Iterator<Item = usize>) -> Vec<String> {
    let held: BTreeSet<usize> = held.filter(|runs| *runs > 0).collect();
    let runs = match (held.first(), held.last()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} runs"),
        (Some(&all), _) => text::plural(all as u64, "run"),
        _ => text::plural(file.runs.into(), "run"),
    };
    let mut facts = vec![
        runs,
        format!("load {:.1} before the start", file.machine.load_average_1m),
    ];
    if let Some(error) = &file.measuring_error {
        let share = three_figures(error.share() * 100.0);
        facts.push(format!("measuring error {share} %"));
    }
    facts
}

/// Why figures must not be quoted, or only with care.
pub(super) fn warning(sources: &[Source]) -> Option<String> {
    let mut sentences = Vec::new();
    for Source { name, file } in sources.iter().filter(|source| !source.file.is_quotable()) {
        let mut reasons = Vec::new();
        if file.runs < RUNS_QUOTABLE {
            let runs = text::plural(file.runs.into(), "run");
            reasons.push(format!("only {runs}, {RUNS_QUOTABLE} are needed"));
        }
        if file.interrupted {
            reasons.push("stopped before its end".to_owned());
        }
        if file.cut_short {
            reasons.push("fewer runs of some methods, for lack of time".to_owned());
        }
        sentences.push(format!(
            "Not a figure to quote: {name}: {}.",
            reasons.join("; ")
        ));
    }
    let loads = sources
        .iter()
        .map(|source| source.file.machine.load_average_1m);
    let most = loads.fold(0.0, f64::max);
    if most > IDLE_BELOW {
        sentences.push(format!(
            "The machine was not idle before the start (load up to {most:.1})."
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// The warning in two words.
pub(super) fn stamp(sources: &[Source]) -> Option<&'static str> {
    let is_busy = |source: &Source| source.file.machine.load_average_1m > IDLE_BELOW;
    if sources.iter().any(is_busy) {
        return Some("busy machine");
    }
    let is_short = |source: &Source| !source.file.is_quotable();
    sources.iter().any(is_short).then_some("short run")
}

/// Each file's machine and command.
pub(super) fn conditions(source: &Source) -> Conditions {
    let file = &source.file;
    let machine = &file.machine;
    let cpus: Vec<String> = file.cpus.iter().map(u32::to_string).collect();
    let ending = match (file.interrupted, file.cut_short) {
        (true, _) => "; stopped before its end",
        (false, true) => "; fewer of some, for lack of time",
        (false, false) => "",
    };
    let privileges = match file.privileges {
        Privileges {
            real_time: true,
            locked_memory: true,
        } => "SCHED_FIFO, locked memory",
        Privileges {
            real_time: true, ..
        } => "SCHED_FIFO",
        Privileges {
            locked_memory: true,
            ..
        } => "locked memory",
        Privileges { .. } => "",
    };
    let error = file.measuring_error.as_ref();
    let facts = [
        ("command", machine.command.clone()),
        ("started", file.started()),
        (
            "machine",
            format!(
                "{}, Linux {}, governor {}, load {:.1} before the start",
                machine.brief(),
                machine.kernel,
                machine.governor,
                machine.load_average_1m,
            ),
        ),
        (
            "processor",
            machine
                .processor
                .as_ref()
                .map_or_else(String::new, Processor::text),
        ),
        (
            "runs",
            format!(
                "{} of each variant{}, {}, on CPUs {}, every byte checked{ending}",
                file.runs,
                turns(file),
                length(file),
                cpus.join(", "),
            ),
        ),
        (
            "clock",
            format!(
                "{}, {} a reading, in every figure",
                machine.clock,
                text::nanos(machine.clock_cost_ns)
            ),
        ),
        (
            "measuring error",
            error.map_or_else(String::new, |error| error.sentence()),
        ),
        ("privileges", privileges.to_owned()),
        (
            "build",
            format!("olivine {} ({})", machine.version, machine.commit),
        ),
    ];
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty());
    Conditions {
        name: source.name.clone(),
        facts: facts.collect(),
    }
}

/// How long each variant was measured.
fn length(file: &ResultFile) -> String {
    let mut counts = file.results.iter().map(|row| row.parameters.messages_count);
    match counts.next().flatten() {
        Some(count) => format!("{} each", text::plural(count, "round trip")),
        None => format!("{} s in all", three_figures(file.seconds_per_variant)),
    }
}

/// Which variants were interleaved, as far as the file says.
fn turns(file: &ResultFile) -> String {
    let measured = file.results.iter().filter_map(Row::measured);
    let sessions: BTreeSet<&String> = measured.flat_map(|found| &found.session).collect();
    match sessions.len() {
        0 => String::new(),
        1 => ", in turns".to_owned(),
        count => format!(", in turns within each of {count} sessions"),
    }
}
