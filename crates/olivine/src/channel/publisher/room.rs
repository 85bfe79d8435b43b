//! Room for a message: from the cached limit, or from the gate. A topic needs room too.

use super::super::claim::Claim;
use super::{Endpoint, Publisher, wait};
use crate::error::NotSent;
use crate::message::{Outgoing, Position};
use crate::ring::layout::with_topic;
use crate::uri::topic::{is_topic, trailer_length, write_trailer};
use std::time::Duration;

/// Most characters of a refused topic that are shown.
const TOPIC_SHOWN: usize = 128;

/// The topic of a message: its own, else the publisher's. An empty topic is none.
fn topic_of<'t>(own: Option<&'t str>, default: Option<&'t str>) -> Option<&'t str> {
    own.or(default).filter(|topic| !topic.is_empty())
}

impl<T: ?Sized> Publisher<T> {
    #[inline(always)]
    pub(in super::super) fn send(&mut self, message: Outgoing<'_>) -> Result<Position, NotSent> {
        let Outgoing { body, label } = message;
        // The compiler knows whether there is a topic: messages without one cost nothing more.
        if label.topic.is_none()
            && let Ok(end) = self.producer.send(label.tag, body)
        {
            return Ok(Position(end));
        }
        let at = self.producer.position();
        let (end, length) = self.write_with_topic(at, message)?;
        Ok(Position(self.commit_slowly(end, label.tag, length)))
    }

    #[cold]
    #[inline(never)]
    fn commit_slowly(&mut self, end: u64, tag: u32, length: usize) -> u64 {
        self.producer.commit(end, tag, length)
    }

    /// The end of a frame of `length` bytes at `at`, if it has room and no topic follows. The
    /// compiler knows whether there is a topic: messages without one cost nothing more.
    #[inline(always)]
    pub(in super::super) fn fits(
        &self,
        at: u64,
        length: usize,
        topic: Option<&str>,
    ) -> Result<u64, NotSent> {
        match topic {
            None => self.producer.fits(at, length),
            Some(_) => Err(NotSent::BackPressured),
        }
    }

    /// Writes a message and its topic at `at`, if the cached limit is used up or the message has a
    /// topic. Returns the end of the frame and the length for its header.
    ///
    /// Inlined into the caller, and no function gets the message: a message that was just built
    /// stays in registers on the fast path.
    #[inline(always)]
    pub(in super::super) fn write_with_topic(
        &mut self,
        at: u64,
        message: Outgoing<'_>,
    ) -> Result<(u64, usize), NotSent> {
        let Outgoing { body, label } = message;
        let (end, whole) = self.room_with_topic(at, body.len(), label.topic)?;
        self.producer.place_mut(at, whole)[..body.len()].copy_from_slice(body);
        Ok((end, self.write_topic(at, body.len(), whole, label.topic)))
    }

    /// Writes the topic, if there is one, after the message at `at` of `length` bytes. Returns the
    /// length for the header.
    #[cold]
    #[inline(never)]
    fn write_topic(&mut self, at: u64, length: usize, whole: usize, own: Option<&str>) -> usize {
        let Some(topic) = topic_of(own, self.endpoint.topic.as_deref()) else {
            return whole;
        };
        write_trailer(&mut self.producer.place_mut(at, whole)[length..], topic);
        with_topic(whole)
    }

    /// Room for a message of `length` bytes and its topic, if there is one: the end of the frame,
    /// and the length with the topic.
    #[cold]
    #[inline(never)]
    pub(super) fn room_with_topic(
        &mut self,
        at: u64,
        length: usize,
        own: Option<&str>,
    ) -> Result<(u64, usize), NotSent> {
        if own.is_some_and(|own| !own.is_empty() && !is_topic(own.as_bytes())) {
            let given = own.unwrap_or_default().chars();
            let given = given.take(TOPIC_SHOWN).collect::<String>();
            self.endpoint.refused_topic = Some(given.into());
            return Err(NotSent::Topic);
        }
        let whole = self.carried(length, own);
        let found = match self.producer.fits_whole(at, whole) {
            Err(NotSent::BackPressured) => self.ask_gate(at, whole),
            found => found,
        };
        match found {
            // The caller counts without the topic.
            Err(NotSent::TooLong { max }) => {
                self.endpoint.refused_length = Some(length);
                Err(NotSent::TooLong {
                    max: max.saturating_sub(self.carried(0, own)),
                })
            }
            found => Ok((found?, whole)),
        }
    }

