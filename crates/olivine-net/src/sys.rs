//! The interface to the operating system, and the only place with `unsafe` code.
//!
//! A platform supplies:
//!
//! | file | what |
//! |---|---|
//! | `affinity` | the CPUs this process may use; pinning the calling thread |
//! | `memory` | glibc only: free pages go back to the system |
//! | `socket` | listeners, accepted and outgoing sockets, their options, send and receive |
//! | `uring` | Linux only: the io_uring back end |
//! | `buffers` | Linux only: receive buffers shared with io_uring (with `uring`, all the `unsafe`) |

pub(crate) mod affinity;
#[cfg(target_os = "linux")]
pub(crate) mod buffers;
pub(crate) mod memory;
pub(crate) mod socket;
#[cfg(target_os = "linux")]
pub(crate) mod uring;
