//! What the machine can do without a ring: the floor of every benchmark, and the CPUs of threads.
//!
//! A latency means little without the cost of moving one cache line between the same two CPUs.
//! This module has the parts of that measurement. They are safe to call from anywhere.

use crate::region::{Memory, Words};
use crate::sync::Ordering;
use core::ptr::NonNull;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Distance between two words of [`SharedWords`]: a pair of cache lines, because prefetchers load
/// pairs.
const STRIDE: usize = 16;

/// 64-bit words in a file that several processes map. Each has its own cache lines.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use olivine::probe::SharedWords;
/// let path = std::env::temp_dir().join(format!("olivine-words-{}", std::process::id()));
/// let mine = SharedWords::create(&path, 2)?;
/// let theirs = SharedWords::attach(&path)?;
/// mine.store(1, 7);
/// assert_eq!(theirs.load(1), 7);
/// std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedWords {
    words: Words,
}

impl SharedWords {
    /// Makes a file of `count` words, all 0. An existing file is an error.
    ///
    /// # Errors
    ///
    /// The error of the system. On a full file system the file is removed again.
    pub fn create(path: &Path, count: usize) -> io::Result<Self> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        let bytes = (count.max(1) * STRIDE * 8).next_multiple_of(4096);
        let made =
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)
                .map_err(io::Error::from)
                .and_then(|()| Self::map(&file.into(), bytes));
        if made.is_err() {
            std::fs::remove_file(path)?;
        }
        made
    }

    /// Maps a file that [`SharedWords::create`] made.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn attach(path: &Path) -> io::Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Self::map(&file.into(), bytes)
    }

    fn map(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: just mapped, page aligned, ours alone.
        let memory = unsafe { Memory::from_mapping(base, bytes) };
        Ok(Self {
            words: Words::new(&memory, 0, bytes / 8),
        })
    }

    /// Number of words, rounded up to whole pages of them.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.words.count() / STRIDE
    }

    /// Reads word `index` (acquire).
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.words.word(index * STRIDE).load(Ordering::Acquire)
    }

    /// Writes word `index` (release).
    ///
    /// # Panics
    ///
    /// If there is no such word.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64) {
        self.words
            .word(index * STRIDE)
            .store(value, Ordering::Release);
    }
}

/// Bytes of a page of this machine.
#[must_use]
pub fn page_size() -> usize {
    Memory::page_size()
}

/// One system call that does almost nothing (`getppid`).
pub fn empty_syscall() {
    std::hint::black_box(rustix::process::getppid());
}

/// Tells the processor that this is a spin loop (`pause`).
#[inline(always)]
pub fn spin_hint() {
    core::hint::spin_loop();
}

/// Pins the calling thread to one CPU.
///
/// # Errors
///
/// If the CPU does not exist or is not allowed to this process.
pub fn pin_to_cpu(cpu: u32) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    let cpu = usize::try_from(cpu)
        .ok()
        .filter(|cpu| *cpu < rustix::thread::CpuSet::MAX_CPU);
    set.set(cpu.ok_or(io::ErrorKind::InvalidInput)?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// CPUs that this thread may run on, in rising order; empty if unknown.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}
