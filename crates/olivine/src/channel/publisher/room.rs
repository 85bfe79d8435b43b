//! Room for a message: below the cached limit at once, else by asking the gate; and topics, which take room too.

use super::{Endpoint, Publisher};
use crate::error::NotSent;
use crate::message::Position;
use crate::uri::topic::{trailer_length, write_trailer};

impl<T: ?Sized> Publisher<T> {
    #[inline(always)]
    pub(in super::super) fn send(&mut self, tag: u32, message: &[u8]) -> Result<Position, NotSent> {
        let at = self.producer.position();
        let Ok(end) = self.producer.fits(at, message.len()) else {
            let (end, whole) = self.write_with_topic(at, message)?;
            return Ok(Position(self.commit_slowly(end, tag, whole)));
        };
        Ok(Position(self.producer.send(end, tag, message)))
    }

    #[cold]
    #[inline(never)]
    fn commit_slowly(&mut self, end: u64, tag: u32, whole: usize) -> u64 {
        self.producer.commit(end, tag, whole)
    }

    /// Where the cached limit is used up, or a topic follows the message: writes a message and its topic at `at`; where
    /// the frame ends, and how long what it carries is.
    ///
    /// In the caller, and nothing is called with the message: one that was just built is in registers, and must be able
    /// to stay there on the way that does not come by here.
    #[inline(always)]
    pub(in super::super) fn write_with_topic(
        &mut self,
        at: u64,
        message: &[u8],
    ) -> Result<(u64, usize), NotSent> {
        let (end, whole) = self.room_with_topic(at, message.len())?;
        self.producer.place_mut(at, whole)[..message.len()].copy_from_slice(message);
        self.write_topic(at, message.len(), whole);
        Ok((end, whole))
    }

    /// Writes the topic, if there is one, behind the message at `at` of `length` bytes.
    #[cold]
    #[inline(never)]
    fn write_topic(&mut self, at: u64, length: usize, whole: usize) {
        if let Some(topic) = &self.endpoint.topic {
            write_trailer(&mut self.producer.place_mut(at, whole)[length..], topic);
        }
    }

    /// Room for a message of `length` bytes and its topic, if there is one: where the frame ends, and how long what it carries is.
    #[cold]
    #[inline(never)]
    pub(super) fn room_with_topic(
        &mut self,
        at: u64,
        length: usize,
    ) -> Result<(u64, usize), NotSent> {
        let whole = self.with_topic(length);
        let found = match self.producer.fits_whole(at, whole) {
            Err(NotSent::BackPressured) => self.ask_gate(at, whole),
            found => found,
        };
        match found {
            // The caller counts without the topic.
            Err(NotSent::TooLong { .. }) => Err(NotSent::TooLong {
                max: self.message_max(),
            }),
            found => Ok((found?, whole)),
        }
    }

    /// Bytes that a frame carries for a message of `length` bytes.
    pub(super) fn with_topic(&self, length: usize) -> usize {
        let topic = self.endpoint.topic.as_deref();
        length.saturating_add(topic.map_or(0, trailer_length))
    }

    #[inline(always)]
    pub(in super::super) fn send_waiting(
        &mut self,
        tag: u32,
        message: &[u8],
    ) -> Result<Position, NotSent> {
        match self.send(tag, message) {
            Err(NotSent::BackPressured | NotSent::NotConnected) => {
                self.wait_for_room(message.len(), None)?;
                self.send(tag, message)
            }
            done => done,
        }
    }

    /// End of a frame of `length` bytes at `at`, once there is room for it.
    #[inline(always)]
    pub(in super::super) fn room(&mut self, at: u64, length: usize) -> Result<u64, NotSent> {
        match self.producer.fits(at, length) {
            Ok(end) => Ok(end),
            Err(_) => self.room_with_topic(at, length).map(|(end, _)| end),
        }
    }

    /// The cached limit is used up: asks the gate, and finds out why there is no room.
    #[cold]
    #[inline(never)]
    fn ask_gate(&mut self, at: u64, length: usize) -> Result<u64, NotSent> {
        let endpoint = &mut *self.endpoint;
        if !endpoint.page.is_ours() {
            return Err(NotSent::Forked);
        }
        if endpoint.closed {
            return Err(NotSent::Closed);
        }
        if endpoint.link_has_failed() {
            return Err(NotSent::LinkFailed);
        }
        if endpoint.connecting {
            if self.producer.gate().count() < endpoint.config.subscribers as usize {
                return Err(NotSent::NotConnected);
            }
            endpoint.connecting = false;
        }
        let need = self.producer.need(at, length);
        let Endpoint { attached, hold, .. } = endpoint;
        if self.producer.make_room(need)
            || (hold.no_room(attached, &self.producer, need) && self.producer.make_room(need))
        {
            hold.let_go(&self.producer);
            return self.producer.fits_whole(at, length);
        }
        Err(NotSent::BackPressured)
    }
}
