//! Mappings: the control words, a lane's header page, and its ring, twice in a row.

use super::{length, refused};
use crate::error::OpenError;
use crate::region::{Memory, Ring, Words};
use crate::ring::layout::{Geometry, LANE_HEADER_BYTES, lane};
use crate::uri::HugePages;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// `MADV_COLLAPSE` of Linux 6.1. `libc` has no name for it with musl.
const MADV_COLLAPSE: i32 = 25;

fn protection(writable: bool) -> ProtFlags {
    if writable {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    }
}

/// Maps `bytes` of `file` from `offset`, at an address chosen by the kernel.
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
    // SAFETY: just mapped, page aligned, ours alone. The file is as long as the mapping (checked by
    // the callers), and its memory was allocated when it was made.
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
            "it has {found} bytes and should have {bytes}: it is truncated; remove it with \
             'olivine rm --force'"
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

/// Maps the header of a lane for reading, without its ring.
pub(crate) fn map_lane_header(
    file: BorrowedFd<'_>,
    path: &Path,
    geometry: &Geometry,
) -> Result<Words, OpenError> {
    check_length(file, path, geometry)?;
    let memory = map(file, path, 0, LANE_HEADER_BYTES, false)?;
    Ok(Words::new(&memory, 0, lane::WORDS))
}

/// Refuses a lane whose length is not that of its channel.
fn check_length(file: BorrowedFd<'_>, path: &Path, geometry: &Geometry) -> Result<(), OpenError> {
    let (found, expected) = (length(file, path)?, geometry.lane_bytes());
    if found != expected {
        let problem = format!(
            "it has {found} bytes and should have {expected}; remove the channel with \
             'olivine rm --force'"
        );
        return Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        });
    }
    Ok(())
}

/// Maps a lane: its header page, and its ring twice.
pub(crate) fn map_lane(
    file: BorrowedFd<'_>,
    path: &Path,
    geometry: &Geometry,
    writable: bool,
    hugepages: HugePages,
) -> Result<(Words, Ring), OpenError> {
    check_length(file, path, geometry)?;
    let page = Memory::page_size() as u64;
    if !LANE_HEADER_BYTES.is_multiple_of(page) || !geometry.capacity.is_multiple_of(page) {
        let problem = format!(
            "a ring of {} bytes cannot be mapped with pages of {page} bytes; use a larger \
             'capacity='",
            geometry.capacity
        );
        return Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        });
    }
    let lane = map_twice(file, path, geometry.capacity, writable, hugepages)?;
    lane.advise(writable, hugepages)?;
    Ok((
        Words::new(&lane.header, 0, lane::WORDS),
        Ring::new(&lane.ring, geometry.capacity),
    ))
}

/// Bytes of a large page: the second level of page tables with pages of 4 KiB.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// A lane in memory: `header | ring | ring once more`, in one run of addresses.
struct Mapped {
    base: NonNull<u8>,
    header: Arc<Memory>,
    ring: Arc<Memory>,
}

/// Maps the header, and after it the ring twice in a row: any run of up to `capacity` bytes is
/// contiguous at any position.
///
/// A large page needs an address and a file offset that agree. So with `hugepages` the header, at
/// the start of the file, gets an address that is a multiple of a large page.
fn map_twice(
    file: BorrowedFd<'_>,
    path: &Path,
    capacity: u64,
    writable: bool,
    hugepages: HugePages,
) -> Result<Mapped, OpenError> {
    let size = size_of_mapping(capacity, path)?;
    let header = size_of_mapping(LANE_HEADER_BYTES, path)?;
    let slack = if hugepages == HugePages::No {
        0
    } else {
        LARGE_PAGE_BYTES
    };
    let whole = header + size * 2;
    // Reserve the whole range first, so that no other mapping can be in the second half. SAFETY: a
    // new inaccessible mapping at an address of the kernel's choice disturbs nothing.
    let reserved = unsafe {
        rustix::mm::mmap_anonymous(
            core::ptr::null_mut(),
            whole + slack,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let reserved: *mut u8 = reserved.map_err(refused("map", path))?.cast();
    let front = if slack == 0 {
        0
    } else {
        reserved.addr().wrapping_neg() % LARGE_PAGE_BYTES
    };
    // The rest after alignment is unmapped. An address range that stays reserved would do no harm.
    for (from, length) in [(0, front), (front + whole, slack - front)] {
        if length > 0 {
            // SAFETY: inside the reservation.
            let part = unsafe { reserved.add(from) };
            // SAFETY: an unused part of our reservation.
            let _ = unsafe { rustix::mm::munmap(part.cast(), length) };
        }
    }
    // SAFETY: `front` is at most the slack, so the whole lane is in the reservation.
    let base = unsafe { reserved.add(front) };
    let base = NonNull::new(base)
        .ok_or(rustix::io::Errno::NOMEM)
        .map_err(refused("map", path))?;
    // SAFETY: just reserved, ours alone; unmapped, or left forever, on every return path. The file
    // is as long as the lane (checked by the caller), and its memory was allocated when it was
    // made.
    let header_memory = unsafe { Memory::from_mapping(base, header) };
    // SAFETY: inside the reservation.
    let ring = unsafe { base.add(header) };
    // SAFETY: as for the header, beside it.
    let ring = unsafe { Memory::from_mapping(ring, size * 2) };
    // Unmapped as a whole only if it is whole.
    let lane = ManuallyDrop::new(Mapped {
        base,
        header: header_memory,
        ring,
    });
    for (at, bytes, offset) in [
        (0, header + size, 0),
        (header + size, size, LANE_HEADER_BYTES),
    ] {
        // SAFETY: inside the reservation.
        let place = unsafe { base.as_ptr().add(at) };
        // SAFETY: replaces an unused part of our reservation.
        let mapped = unsafe {
            rustix::mm::mmap(
                place.cast(),
                bytes,
                protection(writable),
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                offset,
            )
        };
        if let Err(errno) = mapped {
            // Older kernels have unmapped the range by then, and another thread's mapping may be
            // there. So the range is left as it is, not unmapped. The part before it is still ours.
            if at > 0 {
                // SAFETY: the first part, which was mapped above and is unused.
                let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), at) };
            }
            return Err(refused("map", path)(errno));
        }
    }
    Ok(ManuallyDrop::into_inner(lane))
}

