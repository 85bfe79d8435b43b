//! What a row says in a plot: its samples, its rate, its mark, its note.

use crate::report::select::Entry;
use crate::result::Placement;
use crate::text;

/// Samples behind a row: of its distribution, or slices of a rate.
pub(super) fn count(entry: &Entry<'_>) -> Option<u64> {
    let measured = entry.measured()?;
    let samples = measured
        .distribution()
        .map(|(_, found)| found.percentiles.count);
    Some(samples.unwrap_or(measured.slices_count))
}

/// Messages received a second: median run, least and most.
pub(super) fn deliveries(entry: &Entry<'_>) -> Option<(f64, (f64, f64))> {
    let rate = entry.measured()?.messages_per_s?;
    let each = f64::from(entry.row.parameters.subscribers_count);
    Some((rate.median * each, (rate.min * each, rate.max * each)))
}

pub(super) fn note(entry: &Entry<'_>, name: &str, ns: f64, figure: &str) -> String {
    let mut note = format!("{name}: {figure} {}", text::nanos(ns));
    if let Some(measured) = entry.measured() {
        note.push_str(&format!(", CPUs {}", measured.placement));
        if let Some(ratio) = measured.ratio_p50.filter(|_| figure == "p50") {
            note.push_str(&format!(
                ", {} x the floor",
                text::three_figures(ratio.median)
            ));
        }
    }
    let samples = count(entry).map(text::count).unwrap_or_default();
    note.push_str(&format!(", n = {samples} samples"));
    note
}

pub(super) fn rate_note(
    entry: &Entry<'_>,
    name: &str,
    value: f64,
    (least, most): (f64, f64),
) -> String {
    let slices = count(entry).map(text::count).unwrap_or_default();
    format!(
        "{name}: {} ({} to {}), n = {slices} slices",
        text::rate(value),
        text::rate(least),
        text::rate(most)
    )
}

/// Marks by placement.
pub(super) fn shape(placement: Placement) -> usize {
    match placement {
        Placement::SharedL3 => 0,
        Placement::Far => 1,
        Placement::SameCore => 2,
        Placement::Changed => 3,
    }
}
