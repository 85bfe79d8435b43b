//! Subscriber slots: how a subscriber claims one, how a durable name finds its slot again, how the
//! slots of the dead are cleared.
//!
//! A slot belongs to the holder of its lock. Only the holder changes the slot's words, or a
//! participant that took the lock after the holder's death. So a claim and a reclaim never run at
//! the same time.

use super::attached::Attached;
use super::status::Durable;
use crate::clock::monotonic_ns;
use crate::error::{OpenError, holders, process};
use crate::liveness::Locks;
use crate::region::Words;
use crate::ring::gate::{bits, clear_slot, set_bit};
use crate::ring::layout::{Geometry, NO_POSITION, control, lock_byte, pack, slot, unpack};
use crate::sync::{Ordering, fence};
use crate::uri::{Config, Delivery, Expire, WaitStrategy};
use crate::wait::warden;
use std::path::Path;
use std::time::Duration;

/// A slot whose lock the caller holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) index: usize,
    pub(crate) found: Found,
}

/// The state of the slot that a subscriber takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No place of this name.
    Nothing,
    /// The place of a durable name: positions that have held publishers back since the name left.
    Place,
    /// The lost place of a durable name: positions that have not held publishers back since the
    /// loss.
    LostPlace,
}

/// State word of a slot.
pub(crate) fn state(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    words
        .word(geometry.slot(index) + slot::STATE)
        .load(Ordering::Acquire)
}

/// Number of the subscriber in a slot, counted over all subscribers of the slot.
pub(crate) fn ticket(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    // Relaxed: only compared; a participant that acts on it holds the membership lock.
    words
        .word(geometry.slot(index) + slot::TICKET)
        .load(Ordering::Relaxed)
}

/// The durable name in a slot, if it has a valid one.
pub(crate) fn name(words: &Words, geometry: &Geometry, index: usize) -> Option<String> {
    let base = geometry.slot(index);
    // Relaxed: written before the state that announces it.
    let word = |at: usize| words.word(base + at).load(Ordering::Relaxed);
    let length = word(slot::NAME_LENGTH);
    if length == 0 {
        return None;
    }
    let text: [u64; 6] = core::array::from_fn(|n| word(slot::NAME + n));
    unpack(&text, length).filter(|name| !name.is_empty())
}

/// Whether any slot belongs to a durable subscriber that has not expired, present or absent.
pub(crate) fn any_durable(words: &Words, geometry: &Geometry) -> bool {
    (0..geometry.slots()).any(|index| is_kept(words, geometry, index))
}

/// Whether the slot holds a durable name, with its place or without.
fn is_named(words: &Words, geometry: &Geometry, index: usize) -> bool {
    match state(words, geometry, index) {
        slot::DURABLE => true,
        slot::EVICTED => name(words, geometry, index).is_some(),
        _ => false,
    }
}

/// Whether the slot is kept for a durable name that may return.
fn is_kept(words: &Words, geometry: &Geometry, index: usize) -> bool {
    is_named(words, geometry, index) && !has_expired(words, geometry, index)
}

/// Whether a durable subscriber has been absent for longer than its `expire=`.
fn has_expired(words: &Words, geometry: &Geometry, index: usize) -> bool {
    expires_in(words, geometry, index).is_some_and(|left| left.is_zero())
}

/// When an absent durable subscriber expires; `None` if it is present, or never expires.
pub(super) fn expires_in(words: &Words, geometry: &Geometry, index: usize) -> Option<Duration> {
    let base = geometry.slot(index);
    // Relaxed: times, compared with a clock.
    let since = words
        .word(base + slot::ABSENT_SINCE)
        .load(Ordering::Relaxed);
    let expire = words.word(base + slot::EXPIRE_NS).load(Ordering::Relaxed);
    let absent = monotonic_ns().saturating_sub(since);
    let left = Duration::from_nanos(expire.saturating_sub(absent));
    (since != 0 && expire != 0).then_some(left)
}