    /// Whether a message has room now.
    pub(in super::super) fn has_room(&mut self, room: Outgoing<'_, usize>) -> Result<(), NotSent> {
        let at = self.producer.position();
        let found = self.room_with_topic(at, room.body, room.label.topic);
        found.map(|_| ())
    }

    /// Length of the payload with the topic, for a message of `length` bytes.
    pub(super) fn carried(&self, length: usize, own: Option<&str>) -> usize {
        let topic = topic_of(own, self.endpoint.topic.as_deref());
        length.saturating_add(topic.map_or(0, trailer_length))
    }

    /// Sends within `timeout`; `None` waits without a bound.
    #[inline(always)]
    pub(in super::super) fn send_within(
        &mut self,
        message: Outgoing<'_>,
        timeout: Option<Duration>,
    ) -> Result<Position, NotSent> {
        match self.send(message) {
            Err(NotSent::BackPressured | NotSent::NotConnected) => {
                self.await_room(message.body.len(), message.label.topic, timeout)?;
                self.send(message)
            }
            done => done,
        }
    }

    /// Reserves a message, if there is room.
    #[inline(always)]
    pub(in super::super) fn reserve(
        &mut self,
        room: Outgoing<'_, usize>,
    ) -> Result<Claim<'_>, NotSent> {
        let found = self.find_place(room)?;
        Ok(self.claimed(room, found))
    }

    /// Reserves a message within `timeout`; `None` waits without a bound.
    #[inline(always)]
    pub(in super::super) fn reserve_within(
        &mut self,
        room: Outgoing<'_, usize>,
        timeout: Option<Duration>,
    ) -> Result<Claim<'_>, NotSent> {
        let found = match self.find_place(room) {
            Err(NotSent::BackPressured | NotSent::NotConnected) => {
                self.await_room(room.body, room.label.topic, timeout)?;
                self.find_place(room)?
            }
            found => found?,
        };
        Ok(self.claimed(room, found))
    }

    /// The end of a claimed frame, and the length for its header.
    #[inline(always)]
    fn find_place(&mut self, room: Outgoing<'_, usize>) -> Result<(u64, usize), NotSent> {
        let Outgoing { body, label } = room;
        if label.topic.is_none()
            && let Ok(end) = self.producer.reserve(body)
        {
            return Ok((end, body));
        }
        self.find_place_slowly(body, label.topic)
    }

    #[cold]
    #[inline(never)]
    fn find_place_slowly(
        &mut self,
        length: usize,
        topic: Option<&str>,
    ) -> Result<(u64, usize), NotSent> {
        let at = self.producer.position();
        let (end, whole) = self.room_with_topic(at, length, topic)?;
        self.producer.begin(end);
        Ok((end, self.write_topic(at, length, whole, topic)))
    }

    #[inline(always)]
    fn claimed(&mut self, room: Outgoing<'_, usize>, (end, carried): (u64, usize)) -> Claim<'_> {
        Claim {
            producer: &mut self.producer,
            end,
            length: room.body,
            carried,
            tag: room.label.tag,
        }
    }

    /// The end of a frame of `length` bytes at `at`, if it has room.
    #[inline(always)]
    pub(in super::super) fn room(&mut self, at: u64, length: usize) -> Result<u64, NotSent> {
        match self.producer.fits(at, length) {
            Ok(end) => Ok(end),
            Err(_) => self.room_with_topic(at, length, None).map(|(end, _)| end),
        }
    }

    /// The cached limit is used up: scans the gate, and finds why there is no room.
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
            let wanted = endpoint.config.subscribers as usize;
            let gating = self.producer.gate().count();
            let bridge = endpoint.uncounted.as_ref();
            if wait::counted(gating, bridge) < wanted || endpoint.count_living() < wanted {
                return Err(NotSent::NotConnected);
            }
            endpoint.connecting = false;
        }
        let need = self.producer.need(at, length);
        let Endpoint {
            attached, stall, ..
        } = endpoint;
        if self.producer.make_room(need)
            || (stall.no_room(attached, &self.producer, need) && self.producer.make_room(need))
        {
            stall.stall_ended(&self.producer);
            return self.producer.fits_whole(at, length);
        }
        Err(NotSent::BackPressured)
    }
}
