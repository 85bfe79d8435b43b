//! Errors of opening, sending and receiving. Depends on `uri` alone.
//!
//! Each text says what, which value and what to do. `source()` is the cause and is not repeated.
//! The hot path returns a small `Copy` enum: [`NotSent`].

mod damage;
pub(crate) mod described;
mod holders;
pub(crate) mod ids;
mod journal;
mod sealed;
mod unacknowledged;

pub use damage::Damage;
pub use described::Described;
pub(crate) use holders::{holders, process};
pub use ids::Explanation;
pub use journal::JournalError;
pub use sealed::SealedError;
pub use unacknowledged::Unacknowledged;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a message was not sent. No part of it became visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The slowest reliable subscriber has not released room yet. Try again, or call `publish`,
    /// which waits.
    #[error(
        "a subscriber has not read far enough yet: call again or wait, find it with 'olivine \
         top', or use a larger 'capacity=' or 'slow=evict:TIME'"
    )]
    BackPressured,
    /// Fewer reliable subscribers are attached than `subscribers=` requires.
    #[error(
        "fewer reliable subscribers are attached than 'subscribers=' asks for: start them, call \
         again or wait, or open with a smaller number"
    )]
    NotConnected,
    /// Closing waited for the far side of a remote channel as long as it may, and the far side had
    /// not acknowledged everything. With a `name=`, the next program of this name delivers the
    /// rest, but not to a far side that was given up: [`Unacknowledged::has_given_up`].
    #[error(
        "closing waited {}, and the far side has not acknowledged {}: {}",
        seconds(_0.waited()),
        unacknowledged(_0.messages()),
        _0.remedy()
    )]
    Unacknowledged(Unacknowledged),
    /// The publisher is closed.
    #[error("the publisher is closed: open the channel again")]
    Closed,
    /// The message is longer than any that fits into the ring.
    #[error(
        "the message is too long: this ring takes up to {max} bytes; open the channel with a \
         larger 'capacity='"
    )]
    TooLong {
        /// Longest message in bytes.
        max: usize,
    },
    /// The given topic is invalid.
    #[error(
        "the topic is refused: give words of letters, digits, '_' and '-' joined by dots, such as \
         orders.eu.created, 128 bytes at most"
    )]
    Topic,
    /// The handle was made before a `fork`, and this is the child.
    #[error("this handle belongs to the parent process: open the channel again after fork")]
    Forked,
    /// The far side of a remote channel cannot be reached any more.
    /// [`crate::Publisher::link_failure`] says why.
    #[error(
        "the link to the far side has failed: what was not acknowledged is undelivered; open the \
         channel again"
    )]
    LinkFailed,
}

/// A time in seconds, with a tenth if it is short.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        whole @ 10.. => format!("{whole} s"),
        whole => format!("{whole}.{} s", time.subsec_millis() / 100),
    }
}

/// What a far side has not acknowledged.
fn unacknowledged(messages: u64) -> String {
    match messages {
        0 => "the end of the stream".to_owned(),
        1 => "1 message".to_owned(),
        more => format!("{more} messages"),
    }
}

