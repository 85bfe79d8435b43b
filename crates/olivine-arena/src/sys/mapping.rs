//! Shared memory of every kind behind one type, with checked offsets.

use super::checked;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::{io, ptr, slice};

/// Memory shared with another process.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mapped,
    Segment,
}

/// System pages in bytes.
pub fn page() -> usize {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

impl Mapping {
    /// Maps the first `length` bytes of a file, which must be that long.
    pub fn file(file: &File, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe { map(ptr::null_mut(), length, MapFlags::SHARED, file)? };
        Ok(Self::of(base, length, Kind::Mapped))
    }

    /// Memory of this process only, which others reach through the kernel.
    pub fn private(length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::of(base, length, Kind::Mapped))
    }

    /// Maps `head` bytes of a file and behind them, twice in a row, the `ring` bytes that follow in
    /// the file.
    pub fn mirrored(file: &File, head: usize, ring: usize) -> io::Result<Self> {
        let length = head + 2 * ring;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on any error unmaps the whole range.
        let mapping = Self::of(base, length, Kind::Mapped);
        let fixed = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: replaces the first part of the range that was reserved just above.
        unsafe { map(mapping.at(0, head), head + ring, fixed, file)? };
        let again = mapping.at(head + ring, ring);
        // SAFETY: replaces the last `ring` bytes of the range that was reserved just above.
        unsafe { map_at(again, ring, fixed, file, head as u64)? };
        Ok(mapping)
    }

    /// Attaches a System V segment.
    pub fn segment(id: i32, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe { libc::shmat(id, ptr::null(), 0) };
        if base.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::of(base, length, Kind::Segment))
    }

    /// Makes a System V segment of `length` zero bytes; returns its number.
    pub fn make_segment(length: usize) -> io::Result<i32> {
        // SAFETY: takes no pointers.
        checked(unsafe { libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o600) })
    }

    /// Marks a System V segment that this user made: it goes with its last user. A missing segment,
    /// or that of another user, is left as it is.
    pub fn remove_segment(id: i32) {
        // SAFETY: all bytes zero are a valid `shmid_ds`.
        let mut found: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives, and is what this command writes.
        let looked = unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut found) };
        if looked == 0 && found.shm_perm.cuid == rustix::process::geteuid().as_raw() {
            // SAFETY: takes no pointers with this command.
            unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) };
        }
    }

    fn of(base: NonNull<u8>, length: usize, kind: Kind) -> Self {
        Self { base, length, kind }
    }

    /// The address of `length` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// If they are not in the mapping.
    #[inline(always)]
    pub fn at(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "{length} bytes at {offset} are outside a mapping of {} bytes",
            self.length
        );
        // SAFETY: inside the mapping, as checked above.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The address that another process needs to write into this mapping through the kernel.
    pub fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    /// The 64-bit word at `offset`, a multiple of 8.
    #[inline(always)]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "no word is at {offset}");
        // SAFETY: in bounds, aligned (mappings start at pages), and all processes use it
        // atomically.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// The 32-bit word at `offset`, a multiple of 4.
    #[inline(always)]
    pub fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "no half word is at {offset}");
        // SAFETY: in bounds, aligned (mappings start at pages), and all processes use it
        // atomically.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// Bytes to read.
    ///
    /// # Safety
    ///
    /// No thread of any process writes them while the slice lives.
    #[inline(always)]
    pub unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: in bounds and initialised by the kernel; the caller vouches for the rest.
        unsafe { slice::from_raw_parts(self.at(offset, length), length) }
    }

    /// Bytes to write.
    ///
    /// # Safety
    ///
    /// No other thread of any process reads or writes them while the slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the caller vouches that it is alone")]
    pub unsafe fn bytes_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        // SAFETY: in bounds and initialised by the kernel; the caller vouches for the rest.
        unsafe { slice::from_raw_parts_mut(self.at(offset, length), length) }
    }
}

/// The ring of a mapping that [`Mapping::mirrored`] made, reached by positions: counts of bytes
/// that never wrap. No access is checked, because none can leave the mapping.
#[derive(Clone, Copy, Debug)]
pub struct Doubled<'a> {
    base: NonNull<u8>,
    mask: u64,
    mapping: PhantomData<&'a Mapping>,
}

impl Mapping {
    /// The `ring` bytes behind `head`, which are mapped twice in a row.
    ///
    /// # Panics
    ///
    /// If `ring` is not a power of two of 8 or more, or both copies are not in the mapping.
    pub fn doubled(&self, head: usize, ring: usize) -> Doubled<'_> {
        assert!(
            ring.is_power_of_two() && ring >= 8 && head.is_multiple_of(8),
            "no ring has {ring} bytes behind {head}"
        );
        let first = self.at(head, 2 * ring);
        Doubled {
            base: NonNull::new(first).unwrap_or(self.base),
            mask: (ring as u64 - 1) & !7,
            mapping: PhantomData,
        }
    }
}

