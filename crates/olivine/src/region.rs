//! Bounds-checked views of shared words and ring bytes: the interface between protocol and memory.
//!
//! Ring code never holds a pointer or an atomic. It asks [`Words`] for "word `i`" and [`Ring`] for
//! "the header at this position" or "these payload bytes". Both have two implementations: mapped
//! memory, and tables of model atomics and cells in a `loom` build. All code above this file is the
//! same in both, so the model checks the code that ships.
//!
//! # What the model sees
//!
//! A model word of the ring is one atomic, header and payload alike, so an old payload read as a
//! header is an old payload there too. Payloads also go through cells, which fail the model when a
//! payload is written during a read. The model does not contain the mirrored mapping; the property
//! tests check that.

mod copied;
#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod model;

pub(crate) use copied::Copied;
#[cfg(all(test, not(loom)))]
pub(crate) use mapped::used;
#[cfg(not(loom))]
pub(crate) use mapped::{
    FramePlace, Memory, PrivateWord, Ring, RingAddress, RingBase, View, Word, Words,
};
#[cfg(loom)]
pub(crate) use model::{FramePlace, PrivateWord, Ring, RingAddress, RingBase, View, Word, Words};

/// Bytes of a frame header: one 64-bit word.
pub(crate) const HEADER_BYTES: u64 = size_of::<u64>() as u64;
