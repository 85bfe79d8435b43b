//! What a call answers: one number, in families of a hundred that are the families of errors in
//! Rust.

use core::ffi::{CStr, c_char};
use olivine::{NotSent, OpenError, ReceiveError, UriError};

/// What a call answers. `status / 100` is the family: 0 nothing is wrong, 1 wrong use of this
/// interface, 2 a URI or a setting is wrong, 3 a channel could not be opened, 4 nothing was sent, 5
/// nothing was received.
///
/// Later versions add values to the families 1 to 5, and none changes: treat one you do not know by
/// its family. Family 0 stays as it is: `OK`, and `TIMED_OUT`, with which nothing was received.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Done.
    Ok = 0,
    /// What the call waits for did not happen within the time-out; nothing is wrong.
    /// `olivine_subscriber_try_receive` has a time-out of 0: it answers this where there is no
    /// message. Where no far side of a channel elsewhere is connected, the text of a call that
    /// waits says so, and why.
    TimedOut = 1,

    /// A pointer that must not be NULL is.
    NullArgument = 101,
    /// An argument cannot be what it is: text that is not UTF-8, a structure of another version, a
    /// handle that was closed.
    BadArgument = 102,
    /// The handle is in use: by the poll whose handler made this call, or by another thread.
    InUse = 103,
    /// The publisher has an open claim: commit it or abort it first.
    ClaimOpen = 104,
    /// There is no open claim to commit.
    NoClaim = 105,
    /// The operating system refused.
    System = 106,
    /// A bug of the library; please report what it printed. The handle can only be closed;
    /// it is gone if closing answers this.
    Panicked = 199,

    /// The URI or a setting is wrong, for a reason without a separate status.
    Uri = 200,
    /// There is no `scheme://` at the start.
    UriNoScheme = 201,
    /// The scheme is not one of ours.
    UriUnknownScheme = 202,
    /// The channel name breaks the grammar.
    UriName = 203,
    /// Host and port break the grammar.
    UriAddress = 204,
    /// The path of a file breaks the grammar.
    UriPath = 205,
    /// The path of a socket breaks the grammar.
    UriSocket = 206,
    /// The key is not one of ours.
    UriUnknownKey = 207,
    /// A key is given twice.
    UriRepeated = 208,
    /// A value does not parse or is out of range.
    UriValue = 209,
    /// Two settings exclude each other.
    UriPair = 210,

    /// The channel could not be opened, for a reason without a separate status.
    Open = 300,
    /// The operating system refused.
    OpenIo = 301,
    /// The folder of the channels cannot be trusted.
    OpenFolder = 302,
    /// A file of the channel is not what it should be.
    OpenNotAChannel = 303,
    /// The channel was made by a build with another memory layout.
    OpenLayout = 304,
    /// A setting differs from the live channel's.
    OpenMismatch = 305,
    /// The channel carries messages of another type.
    OpenType = 306,
    /// The channel has no room for another publisher.
    OpenPublishersFull = 307,
    /// The channel has no room for another subscriber.
    OpenSubscribersFull = 308,
    /// A durable name is in use by a live subscriber.
    OpenNameInUse = 309,
    /// Shared memory is full.
    OpenNoSpace = 310,
    /// Another process holds the channel's membership lock and does not release it.
    OpenBusy = 311,
    /// Each time the channel was found, it was being removed.
    OpenRestless = 312,
    /// There is no such channel, where a call does not make one. Opening `shm://` and `inproc://`
    /// makes it.
    OpenMissing = 313,
    /// The thread could not be pinned.
    OpenCpu = 314,
    /// The far side of a channel elsewhere cannot be reached: no server, no publisher at the
    /// socket, no journal at the path. Or it refuses this side: its type, token, channel, settings.
    OpenLink = 315,
    /// This build was made without the bridge.
    OpenNoBridge = 316,
    /// Large pages were required and cannot be had.
    OpenHugePages = 317,
    /// The channel was made in an earlier boot of the system: only looking from outside answers it,
    /// opening makes the channel again.
    OpenEarlierBoot = 318,
    /// Another bridge carries the same source into the channel.
    OpenSourceInUse = 319,

    /// Nothing was sent, for a reason without a separate status.
    NotSent = 400,
    /// The slowest reliable subscriber has not made room yet.
    BackPressured = 401,
    /// Fewer reliable subscribers are attached than `subscribers=` asks for.
    NotConnected = 402,
    /// The publisher is closed. No call in C or C++ answers this: a handle is given back when it is
    /// closed (`BAD_ARGUMENT` if that is found), and C++ has none then (`NULL_ARGUMENT`).
    Closed = 403,
    /// The message does not fit the ring at all.
    TooLong = 404,
    /// The handle was made before a `fork` and this is the child: open the channel again.
    Forked = 405,
    /// The far side of a channel elsewhere cannot be reached any more.
    LinkFailed = 406,
    /// The text given as the message's topic is not a topic.
    Topic = 407,

    /// Nothing was received, for a reason without a separate status.
    NotReceived = 500,
    /// Every publisher has closed and everything was read. A subscriber that has met no publisher
    /// waits for one.
    EndOfStream = 501,
    /// Unread messages of a `delivery=latest` subscriber were overwritten. It continues with the
    /// next message published.
    Overrun = 502,
    /// This subscriber lost its place: it held a publisher back for too long, or its name had
    /// expired.
    Evicted = 503,
    /// The lane holds something that no publisher of this version writes.
    Corrupt = 504,
    /// The handle was made before a `fork` and this is the child: open the channel again.
    ReceiveForked = 505,
    /// A publisher failed, or the far side of a channel elsewhere cannot be reached any more.
    /// Everything before that was read. Messages of other publishers go on: receive again. Once
    /// every lane is closed, each call answers this in place of `END_OF_STREAM`, until another
    /// publisher opens.
    ReceiveLink = 506,
    /// A publisher's lane appeared but could not be mapped. The call may be repeated.
    ReceiveLane = 507,
}

