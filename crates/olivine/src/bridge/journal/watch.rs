//! Sleeping until the files of a folder change.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Longest sleep if the system cannot report changes.
const BLIND_NAP: Duration = Duration::from_millis(20);
/// Longest sleep if it can: network file systems report only changes of this machine.
const NAP: Duration = Duration::from_millis(200);

/// Reports when files in a folder are created or written.
#[derive(Debug)]
pub(super) struct Watch {
    /// `None` if the system provides none.
    inotify: Option<OwnedFd>,
}

impl Watch {
    pub(super) fn new(folder: &Path) -> Self {
        let made = || -> Result<OwnedFd, Errno> {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
            inotify::add_watch(&inotify, folder, what)?;
            Ok(inotify)
        };
        Self {
            inotify: made().ok(),
        }
    }

    /// Sleeps until a change since the last call, or until `wake` is readable, at most for
    /// `timeout`.
    pub(super) fn wait(
        &mut self,
        timeout: Duration,
        wake: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let nap = if self.inotify.is_some() {
            NAP
        } else {
            BLIND_NAP
        };
        let nap = Timespec::try_from(timeout.min(nap)).map_err(io::Error::other)?;
        let mut waited: Vec<PollFd<'_>> = self
            .inotify
            .iter()
            .map(|inotify| PollFd::new(inotify, PollFlags::IN))
            .collect();
        waited.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        match poll(&mut waited, Some(&nap)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut told = [0; 4096];
        if let Some(inotify) = &self.inotify {
            while rustix::io::read(inotify, &mut told).is_ok_and(|bytes| bytes > 0) {}
        }
        Ok(())
    }
}
