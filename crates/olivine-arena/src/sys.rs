//! Foreign functions that participants and methods share.
//!
//! | file      | what                                                                          |
//! |-----------|-------------------------------------------------------------------------------|
//! | `mapping` | shared memory: of a file, mapped twice, System V                              |
//! | `process` | processes that do not outlive a measurement; a real-time class, locked memory |
//! | `queue`   | System V and POSIX message queues                                             |
//! | `time`    | the time-stamp counter                                                        |

pub mod mapping;
pub mod process;
pub mod queue;
pub(crate) mod time;

use std::io;

/// The result of a C call that returns -1 on failure.
pub fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The result of a call that returns a length or -1.
pub fn length(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
