//! Subscriber slots: claiming one, finding a durable one again, clearing those of the dead.
//!
//! A slot belongs to whoever holds its lock. Its words may only be changed by the holder, or by somebody who
//! took the lock because the holder died; so claiming and reclaiming cannot meet.

use super::attached::Attached;
use super::status::Durable;
use crate::clock::monotonic_ns;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::region::Words;
use crate::ring::gate::{bits, clear_slot, set_bit};
use crate::ring::layout::{Geometry, NO_POSITION, control, lock_byte, pack, slot, unpack};
use crate::sync::{Ordering, fence};
use crate::uri::{Config, Delivery, Expire, WaitStrategy};
use std::path::Path;

/// A slot whose lock the caller now holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) index: usize,
    pub(crate) found: Found,
}

/// What a subscriber finds in the slot that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing of its own.
    Nothing,
    /// A durable subscriber came back: its positions are in the slot, and have held publishers back.
    Place,
    /// A durable subscriber came back whose place was taken: its positions are in the slot, and nothing was held back
    /// for it since.
    LostPlace,
}

/// State word of a slot.
pub(crate) fn state(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    words
        .word(geometry.slot(index) + slot::STATE)
        .load(Ordering::Acquire)
}

/// Number of the subscriber in a slot, counted over all that ever had it.
pub(crate) fn ticket(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    // Relaxed: compared only; whoever acts on it holds the membership lock.
    words
        .word(geometry.slot(index) + slot::TICKET)
        .load(Ordering::Relaxed)
}

/// The durable name in a slot, if it has a sound one.
pub(crate) fn name(words: &Words, geometry: &Geometry, index: usize) -> Option<String> {
    let base = geometry.slot(index);
    // Relaxed: written before the state that says it is there.
    let word = |at: usize| words.word(base + at).load(Ordering::Relaxed);
    let text: Vec<u64> = (0..6).map(|n| word(slot::NAME + n)).collect();
    unpack(&text, word(slot::NAME_LENGTH)).filter(|name| !name.is_empty())
}

/// Whether any slot belongs to a durable subscriber, present or not, that has not expired.
pub(crate) fn any_durable(words: &Words, geometry: &Geometry) -> bool {
    (0..geometry.slots()).any(|index| is_kept(words, geometry, index))
}

/// Whether the slot remembers a durable name: with its place, or that the place was taken.
fn is_named(words: &Words, geometry: &Geometry, index: usize) -> bool {
    match state(words, geometry, index) {
        slot::DURABLE => true,
        slot::EVICTED => name(words, geometry, index).is_some(),
        _ => false,
    }
}

/// Whether the slot is kept for a durable name that may come back.
fn is_kept(words: &Words, geometry: &Geometry, index: usize) -> bool {
    is_named(words, geometry, index) && !has_expired(words, geometry, index)
}

/// Whether an absent durable subscriber has been away for longer than it wanted to be waited for.
fn has_expired(words: &Words, geometry: &Geometry, index: usize) -> bool {
    let base = geometry.slot(index);
    // Relaxed: times, compared with a clock.
    let since = words
        .word(base + slot::ABSENT_SINCE)
        .load(Ordering::Relaxed);
    let expire = words.word(base + slot::EXPIRE_NS).load(Ordering::Relaxed);
    since != 0 && expire != 0 && monotonic_ns().saturating_sub(since) >= expire
}

/// Whether a durable slot has a position in every lane, also in those that do not exist yet.
fn has_positions(words: &Words, geometry: &Geometry, index: usize) -> bool {
    (0..geometry.lanes()).all(|lane| {
        // Relaxed: only its owner writes it, and that lock is ours.
        let position = words.word(geometry.position(index, lane));
        position.load(Ordering::Relaxed) != NO_POSITION
    })
}

/// What is left of a durable name's place.
fn found(words: &Words, geometry: &Geometry, index: usize) -> Found {
    let gates = is_gating(words, geometry, index);
    match (
        state(words, geometry, index),
        has_positions(words, geometry, index),
    ) {
        (_, false) => Found::Nothing,
        (slot::DURABLE, true) if gates => Found::Place,
        _ => Found::LostPlace,
    }
}

/// Whether the slot holds publishers back.
fn is_gating(words: &Words, geometry: &Geometry, index: usize) -> bool {
    bits(words, control::GATING, geometry.slots()).any(|gating| gating == index)
}

