//! Rows in the order of their figures, and the position of this library among them.
//!
//! Rows of one situation (size, batch, rate, participants) and one placement of the CPUs are ranked
//! together. The placement with most slices has the table; other rows are notes, and details of the
//! page.

use super::select::{Entry, Part, unit};
use crate::method::{self, BUILT_IN};
use crate::result::{Load, Placement};
use crate::spread::Spread;
use crate::text;
use std::collections::BTreeMap;

/// Rows that are ranked together.
pub(super) struct Group<'a> {
    /// Rows of the main placement, best first where methods are compared.
    pub(super) main: PlacementRows<'a>,
    /// Methods that were never measured in the main placement: the best row of each.
    pub(super) aside: Vec<Entry<'a>>,
    /// All other placements, most slices first, moving CPUs last.
    pub(super) others: Vec<PlacementRows<'a>>,
    /// Whether methods are compared.
    pub(super) compares: bool,
}

/// The rows of one placement.
pub(super) struct PlacementRows<'a> {
    pub(super) placement: Placement,
    pub(super) slices: u64,
    pub(super) entries: Vec<Entry<'a>>,
}

/// Parameters that must be equal for a common ranking.
type Situation = (u64, u64, u64, u32, u32);

fn situation(entry: &Entry<'_>) -> Situation {
    let of = &entry.row.parameters;
    (
        of.size_bytes,
        of.batch_count,
        of.rate_per_s.unwrap_or(0.0).to_bits(),
        of.publishers_count,
        of.subscribers_count,
    )
}

/// Less is better: the ratio to the floor, or the negative rate. Rows without a ratio are ordered
/// by the figure, after all others.
fn key(entry: &Entry<'_>) -> f64 {
    let figure = entry.figure().map(|figure| figure.median);
    match (entry.row.load, entry.measured.spread("ratio_p50")) {
        (Load::Saturated, _) => figure.map_or(f64::MAX, |rate| -rate),
        (_, Some(ratio)) => ratio.median,
        (_, None) => figure.map_or(f64::MAX, |ns| ns * 1e9),
    }
}

impl<'a> Group<'a> {
    /// The groups of a part.
    pub(super) fn all(part: &Part<'a>) -> Vec<Self> {
        let mut groups: BTreeMap<Situation, Vec<Entry<'a>>> = BTreeMap::new();
        for entry in &part.entries {
            let key = if part.compares {
                situation(entry)
            } else {
                Situation::default()
            };
            groups.entry(key).or_default().push(*entry);
        }
        let groups = groups.into_values();
        groups
            .map(|entries| Self::of(&entries, part.compares))
            .collect()
    }

    fn of(entries: &[Entry<'a>], compares: bool) -> Self {
        let mut others = PlacementRows::all(entries, compares);
        let main = others.remove(0);
        let mut aside: Vec<Entry<'a>> = Vec::new();
        for entry in others.iter().flat_map(|place| &place.entries) {
            let is_it = |one: &Entry<'a>| is_same(one, entry);
            if !main.entries.iter().chain(&aside).any(is_it) {
                aside.push(*entry);
            }
        }
        Self {
            main,
            aside,
            others,
            compares,
        }
    }

    /// Each method with its parameters once: the rows of small tables, and of the notes below them.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.main.entries.iter().chain(&self.aside)
    }

    /// The text below its table.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.shown().any(Entry::is_between_threads) {
            notes.push(
                "threads: both ends are threads of one process, where all others are two processes"
                    .to_owned(),
            );
        }
        notes.extend(self.aside.iter().map(|entry| {
            let place = place(entry.measured.placement, entry.measured.slices_count);
            format!("{}: {}, {place} only", entry.name(), figure(entry))
        }));
        if !self.compares {
            return notes;
        }
        notes.extend(self.main.apart().map(str::to_owned));
        notes.extend(self.main.standing());
        notes.extend(self.main.reasons());
        for other in &self.others {
            let is_still = other.placement != Placement::Changed;
            if let Some(standing) = other.standing().filter(|_| is_still) {
                notes.push(format!(
                    "{}: {standing}",
                    place(other.placement, other.slices)
                ));
            }
        }
        notes
    }
}

