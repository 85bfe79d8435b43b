//! Waiting for descriptors of an epoll.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Events taken in one call.
const EVENTS: u8 = 8;

/// Waits for events of `epoll`, as long as it takes; returns their data.
///
/// `rustix` leaves the last argument of this call undefined, because the kernel does not read it
/// without a mask of signals. Valgrind reports it in each program that waits.
///
/// # Errors
///
/// `Interrupted` after a signal, and what the kernel refuses.
pub(crate) fn next(epoll: &OwnedFd) -> io::Result<impl Iterator<Item = u64>> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS as usize];
    // SAFETY: the descriptor is open, the array has room for that many, and no mask is given.
    let count = unsafe {
        libc::epoll_pwait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            EVENTS.into(),
            -1,
            core::ptr::null(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok(events.into_iter().take(count).map(|event| event.u64))
}
