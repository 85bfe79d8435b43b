//! One word per idea: words that public names must not use, and their replacements.

use super::Rule;
use crate::source::{Tree, words};
use heck::ToSnakeCase as _;

/// Where names are public in every language.
const PUBLIC: &[&str] = &[
    "crates/olivine/src/",
    "crates/olivine-capi/src/",
    "crates/olivine-python/src/",
];

/// Words no public name contains, and the word we use.
const BANNED: &[(&[&str], &str)] = &[
    (&["writer", "sender", "sink"], "publisher"),
    (&["reader", "receiver"], "subscriber"),
    // A topic is the subject of a message, not a channel.
    (&["service", "stream", "bus"], "channel"),
    (&["event", "sample", "packet", "record"], "message"),
    (&["chunk"], "fragment"),
    (&["entry"], "frame"),
    (&["send", "push", "put"], "publish"),
    (&["loan", "reserve"], "claim"),
    (&["drain"], "poll"),
    (&["recv"], "receive"),
    (&["busy"], "back-pressured"),
    (&["head", "tail"], "cursor or position"),
    (&["backlog", "depth"], "lag"),
    (&["dropped"], "overrun or lost"),
    (&["idle", "backoff"], "wait"),
    (&["arena", "storage"], "segment"),
    (&["reactor", "worker"], "shard"),
    (&["runtime"], "engine"),
    (&["gateway", "relay", "router"], "bridge"),
    (&["stale", "zombie", "orphan"], "dead"),
    (&["iteration"], "run"),
    (
        &["util", "utils", "common", "helper", "helpers", "misc"],
        "what it is",
    ),
];

/// Accepted public names with a banned word.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("stream", "what a NATS server calls the place of a channel"),
    ("storage", "what a NATS server calls that place's medium"),
    ("event_fd", "the kernel's name for the thing: eventfd(2)"),
    ("olivine_subscriber_event_fd", "as `event_fd`"),
    (
        "ReconnectBackoff",
        "the field's term for pauses that grow; endpoints wait",
    ),
    (
        "push",
        "adds to a batch and publishes nothing: the word of std's collections",
    ),
];

/// What may follow `pub` and be followed by a name.
const ITEMS: &[&str] = &[
    "fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union",
];

/// Public names use our words.
pub(super) fn public(tree: &Tree) -> Rule {
    let mut rule = Rule::new("names", "public names in our own words");
    for file in PUBLIC.iter().flat_map(|folder| tree.rust_under(folder)) {
        for (number, line) in file.product_lines() {
            if let Some(name) = public_name(&line.code) {
                rule.look(judge(name).map(|why| format!("{}:{number}: {why}", file.path)));
            }
        }
    }
    rule
}

/// The public name that a line declares: `pub fn name`, also with `const`, `unsafe`, `async`.
fn public_name(code: &str) -> Option<&str> {
    let rest = code.trim_start().strip_prefix("pub ")?;
    let mut words = words(rest).skip_while(|w| matches!(*w, "unsafe" | "async" | "extern" | "C"));
    let first = words.next()?;
    if !ITEMS.contains(&first) {
        return None;
    }
    match words.next()? {
        // `pub const fn name`, `pub const unsafe fn name`.
        "fn" => words.next(),
        "unsafe" => words.nth(1),
        name => Some(name),
    }
}

fn judge(name: &str) -> Option<String> {
    if EXCEPTIONS.iter().any(|(exception, _)| *exception == name) {
        return None;
    }
    let (word, ours) = banned(name)?;
    Some(format!("`{name}` says `{word}`; our word is {ours}"))
}

/// The banned word in a name of any case, and ours.
fn banned(name: &str) -> Option<(&'static str, &'static str)> {
    let snake = name.to_snake_case();
    BANNED.iter().find_map(|(words, ours)| {
        let word = snake
            .split('_')
            .find_map(|part| words.iter().find(|word| **word == part))?;
        Some((*word, *ours))
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
        planted(public, CORE, &faults, &[fine]);
    }

    #[test]
    fn every_exception_is_needed_and_has_a_reason() {
        for (name, reason) in EXCEPTIONS {
            let needed = banned(name).is_some();
            assert!(
                needed && !reason.is_empty(),
                "{name} needs no exception, or a reason"
            );
        }
    }
}
