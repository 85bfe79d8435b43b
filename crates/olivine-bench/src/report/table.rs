//! One table as markup.

use super::svg::escape;
use std::fmt::Write as _;

/// A table in the making: heads, and rows of cells that are markup already. Columns that stay empty are left out.
pub(super) struct Table {
    heads: Vec<(String, bool)>,
    rows: Vec<Line>,
}

/// One row.
enum Line {
    /// A class, and a cell for each head.
    Whole(String, Vec<String>),
    /// The first cells, and what takes the rest of the table.
    Broken(Vec<String>, String),
}

impl Table {
    /// `heads` with whether the column holds numbers.
    pub(super) fn new(heads: &[(&str, bool)]) -> Self {
        Self {
            heads: heads
                .iter()
                .map(|(head, number)| ((*head).to_owned(), *number))
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, class: &str, cells: &[String]) {
        let line = Line::Whole(class.to_owned(), cells.to_vec());
        self.rows.push(line);
    }

    /// A row whose last cell takes the rest of the table.
    pub(super) fn broken_row(&mut self, cells: &[String], rest: &str) {
        let line = Line::Broken(cells.to_vec(), rest.to_owned());
        self.rows.push(line);
    }

    /// Whether it has no row.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether any row has something in column `index`.
    fn is_filled(&self, index: usize) -> bool {
        self.rows.iter().any(|line| {
            let (Line::Whole(_, cells) | Line::Broken(cells, _)) = line;
            cells.get(index).is_some_and(|cell| !cell.is_empty())
        })
    }

    pub(super) fn finish(self) -> String {
        let kept: Vec<usize> = (0..self.heads.len())
            .filter(|index| self.is_filled(*index))
            .collect();
        let mut out = "<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
        let class = |index: usize| {
            if self.heads[index].1 {
                " class=\"n\""
            } else {
                ""
            }
        };
        for &index in &kept {
            let head = escape(&self.heads[index].0);
            // Writing to a string cannot fail.
            let _ = write!(out, "<th{} scope=\"col\">{head}</th>", class(index));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for line in &self.rows {
            match line {
                Line::Whole(name, cells) if name.is_empty() => {
                    let _ = write!(out, "<tr>{}", whole(&kept, cells, class));
                }
                Line::Whole(name, cells) => {
                    let _ = write!(out, "<tr class=\"{name}\">{}", whole(&kept, cells, class));
                }
                Line::Broken(cells, rest) => {
                    let shown = kept.iter().filter(|index| **index < cells.len()).count();
                    let left = (kept.len() - shown).max(1);
                    let _ = write!(
                        out,
                        "<tr class=\"failed\">{}<td colspan=\"{left}\">{rest}</td>",
                        whole(&kept, cells, |_| "")
                    );
                }
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
        out
    }
}

/// The cells of `kept` columns.
fn whole(kept: &[usize], cells: &[String], class: impl Fn(usize) -> &'static str) -> String {
    let cell = |index: &usize| Some(format!("<td{}>{}</td>", class(*index), cells.get(*index)?));
    kept.iter().filter_map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_stay_empty_are_left_out_and_broken_rows_span_the_rest() {
        let mut table = Table::new(&[("a", false), ("empty", true), ("b", true), ("c", false)]);
        let cells = |texts: [&str; 4]| texts.map(str::to_owned);
        table.row("ours", &cells(["x", "", "1", "y"]));
        table.broken_row(&["z".to_owned()], "why");
        let text = table.finish();
        assert!(!text.contains("empty"), "{text}");
        assert!(
            text.contains("<tr class=\"ours\"><td>x</td><td class=\"n\">1</td><td>y</td></tr>"),
            "{text}"
        );
        assert!(
            text.contains("<tr class=\"failed\"><td>z</td><td colspan=\"2\">why</td></tr>"),
            "{text}"
        );
    }
}
