//! Memory of another process through the kernel, and pages passed to a pipe.

use olivine_arena::sys::length;
use olivine_arena::sys::mapping::Mapping;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Copies the `bytes` bytes after the word of `from`, and then that word, to `address` of
/// `process`, which has the same layout: a word, then the bytes. One system call.
pub(crate) fn write_to(
    process: i32,
    address: usize,
    from: &Mapping,
    bytes: usize,
) -> io::Result<()> {
    const WORD: usize = size_of::<u64>();
    let near = |offset, length| libc::iovec {
        iov_base: from.at(offset, length).cast(),
        iov_len: length,
    };
    let far = |offset, length| libc::iovec {
        // Valid only in the other process; the kernel checks it there.
        iov_base: std::ptr::without_provenance_mut(address + offset),
        iov_len: length,
    };
    let ours = [near(WORD, bytes), near(0, WORD)];
    let theirs = [far(WORD, bytes), far(0, WORD)];
    // SAFETY: both lists live; ours names memory of the mapping; the kernel checks theirs.
    let written = length(unsafe {
        libc::process_vm_writev(process, ours.as_ptr(), 2, theirs.as_ptr(), 2, 0)
    })?;
    if written == bytes + WORD {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("{written} of {} bytes were written", bytes + WORD),
        ))
    }
}

/// Passes `bytes` bytes of `from` from `offset` on to a pipe without copying; returns how many it
/// took.
///
/// The pipe uses them until they are read, so the caller must not change them until a reply
/// arrives. An early change arrives as a changed message, and the payload check finds it.
pub(crate) fn splice(
    pipe: BorrowedFd<'_>,
    from: &Mapping,
    offset: usize,
    bytes: usize,
) -> io::Result<usize> {
    let piece = libc::iovec {
        iov_base: from.at(offset, bytes).cast(),
        iov_len: bytes,
    };
    // SAFETY: the piece names memory of the mapping, whose pages the pipe keeps even if it is
    // unmapped.
    length(unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const piece, 1, 0) })
}
