//! The effect of a `fork` on open handles: none in the parent. In the child they refuse to work.
//!
//! A forked child inherits open file descriptions with their locks. So a dead parent could still
//! look alive. Therefore lock descriptors are closed in the child. A child that used an inherited
//! handle would be a second publisher of one lane. Therefore each handle has a private page that
//! the kernel zeroes in a child (`MADV_WIPEONFORK`). It contains the two words that let a publisher
//! take the fast path (`limit`, `ready`), so its first call in a child takes the slow path. It also
//! contains two words that are zero in a child: `alive`, and `plain`, with which a subscriber asks
//! in one load whether the process is its own and no error is pending. If the kernel refuses this
//! (gVisor, Linux before 4.14), the handler that closes descriptors zeroes these four words.
//!
//! A `fork` in another thread waits while a descriptor is opened and registered, or unregistered
//! and closed: see [`block_forks`].
//!
//! Children made by the raw `clone` or `fork` system call skip the handler, because no library code
//! runs. Their handles still refuse to work if the kernel zeroes the page.

use crate::region::{Memory, PrivateWord, Word, Words};
use crate::sync::{AtomicI32, AtomicU64, Ordering};
use core::ptr::NonNull;
use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

const ALIVE: usize = 0;
const PLAIN: usize = 1;
const LIMIT: usize = 16;
const READY: usize = 17;

/// A private page that reads as zeros in a forked child.
#[derive(Debug)]
pub(crate) struct ForkPage {
    alive: Word,
    plain: Word,
    limit: Word,
    ready: Word,
    /// Present if the kernel does not zero the page in a child.
    _noted: Option<NotedPage>,
}

impl ForkPage {
    /// Maps a page.
    ///
    /// # Errors
    ///
    /// The kernel's error: no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let length = Memory::page_size();
        // SAFETY: a new anonymous mapping at an address chosen by the kernel overlaps no other
        // mapping.
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
        let wiped = unsafe {
            rustix::mm::madvise(
                base.as_ptr().cast(),
                length,
                rustix::mm::Advice::LinuxWipeOnFork,
            )
        };
        let words = Words::new(&memory, 0, length / 8);
        let (alive, limit) = (words.resolve(ALIVE), words.resolve(LIMIT));
        let (plain, ready) = (words.resolve(PLAIN), words.resolve(READY));
        let noted = wiped
            .is_err()
            .then(|| NotedPage::new([&alive, &plain, &limit, &ready]));
        // Relaxed: private to this process.
        alive.store(1, Ordering::Relaxed);
        plain.store(1, Ordering::Relaxed);
        Ok(Self {
            alive,
            plain,
            limit,
            ready,
            _noted: noted,
        })
    }

    /// Whether this is still the process that opened the handle.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed: private to this process; a child reads 0.
        self.alive.load(Ordering::Relaxed) != 0
    }

    /// Whether this process opened the handle and no error is pending: one load for both.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        // Relaxed: private to this process; a child reads 0.
        self.plain.load(Ordering::Relaxed) != 0
    }

    /// Sets whether an error is pending for the next call.
    pub(crate) fn set_plain(&self, plain: bool) {
        // Relaxed: as above.
        self.plain.store(u64::from(plain), Ordering::Relaxed);
    }

    /// The words of the fast path: a publisher's cached limit, and the length of a message that has
    /// room. A subscriber uses the first, for the end of its row.
    pub(crate) fn fast_path(&self) -> [PrivateWord; 2] {
        let words = [&self.limit, &self.ready];
        // SAFETY: the page is private, and only its handle uses these words.
        words.map(|word| unsafe { PrivateWord::new(word.clone()) })
    }
}

/// Registers a page whose words the handler zeroes in a forked child, until it is dropped.
#[derive(Debug)]
struct NotedPage {
    alive: Word,
}

impl NotedPage {
    fn new(words: [&Word; 4]) -> Self {
        block_forks().0.push(words.map(Word::clone));
        let alive = words[0].clone();
        Self { alive }
    }
}

impl Drop for NotedPage {
    fn drop(&mut self) {
        let ours = |page: &[Word; 4]| core::ptr::eq(&raw const *page[0], &raw const *self.alive);
        block_forks().0.retain(|page| !ours(page));
    }
}

/// The words of pages that the kernel does not zero in a child.
#[derive(Debug)]
pub(crate) struct Pages(Vec<[Word; 4]>);

impl Pages {
    /// In a child: no lock, no allocation.
    fn zero(&self) {
        for word in self.0.iter().flatten() {
            // Relaxed: the child has one thread.
            word.store(0, Ordering::Relaxed);
        }
    }
}

const BLOCK: usize = 256;

/// A free slot.
const FREE: RawFd = -1;

/// A slot whose descriptor was closed in this child. The child's copy of the handle still owns it.
/// If another handle got the slot, dropping the copy would unregister that handle's descriptor.
const CLOSED: RawFd = -2;

/// Descriptors to close in children, in blocks of slots that are never freed. So the handler can
/// read them at any time. It must neither lock nor allocate.
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

/// Held while the slots or the pages change, and by a thread that forks. So a child finds every
/// lock descriptor in a slot, and every page that it must zero.
static SLOTS: Mutex<Pages> = Mutex::new(Pages(Vec::new()));

thread_local! {
    /// The lock of [`SLOTS`] while this thread is inside `fork`.
    static FORKING: Cell<Option<MutexGuard<'static, Pages>>> = const { Cell::new(None) };
}

