//! Back-pressure: how a publisher without room finds the subscribers that block it, and where it
//! sleeps.

use super::attached::Attached;
use super::slots::{self, SlotCheck};
use super::slow_state::watch_peers;
use super::waiting::EndWait;
use crate::clock::monotonic_ns;
use crate::region::Word;
use crate::ring::gate::Slowest;
use crate::ring::layout::{Geometry, lane, lock_byte, slot};
use crate::ring::publish::{Producer, add_to_counter};
use crate::sync::Ordering;
use crate::wait::{LongNaps, Sleeper, warden};
use std::time::Duration;

/// Interval at which a blocked publisher checks whether the slowest subscriber lives.
const CHECK_EVERY_NS: u64 = 1_000_000;

/// Longest sleep of a publisher after a subscriber's time is over and before the next check.
const RECHECK_AFTER: Duration = Duration::from_millis(1);

/// What a publisher knows about the subscribers that hold it back.
///
/// # What `slow=evict:D` bounds
///
/// One clock starts when the publisher finds no room. When it has run for D, every subscriber that
/// blocks the room is evicted: silent, stopped, absent, slow or new. So no message waits longer
/// than D, the time until the next check ([`CHECK_EVERY_NS`]), and the time that the evictions
/// take.
///
/// A subscriber that reads nothing while the publisher waits for others has a clock as well. It
/// counts only the time that publishers wait. If that clock has run for D, the subscriber is
/// evicted as soon as it blocks the room. So many silent subscribers cost one D, not one D each.
#[derive(Debug, Default)]
pub(super) struct StallMonitor {
    /// Start of the time without room; 0 if there is room.
    since: u64,
    /// Start of the time that the lane shows and its counter counts: when the publisher found no
    /// room, also before it gave a message up. 0 if it does not run: it stops then.
    counted_since: u64,
    /// What the lane showed when the publisher gave a message up.
    given_up: GivenUp,
    /// When the publisher gave a message up. It may have done something else since then.
    gave_up_at: u64,
    checked_at: u64,
    /// When the time of a blocking subscriber is over; 0 if none is known.
    due_at: u64,
    /// For each slot: the subscriber that is behind, and how long it has read nothing. Empty on
    /// channels without eviction.
    stalls: Vec<SlotStall>,
    pub(super) evicted: u64,
    pub(super) reclaimed: u64,
}

/// A time without room that was counted, and is counted again as a part of a longer one if the
/// publisher has sent nothing until it finds no room again.
#[derive(Debug, Default)]
struct GivenUp {
    /// Its start; 0 for none.
    since: u64,
    ns: u64,
    /// End of what the publisher had sent.
    position: u64,
}

