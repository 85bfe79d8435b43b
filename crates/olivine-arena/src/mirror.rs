//! Byte rings that are mapped twice in a row, so that no message is split.

use crate::error::{Result, io};
use crate::protocol::Side;
use crate::rendezvous::{Rendezvous, memory_folder};
use crate::sys::mapping::Mapping;

/// Bytes of the counters before a ring: pages of every size.
pub const HEAD: usize = 1 << 16;

/// The rings of `bytes` bytes that this side reads and writes, each behind its counters.
///
/// # Errors
///
/// System errors; as [`Rendezvous::share`].
pub fn rings(side: Side, rendezvous: &mut Rendezvous, bytes: usize) -> Result<(Mapping, Mapping)> {
    let mut ring = || -> Result<Mapping> {
        let file = rendezvous.share_file(side, memory_folder(), HEAD + bytes)?;
        Mapping::mirrored(&file, HEAD, bytes).map_err(io("map a ring twice"))
    };
    let (there, back) = (ring()?, ring()?);
    Ok(side.from_to(there, back))
}

/// The offset of a position in the mapping of a ring of `bytes` bytes.
#[inline(always)]
#[must_use]
pub fn place(position: u64, bytes: usize) -> usize {
    HEAD + (usize::try_from(position).unwrap_or(0) & (bytes - 1))
}
