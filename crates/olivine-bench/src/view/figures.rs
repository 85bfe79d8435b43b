//! From ranked rows to figures.

use super::model::{AxisPlan, Curve, Dot, Figure, Plot, Point, SERIES_MAX, Scale, Unit};
use super::rank::{Group, PlacementRows};
use super::select::{Entry, OF_CURVES, OF_TABLES, Param, Part, constant, unit, varied};
use crate::result::{Load, Measured, Placement};
use crate::text;
use std::collections::BTreeSet;

/// Most rows of dots in one figure; a longer list is in the table.
const ROWS_MAX: usize = 40;
/// The same for rows of one method: what varies then is an axis of other figures.
const ROWS_OF_ONE_MAX: usize = 12;
/// Curves with a companion for p99 in one figure.
const COMPANIONS_MAX: usize = 4;
/// What figures have as an axis across, in their order.
const ACROSS: [Param; 7] = [
    Param::Rate,
    Param::Size,
    Param::Depth,
    Param::Ring,
    Param::Batch,
    Param::Subscribers,
    Param::Publishers,
];
/// What figures are split by where there are too many curves.
const SPLIT_BY: [Param; 6] = [
    Param::Wait,
    Param::Settings,
    Param::Ring,
    Param::Size,
    Param::Rate,
    Param::Batch,
];

/// All figures of a part.
pub(super) fn figures(part: &Part<'_>, groups: &[Group<'_>]) -> Vec<Figure> {
    let context = Context { part };
    let mut figures = Vec::new();
    for group in groups {
        let name = if groups.len() > 1 {
            format!("-{}", constant(&group.main.entries))
        } else {
            String::new()
        };
        if group.main.placement != Placement::Changed {
            figures.extend(context.dots(group, &name));
            figures.extend(context.curves(&group.main, &name));
            figures.extend(context.over_time(&group.main, &name));
        }
    }
    // Sizes and rates are compared across groups, where most of them were measured.
    let main = groups.iter().max_by_key(|group| group.main.slices);
    let placement = main.map(|group| group.main.placement);
    let here = part.entries.iter().copied();
    let here = here.filter(|entry| Some(entry.measured.placement) == placement);
    let here: Vec<Entry<'_>> = here.collect();
    for param in ACROSS {
        figures.extend(context.sweep(param, &here, ""));
    }
    figures.extend(context.mesh(&here));
    figures.extend(here.iter().filter_map(|entry| context.pairs(entry, &here)));
    figures
}

struct Context<'a> {
    part: &'a Part<'a>,
}

