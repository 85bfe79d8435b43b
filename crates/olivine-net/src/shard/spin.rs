//! Whether it pays to spin: [`WaitStrategy::Adaptive`](crate::WaitStrategy::Adaptive).
//!
//! A pause is the time from one event to the next. Spinning through a short one saves the time that
//! a sleeping CPU takes to wake up. Spinning into a long one is CPU time for nothing. So a shard
//! spins as long as most pauses end while it spins. Otherwise it sleeps at once, and tries again
//! after some pauses: the more tries have failed, the more pauses.

/// Pauses in a row that must fail before a shard that spins no longer does.
const CREDIT_MAX: u8 = 8;
/// Credit of a try that succeeds.
const CREDIT_TRIED: u8 = 3;
/// What a pause that outlives the spinning costs. One in four may, not more.
const FAILURE: u8 = 3;
/// Pauses from a try that failed to the next, at first and at most.
const GAP_MIN: u16 = 16;
const GAP_MAX: u16 = 256;

/// The experience of one shard.
#[derive(Debug)]
pub(super) struct Spin {
    /// Whether to spin in the pause under way.
    on: bool,
    credit: u8,
    /// Pauses until the next try.
    wait: u16,
    gap: u16,
    /// Rounds without an event in the pause under way.
    empty: u32,
    /// The shard has slept in it.
    slept: bool,
}

impl Spin {
    pub(super) fn new() -> Self {
        Self {
            on: true,
            credit: 0,
            wait: 0,
            gap: GAP_MIN,
            empty: 0,
            slept: false,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// A round of the loop has ended; `slept`: the kernel was allowed to suspend the thread in it.
    pub(super) fn round(&mut self, had_events: bool, slept: bool) {
        self.slept |= slept;
        if !had_events {
            self.empty = self.empty.saturating_add(1);
            return;
        }
        // An event that was there at once says nothing.
        if self.empty > 0 || self.slept {
            self.pause_ended();
        }
        (self.empty, self.slept) = (0, false);
    }

    fn pause_ended(&mut self) {
        match (self.on, self.slept) {
            (true, false) if self.credit == 0 => (self.credit, self.gap) = (CREDIT_TRIED, GAP_MIN),
            (true, false) => self.credit = (self.credit + 1).min(CREDIT_MAX),
            (true, true) if self.credit == 0 => {
                self.wait = self.gap;
                self.gap = (self.gap * 2).min(GAP_MAX);
            }
            (true, true) => {
                self.credit = self.credit.saturating_sub(FAILURE);
                self.wait = self.gap;
            }
            (false, _) => self.wait = self.wait.saturating_sub(1),
        }
        self.on = self.credit > 0 || self.wait == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pause of `length`, by a shard that spins up to 50; how long it spun.
    fn pause(spin: &mut Spin, length: u32) -> u32 {
        let spun = if spin.is_on() { length.min(50) } else { 0 };
        for _ in 0..spun.min(3) {
            spin.round(false, false);
        }
        spin.round(true, spun < length);
        spun
    }

    #[test]
    fn long_pauses_are_hardly_spun_in_and_short_ones_always() {
        let mut spin = Spin::new();
        let spun: u32 = (0..10_000).map(|_| pause(&mut spin, 1000)).sum();
        assert!(spun < 10_000 * 50 / 100, "{spun}");
        // Short pauses are noticed within one gap between two tries.
        let late = (0..).position(|_| pause(&mut spin, 20) == 20).unwrap();
        assert!(late <= usize::from(GAP_MAX), "{late}");
        assert!((0..1000).all(|_| pause(&mut spin, 20) == 20));
        // A long one now and then does not end it; mostly long ones do.
        assert!((0..1000).all(|n| pause(&mut spin, if n % 5 == 0 { 1000 } else { 20 }) > 0));
        let spun: u32 = (0..1000)
            .map(|n| pause(&mut spin, if n % 3 == 0 { 20 } else { 1000 }))
            .sum();
        assert!(spun < 1000 * 50 / 4, "{spun}");
    }

    #[test]
    fn events_that_are_there_at_once_change_nothing() {
        let mut spin = Spin::new();
        pause(&mut spin, 1000);
        assert!(!spin.is_on());
        (0..1000).for_each(|_| spin.round(true, false));
        assert!(!spin.is_on());
    }
}
