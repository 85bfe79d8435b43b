//! Words that the processes of a test share beside a channel.

use super::mapped::Mapped;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

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
