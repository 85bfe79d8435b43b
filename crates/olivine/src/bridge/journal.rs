//! Journals: channels recorded in files, and replayed.
//!
//! A [`Recorder`] appends runs of frames: unchanged bytes of rings, with their time of arrival. A
//! [`Replay`] returns the runs in the order of the recording, from the start, a position or a time,
//! also while they are being recorded. Frames of several channels and publishers may share a
//! journal. Their order is kept for each publisher; between publishers it is the order in which the
//! recorder saw them.
//!
//! A file that is truncated or damaged at any byte never crashes a reader and never yields a
//! message that was not recorded: a checksum covers every byte. It does not protect against
//! deliberate forgery.
//!
//! `docs/journal.md` describes the files.

mod failure;
mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
mod index;
pub(crate) mod inlet;
mod lane;
pub(crate) mod outlet;
mod outline;
mod pace;
mod pack;
mod recorder;
mod recover;
mod replay;
mod search;
mod settings;
mod stop_when;
mod syncer;
mod term;
mod walk;
mod watch;

pub use crate::error::JournalError;
pub use crate::message::KnownType;
pub use lane::Lane;
pub use outline::{BlocksRead, Outline, OutlineFile, OutlineLane};
pub use recorder::{LaneId, Recorder, RecorderStats};
pub use recover::{Recovered, Torn};
pub use replay::{Replay, ReplayState, Run, RunMessage, Skipped};
pub use settings::RecorderSettings;
