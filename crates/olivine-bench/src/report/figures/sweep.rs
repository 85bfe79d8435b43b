//! Figures against a parameter, and rates side by side.

use super::rows::{deliveries, note, rate_note};
use super::{Context, Figure, ROWS_MAX, THEIRS};
use crate::report::axis::{Axis, Scale};
use crate::report::plot::{Bar, Line, Point, SERIES_MAX, bars, lines};
use crate::report::select::{Entry, Param, constant, short_nanos, short_rate, varied};
use crate::result::Load;
use crate::text;

/// Lines with a companion for p99 in one plot.
const COMPANIONS_MAX: usize = 4;

impl Context<'_> {
    /// Median rates as bars, highest first.
    pub(super) fn rates(&self, entries: &[Entry<'_>]) -> Option<Figure> {
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
    pub(super) fn sweep(&self, param: Param, entries: &[Entry<'_>], part: &str) -> Vec<Figure> {
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
                let value = if figure == "p50" {
                    entry.p50_ns()?
                } else {
                    entry.measured()?.distribution()?.1.percentiles.p99_ns?
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
}
