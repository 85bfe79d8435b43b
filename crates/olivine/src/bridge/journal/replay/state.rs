//! What follows the last run: a recorder at work, an end, or damage.

use super::Replay;
use crate::bridge::journal::format::Sealed;
use crate::bridge::journal::recover::Torn;
use crate::bridge::journal::term;
use crate::error::JournalError;
use std::path::PathBuf;

/// What follows the last run that could be returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayState {
    /// A recorder is active: more may come.
    Growing,
    /// No recorder is active, and the journal ends with a whole block. `is_sealed` if it was closed
    /// in order; otherwise its recorder died between two blocks, or the file was cut exactly there.
    Ended {
        /// Whether the last file ends with its index.
        is_sealed: bool,
    },
    /// No recorder is active, and the last one failed and said why. Nothing behind the last run was
    /// recorded.
    Failed {
        /// Why: one line of text, as that recorder wrote it. It may be empty.
        reason: String,
    },
    /// No recorder is active, and the last file says that the journal continues in a next one. That
    /// file was removed, or its recorder was killed before it had created it.
    NextMissing {
        /// Path of the missing file.
        path: PathBuf,
    },
    /// No recorder is active, and the last block is not whole: the recorder died, or the power
    /// failed, during a write. Nothing of it was returned.
    Torn(Torn),
}

impl Replay {
    /// What follows the last run. Meaningful after [`Replay::next_run`] returned `None`.
    #[must_use]
    pub fn state(&self) -> ReplayState {
        // If the system cannot tell, the recorder counts as active.
        let grows = self.may_grow().unwrap_or(true);
        crate::points::look("journal.looked");
        if grows {
            return ReplayState::Growing;
        }
        match (&self.torn, self.walk.sealed) {
            (Some(torn), _) => ReplayState::Torn(torn.clone()),
            (None, Sealed::GoesOn) => ReplayState::NextMissing {
                path: self.next_path(),
            },
            (None, sealed) => match self.walk.failure.clone() {
                Some(reason) => ReplayState::Failed { reason },
                None => ReplayState::Ended {
                    is_sealed: sealed == Sealed::Closed,
                },
            },
        }
    }

    /// Whether the recording was finished: its last file ends with its index, every block before
    /// that is whole, and no recorder is active. Meaningful after [`Replay::next_run`] returned
    /// `None`. Call that once more to find what was recorded in the meantime.
    ///
    /// # Errors
    ///
    /// [`JournalError::Unfinished`], [`JournalError::Failed`].
    pub fn check_finished(&self) -> Result<(), JournalError> {
        self.check_ended(self.state())
    }

    /// As [`Replay::check_finished`]; `false` while a recorder is active: it continues what was
    /// unfinished.
    pub(in crate::bridge::journal) fn is_finished(&self) -> Result<bool, JournalError> {
        // One look: a recorder may come or leave between two.
        match self.state() {
            ReplayState::Growing => Ok(false),
            state => self.check_ended(state).map(|()| true),
        }
    }

    fn check_ended(&self, state: ReplayState) -> Result<(), JournalError> {
        let (path, offset, problem) = match state {
            ReplayState::Ended { is_sealed: true } => return Ok(()),
            ReplayState::Failed { reason } => {
                return Err(JournalError::Failed {
                    path: self.walk.source.path.clone(),
                    position: self.walk.position,
                    reason,
                });
            }
            ReplayState::Growing => {
                let path = self.walk.source.path.clone();
                (path, self.walk.offset, "a recorder is at work".to_owned())
            }
            ReplayState::Ended { is_sealed: false } => {
                let path = self.walk.source.path.clone();
                (path, self.walk.offset, "no index follows".to_owned())
            }
            ReplayState::Torn(torn) => {
                let problem = format!("the last {} bytes are not a whole block", torn.bytes);
                (torn.path, torn.offset, problem)
            }
            ReplayState::NextMissing { path } => {
                let problem = format!("the next file {} is missing", path.display());
                (self.walk.source.path.clone(), self.walk.offset, problem)
            }
        };
        Err(JournalError::Unfinished {
            path,
            offset,
            position: self.walk.position,
            problem,
        })
    }

    fn next_path(&self) -> PathBuf {
        term::path_of(&self.base, self.walk.source.header.term.get() + 1)
    }

    /// Whether a recorder is active on this file, or has begun the next one.
    fn may_grow(&self) -> Result<bool, JournalError> {
        // In this order: a recorder creates the next file before it releases this one.
        Ok(term::is_recorded_into(&self.walk.source.path)? || self.next_path().exists())
    }

    /// Whether a recorder is active on any file of the journal.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn is_recorded_into(&self) -> Result<bool, JournalError> {
        let newest = term::list(&self.base)?.last().copied().unwrap_or(0);
        term::is_recorded_into(&term::path_of(&self.base, newest))
    }
}
