//! Journals: channels recorded in files, and replayed.
//!
//! A [`Recorder`] appends runs of frames, the bytes of rings as they lie there, with the time they came. A
//! [`Replay`] hands the runs out again in the order of the recording, from the start, a position or a time, also
//! while they are being recorded. Frames of several channels and publishers may share a journal; order is kept
//! for each publisher, and between them as the recorder saw it.
//!
//! A file that was cut, or has a damaged byte, at any place never crashes a reader and never yields a message
//! that was not recorded: every byte of it is covered by a check. It does not protect against somebody who
//! wants to forge messages.
//!
//! The files are described in `docs/journal.md`.

#[cfg(any(test, fuzzing))]
pub(crate) mod claims;
mod format;
mod index;
pub(super) mod inlet;
mod lane;
pub(super) mod outlet;
mod pace;
mod pack;
mod recorder;
mod recover;
mod replay;
mod settings;
mod syncer;
mod term;
mod walk;
mod watch;

pub use crate::error::JournalError;
pub use lane::Lane;
pub use recorder::{LaneId, Recorder, RecorderStats};
pub use recover::{Recovered, Torn};
pub use replay::{Replay, ReplayState, Run, RunMessage, Skipped};
pub use settings::RecorderSettings;
