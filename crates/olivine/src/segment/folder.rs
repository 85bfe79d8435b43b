//! The folder of all channels and the folder of one channel: made private, checked before use.

use super::make::{TEMPORARY, make_folder, remove_temporaries};
use super::sharing::{Kind, Sharing};
use super::system::check_file_system;
use super::{CONTROL, URI, is_same_file, lane_name, refused};
use crate::error::OpenError;
use crate::uri::{Config, is_channel_name};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than a tick of the clock with which the kernel stamps files: a change of a folder behind
/// one of this age has another time.
const SETTLED_AGE: Duration = Duration::from_millis(200);
/// The same for a time of whole seconds: some file systems store one or two seconds.
const SETTLED_AGE_COARSE: Duration = Duration::from_millis(2500);

/// Folder of channels if the URI names none: `$OLIVINE_DIR`, else `/dev/shm/olivine-UID`.
pub(crate) fn default_folder() -> PathBuf {
    std::env::var_os("OLIVINE_DIR")
        .filter(|dir| !dir.is_empty())
        .map_or_else(
            || {
                PathBuf::from(format!(
                    "/dev/shm/olivine-{}",
                    rustix::process::geteuid().as_raw()
                ))
            },
            PathBuf::from,
        )
}

/// The folder of all channels, checked and open.
#[derive(Debug)]
pub(crate) struct Folder {
    file: OwnedFd,
    path: PathBuf,
    sharing: Sharing,
}

impl Folder {
    /// Opens the folder that the settings name; makes it if it is missing and `create` is set.
    pub(crate) fn open(config: &Config, create: bool) -> Result<Option<Self>, OpenError> {
        let path = config.dir.clone().unwrap_or_else(default_folder);
        // 'dir=' was checked with the other settings, or is a folder that a caller lists.
        if config.dir.is_none() && path.is_relative() {
            return Err(OpenError::Folder {
                path,
                problem: "$OLIVINE_DIR names it and does not begin with '/': give an absolute \
                          path, or unset it"
                    .to_owned(),
            });
        }
        Self::open_path(path, Sharing::of(config)?, create)
    }

    /// As [`Folder::open`], for tools that list a whole folder.
    pub(crate) fn open_path(
        path: PathBuf,
        sharing: Sharing,
        create: bool,
    ) -> Result<Option<Self>, OpenError> {
        let mut file = open_folder(CWD, &path, &path)?;
        if file.is_none() && create {
            make_folder(CWD, &path, &path, &sharing)?;
            file = open_folder(CWD, &path, &path)?;
        }
        let Some(file) = file else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file).map_err(refused("look at", &path))?;
        sharing.check(Kind::Base, &stat, &path)?;
        check_file_system(file.as_fd(), &path)?;
        Ok(Some(Self {
            file,
            path,
            sharing,
        }))
    }

    /// What the folder says now; `None` while it [changed](FolderState::settled) recently.
    pub(crate) fn state(&self) -> Option<FolderState> {
        FolderState::settled(|| rustix::fs::fstat(&self.file))
    }

    /// Names in the folder that can be channels.
    pub(crate) fn names(&self) -> Result<Vec<String>, OpenError> {
        let listing =
            rustix::fs::Dir::read_from(&self.file).map_err(refused("list", &self.path))?;
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(refused("list", &self.path))?;
            if let Ok(name) = entry.file_name().to_str()
                && is_channel_name(name)
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The folder of one channel; makes it if it is missing and `create` is set.
    pub(crate) fn channel(
        &self,
        name: &str,
        create: bool,
    ) -> Result<Option<ChannelFolder>, OpenError> {
        let path = self.path.join(name);
        let found = self.open_channel(name, &path)?;
        if found.is_some() || !create {
            return Ok(found);
        }
        let made = make_folder(self.file.as_fd(), Path::new(name), &path, &self.sharing)?;
        self.open_channel(name, &path).inspect_err(|_| {
            if made {
                // Only if it is empty: another process may be making a channel in it.
                let _ = rustix::fs::unlinkat(&self.file, name, AtFlags::REMOVEDIR);
            }
        })
    }

    /// Removes the folder of a channel if nothing is in it. Takes no descriptor.
    pub(crate) fn remove_if_empty(&self, name: &str) {
        // Not empty means in use. A process that is making a channel in it finds it removed, and
        // tries again.
        let _ = rustix::fs::unlinkat(&self.file, name, AtFlags::REMOVEDIR);
    }

    /// Removes unfinished folders of makers that died.
    pub(crate) fn remove_temporaries(&self) {
        remove_temporaries(self.file.as_fd(), TEMPORARY);
    }

    /// Opens and checks the folder of one channel.
    fn open_channel(&self, name: &str, path: &Path) -> Result<Option<ChannelFolder>, OpenError> {
        let Some(file) = open_folder(self.file.as_fd(), Path::new(name), path)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file).map_err(refused("look at", path))?;
        self.sharing.check(Kind::Channel, &stat, path)?;
        let parent = self.file.try_clone().map_err(|source| OpenError::Io {
            action: "open",
            path: path.to_owned(),
            source,
        })?;
        Ok(Some(ChannelFolder {
            file,
            parent,
            name: name.to_owned(),
            path: path.to_owned(),
            sharing: self.sharing.clone(),
        }))
    }
}

