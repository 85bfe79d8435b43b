//! Prints a view. The view decides what is shown, in which order and by which names.

use crate::output::table;
use olivine_bench::view::{Table, View};

/// Everything in `view` that fits 80 columns.
pub(super) fn text(view: &View) -> String {
    let mut out = String::new();
    if let Some(sentence) = &view.sentence {
        out.push_str(&format!("{sentence}\n\n"));
    }
    for section in &view.sections {
        out.push_str(&format!("{}\n", section.heading));
        for found in &section.tables {
            out.push_str(&one(&found.without_details()));
        }
        for failure in &section.failures {
            out.push_str(&format!("{failure}\n"));
        }
        out.push('\n');
    }
    for (head, meaning) in view.legend(false) {
        out.push_str(&format!("{}: {meaning}\n", head.to_uppercase()));
    }
    if let Some(warning) = &view.warning {
        out.push_str(&format!("\n{warning}\n"));
    }
    for conditions in &view.conditions {
        out.push('\n');
        for (what, text) in &conditions.facts {
            out.push_str(&format!("{what}: {text}\n"));
        }
    }
    out
}

/// What a person may quote, after everything else: the first sentence, with its machine; nothing
/// without one.
pub(super) fn quotation(view: &View) -> String {
    let Some(sentence) = &view.sentence else {
        return String::new();
    };
    let machines = view.machines.join("; ");
    let stamp = view
        .stamp
        .map_or_else(String::new, |stamp| format!(", {stamp}"));
    format!("\n{sentence} {machines}{stamp}\n")
}

fn one(found: &Table) -> String {
    let heads = found
        .columns
        .iter()
        .map(|column| column.head.to_uppercase());
    let heads: Vec<String> = heads.collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let columns = found.columns.iter().enumerate();
    let numbers = columns.filter(|(_, column)| column.is_number);
    let numbers: Vec<usize> = numbers.map(|(index, _)| index).collect();
    let lines = found.lines.iter();
    let rows = lines.map(|line| line.cells.iter().map(|cell| cell.text.clone()).collect());
    let title = if found.title.is_empty() {
        String::new()
    } else {
        format!("{}\n", found.title)
    };
    let notes: String = found.notes.iter().map(|note| format!("{note}\n")).collect();
    format!(
        "\n{title}{}{notes}",
        table(&heads, &numbers, rows.collect())
    )
}
