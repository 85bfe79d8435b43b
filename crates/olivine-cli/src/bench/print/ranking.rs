//! Methods in the order of their figures, and where our own stand.
//!
//! Figures of one size, one batch and one placement of the CPUs are ranked together. The placement that most slices
//! were in is the main one and has the table; a method without a slice there, and each other placement, is a line.

use super::place;
use olivine_bench::method::{OLIVINE_PREFIX, THREADS};
use olivine_bench::result::{Measured, Placement, Row};
use olivine_bench::spread::Spread;
use olivine_bench::text;
use std::collections::BTreeMap;

/// A row with its figures.
pub(super) type Entry<'a> = (&'a Row, &'a Measured);

/// Everything measured with one size and batch.
pub(super) struct Ranking<'a> {
    pub(super) size_bytes: u64,
    pub(super) batch_count: u64,
    /// The main placement with the methods that were measured there, best first.
    pub(super) main: Place<'a>,
    /// The best filled row of each method that was never measured there.
    pub(super) aside: Vec<Entry<'a>>,
    /// The other placements in which there are ratios, most slices first.
    pub(super) others: Vec<Place<'a>>,
}

/// What was measured in one placement.
pub(super) struct Place<'a> {
    pub(super) placement: Placement,
    pub(super) slices: u64,
    /// Best first.
    pub(super) ranked: Vec<Entry<'a>>,
}

impl<'a> Ranking<'a> {
    /// The rankings of `rows` by `rank`: the smaller, the better.
    pub(super) fn all(rows: &'a [Row], rank: impl Fn(&Measured) -> f64) -> Vec<Self> {
        let mut groups: BTreeMap<(u64, u64), Vec<Entry<'a>>> = BTreeMap::new();
        for (row, measured) in rows.iter().filter_map(|row| Some((row, row.measured()?))) {
            let key = (row.parameters.size_bytes, row.parameters.batch_count);
            groups.entry(key).or_default().push((row, measured));
        }
        let ranking = |((size_bytes, batch_count), entries): ((u64, u64), Vec<Entry<'a>>)| {
            let mut places = Place::all(&entries, &rank);
            let main = places.remove(0);
            let is_in =
                |entry: &Entry<'a>, found: &[Entry<'a>]| found.iter().any(|one| same(one, entry));
            let mut aside: Vec<Entry<'a>> = Vec::new();
            for entry in places.iter().flat_map(|place| &place.ranked) {
                if !is_in(entry, &main.ranked) && !is_in(entry, &aside) {
                    aside.push(*entry);
                }
            }
            places.retain(|place| place.placement != Placement::Changed);
            Self {
                size_bytes,
                batch_count,
                main,
                aside,
                others: places,
            }
        };
        groups.into_iter().map(ranking).collect()
    }
}

impl<'a> Place<'a> {
    /// What was measured of `rows`, placement by placement, each in the order of the rows.
    pub(super) fn of(rows: &'a [Row]) -> Vec<Self> {
        let measured = rows.iter().filter_map(|row| Some((row, row.measured()?)));
        Self::all(&measured.collect::<Vec<_>>(), |_| 0.0)
    }

    /// Where the CPUs were in how many slices, and the floor there.
    pub(super) fn text(&self) -> String {
        let floor_ns = |(_, measured): &Entry<'_>| measured.floor_round_trip.as_ref()?.p50_ns;
        let floors: Vec<f64> = self.ranked.iter().filter_map(floor_ns).collect();
        let floor = Spread::of(&floors).map_or_else(String::new, |floor| {
            format!(", floor {}", text::nanos(floor.median))
        });
        format!("{}{floor}", place(self.placement, self.slices))
    }

