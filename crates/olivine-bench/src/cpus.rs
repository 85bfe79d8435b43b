//! The CPUs of threads.

pub use olivine::affinity::{allowed, pin};
