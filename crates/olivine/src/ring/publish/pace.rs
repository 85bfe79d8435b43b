//! How fast a publisher publishes.

use super::PREFETCH_RING;

/// Bytes of frames in a nanosecond from which on a publisher gets its cache lines as fast as it
/// stores (ADR 0043).
const FULL_BYTES_PER_NS: u64 = 6;
/// It is measured over this part of a ring or more.
const PARTS: u64 = 16;
/// And over so many bytes or more. In smaller rings nothing is measured.
const STEP_MIN: u64 = 64 << 10;
/// Short frames get gaps below this pace, in bytes of frames in a nanosecond: 12 million messages
/// of 32 B in a second. A gap makes a frame of 16 bytes four times as long.
const SLOW_BELOW: f64 = 0.5;
/// Once they have gaps, up to this pace.
const SLOW_UP_TO: f64 = 4.0 * SLOW_BELOW;
/// Below this pace, 0.8 million messages of 32 B in a second, they get none: nothing is gained, and
/// a journal of them would be longer.
const SLOW_FROM: f64 = 1.0 / 32.0;

/// Measures how fast a publisher publishes, when it asks for room: once a lap or more often. What
/// it found holds until the next measurement.
#[derive(Debug)]
pub(in crate::ring) struct Pace {
    /// Bytes over which it is measured at least. In rings below [`STEP_MIN`] this is more than a
    /// lane ever holds.
    step: u64,
    /// The position and the time of the last measurement.
    position: u64,
    at_ns: u64,
    is_full: bool,
    is_slow: bool,
    /// The ring is large enough for full speed to matter.
    is_large: bool,
    /// It is measured in this ring, and was not yet.
    is_new: bool,
}

impl Pace {
    /// Of a publisher of a ring of so many bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            step: match capacity >= STEP_MIN {
                true => (capacity / PARTS).max(STEP_MIN),
                false => u64::MAX,
            },
            position: 0,
            at_ns: 0,
            is_full: false,
            is_slow: false,
            is_large: capacity > PREFETCH_RING,
            is_new: capacity >= STEP_MIN,
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

    /// Of a publisher whose short frames get gaps while its subscribers are close.
    #[cfg(test)]
    pub(in crate::ring) fn slow() -> Self {
        Self {
            is_slow: true,
            ..Self::new(0)
        }
    }

    /// Whether the last bytes were published at full speed.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a first measurement is due after a part of a ring.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether the last bytes were published at the pace at which short frames get gaps.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// The publisher is at `position`. The clock is read only if it has come far enough.
    pub(super) fn look(&mut self, position: u64, now_ns: impl FnOnce() -> u64) {
        let bytes = position.saturating_sub(self.position);
        if self.at_ns == 0 {
            // A lane that was taken over may be far ahead.
            (self.position, self.at_ns) = (position, now_ns());
        } else if bytes >= self.step {
            let now = now_ns();
            let took = now.saturating_sub(self.at_ns);
            self.is_full = self.is_large && bytes >= took.saturating_mul(FULL_BYTES_PER_NS);
            #[allow(clippy::cast_precision_loss, reason = "a rough measure")]
            let pace = bytes as f64 / took.max(1) as f64;
            let below = if self.is_slow { SLOW_UP_TO } else { SLOW_BELOW };
            self.is_slow = (SLOW_FROM..below).contains(&pace);
            self.is_new = false;
            (self.position, self.at_ns) = (position, now);
        }
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
        assert!(!pace.is_full && pace.is_new);
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
        assert!(!pace.is_new);
    }

    /// 32 B packed are 40 bytes, and 64 with a gap.
    #[test]
    fn pace_is_slow_at_a_few_million_short_messages_a_second() {
        let mut pace = Pace::new(1 << 20);
        let (mut at, mut now) = (0, 1);
        pace.look(at, || now);
        for (messages_per_s, slow) in [
            (700_000, false),
            (1_000_000, true),
            (12_000_000, true),
            (31_000_000, true),
            (32_000_000, false),
            (13_000_000, false),
            (12_000_000, true),
            (600_000, true),
            (400_000, false),
        ] {
            let frame = if pace.is_slow { 64 } else { 40 };
            let messages = STEP_MIN.div_ceil(frame);
            (at, now) = (
                at + messages * frame,
                now + messages * 1_000_000_000 / messages_per_s,
            );
            pace.look(at, || now);
            assert_eq!(pace.is_slow, slow, "{messages_per_s}");
        }
    }

    #[test]
    fn pace_is_measured_after_a_part_of_a_large_ring() {
        let unread = || panic!("the clock was read");
        let mut large = Pace::new(RING);
        large.look(0, || 3);
        large.look(PART - 1, unread);
        large.look(PART, || 5);
        assert_eq!((large.position, large.at_ns), (PART, 5));
        let mut small = Pace::new(STEP_MIN / 2);
        small.look(0, || 3);
        small.look(1 << 62, unread);
        assert!(!small.is_new);
    }
}
