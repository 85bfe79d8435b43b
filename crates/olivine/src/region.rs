//! Bounds-checked views of shared words and ring bytes: the door between protocol and memory.
//!
//! Ring code never holds a pointer or an atomic of its own. It asks [`Words`] for "word `i`" and
//! [`Ring`] for "the header at this position" or "these payload bytes". Both have two bodies: mapped
//! memory, and (in a `loom` build) tables of model atomics and cells. Everything above this file is
//! the same code in both, so what the model checks is what ships.
//!
//! # What the model sees
//!
//! A model word of the ring is one atomic, header and payload alike, so an old payload read as a header is an
//! old payload there too. Payloads also go through cells, which fail the model when a payload is written while
//! somebody reads it. What it does not see is the mirrored mapping: there the property tests look.

mod copied;
#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod model;

pub(crate) use copied::Copied;
#[cfg(not(loom))]
pub(crate) use mapped::{Memory, Ring, View, Word, Words};
#[cfg(loom)]
pub(crate) use model::{Ring, View, Word, Words};

/// Bytes of a frame header: one 64-bit word.
pub(crate) const HEADER_BYTES: u64 = size_of::<u64>() as u64;