impl Context<'_> {
    fn figure(&self, kind: &str, title: &str, plot: Plot, caption: String) -> Figure {
        let load = match self.part.load {
            Load::Closed => "closed",
            Load::Open => "open",
            Load::Saturated => "saturated",
        };
        let words = format!("{}-{load}-{kind}", self.part.scenario).to_lowercase();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric();
        let parts = words.split(|letter| !is_plain(letter));
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        Figure {
            name: parts.join("-"),
            title: title.to_owned(),
            plot,
            caption,
        }
    }

    /// Axis and title of the figure that rows are ranked by.
    fn words(&self) -> (&'static str, &'static str) {
        match self.part.load {
            Load::Closed | Load::Open if self.part.is_of_servers() => {
                ("from request to answer", "Answer")
            }
            Load::Closed => ("round trip", "Round trip"),
            Load::Open => ("one way, from the intended send time", "One way"),
            Load::Saturated => ("messages a second", "Full speed"),
        }
    }

    fn is_saturated(&self) -> bool {
        self.part.load == Load::Saturated
    }

    /// Common properties of a figure: constants, placement, samples.
    fn holds(&self, entries: &[Entry<'_>]) -> String {
        let counts: BTreeSet<u64> = entries.iter().map(count).collect();
        let what = if self.is_saturated() {
            "slices"
        } else {
            "samples"
        };
        let count = match (counts.first(), counts.last()) {
            (Some(least), Some(most)) if least == most => {
                format!("n = {} {what} each", text::count(*least))
            }
            (Some(least), Some(most)) => {
                format!(
                    "n = {} to {} {what}",
                    text::count(*least),
                    text::count(*most)
                )
            }
            _ => String::new(),
        };
        let placement = entries.first().map(|entry| entry.measured.placement);
        let placement = placement.map_or_else(String::new, |found| format!("CPUs {found}"));
        let mut parts = vec![constant(entries), placement, count];
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }

    /// The floor beside rows of times.
    fn floor(&self, entries: &[Entry<'_>]) -> Option<f64> {
        let place = PlacementRows {
            placement: Placement::Changed,
            slices: 0,
            entries: entries.to_vec(),
        };
        place.floor_ns().filter(|_| !self.is_saturated())
    }

    /// The tooltip of a point.
    fn note(&self, entry: &Entry<'_>, name: &str, figure: &str, value: f64) -> String {
        let ratio = entry
            .measured
            .spread("ratio_p50")
            .filter(|_| figure == "p50");
        let ratio = ratio.map_or_else(String::new, |ratio| {
            format!(", {} × the floor", text::three_figures(ratio.median))
        });
        let (value, n) = (unit(self.part.load)(value), text::count(count(entry)));
        let figure = if figure.is_empty() {
            ""
        } else {
            &format!("{figure} ")
        };
        format!("{name}: {figure}{value}{ratio}, n = {n}")
    }

    /// The figure of each row with its range, in the order of the table.
    fn dots(&self, group: &Group<'_>, name: &str) -> Option<Figure> {
        let entries = &group.main.entries;
        let pointless = !group.compares && entries.len() > ROWS_OF_ONE_MAX;
        let differ = varied(&OF_TABLES, entries);
        let (figure, kind) = if self.is_saturated() {
            ("", "rates")
        } else {
            ("p50", "p50")
        };
        let dots = entries.iter().filter_map(|entry| {
            let found = entry.figure()?;
            let range = if self.is_saturated() {
                (found.min, found.max)
            } else {
                // Over all samples: it may be lower if most of them come from a few fast runs.
                let p99_ns = entry.measured.distribution.as_ref()?.percentiles.p99_ns;
                (found.median, p99_ns.unwrap_or(0.0).max(found.median))
            };
            let name = entry.label(&differ);
            Some(Dot {
                note: self.note(entry, &name, figure, found.median),
                text: unit(self.part.load)(found.median),
                name,
                is_ours: entry.is_ours(),
                value: found.median,
                range,
            })
        });
        let mut dots: Vec<Dot> = dots.collect();
        let all = dots.len();
        if all < 2 || pointless {
            return None;
        }
        dots.truncate(ROWS_MAX);
        let (what, title) = self.words();
        let (mark, title) = if self.is_saturated() {
            ("Line: least to most of the runs.", title.to_owned())
        } else {
            (
                "Line: up to p99 of all samples.",
                format!("{title}: p50 to p99"),
            )
        };
        let shown = &entries[..entries.len().min(ROWS_MAX)];
        let mut caption = format!("Mark: the median run. {mark} {}.", self.holds(shown));
        if all > ROWS_MAX {
            caption.push_str(&format!(
                " The first {ROWS_MAX} of {all}; the table has all."
            ));
        }
        let unit = short_unit(self.part.load);
        let axis = axis(Scale::Log, &format!("{what}, log scale"), unit);
        let floor = self.floor(entries);
        let plot = Plot::Dots { axis, dots, floor };
        Some(self.figure(&format!("{kind}{name}"), &title, plot, caption))
    }

    /// The first rows, and a curve without marks for each that has points.
    fn lines<'e>(
        place: &PlacementRows<'e>,
        is_thin: bool,
        points: impl Fn(&Measured) -> Option<Vec<(f64, f64)>>,
    ) -> (Vec<Entry<'e>>, Vec<Curve>) {
        let shown: Vec<Entry<'_>> = place.entries.iter().copied().take(SERIES_MAX).collect();
        let differ = varied(&OF_TABLES, &shown);
        let curve = |(series, entry): (usize, &Entry<'_>)| {
            let points = points(entry.measured)?.into_iter();
            let note = String::new;
            let points = points.map(|(x, y)| Point { x, y, note: note() });
            Some(Curve {
                name: entry.label(&differ),
                series,
                is_thin,
                is_marked: false,
                points: points.collect(),
            })
        };
        let curves = shown.iter().enumerate().filter_map(curve).collect();
        (shown, curves)
    }

    /// Percentile curves of the first rows.
    fn curves(&self, place: &PlacementRows<'_>, name: &str) -> Option<Figure> {
        let points = |measured: &Measured| Some(measured.distribution.as_ref()?.curve());
        let (shown, curves) = Self::lines(place, false, points);
        if curves.iter().all(|curve| curve.points.is_empty()) {
            return None;
        }
        let (what, title) = self.words();
        let mut caption = format!(
            "Each curve ends where fewer than ten samples are above. {}.",
            self.holds(&shown)
        );
        if place.entries.len() > shown.len() {
            let all = place.entries.len();
            caption.push_str(&format!(" The first {} of {all}.", shown.len()));
        }
        let plot = Plot::Curves {
            x: axis(Scale::Nines, "percentile", percent),
            y: axis(Scale::Log, what, text::short_nanos),
            curves,
            floor: self.floor(&shown),
        };
        let title = format!("{title}: all percentiles");
        Some(self.figure(&format!("percentiles{name}"), &title, plot, caption))
    }

    /// Each slice over the time of the measurement, of the first rows.
    fn over_time(&self, place: &PlacementRows<'_>, name: &str) -> Option<Figure> {
        let points = |measured: &Measured| {
            let slices = measured.series.iter().map(|&(_, x, y)| (x, y));
            (measured.series.len() > 1).then(|| slices.collect())
        };
        let (shown, curves) = Self::lines(place, true, points);
        let (what, title) = self.words();
        let caption = format!("A point for each slice, all runs. {}.", self.holds(&shown));
        (!curves.is_empty()).then(|| {
            let plot = Plot::Curves {
                x: axis(Scale::Linear, "time from the start", seconds),
                y: axis(Scale::Log, what, short_unit(self.part.load)),
                curves,
                floor: self.floor(&shown),
            };
            let title = format!("{title}, slice by slice");
            self.figure(&format!("slices{name}"), &title, plot, caption)
        })
    }

    /// Figures against a parameter, a curve for what else differs; split where there are too many
    /// curves.
    fn sweep(&self, param: Param, entries: &[Entry<'_>], part: &str) -> Vec<Figure> {
        let groups = groups(param, entries);
        if groups.is_empty() {
            return Vec::new();
        }
        let others = varied(&OF_CURVES, entries);
        let by = SPLIT_BY.into_iter().filter(|by| *by != param);
        let by = by.clone().find(|by| others.contains(by));
        let is_split = groups.len() > SERIES_MAX && !self.part.compares;
        let Some(by) = by.filter(|_| is_split) else {
            return vec![self.sweep_figure(param, groups, part)];
        };
        let mut values: Vec<String> = entries.iter().map(|entry| by.text(entry)).collect();
        values.sort();
        values.dedup();
        let split = |value: &String| {
            let own = entries
                .iter()
                .copied()
                .filter(|entry| by.text(entry) == *value);
            let of = if by == Param::Ring { "ring " } else { "" };
            let part = format!("{part}, {of}{value}");
            self.sweep(param, &own.collect::<Vec<_>>(), &part)
        };
        values.iter().flat_map(split).collect()
    }

    fn sweep_figure(
        &self,
        param: Param,
        mut groups: Vec<(String, Vec<Entry<'_>>)>,
        part: &str,
    ) -> Figure {
        let all = groups.len();
        groups.truncate(SERIES_MAX);
        let has_companions = !self.is_saturated() && all <= COMPANIONS_MAX;
        let mut curves = Vec::new();
        for (series, (name, members)) in groups.iter().enumerate() {
            let mut curve = |figure: &str, pick: &dyn Fn(&Entry<'_>) -> Option<f64>| {
                let points = members.iter().filter_map(|entry| {
                    let of = format!("{name}, {}", param.text(entry));
                    let y = pick(entry)?;
                    Some(Point {
                        x: param.number(entry)?,
                        y,
                        note: self.note(entry, &of, figure, y),
                    })
                });
                let points: Vec<Point> = points.collect();
                let name = match figure {
                    "" => name.clone(),
                    figure => format!("{name}, {figure}"),
                };
                if !points.is_empty() {
                    curves.push(Curve {
                        name,
                        series,
                        is_thin: figure == "p99",
                        is_marked: true,
                        points,
                    });
                }
            };
            let figure = if self.is_saturated() { "" } else { "p50" };
            curve(figure, &|entry| Some(entry.figure()?.median));
            if has_companions {
                curve("p99", &|entry| {
                    entry.measured.distribution.as_ref()?.percentiles.p99_ns
                });
            }
        }
        let members = groups
            .iter()
            .flat_map(|(_, members)| members.iter().copied());
        let members: Vec<Entry<'_>> = members.collect();
        let (what, title) = self.words();
        let (across, across_unit) = param.axis();
        let mut caption = format!("Mark: the median run. {}.", self.holds(&members));
        if all > groups.len() {
            let shown = groups.len();
            caption.push_str(&format!(" {shown} of {all} curves; the table has all."));
        }
        let scale = match self.is_saturated() {
            true => Scale::Linear,
            false => Scale::Log,
        };
        let plot = Plot::Curves {
            x: axis(Scale::Choices, across, across_unit),
            y: axis(scale, what, short_unit(self.part.load)),
            curves,
            floor: self.floor(&members),
        };
        let title = format!("{title} by {}{part}", param.head());
        let kind = format!("by-{}-{}", param.head(), constant(&members));
        self.figure(&kind, &title, plot, caption)
    }

    /// Rates by numbers of publishers and subscribers.
    fn mesh(&self, entries: &[Entry<'_>]) -> Option<Figure> {
        let differ = varied(&OF_CURVES, entries);
        let is_mesh = [Param::Publishers, Param::Subscribers].map(|p| differ.contains(&p));
        if is_mesh != [true, true] {
            return None;
        }
        let counts = |of: fn(&Entry<'_>) -> u32| -> Vec<u32> {
            let found: BTreeSet<u32> = entries.iter().map(of).collect();
            found.into_iter().collect()
        };
        let publishers = counts(|entry| entry.row.parameters.publishers_count);
        let subscribers = counts(|entry| entry.row.parameters.subscribers_count);
        let mut cells = Vec::new();
        for n in &publishers {
            for m in &subscribers {
                let is_it = |entry: &&Entry<'_>| {
                    let of = &entry.row.parameters;
                    (of.publishers_count, of.subscribers_count) == (*n, *m)
                };
                cells.push(entries.iter().find(is_it).and_then(|entry| {
                    let value = entry.figure()?.median;
                    let what = format!("{n} publishers, {m} subscribers");
                    Some((value, text::rate(value), self.note(entry, &what, "", value)))
                }));
            }
        }
        let names = |counts: &[u32]| counts.iter().map(u32::to_string).collect();
        let plot = Plot::Field {
            columns: names(&subscribers),
            rows: names(&publishers),
            column_title: "subscribers",
            row_title: "publishers",
            cells,
        };
        let title = "Messages published a second, by all";
        Some(self.figure("mesh-all", title, plot, format!("{}.", self.holds(entries))))
    }

    /// A mesh, pair by pair.
    fn pairs(&self, entry: &Entry<'_>, entries: &[Entry<'_>]) -> Option<Figure> {
        let of = &entry.row.parameters;
        // Of one publisher or one subscriber, pairs say no more than the table.
        let is_mesh = of.publishers_count > 1 && of.subscribers_count > 1;
        if !is_mesh || entry.measured.pairs.is_empty() {
            return None;
        }
        let mut cells = Vec::new();
        for publisher in 0..of.publishers_count {
            for subscriber in 0..of.subscribers_count {
                let mut pairs = entry.measured.pairs.iter();
                let found =
                    pairs.find(|pair| (pair.publisher, pair.subscriber) == (publisher, subscriber));
                cells.push(found.map(|pair| {
                    let rate = text::rate(pair.messages_per_s);
                    let slices = entry.measured.slices_count;
                    let note = format!(
                        "publisher {publisher} to subscriber {subscriber}: {rate}, \
                         n = {slices} slices"
                    );
                    (pair.messages_per_s, rate, note)
                }));
            }
        }
        let names = |count: u32| (0..count).map(|n| n.to_string()).collect();
        let plot = Plot::Field {
            columns: names(of.subscribers_count),
            rows: names(of.publishers_count),
            column_title: "subscriber",
            row_title: "publisher",
            cells,
        };
        let label = entry.label(&varied(&OF_TABLES, entries));
        let caption = format!("{}.", self.holds(&[*entry]));
        let title = "Messages a second, pair by pair";
        Some(self.figure(&format!("pairs-{label}"), title, plot, caption))
    }
}

/// Rows that differ in `param` only, where there are at least two of them, with their names.
fn groups<'a>(param: Param, entries: &[Entry<'a>]) -> Vec<(String, Vec<Entry<'a>>)> {
    let mut params = varied(&OF_CURVES, entries);
    params.retain(|other| *other != param);
    let mut groups: Vec<(String, Vec<Entry<'a>>)> = Vec::new();
    for entry in entries.iter().filter(|entry| param.number(entry).is_some()) {
        let name = entry.label(&params);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(*entry),
            None => groups.push((name, vec![*entry])),
        }
    }
    groups.retain(|(_, members)| varied(&OF_CURVES, members).contains(&param));
    groups.sort_by_key(|(_, members)| !members.iter().any(Entry::is_ours));
    for (_, members) in &mut groups {
        let at = |entry: &Entry<'_>| param.number(entry).unwrap_or(0.0);
        members.sort_by(|a, b| at(a).total_cmp(&at(b)));
    }
    groups
}

fn axis(scale: Scale, title: &str, unit: Unit) -> AxisPlan {
    let title = title.to_owned();
    AxisPlan { scale, title, unit }
}

/// Samples behind a row: of its distribution, or slices of a rate.
fn count(entry: &Entry<'_>) -> u64 {
    let found = entry.measured.distribution.as_ref();
    found.map_or(entry.measured.slices_count, |found| found.percentiles.count)
}

/// The unit of a load on an axis.
fn short_unit(load: Load) -> fn(f64) -> String {
    match load {
        Load::Saturated => text::short_rate,
        Load::Closed | Load::Open => text::short_nanos,
    }
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.0} s")
}

/// A quantile as the percentile that it is known by.
fn percent(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    match text.trim_end_matches('0').trim_end_matches('.') {
        "0" | "" => "min".to_owned(),
        text => text.to_owned(),
    }
}