/// Whether `name` in `folder` leads to the file that is `open`, without a symbolic link.
fn leads_to(folder: impl AsFd, name: impl Arg, open: impl AsFd) -> bool {
    let named = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    matches!((named, rustix::fs::fstat(open)), (Ok(a), Ok(b)) if is_same_file(&a, &b))
}

/// Which folder a name leads to, and when its entries changed last.
///
/// The kernel sets the time whenever a name in it is made, removed or renamed, and no program can
/// store another one. A folder that is mounted over the name is another folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderState {
    device: u64,
    number: u64,
    changed: ChangeTime,
}

impl FolderState {
    /// As `stat` says; `None` if it fails, or if the entries changed so recently that the next
    /// change might get the same time.
    #[allow(clippy::useless_conversion, reason = "widths differ by target")]
    fn settled(stat: impl FnOnce() -> Result<Stat, Errno>) -> Option<Self> {
        let now = ChangeTime::now();
        let stat = stat().ok()?;
        Some(Self {
            device: stat.st_dev.into(),
            number: stat.st_ino.into(),
            changed: ChangeTime::of(&stat).filter(|time| time.is_settled(now))?,
        })
    }
}

/// When the entries of a folder changed last, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangeTime(Duration);

impl ChangeTime {
    /// `None` before 1970.
    fn of(folder: &Stat) -> Option<Self> {
        Self::new(folder.st_ctime, folder.st_ctime_nsec)
    }

    fn new(seconds: impl TryInto<u64>, nanoseconds: impl TryInto<u32>) -> Option<Self> {
        let (seconds, nanoseconds) = (seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
        Some(Self(Duration::new(seconds, nanoseconds)))
    }

    /// The time that a change at this moment would get: the kernel stamps files by this clock, and
    /// where it reads a finer one no two changes have the same time.
    fn now() -> Option<Self> {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self::new(now.tv_sec, now.tv_nsec)
    }

    /// Whether each change after `now`, which was taken before this time was read, has another
    /// time. A time in the future is that of a clock that was set back since.
    fn is_settled(self, now: Option<Self>) -> bool {
        let settled = match self.0.subsec_nanos() {
            0 => SETTLED_AGE_COARSE,
            _ => SETTLED_AGE,
        };
        now.and_then(|now| now.0.checked_sub(self.0))
            .is_some_and(|age| age > settled)
    }
}

/// Opens a folder without following a link; `None` if there is none.
pub(super) fn open_folder(
    at: BorrowedFd<'_>,
    name: &Path,
    path: &Path,
) -> Result<Option<OwnedFd>, OpenError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(not_a_folder(name, path)),
        Err(errno) => Err(refused("open", path)(errno)),
    }
}

/// The error for a `name` at `path` that is not a folder.
fn not_a_folder(name: &Path, path: &Path) -> OpenError {
    let path = path.to_owned();
    // A channel is named within the folder of all channels. That one may be anything that a person
    // has named by mistake.
    if name == path {
        let problem = "it is a link or a file, not a folder: name the folder of the channels";
        return OpenError::Folder {
            path,
            problem: problem.to_owned(),
        };
    }
    let problem = "it is not a folder but a link or a file; remove it or use another name";
    OpenError::NotAChannel {
        path,
        problem: problem.to_owned(),
    }
}

/// The folder of one channel, open.
#[derive(Debug)]
pub(crate) struct ChannelFolder {
    file: OwnedFd,
    parent: OwnedFd,
    name: String,
    path: PathBuf,
    sharing: Sharing,
}

impl ChannelFolder {
    /// The path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Who may use the channel.
    pub(crate) fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// Whether the name still refers to this folder.
    pub(crate) fn still_there(&self) -> bool {
        leads_to(&self.parent, &self.name, &self.file)
    }

