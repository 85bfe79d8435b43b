//! Wait strategies (spin, yield, park, adaptive), and wake-ups of parked participants.
//!
//! # Parking without a fence on the publisher
//!
//! A sleeper raises its park word and the channel's sleepers hint, passes a heavy barrier, checks
//! again, and only then sleeps in the kernel. A publisher commits, passes a light barrier (no
//! instruction), and reads the hint: **SLEEP**. A waker takes each park word by read-modify-write
//! and lowers the hint last, if no sleeper raised it meanwhile: **WAKE**. The kernel takes a park
//! word and wakes its sleeper in one call. So a waker that dies or stops half way leaves the hint
//! raised, and the next waker finds every sleeper.
//!
//! # Long naps
//!
//! After a time-out the flags are still raised and the barrier still holds: the sleeper stays
//! *armed* and sleeps again at once. Its naps take 8 ms, 16 ms, and then [`NAP_LONG`]. One event
//! has no waker: a participant dies between its store and its load of the flags. So before a long
//! nap the [`warden`] watches the processes that this sleeper depends on. If it cannot, naps stay
//! at 16 ms. ADR 0024 lists every edge. `docs/glossary.md` defines *nap*, *armed*, *hint* and the
//! other terms.

mod futex;
#[cfg(not(loom))]
pub(crate) mod warden;

use crate::region::{Word, Words};
use crate::ring::gate::bits;
use crate::ring::layout::{Geometry, control, slot};
use crate::sync::{AtomicU64, Ordering, fence, heavy_barrier, mutant, unless};
use crate::uri::WaitStrategy;
use std::time::Duration;

/// First nap after an event.
const NAP_FIRST: Duration = Duration::from_millis(8);
/// Second nap; the longest one if the death of a participant cannot be watched.
const NAP_SHORT: Duration = Duration::from_millis(16);
/// Longest nap: a backstop. 256 sleepers of 1 s each cost a busy publisher stalls that can be
/// measured (ADR 0024).
const NAP_LONG: Duration = Duration::from_secs(5);
/// Naps in a row that end by time before they become long.
const SHORT_NAPS: u32 = 2;
/// Longest nap if this process cannot order the other side's stores (no membarrier).
const NAP_UNCOVERED: Duration = Duration::from_millis(1);
/// Rounds after which `adaptive` parks: some 50 µs.
const ADAPTIVE_ROUNDS: u32 = 600;
/// Rounds of [`ROUND`] looks with which a subscriber of each strategy but `spin` begins: `adaptive`
/// and `yield` in a row, `park` before each of its first sleeps. Later rounds have no such looks.
const BARE_ROUNDS: u32 = 20;
/// Looks at the next headers in such a round.
const ROUND: u32 = 32;

/// The bit of the hint that says that there may be sleepers. The bits above count how often it was
/// raised.
pub(crate) const RAISED: u64 = 1;

/// Raises the flags of a sleeper and checks once more.
///
/// Returns `Ready`, with the park word lowered, if `ready` is true after the flags were raised.
/// `hint` is absent for a publisher that waits for room: subscribers read its park word directly.
pub(crate) fn prepare_sleep(
    park: &AtomicU64,
    hint: Option<&AtomicU64>,
    mut ready: impl FnMut() -> bool,
) -> Prepared {
    // Relaxed: published by the read-modify-write below, or by the barrier.
    park.store(1, Ordering::Relaxed);
    if let Some(hint) = hint {
        if mutant("wake_hint_plain_store") {
            hint.store(RAISED, Ordering::Release);
        } else {
            // WAKE (release): by read-modify-write, so that each waker that reads a later value
            // sees our park word. The count first: a waker that lowers the hint by an older value
            // fails, or does so before the bit below.
            let release = unless(mutant("wake_hint_relaxed"), Ordering::Release);
            if !mutant("wake_hint_without_count") {
                hint.fetch_add(RAISED << 1, release);
            }
            hint.fetch_or(RAISED, release);
        }
    }
    crate::points::pass("sleep.flags_up");
    // SLEEP and ROOM (heavy side): the flags are raised before we check again.
    let covered = heavy_barrier(mutant("sleep_no_heavy_barrier"));
    if !mutant("sleep_no_second_look") && ready() {
        // Relaxed: our own word; a waker that took it already finds us awake.
        park.store(0, Ordering::Relaxed);
        return Prepared::Ready;
    }
    if covered {
        Prepared::Sleep
    } else {
        Prepared::Nap
    }
}

/// The result of [`prepare_sleep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// There is something to do: do not sleep.
    Ready,
    /// Sleep until woken.
    Sleep,
    /// Sleep briefly: wake-ups may be missed here.
    Nap,
}

/// Whether flags raised by [`prepare_sleep`] are still raised. Then the next commit or release
/// wakes, and no other barrier is needed.
///
/// A waker that lowers the hint has taken every park word. So a raised park word under a lowered
/// hint was not raised by the protocol, and does not count.
pub(crate) fn is_armed(park: &AtomicU64, hint: Option<&AtomicU64>) -> bool {
    if mutant("wake_armed_again_without_barrier") {
        park.store(1, Ordering::Relaxed);
        return true;
    }
    // WAKE: our own word; the read-modify-write that took it stays visible to us. Relaxed: the
    // check that follows sees what the waker did before.
    park.load(Ordering::Relaxed) == 1
        && hint.is_none_or(|hint| hint.load(Ordering::Relaxed) & RAISED != 0)
}

