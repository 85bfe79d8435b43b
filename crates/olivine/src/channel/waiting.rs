//! The bounds of a publisher's wait: a deadline, or a call of another thread. And the call that
//! wakes a task.

use crate::region::Word;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::uri::WaitStrategy;
use crate::wait::{Idle, Step, wake};
use core::mem::ManuallyDrop;
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wakes a task in a thread that its handle needs further: a panic of the executor ends here.
pub(super) fn wake_task(waker: Waker) {
    // Its hook has printed it.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Left: dropping what it panicked with may panic again.
        let _ = ManuallyDrop::new(panic);
    }
}

/// Ends a wait from another thread.
#[derive(Debug, Default)]
pub(super) struct EndWait {
    is_over: AtomicU64,
    /// What the waiting thread slept on last.
    park: Mutex<Option<Word>>,
}

impl EndWait {
    /// Before the next wait.
    pub(super) fn begin(&self) {
        // Relaxed: the publisher is handed to the waiting thread after this.
        self.is_over.store(0, Ordering::Relaxed);
    }

    /// Ends the wait that runs now, if one runs.
    pub(super) fn end(&self) {
        // ROOM (light side): before the load of the park word, by a fence. The waiting thread
        // raises its park word and passes a heavy barrier before it checks this word. If it has not
        // named its park word yet, the lock of the name orders this store before its check.
        self.is_over.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let park = self.park.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(park) = &*park {
            wake(park);
        }
    }

    /// The waiting thread will sleep on this word.
    pub(super) fn sleeps_on(&self, park: &Word) {
        let mut last = self.park.lock().unwrap_or_else(PoisonError::into_inner);
        if !last
            .as_ref()
            .is_some_and(|last| core::ptr::eq(&raw const **last, &raw const **park))
        {
            *last = Some(park.clone());
        }
    }

    pub(super) fn is_over(&self) -> bool {
        // Relaxed: `end` says what orders it.
        self.is_over.load(Ordering::Relaxed) != 0
    }
}

/// A wait by a wait strategy, perhaps with a bound.
pub(super) struct Waiting<'a> {
    idle: Idle,
    deadline: Option<Instant>,
    pub(super) end_wait: Option<&'a EndWait>,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(strategy: WaitStrategy, timeout: Option<Duration>) -> Self {
        // A time-out that the clock cannot hold is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            idle: Idle::new(strategy),
            deadline,
            end_wait: None,
        }
    }

    /// Parks until it is ended.
    pub(super) fn parked(end_wait: &'a EndWait) -> Self {
        Self {
            end_wait: Some(end_wait),
            ..Self::new(WaitStrategy::Park, None)
        }
    }

    /// The next step of the wait; `None` once it is over.
    pub(super) fn step(&mut self) -> Option<Step> {
        let is_late = |deadline| Instant::now() >= deadline;
        if self.deadline.is_some_and(is_late) || self.end_wait.is_some_and(EndWait::is_over) {
            return None;
        }
        Some(self.idle.step())
    }

    /// Longest sleep from here.
    pub(super) fn left(&self) -> Duration {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX)
    }
}
