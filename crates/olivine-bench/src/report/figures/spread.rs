//! Distributions: p50 to p99 of each row, and whole percentile curves.

use super::rows::{note, shape};
use super::{Context, Figure, ROWS_MAX, THEIRS};
use crate::report::axis::{Axis, Scale};
use crate::report::plot::{Dot, Line, Point, SERIES_MAX, dots, lines};
use crate::report::select::{Entry, Param, short_nanos, varied};
use crate::text;

/// The same for rows of one method: what varies then is an axis of the other plots.
const ROWS_OF_ONE_MAX: usize = 12;
/// Steps of a percentile curve per nine.
const STEPS: u32 = 20;

impl Context<'_> {
    /// p50 to p99 of each row, fastest first.
    pub(super) fn ranges(&self, entries: &[Entry<'_>]) -> Option<Figure> {
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
                // Of all samples: it may lie below, where most of them come from a few fast runs.
                to: p99_ns.filter(|p99_ns| main && *p99_ns >= p50_ns),
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
            "Mark: p50 of the median run. Line: up to p99 of all samples. {}.",
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
    pub(super) fn curves(&self, entries: &[Entry<'_>]) -> Option<Figure> {
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
