//! Wait strategies (spin, yield, park, adaptive), and wake-ups of parked participants.
//!
//! # Parking without a fence on the publisher
//!
//! A sleeper raises its park word and the channel's sleepers hint, passes a heavy barrier, checks
//! again, and only then sleeps in the kernel. A publisher commits, passes a light barrier (no
//! instruction), and reads the hint: **SLEEP**. A waker takes each park word by read-modify-write
//! and may lower the hint last, if no sleeper was counted meanwhile: **WAKE**. The kernel takes a
//! park word and wakes its sleeper in one call. So a waker that dies or stops half way leaves the
//! hint raised, and the next waker finds every sleeper.
//!
//! # Sleeping again without a barrier
//!
//! A waker that found a sleeper leaves the hint raised. While it stands, every publisher looks at
//! the park words after each commit, behind a fence. So a sleeper needs no barrier of others, only
//! its own fence. That holds once the barrier of the sleeper that raised the hint has passed: then
//! that sleeper sets [`COVERED`]. Publishers that find no sleeper lower the hint after a few
//! commits, and so a stream looks at the hint alone. ADR 0045 has the figures.
//!
//! # Long naps
//!
//! After a time-out the flags are still raised and the barrier still holds: the sleeper stays
//! *armed* and sleeps again at once. Its naps take 8 ms, 16 ms, and then [`NAP_LONG`]. One event
//! has no waker: a participant dies between its store and its load of the flags. So before a long
//! nap the [`warden`] watches the processes that this sleeper depends on. If it cannot, naps stay
//! at 16 ms. ADR 0024 lists every edge. `docs/glossary.md` defines *nap*, *armed*, *hint* and the
//! other terms.

#[cfg(not(loom))]
pub(crate) mod events;
mod futex;
mod idle;
#[cfg(not(loom))]
pub(crate) mod warden;

use crate::region::{Word, Words};
use crate::ring::gate::bits;
use crate::ring::layout::{Geometry, control, slot};
use crate::sync::{AtomicU64, Ordering, fence, heavy_barrier, mutant, unless};
use std::time::Duration;

pub(crate) use idle::{Idle, ParkLooks, Step};

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

/// The bit of the hint that says that there may be sleepers.
pub(crate) const RAISED: u64 = 1;
/// The bit of the hint that says that a heavy barrier has passed since it was raised. The bits
/// above count the sleeps and the lowerings.
pub(crate) const COVERED: u64 = 2;
/// One sleep, or one lowering, in the count of the hint.
pub(crate) const ONE_SLEEP: u64 = 4;

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
    let raised = hint.map(raise);
    crate::points::pass("sleep.flags_up");
    let covered = match (hint, raised) {
        (_, Some(Raised::Standing)) => {
            // SLEEP: the heavy barrier passed when the hint was raised, so each publisher sees it.
            // SeqCst: our park word comes before the look below, as the publisher's commit comes
            // before its fence and its look at the park word. It also acquires the hint.
            if !mutant("sleep_no_standing_fence") {
                fence(Ordering::SeqCst);
            }
            true
        }
        (Some(hint), Some(Raised::Anew { value })) => {
            // SLEEP (heavy side): the flags are raised before we check again.
            let covered = heavy_barrier(mutant("sleep_no_heavy_barrier"));
            if covered {
                // SLEEP: only after the barrier. Fails if the hint was lowered or a sleep was
                // counted meanwhile: then the next sleeper passes a barrier. Relaxed: the barrier
                // orders.
                let covered = value | COVERED;
                let _ = hint.compare_exchange(value, covered, Ordering::Relaxed, Ordering::Relaxed);
            }
            covered
        }
        // ROOM (heavy side): the same.
        _ => heavy_barrier(mutant("sleep_no_heavy_barrier")),
    };
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

/// How the hint stands after [`raise`].
enum Raised {
    /// It was raised, and a heavy barrier has passed since.
    Standing,
    /// A heavy barrier must follow.
    Anew {
        /// The value of the hint.
        value: u64,
    },
}

