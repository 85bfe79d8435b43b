//! What a publisher waits for: room, subscribers, and that all was read.

use super::super::attached::Attached;
use super::super::hold::{ParkTarget, Waiting};
use super::super::slots::{self, Verdict};
use super::{Endpoint, Publisher};
use crate::error::NotSent;
use crate::message::Outgoing;
use crate::ring::gate::bits;
use crate::ring::layout::control;
use crate::ring::publish::Producer;
use crate::wait::Step;
use std::time::{Duration, Instant};

impl Endpoint {
    /// Subscribers that hold this lane back, those that are dead no longer among them.
    ///
    /// A lock tells who lives, which takes a system call for each: only where a number decides something.
    pub(super) fn count_living(&mut self) -> usize {
        let Self { attached, hold, .. } = self;
        let (living, dead) = judge_all(attached);
        hold.reclaimed += dead;
        living
    }
}

/// Judges every subscriber that gates, as somebody who is held back would: how many live or, being durable, may come
/// back, and how many were dead and hold nobody back any more. One that still joins does not count: it starts in some
/// lanes where they are when it comes to them, so that what is sent to it now may be before that.
pub(super) fn judge_all(attached: &Attached) -> (usize, u64) {
    let (mut living, mut dead) = (0, 0);
    for slot in bits(
        &attached.control,
        control::GATING,
        attached.geometry.slots(),
    ) {
        if slots::judge(attached, slot, None) == Verdict::Reclaimed {
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
    /// [`Outgoing::sized`] with a topic. `None` waits as long as it takes.
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
        let at = self.producer.position();
        let mut waiting = Waiting::new(&self.endpoint.config, timeout);
        let mut target = ParkTarget::default();
        loop {
            let found = self.room_with_topic(at, length, topic);
            let Err(found @ (NotSent::BackPressured | NotSent::NotConnected)) = found else {
                // The second look before a sleep may have found the room: the time without any ends here too.
                self.endpoint.hold.stall_ended(&self.producer);
                return found.map(|_| ());
            };
            let Some(step) = waiting.step() else {
                self.endpoint.hold.give_up(&self.producer);
                return Err(found);
            };
            if let Step::Park = step {
                let need = self.producer.need(at, self.carried(length, topic));
                let wanted = self.endpoint.config.subscribers as usize;
                let nap = self.endpoint.hold.nap(waiting.left());
                let Endpoint {
                    attached, sleeper, ..
                } = &*self.endpoint;
                let ready = |producer: &mut Producer| match found {
                    NotSent::NotConnected => producer.gate().count() >= wanted,
                    _ => producer.make_room(need),
                };
                target.sleep(sleeper, attached, &mut self.producer, nap, ready);
            }
        }
    }

    /// Waits until `count` reliable subscribers are attached; `false` if `timeout` ran out first. Counts as
    /// [`Publisher::count_subscribers`] does.
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
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let reached = self.wait_until(left, |producer| producer.gate().count() >= count)?;
            // Some of them may be dead: they are gone now, so that each round counts fewer of those.
            if !reached || self.endpoint.count_living() >= count {
                return Ok(reached);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// Waits until every live reliable subscriber has read everything published here, and released it; `false`
    /// if `timeout` ran out first. Durable subscribers that are absent count as live until they expire. Evicts
    /// nobody: a subscriber that is behind holds no message back here.
    ///
    /// # Errors
    ///
    /// [`NotSent::Closed`] or [`NotSent::Forked`].
    pub fn wait_drained(&mut self, timeout: Option<Duration>) -> Result<bool, NotSent> {
        self.wait_until(timeout, Producer::is_drained)
    }

    fn wait_until(
        &mut self,
        timeout: Option<Duration>,
        reached: impl Fn(&Producer) -> bool,
    ) -> Result<bool, NotSent> {
        let mut waiting = Waiting::new(&self.endpoint.config, timeout);
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
            let Endpoint { attached, hold, .. } = &mut *self.endpoint;
            hold.no_hurry(attached, &self.producer);
            let Some(step) = waiting.step() else {
                return Ok(false);
            };
            if let Step::Park = step {
                let Endpoint {
                    attached, sleeper, ..
                } = &*self.endpoint;
                let ready = |producer: &mut Producer| reached(producer);
                target.sleep(sleeper, attached, &mut self.producer, waiting.left(), ready);
            }
        }
    }
}
