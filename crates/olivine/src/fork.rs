//! What a `fork` does to open handles: nothing in the parent, and in the child it makes them useless.
//!
//! A forked child inherits open file descriptions, and with them their locks: the parent could die and still
//! look alive. So lock descriptors are closed in the child. And a child that used an inherited handle would
//! be a second writer of one lane. So each handle keeps a private page that the kernel zeroes in a child
//! (`MADV_WIPEONFORK`): the cached limit lives there, so that a publisher's first call in a child takes the
//! slow path, and a word that is nonzero only in the process that opened the handle.
//!
//! Children made by the raw `clone` or `fork` system call skip the closing (no library runs there); they
//! still find their handles poisoned.

use crate::region::{Memory, Word, Words};
use crate::sync::{AtomicI32, Ordering};
use core::ptr::NonNull;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, Once, PoisonError};

const ALIVE: usize = 0;
const LIMIT: usize = 16;

/// A private page that reads as zeros in a forked child.
#[derive(Debug)]
pub(crate) struct ForkPage {
    alive: Word,
    limit: Word,
}

impl ForkPage {
    /// Maps a page.
    ///
    /// # Errors
    ///
    /// What the kernel says: no memory, or no `MADV_WIPEONFORK` (before Linux 4.14).
    pub(crate) fn new() -> io::Result<Self> {
        let length = Memory::page_size();
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                length,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: just mapped, page aligned, ours alone; `Memory` unmaps it.
        let memory = unsafe { Memory::from_mapping(base, length) };
        // SAFETY: the whole range is our own private anonymous mapping.
        unsafe {
            rustix::mm::madvise(
                base.as_ptr().cast(),
                length,
                rustix::mm::Advice::LinuxWipeOnFork,
            )?
        };
        let words = Words::new(&memory, 0, length / 8);
        // Relaxed: private to this process.
        words.word(ALIVE).store(1, Ordering::Relaxed);
        Ok(Self {
            alive: words.resolve(ALIVE),
            limit: words.resolve(LIMIT),
        })
    }

    /// Whether this is still the process that opened the handle.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed: private to this process; a child reads 0.
        self.alive.load(Ordering::Relaxed) != 0
    }

    /// The word for a publisher's cached limit.
    pub(crate) fn limit(&self) -> Word {
        self.limit.clone()
    }
}

const BLOCK: usize = 256;

/// A slot that nobody owns.
const FREE: RawFd = -1;

/// A slot whose descriptor was closed in this child, while the child's copy of the handle still owns it: given to
/// another handle, that one's descriptor would be forgotten when the copy is dropped.
const CLOSED: RawFd = -2;

/// Descriptors to close in children: blocks of slots that are never freed, so that the handler, which may
/// neither lock nor allocate, can walk them at any time.
struct Block {
    slots: [AtomicI32; BLOCK],
    next: std::sync::OnceLock<&'static Self>,
}

impl Block {
    const fn new() -> Self {
        Self {
            slots: [const { AtomicI32::new(FREE) }; BLOCK],
            next: std::sync::OnceLock::new(),
        }
    }
}

static FIRST: Block = Block::new();
static GROW: Mutex<()> = Mutex::new(());

/// A descriptor that every forked child closes, and that is closed here when dropped.
#[derive(Debug)]
pub(crate) struct ClosedInChildren {
    file: RawFd,
    slot: &'static AtomicI32,
}

impl ClosedInChildren {
    /// Takes `file` over.
    pub(crate) fn new(file: OwnedFd) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler is a plain function that lives for ever and only closes descriptors.
            let failed = unsafe { libc::pthread_atfork(None, None, Some(close_all)) };
            debug_assert_eq!(failed, 0, "registering one handler takes a few bytes");
        });
        let _growing = GROW.lock().unwrap_or_else(PoisonError::into_inner);
        let file = file.into_raw_fd();
        let mut block = &FIRST;
        loop {
            for slot in &block.slots {
                // Relaxed: written under the lock; the handler runs in a child with one thread.
                if slot.load(Ordering::Relaxed) == FREE {
                    slot.store(file, Ordering::Relaxed);
                    return Self { file, slot };
                }
            }
            block = block.next.get_or_init(|| Box::leak(Box::new(Block::new())));
        }
    }

    /// The descriptor; closed, and perhaps somebody else's, in a forked child.
    pub(crate) fn raw(&self) -> RawFd {
        self.file
    }

    /// The descriptor, borrowed.
    pub(crate) fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: open for as long as `self`, except in a forked child, where every handle refuses to work.
        unsafe { BorrowedFd::borrow_raw(self.file) }
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        // Relaxed: as in `new`. In a forked child the slot reads CLOSED, and the descriptor's number may have been
        // given to another file.
        if self.slot.swap(FREE, Ordering::Relaxed) == self.file {
            // SAFETY: we own the descriptor and nobody has closed it.
            drop(unsafe { OwnedFd::from_raw_fd(self.file) });
        }
    }
}

/// Runs in a child after `fork`: only async-signal-safe calls.
extern "C" fn close_all() {
    let mut block = Some(&FIRST);
    while let Some(now) = block {
        for slot in &now.slots {
            // Relaxed: the child has one thread.
            let file = slot.load(Ordering::Relaxed);
            if file >= 0 {
                slot.store(CLOSED, Ordering::Relaxed);
                // SAFETY: the descriptor belongs to a handle that is useless in this process.
                unsafe { libc::close(file) };
            }
        }
        block = now.next.get().copied();
    }
}
