//! The files in `results/`, in tables: written into its page from the files themselves.

use super::Marks;
use crate::cargo::root;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The page of the recorded machines.
pub(super) const PAGE: Marks = ("results/README.md", "machines");

/// A heading and a table for each machine: a folder of result files, or one file.
pub(super) fn text() -> Result<String> {
    let mut parts = Vec::new();
    for place in sorted(&root().join("results"))? {
        let files = match place.is_dir() {
            true => sorted(&place)?,
            false => vec![place.clone()],
        };
        let files: Vec<PathBuf> = files.into_iter().filter(|path| is_result(path)).collect();
        if !files.is_empty() {
            parts.push(machine(&place, &files)?);
        }
    }
    Ok(parts.join("\n\n"))
}

fn is_result(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

fn machine(place: &Path, files: &[PathBuf]) -> Result<String> {
    let name = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    };
    let mut lines = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let found: Value = serde_json::from_str(&text).context(path.display().to_string())?;
        if lines.is_empty() {
            lines.push(format!("### {}\n\n{}.\n", name(place), described(&found)));
            lines.push("| file | measured | rows | without a figure | load before |".to_owned());
            lines.push("| --- | --- | --- | --- | --- |".to_owned());
        }
        lines.push(row(&name(path), &found));
    }
    Ok(lines.join("\n"))
}

fn text_of<'a>(value: &'a Value, unknown: &'a str) -> &'a str {
    value.as_str().unwrap_or(unknown)
}

fn described(found: &Value) -> String {
    let machine = &found["machine"];
    let is_virtual = machine["virtual_machine"].as_bool() == Some(true);
    let processor = &machine["processor"];
    format!(
        "{} (family {}, model {}), {} CPUs{}, Linux {},\nolivine {} ({})",
        text_of(&machine["cpu_model"], "processor unknown"),
        processor["family"],
        processor["model"],
        machine["cpus_allowed"],
        if is_virtual { ", virtual" } else { "" },
        text_of(&machine["kernel"], "unknown"),
        text_of(&machine["version"], "unknown"),
        text_of(&machine["commit"], "unknown"),
    )
}

fn row(name: &str, found: &Value) -> String {
    let rows = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    let failed = rows.iter().filter(|row| row["status"] == "failed").count();
    let command = text_of(&found["machine"]["command"], "unknown");
    let command = command.strip_prefix("olivine ").unwrap_or(command);
    let command = command.split(" --save").next().unwrap_or_default();
    let load = found["machine"]["load_average_1m"].as_f64();
    let load = load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.1}"));
    format!(
        "| {name} | `{command}` | {} | {failed} | {load} |",
        rows.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_results_matches_its_files() {
        let page = fs::read_to_string(root().join(PAGE.0)).unwrap();
        let new = super::super::between(&page, PAGE.1, &text().unwrap()).unwrap();
        assert!(
            page == new,
            "results/README.md is out of date: run 'cargo xtask record NAME --keep'"
        );
        assert!(new.contains("| pingpong |"), "{new}");
    }

    #[test]
    fn row_counts_what_has_no_figure() {
        let text = r#"{"results": [{"status": "failed"}, {"status": "measured"}],
            "machine": {"command": "olivine bench mesh --save x", "load_average_1m": 0.26}}"#;
        let found = serde_json::from_str(text).unwrap();
        assert_eq!(row("mesh", &found), "| mesh | `bench mesh` | 2 | 1 | 0.3 |");
    }
}
