//! Words and rings over the atomics and cells of a model.

use super::{Copied, HEADER_BYTES};
use crate::sync::{AtomicU64, Ordering};
use core::ops::Deref;
use loom::cell::UnsafeCell;
use std::sync::Arc;

/// In a model a view is a copy, taken inside the cell's checked access.
pub(crate) type View<'a> = Vec<u8>;

/// A run of model atomics; only the words that a model names exist.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    words: Arc<Vec<(usize, AtomicU64)>>,
}

impl Words {
    /// `count` words, of which `used` can be reached, each with its first value. loom's fences
    /// visit every atomic, so unused ones would cost time.
    pub(crate) fn model(count: usize, used: &[(usize, u64)]) -> Self {
        assert!(used.iter().all(|(index, _)| *index < count));
        Self {
            words: Arc::new(
                used.iter()
                    .map(|(index, value)| (*index, AtomicU64::new(*value)))
                    .collect(),
            ),
        }
    }

    fn place(&self, index: usize) -> usize {
        let place = self.words.iter().position(|(at, _)| *at == index);
        place.unwrap_or_else(|| panic!("the model does not name word {index}"))
    }

    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[self.place(index)].1
    }

    pub(crate) fn resolve(&self, index: usize) -> Word {
        Word {
            words: Arc::clone(&self.words),
            place: self.place(index),
        }
    }
}

/// One resolved word.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    words: Arc<Vec<(usize, AtomicU64)>>,
    place: usize,
}

impl Deref for Word {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.words[self.place].1
    }
}

/// A word that one thread uses at a time.
#[derive(Debug)]
pub(crate) struct PrivateWord(Word);

impl PrivateWord {
    /// # Safety
    ///
    /// None: it is an atomic here.
    pub(crate) unsafe fn new(word: Word) -> Self {
        Self(word)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&mut self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Model ring: one atomic and one cell for 8 bytes. The atomic holds headers and payloads as the
/// mapping does. The cell is used for payloads only and finds their races.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    words: Arc<Vec<AtomicU64>>,
    cells: Arc<Vec<UnsafeCell<u64>>>,
    capacity: u64,
}

// SAFETY: loom checks every access to the cells.
unsafe impl Send for Ring {}
// SAFETY: as for `Send`.
unsafe impl Sync for Ring {}

impl Ring {
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "the ring says that it is both, above"
    )]
    pub(crate) fn model(capacity: u64) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 64);
        let words = (capacity / 8) as usize;
        Self {
            words: Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()),
            cells: Arc::new((0..words).map(|_| UnsafeCell::new(0)).collect()),
            capacity,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    fn slot(&self, position: u64) -> usize {
        ((position & (self.capacity - 1)) / 8) as usize
    }

    /// Indices of the payload words of a frame at `position`.
    fn payload(&self, position: u64, length: usize) -> impl Iterator<Item = usize> {
        assert!(length as u64 <= self.capacity - HEADER_BYTES);
        let (ring, words) = (self.clone(), length.div_ceil(8) as u64);
        (0..words).map(move |n| ring.slot(position + HEADER_BYTES + n * 8))
    }

    pub(crate) fn base(&self) -> RingBase<'_> {
        RingBase { ring: self }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.words, &other.words)
    }

    pub(crate) fn lap_end(&self, position: u64) -> u64 {
        (position / self.capacity + 1) * self.capacity
    }

    pub(crate) fn place(&self, position: u64) -> FramePlace {
        FramePlace {
            ring: Some(self.clone()),
            position,
        }
    }

    pub(crate) fn address(&self, position: u64) -> RingAddress<'_> {
        self.base().address(position)
    }

    pub(crate) fn header(&self, position: u64) -> &AtomicU64 {
        &self.words[self.slot(position)]
    }

    /// # Safety
    ///
    /// As in the mapped body.
    pub(crate) unsafe fn write(&self, position: u64, bytes: &[u8]) {
        for (part, slot) in bytes.chunks(8).zip(self.payload(position, bytes.len())) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let word = u64::from_le_bytes(word);
            // SAFETY: loom hands out the pointer only while it checks the access.
            self.cells[slot].with_mut(|at| unsafe { *at = word });
            // Relaxed: for `copy_out`, and for a reader that takes it for a header.
            self.words[slot].store(word, Ordering::Relaxed);
        }
    }

    /// # Safety
    ///
    /// As in the mapped body.
    pub(crate) unsafe fn view(&self, position: u64, length: usize) -> View<'_> {
        let mut bytes = Vec::new();
        for slot in self.payload(position, length) {
            // SAFETY: loom hands out the pointer only while it checks the access.
            let word = self.cells[slot].with(|at| unsafe { *at });
            let found = self.words[slot].load(Ordering::Relaxed);
            assert_eq!(found, word, "a header was written over a payload in view");
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn copy_out(&self, position: u64, length: usize, into: &mut Copied) {
        let slots = self.payload(position, length);
        // Relaxed: as in the mapped body.
        into.set(
            slots.map(|slot| self.words[slot].load(Ordering::Relaxed)),
            length,
        );
    }
}

/// The place of a model ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingBase<'a> {
    ring: &'a Ring,
}

impl<'a> RingBase<'a> {
    pub(crate) fn address(self, position: u64) -> RingAddress<'a> {
        RingAddress {
            ring: self.ring,
            position,
        }
    }
}

/// The place of a frame in a model ring, which it keeps.
#[derive(Clone, Debug)]
pub(crate) struct FramePlace {
    ring: Option<Ring>,
    position: u64,
}

impl FramePlace {
    pub(crate) const NOWHERE: Self = Self {
        ring: None,
        position: 0,
    };

    pub(crate) fn number(&self) -> u64 {
        self.position
    }

    pub(crate) fn plus(&self, bytes: u64) -> Self {
        Self {
            ring: self.ring.clone(),
            position: self.position + bytes,
        }
    }

    fn ring(&self) -> &Ring {
        self.ring.as_ref().expect("a place in a ring")
    }

    /// # Safety
    ///
    /// None: it keeps its ring.
    pub(crate) unsafe fn header(&self) -> &AtomicU64 {
        self.ring().header(self.position)
    }

    /// # Safety
    ///
    /// As in the mapped body.
    pub(crate) unsafe fn view<'a>(self, length: usize) -> View<'a> {
        // SAFETY: the caller's duty.
        unsafe { self.ring().view(self.position, length) }
    }
}

/// A position in a model ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingAddress<'a> {
    ring: &'a Ring,
    position: u64,
}

impl<'a> RingAddress<'a> {
    pub(crate) fn header(self) -> &'a AtomicU64 {
        self.ring.header(self.position)
    }

    /// # Safety
    ///
    /// As in the mapped body.
    pub(crate) unsafe fn write(self, bytes: &[u8]) {
        // SAFETY: the caller's duty.
        unsafe { self.ring.write(self.position, bytes) };
    }

    /// # Safety
    ///
    /// As in the mapped body.
    pub(crate) unsafe fn view(self, length: usize) -> View<'a> {
        // SAFETY: the caller's duty.
        unsafe { self.ring.view(self.position, length) }
    }
}