impl<'a> Doubled<'a> {
    #[inline(always)]
    fn at(self, position: u64) -> *mut u8 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "below the bytes of a mapping"
        )]
        let offset = (position & self.mask) as usize;
        // SAFETY: below the bytes of the ring, which `doubled` found in the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The place behind the word at `position`.
    #[inline(always)]
    fn behind(self, position: u64) -> *mut u8 {
        // SAFETY: the word is in the first copy of the ring, so 8 bytes further is in the mapping.
        unsafe { self.at(position).add(size_of::<u64>()) }
    }

    /// The word at `position`, a multiple of 8.
    #[inline(always)]
    pub fn word(self, position: u64) -> &'a AtomicU64 {
        // SAFETY: in bounds, aligned by the mask, and all processes use it atomically.
        unsafe { AtomicU64::from_ptr(self.at(position).cast()) }
    }

    /// Bytes to read behind the word at `position`.
    ///
    /// # Panics
    ///
    /// If they are more than the ring holds behind a word.
    ///
    /// # Safety
    ///
    /// No thread of any process writes them while the slice lives.
    #[inline(always)]
    pub unsafe fn bytes(self, position: u64, length: usize) -> &'a [u8] {
        assert!(length as u64 <= self.mask, "{length} bytes in no ring");
        // SAFETY: the word and these bytes are at most a ring, and the ring is mapped twice in a
        // row; initialised by the kernel; the caller vouches for the rest.
        unsafe { slice::from_raw_parts(self.behind(position), length) }
    }

    /// Bytes to write behind the word at `position`.
    ///
    /// # Panics
    ///
    /// As [`Doubled::bytes`].
    ///
    /// # Safety
    ///
    /// No other thread of any process reads or writes them while the slice lives.
    #[inline(always)]
    pub unsafe fn bytes_mut(self, position: u64, length: usize) -> &'a mut [u8] {
        assert!(length as u64 <= self.mask, "{length} bytes in no ring");
        // SAFETY: as in `bytes`.
        unsafe { slice::from_raw_parts_mut(self.behind(position), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let base = self.base.as_ptr().cast();
        match self.kind {
            // SAFETY: attached by us, and nothing borrows from it any more.
            Kind::Segment => unsafe {
                libc::shmdt(base);
            },
            // SAFETY: mapped by us, and nothing borrows from it any more. It was mapped, so it can
            // be unmapped.
            Kind::Mapped => unsafe {
                let _ = rustix::mm::munmap(base.cast(), self.length);
            },
        }
    }
}

/// Maps the start of a file.
///
/// # Safety
///
/// With a fixed address, the range there is the caller's to replace.
unsafe fn map(at: *mut u8, length: usize, flags: MapFlags, file: &File) -> io::Result<NonNull<u8>> {
    // SAFETY: as the caller vouches.
    unsafe { map_at(at, length, flags, file, 0) }
}

/// Maps a file from `from` on.
///
/// # Safety
///
/// With a fixed address, the range there is the caller's to replace.
unsafe fn map_at(
    at: *mut u8,
    length: usize,
    flags: MapFlags,
    file: &File,
    from: u64,
) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = flags | MapFlags::POPULATE;
    // SAFETY: as the caller vouches.
    let base =
        unsafe { rustix::mm::mmap(at.cast(), length, protection, flags, file.as_fd(), from)? };
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_mirrored_ring_shows_its_start_behind_its_end() {
        let file = tempfile::tempfile().unwrap();
        let (head, ring) = (page(), 4 * page());
        file.set_len((head + ring) as u64).unwrap();
        let mapping = Mapping::mirrored(&file, head, ring).unwrap();
        mapping.word(head).store(7, Ordering::Release);
        assert_eq!(mapping.word(head + ring).load(Ordering::Acquire), 7);
        assert_eq!(mapping.word(0).load(Ordering::Acquire), 0);
        let doubled = mapping.doubled(head, ring);
        let laps = 5 * ring as u64;
        assert_eq!(doubled.word(laps).load(Ordering::Acquire), 7);
        // SAFETY: only this thread uses the mapping.
        unsafe { doubled.bytes_mut(laps - 8, 16) }.fill(9);
        let nines = u64::from_ne_bytes([9; 8]);
        assert_eq!(mapping.word(head + 8).load(Ordering::Acquire), nines);
    }

    #[test]
    #[should_panic(expected = "bytes in no ring")]
    fn more_than_a_ring_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * page() as u64).unwrap();
        let mapping = Mapping::mirrored(&file, page(), page()).unwrap();
        // SAFETY: only this thread uses the mapping.
        let _ = unsafe { mapping.doubled(page(), page()).bytes(0, page()) };
    }

    #[test]
    #[should_panic(expected = "outside a mapping")]
    fn a_place_outside_is_refused() {
        let mapping = Mapping::private(4096).unwrap();
        mapping.word(4096);
    }

    #[test]
    fn a_segment_is_shared_and_goes_with_its_last_user() {
        let id = Mapping::make_segment(4096).unwrap();
        let mine = Mapping::segment(id, 4096).unwrap();
        let theirs = Mapping::segment(id, 4096).unwrap();
        Mapping::remove_segment(id);
        mine.word(8).store(3, Ordering::Release);
        assert_eq!(theirs.word(8).load(Ordering::Acquire), 3);
        drop((mine, theirs));
        assert!(Mapping::segment(id, 4096).is_err());
    }
}
