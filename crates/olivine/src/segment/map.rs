//! Mappings: the control words, a lane's header page, and its ring mapped twice back to back.

use super::{length, refused};
use crate::error::OpenError;
use crate::region::{Memory, Ring, Words};
use crate::ring::layout::{Geometry, LANE_HEADER_BYTES, lane};
use crate::uri::HugePages;
use core::ptr::NonNull;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

fn protection(writable: bool) -> ProtFlags {
    if writable {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    }
}

/// Maps `bytes` of `file` from `offset`, at an address of the kernel's choice.
fn map(
    file: BorrowedFd<'_>,
    path: &Path,
    offset: u64,
    bytes: u64,
    writable: bool,
) -> Result<Arc<Memory>, OpenError> {
    let size = size_of_mapping(bytes, path)?;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            size,
            protection(writable),
            MapFlags::SHARED,
            file,
            offset,
        )
    };
    let base = base.map_err(refused("map", path))?;
    let base = NonNull::new(base.cast())
        .ok_or(rustix::io::Errno::NOMEM)
        .map_err(refused("map", path))?;
    // SAFETY: just mapped, page aligned, ours alone. The file is as long as the mapping (checked by the
    // callers), and its memory was allocated when it was made.
    Ok(unsafe { Memory::from_mapping(base, size) })
}

fn size_of_mapping(bytes: u64, path: &Path) -> Result<usize, OpenError> {
    usize::try_from(bytes).map_err(|_| refused("map", path)(rustix::io::Errno::OVERFLOW))
}

/// Maps the first `bytes` of a control file. The file must be at least that long.
pub(crate) fn map_control(
    file: BorrowedFd<'_>,
    path: &Path,
    bytes: u64,
    writable: bool,
) -> Result<Words, OpenError> {
    let found = length(file, path)?;
    if found < bytes {
        let problem = format!(
            "it has {found} bytes and should have {bytes}: it is truncated; remove it with 'olivine rm --force'"
        );
        return Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        });
    }
    let memory = map(file, path, 0, bytes, writable)?;
    let count = memory.length() / 8;
    Ok(Words::new(&memory, 0, count))
}

/// Maps a lane: its header page, and its ring twice.
pub(crate) fn map_lane(
    file: BorrowedFd<'_>,
    path: &Path,
    geometry: &Geometry,
    writable: bool,
    hugepages: HugePages,
) -> Result<(Words, Ring), OpenError> {
    let (found, expected) = (length(file, path)?, geometry.lane_bytes());
    if found != expected {
        let problem = format!(
            "it has {found} bytes and should have {expected}; remove the channel with 'olivine rm --force'"
        );
        return Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        });
    }
    let page = Memory::page_size() as u64;
    if !LANE_HEADER_BYTES.is_multiple_of(page) || !geometry.capacity.is_multiple_of(page) {
        let problem = format!(
            "a ring of {} bytes cannot be mapped with pages of {page} bytes; use a larger 'capacity='",
            geometry.capacity
        );
        return Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        });
    }
    let header = map(file, path, 0, LANE_HEADER_BYTES, writable)?;
    let ring = map_twice(file, path, geometry.capacity, writable)?;
    advise(&ring, geometry.capacity, writable, hugepages)?;
    Ok((
        Words::new(&header, 0, lane::WORDS),
        Ring::new(&ring.memory, geometry.capacity),
    ))
}

struct Twice {
    base: NonNull<u8>,
    memory: Arc<Memory>,
}

