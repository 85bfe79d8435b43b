//! A view as Markdown: for a README or the page of figures.

use crate::view::{Cell, Table, View};

/// The view as tables of a document.
#[must_use]
pub fn markdown(view: &View) -> String {
    let mut out = String::new();
    let paragraphs = view.sentence.iter().chain(&view.warning);
    for paragraph in paragraphs.chain(&view.machines) {
        out.push_str(&format!("{paragraph}\n\n"));
    }
    for section in &view.sections {
        out.push_str(&format!("**{}**\n\n", section.heading));
        let facts = section.facts.join(", ");
        out.push_str(&format!("`{}` ({facts})\n\n", section.command));
        for found in &section.tables {
            out.push_str(&table(&found.without_details()));
        }
        out.push_str(&list(&section.failures));
    }
    let legend = view.legend(false);
    let lines = legend
        .iter()
        .map(|(head, meaning)| format!("{head}: {meaning}"));
    out.push_str(&list(&lines.collect::<Vec<_>>()));
    out.push_str(&format!("{}\n", view.method));
    out
}

fn table(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        out.push_str(&format!("{}:\n\n", table.title));
    }
    let heads: Vec<&str> = table.columns.iter().map(|column| column.head).collect();
    let rules = table.columns.iter();
    let rules = rules.map(|column| if column.is_number { "---:" } else { "---" });
    let rules: Vec<&str> = rules.collect();
    for cells in [heads, rules] {
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    for line in &table.lines {
        // The first cell of words is the name.
        let name = table.columns.iter().position(|column| !column.is_number);
        let cell = |(index, cell): (usize, &Cell)| {
            if line.is_ours && Some(index) == name {
                format!("**{}**", cell.text)
            } else {
                cell.text.clone()
            }
        };
        let cells: Vec<String> = line.cells.iter().enumerate().map(cell).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out.push('\n');
    out.push_str(&list(&table.notes));
    out
}

fn list(lines: &[String]) -> String {
    let mut out: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    if !out.is_empty() {
        out.push('\n');
    }
    out
}
