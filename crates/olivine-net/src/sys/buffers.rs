//! Receive buffers that the kernel picks from: an io_uring provided-buffer ring.
//!
//! A buffer is either ours (a `Box`) or the kernel's (a raw pointer in `provided`), never both, so
//! no Rust reference covers memory that the kernel may write.
//!
//! # Synchronization
//!
//! * **PROVIDE**: our release store of the tail publishes the entries before it; the kernel
//!   acquires it. The way back is the completion queue, which the `io-uring` crate orders.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    io,
    ptr::{NonNull, slice_from_raw_parts_mut},
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{Submitter, types::BufRingEntry};

use crate::driver::HEADROOM;

/// The kernel requires the ring at the start of a page.
const PAGE: usize = 4096;

/// The ring of one shard.
pub(crate) struct Buffers {
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    count: u16,
    tail: u16,
    /// By buffer id: the memory the kernel may write to.
    provided: Vec<Option<NonNull<u8>>>,
    /// Ids that are not in `provided`.
    free: Vec<u16>,
    /// Bytes the kernel may write to each, behind the headroom.
    buffer_bytes: usize,
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffers")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Buffers {
    /// Makes a ring of `count` (a power of two) buffers and registers it as `group`.
    pub(crate) fn register(
        submitter: &Submitter<'_>,
        group: u16,
        count: u16,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        let bytes = usize::from(count) * size_of::<BufRingEntry>();
        let layout = Layout::from_size_align(bytes, PAGE).map_err(io::Error::other)?;
        // SAFETY: `count` is not zero, so neither is the size.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(entries) = NonNull::new(memory.cast::<BufRingEntry>()) else {
            handle_alloc_error(layout)
        };
        let mut buffers = Self {
            entries,
            layout,
            count,
            tail: 0,
            provided: vec![None; usize::from(count)],
            free: (0..count).collect(),
            buffer_bytes,
        };
        // SAFETY: the memory holds `count` zeroed entries, is page-aligned, and outlives the
        // registration: `Uring` unregisters the group before it drops this.
        unsafe {
            submitter.register_buf_ring_with_flags(entries.as_ptr() as u64, count, group, 0)?
        };
        for _ in 0..count {
            buffers.provide(vec![0; HEADROOM + buffer_bytes].into_boxed_slice());
        }
        Ok(buffers)
    }

    /// Passes a buffer to the kernel, under any id that the kernel does not hold. A buffer that is
    /// not of this ring's size, or too many, is dropped.
    pub(crate) fn provide(&mut self, buffer: Box<[u8]>) {
        if buffer.len() != HEADROOM + self.buffer_bytes {
            return;
        }
        let Some(id) = self.free.pop() else { return };
        // A box never points to null.
        let Some(memory) = NonNull::new(Box::into_raw(buffer).cast::<u8>()) else {
            return;
        };
        self.provided[usize::from(id)] = Some(memory);
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: the index is below `count`, so the entry is inside the block.
        let entry = unsafe { self.entries.as_ptr().add(index) };
        // SAFETY: the block is live and zeroed or written by us; the kernel only reads it, and not
        // this entry before PROVIDE. Nothing else refers to it.
        let entry = unsafe { &mut *entry };
        entry.set_addr(memory.as_ptr() as u64 + HEADROOM as u64);
        // At most 16 MiB (`EngineConfig::validate`).
        entry.set_len(u32::try_from(self.buffer_bytes).unwrap_or(u32::MAX));
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the first entry of the ring, whose reserved field is the tail.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the field is an aligned u16 inside the block, written only through this atomic
        // (`set_*` leave it alone) and read by the kernel.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // PROVIDE (release): the kernel sees the entry complete.
        tail.store(self.tail, Ordering::Release);
    }

    /// Takes back the buffer that a completion names.
    pub(crate) fn take(&mut self, id: u16) -> Option<Box<[u8]>> {
        let memory = self.provided.get_mut(usize::from(id))?.take()?;
        self.free.push(id);
        let whole = slice_from_raw_parts_mut(memory.as_ptr(), HEADROOM + self.buffer_bytes);
        // SAFETY: `provide` made the pointer from a box of this length; the completion says that
        // the kernel is done with it, and taking it out of `provided` makes this the only owner.
        Some(unsafe { Box::from_raw(whole) })
    }

    /// Frees everything. Only after the kernel has released the ring.
    pub(crate) fn free(mut self) {
        for id in 0..self.count {
            drop(self.take(id));
        }
        // SAFETY: allocated by `register` with this layout, and no reference to it remains.
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) };
    }
}
