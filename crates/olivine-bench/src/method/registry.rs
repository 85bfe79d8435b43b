//! The list of methods, and the search by name.

use super::{
    Description, Method, bytes, condvar, datagram, exchange, mirror, olivine_channel, olivine_shm,
    olivine_tcp, queue, seqlock, signals, uring, vm, wakeup, wrong_echo,
};
use olivine_arena::bare_ring::BARE_RING;
use olivine_arena::error::{ArenaError, Result};
use std::sync::LazyLock;

/// This library with both sides spinning: the reference of comparisons.
pub const OLIVINE: &dyn Method = &olivine_shm::SPIN;

/// Two sides that sleep and wake each other: one of the hardware limits.
pub(crate) const FUTEX: &dyn Method = &wakeup::FUTEX;

/// The plain loop beside each stream.
pub(crate) const BARE: &dyn Method = &BARE_RING;

/// Methods that need only the kernel and this library.
pub const BUILT_IN: &[&dyn Method] = &[
    &olivine_shm::SPIN,
    &olivine_shm::ADAPTIVE,
    &olivine_shm::YIELD,
    &olivine_shm::PARK,
    &olivine_tcp::TCP,
    &exchange::POSIX,
    &exchange::SYSTEM_V,
    &exchange::FILE,
    &seqlock::SEQ_LOCK,
    &mirror::MIRROR,
    &BARE_RING,
    &condvar::CONDVAR,
    &wakeup::FUTEX,
    &wakeup::EVENT_FD,
    &wakeup::PIPE_WAKEUP,
    &signals::PLAIN,
    &signals::REAL_TIME,
    &bytes::PIPE,
    &bytes::FIFO,
    &bytes::VMSPLICE,
    &vm::PROCESS_VM,
    &bytes::UNIX_STREAM,
    &bytes::UNIX_BUSY,
    &bytes::SOCKET_PAIR,
    &datagram::UNIX_DATAGRAM,
    &datagram::UNIX_SEQPACKET,
    &uring::IO_URING,
    &bytes::TCP,
    &bytes::TCP_DELAYED,
    &bytes::TCP_BUSY,
    &datagram::UDP,
    &queue::SYSTEM_V,
    &queue::POSIX,
];

/// Methods that no list names: those of the self-check, with wrong replies, one end of a channel,
/// and channels with waits that no name of a method has.
const HIDDEN: &[&dyn Method] = &[
    &wrong_echo::WRONG_ECHO,
    &wrong_echo::SHORT_ECHO,
    &olivine_channel::END,
    &olivine_shm::ANY,
];

/// Every method that a participant of this tool can open.
#[must_use]
pub fn every() -> &'static [&'static dyn Method] {
    static EVERY: LazyLock<Vec<&'static dyn Method>> =
        LazyLock::new(|| [BUILT_IN, HIDDEN].concat());
    &EVERY
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
