//! From the rows of a scenario to its plots.

mod mesh;
mod rows;
mod spread;
mod sweep;

use super::select::{Entry, Param, constant, main_placement, placed};
use super::svg::Svg;
use crate::result::{Load, Placement};
use crate::text;

/// Rows of dots or bars in one plot; a longer list is for the table.
const ROWS_MAX: usize = 40;
/// Colour of methods that are not ours where only the two are told apart.
const THEIRS: usize = 7;

/// A plot with what is said under it.
#[derive(Debug)]
pub(super) struct Figure {
    /// Name of its file, without the ending.
    pub(super) name: String,
    pub(super) svg: Svg,
    pub(super) caption: String,
}

/// All plots of one scenario.
pub(super) fn of(scenario: &str, load: Load, entries: &[Entry<'_>]) -> Vec<Figure> {
    let good: Vec<Entry<'_>> = entries
        .iter()
        .filter(|entry| {
            entry
                .measured()
                .is_some_and(|measured| measured.placement != Placement::Changed)
        })
        .copied()
        .collect();
    let Some(placement) = main_placement(&good) else {
        return Vec::new();
    };
    let here = placed(&good, placement);
    let context = Context {
        scenario,
        placement,
        load,
    };
    let mut figures = Vec::new();
    if load == Load::Saturated {
        figures.extend(context.rates(&here));
    } else {
        figures.extend(context.ranges(&good));
        figures.extend(context.curves(&here));
    }
    for param in [
        Param::Rate,
        Param::Size,
        Param::Ring,
        Param::Batch,
        Param::Subscribers,
        Param::Publishers,
    ] {
        figures.extend(context.sweep(param, &here, ""));
    }
    figures.extend(context.mesh(&here));
    figures.extend(context.pairs(&here));
    figures
}

struct Context<'a> {
    scenario: &'a str,
    placement: Placement,
    load: Load,
}

impl Context<'_> {
    fn figure(&self, kind: &str, svg: Svg, caption: String) -> Figure {
        let load = match self.load {
            Load::Closed => "closed",
            Load::Open => "open",
            Load::Saturated => "saturated",
        };
        let words = format!("{}-{load}-{kind}", self.scenario);
        let safe = words.chars().map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        });
        Figure {
            name: safe.collect(),
            svg,
            caption,
        }
    }

    /// What holds for a whole plot: constants, placement, samples.
    fn holds(&self, entries: &[Entry<'_>], varied: &[Param]) -> String {
        let constant = constant(entries, varied);
        let counts = entries.iter().filter_map(|entry| rows::count(entry));
        let (least, most) = (counts.clone().min(), counts.max());
        let mut text = String::new();
        if !constant.is_empty() {
            text.push_str(&format!("{constant}; "));
        }
        text.push_str(&format!("CPUs {}", self.placement));
        if let (Some(least), Some(most)) = (least, most) {
            let what = if self.load == Load::Saturated {
                "slices"
            } else {
                "samples"
            };
            let (least, most) = (text::count(least), text::count(most));
            if least == most {
                text.push_str(&format!("; n = {least} {what} each"));
            } else {
                text.push_str(&format!("; n = {least} to {most} {what}"));
            }
        }
        text
    }

    /// Axis title and plot title of a distribution.
    fn words(&self) -> (&'static str, &'static str) {
        if self.load == Load::Open {
            ("one way, from the intended send time", "One way")
        } else {
            ("round trip", "Round trip")
        }
    }

    /// The middle of the floors beside `entries`, in nanoseconds.
    fn floor(&self, entries: &[Entry<'_>]) -> Option<f64> {
        let here = placed(entries, self.placement);
        let floors = here
            .iter()
            .filter_map(|entry| entry.measured()?.floor_round_trip.as_ref()?.p50_ns);
        crate::spread::Spread::of(&floors.collect::<Vec<_>>()).map(|spread| spread.median)
    }
}
