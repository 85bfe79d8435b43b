//! The worst messages of a subscriber, and what reads their causes.

use super::witness::Witness;
use super::{LateCause, Tail, Worst};
use crate::clock::TickClock;
use olivine::admin::Observer;
use olivine::{Config, ReceiveError, Scheme, Subscriber, WaitStrategy};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Longest wait of a subscriber that does not sleep: the ring is looked at again and again, so that
/// it is known when it was empty last.
const SPIN: Duration = Duration::from_micros(1);

/// Keeps the worst messages of a subscriber of the calling thread, each with its cause.
#[derive(Debug)]
pub struct Late {
    worst: Worst,
    witness: Witness,
    sleeps: bool,
}

impl Late {
    /// Keeps the `count` worst messages of a subscriber with these settings. `continued` is set by
    /// the signal handler of `SIGCONT`.
    #[must_use]
    pub fn new(count: usize, continued: Arc<AtomicBool>, config: &Config) -> Self {
        // Other schemes have no ring that can be looked at from outside.
        let ring = (config.scheme() == Scheme::Shm).then(|| Observer::new(config));
        let wait = config.get_wait();
        Self {
            worst: Worst::new(count),
            witness: Witness::new(continued, ring),
            sleeps: !matches!(wait, WaitStrategy::Spin | WaitStrategy::Yield),
        }
    }

    /// A message was received, all times in ticks.
    #[inline]
    pub fn note(&mut self, sequence: u64, lane: usize, due: u64, received: u64) {
        let witness = &mut self.witness;
        witness.received(received);
        self.worst
            .note(sequence, lane, due, received, || witness.look());
    }

    /// A look at the ring that began at `at`, in ticks, found nothing.
    #[inline]
    pub fn empty(&mut self, at: u64) {
        self.worst.empty(at);
    }

    /// There is nothing to read: waits as the subscriber does, at most for `timeout`, and reads
    /// evidence if it is time.
    ///
    /// # Errors
    ///
    /// Those of [`Subscriber::wait`].
    pub fn wait(
        &mut self,
        subscriber: &mut Subscriber,
        timeout: Duration,
    ) -> Result<bool, ReceiveError> {
        self.worst.add(self.witness.idle());
        if !self.sleeps {
            return subscriber.wait(timeout.min(SPIN));
        }
        let from = TickClock::ticks();
        let waited = subscriber.wait(timeout);
        self.worst.slept(from, TickClock::ticks());
        waited
    }

    /// Reads the counts that later readings are compared with: call it before the first message of
    /// a further stream is due.
    pub fn begin(&mut self) {
        self.witness.gather();
    }

    /// What was found since the last call.
    pub fn take(&mut self) -> Tail {
        self.worst.add(self.witness.gather());
        let mut tail = self.worst.take();
        tail.name(LateCause::Preempted, || self.witness.neighbour());
        tail
    }
}
