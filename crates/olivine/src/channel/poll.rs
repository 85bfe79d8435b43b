//! Looking for messages: lane after lane, in place or copied out and checked.

use super::subscriber::Subscriber;
use super::surroundings::end_mark;
use crate::error::{Damage, ReceiveError};
use crate::message::Message;
use crate::ring::consume::{Consumer, Frame, Stop};
use crate::uri::topic;
use core::marker::PhantomData;

/// Messages taken from one lane before the next gets its turn.
const LANE_BUDGET: usize = 256;

/// Messages of topics that nobody asked for that one call goes past, before it says that there is nothing.
const SKIPPED_MAX: usize = 4096;

/// Looks between two looks for new lanes while there is always something to read in the old ones.
const NEW_LANES_EVERY: u32 = 64;

impl<T: ?Sized> Subscriber<T> {
    #[inline(always)]
    pub(super) fn poll_frames(
        &mut self,
        mut handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.begin()?;
        loop {
            let total = self.poll_lanes(&mut handler, limit)?;
            if total > 0 || limit == 0 {
                self.empty_polls = 0;
                return Ok(total);
            }
            if !self.found_new_lanes()? {
                return self.found_nothing().map(|()| 0);
            }
        }
    }

    #[inline(always)]
    fn poll_lanes(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        if self.slow {
            return self.poll_slowly(handler, limit);
        }
        if let [only] = &mut self.lanes[..] {
            return match drain(only, handler, limit) {
                Ok(count) => Ok(count),
                Err(stop) => self.go_slowly(stop, handler, limit, 0),
            };
        }
        let mut total = 0;
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            if self.turn >= lanes {
                self.turn = 0;
            }
            let budget = LANE_BUDGET.min(limit - total);
            let turn = self.turn;
            let drained = drain(&mut self.lanes[turn], handler, budget);
            // Behind the handler: one that panics gets the same message first again. Before an error: one lane that is
            // corrupt keeps no other waiting.
            self.turn = turn + 1;
            match drained {
                Ok(count) => total += count,
                Err(stop) => return self.go_slowly(stop, handler, limit, total),
            }
            if total == limit {
                break;
            }
        }
        Ok(total)
    }

    /// The first message with a topic was met: from now on each message is looked at. Goes on with
    /// the rest of `limit` after `total` messages. A damaged frame is met again, and told.
    #[cold]
    #[inline(never)]
    fn go_slowly(
        &mut self,
        stop: Stop,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
        total: usize,
    ) -> Result<usize, ReceiveError> {
        self.slow = true;
        let total = total + stop.count;
        Ok(total + self.poll_slowly(handler, limit - total)?)
    }

    /// Where messages are copied out and checked, or some have topics.
    #[inline(never)]
    fn poll_slowly(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        if !self.checked {
            return self.poll_topics(handler, limit);
        }
        let (mut total, mut seen) = (0, 0);
        while total < limit && seen - total < SKIPPED_MAX {
            let Some((lane, frame)) = self.next_copied()? else {
                break;
            };
            seen += 1;
            let chosen = self.choose(lane, &frame);
            if let Ok(Some(payload)) = chosen {
                self.payload = payload;
                // While the handler has it: one that panics gets the same message first again.
                self.turn = lane;
                handler(self.message(lane, &frame));
                self.turn = lane + 1;
                total += 1;
            }
            self.lanes[lane].advance(&frame);
            chosen?;
        }
        Ok(total)
    }

    /// Messages that lie in place, of which some have topics.
    fn poll_topics(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        let filter = self.filter.as_deref();
        let lanes = self.lanes.len();
        let (mut total, mut seen, mut empty_polls) = (0, 0, 0);
        let mut wrong = None;
        while total < limit && seen - total < SKIPPED_MAX && empty_polls < lanes {
            if self.turn >= lanes {
                self.turn = 0;
            }
            let consumer = &mut self.lanes[self.turn];
            let lane = consumer.index();
            let budget = LANE_BUDGET.min(limit - total);
            let count = consumer.walk(budget, |frame, bytes| match parted(frame, bytes) {
                Some((payload, topic)) => {
                    if filter.is_none_or(|filter| filter.matches(topic)) {
                        total += 1;
                        handler(message_of(payload, lane, frame, topic));
                    }
                }
                // The first one of several.
                None => {
                    wrong.get_or_insert_with(|| no_topic(lane, frame));
                }
            });
            // As in `poll_lanes`.
            self.turn += 1;
            let count = count?;
            seen += count;
            empty_polls = if count == 0 { empty_polls + 1 } else { 0 };
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(total)
    }

    /// The next frame of any lane that is asked for. One that was copied is gone past, except by a durable subscriber;
    /// one in place is pending.
    #[cold]
    #[inline(never)]
    fn next_slowly(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        for _ in 0..SKIPPED_MAX {
            let found = if self.checked {
                self.next_copied()?
            } else {
                self.next_in_place(Consumer::next)?
            };
            let Some((lane, frame)) = found else {
                return Ok(None);
            };
            let chosen = self.choose(lane, &frame);
            if !matches!(chosen, Ok(Some(_))) {
                self.pending = None;
                self.lanes[lane].advance(&frame);
            } else if self.around.config.name.is_some() {
                // Until the next call says that it was dealt with, as if it lay in place.
                self.pending = Some((lane, frame));
            } else if self.checked {
                self.lanes[lane].advance(&frame);
            }
            if let Some(payload) = chosen? {
                self.payload = payload;
                return Ok(Some((lane, frame)));
            }
        }
        Ok(None)
    }

    /// Bytes of the message in `frame`, without its topic; `None` if that is not asked for.
    fn choose(&self, lane: usize, frame: &Frame) -> Result<Option<usize>, ReceiveError> {
        let filter = self.filter.as_deref();
        match parted(frame, self.carried(lane, frame)) {
            Some((payload, topic)) => {
                let is_asked = filter.is_none_or(|filter| filter.matches(topic));
                Ok(is_asked.then_some(payload.len()))
            }
            None => Err(no_topic(self.lanes[lane].index(), frame)),
        }
    }

    /// What `frame` carries.
    #[inline(always)]
    fn carried(&self, lane: usize, frame: &Frame) -> &[u8] {
        if self.checked {
            self.copy.bytes()
        } else {
            self.lanes[lane].view(frame)
        }
    }

    /// The message in `frame`, of as many bytes as `choose` said.
    #[cold]
    #[inline(never)]
    fn payload_slowly(&self, lane: usize, frame: &Frame, payload: usize) -> &[u8] {
        let carried = self.carried(lane, frame);
        carried.get(..payload).unwrap_or(carried)
    }

    /// The topic behind it.
    #[cold]
    #[inline(never)]
    fn topic_slowly(&self, lane: usize, frame: &Frame, payload: usize) -> &[u8] {
        let behind = self.carried(lane, frame).get(payload..).unwrap_or_default();
        // The last byte behind a message is the length of its topic.
        behind.split_last().map_or(behind, |(_, topic)| topic)
    }

    /// What every call starts with: refuses in a forked child, goes past the message handed out last, and
    /// now and then looks for new lanes, so that busy old ones do not keep them waiting for ever.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Result<(), ReceiveError> {
        if !self.around.page.is_plain() {
            self.around.say_first()?;
        }
        if let Some((lane, frame)) = self.pending.take() {
            self.lanes[lane].advance(&frame);
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(NEW_LANES_EVERY) {
            self.found_new_lanes()?;
        }
        Ok(())
    }

    /// The next frame of any lane; it stays in place until the next call.
    #[inline]
    pub(super) fn next_frame(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        self.begin()?;
        loop {
            let found = if self.slow {
                self.next_slowly()?
            } else {
                match self.next_in_place(Consumer::next_plain) {
                    Ok(found) => found,
                    Err(_) => {
                        self.slow = true;
                        self.next_slowly()?
                    }
                }
            };
            if found.is_some() {
                self.empty_polls = 0;
                return Ok(found);
            }
            if !self.found_new_lanes()? {
                return self.found_nothing().map(|()| None);
            }
        }
    }

    #[inline(always)]
    fn next_in_place<E>(
        &mut self,
        next: impl Fn(&mut Consumer) -> Result<Option<Frame>, E>,
    ) -> Result<Option<(usize, Frame)>, E> {
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            if self.turn >= lanes {
                self.turn = 0;
            }
            let turn = self.turn;
            self.turn += 1;
            if let Some(frame) = next(&mut self.lanes[turn])? {
                self.pending = Some((turn, frame));
                return Ok(Some((turn, frame)));
            }
            self.lanes[turn].at_tail();
        }
        Ok(None)
    }

    /// The next frame of any lane, copied out and checked. The caller goes past it.
    fn next_copied(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        for _ in 0..self.lanes.len() {
            if self.turn >= self.lanes.len() {
                self.turn = 0;
            }
            let turn = self.turn;
            self.turn += 1;
            let consumer = &mut self.lanes[turn];
            match consumer.next_checked(&mut self.copy) {
                Ok(None) => consumer.at_tail(),
                Ok(Some(frame)) => return Ok(Some((turn, frame))),
                Err(ReceiveError::Overrun { lost_bytes }) => {
                    return Err(self.around.overrun(lost_bytes));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    /// The message in `frame`, which `next_frame` just found.
    #[inline(always)]
    pub(super) fn message(&self, lane: usize, frame: &Frame) -> Message<'_> {
        // Each part by a function of its own, so that the fast path builds the message in registers.
        let (bytes, topic) = if self.slow {
            (
                self.payload_slowly(lane, frame, self.payload),
                self.topic_slowly(lane, frame, self.payload),
            )
        } else {
            (self.lanes[lane].view(frame), &[][..])
        };
        message_of(bytes, self.lanes[lane].index(), frame, topic)
    }

    /// Whether lanes appeared since the last look; they are mapped now. Costs one load of a word that hardly ever
    /// changes.
    #[inline(always)]
    pub(super) fn found_new_lanes(&mut self) -> Result<bool, ReceiveError> {
        let before = self.lanes.len();
        let found = self.around.attach_new_lanes(&mut self.lanes);
        // Also behind an error: a lane that was mapped before it is read by the shape's rules.
        if self.lanes.len() > before {
            self.take_shape();
        }
        found
    }

    /// Does what the channel's shape asks of its readers: it may have been fixed since we joined.
    #[cold]
    #[inline(never)]
    fn take_shape(&mut self) {
        self.checked |= self.around.is_checked();
        self.slow |= self.checked;
    }

    /// A look found nothing. Now and then that is the time to look for what changed: the end of the stream, an
    /// eviction. Not at the first looks: a spinning subscriber whose next message is on its way is
    /// not kept from it.
    #[inline(always)]
    fn found_nothing(&mut self) -> Result<(), ReceiveError> {
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls == 4 || self.empty_polls.is_multiple_of(32) {
            self.look_around()?;
        }
        if let Some(watch) = &self.around.watch {
            // The watch tells of what changes from here on: what has ended or was taken before is told now.
            watch.arm(&self.lanes, &self.around);
            self.look_around()?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn look_around(&mut self) -> Result<(), ReceiveError> {
        crate::points::look("look.around");
        self.around.heard_end();
        if self.around.is_evicted() {
            return Err(self.around.evicted());
        }
        crate::points::look("look.ends");
        if self.around.link_has_failed() && !self.found_new_lanes()? {
            self.around.link_failure(&self.lanes)?;
        }
        self.around.lane_failures(&self.lanes)?;
        let ends = self.around.is_at_end(&self.lanes);
        let end = if ends {
            self.around.end(&self.lanes)
        } else {
            Ok(())
        };
        if end.is_err() {
            self.around.told_end = end_mark(&self.lanes);
            // The next call looks around at once, and says so again.
            self.empty_polls = 3;
        }
        end
    }
}

#[inline(always)]
fn message_of<'a>(bytes: &'a [u8], lane: usize, frame: &Frame, topic: &'a [u8]) -> Message<'a> {
    Message {
        topic,
        bytes,
        tag: frame.tag,
        position: frame.position,
        lane,
        borrow: PhantomData,
    }
}

/// What `frame` carries as payload and topic, which is empty for a message without one.
#[inline]
fn parted<'a>(frame: &Frame, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    if frame.topic {
        topic::split(bytes)
    } else {
        Some((bytes, &[]))
    }
}

/// `frame` is marked as one with a topic, and does not end with one.
#[cold]
fn no_topic(lane: usize, frame: &Frame) -> ReceiveError {
    ReceiveError::Corrupt {
        lane,
        position: frame.position,
        damage: Damage::Topic {
            bytes: frame.length as u64,
        },
    }
}

/// Hands up to `limit` messages of one lane to `handler`.
#[inline(always)]
fn drain(
    consumer: &mut Consumer,
    handler: &mut impl FnMut(Message<'_>),
    limit: usize,
) -> Result<usize, Stop> {
    let lane = consumer.index();
    consumer.walk_plain(limit, |frame, bytes| {
        handler(message_of(bytes, lane, frame, &[]))
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
