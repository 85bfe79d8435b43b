//! Words and rings over mapped memory.

use super::{Copied, HEADER_BYTES};
use crate::sync::AtomicU64;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use std::sync::Arc;

/// Payload bytes in the ring.
pub(crate) type View<'a> = &'a [u8];

/// A block of memory that stays mapped while an `Arc` of it exists.
#[derive(Debug)]
pub(crate) struct Memory {
    base: NonNull<u8>,
    length: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Mapped,
    #[cfg(any(test, fuzzing))]
    Heap(std::alloc::Layout),
}

// SAFETY: `Memory` only owns an address range. Access goes through atomics, or follows the ring's
// protocol, which gives each byte one user at a time.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes over a mapping of `length` bytes at `base`.
    ///
    /// # Safety
    ///
    /// The range must be mapped readable (and writable where the caller stores), page aligned,
    /// without another owner, and covered by no Rust reference.
    pub(crate) unsafe fn from_mapping(base: NonNull<u8>, length: usize) -> Arc<Self> {
        Arc::new(Self {
            base,
            length,
            kind: Kind::Mapped,
        })
    }

    /// Zeroed heap memory in place of a mapping, for tests under Miri.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn heap(length: usize) -> Arc<Self> {
        let layout = std::alloc::Layout::from_size_align(length, 4096).expect("a test size");
        // SAFETY: the layout has a length above zero in every test.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).expect("memory for a test");
        Arc::new(Self {
            base,
            length,
            kind: Kind::Heap(layout),
        })
    }

    /// Length in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes of a page of this machine.
    pub(crate) fn page_size() -> usize {
        // The C library, not rustix: rustix reads the auxiliary vector, which faults under
        // valgrind. SAFETY: reads a constant of the system.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).unwrap_or(4096)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.kind {
            Kind::Mapped => {
                // The kernel may refuse it where it would make two mappings out of one. Then the
                // range stays mapped until the process ends, and nothing uses it.
                // SAFETY: the caller of `from_mapping` gave us this whole range. The last view of
                // it is gone, because every view holds an `Arc` of `self`.
                unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
            }
            #[cfg(any(test, fuzzing))]
            // SAFETY: allocated in `heap` with this very layout.
            Kind::Heap(layout) => unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) },
        }
    }
}

/// A run of 64-bit words, each reached as an atomic.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    memory: Arc<Memory>,
    start: usize,
    count: usize,
}

impl Words {
    /// `count` words from byte `offset` of `memory`.
    ///
    /// # Panics
    ///
    /// If the range is not inside `memory` or not aligned to 8. That is a bug of ours: lengths are
    /// checked against the file before mapping.
    pub(crate) fn new(memory: &Arc<Memory>, offset: usize, count: usize) -> Self {
        assert!(offset.is_multiple_of(8) && offset + count * 8 <= memory.length());
        Self {
            memory: Arc::clone(memory),
            start: offset,
            count,
        }
    }

    /// Word `index`.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(
            index < self.count,
            "word {index} outside a region of {} words",
            self.count
        );
        // SAFETY: `new` checked that `start + count * 8` bytes are inside the block.
        let at = unsafe { self.memory.base.as_ptr().add(self.start + index * 8) };
        #[cfg(test)]
        used::note(at.addr());
        // SAFETY: aligned to 8 (block and offset are), in bounds, mapped for as long as `self`,
        // and reached by every process through 64-bit atomics only.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    /// Word `index`, resolved once so that a hot path has a plain pointer to it.
    pub(crate) fn resolve(&self, index: usize) -> Word {
        Word {
            at: NonNull::from(self.word(index)),
            _memory: Arc::clone(&self.memory),
        }
    }
}

/// Which words a test used.
#[cfg(test)]
pub(crate) mod used {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static ADDRESSES: RefCell<Option<BTreeSet<usize>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(address: usize) {
        ADDRESSES.with_borrow_mut(|all| {
            all.as_mut().map(|all| all.insert(address));
        });
    }

    /// The addresses of the words that this thread uses during `work`.
    pub(crate) fn during(work: impl FnOnce()) -> BTreeSet<usize> {
        ADDRESSES.set(Some(BTreeSet::new()));
        work();
        ADDRESSES.take().unwrap_or_default()
    }
}

