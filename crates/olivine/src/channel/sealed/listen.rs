//! The socket of a publisher: made under a free path, taken over from a dead publisher, removed at
//! the end.

use crate::error::{OpenError, SealedError};
use crate::fork::ClosedInChildren;
use crate::liveness::Peer;
use crate::segment::{Sharing, group_shown};
use crate::uri::Config;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, listen,
    socket_with,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 64;
/// Tries to remove a dead publisher's socket while others do the same.
const ROUNDS: u32 = 100;

/// A listening socket. Dropping it removes its path.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ClosedInChildren,
    path: PathBuf,
    /// Device and inode of the path as long as it is ours.
    made: (u64, u64),
}

/// A new socket, not connected. It keeps datagrams apart and never blocks.
pub(super) fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Turns the error of a system call into a [`SealedError`].
pub(super) fn refused<'a>(
    action: &'static str,
    socket: &'a Path,
) -> impl Fn(Errno) -> SealedError + 'a {
    move |errno| SealedError::Io {
        action,
        socket: socket.to_owned(),
        source: errno.into(),
    }
}

impl Listener {
    /// Listens at the path of `config`, with its permissions.
    ///
    /// # Errors
    ///
    /// [`SealedError::InUse`], [`SealedError::NotASocket`], or the error of the system. Nothing is
    /// left behind.
    pub(super) fn bind(config: &Config, path: &Path) -> Result<Self, OpenError> {
        let sharing = Sharing::of(config)?;
        // First under a temporary name: no subscriber connects before the permissions are set.
        let temporary = unused_name(path, '.');
        let io = |action| refused(action, path);
        let socket = new_socket().map_err(io("make"))?;
        // `bind` makes the name with these bits, less those that the umask forbids.
        let mode = Mode::from_raw_mode(sharing.file_mode());
        rustix::fs::fchmod(&socket, mode).map_err(io("protect"))?;
        let address = SocketAddrUnix::new(&temporary).map_err(io("name"))?;
        rustix::net::bind(&socket, &address).map_err(io("make"))?;
        let done = apply_sharing(&temporary, &sharing, path).and_then(|made| {
            listen(&socket, BACKLOG).map_err(io("listen at"))?;
            link_into_place(&temporary, path)?;
            Ok(made)
        });
        // After a success the final name leads to the same socket.
        let _ = rustix::fs::unlink(&temporary);
        Ok(Self {
            made: done?,
            socket: ClosedInChildren::new(socket),
            path: path.to_owned(),
        })
    }

    /// The next connection in the queue, if there is one.
    ///
    /// # Errors
    ///
    /// The error of the system: no descriptors, no memory.
    pub(super) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match accept_with(self.socket.borrow(), flags) {
                Ok(connection) => return Ok(Some(connection)),
                Err(Errno::AGAIN) => return Ok(None),
                // The peer gave up while it was queued.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// For `poll`.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.borrow()
    }

    /// The path where it listens.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let found = rustix::fs::lstat(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.made) {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

#[allow(clippy::useless_conversion, reason = "widths differ by target")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev.into(), stat.st_ino.into())
}

/// An unused name in the same folder. `mark` tells names apart that a thread uses at one time, the
/// thread's number those of threads, and the time those of other process number spaces.
fn unused_name(path: &Path, mark: char) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    let nanos = crate::clock::monotonic_ns() & 0xff_ffff;
    let thread = rustix::thread::gettid().as_raw_nonzero();
    name.push(format!(".{thread:x}{mark}{nanos:x}"));
    name.into()
}

/// Sets mode and group of a new socket independently of the umask. Returns the device and inode of
/// its name.
fn apply_sharing(
    temporary: &Path,
    sharing: &Sharing,
    path: &Path,
) -> Result<(u64, u64), SealedError> {
    let io = |action| refused(action, path);
    // By descriptor, not by name: no other process can replace it in between.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(temporary, flags, Mode::empty()).map_err(io("look at"))?;
    let stat = rustix::fs::fstat(&file).map_err(io("look at"))?;
    if let Some(group) = sharing.group() {
        let id = Some(rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(&file, "", None, id, AtFlags::EMPTY_PATH).map_err(|errno| {
            SealedError::Group {
                group: group_shown(group),
                socket: path.to_owned(),
                source: errno.into(),
            }
        })?;
    }
    let mode = Mode::from_raw_mode(sharing.file_mode());
    if Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777) != mode {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::chmod(name, mode).map_err(io("protect"))?;
    }
    Ok(identity(&stat))
}

/// Gives the socket its name, unless a living publisher has it.
fn link_into_place(temporary: &Path, path: &Path) -> Result<(), SealedError> {
    let io = |action| refused(action, path);
    for _ in 0..ROUNDS {
        match rustix::fs::linkat(CWD, temporary, CWD, path, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => remove_dead_socket(path)?,
            Err(errno) => return Err(io("make")(errno)),
        }
    }
    Err(io("take over")(Errno::BUSY))
}

/// Removes the socket of a dead publisher.
fn remove_dead_socket(path: &Path) -> Result<(), SealedError> {
    let found = match rustix::fs::lstat(path) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(refused("look at", path)(errno)),
    };
    let not_ours = |problem| SealedError::NotASocket {
        socket: path.to_owned(),
        problem,
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => {}
        FileType::Symlink => return Err(not_ours("a symbolic link")),
        FileType::Directory => return Err(not_ours("a folder")),
        _ => return Err(not_ours("a file of another kind")),
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(not_ours("the socket of another user"));
    }
    refuse_if_served(path, path)?;
    // Rename it first: if another publisher has put a new socket there meanwhile, it gets the name
    // back.
    let moved = unused_name(path, '-');
    match rustix::fs::rename(path, &moved) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(refused("take over", path)(errno)),
    }
    let outcome = refuse_if_served(&moved, path);
    if outcome.is_err() {
        // If a third publisher took the name in between, it keeps the name, and this socket stays
        // without one.
        let _ = rustix::fs::linkat(CWD, &moved, CWD, path, AtFlags::empty());
    }
    let _ = rustix::fs::unlink(&moved);
    outcome
}

/// Refuses if a process listens at `place`.
fn refuse_if_served(place: &Path, path: &Path) -> Result<(), SealedError> {
    let io = |action| refused(action, path);
    let socket = new_socket().map_err(io("make"))?;
    let address = SocketAddrUnix::new(place).map_err(io("name"))?;
    let pid = match connect(&socket, &address) {
        Ok(()) => Peer::of(socket.as_fd()).map_or(0, |peer| peer.pid),
        // Its queue is full, or it is of another kind: its owner lives.
        Err(Errno::AGAIN | Errno::PROTOTYPE) => 0,
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(io("look at")(errno)),
    };
    Err(SealedError::InUse {
        socket: path.to_owned(),
        pid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn unused_names_of_threads_differ_also_at_one_time() {
        let names = || {
            let name = |_| unused_name(Path::new("x"), '.');
            (0..50_000).map(name).collect::<HashSet<_>>()
        };
        let other = std::thread::spawn(names);
        let mine = names();
        assert_eq!(mine.intersection(&other.join().unwrap()).next(), None);
        assert_ne!(
            unused_name(Path::new("x"), '-').to_str().unwrap().find('-'),
            None
        );
    }
}
