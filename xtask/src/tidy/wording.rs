//! One word per idea in public names.

use super::{Rule, regex, rows};
use crate::source::Tree;
use heck::ToSnakeCase as _;

/// Where names are public in every language.
const PUBLIC: &[&str] = &[
    "crates/olivine/src/",
    "crates/olivine-capi/src/",
    "crates/olivine-python/src/",
];
/// A public item: the last word that declares is followed by the name, as in `const fn name`.
const ITEM: &str =
    r"^\s*pub .*?(?:\b(?:fn|struct|enum|trait|const|static|mut|type|mod|union)\s+)+(\w+)";

/// Public names use our words.
pub(super) fn public_names(tree: &Tree) -> Rule {
    let mut rule = Rule::new("names", "public names in our own words");
    let item = regex(ITEM);
    for file in PUBLIC.iter().flat_map(|folder| tree.rust_under(folder)) {
        for (number, line) in file.product_lines() {
            if let Some(found) = item.captures(&line.code) {
                let why = judge(&found[1]);
                rule.look(why.map(|why| format!("{}:{number}: {why}", file.path)));
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

#[cfg(test)]
mod tests {
    use super::super::{CORE, planted};
    use super::*;

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