/// How often a slot that somebody else holds is tried again before it counts as taken.
const TAKE_TRIES: u32 = 1000;
/// How often the slots are looked through for one whose lock is not just being looked at.
const CLAIM_ROUNDS: usize = 16;

/// Takes a slot for a new or returning subscriber. The caller holds the membership lock.
pub(crate) fn claim(
    words: &Words,
    geometry: &Geometry,
    locks: &Locks,
    config: &Config,
    channel: &str,
    path: &Path,
) -> Result<Claimed, OpenError> {
    if let Some(wanted) = &config.name
        && let Some(index) = take_durable(words, geometry, locks, wanted, path)?
    {
        let found = found(words, geometry, index);
        if found == Found::Nothing {
            clear_slot(words, geometry, index);
        }
        describe(words, geometry, index, config);
        return Ok(Claimed { index, found });
    }
    // Free ones first, then those of the dead. A publisher that is held back by a dead one looks at its slot now and
    // then, for microseconds.
    for want_free in [true].into_iter().chain([false; CLAIM_ROUNDS]) {
        for index in 0..geometry.slots() {
            if want_free != (state(words, geometry, index) == slot::FREE)
                || is_kept(words, geometry, index)
                || !lock(locks, index, path)?
            {
                continue;
            }
            // Again, now that it is ours; also undoes what a claimer that died half way left.
            clear_slot(words, geometry, index);
            describe(words, geometry, index, config);
            return Ok(Claimed {
                index,
                found: Found::Nothing,
            });
        }
        std::thread::yield_now();
    }
    Err(OpenError::SubscribersFull {
        channel: channel.to_owned(),
        max: geometry.subscribers_max,
    })
}

/// Takes the lock of a slot; `false` if somebody else has it.
fn lock(locks: &Locks, index: usize, path: &Path) -> Result<bool, OpenError> {
    locks
        .try_lock(lock_byte::SLOT + index as u64)
        .map_err(|source| OpenError::Io {
            action: "lock",
            path: path.to_owned(),
            source,
        })
}

/// Takes the lock of the slot of the durable subscriber `wanted`; `None` if there is none. The caller holds the
/// membership lock.
///
/// # Errors
///
/// [`OpenError::NameInUse`] if that one is attached.
pub(crate) fn take_durable(
    words: &Words,
    geometry: &Geometry,
    locks: &Locks,
    wanted: &str,
    path: &Path,
) -> Result<Option<usize>, OpenError> {
    let is_wanted = |index: usize| {
        is_named(words, geometry, index) && name(words, geometry, index).as_deref() == Some(wanted)
    };
    for index in 0..geometry.slots() {
        if !is_wanted(index) {
            continue;
        }
        // A publisher that is held back looks at the slot now and then, for microseconds.
        let mut tries = 0;
        while !lock(locks, index, path)? {
            if tries == TAKE_TRIES {
                let pid = words
                    .word(geometry.slot(index) + slot::PID)
                    .load(Ordering::Relaxed);
                return Err(OpenError::NameInUse {
                    name: wanted.to_owned(),
                    pid,
                });
            }
            std::thread::yield_now();
            tries += 1;
        }
        // Again, now that it is ours: a publisher may have cleared it because it had expired.
        if is_wanted(index) {
            return Ok(Some(index));
        }
        locks.unlock(lock_byte::SLOT + index as u64);
    }
    Ok(None)
}

/// Writes who the subscriber is; its state comes last, in [`attach`].
fn describe(words: &Words, geometry: &Geometry, index: usize, config: &Config) {
    let base = geometry.slot(index);
    // Relaxed: published by the state word or the bitmaps.
    let store = |at: usize, value: u64| words.word(base + at).store(value, Ordering::Relaxed);
    store(slot::TICKET, ticket(words, geometry, index).wrapping_add(1));
    store(slot::PID, u64::from(std::process::id()));
    store(slot::PID_SPACE, crate::wait::warden::pid_space());
    store(
        slot::DELIVERY,
        u64::from(config.delivery == Delivery::Latest),
    );
    store(
        slot::WAIT,
        WaitStrategy::ALL
            .iter()
            .position(|wait| *wait == config.wait)
            .unwrap_or(0) as u64,
    );
    store(slot::ABSENT_SINCE, 0);
    store(
        slot::EXPIRE_NS,
        match config.expire {
            Expire::Never => 0,
            Expire::After(after) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX).max(1),
        },
    );
    if let Some(name) = &config.name {
        let mut text = [0; 6];
        pack(name.as_bytes(), &mut text);
        for (n, word) in text.into_iter().enumerate() {
            store(slot::NAME + n, word);
        }
        store(slot::NAME_LENGTH, name.len() as u64);
    }
}

