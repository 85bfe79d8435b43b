//! The coordinator's side of a measurement: it starts participants, gives orders and reads samples.
//! It sleeps while a slice is measured.

pub mod entry;
mod participants;
mod program;

pub use program::{LOAD, Program};

pub(crate) use participants::{CLIENT, Pair, Participants, SERVER, Stopped};
