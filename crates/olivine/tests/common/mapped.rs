//! Mapped files: memory of a channel as a hostile process maps it, with access to every word and
//! random words to write; and words that the processes of a test share beside a channel.

use super::Random;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapped file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    base: *mut u64,
    words: usize,
}

// SAFETY: mapped until it is dropped, and reached through atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A file of a channel, as its owner maps it.
    pub(crate) fn new(path: &Path) -> Self {
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).open(path).unwrap();
        Self::of(&file, true).unwrap()
    }

    /// All of `file`, if the kernel lets us.
    pub(crate) fn of(file: impl AsFd, writable: bool) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        let bytes = usize::try_from(stat.st_size).unwrap();
        let protection = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        let flags = MapFlags::SHARED;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0)? };
        Ok(Self {
            base: base.cast(),
            words: bytes / 8,
        })
    }

    /// Number of words.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Its address.
    pub(crate) fn base(&self) -> *mut u64 {
        self.base
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words);
        // SAFETY: inside the mapping, by the line above.
        let at = unsafe { self.base.add(index) };
        // SAFETY: mapped as long as `self`, aligned, reached through atomics only.
        unsafe { AtomicU64::from_ptr(at) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our mapping of this length, to which no reference is left.
        let _ = unsafe { munmap(self.base.cast(), self.words * 8) };
    }
}

/// A word that looks valid, or does not.
pub(crate) fn nonsense(random: &mut Random, now: u64) -> u64 {
    match random.below(10) {
        0 => random.next(),
        1 => now.wrapping_add(random.below(1 << 16)),
        2 => now.wrapping_sub(random.below(1 << 16)),
        3 => 0,
        4 => u64::MAX - random.below(16),
        5 => 1 << random.below(64),
        6 => random.below(1 << 13) & !7,
        7 => (1 << 62) + random.below(1 << 13),
        8 => now ^ 1 << random.below(64),
        _ => u64::from(u32::MAX) << random.below(33),
    }
}

/// Distance between two words, in words: a pair of cache lines.
const STRIDE: usize = 16;

/// 64-bit words in a file that several processes map. Each has its own cache lines.
#[derive(Debug)]
pub(crate) struct SharedWords {
    memory: Mapped,
}

impl SharedWords {
    /// Makes a file of `count` words, all 0. An existing file is an error.
    pub(crate) fn create(path: &Path, count: usize) -> io::Result<Self> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len((count.max(1) * STRIDE * 8).next_multiple_of(4096) as u64)?;
        Ok(Self {
            memory: Mapped::of(&file, true)?,
        })
    }

    /// Maps a file that [`SharedWords::create`] made.
    pub(crate) fn attach(path: &Path) -> io::Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        Ok(Self {
            memory: Mapped::of(&file, true)?,
        })
    }

    /// Reads word `index` (acquire).
    pub(crate) fn load(&self, index: usize) -> u64 {
        self.memory.word(index * STRIDE).load(Ordering::Acquire)
    }

    /// Writes word `index` (release).
    pub(crate) fn store(&self, index: usize, value: u64) {
        let word = self.memory.word(index * STRIDE);
        word.store(value, Ordering::Release);
    }
}