/// Raises the hint and counts a sleep.
fn raise(hint: &AtomicU64) -> Raised {
    if mutant("wake_hint_plain_store") {
        hint.store(RAISED, Ordering::Release);
        return Raised::Anew { value: RAISED };
    }
    // WAKE (release): by read-modify-write, so that each waker that reads a later value sees our
    // park word. The count first: a waker that lowers the hint by an older value fails, or does so
    // before the bit below.
    let release = unless(mutant("wake_hint_relaxed"), Ordering::Release);
    if !mutant("wake_hint_without_count") {
        let before = hint.fetch_add(ONE_SLEEP, release);
        // Raised alone is not enough: the barrier of the sleeper that raised it may be to come.
        if before & (RAISED | COVERED) == RAISED | COVERED {
            return Raised::Standing;
        }
    }
    let before = hint.fetch_or(RAISED, release);
    Raised::Anew {
        value: before | RAISED,
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

/// What a waker does with the hint once it has taken every park word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Leaves it raised: the sleepers are expected back, and then need no heavy barrier.
    Stays,
    /// Lowers it: publishers no longer look for sleepers.
    Lowered,
}

/// Wakes every parked subscriber of the channel; returns how many, and `None` if the hint is not
/// raised.
pub(crate) fn wake_sleepers(words: &Words, geometry: &Geometry, after: Hint) -> Option<u64> {
    wake_sleepers_until(words, geometry, after, || false)
}

/// As [`wake_sleepers`], but stops if `dies` returns true. It is called after each visible step.
#[inline(always)]
pub(crate) fn wake_sleepers_until(
    words: &Words,
    geometry: &Geometry,
    after: Hint,
    mut dies: impl FnMut() -> bool,
) -> Option<u64> {
    let hint = words.word(control::SLEEPERS);
    // SeqCst: SLEEP for a publisher without membarrier. It calls this after every commit and must
    // order its store before its load of the hint. For other callers the cost does not matter.
    fence(Ordering::SeqCst);
    // WAKE (acquire): every park word raised before the count is visible.
    let seen = hint.load(unless(mutant("wake_take_relaxed"), Ordering::Acquire));
    if seen & RAISED == 0 {
        return None;
    }
    if mutant("wake_hint_lowered_first") {
        hint.fetch_and(!(RAISED | COVERED), Ordering::AcqRel);
        if dies() {
            return Some(0);
        }
    }
    let mut woken = 0;
    for index in bits(words, control::ATTACHED, geometry.slots()) {
        let park = words.word(geometry.slot(index) + slot::PARK);
        if wake(park) {
            woken += 1;
            if dies() {
                return Some(woken);
            }
        }
    }
    crate::points::pass("wake.words_taken");
    if after == Hint::Stays {
        return Some(woken);
    }
    if mutant("wake_hint_lowered_blindly") {
        hint.fetch_and(!(RAISED | COVERED), Ordering::AcqRel);
    } else {
        // Only if unchanged since the park words were taken: a sleeper that raised it later is not
        // woken yet. Relaxed: lowering publishes nothing, and sleepers raise it by
        // read-modify-write (WAKE).
        // Counted, too: a sleeper that raises it again must not give it the value that an earlier
        // one saw, which would then set COVERED for a barrier before that (ADR 0045). Wraps: other
        // participants can store anything.
        let lowered = seen.wrapping_add(ONE_SLEEP) & !(RAISED | COVERED);
        let _ = hint.compare_exchange(seen, lowered, Ordering::Relaxed, Ordering::Relaxed);
    }
    crate::points::pass("wake.hint_lowered");
    Some(woken)
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
    use crate::sync::logged::barriers_of_this_thread;

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
            raised + ONE_SLEEP,
            "counted again"
        );
    }

    #[test]
    fn sleeper_that_sees_work_lowers_flag_and_stays_awake() {
        let (park, hint) = (AtomicU64::new(0), AtomicU64::new(0));
        assert_eq!(prepare_sleep(&park, Some(&hint), || true), Prepared::Ready);
        assert_eq!(
            (park.load(Ordering::Relaxed), hint.load(Ordering::Relaxed)),
            (0, ONE_SLEEP | RAISED | COVERED)
        );
    }

    /// Each barrier interrupts every running thread of every registered process.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no membarrier: no barrier covers a sleep")]
    fn sleeper_passes_a_barrier_only_after_the_hint_was_lowered() {
        let (park, hint) = (AtomicU64::new(0), AtomicU64::new(0));
        let barriers = |hint: &AtomicU64| {
            let before = barriers_of_this_thread();
            assert_eq!(prepare_sleep(&park, Some(hint), || false), Prepared::Sleep);
            barriers_of_this_thread() - before
        };
        assert_eq!([(); 3].map(|()| barriers(&hint)), [1, 0, 0]);
        hint.fetch_and(!(RAISED | COVERED), Ordering::Relaxed);
        assert_eq!([(); 2].map(|()| barriers(&hint)), [1, 0]);
        // Raised, but its sleeper died before its barrier.
        hint.store(RAISED, Ordering::Relaxed);
        assert_eq!([(); 2].map(|()| barriers(&hint)), [1, 0]);
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
