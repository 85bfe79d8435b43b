//! Channels elsewhere, named by the URI that a program of this machine opened.

use crate::bridge::place;
use crate::failure::{Failure, Outcome};
use crate::quote;
use olivine::admin::ChannelInfo;
use olivine::{Config, End, Scheme};
use serde_json::{Value, json};

/// The ring of this machine that belongs to the URI and its `name=`.
pub(super) fn ring(uri: &str, config: &Config) -> Outcome<Config> {
    let uri = place(uri);
    let Some(name) = config.get_name() else {
        if let (Scheme::File, Some(path)) = (config.scheme(), config.get_file().get_path()) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "{uri} is a journal: its files are {path} and, if it has several, {path}.000001 \
                 and so on, which are removed as any file when no program uses them; add \
                 '?name=NAME' for the ring that a program with this name keeps here"
            )));
        }
        return Err(Failure::usage(format!(
            "{uri} has no files on this machine: add '?name=NAME' for the ring that a program with \
             this name keeps here, or name a channel of this machine, shm://{}",
            config.channel()
        )));
    };
    let mut found = olivine::rings_behind(config).map_err(super::failed)?;
    if found.len() > 1 {
        let rings = found
            .iter()
            .map(|(end, ring)| format!("shm://{} of the {}", ring.channel(), owner(*end)));
        let rings = rings.collect::<Vec<_>>().join(" or ");
        return Err(Failure::usage(format!(
            "two programs with name={name} have a ring for {uri} here: name {rings}"
        )));
    }
    match found.pop() {
        Some((_, ring)) => Ok(ring),
        None => Err(Failure::failed(format!(
            "no program has a ring for {uri} with name={name} on this machine: 'olivine ls{}' \
             lists what there is",
            quote::dir(config.get_dir())
        ))),
    }
}

/// Whose ring this channel is, if it belongs to an end of a channel elsewhere that stored it.
pub(super) fn whose(info: &ChannelInfo) -> Option<String> {
    let (end, uri) = info.elsewhere.as_ref()?;
    // From shared memory: line ends are escaped.
    let uri = crate::terminal::escaped(uri);
    Some(format!("of the {} of {uri}", owner(*end)))
}

/// The same as JSON; null for another channel.
pub(super) fn whose_json(info: &ChannelInfo) -> Value {
    let whose = info.elsewhere.as_ref();
    whose.map_or(
        Value::Null,
        |(end, uri)| json!({ "end": owner(*end), "uri": uri }),
    )
}

fn owner(end: End) -> &'static str {
    match end {
        End::Publisher => "publisher",
        _ => "subscriber",
    }
}
