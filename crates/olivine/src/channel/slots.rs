//! Subscriber slots: claiming one, finding a durable one again, clearing those of the dead.
//!
//! A slot belongs to whoever holds its lock. Its words may only be changed by the holder, or by somebody who
//! took the lock because the holder died; so claiming and reclaiming cannot meet.

use super::attached::Attached;
use crate::clock::monotonic_ns;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::region::Words;
use crate::ring::gate::{bits, clear_slot, set_bit};
use crate::ring::layout::{Geometry, NO_POSITION, control, lock_byte, pack, slot, unpack};
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Expire, WaitStrategy};
use std::path::Path;

/// A slot whose lock the caller now holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) index: usize,
    /// A durable subscriber came back: its positions are in the slot.
    pub(crate) resumed: bool,
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
    (0..geometry.slots()).any(|index| {
        state(words, geometry, index) == slot::DURABLE && !has_expired(words, geometry, index)
    })
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

/// Whether a durable slot gates and has a position in every lane, also in those that do not exist yet: only then has
/// it missed nothing.
fn has_places(words: &Words, geometry: &Geometry, index: usize) -> bool {
    is_gating(words, geometry, index)
        && (0..geometry.lanes()).all(|lane| {
            // Relaxed: only its owner writes it, and that lock is ours.
            let position = words.word(geometry.position(index, lane));
            position.load(Ordering::Relaxed) != NO_POSITION
        })
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
        let resumed = has_places(words, geometry, index);
        if !resumed {
            clear_slot(words, geometry, index);
        }
        describe(words, geometry, index, config);
        return Ok(Claimed { index, resumed });
    }
    // Free ones first, then those of the dead. A publisher that is held back by a dead one looks at its slot now and
    // then, for microseconds.
    for want_free in [true].into_iter().chain([false; CLAIM_ROUNDS]) {
        for index in 0..geometry.slots() {
            let found = state(words, geometry, index);
            if want_free != (found == slot::FREE)
                || (found == slot::DURABLE && !has_expired(words, geometry, index))
                || !lock(locks, index, path)?
            {
                continue;
            }
            // Again, now that it is ours; also undoes what a claimer that died half way left.
            clear_slot(words, geometry, index);
            describe(words, geometry, index, config);
            return Ok(Claimed {
                index,
                resumed: false,
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
        state(words, geometry, index) == slot::DURABLE
            && name(words, geometry, index).as_deref() == Some(wanted)
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

/// Judges the subscriber in slot `index`. `suspect` is the ticket of the one that has been in the way, and for
/// how many nanoseconds.
pub(crate) fn judge(attached: &Attached, index: usize, suspect: Option<(u64, u64)>) -> Verdict {
    let Attached {
        control: words,
        geometry,
        locks,
        ..
    } = attached;
    let byte = lock_byte::SLOT + index as u64;
    if locks.held_by_others(byte, byte + 1) {
        return match suspect {
            Some((ticket, held)) if held >= geometry.evict_after_ns.max(1) => {
                evict(words, geometry, locks, index, ticket)
            }
            _ => Verdict::Wait,
        };
    }
    // Nobody holds it: take it, so that nobody claims it while it is cleared.
    if !locks.try_lock(byte).unwrap_or(false) {
        return Verdict::Wait;
    }
    let verdict =
        if state(words, geometry, index) == slot::DURABLE && !has_expired(words, geometry, index) {
            note_absence(words, geometry, index);
            Verdict::Absent
        } else {
            clear_slot(words, geometry, index);
            words
                .word(control::RECLAIMS)
                .fetch_add(1, Ordering::Relaxed);
            Verdict::Reclaimed
        };
    locks.unlock(byte);
    verdict
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
        words
            .word(geometry.slot(index) + slot::STATE)
            .store(slot::EVICTED, Ordering::Release);
        set_bit(words, control::GATING, index, false);
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
        if state(control, geometry, index) == slot::DURABLE
            && !attached.locks.held_by_others(byte, byte + 1)
        {
            note_absence(control, geometry, index);
        }
    }
}
