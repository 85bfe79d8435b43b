//! Why a sealed channel could not be opened, or ended.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a `shm+fd://` channel could not be opened, or why a subscriber lost it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// The operating system returned an error.
    #[error("cannot {action} {}", socket.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No publisher serves the socket.
    #[error(
        "no publisher has served {} for {} ms: start its publisher, or wait longer by 'timeout='",
        socket.display(), waited.as_millis()
    )]
    NoPublisher {
        /// The socket.
        socket: PathBuf,
        /// How long the subscriber waited.
        waited: Duration,
    },
    /// Another publisher serves the socket.
    #[error(
        "{} is served by another publisher, process {pid}: a sealed channel has one; close it, or \
         use another socket",
        socket.display()
    )]
    InUse {
        /// The socket.
        socket: PathBuf,
        /// Its process; 0 if it is in another PID namespace.
        pid: i32,
    },
    /// The socket could not be given to a group.
    #[error(
        "cannot give {} to group={group}: name a group that this user is in ('id -Gn' lists them)",
        socket.display()
    )]
    Group {
        /// Number of the group, with its name if it has one.
        group: String,
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path leads to something that this process must not serve at.
    #[error("{} is {problem}: remove it, or use another socket", socket.display())]
    NotASocket {
        /// The path.
        socket: PathBuf,
        /// What it is.
        problem: &'static str,
    },
    /// The process at the other end belongs to a user that `peers=` does not allow.
    #[error(
        "process {pid} of user {user} is at the other end of {}, and peers={peers} does not allow \
         that",
        socket.display()
    )]
    Peer {
        /// The socket.
        socket: PathBuf,
        /// Its process; 0 if it is in another PID namespace.
        pid: i32,
        /// Its user id.
        user: u32,
        /// The allowed users.
        peers: String,
    },
    /// The publisher refused this subscriber.
    #[error("the publisher of {} refuses: {reason}", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
        /// Its reason, control characters escaped.
        reason: String,
    },
    /// A process serves the socket and did not answer in time: it is stopped, too busy, or does not
    /// speak the protocol.
    #[error(
        "process {pid} serves {} and gave no answer within {} ms: it may be stopped or busy; \
         continue it, or wait longer with timeout=",
        socket.display(), waited.as_millis()
    )]
    NoAnswer {
        /// The socket.
        socket: PathBuf,
        /// Its process; 0 if it is in another PID namespace.
        pid: i32,
        /// How long this subscriber waited.
        waited: Duration,
    },
    /// The process that serves the socket does not speak the protocol, or broke it.
    #[error("what serves {} is not an Olivine publisher: {problem}", socket.display())]
    Protocol {
        /// The socket.
        socket: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The publisher's memory cannot be trusted. None of it was mapped.
    #[error(
        "the {memory} that the publisher of {} handed out cannot be trusted: {problem}",
        socket.display()
    )]
    Memory {
        /// The socket.
        socket: PathBuf,
        /// Which memory: the lane, or this subscriber's page.
        memory: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The publisher expelled this subscriber, because it broke the rules. Everything published
    /// before was read.
    #[error("the publisher of {} expelled this subscriber: {reason}", socket.display())]
    Expelled {
        /// The socket.
        socket: PathBuf,
        /// Its reason, control characters escaped.
        reason: String,
    },
    /// The publisher died: its end of the socket was closed before its lane. Everything it had
    /// published was read.
    #[error(
        "the publisher of {} died: open the channel again when another one serves it",
        socket.display()
    )]
    Died {
        /// The socket.
        socket: PathBuf,
    },
}