/// Wakes every parked subscriber of the channel; returns how many.
pub(crate) fn wake_sleepers(words: &Words, geometry: &Geometry) -> u64 {
    wake_sleepers_until(words, geometry, || false)
}

/// As [`wake_sleepers`], but stops if `dies` returns true. It is called after each visible step.
#[inline(always)]
pub(crate) fn wake_sleepers_until(
    words: &Words,
    geometry: &Geometry,
    mut dies: impl FnMut() -> bool,
) -> u64 {
    let hint = words.word(control::SLEEPERS);
    // SeqCst: SLEEP for a publisher without membarrier. It calls this after every commit and must
    // order its store before its load of the hint. For other callers the cost does not matter.
    fence(Ordering::SeqCst);
    // WAKE (acquire): every park word raised before the count is visible.
    let seen = hint.load(unless(mutant("wake_take_relaxed"), Ordering::Acquire));
    if seen & RAISED == 0 {
        return 0;
    }
    if mutant("wake_hint_lowered_first") {
        hint.fetch_and(!RAISED, Ordering::AcqRel);
        if dies() {
            return 0;
        }
    }
    let mut woken = 0;
    for index in bits(words, control::ATTACHED, geometry.slots()) {
        let park = words.word(geometry.slot(index) + slot::PARK);
        if wake(park) {
            woken += 1;
            if dies() {
                return woken;
            }
        }
    }
    crate::points::pass("wake.words_taken");
    if mutant("wake_hint_lowered_blindly") {
        hint.fetch_and(!RAISED, Ordering::AcqRel);
    } else {
        // Only if unchanged since the park words were taken: a sleeper that raised it later is not
        // woken yet. Relaxed: lowering publishes nothing, and sleepers raise it by
        // read-modify-write (WAKE).
        let _ = hint.compare_exchange(seen, seen & !RAISED, Ordering::Relaxed, Ordering::Relaxed);
    }
    crate::points::pass("wake.hint_lowered");
    woken
}

/// Takes a park word and wakes its sleeper. `false` if it is not raised.
///
/// The caller has ordered its changes before this load of the word: by a light barrier that pairs
/// with the sleeper's heavy one, by a fence, or by a lock.
pub(crate) fn wake(park: &AtomicU64) -> bool {
    // Relaxed: the caller's order. WAKE: the word is taken by read-modify-write, in the same call
    // that wakes.
    if park.load(Ordering::Relaxed) == 0 {
        return false;
    }
    if crate::points::drops_wakes() {
        park.store(0, Ordering::Relaxed);
        return true;
    }
    futex::take_and_wake(park);
    crate::points::pass("wake.word_taken");
    true
}

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
        }
    }

    /// Whether this round has another look.
    #[inline(always)]
    pub(crate) fn keep_spinning(&mut self) -> bool {
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

/// Whether long naps are safe: see [`Sleeper::sleep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongNaps {
    /// Each event that matters has a waker that cannot die without us, or a watch.
    Safe,
    /// An event may come without a wake-up.
    Unsafe,
}

/// A sleeper's flags in the control file.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Our park word.
    pub(crate) park: Word,
    /// The channel's hint, for subscribers.
    hint: Option<Word>,
    /// Counts the sleeps of a subscriber.
    parks: Option<Word>,
    #[cfg(not(loom))]
    rest: std::sync::Mutex<NapState>,
}

/// The state of a sleeper between naps.
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct NapState {
    /// The flags were raised and a barrier passed; see [`is_armed`].
    armed: bool,
    /// Successive naps that ended by time.
    naps: u32,
    watches: warden::Watches,
}

impl Clone for Sleeper {
    /// For another thread: the state is reset.
    fn clone(&self) -> Self {
        Self::new(self.park.clone(), self.hint.clone(), self.parks.clone())
    }
}

impl Sleeper {
    pub(crate) fn new(park: Word, hint: Option<Word>, parks: Option<Word>) -> Self {
        Self {
            park,
            hint,
            parks,
            #[cfg(not(loom))]
            rest: std::sync::Mutex::default(),
        }
    }
}

/// The length of a nap after `naps` successive naps that ended by time.
///
/// `covered`: the heavy barrier ordered the stores of the other side, so its next commit or release
/// wakes this sleeper.
#[cfg(not(loom))]
fn longest_nap(covered: bool, naps: u32, long_naps: LongNaps) -> Duration {
    match (naps, long_naps) {
        _ if !covered => NAP_UNCOVERED,
        (0, _) => NAP_FIRST,
        (SHORT_NAPS.., LongNaps::Safe) => NAP_LONG,
        _ => NAP_SHORT,
    }
}

