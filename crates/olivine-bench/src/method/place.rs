//! Where the two ends of a method meet, and the list of what has to be taken away again.
//!
//! A [`Place`] is a folder with a socket, the *door*, through which the two processes exchange lines and
//! descriptors while they open their ends. Kernel objects that do not end with their users are noted in the
//! folder's list as soon as they exist. Whoever is left takes them away: the measuring process when it is done;
//! the second one if the first is killed; the next measurement if both are.

use super::Side;
use crate::error::{BenchError, Result, io};
use crate::sys::mapping::Mapping;
use crate::sys::queue::{Posix, SystemV};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How names of folders of ours start.
const PREFIX: &str = "olivine-bench-";
/// Longest wait for a line or a descriptor.
const WAIT: Duration = Duration::from_secs(5);
/// Longest line through the door, in bytes.
const LINE_MAX: usize = 4096;

const DOOR: &str = "door";
const LOCK: &str = "lock";
const LIST: &str = "objects";

/// A kernel object that does not end with its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// A System V queue.
    Queue(i32),
    /// A System V segment.
    Segment(i32),
    /// The name of a POSIX queue.
    PosixQueue(String),
    /// A file or folder outside this one.
    File(PathBuf),
}

impl Object {
    fn line(&self) -> String {
        match self {
            Self::Queue(id) => format!("queue {id}\n"),
            Self::Segment(id) => format!("segment {id}\n"),
            Self::PosixQueue(name) => format!("posix-queue {name}\n"),
            Self::File(path) => format!("file {}\n", path.display()),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (kind, name) = line.split_once(' ')?;
        match kind {
            "queue" => name.parse().ok().map(Self::Queue),
            "segment" => name.parse().ok().map(Self::Segment),
            "posix-queue" => Some(Self::PosixQueue(name.to_owned())),
            "file" => Some(Self::File(name.into())),
            _ => None,
        }
    }

    fn remove(&self) {
        match self {
            Self::Queue(id) => SystemV::remove(*id),
            Self::Segment(id) => Mapping::remove_segment(*id),
            Self::PosixQueue(name) => {
                if let Ok(name) = CString::new(name.as_str()) {
                    Posix::remove(&name);
                }
            }
            // Gone already is fine.
            Self::File(path) => {
                let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
            }
        }
    }
}

/// Removes what the list in `folder` names, and the folder. What is gone already is fine.
pub fn remove(folder: &Path) {
    let list = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    list.lines()
        .filter_map(Object::parse)
        .for_each(|object| object.remove());
    let _ = fs::remove_dir_all(folder);
}

/// A folder that the next one who makes one takes away if this process is killed. Dropping it takes everything away.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    /// Held as long as this process lives: a folder whose lock is free is left over.
    _lock: File,
}

