//! Benchmark scenarios, methods, statistics and results. A library that the `olivine` tool prints
//! from.
//!
//! A scenario is one measured situation, a run is one execution of it, a sample is one number. Two
//! pinned processes take part: this one measures, a second one ([`peer`]) answers. The [`floor`] —
//! what the machine does without a channel — is measured in slices between the slices of the thing
//! measured, so that every result can be given as a ratio to it. Refuses to report a figure for a
//! message that was not checked.

pub mod channel;
pub mod deadline;
pub mod error;
pub mod floor;
pub mod job;
pub mod kernel;
pub mod latency;
pub mod load;
pub mod machine;
pub mod method;
pub mod pace;
pub mod payload;
pub mod peer;
pub mod privileges;
pub mod render;
pub mod result;
pub mod rival;
pub mod scenario;
pub mod selfcheck;
pub mod spread;
mod sys;
pub mod tally;
pub mod text;
pub mod twice;
pub mod view;

pub use error::BenchError;