/// Each status with its word; does not compile where one is missing.
macro_rules! words {
    ($($name:ident,)+) => {
        const WORDS: &[(Status, &CStr)] = &[$((
            Status::$name,
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(word) => word,
                Err(_) => panic!("a name has no NUL"),
            },
        ),)+];

        const _: fn(Status) = |status| match status {
            $(Status::$name => (),)+
        };
    };
}

words![
    Ok,
    TimedOut,
    NullArgument,
    BadArgument,
    InUse,
    ClaimOpen,
    NoClaim,
    System,
    Panicked,
    Uri,
    UriNoScheme,
    UriUnknownScheme,
    UriName,
    UriAddress,
    UriPath,
    UriSocket,
    UriUnknownKey,
    UriRepeated,
    UriValue,
    UriPair,
    Open,
    OpenIo,
    OpenFolder,
    OpenNotAChannel,
    OpenLayout,
    OpenMismatch,
    OpenType,
    OpenPublishersFull,
    OpenSubscribersFull,
    OpenNameInUse,
    OpenNoSpace,
    OpenBusy,
    OpenRestless,
    OpenMissing,
    OpenCpu,
    OpenLink,
    OpenNoBridge,
    OpenHugePages,
    OpenEarlierBoot,
    OpenSourceInUse,
    NotSent,
    BackPressured,
    NotConnected,
    Closed,
    TooLong,
    Forked,
    LinkFailed,
    Topic,
    NotReceived,
    EndOfStream,
    Overrun,
    Evicted,
    Corrupt,
    ReceiveForked,
    ReceiveLink,
    ReceiveLane,
];

impl From<&UriError> for Status {
    fn from(error: &UriError) -> Self {
        match error {
            UriError::NoScheme { .. } => Self::UriNoScheme,
            UriError::UnknownScheme { .. } => Self::UriUnknownScheme,
            UriError::Name { .. } | UriError::NoName { .. } => Self::UriName,
            UriError::Address { .. } => Self::UriAddress,
            UriError::Path { .. } => Self::UriPath,
            UriError::Socket { .. } => Self::UriSocket,
            UriError::UnknownKey { .. } => Self::UriUnknownKey,
            UriError::Repeated { .. } => Self::UriRepeated,
            UriError::Value { .. } => Self::UriValue,
            UriError::Pair { .. } | UriError::Misplaced { .. } => Self::UriPair,
            _ => Self::Uri,
        }
    }
}

impl From<&OpenError> for Status {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::Uri(error) => error.into(),
            OpenError::Io { .. } | OpenError::Numa { .. } | OpenError::Group { .. } => Self::OpenIo,
            OpenError::Folder { .. } => Self::OpenFolder,
            OpenError::NotAChannel { .. } => Self::OpenNotAChannel,
            OpenError::Layout { .. } => Self::OpenLayout,
            OpenError::Mismatch { .. } => Self::OpenMismatch,
            OpenError::Type { .. } => Self::OpenType,
            OpenError::PublishersFull { .. } => Self::OpenPublishersFull,
            OpenError::SubscribersFull { .. } => Self::OpenSubscribersFull,
            OpenError::NameInUse { .. } => Self::OpenNameInUse,
            OpenError::NoSpace { .. } => Self::OpenNoSpace,
            OpenError::Busy { .. } => Self::OpenBusy,
            OpenError::Restless { .. } => Self::OpenRestless,
            OpenError::Missing { .. } => Self::OpenMissing,
            OpenError::Cpu { .. } => Self::OpenCpu,
            OpenError::Link(_) => Self::OpenLink,
            OpenError::NoBridge { .. } => Self::OpenNoBridge,
            OpenError::HugePages { .. } => Self::OpenHugePages,
            OpenError::EarlierBoot { .. } => Self::OpenEarlierBoot,
            OpenError::SourceInUse { .. } => Self::OpenSourceInUse,
            _ => Self::Open,
        }
    }
}

impl From<NotSent> for Status {
    fn from(error: NotSent) -> Self {
        match error {
            NotSent::BackPressured | NotSent::Unacknowledged { .. } => Self::BackPressured,
            NotSent::NotConnected => Self::NotConnected,
            NotSent::Closed => Self::Closed,
            NotSent::TooLong { .. } => Self::TooLong,
            NotSent::Forked => Self::Forked,
            NotSent::LinkFailed => Self::LinkFailed,
            NotSent::Topic => Self::Topic,
            _ => Self::NotSent,
        }
    }
}

impl From<&ReceiveError> for Status {
    fn from(error: &ReceiveError) -> Self {
        match error {
            ReceiveError::Closed => Self::EndOfStream,
            ReceiveError::Overrun { .. } => Self::Overrun,
            ReceiveError::Evicted => Self::Evicted,
            ReceiveError::Corrupt { .. } => Self::Corrupt,
            ReceiveError::Forked => Self::ReceiveForked,
            ReceiveError::Failed(_) => Self::ReceiveLink,
            ReceiveError::Lane { .. } => Self::ReceiveLane,
            _ => Self::NotReceived,
        }
    }
}

/// The word of a status, such as `BackPressured`; `unknown` for a number that is none. Never NULL;
/// lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn olivine_status_name(status: i32) -> *const c_char {
    let word = WORDS.iter().find(|(known, _)| *known as i32 == status);
    word.map_or(c"unknown", |(_, word)| *word).as_ptr()
}
