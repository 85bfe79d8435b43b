//! Content of every output: sections of tables and figures. Each cell keeps its value and its text.

use crate::spread::Spread;
use crate::text;

/// A number as text, with its unit.
pub(crate) type Unit = fn(f64) -> String;

/// One cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cell {
    /// The value behind the text, where it is one number.
    pub value: Option<f64>,
    /// The text of every output.
    pub text: String,
}

impl Cell {
    /// A cell of words.
    pub(super) fn word(text: impl Into<String>) -> Self {
        Self {
            value: None,
            text: text.into(),
        }
    }

    /// A number; empty if there is none.
    pub(super) fn number(value: Option<f64>, unit: impl Fn(f64) -> String) -> Self {
        Self {
            text: value.map(unit).unwrap_or_default(),
            value,
        }
    }

    /// The median of the runs.
    pub(super) fn median(spread: Option<Spread>, unit: Unit) -> Self {
        Self::number(spread.map(|spread| spread.median), unit)
    }

    /// Least and most of the runs, a common unit once; empty for one run.
    pub(super) fn range(spread: Option<Spread>, unit: Unit) -> Self {
        let several = spread.filter(|spread| spread.runs > 1);
        Self::word(several.map_or_else(String::new, |spread| range(&spread, unit)))
    }

    /// A whole number.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(super) fn count(count: u64) -> Self {
        Self {
            value: Some(count as f64),
            text: text::count(count),
        }
    }
}

/// Least and most, a common unit once: `250–281 M/s`.
pub(super) fn range(spread: &Spread, unit: Unit) -> String {
    let (least, most) = (unit(spread.min), unit(spread.max));
    let short = match (least.split_once(' '), most.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number,
        _ => least.as_str(),
    };
    format!("{short}–{most}")
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// Description of its figures; empty if the head suffices.
    pub meaning: &'static str,
    /// Whether its cells are numbers.
    pub is_number: bool,
    /// Whether only the page shows it.
    pub is_detail: bool,
}

impl Column {
    pub(super) const fn words(head: &'static str) -> Self {
        Self {
            head,
            meaning: "",
            is_number: false,
            is_detail: false,
        }
    }

    pub(super) const fn number(head: &'static str, meaning: &'static str) -> Self {
        Self {
            head,
            meaning,
            is_number: true,
            is_detail: false,
        }
    }

    pub(super) const fn detail_if(mut self, is_detail: bool) -> Self {
        self.is_detail = is_detail;
        self
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// Whether it is a method of this library.
    pub is_ours: bool,
    /// Whether only the page shows it.
    pub is_detail: bool,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A table with the text above and below it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Common properties of all rows.
    pub title: String,
    /// Columns, none of them empty.
    pub columns: Vec<Column>,
    /// Rows in the order of their figures, or of the file.
    pub lines: Vec<Line>,
    /// One sentence each.
    pub notes: Vec<String>,
}

impl Table {
    /// A table of plain rows.
    pub(super) fn plain(title: &str, columns: &[Column], rows: Vec<Vec<Cell>>) -> Self {
        let line = |cells| Line {
            is_ours: false,
            is_detail: false,
            cells,
        };
        let table = Self {
            title: title.to_owned(),
            columns: columns.to_vec(),
            lines: rows.into_iter().map(line).collect(),
            notes: Vec::new(),
        };
        table.only(|_| true)
    }

    /// The table for small outputs: without details, and without columns that are then empty.
    #[must_use]
    pub fn without_details(&self) -> Self {
        let mut table = self.clone();
        table.lines.retain(|line| !line.is_detail);
        table.only(|column| !column.is_detail)
    }

    /// The columns that `keep` approves and in which something stands.
    pub(super) fn only(mut self, keep: impl Fn(&Column) -> bool) -> Self {
        let is_filled = |index: usize| {
            let mut cells = self.lines.iter().filter_map(|line| line.cells.get(index));
            cells.any(|cell| !cell.text.is_empty())
        };
        let columns = self.columns.iter().enumerate();
        let kept: Vec<bool> = columns
            .map(|(index, column)| keep(column) && is_filled(index))
            .collect();
        let mut of_columns = kept.iter();
        self.columns.retain(|_| of_columns.next() == Some(&true));
        for line in &mut self.lines {
            let mut of_cells = kept.iter();
            line.cells.retain(|_| of_cells.next() == Some(&true));
        }
        self
    }
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0, evenly.
    Linear,
    /// By ratio: each tenfold takes the same room.
    Log,
    /// As `Log`, with a tick at each value.
    Choices,
    /// Quantiles by the share above them: each further nine takes the same room.
    Nines,
}

/// An axis before it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct AxisPlan {
    pub(crate) scale: Scale,
    pub(crate) title: String,
    pub(crate) unit: Unit,
}

