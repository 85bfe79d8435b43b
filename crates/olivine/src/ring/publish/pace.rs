//! How fast a publisher publishes.

use super::PREFETCH_RING;

/// Bytes of frames in a nanosecond from which on a publisher gets its cache lines as fast as it
/// stores. Publishers far from their subscribers had at most 6, others 15 to 25 (ADR 0043).
const FULL_BYTES_PER_NS: u64 = 10;
/// It is measured over this part of a ring or more.
const PARTS: u64 = 16;

/// Measures how fast a publisher publishes, when it asks for room: a few times a lap.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes over which it is measured at least. In rings up to [`PREFETCH_RING`] nothing is
    /// measured, and this is more than a lane ever holds.
    step: u64,
    /// The position and the time of the last measurement.
    position: u64,
    at_ns: u64,
    is_full: bool,
}

impl Pace {
    /// Of a publisher of a ring of so many bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            step: match capacity > PREFETCH_RING {
                true => capacity / PARTS,
                false => u64::MAX,
            },
            position: 0,
            at_ns: 0,
            is_full: false,
        }
    }

    /// Whether the last bytes were published at full speed.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The publisher is at `position`. The clock is read only if it has come far enough.
    pub(super) fn look(&mut self, position: u64, now_ns: impl FnOnce() -> u64) {
        let bytes = position.saturating_sub(self.position);
        if bytes < self.step {
            return;
        }
        let now = now_ns();
        let took = now.saturating_sub(self.at_ns);
        // The time since the start says nothing.
        self.is_full = self.at_ns > 0 && bytes >= took.saturating_mul(FULL_BYTES_PER_NS);
        (self.position, self.at_ns) = (position, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 4 << 20;
    const PART: u64 = RING / PARTS;

    #[test]
    fn pace_is_full_from_ten_bytes_a_nanosecond_on() {
        let mut pace = Pace::new(RING);
        // A lane that was taken over may be far ahead.
        pace.look(1 << 60, || 1_000_000_000);
        assert!(!pace.is_full());
        let mut now = 1_000_000_000;
        let mut at = 1 << 60;
        for (took, full) in [(PART / 10, true), (PART / 10 + 1, false), (PART / 20, true)] {
            (now, at) = (now + took, at + PART);
            pace.look(at, || now);
            assert_eq!(pace.is_full(), full, "{PART} bytes in {took} ns");
        }
    }

    #[test]
    fn clock_is_read_only_after_a_part_of_a_large_ring() {
        let unread = || panic!("the clock was read");
        let mut large = Pace::new(RING);
        large.look(PART - 1, unread);
        let mut small = Pace::new(PREFETCH_RING);
        small.look(1 << 40, unread);
        assert!(!large.is_full() && !small.is_full());
    }

    #[test]
    fn idle_publisher_is_not_at_full_speed() {
        let mut pace = Pace::new(RING);
        pace.look(PART, || 1_000_000);
        pace.look(2 * PART, || 1_000_010);
        assert!(pace.is_full());
        pace.look(3 * PART, || 5_000_000_000);
        assert!(!pace.is_full());
    }
}