/// Number of forks between the first process that asked and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A number that differs from that of the parent process. Cached facts about a process are read
/// again if it has changed.
pub(crate) fn generation() -> u64 {
    register();
    // Relaxed: changes only in a child with one thread.
    FORKS.load(Ordering::Relaxed)
}

/// Makes a `fork` by any thread wait until the guard is dropped. So no child inherits a half-done
/// change, or a lock that is never released there. Hold it briefly, and not twice in one thread.
pub(crate) fn block_forks() -> MutexGuard<'static, Pages> {
    register();
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn register() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are plain functions with static lifetime. In the child they only
        // store integers, close descriptors and release a lock that the forking thread took.
        let failed = unsafe { libc::pthread_atfork(Some(prepare), Some(resume), Some(close_all)) };
        debug_assert_eq!(failed, 0, "registering handlers takes a few bytes");
    });
}

/// Runs in the forking thread before `fork`.
extern "C" fn prepare() {
    let held = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    // A thread that is ending has no thread-local slot any more: then the lock is not held.
    let _ = FORKING.try_with(|forking| forking.set(Some(held)));
}

/// Runs in the same thread after `fork`, in parent and child.
extern "C" fn resume() {
    let _ = FORKING.try_with(|forking| drop(forking.take()));
}

/// A descriptor that every forked child closes. Dropping it closes it here.
#[derive(Debug)]
pub(crate) struct ClosedInChildren {
    file: RawFd,
    slot: &'static AtomicI32,
}

impl ClosedInChildren {
    /// Takes `file` over.
    pub(crate) fn new(file: OwnedFd) -> Self {
        let _still = block_forks();
        Self::note(file)
    }

    /// Opens a descriptor that no child of another thread can inherit, even briefly.
    ///
    /// # Errors
    ///
    /// The error of `open`.
    pub(crate) fn open(open: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<Self> {
        let _still = block_forks();
        open().map(Self::note)
    }

    /// The caller holds [`block_forks`].
    fn note(file: OwnedFd) -> Self {
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

    /// The descriptor. In a forked child it is closed, and its number may be reused.
    pub(crate) fn raw(&self) -> RawFd {
        self.file
    }

    /// The descriptor, borrowed.
    pub(crate) fn borrow(&self) -> BorrowedFd<'_> {
        // SAFETY: open for as long as `self`, except in a forked child, where every handle refuses
        // to work.
        unsafe { BorrowedFd::borrow_raw(self.file) }
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        let _still = block_forks();
        // Relaxed: as in `note`. In a forked child the slot reads CLOSED, and the descriptor's
        // number may be reused.
        if self.slot.swap(FREE, Ordering::Relaxed) == self.file {
            // SAFETY: we own the descriptor and it is open.
            drop(unsafe { OwnedFd::from_raw_fd(self.file) });
        }
    }
}

/// Runs in a child after `fork`: only async-signal-safe calls.
extern "C" fn close_all() {
    // Relaxed: the child has one thread.
    FORKS.fetch_add(1, Ordering::Relaxed);
    let mut block = Some(&FIRST);
    while let Some(now) = block {
        for slot in &now.slots {
            // Relaxed: the child has one thread.
            let file = slot.load(Ordering::Relaxed);
            if file >= 0 {
                slot.store(CLOSED, Ordering::Relaxed);
                // SAFETY: the descriptor belongs to a handle that refuses to work in this process.
                unsafe { libc::close(file) };
            }
        }
        block = now.next.get().copied();
    }
    let held = FORKING.try_with(Cell::take).ok().flatten();
    // A thread that was ending does not hold the lock: another thread may have been changing the
    // slots.
    if let Some(pages) = held.or_else(|| SLOTS.try_lock().ok()) {
        pages.zero();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Whether this thread of our process waits in the kernel.
    fn sleeps(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|s| s.starts_with('S')))
    }

    #[test]
    fn fork_waits_until_descriptor_is_registered() {
        let (tell, told) = std::sync::mpsc::channel();
        let forker = Cell::new(None);
        let closed = ClosedInChildren::open(|| {
            let file = OwnedFd::from(std::fs::File::open("/proc/self/exe")?);
            let raw = std::os::fd::AsRawFd::as_raw_fd(&file);
            forker.set(Some(std::thread::spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                    .unwrap();
                // SAFETY: the child asks for one descriptor and ends.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // SAFETY: asks whether a descriptor is open.
                    let open = unsafe { libc::fcntl(raw, libc::F_GETFD) } != -1;
                    // SAFETY: ends the child and nothing else.
                    unsafe { libc::_exit(i32::from(open)) };
                }
                let mut status = -1;
                // SAFETY: waits for the child above; `status` lives across the call.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                status
            })));
            let thread = told.recv().unwrap();
            // Until it waits: for us, as it should, or for its child.
            while !sleeps(thread) {
                std::thread::yield_now();
            }
            Ok(file)
        });
        let status = forker.take().unwrap().join().unwrap();
        assert_eq!(status, 0, "the child inherited the descriptor");
        drop(closed.unwrap());
    }

    #[test]
    fn forked_child_has_another_generation() {
        let before = generation();
        // SAFETY: the child reads a number and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let same = generation() == before;
            // SAFETY: ends the child and nothing else.
            unsafe { libc::_exit(i32::from(same)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child above; `status` lives across the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!((status, generation()), (0, before));
    }
}
