//! How an endpoint waits before it sleeps in the kernel.

use std::time::{Duration, Instant};

use crate::uri::WaitStrategy;

/// Rounds after which `adaptive` parks: some 50 µs.
const ADAPTIVE_ROUNDS: u32 = 600;
/// Rounds of [`ROUND`] looks with which a subscriber of each strategy but `spin` begins: `adaptive`
/// and `yield` in a row, `park` before each of its first sleeps. Later rounds have no such looks.
const BARE_ROUNDS: u32 = 20;
/// Looks at the next headers in such a round.
const ROUND: u32 = 32;
/// How long a wait with `park` looks before its first sleep, where that may save the sleep: about
/// twice what a sleep and a wake-up cost on a virtual machine. A time, not a number of looks: one
/// pause takes 20 ns on some CPUs and 60 on others.
const PARK_LOOK: Duration = Duration::from_micros(25);

/// Counts the rounds of an endpoint that waits, and says what to do before the next one.
///
/// For a subscriber, a round is up to [`ROUND`] looks at the next headers, a pause after each, and
/// then one check of everything that ends the wait. So an `adaptive` subscriber looks 20 × 32
/// times. Then it checks once a round, with a pause, until 600 rounds are over, and parks. A
/// publisher has no looks, only the check for room.
#[derive(Debug)]
pub(crate) struct Idle {
    strategy: WaitStrategy,
    rounds: u32,
    looks: u32,
    /// Looks of this round before its end is checked.
    most: u32,
    /// Until when this round goes on, if it looks longer to save a sleep.
    try_until: Option<Instant>,
    /// The time-out of the wait ends that look early: it says nothing about later waits.
    is_cut: bool,
}

/// Decides in which waits a subscriber with `park` looks longer before it sleeps.
///
/// A subscriber of messages that come every 20 µs saves most of its sleeps. Where they come later,
/// the looks are lost: it tries again after 1, 3, 7 and then 15 waits.
#[derive(Debug, Default)]
pub(crate) struct ParkLooks {
    /// Tries in a row that found no message.
    failed: u32,
    /// Waits until the next try.
    pause: u32,
}

impl ParkLooks {
    /// A wait of at most `timeout` begins.
    pub(crate) fn begin(&mut self, strategy: WaitStrategy, timeout: Duration) -> Idle {
        let mut idle = Idle::new(strategy);
        if strategy == WaitStrategy::Park {
            match self.pause {
                0 => {
                    idle.try_until = Some(Instant::now() + PARK_LOOK.min(timeout));
                    idle.is_cut = timeout < PARK_LOOK;
                }
                _ => self.pause -= 1,
            }
        }
        idle
    }

    /// The wait of `idle` has found a message by a look.
    #[inline(always)]
    pub(crate) fn found(&mut self, idle: &Idle) {
        if idle.try_until.is_some() && idle.looks > ROUND {
            self.failed = 0;
        }
    }

    /// The looks of a round of `idle` are over.
    #[inline(always)]
    pub(crate) fn missed(&mut self, idle: &Idle) {
        if idle.try_until.is_some() && !idle.is_cut {
            self.failed = (self.failed + 1).min(4);
            self.pause = (1 << self.failed) - 1;
        }
    }
}

/// What an idle endpoint does before its next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begin the next round.
    Look,
    /// Sleep in the kernel.
    Park,
}

impl Idle {
    pub(crate) fn new(strategy: WaitStrategy) -> Self {
        Self {
            strategy,
            rounds: 0,
            looks: 0,
            most: ROUND,
            try_until: None,
            is_cut: false,
        }
    }

    /// Whether this round has another look.
    #[inline(always)]
    pub(crate) fn keep_spinning(&mut self) -> bool {
        self.looks += 1;
        if self.looks <= self.most {
            self.strategy == WaitStrategy::Spin || self.rounds < BARE_ROUNDS
        } else {
            self.goes_on()
        }
    }

