//! Standard output: tables for terminals, plain columns for pipes, JSON on request.

use crate::failure::{Failure, Outcome};
use crate::terminal;
use crate::terminal::fit::{cut_middle, width_of};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;
use std::io::Write;

/// Widest table in columns.
const WIDTH: u16 = 80;
/// Spaces between two columns of a table.
const GAP: usize = 2;
/// Indentation of the rest of a broken line.
const FOLDED_INDENT: usize = 2;

/// Writes text to standard output, with escaped control characters on a terminal.
pub(crate) fn print(text: &str) -> Outcome {
    let text = if terminal::is_stdout() {
        terminal::escaped_lines(text)
    } else {
        text.into()
    };
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(Failure::stdout)
}

/// Writes a value as one line of JSON to standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Outcome {
    print(&json_line(value)?)
}

/// A value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Outcome<String> {
    let mut line = Vec::new();
    terminal::write_json(&mut line, value).map_err(|error| Failure::Failed(error.into()))?;
    line.push(b'\n');
    String::from_utf8(line).map_err(|error| Failure::Failed(error.into()))
}

/// On a terminal, long lines are broken at spaces; elsewhere each line stays whole, for searching.
pub(crate) fn folded(text: &str) -> String {
    if terminal::is_stdout() {
        fold(text)
    } else {
        text.to_owned()
    }
}

fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches('\n');
        let words = body.trim_start_matches(' ');
        let indent = body.len() - words.len();
        let mut column = 0;
        if width_of(body) <= usize::from(WIDTH) {
            out.push_str(line);
            continue;
        }
        for word in words.split(' ') {
            let length = width_of(word);
            let space = if column == 0 {
                " ".repeat(indent)
            } else if column + 1 + length > usize::from(WIDTH) {
                column = 0;
                format!("\n{}", " ".repeat(indent + FOLDED_INDENT))
            } else {
                " ".to_owned()
            };
            column += space.trim_start_matches('\n').len() + length;
            out.push_str(&space);
            out.push_str(word);
        }
        out.push_str(&line[body.len()..]);
    }
    out
}

/// Rows with headings. `right` are the numeric columns.
pub(crate) fn table(headings: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    render(headings, right, rows, terminal::is_stdout())
}

/// As [`table`], with a line for each row: on a terminal that is too narrow for the rows, cells of
/// the columns `cut` are cut in their middle.
pub(crate) fn rows_of_a_line(
    headings: &[&str],
    right: &[usize],
    cut: &[usize],
    mut rows: Vec<Vec<String>>,
) -> String {
    if terminal::is_stdout() {
        let columns = terminal::size_of(std::io::stdout()).map_or(0, |(_, columns)| columns);
        let width = columns.max(WIDTH.into());
        cut_to(width, headings, cut, &mut rows);
        return render_to(width, headings, right, rows, true);
    }
    render(headings, right, rows, false)
}

/// Cuts cells of the columns `cut`, the widest first, until the rows take `width` columns.
fn cut_to(width: usize, headings: &[&str], cut: &[usize], rows: &mut [Vec<String>]) {
    for cell in rows.iter_mut().flatten() {
        *cell = terminal::escaped(cell).into_owned();
    }
    let width_at = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| width_of(cell)).max().unwrap_or(0);
        widest.max(headings.get(column).map_or(0, |head| width_of(head)))
    };
    let mut widths: Vec<usize> = (0..headings.len()).map(width_at).collect();
    let gaps = GAP * headings.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let can_shrink = |column: &usize| widths[*column] > width_of(headings[*column]);
        let widest = cut.iter().copied().filter(can_shrink);
        let Some(widest) = widest.max_by_key(|column| widths[*column]) else {
            break;
        };
        widths[widest] -= 1;
    }
    for row in rows {
        for &column in cut {
            if let Some(cell) = row.get_mut(column) {
                *cell = cut_middle(cell, widths[column]);
            }
        }
    }
}

fn render(headings: &[&str], right: &[usize], rows: Vec<Vec<String>>, terminal: bool) -> String {
    render_to(WIDTH.into(), headings, right, rows, terminal)
}

