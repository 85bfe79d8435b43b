//! The hardware limits: what the machine can do without a channel.
//!
//! Measures: the floor, which is a single cache line between the two processes that measure
//! everything else; a copy of as many bytes as a message has; an empty system call; waking a futex.
//! It does not measure anything of a ring.

use crate::clock::TickClock;
use crate::error::Result;
use crate::latency::Latency;
use crate::peer::{BACK, Order, Peer, STAMP, THERE};
use crate::result::ClockAhead;
use std::hint::black_box;
use std::sync::atomic::AtomicU32;

/// System calls timed for the cost of one.
const CALLS: u32 = 20_000;
/// Bytes copied for one copying rate.
const COPIED_BYTES: usize = 64 << 20;

/// One slice of round trips of a bare cache line: every sample in ticks, in `samples`.
pub(crate) fn round_trips(peer: &mut Peer, rounds: u64, samples: &mut Vec<u64>) -> Result<()> {
    samples.clear();
    let first = peer.balls(rounds);
    peer.begin(&Order::Floor { first, rounds })?;
    let (words, mut deadline) = peer.spin();
    let mut last = TickClock::ticks();
    for ball in first..first + rounds {
        words.store(THERE, ball);
        while words.load(BACK) != ball {
            deadline.spend()?;
        }
        deadline.renew();
        let now = TickClock::ticks();
        samples.push(now.wrapping_sub(last));
        last = now;
    }
    peer.end()?;
    Ok(())
}

/// Compares the second process's clock with ours, by a cache line with its time stamp.
pub(crate) fn clock_ahead(
    peer: &mut Peer,
    clock: &TickClock,
    rounds: u64,
) -> Result<Option<ClockAhead>> {
    let first = peer.balls(rounds);
    let mut readings = Vec::with_capacity(usize::try_from(rounds).unwrap_or(0));
    peer.begin(&Order::Stamp { first, rounds })?;
    let (words, mut deadline) = peer.spin();
    for ball in first..first + rounds {
        let before = TickClock::ticks();
        words.store(THERE, ball);
        while words.load(BACK) != ball {
            deadline.spend()?;
        }
        let after = TickClock::ticks();
        deadline.renew();
        readings.push((before, words.load(STAMP), after));
    }
    peer.end()?;
    Ok(ClockAhead::of(clock, readings.into_iter()))
}

/// Nanoseconds of an empty system call.
#[must_use]
pub fn system_call_ns(clock: &TickClock) -> f64 {
    let start = TickClock::ticks();
    for _ in 0..CALLS {
        black_box(rustix::process::getppid());
    }
    nanos(clock, TickClock::ticks().wrapping_sub(start)) / f64::from(CALLS)
}

/// Nanoseconds of waking a futex without a sleeper: the cost for a sender that cannot detect
/// sleepers.
#[must_use]
pub fn futex_wake_ns(clock: &TickClock) -> f64 {
    let word = AtomicU32::new(0);
    let start = TickClock::ticks();
    for _ in 0..CALLS {
        // Not private: it must work between processes.
        let woken = rustix::thread::futex::wake(&word, rustix::thread::futex::Flags::empty(), 1);
        black_box(woken.is_ok());
    }
    nanos(clock, TickClock::ticks().wrapping_sub(start)) / f64::from(CALLS)
}

/// Bytes a second of copying `size` bytes at a time from one place to the next free one in
/// `ring_bytes`.
///
/// The destination moves through as much memory as a ring has, the source stays: the minimal work
/// of a publisher that copies messages.
///
/// # Panics
///
/// If `size` is 0 or greater than `ring_bytes`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
pub fn copy_bytes_per_s(clock: &TickClock, size: usize, ring_bytes: usize) -> f64 {
    assert!(
        size > 0 && size <= ring_bytes,
        "cannot copy {size} bytes within {ring_bytes}"
    );
    let source = vec![0x5A_u8; size];
    let mut destination = vec![1_u8; ring_bytes];
    let mut copied = 0;
    let start = TickClock::ticks();
    while copied < COPIED_BYTES {
        for place in destination.chunks_exact_mut(size) {
            place.copy_from_slice(black_box(&source));
            black_box(&place[0]);
        }
        copied += ring_bytes / size * size;
    }
    let elapsed = nanos(clock, TickClock::ticks().wrapping_sub(start));
    copied as f64 / elapsed * 1e9
}

/// Samples in ticks as a distribution.
#[must_use]
pub(crate) fn distribution(samples: &[u64]) -> Latency {
    let mut latency = Latency::new();
    samples.iter().for_each(|&ticks| latency.record(ticks));
    latency
}

/// The middle of a distribution in nanoseconds.
#[must_use]
pub(crate) fn middle_ns(clock: &TickClock, latency: &Latency) -> f64 {
    latency.middle_ticks() / clock.ticks_per_ns()
}

/// Ticks as nanoseconds with a fraction.
#[allow(
    clippy::cast_precision_loss,
    reason = "differences stay far below 2^52"
)]
pub(crate) fn nanos(clock: &TickClock, ticks: u64) -> f64 {
    ticks as f64 / clock.ticks_per_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_in_nanoseconds() {
        let clock = TickClock::calibrate();
        let samples = [9_u64, 1, 5].map(|us| clock.ticks_for(us * 1000));
        let middle = middle_ns(&clock, &distribution(&samples));
        assert!((middle - 5000.0).abs() < 500.0, "{middle}");
        assert_eq!(middle_ns(&clock, &distribution(&[])), 0.0);
    }
}
