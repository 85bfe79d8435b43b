//! What runs while the benchmark measures: ways to pass messages, the load generator, and what
//! keeps a distribution or the causes of late messages.
//!
//! It is optimised for speed. What only prepares, compares and prints is
//! [`olivine-bench`](https://docs.rs/olivine-bench).

pub mod channel;
pub mod kernel;
pub mod latency;
pub mod load;
pub mod method;
mod sys;
pub mod text;
pub mod worst;

/// The CPUs of threads.
use olivine::affinity as cpus;
/// What participants link, too.
use olivine_arena::{affinity, clock, pace, payload};
