//! Counters one thread writes, gauges many do, and one flag: with the tail of `sys/buffers`, all
//! the atomics there are.
//!
//! # Synchronization
//!
//! None of these orders other memory, so all accesses are relaxed: a [`Counter`] and a [`Gauge`]
//! are numbers people read, and what a [`Flag`] hints at is then taken from under a mutex.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number written by one thread and read by any.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`. Only the owning thread may call this: a concurrent addition could be lost.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        // Relaxed load and store: we are the only writer, so no other addition can fall between.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(amount),
            Ordering::Relaxed,
        );
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many of something all threads hold together, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    /// Takes one if fewer than `max` are taken.
    pub(crate) fn take(&self, max: u64) -> bool {
        // Relaxed: the count guards nothing but itself, and read-modify-writes never lose one.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < max).then_some(taken + 1)
            })
            .is_ok()
    }

    /// Gives one back.
    pub(crate) fn give(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A hint that something waits under a mutex.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn set(&self, value: bool) {
        // Relaxed: the reader that misses this store sees it a moment later, and the mutex that
        // holds the thing itself orders everything else.
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
