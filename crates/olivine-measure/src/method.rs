//! Ways to pass bytes between two processes, behind one trait, driven by one harness.
//!
//! A [`Method`] opens the two ends of a connection, each in its process; an [`End`] sends and
//! receives. The measurement is equal for all: [`Driver`] fills a message, sends it, waits for the
//! reply, checks every byte; the other side checks, and sends back what it received. Methods sleep
//! in the kernel or spin, as is natural for them; the name or the description says which. Sizes are
//! never clamped: a size that a method cannot carry is an error with the limit.

mod bytes;
mod condvar;
mod datagram;
mod exchange;
pub mod foreign;
mod mirror;
mod olivine_channel;
mod olivine_shm;
mod olivine_tcp;
mod queue;
mod seqlock;
mod signals;
mod uring;
mod vm;
mod wakeup;
mod wrong_echo;

pub use olivine_channel::{CHANNEL, publish};

use olivine_arena::bare_ring::BARE_RING;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driven, Driver, End, Rendezvous, drive};
use std::sync::LazyLock;

pub use olivine_arena::method::{Description, Method, Side, find, names};

/// This library with both sides spinning: the reference of comparisons.
pub const OLIVINE: Method = olivine_shm::SPIN;

/// A bridge with both sides sleeping.
pub const OLIVINE_TCP: &str = olivine_tcp::TCP.name;
/// The plain socket that it is compared with.
pub const SOCKET: &str = bytes::TCP.name;

/// Two sides that sleep and wake each other: one of the hardware limits.
pub const FUTEX: Method = wakeup::FUTEX;

/// The plain loop beside each stream.
pub const BARE: Method = BARE_RING;

/// Methods that need only the kernel and this library: a row each, in the order of lists. A new one
/// is a file, its `mod` above, and its row here; help, lists and `all` follow.
pub const BUILT_IN: &[Method] = &[
    olivine_shm::SPIN,
    olivine_shm::ADAPTIVE,
    olivine_shm::YIELD,
    olivine_shm::PARK,
    olivine_tcp::TCP,
    exchange::POSIX,
    exchange::SYSTEM_V,
    exchange::FILE,
    seqlock::SEQ_LOCK,
    mirror::MIRROR,
    BARE_RING,
    condvar::CONDVAR,
    wakeup::FUTEX,
    wakeup::EVENT_FD,
    wakeup::PIPE_WAKEUP,
    signals::PLAIN,
    signals::REAL_TIME,
    bytes::PIPE,
    bytes::FIFO,
    bytes::VMSPLICE,
    vm::PROCESS_VM,
    bytes::UNIX_STREAM,
    bytes::UNIX_BUSY,
    bytes::SOCKET_PAIR,
    datagram::UNIX_DATAGRAM,
    datagram::UNIX_SEQPACKET,
    uring::IO_URING,
    bytes::TCP,
    bytes::TCP_DELAYED,
    bytes::TCP_BUSY,
    datagram::UDP,
    queue::SYSTEM_V,
    queue::POSIX,
];

/// Methods that no list names: those of the self-check, with wrong replies, one end of a channel,
/// and channels with waits that no name of a method has.
const HIDDEN: &[Method] = &[
    wrong_echo::WRONG_ECHO,
    wrong_echo::SHORT_ECHO,
    olivine_channel::END,
    olivine_shm::ANY,
];

/// Every method that a participant of this tool can open.
#[must_use]
pub fn every() -> &'static [Method] {
    static EVERY: LazyLock<Vec<Method>> = LazyLock::new(|| [BUILT_IN, HIDDEN].concat());
    EVERY.as_slice()
}

/// Whether `method` can be streamed, `batch_count` messages at a time.
///
/// # Errors
///
/// [`ArenaError::OneAtATime`]; [`ArenaError::NoBatches`].
pub fn check_stream(method: &Description, batch_count: u64) -> Result<()> {
    if !method.streams {
        return Err(ArenaError::OneAtATime);
    }
    if batch_count > 1 && !method.batches {
        return Err(ArenaError::NoBatches);
    }
    Ok(())
}

/// Prefix of the names of this library's methods.
pub const OLIVINE_PREFIX: &str = "olivine-";

/// A channel of this library by its settings, besides the methods whose names say how they wait.
pub const OWN: &str = "olivine-shm";

/// The setting in rows of a method between threads.
pub const THREADS: &str = "threads";

/// [`Method::lacks`] of methods with a slot instead of a queue.
const ONE_SLOT: &str =
    "no queue: one message under way, for one reader; a dead side is not noticed";
