//! Which rows belong into one plot, what tells them apart, and what they are called there.

use super::Source;
use crate::result::{Load, Measured, Placement, Row};
use crate::text;

/// Scenarios in the order of their sections.
const ORDER: [&str; 5] = ["pingpong", "throughput", "latency", "fanout", "mesh"];
/// What carries the name of our own methods.
const OURS: &str = "olivine";

/// A row with the file it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) source: &'a Source,
    pub(super) row: &'a Row,
}

impl<'a> Entry<'a> {
    /// Figures of a row that did not fail.
    pub(super) fn measured(&self) -> Option<&'a Measured> {
        self.row.measured()
    }

    /// Whether it is one of our own methods.
    pub(super) fn is_ours(&self) -> bool {
        self.row.method.starts_with(OURS)
    }

    /// The p50 of the median run in nanoseconds.
    pub(super) fn p50_ns(&self) -> Option<f64> {
        Some(self.measured()?.p50_ns()?.median)
    }

    /// Name by `params`; the method's where there are none.
    pub(super) fn name(&self, params: &[Param]) -> String {
        if params.is_empty() {
            return self.row.method.clone();
        }
        let mut parts = Vec::new();
        let others = params.iter();
        parts.extend(
            others
                .map(|param| param.text(self))
                .filter(|text| !text.is_empty()),
        );
        parts.join(", ")
    }
}

/// What rows may differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    File,
    Method,
    Size,
    Batch,
    Rate,
    Ring,
    Wait,
    Publishers,
    Subscribers,
    Crowd,
    Settings,
}

impl Param {
    pub(super) const ALL: [Self; 11] = [
        Self::Method,
        Self::Size,
        Self::Batch,
        Self::Rate,
        Self::Ring,
        Self::Wait,
        Self::Publishers,
        Self::Subscribers,
        Self::Crowd,
        Self::Settings,
        Self::File,
    ];

    /// Head of its column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Method => "method",
            Self::Size => "size",
            Self::Batch => "batch",
            Self::Rate => "rate",
            Self::Ring => "ring",
            Self::Wait => "wait",
            Self::Publishers => "publishers",
            Self::Subscribers => "subscribers",
            Self::Crowd => "CPUs",
            Self::Settings => "settings",
        }
    }

    /// Its value in a row, with the unit; empty where it does not apply.
    pub(super) fn text(self, entry: &Entry<'_>) -> String {
        let of = &entry.row.parameters;
        match self {
            Self::File => entry.source.name.clone(),
            Self::Method => entry.row.method.clone(),
            Self::Size => text::bytes(of.size_bytes),
            Self::Batch => format!("batch {}", of.batch_count),
            Self::Rate => of.rate_per_s.map(short_rate).unwrap_or_default(),
            Self::Ring => of.ring_bytes.map(text::bytes).unwrap_or_default(),
            Self::Wait => of.wait.clone().unwrap_or_default(),
            Self::Publishers => format!("{} pub", of.publishers_count),
            Self::Subscribers => format!("{} sub", of.subscribers_count),
            Self::Crowd if of.oversubscribed => "oversubscribed".to_owned(),
            Self::Crowd => String::new(),
            Self::Settings => other_settings(&of.settings),
        }
    }

    /// Its value where it is a number that a plot can have as an axis.
    #[allow(
        clippy::cast_precision_loss,
        reason = "sizes and counts stay far below 2^52"
    )]
    pub(super) fn number(self, entry: &Entry<'_>) -> Option<f64> {
        let of = &entry.row.parameters;
        match self {
            Self::Size => Some(of.size_bytes as f64),
            Self::Batch => Some(of.batch_count as f64),
            Self::Rate => of.rate_per_s,
            Self::Ring => of.ring_bytes.map(|bytes| bytes as f64),
            Self::Publishers => Some(f64::from(of.publishers_count)),
            Self::Subscribers => Some(f64::from(of.subscribers_count)),
            _ => None,
        }
        .filter(|value| *value > 0.0)
    }

    /// Title and unit of an axis for it.
    pub(super) fn axis(self) -> (&'static str, fn(f64) -> String) {
        match self {
            Self::Size => ("message size", short_bytes),
            Self::Batch => ("messages made visible at once", whole),
            Self::Rate => ("messages a second, evenly paced", short_rate),
            Self::Ring => ("ring size", short_bytes),
            Self::Publishers => ("publishers", whole),
            _ => ("subscribers", whole),
        }
    }
}

