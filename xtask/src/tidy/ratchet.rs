//! Counts that may only sink: long lines, unclear words, private names that are not field terms.
//! `xtask/ratchet.txt` has the allowed number for each rule and folder.

use super::Rule;
use crate::source::{File, Tree, has_word, words};
use std::collections::BTreeMap;

/// The allowed numbers, a line each: `RULE FOLDER NUMBER`.
const ALLOWED: &str = "xtask/ratchet.txt";
const COLUMNS_MAX: usize = 100;
/// Text written by people.
const WRITTEN: &[&str] = &[".rs", ".md", ".c", ".h", ".hpp", ".cpp", ".py"];
/// Written by programs, records of past runs, and the list of words.
const LEFT_OUT: &[&str] = &[
    "crates/olivine-capi/include/olivine.h",
    "docs/evidence/",
    "docs/orderings.md",
    "results/",
    "xtask/src/tidy/ratchet.rs",
];
/// Words to avoid: write subject, verb and field term instead.
const WORDS: &[&str] = &[
    "whoever",
    "whom",
    "nobody",
    "somebody",
    "one that",
    "goes past",
    "stands for",
    "as ever",
    "by itself",
    "of its own",
];
/// Names of items, and the field's terms for them.
const NAMES: &[(&str, &str)] = &[
    ("Surroundings", "SubscriberSlowState"),
    ("Beds", "ParkTarget"),
    ("TOYS_MAX", "FUTILE_WAKES_MAX"),
    ("keep_apart", "use_private_pages"),
    ("accuse", "report_invalid_position"),
    ("Hold", "StallMonitor"),
    ("let_go", "stall_ended"),
    ("Brought", "BridgeLaneOwner"),
    ("Inside", "InprocMemory"),
    ("Place", "Backing, or what it is a place of"),
    ("Absence", "ReconnectBackoff"),
    ("Seats", "Sessions"),
    ("Bell", "SocketWaker"),
    ("Rung", "FutexEnd"),
    ("Quiet", "NoSigpipe"),
    ("Trouble", "SocketError"),
    ("Hitch", "SendRetry"),
    ("Flight", "InFlight"),
    ("press", "retry_room"),
    ("want", "request_room"),
    ("distrust", "mark_in_doubt"),
    ("Welcome", "HandshakeReply"),
    ("Why", "RefusalCode"),
    ("Door", "Rendezvous"),
    ("Hands", "Harness"),
    ("Player", "Driver"),
    ("Asks", "Client"),
    ("Answers", "Server"),
    ("Patience", "Deadline"),
    ("Game", "PingPong"),
    ("Turn", "RunSlot"),
    ("Contender", "Candidate"),
    ("Liar", "FaultyEnd"),
    ("looks_on", "keep_spinning"),
    ("dry", "empty_polls"),
    ("take_lines", "prefetch_for_write"),
    ("patience", "close_timeout"),
];
const DECLARES: &[&str] = &[
    "fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union",
];

/// Lines of more than 100 columns; tables and addresses cannot be broken.
pub(super) fn long_lines(tree: &Tree) -> Rule {
    let count = |file: &File| {
        let lines = file.text.lines();
        let long = lines.filter(|line| line.chars().count() > COLUMNS_MAX);
        long.filter(|line| !line.starts_with('|') && !line.contains("](") && !line.contains("://"))
            .count()
    };
    let list = "git grep -nE '^.{101}' --";
    judge(
        tree,
        ("columns", "files by lines above 100 columns"),
        list,
        count,
    )
}

/// Unclear words.
pub(super) fn riddles(tree: &Tree) -> Rule {
    let list = format!("git grep -niwE '{}' --", WORDS.join("|"));
    judge(
        tree,
        ("riddles", "files by words to avoid"),
        &list,
        |file| {
            let lower = file.text.to_lowercase();
            let in_line = |line| WORDS.iter().filter(|word| has_word(line, word)).count();
            lower.lines().map(in_line).sum()
        },
    )
}

/// Declared names that are not field terms.
pub(super) fn private_names(tree: &Tree) -> Rule {
    let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
    let (kinds, names) = (DECLARES.join("|"), names.join("|"));
    let list = format!("(the terms are in ratchet.rs) git grep -nwE '({kinds}) ({names})' --");
    judge(
        tree,
        ("terms", "files by names to replace"),
        &list,
        |file| {
            file.rust_lines()
                .filter(|(_, line)| declared(&line.code).is_some_and(is_banned))
                .count()
        },
    )
}

