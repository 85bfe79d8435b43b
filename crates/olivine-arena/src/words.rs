//! Words that two processes share without a ring. The floor is measured with them.
//!
//! A latency means little without the cost of moving one cache line between the same two CPUs.

use crate::sys::mapping::{Mapping, page};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Distance between two words in bytes: a pair of cache lines, because prefetchers load pairs.
const STRIDE: usize = 128;

/// 64-bit words in a file that several processes map. Each has its own cache lines.
#[derive(Debug)]
pub struct SharedWords {
    memory: Mapping,
}

impl SharedWords {
    /// Makes a file of `count` words, all 0. An existing file is an error.
    ///
    /// # Errors
    ///
    /// The error of the system. On a full file system the file is removed again.
    pub fn create(path: &Path, count: usize) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        let bytes = (count.max(1) * STRIDE).next_multiple_of(page());
        let no_flags = rustix::fs::FallocateFlags::empty();
        let made = rustix::fs::fallocate(&file, no_flags, 0, bytes as u64)
            .map_err(io::Error::from)
            .and_then(|()| Mapping::file(&file, bytes));
        if made.is_err() {
            std::fs::remove_file(path)?;
        }
        Ok(Self { memory: made? })
    }

    /// Maps a file that [`SharedWords::create`] made.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn attach(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let memory = Mapping::file(&file, bytes)?;
        Ok(Self { memory })
    }

    /// Reads word `index` (acquire).
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    pub fn load(&self, index: usize) -> u64 {
        self.memory.word(index * STRIDE).load(Ordering::Acquire)
    }

    /// Writes word `index` (release).
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64) {
        let word = self.memory.word(index * STRIDE);
        word.store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_word_is_read_through_another_mapping() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let mine = SharedWords::create(&path, 2).unwrap();
        let theirs = SharedWords::attach(&path).unwrap();
        mine.store(1, 7);
        assert_eq!((theirs.load(0), theirs.load(1)), (0, 7));
        assert!(SharedWords::create(&path, 2).is_err(), "the file exists");
    }
}
