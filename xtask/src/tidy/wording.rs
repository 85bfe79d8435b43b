//! Lines that fit 100 columns, words that a reader understands, and names that are field terms.

use super::Rule;
use crate::source::{File, Tree, has_word, words};

const COLUMNS_MAX: usize = 100;
/// Text written by people.
const WRITTEN: &[&str] = &[".rs", ".md", ".c", ".h", ".hpp", ".cpp", ".py"];
/// Written by programs, records of past runs, and the list of words.
const LEFT_OUT: &[&str] = &[
    "crates/olivine-capi/include/olivine.h",
    "crates/olivine-cli/tests/recorded/",
    "docs/evidence/",
    "docs/orderings.md",
    "results/",
    "xtask/src/tidy/wording.rs",
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

/// Lines of more than 100 columns. Tables and addresses cannot be broken, and programs write what
/// lies between two marks.
pub(super) fn long_lines(tree: &Tree) -> Rule {
    Rule::new("columns", "files without a line above 100 columns").files(written(tree), |file| {
        let mut is_generated = false;
        let mut lines = (1..).zip(file.text.lines());
        lines.find_map(|(number, line)| {
            if line.starts_with("<!-- ") {
                is_generated = line.ends_with(":start -->");
            }
            let columns = line.chars().count();
            let is_free = is_generated || is_unbreakable(line);
            (columns > COLUMNS_MAX && !is_free).then(|| (number, format!("{columns} columns")))
        })
    })
}

/// A row of a table, or a line with an address.
fn is_unbreakable(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']);
    text.trim_start().starts_with('|') || line.contains("](") || line.contains("://")
}

/// Unclear words.
pub(super) fn riddles(tree: &Tree) -> Rule {
    Rule::new("riddles", "files without a word to avoid").files(written(tree), |file| {
        let lower = file.text.to_lowercase();
        let mut lines = (1..).zip(lower.lines());
        lines.find_map(|(number, line)| {
            let word = WORDS.iter().find(|word| has_word(line, word))?;
            Some((
                number,
                format!("'{word}': write subject, verb and field term"),
            ))
        })
    })
}

/// Declared names that are not field terms.
pub(super) fn private_names(tree: &Tree) -> Rule {
    Rule::new("terms", "files whose names are field terms").files(written(tree), |file| {
        file.rust_lines().find_map(|(number, line)| {
            let name = declared(&line.code)?;
            let (_, term) = NAMES.iter().find(|(banned, _)| *banned == name)?;
            Some((number, format!("'{name}': the term is {term}")))
        })
    })
}

/// The name that a line of code declares.
fn declared(code: &str) -> Option<&str> {
    let mut words = words(code).skip_while(|word| !DECLARES.contains(word));
    // `const fn name`: the last of the words that declare is followed by the name.
    words.find(|word| !DECLARES.contains(word) && !matches!(*word, "unsafe" | "extern" | "mut"))
}

fn written(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        let left_out = LEFT_OUT.iter().any(|path| file.path.starts_with(path));
        !left_out && WRITTEN.iter().any(|end| file.path.ends_with(end))
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn long_line_is_found_where_it_can_be_broken() {
        let (long, most) = ("x".repeat(COLUMNS_MAX + 1), "x".repeat(COLUMNS_MAX));
        let faults = [
            format!("a.md: {long}"),
            format!("a.rs: //! {long}"),
            format!("a.md: <!-- a:start -->\n<!-- a:end -->\n{long}"),
        ];
        let fine = [
            format!("a.md: {most}"),
            format!("a.md: | {most} |"),
            format!("a.rs: /// | {most} |"),
            format!("a.md: [a](b){most}"),
            format!("a.md: see https://a.b/{most}"),
            format!("a.md: <!-- a:start -->\n{long}\n<!-- a:end -->"),
        ];
        planted(long_lines, "docs/", &faults, &fine);
    }

    #[test]
    fn unclear_words_and_names_are_found() {
        let faults = WORDS
            .iter()
            .map(|word| format!("b.rs: // Said {word} here."));
        let fine = ["b.rs: // Each one of them says it."];
        planted(
            riddles,
            "crates/a/",
            &faults.collect::<Vec<_>>(),
            &fine.map(str::to_owned),
        );
        let faults = NAMES
            .iter()
            .map(|(name, _)| format!("b.rs: pub(crate) const fn {name}() {{}}"));
        let fine =
            ["b.rs: /// Why: press Hold.\nfn pressed(want: u8) { want }\nstruct Placement;\n"];
        planted(
            private_names,
            "crates/a/",
            &faults.collect::<Vec<_>>(),
            &fine.map(str::to_owned),
        );
    }
}
