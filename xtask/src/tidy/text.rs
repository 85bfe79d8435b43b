//! Rules about any text: length, unfinished work, paths of one machine, tests that do not run.

use super::Rule;
use crate::source::{File, Tree, has_word};

const LINES_MAX: usize = 800;
const LINES_WARN: usize = 600;

/// Files that are long because a program wrote them.
const GENERATED: &[&str] = &["crates/olivine-capi/include/olivine.h"];

const CODE: &[&str] = &[
    ".rs", ".py", ".c", ".h", ".hpp", ".cpp", ".toml", ".sh", ".cmake",
];

/// Joined at compile time, so that this file does not contain them.
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

/// A file has a limited length.
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

/// Unfinished work belongs into an issue, not a comment.
pub(super) fn unfinished(tree: &Tree) -> Rule {
    let is_code = |path: &str| CODE.iter().any(|end| path.ends_with(end));
    let files = tree.files.iter().filter(|file| is_code(&file.path));
    Rule::new("unfinished", "files without a note to finish them later").files(files, |file| {
        file.lines().find_map(|(number, line)| {
            let word = UNFINISHED.iter().find(|word| has_word(line, word))?;
            Some((number, (*word).to_owned()))
        })
    })
}

/// A path of one machine is useless on others.
pub(super) fn machine_paths(tree: &Tree) -> Rule {
    let files = tree.files.iter();
    Rule::new("paths", "files without a path of one machine").files(files, |file| {
        file.lines().find_map(|(number, line)| {
            let path = MACHINE.iter().find(|path| is_absolute(line, path))?;
            Some((number, format!("{path}…")))
        })
    })
}

/// A machine path starts here: `docs` before its first slash would make it a relative one.
fn is_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}'))
    })
}

/// What draws numbers that no seed repeats.
const UNSEEDED: [&str; 4] = ["RandomState", "fastrand", "getrandom", "thread_rng"];

/// Every test runs and waits for conditions: a sleep is a guess, and too short on a busy machine.
/// Clippy refuses thread sleeps; this rule has no exceptions. What a test draws, a seed repeats.
pub(super) fn tests(tree: &Tree) -> Rule {
    let mut rule = Rule::new(
        "tests",
        "tests, none switched off, asleep or without a seed",
    );
    for file in &tree.files {
        for (number, line) in file.rust_lines().filter(|(_, line)| line.test) {
            let dense: String = line.code.split_whitespace().collect();
            let is_seeded = !UNSEEDED.iter().any(|word| has_word(&line.code, word));
            if dense.contains("#[ignore") || has_word(&dense, "sleep(") || !is_seeded {
                let problem = "a test that does not run, sleeps or draws without a seed";
                rule.look(Some(format!("{}:{number}: {problem}", file.path)));
            } else if dense.contains("#[test]") {
                rule.look(None);
            }
        }
    }
    rule
}

/// A property takes its cases from `seeded_cases`, and these take the seed of the run.
pub(super) fn properties(tree: &Tree) -> Rule {
    let of_properties = |file: &&File| {
        file.rust_lines()
            .any(|(_, line)| has_word(&line.code, "proptest") && line.test)
    };
    let files = tree.files.iter().filter(of_properties);
    let about = "files with properties whose cases a seed repeats";
    Rule::new("properties", about).files(files, |file| {
        let lines = file.rust_lines().map(|(number, line)| {
            let dense: String = line.code.split_whitespace().collect();
            (number, dense)
        });
        let lines: Vec<(usize, String)> = lines.collect();
        let dense = |lines: &[(usize, String)]| -> String {
            lines.iter().map(|(_, line)| &**line).collect()
        };
        let all = dense(&lines);
        let has_seed = all.contains("rng_seed:") && all.contains("RngSeed::Fixed(");
        let place = lines.iter().position(|(_, line)| {
            let makes = line.contains("fnseeded_cases(") && !has_seed;
            makes || line.contains("ProptestConfig") || line.contains("TestRunner::default")
        });
        let place = place.or_else(|| {
            (0..lines.len()).find(|place| {
                let next = dense(&lines[*place..lines.len().min(place + 3)]);
                let property = lines[*place].1.contains("proptest!{");
                property && !next.contains("proptest!{#![proptest_config(seeded_cases(")
            })
        })?;
        Some((lines[place].0, "cases that no seed repeats".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn a_long_file_is_found_and_a_longish_one_is_warned_about() {
        let lines = |name: &str, count| (name.to_owned(), "//\n".repeat(count));
        let files = [
            lines("a.rs", 801),
            lines("b.rs", 601),
            lines("c.rs", 600),
            lines(GENERATED[0], 2000),
        ];
        let rule = length(&Tree::of(
            &files.each_ref().map(|(name, text)| (&**name, &**text)),
        ));
        let seen = (rule.looked, rule.findings.len(), rule.warnings.len());
        assert_eq!(seen, (3, 1, 1));
    }

    #[test]
    fn unfinished_work_machine_paths_and_ignored_tests_are_found() {
        let notes: Vec<_> = UNFINISHED
            .iter()
            .map(|word| format!("a.sh: # {word} later"))
            .collect();
        planted(
            unfinished,
            "",
            &notes,
            &[format!("a.sh: mktemp {}", "X".repeat(6))],
        );
        let see = |before: &'static str| {
            let paths = MACHINE.iter();
            paths
                .map(|path| format!("a.md: see {before}{path}notes"))
                .collect::<Vec<_>>()
        };
        planted(machine_paths, "", &see(""), &see("docs"));
        let test = |attribute: &str| format!("tests/b.rs: #[test]\n{attribute}\nfn f() {{}}");
        let reason = "#[ignore = \"slow\"]";
        let sleep = "fn a() { thread::sleep(b) }";
        let draw = "fn a() -> u64 { RandomState::new().hash_one(0) }";
        let faults = ["#[ignore]", reason, sleep, draw].map(test);
        planted(
            tests,
            "crates/a/",
            &faults,
            &["#[cfg_attr(miri, ignore)]"].map(test),
        );
        let product = "src/b.rs: fn a() { sleep(b) }\n#[cfg(test)]\nmod t { #[test]\nfn c() {} }";
        planted(tests, "crates/a/", &[], &[product]);
    }
    #[test]
    fn properties_without_a_seed_are_found() {
        let property = |config: &str| {
            format!(
                "tests/b.rs: use proptest::prelude::*;\nproptest! {{\n{config}\nfn a() {{}}\n}}"
            )
        };
        let seeded = "#![proptest_config(seeded_cases(9))]";
        let own = "#![proptest_config(ProptestConfig { cases: 9, ..ProptestConfig::default() })]";
        let with_cases = "#![proptest_config(ProptestConfig::with_cases(9))]";
        let helper = |seed: &str| {
            format!(
                "tests/c.rs: fn seeded_cases(cases: u32) -> proptest::Config {{ Config {{ cases, \
                 {seed}..Config::default() }} }}"
            )
        };
        let runner = "tests/d.rs: fn a() { proptest::TestRunner::default(); }".to_owned();
        planted(
            properties,
            "crates/a/",
            &[
                property(""),
                property(own),
                property(with_cases),
                helper(""),
                runner,
            ],
            &[property(seeded), helper("rng_seed: RngSeed::Fixed(1), ")],
        );
    }
}
