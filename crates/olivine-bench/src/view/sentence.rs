//! How Olivine compares, in one sentence.

use super::rank::Group;
use super::select::{Entry, Part, unit};
use crate::method::{self, BUILT_IN};
use crate::result::{Load, Placement};
use crate::text::{self, three_figures};

/// The sentence of the most important part: round trips, else full speed. The smallest size of it.
///
/// Olivine is compared with the fastest and the slowest library between processes; without any,
/// with the fastest and the slowest built-in method.
/// Returned with the section of that part, which each part comes with.
pub(super) fn sentence(parts: &[(usize, Part<'_>, Vec<Group<'_>>)]) -> Option<(usize, String)> {
    let of_load = |load: Load| {
        let is_it = |(_, part, _): &&(usize, Part<'_>, _)| part.load == load && part.compares;
        let (section, _, groups) = parts.iter().find(is_it)?;
        Some((*section, said(load, groups.first()?)?))
    };
    of_load(Load::Closed).or_else(|| of_load(Load::Saturated))
}

fn said(load: Load, group: &Group<'_>) -> Option<String> {
    let place = &group.main;
    let (_, ours) = place
        .ours()
        .filter(|_| place.placement != Placement::Changed)?;
    let figure = unit(load)(ours.figure()?.median);
    let size = text::bytes(ours.row.parameters.size_bytes);
    let mut sentence = match load {
        Load::Saturated => format!("Olivine passes {figure} of {size}"),
        Load::Closed | Load::Open => format!("Olivine passes {size} and back in {figure}"),
    };
    if let Some(ratio) = ours.measured.spread("ratio_p50") {
        let ratio = three_figures(ratio.median);
        sentence.push_str(&format!(", {ratio} × what this hardware does bare"));
    }
    let is_built_in = |entry: &&Entry<'_>| method::find(BUILT_IN, &entry.row.method).is_ok();
    let between = place.entries.iter();
    let between = between.filter(|entry| !entry.is_ours() && !entry.is_between_threads());
    let others: Vec<&Entry<'_>> = between.collect();
    let libraries = others.iter().copied().filter(|entry| !is_built_in(entry));
    let libraries: Vec<&Entry<'_>> = libraries.collect();
    let named = if libraries.is_empty() {
        others
    } else {
        libraries
    };
    let mut ends: Vec<&&Entry<'_>> = named.first().into_iter().chain(named.last()).collect();
    ends.dedup_by(|a, b| a.name() == b.name());
    let times: Vec<String> = ends
        .into_iter()
        .filter_map(|theirs| Some(compared(times(load, ours, theirs)?, &theirs.name())))
        .collect();
    if !times.is_empty() {
        sentence.push_str(&format!("; {}", times.join(", ")));
    }
    sentence.push('.');
    Some(sentence)
}

/// How many times faster ours is: by the ratios to the floor if both have one, as in tables.
fn times(load: Load, ours: &Entry<'_>, theirs: &Entry<'_>) -> Option<f64> {
    let ratios = [ours, theirs].map(|entry| entry.measured.spread("ratio_p50"));
    let (ours, theirs) = match ratios {
        [Some(ours), Some(theirs)] => (ours.median, theirs.median),
        _ => (ours.figure()?.median, theirs.figure()?.median),
    };
    Some(if load == Load::Saturated {
        ours / theirs
    } else {
        theirs / ours
    })
}

fn compared(times: f64, name: &str) -> String {
    if times < 1.0 {
        format!("{} × slower than {name}", three_figures(1.0 / times))
    } else {
        format!("{} × faster than {name}", three_figures(times))
    }
}
