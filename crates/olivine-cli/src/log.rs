//! Notices on standard error: what a person at the terminal wants to know while waiting.

use crate::failure::complain;
use std::sync::OnceLock;

/// How much is said on standard error. Errors that end a command are always said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    // Nothing but the error that ends the command.
    Off,
    // What may make the result less than it seems.
    Warn,
    // Also what the command is waiting for.
    #[default]
    Info,
    // Also what was opened and with which settings.
    Debug,
}

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Sets the level, once, at the start.
pub(crate) fn set(level: Level) {
    let _ = LEVEL.set(level);
}

fn says(level: Level) -> bool {
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