/// A durable name whose place no handle uses.
#[cfg(feature = "tcp")]
#[derive(Clone, Debug)]
pub(crate) struct AbsentName {
    pub(crate) name: String,
    pub(crate) expire: Expire,
    /// When it was found to be away, in [`monotonic_ns`]; 0 if no participant has looked yet.
    pub(crate) since: u64,
}

#[cfg(feature = "tcp")]
impl AbsentName {
    /// How long its place is kept from now on; `None` for ever.
    pub(crate) fn left(&self) -> Option<Duration> {
        match (self.expire, self.since) {
            (Expire::Never, _) => None,
            (Expire::After(after), 0) => Some(after),
            (Expire::After(after), since) => {
                let away = Duration::from_nanos(monotonic_ns().saturating_sub(since));
                Some(after.saturating_sub(away))
            }
        }
    }
}

/// The durable names that are away and have neither expired nor lost their place.
#[cfg(feature = "tcp")]
pub(crate) fn absent_names(attached: &Attached) -> Vec<AbsentName> {
    let Attached {
        control: words,
        geometry,
        locks,
        ..
    } = attached;
    let absent = |index: usize| {
        let byte = lock_byte::SLOT + index as u64;
        let is_away = state(words, geometry, index) == slot::DURABLE
            && is_kept(words, geometry, index)
            && !locks.held_by_others(byte, byte + 1);
        let name = is_away.then(|| name(words, geometry, index)).flatten()?;
        // Relaxed: times.
        let word = |at: usize| {
            words
                .word(geometry.slot(index) + at)
                .load(Ordering::Relaxed)
        };
        let expire = match word(slot::EXPIRE_NS) {
            0 => Expire::Never,
            after => Expire::After(Duration::from_nanos(after)),
        };
        let since = word(slot::ABSENT_SINCE);
        Some(AbsentName {
            name,
            expire,
            since,
        })
    };
    (0..geometry.slots()).filter_map(absent).collect()
}

/// Whether a durable slot has a position in every lane, also in lanes that do not exist yet.
fn has_positions(words: &Words, geometry: &Geometry, index: usize) -> bool {
    (0..geometry.lanes()).all(|lane| {
        // Relaxed: only its owner writes it, and we hold its lock.
        let position = words.word(geometry.position(index, lane));
        position.load(Ordering::Relaxed) != NO_POSITION
    })
}

/// What is left of the place of a durable name.
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

/// Number of tries for the lock of a slot before the slot counts as taken.
const TAKE_TRIES: u32 = 1000;
/// Number of rounds over all slots in search of a free lock.
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
    if let Some(durable_name) = &config.name
        && let Some(index) = take_durable(words, geometry, locks, durable_name, path)?
    {
        let found = found(words, geometry, index);
        if found == Found::Nothing {
            clear_slot(words, geometry, index);
        }
        describe(words, geometry, index, config);
        return Ok(Claimed { index, found });
    }
    // Free slots first, then those of the dead. A publisher that a dead subscriber blocks holds the
    // lock of that slot for microseconds now and then.
    for take_free in [true].into_iter().chain([false; CLAIM_ROUNDS]) {
        for index in 0..geometry.slots() {
            if take_free != (state(words, geometry, index) == slot::FREE)
                || is_kept(words, geometry, index)
                || !lock(locks, index, path)?
            {
                continue;
            }
            // Again, now that we hold the lock. This also clears what a claimer that died half way
            // left.
            clear_slot(words, geometry, index);
            describe(words, geometry, index, config);
            return Ok(Claimed {
                index,
                found: Found::Nothing,
            });
        }
        std::thread::yield_now();
    }
    let holder = |index: usize| {
        let byte = lock_byte::SLOT + index as u64;
        let name = name(words, geometry, index).filter(|_| is_kept(words, geometry, index));
        match name.filter(|_| !locks.held_by_others(byte, byte + 1)) {
            Some(name) => format!("the absent name '{}'", name.escape_default()),
            None if state(words, geometry, index) == slot::FREE => {
                "a slot that is free by now".to_owned()
            }
            None => process(
                pid(words, geometry, index),
                pid_space(words, geometry, index) == warden::pid_space(),
            ),
        }
    };
    Err(OpenError::SubscribersFull {
        channel: channel.to_owned(),
        max: geometry.subscribers_max,
        holders: holders((0..geometry.slots()).map(holder)),
    })
}