/// A permanent failure to reach the far side of a channel. The bridge waits during a temporary
/// failure, and [`crate::LinkStatus`] reports it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The operating system returned an error.
    #[error("cannot {action} {place}{}", remedy(source))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The address or file.
        place: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The far side speaks another version of the protocol.
    #[error(
        "{far} speaks version {found} of the protocol, this build speaks {expected}: run matching \
         versions"
    )]
    Version {
        /// Address of the far side.
        far: String,
        /// Version of the far side.
        found: u32,
        /// Version of this build.
        expected: u32,
    },
    /// The far side is not Olivine, or broke the protocol.
    #[error("{far} does not speak the protocol of tcp://: {problem}")]
    Protocol {
        /// Address of the far side.
        far: String,
        /// The fault.
        problem: String,
    },
    /// The far side refused, and would refuse again.
    #[error("{far} refused: {reason}")]
    Refused {
        /// Address of the far side.
        far: String,
        /// The reason that it sent.
        reason: String,
    },
    /// A setting has different values on the two sides.
    #[error("{far} has {key}={theirs}, this side has {key}={ours}: {rule}")]
    Settings {
        /// Address of the far side.
        far: String,
        /// The setting.
        key: &'static str,
        /// Its value on the far side.
        theirs: String,
        /// Its value on this side.
        ours: String,
        /// What to do.
        rule: &'static str,
    },
    /// A bridge would copy a channel into itself, each message again and again.
    #[error(
        "{far} is the very channel that the messages come from: they would go round for ever; \
         name another one"
    )]
    Loop {
        /// The destination, or the source.
        far: String,
    },
    /// TLS could not be set up, or the far side could not prove its identity.
    #[error("TLS with {far}: {problem}")]
    Tls {
        /// Address of the far side, or the file.
        far: String,
        /// What is wrong.
        problem: String,
    },
    /// The far side no longer has the next messages, so messages are missing.
    #[error(
        "messages are missing: {far} cannot go on from position {position} of lane {lane}: \
         {problem}; open the channel again to go on without them"
    )]
    Lost {
        /// Source of the messages.
        far: String,
        /// Lane of the publisher.
        lane: u32,
        /// Position of the first missing byte.
        position: u64,
        /// Why they are missing.
        problem: String,
    },
    /// A file is damaged.
    #[error("{place}: {problem}")]
    Damaged {
        /// The file, and the place in it.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A journal cannot be recorded or replayed.
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
    /// The publisher of a lane failed: a bridge, a replay, or a program that panicked or closed it
    /// with a reason.
    #[error("what feeds lane {lane} failed: {reason}")]
    Upstream {
        /// Index of its lane.
        lane: usize,
        /// The reason that it reported.
        reason: String,
    },
    /// The source of the far side's channel failed.
    #[error("what feeds the channel of {far} failed: {reason}")]
    FarFailed {
        /// Address of the far side.
        far: String,
        /// The reason that it reported.
        reason: String,
    },
    /// A bridge from outside this crate failed, or used its ring in a wrong way.
    #[error("the bridge failed: {problem}")]
    Bridge {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The thread of the bridge panicked: a bug of Olivine.
    #[error("the thread of the bridge panicked: please report what it printed")]
    Panicked,
}

impl LinkError {
    /// The failure of a publisher that made a bridge fail: of the ring that the bridge reads.
    #[must_use]
    pub fn of_source(&self) -> Option<&Self> {
        match self {
            Self::Receive { source } => match &**source {
                ReceiveError::Failed(failure) => Some(failure),
                _ => None,
            },
            _ => None,
        }
    }

    /// What a bridge passes on: the reason of a publisher in its own words, from where it came, or
    /// the error with its causes.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Upstream { reason, .. } => reason.clone(),
            Self::FarFailed { far, reason } => format!("{reason} (from {far})"),
            other => chain(other),
        }
    }
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
    /// Every publisher has closed, and everything was read. Further calls return it again until a
    /// later publisher comes. Then receiving continues. A subscriber that attaches after the end,
    /// and reads no message, waits for the next publisher instead.
    #[error("end of stream: every publisher has closed and everything was read")]
    Closed,
    /// A publisher was free to overwrite the next message of a `delivery=latest` subscriber. It
    /// skipped everything that the publisher of that lane has published until now, and continues
    /// there with the next message that is published. Other lanes lose nothing by this.
    #[error(
        "overrun: {lost_bytes} bytes were skipped, because a publisher was free to overwrite the \
         next message: call again to go on with newer messages; read faster or use a larger \
         'capacity=' to lose less, or 'delivery=reliable' to lose nothing"
    )]
    Overrun {
        /// Bytes of frames (headers and padding included) that were skipped.
        lost_bytes: u64,
    },
    /// The subscriber lost its place, because a publisher had no room for longer than `slow=evict:`
    /// allows, and this subscriber was in the way: slow, silent, or just opened.
    ///
    /// A durable name may have lost its place before it was opened, also by being absent for longer
    /// than `expire=`. Then its first receiving call returns this error once. The subscriber is
    /// attached and continues; `lost_bytes` counts what it missed.
    #[error(
        "evicted: the place of this subscriber was taken, because a publisher had no room for \
         longer than 'slow=evict:' allows and this subscriber was in the way, or because it was \
         absent for longer than 'expire='; open it again, or go on if it was just opened"
    )]
    Evicted,
    /// The lane holds words that no publisher of this version writes.
    #[error(
        "lane {lane} is corrupt at position {position}: {damage}; stop the channel's users, \
         remove it ('olivine rm') and start them again"
    )]
    Corrupt {
        /// Index of the lane.
        lane: usize,
        /// Position of the damaged frame in bytes.
        position: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// The handle was made before a `fork`, and this is the child.
    #[error("this handle belongs to the parent process: open the channel again after fork")]
    Forked,
    /// A publisher failed: it called `close_failed`, or a panic dropped it. Or the bridge, replay
    /// or link that fills the ring failed. Everything before the failure was read, nothing after
    /// it. Receiving may continue with other publishers of the channel, and with a bridge that is
    /// started again. Without any publisher left, further calls return the error again.
    /// [`error_chain`](crate::error_chain) has the reason.
    #[error("the stream failed here; everything before was received")]
    Failed(#[source] LinkError),
    /// A publisher's lane appeared but could not be mapped. Its messages wait. Call again.
    #[error("cannot attach to lane {lane}")]
    Lane {
        /// Index of the lane.
        lane: usize,
        /// The cause.
        source: Box<OpenError>,
    },
}

/// A type that no channel carries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageTypeError {
    /// The name is empty or too long.
    #[error("the name of the type has {length} bytes: choose one of 1 to 64 bytes")]
    Name {
        /// Its length in bytes.
        length: usize,
    },
    /// Values need an alignment that messages do not have.
    #[error(
        "type '{name}' has an alignment of {align} bytes: messages start on 8-byte boundaries, so \
         it must be 1, 2, 4 or 8"
    )]
    Align {
        /// The name.
        name: String,
        /// The alignment in bytes.
        align: usize,
    },
    /// The size does not fit the alignment.
    #[error(
        "type '{name}' has {size} bytes: a size is a multiple of the alignment, here {align}, and \
         at least 1"
    )]
    Size {
        /// The name.
        name: String,
        /// The size in bytes.
        size: usize,
        /// The alignment in bytes.
        align: usize,
    },
    /// A field is not understood, or does not fit.
    #[error("field '{field}': {problem}")]
    Field {
        /// The field, as it was stated.
        field: String,
        /// What is wrong with it, or how to write it.
        problem: &'static str,
    },
}