/// Maps the ring twice, back to back: any run of up to `capacity` bytes is contiguous at any position.
fn map_twice(
    file: BorrowedFd<'_>,
    path: &Path,
    capacity: u64,
    writable: bool,
) -> Result<Twice, OpenError> {
    let size = size_of_mapping(capacity, path)?;
    // Reserve the whole range first, so that nobody else's mapping can be in the second half.
    // SAFETY: a new inaccessible mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe {
        rustix::mm::mmap_anonymous(
            core::ptr::null_mut(),
            size * 2,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let base: *mut u8 = base.map_err(refused("map", path))?.cast();
    let start = NonNull::new(base)
        .ok_or(rustix::io::Errno::NOMEM)
        .map_err(refused("map", path))?;
    // SAFETY: just reserved, ours alone; unmapped as a whole on every way out of here.
    let memory = unsafe { Memory::from_mapping(start, size * 2) };
    for half in 0..2 {
        // SAFETY: inside the reservation.
        let at = unsafe { base.add(half * size) };
        // SAFETY: replaces a part of our own reservation, in which nothing lives.
        let mapped = unsafe {
            rustix::mm::mmap(
                at.cast(),
                size,
                protection(writable),
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                LANE_HEADER_BYTES,
            )
        };
        mapped.map_err(refused("map", path))?;
    }
    Ok(Twice {
        base: start,
        memory,
    })
}

/// Large pages where asked for, and page tables filled now rather than at the first touch.
fn advise(
    ring: &Twice,
    capacity: u64,
    writable: bool,
    hugepages: HugePages,
) -> Result<(), OpenError> {
    let size = ring.memory.length();
    let call = |advice| {
        // SAFETY: the whole range is our own mapping, and neither advice changes what it holds.
        unsafe { rustix::mm::madvise(ring.base.as_ptr().cast(), size, advice) }
    };
    if hugepages != HugePages::No {
        let asked = call(Advice::LinuxHugepage);
        if hugepages == HugePages::Require {
            require_huge(capacity, asked)?;
        }
    }
    // Best effort: before Linux 5.14 the first lap faults pages in one by one instead.
    let _ = call(if writable {
        Advice::LinuxPopulateWrite
    } else {
        Advice::LinuxPopulateRead
    });
    Ok(())
}

fn require_huge(capacity: u64, asked: Result<(), rustix::io::Errno>) -> Result<(), OpenError> {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let problem = if capacity < 2 << 20 {
        Some("'capacity=' is below 2MiB, the size of one large page".to_owned())
    } else if let Err(errno) = asked {
        Some(format!(
            "the kernel refused ({errno}); leave 'hugepages' out or use hugepages=try"
        ))
    } else {
        let setting = std::fs::read_to_string(SETTING).unwrap_or_default();
        let off = setting.contains("[never]") || setting.contains("[deny]");
        off.then(|| {
            format!(
                "{SETTING} says '{}': set it to 'advise', or use hugepages=try",
                setting.trim()
            )
        })
    };
    problem.map_or(Ok(()), |problem| Err(OpenError::HugePages { problem }))
}

/// Makes the memory of a file that has none yet come from one NUMA node.
pub(super) fn prefer_node(
    file: BorrowedFd<'_>,
    path: &Path,
    bytes: u64,
    node: u32,
) -> Result<(), OpenError> {
    // MPOL_BIND of linux/mempolicy.h: this node or nothing.
    const MPOL_BIND: libc::c_int = 2;
    let size = size_of_mapping(bytes, path)?;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            size,
            protection(true),
            MapFlags::SHARED,
            file,
            0,
        )
    };
    let base = base.map_err(refused("map", path))?;
    let mask: u64 = 1 << node;
    // SAFETY: the range is the mapping above and the mask lives across the call. The policy belongs to the
    // file's pages, so it outlives the mapping.
    let bound = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base,
            size,
            MPOL_BIND,
            &raw const mask,
            65_u64,
            0_u32,
        )
    };
    let error = std::io::Error::last_os_error();
    // SAFETY: the mapping above, in which nothing lives.
    let _ = unsafe { rustix::mm::munmap(base, size) };
    if bound != 0 {
        return Err(OpenError::Io {
            action: "put on the NUMA node that 'numa=' names",
            path: path.to_owned(),
            source: error,
        });
    }
    Ok(())
}
