//! What a publisher waits for: room, subscribers, and that all was read.

use super::super::hold::{Beds, Waiting};
use super::{Endpoint, Publisher};
use crate::error::NotSent;
use crate::ring::publish::Producer;
use crate::wait::Step;
use std::time::Duration;

impl<T: ?Sized> Publisher<T> {
    /// Waits by the wait strategy until a message of `length` bytes has room.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` if `timeout` is over.
    #[cold]
    #[inline(never)]
    pub fn wait_for_room(
        &mut self,
        length: usize,
        timeout: Option<Duration>,
    ) -> Result<(), NotSent> {
        let at = self.producer.position();
        let mut waiting = Waiting::new(&self.endpoint.config, timeout);
        let mut beds = Beds::default();
        loop {
            let found = self.room_with_topic(at, length);
            let Err(found @ (NotSent::BackPressured | NotSent::NotConnected)) = found else {
                // The second look before a sleep may have found the room: the time without any ends here too.
                self.endpoint.hold.let_go(&self.producer);
                return found.map(|_| ());
            };
            let Some(step) = waiting.step() else {
                return Err(found);
            };
            if let Step::Park = step {
                let need = self.producer.need(at, self.with_topic(length));
                let wanted = self.endpoint.config.subscribers as usize;
                let sleeper = beds.choose(&self.endpoint.sleeper, &self.producer);
                let producer = &mut self.producer;
                sleeper.sleep(waiting.nap(), || match found {
                    NotSent::NotConnected => producer.gate().count() >= wanted,
                    _ => producer.make_room(need),
                });
            }
        }
    }

    /// Waits until `count` reliable subscribers are attached; `false` if `timeout` ran out first.
    ///
    /// # Errors
    ///
    /// [`NotSent::Closed`] or [`NotSent::Forked`].
    pub fn wait_for_subscribers(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<bool, NotSent> {
        self.wait_until(timeout, |producer| producer.gate().count() >= count)
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
        let mut beds = Beds::default();
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
                let producer = &self.producer;
                let sleeper = beds.choose(&self.endpoint.sleeper, producer);
                sleeper.sleep(waiting.nap(), || reached(producer));
            }
        }
    }
}
