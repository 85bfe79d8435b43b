//! Waits of a publisher: for room, for subscribers, and until everything was read.

use super::super::attached::Attached;
use super::super::back_pressure::ParkTarget;
use super::super::slots::{self, SlotCheck};
use super::super::waiting::{EndWait, Waiting};
use super::{Endpoint, Publisher};
use crate::error::NotSent;
use crate::link::Control;
use crate::message::Outgoing;
#[cfg(feature = "journal")]
use crate::ring::ending;
use crate::ring::gate::bits;
use crate::ring::layout::control;
use crate::ring::publish::Producer;
use crate::wait::Step;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Endpoint {
    /// Number of subscribers that hold this lane back. Dead ones are reclaimed and do not count.
    ///
    /// A system call for each lock tells which ones live. So this is called only if the number
    /// decides something.
    pub(super) fn count_living(&mut self) -> usize {
        let Self {
            attached, stall, ..
        } = self;
        let (living, dead) = count_gating(attached);
        stall.reclaimed += dead;
        counted(living, self.uncounted.as_ref())
    }
}

/// Those of `gating` subscribers that count: without the bridge until it has been connected.
pub(super) fn counted(gating: usize, bridge: Option<&Arc<Control>>) -> usize {
    let is_away = bridge.is_some_and(|bridge| !bridge.has_connected());
    gating.saturating_sub(usize::from(is_away))
}

/// Checks every gating subscriber as a blocked publisher does. Returns how many live or are durable
/// and may return, and how many were dead and are reclaimed.
///
/// A subscriber that still joins does not count: it may start in some lanes after a message that is
/// sent now.
pub(super) fn count_gating(attached: &Attached) -> (usize, u64) {
    let (mut living, mut dead) = (0, 0);
    for slot in bits(
        &attached.control,
        control::GATING,
        attached.geometry.slots(),
    ) {
        if slots::reclaim_or_evict(attached, slot, None) == SlotCheck::Reclaimed {
            dead += 1;
        } else if !slots::is_joining(&attached.control, &attached.geometry, slot) {
            living += 1;
        }
    }
    if dead > 0 {
        attached.wake_publishers();
    }
    (living, dead)
}

