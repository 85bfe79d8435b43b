//! Futures and the executors that poll them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A runtime of one thread, for which other threads of this test are other participants.
pub(crate) fn tokio() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap()
}

/// Counts how often a task is woken.
#[derive(Default)]
pub(crate) struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    pub(crate) fn now(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An executor that panics in the call that wakes its task.
#[derive(Default)]
pub(crate) struct Panics(AtomicBool);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("for the test");
    }
}

impl Panics {
    /// Whether the call has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls a future once and drops it.
pub(crate) fn once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
