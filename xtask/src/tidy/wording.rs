//! Lines that fit 100 columns, words that a reader understands, names that are field terms, and one
//! word per idea in public names.

use super::{Rule, rows, texts};
use crate::source::{File, Tree, is_word_at, words};
use heck::ToSnakeCase as _;

const COLUMNS_MAX: usize = 100;
/// Written by programs, records of past runs, the list of words and samples with them.
const LEFT_OUT: &[&str] = &[
    "crates/olivine-cli/tests/recorded/",
    "crates/olivine/tests/golden/",
    "docs/orderings.md",
    "results/",
    "xtask/src/tidy/wording.rs",
    "xtask/tidy.toml",
];
/// Ends of paths: written by programs, reports of past runs, licences.
const LEFT_OUT_ENDS: &[&str] = &[
    ".hex",
    ".json",
    ".lock",
    ".sum",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];
const REPORTS: &str = "docs/evidence/";
/// One line is one statement, one message of a program, or a rule of a page.
const ONE_LINE: &[&str] = &[".css", ".litmus", ".trycmd", ".yml"];
/// Where names are public in every language.
const PUBLIC: &[&str] = &[
    "crates/olivine/src/",
    "crates/olivine-capi/src/",
    "crates/olivine-python/src/",
];

/// Keywords that a name follows.
const DECLARES: &[&str] = &[
    "fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union",
];

/// Lines of more than 100 columns. Rows of Markdown tables and addresses cannot be broken, and
/// programs write the lines between two marks.
pub(super) fn long_lines(tree: &Tree) -> Rule {
    let files = written(tree).filter(|file| !ends_with(&file.path, ONE_LINE));
    Rule::new("columns", "files without a line above 100 columns").files(files, |file| {
        let is_document = file.path.ends_with(".md");
        let mut is_generated = false;
        file.lines().find_map(|(number, line)| {
            if line.starts_with("<!-- ") {
                is_generated = line.ends_with(":start -->");
            }
            let columns = line.chars().count();
            let is_row = is_document && line.trim_start().starts_with('|');
            let is_free = is_generated || is_row || has_long_address(line);
            (columns > COLUMNS_MAX && !is_free).then(|| (number, format!("{columns} columns")))
        })
    })
}

/// A line with an address that fills half of it.
fn has_long_address(line: &str) -> bool {
    let is_address = |word: &str| word.contains("](") || word.contains("://");
    let mut words = line.split_whitespace();
    words.any(|word| is_address(word) && word.chars().count() > COLUMNS_MAX / 2)
}

/// Unclear words, also in names and across the end of a line.
pub(super) fn riddles(tree: &Tree) -> Rule {
    Rule::new("riddles", "files without a word to avoid").files(written(tree), |file| {
        let text = file.text.to_lowercase().replace('_', " ");
        let lines: Vec<_> = text.lines().map(prose).collect();
        // Few files have one at all.
        let whole = lines.join(" ");
        let words = texts("avoid").map(|word| (word, false));
        let words = words.chain(texts("negations").map(|word| (word, true)));
        let words: Vec<_> = words.filter(|(word, _)| whole.contains(word)).collect();
        (1..).zip(&lines).find_map(|(number, line)| {
            let next = lines.get(number).map_or("", String::as_str);
            let word = riddle(&words, line, next, &file.path)?;
            Some((
                number,
                format!("'{word}': write subject, verb and field term"),
            ))
        })
    })
}

/// The words of a line, without the marks of a comment.
fn prose(line: &str) -> String {
    let text = line.trim_start().trim_start_matches(['/', '!', '#', '*']);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first of `words` that begins in `line` and is to be avoided; a phrase may end in `next`. Some
/// words are negations.
fn riddle<'a>(words: &[(&'a str, bool)], line: &str, next: &str, path: &str) -> Option<&'a str> {
    if words.is_empty() {
        return None;
    }
    let both = format!("{line} {next}");
    let stays = |word| {
        let mut here = rows("stay").filter(|(under, _)| path.starts_with(under));
        here.any(|(_, words)| words.split("; ").any(|stays| stays == word))
    };
    // `there is no file` and `is no longer` are plain.
    let is_plain =
        |before: &str, after: &str| before.ends_with("there ") || after.starts_with(" longer");
    let finds = |word: &str, is_negation: bool| {
        both.match_indices(word).any(|(at, _)| {
            let (before, after) = (&both[..at], &both[at + word.len()..]);
            at < line.len()
                && is_word_at(&both, word, at)
                && !(is_negation && is_plain(before, after))
        })
    };
    let mut found = words
        .iter()
        .filter(|(word, is_negation)| finds(word, *is_negation));
    found.find(|(word, _)| !stays(*word)).map(|(word, _)| *word)
}