/// The words in which a durable name keeps what it missed. Only the holder of the slot's lock writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed<'a> {
    words: &'a Words,
    base: usize,
}

impl<'a> Missed<'a> {
    pub(crate) fn of(words: &'a Words, geometry: &Geometry, index: usize) -> Self {
        Self {
            words,
            base: geometry.slot(index),
        }
    }

    fn get(self, at: usize) -> u64 {
        // Relaxed: under the slot's lock, here and below.
        self.words.word(self.base + at).load(Ordering::Relaxed)
    }

    fn set(self, at: usize, value: u64) {
        self.words
            .word(self.base + at)
            .store(value, Ordering::Relaxed);
    }

    /// More was missed. A death before the position that says so is stored counts it again, and never too little.
    pub(crate) fn add(self, bytes: u64) {
        let missed = self.get(slot::MISSED_BYTES).wrapping_add(bytes);
        self.set(slot::MISSED_BYTES, missed);
    }

    /// Bytes that no subscriber of the name was told.
    fn untold(self) -> u64 {
        self.get(slot::MISSED_BYTES)
            .wrapping_sub(self.get(slot::TOLD_BYTES))
    }

    /// Whoever has the name was told of everything that it missed.
    pub(crate) fn tell(self) {
        self.set(slot::TOLD_BYTES, self.get(slot::MISSED_BYTES));
    }

    /// The subscriber that lost its place leaves, and was told.
    pub(crate) fn tell_evicted(self) {
        self.set(slot::TOLD_EVICTED, 1);
    }

    /// What a durable subscriber has to know when it comes back, and whether it still has to be told by an error.
    fn take(self) -> (u64, bool) {
        let untold = self.untold();
        let was_told = self.get(slot::TOLD_EVICTED) != 0;
        if was_told {
            self.tell();
            self.set(slot::TOLD_EVICTED, 0);
        }
        (untold, untold > 0 && !was_told)
    }
}

/// What opening says to a durable subscriber about its name, and whether its first call that receives says so too.
/// `is_doubtful` if a place of the name was not as the name had left it.
pub(crate) fn news(
    words: &Words,
    geometry: &Geometry,
    claimed: Claimed,
    is_doubtful: bool,
) -> (Durable, bool) {
    let (bytes, must_tell) = Missed::of(words, geometry, claimed.index).take();
    let must_tell = must_tell || is_doubtful;
    let durable = match claimed.found {
        _ if bytes > 0 || is_doubtful => Durable::LostPlace { bytes },
        Found::Nothing => Durable::Created,
        Found::Place | Found::LostPlace => Durable::Resumed,
    };
    (durable, must_tell)
}

/// Says that the slot is in use, once its positions are in place.
pub(crate) fn attach(words: &Words, geometry: &Geometry, index: usize, durable: bool) {
    let kind = if durable {
        slot::DURABLE
    } else {
        slot::ATTACHED
    };
    words
        .word(geometry.slot(index) + slot::STATE)
        .store(kind, Ordering::Release);
    set_bit(words, control::ATTACHED, index, true);
}

/// Whether a slot's subscriber has not taken its place in every lane yet.
pub(crate) fn is_joining(words: &Words, geometry: &Geometry, index: usize) -> bool {
    state(words, geometry, index) == slot::FREE
}

/// What a publisher found about a subscriber that holds it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It lives: wait.
    Wait,
    /// A durable one that is away and may come back: wait.
    Absent,
    /// It was dead; its slot is free now.
    Reclaimed,
    /// It was too slow; it no longer holds anybody back.
    Evicted,
}

/// Judges the subscriber in slot `index`. `late` is the ticket of one whose time is over.
pub(crate) fn judge(attached: &Attached, index: usize, late: Option<u64>) -> Verdict {
    let Attached {
        control: words,
        geometry,
        locks,
        ..
    } = attached;
    let byte = lock_byte::SLOT + index as u64;
    if locks.held_by_others(byte, byte + 1) {
        return late.map_or(Verdict::Wait, |ticket| {
            evict(words, geometry, locks, index, ticket)
        });
    }
    // Nobody holds it: take it, so that nobody claims it while it is cleared. Refused also where another thread of
    // this handle is doing so.
    if !locks.try_lock(byte).unwrap_or(false) {
        return Verdict::Wait;
    }
    let verdict = judge_dead(words, geometry, index, late);
    locks.unlock(byte);
    verdict
}

