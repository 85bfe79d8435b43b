//! How a recording ends: in order, as failed, or by dropping the recorder.

use super::{Recorder, RecorderStats};
use crate::bridge::journal::format::Sealed;
use crate::bridge::journal::term;
use crate::error::JournalError;
use crate::uri::SyncPolicy;

/// What dropping a recorder does after it recorded what was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDrop {
    /// It closes the journal in order.
    Close,
    /// Only `close` does that. A finished recording before this one does not stay its end.
    Fail,
    /// As `Fail`, and the end stays as it is: the recording has not begun, or its end is written.
    Leave,
}

impl Recorder {
    /// Records everything, ends the file with its index, and releases the journal.
    ///
    /// # Errors
    ///
    /// As [`Recorder::flush`].
    pub fn close(mut self) -> Result<RecorderStats, JournalError> {
        self.finish()?;
        Ok(self.stats)
    }

    /// As [`Recorder::close`], but after `NoSpace` nothing is lost: call again.
    pub(in crate::bridge::journal) fn try_close(&mut self) -> Result<(), JournalError> {
        self.finish()
    }

    /// Records everything, marks the recording as failed, and releases the journal. Readers get
    /// `reason` behind the last message, in place of an end. It is cut to 480 bytes.
    ///
    /// # Errors
    ///
    /// As [`Recorder::flush`]. The recording is marked also after an error, if the disk takes it.
    pub fn close_failed(mut self, reason: &str) -> Result<RecorderStats, JournalError> {
        self.end_failed(reason)?;
        Ok(self.stats)
    }

    /// As [`Recorder::close_failed`].
    pub(in crate::bridge::journal) fn end_failed(
        &mut self,
        reason: &str,
    ) -> Result<(), JournalError> {
        let recorded = self.flush();
        if self.page.is_ours() {
            self.drop = OnDrop::Leave;
            self.write_failure(reason)?;
            if self.settings.sync != SyncPolicy::Never {
                // Nothing depends on the mark: it stays also if the disk refuses it.
                let _ = rustix::fs::fdatasync(self.descriptor()?);
            }
        }
        recorded
    }

    /// From now on only [`Recorder::close`] ends the file with its index. If the recorder is
    /// dropped without it, because its source failed, appended frames are recorded, and readers see
    /// an unfinished recording, or a failed one: [`Recorder::close_failed`] says why.
    pub fn finish_only_by_close(&mut self) {
        self.drop = OnDrop::Fail;
    }

    /// As [`Recorder::finish_only_by_close`], until the recording begins: dropped before, it leaves
    /// the journal as it was.
    pub(in crate::bridge::journal) fn finish_only_by_close_once_begun(&mut self) {
        self.drop = OnDrop::Leave;
    }

    fn finish(&mut self) -> Result<(), JournalError> {
        self.flush()?;
        self.seal(Sealed::Closed)?;
        if self.settings.sync != SyncPolicy::Never {
            self.sync()?;
        }
        self.drop = OnDrop::Leave;
        Ok(())
    }

    /// Records everything, and makes sure that no earlier end looks like that of this recording.
    fn end_unfinished(&mut self) -> Result<(), JournalError> {
        let recorded = self.flush();
        if self.unsynced {
            self.end_failed("the disk refused what was recorded last")
        } else if self.sealed == Sealed::Closed {
            self.end_failed("")
        } else {
            recorded
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !self.page.is_ours() {
            return;
        }
        // To get the result, call `close`.
        let _ = match self.drop {
            OnDrop::Leave => self.flush(),
            _ if std::thread::panicking() => self.end_failed("the thread of its recorder panicked"),
            OnDrop::Close => self.finish().or_else(|_| self.end_unfinished()),
            OnDrop::Fail => self.end_unfinished(),
        };
        // A close releases a lock only with the last descriptor, and a process that another thread
        // is starting has a copy until its `exec`.
        term::unlock(&self.locks);
    }
}
