//! The gate: how far a publisher may write without an overrun of a reliable subscriber.
//!
//! It is scanned only when the cached limit is used up, about once per lap. Only slots with a
//! gating bit are read, so free slots cost nothing.

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
            // REUSE (acquire): pairs with the release store in `Consumer::release_to`. The
            // subscriber's reads of these bytes happen before we overwrite them.
            let position = position.load(unless(mutant("reuse_scan_relaxed"), Ordering::Acquire));
            (position != NO_POSITION).then_some((slot, position))
        })
    }

    /// The slowest gating subscriber, or `None` if no subscriber gates.
    pub(crate) fn slowest(&self) -> Option<Slowest> {
        self.positions()
            .min_by_key(|(_, position)| *position)
            .map(|(slot, position)| Slowest { slot, position })
    }

    /// Number of subscribers that gate. A joining subscriber does not count: it does not have a
    /// position in every lane yet.
    pub(crate) fn count(&self) -> usize {
        let slots = bits(&self.control, control::GATING, self.geometry.slots());
        let has_joined = |slot: &usize| {
            // Acquire: the positions of a subscriber come before its state.
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
        // Acquire: a set bit makes the words visible that the slot's owner wrote before it (JOIN).
        let mut word = control.word(start + index).load(Ordering::Acquire);
        core::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(index * 64 + bit)
        })
        .filter(move |slot| *slot < slots)
    })
}

/// One bit of the bitmap at word `start`.
pub(crate) fn has_bit(control: &Words, start: usize, slot: usize) -> bool {
    // Acquire: as in `bits`.
    let word = control.word(start + slot / 64).load(Ordering::Acquire);
    word & (1 << (slot % 64)) != 0
}

/// Sets or clears one bit of the bitmap at word `start`.
pub(crate) fn set_bit(control: &Words, start: usize, slot: usize, on: bool) {
    let word = control.word(start + slot / 64);
    let bit = 1 << (slot % 64);
    // AcqRel: the slot's words are published with the bit (JOIN).
    if on {
        word.fetch_or(bit, Ordering::AcqRel);
    } else {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// How often a joiner proposes a position. A correct publisher that has seen one stops where it
/// requires, so a few rounds are enough. The bound ends the loop on a damaged lane.
const JOIN_ROUNDS: u32 = 1 << 16;

/// The joiner's half of JOIN for one lane: takes a position that holds the publisher back.
///
/// `start` proposes a position, always a frame boundary. It is called again if the publisher's
/// limit is too far ahead. `store` stores the position and sets the gating bit, both before the
/// limit is read.
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
            // JOIN: SeqCst fence between our position and the publisher's limit. The publisher has
            // a fence between its limit and our position. Both sides need store-load order.
            fence(Ordering::SeqCst);
        }
        // Acquire: the frames after the limit's boundary are visible; `from=oldest` starts there.
        if limit.load(Ordering::Acquire) <= position.saturating_add(capacity) {
            return position;
        }
    }
    // The lane is damaged: a correct publisher has seen the position by now. Any position stays in
    // bounds.
    start()
}

/// Empties a slot under its lock: it is free and gates no lane.
///
/// Every step can be repeated. After a death half way the next owner does all steps again.
pub(crate) fn clear_slot(control: &Words, geometry: &Geometry, index: usize) {
    let base = geometry.slot(index);
    let state = control.word(base + slot::STATE);
    // Relaxed: ours, under the lock.
    if matches!(state.load(Ordering::Relaxed), slot::DURABLE | slot::EVICTED) {
        // A durable name cannot return to a half-cleared slot. After a death from here on any
        // participant clears the slot again. The stores below are releases, so none of them comes
        // before this one.
        state.store(slot::ATTACHED, Ordering::Release);
    }
    for lane in 0..geometry.lanes() {
        // REUSE (release): all bytes are given back.
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