impl<T: ?Sized> Publisher<T> {
    /// Waits by the wait strategy until a message has room: one of this length, or one of
    /// [`Outgoing::sized`] with a topic. `None` waits without a bound.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` if `timeout` is over.
    pub fn wait_for_room<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
        timeout: Option<Duration>,
    ) -> Result<(), NotSent> {
        let Outgoing { body, label } = room.into();
        self.await_room(body, label.topic, timeout)
    }

    #[cold]
    #[inline(never)]
    pub(in super::super) fn await_room(
        &mut self,
        length: usize,
        topic: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), NotSent> {
        let waiting = Waiting::new(self.endpoint.config.wait, timeout);
        self.await_room_within(length, topic, waiting)
    }

    /// As [`Publisher::await_room`], but parks for every wait strategy, until `end_wait` ends it.
    pub(in super::super) fn await_room_parked(
        &mut self,
        length: usize,
        topic: Option<&str>,
        end_wait: &EndWait,
    ) -> Result<(), NotSent> {
        self.await_room_within(length, topic, Waiting::parked(end_wait))
    }

    fn await_room_within(
        &mut self,
        length: usize,
        topic: Option<&str>,
        mut waiting: Waiting<'_>,
    ) -> Result<(), NotSent> {
        let at = self.producer.position();
        let mut target = ParkTarget::default();
        loop {
            let found = self.room_with_topic(at, length, topic);
            let Err(found @ (NotSent::BackPressured | NotSent::NotConnected)) = found else {
                // The second check before a sleep may have found the room: the stall ends here too.
                self.endpoint.stall.stall_ended(&self.producer);
                return found.map(|_| ());
            };
            let Some(step) = waiting.step() else {
                self.endpoint.stall.wait_abandoned(&self.producer);
                return Err(found);
            };
            if let Step::Park = step {
                let need = self.producer.need(at, self.carried(length, topic));
                let wanted = self.endpoint.config.subscribers as usize;
                let nap = self.endpoint.stall.longest_nap(waiting.left());
                let Endpoint {
                    attached,
                    sleeper,
                    uncounted: bridge,
                    ..
                } = &*self.endpoint;
                let ready = |producer: &mut Producer| match found {
                    NotSent::NotConnected => {
                        counted(producer.gate().count(), bridge.as_ref()) >= wanted
                    }
                    _ => producer.make_room(need),
                };
                let end_wait = waiting.end_wait;
                target.sleep(sleeper, attached, &mut self.producer, nap, end_wait, ready);
            }
        }
    }

    /// Waits until `count` reliable subscribers are attached; `false` if `timeout` is over first.
    /// More than `subscribers_max=` never are.
    /// Counts as [`Publisher::count_subscribers`] does.
    ///
    /// # Errors
    ///
    /// [`NotSent::Closed`] or [`NotSent::Forked`].
    pub fn wait_for_subscribers(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<bool, NotSent> {
        let started = Instant::now();
        let bridge = self.endpoint.uncounted.clone();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let reached = self.wait_until(left, |producer| {
                counted(producer.gate().count(), bridge.as_ref()) >= count
            })?;
            // Dead subscribers are reclaimed here, so the next round does not count them.
            if !reached || self.endpoint.count_living() >= count {
                return Ok(reached);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Waits until every live reliable subscriber has read and released everything published here;
    /// `false` if `timeout` is over first. Absent durable subscribers count as live until they
    /// expire. This wait evicts no subscriber: without a message that waits, none is in the way.
    ///
    /// # Errors
    ///
    /// [`NotSent::Closed`] or [`NotSent::Forked`].
    pub fn wait_drained(&mut self, timeout: Option<Duration>) -> Result<bool, NotSent> {
        self.wait_until(timeout, Producer::is_drained)
    }

    /// The lane's newest failure, unless every subscriber that holds this publisher back has read
    /// a message behind it, and so the failure.
    #[cfg(feature = "journal")]
    pub(crate) fn unread_failure(&self) -> Option<ending::Failure> {
        let failure = ending::failure(self.producer.lane())?;
        let is_read = self.producer.is_read_to(failure.position.wrapping_add(1));
        (!is_read).then_some(failure)
    }

    /// Whether the lane's newest failure is read as far as that can be known: a subscriber that has
    /// read everything is not waited for if nothing was sent since. Asks like a publisher that
    /// waits for room, so that dead subscribers are reclaimed and slow ones evicted.
    #[cfg(feature = "journal")]
    pub(crate) fn ask_failure_read(&mut self) -> bool {
        if self.endpoint.closed || !self.endpoint.page.is_ours() {
            return true;
        }
        let Some(failure) = self.unread_failure() else {
            self.endpoint.stall.stall_ended(&self.producer);
            return true;
        };
        let Endpoint {
            attached, stall, ..
        } = &mut *self.endpoint;
        let (sent, capacity) = (self.producer.position(), attached.geometry.capacity);
        if !(1..=capacity).contains(&sent.wrapping_sub(failure.position)) {
            return true;
        }
        let behind = failure.position + crate::region::HEADER_BYTES;
        if stall.no_room(attached, &self.producer, behind + capacity)
            && self.producer.is_read_to(behind)
        {
            stall.stall_ended(&self.producer);
            return true;
        }
        false
    }

    fn wait_until(
        &mut self,
        timeout: Option<Duration>,
        reached: impl Fn(&Producer) -> bool,
    ) -> Result<bool, NotSent> {
        let mut waiting = Waiting::new(self.endpoint.config.wait, timeout);
        let mut target = ParkTarget::default();
        loop {
            if !self.endpoint.page.is_ours() {
                return Err(NotSent::Forked);
            }
            if self.endpoint.closed {
                return Err(NotSent::Closed);
            }
            if self.endpoint.link_has_failed() {
                return Err(NotSent::LinkFailed);
            }
            if reached(&self.producer) {
                return Ok(true);
            }
            let Endpoint {
                attached, stall, ..
            } = &mut *self.endpoint;
            stall.check_dead(attached, &self.producer);
            let Some(step) = waiting.step() else {
                // What has died or expired during the last nap is not waited for.
                return Ok(reached(&self.producer));
            };
            if let Step::Park = step {
                let Endpoint {
                    attached, sleeper, ..
                } = &*self.endpoint;
                let ready = |producer: &mut Producer| reached(producer);
                let left = waiting.left();
                target.sleep(sleeper, attached, &mut self.producer, left, None, ready);
            }
        }
    }
}