    /// The placements of `entries`, the one with most slices first, moving CPUs last.
    fn all(entries: &[Entry<'a>], rank: impl Fn(&Measured) -> f64) -> Vec<Self> {
        let mut found: BTreeMap<Placement, Vec<Entry<'a>>> = BTreeMap::new();
        for entry in entries {
            found.entry(entry.1.placement).or_default().push(*entry);
        }
        let place = |(placement, mut ranked): (Placement, Vec<Entry<'a>>)| {
            ranked.sort_by(|(_, a), (_, b)| rank(a).total_cmp(&rank(b)));
            let slices = ranked.iter().map(|(_, found)| found.slices_count).sum();
            Self {
                placement,
                slices,
                ranked,
            }
        };
        let mut places: Vec<Self> = found.into_iter().map(place).collect();
        places.sort_by_key(|place| {
            let moved = place.placement == Placement::Changed;
            (moved, std::cmp::Reverse(place.slices))
        });
        places
    }

    /// The best of our own and its place, counted from 1; `None` if none of ours is here.
    fn ours(&self) -> Option<(usize, &Entry<'a>)> {
        (1..)
            .zip(&self.ranked)
            .find(|(_, (row, _))| row.method.starts_with(OLIVINE_PREFIX))
    }

    /// Where the best of our own stands, with `figure` of it, in one line.
    fn standing(&self, figure: impl Fn(&Measured) -> String) -> Option<String> {
        let (place, entry) = self.ours()?;
        Some(format!(
            "olivine: place {place} of {} ({}, {})",
            self.ranked.len(),
            name(entry),
            figure(entry.1)
        ))
    }

    /// One line for each reason why others are ahead of the best of our own.
    pub(super) fn reasons(&self) -> Vec<String> {
        let Some((place, _)) = self.ours() else {
            return Vec::new();
        };
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for entry in &self.ranked[..place - 1] {
            let lacks = entry.0.lacks.as_str();
            match reasons.iter_mut().find(|(known, _)| *known == lacks) {
                Some((_, names)) => names.push(name(entry)),
                None => reasons.push((lacks, vec![name(entry)])),
            }
        }
        let line = |(lacks, names): (&str, Vec<String>)| {
            let why = if lacks.is_empty() {
                "for no reason that we know of"
            } else {
                lacks
            };
            format!("ahead of it: {}: {why}", names.join(", "))
        };
        reasons.into_iter().map(line).collect()
    }
}

/// What the mark of rows between threads means, if there is one of them.
pub(super) fn threads_note(ranking: &Ranking<'_>) -> Option<&'static str> {
    let mut entries = ranking.main.ranked.iter().chain(&ranking.aside);
    let between = |(row, _): &Entry<'_>| row.parameters.settings.split('&').any(|s| s == THREADS);
    entries.any(between).then_some(
        "threads: both ends are threads of one process, where all others are two processes",
    )
}

/// What stands below a table: methods that have no row in it, where ours stands and why not first, the other places.
pub(super) fn below(ranking: &Ranking<'_>, figure: impl Fn(&Measured) -> String) -> String {
    let mut out = threads_note(ranking).map_or_else(String::new, |note| format!("{note}\n"));
    for entry in &ranking.aside {
        out.push_str(&format!(
            "{}: {}, {} only\n",
            name(entry),
            figure(entry.1),
            place(entry.1.placement, entry.1.slices_count)
        ));
    }
    if let Some(standing) = ranking.main.standing(&figure) {
        out.push_str(&format!("{standing}\n"));
    }
    for reason in ranking.main.reasons() {
        out.push_str(&format!("  {reason}\n"));
    }
    for other in &ranking.others {
        if let Some(standing) = other.standing(&figure) {
            out.push_str(&format!(
                "{}: {standing}\n",
                place(other.placement, other.slices)
            ));
        }
    }
    out
}

/// A method with its settings, but for how it waits, which tables say elsewhere.
pub(super) fn name((row, _): &Entry<'_>) -> String {
    let settings = row.parameters.settings.split('&');
    let more = settings.filter(|pair| !pair.is_empty() && !pair.starts_with("wait="));
    let parts: Vec<&str> = std::iter::once(row.method.as_str()).chain(more).collect();
    parts.join(" ")
}

fn same(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    one.0.method == other.0.method && one.0.parameters == other.0.parameters
}
