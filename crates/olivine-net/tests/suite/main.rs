//! Tests that share a process: what they share is compiled once, and one program is linked.
//!
//! A test is a separate program beside this folder if it lowers a limit of its process, counts what
//! the process does, or takes other people's programs or libraries.

mod answers;
mod bodies;
mod conformance;
mod engine;
#[cfg(target_os = "linux")]
#[path = "../support/example.rs"]
mod example;
mod examples;
mod framing;
mod hostile;
mod http;
#[cfg(feature = "rustls")]
#[path = "../support/identity.rs"]
mod identity;
mod idle;
mod lifecycle;
mod moves;
mod options;
mod panics;
mod shards;
mod sockets;
mod states;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tls_sessions;
mod unix;
mod upgrade;
mod uploads;
