//! Messages between programs: fast, nothing lost, survives any crash.
//!
//! A **channel** is named by a URI. `shm://ticks` reaches other processes of this machine, `inproc://ticks`
//! threads of this process, `tcp://host:9000/ticks` other machines (and [`Bridge`] carries between them); a program
//! says which when it runs, not when it is built. A [`Publisher`] sends, any
//! number of [`Subscriber`]s receive, each message reaches every reliable subscriber once and in order, and a
//! publisher waits rather than overwrite what one of them has not read.
//!
//! What it does not do: it does not drop, it does not start helpers or daemons, it does not allocate or enter the
//! kernel per message, it does not need cleaning up after a crash, and it does not protect participants of one
//! channel from a malicious one of the same user, except where the channel is sealed: `shm+fd:///run/ticks.sock` (see
//! `SAFETY.md`).
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
//! # Where to read on
//!
//! [`Config`] lists every setting with its unit, range and default. [`Publisher`] and [`Subscriber`] say what
//! blocks and what does not. The layout in memory and the order of its words are in `docs/layout.md`.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(loom))]
pub mod admin;
#[cfg(not(loom))]
mod bridge;
#[cfg(not(loom))]
mod channel;
#[cfg(all(any(test, fuzzing), not(loom)))]
mod claims;
pub mod clock;
mod error;
#[cfg(not(loom))]
mod fork;
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
pub mod probe;
mod region;
mod ring;
#[cfg(not(loom))]
mod segment;
mod sync;
mod uri;
mod wait;

/// What the fuzz targets call; not part of the library.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::claims::{
        check_control, check_frames, check_journal, check_sealed, check_uri, check_wire,
    };
}

#[cfg(not(loom))]
pub use bridge::between::Bridge;
#[cfg(all(feature = "journal", not(loom)))]
pub use bridge::journal;
#[cfg(not(loom))]
pub use channel::publisher::{Publisher, PublisherStats};
#[cfg(not(loom))]
pub use channel::reserve::{Batch, Claim, OwnedClaim};
#[cfg(not(loom))]
pub use channel::status::{LaneState, LaneStatus};
#[cfg(not(loom))]
pub use channel::subscriber::Subscriber;
#[cfg(not(loom))]
pub use channel::typed::Typed;
pub use error::{Damage, JournalError, LinkError, NotSent, OpenError, ReceiveError, SealedError};
#[cfg(not(loom))]
pub use link::{LinkStage, LinkStatus};
#[cfg(not(loom))]
pub use message::{Message, OwnedMessage, Plain, Position};
pub use uri::{
    Compression, Config, Delivery, Expire, HugePages, Pace, Peers, Retention, Role, Rotation,
    Scheme, Slow, Start, Storage, SyncPolicy, UriError, WaitStrategy,
};
