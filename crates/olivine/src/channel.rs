//! Channels: what users open, and how participants come and go.
//!
//! [`attach`] finds or makes the channel's memory, and holds its membership lock while a
//! participant joins or leaves. [`publisher`] and [`subscriber`] are the handles.

pub(crate) mod async_publisher;
pub(crate) mod async_subscriber;
pub(crate) mod attach;
pub(crate) mod attached;
mod back_pressure;
pub(crate) mod backing;
pub(crate) mod batch;
pub(crate) mod behind;
pub(crate) mod boot;
pub(crate) mod claim;
mod dying_holder;
pub(crate) mod fields;
mod join;
mod own_thread;
mod poll;
pub(crate) mod publisher;
pub(crate) mod raw;
pub(crate) mod sealed;
pub(crate) mod shape;
pub(crate) mod slots;
mod slow_state;
pub(crate) mod status;
pub(crate) mod subscriber;
mod take_lane;
pub(crate) mod typed;
mod waiting;
mod watch;
