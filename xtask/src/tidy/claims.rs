//! Each promise of SAFETY.md has a row that names its tests, and each test named there exists. So
//! does each test that the changelog names for what is not released yet.

use super::{Rule, regex};
use crate::source::{File, Tree, has_word};
use std::collections::HashSet;

pub(super) const SAFETY: &str = "SAFETY.md";
const PROMISES: &str = "## Promises";
const TESTED: &str = "## How each promise is tested";
/// Claims that have sections instead of a number, by a word of their rows.
const SECTIONS: [&str; 4] = ["durable", "fork", "tcp", "nats"];
const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## Unreleased";
/// The path of a test or the name of a function, and not a command or an option.
const TEST: &str = r"`([^`\s:]*(?:/[^`\s:]*|\.rs|_[^`\s:]*_[^`\s:]*))`";
/// What stands between parentheses, without links.
const PARENTHESES: &str = r"(?:^|[^\]])\(([^)]*)";
/// The number of a finding.
const FINDING: &str = r"\b[A-H]\d{1,2}\b";
/// What an entry without a test says.
const WITHOUT_TEST: [&str; 2] = ["documents only", "(`cargo xtask "];

/// Lines between a heading and the next one of its level.
fn section<'a>(file: &'a File, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = file.text.lines().skip_while(move |line| *line != heading);
    let lines = lines.skip(1);
    lines.take_while(|line| !line.starts_with("## "))
}

/// Cells of the tables below a heading.
pub(super) fn rows<'a>(safety: &'a File, heading: &'a str) -> Vec<Vec<&'a str>> {
    section(safety, heading)
        .filter(|line| line.starts_with('|') && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .skip(1)
        .collect()
}

/// Holds the promises and the table of tests together.
pub(super) fn have_tests(tree: &Tree) -> Rule {
    let mut rule = Rule::new("claims", "promises with a test, and tests that are named");
    let Some(safety) = tree.file(SAFETY) else {
        return rule;
    };
    let known = functions(tree);
    let tested = rows(safety, TESTED);
    let promises = rows(safety, PROMISES);
    let numbers = promises.iter().filter_map(|row| row.first().copied());
    for promise in numbers.chain(SECTIONS) {
        let has_row = tested.iter().any(|row| has_word(row[0], promise));
        rule.look((!has_row).then(|| format!("{SAFETY}: no row of '{TESTED}' names {promise}")));
    }
    for row in &tested {
        for name in in_backticks(row.get(1).unwrap_or(&"")) {
            rule.look(missing(tree, &known, SAFETY, name));
        }
    }
    rule
}

/// Each test that the changelog names in parentheses, for what is not released, exists. An entry
/// with the number of a finding names a test, or says why there is none.
pub(super) fn changes_have_tests(tree: &Tree) -> Rule {
    let mut rule = Rule::new("changes", "tests that the changelog names");
    let Some(changelog) = tree.file(CHANGELOG) else {
        return rule;
    };
    let known = functions(tree);
    let (parentheses, finding) = (regex(PARENTHESES), regex(FINDING));
    let text: Vec<&str> = section(changelog, UNRELEASED).collect();
    for entry in text.join("\n").split("\n- ") {
        let parts = parentheses.captures_iter(entry);
        let parts = parts.map(|part| part.extract::<1>().1[0]);
        let names: Vec<_> = parts.flat_map(in_backticks).collect();
        for name in &names {
            rule.look(missing(tree, &known, CHANGELOG, name));
        }
        if let Some(number) = finding.find(entry) {
            let says = !names.is_empty() || WITHOUT_TEST.iter().any(|words| entry.contains(words));
            rule.look((!says).then(|| format!("{CHANGELOG}: {} names no test", number.as_str())));
        }
    }
    rule
}

/// The names of tests between backticks.
fn in_backticks(text: &str) -> Vec<&str> {
    let names = regex(TEST);
    let names = names
        .captures_iter(text)
        .map(|name| name.extract::<1>().1[0]);
    names.collect()
}

/// The names of all functions in Rust and Python.
fn functions(tree: &Tree) -> HashSet<&str> {
    let declared = regex(r"\b(?:fn|def) (\w+)\(");
    let texts = tree.files.iter().map(|file| file.text.as_str());
    let names = texts.flat_map(|text| declared.captures_iter(text));
    names.map(|name| name.extract::<1>().1[0]).collect()
}

/// Says that `document` names a test that is not in the repository: no function and no path ends
/// with that name.
fn missing(tree: &Tree, known: &HashSet<&str>, document: &str, name: &str) -> Option<String> {
    let (file, folder) = (format!("/{name}"), format!("/{name}/"));
    let module = format!("{file}.rs");
    let mut paths = tree.files.iter().map(|found| format!("/{}", found.path));
    let holds = known.contains(name)
        || paths
            .any(|path| path.ends_with(&file) || path.ends_with(&module) || path.contains(&folder));
    (!holds).then(|| format!("{document}: there is no test {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safety(rows: &str) -> Tree {
        let text = format!(
            "{PROMISES}\n\n| # | promise |\n| --- | --- |\n| P1 | zero |\n\n{TESTED}\n\n\
             | claim | test | command |\n| --- | --- | --- |\n{rows}"
        );
        Tree::of(&[
            (SAFETY, &text),
            (
                "crates/olivine/tests/basics.rs",
                "fn it_holds_and_stays() {}",
            ),
        ])
    }

    #[test]
    fn a_promise_without_a_row_and_a_test_that_is_gone_are_found() {
        let sections = "| durable fork tcp nats | `tests/basics.rs` | |\n";
        let good = format!("| P1 | `it_holds_and_stays`, `tests/basics` | `x` |\n{sections}");
        assert!(have_tests(&safety(&good)).holds());
        let without = have_tests(&safety(sections));
        assert_eq!(without.findings.len(), 1, "{without:?}");
        let gone = have_tests(&safety(&good.replace("it_holds", "it_held")));
        assert_eq!(
            gone.findings,
            ["SAFETY.md: there is no test it_held_and_stays"]
        );
    }
    #[test]
    fn a_test_that_the_changelog_names_and_that_is_gone_is_found() {
        let tree = |entry: &str| {
            Tree::of(&[
                (
                    CHANGELOG,
                    &format!(
                        "# Changelog\n\n{UNRELEASED}\n\n- {entry}\n\n## 0.1\n\n- (`it_was_so`)\n"
                    ),
                ),
                ("crates/a/tests/b.rs", "fn it_holds_and_stays() {}"),
                ("crates/a/tests/c.py", "def test_it_holds():\n    pass\n"),
            ])
        };
        for fine in [
            "It holds (`it_holds_and_stays`,\n  `tests/b.rs`, `test_it_holds`).",
            "It is `it_was_so`, no more (`tests/b`, [ADR](docs/adr/it_was_so.md)).",
        ] {
            let rule = changes_have_tests(&tree(fine));
            assert!(rule.holds(), "{rule:?}");
        }
        for gone in ["it_held_and_stays", "tests/d.rs", "test_it_held"] {
            let rule = changes_have_tests(&tree(&format!("It holds (`tests/b.rs`,\n  `{gone}`).")));
            assert_eq!(
                rule.findings,
                [format!("CHANGELOG.md: there is no test {gone}")]
            );
        }
        let without = changes_have_tests(&tree("H16: It holds (`tests/b.rs`).\n- A2: so it does"));
        assert_eq!(without.findings, ["CHANGELOG.md: A2 names no test"]);
        let why = changes_have_tests(&tree("A2: it says so (documents only)."));
        assert!(why.holds(), "{why:?}");
    }
}