/// One resolved word, which keeps its memory mapped.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    at: NonNull<AtomicU64>,
    _memory: Arc<Memory>,
}

// SAFETY: an atomic in memory that `_memory` keeps mapped may be used from any thread.
unsafe impl Send for Word {}
// SAFETY: as for `Send`.
unsafe impl Sync for Word {}

impl Deref for Word {
    type Target = AtomicU64;

    #[inline(always)]
    fn deref(&self) -> &AtomicU64 {
        // SAFETY: `Words::resolve` made it from a valid reference and `_memory` keeps it so.
        unsafe { self.at.as_ref() }
    }
}

/// A word that one thread uses at a time: its loads and stores are plain, so the compiler may keep
/// it in a register.
#[derive(Debug)]
pub(crate) struct PrivateWord(Word);

impl PrivateWord {
    /// `word`, as a private one.
    ///
    /// # Safety
    ///
    /// The word is in private memory of this process. It is used through this value and others that
    /// the same value owns, and in the handler of a forked child.
    pub(crate) unsafe fn new(word: Word) -> Self {
        Self(word)
    }

    /// Its value.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        // SAFETY: mapped as long as the word, and stored with `&mut` of its owner only.
        unsafe { self.0.at.cast::<u64>().read() }
    }

    /// Stores `value`.
    #[inline(always)]
    pub(crate) fn set(&mut self, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.at.cast::<u64>().write(value) };
    }
}

/// The bytes of one lane: `capacity` of them, mapped twice back to back.
///
/// Positions are masked here, so even a wrong position stays inside the mapping. Lengths are at
/// most `capacity`, checked in every build.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    mask: u64,
    capacity: u64,
    _memory: Arc<Memory>,
}

