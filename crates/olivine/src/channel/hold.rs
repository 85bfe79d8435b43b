//! There is no room: who is in the way, since when, and what to do about it.

use super::attached::Attached;
use super::slots::{self, Verdict};
use super::surroundings::rely_on;
use crate::clock::monotonic_ns;
use crate::region::Word;
use crate::ring::gate::Slowest;
use crate::ring::layout::{Geometry, lane, lock_byte, slot};
use crate::ring::publish::{Producer, bump};
use crate::sync::Ordering;
use crate::uri::Config;
use crate::wait::{Idle, Reliance, Sleeper, Step, warden};
use std::time::{Duration, Instant};

/// How long a publisher is held back before it looks whether the slowest subscriber still lives.
const JUDGE_EVERY_NS: u64 = 1_000_000;

/// Longest sleep of a publisher whose time for a subscriber is over, which only has to be judged.
const JUDGE_AGAIN: Duration = Duration::from_millis(1);

/// What a publisher knows about those who hold it back.
///
/// # What `slow=evict:D` bounds
///
/// One clock starts when the publisher finds no room. When it has run for D, every subscriber that is in the way is
/// evicted, whatever it is: silent, stopped, absent, slowly reading, or newly come. So no message waits for longer than D
/// and the time that evicting takes.
///
/// A subscriber that takes nothing while the publisher waits for others is timed as well. It is evicted as soon as it is
/// in the way itself, if it took nothing for D of such time. So many silent subscribers cost one D, not one each.
#[derive(Debug, Default)]
pub(super) struct StallMonitor {
    /// Since when there has been no room; 0 if there is some.
    since: u64,
    /// Since when the lane's counter runs; 0 if it does not. It stops where the publisher gives a message up.
    counted: u64,
    /// When the publisher gave a message up; it may have done something else since then.
    gave_up_at: u64,
    judged_at: u64,
    /// When the time of a subscriber that is in the way is over; 0 if none is known.
    due_at: u64,
    /// For each slot who is behind there, and for how long it has taken nothing. Empty on channels that evict nobody.
    silent: Vec<Silent>,
    pub(super) evicted: u64,
    pub(super) reclaimed: u64,
}

/// A subscriber that is behind while a publisher waits.
#[derive(Clone, Copy, Debug, Default)]
struct Silent {
    ticket: u64,
    position: u64,
    /// Nanoseconds that publishers waited while it stayed at its position.
    for_ns: u64,
}

impl StallMonitor {
    pub(super) fn new(attached: &Attached) -> Self {
        let geometry = &attached.geometry;
        let slots = if geometry.evict_after_ns == 0 {
            0
        } else {
            geometry.slots()
        };
        Self {
            silent: vec![Silent::default(); slots],
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
            self.due_at = now.saturating_add(attached.geometry.evict_after_ns);
            bump(producer.lane(), lane::BACK_PRESSURE_COUNT, 1);
            self.watch(attached, producer, 0, need);
        }
        if self.counted == 0 {
            self.counted = now;
            if self.gave_up_at != 0 {
                // Nobody was waited for meanwhile, so that nobody is late for it.
                self.since += now.saturating_sub(self.gave_up_at);
                self.judged_at = now;
                self.gave_up_at = 0;
                self.watch(attached, producer, 0, need);
            }
            // Relaxed: for display, here and below; only we write them.
            let since = producer.lane().word(lane::BACK_PRESSURE_SINCE);
            blame(producer);
            since.store(now, Ordering::Relaxed);
        }
        self.judge(attached, producer, now, Some(need))
    }

    /// A wait for subscribers, not for room: nobody is in the way, but who died must not be waited for.
    pub(super) fn no_hurry(&mut self, attached: &Attached, producer: &Producer) -> bool {
        self.judge(attached, producer, monotonic_ns(), None)
    }

    /// There is room again, or the publisher ends.
    pub(super) fn stall_ended(&mut self, producer: &Producer) {
        if self.since != 0 {
            self.give_up(producer);
            self.since = 0;
            self.gave_up_at = 0;
        }
    }

