//! The C interface of Olivine. `include/olivine.h` is made from this crate by cbindgen and is its
//! documentation; `include/olivine.hpp` is the C++ layer over it, written by hand.
//!
//! What every function here does: no panic leaves it (`failure::guard`), a bad argument is a
//! status, and a handle that is in use by another call is refused (`handle::Handle`). The names are
//! the names of the Rust interface.

#![allow(
    clippy::unnecessary_lazy_evaluations,
    reason = "a failure that was built must be dropped, at 28 instructions a call"
)]

mod argument;
mod batch;
pub mod failure;
mod handle;
pub mod link;
mod message;
pub mod publisher;
mod sending;
pub mod status;
pub mod structs;
pub mod subscriber;

use core::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };

/// The version of the library, such as `0.1.0`. Never NULL; lives as long as the program.
///
/// Compare it with `OLIVINE_VERSION`, the version of the header.
#[unsafe(no_mangle)]
pub extern "C" fn olivine_version() -> *const c_char {
    VERSION.as_ptr()
}
