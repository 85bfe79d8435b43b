//! Tests that share a process: what they share is compiled once, and one program is linked.
//!
//! A test is a separate program beside this folder if it forks, replaces the allocator, lowers a
//! limit of its process, counts what the process does, needs another build, or is started by name.

#![cfg(not(loom))]

mod async_publisher;
mod awaiting;
mod bridges;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod described;
mod durable;
mod failing_publishers;
mod files;
#[cfg(feature = "nats")]
#[path = "../nats_server/mod.rs"]
mod nats_server;
mod observer;
mod shape;
mod sharing;
#[path = "../transports/mod.rs"]
mod transports;
mod types;

/// The processes that `common::bridges` starts.
#[test]
fn role() {
    match common::my_role().as_deref() {
        Some("bridge") => common::bridges::role(),
        Some("files.last") => files::last_participants(),
        Some(other) => panic!("no role {other}"),
        None => {}
    }
}
