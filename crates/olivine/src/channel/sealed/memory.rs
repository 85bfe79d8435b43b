//! The memory of a sealed channel: made and sealed before it is handed out, and checked before it
//! is used.

use super::listen::refused;
use crate::channel::attach::control_bytes;
use crate::channel::attached::Attached;
use crate::channel::backing::{Backing, memory_file};
use crate::channel::fields;
use crate::error::{OpenError, SealedError};
use crate::region::Words;
use crate::ring::gate::set_bit;
use crate::ring::layout::{NO_POSITION, control, lane_entry, slot};
use crate::ring::pages::page_of;
use crate::segment::map_control;
use crate::sync::Ordering;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Names of the two memories in error messages.
pub(super) const LANE: &str = "lane";
pub(super) const PAGE: &str = "page";

/// Seals of a lane: no process can resize it, map it writable, punch holes into it, or add seals.
pub(super) fn lane_seals() -> SealFlags {
    page_seals() | SealFlags::FUTURE_WRITE
}

/// Seals of a subscriber's page, which both ends write: no process can resize it.
pub(super) fn page_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// Passes the memory of the only lane to `take`. `None` if there is none.
pub(super) fn with_lane<T>(
    attached: &Attached,
    take: impl FnOnce(BorrowedFd<'_>) -> T,
) -> Option<T> {
    match &attached.backing {
        Backing::Process(memory) => memory.with_lane(0, take),
        Backing::Files(_) => None,
    }
}

/// Seals `file`. An existing mapping stays as it is.
pub(super) fn seal(
    file: BorrowedFd<'_>,
    seals: SealFlags,
    socket: &Path,
) -> Result<(), SealedError> {
    fcntl_add_seals(file, seals).map_err(refused(
        "seal memory (Linux 5.1 or later is needed) for",
        socket,
    ))
}

/// `f_type` of a file in huge pages.
const HUGETLBFS_MAGIC: rustix::fs::FsWord = 0x9584_58f6;

/// Checks that `file` is memory with these seals and of this length.
///
/// # Errors
///
/// [`SealedError::Memory`] with the fault.
pub(super) fn check(
    file: &OwnedFd,
    memory: &'static str,
    seals: SealFlags,
    bytes: Option<u64>,
    socket: &Path,
) -> Result<(), SealedError> {
    let wrong = |problem: String| {
        Err(SealedError::Memory {
            socket: socket.to_owned(),
            memory,
            problem,
        })
    };
    let found = match fcntl_get_seals(file) {
        Ok(found) => found,
        Err(Errno::INVAL) => return wrong("this memory cannot be sealed".to_owned()),
        Err(errno) => return Err(refused("look at the memory from", socket)(errno)),
    };
    let names = [
        (SealFlags::SHRINK, "F_SEAL_SHRINK"),
        (SealFlags::GROW, "F_SEAL_GROW"),
        (SealFlags::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
        (SealFlags::SEAL, "F_SEAL_SEAL"),
    ];
    for (seal, name) in names {
        if seals.contains(seal) && !found.contains(seal) {
            return wrong(format!("it is not sealed with {name}"));
        }
    }
    // Only the page must be writable for us.
    let write = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
    if !seals.intersects(write) && found.intersects(write) {
        return wrong("it is sealed against our writing".to_owned());
    }
    let system = rustix::fs::fstatfs(file).map_err(refused("look at the memory from", socket))?;
    // Without the seals of a lane the publisher can take its memory away again. Other memory is
    // then replaced by zeros, huge pages end in SIGBUS.
    if !seals.contains(SealFlags::FUTURE_WRITE) && system.f_type == HUGETLBFS_MAGIC {
        return wrong("it is in huge pages, which its publisher can take away".to_owned());
    }
    let stat = rustix::fs::fstat(file).map_err(refused("look at the memory from", socket))?;
    let length = u64::try_from(stat.st_size).unwrap_or(0);
    match bytes {
        Some(bytes) if length != bytes => {
            wrong(format!("it has {length} bytes and should have {bytes}"))
        }
        None if length < 4096 => wrong(format!("it has {length} bytes, less than one page")),
        // The seals of a lane prevent that its memory is taken away again.
        _ if seals.contains(SealFlags::FUTURE_WRITE) && allocated(&stat) < length => {
            wrong(format!(
                "it has {length} bytes and memory for {} of them: the rest would \
                 be charged to the process that reads it",
                allocated(&stat)
            ))
        }
        _ => Ok(()),
    }
}

/// Bytes of memory that a file has.
fn allocated(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512)
}

/// Makes the page of a subscriber that joined `attached`: its sealed descriptor and its words.
pub(super) fn new_page(
    attached: &Attached,
    gates: bool,
    start: u64,
) -> Result<(OwnedFd, Words), OpenError> {
    let shape = page_of(&attached.geometry);
    let path = attached.backing.path();
    let file = memory_file(path, shape.control_bytes(), None, &control_bytes(&shape))?;
    let words = map_control(file.as_fd(), path, shape.control_bytes(), true)?;
    // Relaxed: no other thread has it yet, and the socket that carries it orders everything.
    let store = |index: usize, value: u64| words.word(index).store(value, Ordering::Relaxed);
    store(control::INCARNATION, attached.incarnation());
    store(shape.lane_entry(0) + lane_entry::PRESENT, 1);
    store(
        shape.lane_entry(0) + lane_entry::PID,
        u64::from(std::process::id()),
    );
    store(shape.slot(0) + slot::STATE, slot::ATTACHED);
    store(
        shape.position(0, 0),
        if gates { start } else { NO_POSITION },
    );
    let type_hash = attached.geometry.type_hash;
    let stored = fields::stored(&attached.control, type_hash);
    fields::store(&words, type_hash, &stored);
    // A publisher looks for a sleeper if this bit is set.
    set_bit(&words, control::ATTACHED, 0, true);
    seal(file.as_fd(), page_seals(), path)?;
    Ok((file, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fallocate, ftruncate, memfd_create};

    #[test]
    fn page_in_huge_pages_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(file) = memfd_create("page", flags) else {
            return eprintln!("skipped: this system has no huge pages");
        };
        ftruncate(&file, 2 << 20).unwrap();
        let socket = Path::new("/s");
        seal(file.as_fd(), page_seals(), socket).unwrap();
        let error = check(&file, "page", page_seals(), None, socket).unwrap_err();
        assert!(error.to_string().contains("huge pages"), "{error}");
    }

    #[test]
    fn lane_without_all_its_memory_is_refused() {
        const BYTES: u64 = 64 * 1024;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        for (given, good) in [(0, false), (BYTES - 4096, false), (BYTES, true)] {
            let file = memfd_create("olivine", flags).unwrap();
            ftruncate(&file, BYTES).unwrap();
            if given > 0 {
                let mode = rustix::fs::FallocateFlags::empty();
                fallocate(&file, mode, 0, given).unwrap();
            }
            fcntl_add_seals(&file, lane_seals()).unwrap();
            let checked = check(&file, LANE, lane_seals(), None, Path::new("/run/it"));
            assert_eq!(checked.is_ok(), good, "{given} bytes: {checked:?}");
        }
    }
}
