//! The meeting point of the two ends of a method, and the list of objects to remove.
//!
//! A folder has a socket, the *rendezvous*, through which the two ends exchange lines and
//! descriptors while they are opened. Kernel objects that outlive their users are added to the
//! folder's list when they are created. The surviving side removes them: the coordinator at its
//! end; a participant if the coordinator is killed; the next measurement if all are killed.

mod objects;

pub use objects::{Object, remove};

use crate::error::{ArenaError, Result, io};
use crate::protocol::Side;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::{File, Permissions};
use std::io::ErrorKind::{ConnectionRefused, NotFound};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefix of the names of our folders.
const PREFIX: &str = "olivine-bench-";
/// Access to a folder: this user's only.
const ONLY_OURS: u32 = 0o700;
/// Longest wait for a line or a descriptor.
const WAIT: Duration = Duration::from_secs(5);
/// Time between two tries of the server to enter.
const LOOK: Duration = Duration::from_micros(200);
/// Longest line through the rendezvous, in bytes.
const LINE_MAX: usize = 4096;

const SOCKET: &str = "socket";

/// A folder that the next measurement removes if this process is killed. Dropping it removes
/// everything.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    /// Locked as long as this process lives: a folder with a free lock is a leftover.
    _lock: File,
}

impl Held {
    /// Creates a folder in `base`, after removing leftovers of killed processes with names of this
    /// `prefix`.
    ///
    /// # Errors
    ///
    /// System errors.
    pub fn make(base: &Path, prefix: &str) -> Result<Self> {
        objects::sweep(base, prefix);
        loop {
            let path = tempfile::Builder::new()
                .prefix(prefix)
                .permissions(Permissions::from_mode(ONLY_OURS))
                .tempdir_in(base)
                .map_err(io("make a temporary folder"))?
                .keep();
            let lock = File::create(path.join(objects::LOCK)).map_err(io("make a lock file"))?;
            flock(&lock, FlockOperation::LockExclusive)
                .map_err(|error| io("lock a file")(error.into()))?;
            // A concurrent sweep may have taken it for a leftover.
            if path.join(objects::LOCK).exists() {
                objects::begin(&path)?;
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The folder of POSIX shared memory.
#[must_use]
pub fn memory_folder() -> &'static Path {
    Path::new("/dev/shm")
}

/// Base of the folders: the folder of channels if one is set, else shared memory, if there is such
/// a file system.
fn base() -> PathBuf {
    let set = std::env::var_os("OLIVINE_DIR").map(PathBuf::from);
    let memory = Some(PathBuf::from("/dev/shm"));
    let found = [set, memory]
        .into_iter()
        .flatten()
        .find(|path| path.is_dir());
    found.unwrap_or_else(std::env::temp_dir)
}

/// Creates a folder for two ends, after removing leftovers of killed measurements. Dropping it
/// removes everything.
///
/// # Errors
///
/// System errors.
pub fn meeting_folder() -> Result<Held> {
    Held::make(&base(), PREFIX)
}

/// Waits until something can be read or accepted.
///
/// # Errors
///
/// [`ArenaError::PeerSilent`] after 5 s; system errors.
pub fn await_readable(what: &impl AsFd) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut entries = [PollFd::new(what, PollFlags::IN)];
    let begun = Instant::now();
    loop {
        let left = WAIT.saturating_sub(begun.elapsed());
        let limit = Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        return match poll(&mut entries, Some(&limit)) {
            Ok(1..) => Ok(()),
            Ok(0) => Err(silent()),
            // The request to stop is checked between two waits.
            Err(Errno::INTR) => continue,
            Err(error) => Err(io("wait for the other end")(error.into())),
        };
    }
}

fn silent() -> ArenaError {
    ArenaError::PeerSilent {
        seconds: WAIT.as_secs(),
    }
}

/// An error of a rendezvous: its other side is gone, or a system error of `action`.
fn ended_or(action: &'static str) -> impl Fn(std::io::Error) -> ArenaError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    move |error| match error.kind() {
        BrokenPipe | ConnectionReset => ArenaError::EndClosed,
        _ => io(action)(error),
    }
}

/// One side's connection to the other while they open their ends, made when it is first used.
#[derive(Debug)]
pub struct Rendezvous {
    side: Side,
    folder: PathBuf,
    streamed: bool,
    stream: Option<UnixStream>,
}

/// The client's end: it waits for the server.
fn welcome(folder: &Path) -> Result<UnixStream> {
    let path = folder.join(SOCKET);
    let listener =
        UnixListener::bind(&path).map_err(|source| ArenaError::Socket { path, source })?;
    await_readable(&listener)?;
    let (stream, _) = listener.accept().map_err(io("accept at the rendezvous"))?;
    Ok(stream)
}

/// The server's end: it comes as soon as the client listens.
fn enter(folder: &Path) -> Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(folder.join(SOCKET)) {
            Ok(stream) => return Ok(stream),
            Err(error) if !matches!(error.kind(), NotFound | ConnectionRefused) => {
                return Err(io("enter by the rendezvous")(error));
            }
            Err(_) if begun.elapsed() > WAIT => return Err(silent()),
            Err(_) => std::thread::park_timeout(LOOK),
        }
    }
}

