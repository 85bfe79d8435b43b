//! Making folders: for one user under their name, for several users under a temporary name first.
//!
//! `mkdir` obeys the umask and gives the folder to the maker's group. A shared folder gets its mode and
//! group before it gets its name, so that no other user meets an unfinished one, and a death on the way
//! leaves nothing that another user could not replace.

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

/// What names of unfinished files and folders begin with. No channel has such a name.
pub(super) const TEMPORARY: &str = ".new-";

/// Makes folder `name` in `at`; `false` if it is there already. `path` is for messages.
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
    // The same beginning for all makers of this folder: the one that succeeds removes what others left.
    let prefix = format!("{TEMPORARY}{:016x}-", fnv(name_of(name).bytes()));
    // The clock keeps threads apart, and processes of the same number in other PID namespaces.
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
        match put_in_place(at, &temporary, name) {
            Ok(()) => Ok(true),
            // Another process has made it. Not there: the other one also removed ours.
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
        sweep(parent.as_fd(), &prefix);
    }
    placed
}

/// Gives a folder that this process has just made its mode and group, whatever the umask was. On an error the
/// folder is removed.
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
        // Where others may write to the folder around it, it may be another one by now.
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
fn put_in_place(at: BorrowedFd<'_>, temporary: &Path, name: &Path) -> Result<(), Errno> {
    match rustix::fs::renameat_with(at, temporary, at, name, RenameFlags::NOREPLACE) {
        // A file system without this: a plain rename replaces an empty folder at most.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(at, temporary, at, name),
        done => done,
    }
}

/// The last part of a path as text; for a prefix only.
fn name_of(name: &Path) -> String {
    let last = name.file_name().unwrap_or_default();
    String::from_utf8_lossy(last.as_bytes()).into_owned()
}

/// The folder that `name` stands in, open.
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

/// Removes empty folders in `folder` whose names begin with `prefix`. A maker that lives makes its own again.
pub(super) fn sweep(folder: BorrowedFd<'_>, prefix: &str) {
    let Ok(listing) = rustix::fs::Dir::read_from(folder) else {
        return;
    };
    for entry in listing.flatten() {
        if entry.file_name().to_bytes().starts_with(prefix.as_bytes()) {
            // What cannot be removed belongs to another user; it does no harm.
            let _ = rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::REMOVEDIR);
        }
    }
}
