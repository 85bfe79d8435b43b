//! The files of a journal: their names, their creation, and opening them for reading.

use super::format::{BLOCK_BYTES, BlockHeader, TERM_BYTES, TermHeader};
use crate::error::JournalError;
use crate::liveness::{self, Locks};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// The recorder locks this byte of a journal's newest file. Nothing is stored there.
const LOCK_BYTE: u64 = 1 << 40;
/// Fewest digits in the name of a file after the first.
const DIGITS: usize = 6;

#[cfg(test)]
thread_local! {
    /// Folder listings by this thread.
    pub(super) static LISTINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// Bodies of blocks that it read.
    pub(super) static BODIES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Converts a system error into an error with the action and the file.
pub(super) fn refused<'a, E: Into<io::Error>>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(E) -> JournalError + 'a {
    move |source| JournalError::Io {
        action,
        path: path.to_owned(),
        source: source.into(),
    }
}

/// Like [`refused`], for the creation of a new file of a journal. A full disk is not fatal then:
/// the journal is unchanged, and the file can be created later.
fn not_made<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(Errno) -> JournalError + 'a {
    move |errno| match errno {
        Errno::NOSPC | Errno::DQUOT => JournalError::NoSpace {
            path: path.to_owned(),
            need_bytes: TERM_BYTES,
            source: errno.into(),
        },
        errno => refused(action, path)(errno),
    }
}

/// Path of file `term` of the journal at `base`: `ticks.olv`, `ticks.olv.000001`, …
pub(super) fn path_of(base: &Path, term: u64) -> PathBuf {
    if term == 0 {
        return base.to_owned();
    }
    let mut name = base.as_os_str().to_owned();
    name.push(format!(".{term:0DIGITS$}"));
    name.into()
}

/// Folder of the journal at `base`.
pub(super) fn folder_of(base: &Path) -> &Path {
    base.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

/// Numbers of the files of the journal at `base`, oldest first.
///
/// A listing is not atomic: it may miss a file that is created at the same time, and still contain
/// later ones.
pub(super) fn list(base: &Path) -> Result<Vec<u64>, JournalError> {
    #[cfg(test)]
    LISTINGS.with(|count| count.set(count.get() + 1));
    let folder = folder_of(base);
    let name = base.file_name().unwrap_or_default().as_encoded_bytes();
    let files = match std::fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused("list", folder)(error)),
    };
    let mut terms = Vec::new();
    for file in files {
        let file = file.map_err(refused("list", folder))?.file_name();
        let Some(rest) = file.as_encoded_bytes().strip_prefix(name) else {
            continue;
        };
        if rest.is_empty() {
            terms.push(0);
        }
        let number = rest
            .strip_prefix(b".")
            .filter(|digits| digits.len() >= DIGITS && digits.iter().all(u8::is_ascii_digit))
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        // Only the exact form: `.0000001` would be a second name of file 1.
        terms.extend(
            number.filter(|term| *term > 0 && path_of(base, *term).file_name() == Some(&file)),
        );
    }
    terms.sort_unstable();
    Ok(terms)
}

/// Locks `file` for its recorder; `None` if it is locked already.
pub(super) fn lock(file: OwnedFd, path: &Path) -> Result<Option<Locks>, JournalError> {
    let locks = Locks::file(file).map_err(refused("open", path))?;
    let ours = locks.try_lock(LOCK_BYTE).map_err(refused("lock", path))?;
    Ok(ours.then_some(locks))
}

/// Releases the recorder's lock.
pub(super) fn unlock(locks: &Locks) {
    locks.unlock(LOCK_BYTE);
}

/// Whether a recorder is active on the file at `path`, a journal's newest.
pub(super) fn is_recorded_into(path: &Path) -> Result<bool, JournalError> {
    let Some(file) = open(path, false)? else {
        return Ok(false);
    };
    Ok(liveness::is_locked(
        file.as_raw_fd(),
        LOCK_BYTE,
        LOCK_BYTE + 1,
    ))
}

/// The descriptor to write with: it holds the lock.
pub(super) fn descriptor(locks: &Locks) -> Option<BorrowedFd<'_>> {
    match locks {
        Locks::File(lock) => Some(lock.as_fd()),
        Locks::Process(_) => None,
    }
}

