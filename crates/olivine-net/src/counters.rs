//! What a shard has done, counted by the shard and read by any thread.

use crate::sync::Counter;

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
    /// HTTP requests that the server refused without asking the service: malformed, too large, too
    /// slow, or beyond the memory for bodies.
    refused_requests,
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
