//! The gate: how far a lane's publisher may write before it would overrun a reliable subscriber.
//!
//! Scanned only when the cached limit is used up, about once per lap, and only over the slots whose
//! gating bit is set, so idle slots cost nothing.

use super::layout::{Geometry, NO_POSITION, control, slot};
use crate::region::Words;
use crate::sync::{Ordering, fence, mutant, unless};

/// One lane's view of the positions that hold it back.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    control: Words,
    geometry: Geometry,
    lane: usize,
}

/// The slowest subscriber of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowest {
    pub(crate) slot: usize,
    pub(crate) position: u64,
}

impl Gate {
    /// The control words.
    pub(crate) fn control(&self) -> &Words {
        &self.control
    }

    /// The shape of the channel.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn new(control: Words, geometry: Geometry, lane: usize) -> Self {
        Self {
            control,
            geometry,
            lane,
        }
    }

    /// The slots that gate this lane, with their positions.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        bits(&self.control, control::GATING, self.geometry.slots()).filter_map(|slot| {
            let position = self.control.word(self.geometry.position(slot, self.lane));
            // REUSE (acquire): pairs with the release store in `Consumer::release`. What the subscriber read
            // before it let go of these bytes happens before we overwrite them.
            let position = position.load(unless(mutant("reuse_scan_relaxed"), Ordering::Acquire));
            (position != NO_POSITION).then_some((slot, position))
        })
    }

    /// The slowest gating subscriber, or `None` if nobody gates.
    pub(crate) fn slowest(&self) -> Option<Slowest> {
        self.positions()
            .min_by_key(|(_, position)| *position)
            .map(|(slot, position)| Slowest { slot, position })
    }

    /// Number of subscribers that gate. One that still joins does not count: it has not taken its place in every lane.
    pub(crate) fn count(&self) -> usize {
        let slots = bits(&self.control, control::GATING, self.geometry.slots());
        let has_joined = |slot: &usize| {
            // Acquire: the places of a subscriber come before its state.
            let state = self.control.word(self.geometry.slot(*slot) + slot::STATE);
            state.load(Ordering::Acquire) != slot::FREE
        };
        slots.filter(has_joined).count()
    }

    /// Whether every gating subscriber has reached `position`.
    pub(crate) fn drained(&self, position: u64) -> bool {
        self.slowest()
            .is_none_or(|slowest| slowest.position >= position)
    }
}

/// Iterates the set bits of the bitmap at word `start`, up to `slots` bits.
pub(crate) fn bits(
    control: &Words,
    start: usize,
    slots: usize,
) -> impl Iterator<Item = usize> + '_ {
    (0..slots.div_ceil(64)).flat_map(move |index| {
        // Acquire: a set bit comes with the slot's words as its owner wrote them before (JOIN).
        let mut word = control.word(start + index).load(Ordering::Acquire);
        core::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(index * 64 + bit)
        })
        .filter(move |slot| *slot < slots)
    })
}

/// Sets or clears one bit of the bitmap at word `start`.
pub(crate) fn set_bit(control: &Words, start: usize, slot: usize, on: bool) {
    let word = control.word(start + slot / 64);
    let bit = 1 << (slot % 64);
    // AcqRel: the slot's words are published with the bit, and seen by whoever sees it (JOIN).
    if on {
        word.fetch_or(bit, Ordering::AcqRel);
    } else {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// How often a joiner proposes a position. A publisher that has seen one goes no further than that allows, so an
/// honest one is met after a few rounds; a lane whose words lie is not waited for.
const JOIN_ROUNDS: u32 = 1 << 16;

/// The joiner's half of JOIN for one lane: takes a position at which the publisher is held back for sure.
///
/// `start` proposes a position (always a frame boundary) and is asked again whenever the publisher turns out
/// to have gone past it. The gating bit must be set once `store` has stored the first position, before the
/// limit is read: `store` does that.
pub(crate) fn join_lane(
    capacity: u64,
    limit: &crate::region::Word,
    mut start: impl FnMut() -> u64,
    mut store: impl FnMut(u64),
) -> u64 {
    for _ in 0..JOIN_ROUNDS {
        let position = start();
        store(position);
        crate::points::pass("join.stored");
        if !mutant("join_no_fence") {
            // JOIN: SeqCst fence between our position and the publisher's limit; the publisher has its own
            // between its limit and our position. Only a store-load order on both sides will do.
            fence(Ordering::SeqCst);
        }
        // Acquire: the limit's boundary (`from=oldest` starts at it) comes with the frames behind it.
        if limit.load(Ordering::Acquire) <= position.saturating_add(capacity) {
            return position;
        }
    }
    // No honest publisher: it would have seen the position by now. Whatever it has there stays in bounds.
    start()
}

/// Empties a slot under its lock: it gates nothing, wakes nobody and is free.
///
/// Every step can be repeated, so whoever dies half way leaves work that the next owner does again.
pub(crate) fn clear_slot(control: &Words, geometry: &Geometry, index: usize) {
    let base = geometry.slot(index);
    let state = control.word(base + slot::STATE);
    // Relaxed: ours, under the lock.
    if matches!(state.load(Ordering::Relaxed), slot::DURABLE | slot::EVICTED) {
        // A half-cleared place is nobody's to come back to: whoever dies from here on leaves a slot that anybody
        // clears again. The stores below are releases, so none of them comes before this one.
        state.store(slot::ATTACHED, Ordering::Release);
    }
    for lane in 0..geometry.lanes() {
        // REUSE (release): everything read is handed back.
        control
            .word(geometry.position(index, lane))
            .store(NO_POSITION, Ordering::Release);
    }
    crate::points::pass("clear.positions_gone");
    set_bit(control, control::GATING, index, false);
    crate::points::pass("clear.gating_gone");
    set_bit(control, control::ATTACHED, index, false);
    for word in (1..slot::STRIDE).filter(|word| *word != slot::TICKET) {
        // Relaxed: read by others only for display, or under the slot's lock.
        control.word(base + word).store(0, Ordering::Relaxed);
    }
    state.store(slot::FREE, Ordering::Release);
}
