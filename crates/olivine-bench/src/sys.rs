//! The kernel's ways of passing messages; the only place of this crate with foreign functions.
//!
//! | file      | what                                                                          |
//! |-----------|-------------------------------------------------------------------------------|
//! | `mapping` | shared memory: of a file, mapped twice, System V                              |
//! | `monitor` | mutex and condition variables between processes                               |
//! | `process` | processes that do not outlive a measurement; a real-time class, locked memory |
//! | `queue`   | System V and POSIX message queues                                             |
//! | `signal`  | signals to one thread, with or without a word of payload                      |
//! | `time`    | the time-stamp counter                                                         |
//! | `uring`   | send and receive through io_uring                                             |
//! | `vm`      | memory of another process; pages given to a pipe                              |

pub(crate) mod mapping;
pub(crate) mod monitor;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod signal;
pub(crate) mod time;
pub(crate) mod uring;
pub(crate) mod vm;

use std::io;

/// The result of a C call that returns -1 on failure.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The result of a call that returns a length or -1.
fn length(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