impl Held {
    /// Makes a folder in `base`, after taking away what killed processes left there with names of this `prefix`.
    pub(crate) fn make(base: &Path, prefix: &str) -> Result<Self> {
        sweep(base, prefix);
        loop {
            let path = tempfile::Builder::new()
                .prefix(prefix)
                .tempdir_in(base)
                .map_err(io("make a temporary folder"))?
                .keep();
            let lock = File::create(path.join(LOCK)).map_err(io("make a lock file"))?;
            flock(&lock, FlockOperation::LockExclusive)
                .map_err(|error| io("lock a file")(error.into()))?;
            // Somebody who swept in between may have taken it for left over.
            if path.join(LOCK).exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The folder of one connection, held by the measuring process. Dropping it takes everything away.
#[derive(Debug)]
pub(crate) struct Place {
    folder: Held,
    listener: UnixListener,
}

/// Where folders are made: the folder of channels if one is set, else memory, where there is such a file system.
fn base() -> PathBuf {
    let set = std::env::var_os("OLIVINE_DIR").map(PathBuf::from);
    let memory = Some(PathBuf::from("/dev/shm"));
    let found = [set, memory]
        .into_iter()
        .flatten()
        .find(|path| path.is_dir());
    found.unwrap_or_else(std::env::temp_dir)
}

impl Place {
    /// Makes a folder with a door, after taking away what killed measurements left.
    pub(crate) fn make() -> Result<Self> {
        let folder = Held::make(&base(), PREFIX)?;
        let listener = UnixListener::bind(folder.path().join(DOOR))
            .map_err(io("bind a socket in /dev/shm"))?;
        Ok(Self { folder, listener })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits for the second process at the door.
    pub(crate) fn welcome(&self) -> Result<Door> {
        await_readable(&self.listener)?;
        let (stream, _) = self.listener.accept().map_err(io("accept at the door"))?;
        Door::of(stream, self.folder())
    }
}

/// Takes away folders whose owner is gone, with everything on their lists.
fn sweep(base: &Path, prefix: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let Some(lock) = is_ours
            .then(|| File::open(entry.path().join(LOCK)).ok())
            .flatten()
        else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&entry.path());
        }
    }
}

/// Waits until something can be read or accepted.
pub(crate) fn await_readable(what: &impl AsFd) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut entries = [PollFd::new(what, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: WAIT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    match poll(&mut entries, Some(&limit)) {
        Ok(1..) => Ok(()),
        Ok(0) => Err(silent()),
        Err(error) => Err(io("wait for the other end")(error.into())),
    }
}

fn silent() -> BenchError {
    BenchError::PeerSilent {
        seconds: WAIT.as_secs(),
    }
}

/// An error of a door: its other side is gone, or else what the system says to `action`.
fn ended_or(action: &'static str) -> impl Fn(std::io::Error) -> BenchError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    move |error| match error.kind() {
        BrokenPipe | ConnectionReset => BenchError::EndClosed,
        _ => io(action)(error),
    }
}

/// One side's connection to the other while they open their ends.
#[derive(Debug)]
pub struct Door {
    stream: UnixStream,
    folder: PathBuf,
}

impl Door {
    /// The second process's way in.
    pub(crate) fn enter(folder: &Path) -> Result<Self> {
        let stream = UnixStream::connect(folder.join(DOOR)).map_err(io("enter by the door"))?;
        Self::of(stream, folder)
    }

    fn of(stream: UnixStream, folder: &Path) -> Result<Self> {
        for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            set(&stream, Some(WAIT)).map_err(io("bound the waits at the door"))?;
        }
        Ok(Self {
            stream,
            folder: folder.to_path_buf(),
        })
    }

