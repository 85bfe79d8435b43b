//! Waiting: spin, yield, park, or spin and then park; and waking those who parked.
//!
//! # Parking without a fence on the publisher
//!
//! A sleeper raises its own park word and the channel's sleepers hint, passes a heavy barrier, looks again,
//! and only then sleeps in the kernel. A publisher commits, passes a light barrier (no instruction), and
//! reads the hint: **SLEEP**. A waker takes the hint first and the park words second, each by
//! read-modify-write: **WAKE**. Every sleep is bounded by [`NAP_MAX`], after which the sleeper looks again, so
//! that a waker killed between taking the hint and waking costs milliseconds, not a hang.

use crate::region::{Word, Words};
use crate::ring::gate::bits;
use crate::ring::layout::{Geometry, control, slot};
use crate::sync::{AtomicU64, Ordering, fence, heavy_barrier, mutant, unless};
use crate::uri::WaitStrategy;
use std::time::Duration;

/// Longest sleep without looking again.
pub(crate) const NAP_MAX: Duration = Duration::from_millis(8);
/// Longest sleep where this process cannot order the other side's stores (no membarrier).
const NAP_UNCOVERED: Duration = Duration::from_millis(1);
/// Rounds that `adaptive` spends spinning before it parks: some 50 µs.
const ADAPTIVE_ROUNDS: u32 = 600;
/// Rounds that `adaptive` and `yield` spend as `spin` does.
const BARE_ROUNDS: u32 = 20;
/// Looks at the next message alone in a round of a spinning endpoint.
const ROUND: u32 = 32;

/// Raises the flags of a sleeper and looks once more.
///
/// Returns `true` if the caller may sleep now; `ready` found nothing after the flags were up. On `false` the
/// park word is down again. `hint` is absent for a publisher that waits for room: subscribers look at its
/// park word directly.
pub(crate) fn prepare_sleep(
    park: &AtomicU64,
    hint: Option<&AtomicU64>,
    mut ready: impl FnMut() -> bool,
) -> Prepared {
    // Relaxed: published by the read-modify-write below, or by the barrier.
    park.store(1, Ordering::Relaxed);
    if let Some(hint) = hint {
        if mutant("wake_hint_plain_store") {
            hint.store(1, Ordering::Release);
        } else {
            // WAKE (release): a read-modify-write, so that whoever takes the hint later sees our park word even if
            // another sleeper raised the hint in between.
            hint.fetch_or(1, unless(mutant("wake_hint_relaxed"), Ordering::Release));
        }
    }
    crate::points::pass("sleep.flags_up");
    // SLEEP and ROOM (heavy side): the flags are up before we look again.
    let covered = heavy_barrier(mutant("sleep_no_heavy_barrier"));
    if !mutant("sleep_no_second_look") && ready() {
        // Relaxed: our own word; a waker that took it already will find us awake.
        park.store(0, Ordering::Relaxed);
        return Prepared::Ready;
    }
    if covered {
        Prepared::Sleep
    } else {
        Prepared::Nap
    }
}

/// What [`prepare_sleep`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// There is something to do: do not sleep.
    Ready,
    /// Sleep until woken.
    Sleep,
    /// Sleep briefly: wake-ups may be missed here.
    Nap,
}

/// Wakes every parked subscriber of the channel; returns how many.
pub(crate) fn wake_sleepers(words: &Words, geometry: &Geometry) -> u64 {
    let hint = words.word(control::SLEEPERS);
    // SeqCst: SLEEP for a publisher without membarrier, which comes here after every commit and has to order
    // its own store before its look at the hint. The others come here to do something far slower.
    fence(Ordering::SeqCst);
    if hint.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    // WAKE (acquire): takes the hint from the newest sleeper, and with it every park word raised before.
    hint.swap(0, unless(mutant("wake_take_relaxed"), Ordering::AcqRel));
    crate::points::pass("wake.hint_taken");
    let mut woken = 0;
    for index in bits(words, control::ATTACHED, geometry.slots()) {
        let park = words.word(geometry.slot(index) + slot::PARK);
        if park.load(Ordering::Relaxed) != 0 && wake(park) {
            woken += 1;
        }
    }
    woken
}

/// Takes a park word and wakes its sleeper. `false` if somebody else took it.
pub(crate) fn wake(park: &AtomicU64) -> bool {
    // AcqRel: taken once, by one waker.
    if park.swap(0, Ordering::AcqRel) == 0 {
        return false;
    }
    crate::points::pass("wake.word_taken");
    #[cfg(not(loom))]
    futex::wake(park);
    true
}

