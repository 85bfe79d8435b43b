//! Each promise of SAFETY.md has a row that names its tests, and each test named there exists.

use super::Rule;
use crate::source::{File, Tree, has_word};

const SAFETY: &str = "SAFETY.md";
const PROMISES: &str = "## Promises";
const TESTED: &str = "## How each claim is tested";
/// Claims that have sections instead of a number, by a word of their rows.
const SECTIONS: [&str; 4] = ["durable", "fork", "tcp", "nats"];
/// Where a path of a row may start.
const ROOTS: [&str; 4] = ["", "crates/olivine/", "crates/olivine/src/", "crates/"];

/// Cells of the tables between a heading and the next one of its level.
fn rows<'a>(safety: &'a File, heading: &str) -> Vec<Vec<&'a str>> {
    let lines = safety.text.lines().skip_while(|line| *line != heading);
    let section = lines.skip(1).take_while(|line| !line.starts_with("## "));
    section
        .filter(|line| line.starts_with('|') && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .skip(1)
        .collect()
}

/// Holds the promises and the table of tests together.
pub(super) fn have_tests(tree: &Tree) -> Rule {
    let mut rule = Rule::new("claims", "promises with a test, and tests that are named");
    let Some(safety) = tree.files.iter().find(|file| file.path == SAFETY) else {
        return rule;
    };
    let tested = rows(safety, TESTED);
    let promises = rows(safety, PROMISES);
    let numbers = promises.iter().filter_map(|row| row.first().copied());
    for promise in numbers.chain(SECTIONS) {
        let has_row = tested.iter().any(|row| has_word(row[0], promise));
        rule.look((!has_row).then(|| format!("{SAFETY}: no row of '{TESTED}' names {promise}")));
    }
    for row in &tested {
        let named = row
            .get(1)
            .into_iter()
            .flat_map(|cell| cell.split('`').skip(1).step_by(2));
        for name in named.filter(|name| is_test(name)) {
            rule.look((!exists(tree, name)).then(|| format!("{SAFETY}: there is no test {name}")));
        }
    }
    rule
}

/// Whether this is the path of a test or the name of a function, and not a command or an option.
fn is_test(name: &str) -> bool {
    let is_path = (name.contains('/') || name.ends_with(".rs")) && !name.contains("://");
    (is_path || name.matches('_').count() > 1) && !name.contains(' ')
}

/// Whether a file, a folder or a function of that name is in the repository.
fn exists(tree: &Tree, name: &str) -> bool {
    let is_path = ROOTS
        .iter()
        .any(|root| tree.has(&format!("{root}{name}")) || tree.has(&format!("{root}{name}.rs")));
    let signature = format!("fn {name}(");
    is_path || tree.files.iter().any(|file| file.text.contains(&signature))
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
}