fn is_banned(name: &str) -> bool {
    NAMES.iter().any(|(banned, _)| *banned == name)
}

/// The name that a line of code declares.
fn declared(code: &str) -> Option<&str> {
    let mut words = words(code).skip_while(|word| !DECLARES.contains(word));
    // `const fn name`: the last of the words that declare is followed by the name.
    words.find(|word| !DECLARES.contains(word) && !matches!(*word, "unsafe" | "extern" | "mut"))
}

/// `crates/NAME`, the first folder of others, and `.` for files of the root.
fn folder(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 1 } else { 0 };
    match path.match_indices('/').nth(depth) {
        Some((end, _)) => &path[..end],
        None => ".",
    }
}

/// Compares the counts of `count` in each folder with the allowed numbers.
fn judge(
    tree: &Tree,
    (name, places): (&'static str, &'static str),
    list: &str,
    count: impl Fn(&File) -> usize,
) -> Rule {
    let mut rule = Rule::new(name, places);
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &tree.files {
        let left_out = LEFT_OUT.iter().any(|path| file.path.starts_with(path));
        if !left_out && WRITTEN.iter().any(|end| file.path.ends_with(end)) {
            rule.looked += 1;
            *found.entry(folder(&file.path)).or_default() += count(file);
        }
    }
    let numbers = tree.files.iter().find(|file| file.path == ALLOWED);
    let allowed = |folder: &str| -> usize {
        let lines = numbers.map_or("", |file| file.text.as_str()).lines();
        let mut rows = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row.len() == 3 && row[0] == name && row[1] == folder);
        row.and_then(|row| row[2].parse().ok()).unwrap_or(0)
    };
    for (folder, found) in found {
        let allowed = allowed(folder);
        let sentence = format!("{folder}: {found}, allowed are {allowed}");
        if found > allowed {
            let files = if folder == "." { "':(glob)*'" } else { folder };
            rule.findings
                .push(format!("{sentence}; list: {list} {files}"));
        } else if found < allowed {
            let line = format!("{name} {folder} {found}");
            rule.warnings
                .push(format!("{sentence}; {ALLOWED} can be lowered: {line}"));
        }
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One fault above the allowed number fails, the allowed number passes, and fewer give a
    /// warning.
    fn check(rule: fn(&Tree) -> Rule, name: &str, path: &str, fault: &str) {
        let judged = |faults: usize, allowed: &str| {
            let text = format!("{fault}\n").repeat(faults);
            rule(&Tree::of(&[(path, &text), (ALLOWED, allowed)]))
        };
        let one = format!("# comment\n{name} {} 1\n", folder(path));
        assert_eq!(judged(1, "").findings.len(), 1, "{fault}");
        assert_eq!(judged(2, &one).findings.len(), 1, "{fault}");
        assert!(
            judged(1, &one).holds() && judged(1, &one).warnings.is_empty(),
            "{fault}"
        );
        assert!(
            judged(0, &one).warnings[0].contains("can be lowered"),
            "{fault}"
        );
    }

    #[test]
    fn one_more_than_allowed_is_found() {
        let long = "x".repeat(COLUMNS_MAX + 1);
        check(long_lines, "columns", "docs/a.md", &long);
        check(long_lines, "columns", "README.md", &long);
        for word in WORDS {
            check(
                riddles,
                "riddles",
                "crates/a/b.rs",
                &format!("// Said {word} here."),
            );
        }
        for (name, _) in NAMES {
            let item = format!("pub(crate) const fn {name}() {{}}");
            check(private_names, "terms", "crates/a/src/b.rs", &item);
        }
    }

    #[test]
    fn tables_addresses_and_uses_of_a_word_in_prose_are_free() {
        let long = "x".repeat(COLUMNS_MAX);
        let text = format!("{long}\n| {long} |\n[a](b){long}\nsee https://a.b/{long}\n");
        assert!(long_lines(&Tree::of(&[("a.md", &text)])).holds());
        let fine = "/// Why: press Hold.\nfn pressed(want: u8) { want }\nstruct Placement;\n";
        assert!(private_names(&Tree::of(&[("a.rs", fine)])).holds());
    }
}
