//! The presentation of result files: rows, order, names, units and figures, decided once.
//!
//! Every output is made from a [`View`]: the tables of the tool, Markdown, the page, the drawings.
//! An output may leave out details; it never selects, ranks or names.

mod conditions;
mod figures;
mod model;
mod rank;
mod select;
mod sentence;
mod side;
mod tables;

pub(crate) use model::{AxisPlan, Curve, Dot, FieldCell, Figure, Plot, Scale};
pub use model::{Cell, Column, Conditions, Line, Section, Table, View};
#[cfg(test)]
pub(crate) use model::{Point, SERIES_MAX};
pub use side::{Everywhere, MachineFiles, Side, Standing, side_by_side};

use crate::result::{Load, ResultFile, floor};
use crate::scenario::registry;
use crate::text;
use rank::Group;
use select::{Part, parts};
use std::collections::BTreeSet;

/// Text about all figures of channels.
const OF_CHANNELS: &str = "\
Two processes, each pinned to a CPU, every byte checked. The floor is a bare cache line to and fro
between the same two processes in the same run. `*`: more processes than CPUs.";
/// Text about all figures of servers.
const OF_SERVERS: &str = "\
Server and generator are each pinned to a CPU. The runs of all servers take turns. Every answer is
checked.";

/// A result file with the name it is shown by.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a file and its name")]
pub struct Source {
    /// Short name, such as the file's without folder and ending.
    pub name: String,
    /// What it holds.
    pub file: ResultFile,
}

/// The view of everything that `sources` hold.
#[must_use]
pub fn view(sources: &[Source]) -> View {
    let mut sections: Vec<Section> = Vec::new();
    // Each with the place of its section.
    let mut compared: Vec<(usize, Part<'_>, Vec<Group<'_>>)> = Vec::new();
    for Source { file, .. } in sources {
        for part in parts(file) {
            let groups = Group::all(&part);
            let shown = groups.iter().flat_map(|group| &group.main.entries);
            let held = shown.map(|entry| entry.measured.runs.len());
            let place = sections.len();
            sections.push(Section {
                command: conditions::command(file),
                facts: conditions::facts(file, held),
                ..section(&part, &groups)
            });
            compared.push((place, part, groups));
        }
        let held = file.ratios.iter().map(|ratio| ratio.ratio.runs);
        sections.extend(tables::ratios(&file.ratios).map(|ratios| Section {
            command: conditions::command(file),
            facts: conditions::facts(file, held),
            ..ratios
        }));
        let missing = file.left_out.iter().cloned();
        sections
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|last| last.failures.extend(missing.clone()));
    }
    tell_apart(&mut sections);
    let mut machines: Vec<String> = sources
        .iter()
        .map(|source| conditions::machine(&source.file))
        .collect();
    // Each once, in the order of the files.
    let mut seen = BTreeSet::new();
    machines.retain(|machine| seen.insert(machine.clone()));
    let (told, sentence) = sentence::sentence(&compared).unzip();
    View {
        title: title(sources),
        sentence,
        told,
        warning: conditions::warning(sources),
        stamp: conditions::stamp(sources),
        machines,
        sections,
        conditions: sources.iter().map(conditions::conditions).collect(),
        method: if compared.iter().all(|(_, part, _)| part.is_of_servers()) {
            OF_SERVERS
        } else {
            OF_CHANNELS
        },
    }
}

fn section(part: &Part<'_>, groups: &[Group<'_>]) -> Section {
    let failures = part.failed.iter().map(|(row, reason)| {
        let of = &row.parameters;
        let batch = match of.batch_count {
            1 => String::new(),
            batch => format!(", batches of {batch}"),
        };
        let (method, size) = (&row.method, text::bytes(of.size_bytes));
        format!("no figure: {method}, {size}{batch}: {reason}")
    });
    Section {
        heading: heading(part.scenario, part.load),
        tables: tables::tables(part, groups),
        figures: figures::figures(part, groups),
        failures: failures.collect(),
        ..Section::default()
    }
}

/// What a scenario measures.
fn heading(scenario: &str, load: Load) -> String {
    if let Some(known) = registry::find(scenario) {
        return known.heading.to_owned();
    }
    let known = match (scenario, load) {
        (floor::SCENARIO, _) => "The machine without a channel",
        ("http", _) => "Servers under HTTP load",
        ("tcp", _) => "Echo servers",
        ("frames", _) => "Frames over TCP, decoded and checked by the receiver",
        ("bridge-paced", _) => "One way over loopback at a fixed rate",
        ("bridge-trip", _) => "There and back over loopback",
        ("bridge-stream", _) => "Full speed over loopback, nothing lost",
        ("bridge-cost", _) => "Publishing in bursts of 1000: what a message costs its publisher",
        ("bridge-stored", _) => "Stored in a stream of a NATS server, one replica, in a file",
        ("bridge-disk", _) => "Recorded, and written one after the other",
        (other, Load::Closed) => return format!("{other}: round trips"),
        (other, Load::Open) => return format!("{other}: fixed rates"),
        (other, Load::Saturated) => return format!("{other}: full speed"),
    };
    known.to_owned()
}

/// Numbers repeated headings and names of figures.
fn tell_apart(sections: &mut [Section]) {
    let mut taken: Vec<String> = Vec::new();
    let mut unused = |name: &str, mark: &str| {
        let numbered = (2..).map(|number: u32| format!("{name}{mark}{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
        taken.push(name.clone());
        name
    };
    for section in sections {
        section.heading = unused(&section.heading, ", ");
        for figure in &mut section.figures {
            figure.name = unused(&figure.name, "-");
        }
    }
}

fn title(sources: &[Source]) -> String {
    let mut scenarios: Vec<&str> = Vec::new();
    for source in sources {
        if !scenarios.contains(&source.file.scenario.as_str()) {
            scenarios.push(&source.file.scenario);
        }
    }
    if scenarios.len() > 4 {
        return "Olivine bench".to_owned();
    }
    format!("Olivine bench: {}", scenarios.join(", "))
}
