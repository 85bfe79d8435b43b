//! What a `fork` does to open handles: nothing in the parent, and in the child it makes them useless.
//!
//! A forked child inherits open file descriptions, and with them their locks: the parent could die and still
//! look alive. So lock descriptors are closed in the child. And a child that used an inherited handle would
//! be a second writer of one lane. So each handle keeps a private page that the kernel zeroes in a child
//! (`MADV_WIPEONFORK`): the cached limit lives there, so that a publisher's first call in a child takes the
//! slow path, and a word that is nonzero only in the process that opened the handle. Where the kernel refuses
//! this (gVisor, Linux before 4.14) the handler that closes descriptors zeroes the two words instead.
//!
//! A `fork` in another thread waits while a descriptor is opened and noted, or forgotten and closed: see [`hold_off`].
//!
//! Children made by the raw `clone` or `fork` system call skip the handler (no library runs there); they
//! still find their handles poisoned where the kernel zeroes the page.

use crate::region::{Memory, Word, Words};
use crate::sync::{AtomicI32, AtomicU64, Ordering};
use core::ptr::NonNull;
use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

const ALIVE: usize = 0;
const PLAIN: usize = 1;
const LIMIT: usize = 16;

/// A private page that reads as zeros in a forked child.
#[derive(Debug)]
pub(crate) struct ForkPage {
    alive: Word,
    plain: Word,
    limit: Word,
    /// Where the kernel does not zero the page in a child.
    _noted: Option<NotedPage>,
}

impl ForkPage {
    /// Maps a page.
    ///
    /// # Errors
    ///
    /// What the kernel says: no memory.
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
        let wiped = unsafe {
            rustix::mm::madvise(
                base.as_ptr().cast(),
                length,
                rustix::mm::Advice::LinuxWipeOnFork,
            )
        };
        let words = Words::new(&memory, 0, length / 8);
        let (alive, limit) = (words.resolve(ALIVE), words.resolve(LIMIT));
        let plain = words.resolve(PLAIN);
        let noted = wiped
            .is_err()
            .then(|| NotedPage::new([&alive, &plain, &limit]));
        // Relaxed: private to this process.
        alive.store(1, Ordering::Relaxed);
        plain.store(1, Ordering::Relaxed);
        Ok(Self {
            alive,
            plain,
            limit,
            _noted: noted,
        })
    }

    /// Whether this is still the process that opened the handle.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed: private to this process; a child reads 0.
        self.alive.load(Ordering::Relaxed) != 0
    }

    /// Whether this is the process that opened the handle, and a call has nothing to say first: one look for both.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        // Relaxed: private to this process; a child reads 0.
        self.plain.load(Ordering::Relaxed) != 0
    }

    /// Whether a call has something to say first, from here on.
    pub(crate) fn set_plain(&self, plain: bool) {
        // Relaxed: as above.
        self.plain.store(u64::from(plain), Ordering::Relaxed);
    }

    /// The word for a publisher's cached limit.
    pub(crate) fn limit(&self) -> Word {
        self.limit.clone()
    }
}

/// Notes a page whose words the handler zeroes in a forked child, until it is dropped.
#[derive(Debug)]
struct NotedPage {
    alive: Word,
}

impl NotedPage {
    fn new(words: [&Word; 3]) -> Self {
        hold_off().0.push(words.map(Word::clone));
        let alive = words[0].clone();
        Self { alive }
    }
}

impl Drop for NotedPage {
    fn drop(&mut self) {
        let ours = |page: &[Word; 3]| core::ptr::eq(&raw const *page[0], &raw const *self.alive);
        hold_off().0.retain(|page| !ours(page));
    }
}

/// The words of pages that the kernel does not zero in a child.
#[derive(Debug)]
pub(crate) struct Pages(Vec<[Word; 3]>);

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

/// Held while the slots or the pages change, and by a thread that forks: a child finds every lock descriptor in a
/// slot, and every page that it has to zero.
static SLOTS: Mutex<Pages> = Mutex::new(Pages(Vec::new()));

thread_local! {
    /// The lock of [`SLOTS`] while this thread is inside `fork`.
    static FORKING: Cell<Option<MutexGuard<'static, Pages>>> = const { Cell::new(None) };
}

/// Counts the forks between the first process that asked and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// A number that differs from that of the process which this one was forked from: what is known of a process is asked
/// again where it has changed.
pub(crate) fn generation() -> u64 {
    register();
    // Relaxed: changes only in a child with one thread.
    FORKS.load(Ordering::Relaxed)
}

/// Makes a `fork` by any thread wait until the guard is dropped, so that no child inherits what is half done, or a
/// lock of this process that nobody there would ever give back. Not for long, and not twice by one thread.
pub(crate) fn hold_off() -> MutexGuard<'static, Pages> {
    register();
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn register() {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: the handlers are plain functions that live for ever. In the child they only store integers, close
        // descriptors and give back a lock that the forking thread took.
        let failed = unsafe { libc::pthread_atfork(Some(prepare), Some(resume), Some(close_all)) };
        debug_assert_eq!(failed, 0, "registering handlers takes a few bytes");
    });
}

/// Runs in the forking thread before `fork`.
extern "C" fn prepare() {
    let held = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    // A thread that is ending has no such place any more: then nothing is held.
    let _ = FORKING.try_with(|forking| forking.set(Some(held)));
}

/// Runs in the same thread after `fork`, in parent and child.
extern "C" fn resume() {
    let _ = FORKING.try_with(|forking| drop(forking.take()));
}

/// A descriptor that every forked child closes, and that is closed here when dropped.
#[derive(Debug)]
pub(crate) struct ClosedInChildren {
    file: RawFd,
    slot: &'static AtomicI32,
}

impl ClosedInChildren {
    /// Takes `file` over.
    pub(crate) fn new(file: OwnedFd) -> Self {
        let _still = hold_off();
        Self::note(file)
    }

    /// Opens a descriptor that no child of another thread's may inherit even for a moment.
    ///
    /// # Errors
    ///
    /// What `open` says.
    pub(crate) fn open(open: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<Self> {
        let _still = hold_off();
        open().map(Self::note)
    }

    /// The caller holds forks off.
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
        let _still = hold_off();
        // Relaxed: as in `note`. In a forked child the slot reads CLOSED, and the descriptor's number may have been
        // given to another file.
        if self.slot.swap(FREE, Ordering::Relaxed) == self.file {
            // SAFETY: we own the descriptor and nobody has closed it.
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
                // SAFETY: the descriptor belongs to a handle that is useless in this process.
                unsafe { libc::close(file) };
            }
        }
        block = now.next.get().copied();
    }
    let held = FORKING.try_with(Cell::take).ok().flatten();
    // A thread that was ending holds nothing: another one may have been in the middle of a change.
    if let Some(pages) = held.or_else(|| SLOTS.try_lock().ok()) {
        pages.zero();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Whether this thread of our own waits in the kernel.
    fn sleeps(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|s| s.starts_with('S')))
    }

    #[test]
    fn a_fork_waits_until_a_descriptor_is_noted() {
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
    fn a_forked_child_is_another_generation() {
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