    /// The publisher waits no longer, though there may be no room: what it waited is counted.
    pub(super) fn give_up(&mut self, producer: &Producer) {
        if self.counted != 0 {
            let lane = producer.lane();
            // Relaxed: for display. Before the sum: an observer between the two shows too little for a moment, and
            // nothing twice.
            lane.word(lane::BACK_PRESSURE_SINCE)
                .store(0, Ordering::Relaxed);
            lane.word(lane::BACK_PRESSURE_SLOT)
                .store(0, Ordering::Relaxed);
            bump(lane, lane::BACK_PRESSURE_NS, self.running_ns());
            self.counted = 0;
            self.gave_up_at = monotonic_ns();
        }
    }

    /// Nanoseconds of a wait that goes on, which the lane's counter does not have yet.
    pub(super) fn running_ns(&self) -> u64 {
        match self.counted {
            0 => 0,
            counted => monotonic_ns().saturating_sub(counted),
        }
    }

    /// Longest sleep before somebody has to be judged again.
    pub(super) fn nap(&self, longest: Duration) -> Duration {
        if self.since == 0 || self.silent.is_empty() {
            return longest;
        }
        let left = Duration::from_nanos(self.due_at.saturating_sub(monotonic_ns()));
        longest.min(left.max(JUDGE_AGAIN))
    }

