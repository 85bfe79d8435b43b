//! What a shell offers for the word under the cursor: names of channels, ids of errors.

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use olivine::{Config, admin};
use std::ffi::OsStr;

/// Most names that are offered.
const OFFERED_MAX: usize = 200;

/// Completes an argument that names a channel.
pub(crate) fn channel() -> ArgValueCompleter {
    ArgValueCompleter::new(channels)
}

/// Completes the id of an error.
pub(crate) fn error() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let word = word.to_string_lossy().into_owned();
        let ids = olivine::explanations().map(|one| one.id);
        let fitting = ids.filter(|id| id.starts_with(&word));
        fitting.map(CompletionCandidate::new).collect()
    })
}

/// The channels of the folder whose names begin like `word`, in the form of `word`.
fn channels(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else {
        return Vec::new();
    };
    let (scheme, begun) = match word.strip_prefix("shm://") {
        Some(begun) => ("shm://", begun),
        None => ("", word),
    };
    let mut names = admin::names(&admin::default_dir()).unwrap_or_default();
    // A name in the folder may be any text: only those of channels are offered.
    let is_name = |name: &String| Config::parse(&format!("shm://{name}")).is_ok();
    names.retain(|name| name.starts_with(begun) && is_name(name));
    names.sort();
    names.truncate(OFFERED_MAX);
    let whole = names.into_iter().map(|name| format!("{scheme}{name}"));
    whole.map(CompletionCandidate::new).collect()
}
