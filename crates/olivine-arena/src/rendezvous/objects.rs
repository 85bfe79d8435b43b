//! Leftovers of a killed measurement, and their removal: the folder of a connection, and the kernel
//! objects on its list.
//!
//! All users may create such a folder, so its name proves nothing. It is trusted only if it belongs
//! to this process's user and is closed to others. A list in it names only kernel objects, never
//! files. An object is removed only under the kernel of the list, and only if this user created it.

use crate::error::{Result, io};
use crate::sys::mapping::Mapping;
use crate::sys::queue::{Posix, SystemV};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, openat};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Locked as long as the measuring process lives: a folder with a free lock is a leftover.
pub(super) const LOCK: &str = "lock";
/// Kernel objects, one per line, after a line with the kernel they belong to.
const LIST: &str = "objects";
/// Access bits of other users.
const OTHERS: u32 = 0o077;

/// A kernel object that outlives its users.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// A System V queue.
    Queue(i32),
    /// A System V segment.
    Segment(i32),
    /// The name of a POSIX queue: a slash and the name of the folder, then anything.
    PosixQueue(String),
}

impl Object {
    fn line(&self) -> String {
        match self {
            Self::Queue(id) => format!("queue {id}\n"),
            Self::Segment(id) => format!("segment {id}\n"),
            Self::PosixQueue(name) => format!("posix-queue {name}\n"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (kind, name) = line.split_once(' ')?;
        match kind {
            "queue" => name.parse().ok().map(Self::Queue),
            "segment" => name.parse().ok().map(Self::Segment),
            "posix-queue" => Some(Self::PosixQueue(name.to_owned())),
            _ => None,
        }
    }

    /// Whether the list of a folder called `folder` may name it.
    fn fits(&self, folder: &OsStr) -> bool {
        match self {
            Self::Queue(_) | Self::Segment(_) => true,
            Self::PosixQueue(name) => name
                .strip_prefix('/')
                .is_some_and(|name| name.starts_with(&*folder.to_string_lossy())),
        }
    }

    /// Removes it. A missing object is fine.
    fn remove(&self) {
        match self {
            Self::Queue(id) => SystemV::remove(*id),
            Self::Segment(id) => Mapping::remove_segment(*id),
            Self::PosixQueue(name) => {
                if let Ok(name) = CString::new(name.as_str()) {
                    Posix::remove(&name);
                }
            }
        }
    }
}

/// The kernel of the object numbers: they restart with each boot, and in each namespace.
fn kernel() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
    format!("kernel {} {}\n", boot.trim(), namespace.display())
}

/// Begins the list of a new folder. Refuses a folder that would not be trusted later, on a file
/// system that gives folders to another user or to all; removes it again.
pub(super) fn begin(folder: &Path) -> Result<()> {
    if own(folder).is_none() {
        // It contains only the lock.
        let _ = fs::remove_dir_all(folder);
        let refused = std::io::ErrorKind::PermissionDenied.into();
        return Err(io("have a temporary folder for this user alone")(refused));
    }
    fs::write(folder.join(LIST), kernel()).map_err(io("begin a list of kernel objects"))
}

/// Adds an object to the list of `folder`; removes the object if that fails.
pub(super) fn note(folder: &Path, object: &Object) -> Result<()> {
    let list = File::options().append(true).open(folder.join(LIST));
    let noted = list.and_then(|mut list| list.write_all(object.line().as_bytes()));
    if noted.is_err() {
        object.remove();
    }
    noted.map_err(io("note a kernel object"))
}

/// Opens a folder that only this user may access; `None` for any other, and for a link.
fn own(folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty()).ok()?;
    let found = fstat(&opened).ok()?;
    let ours = found.st_uid == rustix::process::geteuid().as_raw();
    (ours && found.st_mode & OTHERS == 0).then_some(opened)
}

/// Opens a file in a folder for reading; `None` if it is missing, or a link.
fn file_in(folder: &OwnedFd, name: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::empty()).ok()?;
    Some(opened.into())
}

/// Removes the kernel objects on the list in `folder`, and the folder. Missing ones are fine; a
/// folder that is not this user's alone is left unchanged.
pub fn remove(folder: &Path) {
    if let Some(opened) = own(folder) {
        take_away(folder, &opened);
    }
}