    /// The same connection once more, to be kept while the method is measured.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn again(&self) -> Result<Self> {
        let stream = self.stream.try_clone().map_err(io("keep the door open"))?;
        Self::of(stream, &self.folder)
    }

    /// A folder of both sides, removed after the measurement.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes a kernel object that does not end with its users. Called before the other side learns of it.
    ///
    /// # Errors
    ///
    /// What the system says; the object is removed then.
    pub(crate) fn note(&self, object: &Object) -> Result<()> {
        let list = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(LIST));
        let noted = list.and_then(|mut list| list.write_all(object.line().as_bytes()));
        if noted.is_err() {
            object.remove();
        }
        noted.map_err(io("note a kernel object"))
    }

    /// Sends a line to the other side.
    ///
    /// # Errors
    ///
    /// [`BenchError::EndClosed`] if the other side gave up; what the system says.
    pub fn tell(&mut self, text: impl std::fmt::Display) -> Result<()> {
        let line = format!("{text}\n");
        self.stream
            .write_all(line.as_bytes())
            .map_err(ended_or("tell the other end"))
    }

    /// Waits for a line from the other side.
    ///
    /// # Errors
    ///
    /// [`BenchError::PeerSilent`] after 5 s; [`BenchError::EndClosed`] if the other side gave up.
    pub fn hear(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        // Byte by byte: what follows the line may be a descriptor, which no buffer can hold.
        while line.len() < LINE_MAX {
            match self.stream.read(&mut byte) {
                Ok(0) => return Err(BenchError::EndClosed),
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
    /// As [`Door::hear`]; [`BenchError::Protocol`] if it is no such number.
    pub fn hear_number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let found = self.hear()?;
        found.parse().map_err(|_| BenchError::Protocol { found })
    }

    /// Tells the other side a line and hears one from it.
    ///
    /// # Errors
    ///
    /// As [`Door::tell`] and [`Door::hear`].
    pub fn exchange(&mut self, text: impl std::fmt::Display) -> Result<String> {
        self.tell(text)?;
        self.hear()
    }

    /// Gives the other side a descriptor.
    ///
    /// # Errors
    ///
    /// [`BenchError::EndClosed`] if the other side gave up; what the system says.
    pub fn give(&mut self, descriptor: impl AsFd) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let byte = [IoSlice::new(b"d")];
        sendmsg(&self.stream, &byte, &mut control, SendFlags::empty())
            .map_err(|error| ended_or("give a descriptor")(error.into()))?;
        Ok(())
    }

    /// Takes a descriptor that the other side gives.
    ///
    /// # Errors
    ///
    /// As [`Door::hear`]; [`BenchError::Protocol`] if something else came.
    pub fn take(&mut self) -> Result<OwnedFd> {
        await_readable(&self.stream)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut pieces = [IoSliceMut::new(&mut byte)];
        let got = recvmsg(
            &self.stream,
            &mut pieces,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
        .map_err(|error| io("take a descriptor")(error.into()))?;
        if got.bytes == 0 {
            return Err(BenchError::EndClosed);
        }
        let descriptors = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        descriptors.ok_or_else(|| BenchError::Protocol {
            found: "a byte without a descriptor".to_owned(),
        })
    }

    /// A descriptor that both sides have: the asking side makes it, the other one takes it.
    pub(crate) fn share<T: AsFd + From<OwnedFd>>(
        &mut self,
        side: Side,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match side {
            Side::Asks => {
                let made = make()?;
                self.give(&made)?;
                Ok(made)
            }
            Side::Answers => Ok(self.take()?.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_survive_the_list() {
        for object in [
            Object::Queue(7),
            Object::Segment(-3),
            Object::PosixQueue("/name".into()),
            Object::File("/tmp/a b".into()),
        ] {
            assert_eq!(Object::parse(object.line().trim_end()), Some(object));
        }
        assert_eq!(Object::parse("nonsense"), None);
    }

    #[test]
    fn a_door_whose_other_side_is_gone_says_so_whatever_is_done() {
        let door = || {
            let (stream, other) = UnixStream::pair().unwrap();
            // What was not read makes the end a reset.
            (&stream).write_all(b"unread").unwrap();
            drop(other);
            Door {
                stream,
                folder: PathBuf::new(),
            }
        };
        let file = tempfile::tempfile().unwrap();
        for outcome in [
            door().tell("a line"),
            door().give(&file),
            door().hear().map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, BenchError::EndClosed), "{error}");
        }
    }

    #[test]
    fn what_a_killed_measurement_left_is_swept_and_what_is_in_use_stays() {
        let base = tempfile::tempdir().unwrap();
        let victim = tempfile::NamedTempFile::new().unwrap().keep().unwrap().1;
        let folder = |name: &str| {
            let folder = base.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&folder).unwrap();
            let lock = File::create(folder.join(LOCK)).unwrap();
            (folder, lock)
        };
        let (left, lock) = folder("left");
        drop(lock);
        let id = SystemV::make().unwrap();
        let list: String = [Object::File(victim.clone()), Object::Queue(id)]
            .iter()
            .map(Object::line)
            .collect();
        fs::write(left.join(LIST), list).unwrap();
        let (used, lock) = folder("used");
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        sweep(base.path(), PREFIX);
        assert!(!left.exists() && !victim.exists());
        assert!(
            SystemV::open(id, 8).send().is_err(),
            "the queue is still there"
        );
        assert!(used.exists());
    }
}
