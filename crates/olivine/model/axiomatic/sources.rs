//! Programs and sources agree: edges, mutants, places.

use crate::minimal::Fate;
use crate::{Checks, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every edge and every mutant of the sources has a program, and no program has others. Every label
/// names a place in the sources, and the text is there.
pub(crate) fn check(rows: &[Row], mutants: &BTreeMap<String, Fate>, checks: &mut Checks) {
    let texts = texts();
    // As in the rule of `tidy`: a bold capital word in a module's documentation.
    let documents = texts.values().flat_map(|text| text.lines());
    let documents = documents.filter_map(|line| line.trim_start().strip_prefix("//!"));
    let bold = documents.flat_map(|line| line.split("**").skip(1).step_by(2));
    let is_edge =
        |word: &&str| word.len() >= 3 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let declared: BTreeSet<&str> = bold.filter(is_edge).collect();
    let shown: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.litmus.edges.iter().map(String::as_str))
        .collect();
    checks.check("sources::edges", difference("edge", &declared, &shown));
    let named = texts
        .iter()
        .filter(|(path, _)| *path != "sync.rs")
        .flat_map(|(_, text)| {
            let calls = text.split("mutant(\"").skip(1);
            calls.filter_map(|call| call.split_once('"').map(|(name, _)| name))
        });
    let named: BTreeSet<&str> = named.collect();
    let rejected: BTreeSet<&str> = mutants.keys().map(String::as_str).collect();
    checks.check("sources::mutants", difference("mutant", &named, &rejected));

    let given: BTreeMap<&str, (&str, &str)> = rows
        .iter()
        .flat_map(|row| &row.litmus.sources)
        .map(|(label, path, text)| (label.as_str(), (path.as_str(), text.as_str())))
        .collect();
    let used: BTreeSet<&str> = rows
        .iter()
        .filter(|row| !row.litmus.allowed)
        .flat_map(|row| row.litmus.labelled())
        .filter_map(|line| line.label.as_deref())
        .collect();
    let labels: BTreeSet<&str> = given.keys().copied().collect();
    checks.check("sources::labels", difference("label", &used, &labels));
    for (label, (path, text)) in given {
        let wanted = words(text);
        let there = texts
            .get(path)
            .is_some_and(|source| words(source).contains(&wanted));
        let problem = (!there).then(|| format!("{path} does not say: {text}"));
        checks.check(&format!("sources::places::{label}"), problem);
    }
}

/// Text with one space between words, so that line breaks do not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn difference(what: &str, sources: &BTreeSet<&str>, programs: &BTreeSet<&str>) -> Option<String> {
    if sources.is_empty() {
        return Some(format!("no {what} is found at all"));
    }
    let missing: Vec<_> = sources.difference(programs).collect();
    let stale: Vec<_> = programs.difference(sources).collect();
    (!missing.is_empty() || !stale.is_empty())
        .then(|| format!("{what} without a program: {missing:?}; in programs alone: {stale:?}"))
}

/// Every source of the core, by its path below `src`.
fn texts() -> BTreeMap<String, String> {
    let root = sources();
    let (mut texts, mut open) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("sources") {
            let path = entry.expect("a source").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(&root).expect("below the root");
                let name = name.to_string_lossy().into_owned();
                texts.insert(name, std::fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    texts
}