#[cfg(not(loom))]
impl Sleeper {
    /// Sleeps until woken, or for `longest`, unless `ready` already finds something.
    ///
    /// Each nap ends by time, after at most [`NAP_LONG`]. Naps are long only after a while without
    /// events, if `watch` says that each event causes a wake-up. `watch` is called before each long
    /// nap and may set watches; a last check follows. Returns `true` if another participant woke
    /// it.
    pub(crate) fn sleep(
        &self,
        longest: Duration,
        watch: impl FnOnce(&mut warden::Watches) -> LongNaps,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        let rest = self.rest.lock();
        let mut rest = rest.unwrap_or_else(std::sync::PoisonError::into_inner);
        let hint = self.hint.as_deref();
        let mut covered = true;
        if !(rest.armed && is_armed(&self.park, hint)) {
            rest.armed = false;
            rest.naps = 0;
            match prepare_sleep(&self.park, hint, &mut ready) {
                Prepared::Ready => return false,
                Prepared::Sleep => rest.armed = true,
                Prepared::Nap => covered = false,
            }
        } else if ready() {
            rest.naps = 0;
            return false;
        }
        let endless = covered && crate::points::naps_are_off();
        let mut long_naps = LongNaps::Unsafe;
        if endless || (covered && rest.naps >= SHORT_NAPS && longest > NAP_SHORT) {
            long_naps = watch(&mut rest.watches);
            // What happened before the watches were set.
            if ready() {
                rest.naps = 0;
                return false;
            }
        }
        let nap = longest_nap(covered, rest.naps, long_naps);
        // A nap that the caller shortens does not show how long nothing happens.
        let whole = nap <= longest;
        if let Some(parks) = &self.parks {
            // Relaxed: a counter. By read-modify-write: threads that sleep for one subscriber share
            // it.
            parks.fetch_add(1, Ordering::Relaxed);
        }
        futex::wait(&self.park, (!endless).then_some(nap.min(longest)));
        // Relaxed: our own word; only a waker takes it.
        let woken = self.park.load(Ordering::Relaxed) == 0;
        rest.naps = rest.naps.saturating_add((whole && !woken).into());
        if !covered {
            // Relaxed: our own word. Nothing is armed without a barrier.
            self.park.store(0, Ordering::Relaxed);
        }
        woken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::documents::assert_states;

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

    #[test]
    fn two_naps_are_short_and_long_naps_need_wake_guarantee() {
        let naps =
            |covered, long_naps| [0, 1, 2, 9].map(|naps| longest_nap(covered, naps, long_naps));
        let millis = |naps: [u64; 4]| naps.map(Duration::from_millis);
        assert_eq!(naps(true, LongNaps::Safe), millis([8, 16, 5000, 5000]));
        assert_eq!(naps(true, LongNaps::Unsafe), millis([8, 16, 16, 16]));
        assert_eq!(naps(false, LongNaps::Safe), millis([1, 1, 1, 1]));
        // The sentence of the documents.
        let words = "Naps on shared memory take 8 ms, 16 ms";
        let long = format!("then {} s.", NAP_LONG.as_secs());
        for document in ["SAFETY.md", "docs/glossary.md"] {
            assert_states(document, words);
            assert_states(document, &long);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no membarrier: nothing is armed")]
    fn sleeper_stays_armed_after_timed_nap() {
        let words = Words::new(&crate::region::Memory::heap(16), 0, 2);
        let (park, hint) = (words.resolve(0), words.resolve(1));
        let sleeper = Sleeper::new(park.clone(), Some(hint.clone()), None);
        let nap = Duration::from_millis(1);
        let until_woken = Sleeper::sleep;
        let is_woken = || {
            until_woken(
                &sleeper,
                nap,
                |_: &mut warden::Watches| LongNaps::Safe,
                || false,
            )
        };
        assert!(!is_woken());
        let raised = hint.load(Ordering::Relaxed);
        assert_eq!(park.load(Ordering::Relaxed), 1);
        assert!(!is_woken() && !is_woken());
        assert_eq!(
            hint.load(Ordering::Relaxed),
            raised,
            "raised again for nothing"
        );
        assert!(wake(&park));
        assert!(!is_woken());
        assert_eq!(
            hint.load(Ordering::Relaxed),
            raised + (RAISED << 1),
            "raised anew"
        );
    }

    #[test]
    fn sleeper_that_sees_work_lowers_flag_and_stays_awake() {
        let (park, hint) = (AtomicU64::new(0), AtomicU64::new(0));
        assert_eq!(prepare_sleep(&park, Some(&hint), || true), Prepared::Ready);
        assert_eq!(
            (park.load(Ordering::Relaxed), hint.load(Ordering::Relaxed)),
            (0, RAISED << 1 | RAISED)
        );
    }

    #[test]
    fn taking_park_word_wakes_sleeping_thread() {
        let park = std::sync::Arc::new(AtomicU64::new(0));
        let sleeper = std::thread::spawn({
            let park = park.clone();
            move || {
                // Longer than any test runner waits: only a wake-up ends it.
                park.store(1, Ordering::Relaxed);
                while park.load(Ordering::Acquire) == 1 {
                    futex::wait(&park, None);
                }
            }
        });
        while !wake(&park) {
            std::thread::yield_now();
        }
        sleeper.join().unwrap();
    }
}
