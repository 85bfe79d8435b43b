//! Channels of an earlier boot in a folder on a disk: they are not delivered, and the next opener
//! removes them.
//!
//! A crash of the machine may leave any part of a file on a disk old, torn or empty, and clocks
//! start again. So a reboot ends every channel, as it does in memory.

use super::attach::io_error;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::ring::layout::{CONTROL_MAGIC, LAYOUT_VERSION, control, lock_byte};
use crate::segment::{self, CONTROL, ChannelFolder, boot};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Refuses a control file of another boot.
pub(super) fn check(file: BorrowedFd<'_>, path: &Path) -> Result<(), OpenError> {
    if is_earlier(file, boot()) {
        return Err(OpenError::EarlierBoot {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Whether the file is a control file of this layout, and its boot is known and is not `now`.
fn is_earlier(file: BorrowedFd<'_>, now: [u64; control::BOOT_WORDS]) -> bool {
    const WORDS: usize = control::BOOT + control::BOOT_WORDS;
    let mut bytes = [0; WORDS * 8];
    // A shorter file is damaged: later checks report how.
    if rustix::io::pread(file, &mut bytes, 0) != Ok(bytes.len()) {
        return false;
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut whole = [0; 8];
        whole.copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    let unknown = [0; control::BOOT_WORDS];
    let made = &words[control::BOOT..];
    words[control::MAGIC] == CONTROL_MAGIC
        && words[control::VERSION] == LAYOUT_VERSION
        && made != unknown
        && now != unknown
        && made != now
}

/// The result of removing a channel of an earlier boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It was removed.
    Removed,
    /// Another process has removed it.
    Gone,
    /// Another process holds its membership lock: it removes the channel, or it sees another boot
    /// id and joins the channel. The number is its process id, 0 if unknown.
    Busy(u64),
}

/// Removes a channel of an earlier boot.
///
/// # Errors
///
/// The error of the system, or that a process with another boot id uses the channel.
pub(crate) fn remove_earlier(files: &ChannelFolder) -> Result<Earlier, OpenError> {
    let path = files.path().join(CONTROL);
    let Some(file) = segment::open_file(files, CONTROL, true)? else {
        return Ok(Earlier::Gone);
    };
    if !is_earlier(file.as_fd(), boot()) {
        return Ok(Earlier::Gone);
    }
    let Some(locks) =
        Locks::named(files.as_fd(), CONTROL, &file).map_err(io_error("open", &path))?
    else {
        return Ok(Earlier::Gone);
    };
    // Under the membership lock: no participant joins between this check and the removal.
    let locked = locks.try_lock(lock_byte::MEMBERSHIP);
    if !locked.map_err(io_error("lock", &path))? {
        return Ok(Earlier::Busy(member(file.as_fd())));
    }
    crate::points::look("boot.membership");
    if locks.held_by_others(lock_byte::LANE, lock_byte::END) {
        return Err(OpenError::Folder {
            path,
            problem: "a process with another boot id (/proc/sys/kernel/random/boot_id) uses it: \
                      give programs of other machines or sandboxes another 'dir='"
                .to_owned(),
        });
    }
    let Locks::File(lock) = &locks else {
        return Ok(Earlier::Gone);
    };
    if !files.is_current(lock.as_fd()) {
        return Ok(Earlier::Gone);
    }
    files.remove()?;
    Ok(Earlier::Removed)
}

/// The process that took the membership lock last; 0 if that cannot be read.
fn member(file: BorrowedFd<'_>) -> u64 {
    let mut bytes = [0; 8];
    let read = rustix::io::pread(file, &mut bytes, control::MEMBER_PID as u64 * 8);
    if read == Ok(bytes.len()) {
        u64::from_le_bytes(bytes)
    } else {
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::points::hook;
    use crate::segment::Folder;
    use crate::uri::Config;
    use std::os::unix::fs::FileExt;

    /// A channel of another boot with a durable name, and its folder.
    fn left_behind(name: &str) -> (tempfile::TempDir, String, ChannelFolder) {
        let place = tempfile::tempdir().unwrap();
        let uri = format!(
            "shm://{name}?capacity=4KiB&dir={}/channels",
            place.path().display()
        );
        drop(crate::Subscriber::open(&format!("{uri}&name=n")).unwrap());
        let folder = Folder::open(&Config::parse(&uri).unwrap(), false)
            .unwrap()
            .unwrap();
        let files = folder.channel(name, false).unwrap().unwrap();
        let control = std::fs::File::options()
            .write(true)
            .open(files.path().join(CONTROL));
        control
            .unwrap()
            .write_all_at(&[7; 16], control::BOOT as u64 * 8)
            .unwrap();
        (place, uri, files)
    }

    /// A program of another machine or sandbox, with another boot id, joins during the removal.
    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no locks of files")]
    fn channel_of_earlier_boot_stays_while_participant_joins() {
        let (_place, _, files) = left_behind("joins");
        let path = files.path().join(CONTROL);
        let opened = segment::open_file(&files, CONTROL, true).unwrap().unwrap();
        let locks = Locks::named(files.as_fd(), CONTROL, &opened)
            .unwrap()
            .unwrap();
        let (report, received) = std::sync::mpsc::channel();
        hook::at("boot.membership", move || {
            // The steps of a joiner.
            let joins = locks.try_lock(lock_byte::MEMBERSHIP).unwrap();
            if joins {
                assert!(locks.try_lock(lock_byte::SLOT).unwrap());
                locks.unlock(lock_byte::MEMBERSHIP);
            }
            report.send((joins, locks)).unwrap();
        });
        let removed = remove_earlier(&files);
        let (joined, _locks) = received.try_recv().unwrap();
        assert_eq!(joined, path.exists(), "{removed:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no locks of files")]
    fn opener_gets_busy_error_with_pid_of_stopped_remover() {
        let (_place, uri, files) = left_behind("stopped");
        let path = files.path().join(CONTROL);
        let opened = segment::open_file(&files, CONTROL, true).unwrap().unwrap();
        let locks = Locks::named(files.as_fd(), CONTROL, &opened)
            .unwrap()
            .unwrap();
        assert!(locks.try_lock(lock_byte::MEMBERSHIP).unwrap());
        assert_eq!(
            remove_earlier(&files).unwrap(),
            Earlier::Busy(u64::from(std::process::id()))
        );
        let refused = crate::Publisher::open(&uri).unwrap_err();
        assert!(matches!(refused, OpenError::Busy { .. }), "{refused}");
        assert!(path.exists());
        locks.unlock(lock_byte::MEMBERSHIP);
        drop(crate::Publisher::open(&uri).unwrap());
        assert_eq!(remove_earlier(&files).unwrap(), Earlier::Gone);
    }
}
