//! Ratios of rows, run by run.

use super::model::{Cell, Column, Section, Table};
use crate::result::ratio::{Ratio, Target};
use crate::result::statistic::find;
use crate::text::three_figures;

/// Ratios of rows within runs, each with its target; `None` if there are none.
pub(super) fn section(ratios: &[Ratio]) -> Option<Section> {
    let rows = ratios.iter().map(|ratio| {
        let (target, result) = ratio.target.map_or_else(Default::default, |target| {
            let is_met = target.is_met(ratio.ratio.median);
            let target = match target {
                Target::AtMost(most) => format!("<= {most}"),
                Target::AtLeast(least) => format!(">= {least}"),
            };
            (target, if is_met { "met" } else { "missed" })
        });
        vec![
            Cell::word(ratio.ours.as_str()),
            Cell::word(ratio.situation.as_str()),
            Cell::word(ratio.beside.as_str()),
            Cell::word(find(&ratio.figure).map_or("", |statistic| statistic.head)),
            Cell::median(Some(ratio.ratio), three_figures),
            Cell::range(Some(ratio.ratio), three_figures),
            Cell::word(target),
            Cell::word(result),
        ]
    });
    let columns = [
        Column::words("ours"),
        Column::words("with"),
        Column::words("beside"),
        Column::words("figure"),
        Column::number("ratio", "median of the runs"),
        Column::number("runs", "least and most of the runs"),
        Column::words("target"),
        Column::words("result"),
    ];
    (!ratios.is_empty()).then(|| Section {
        heading: "Ratios, run by run".to_owned(),
        tables: vec![Table::plain("", &columns, rows.collect())],
        ..Section::default()
    })
}
