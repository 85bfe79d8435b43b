//! Time in ticks of the processor's counter, for measurements.
//!
//! [`TickClock`] reads the time-stamp counter, about 10 ns a reading, if that runs at a constant
//! rate; else the kernel's monotonic clock, about 20–40 ns. It is not wall time and does not jump.

use crate::sys::time::{counter, counter_is_constant};
use std::sync::OnceLock;

/// Nanoseconds of the kernel's monotonic clock.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Converts counter ticks to nanoseconds.
///
/// Tick values are comparable between threads and processes of one machine, so the difference
/// between a stamp taken by a publisher and one taken by a subscriber is a one-way latency.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    ticks_per_ns: f64,
}

impl TickClock {
    /// Measures the tick rate over about 10 ms of busy waiting, once per process; later calls are
    /// free.
    #[must_use]
    pub fn calibrate() -> Self {
        static CLOCK: OnceLock<TickClock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            if !counter_is_constant() {
                return Self { ticks_per_ns: 1.0 };
            }
            let mut ticks = Vec::new();
            let mut nanos = Vec::new();
            let start = monotonic_ns();
            loop {
                let now = monotonic_ns();
                ticks.push(Self::ticks());
                nanos.push(now);
                if now - start > 10_000_000 {
                    break;
                }
            }
            Self {
                ticks_per_ns: ticks_per_nano(&ticks, &nanos).unwrap_or(1.0),
            }
        })
    }

    /// The clock of another process of this machine, which measured its rate.
    #[must_use]
    pub fn of(ticks_per_ns: f64) -> Self {
        Self { ticks_per_ns }
    }

    /// The counter now. Not serialising: the processor may move a reading by a few ticks.
    #[inline(always)]
    #[must_use]
    pub fn ticks() -> u64 {
        counter().unwrap_or_else(monotonic_ns)
    }

    /// Nanoseconds in a difference of `ticks`.
    #[inline]
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    pub fn nanos(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_ns) as u64
    }

    /// Ticks in a span of `ns` nanoseconds.
    #[inline]
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    pub fn ticks_for(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }

    /// Ticks per nanosecond: about 3.0 for a 3 GHz counter, 1.0 for the monotonic clock.
    #[must_use]
    pub fn ticks_per_ns(&self) -> f64 {
        self.ticks_per_ns
    }

    /// The source: `"tsc"` or `"clock_monotonic"`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        if counter_is_constant() {
            "tsc"
        } else {
            "clock_monotonic"
        }
    }
}

/// Estimates the rate of a counter from paired readings.
///
/// `ticks` and `nanos` are parallel: reading `i` was taken at counter value `ticks[i]` and
/// monotonic time `nanos[i]`. Returns ticks per nanosecond, the least-squares slope of `ticks` over
/// `nanos`, or `None` if the readings span no time. Meaningless across a suspend, which stops one
/// clock only.
///
/// # Panics
///
/// If the slices differ in length.
///
/// # Source
///
/// Ordinary least squares on centred data; any statistics text under "simple regression".
///
/// ```
/// use olivine_arena::clock::ticks_per_nano;
/// assert_eq!(ticks_per_nano(&[0, 300, 600], &[0, 100, 200]), Some(3.0));
/// assert_eq!(ticks_per_nano(&[5, 5], &[9, 9]), None);
/// ```
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    reason = "offsets from the first reading stay far below 2^52"
)]
pub fn ticks_per_nano(ticks: &[u64], nanos: &[u64]) -> Option<f64> {
    assert_eq!(ticks.len(), nanos.len(), "readings come in pairs");
    let (first_tick, first_nano) = (*ticks.first()?, *nanos.first()?);
    let count = ticks.len() as f64;
    let x = |n: &u64| n.wrapping_sub(first_nano) as f64;
    let y = |t: &u64| t.wrapping_sub(first_tick) as f64;
    let mean_x = nanos.iter().map(x).sum::<f64>() / count;
    let mean_y = ticks.iter().map(y).sum::<f64>() / count;
    let mut covariance = 0.0;
    let mut variance = 0.0;
    for (t, n) in ticks.iter().zip(nanos) {
        covariance += (x(n) - mean_x) * (y(t) - mean_y);
        variance += (x(n) - mean_x) * (x(n) - mean_x);
    }
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_agree_with_the_monotonic_clock() {
        let clock = TickClock::calibrate();
        let (tick, nano) = (TickClock::ticks(), monotonic_ns());
        while monotonic_ns() - nano < 2_000_000 {}
        let (ticks, nanos) = (TickClock::ticks() - tick, monotonic_ns() - nano);
        let ratio = clock.nanos(ticks) as f64 / nanos as f64;
        assert!(
            (0.5..2.0).contains(&ratio),
            "ratio {ratio}, source {}",
            clock.source()
        );
        assert_eq!(
            clock.nanos(clock.ticks_for(1_000_000)).abs_diff(1_000_000) / 10,
            0
        );
    }
}
