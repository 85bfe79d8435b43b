//! The page `docs/uri.md`, made from the tables of keys.

use super::{Config, End, Key, Scheme};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Longest line of the page in columns.
const COLUMNS: usize = 100;

const BEGIN: &str = "# Channel URIs

A URI names a channel and its settings: `scheme://address[?key=value&…]`.

| scheme | address | name of the channel |
|---|---|---|
| `shm` | the name: processes of this machine | the address |
| `shm+fd` | an absolute path of a socket: processes that do not trust each other | its file name |
| `inproc` | the name: threads of one process | the address |
| `tcp` | `HOST:PORT/NAME`: other machines | after the `/` |
| `nats` | `HOST[:PORT]/NAME`: a NATS server or cluster; port 4222 unless given | after the `/` |
| `file` | an absolute path of a file: a journal | `channel=`, else the file name |

A file name counts up to its last dot. A URI has no escapes. A repeated key, an unknown key and a
key that the scheme does not have are errors; only a value that changes nothing may stand (`tls=no`,
`follow=no`, `peers=own`). The options of the bindings and the methods of `Config` have the same
names, values and defaults; so have the flags of `olivine pub` and `sub`, which are those of the
keys of `shm`. `olivine record` and `replay` have flags for keys of `file`. All other keys stand in
the URI. The methods for keys of `tcp`, `nats`, `file` and `shm+fd` are in the groups `Config::tcp`,
`nats`, `file` and `sealed` (keys of `shm+fd`). A size is a number of bytes, or a number with `KiB`,
`MiB` or `GiB`. A duration is a whole number with `ns`, `us`, `ms`, `s`, `m` or `h`, or `0`.

Both ends may have one URI. So each accepts the keys of the column `ends` that are for the other
end, and does not use them. The end that records a journal is its publisher, the end that reads one
its subscriber.

Keys marked *channel* shape the channel. The first publisher fixes them. A subscriber that comes
first fixes only what it names. A value that differs from a live channel's is an error. `mode` is
an exception: a channel that grants fewer rights is used as it is.

The tables of keys in `crates/olivine/src/uri/keys/` make this page.
";

/// Words in lines of at most [`COLUMNS`].
fn wrap(into: &mut String, first: &str, indent: &str, text: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let gap = usize::from(!is_empty);
        if !is_empty && line.chars().count() + gap + word.chars().count() > COLUMNS {
            writeln!(into, "{line}").expect("a String");
            indent.clone_into(&mut line);
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(into, "{line}").expect("a String");
}

fn schemes(key: &Key) -> String {
    if key.schemes() == Scheme::ALL {
        return "all".to_owned();
    }
    let words: Vec<_> = key
        .schemes()
        .iter()
        .map(|scheme| format!("`{scheme}`"))
        .collect();
    words.join(", ")
}

fn end(key: &Key) -> &'static str {
    match key.end() {
        End::Both => "both",
        End::Publisher => "publisher",
        End::Subscriber => "subscriber",
    }
}

/// What other documents say of a key; help has no links.
const ELSEWHERE: [(&str, &str); 1] = [(
    "slow",
    "[SAFETY.md](../SAFETY.md#what-slowevictd-bounds) states how long a message waits at most.",
)];

fn page() -> String {
    let mut page = String::from(BEGIN);
    page.push_str("\n| key | ends | schemes |\n|---|---|---|\n");
    for key in Config::keys() {
        let (name, value) = (key.name(), key.value());
        writeln!(
            page,
            "| [`{name}={value}`](#{name}) | {} | {} |",
            end(key),
            schemes(key)
        )
        .expect("a String");
    }
    for key in Config::keys() {
        write!(page, "\n## {}\n\n", key.name()).expect("a String");
        let lines: Vec<_> = key.doc().collect();
        for paragraph in lines.split(|line| line.is_empty()) {
            wrap(&mut page, "", "", &paragraph.join(" "));
            page.push('\n');
        }
        for (_, text) in ELSEWHERE.iter().filter(|(name, _)| *name == key.name()) {
            writeln!(page, "{text}\n").expect("a String");
        }
        let rule = key.rule().replace('*', "\\*");
        wrap(&mut page, "- Values: ", "  ", &format!("{rule}."));
        wrap(
            &mut page,
            "- Default: ",
            "  ",
            &format!("{}.", key.default()),
        );
    }
    page
}

#[test]
fn page_of_keys_matches_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/uri.md");
    let made = page();
    if std::env::var_os("OLIVINE_WRITE_URI_PAGE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/uri.md is not what the tables of keys say: make it again by \
         'OLIVINE_WRITE_URI_PAGE=1 cargo test -p olivine --lib uri::page'"
    );
}
