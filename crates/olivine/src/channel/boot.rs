//! Channels of an earlier boot, in a folder on a disk: not delivered, removed by the next opener.
//!
//! A crash of the machine may leave any part of a file on a disk as it was, torn or empty, and clocks begin
//! anew. So a reboot ends every channel, as it does in memory.

use super::attach::io_error;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::ring::layout::{CONTROL_MAGIC, LAYOUT_VERSION, control, lock_byte};
use crate::segment::{self, CONTROL, ChannelFolder, boot};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Refuses a control file that was made in another boot.
pub(super) fn check(file: BorrowedFd<'_>, path: &Path) -> Result<(), OpenError> {
    if is_earlier(file, boot()) {
        return Err(OpenError::EarlierBoot {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Whether the file is a control file of this layout and of a boot that is known and is not `now`.
fn is_earlier(file: BorrowedFd<'_>, now: [u64; control::BOOT_WORDS]) -> bool {
    const WORDS: usize = control::BOOT + control::BOOT_WORDS;
    let mut bytes = [0; WORDS * 8];
    // A shorter file is damaged: the checks behind this say how.
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

/// Removes a channel of an earlier boot. `false` where another process is at it, or has done it.
///
/// # Errors
///
/// What the system says, or that a process uses the channel all the same: one that sees another boot id.
pub(crate) fn remove_earlier(files: &ChannelFolder) -> Result<bool, OpenError> {
    let path = files.path().join(CONTROL);
    let Some(file) = segment::open_file(files, CONTROL, true)? else {
        return Ok(false);
    };
    if !is_earlier(file.as_fd(), boot()) {
        return Ok(false);
    }
    let Some(locks) =
        Locks::named(files.as_fd(), CONTROL, &file).map_err(io_error("open", &path))?
    else {
        return Ok(false);
    };
    if locks.held_by_others(lock_byte::LANE, lock_byte::END) {
        return Err(OpenError::Folder {
            path,
            problem: "a process with another boot id (/proc/sys/kernel/random/boot_id) uses it: \
                      give programs of other machines or sandboxes another 'dir='"
                .to_owned(),
        });
    }
    let locked = locks.try_lock(lock_byte::MEMBERSHIP);
    if !locked.map_err(io_error("lock", &path))? {
        return Ok(false);
    }
    let Locks::File(lock) = &locks else {
        return Ok(false);
    };
    if !files.is_current(lock.as_fd()) {
        return Ok(false);
    }
    files.remove()?;
    Ok(true)
}
