//! Channels: what users open, and how participants come and go.
//!
//! [`attach`] finds or makes the channel's memory and holds its membership lock while somebody joins or
//! leaves; [`publisher`] and [`subscriber`] are the handles.

pub(crate) mod attach;
pub(crate) mod attached;
pub(crate) mod batch;
pub(crate) mod boot;
mod handover;
mod hold;
mod join;
pub(crate) mod place;
mod poll;
pub(crate) mod publisher;
pub(crate) mod raw;
pub(crate) mod reserve;
pub(crate) mod sealed;
pub(crate) mod shape;
pub(crate) mod slots;
pub(crate) mod status;
pub(crate) mod subscriber;
mod surroundings;
mod take;
pub(crate) mod typed;
mod watch;
