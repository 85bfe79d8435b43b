//! Makes folders: for one user under the final name, for several users under a temporary name
//! first.
//!
//! `mkdir` obeys the umask and gives the folder to the maker's group. A shared folder gets its mode
//! and group before its name. So no other user sees an unfinished one, and after a death another
//! user can replace the rest.

use super::folder::open_folder;
use super::refused;
use super::sharing::Sharing;
use crate::error::OpenError;
use crate::ring::layout::fnv;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Prefix of the names of unfinished files and folders. No channel has such a name.
pub(super) const TEMPORARY: &str = ".new-";

/// Makes folder `name` in `at`; `false` if it exists already. `path` is for error messages.
pub(super) fn make_folder(
    at: BorrowedFd<'_>,
    name: &Path,
    path: &Path,
    sharing: &Sharing,
) -> Result<bool, OpenError> {
    let refused = |errno| Err(refused("make the folder", path)(errno));
    let mode = Mode::from_raw_mode(sharing.folder_mode());
    if !sharing.is_explicit() {
        return match rustix::fs::mkdirat(at, name, mode) {
            Ok(()) => {
                crate::points::pass("create.folder_made");
                finish(at, name, path, sharing)?;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => refused(errno),
        };
    }
    // The same prefix for all makers of this folder: the first that succeeds removes unfinished
    // ones.
    let prefix = format!("{TEMPORARY}{:016x}-", fnv(name_of(name).bytes()));
    // The time separates threads, and processes of the same number in other PID namespaces.
    let temporary = name.with_file_name(format!(
        "{prefix}{}-{}",
        rustix::process::getpid().as_raw_nonzero(),
        crate::clock::monotonic_ns()
    ));
    match rustix::fs::mkdirat(at, &temporary, mode) {
        Ok(()) => crate::points::pass("create.folder_made"),
        Err(Errno::EXIST) => return Ok(false),
        Err(errno) => return refused(errno),
    }
    let placed = finish(at, &temporary, path, sharing).and_then(|()| {
        match rename_new(at, &temporary, name) {
            Ok(()) => Ok(true),
            // Another process has made it. Not found: the other process also removed ours.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOENT) => Ok(false),
            Err(errno) => refused(errno),
        }
    });
    if !matches!(placed, Ok(true)) {
        let _ = rustix::fs::unlinkat(at, &temporary, AtFlags::REMOVEDIR);
    }
    if matches!(placed, Ok(true))
        && let Some(parent) = parent_of(at, name)
    {
        remove_temporaries(parent.as_fd(), &prefix);
    }
    placed
}

/// Gives a folder that this process has just made its mode and group, for any umask. On an error
/// the folder is removed.
fn finish(
    at: BorrowedFd<'_>,
    name: &Path,
    path: &Path,
    sharing: &Sharing,
) -> Result<(), OpenError> {
    let set = || {
        let Some(folder) = open_folder(at, name, path)? else {
            return Ok(());
        };
        let stat = rustix::fs::fstat(&folder).map_err(refused("look at", path))?;
        // If other users may write to the parent folder, it may be another folder by now.
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        sharing.apply_to_folder(folder.as_fd(), path)
    };
    set().inspect_err(|_| {
        let _ = rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR);
    })
}

/// Gives the folder its name, unless the name is taken.
fn rename_new(at: BorrowedFd<'_>, temporary: &Path, name: &Path) -> Result<(), Errno> {
    match rustix::fs::renameat_with(at, temporary, at, name, RenameFlags::NOREPLACE) {
        // A file system without this flag: a plain rename replaces at most an empty folder.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(at, temporary, at, name),
        done => done,
    }
}

/// The last part of a path as text; for a prefix only.
fn name_of(name: &Path) -> String {
    let last = name.file_name().unwrap_or_default();
    String::from_utf8_lossy(last.as_bytes()).into_owned()
}

/// The parent folder of `name`, open.
fn parent_of(at: BorrowedFd<'_>, name: &Path) -> Option<std::os::fd::OwnedFd> {
    let parent = name.parent().filter(|parent| *parent != Path::new(""));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(
        at,
        parent.unwrap_or_else(|| Path::new(".")),
        flags,
        Mode::empty(),
    )
    .ok()
}

/// Removes empty folders in `folder` whose names begin with `prefix`. A living maker makes its
/// folder again.
pub(super) fn remove_temporaries(folder: BorrowedFd<'_>, prefix: &str) {
    let Ok(listing) = rustix::fs::Dir::read_from(folder) else {
        return;
    };
    for entry in listing.flatten() {
        if entry.file_name().to_bytes().starts_with(prefix.as_bytes()) {
            // If it cannot be removed, it belongs to another user; it does no harm.
            let _ = rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::REMOVEDIR);
        }
    }
}