// SAFETY: see `Memory`; the ring's protocol orders every access to its bytes.
unsafe impl Send for Ring {}
// SAFETY: as for `Send`.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring over `memory`, which holds `capacity` bytes mapped twice.
    ///
    /// # Panics
    ///
    /// If `capacity` is not a power of two of at least 64, or `memory` is not twice as long.
    pub(crate) fn new(memory: &Arc<Memory>, capacity: u64) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 64);
        assert_eq!(memory.length() as u64, capacity * 2);
        Self {
            base: memory.base,
            // The low bits are cleared, too: a header is aligned at every position.
            mask: (capacity - 1) & !(HEADER_BYTES - 1),
            capacity,
            _memory: Arc::clone(memory),
        }
    }

    /// Bytes of the ring.
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Address of `position`; the mirror makes the `capacity` bytes after it contiguous.
    #[inline(always)]
    fn at(&self, position: u64) -> *mut u8 {
        self.base().at(position)
    }

    /// The ring's place, for several accesses: a copy that stays in registers across stores.
    #[inline(always)]
    pub(crate) fn base(&self) -> RingBase<'_> {
        RingBase {
            base: self.base,
            mask: self.mask,
            ring: PhantomData,
        }
    }

    /// Whether both are one mapping.
    #[inline(always)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.base == other.base
    }

    /// The end of the lap that `position` is in.
    #[inline(always)]
    pub(crate) fn lap_end(&self, position: u64) -> u64 {
        (position | (self.capacity - 1)) + 1
    }

    /// The place of the frame at `position`, without a borrow.
    #[inline(always)]
    pub(crate) fn place(&self, position: u64) -> FramePlace {
        FramePlace(self.at(position))
    }

    /// The address of the frame at `position`, for several accesses to the frame.
    #[inline(always)]
    pub(crate) fn address(&self, position: u64) -> RingAddress<'_> {
        self.base().address(position)
    }

    /// The header word of the frame at `position`.
    #[inline(always)]
    pub(crate) fn header(&self, position: u64) -> &AtomicU64 {
        self.address(position).header()
    }

    /// Copies `bytes` to the payload of the frame at `position`.
    ///
    /// # Safety
    ///
    /// As for [`RingAddress::write`]; the length is checked.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, position: u64, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= self.capacity - HEADER_BYTES);
        // SAFETY: the length was checked, the rest is the caller's duty.
        unsafe { self.address(position).write(bytes) };
    }

    /// The payload of the frame at `position`, to be filled in place.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`], for as long as the slice lives; and only one such slice at a time.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "the claim, not the borrow of the ring, is exclusive"
    )]
    pub(crate) unsafe fn payload_mut(&self, position: u64, length: usize) -> &mut [u8] {
        assert!(length as u64 <= self.capacity - HEADER_BYTES);
        // SAFETY: the length was checked, the rest is the caller's duty.
        unsafe { self.address(position).payload_mut(length) }
    }

    /// The payload of the committed frame at `position`.
    ///
    /// # Safety
    ///
    /// The frame must be committed (**COMMIT** or **CURSOR** observed) and held back by this
    /// subscriber's own position in the gate for as long as the view lives.
    #[inline(always)]
    pub(crate) unsafe fn view(&self, position: u64, length: usize) -> View<'_> {
        assert!(length as u64 <= self.capacity - HEADER_BYTES);
        // SAFETY: the length was checked, the rest is the caller's duty.
        unsafe { self.address(position).view(length) }
    }

    /// The frames from `position` on, headers and padding included.
    ///
    /// # Safety
    ///
    /// As for [`Ring::view`], for every frame of the range.
    #[inline]
    pub(crate) unsafe fn frames(&self, position: u64, length: usize) -> View<'_> {
        assert!(length as u64 <= self.capacity);
        let from = self.at(position);
        // SAFETY: in the doubled mapping; initialised. Committed frames and their headers are not
        // written while the gate holds the publisher back.
        unsafe { core::slice::from_raw_parts(from, length) }
    }

    /// Copies payload bytes that a publisher may be overwriting. Afterwards the caller must check
    /// by the limit whether the copy is whole.
    pub(crate) fn copy_out(&self, position: u64, length: usize, into: &mut Copied) {
        assert!(length as u64 <= self.capacity - HEADER_BYTES);
        into.set(self.racing(position + HEADER_BYTES, length), length);
    }

    /// As [`Ring::copy_out`], of whole frames from `position` on.
    pub(crate) fn copy_frames(&self, position: u64, length: usize, into: &mut Vec<u8>) {
        assert!(length as u64 <= self.capacity);
        into.clear();
        into.reserve(length.next_multiple_of(size_of::<u64>()));
        for word in self.racing(position, length) {
            into.extend_from_slice(&word.to_ne_bytes());
        }
        into.truncate(length);
    }

    /// The words that hold the `length` bytes from `position` on, each loaded on iteration.
    ///
    /// Whole words through atomics: a torn word is impossible, and the compiler may neither repeat
    /// nor skip a load. The last word may include padding, nothing after it.
    fn racing(&self, position: u64, length: usize) -> impl Iterator<Item = u64> {
        (0..length.div_ceil(size_of::<u64>()) as u64).map(move |n| {
            // Relaxed: OVERRUN (the fence after the copy) orders these loads.
            self.header(position + n * HEADER_BYTES)
                .load(crate::sync::Ordering::Relaxed)
        })
    }
}

/// The place of a ring: its first byte and the mask of positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingBase<'a> {
    base: NonNull<u8>,
    mask: u64,
    ring: PhantomData<&'a Ring>,
}

impl<'a> RingBase<'a> {
    #[inline(always)]
    fn at(self, position: u64) -> *mut u8 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "masked by a capacity that is mapped"
        )]
        let offset = (position & self.mask) as usize;
        // SAFETY: `offset < capacity`, and `2 * capacity` bytes are mapped.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// As [`Ring::address`].
    #[inline(always)]
    pub(crate) fn address(self, position: u64) -> RingAddress<'a> {
        RingAddress {
            at: self.at(position),
            ring: PhantomData,
        }
    }
}

/// The place of a frame, which nothing borrows.
#[derive(Clone, Debug)]
pub(crate) struct FramePlace(*mut u8);

// SAFETY: as for `Ring`; its methods require that the ring is mapped.
unsafe impl Send for FramePlace {}
// SAFETY: as for `Send`.
unsafe impl Sync for FramePlace {}