/// The process of a slot's subscriber: for texts only.
fn pid(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    // Relaxed: it proves nothing.
    let pid = words.word(geometry.slot(index) + slot::PID);
    pid.load(Ordering::Relaxed)
}

/// The PID namespace of a slot's subscriber: for texts only.
fn pid_space(words: &Words, geometry: &Geometry, index: usize) -> u64 {
    // Relaxed: it proves nothing.
    let space = words.word(geometry.slot(index) + slot::PID_SPACE);
    space.load(Ordering::Relaxed)
}

/// Takes the lock of a slot; `false` if another participant holds it.
fn lock(locks: &Locks, index: usize, path: &Path) -> Result<bool, OpenError> {
    locks
        .try_lock(lock_byte::SLOT + index as u64)
        .map_err(|source| OpenError::Io {
            action: "lock",
            path: path.to_owned(),
            source,
        })
}

/// Takes the lock of the slot of the durable subscriber `durable_name`; `None` if there is no such
/// slot. The caller holds the membership lock.
///
/// # Errors
///
/// [`OpenError::NameInUse`] if that subscriber is attached.
pub(crate) fn take_durable(
    words: &Words,
    geometry: &Geometry,
    locks: &Locks,
    durable_name: &str,
    path: &Path,
) -> Result<Option<usize>, OpenError> {
    let has_name = |index: usize| {
        is_named(words, geometry, index)
            && name(words, geometry, index).as_deref() == Some(durable_name)
    };
    for index in 0..geometry.slots() {
        if !has_name(index) {
            continue;
        }
        // A blocked publisher holds the lock of the slot for microseconds now and then.
        let mut tries = 0;
        while !lock(locks, index, path)? {
            if tries == TAKE_TRIES {
                let pid = pid(words, geometry, index);
                return Err(OpenError::NameInUse {
                    name: durable_name.to_owned(),
                    pid,
                });
            }
            std::thread::yield_now();
            tries += 1;
        }
        // Again, now that we hold the lock: a publisher may have cleared the expired slot.
        if has_name(index) {
            return Ok(Some(index));
        }
        locks.unlock(lock_byte::SLOT + index as u64);
    }
    Ok(None)
}

/// The word of an `expire=`; 0 for never.
fn expire_ns(expire: Expire) -> u64 {
    match expire {
        Expire::Never => 0,
        Expire::After(after) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX).max(1),
    }
}

/// The durable subscriber of a slot has another `expire=` from now on. The caller holds the slot's
/// lock.
#[cfg(feature = "tcp")]
pub(crate) fn set_expire(words: &Words, geometry: &Geometry, index: usize, expire: Expire) {
    let word = words.word(geometry.slot(index) + slot::EXPIRE_NS);
    // Relaxed: a time, under a lock.
    word.store(expire_ns(expire), Ordering::Relaxed);
}

/// Writes the description of the subscriber. Its state comes last, in [`attach`].
fn describe(words: &Words, geometry: &Geometry, index: usize, config: &Config) {
    let base = geometry.slot(index);
    // Relaxed: published by the state word or the bitmaps.
    let store = |at: usize, value: u64| words.word(base + at).store(value, Ordering::Relaxed);
    store(slot::TICKET, ticket(words, geometry, index).wrapping_add(1));
    store(slot::PID, u64::from(std::process::id()));
    store(slot::PID_SPACE, warden::pid_space());
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
    store(slot::EXPIRE_NS, expire_ns(config.expire));
    if let Some(name) = &config.name {
        let mut text = [0; 6];
        pack(name.as_bytes(), &mut text);
        for (n, word) in text.into_iter().enumerate() {
            store(slot::NAME + n, word);
        }
        store(slot::NAME_LENGTH, name.len() as u64);
    }
}

