//! The socket that a publisher serves: made where nobody serves yet, taken over from who died there, removed at the end.

use crate::error::{OpenError, SealedError};
use crate::fork::ClosedInChildren;
use crate::liveness::Peer;
use crate::segment::Sharing;
use crate::uri::Config;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, listen,
    socket_with,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;
/// How often a dead publisher's socket is taken away, while others do the same.
const ROUNDS: u32 = 100;

/// A socket that listens at a path, which goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ClosedInChildren,
    path: PathBuf,
    /// What the path leads to as long as it is ours.
    made: (u64, u64),
}

/// A socket of our kind, not connected yet: it keeps datagrams apart and never waits.
pub(super) fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Turns a system call's answer into an error.
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
    /// Listens at the path of `config`, with the permissions that it says.
    ///
    /// # Errors
    ///
    /// [`SealedError::InUse`], [`SealedError::NotASocket`], or what the system says. Nothing stays behind.
    pub(super) fn bind(config: &Config, path: &Path) -> Result<Self, OpenError> {
        let sharing = Sharing::of(config)?;
        // Under another name first: nobody connects before the permissions are as they should be.
        let temporary = beside(path);
        let io = |action| refused(action, path);
        let socket = new_socket().map_err(io("make"))?;
        // The name that bind makes takes these bits, less what the umask forbids.
        let mode = Mode::from_raw_mode(sharing.file_mode());
        rustix::fs::fchmod(&socket, mode).map_err(io("protect"))?;
        let address = SocketAddrUnix::new(&temporary).map_err(io("name"))?;
        rustix::net::bind(&socket, &address).map_err(io("make"))?;
        let done = share(&temporary, &sharing, path).and_then(|made| {
            listen(&socket, BACKLOG).map_err(io("listen at"))?;
            put_in_place(&temporary, path)?;
            Ok(made)
        });
        // After a success the name in place leads to the same socket.
        let _ = rustix::fs::unlink(&temporary);
        Ok(Self {
            made: done?,
            socket: ClosedInChildren::new(socket),
            path: path.to_owned(),
        })
    }

    /// The next connection that waits, if there is one.
    ///
    /// # Errors
    ///
    /// What the system says: no descriptors, no memory.
    pub(super) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match accept_with(self.socket.borrow(), flags) {
                Ok(connection) => return Ok(Some(connection)),
                Err(Errno::AGAIN) => return Ok(None),
                // Somebody who gave up before it was their turn.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// For `poll`.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.borrow()
    }

    /// Where it listens.
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

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    let nanos = crate::clock::monotonic_ns() & 0xff_ffff;
    name.push(format!(".{:x}.{nanos:x}", std::process::id()));
    name.into()
}

/// Sets mode and group of a socket just made, whatever the umask was; what its name leads to.
fn share(temporary: &Path, sharing: &Sharing, path: &Path) -> Result<(u64, u64), SealedError> {
    let io = |action| refused(action, path);
    // The descriptor, not the name: nobody can put something else in its place.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(temporary, flags, Mode::empty()).map_err(io("look at"))?;
    let stat = rustix::fs::fstat(&file).map_err(io("look at"))?;
    if let Some(group) = sharing.group() {
        let group = rustix::fs::Gid::from_raw(group);
        rustix::fs::chownat(&file, "", None, Some(group), AtFlags::EMPTY_PATH)
            .map_err(io("give to the group that 'group=' names"))?;
    }
    let mode = Mode::from_raw_mode(sharing.file_mode());
    if Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777) != mode {
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::chmod(name, mode).map_err(io("protect"))?;
    }
    Ok(identity(&stat))
}

/// Gives the socket its name, unless a publisher that lives has it.
fn put_in_place(temporary: &Path, path: &Path) -> Result<(), SealedError> {
    let io = |action| refused(action, path);
    for _ in 0..ROUNDS {
        match rustix::fs::linkat(CWD, temporary, CWD, path, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => take_away_dead(path)?,
            Err(errno) => return Err(io("make")(errno)),
        }
    }
    Err(io("take over")(Errno::BUSY))
}

/// Removes the socket of a publisher that died.
fn take_away_dead(path: &Path) -> Result<(), SealedError> {
    let found = match rustix::fs::lstat(path) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(refused("look at", path)(errno)),
    };
    let strange = |problem| SealedError::NotASocket {
        socket: path.to_owned(),
        problem,
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => {}
        FileType::Symlink => return Err(strange("a symbolic link")),
        FileType::Directory => return Err(strange("a folder")),
        _ => return Err(strange("a file of another kind")),
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(strange("the socket of another user"));
    }
    refuse_if_served(path, path)?;
    // By another name first: whoever has put a new one in its place meanwhile gets it back.
    let aside = beside(path);
    match rustix::fs::rename(path, &aside) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(refused("take over", path)(errno)),
    }
    let outcome = refuse_if_served(&aside, path);
    if outcome.is_err() {
        // If a third one came in between, it has the name, and this one is served under none.
        let _ = rustix::fs::linkat(CWD, &aside, CWD, path, AtFlags::empty());
    }
    let _ = rustix::fs::unlink(&aside);
    outcome
}

/// Whether somebody listens at `place`.
fn refuse_if_served(place: &Path, path: &Path) -> Result<(), SealedError> {
    let io = |action| refused(action, path);
    let socket = new_socket().map_err(io("make"))?;
    let address = SocketAddrUnix::new(place).map_err(io("name"))?;
    let pid = match connect(&socket, &address) {
        Ok(()) => Peer::of(socket.as_fd()).map_or(0, |peer| peer.pid),
        // Its queue is full, or it is of another kind: it lives.
        Err(Errno::AGAIN | Errno::PROTOTYPE) => 0,
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(io("look at")(errno)),
    };
    Err(SealedError::InUse {
        socket: path.to_owned(),
        pid,
    })
}