impl Mapped {
    /// Requests large pages, and fills page tables now, not at the first access.
    fn advise(&self, writable: bool, hugepages: HugePages) -> Result<(), OpenError> {
        if hugepages != HugePages::No {
            // Advice for khugepaged, which may run later. Errors do not matter.
            let _ = self.call(libc::MADV_HUGEPAGE, self.length());
        }
        // Best effort: before Linux 5.14 the first lap faults pages in one by one instead.
        let populate = if writable {
            libc::MADV_POPULATE_WRITE
        } else {
            libc::MADV_POPULATE_READ
        };
        let _ = self.call(populate, self.length());
        if hugepages == HugePages::No {
            return Ok(());
        }
        // The file was allocated in small pages. Now they are collapsed into large ones.
        let size = self.ring.length() / 2;
        let gathered = self.call(MADV_COLLAPSE, self.header.length() + size);
        // The second half, too, except its start, which shares a large page with the header.
        let _ = self.call(MADV_COLLAPSE, self.length());
        if hugepages == HugePages::Require {
            require_large(size, gathered)?;
        }
        Ok(())
    }

    /// Bytes of the header and of the ring, twice.
    fn length(&self) -> usize {
        self.header.length() + self.ring.length()
    }

    /// Gives `advice` on the first `length` bytes; repeats it on `EAGAIN`.
    fn call(&self, advice: libc::c_int, length: usize) -> io::Result<()> {
        /// The kernel returns it while another process holds one of the pages.
        const TRIES: u32 = 16;
        let mut tries = 0;
        loop {
            // SAFETY: the range is our own mapping, and the advice does not change its content.
            let given = unsafe { libc::madvise(self.base.as_ptr().cast(), length, advice) };
            if given == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            let again = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY));
            tries += 1;
            if !again || tries == TRIES {
                return Err(error);
            }
        }
    }
}

/// Refuses a ring of `capacity` bytes that did not get large pages.
fn require_large(capacity: usize, gathered: io::Result<()>) -> Result<(), OpenError> {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let problem = if capacity < LARGE_PAGE_BYTES {
        "'capacity=' is below 2MiB, the size of one large page".to_owned()
    } else if let Err(error) = gathered {
        let setting = std::fs::read_to_string(SETTING).unwrap_or_default();
        format!(
            "the kernel gives none ({error}): it needs Linux 6.1, contiguous free memory, and not \
             'deny' in {SETTING}, which says '{}'; or use hugepages=try",
            setting.trim()
        )
    } else {
        return Ok(());
    };
    Err(OpenError::HugePages { problem })
}

/// Binds the memory of a new file to one NUMA node.
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
    // SAFETY: the range is the mapping above and the mask lives across the call. The policy belongs
    // to the file's pages, so it outlives the mapping.
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
    let error = io::Error::last_os_error();
    // SAFETY: the mapping above, which is unused.
    let _ = unsafe { rustix::mm::munmap(base, size) };
    if bound != 0 {
        return Err(OpenError::Numa {
            node,
            path: path.to_owned(),
            problem: problem_of_node(&error),
            source: error,
        });
    }
    Ok(())
}

/// Why the kernel refused a NUMA node, and what to do.
fn problem_of_node(error: &io::Error) -> String {
    use rustix::io::Errno;

    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let nodes = lines.find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    match (Errno::from_io_error(error), nodes) {
        (Some(Errno::INVAL), Some(nodes)) => format!(
            "this process may use memory of these nodes: {}; name one of them, or leave 'numa=' \
             out",
            nodes.trim()
        ),
        (Some(Errno::PERM), _) => "the system call mbind is forbidden, as in a container without \
                                   CAP_SYS_NICE: allow it, or leave 'numa=' out"
            .to_owned(),
        _ => "leave 'numa=' out, or find out why the kernel refuses it".to_owned(),
    }
}