/// The words that count what a durable name missed. Only the holder of the slot's lock writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissedBytes<'a> {
    words: &'a Words,
    base: usize,
}

impl<'a> MissedBytes<'a> {
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

    /// Counts `bytes` more as missed. The caller stores the position afterwards: a death in between
    /// counts the bytes twice, never too few.
    pub(crate) fn add(self, bytes: u64) {
        let missed = self.get(slot::MISSED_BYTES).wrapping_add(bytes);
        self.set(slot::MISSED_BYTES, missed);
    }

    /// Missed bytes that were not reported to a subscriber of the name.
    fn unreported(self) -> u64 {
        self.get(slot::MISSED_BYTES)
            .wrapping_sub(self.get(slot::TOLD_BYTES))
    }

    /// Everything that was missed counts as reported.
    pub(crate) fn mark_reported(self) {
        self.set(slot::TOLD_BYTES, self.get(slot::MISSED_BYTES));
    }

    /// The evicted subscriber leaves, and the eviction was reported to it.
    pub(crate) fn mark_eviction_reported(self) {
        self.set(slot::TOLD_EVICTED, 1);
    }

    /// The missed bytes for a durable subscriber that returns, and whether an error must still
    /// report them.
    fn take(self) -> (u64, bool) {
        let unreported = self.unreported();
        let was_reported = self.get(slot::TOLD_EVICTED) != 0;
        if was_reported {
            self.mark_reported();
            self.set(slot::TOLD_EVICTED, 0);
        }
        (unreported, unreported > 0 && !was_reported)
    }
}

/// The result of opening for a durable name, and whether its first receiving call must report a
/// loss. `place_changed`: a position was not as the name had left it.
pub(crate) fn durable_status(
    words: &Words,
    geometry: &Geometry,
    claimed: Claimed,
    place_changed: bool,
) -> (Durable, bool) {
    let (bytes, must_report) = MissedBytes::of(words, geometry, claimed.index).take();
    let must_report = must_report || place_changed;
    let durable = match claimed.found {
        _ if bytes > 0 || place_changed => Durable::LostPlace { bytes },
        Found::Nothing => Durable::Created,
        Found::Place | Found::LostPlace => Durable::Resumed,
    };
    (durable, must_report)
}

/// Marks the slot as used, once its positions are stored.
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

/// Whether the slot's subscriber does not have a position in every lane yet.
pub(crate) fn is_joining(words: &Words, geometry: &Geometry, index: usize) -> bool {
    state(words, geometry, index) == slot::FREE
}

/// The result of a publisher's check of a subscriber that blocks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotCheck {
    /// It lives: wait.
    Wait,
    /// It is durable and absent, and may return: wait.
    Absent,
    /// It was dead; its slot is free now.
    Reclaimed,
    /// It was too slow; it no longer holds publishers back.
    Evicted,
}

/// Checks the subscriber in slot `index`. `overdue` is the ticket of a subscriber whose time is
/// over.
pub(crate) fn reclaim_or_evict(
    attached: &Attached,
    index: usize,
    overdue: Option<u64>,
) -> SlotCheck {
    let Attached {
        control: words,
        geometry,
        locks,
        ..
    } = attached;
    let byte = lock_byte::SLOT + index as u64;
    if locks.held_by_others(byte, byte + 1) {
        return overdue.map_or(SlotCheck::Wait, |ticket| {
            evict(words, geometry, locks, index, ticket)
        });
    }
    // No participant holds the lock: take it, so that the slot is not claimed while it is cleared.
    // This fails if another thread of this handle holds it.
    if !locks.try_lock(byte).unwrap_or(false) {
        return SlotCheck::Wait;
    }
    let check = reclaim_dead(words, geometry, index, overdue);
    locks.unlock(byte);
    check
}

