//! State of each shard: whether it runs and what it holds; and what it has done, counted by the
//! shard and read by any thread.

use std::sync::OnceLock;

use crate::sync::Counter;

/// Whether a shard runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardState {
    /// It serves.
    Running,
    /// Its thread has ended before the engine was stopped. Its connections are closed, and it takes
    /// no more.
    Ended {
        /// The reason: the panic's text, or the system error.
        reason: String,
    },
}

/// A reading of one shard's health; see [`Engine::health`](crate::Engine::health).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardHealth {
    /// Whether it runs, and if not, why.
    pub state: ShardState,
    /// The back end it runs on: `mio` or `io_uring`.
    pub backend: &'static str,
    /// Why [`Backend::Auto`](crate::Backend::Auto) did not take io_uring; `None` where it did or
    /// was not asked.
    pub fallback: Option<String>,
    /// Connections open now.
    pub connections: u64,
    /// Calls of the handler that panicked; each was caught.
    pub panics: u64,
    /// Bytes of buffers kept for use again, at most 16 MiB.
    pub pooled_bytes: u64,
    /// Bytes held by HTTP request bodies that are not complete, at most
    /// [`Limits::bodies_bytes_max`](crate::http::Limits::bodies_bytes_max).
    pub body_bytes: u64,
}

/// What a shard stores for readings of its health.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    pub(crate) backend: OnceLock<&'static str>,
    pub(crate) fallback: OnceLock<String>,
    pub(crate) ended: OnceLock<String>,
    pub(crate) pooled_bytes: Counter,
    pub(crate) body_bytes: Counter,
}

impl Vitals {
    /// Stores why the shard has ended; the first reason stays.
    pub(crate) fn end(&self, reason: String) {
        let _ = self.ended.set(reason);
    }

    pub(crate) fn read(&self, connections: u64, panics: u64) -> ShardHealth {
        let state = match self.ended.get() {
            None => ShardState::Running,
            Some(reason) => ShardState::Ended {
                reason: reason.clone(),
            },
        };
        ShardHealth {
            state,
            backend: self.backend.get().copied().unwrap_or("none"),
            fallback: self.fallback.get().cloned(),
            connections,
            panics,
            pooled_bytes: self.pooled_bytes.get(),
            body_bytes: self.body_bytes.get(),
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The live counters of one shard, on separate cache lines, so that readers disturb no
        /// other data.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct ShardCounters {
            $(pub(crate) $name: Counter,)+
        }

        impl ShardCounters {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.get(),)+ }
            }
        }

        /// A reading of one shard's counters. All but `open` only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Adds up the counters of several shards.
            #[must_use]
            pub fn sum(readings: &[Self]) -> Self {
                let mut total = Self::default();
                for reading in readings {
                    $(total.$name += reading.$name;)+
                }
                total
            }

            /// Names and values, in the order of the fields; for metrics pages.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Connections open now.
    open,
    /// Connections accepted.
    accepted,
    /// Connections made by us.
    connected,
    /// Connections that came from another shard by
    /// [`Shard::hand_over`](crate::Shard::hand_over), or from the program by
    /// [`EngineHandle::adopt`](crate::EngineHandle::adopt).
    adopted,
    /// Connections that went to another shard by
    /// [`Shard::hand_over`](crate::Shard::hand_over); they are not among those that ended.
    handed_over,
    /// Attempts to connect that failed.
    connect_failed,
    /// Connections that ended, for any reason.
    closed,
    /// Connections turned away because the connection cap was reached.
    refused_cap,
    /// Connections turned away because descriptors ran out.
    refused_descriptors,
    /// Connections that broke: resets and network errors.
    broken,
    /// Connections ended by the idle time-out, the write time-out or a deadline, that of a handler
    /// or of HTTP.
    timed_out,
    /// Connections cut by the stop deadline.
    cut,
    /// Calls of the handler that panicked; each was caught.
    panics,
    /// HTTP requests that reached the service.
    requests,
    /// HTTP requests that the server refused: the sum of the next five.
    refused_requests,
    /// Of these, malformed: 400, 417, 501, 505.
    refused_malformed,
    /// Of these, with a line, a head or a body that is too long: 413, 414, 431.
    refused_large,
    /// Of these, too slow: 408.
    refused_slow,
    /// Of these, beyond the memory for bodies: 503.
    refused_memory,
    /// Of these, refused by the service from the head, before the body came.
    refused_service,
    /// Receive calls that brought bytes.
    receives,
    /// Bytes received.
    received_bytes,
    /// Send calls; one per batch.
    sends,
    /// Bytes handed to the kernel.
    sent_bytes,
    /// Times that bytes were refused because a write queue was over the high-water mark.
    back_pressured,
    /// Messages received from other threads.
    messages,
    /// Timers and time-outs that fired.
    timers,
    /// Rounds of the event loop.
    rounds,
}
