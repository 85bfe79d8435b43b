//! Messages between programs: fast, without loss, and safe against any crash.
//!
//! A URI names a **channel**. `shm://ticks` reaches other processes of this machine,
//! `inproc://ticks` threads of this process, `tcp://host:9000/ticks` other machines. A [`Bridge`]
//! carries messages between channels. A program chooses the URI when it runs, not when it is built.
//!
//! Up to 256 [`Publisher`]s send and up to 1,024 [`Subscriber`]s receive (16 and 64 by default).
//! Each message reaches every reliable subscriber once and in order. A publisher waits and does not
//! overwrite a message that one of them has not read.
//!
//! What it does not do:
//!
//! * It does not drop messages. Three settings allow a loss, and each loss is reported:
//!   `delivery=latest`, `slow=evict:DURATION` and `expire=`. `SAFETY.md` lists the exceptions.
//! * It needs no daemon. A thread of the program runs behind `tcp://`, `nats://`, `file://`,
//!   `shm+fd://`, [`AsyncSubscriber`] and [`Subscriber::event_fd`]. A process in which a
//!   participant sleeps longer than 24 ms has one more, which watches other processes for their
//!   death.
//! * It allocates nothing for each message. It enters the kernel only to wait, and to wake a
//!   participant that sleeps.
//! * It needs no manual step after a crash. The place of an absent durable subscriber (`name=`)
//!   stays on purpose, until `expire=` or `olivine rm --name`.
//! * It does not protect participants of a channel from a malicious one. `shm+fd:///run/ticks.sock`
//!   does, if they run as different users (see `SAFETY.md`).
//!
//! ```
//! use olivine::{Publisher, Subscriber};
//!
//! let mut subscriber = Subscriber::open("shm://quick-start")?;
//! let mut publisher = Publisher::open("shm://quick-start")?;
//! publisher.publish(b"hello")?;
//! assert_eq!(&*subscriber.receive()?, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Further reading
//!
//! [`Config`] lists every setting with its unit, range and default. [`Publisher`] and
//! [`Subscriber`] say which calls block. The layout in memory and the order of its words are in
//! `docs/layout.md`.

#![cfg_attr(loom, allow(dead_code, unreachable_pub, unused_imports))]

#[cfg(not(loom))]
pub mod admin;
// For the crates of this repository; not part of the library.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod affinity;
#[cfg(not(loom))]
mod bridge;
#[cfg(not(loom))]
mod channel;
pub mod clock;
#[cfg(test)]
mod documents;
mod error;
#[cfg(not(loom))]
mod fork;
#[cfg(all(any(test, fuzzing), not(loom)))]
mod fuzz_checks;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod liveness;
#[cfg(not(loom))]
mod message;
#[cfg(not(loom))]
mod open;
mod points;
#[cfg(not(loom))]
pub mod raw;
mod region;
mod ring;
#[cfg(not(loom))]
mod segment;
// For the crates of this repository; not part of the library.
#[doc(hidden)]
pub mod small_file;
mod sync;
mod uri;
mod wait;

/// What the fuzz targets call; not part of the library.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::fuzz_checks::{
        check_control, check_fields, check_frames, check_journal, check_sealed, check_uri,
        check_wire,
    };
}

#[cfg(not(loom))]
pub use admin::explanations;
#[cfg(not(loom))]
pub use bridge::between::Bridge;
#[cfg(all(feature = "journal", not(loom)))]
pub use bridge::journal;
#[cfg(not(loom))]
pub use channel::async_publisher::AsyncPublisher;
#[cfg(all(feature = "stream", not(loom)))]
pub use channel::async_publisher::ItemPublisher;
#[cfg(not(loom))]
pub use channel::async_subscriber::AsyncSubscriber;
#[cfg(not(loom))]
pub use channel::batch::{Batch, BatchNotSent};
#[cfg(not(loom))]
pub use channel::claim::{Claim, ClaimingPublisher, OwnedClaim};
#[cfg(not(loom))]
pub use channel::publisher::{Publisher, PublisherStats};
#[cfg(not(loom))]
pub use channel::status::{Durable, LaneState, LaneStatus};
#[cfg(not(loom))]
pub use channel::subscriber::Subscriber;
#[cfg(not(loom))]
pub use channel::typed::{Typed, TypedClaim};
pub use error::chain as error_chain;
pub use error::{
    Damage, Described, Explanation, JournalError, LinkError, MessageTypeError, NotSent, OpenError,
    ReceiveError, SealedError, Unacknowledged,
};
#[cfg(not(loom))]
pub use link::{LinkStage, LinkStatus};
#[cfg(not(loom))]
pub use message::{
    Field, FieldKind, FieldType, Fields, Label, Message, MessageType, Outgoing, OwnedMessage,
    Plain, Position,
};
#[cfg(not(loom))]
#[doc(hidden)]
pub use message::{field_of, text_of};
#[cfg(not(loom))]
pub use open::rings_behind;
pub use uri::{
    Compression, Config, Delivery, End, Expire, FileSettings, HugePages, Key, NatsSettings, Pace,
    Peers, Retention, Role, Rotation, Scheme, SealedSettings, Slow, Start, Storage, SyncPolicy,
    TcpSettings, TopicFilter, Unfinished, UriError, WaitStrategy,
};

/// The programs of the READMEs, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct Readmes;
