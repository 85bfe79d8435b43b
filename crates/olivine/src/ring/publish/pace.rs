//! How fast a publisher publishes.

use super::PREFETCH_RING;

/// Bytes of frames in a nanosecond from which on a publisher gets its cache lines as fast as it
/// stores (ADR 0043).
const FULL_BYTES_PER_NS: u64 = 6;
/// It is measured over this part of a ring or more.
const PARTS: u64 = 16;

/// Measures how fast a publisher publishes, when it asks for room: once a lap or more often. What
/// it found holds until the next measurement.
#[derive(Debug)]
pub(in crate::ring) struct Pace {
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

    /// Of a publisher that has full speed for ever.
    #[cfg(test)]
    pub(in crate::ring) fn full() -> Self {
        Self {
            is_full: true,
            ..Self::new(0)
        }
    }

    /// Whether the last bytes were published at full speed.
    #[inline(always)]
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
    fn pace_is_full_from_six_bytes_a_nanosecond_on() {
        let mut pace = Pace::new(RING);
        // A lane that was taken over may be far ahead.
        pace.look(1 << 60, || 1_000_000_000);
        assert!(!pace.is_full);
        let (mut at, mut now) = (1 << 60, 1_000_000_000);
        for (took, full) in [
            (PART / 6, true),
            (PART / 6 + 1, false),
            (PART / 20, true),
            (5_000_000_000, false),
        ] {
            (at, now) = (at + PART, now + took);
            pace.look(at, || now);
            assert_eq!(pace.is_full, full, "{PART} bytes in {took} ns");
        }
    }

    #[test]
    fn pace_is_measured_after_a_part_of_a_large_ring() {
        let unread = || panic!("the clock was read");
        let mut large = Pace::new(RING);
        large.look(PART - 1, unread);
        large.look(PART, || 5);
        assert_eq!((large.position, large.at_ns), (PART, 5));
        Pace::new(PREFETCH_RING).look(1 << 62, unread);
    }
}