    /// Whether the name refers to the control file `file` now.
    pub(crate) fn is_current(&self, file: BorrowedFd<'_>) -> bool {
        leads_to(&self.file, CONTROL, file) && self.still_there()
    }

    /// What the folder of all channels, at its path, and this one, at its name, say now. While both
    /// stay, each name in them leads to the file that it led to before, unless a file was mounted
    /// over it. `all` is what the folder of all channels said a moment ago, if that is known.
    pub(crate) fn states(&self, all: Option<FolderState>) -> Option<[FolderState; 2]> {
        let no_link = AtFlags::SYMLINK_NOFOLLOW;
        let named = |path| FolderState::settled(|| rustix::fs::statat(CWD, path, no_link));
        let all = all.or_else(|| named(self.path.parent()?))?;
        let own = || rustix::fs::statat(&self.parent, &self.name, no_link);
        Some([all, FolderState::settled(own)?])
    }

    /// Whether the path still leads to the folder of all channels in which this one was found.
    pub(crate) fn is_at_its_path(&self) -> bool {
        let path = self.path.parent();
        path.is_some_and(|path| leads_to(CWD, path, &self.parent))
    }

    /// Bytes of the channel's files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files()
            .iter()
            .filter_map(|name| rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW).ok())
            .map(|stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
            .sum()
    }

    /// Whether something of this name is in the folder.
    pub(crate) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn files(&self) -> Vec<String> {
        let Ok(listing) = rustix::fs::Dir::read_from(&self.file) else {
            return Vec::new();
        };
        let names = listing
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").collect()
    }

    /// Removes the folder if nothing is in it.
    pub(crate) fn remove_if_empty(&self) {
        if self.still_there() {
            // Not empty means in use. The next opener finds any other error.
            let _ = rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        }
    }

    /// Removes the files and the folder; the control file last. So after an interruption a file
    /// remains that is marked as being removed. Files that do not belong to a channel stay, with
    /// their folder.
    ///
    /// The caller holds the membership lock: no lane is made meanwhile.
    pub(crate) fn remove(&self) -> Result<(), OpenError> {
        self.remove_others()?;
        crate::points::pass("remove.lanes_gone");
        self.unlink(CONTROL)?;
        crate::points::pass("remove.control_gone");
        self.remove_itself()
    }

    /// As [`ChannelFolder::remove`], for files without locks: the control file first. A process
    /// that makes a channel here meanwhile made its lanes before that, and they are removed, too,
    /// or finds its control file removed.
    pub(crate) fn remove_damaged(&self) -> Result<(), OpenError> {
        self.unlink(CONTROL)?;
        self.remove_others()?;
        self.remove_itself()
    }

    /// Removes the files of a channel but its control file.
    fn remove_others(&self) -> Result<(), OpenError> {
        let ours =
            |name: &str| name.starts_with("lane-") || name.starts_with(TEMPORARY) || name == URI;
        for name in self.files().iter().filter(|name| ours(name)) {
            self.unlink(name)?;
        }
        Ok(())
    }

    fn remove_itself(&self) -> Result<(), OpenError> {
        if !self.still_there() {
            return Ok(());
        }
        match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            // Not empty: a process is making a new channel in it, or another file is there.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(refused("remove", &self.path)(errno)),
        }
    }

    /// Removes the file of lane `index`, if it can be.
    pub(crate) fn remove_lane(&self, index: usize) {
        // If it stays, the next publisher finds and uses it.
        let _ = self.unlink(&lane_name(index));
    }

    /// Removes the file of this name, if it exists.
    pub(crate) fn unlink(&self, name: &str) -> Result<(), OpenError> {
        match rustix::fs::unlinkat(&self.file, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(refused("remove", &self.path.join(name))(errno)),
        }
    }
}

impl AsFd for ChannelFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_time_settles_later_where_a_file_system_stores_whole_seconds() {
        let at = |seconds: u64, nanoseconds: u32| ChangeTime::new(seconds, nanoseconds);
        let settled = |changed, now| ChangeTime::is_settled(Option::unwrap(changed), now);
        assert!(!settled(at(10, 1), at(10, 150_000_000)));
        assert!(settled(at(10, 1), at(10, 300_000_000)));
        assert!(!settled(at(10, 0), at(12, 400_000_000)));
        assert!(settled(at(10, 0), at(12, 600_000_000)));
        assert!(!settled(at(10, 1), at(9, 0)), "the clock was set back");
        assert!(!settled(at(10, 1), None));
    }
}
