//! Why something could not be opened, sent or received. Depends on `uri` alone.
//!
//! Each text says what, which value and what to do; `source()` is the cause and is not repeated. What the hot
//! path answers is a small `Copy` enum: [`NotSent`].

mod damage;
mod journal;
mod sealed;

pub use damage::Damage;
pub use journal::JournalError;
pub use sealed::SealedError;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a message was not sent. Nothing of it became visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The slowest reliable subscriber has not made room yet. Try again, or `publish`, which waits.
    #[error("no room in the ring: a subscriber has not read far enough yet")]
    BackPressured,
    /// Fewer reliable subscribers are attached than `subscribers=` asks for.
    #[error("still waiting for the subscribers that 'subscribers=' asks for")]
    NotConnected,
    /// The publisher is closed.
    #[error("the publisher is closed")]
    Closed,
    /// The message does not fit the ring at all.
    #[error(
        "the message is too long: this ring takes up to {max} bytes; open the channel with a larger 'capacity='"
    )]
    TooLong {
        /// Longest message in bytes.
        max: usize,
    },
    /// The handle was made before a `fork` and this is the child.
    #[error("this handle belongs to the parent process: open the channel again after fork")]
    Forked,
    /// The far side of a channel elsewhere cannot be reached any more. [`crate::Publisher::link_failure`] says why.
    #[error("the link to the far side has failed: what it had not acknowledged is undelivered")]
    LinkFailed,
}

/// Why the far side of a channel cannot be reached, for good. What may pass is waited for instead, and told by
/// [`crate::LinkStatus`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The operating system refused.
    #[error("cannot {action} {place}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which address or file.
        place: String,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// The other side of a connection speaks another version of the protocol.
    #[error(
        "{far} speaks version {found} of the protocol, this build speaks {expected}: run matching versions"
    )]
    Version {
        /// Address of the other side.
        far: String,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The other side of a connection is not one of ours, or broke the protocol.
    #[error("{far} does not speak the protocol of tcp://: {problem}")]
    Protocol {
        /// Address of the other side.
        far: String,
        /// What it said.
        problem: String,
    },
    /// The other side refused, and would again.
    #[error("{far} refused: {reason}")]
    Refused {
        /// Address of the other side.
        far: String,
        /// What it said.
        reason: String,
    },
    /// A setting of the two sides does not fit together.
    #[error("{far} has {key}={theirs}, this side has {key}={ours}: {rule}")]
    Settings {
        /// Address of the other side.
        far: String,
        /// The setting.
        key: &'static str,
        /// Its value there.
        theirs: String,
        /// Its value here.
        ours: String,
        /// What to do.
        rule: &'static str,
    },
    /// TLS could not be set up, or the other side could not prove who it is.
    #[error("TLS with {far}: {problem}")]
    Tls {
        /// Address of the other side, or the file.
        far: String,
        /// What is wrong.
        problem: String,
    },
    /// The far side no longer has what comes next, so that messages are missing.
    #[error(
        "messages are missing: {far} cannot go on from position {position} of lane {lane}: {problem}; open the channel again to go on without them"
    )]
    Lost {
        /// Where the messages came from.
        far: String,
        /// Lane of the publisher.
        lane: u32,
        /// Position of the first missing byte.
        position: u64,
        /// Why they are gone.
        problem: String,
    },
    /// A file is not what it should be.
    #[error("{place}: {problem}")]
    Damaged {
        /// The file, and where in it.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A journal cannot be recorded into, or replayed.
    #[error(transparent)]
    Journal(Arc<JournalError>),
    /// A sealed channel cannot be opened, or was lost.
    #[error(transparent)]
    Sealed(Arc<SealedError>),
    /// The ring of this side could not be opened.
    #[error("the ring of this side could not be opened")]
    Ring {
        /// Why.
        source: Arc<OpenError>,
    },
    /// Reading the ring of this side failed.
    #[error("the ring of this side cannot be read")]
    Receive {
        /// Why.
        source: Arc<ReceiveError>,
    },
    /// The thread of the bridge panicked: a bug of ours.
    #[error("the thread of the bridge panicked: please report what it printed")]
    Panicked,
}

impl From<SealedError> for LinkError {
    fn from(error: SealedError) -> Self {
        Self::Sealed(Arc::new(error))
    }
}

impl From<SealedError> for OpenError {
    fn from(error: SealedError) -> Self {
        Self::Link(error.into())
    }
}

