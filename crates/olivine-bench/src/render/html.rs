//! A view as a page: one file with every table and figure in it.

use super::plot;
use super::svg::escape;
use super::{BYTES_MAX, TooLarge};
use crate::view::{Column, Conditions, Line, Section, Table, View};
use std::fmt::Write as _;

/// Colours, then the page, then the drawings.
pub(super) const STYLE: &str = concat!(
    include_str!("colours.css"),
    include_str!("page.css"),
    include_str!("plot.css")
);

/// How to read any page.
const METHOD: &str = "\
<section id=\"method\">\n\
<h2>How it was measured</h2>\n\
<ul>\n\
<li>Publishers and subscribers are processes, each pinned to a separate CPU where there are \
enough. Every byte of every message is checked when it arrives; one wrong byte makes the row a \
failure.</li>\n\
<li>Each slice is between two slices of the floor, a bare cache line going to and fro between \
the same two processes. The floor tells where the two CPUs are (same core, shared L3, far \
apart), and the ratio to it is what two machines can compare.</li>\n\
<li>Runs of the variants of one session take turns, those of other people's libraries too, so \
that a disturbance hits all alike. A p50 is that \
of the median run, each run first reduced to the median of its slices. Ranges are the least and \
most of the runs, not of samples. Other percentiles, and whole curves, are of all samples of all \
runs.</li>\n\
<li>Rows are ranked by their ratio to the floor, or by messages a second.</li>\n\
<li>Closed load (round trips: one message under way), open load (messages due at fixed times, \
latency from the intended time) and saturated load (full speed) are different questions and \
never share a table.</li>\n\
<li>A percentile is blank where fewer than ten samples are above it. The largest sample is \
exact; its likely cause is what the kernel counted in its slice.</li>\n\
<li>The cost of reading the clock is part of every figure and not subtracted.</li>\n\
</ul>\n\
</section>\n";

/// The view as one HTML file.
///
/// # Errors
///
/// [`TooLarge`] if it would be larger than [`BYTES_MAX`].
pub fn html(view: &View) -> Result<String, TooLarge> {
    let title = escape(&view.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n"
    );
    for (class, text) in view
        .sentence
        .iter()
        .map(|text| ("sentence", text))
        .chain(view.machines.iter().map(|text| ("lead", text)))
        .chain(view.warning.iter().map(|text| ("warning", text)))
    {
        let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escape(text));
    }
    out.push_str("</header>\n<nav>");
    for (index, section) in view.sections.iter().enumerate() {
        let heading = escape(&section.heading);
        let _ = write!(out, "<a href=\"#s{index}\">{heading}</a> ");
    }
    out.push_str(
        "<a href=\"#machines\">Machines and commands</a> \
         <a href=\"#method\">How it was measured</a></nav>\n",
    );
    for (index, found) in view.sections.iter().enumerate() {
        out.push_str(&section(index, found));
    }
    out.push_str(&legend(view));
    out.push_str("<section id=\"machines\">\n<h2>Machines and commands</h2>\n");
    view.conditions
        .iter()
        .for_each(|found| out.push_str(&conditions(found)));
    out.push_str("</section>\n");
    out.push_str(METHOD);
    out.push_str("</main>\n</body>\n</html>\n");
    if out.len() > BYTES_MAX {
        return Err(TooLarge { bytes: out.len() });
    }
    Ok(out)
}

fn section(index: usize, section: &Section) -> String {
    let mut out = format!(
        "<section id=\"s{index}\">\n<h2>{}</h2>\n<p class=\"lead\"><code>{}</code> ({})</p>\n",
        escape(&section.heading),
        escape(&section.command),
        escape(&section.facts.join(", "))
    );
    if !section.figures.is_empty() {
        out.push_str("<div class=\"figures\">\n");
        for figure in &section.figures {
            let (drawing, caption) = (plot::draw(figure).inline(), escape(&figure.caption));
            let _ = writeln!(
                out,
                "<figure>\n<div class=\"scroll\">{drawing}</div>\n\
                     <figcaption>{caption}</figcaption>\n</figure>"
            );
        }
        out.push_str("</div>\n");
    }
    section
        .tables
        .iter()
        .for_each(|found| out.push_str(&table(found)));
    out.push_str(&notes("failed", &section.failures));
    out.push_str("</section>\n");
    out
}

fn notes(class: &str, lines: &[String]) -> String {
    let line = |line: &String| format!("<p class=\"{class}\">{}</p>\n", escape(line));
    lines.iter().map(line).collect()
}

fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "<h3>{}</h3>", escape(&table.title));
    }
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    // Short, without end tags that HTML does not need: cells are half of a page.
    let class = |column: &Column| if column.is_number { "" } else { " class=t" };
    for column in &table.columns {
        let (class, head) = (class(column), escape(column.head));
        let meaning = match column.meaning {
            "" => String::new(),
            meaning => format!(" title=\"{}\"", escape(meaning)),
        };
        let _ = write!(out, "<th{class} scope=\"col\"{meaning}>{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for line in &table.lines {
        let kind = match line {
            Line {
                is_detail: true, ..
            } => " class=\"aside\"",
            Line { is_ours: true, .. } => " class=\"ours\"",
            Line { .. } => "",
        };
        let _ = write!(out, "<tr{kind}>");
        for (column, cell) in table.columns.iter().zip(&line.cells) {
            let _ = write!(out, "<td{}>{}", class(column), escape(&cell.text));
        }
        out.push('\n');
    }
    out.push_str("</tbody>\n</table></div>\n");
    out.push_str(&notes("note", &table.notes));
    out
}

/// What the heads of columns mean.
fn legend(view: &View) -> String {
    let mut out = "<section id=\"legend\">\n<h2>Columns</h2>\n<dl>\n".to_owned();
    for (head, meaning) in view.legend(true) {
        let (head, meaning) = (escape(head), escape(meaning));
        let _ = writeln!(out, "<dt>{head}</dt><dd>{meaning}</dd>");
    }
    out.push_str("</dl>\n</section>\n");
    out
}

fn conditions(conditions: &Conditions) -> String {
    let mut out = format!("<h3>{}</h3>\n<dl>\n", escape(&conditions.name));
    for (what, text) in &conditions.facts {
        let _ = writeln!(out, "<dt>{what}</dt><dd>{}</dd>", escape(text));
    }
    out.push_str("</dl>\n");
    out
}