/// What some of `entries` differ in.
pub(super) fn varied(entries: &[Entry<'_>]) -> Vec<Param> {
    let differs = |param: &Param| {
        let mut texts = entries.iter().map(|entry| param.text(entry));
        let first = texts.next();
        texts.any(|text| Some(text) != first)
    };
    Param::ALL.into_iter().filter(differs).collect()
}

/// What all of `entries` have in common, in words.
pub(super) fn constant(entries: &[Entry<'_>], varied: &[Param]) -> String {
    let Some(first) = entries.first() else {
        return String::new();
    };
    let shown = Param::ALL.into_iter().filter(|param| {
        let pointless = match param {
            Param::File => true,
            Param::Batch => first.row.parameters.batch_count == 1,
            Param::Publishers => first.row.parameters.publishers_count == 1,
            Param::Subscribers => first.row.parameters.subscribers_count == 1,
            _ => false,
        };
        !pointless && !varied.contains(param)
    });
    let texts = shown.map(|param| match param {
        Param::Ring => {
            let ring = param.text(first);
            if ring.is_empty() {
                ring
            } else {
                format!("ring {ring}")
            }
        }
        param => param.text(first),
    });
    texts
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

/// The placement that most slices of `entries` were measured under.
pub(super) fn main_placement(entries: &[Entry<'_>]) -> Option<Placement> {
    let mut slices: Vec<(Placement, u64)> = Vec::new();
    for measured in entries.iter().filter_map(Entry::measured) {
        match slices
            .iter_mut()
            .find(|(place, _)| *place == measured.placement)
        {
            Some((_, count)) => *count += measured.slices_count,
            None => slices.push((measured.placement, measured.slices_count)),
        }
    }
    let still = slices
        .into_iter()
        .filter(|(place, _)| *place != Placement::Changed);
    still
        .max_by_key(|(_, count)| *count)
        .map(|(place, _)| place)
}

/// Those of `entries` that were measured under `placement`.
pub(super) fn placed<'a>(entries: &[Entry<'a>], placement: Placement) -> Vec<Entry<'a>> {
    let here = |entry: &&Entry<'a>| entry.measured().is_some_and(|m| m.placement == placement);
    entries.iter().filter(here).copied().collect()
}

/// Rows of one scenario and load, in the order in which they were met.
pub(super) fn sections<'a>(sources: &'a [Source]) -> Vec<(&'a str, Load, Vec<Entry<'a>>)> {
    let mut sections: Vec<(&str, Load, Vec<Entry<'_>>)> = Vec::new();
    for source in sources {
        for row in &source.file.results {
            let entry = Entry { source, row };
            let known = sections
                .iter_mut()
                .find(|(name, load, _)| *name == row.scenario && *load == row.load);
            match known {
                Some((_, _, entries)) => entries.push(entry),
                None => sections.push((&row.scenario, row.load, vec![entry])),
            }
        }
    }
    // What people look for first; the order of files says nothing.
    let rank = |name: &str| ORDER.iter().position(|known| *known == name);
    sections.sort_by_key(|(name, ..)| rank(name).unwrap_or(ORDER.len()));
    sections
}

/// Settings less those that have a parameter of their own.
fn other_settings(settings: &str) -> String {
    let own = |pair: &&str| {
        !["wait=", "capacity="]
            .iter()
            .any(|key| pair.starts_with(key))
    };
    settings
        .split('&')
        .filter(own)
        .collect::<Vec<_>>()
        .join("&")
}

/// A rate without empty digits: `1 M/s`.
pub(super) fn short_rate(per_s: f64) -> String {
    short(&text::rate(per_s))
}

/// A duration without empty digits: `5 us`.
pub(super) fn short_nanos(ns: f64) -> String {
    short(&text::nanos(ns))
}

/// A byte count without empty digits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive whole numbers"
)]
fn short_bytes(bytes: f64) -> String {
    short(&text::bytes(bytes.round() as u64))
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Cuts zeros behind a decimal point.
fn short(text: &str) -> String {
    let Some((number, unit)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_a_column_of_their_own_are_not_said_twice() {
        assert_eq!(
            other_settings("wait=spin&align=64&capacity=1MiB"),
            "align=64"
        );
        assert_eq!(other_settings(""), "");
    }

    #[test]
    fn axis_texts_have_no_empty_digits() {
        assert_eq!(short_nanos(1000.0), "1 us");
        assert_eq!(short_nanos(1500.0), "1.5 us");
        assert_eq!(short_nanos(200.0), "200 ns");
        assert_eq!(short_rate(1e6), "1 M/s");
        assert_eq!(short_bytes(1048576.0), "1 MiB");
    }
}