/// Judges a subscriber that does not live. The caller holds the slot's lock.
fn judge_dead(words: &Words, geometry: &Geometry, index: usize, late: Option<u64>) -> Verdict {
    let count = |counter: usize| {
        // Relaxed: a counter.
        words.word(counter).fetch_add(1, Ordering::Relaxed);
    };
    if !is_named(words, geometry, index) {
        clear_slot(words, geometry, index);
        count(control::RECLAIMS);
        return Verdict::Reclaimed;
    }
    note_absence(words, geometry, index);
    let has_place = state(words, geometry, index) == slot::DURABLE;
    if has_place && late.is_some_and(|late| late == ticket(words, geometry, index)) {
        take_place(words, geometry, index);
        count(control::EVICTIONS);
        return Verdict::Evicted;
    }
    // One without a place that gates died on its way back to it, or whoever took the place did.
    if !has_place || has_expired(words, geometry, index) {
        take_place(words, geometry, index);
        count(control::RECLAIMS);
        return Verdict::Reclaimed;
    }
    Verdict::Absent
}

/// Takes the place of a subscriber away; its positions stay, and what they are worth is told by its state.
fn take_place(words: &Words, geometry: &Geometry, index: usize) {
    // Release: before the bit goes, so that no name that comes back takes its place for one that was kept.
    words
        .word(geometry.slot(index) + slot::STATE)
        .store(slot::EVICTED, Ordering::Release);
    crate::points::pass("evict.state_stored");
    set_bit(words, control::GATING, index, false);
}

/// Takes the place of the subscriber with this ticket away. Its own words stay its own; only what gates goes.
fn evict(words: &Words, geometry: &Geometry, locks: &Locks, index: usize, ticket: u64) -> Verdict {
    // Whoever comes or goes holds this lock: while it is ours, the slot keeps its owner. Somebody else's turn
    // takes microseconds; the next look comes soon.
    if !locks.try_lock(lock_byte::MEMBERSHIP).unwrap_or(false) {
        return Verdict::Wait;
    }
    let byte = lock_byte::SLOT + index as u64;
    let is_the_one = self::ticket(words, geometry, index) == ticket
        && matches!(
            state(words, geometry, index),
            // Evicted and still gating: by somebody who died in between.
            slot::ATTACHED | slot::DURABLE | slot::EVICTED
        )
        && is_gating(words, geometry, index)
        && locks.held_by_others(byte, byte + 1);
    if is_the_one {
        take_place(words, geometry, index);
        // SeqCst: SLEEP by a fence of our own: the state comes before the look at the park word.
        fence(Ordering::SeqCst);
        crate::wait::wake(words.word(geometry.slot(index) + slot::PARK));
        // Relaxed: a counter.
        words
            .word(control::EVICTIONS)
            .fetch_add(1, Ordering::Relaxed);
    }
    locks.unlock(lock_byte::MEMBERSHIP);
    if is_the_one {
        Verdict::Evicted
    } else {
        Verdict::Wait
    }
}

/// Starts the clock of an absent durable subscriber, unless it runs already. The caller holds the slot's lock or
/// the membership lock.
pub(crate) fn note_absence(words: &Words, geometry: &Geometry, index: usize) {
    let since = words.word(geometry.slot(index) + slot::ABSENT_SINCE);
    // Relaxed: a time, under a lock.
    if since.load(Ordering::Relaxed) == 0 {
        since.store(monotonic_ns(), Ordering::Relaxed);
    }
}

/// Starts the clocks of all durable subscribers that died: they could not do it themselves. The caller holds the
/// membership lock, so that none of them is coming back meanwhile.
pub(crate) fn note_absences(attached: &Attached) {
    let Attached {
        control, geometry, ..
    } = attached;
    for index in 0..geometry.slots() {
        let byte = lock_byte::SLOT + index as u64;
        if is_named(control, geometry, index) && !attached.locks.held_by_others(byte, byte + 1) {
            note_absence(control, geometry, index);
        }
    }
}

#[cfg(test)]
mod tests;