/// The text of an error and of its causes, each after a colon, in one line.
///
/// `{error}` alone has the first text only. The causes say the reason of a publisher that failed,
/// the damage of a journal, or the error of the system:
///
/// ```
/// let refused = olivine::Publisher::open("file:///missing/folder/ticks.olv").unwrap_err();
/// assert!(olivine::error_chain(&refused).contains("No such file or directory"));
/// ```
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What helps if the system refused a path or an address with `error`, in brackets.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => " (check the path: its folder must be there)",
        io::ErrorKind::NotADirectory => " (check the path: a part of it is a file)",
        io::ErrorKind::PermissionDenied => {
            " (give this user the right to it, or name another place)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (name a place that can be written)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (free space there, or name another place)"
        }
        io::ErrorKind::FileTooLarge => {
            " (it is longer than 'ulimit -f' of this process or the file system allows: use a \
             smaller 'capacity=', or raise the limit)"
        }
        _ => "",
    }
}

/// The cargo feature that contains the bridge of a scheme.
fn feature_of(scheme: &str) -> &str {
    match scheme {
        "file" => "journal",
        other => other,
    }
}

impl ReceiveError {
    /// Whether it ends the stream for this handle, as far as it knows: further calls return it
    /// again until something new comes. [`ReceiveError::Failed`] of one publisher is returned once
    /// while others publish: call again for their messages. After it and after
    /// [`ReceiveError::Closed`] receiving continues once a publisher comes. One exception:
    /// [`ReceiveError::Evicted`] that reports the loss of a durable name's place before it was
    /// opened. Then the next call continues. After an overrun, or a lane that could not be mapped,
    /// the call may be repeated at once.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Overrun { .. } | Self::Lane { .. })
    }
}