/// Why nothing was received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Every publisher has closed and everything was read.
    #[error("end of stream: every publisher has closed and everything was read")]
    Closed,
    /// A `delivery=latest` subscriber was lapped. It goes on with the newest message; this call only reports.
    #[error(
        "overrun: {lost_bytes} bytes were overwritten before they were read; go on, or use a larger 'capacity=' or 'delivery=reliable'"
    )]
    Overrun {
        /// Bytes of frames (headers and padding included) that were skipped.
        lost_bytes: u64,
    },
    /// A publisher evicted this subscriber because it held it back for longer than `slow=evict:` allows.
    #[error(
        "evicted: this subscriber held a publisher back for longer than 'slow=evict:' allows; open it again"
    )]
    Evicted,
    /// The lane holds something that no publisher of this version writes.
    #[error(
        "lane {lane} is corrupt at position {position}: {damage}; stop the channel's users, remove it ('olivine rm') and start them again"
    )]
    Corrupt {
        /// Index of the lane.
        lane: usize,
        /// Position of the damaged frame in bytes.
        position: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// The handle was made before a `fork` and this is the child.
    #[error("this handle belongs to the parent process: open the channel again after fork")]
    Forked,
    /// The far side of a channel elsewhere cannot be reached any more; everything that had arrived was read.
    #[error("the link to the far side has failed")]
    Link(#[source] LinkError),
    /// A publisher's lane appeared but could not be mapped. Its messages wait; the call may be repeated.
    #[error("cannot attach to lane {lane}")]
    Lane {
        /// Index of the lane.
        lane: usize,
        /// What went wrong.
        source: Box<OpenError>,
    },
}

/// Why a channel could not be opened. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URI or a setting is wrong.
    #[error(transparent)]
    Uri(#[from] crate::uri::UriError),
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The folder of the channels cannot be trusted.
    #[error("folder {} is not usable: {problem}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A file of the channel is not what it should be.
    #[error("{} is no usable channel file: {problem}", path.display())]
    NotAChannel {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The channel was made by a build with another memory layout.
    #[error("{} has layout {found}, this build speaks {expected}: stop its users and remove it ('olivine rm'), or run the matching version", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: u64,
        /// Version of this build.
        expected: u64,
    },
    /// A setting differs from the live channel's.
    #[error(
        "channel '{channel}' exists with {key}={found}, but {asked} was asked for: leave '{key}' out, use the same value, or close the channel's other users first ('olivine rm' discards messages left unread)"
    )]
    Mismatch {
        /// The channel.
        channel: String,
        /// The setting.
        key: &'static str,
        /// What was asked for.
        asked: String,
        /// What the channel has.
        found: String,
    },
    /// The channel carries messages of another type.
    #[error(
        "channel '{channel}' carries '{found}', not '{asked}': use the channel's type or another channel"
    )]
    Type {
        /// The channel.
        channel: String,
        /// Type asked for.
        asked: String,
        /// Type of the channel; "untyped bytes" if it has none.
        found: String,
    },
    /// The channel has no room for another publisher.
    #[error(
        "channel '{channel}' has no lane left of publishers_max={max} (held by process ids {pids}): close a publisher, or create the channel with a larger 'publishers_max='"
    )]
    PublishersFull {
        /// The channel.
        channel: String,
        /// Its limit.
        max: u64,
        /// Who holds the lanes.
        pids: String,
    },
    /// The channel has no room for another subscriber.
    #[error(
        "channel '{channel}' has no slot left of subscribers_max={max}: close a subscriber, or create the channel with a larger 'subscribers_max='"
    )]
    SubscribersFull {
        /// The channel.
        channel: String,
        /// Its limit.
        max: u64,
    },
    /// A durable name is in use by a live subscriber.
    #[error(
        "durable subscriber '{name}' is already open in process {pid}: close it there, or use another 'name='"
    )]
    NameInUse {
        /// The name.
        name: String,
        /// Its process.
        pid: u64,
    },
    /// Shared memory is full.
    #[error("not enough shared memory at {}: {need_bytes} bytes are needed, {free_bytes} are free; use a smaller 'capacity=', remove channels ('olivine gc'), or enlarge it (docker: --shm-size=1g)", path.display())]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// Bytes needed.
        need_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// Somebody holds the channel's membership lock and does not let go.
    #[error("channel '{channel}' has been busy for {} s: process {pid} is stopped or stuck while opening or closing it; let it go on ('kill -CONT') or end it", waited.as_secs())]
    Busy {
        /// The channel.
        channel: String,
        /// Who holds it, 0 if unknown.
        pid: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// Whenever it was found, it was just going away.
    #[error("channel '{channel}' has come and gone for {} s without staying: others make and remove it all the time; try again", waited.as_secs())]
    Restless {
        /// The channel.
        channel: String,
        /// How long was tried.
        waited: Duration,
    },
    /// There is no such channel.
    #[error("channel '{channel}' does not exist in {}: the first publisher or subscriber that opens it makes it; 'olivine ls' shows which exist, 'dir=' looks elsewhere", path.display())]
    Missing {
        /// The channel.
        channel: String,
        /// Folder looked in.
        path: PathBuf,
    },
    /// The thread could not be pinned.
    #[error("cannot pin to cpu={cpu}: CPUs {allowed} are allowed to this process")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// What is allowed.
        allowed: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The far side of a channel elsewhere cannot be reached.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// This build was made without the bridge.
    #[error("this build has no {scheme}:// bridge: build the library with the feature '{scheme}'")]
    NoBridge {
        /// Scheme of the URI.
        scheme: &'static str,
    },
    /// Large pages were required and cannot be had.
    #[error("hugepages=require cannot be met: {problem}")]
    HugePages {
        /// What is wrong and what to do.
        problem: String,
    },
}