fn render_to(
    width: usize,
    headings: &[&str],
    right: &[usize],
    rows: Vec<Vec<String>>,
    terminal: bool,
) -> String {
    let mut table = Table::new();
    if terminal {
        table.load_style(
            presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─')),
        );
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    } else {
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table.set_header(headings);
    // Line ends in a name from shared memory are escaped.
    let shown = |cell: String| terminal::escaped(&cell).into_owned();
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(shown).collect::<Vec<_>>());
    table.add_rows(rows);
    let last = headings.len().saturating_sub(1);
    // Columns are two spaces apart; the line under the heads uses one of them. In pipes they start
    // at the edge, for `column` and `awk`.
    let gap = if terminal { 1 } else { 2 };
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { gap }));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        vec![
            vec!["ticks".into(), "12".into()],
            vec!["a".into(), "3456".into()],
        ]
    }

    #[test]
    fn pipes_get_plain_columns() {
        let text = render(&["CHANNEL", "LAG"], &[1], rows(), false);
        assert_eq!(text, "CHANNEL   LAG\nticks      12\na        3456\n");
    }

    #[test]
    fn escaped_name_stays_in_its_cell() {
        let hostile = vec![vec!["a\nb\u{1b}[2J\u{202e}".into(), "1".into()]];
        for terminal in [false, true] {
            let text = render(&["NAME", "LAG"], &[1], hostile.clone(), terminal);
            assert!(text.contains("a\\nb\\x1b[2J\\u{202e}"), "{text}");
            assert_eq!(text.lines().count(), 2 + usize::from(terminal), "{text}");
        }
    }

    #[test]
    fn long_lines_are_broken_between_words_and_short_ones_are_kept() {
        let words = ["measured"; 30].join(" ");
        let text = fold(&format!("  short line   kept\n\n  {words}\nend"));
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.starts_with("  short line   kept\n\n  measured "),
            "{text}"
        );
        assert!(text.contains("\n    measured"), "{text}");
        assert!(text.ends_with("measured\nend"), "{text}");
        let rejoined: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(rejoined.len(), 4 - 1 + 30 + 1);
    }

    #[test]
    fn long_names_are_cut_and_each_row_is_a_line() {
        let heads = [
            "CHANNEL", "ROLE", "PID", "NAME", "STATE", "%CPU", "BEHIND", "MESSAGES", "AGE", "HELD",
        ];
        let row = |n: usize| {
            let channel = format!("market.data.eu.equities.{n}");
            let name = ["python3 feed.py", "a\u{1b}", "olivine sub"][n % 3];
            [
                &channel, "sub", "1234567", name, "STOPPED", "100 %", "1023 KiB", "~12.3 K",
                ">2.1 s", "100 %",
            ]
            .map(str::to_owned)
            .to_vec()
        };
        let mut rows: Vec<_> = (0..9).map(row).collect();
        cut_to(80, &heads, &[0, 3], &mut rows);
        let text = render_to(80, &heads, &[2, 5, 6, 7, 8, 9], rows, true);
        assert_eq!(text.lines().count(), 2 + 9, "{text}");
        assert!(text.lines().all(|line| width_of(line) <= 80), "{text}");
        for n in 0..9 {
            assert!(text.contains(&format!(".{n}  sub ")), "{text}");
        }
        // Where there is room, none is cut.
        let mut rows: Vec<_> = (0..9).map(row).collect();
        cut_to(120, &heads, &[0, 3], &mut rows);
        let text = render_to(120, &heads, &[2, 5, 6, 7, 8, 9], rows, true);
        assert!(text.contains("market.data.eu.equities.8  sub"), "{text}");
        assert_eq!(text.lines().count(), 2 + 9, "{text}");
    }

    #[test]
    fn terminals_get_a_table_of_at_most_80_columns() {
        let wide = vec![vec!["x".repeat(200), "1".into()]];
        let text = render(&["CHANNEL", "LAG"], &[1], wide, true);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains('─'));
        // A line of 80 columns in a pipe is not broken on a terminal.
        let full = vec![vec!["x".repeat(40), "y".repeat(38)]];
        for terminal in [false, true] {
            let text = render(&["CHANNEL", "LAG"], &[], full.clone(), terminal);
            let line = format!("{}  {}", "x".repeat(40), "y".repeat(38));
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