/// Declared names that are not field terms.
pub(super) fn private_names(tree: &Tree) -> Rule {
    Rule::new("terms", "files whose names are field terms").files(written(tree), |file| {
        file.rust_lines().find_map(|(number, line)| {
            let name = declared(&line.code)?;
            let (_, term) = rows("terms").find(|(banned, _)| *banned == name)?;
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

/// Public names use our words.
pub(super) fn public_names(tree: &Tree) -> Rule {
    let mut rule = Rule::new("names", "public names in our own words");
    for file in PUBLIC.iter().flat_map(|folder| tree.rust_under(folder)) {
        for (number, line) in file.product_lines() {
            let is_public = line.code.trim_start().starts_with("pub ");
            if let Some(name) = declared(&line.code).filter(|_| is_public) {
                rule.look(judge(name).map(|why| format!("{}:{number}: {why}", file.path)));
            }
        }
    }
    rule
}

fn judge(name: &str) -> Option<String> {
    if rows("exceptions").any(|(exception, _)| exception == name) {
        return None;
    }
    let (word, ours) = banned(name)?;
    Some(format!("`{name}` says `{word}`; our word is {ours}"))
}

/// The banned word in a name of any case, and ours.
fn banned(name: &str) -> Option<(&'static str, &'static str)> {
    let snake = name.to_snake_case();
    rows("public").find_map(|(words, ours)| {
        let parts = snake.split('_');
        let word = words
            .split(' ')
            .find(|word| parts.clone().any(|part| part == *word));
        Some((word?, ours))
    })
}

fn written(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        let left_out = LEFT_OUT.iter().any(|path| file.path.starts_with(path));
        let is_report = file.path.starts_with(REPORTS) && file.path.ends_with(".md");
        !left_out && !is_report && !ends_with(&file.path, LEFT_OUT_ENDS)
    })
}

fn ends_with(path: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::super::{CORE, planted};
    use super::*;

    #[test]
    fn long_line_is_found_where_it_can_be_broken() {
        let (long, most) = ("x".repeat(COLUMNS_MAX + 1), "x".repeat(COLUMNS_MAX));
        let faults = [
            format!("a.md: {long}"),
            format!("a.rs: //! {long}"),
            format!("a.rs: open(\"shm://x\"); {most}"),
            format!("a.md: <!-- a:start -->\n<!-- a:end -->\n{long}"),
            format!("a.rs: //! | {most} |"),
            format!("a.sh: echo {most}"),
            format!("a.toml: about = {most}"),
            format!("a.py: print({most})"),
        ];
        let fine = [
            format!("a.md: {most}"),
            format!("a.md: | {most} |"),
            format!("a.md: [a](b){most}"),
            format!("a.md: see https://a.b/{most}"),
            format!("a.md: <!-- a:start -->\n{long}\n<!-- a:end -->"),
        ];
        planted(long_lines, "docs/", &faults, &fine);
    }

    #[test]
    fn unclear_words_and_names_are_found() {
        let said = |word| format!("b.rs: // Said {word} here.");
        let mut faults: Vec<_> = texts("avoid").chain(texts("negations")).map(said).collect();
        let elsewhere = [
            "b.toml: # Said by\n# itself.",
            "b.rs: /// Said by\n    /// itself.",
            "b.rs: fn is_told() {}",
            "b.sh: # Nobody says it.",
            "b.pyi: # Somebody says it.",
            "b.txt: Whoever says it.",
        ];
        faults.extend(elsewhere.map(str::to_owned));
        let fine = [
            "b.rs: // Each one of them says it.",
            "b.rs: // There is\n// no file. It is no longer here.",
            "b.rs: fn told() {}",
        ];
        planted(riddles, "crates/a/", &faults, &fine.map(str::to_owned));
        let faults =
            rows("terms").map(|(name, _)| format!("b.rs: pub(crate) const fn {name}() {{}}"));
        let fine =
            ["b.rs: /// Why: press Hold.\nfn pressed(want: u8) { want }\nstruct Placement;\n"];
        planted(
            private_names,
            "crates/a/",
            &faults.collect::<Vec<_>>(),
            &fine.map(str::to_owned),
        );
    }

    #[test]
    fn banned_words_are_found_in_every_kind_of_name() {
        let faults = [
            "a.rs: pub fn send(&self) {}",
            "a.rs: pub const fn recv_timeout() {}",
            "a.rs: pub struct RingReader;",
            "a.rs: pub enum SlowSink {}",
            "a.rs: pub trait Gateway {}",
            "a.rs: pub const TAIL_MAX: u32 = 1;",
            "a.rs: pub unsafe extern \"C\" fn olivine_chunk() {}",
            "a.rs: pub mod util;",
        ];
        let fine = "a.rs: pub fn try_publish() {}\npub(crate) fn send() {}\nfn recv() {}\npub fn \
        event_fd() {}\n\
                    pub fn details() {}\npub struct Publisher { pub cursor: u64 }\npub use \
                    a::Sender;\n";
        planted(public_names, CORE, &faults, &[fine]);
    }

    #[test]
    fn every_exception_is_needed_and_has_a_reason() {
        for (name, reason) in rows("exceptions") {
            let needed = banned(name).is_some();
            assert!(
                needed && !reason.is_empty(),
                "{name} needs no exception, or a reason"
            );
        }
    }
}
