//! Machines side by side: the best row of each method on each of them.

use super::Source;
use super::model::Cell;
use super::rank::Group;
use super::select::{Entry, parts, unit};
use crate::result::Load;
use crate::spread::Spread;
use crate::text;

/// Bytes of the compared messages.
const SIZE_BYTES: u64 = 32;

/// Result files of one machine.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "files and their name")]
pub struct MachineFiles {
    /// Its name, such as that of the folder of its files.
    pub name: String,
    /// What it measured.
    pub sources: Vec<Source>,
}

/// A method on one machine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Standing {
    /// Its rank there, from 1.
    pub rank: usize,
    /// Methods that are ranked there.
    pub count: usize,
    /// Its figure: the ratio to the floor, or messages a second.
    pub cell: Cell,
}

/// A method on all machines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Everywhere {
    /// Its name.
    pub name: String,
    /// Whether it is of this library.
    pub is_ours: bool,
    /// Its standing on each machine, in their order.
    pub standings: Vec<Option<Standing>>,
}

/// One scenario on all machines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Side {
    /// What the figures are.
    pub heading: &'static str,
    /// The methods, the best on most machines first.
    pub methods: Vec<Everywhere>,
}

/// The scenarios that machines are compared by.
const COMPARED: [(&str, Load, &str); 2] = [
    (
        "pingpong",
        Load::Closed,
        "Round trip of 32 B, as a multiple of a bare cache line's on that machine",
    ),
    (
        "throughput",
        Load::Saturated,
        "Messages a second, 32 B, one by one",
    ),
];

/// Every compared scenario with a figure.
#[must_use]
pub fn side_by_side(places: &[MachineFiles]) -> Vec<Side> {
    let sides = COMPARED.into_iter().map(|(scenario, load, heading)| {
        let mut methods: Vec<Everywhere> = Vec::new();
        for (index, place) in places.iter().enumerate() {
            for (name, is_ours, standing) in standings(place, scenario, load) {
                let known = methods.iter().position(|known| known.name == name);
                let at = known.unwrap_or_else(|| {
                    methods.push(Everywhere {
                        name,
                        is_ours,
                        standings: vec![None; places.len()],
                    });
                    methods.len() - 1
                });
                methods[at].standings[index].get_or_insert(standing);
            }
        }
        methods.sort_by(|a, b| middle(&a.standings).total_cmp(&middle(&b.standings)));
        Side { heading, methods }
    });
    sides.filter(|side| !side.methods.is_empty()).collect()
}

/// The methods of a machine in their order, each by its best row.
fn standings(place: &MachineFiles, scenario: &str, load: Load) -> Vec<(String, bool, Standing)> {
    let mut best: Vec<(String, bool, Cell)> = Vec::new();
    for source in &place.sources {
        for part in parts(&source.file) {
            if part.scenario != scenario || part.load != load || !part.compares {
                continue;
            }
            for group in Group::all(&part) {
                let of = &group.main.entries[0].row.parameters;
                if (of.size_bytes, of.batch_count) != (SIZE_BYTES, 1) {
                    continue;
                }
                for entry in &group.main.entries {
                    let (name, cell) = (entry.row.method.clone(), cell(entry));
                    let is_known = best.iter().any(|(known, ..)| *known == name);
                    if !is_known && cell.value.is_some() {
                        best.push((name, entry.is_ours(), cell));
                    }
                }
            }
        }
    }
    let count = best.len();
    let ranked = (1..).zip(best);
    let standing = |(rank, (name, is_ours, cell))| (name, is_ours, Standing { rank, count, cell });
    ranked.map(standing).collect()
}

fn cell(entry: &Entry<'_>) -> Cell {
    if entry.row.load == Load::Saturated {
        return Cell::median(entry.figure(), unit(entry.row.load));
    }
    let times = |ratio: f64| format!("{} ×", text::three_figures(ratio));
    Cell::median(entry.measured.spread("ratio_p50"), times)
}

/// The median rank, as a share of the methods there.
#[allow(clippy::cast_precision_loss, reason = "a few methods")]
fn middle(standings: &[Option<Standing>]) -> f64 {
    let shares = standings.iter().flatten();
    let shares: Vec<f64> = shares
        .map(|one| one.rank as f64 / one.count as f64)
        .collect();
    Spread::of(&shares).map_or(f64::MAX, |spread| spread.median)
}
