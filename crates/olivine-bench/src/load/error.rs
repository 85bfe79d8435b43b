//! Why loading a server gave no figure.

use std::io;
use std::net::SocketAddr;

/// Why a load ended without a result. No partial figure is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The operating system refused something that measuring needs.
    #[error("cannot {action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// Not an address of a page.
    #[error("{url:?} cannot be loaded: {rule}")]
    Url {
        /// What was given.
        url: String,
        /// What is wanted.
        rule: &'static str,
    },
    /// No server answers there.
    #[error("cannot connect to {address}; is the server running?")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The generator's CPU cannot be used.
    #[error("cannot pin the generator to CPU {cpu}")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the system said.
        source: io::Error,
    },
    /// The server does not serve the page.
    #[error("the server answers {status}: name a page that it answers with 200")]
    Status {
        /// Its status code.
        status: u16,
    },
    /// An answer that cannot be read.
    #[error("the answer cannot be read as HTTP/1.1: {why}; it begins {start:?}")]
    Unreadable {
        /// What is wrong with it.
        why: &'static str,
        /// Its first bytes.
        start: String,
    },
    /// An answer other than the first one.
    #[error("answer {number} differs from the first one: {found}; a wrong answer has no speed")]
    Wrong {
        /// How many answers of that connection or thread came before, plus one.
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
        /// What the engine said.
        source: olivine_net::ConnectError,
    },
    /// The server has stopped answering.
    #[error("the server has answered nothing for {seconds} s")]
    Silent {
        /// How long was waited.
        seconds: u64,
    },
    /// The receiver of a stream stands still.
    #[error("the server has taken or confirmed no frame for {seconds} s")]
    Stuck {
        /// How long was waited.
        seconds: u64,
    },
    /// No answer came within the measured time, or to no request that was due in it.
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
        /// What was seen.
        why: String,
    },
    /// The generator's thread is gone; what it said stands above.
    #[error("the generator broke down; this is a defect of the tool")]
    Panicked,
    /// The person asked to stop.
    #[error("stopped before there was a result")]
    Stopped,
}

/// Names the action that an operating-system error belongs to.
pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> LoadError {
    move |source| LoadError::Io { action, source }
}

/// The start of what a server sent, fit to be shown.
pub(super) fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(60)];
    start.escape_ascii().to_string()
}