/// Sleeps while `park` is 1, for at most `longest`.
#[cfg(not(loom))]
pub(crate) fn sleep(park: &AtomicU64, prepared: Prepared, longest: Duration) {
    let nap = match prepared {
        Prepared::Ready => return,
        Prepared::Sleep => NAP_MAX,
        Prepared::Nap => NAP_UNCOVERED,
    };
    futex::wait(park, nap.min(longest));
    // Relaxed: our own word; it is up if the sleep timed out.
    park.store(0, Ordering::Relaxed);
}

/// Counts fruitless looks and says what to do before the next one.
///
/// A round is a number of looks at what is waited for, without a pause for the shortest reaction, and one at
/// everything else that may have changed.
#[derive(Debug)]
pub(crate) struct Idle {
    strategy: WaitStrategy,
    rounds: u32,
    looks: u32,
}

/// What an idle endpoint does before it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look again.
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
        }
    }

    /// Whether this round has another look in it.
    #[inline(always)]
    pub(crate) fn looks_on(&mut self) -> bool {
        self.looks += 1;
        self.looks <= ROUND && (self.strategy == WaitStrategy::Spin || self.rounds < BARE_ROUNDS)
    }

    /// A round found nothing.
    #[inline]
    pub(crate) fn step(&mut self) -> Step {
        self.rounds = self.rounds.saturating_add(1);
        self.looks = 0;
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

/// A sleeper's own flags in the control file.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    /// Our park word.
    pub(crate) park: Word,
    /// The channel's hint, for subscribers.
    pub(crate) hint: Option<Word>,
}

#[cfg(not(loom))]
impl Sleeper {
    /// Sleeps until woken, or for `longest`, unless `ready` already finds something.
    pub(crate) fn sleep(&self, longest: Duration, ready: impl FnMut() -> bool) {
        let prepared = prepare_sleep(&self.park, self.hint.as_deref(), ready);
        sleep(&self.park, prepared, longest);
    }
}

#[cfg(not(loom))]
mod futex {
    use crate::sync::AtomicU64;
    use std::time::Duration;

    // The low half of the word is the futex: little-endian, checked in `sync`.
    fn address(word: &AtomicU64) -> *const u32 {
        word.as_ptr().cast()
    }

    /// Sleeps while the word's low half is 1. Returns on a wake, a change, a signal or the time-out alike: the
    /// caller looks again in any case. Shared, not private: the waker is another process.
    #[cfg(not(miri))]
    pub(super) fn wait(word: &AtomicU64, longest: Duration) {
        let longest = libc::timespec {
            tv_sec: libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // SAFETY: the address is a mapped, aligned 32-bit word and the time-out lives across the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                address(word),
                libc::FUTEX_WAIT,
                1_u32,
                &raw const longest,
            );
        }
    }

    /// The same without the kernel: its look at half of the word is a machine's, not the language's, and Miri would
    /// take it for a load that races with the stores of the whole word.
    #[cfg(miri)]
    pub(super) fn wait(_: &AtomicU64, _: Duration) {
        std::thread::yield_now();
    }

    /// Wakes whoever sleeps on the word.
    pub(super) fn wake(word: &AtomicU64) {
        // SAFETY: the address is a mapped, aligned 32-bit word; waking reads no other memory.
        unsafe {
            libc::syscall(libc::SYS_futex, address(word), libc::FUTEX_WAKE, i32::MAX);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strategies_spin_yield_and_park_as_they_say() {
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

    #[test]
    fn a_sleeper_that_sees_work_does_not_sleep_and_lowers_its_flag() {
        let (park, hint) = (AtomicU64::new(0), AtomicU64::new(0));
        assert_eq!(prepare_sleep(&park, Some(&hint), || true), Prepared::Ready);
        assert_eq!(
            (park.load(Ordering::Relaxed), hint.load(Ordering::Relaxed)),
            (0, 1)
        );
    }

    #[test]
    fn a_sleeping_thread_is_woken_by_taking_its_word() {
        let park = std::sync::Arc::new(AtomicU64::new(0));
        let sleeper = std::thread::spawn({
            let park = park.clone();
            move || {
                // Longer than any test runner waits: only a wake ends it.
                park.store(1, Ordering::Relaxed);
                while park.load(Ordering::Acquire) == 1 {
                    futex::wait(&park, Duration::from_secs(3600));
                }
            }
        });
        while !wake(&park) {
            std::thread::yield_now();
        }
        sleeper.join().unwrap();
    }
}
