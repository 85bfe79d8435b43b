//! Binds Unix sockets, and takes over the file of a socket that was left behind.
//!
//! A socket file stays when its process dies, and until a bound socket listens it looks the same.
//! So an engine that binds, takes over or removes one holds a lock from before the first look until
//! it is done. Without the lock the second of two starters could remove what the first has just
//! bound.
//!
//! The lock is that of an empty file beside the socket, `.NAME.olivine-lock`, which is removed with
//! it. Other programs do not take this lock: what they do at the same moment is not excluded.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata, TryLockError},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::sys::socket;

/// Pause between tries to get the lock, which is held for microseconds.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries before it is an error: 5 s. A process that is stopped may hold it for ever.
const TRIES: u32 = 1000;

/// A socket file that this process has bound.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    /// Device and inode.
    place: (u64, u64),
}

impl Bound {
    /// Removes the file, unless another one is there now. Call it while the socket is open: the
    /// file system gives its inode to no other file until then.
    pub(super) fn remove(&self) {
        // A file that stays is dead, and the next start takes it over.
        let Ok(_lock) = PathLock::take(&self.path) else {
            return;
        };
        if fs::symlink_metadata(&self.path).is_ok_and(|found| place(&found) == self.place) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a socket to `path` and listens; removes a socket there on which no process listens.
pub(super) fn listen(path: &Path, backlog: i32, mode: Option<u32>) -> io::Result<(OwnedFd, Bound)> {
    let _lock = PathLock::take(path)?;
    let socket = match socket::bind_unix(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_dead(path, error)?;
            socket::bind_unix(path)?
        }
        bound => bound?,
    };
    let prepare = || {
        if let Some(mode) = mode {
            // Before it listens, so that only allowed users can connect.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        let place = place(&fs::symlink_metadata(path)?);
        socket::listen_on(socket.as_fd(), backlog)?;
        Ok(Bound {
            path: path.to_owned(),
            place,
        })
    };
    match prepare() {
        Ok(bound) => Ok((socket, bound)),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

/// Removes a socket on which no process listens; `in_use` where there is another file, or a process
/// listens.
fn remove_dead(path: &Path, in_use: io::Error) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(in_use);
    }
    // With its queue full, a listener gives another error than a dead socket.
    match socket::try_unix(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(in_use),
    }
}

fn place(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// The lock of a path.
struct PathLock {
    path: PathBuf,
    /// Its descriptor has the lock.
    _file: File,
}

impl PathLock {
    fn take(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path of a Unix socket ends in a name",
            ));
        };
        let mut lock = OsString::from(".");
        lock.push(name);
        lock.push(".olivine-lock");
        let lock = path.with_file_name(lock);
        Self::of(&lock).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("lock file {}: {error}", lock.display()),
            )
        })
    }

    fn of(path: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let file = socket::lock_file(path)?;
            match file.try_lock() {
                // Its last owner may have removed it meanwhile: then the next one makes another.
                Ok(()) if is_at(&file, path) => {
                    return Ok(Self {
                        path: path.to_owned(),
                        _file: file,
                    });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => pause(),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program has it for 5 s; end that program, which is starting or stopping a \
             listener",
        ))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no event says that the lock is free, and a blocking call has no bound"
)]
fn pause() {
    thread::sleep(PAUSE);
}

fn is_at(file: &File, path: &Path) -> bool {
    let (ours, there) = (file.metadata(), fs::symlink_metadata(path));
    matches!((ours, there), (Ok(ours), Ok(there)) if place(&ours) == place(&there))
}

impl Drop for PathLock {
    fn drop(&mut self) {
        // While it is locked: a process that opened it before sees that it is gone.
        let _ = fs::remove_file(&self.path);
    }
}
