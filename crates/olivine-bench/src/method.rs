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
mod registry;
mod seqlock;
mod signals;
mod uring;
mod vm;
mod wakeup;
mod wrong_echo;

pub use registry::{BUILT_IN, OLIVINE, check_stream, every};

pub(crate) use olivine_channel::{CHANNEL, publish};
pub(crate) use registry::{BARE, FUTEX};

use olivine_arena::method::{Described, Driver, End, Rendezvous, drive};

pub use olivine_arena::method::{Description, Method, Side, find, names};

/// Prefix of the names of this library's methods.
pub const OLIVINE_PREFIX: &str = "olivine-";

/// A channel of this library by its settings, besides the methods whose names say how they wait.
pub const OWN: &str = "olivine-shm";

/// The setting in rows of a method between threads.
pub const THREADS: &str = "threads";

/// [`Method::lacks`] of methods with a slot instead of a queue.
const ONE_SLOT: &str =
    "no queue: one message under way, for one reader; a dead side is not noticed";
