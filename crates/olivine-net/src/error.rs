//! Why an engine could not start, and the small outcomes of the data path.

use std::{io, net::SocketAddr, os::fd::OwnedFd, time::Duration};

use crate::topology::TopologyError;

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number is outside its range.
    #[error("{setting} of {value} cannot be used: it must be {rule}")]
    Range {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: usize,
        /// What is allowed.
        rule: String,
    },
    /// A time is outside its range.
    #[error("{setting} of {value:?} cannot be used: it must be {rule}")]
    Time {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: Duration,
        /// What is allowed.
        rule: &'static str,
    },
    /// `threads` and the length of `cpus` differ.
    #[error("threads is {threads}, but cpus names {cpus} CPUs; leave one out or let them agree")]
    Disagree {
        /// The number of threads.
        threads: usize,
        /// The number of CPUs named.
        cpus: usize,
    },
    /// CPUs were named and pinning turned off.
    #[error("cpus are named, but pin is false; leave one out")]
    CpusWithoutPin,
    /// No TLS session can be begun with the settings given.
    #[cfg(feature = "rustls")]
    #[error("tls cannot be used: {reason}; correct these settings of rustls")]
    Tls {
        /// What rustls said.
        reason: String,
    },
}

impl ConfigError {
    pub(crate) fn range(setting: &'static str, value: usize, rule: &str) -> Self {
        Self::Range {
            setting,
            value,
            rule: rule.to_owned(),
        }
    }

    pub(crate) fn duration(
        setting: &'static str,
        value: Option<Duration>,
        rule: &'static str,
    ) -> Self {
        Self::Time {
            setting,
            value: value.unwrap_or_default(),
            rule,
        }
    }
}

/// Why an engine could not start. Nothing runs and nothing listens after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The CPUs asked for are not there.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The address cannot be listened on: in use, not of this machine, or not permitted.
    #[error("cannot listen on {place}")]
    Listen {
        /// The address or path asked for.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// A shard could not be pinned to its CPU.
    #[error("cannot pin a shard to CPU {cpu}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The back end asked for cannot be used here.
    #[error("the {backend} back end cannot be used here; ask for auto or mio")]
    Backend {
        /// Its name.
        backend: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A shard's thread could not be started, or ended before it ran.
    #[error("cannot start the thread of shard {shard}")]
    Thread {
        /// The shard's index.
        shard: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// Why bytes were not taken for sending. None of them was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// More than the high-water mark is queued;
    /// [`Handler::on_writable`](crate::Handler::on_writable) says when to try again.
    #[error("the peer reads more slowly than we send; wait for on_writable")]
    BackPressured,
    /// The connection is closed, closing or not yet made.
    #[error("the connection is not open")]
    Closed,
    /// An HTTP answer of known length has less room left than that.
    #[error("the answer would be longer than its head says; write less or announce more")]
    TooLong,
    /// A request or its answer is under way on a connection that is to be moved.
    #[error("a request is under way; move the connection between two requests, by Http::hand_over")]
    Busy,
}

/// Why a message was not posted; it is given back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotPosted<M> {
    /// The shard's mailbox is full.
    #[error("the mailbox of the shard is full; post again later or raise mailbox_max")]
    BackPressured(M),
    /// The shard does not exist, or it has stopped.
    #[error("the shard has stopped or does not exist")]
    Closed(M),
}

impl<M> std::fmt::Debug for NotPosted<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BackPressured(_) => "BackPressured(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

/// A socket that an engine did not take over; it is given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAdopted {
    /// The engine holds as many connections as it may.
    #[error("the engine takes no more connections: connections_max is reached")]
    Full(OwnedFd),
    /// The shard does not exist, or it has stopped.
    #[error("the shard has stopped or does not exist")]
    Closed(OwnedFd),
    /// The descriptor cannot be used: it is not a connected stream socket.
    #[error("the descriptor is not a connected stream socket")]
    Unusable(OwnedFd),
}

/// Why a connection ended, as reported to [`Handler::on_close`](crate::Handler::on_close).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The handler closed it, and everything queued was sent.
    Closed,
    /// The handler aborted it.
    Aborted,
    /// The peer ended its direction and the handler agreed; everything queued was sent.
    PeerClosed,
    /// The connection broke: reset by the peer, or a network error.
    Broken(io::ErrorKind),
    /// No byte during the idle time-out.
    IdleTimeout,
    /// The peer accepted nothing during the write time-out, or less than `write_rate_min`.
    WriteTimeout,
    /// A deadline set by the handler passed and the handler did not object.
    Deadline,
    /// The handler left more unconsumed than `unconsumed_max`.
    UnconsumedMax,
    /// The TLS peer broke the protocol.
    Tls,
    /// The engine's stop deadline passed first; queued bytes were lost.
    Cut,
    /// The handler panicked in a call about this connection; queued bytes were lost.
    Panicked,
    /// Another shard has it now ([`Shard::hand_over`](crate::Shard::hand_over)).
    HandedOver,
}

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The system refused: no listener there, no route, or no descriptor left.
    #[error("cannot connect to {address}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It took longer than allowed.
    #[error("connecting to {address} took longer than {timeout:?}")]
    Timeout {
        /// The address.
        address: SocketAddr,
        /// The time allowed.
        timeout: Duration,
    },
    /// The connection cap is reached or the engine is stopping.
    #[error("the engine takes no more connections: it is stopping or connections_max is reached")]
    Refused,
}
