//! Rules about tests: they wait for conditions, never for time, and all of them run.

use super::Rule;
use crate::source::{File, Tree, has_word};

/// Test files that may sleep, with the reason.
const MAY_SLEEP: &[(&str, &str)] = &[];

/// Tests do not sleep: a sleep is a guess, too short on a busy machine and too long on others.
pub(super) fn sleeps(tree: &Tree) -> Rule {
    let mut rule = Rule::new("sleeps", "files with tests that wait for conditions");
    for file in tree.files.iter().filter(|file| holds_tests(file)) {
        let bad = file.rust_lines().find(|(_, line)| {
            let dense: String = line.code.chars().filter(|c| !c.is_whitespace()).collect();
            line.test && (dense.contains("thread::sleep") || has_word(&dense, "sleep("))
        });
        let excused = MAY_SLEEP.iter().any(|(path, _)| file.path == *path);
        rule.look(
            bad.filter(|_| !excused)
                .map(|(number, _)| format!("{}:{number}: a test that sleeps", file.path)),
        );
    }
    rule
}

/// A test that does not run is no test.
pub(super) fn ignored(tree: &Tree) -> Rule {
    let mut rule = Rule::new("ignored", "tests, none of them switched off");
    for file in tree.files.iter().filter(|file| holds_tests(file)) {
        for (number, line) in file.rust_lines() {
            let dense: String = line.code.chars().filter(|c| !c.is_whitespace()).collect();
            if dense.contains("#[ignore") {
                rule.look(Some(format!(
                    "{}:{number}: a test that does not run",
                    file.path
                )));
            }
            if dense.contains("#[test]") {
                rule.look(None);
            }
        }
    }
    rule
}

fn holds_tests(file: &File) -> bool {
    file.rust_lines().any(|(_, line)| line.test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_sleeps_is_found() {
        for (path, text) in [
            ("crates/a/tests/b.rs", "fn f() { std::thread::sleep(d); }\n"),
            (
                "crates/a/src/b.rs",
                "#[cfg(test)]\nmod tests {\n fn f() { sleep(d); }\n}\n",
            ),
        ] {
            assert_eq!(
                sleeps(&Tree::of(&[(path, text)])).findings.len(),
                1,
                "{path}"
            );
        }
        let product = "fn f() { thread::sleep(d); }\n#[cfg(test)]\nmod tests { fn g() {} }\n";
        assert!(sleeps(&Tree::of(&[("crates/a/src/b.rs", product)])).holds());
    }

    #[test]
    fn a_test_that_is_switched_off_is_found() {
        for attribute in [
            concat!("#[", "ignore]"),
            concat!("#[", "ignore = \"slow\"]"),
        ] {
            let text = format!("#[test]\n{attribute}\nfn f() {{}}\n");
            let rule = ignored(&Tree::of(&[("crates/a/tests/b.rs", &text)]));
            assert_eq!(rule.findings.len(), 1, "{attribute}");
        }
        let fine = "#[test]\n#[cfg_attr(miri, ignore)]\nfn f() {}\n";
        assert!(ignored(&Tree::of(&[("crates/a/tests/b.rs", fine)])).holds());
    }
}
