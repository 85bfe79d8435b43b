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
    /// The text given as the message's topic is not a topic.
    #[error(
        "the topic is refused: give words of letters, digits, '_' and '-' joined by dots, \
         128 bytes at most"
    )]
    Topic,
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
    /// A bridge would carry a channel into itself, each message again and again.
    #[error(
        "{far} is the very channel that the messages come from: they would go round for ever; name another one"
    )]
    Loop {
        /// The destination, or the source.
        far: String,
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
    /// The bridge or replay of another program, which publishes in the channel, failed.
    #[error("the bridge that fed lane {lane} failed: {reason}")]
    Upstream {
        /// Index of its lane.
        lane: usize,
        /// What it said.
        reason: String,
    },
    /// What publishes in the channel of the other side failed.
    #[error("what feeds the channel of {far} failed: {reason}")]
    FarFailed {
        /// Address of the other side.
        far: String,
        /// What it said.
        reason: String,
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
    /// Every publisher has closed and everything was read. Each further call says so again, until a later publisher
    /// comes: then receiving goes on.
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
    /// The place of this subscriber was taken, because it held a publisher back for longer than `slow=evict:` allows.
    ///
    /// A durable one whose place was taken before it was opened, also because it was absent for longer than `expire=`,
    /// is told by its first call that receives, once. It is there and goes on; `lost_bytes` counts what it missed.
    #[error(
        "evicted: the place of this subscriber was taken, because it held a publisher back for longer than \
         'slow=evict:' allows, or was absent for longer than 'expire='; open it again, or go on if it was just opened"
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
    /// What fed the ring failed (a bridge, a replay, the link to the far side): everything before that was read, and
    /// nothing after it was seen. Other publishers of the channel are not concerned: receiving may go on with them, and
    /// with a bridge that is started again. Where no publisher is left, each further call says so again.
    #[error("the stream failed, and nothing after this point was received")]
    Failed(#[source] LinkError),
    /// A publisher's lane appeared but could not be mapped. Its messages wait; the call may be repeated.
    #[error("cannot attach to lane {lane}")]
    Lane {
        /// Index of the lane.
        lane: usize,
        /// What went wrong.
        source: Box<OpenError>,
    },
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The feature of this library that brings a scheme's bridge.
fn feature_of(scheme: &str) -> &str {
    match scheme {
        "file" => "journal",
        other => other,
    }
}

impl ReceiveError {
    /// Whether it ends the stream for this handle: further calls can only say it again, until a publisher comes
    /// ([`ReceiveError::Closed`], [`ReceiveError::Failed`]) or for good. After an [`ReceiveError::Evicted`] that says what a
    /// durable name missed before it was opened, the next call goes on all the same. Only an overrun and a lane that could not be
    /// mapped leave the call to be repeated at once.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Overrun { .. } | Self::Lane { .. })
    }
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
    /// A folder or file of the channels cannot be trusted: its owner, group or mode is wrong.
    #[error("{} is not usable: {problem}", path.display())]
    Folder {
        /// The folder or file.
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
    /// The channel was made before the system was started last. Its next opener makes it anew.
    #[error("{} was made before this system was started last, so its messages may be torn and are not delivered: the next program that opens the channel makes it anew, and 'olivine gc' removes it", path.display())]
    EarlierBoot {
        /// The file.
        path: PathBuf,
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
        "channel '{channel}' has {key}={found}, fixed by process {pid}, but {asked} was asked for: leave '{key}' out, use the same value, or close the channel's other users first ('olivine rm' discards messages left unread)"
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
        /// Process that fixed it.
        pid: u64,
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
    #[error(
        "this build has no {scheme}:// bridge: build the library with the feature '{}'",
        feature_of(scheme)
    )]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_bridge_names_a_feature_that_exists() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        for scheme in ["file", "tcp", "nats"] {
            let text = OpenError::NoBridge { scheme }.to_string();
            let (_, named) = text.split_once("the feature '").unwrap();
            let feature = format!("\n{} = [", named.trim_end_matches('\''));
            assert!(manifest.contains(&feature), "{text}");
        }
    }
}
