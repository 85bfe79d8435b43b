//! Reasons why a measurement has no figure.

use olivine_arena::error::ArenaError;
use std::process::ExitStatus;

pub use olivine_arena::error::chain;

/// Why a scenario ended without a result. No partial figure is reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A participant, a method or the system failed.
    #[error(transparent)]
    Arena(#[from] ArenaError),
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
    /// A participant failed at its part.
    #[error("{message}")]
    PeerFailed {
        /// Its message.
        message: String,
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
    /// No rivals are built.
    #[error(
        "no rivals in {folder}: build them with `cargo xtask rivals`, or name a folder with an \
        entry.toml",
        folder = folder.display()
    )]
    NoRivals {
        /// The searched folder.
        folder: std::path::PathBuf,
    },
    /// The manifest of an entry is wrong, or the entry cannot be built.
    #[error("entry {folder}: {message}", folder = folder.display())]
    Entry {
        /// Its folder.
        folder: std::path::PathBuf,
        /// What is wrong, and what is allowed.
        message: String,
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
    /// An open-loop measurement without a rate.
    #[error("messages at a fixed rate need a rate above 0")]
    NoRate,
    /// A signal asked to stop.
    #[error("stopped before there was a result")]
    Stopped,
}

/// The result of a measuring step.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Adds the action to an operating-system error.
pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> BenchError {
    move |source| ArenaError::Io { action, source }.into()
}