/// A subscriber that is behind while a publisher waits.
#[derive(Clone, Copy, Debug, Default)]
struct SlotStall {
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
            stalls: vec![SlotStall::default(); slots],
            ..Self::default()
        }
    }

    /// There is no room for a frame that ends at `need`: measures the time, and checks the blocking
    /// subscribers at an interval. `true` if a slot was freed.
    pub(super) fn no_room(&mut self, attached: &Attached, producer: &Producer, need: u64) -> bool {
        let now = monotonic_ns();
        if self.since == 0 {
            self.since = now;
            self.checked_at = now;
            self.due_at = now.saturating_add(attached.geometry.evict_after_ns);
            add_to_counter(producer.lane(), lane::BACK_PRESSURE_COUNT, 1);
            self.time_subscribers(attached, producer, 0, need);
        }
        if self.counted_since == 0 {
            let before = core::mem::take(&mut self.given_up);
            self.counted_since = now;
            // It has sent nothing since: the lack of room goes on.
            if before.since != 0 && before.position == producer.position() {
                self.counted_since = before.since;
                // Before the start is stored: an observer between the two reads too little for a
                // moment, and counts nothing twice.
                let taken_back = before.ns.wrapping_neg();
                add_to_counter(producer.lane(), lane::BACK_PRESSURE_NS, taken_back);
            }
            if self.gave_up_at != 0 {
                // The publisher did not wait since then, so that time does not count against any
                // subscriber.
                self.since += now.saturating_sub(self.gave_up_at);
                self.checked_at = now;
                self.gave_up_at = 0;
                self.time_subscribers(attached, producer, 0, need);
            }
            // Relaxed: for display, here and below; only we write them.
            let since = producer.lane().word(lane::BACK_PRESSURE_SINCE);
            show_slowest(producer);
            since.store(self.counted_since, Ordering::Relaxed);
        }
        self.reclaim_or_evict(attached, producer, now, Some(need))
    }

    /// For a wait for subscribers, not for room: no subscriber blocks, but dead ones must be
    /// reclaimed.
    pub(super) fn check_dead(&mut self, attached: &Attached, producer: &Producer) -> bool {
        self.reclaim_or_evict(attached, producer, monotonic_ns(), None)
    }

    /// There is room again, or the publisher closes.
    pub(super) fn stall_ended(&mut self, producer: &Producer) {
        if self.since != 0 {
            self.wait_abandoned(producer);
            self.since = 0;
            self.gave_up_at = 0;
            self.given_up = GivenUp::default();
        }
    }

    /// The publisher stops waiting, perhaps without room: adds the time to the lane's counter.
    pub(super) fn wait_abandoned(&mut self, producer: &Producer) {
        if self.counted_since != 0 {
            let lane = producer.lane();
            // Relaxed: for display. The start is cleared before the sum is stored: an observer
            // between the two stores reads too little for a moment, and counts nothing twice.
            lane.word(lane::BACK_PRESSURE_SINCE)
                .store(0, Ordering::Relaxed);
            lane.word(lane::BACK_PRESSURE_SLOT)
                .store(0, Ordering::Relaxed);
            let ns = self.running_ns();
            add_to_counter(lane, lane::BACK_PRESSURE_NS, ns);
            self.given_up = GivenUp {
                since: self.counted_since,
                ns,
                position: producer.position(),
            };
            self.counted_since = 0;
            self.gave_up_at = monotonic_ns();
        }
    }

    /// Nanoseconds of the current wait, which the lane's counter does not contain yet.
    pub(super) fn running_ns(&self) -> u64 {
        match self.counted_since {
            0 => 0,
            counted_since => monotonic_ns().saturating_sub(counted_since),
        }
    }

    /// Longest sleep before the next check of a subscriber.
    pub(super) fn longest_nap(&self, longest: Duration) -> Duration {
        if self.since == 0 || self.stalls.is_empty() {
            return longest;
        }
        let left = Duration::from_nanos(self.due_at.saturating_sub(monotonic_ns()));
        longest.min(left.max(RECHECK_AFTER))
    }

    /// Reclaims the slowest subscribers while they are dead. Evicts them while they block the room
    /// and their time is over.
    fn reclaim_or_evict(
        &mut self,
        attached: &Attached,
        producer: &Producer,
        now: u64,
        need: Option<u64>,
    ) -> bool {
        let passed = now.saturating_sub(self.checked_at);
        if passed < CHECK_EVERY_NS {
            return false;
        }
        self.checked_at = now;
        if let Some(need) = need {
            self.time_subscribers(attached, producer, passed, need);
            show_slowest(producer);
        }
        let mut freed = false;
        // One after the other: several may be dead or overdue.
        while let Some(slowest) = producer.gate().slowest() {
            let overdue =
                need.and_then(|need| self.overdue(attached, producer, &slowest, now, need));
            match slots::reclaim_or_evict(attached, slowest.slot, overdue) {
                SlotCheck::Wait | SlotCheck::Absent => break,
                SlotCheck::Reclaimed => self.reclaimed += 1,
                SlotCheck::Evicted => self.evicted += 1,
            }
            freed = true;
        }
        if freed {
            attached.wake_publishers();
        }
        freed
    }

    /// Measures how long each subscriber that is behind has read nothing, and finds the next time
    /// that is over. The publisher waited for `passed` nanoseconds since the last call.
    fn time_subscribers(
        &mut self,
        attached: &Attached,
        producer: &Producer,
        passed: u64,
        need: u64,
    ) {
        let Attached {
            control, geometry, ..
        } = attached;
        if self.stalls.is_empty() {
            return;
        }
        let bound = geometry.evict_after_ns;
        self.due_at = self.since.saturating_add(bound);
        for (slot, position) in producer.gate().positions() {
            let ticket = slots::ticket(control, geometry, slot);
            let stalls = &mut self.stalls[slot];
            if (stalls.ticket, stalls.position) != (ticket, position) {
                *stalls = SlotStall {
                    ticket,
                    position,
                    for_ns: 0,
                };
            } else if position < producer.position() {
                stalls.for_ns = stalls.for_ns.saturating_add(passed);
            }
            if blocks_room(producer, geometry, position, need) {
                let left = bound.saturating_sub(stalls.for_ns);
                self.due_at = self.due_at.min(self.checked_at.saturating_add(left));
            }
        }
    }

    /// The ticket of the slowest subscriber, if it blocks the room and its time is over.
    fn overdue(
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
        let stalls = self.stalls.get(slowest.slot)?;
        if !blocks_room(producer, geometry, slowest.position, need) {
            return None;
        }
        let ticket = slots::ticket(control, geometry, slowest.slot);
        let is_same = (stalls.ticket, stalls.position) == (ticket, slowest.position);
        let bound = geometry.evict_after_ns;
        let waited = now.saturating_sub(self.since);
        (waited >= bound || is_same && stalls.for_ns >= bound).then_some(ticket)
    }
}

/// Whether a subscriber at `position` blocks the room up to `need`. A subscriber that has read
/// everything does not block a batch that is longer than the ring.
fn blocks_room(producer: &Producer, geometry: &Geometry, position: u64, need: u64) -> bool {
    position < producer.position() && position.saturating_add(geometry.capacity) < need
}

