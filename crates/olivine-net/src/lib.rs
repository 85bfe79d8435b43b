//! Thread-per-core TCP engine with HTTP/1.1: one pinned event loop per physical core.
//!
//! It refuses to block, to queue without bound, to allocate per request once warm, and to ignore a
//! setting. It knows nothing of messages or channels: it moves bytes between sockets and handlers.
//! It does no UDP and no HTTP/2, and makes no outgoing TLS connections (the `rustls` feature serves
//! TLS).
//!
//! ```
//! use olivine_net::{ConnectionId, Engine, EngineConfig, Handler, Shard};
//! use std::{io::{Read, Write}, net::TcpStream, time::Duration};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     type Message = ();
//!
//!     fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
//!         // Bytes without room stay unconsumed, and come again later.
//!         shard.offer(id, data).map_or(0, |()| data.len())
//!     }
//! }
//!
//! let config = EngineConfig::new("127.0.0.1:0".parse()?).threads(1);
//! let engine = Engine::start(config, |_shard| Echo)?;
//! let mut peer = TcpStream::connect(engine.local_address().unwrap())?;
//! peer.write_all(b"hello")?;
//! let mut answer = [0; 5];
//! peer.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"hello");
//! assert_eq!(engine.stop(Duration::from_secs(1)).cut, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is built
//!
//! An [`Engine`] is one thread per physical core ([`Topology`] leaves hyper-threads out and
//! respects the affinity mask), each pinned, each with its own listener on the same port. A
//! connection stays on the shard that accepted it, so all its state belongs to one thread. The one
//! lock is that of the mailbox, which a shard takes to fall asleep, to wake up, and to read what
//! was posted. A [`Handler`] is a plain struct, one value per shard; shards exchange messages
//! through bounded mailboxes.
//!
//! Each round of a [`Shard`]'s loop waits for the kernel, shows arrived bytes to the handler, fires
//! timers from one timing wheel, reads the mailbox, and flushes. Everything that a handler writes
//! for one batch of bytes leaves in **one send**. That, not the kernel interface, makes pipelined
//! requests cheap.
//!
//! Buffers belong to the shard, not to the connection. A handler sees the receive buffer itself;
//! only bytes it leaves unconsumed are copied. An idle connection holds no buffer, and with HTTP at
//! most 500 bytes.
//!
//! Back-pressure: a write queue over its high-water mark refuses bytes and stops reading from that
//! connection; at the low-water mark both resume. Nothing grows with the speed difference. A peer
//! that reads too slowly is cut off ([`EngineConfig::write_rate_min`]).
//!
//! The shard notices a peer that leaves in every state, also while it reads nothing from it. A
//! time-out ends a silent peer in every state. `shard/connection.rs` has the table.
//!
//! A handler that panics loses one connection, not its shard. [`Engine::health`] says how each
//! shard is.
//!
//! Time-outs (idle, write, and one deadline per connection for the handler's use) share one wheel
//! entry per connection, which is checked lazily: activity only stores the time.
//!
//! Closing ends our direction first and then waits, for a bounded time, for the peer's end, because
//! closing with unread bytes would reset the connection and destroy what we sent last.
//!
//! # Back ends
//!
//! One internal driver trait, shaped as completions over owned buffers, has two bodies: mio (epoll
//! or kqueue; the default) and io_uring (multishot accept and receive, provided buffers, registered
//! descriptors). Both run the same tests. io_uring is never required: container profiles often
//! forbid it, and [`Backend::Auto`] probes for it.
//!
//! # Where to read
//!
//! `handler` (what a protocol supplies), `shard` and `shard/run` (the loop), `driver` (the contract
//! with the kernel), `sys` (all `unsafe` code), [`http`].

mod config;
mod driver;
mod engine;
mod error;
mod handle;
mod handler;
mod health;
pub mod http;
mod listen;
mod mailbox;
#[cfg(test)]
mod seeded;
mod shard;
mod slots;
mod sync;
mod sys;
#[cfg(feature = "rustls")]
mod tls;
mod topology;
mod wheel;

/// What the fuzz targets call; not part of the library.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::http::fuzz_checks::{check_chunked, check_head};
}

pub use crate::{
    config::{AcceptMode, Backend, EngineConfig, WaitStrategy},
    engine::{Engine, StopReport},
    error::{CloseReason, ConfigError, ConnectError, NotAdopted, NotPosted, NotSent, StartError},
    handle::EngineHandle,
    handler::{ConnectionId, Handler, Origin},
    health::{Counters, ShardHealth, ShardState},
    listen::{Listen, ListenAddress},
    shard::{Shard, TimerId},
    slots::Slots,
    topology::{Core, Topology, TopologyError, parse_cpu_list},
};

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