impl Rendezvous {
    pub(crate) fn new(side: Side, folder: &Path, streamed: bool) -> Self {
        Self {
            side,
            folder: folder.to_path_buf(),
            streamed,
            stream: None,
        }
    }

    fn stream(&mut self) -> Result<&mut UnixStream> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let meet: fn(&Path) -> Result<UnixStream> = match self.side {
                    Side::Client => welcome,
                    Side::Server => enter,
                };
                let stream = meet(&self.folder)?;
                for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
                    set(&stream, Some(WAIT)).map_err(io("bound the waits at the rendezvous"))?;
                }
                stream
            }
        };
        Ok(self.stream.insert(stream))
    }

    /// Whether messages will be streamed; else each one is answered, or sent when it is due. The
    /// settings of a library for the one are often not those for the other.
    #[must_use]
    pub fn streamed(&self) -> bool {
        self.streamed
    }

    /// A folder of both sides, removed after the measurement.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a kernel object that outlives its users to the list. Called before the other side knows
    /// it.
    ///
    /// # Errors
    ///
    /// System errors; the object is then removed.
    pub fn note(&self, object: &Object) -> Result<()> {
        objects::note(&self.folder, object)
    }

    /// Sends a line to the other side.
    ///
    /// # Errors
    ///
    /// [`ArenaError::EndClosed`] if the other side gave up; system errors.
    pub fn tell(&mut self, text: impl std::fmt::Display) -> Result<()> {
        let line = format!("{text}\n");
        self.stream()?
            .write_all(line.as_bytes())
            .map_err(ended_or("tell the other end"))
    }

    /// Waits for a line from the other side.
    ///
    /// # Errors
    ///
    /// [`ArenaError::PeerSilent`] after 5 s; [`ArenaError::EndClosed`] if the other side gave up.
    pub fn hear(&mut self) -> Result<String> {
        let stream = self.stream()?;
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte: after the line may come a descriptor, which a buffer cannot hold.
        while line.len() < LINE_MAX {
            match stream.read(&mut byte) {
                Ok(0) => return Err(ArenaError::EndClosed),
                Ok(_) if byte == *b"\n" => break,
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(silent());
                }
                Err(error) => return Err(ended_or("hear the other end")(error)),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Waits for a line that is a number.
    ///
    /// # Errors
    ///
    /// As [`Rendezvous::hear`]; [`ArenaError::Protocol`] for another line.
    pub fn hear_number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let found = self.hear()?;
        found.parse().map_err(|_| ArenaError::Protocol { found })
    }

    /// Sends a line to the other side and reads one from it.
    ///
    /// # Errors
    ///
    /// As [`Rendezvous::tell`] and [`Rendezvous::hear`].
    pub fn exchange(&mut self, text: impl std::fmt::Display) -> Result<String> {
        self.tell(text)?;
        self.hear()
    }

    /// Passes a descriptor to the other side.
    ///
    /// # Errors
    ///
    /// [`ArenaError::EndClosed`] if the other side gave up; system errors.
    pub fn give(&mut self, descriptor: impl AsFd) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let byte = [IoSlice::new(b"d")];
        sendmsg(self.stream()?, &byte, &mut control, SendFlags::empty())
            .map_err(|error| ended_or("give a descriptor")(error.into()))?;
        Ok(())
    }

    /// Receives a descriptor from the other side.
    ///
    /// # Errors
    ///
    /// As [`Rendezvous::hear`]; [`ArenaError::Protocol`] for anything else.
    pub fn take(&mut self) -> Result<OwnedFd> {
        let stream = self.stream()?;
        await_readable(stream)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut pieces = [IoSliceMut::new(&mut byte)];
        let got = recvmsg(stream, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| io("take a descriptor")(error.into()))?;
        if got.bytes == 0 {
            return Err(ArenaError::EndClosed);
        }
        let descriptors = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        descriptors.ok_or_else(|| ArenaError::Protocol {
            found: "a byte without a descriptor".to_owned(),
        })
    }

    /// A descriptor that both sides get: the client creates it, the server receives it.
    ///
    /// # Errors
    ///
    /// Errors of `make`; as [`Rendezvous::give`] and [`Rendezvous::take`].
    pub fn share<T: AsFd + From<OwnedFd>>(
        &mut self,
        side: Side,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match side {
            Side::Client => {
                let made = make()?;
                self.give(&made)?;
                Ok(made)
            }
            Side::Server => Ok(self.take()?.into()),
        }
    }

    /// A file of `length` zero bytes in `folder`, open on both sides. Its name is removed already.
    ///
    /// # Errors
    ///
    /// System errors; as [`Rendezvous::share`].
    pub fn share_file(&mut self, side: Side, folder: &Path, length: usize) -> Result<File> {
        let descriptor = self.share(side, || {
            let file = tempfile::tempfile_in(folder).map_err(io("make a shared file"))?;
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length as u64)
                .map_err(|error| io("reserve room for a shared file")(error.into()))?;
            Ok(OwnedFd::from(file))
        })?;
        Ok(descriptor.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_socket_is_reported_with_its_folder() {
        let bound = |path: PathBuf| {
            let source = UnixListener::bind(&path).unwrap_err();
            ArenaError::Socket { path, source }.to_string()
        };
        let missing = bound("/nonexistent/rendezvous".into());
        assert_eq!(missing, "cannot bind the socket /nonexistent/rendezvous");
        let long = Path::new("/tmp").join("x".repeat(120));
        let told = bound(long.clone());
        let advice = "whose 125 bytes are more than the 107 of a socket: set OLIVINE_DIR";
        assert!(
            told.contains(&long.display().to_string()) && told.contains(advice),
            "{told}"
        );
    }

    #[test]
    fn rendezvous_without_its_other_side_reports_it() {
        let rendezvous = || {
            let (stream, other) = UnixStream::pair().unwrap();
            // Unread data turns the end into a reset.
            (&stream).write_all(b"unread").unwrap();
            drop(other);
            Rendezvous {
                side: Side::Client,
                folder: PathBuf::new(),
                streamed: false,
                stream: Some(stream),
            }
        };
        let file = tempfile::tempfile().unwrap();
        for outcome in [
            rendezvous().tell("a line"),
            rendezvous().give(&file),
            rendezvous().hear().map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, ArenaError::EndClosed), "{error}");
        }
    }
}