/// Creates the file `term` with `header`. It is locked before it is visible, and never visible in
/// part. `None` if another process was first.
pub(super) fn create(
    base: &Path,
    header: &TermHeader,
    mode: u32,
    sync: bool,
) -> Result<Option<Locks>, JournalError> {
    let path = path_of(base, header.term.get());
    let bits = Mode::from_raw_mode(mode);
    let (file, temporary) = unseen(&path, bits)?;
    let linked = fill_and_link(file, temporary.as_deref(), &path, header, bits, sync);
    if let Some(temporary) = temporary {
        // By now its content has the final name, or none.
        let _ = rustix::fs::unlink(&temporary);
    }
    linked
}

/// Whether a first file could be created now. Makes none that another process sees.
pub(super) fn check_creation(base: &Path, mode: u32) -> Result<(), JournalError> {
    let (_, temporary) = unseen(&path_of(base, 0), Mode::from_raw_mode(mode))?;
    if let Some(temporary) = temporary {
        let _ = rustix::fs::unlink(&temporary);
    }
    Ok(())
}

/// An empty file for `path`, and its name, if it has one: it is not `path`, and no reader looks for
/// it.
fn unseen(path: &Path, bits: Mode) -> Result<(OwnedFd, Option<PathBuf>), JournalError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(match rustix::fs::open(folder_of(path), flags, bits) {
        // `/proc` gives an unnamed file its name.
        Ok(file) if Path::new("/proc/self/fd").exists() => (file, None),
        // A file system without unnamed files.
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(
                ".new-{}",
                rustix::process::getpid().as_raw_nonzero()
            ));
            let flags =
                OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::open(&name, flags, bits).map_err(not_made("create", path))?;
            (file, Some(PathBuf::from(name)))
        }
        Err(errno) => return Err(not_made("create", path)(errno)),
    })
}

fn fill_and_link(
    file: OwnedFd,
    temporary: Option<&Path>,
    path: &Path,
    header: &TermHeader,
    mode: Mode,
    sync: bool,
) -> Result<Option<Locks>, JournalError> {
    // Independent of the umask.
    rustix::fs::fchmod(&file, mode).map_err(refused("set the mode of", path))?;
    let Some(locks) = lock(file, path)? else {
        return Ok(None);
    };
    let Some(file) = descriptor(&locks) else {
        return Ok(None);
    };
    let source = temporary.map_or_else(
        || format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
        Path::to_owned,
    );
    write_at(file, &mut [io::IoSlice::new(header.as_bytes())], 0, path)?;
    if sync {
        rustix::fs::fdatasync(file).map_err(not_made("force to the disk", path))?;
    }
    match rustix::fs::linkat(CWD, &source, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(not_made("create", path)(errno)),
    }
    if sync && let Err(error) = sync_folder(path) {
        // It is still locked, so it is unused; the next attempt must not find it.
        let _ = rustix::fs::unlink(path);
        return Err(error);
    }
    Ok(Some(locks))
}