    /// Reclaims the slowest subscribers as long as they are dead, and evicts them as long as they are in the way and
    /// their time is over.
    fn judge(
        &mut self,
        attached: &Attached,
        producer: &Producer,
        now: u64,
        need: Option<u64>,
    ) -> bool {
        let passed = now.saturating_sub(self.judged_at);
        if passed < JUDGE_EVERY_NS {
            return false;
        }
        self.judged_at = now;
        if let Some(need) = need {
            self.watch(attached, producer, passed, need);
            blame(producer);
        }
        let mut freed = false;
        // One after the other: several may have died together, or be late together.
        while let Some(slowest) = producer.gate().slowest() {
            let late = need.and_then(|need| self.late(attached, producer, &slowest, now, need));
            match slots::judge(attached, slowest.slot, late) {
                Verdict::Wait | Verdict::Absent => break,
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

    /// Times those who are behind and take nothing, and finds out when the next one's time is over. `passed`
    /// nanoseconds went by with waiting.
    fn watch(&mut self, attached: &Attached, producer: &Producer, passed: u64, need: u64) {
        let Attached {
            control, geometry, ..
        } = attached;
        if self.silent.is_empty() {
            return;
        }
        let bound = geometry.evict_after_ns;
        self.due_at = self.since.saturating_add(bound);
        for (slot, position) in producer.gate().positions() {
            let ticket = slots::ticket(control, geometry, slot);
            let silent = &mut self.silent[slot];
            if (silent.ticket, silent.position) != (ticket, position) {
                *silent = Silent {
                    ticket,
                    position,
                    for_ns: 0,
                };
            } else if position < producer.position() {
                silent.for_ns = silent.for_ns.saturating_add(passed);
            }
            if is_in_the_way(producer, geometry, position, need) {
                let left = bound.saturating_sub(silent.for_ns);
                self.due_at = self.due_at.min(self.judged_at.saturating_add(left));
            }
        }
    }

    /// The ticket of the slowest subscriber, if it is in the way and its time is over.
    fn late(
        &self,
        attached: &Attached,
        producer: &Producer,
        slowest: &Slowest,
        now: u64,
        need: u64,
    ) -> Option<u64> {
        let Attached {
            control, geometry, ..
        } = attached;
        let silent = self.silent.get(slowest.slot)?;
        if !is_in_the_way(producer, geometry, slowest.position, need) {
            return None;
        }
        let ticket = slots::ticket(control, geometry, slowest.slot);
        let is_it = (silent.ticket, silent.position) == (ticket, slowest.position);
        let bound = geometry.evict_after_ns;
        let waited = now.saturating_sub(self.since);
        (waited >= bound || is_it && silent.for_ns >= bound).then_some(ticket)
    }
}

/// Whether a subscriber at `position` is why there is no room up to `need`. One that has read everything is not in the
/// way of a batch that is longer than the ring.
fn is_in_the_way(producer: &Producer, geometry: &Geometry, position: u64, need: u64) -> bool {
    position < producer.position() && position.saturating_add(geometry.capacity) < need
}

/// Says in the lane who holds its publisher back.
fn blame(producer: &Producer) {
    let slot = producer
        .gate()
        .slowest()
        .map_or(0, |slowest| slowest.slot + 1);
    // Relaxed: for display; only we write it.
    producer
        .lane()
        .word(lane::BACK_PRESSURE_SLOT)
        .store(slot as u64, Ordering::Relaxed);
}

/// Wake-ups on one subscriber's page, in a row and without its position moving, after which it is no place to sleep.
const FUTILE_WAKES_MAX: u32 = 64;

/// Where a publisher sleeps until there is room.
///
/// On a sealed channel that is a word of the slowest subscriber's page, which wakes it as it makes room. A page that
/// wakes us again and again for nothing is slept on no more: our own word serves too, only that no subscriber's progress
/// wakes us there, so naps stay short.
#[derive(Debug, Default)]
pub(super) struct ParkTarget {
    last: Option<(Slowest, Sleeper)>,
    woken: u32,
}

impl ParkTarget {
    /// Sleeps until there may be room, or for `longest`; `own` is our own place.
    pub(super) fn sleep(
        &mut self,
        own: &Sleeper,
        attached: &Attached,
        producer: &mut Producer,
        longest: Duration,
        mut ready: impl FnMut(&mut Producer) -> bool,
    ) {
        let evict_after = attached.geometry.evict_after_ns;
        let longest = if evict_after == 0 {
            longest
        } else {
            // Its clock runs, and is looked at in time.
            let step = Duration::from_nanos(evict_after / 8);
            longest.min(step.clamp(EVICTION_STEP_MIN, EVICTION_STEP_MAX))
        };
        match producer.room_of_slowest() {
            None => self.last = None,
            Some((slowest, _)) if self.last.as_ref().is_some_and(|last| last.0 == slowest) => {}
            Some((slowest, park)) => {
                (self.last, self.woken) = (Some((slowest, Sleeper::new(park, None))), 0);
            }
        }
        let producer = core::cell::RefCell::new(producer);
        let ready = || ready(&mut producer.borrow_mut());
        match &self.last {
            Some((_, page)) if self.woken < FUTILE_WAKES_MAX => {
                // Whoever serves the socket wakes us when it ends.
                let woken = page.sleep(longest, |_| Reliance::Sure, ready);
                self.woken += u32::from(woken);
            }
            Some(_) => {
                own.sleep(longest, |_| Reliance::Unsure, ready);
            }
            None => {
                let rely = |watches: &mut _| {
                    let slowest = producer.borrow().gate().slowest();
                    rely_on_slowest(attached, slowest, &own.park, watches)
                };
                own.sleep(longest, rely, ready);
            }
        }
    }
}

/// Shortest and longest nap where an eviction may be due.
const EVICTION_STEP_MIN: Duration = Duration::from_millis(1);
const EVICTION_STEP_MAX: Duration = Duration::from_millis(8);

/// Whether a publisher may sleep long that `slowest` holds back: its end is watched for, and its progress wakes.
fn rely_on_slowest(
    attached: &Attached,
    slowest: Option<Slowest>,
    park: &Word,
    watches: &mut warden::Watches,
) -> Reliance {
    let locks = attached.locks.reader();
    // Without one it waits for newcomers, who wake it.
    let Some(slowest) = slowest.filter(|_| !locks.is_inside()) else {
        return Reliance::Sure;
    };
    let Attached {
        control, geometry, ..
    } = attached;
    let byte = lock_byte::SLOT + slowest.slot as u64;
    if !locks.is_held(byte) && slots::state(control, geometry, slowest.slot) != slot::DURABLE {
        // Dead, and not reclaimed yet.
        return Reliance::Unsure;
    }
    let base = geometry.slot(slowest.slot);
    let peer = warden::Peer {
        byte,
        pid: control.resolve(base + slot::PID),
        space: control.resolve(base + slot::PID_SPACE),
        open: None,
    };
    rely_on(&locks, watches, park, &[peer])
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
    pub(super) fn left(&self) -> Duration {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX)
    }
}
