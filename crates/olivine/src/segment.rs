//! Files and mappings: the memory of a channel, checked before it is trusted.
//!
//! To create a file, an unnamed temporary file is filled, allocated in full, and then linked to its
//! name. So no process sees half a file. A full file system is an error here, not a SIGBUS later. A
//! creator that is killed leaves nothing. To open a file, neither `O_CREAT` nor links are used.
//! Every property is checked on the descriptor, never on the path.

mod folder;
mod make;
mod map;
mod sharing;
mod system;

pub(crate) use folder::{ChannelFolder, Folder, FolderState, default_folder};
pub(crate) use map::{map_control, map_lane, map_lane_header};
pub(crate) use sharing::{Sharing, group_shown};
pub(crate) use system::boot;

use make::TEMPORARY;
use sharing::Kind;

use crate::error::OpenError;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Name of the control file in a channel's folder.
pub(crate) const CONTROL: &str = "control";
/// Name of the file that says to which channel elsewhere a ring belongs.
pub(crate) const URI: &str = "uri";

/// Name of a lane's file in a channel's folder.
pub(crate) fn lane_name(index: usize) -> String {
    format!("lane-{index}")
}

/// Adds the operation and the path to the error of a system call.
pub(crate) fn refused<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(Errno) -> OpenError + 'a {
    move |errno| OpenError::Io {
        action,
        path: path.to_owned(),
        source: errno.into(),
    }
}

/// Makes `name` in `folder` with `bytes` allocated and `fill` written. `false` if another process
/// was first.
pub(crate) fn create_file(
    folder: &ChannelFolder,
    name: &str,
    bytes: u64,
    numa: Option<u32>,
    fill: &[u8],
) -> Result<bool, OpenError> {
    let path = folder.path().join(name);
    let mode = Mode::from_raw_mode(folder.sharing().file_mode());
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, ".", flags, mode) {
        Ok(file) => file,
        // A file system without unnamed files: use a temporary name that no other process opens.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            return create_named(folder, name, bytes, numa, fill);
        }
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(refused("create", &path)(errno)),
    };
    prepare(folder, &file, &path, bytes, numa, fill)?;
    crate::points::pass("create.prepared");
    let source = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    match rustix::fs::linkat(
        rustix::fs::CWD,
        &source,
        folder,
        name,
        AtFlags::SYMLINK_FOLLOW,
    ) {
        Ok(()) => {
            crate::points::pass("create.linked");
            Ok(true)
        }
        Err(Errno::EXIST) => Ok(false),
        // No /proc here.
        Err(Errno::NOENT) if !Path::new("/proc/self/fd").exists() => {
            create_named(folder, name, bytes, numa, fill)
        }
        // The folder was removed meanwhile: try again.
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(refused("create", &path)(errno)),
    }
}

/// As [`create_file`], with a temporary name.
fn create_named(
    folder: &ChannelFolder,
    name: &str,
    bytes: u64,
    numa: Option<u32>,
    fill: &[u8],
) -> Result<bool, OpenError> {
    let path = folder.path().join(name);
    // The time separates threads, and processes of the same number in other PID namespaces.
    let temporary = format!(
        "{TEMPORARY}{}-{}-{name}",
        rustix::process::getpid().as_raw_nonzero(),
        crate::clock::monotonic_ns()
    );
    let mode = Mode::from_raw_mode(folder.sharing().file_mode());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat(folder, &temporary, flags, mode) {
        Ok(file) => file,
        // Removed, or the same name in the same nanosecond: try again.
        Err(Errno::NOENT | Errno::EXIST) => return Ok(false),
        Err(errno) => return Err(refused("create", &path)(errno)),
    };
    let linked = prepare(folder, &file, &path, bytes, numa, fill).and_then(|()| {
        match rustix::fs::linkat(folder, &temporary, folder, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(errno) => Err(refused("create", &path)(errno)),
        }
    });
    let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    linked
}

/// Sets owner, size, memory and first bytes of a new file before it has a name.
fn prepare(
    folder: &ChannelFolder,
    file: &OwnedFd,
    path: &Path,
    bytes: u64,
    numa: Option<u32>,
    fill: &[u8],
) -> Result<(), OpenError> {
    folder.sharing().apply(file.as_fd(), path)?;
    allocate(file.as_fd(), path, 0, bytes, numa)?;
    write_all(file.as_fd(), fill).map_err(refused("write", path))
}

/// Opens `count` spare descriptors. After dropping them, at least that many can be opened.
pub(crate) fn spare_descriptors(
    folder: &ChannelFolder,
    count: usize,
) -> Result<Vec<OwnedFd>, OpenError> {
    (0..count)
        .map(|_| rustix::io::fcntl_dupfd_cloexec(folder, 0))
        .collect::<Result<_, _>>()
        .map_err(refused("open", folder.path()))
}

/// Allocates all memory of a file of `length` bytes.
pub(crate) fn allocate(
    file: BorrowedFd<'_>,
    path: &Path,
    length: u64,
    bytes: u64,
    numa: Option<u32>,
) -> Result<(), OpenError> {
    if let Some(node) = numa {
        rustix::fs::ftruncate(file, bytes).map_err(refused("resize", path))?;
        map::prefer_node(file, path, bytes, node)?;
    }
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::NOMEM) => {
                let free = rustix::fs::fstatvfs(file).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
                return Err(OpenError::NoSpace {
                    path: folder_of(path),
                    need_bytes: bytes,
                    free_bytes: free,
                });
            }
            // A file system without allocation: write zeros, which allocates the space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let page = [0; 4096];
                for offset in (length..bytes).step_by(page.len()) {
                    rustix::io::pwrite(file, &page, offset).map_err(refused("allocate", path))?;
                }
                return Ok(());
            }
            Err(errno) => return Err(refused("allocate", path)(errno)),
        }
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent()
        .and_then(Path::parent)
        .unwrap_or(path)
        .to_owned()
}

/// Writes `fill` at the start of the file.
pub(crate) fn write_all(file: BorrowedFd<'_>, fill: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < fill.len() {
        match rustix::io::pwrite(file, &fill[done..], done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens `name` in `folder`; `None` if it does not exist. Checks type and owner, not the content.
pub(crate) fn open_file(
    folder: &ChannelFolder,
    name: &str,
    writable: bool,
) -> Result<Option<OwnedFd>, OpenError> {
    let path = folder.path().join(name);
    let access = if writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    // NONBLOCK: a FIFO of this name must not block us.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let strange = |problem: &str| {
        let problem = format!("it is {problem}; remove it and open the channel again");
        OpenError::NotAChannel {
            path: path.clone(),
            problem,
        }
    };
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(strange("a symbolic link")),
        Err(Errno::ISDIR) => return Err(strange("a folder")),
        Err(Errno::NXIO) => return Err(strange("a socket or FIFO")),
        Err(errno) => return Err(refused("open", &path)(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(refused("look at", &path))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(strange("not a regular file"));
    }
    folder.sharing().check(Kind::File, &stat, &path)?;
    Ok(Some(file))
}

/// Whether both are the same file.
pub(crate) fn is_same_file(one: &rustix::fs::Stat, other: &rustix::fs::Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Length of an open file in bytes.
pub(crate) fn length(file: BorrowedFd<'_>, path: &Path) -> Result<u64, OpenError> {
    let stat = rustix::fs::fstat(file).map_err(refused("look at", path))?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}