/// Syncs the name of a new file to the disk.
pub(super) fn sync_folder(path: &Path) -> Result<(), JournalError> {
    let folder = folder_of(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = rustix::fs::open(folder, flags, Mode::empty()).map_err(refused("open", folder))?;
    rustix::fs::fsync(&open).map_err(refused("force to the disk", folder))
}

/// Writes all of `parts` at `offset`.
///
/// # Errors
///
/// [`JournalError::NoSpace`] or [`JournalError::Io`]; a part may be written then.
pub(super) fn write_at(
    file: BorrowedFd<'_>,
    mut parts: &mut [io::IoSlice<'_>],
    mut offset: u64,
    path: &Path,
) -> Result<(), JournalError> {
    let need_bytes = parts.iter().map(|part| part.len() as u64).sum();
    while parts.iter().any(|part| !part.is_empty()) {
        let written = match rustix::io::pwritev(file, parts, offset) {
            Ok(written) => written,
            Err(Errno::INTR) => continue,
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                return Err(JournalError::NoSpace {
                    path: path.to_owned(),
                    need_bytes,
                    source: errno.into(),
                });
            }
            Err(errno) => return Err(refused("write", path)(errno)),
        };
        if written == 0 {
            return Err(refused("write", path)(io::Error::from(
                io::ErrorKind::WriteZero,
            )));
        }
        io::IoSlice::advance_slices(&mut parts, written);
        offset += written as u64;
    }
    Ok(())
}

/// Opens a regular file, and never blocks on other kinds of file.
pub(super) fn open(path: &Path, writable: bool) -> Result<Option<OwnedFd>, JournalError> {
    // NONBLOCK: a FIFO must not block us. A recorder follows no symbolic link, because its creator
    // would choose what is written.
    let access = if writable {
        OFlags::RDWR | OFlags::NOFOLLOW
    } else {
        OFlags::RDONLY
    };
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let not = |problem| JournalError::NotAJournal {
        path: path.to_owned(),
        problem,
    };
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(not("it is a symbolic link; name the file itself")),
        Err(Errno::ISDIR) => return Err(not("it is a folder")),
        Err(errno) => return Err(refused("open", path)(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(refused("look at", path))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(not("it is not a regular file"));
    }
    Ok(Some(file))
}

/// What was found at an offset of a file.
#[derive(Debug)]
pub(super) enum Found {
    /// A block's header; its whole body is in the file, but unchecked.
    Block(BlockHeader),
    /// The end of the file.
    End,
    /// Nothing usable, and the reason.
    Not(&'static str),
}

/// A file of a journal, open for reading.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    pub(super) path: PathBuf,
    pub(super) header: TermHeader,
}

impl Source {
    /// Opens file `term`; `None` if it does not exist.
    pub(super) fn open(base: &Path, term: u64) -> Result<Option<Self>, JournalError> {
        let path = path_of(base, term);
        let Some(file) = open(&path, false)? else {
            return Ok(None);
        };
        let file = File::from(file);
        let mut bytes = Vec::new();
        read_some(&file, &path, 0, TERM_BYTES, &mut bytes)?;
        let header = TermHeader::read(&bytes, &path)?;
        if header.term.get() != term {
            return Err(JournalError::NotAJournal {
                path,
                problem: "it says that it is another file of its journal: it was renamed or copied",
            });
        }
        Ok(Some(Self { file, path, header }))
    }

    /// Bytes of the file now.
    pub(super) fn length(&self) -> Result<u64, JournalError> {
        Ok(self.metadata()?.len())
    }

    /// What the system says about the file now.
    pub(super) fn metadata(&self) -> Result<Metadata, JournalError> {
        self.file.metadata().map_err(refused("look at", &self.path))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Reads `bytes` bytes at `offset`, fewer at the end of the file.
    pub(super) fn read(
        &self,
        offset: u64,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), JournalError> {
        read_some(&self.file, &self.path, offset, bytes, into)
    }

    /// What starts at `offset`: reads only the header.
    pub(super) fn look(&self, offset: u64) -> Result<Found, JournalError> {
        let mut bytes = Vec::new();
        self.read(offset, BLOCK_BYTES, &mut bytes)?;
        if bytes.is_empty() {
            return Ok(Found::End);
        }
        let header = match BlockHeader::read(&bytes, self.header.journal.get()) {
            Ok(header) => header,
            Err(problem) => return Ok(Found::Not(problem)),
        };
        if header.bytes() > self.length()?.saturating_sub(offset) {
            return Ok(Found::Not("a block is cut"));
        }
        Ok(Found::Block(header))
    }

    /// The stored body of the block at `offset`, checked; `false` if it is damaged.
    pub(super) fn body(
        &self,
        offset: u64,
        header: &BlockHeader,
        into: &mut Vec<u8>,
    ) -> Result<bool, JournalError> {
        #[cfg(test)]
        BODIES.with(|count| count.set(count.get() + 1));
        self.read(offset + BLOCK_BYTES, header.stored.get(), into)?;
        Ok(header.matches(into))
    }
}

/// Reads up to `bytes` bytes at `offset`, fewer at the end of the file. Allocates no more memory
/// than the file has bytes.
fn read_some(
    file: &File,
    path: &Path,
    offset: u64,
    bytes: u64,
    into: &mut Vec<u8>,
) -> Result<(), JournalError> {
    let length = file.metadata().map_err(refused("look at", path))?.len();
    let there = bytes.min(length.saturating_sub(offset));
    let wanted = usize::try_from(there)
        .map_err(|_| refused("read", path)(io::Error::from(io::ErrorKind::OutOfMemory)))?;
    // Old bytes are overwritten: only new ones are zeroed.
    if into.len() > wanted {
        into.truncate(wanted);
    } else {
        let missing = wanted - into.len();
        into.try_reserve(missing)
            .map_err(|_| refused("read", path)(io::Error::from(io::ErrorKind::OutOfMemory)))?;
        into.resize(wanted, 0);
    }
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut into[done..], offset + done as u64) {
            // The file was cut in the meantime.
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refused("read", path)(error)),
        }
    }
    into.truncate(done);
    Ok(())
}