/// Handles a subscriber that does not live. The caller holds the slot's lock.
fn reclaim_dead(
    words: &Words,
    geometry: &Geometry,
    index: usize,
    overdue: Option<u64>,
) -> SlotCheck {
    let count = |counter: usize| {
        // Relaxed: a counter.
        words.word(counter).fetch_add(1, Ordering::Relaxed);
    };
    if !is_named(words, geometry, index) {
        clear_slot(words, geometry, index);
        count(control::RECLAIMS);
        return SlotCheck::Reclaimed;
    }
    note_absence(words, geometry, index);
    let has_place = state(words, geometry, index) == slot::DURABLE;
    if has_place && overdue.is_some_and(|overdue| overdue == ticket(words, geometry, index)) {
        stop_gating(words, geometry, index);
        count(control::EVICTIONS);
        return SlotCheck::Evicted;
    }
    // A name without a gating place died on its way back, or the participant that took its place
    // died.
    if !has_place || has_expired(words, geometry, index) {
        stop_gating(words, geometry, index);
        count(control::RECLAIMS);
        return SlotCheck::Reclaimed;
    }
    SlotCheck::Absent
}

/// Takes the place away: the slot does not gate any more. The positions stay, and the state says
/// that they are not held.
fn stop_gating(words: &Words, geometry: &Geometry, index: usize) {
    // Release: the state comes before the bit is cleared. So a name that returns does not take a
    // lost place for a kept one.
    words
        .word(geometry.slot(index) + slot::STATE)
        .store(slot::EVICTED, Ordering::Release);
    crate::points::pass("evict.state_stored");
    set_bit(words, control::GATING, index, false);
}

/// Evicts the subscriber with this ticket. Only its gating ends; it keeps its own words.
fn evict(
    words: &Words,
    geometry: &Geometry,
    locks: &Locks,
    index: usize,
    ticket: u64,
) -> SlotCheck {
    // A participant holds this lock while it joins or leaves, so the slot keeps its owner while we
    // hold it. If it is taken, the next check comes soon.
    if !locks.try_lock(lock_byte::MEMBERSHIP).unwrap_or(false) {
        return SlotCheck::Wait;
    }
    let byte = lock_byte::SLOT + index as u64;
    let is_same = self::ticket(words, geometry, index) == ticket
        && matches!(
            state(words, geometry, index),
            // Evicted but still gating: the participant that evicted it died in between.
            slot::ATTACHED | slot::DURABLE | slot::EVICTED
        )
        && is_gating(words, geometry, index)
        && locks.held_by_others(byte, byte + 1);
    if is_same {
        stop_gating(words, geometry, index);
        // SeqCst: SLEEP by a fence here: the state comes before the load of the park word.
        fence(Ordering::SeqCst);
        crate::wait::wake(words.word(geometry.slot(index) + slot::PARK));
        // Relaxed: a counter.
        words
            .word(control::EVICTIONS)
            .fetch_add(1, Ordering::Relaxed);
    }
    locks.unlock(lock_byte::MEMBERSHIP);
    if is_same {
        SlotCheck::Evicted
    } else {
        SlotCheck::Wait
    }
}

/// Starts the clock of an absent durable subscriber, unless it runs already. The caller holds the
/// slot's lock or the membership lock.
pub(crate) fn note_absence(words: &Words, geometry: &Geometry, index: usize) {
    let since = words.word(geometry.slot(index) + slot::ABSENT_SINCE);
    // Relaxed: a time, under a lock.
    if since.load(Ordering::Relaxed) == 0 {
        since.store(monotonic_ns(), Ordering::Relaxed);
    }
}

/// The clock of a durable subscriber runs since then: it never came back. The caller holds the
/// slot's lock.
#[cfg(feature = "tcp")]
pub(crate) fn keep_absence(words: &Words, geometry: &Geometry, index: usize, since: u64) {
    let word = words.word(geometry.slot(index) + slot::ABSENT_SINCE);
    // Relaxed: a time, under a lock.
    word.store(since, Ordering::Relaxed);
}

/// Starts the clocks of all dead durable subscribers, which could not do that themselves. The
/// caller holds the membership lock, so none of them returns meanwhile.
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
