//! Syncs a file on a separate thread, while the next block is collected and written.

use crate::error::JournalError;
use crate::fork::ClosedInChildren;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// A thread that syncs one file at a time.
#[derive(Debug)]
pub(super) struct Syncer {
    /// `None` when the thread is to end.
    files: Option<Sender<ClosedInChildren>>,
    outcomes: Receiver<Result<(), Errno>>,
    /// Readable when a result is there.
    done: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread; errors name `path`.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if the system has no descriptor or thread left.
    pub(super) fn start(path: &Path) -> Result<Self, JournalError> {
        Self::start_with(path, |file| rustix::fs::fdatasync(file))
    }

    /// As [`Syncer::start`], with another way to sync, for tests of disks that fail.
    pub(super) fn start_with(
        path: &Path,
        mut sync: impl FnMut(BorrowedFd<'_>) -> Result<(), Errno> + Send + 'static,
    ) -> Result<Self, JournalError> {
        let refused = |source: io::Error| JournalError::Io {
            action: "start a thread for",
            path: path.to_owned(),
            source,
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let done = eventfd(0, flags).map_err(|errno| refused(errno.into()))?;
        let tell = done.try_clone().map_err(refused)?;
        let (files, taken) = channel::<ClosedInChildren>();
        let (told, outcomes) = channel();
        let thread = std::thread::Builder::new()
            .name("olivine-sync".into())
            .spawn(move || {
                for file in taken {
                    let outcome = sync(file.borrow());
                    // The file's lock ends with its last descriptor: drop it before the result is
                    // sent.
                    drop(file);
                    // The receiver is gone only while the recorder is being dropped.
                    let _ = told.send(outcome);
                    let _ = rustix::io::write(&tell, &1_u64.to_ne_bytes());
                }
            })
            .map_err(refused)?;
        Ok(Self {
            files: Some(files),
            outcomes,
            done,
            thread: Some(thread),
        })
    }

    /// Starts a sync; fetch its result before the next one.
    pub(super) fn begin(&self, file: ClosedInChildren) {
        // The thread ends only after this sender is dropped.
        let _ = self.files.as_ref().map(|files| files.send(file));
    }

    /// The result of the sync, if it is there.
    pub(super) fn outcome(&self) -> Option<Result<(), Errno>> {
        match self.outcomes.try_recv() {
            Ok(outcome) => {
                // Clears the descriptor. An empty read means that it was cleared before.
                let _ = rustix::io::read(&self.done, &mut [0; 8]);
                Some(outcome)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Errno::IO)),
        }
    }

    /// Waits for the result of the sync.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        let outcome = self.outcomes.recv().unwrap_or(Err(Errno::IO));
        let _ = rustix::io::read(&self.done, &mut [0; 8]);
        outcome
    }
}

impl AsFd for Syncer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.files = None;
        if let Some(thread) = self.thread.take() {
            // The thread has no code that panics; a sync in progress is done when it ends.
            let _ = thread.join();
        }
    }
}