/// A row of dots: a value with a range. The note is said where the pointer rests on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dot {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    pub(crate) value: f64,
    pub(crate) range: (f64, f64),
    pub(crate) text: String,
    pub(crate) note: String,
}

/// A point of a curve.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) note: String,
}

/// A curve with its name.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Which colour and mark, below [`SERIES_MAX`].
    pub(crate) series: usize,
    /// Drawn thin: the companion of another curve.
    pub(crate) is_thin: bool,
    /// Whether its points have marks.
    pub(crate) is_marked: bool,
    pub(crate) points: Vec<Point>,
}

/// Most curves in a figure: there are as many colours.
pub(crate) const SERIES_MAX: usize = 8;

/// A cell of a field: value, text, note; `None` where nothing was measured.
pub(crate) type FieldCell = Option<(f64, String, String)>;

/// Content of a figure. There is a floor if values are times.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// Rows of dots over one axis, the first at the top.
    Dots {
        axis: AxisPlan,
        dots: Vec<Dot>,
        floor: Option<f64>,
    },
    /// Curves over two axes.
    Curves {
        x: AxisPlan,
        y: AxisPlan,
        curves: Vec<Curve>,
        floor: Option<f64>,
    },
    /// Cells row by row: the denser, the more.
    Field {
        columns: Vec<String>,
        rows: Vec<String>,
        column_title: &'static str,
        row_title: &'static str,
        cells: Vec<FieldCell>,
    },
}

/// A figure with its caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Name of its file, without an ending.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) plot: Plot,
    pub(crate) caption: String,
}

/// One scenario of one file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Section {
    /// What was measured.
    pub heading: String,
    /// The command that measured it, without the files it wrote; empty where it is not known.
    pub command: String,
    /// Runs, load and measuring error, a few words each.
    pub facts: Vec<String>,
    /// Tables.
    pub tables: Vec<Table>,
    pub(crate) figures: Vec<Figure>,
    /// Rows without a figure, and why.
    pub failures: Vec<String>,
}

/// The conditions of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Conditions {
    /// Name of the file.
    pub name: String,
    /// What and its text.
    pub facts: Vec<(&'static str, String)>,
}

/// The presentation of some result files.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View {
    /// Title of a page.
    pub title: String,
    /// How Olivine compares, in one sentence; `None` if it was not measured.
    pub sentence: Option<String>,
    /// The section that it is about.
    pub(crate) told: Option<usize>,
    /// Why the figures must not be quoted, in one paragraph.
    pub warning: Option<String>,
    /// The same in two words.
    pub stamp: Option<&'static str>,
    /// The machines, one line each.
    pub machines: Vec<String>,
    /// The sections, in the order of the files.
    pub sections: Vec<Section>,
    /// Machine, command and runs of each file.
    pub conditions: Vec<Conditions>,
    /// What holds for all figures, in a paragraph.
    pub method: &'static str,
}

impl View {
    /// What the heads of the columns mean, each head once; `is_page` if details are shown.
    #[must_use]
    pub fn legend(&self, is_page: bool) -> Vec<(&'static str, &'static str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        let tables = self.sections.iter().flat_map(|section| &section.tables);
        for column in tables.flat_map(|table| &table.columns) {
            let entry = (column.head, column.meaning);
            let is_shown = is_page || !column.is_detail;
            if is_shown && !column.meaning.is_empty() && !found.contains(&entry) {
                found.push(entry);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_says_a_common_unit_once() {
        let of = |values: &[f64]| range(&Spread::of(values).unwrap(), text::rate);
        assert_eq!(of(&[250e6, 273e6, 281e6]), "250–281 M/s");
        assert_eq!(of(&[9e5, 1e6, 2e6]), "900 K/s–2.00 M/s");
        let one = Spread::of(&[273e6]);
        assert_eq!(Cell::range(one, text::rate).text, "");
    }

    #[test]
    fn columns_that_stay_empty_and_details_are_left_out() {
        let columns = [
            Column::words("name"),
            Column::number("empty", ""),
            Column::number("detail", "").detail_if(true),
        ];
        let row = vec![Cell::word("a"), Cell::default(), Cell::count(1200)];
        let table = Table::plain("", &columns, vec![row]);
        let heads = |table: &Table| table.columns.iter().map(|c| c.head).collect::<Vec<_>>();
        assert_eq!(heads(&table), ["name", "detail"]);
        assert_eq!(table.lines[0].cells[1].text, "1,200");
        assert_eq!(heads(&table.without_details()), ["name"]);
    }
}