    /// Whether a round that looks longer to save a sleep has time left.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.try_until.is_some_and(|end| Instant::now() < end);
        if goes_on {
            self.most += ROUND;
        }
        goes_on
    }

    /// A round found nothing.
    #[inline]
    pub(crate) fn step(&mut self) -> Step {
        self.rounds = self.rounds.saturating_add(1);
        (self.looks, self.most, self.try_until) = (0, ROUND, None);
        match self.strategy {
            WaitStrategy::Park => return Step::Park,
            WaitStrategy::Adaptive if self.rounds > ADAPTIVE_ROUNDS => return Step::Park,
            WaitStrategy::Yield if self.rounds > BARE_ROUNDS => std::thread::yield_now(),
            WaitStrategy::Adaptive if self.rounds > BARE_ROUNDS => core::hint::spin_loop(),
            _ => {}
        }
        Step::Look
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wait_strategies_spin_yield_and_park() {
        let steps = |strategy, looks| {
            let mut idle = Idle::new(strategy);
            (0..looks)
                .map(|_| idle.step())
                .filter(|step| *step == Step::Park)
                .count()
        };
        assert_eq!(steps(WaitStrategy::Spin, 10_000), 0);
        assert_eq!(steps(WaitStrategy::Yield, 1_000), 0);
        assert_eq!(steps(WaitStrategy::Park, 10), 10);
        assert_eq!(steps(WaitStrategy::Adaptive, ADAPTIVE_ROUNDS + 5), 5);
    }

    /// Begins a wait without a time-out, in which a look finds a message, or none does. Whether it
    /// looked longer.
    fn waits(park: &mut ParkLooks, strategy: WaitStrategy, finds: bool) -> bool {
        let mut idle = park.begin(strategy, Duration::MAX);
        let looks_longer = idle.try_until.is_some();
        if finds {
            idle.looks = ROUND + 1;
            park.found(&idle);
        } else {
            park.missed(&idle);
        }
        looks_longer
    }

    #[test]
    fn longer_looks_that_find_nothing_are_tried_again_after_longer_pauses() {
        let mut park = ParkLooks::default();
        let tries: Vec<u32> = (0..64)
            .filter(|_| waits(&mut park, WaitStrategy::Park, false))
            .collect();
        assert_eq!(tries, [0, 2, 6, 14, 30, 46, 62]);
    }

    #[test]
    fn longer_looks_that_find_messages_go_on() {
        let mut park = ParkLooks::default();
        for _ in 0..100 {
            assert!(waits(&mut park, WaitStrategy::Park, true));
        }
        // A miss pauses the next wait only.
        let finds = [false, false, true, true];
        let longer = finds.map(|finds| waits(&mut park, WaitStrategy::Park, finds));
        assert_eq!(longer, [true, false, true, true]);
    }

    #[test]
    fn other_strategies_have_no_longer_looks() {
        for strategy in [WaitStrategy::Yield, WaitStrategy::Adaptive] {
            let mut park = ParkLooks::default();
            assert!(!waits(&mut park, strategy, false), "{strategy:?}");
        }
    }

    #[test]
    fn longer_looks_end_with_their_time_or_the_time_out() {
        let looks = |idle: &mut Idle| (0..1_000).take_while(|_| idle.keep_spinning()).count();
        let mut park = ParkLooks::default();
        let now = Instant::now();
        let mut idle = park.begin(WaitStrategy::Park, Duration::MAX);
        assert!(idle.try_until.is_some_and(|end| end >= now + PARK_LOOK));
        idle.try_until = Some(now + Duration::from_secs(3600));
        assert_eq!(looks(&mut idle), 1_000);
        let mut idle = park.begin(WaitStrategy::Park, Duration::ZERO);
        assert_eq!(looks(&mut idle), ROUND as usize);
        // Its own time ends it, too: without that, this loop would not end.
        let mut idle = park.begin(WaitStrategy::Park, Duration::MAX);
        let most = Instant::now() + Duration::from_micros(25);
        assert!(idle.try_until.is_some_and(|end| end <= most));
        while idle.keep_spinning() {}
    }

    /// They counted as tries that found nothing, and later waits did not look.
    #[test]
    fn looks_that_a_time_out_cuts_do_not_count() {
        let mut park = ParkLooks::default();
        for timeout in [0, 1, 24].map(Duration::from_micros) {
            let idle = park.begin(WaitStrategy::Park, timeout);
            park.missed(&idle);
        }
        assert!(waits(&mut park, WaitStrategy::Park, false));
        assert!(!waits(&mut park, WaitStrategy::Park, false));
    }
}
