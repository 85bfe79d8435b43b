//! Happens-before edges: named in a table, marked at both ends, each with a mutant.
//!
//! An edge is declared in a module's documentation (`//!`) as a bold capital word: `**COMMIT**`.

use super::{CORE, Rule, regex};
use crate::source::{Tree, has_word};
use std::collections::BTreeMap;

/// Edges and where each is declared.
fn declared(tree: &Tree) -> BTreeMap<String, String> {
    let (mut edges, name) = (BTreeMap::new(), regex(r"\*\*([A-Z0-9_]{3,})\*\*"));
    for file in tree.rust_under(CORE) {
        let mut lines = file.rust_lines().collect::<Vec<_>>();
        lines.retain(|(_, line)| line.comment.starts_with("//!"));
        for (number, line) in lines {
            for edge in name.captures_iter(&line.comment) {
                let place = format!("{}:{number}", file.path);
                edges.entry(edge[1].to_owned()).or_insert(place);
            }
        }
    }
    edges
}

/// Names of weakenings the models are run against: `mutant("NAME")` in the core's code.
pub(crate) fn mutants(tree: &Tree) -> Vec<String> {
    let files = tree.rust_under(CORE).filter_map(|file| file.rust.as_ref());
    let calls = files
        .flat_map(|rust| rust.tokens.windows(3))
        .filter(|call| {
            call[0].text == "mutant" && call[1].text == "(" && call[2].text.starts_with('"')
        });
    let mut names: Vec<_> = calls
        .map(|call| call[2].text.trim_matches('"').to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
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
        let own = regex(&format!("(?i)^{name}(?:_|$)"));
        let is_missing = !mutants.iter().any(|mutant| own.is_match(mutant));
        let missing =
            || format!("{place}: {edge} has no mutant(\"{name}\") or mutant(\"{name}_…\")");
        rule.look(is_missing.then(missing));
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: [(&str, &str); 2]) -> Tree {
        let path = |name: &str| format!("{CORE}{name}");
        let layout = "//! * **COMMIT**: the header.\n//! **not** this\n";
        let files = files.map(|(name, text)| (path(name), text));
        let [first, second] = files.each_ref().map(|(path, text)| (path.as_str(), *text));
        Tree::of(&[(&path("ring/layout.rs"), layout), first, second])
    }

    #[test]
    fn an_edge_marked_once_is_found() {
        let once = ("publish.rs", "// COMMIT (release): header.\nfn f() {}\n");
        let in_test = ("a.rs", "#[cfg(test)]\nmod t {\n// COMMIT\n}\n");
        assert_eq!(labels(&tree([once, in_test])).findings.len(), 1);
        assert!(labels(&tree([once, ("consume.rs", "// COMMIT (acquire).\n")])).holds());
    }

    #[test]
    fn an_edge_without_a_mutant_is_found() {
        let other = (
            "a.rs",
            "fn f() { g(mutant(\"gate\")) } // mutant(\"commit\")\n",
        );
        let own = ("b.rs", "fn f() { g(mutant(\n  \"commit_relaxed\",\n)) }\n");
        let definition = (
            "sync.rs",
            "fn mutant(name: &str) -> bool { is_mutant(\"x\") }\n",
        );
        assert_eq!(have_mutants(&tree([other, definition])).findings.len(), 1);
        assert!(have_mutants(&tree([own, definition])).holds());
        assert_eq!(mutants(&tree([own, other])), ["commit_relaxed", "gate"]);
    }
}
