//! Benchmark scenarios, methods, statistics and results. The `olivine` tool prints them.
//!
//! A scenario is one measured situation, a run is one execution of it, a sample is one number. This
//! process coordinates: it starts pinned participants ([`olivine_arena`]), gives them orders, and
//! sleeps while they measure. The floor, the hardware limits without a channel, is measured in
//! slices between the measured slices, so that every result has a ratio to it. No figure is
//! reported for an unchecked message.
//!
//! What runs while it is measured is in [`olivine_measure`] and [`olivine_arena`], which are
//! optimised for speed. This crate is not: it prepares, compares and prints.

#![forbid(unsafe_code)]

pub mod error;
pub mod floor;
pub mod job;
pub mod machine;
pub mod plan;
pub mod privileges;
pub mod render;
pub mod result;
pub mod run;
pub mod scenario;
pub mod selfcheck;
pub mod servers;
pub mod spread;
pub mod validate;
pub mod view;

pub use error::BenchError;
/// The CPUs of threads.
pub use olivine::affinity as cpus;
/// What participants link, too.
pub use olivine_arena::{affinity, clock, pace, participant, payload, protocol, tally, words};
/// What runs while it is measured.
pub use olivine_measure::{channel, kernel, latency, load, method, text, worst};
