//! Bridges: other places that a channel's bytes are carried to and from.

#[cfg(feature = "journal")]
pub mod journal;
