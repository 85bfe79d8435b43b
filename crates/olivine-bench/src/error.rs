//! Reasons why a measurement has no figure.

use std::io;
use std::process::ExitStatus;

/// Why a scenario ended without a result. No partial figure is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The operating system refused something necessary.
    #[error("cannot {action}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// The operating system does not permit the requested privilege.
    #[error("this process may not {what}: {how}")]
    Refused {
        /// The requested privilege.
        what: &'static str,
        /// The remedy.
        how: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// Two CPUs are needed.
    #[error(
        "two CPUs are needed, but only {allowed} may be used: widen the CPU set of this process"
    )]
    TooFewCpus {
        /// CPUs this process may run on.
        allowed: usize,
    },
    /// A forbidden CPU was named.
    #[error("cannot pin to CPU {cpu}: CPUs {allowed} are allowed to this process")]
    Cpu {
        /// The requested CPU.
        cpu: u32,
        /// The allowed CPUs.
        allowed: String,
    },
    /// A server under load has no figure.
    #[error(transparent)]
    Server(Box<dyn std::error::Error + Send + Sync>),
    /// A participant ended.
    #[error("a participant ended early ({status}); what it said stands above")]
    PeerGone {
        /// How it ended.
        status: ExitStatus,
    },
    /// A participant does not reply.
    #[error(
        "a participant did not answer within {seconds} s; it is stopped or its CPU is taken by \
        others"
    )]
    PeerSilent {
        /// The waiting time.
        seconds: u64,
    },
    /// A participant failed at its part.
    #[error("{message}")]
    PeerFailed {
        /// Its message.
        message: String,
    },
    /// The processes use different protocols.
    #[error("an order or an answer does not fit: {found}")]
    Protocol {
        /// Its message.
        found: String,
    },
    /// A channel could not be opened.
    #[error("cannot open the channel to be measured")]
    Open(#[from] olivine::OpenError),
    /// A message could not be sent.
    #[error("a message could not be sent")]
    NotSent(#[from] olivine::NotSent),
    /// A message could not be received.
    #[error("a message could not be received")]
    Receive(#[from] olivine::ReceiveError),
    /// A message arrived changed, or in the wrong order.
    #[error("message {sequence} did not arrive as it was sent: a wrong answer has no speed")]
    Wrong {
        /// Sequence number expected.
        sequence: u64,
    },
    /// A message is too long for a method.
    #[error(
        "a message of {bytes} bytes is more than {limit} allows ({max}): choose a smaller size"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The limit.
        max: usize,
        /// The owner of the limit.
        limit: &'static str,
    },
    /// A message is too short to be checked.
    #[error(
        "a message of {bytes} bytes is too short to be checked: it takes 16, for its number and \
        time stamp"
    )]
    TooShort {
        /// Bytes of the message.
        bytes: usize,
    },
    /// There is no such method.
    #[error("there is no method '{name}'; there are {known}")]
    NoMethod {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// There is no queue of arrays for this size.
    #[error("queues of arrays are built for messages of {known} bytes, not of {bytes}")]
    NoSize {
        /// Bytes of a message.
        bytes: usize,
        /// The available sizes.
        known: String,
    },
    /// No rivals are built.
    #[error(
        "no rivals in {folder}: build them with `cargo xtask rivals`",
        folder = folder.display()
    )]
    NoRivals {
        /// The searched folder.
        folder: std::path::PathBuf,
    },
    /// A rival's program did not end.
    #[error("rival {name} did not end within {seconds} s and was stopped")]
    RivalHangs {
        /// The rival.
        name: String,
        /// The waiting time.
        seconds: u64,
    },
    /// A rival failed.
    #[error("rival {name} failed: {message}")]
    Rival {
        /// The rival.
        name: String,
        /// Its message.
        message: String,
    },
    /// A library of another project failed.
    #[error("{library} says: {message}")]
    Library {
        /// The library.
        library: &'static str,
        /// Its message.
        message: String,
    },
    /// A method that carries one message at a time was asked to stream.
    #[error("this method carries one message at a time: measure it with pingpong")]
    OneAtATime,
    /// A rate outside of [`crate::pace::RATES_PER_S`].
    #[error(
        "a rate of {per_s} messages a second is not within {least} to {most}: below, a slice has \
        no message; above, none leaves when it is due",
        least = crate::pace::RATES_PER_S.start(),
        most = crate::pace::RATES_PER_S.end()
    )]
    Rate {
        /// The requested rate.
        per_s: f64,
    },
    /// A method that hands messages over one by one was asked for batches.
    #[error("this method hands messages over one by one: measure it with a batch of 1")]
    NoBatches,
    /// An open-loop measurement without a rate.
    #[error("messages at a fixed rate need a rate above 0")]
    NoRate,
    /// The socket between two participants cannot be created.
    #[error(
        "cannot bind the socket {path}{too_long}",
        path = path.display(),
        too_long = too_long(path)
    )]
    Socket {
        /// Its path: in `$OLIVINE_DIR` if that is set, else in memory.
        path: std::path::PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    EndClosed,
    /// A signal asked to stop.
    #[error("stopped before there was a result")]
    Stopped,
}

/// Longest path of a socket in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// The remedy for a path that is too long for a socket.
fn too_long(path: &std::path::Path) -> String {
    match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => String::new(),
        bytes => format!(
            ", whose {bytes} bytes are more than the {SOCKET_PATH_MAX} of a socket: set \
            OLIVINE_DIR to a shorter path"
        ),
    }
}

/// An error and its causes in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The result of a measuring step.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Adds the action to an operating-system error.
pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::Io { action, source }
}