/// Shows in the lane which subscriber holds its publisher back.
fn show_slowest(producer: &Producer) {
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

/// Wake-ups in a row on one subscriber's page while its position stays the same. After so many the
/// publisher sleeps on its own word.
const FUTILE_WAKES_MAX: u32 = 64;

/// Where a publisher sleeps until there is room.
///
/// On a sealed channel it sleeps on a word of the slowest subscriber's page. That subscriber wakes
/// it when it releases bytes. After too many futile wakes on that page the publisher sleeps on its
/// own park word. There no release wakes it, so its naps stay short.
#[derive(Debug, Default)]
pub(super) struct ParkTarget {
    last: Option<(Slowest, Sleeper)>,
    woken: u32,
}

impl ParkTarget {
    /// Sleeps until there may be room, or for `longest`; `own` is the publisher's own sleeper.
    /// `end_wait` wakes it.
    pub(super) fn sleep(
        &mut self,
        own: &Sleeper,
        attached: &Attached,
        producer: &mut Producer,
        longest: Duration,
        end_wait: Option<&EndWait>,
        mut ready: impl FnMut(&mut Producer) -> bool,
    ) {
        let evict_after = attached.geometry.evict_after_ns;
        let longest = if evict_after == 0 {
            longest
        } else {
            // The eviction clock runs, so the publisher wakes in time to check it.
            let step = Duration::from_nanos(evict_after / 8);
            longest.min(step.clamp(EVICTION_STEP_MIN, EVICTION_STEP_MAX))
        };
        match producer.room_of_slowest() {
            None => self.last = None,
            Some((slowest, _)) if self.last.as_ref().is_some_and(|last| last.0 == slowest) => {}
            Some((slowest, park)) => {
                (self.last, self.woken) = (Some((slowest, Sleeper::new(park, None, None))), 0);
            }
        }
        // No event reports that an absent subscriber expires.
        let slowest = producer.gate().slowest();
        let expires = slowest.and_then(|slowest| {
            slots::expires_in(&attached.control, &attached.geometry, slowest.slot)
        });
        let longest = match expires {
            Some(left) if !left.is_zero() => longest.min(left.max(EVICTION_STEP_MIN)),
            // It has expired: the caller has removed it, or waits for others.
            _ => longest,
        };
        let producer = core::cell::RefCell::new(producer);
        let ready = || end_wait.is_some_and(EndWait::is_over) || ready(&mut producer.borrow_mut());
        let page = self.last.as_ref().filter(|_| self.woken < FUTILE_WAKES_MAX);
        if let Some(end_wait) = end_wait {
            end_wait.sleeps_on(page.map_or(&own.park, |(_, page)| &page.park));
        }
        match (page, &self.last) {
            (Some((_, page)), _) => {
                let long_naps = long_naps_on_page(end_wait);
                let woken = page.sleep(longest, |_| long_naps, ready);
                self.woken += u32::from(woken);
            }
            (None, Some(_)) => {
                own.sleep(longest, |_| LongNaps::Unsafe, ready);
            }
            (None, None) => {
                let watch = |watches: &mut _| {
                    let slowest = producer.borrow().gate().slowest();
                    watch_slowest(attached, slowest, &own.park, watches)
                };
                own.sleep(longest, watch, ready);
            }
        }
    }
}

/// Shortest and longest nap while an eviction may be due.
const EVICTION_STEP_MIN: Duration = Duration::from_millis(1);
const EVICTION_STEP_MAX: Duration = Duration::from_millis(8);

/// Whether a publisher may sleep long on a subscriber's page of a sealed channel.
///
/// The thread that serves the socket wakes it when the subscriber ends. But the subscriber can
/// lower the park word, and then `end_wait` does not wake the publisher.
const fn long_naps_on_page(end_wait: Option<&EndWait>) -> LongNaps {
    match end_wait {
        None => LongNaps::Safe,
        Some(_) => LongNaps::Unsafe,
    }
}

/// Whether a publisher that `slowest` holds back may sleep long: the warden watches for its death,
/// and its releases wake the publisher.
fn watch_slowest(
    attached: &Attached,
    slowest: Option<Slowest>,
    park: &Word,
    watches: &mut warden::Watches,
) -> LongNaps {
    let locks = attached.locks.reader();
    // If no subscriber gates, the publisher waits for new ones, and each of those wakes it.
    let Some(slowest) = slowest.filter(|_| !locks.is_inproc()) else {
        return LongNaps::Safe;
    };
    let Attached {
        control, geometry, ..
    } = attached;
    let byte = lock_byte::SLOT + slowest.slot as u64;
    if !locks.is_held(byte) && slots::state(control, geometry, slowest.slot) != slot::DURABLE {
        // Dead, and not reclaimed yet.
        return LongNaps::Unsafe;
    }
    let base = geometry.slot(slowest.slot);
    let peer = warden::Peer {
        byte,
        pid: control.resolve(base + slot::PID),
        space: control.resolve(base + slot::PID_SPACE),
        open: None,
    };
    watch_peers(&locks, watches, park, &[peer])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn naps_on_an_untrusted_page_are_short_if_a_task_may_end_the_wait() {
        assert_eq!(long_naps_on_page(None), LongNaps::Safe);
        let end_wait = EndWait::default();
        assert_eq!(long_naps_on_page(Some(&end_wait)), LongNaps::Unsafe);
    }
}
