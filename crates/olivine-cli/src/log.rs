//! Log lines on standard error, for a person who waits.

use crate::failure::complain;
use std::sync::OnceLock;

/// Log level. Errors that end a command are always printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    // Only the error that ends the command.
    Off,
    // Also warnings about an incomplete result.
    Warn,
    // Also what the command waits for.
    #[default]
    Info,
    // Also what was opened, with its settings.
    Debug,
}

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Sets the level, once, at the start.
pub(crate) fn set(level: Level) {
    let _ = LEVEL.set(level);
}

/// Whether lines of this level are printed.
pub(crate) fn says(level: Level) -> bool {
    level <= LEVEL.get().copied().unwrap_or_default()
}

pub(crate) fn warn(text: &str) {
    if says(Level::Warn) {
        complain(text);
    }
}

pub(crate) fn info(text: &str) {
    if says(Level::Info) {
        complain(text);
    }
}

pub(crate) fn debug(text: &str) {
    if says(Level::Debug) {
        complain(text);
    }
}