impl<'a> PlacementRows<'a> {
    /// The placements of `entries`, the one with most slices first, moving CPUs last.
    fn all(entries: &[Entry<'a>], compares: bool) -> Vec<Self> {
        let mut found: BTreeMap<Placement, Vec<Entry<'a>>> = BTreeMap::new();
        for entry in entries {
            found
                .entry(entry.measured.placement)
                .or_default()
                .push(*entry);
        }
        let place = |(placement, mut entries): (Placement, Vec<Entry<'a>>)| {
            if compares {
                entries.sort_by(|a, b| key(a).total_cmp(&key(b)));
            }
            Self {
                placement,
                slices: entries
                    .iter()
                    .map(|entry| entry.measured.slices_count)
                    .sum(),
                entries,
            }
        };
        let mut places: Vec<Self> = found.into_iter().map(place).collect();
        places.sort_by_key(|place| {
            let has_moved = place.placement == Placement::Changed;
            (has_moved, std::cmp::Reverse(place.slices))
        });
        places
    }

    /// The median floor beside the rows, in nanoseconds.
    pub(super) fn floor_ns(&self) -> Option<f64> {
        let floors = self.entries.iter();
        let floors = floors.filter_map(|entry| entry.measured.floor.as_ref()?.p50_ns);
        Some(Spread::of(&floors.collect::<Vec<_>>())?.median)
    }

    /// Where the CPUs were in how many slices, and the floor there.
    pub(super) fn text(&self) -> String {
        let floor = self.floor_ns().map(text::nanos);
        let floor = floor.map_or_else(String::new, |floor| format!(", floor {floor}"));
        format!("{}{floor}", place(self.placement, self.slices))
    }

    /// The best row of this library with its rank, counted from 1.
    pub(super) fn ours(&self) -> Option<(usize, &Entry<'a>)> {
        (1..).zip(&self.entries).find(|(_, entry)| entry.is_ours())
    }

    /// What to know of rows whose runs did not take turns with those of this library.
    fn apart(&self) -> Option<&'static str> {
        let (_, ours) = self.ours()?;
        let apart = self.entries.iter().filter(|entry| {
            let is_apart = !entry.row.took_turns_with(ours.row);
            !entry.is_ours() && is_apart
        });
        let is_rival = |entry: &Entry<'_>| method::find(BUILT_IN, &entry.row.method).is_err();
        let (rivals, built_in): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
            apart.copied().partition(is_rival);
        // Rows from before there were sessions all are of one.
        if !built_in.is_empty() && ours.measured.session.is_some() {
            return Some("the runs of some rows did not take turns with those of olivine");
        }
        // Results from before the participants' protocol have such rows.
        let note = "libraries of others: measured later, each in its own program with its floor";
        (!rivals.is_empty()).then_some(note)
    }

    fn standing(&self) -> Option<String> {
        let (place, entry) = self.ours()?;
        let (count, name) = (self.entries.len(), entry.name());
        Some(format!(
            "olivine: place {place} of {count} ({name}, {})",
            figure(entry)
        ))
    }

    /// A sentence for each reason why other methods are faster than the best row of this library.
    fn reasons(&self) -> Vec<String> {
        let ahead = self.ours().map_or(0, |(place, _)| place - 1);
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for entry in &self.entries[..ahead] {
            let lacks = entry.row.lacks.as_str();
            match reasons.iter_mut().find(|(known, _)| *known == lacks) {
                Some((_, names)) => names.push(entry.name()),
                None => reasons.push((lacks, vec![entry.name()])),
            }
        }
        let line = |(lacks, names): (&str, Vec<String>)| {
            let why = if lacks.is_empty() {
                "for no known reason"
            } else {
                lacks
            };
            format!("ahead of it: {}: {why}", names.join(", "))
        };
        reasons.into_iter().map(line).collect()
    }
}

/// The figure of a row in words.
fn figure(entry: &Entry<'_>) -> String {
    let Some(found) = entry.figure() else {
        return "too few samples".to_owned();
    };
    let text = unit(entry.row.load)(found.median);
    match entry.measured.spread("ratio_p50") {
        Some(ratio) => format!("{text}, {} × floor", text::three_figures(ratio.median)),
        None => text,
    }
}

/// A placement with its slices.
pub(super) fn place(placement: Placement, slices: u64) -> String {
    format!("CPUs {placement} ({slices} slices)")
}

fn is_same(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    one.row.method == other.row.method && one.row.parameters == other.row.parameters
}
