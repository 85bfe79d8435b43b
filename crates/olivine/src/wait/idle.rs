//! How an endpoint waits before it sleeps in the kernel.

use crate::uri::WaitStrategy;

/// Rounds after which `adaptive` parks: some 50 µs.
const ADAPTIVE_ROUNDS: u32 = 600;
/// Rounds of [`ROUND`] looks with which a subscriber of each strategy but `spin` begins: `adaptive`
/// and `yield` in a row, `park` before each of its first sleeps. Later rounds have no such looks.
const BARE_ROUNDS: u32 = 20;
/// Looks at the next headers in such a round.
const ROUND: u32 = 32;
/// Looks before the first sleep of a wait with `park`, where that may save the sleep: some 15 µs, a
/// little more than a sleep and a wake-up cost.
const PARK_ROUND: u32 = 512;
/// Counts the rounds of an endpoint that waits, and says what to do before the next one.
///
/// A round is, of a subscriber, up to [`ROUND`] looks at the next headers, a pause after each, and
/// then one check of everything that ends the wait. So an `adaptive` subscriber looks 20 × 32
/// times. Then it checks once a round, with a pause, until 600 rounds are over, and parks. A
/// publisher has no looks, only the check for room.
#[derive(Debug)]
pub(crate) struct Idle {
    strategy: WaitStrategy,
    rounds: u32,
    looks: u32,
    /// Looks of this round at most.
    most: u32,
}

/// Decides in which waits a subscriber with `park` looks longer before it sleeps.
///
/// A subscriber of messages that come every 10 µs saves most of its sleeps. Where they come later,
/// the looks are lost: it tries again after 1, 3, 7 and then 15 waits.
#[derive(Debug, Default)]
pub(crate) struct ParkLooks {
    /// Tries in a row that found no message.
    failed: u32,
    /// Waits until the next try.
    pause: u32,
}

impl ParkLooks {
    /// A wait begins.
    pub(crate) fn begin(&mut self, strategy: WaitStrategy) -> Idle {
        let mut idle = Idle::new(strategy);
        if strategy == WaitStrategy::Park {
            match self.pause {
                0 => idle.most = PARK_ROUND,
                _ => self.pause -= 1,
            }
        }
        idle
    }

    /// The wait of `idle` has found a message by a look.
    #[inline(always)]
    pub(crate) fn found(&mut self, idle: &Idle) {
        if idle.is_try() && idle.looks > ROUND {
            self.failed = 0;
        }
    }

    /// The looks of a round of `idle` are over.
    #[inline(always)]
    pub(crate) fn missed(&mut self, idle: &Idle) {
        if idle.is_try() {
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
        }
    }

    /// Whether this round has another look.
    #[inline(always)]
    pub(crate) fn keep_spinning(&mut self) -> bool {
        self.looks += 1;
        self.looks <= self.most
            && (self.strategy == WaitStrategy::Spin || self.rounds < BARE_ROUNDS)
    }

    /// Whether this round looks longer to save a sleep.
    fn is_try(&self) -> bool {
        self.most > ROUND
    }

    /// A round found nothing.
    #[inline]
    pub(crate) fn step(&mut self) -> Step {
        self.rounds = self.rounds.saturating_add(1);
        (self.looks, self.most) = (0, ROUND);
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

    /// Looks of a wait whose message comes at look `comes`, up to its first sleep.
    fn looks(park: &mut ParkLooks, strategy: WaitStrategy, comes: u32) -> u32 {
        let mut idle = park.begin(strategy);
        while idle.keep_spinning() {
            if idle.looks == comes {
                park.found(&idle);
                return idle.looks;
            }
        }
        park.missed(&idle);
        idle.looks - 1
    }

    #[test]
    fn longer_looks_that_find_nothing_are_tried_again_after_longer_pauses() {
        let mut park = ParkLooks::default();
        let tries: Vec<u32> = (0..64)
            .filter(|_| looks(&mut park, WaitStrategy::Park, u32::MAX) == PARK_ROUND)
            .collect();
        assert_eq!(tries, [0, 2, 6, 14, 30, 46, 62]);
    }

    #[test]
    fn longer_looks_that_find_messages_go_on() {
        let mut park = ParkLooks::default();
        for _ in 0..100 {
            assert_eq!(looks(&mut park, WaitStrategy::Park, 400), 400);
        }
        // A miss pauses the next wait only.
        let misses = [u32::MAX, u32::MAX, 400, 400];
        let looked = misses.map(|comes| looks(&mut park, WaitStrategy::Park, comes));
        assert_eq!(looked, [PARK_ROUND, ROUND, 400, 400]);
    }

    #[test]
    fn other_strategies_have_no_longer_looks() {
        for strategy in [WaitStrategy::Yield, WaitStrategy::Adaptive] {
            let mut park = ParkLooks::default();
            assert_eq!(looks(&mut park, strategy, u32::MAX), ROUND);
        }
    }
}
