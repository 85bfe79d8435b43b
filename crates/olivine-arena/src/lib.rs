//! What a library links to be measured beside Olivine.
//!
//! A *participant* is a process that carries out the orders of `olivine bench` and decides nothing.
//! A [`Method`](method::Method) opens the two ends of a connection; an [`End`](harness::End) sends
//! and receives. The harness fills every message, checks every byte, and samples ticks; the
//! coordinator computes every statistic from them. [`run`] is the main function of a program that
//! takes part.

pub mod affinity;
pub mod bare_ring;
pub mod clock;
pub mod counts;
pub mod error;
pub mod fixed;
pub mod harness;
mod limits;
pub mod method;
pub mod mirror;
pub mod pace;
pub mod participant;
pub mod payload;
pub mod privileges;
pub mod protocol;
pub mod rendezvous;
pub mod store;
#[allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "each function fails with the error of the system, and panics for places outside"
)]
pub mod sys;
pub mod tally;
mod threads;
pub mod words;

pub use participant::run;
