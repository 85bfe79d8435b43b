//! `olivine journal`, and `olivine record` and `olivine replay`: short forms of `olivine bridge`
//! with a journal on one side.

mod contents;
mod cut;
mod damage;
mod export;
mod part;

pub(crate) use contents::inspect;

use crate::args::Common;
use crate::args::carry::{RecordArgs, ReplayArgs};
use crate::args::channel::full_uri;
use crate::args::journal::{JournalArgs, JournalCommand};
use crate::bridge::{Pair, carry, place};
use crate::failure::{Failure, Outcome, with_id};
use crate::log;
use olivine::admin;
use std::collections::BTreeMap;
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
    let pairs = recorded(args)?.into_iter().map(|(source, file)| {
        Ok(Pair {
            source: with_settings(&source, &durable)?,
            destination: with_settings(&journal(&file)?, &settings)?,
            keep: args.keep,
        })
    });
    carry(pairs.collect::<Outcome<_>>()?, common)
}

/// The channels to record, as URIs, each with its journal.
fn recorded(args: &RecordArgs) -> Outcome<Vec<(String, String)>> {
    let (last, channels) = args
        .words
        .split_last()
        .map_or(("", &[][..]), |(last, channels)| (last.as_str(), channels));
    let channels: Vec<String> = match (args.all, channels) {
        (true, []) => every_channel()?,
        (true, [first, ..]) => {
            return Err(Failure::usage(format!(
                "--all records every channel, and '{first}' is one: name only the folder"
            )));
        }
        (false, []) => {
            return Err(Failure::usage(format!(
                "'{last}' is only one name: name a channel and a journal, such as ticks ticks.olv"
            )));
        }
        (false, channels) => channels.to_vec(),
    };
    let channels: Vec<String> = channels
        .iter()
        .map(|one| channel(one))
        .collect::<Outcome<_>>()?;
    if let ([only], false) = (&channels[..], args.all) {
        return Ok(vec![(only.clone(), last.to_owned())]);
    }
    if args.name_in_journal.is_some() {
        return Err(Failure::usage(
            "--as names the channel of one journal, and several are recorded: leave it out",
        ));
    }
    if channels.is_empty() {
        return Err(Failure::failed(format!(
            "there is no channel in {}: nothing to record",
            admin::default_dir().display()
        )));
    }
    let mut files = BTreeMap::new();
    for uri in channels {
        let name = olivine::Config::parse(&uri)?.channel().to_owned();
        if files.insert(name.clone(), uri).is_some() {
            return Err(Failure::usage(format!(
                "two channels have the name '{name}', and their journals would: record them apart"
            )));
        }
    }
    std::fs::create_dir_all(last).map_err(|error| {
        let context = format!("cannot create the folder {last} of the journals");
        Failure::Failed(anyhow::Error::new(error).context(context))
    })?;
    let place = |(name, uri)| {
        let file = Path::new(last).join(format!("{name}.olv"));
        (uri, file.display().to_string())
    };
    Ok(files.into_iter().map(place).collect())
}

/// The channels of the folder. Those that cannot be read are left out with a warning.
fn every_channel() -> Outcome<Vec<String>> {
    let listed = admin::list(&admin::default_dir());
    let listed = listed.map_err(|error| Failure::Failed(error.into()))?;
    let mut names = Vec::new();
    for channel in listed {
        match channel.result {
            Ok(info) => names.push(format!("shm://{}", info.name)),
            Err(error) => log::warn(&format!(
                "{} is not recorded: {}",
                channel.name,
                with_id(&error.into())
            )),
        }
    }
    Ok(names)
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
    carry(vec![pair], common)
}

/// The URI of a channel, which may be given as a name.
fn channel(text: &str) -> Outcome<String> {
    let uri = full_uri(text)?;
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
