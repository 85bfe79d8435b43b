//! Rules about any text: length, unfinished work, paths of somebody's machine.

use super::Rule;
use crate::source::{Tree, has_word};

const LINES_MAX: usize = 800;
const LINES_WARN: usize = 600;

/// Files that are long because a program wrote them.
const GENERATED: &[&str] = &["crates/olivine-capi/include/olivine.h"];

const CODE: &[&str] = &[
    ".rs", ".py", ".c", ".h", ".hpp", ".cpp", ".toml", ".sh", ".cmake",
];

/// Put together at compile time, so that this file does not contain them.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
];
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Nobody reads a file of a thousand lines.
pub(super) fn length(tree: &Tree) -> Rule {
    let mut rule = Rule::new("length", "files of at most 800 lines");
    let by_hand = [".rs", ".py", ".c", ".h", ".hpp", ".cpp"];
    for file in &tree.files {
        let generated = GENERATED.contains(&file.path.as_str());
        if generated || !by_hand.iter().any(|end| file.path.ends_with(end)) {
            continue;
        }
        let lines = file.text.lines().count();
        let sentence = format!("{} has {lines} lines", file.path);
        if (LINES_WARN + 1..=LINES_MAX).contains(&lines) {
            rule.warnings.push(format!("{sentence}; aim for 400"));
        }
        rule.look((lines > LINES_MAX).then_some(sentence));
    }
    rule
}

/// What is not done is an issue, not a comment.
pub(super) fn unfinished(tree: &Tree) -> Rule {
    let mut rule = Rule::new("unfinished", "files without a note to finish them later");
    for file in &tree.files {
        if !CODE.iter().any(|end| file.path.ends_with(end)) {
            continue;
        }
        let bad = file.lines().find_map(|(number, line)| {
            let word = UNFINISHED.iter().find(|word| has_word(line, word))?;
            Some(format!("{}:{number}: {word}", file.path))
        });
        rule.look(bad);
    }
    rule
}

/// A path of one machine means nothing on another.
pub(super) fn machine_paths(tree: &Tree) -> Rule {
    let mut rule = Rule::new("paths", "files without a path of somebody's machine");
    for file in &tree.files {
        let bad = file.lines().find_map(|(number, line)| {
            let path = MACHINE.iter().find(|path| is_absolute(line, path))?;
            Some(format!("{}:{number}: {path}…", file.path))
        });
        rule.look(bad);
    }
    rule
}

/// A machine path starts here: `docs` before its first slash would make it a relative one.
fn is_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found_and_a_longish_one_is_warned_about() {
        let rule = length(&Tree::of(&[
            ("a.rs", &"//\n".repeat(801)),
            ("b.rs", &"//\n".repeat(601)),
            ("c.rs", &"//\n".repeat(600)),
            (
                "crates/olivine-capi/include/olivine.h",
                &"//\n".repeat(2000),
            ),
        ]));
        assert_eq!(
            (rule.looked, rule.findings.len(), rule.warnings.len()),
            (3, 1, 1)
        );
    }

    #[test]
    fn every_unfinished_word_is_found() {
        for word in UNFINISHED {
            let text = format!("// {word} later\n");
            assert_eq!(
                unfinished(&Tree::of(&[("a.rs", &text)])).findings.len(),
                1,
                "{word}"
            );
        }
        let fine = format!("mktemp {}\n", "X".repeat(6));
        assert!(unfinished(&Tree::of(&[("a.sh", &fine)])).holds());
    }

    #[test]
    fn every_machine_path_is_found() {
        for path in MACHINE {
            let text = format!("see {path}notes\n");
            assert_eq!(
                machine_paths(&Tree::of(&[("a.md", &text)])).findings.len(),
                1,
                "{path}"
            );
            let inside = format!("see docs{path}notes\n");
            assert!(
                machine_paths(&Tree::of(&[("a.md", &inside)])).holds(),
                "{path}"
            );
        }
    }
}
