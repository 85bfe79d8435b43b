//! Happens-before edges: named in a table, marked at both ends, each with a mutant.
//!
//! An edge is declared in a module's documentation (`//!`) as a bold capital word: `**COMMIT**`.

use super::{CORE, Rule};
use crate::source::{Tree, has_word};
use std::collections::BTreeMap;

/// Edges and where each is declared.
fn declared(tree: &Tree) -> BTreeMap<String, String> {
    let mut edges = BTreeMap::new();
    for file in tree.rust_under(CORE) {
        for (number, line) in file
            .rust_lines()
            .filter(|(_, l)| l.comment.starts_with("//!"))
        {
            for name in line.comment.split("**").skip(1).step_by(2) {
                let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                if name.len() >= 3 && name.chars().all(capital) {
                    let place = format!("{}:{number}", file.path);
                    edges.entry(name.to_owned()).or_insert(place);
                }
            }
        }
    }
    edges
}

/// Names of weakenings the models are run against: `mutant("NAME")` in the core's code.
pub(crate) fn mutants(tree: &Tree) -> Vec<String> {
    let mut names = Vec::new();
    for file in tree.rust_under(CORE) {
        // The name is a string, so it is read from the text; that it is a call, from the code,
        // where strings and comments are blank. Both have the same characters at the same places.
        let text: Vec<char> = file.text.chars().collect();
        let code: String = file
            .rust_lines()
            .map(|(_, line)| format!("{}\n", line.code))
            .collect();
        for (at, call) in code.match_indices("mutant(") {
            let inside = &code[at + call.len()..];
            let gap = inside.len() - inside.trim_start().len();
            if inside.trim_start().starts_with('"') && !follows_word(&code[..at]) {
                let first = code[..at + call.len() + gap].chars().count() + 1;
                names.push(text.iter().skip(first).take_while(|c| **c != '"').collect());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Whether a name ends here, so that what follows is only its tail: `is_mutant(…)`.
fn follows_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Each edge is marked at both of its ends: in comments beside the code, at two places or more.
pub(super) fn labels(tree: &Tree) -> Rule {
    let mut rule = Rule::new("edges", "happens-before edges marked at both ends");
    for (edge, place) in declared(tree) {
        let ends = tree
            .rust_under(CORE)
            .flat_map(|file| file.product_lines())
            .filter(|(_, line)| !line.comment.starts_with("//!") && has_word(&line.comment, &edge))
            .count();
        rule.look(
            (ends < 2).then(|| format!("{place}: {edge} is marked at {ends} places in the code")),
        );
    }
    rule
}

/// Each edge has a weakening that the models must reject.
pub(super) fn have_mutants(tree: &Tree) -> Rule {
    let mut rule = Rule::new("mutants", "happens-before edges with a mutant");
    let mutants = mutants(tree);
    for (edge, place) in declared(tree) {
        let name = edge.to_ascii_lowercase();
        let own = |mutant: &String| {
            let mutant = mutant.to_ascii_lowercase();
            mutant == name
                || mutant
                    .strip_prefix(&name)
                    .is_some_and(|rest| rest.starts_with('_'))
        };
        rule.look(
            (!mutants.iter().any(own)).then(|| {
                format!("{place}: {edge} has no mutant(\"{name}\") or mutant(\"{name}_…\")")
            }),
        );
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: (&str, &str) = (
        "crates/olivine/src/ring/layout.rs",
        "//! * **COMMIT**: the header.\n//! **not** this\n",
    );

    #[test]
    fn an_edge_marked_once_is_found() {
        let once = (
            "crates/olivine/src/ring/publish.rs",
            "// COMMIT (release): header.\nfn f() {}\n",
        );
        let twice = (
            "crates/olivine/src/ring/consume.rs",
            "// COMMIT (acquire): header.\n",
        );
        let in_test = (
            "crates/olivine/src/ring/a.rs",
            "#[cfg(test)]\nmod t {\n// COMMIT\n}\n",
        );
        assert_eq!(labels(&Tree::of(&[TABLE, once, in_test])).findings.len(), 1);
        assert!(labels(&Tree::of(&[TABLE, once, twice])).holds());
    }

    #[test]
    fn an_edge_without_a_mutant_is_found() {
        let other = (
            "crates/olivine/src/a.rs",
            "fn f() { g(mutant(\"gate\")) } // mutant(\"commit\")\n",
        );
        let own = (
            "crates/olivine/src/b.rs",
            "fn f() { g(mutant(\n  \"commit_relaxed\",\n)) }\n",
        );
        assert_eq!(have_mutants(&Tree::of(&[TABLE, other])).findings.len(), 1);
        assert!(have_mutants(&Tree::of(&[TABLE, own])).holds());
        assert_eq!(
            mutants(&Tree::of(&[own, other])),
            ["commit_relaxed", "gate"]
        );
    }

    #[test]
    fn the_definition_of_mutant_is_no_mutant() {
        let sync = (
            "crates/olivine/src/sync.rs",
            "pub(crate) fn mutant(name: &str) -> bool {\n",
        );
        assert!(mutants(&Tree::of(&[sync])).is_empty());
    }
}