/// Why a channel could not be opened. Nothing is left behind. [`error_chain`](crate::error_chain)
/// has the causes, too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URI or a setting is wrong.
    #[error(transparent)]
    Uri(#[from] crate::uri::UriError),
    /// The operating system returned an error.
    #[error("cannot {action} {}{}", path.display(), remedy(source))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder or file of the channels is not trusted: its owner, group or mode is wrong.
    #[error("{} is not usable: {problem}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A file of the channel is damaged or missing.
    #[error("{} is not a usable channel file: {problem}", path.display())]
    NotAChannel {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The channel was made in an earlier boot of the system. Its next opener makes a new one.
    #[error(
        "{} was made before this system was started last, so its messages may be torn and are not \
         delivered: the next program that opens the channel makes a new one, and 'olivine gc' \
         removes it",
        path.display()
    )]
    EarlierBoot {
        /// The file.
        path: PathBuf,
    },
    /// The channel was made by a build with another memory layout.
    #[error(
        "{} has layout {found}, this build speaks {expected}: stop its users and remove it \
         ('olivine rm --force'), or run the matching version",
        path.display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: u64,
        /// Version of this build.
        expected: u64,
    },
    /// A setting differs from that of the live channel.
    #[error(
        "channel '{channel}' has {key}={found}, fixed by process {pid}, but {asked} was asked \
         for: leave '{key}' out, use the same value, or close the channel's other users first \
         ('olivine rm' discards messages left unread)"
    )]
    Mismatch {
        /// The channel.
        channel: String,
        /// The setting.
        key: &'static str,
        /// The requested value.
        asked: String,
        /// The value of the channel.
        found: String,
        /// The process that fixed it.
        pid: u64,
    },
    /// The channel carries messages of another type.
    #[error(
        "channel '{channel}' carries '{found}', and this side has '{asked}': use the channel's \
         type or another channel"
    )]
    Type {
        /// The channel.
        channel: String,
        /// The requested type.
        asked: String,
        /// Type of the channel; "untyped bytes" if it has none.
        found: String,
    },
    /// The channel has no room for another publisher.
    #[error(
        "channel '{channel}' has no lane left of publishers_max={max} (held by {holders}): \
         close a publisher, or create the channel with a larger 'publishers_max='; a \
         lane that is kept for a bridge is free again when that bridge runs and its source ends \
         or stays away"
    )]
    PublishersFull {
        /// The channel.
        channel: String,
        /// Its limit.
        max: u64,
        /// Who holds the lanes: processes, and bridges that are away.
        holders: String,
    },
    /// The channel has no room for another subscriber.
    #[error(
        "channel '{channel}' has no slot left of subscribers_max={max} (held by {holders}): \
         close a subscriber, remove an absent name with 'olivine rm CHANNEL --name NAME', or \
         create the channel with a larger 'subscribers_max='"
    )]
    SubscribersFull {
        /// The channel.
        channel: String,
        /// Its limit.
        max: u64,
        /// Who holds the slots: processes, and absent names.
        holders: String,
    },
    /// A durable name is in use by a live subscriber.
    #[error(
        "durable subscriber '{name}' is already open in process {pid}: close it there, or use \
         another 'name='"
    )]
    NameInUse {
        /// The name.
        name: String,
        /// Its process.
        pid: u64,
    },
    /// Another bridge carries the messages of the same source into this channel. It would repeat
    /// them.
    #[error(
        "lane {lane} of channel '{channel}' is kept for '{source_name}', and a bridge in process \
         {pid} writes it now: stop that bridge, or give this one another name of its source"
    )]
    SourceInUse {
        /// The channel.
        channel: String,
        /// The lane that the other bridge has open.
        lane: usize,
        /// The name of the source, as both bridges have it.
        source_name: String,
        /// The process of the other bridge.
        pid: u64,
    },
    /// Shared memory is full.
    #[error(
        "not enough shared memory at {}: {need_bytes} bytes are needed, {free_bytes} are free; \
         use a smaller 'capacity=', remove channels ('olivine gc'), or enlarge it (docker: \
         --shm-size=1g)",
        path.display()
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Bytes needed.
        need_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// A process has held the channel's membership lock for too long.
    #[error(
        "channel '{channel}' has been busy for {} s: process {pid} is stopped or stuck while \
         opening or closing it; let it go on ('kill -CONT') or end it",
        waited.as_secs()
    )]
    Busy {
        /// The channel.
        channel: String,
        /// The process that holds it; 0 if unknown.
        pid: u64,
        /// How long the opener waited.
        waited: Duration,
    },
    /// The channel was removed each time it was found.
    #[error(
        "channel '{channel}' was removed each time it was found, for {} s: other programs make and \
         remove it repeatedly; try again",
        waited.as_secs()
    )]
    Restless {
        /// The channel.
        channel: String,
        /// How long the opener tried.
        waited: Duration,
    },
    /// There is no such channel.
    #[error(
        "channel '{channel}' does not exist in {}: the first publisher or subscriber that opens \
         it makes it; 'olivine ls' shows which exist, 'dir=' looks elsewhere",
        path.display()
    )]
    Missing {
        /// The channel.
        channel: String,
        /// The folder that was searched.
        path: PathBuf,
    },
    /// The thread could not be pinned.
    #[error("cannot pin to cpu={cpu}: CPUs {allowed} are allowed to this process")]
    Cpu {
        /// The requested CPU.
        cpu: u32,
        /// The allowed CPUs.
        allowed: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The memory of the channel could not be put on a NUMA node.
    #[error("cannot put {} on numa={node}: {problem}", path.display())]
    Numa {
        /// The requested node.
        node: u32,
        /// The file.
        path: PathBuf,
        /// Which nodes there are, or what forbids it, and what to do.
        problem: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of the channel could not be given to a group.
    #[error(
        "cannot give {} to group={group}: name a group that this user is in ('id -Gn' lists them)",
        path.display()
    )]
    Group {
        /// Number of the group, with its name if it has one.
        group: String,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The far side of a remote channel cannot be reached.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// This build does not contain the bridge.
    #[error(
        "this build has no {scheme}:// bridge: build with the cargo feature '{}'",
        feature_of(scheme)
    )]
    NoBridge {
        /// Scheme of the URI.
        scheme: &'static str,
    },
    /// Large pages are required, and the kernel does not give them.
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
    fn missing_bridge_error_names_existing_feature() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        for scheme in ["file", "tcp", "nats"] {
            let text = OpenError::NoBridge { scheme }.to_string();
            let (_, named) = text.split_once("the cargo feature '").unwrap();
            let feature = format!("\n{} = [", named.trim_end_matches('\''));
            assert!(manifest.contains(&feature), "{text}");
        }
    }
}
