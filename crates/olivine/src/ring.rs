//! The ring: how one publisher's frames reach any number of subscribers.
//!
//! Read [`layout`] first: the memory layout, the writer of each word, the edges. Then read
//! [`publish`], [`consume`] and [`gate`]. [`ending`] is how a lane ends. [`pages`] serves sealed
//! channels, whose participants do not trust each other.

pub(crate) mod consume;
pub(crate) mod ending;
pub(crate) mod gate;
pub(crate) mod layout;
pub(crate) mod pages;
pub(crate) mod publish;

#[cfg(all(test, not(loom)))]
mod crash_tests;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub(crate) mod fuzz_checks;
#[cfg(all(any(test, fuzzing), not(loom)))]
mod heap;
#[cfg(all(test, not(loom)))]
mod heap_tests;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
