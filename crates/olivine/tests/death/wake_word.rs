//! A word in a shared file on which idle participants sleep until it is signalled: they cost
//! nothing, so many channels fit on few processors.

use core::ptr::NonNull;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LENGTH: usize = 4096;

/// One shared word.
#[derive(Debug)]
pub(crate) struct WakeWord {
    word: NonNull<AtomicU32>,
}

impl WakeWord {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .expect("a new file");
        file.set_len(LENGTH as u64).expect("a page");
        Self::map(&file)
    }

    pub(crate) fn attach(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        Self::map(&file.expect("made by the stage"))
    }

    fn map(file: &File) -> Self {
        // SAFETY: a new mapping at an address chosen by the kernel overlaps no other mapping.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                LENGTH,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "no mapping of the wake word");
        Self {
            word: NonNull::new(base.cast()).expect("a mapping"),
        }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: page aligned, mapped as long as `self` lives, and accessed only as an atomic.
        unsafe { self.word.as_ref() }
    }

    /// The signal count; read it before checking the awaited condition.
    pub(crate) fn count(&self) -> u32 {
        self.word().load(Ordering::Acquire)
    }

    /// Wakes all sleepers.
    pub(crate) fn wake_all(&self) {
        self.word().fetch_add(1, Ordering::Release);
        // SAFETY: the word is mapped; a wake-up touches no memory.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAKE,
                i32::MAX,
            )
        };
    }

    /// Sleeps until the count differs from `seen`, for at most `longest`; spurious returns are
    /// possible.
    pub(crate) fn wait(&self, seen: u32, longest: Duration) {
        let longest = libc::timespec {
            tv_sec: longest.as_secs().try_into().expect("some seconds"),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // SAFETY: the word is mapped and `longest` outlives the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &raw const longest,
            )
        };
    }
}

impl Drop for WakeWord {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no reference to the word is left.
        let unmapped = unsafe { libc::munmap(self.word.as_ptr().cast(), LENGTH) };
        assert_eq!(unmapped, 0, "a mapping of this process");
    }
}
