//! From the rows of a scenario to its plots.

use super::axis::{Axis, Scale};
use super::plot::{Bar, Dot, Field, Line, Point, SERIES_MAX, bars, dots, heat, lines};
use super::select::{
    Entry, Param, constant, main_placement, placed, short_nanos, short_rate, varied,
};
use super::svg::Svg;
use crate::floor::Placement;
use crate::result::Load;
use crate::text;

/// Rows of dots or bars in one plot; a longer list is for the table.
const ROWS_MAX: usize = 40;
/// The same for rows of one method: what varies then is an axis of the other plots.
const ROWS_OF_ONE_MAX: usize = 12;
/// Lines with a companion for p99 in one plot.
const COMPANIONS_MAX: usize = 4;
/// Steps of a percentile curve per nine.
const STEPS: u32 = 20;
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
        let counts = entries.iter().filter_map(|entry| count(entry));
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

    /// p50 to p99 of each row, fastest first.
    fn ranges(&self, entries: &[Entry<'_>]) -> Option<Figure> {
        let params = varied(entries);
        let mut sorted: Vec<(&Entry<'_>, f64)> = entries
            .iter()
            .filter_map(|entry| Some((entry, entry.p50_ns()?)))
            .collect();
        let pointless = !params.contains(&Param::Method) && sorted.len() > ROWS_OF_ONE_MAX;
        if sorted.len() < 2 || pointless {
            return None;
        }
        // A method's rows of other placements stand on the line of its main one.
        sorted.sort_by(|a, b| {
            let aside = |entry: &Entry<'_>| {
                entry
                    .measured()
                    .is_none_or(|m| m.placement != self.placement)
            };
            aside(a.0).cmp(&aside(b.0)).then(a.1.total_cmp(&b.1))
        });
        let mut names: Vec<String> = Vec::new();
        let mut drawn = Vec::new();
        let mut shapes: Vec<(usize, String)> = Vec::new();
        for (entry, p50_ns) in sorted {
            let (Some(measured), row) = (entry.measured(), entry.name(&params)) else {
                continue;
            };
            if !names.contains(&row) {
                if names.len() == ROWS_MAX {
                    continue;
                }
                names.push(row.clone());
            }
            let shape = shape(measured.placement);
            if !shapes.iter().any(|(known, _)| *known == shape) {
                shapes.push((shape, measured.placement.to_string()));
            }
            let p99_ns = measured
                .distribution()
                .and_then(|(_, found)| found.percentiles.p99_ns);
            let main = measured.placement == self.placement;
            drawn.push(Dot {
                note: note(entry, &row, p50_ns, "p50"),
                row,
                series: if entry.is_ours() { 0 } else { THEIRS },
                shape,
                value: p50_ns,
                to: p99_ns.filter(|_| main),
                text: if main {
                    text::nanos(p50_ns)
                } else {
                    String::new()
                },
            });
        }
        let shapes: Vec<(usize, &str)> = shapes
            .iter()
            .map(|(shape, name)| (*shape, name.as_str()))
            .collect();
        let (what, title) = self.words();
        let svg = dots(
            &format!("{title}: p50 to p99"),
            &format!("{what}, log scale"),
            short_nanos,
            &drawn,
            self.floor(entries),
            &shapes,
        );
        let mut caption = format!(
            "Mark: p50. Line: up to p99. {}.",
            self.holds(entries, &params)
        );
        let all = entries
            .iter()
            .map(|entry| entry.name(&params))
            .collect::<std::collections::BTreeSet<_>>();
        if all.len() > names.len() {
            caption.push_str(&format!(
                " The {} fastest of {}; all are in the table.",
                names.len(),
                all.len()
            ));
        }
        Some(self.figure("p50", svg, caption))
    }

    /// Percentile curves of the fastest rows, ours first.
    fn curves(&self, entries: &[Entry<'_>]) -> Option<Figure> {
        let params = varied(entries);
        let mut sorted: Vec<(&Entry<'_>, f64)> = entries
            .iter()
            .filter_map(|entry| Some((entry, entry.p50_ns()?)))
            .collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        let all = sorted.len();
        sorted.truncate(SERIES_MAX);
        sorted.sort_by_key(|(entry, _)| !entry.is_ours());
        let mut drawn = Vec::new();
        for (series, (entry, _)) in sorted.iter().enumerate() {
            let (_, found) = entry.measured()?.distribution()?;
            let steps =
                (0..=STEPS * 5).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(STEPS)));
            let points = steps.map_while(|quantile| {
                Some(Point {
                    x: quantile,
                    y: found.at(quantile)?,
                    note: String::new(),
                })
            });
            drawn.push(Line {
                name: entry.name(&params),
                series,
                thin: false,
                marked: false,
                points: points.collect(),
            });
        }
        let points = || drawn.iter().flat_map(|line| &line.points);
        if points().count() == 0 {
            return None;
        }
        let x = Axis::for_values(
            Scale::Nines,
            points().map(|point| point.x),
            "percentile",
            percent,
        );
        let (what, title) = self.words();
        let floor = self.floor(entries);
        let values = points().map(|point| point.y).chain(floor);
        let y = Axis::for_values(Scale::Log, values, what, short_nanos);
        let svg = lines(&format!("{title}: all percentiles"), x, y, &drawn, floor);
        let some: Vec<Entry<'_>> = sorted.iter().map(|(entry, _)| **entry).collect();
        let mut caption = format!(
            "Each curve ends where fewer than ten samples lie above. {}.",
            self.holds(&some, &params)
        );
        if all > drawn.len() {
            caption.push_str(&format!(" The {} fastest of {all}.", drawn.len()));
        }
        Some(self.figure("percentiles", svg, caption))
    }

    /// Median rates as bars, highest first.
    fn rates(&self, entries: &[Entry<'_>]) -> Option<Figure> {
        let params = varied(entries);
        let mut drawn = Vec::new();
        for entry in entries {
            let Some((value, range)) = deliveries(entry) else {
                continue;
            };
            let name = entry.name(&params);
            drawn.push(Bar {
                note: rate_note(entry, &name, value, range),
                name,
                series: if entry.is_ours() { 0 } else { THEIRS },
                value,
                range,
                text: text::rate(value),
            });
        }
        drawn.sort_by(|a, b| b.value.total_cmp(&a.value));
        let all = drawn.len();
        drawn.truncate(ROWS_MAX);
        if drawn.is_empty() {
            return None;
        }
        let what = "messages received a second";
        let svg = bars("Full speed", what, short_rate, &drawn);
        let mut caption = format!(
            "Bar: median run. Whisker: least and most of the runs. {}.",
            self.holds(entries, &params)
        );
        if all > drawn.len() {
            caption.push_str(&format!(
                " The {} highest of {all}; all are in the table.",
                drawn.len()
            ));
        }
        Some(self.figure("rates", svg, caption))
    }

    /// Figures against a parameter, one line for what else differs; split where that gives too many lines.
    fn sweep(&self, param: Param, entries: &[Entry<'_>], part: &str) -> Vec<Figure> {
        let groups = self.groups(param, entries);
        if groups.is_empty() {
            return Vec::new();
        }
        let mut others = varied(entries);
        others.retain(|other| *other != param);
        let split = [
            Param::Wait,
            Param::Settings,
            Param::Ring,
            Param::Size,
            Param::Rate,
            Param::Batch,
        ];
        let by = split.into_iter().find(|other| others.contains(other));
        if let (true, Some(by)) = (groups.len() > SERIES_MAX, by) {
            let mut values: Vec<String> = Vec::new();
            for entry in entries {
                let value = by.text(entry);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let split = |value: &String| {
                let own: Vec<Entry<'_>> = entries
                    .iter()
                    .filter(|entry| by.text(entry) == *value)
                    .copied()
                    .collect();
                let of = if by == Param::Ring { "ring " } else { "" };
                self.sweep(param, &own, &format!("{part}, {of}{value}"))
            };
            return values.iter().flat_map(split).collect();
        }
        self.sweep_plot(param, groups, entries, part)
            .into_iter()
            .collect()
    }

    /// Rows that differ in `param` only, where there are at least two of them, with their names.
    fn groups<'a>(&self, param: Param, entries: &[Entry<'a>]) -> Vec<(String, Vec<Entry<'a>>)> {
        let mut params = varied(entries);
        params.retain(|other| *other != param);
        let mut groups: Vec<(String, Vec<Entry<'a>>)> = Vec::new();
        for entry in entries.iter().filter(|entry| param.number(entry).is_some()) {
            let name = entry.name(&params);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(*entry),
                None => groups.push((name, vec![*entry])),
            }
        }
        groups.retain(|(_, members)| varied(members).contains(&param));
        groups.sort_by_key(|(_, members)| !members.iter().any(Entry::is_ours));
        groups
    }

    fn sweep_plot(
        &self,
        param: Param,
        mut groups: Vec<(String, Vec<Entry<'_>>)>,
        entries: &[Entry<'_>],
        part: &str,
    ) -> Option<Figure> {
        let all = groups.len();
        groups.truncate(SERIES_MAX);
        let saturated = self.load == Load::Saturated;
        let companions = !saturated && groups.len() <= COMPANIONS_MAX;
        let mut drawn = Vec::new();
        let mut xs: Vec<f64> = Vec::new();
        for (series, (name, members)) in groups.iter_mut().enumerate() {
            members.sort_by(|a, b| {
                param
                    .number(a)
                    .unwrap_or(0.0)
                    .total_cmp(&param.number(b).unwrap_or(0.0))
            });
            xs.extend(members.iter().filter_map(|entry| param.number(entry)));
            let line =
                |figure: &str, thin: bool, of: &dyn Fn(&Entry<'_>) -> Option<(f64, String)>| Line {
                    name: if figure.is_empty() {
                        name.clone()
                    } else {
                        format!("{name}, {figure}")
                    },
                    series,
                    thin,
                    marked: true,
                    points: members
                        .iter()
                        .filter_map(|entry| {
                            let (y, note) = of(entry)?;
                            let x = param.number(entry)?;
                            Some(Point { x, y, note })
                        })
                        .collect(),
                };
            if saturated {
                drawn.push(line("", false, &|entry| {
                    let (value, range) = deliveries(entry)?;
                    Some((
                        value,
                        rate_note(
                            entry,
                            &format!("{name}, {}", param.text(entry)),
                            value,
                            range,
                        ),
                    ))
                }));
                continue;
            }
            let percentile = |entry: &Entry<'_>, figure: &str| {
                let table = &entry.measured()?.distribution()?.1.percentiles;
                let value = if figure == "p50" {
                    table.p50_ns?
                } else {
                    table.p99_ns?
                };
                Some((
                    value,
                    note(
                        entry,
                        &format!("{name}, {}", param.text(entry)),
                        value,
                        figure,
                    ),
                ))
            };
            drawn.push(line("p50", false, &|entry| percentile(entry, "p50")));
            if companions {
                drawn.push(line("p99", true, &|entry| percentile(entry, "p99")));
            }
        }
        drawn.retain(|line| !line.points.is_empty());
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (x_title, x_unit) = param.axis();
        let values = drawn
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.y));
        let (title, y, floor) = if saturated {
            let y = Axis::for_values(
                Scale::Linear,
                values,
                "messages received a second",
                short_rate,
            );
            (format!("Full speed by {}{part}", param.head()), y, None)
        } else {
            let (what, title) = self.words();
            let floor = self.floor(entries);
            let y = Axis::for_values(Scale::Log, values.chain(floor), what, short_nanos);
            (format!("{title} by {}{part}", param.head()), y, floor)
        };
        if drawn.is_empty() {
            return None;
        }
        let x = Axis::of_choices(&xs, x_title, x_unit);
        let svg = lines(&title, x, y, &drawn, floor);
        let members: Vec<Entry<'_>> = groups
            .iter()
            .flat_map(|(_, members)| members.iter().copied())
            .collect();
        let mut caption = format!("{}.", self.holds(&members, &varied(&members)));
        if saturated {
            caption.insert_str(0, "Median run. ");
        }
        if all > groups.len() {
            caption.push_str(&format!(
                " {} of {all} lines; all are in the table.",
                groups.len()
            ));
        }
        let kind = format!(
            "by-{}-{}",
            param.head(),
            constant(&members, &varied(&members))
        );
        Some(self.figure(&kind, svg, caption))
    }

    /// Deliveries by numbers of publishers and subscribers, one map for what else differs.
    fn mesh(&self, entries: &[Entry<'_>]) -> Vec<Figure> {
        let mut params = varied(entries);
        if !params.contains(&Param::Publishers) || !params.contains(&Param::Subscribers) {
            return Vec::new();
        }
        params.retain(|param| {
            !matches!(param, Param::Publishers | Param::Subscribers | Param::Crowd)
        });
        let mut groups: Vec<(String, Vec<Entry<'_>>)> = Vec::new();
        for entry in entries.iter().filter(|entry| deliveries(entry).is_some()) {
            let name = entry.name(&params);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(*entry),
                None => groups.push((name, vec![*entry])),
            }
        }
        groups.retain(|(_, members)| members.len() > 1);
        let map = |(name, members): &(String, Vec<Entry<'_>>)| {
            let counts = |of: fn(&Entry<'_>) -> u32| {
                let found: std::collections::BTreeSet<u32> = members.iter().map(of).collect();
                found.into_iter().collect::<Vec<u32>>()
            };
            let publishers = counts(|entry| entry.row.parameters.publishers_count);
            let subscribers = counts(|entry| entry.row.parameters.subscribers_count);
            let mut cells = Vec::new();
            for n in &publishers {
                for m in &subscribers {
                    let cell = members.iter().find(|entry| {
                        let of = &entry.row.parameters;
                        of.publishers_count == *n && of.subscribers_count == *m
                    });
                    cells.push(cell.and_then(|entry| {
                        let (value, range) = deliveries(entry)?;
                        let what = format!("{n} publishers, {m} subscribers");
                        Some((
                            value,
                            text::rate(value),
                            rate_note(entry, &what, value, range),
                        ))
                    }));
                }
            }
            let names = |counts: &[u32]| counts.iter().map(u32::to_string).collect::<Vec<_>>();
            let field = Field {
                columns: &names(&subscribers),
                rows: &names(&publishers),
                column_title: "subscribers",
                row_title: "publishers",
                cells: &cells,
            };
            let svg = heat(
                "Messages received a second, all subscribers together",
                &field,
            );
            let caption = format!("{}.", self.holds(members, &varied(members)));
            self.figure(&format!("mesh-{name}"), svg, caption)
        };
        groups.iter().map(map).collect()
    }

    /// Rows that were measured pair by pair.
    fn pairs(&self, entries: &[Entry<'_>]) -> Vec<Figure> {
        let params = varied(entries);
        let mut figures = Vec::new();
        for entry in entries {
            let Some(measured) = entry
                .measured()
                .filter(|measured| !measured.pairs.is_empty())
            else {
                continue;
            };
            let of = &entry.row.parameters;
            let pair = |publisher: u32, subscriber: u32| {
                let found = measured
                    .pairs
                    .iter()
                    .find(|pair| pair.publisher == publisher && pair.subscriber == subscriber)?;
                let text = text::rate(found.messages_per_s);
                let note = format!(
                    "publisher {publisher} to subscriber {subscriber}: {text}, n = {} slices",
                    measured.slices_count
                );
                Some((found.messages_per_s, text, note))
            };
            let cells: Vec<_> = (0..of.publishers_count)
                .flat_map(|publisher| {
                    (0..of.subscribers_count).map(move |subscriber| (publisher, subscriber))
                })
                .map(|(publisher, subscriber)| pair(publisher, subscriber))
                .collect();
            let names = |count: u32| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
            let field = Field {
                columns: &names(of.subscribers_count),
                rows: &names(of.publishers_count),
                column_title: "subscriber",
                row_title: "publisher",
                cells: &cells,
            };
            let svg = heat("Messages a second, pair by pair", &field);
            let name = entry.name(&params);
            let caption = format!("{name}; {}.", self.holds(&[*entry], &params));
            figures.push(self.figure(&format!("pairs-{name}"), svg, caption));
        }
        figures
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

/// Samples behind a row: of its distribution, or slices of a rate.
fn count(entry: &Entry<'_>) -> Option<u64> {
    let measured = entry.measured()?;
    let samples = measured
        .distribution()
        .map(|(_, found)| found.percentiles.count);
    Some(samples.unwrap_or(measured.slices_count))
}

/// Messages received a second: median run, least and most.
fn deliveries(entry: &Entry<'_>) -> Option<(f64, (f64, f64))> {
    let rate = entry.measured()?.messages_per_s?;
    let each = f64::from(entry.row.parameters.subscribers_count);
    Some((rate.median * each, (rate.min * each, rate.max * each)))
}

fn note(entry: &Entry<'_>, name: &str, ns: f64, figure: &str) -> String {
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

fn rate_note(entry: &Entry<'_>, name: &str, value: f64, (least, most): (f64, f64)) -> String {
    let slices = count(entry).map(text::count).unwrap_or_default();
    format!(
        "{name}: {} ({} to {}), n = {slices} slices",
        text::rate(value),
        text::rate(least),
        text::rate(most)
    )
}

/// Marks by placement.
fn shape(placement: Placement) -> usize {
    match placement {
        Placement::SharedL3 => 0,
        Placement::Far => 1,
        Placement::SameCore => 2,
        Placement::Changed => 3,
    }
}

/// A quantile as the percentile people name it by.
fn percent(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "0" {
        "min".to_owned()
    } else {
        text.to_owned()
    }
}
