//! There is no room: who is in the way, since when, and what to do about it.

use super::attached::Attached;
use super::slots::{self, Verdict};
use crate::clock::monotonic_ns;
use crate::ring::gate::Slowest;
use crate::ring::layout::lane;
use crate::ring::publish::{Producer, bump};
use crate::uri::Config;
use crate::wait::{Idle, NAP_MAX, Sleeper, Step};
use std::time::{Duration, Instant};

/// How long a publisher is held back before it looks whether the slowest subscriber still lives.
const JUDGE_EVERY_NS: u64 = 1_000_000;

/// What a publisher knows about those who hold it back.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// Since when there has been no room; 0 if there is some.
    since: u64,
    judged_at: u64,
    /// For each slot the ticket of the subscriber that is in the way and since when it has been, 0 for one that
    /// is not. Empty on channels that evict nobody.
    in_the_way: Vec<(u64, u64)>,
    pub(super) evicted: u64,
    pub(super) reclaimed: u64,
}

impl Hold {
    pub(super) fn new(attached: &Attached) -> Self {
        let geometry = &attached.geometry;
        let slots = if geometry.evict_after_ns == 0 {
            0
        } else {
            geometry.slots()
        };
        Self {
            in_the_way: vec![(0, 0); slots],
            ..Self::default()
        }
    }

    /// There is no room for a frame that needs the ring up to `need`: keeps the time, and now and then judges
    /// those who are in the way. `true` if somebody no longer is.
    pub(super) fn no_room(&mut self, attached: &Attached, producer: &Producer, need: u64) -> bool {
        let now = monotonic_ns();
        if self.since == 0 {
            self.since = now;
            self.judged_at = now;
            bump(producer.lane(), lane::BACK_PRESSURE_COUNT, 1);
            return false;
        }
        self.judge(attached, producer, now, Some(need))
    }

    /// A wait for subscribers, not for room: nobody is in the way, but who died must not be waited for.
    pub(super) fn no_hurry(&mut self, attached: &Attached, producer: &Producer) -> bool {
        self.judge(attached, producer, monotonic_ns(), None)
    }

    /// There is room again.
    pub(super) fn let_go(&mut self, producer: &Producer) {
        if self.since != 0 {
            let held = monotonic_ns() - self.since;
            bump(producer.lane(), lane::BACK_PRESSURE_NS, held);
            self.since = 0;
            self.in_the_way.fill((0, 0));
        }
    }

    /// Reclaims the slowest subscribers as long as they are dead, and evicts them as long as they have been in
    /// the way for too long.
    fn judge(
        &mut self,
        attached: &Attached,
        producer: &Producer,
        now: u64,
        need: Option<u64>,
    ) -> bool {
        if now.saturating_sub(self.judged_at) < JUDGE_EVERY_NS {
            return false;
        }
        self.judged_at = now;
        if let Some(need) = need {
            self.note(attached, producer, now, need);
        }
        let mut freed = false;
        // One after the other: several may have died together.
        while let Some(slowest) = producer.gate().slowest() {
            let suspect = match (need, self.in_the_way.get(slowest.slot)) {
                (Some(_), Some(&(ticket, since))) if since != 0 => Some((ticket, now - since)),
                _ => None,
            };
            match slots::judge(attached, slowest.slot, suspect) {
                Verdict::Wait => break,
                Verdict::Absent => {
                    // Its time starts when it is back.
                    if let Some(noted) = self.in_the_way.get_mut(slowest.slot) {
                        noted.1 = 0;
                    }
                    break;
                }
                Verdict::Reclaimed => self.reclaimed += 1,
                Verdict::Evicted => self.evicted += 1,
            }
            freed = true;
        }
        if freed {
            attached.wake_publishers();
        }
        freed
    }

    /// Notes who is in the way, each with a clock of its own: nobody pays for the time of another, or of whoever
    /// had the slot before.
    fn note(&mut self, attached: &Attached, producer: &Producer, now: u64, need: u64) {
        let Attached {
            control, geometry, ..
        } = attached;
        if self.in_the_way.is_empty() {
            return;
        }
        for (slot, position) in producer.gate().positions() {
            let ticket = slots::ticket(control, geometry, slot);
            let noted = &mut self.in_the_way[slot];
            // Whoever has read everything is not in the way of a batch that is longer than the ring.
            if position >= producer.position() || position.saturating_add(geometry.capacity) >= need
            {
                noted.1 = 0;
            } else if noted.1 == 0 || noted.0 != ticket {
                *noted = (ticket, now);
            }
        }
    }
}

/// Sleeps on one subscriber's page, in a row and without its position moving, after which it is no place to sleep.
const TOYS_MAX: u32 = 64;

/// Where a publisher sleeps until there is room.
///
/// On a sealed channel that is a word of the slowest subscriber's page, which wakes it as it makes room. One that
/// wakes us again and again for nothing is slept on no more: our own word serves too, only that nobody but time, a
/// newcomer or somebody's end wakes us there.
#[derive(Debug, Default)]
pub(super) struct Beds {
    last: Option<Slowest>,
    times: u32,
}

impl Beds {
    /// Where to sleep this time; `own` is our own place.
    pub(super) fn choose(&mut self, own: &Sleeper, producer: &Producer) -> Sleeper {
        let Some((slowest, park)) = producer.room_of_slowest() else {
            return own.clone();
        };
        if self.last != Some(slowest) {
            (self.last, self.times) = (Some(slowest), 0);
        }
        self.times = self.times.saturating_add(1);
        if self.times > TOYS_MAX {
            return own.clone();
        }
        Sleeper { park, hint: None }
    }
}

/// A wait with a strategy and perhaps an end.
pub(super) struct Waiting {
    idle: Idle,
    deadline: Option<Instant>,
}

impl Waiting {
    pub(super) fn new(config: &Config, timeout: Option<Duration>) -> Self {
        // A time-out beyond what the clock can hold is no time-out.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            idle: Idle::new(config.wait),
            deadline,
        }
    }

    /// What to do before the next look; `None` once the time is over.
    pub(super) fn step(&mut self) -> Option<Step> {
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return None;
        }
        Some(self.idle.step())
    }

    /// Longest sleep from here.
    pub(super) fn nap(&self) -> Duration {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(NAP_MAX, |left| left.min(NAP_MAX))
    }
}
