//! The kernel's ways of passing messages that only one method needs; the only place of this crate
//! with foreign functions.
//!
//! | file      | what                                                                          |
//! |-----------|-------------------------------------------------------------------------------|
//! | `monitor` | mutex and condition variables between processes                               |
//! | `signal`  | signals to one thread, with or without a word of payload                      |
//! | `uring`   | send and receive through io_uring                                             |
//! | `vm`      | memory of another process; pages given to a pipe                              |

pub(crate) mod monitor;
pub(crate) mod signal;
pub(crate) mod uring;
pub(crate) mod vm;
