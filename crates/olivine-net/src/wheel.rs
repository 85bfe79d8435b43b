//! A hierarchical timing wheel: arming, cancelling and firing cost the same however many are armed.
//!
//! Time is a `u64` count of ticks (the shard uses milliseconds since it started). Level `n` has 64
//! slots of 64ⁿ ticks each; an entry is on the level of the highest 6-bit digit in which its
//! deadline differs from now, and moves down as time comes near. Nothing fires early; a clock that
//! jumps fires everything that has become due, in order of ticks.
//!
//! It performs no I/O and never looks at a clock, so tests drive it with made-up time.

#![expect(
    clippy::cast_possible_truncation,
    reason = "slots and levels are masked to six bits first"
)]

/// Six bits of the deadline per level.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Six levels of six bits reach 2³⁶ ticks: two years of milliseconds. Later deadlines are cut to
/// it.
const LEVELS: usize = 6;
const HORIZON: u64 = (1 << (BITS * LEVELS as u32)) - 1;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// Names an armed timer until it fires or is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    /// `None` marks a free entry, whose `next` links the free list.
    payload: Option<T>,
    deadline: u64,
    generation: u32,
    previous: u32,
    next: u32,
    level: u8,
    slot: u8,
}

/// What an armed timer takes.
#[cfg(test)]
pub(crate) const fn entry_bytes<T>() -> usize {
    size_of::<Entry<T>>()
}

#[derive(Debug)]
struct Level {
    heads: [u32; SLOTS],
    /// Bit `n` is set where `heads[n]` is not empty.
    occupied: u64,
}

