//! State of each shard: whether it runs, on which CPU, and what it holds.

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
