//! `olivine journal`, and `olivine record` and `olivine replay`: short forms of `olivine bridge`
//! with a journal on one side.

mod contents;
mod cut;
mod export;
mod part;

pub(crate) use contents::inspect;

use crate::args::Common;
use crate::args::carry::{RecordArgs, ReplayArgs};
use crate::args::channel::full_uri;
use crate::args::journal::{JournalArgs, JournalCommand};
use crate::bridge::{Pair, carry, place};
use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// Runs `olivine journal`.
pub(crate) fn run(args: &JournalArgs, common: Common) -> Outcome {
    match &args.command {
        JournalCommand::Info(args) => inspect(&path_of(&args.file)?, args.exact, common),
        JournalCommand::Cut(args) => cut::run(args, common),
        JournalCommand::Export(args) => export::run(args, common),
    }
}

/// The path of a journal, which may be given as a URI without settings.
fn path_of(text: &str) -> Outcome<PathBuf> {
    if !text.contains("://") {
        return Ok(text.into());
    }
    let uri = journal(text)?;
    if let Some((_, settings)) = uri.split_once('?') {
        return Err(Failure::usage(format!(
            "'{}' has the settings '{settings}': leave them out, and use the options of this \
             command",
            place(text)
        )));
    }
    // The library checks the path.
    let uri = olivine::Config::parse(&uri)?.uri();
    let path = uri.strip_prefix("file://").unwrap_or(&uri);
    Ok(path.split('?').next().unwrap_or_default().into())
}

/// Records a channel.
pub(crate) fn record(args: &RecordArgs, common: Common) -> Outcome {
    if !cfg!(feature = "zstd")
        && let Some(how) = args.compress.as_deref().filter(|how| *how != "no")
    {
        return Err(Failure::usage(format!(
            "--compress {how} needs zstd, which this build does not have: leave it out, or build \
             with the cargo feature 'zstd'"
        )));
    }
    let settings = [
        ("sync", args.sync.as_deref()),
        ("rotate", args.rotate.as_deref()),
        ("compress", args.compress.as_deref()),
        ("channel", args.name_in_journal.as_deref()),
    ];
    let durable = [("name", args.durable.as_deref())];
    let pair = Pair {
        source: with_settings(&channel(&args.channel)?, &durable)?,
        destination: with_settings(&journal(&args.file)?, &settings)?,
        keep: args.keep,
    };
    carry(vec![pair], true, common)
}

/// Replays a journal.
pub(crate) fn replay(args: &ReplayArgs, common: Common) -> Outcome {
    let settings = [
        ("from", args.from.as_deref()),
        ("channel", args.name_in_journal.as_deref()),
        ("follow", args.follow.then_some("yes")),
        ("pace", args.pace.as_deref()),
        ("unfinished", args.unfinished.as_deref()),
    ];
    let wanted = [("subscribers", args.subscribers.as_deref())];
    let pair = Pair {
        source: with_settings(&journal(&args.file)?, &settings)?,
        destination: with_settings(&channel(&args.channel)?, &wanted)?,
        keep: args.follow,
    };
    carry(vec![pair], args.follow, common)
}

/// The URI of a channel, which may be given as a name.
fn channel(text: &str) -> Outcome<String> {
    let uri = full_uri(text);
    match uri.split_once("://") {
        Some(("shm", _)) => Ok(uri.into_owned()),
        _ => Err(Failure::usage(format!(
            "'{}' is not in shared memory: record and replay take shm://NAME; put a channel \
             there between, and 'olivine bridge'",
            place(text)
        ))),
    }
}

/// The URI of a journal, which may be given as a path.
fn journal(text: &str) -> Outcome<String> {
    match text.split_once("://") {
        None => {
            let path = std::path::absolute(Path::new(text)).map_err(|error| {
                Failure::usage(format!("'{text}' is not the path of a file: {error}"))
            })?;
            Ok(format!("file://{}", path.display()))
        }
        Some(("file", _)) => Ok(text.to_owned()),
        Some(_) => Err(Failure::usage(format!(
            "'{}' is not a journal: a path or file:///PATH is expected",
            place(text)
        ))),
    }
}

/// A URI with settings added.
fn with_settings(uri: &str, settings: &[(&str, Option<&str>)]) -> Outcome<String> {
    let mut uri = uri.to_owned();
    for (key, value) in settings {
        let Some(value) = value else { continue };
        if value.contains('&') {
            return Err(Failure::usage(format!(
                "{key} '{value}' is not usable: it contains a '&'"
            )));
        }
        let mark = if uri.contains('?') { '&' } else { '?' };
        uri = format!("{uri}{mark}{key}={value}");
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_become_uris() {
        assert_eq!(channel("ticks").ok().as_deref(), Some("shm://ticks"));
        assert_eq!(
            channel("shm://ticks?dir=/x").ok().as_deref(),
            Some("shm://ticks?dir=/x")
        );
        assert!(channel("tcp://h:1/x").is_err());
        assert_eq!(
            journal("/data/a.olv").ok().as_deref(),
            Some("file:///data/a.olv")
        );
        assert!(journal("a.olv").is_ok_and(|uri| uri.starts_with("file:///")));
        assert!(journal("shm://ticks").is_err());
    }

    #[test]
    fn settings_join_those_of_the_uri() {
        let given = [
            ("pace", Some("2x")),
            ("from", None),
            ("follow", Some("yes")),
        ];
        let uri = with_settings("file:///a?channel=b", &given).ok();
        assert_eq!(
            uri.as_deref(),
            Some("file:///a?channel=b&pace=2x&follow=yes")
        );
        assert!(with_settings("file:///a", &[("pace", Some("1x&sync=never"))]).is_err());
    }
}