/// The wheel; each timer carries a `T`.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    levels: [Level; LEVELS],
    entries: Vec<Entry<T>>,
    free: u32,
    now: u64,
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            levels: std::array::from_fn(|_| Level {
                heads: [NONE; SLOTS],
                occupied: 0,
            }),
            entries: Vec::new(),
            free: NONE,
            now: 0,
        }
    }

    /// Arms a timer for `deadline`. A deadline that is not in the future fires at the next tick.
    pub(crate) fn insert(&mut self, deadline: u64, payload: T) -> Key {
        let deadline = deadline.clamp(self.now + 1, self.now | HORIZON);
        let index = if self.free == NONE {
            self.entries.push(Entry {
                payload: None,
                deadline: 0,
                generation: 0,
                previous: NONE,
                next: NONE,
                level: 0,
                slot: 0,
            });
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        } else {
            self.free
        };
        let entry = &mut self.entries[index as usize];
        if self.free == index {
            self.free = entry.next;
        }
        entry.payload = Some(payload);
        entry.deadline = deadline;
        let generation = entry.generation;
        self.link(index);
        Key { index, generation }
    }

    /// Disarms a timer and returns its data; `None` if it fired or was cancelled before.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get(key.index as usize)?;
        if entry.generation != key.generation || entry.payload.is_none() {
            return None;
        }
        self.unlink(key.index);
        self.release(key.index)
    }

    /// The tick at which [`Wheel::advance`] has something to do; never later than the next
    /// deadline.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.next_slot().map(|(_, _, tick)| tick)
    }

    /// Moves time to `tick` and appends due timers to `due`, in order of ticks.
    pub(crate) fn advance(&mut self, tick: u64, due: &mut Vec<T>) {
        while let Some((level, slot, at)) = self.next_slot() {
            if at > tick {
                break;
            }
            self.now = self.now.max(at);
            let mut index = std::mem::replace(&mut self.levels[level].heads[slot], NONE);
            self.levels[level].occupied &= !(1 << slot);
            while index != NONE {
                let entry = &self.entries[index as usize];
                let next = entry.next;
                if entry.deadline <= self.now {
                    due.extend(self.release(index));
                } else {
                    self.link(index);
                }
                index = next;
            }
        }
        self.now = self.now.max(tick);
    }

    /// The occupied slot that comes first, and the tick at which it begins.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        // Lower levels end before the next slot of a higher level begins, so the first one wins.
        self.levels
            .iter()
            .enumerate()
            .find(|(_, level)| level.occupied != 0)
            .map(|(n, level)| {
                let shift = BITS * n as u32;
                let here = (self.now >> shift) & (SLOTS as u64 - 1);
                let ahead = level.occupied.rotate_right(here as u32).trailing_zeros();
                let slot = (here + u64::from(ahead)) & (SLOTS as u64 - 1);
                let base = self.now >> shift >> BITS << BITS << shift;
                let mut tick = base + (slot << shift);
                if slot < here {
                    tick += (SLOTS as u64) << shift;
                }
                (n, slot as usize, tick)
            })
    }

    fn link(&mut self, index: u32) {
        let deadline = self.entries[index as usize].deadline;
        let differing = (self.now ^ deadline) | 1;
        let level = ((63 - differing.leading_zeros()) / BITS) as usize;
        let level = level.min(LEVELS - 1);
        let slot = ((deadline >> (BITS * level as u32)) & (SLOTS as u64 - 1)) as usize;
        let head = std::mem::replace(&mut self.levels[level].heads[slot], index);
        self.levels[level].occupied |= 1 << slot;
        let entry = &mut self.entries[index as usize];
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.previous, entry.next) = (NONE, head);
        if head != NONE {
            self.entries[head as usize].previous = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        let (level, slot) = (usize::from(entry.level), usize::from(entry.slot));
        let (previous, next) = (entry.previous, entry.next);
        if previous == NONE {
            self.levels[level].heads[slot] = next;
            if next == NONE {
                self.levels[level].occupied &= !(1 << slot);
            }
        } else {
            self.entries[previous as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
    }

    /// Puts an unlinked entry on the free list.
    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        entry.payload.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::seeded_cases;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Arm(u64),
        Cancel(usize),
        Advance(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let span = || prop_oneof![0..70_u64, 0..5_000_u64, 0..1_000_000_u64, 0..1_u64 << 38];
        prop_oneof![
            4 => span().prop_map(Op::Arm),
            1 => any::<usize>().prop_map(Op::Cancel),
            2 => span().prop_map(Op::Advance),
        ]
    }

    proptest! {
        #![proptest_config(seeded_cases(2_000))]

        /// Any sequence of operations fires exactly the timers of a sorted list.
        #[test]
        fn fires_what_a_sorted_list_fires(ops in prop::collection::vec(op(), 1..80)) {
            let mut wheel = Wheel::new();
            let mut oracle: Vec<(u64, usize, Key)> = Vec::new();
            let mut now = 0;
            for (n, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Arm(after) => {
                        let key = wheel.insert(now + after, n);
                        oracle.push(((now + after).clamp(now + 1, now | HORIZON), n, key));
                    }
                    Op::Cancel(which) if !oracle.is_empty() => {
                        let (_, id, key) = oracle.swap_remove(which % oracle.len());
                        prop_assert_eq!(wheel.cancel(key), Some(id));
                        prop_assert_eq!(wheel.cancel(key), None);
                    }
                    Op::Cancel(_) => {}
                    Op::Advance(by) => {
                        now += by;
                        let mut fired = Vec::new();
                        wheel.advance(now, &mut fired);
                        let due = oracle.iter().filter(|(at, ..)| *at <= now);
                        let mut expected: Vec<usize> = due.map(|(_, n, _)| *n).collect();
                        oracle.retain(|(at, ..)| *at > now);
                        fired.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(fired, expected);
                    }
                }
                let earliest = oracle.iter().map(|(at, ..)| *at).min();
                prop_assert_eq!(wheel.next_tick().is_some(), earliest.is_some());
                if let (Some(next), Some(earliest)) = (wheel.next_tick(), earliest) {
                    prop_assert!(next <= earliest, "next {} earliest {}", next, earliest);
                }
            }
        }
    }

    #[test]
    fn cancelled_timer_entry_is_reused_with_a_new_key() {
        let mut wheel = Wheel::new();
        let first = wheel.insert(10, 'a');
        assert_eq!(wheel.cancel(first), Some('a'));
        let second = wheel.insert(10, 'b');
        assert_eq!(wheel.cancel(first), None);
        assert_eq!(wheel.entries.len(), 1);
        assert_eq!(wheel.cancel(second), Some('b'));
    }
}