impl FramePlace {
    /// In no ring.
    pub(crate) const NOWHERE: Self = Self(core::ptr::null_mut());

    /// A number that grows with the position, as long as the positions are of one lap.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.0.addr() as u64
    }

    /// The place `bytes` further on.
    #[inline(always)]
    pub(crate) fn plus(&self, bytes: u64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "`usize` has 64 bits where rings are mapped"
        )]
        let bytes = bytes as usize;
        Self(self.0.wrapping_add(bytes))
    }

    /// The header word here.
    ///
    /// # Safety
    ///
    /// The place must be [`Ring::place`] of the start of a frame, or as many bytes further on as
    /// another frame of that lap is. The ring must be mapped as long as the word is used.
    #[inline(always)]
    pub(crate) unsafe fn header(&self) -> &AtomicU64 {
        // SAFETY: in the first of the two mappings, and aligned, as every frame is. The rest is as
        // in `RingAddress::header`.
        unsafe { AtomicU64::from_ptr(self.0.cast()) }
    }

    /// The payload after the header.
    ///
    /// # Safety
    ///
    /// As for [`FramePlace::header`] and [`RingAddress::view`].
    #[inline(always)]
    pub(crate) unsafe fn view<'a>(self, length: usize) -> View<'a> {
        let address = RingAddress {
            at: self.0,
            ring: PhantomData,
        };
        // SAFETY: the caller's duty.
        unsafe { address.view(length) }
    }
}

/// An address in a ring. The mirror makes the `capacity` bytes from it on contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingAddress<'a> {
    at: *mut u8,
    ring: PhantomData<&'a Ring>,
}

impl<'a> RingAddress<'a> {
    /// The header word here.
    #[inline(always)]
    pub(crate) fn header(self) -> &'a AtomicU64 {
        // SAFETY: `RingBase::at` keeps it in bounds and aligned; mapped as long as the ring; header
        // words are only ever accessed as 64-bit atomics while they are headers (see
        // `ring::layout`).
        unsafe { AtomicU64::from_ptr(self.at.cast()) }
    }

    /// Copies `bytes` after the header.
    ///
    /// # Safety
    ///
    /// `bytes` must be no longer than the ring's capacity less a header. The frame must be claimed:
    /// it is below the limit, so no reliable subscriber reads it, and its header is not committed
    /// yet.
    #[inline(always)]
    pub(crate) unsafe fn write(self, bytes: &[u8]) {
        // SAFETY: at most a capacity further on: in the doubled mapping.
        let to = unsafe { self.at.add(size_of::<u64>()) };
        #[cfg(test)]
        crate::sync::logged::copied(to as usize, bytes);
        // SAFETY: `to .. to + len` is in the doubled mapping, the claim makes it ours alone,
        // and `bytes` is memory of this process, so the ranges cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// The payload after the header, to be filled in place.
    ///
    /// # Safety
    ///
    /// As for [`RingAddress::write`], for as long as the slice lives; and only one such slice at a
    /// time.
    #[inline(always)]
    pub(crate) unsafe fn payload_mut(self, length: usize) -> &'a mut [u8] {
        // SAFETY: at most a capacity further on: in the doubled mapping.
        let to = unsafe { self.at.add(size_of::<u64>()) };
        // SAFETY: in the doubled mapping, initialised (shared memory starts as zeros), and ours
        // alone by the claim.
        unsafe { core::slice::from_raw_parts_mut(to, length) }
    }

    /// The payload after the header.
    ///
    /// # Safety
    ///
    /// `length` must be at most the ring's capacity less a header. The frame must be committed
    /// (**COMMIT** or **CURSOR** observed) and held back by this subscriber's own position in the
    /// gate for as long as the view lives.
    #[inline(always)]
    pub(crate) unsafe fn view(self, length: usize) -> View<'a> {
        // SAFETY: at most a capacity further on: in the doubled mapping.
        let from = unsafe { self.at.add(size_of::<u64>()) };
        // SAFETY: in the doubled mapping; initialised; not written while the gate holds the
        // publisher back.
        unsafe { core::slice::from_raw_parts(from, length) }
    }
}