fn take_away(folder: &Path, opened: &OwnedFd) {
    let mut list = String::new();
    if let Some(mut file) = file_in(opened, LIST) {
        // After a read error, the part read so far counts.
        let _ = file.read_to_string(&mut list);
    }
    if let Some(objects) = list.strip_prefix(&kernel()) {
        let name = folder.file_name().unwrap_or_default();
        objects
            .lines()
            .filter_map(Object::parse)
            .filter(|object| object.fits(name))
            .for_each(|object| object.remove());
    }
    // A later measurement removes what is left.
    let _ = fs::remove_dir_all(folder);
}

/// Removes this user's folders in `base` with names of this `prefix` whose process is gone, with
/// the kernel objects on their lists.
pub(super) fn sweep(base: &Path, prefix: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let path = entry.path();
        let Some(opened) = own(&path) else { continue };
        let Some(lock) = file_in(&opened, LOCK) else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            take_away(&path, &opened);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PREFIX;
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    /// The folder of a killed measurement, with a list.
    fn left(base: &Path, name: &str, list: &str) -> PathBuf {
        let folder = base.join(format!("{PREFIX}{name}"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        File::create(folder.join(LOCK)).unwrap();
        fs::write(folder.join(LIST), list).unwrap();
        folder
    }

    fn queue() -> (i32, String) {
        let id = SystemV::make().unwrap();
        (id, Object::Queue(id).line())
    }

    fn is_there(id: i32) -> bool {
        SystemV::open(id, 8).send().is_ok()
    }

    #[test]
    fn objects_survive_the_list() {
        for object in [
            Object::Queue(7),
            Object::Segment(-3),
            Object::PosixQueue("/name".into()),
        ] {
            assert_eq!(Object::parse(object.line().trim_end()), Some(object));
        }
        assert_eq!(Object::parse("nonsense"), None);
    }

    #[test]
    fn leftovers_of_killed_measurements_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let (id, line) = queue();
        let gone = left(base.path(), "left", &(kernel() + &line));
        fs::create_dir(gone.join("channels")).unwrap();
        let used = left(base.path(), "used", "");
        let lock = File::open(used.join(LOCK)).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        sweep(base.path(), PREFIX);
        assert!(!gone.exists());
        assert!(!is_there(id), "the queue is still there");
        assert!(used.exists());
    }

    #[test]
    fn list_removes_no_file_outside_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        let line = format!("file {}\n", victim.path().display());
        let folder = left(base.path(), "planted", &(kernel() + &line));
        symlink(victim.path(), folder.join("link")).unwrap();
        fs::write(victim.path().join("kept"), "").unwrap();
        sweep(base.path(), PREFIX);
        assert!(!folder.exists());
        assert!(victim.path().join("kept").exists());
    }

    #[test]
    fn foreign_folder_or_link_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (id, line) = queue();
        let list = kernel() + &line;
        for (name, mode) in [("entered", 0o701), ("read", 0o740), ("written", 0o720)] {
            let folder = left(base.path(), name, &list);
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        let target = left(elsewhere.path(), "target", &list);
        symlink(&target, base.path().join(format!("{PREFIX}link"))).unwrap();
        sweep(base.path(), PREFIX);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 4);
        assert!(target.join(LIST).exists());
        assert!(is_there(id), "a list of others was believed");
        SystemV::remove(id);
    }

    #[test]
    fn objects_of_another_boot_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let (id, line) = queue();
        let earlier = kernel().replace(|c: char| c.is_ascii_digit(), "x");
        let folder = left(base.path(), "earlier", &(earlier + &line));
        sweep(base.path(), PREFIX);
        assert!(!folder.exists());
        assert!(is_there(id), "numbers of an earlier boot were believed");
        SystemV::remove(id);
    }

    #[test]
    fn list_names_only_queues_of_its_folder() {
        let folder = OsStr::new("olivine-bench-a1");
        let fits = |name: &str| Object::PosixQueue(name.to_owned()).fits(folder);
        assert!(fits("/olivine-bench-a1-there"));
        assert!(!fits("/another"));
        assert!(!fits("/olivine-bench-b2-there"));
    }
}
