//! Thread-per-core network engine.
mod config;
mod counters;
mod driver;
mod engine;
mod error;
mod handler;
pub mod http;
mod mailbox;
mod shard;
mod slots;
mod sync;
mod sys;
mod topology;
mod wheel;
pub use crate::{
    config::{AcceptMode, Backend, EngineConfig, WaitStrategy},
    counters::Counters,
    engine::{Engine, StopReport},
    error::{CloseReason, ConfigError, ConnectError, NotPosted, NotSent, StartError},
    handler::{ConnectionId, Handler, Origin},
    shard::{Shard, TimerId},
    slots::Slots,
    topology::{Core, Topology, TopologyError, parse_cpu_list},
};
