//! Reasons why a load has no figure.

pub(super) use olivine_arena::error::io;

use olivine_arena::error::ArenaError;
use std::io;
use std::net::SocketAddr;

/// Why a load ended without a result. No partial figure is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The operating system refused something necessary.
    #[error(transparent)]
    System(#[from] ArenaError),
    /// Not an address of a page.
    #[error("{url:?} cannot be loaded: {rule}")]
    Url {
        /// The given text.
        url: String,
        /// The expected form.
        rule: &'static str,
    },
    /// No server listens there.
    #[error("cannot connect to {address}; is the server running?")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The system error.
        source: io::Error,
    },
    /// The generator's CPU cannot be used.
    #[error("cannot pin the generator to CPU {cpu}")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// The system error.
        source: io::Error,
    },
    /// The server does not serve the page.
    #[error("the server answers {status}: name a page that it answers with 200")]
    Status {
        /// Its status code.
        status: u16,
    },
    /// An unreadable reply.
    #[error("the answer cannot be read as HTTP/1.1: {why}; it begins {start:?}")]
    Unreadable {
        /// What is wrong with it.
        why: &'static str,
        /// Its first bytes.
        start: String,
    },
    /// A reply that differs from the first one.
    #[error("answer {number} differs from the first one: {found}; a wrong answer has no speed")]
    Wrong {
        /// Number of the reply on its connection or thread, from 1.
        number: u64,
        /// How it differs.
        found: String,
    },
    /// The engine that drives the load could not be started.
    #[error("the generator cannot run on io_uring")]
    Engine(#[source] olivine_net::StartError),
    /// An open loop was asked of the generator on io_uring.
    #[error("the generator on io_uring drives closed loops only: leave out --rate, or take epoll")]
    Paced,
    /// Not all connections could be made from the engine that drives the load.
    #[error("{made} of {wanted} connections can be made; is the server running?")]
    Attempt {
        /// Connections that were made before.
        made: usize,
        /// Connections that are to be kept.
        wanted: usize,
        /// The engine's error.
        source: olivine_net::ConnectError,
    },
    /// The server has stopped answering.
    #[error("the server has answered nothing for {seconds} s")]
    Silent {
        /// The waiting time.
        seconds: u64,
    },
    /// The receiver of a stream is stalled.
    #[error("the server has taken or confirmed no frame for {seconds} s")]
    Stuck {
        /// The waiting time.
        seconds: u64,
    },
    /// The server ended during the measured time.
    #[error(
        "the server was gone before the time was over, after {answers} answers; {cut} \
        connections ended inside an answer"
    )]
    Gone {
        /// Answers before its end.
        answers: u64,
        /// Connections that ended inside a reply.
        cut: u64,
    },
    /// Replies ended early.
    #[error("{count} connections ended inside an answer")]
    Cut {
        /// Connections that ended inside a reply.
        count: u64,
    },
    /// No reply came within the measured time, or to a request that was due in it.
    #[error(
        "the server has answered nothing in the {seconds} s that were measured: measure for longer"
    )]
    Unanswered {
        /// The time of a run.
        seconds: f64,
    },
    /// A server could not be started for the measurement.
    #[error("{server} does not start: {why}")]
    Start {
        /// Its name.
        server: String,
        /// What was observed.
        why: String,
    },
    /// The generator's thread ended; its message is above.
    #[error("the generator broke down; this is a defect of the tool")]
    Panicked,
}

/// The start of a server's bytes, printable.
pub(super) fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(60)];
    start.escape_ascii().to_string()
}
