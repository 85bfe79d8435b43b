//! Polling: lane after lane, in place, or copied out and checked.

use super::slow_state::end_mark;
use super::subscriber::Subscriber;
use crate::error::{Damage, ReceiveError};
use crate::message::Message;
use crate::ring::consume::{Alike, Consumer, Frame, Stop};
use crate::uri::topic;
use core::marker::PhantomData;

/// Messages read from one lane before the next lane is read.
const LANE_BUDGET: usize = 256;

/// Skipped messages of other topics in one call, after which the call returns nothing.
const SKIPPED_MAX: usize = 4096;

/// Of the calls in a row that find no message, the first that checks for an eviction and the end.
/// Earlier checks would delay a spinning subscriber whose next message arrives.
const FIRST_CHECK: u32 = 4;

/// After [`FIRST_CHECK`], each so many of these calls check.
const CHECK_EVERY: u32 = 32;

/// The number of such calls after which the next one checks.
pub(super) const CHECKS_NEXT: u32 = FIRST_CHECK - 1;

/// Calls between two reports of a lane that cannot be mapped, while other lanes have messages.
const REPORT_EVERY: u32 = 64;

impl<T: ?Sized> Subscriber<T> {
    #[inline(always)]
    pub(super) fn poll_frames(
        &mut self,
        mut handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.begin_poll()?;
        loop {
            let total = self.poll_lanes(&mut handler, limit)?;
            if total > 0 || limit == 0 {
                self.empty_calls = 0;
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
                Err(stop) => self.poll_on_slow_path(stop, handler, limit, 0),
            };
        }
        let mut total = 0;
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            if self.next_lane >= lanes {
                self.next_lane = 0;
            }
            let budget = LANE_BUDGET.min(limit - total);
            let lane = self.next_lane;
            let drained = drain(&mut self.lanes[lane], handler, budget);
            // After the handler: if it panics, it gets the same message first again. Before an
            // error: a corrupt lane does not block the others.
            self.next_lane = lane + 1;
            match drained {
                Ok(count) => total += count,
                Err(stop) => return self.poll_on_slow_path(stop, handler, limit, total),
            }
            if total == limit {
                break;
            }
        }
        Ok(total)
    }

    /// The first message with a topic was found: from now on every message is checked for a topic.
    /// Goes on with the rest of `limit` after `total` messages. A damaged frame is found again and
    /// reported.
    #[cold]
    #[inline(never)]
    fn poll_on_slow_path(
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

    /// For subscribers that copy messages out and check them, and for messages with topics.
    #[inline(never)]
    fn poll_slowly(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        // While a failure is not reported, one message is taken or skipped: none passes it.
        let (limit, skipped_max) = if self.slow_state.page.is_plain() {
            (limit, SKIPPED_MAX)
        } else {
            self.stop_at_failure()?;
            (limit.min(1), 1)
        };
        if !self.checked {
            return self.poll_topics(handler, limit, skipped_max);
        }
        let (mut total, mut seen) = (0, 0);
        let seen_max = LANE_BUDGET * self.lanes.len();
        while total < limit && seen - total < skipped_max && (seen < seen_max || total == 0) {
            let Some((lane, frame)) = self.next_copied()? else {
                break;
            };
            seen += 1;
            let chosen = self.choose(lane, &frame);
            if let Ok(Some(payload)) = chosen {
                self.payload = payload;
                // Set during the handler: if it panics, it gets the same message first again.
                self.next_lane = lane;
                handler(self.message(lane, &frame));
                self.next_lane = lane + 1;
                total += 1;
            }
            self.lanes[lane].advance(&frame);
            chosen?;
        }
        Ok(total)
    }

    /// For messages in place of which some have topics.
    fn poll_topics(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
        skipped_max: usize,
    ) -> Result<usize, ReceiveError> {
        let filter = self.filter.as_deref();
        let lanes = self.lanes.len();
        let (mut total, mut seen, mut empty_lanes) = (0, 0, 0);
        let mut wrong = None;
        let seen_max = LANE_BUDGET * lanes;
        while total < limit
            && seen - total < skipped_max
            && empty_lanes < lanes
            && (seen < seen_max || total == 0)
        {
            if self.next_lane >= lanes {
                self.next_lane = 0;
            }
            let consumer = &mut self.lanes[self.next_lane];
            let lane = consumer.index();
            let budget = LANE_BUDGET.min(limit - total);
            let count = consumer.walk(budget, |frame, bytes| match split_topic(frame, bytes) {
                Some((payload, topic)) => {
                    if filter.is_none_or(|filter| filter.matches(topic)) {
                        total += 1;
                        handler(message_of(payload, lane, frame, topic));
                    }
                }
                // The first of several.
                None => {
                    wrong.get_or_insert_with(|| no_topic(lane, frame));
                }
            });
            // As in `poll_lanes`.
            self.next_lane += 1;
            let count = count?;
            seen += count;
            empty_lanes = if count == 0 { empty_lanes + 1 } else { 0 };
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(total)
    }

    /// The next frame of any lane that passes the filter. A copied frame is consumed, except by a
    /// durable subscriber. A frame in place is pending.
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
            let checked = self.checked;
            self.stop_at_failure()?;
            if self.checked != checked {
                // It is read again, by the rules of the shape found just now.
                self.pending.forget();
                continue;
            }
            let chosen = self.choose(lane, &frame);
            if !matches!(chosen, Ok(Some(_))) {
                self.pending.forget();
                self.lanes[lane].advance(&frame);
            } else if self.slow_state.config.name.is_some() {
                // It is pending until the next call, like a frame in place.
                self.pending.set(lane, &frame);
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

    /// Bytes of the message in `frame` without its topic; `None` if the filter does not choose the
    /// topic.
    fn choose(&self, lane: usize, frame: &Frame) -> Result<Option<usize>, ReceiveError> {
        let filter = self.filter.as_deref();
        match split_topic(frame, self.carried(lane, frame)) {
            Some((payload, topic)) => {
                let is_asked = filter.is_none_or(|filter| filter.matches(topic));
                Ok(is_asked.then_some(payload.len()))
            }
            None => Err(no_topic(self.lanes[lane].index(), frame)),
        }
    }

    /// The payload of `frame`, with the topic.
    #[inline(always)]
    fn carried(&self, lane: usize, frame: &Frame) -> &[u8] {
        if self.checked {
            self.copy.bytes()
        } else {
            self.lanes[lane].view(frame)
        }
    }

    /// The message in `frame`; `payload` is its length from `choose`.
    #[cold]
    #[inline(never)]
    fn payload_slowly(&self, lane: usize, frame: &Frame, payload: usize) -> &[u8] {
        let carried = self.carried(lane, frame);
        carried.get(..payload).unwrap_or(carried)
    }

    /// The topic after the message.
    #[cold]
    #[inline(never)]
    fn topic_slowly(&self, lane: usize, frame: &Frame, payload: usize) -> &[u8] {
        let behind = self.carried(lane, frame).get(payload..).unwrap_or_default();
        // The last byte after a message is the length of its topic.
        behind.split_last().map_or(behind, |(_, topic)| topic)
    }

    /// The start of a call for one message: refuses in a forked child, reports a failure that is
    /// due, and consumes the message returned last.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Result<(), ReceiveError> {
        if !self.slow_state.page.is_plain() {
            self.begin_carefully()?;
        }
        self.consume_pending();
        Ok(())
    }

    /// As [`Subscriber::begin`], for a call that reads all lanes.
    #[inline(always)]
    fn begin_poll(&mut self) -> Result<(), ReceiveError> {
        if !self.slow_state.page.is_plain() | self.slow_state.has_new_publishers() {
            self.begin_carefully()?;
        }
        self.consume_pending();
        Ok(())
    }

    #[inline(always)]
    pub(super) fn consume_pending(&mut self) {
        if let Some((lane, end)) = self.pending.take() {
            match self.lanes.get_mut(lane) {
                Some(lane) => lane.advance_to(end),
                None => self.consume_held(),
            }
        }
    }

    /// Consumes what [`Subscriber::poll_held`] has handed out.
    #[cold]
    #[inline(never)]
    fn consume_held(&mut self) {
        for lane in &mut self.lanes {
            lane.end_hold();
        }
    }

    fn hold(&mut self) {
        for lane in &mut self.lanes {
            lane.hold();
        }
        self.pending.set_all();
    }

    /// As [`Subscriber::poll_frames`], of a durable subscriber: the next call consumes what it
    /// hands out. Reads on until there is nothing more.
    #[inline(never)]
    pub(super) fn poll_held(
        &mut self,
        mut handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.begin_poll()?;
        if limit == 0 {
            return Ok(0);
        }
        // Before the handler, which may panic.
        self.hold();
        let polled = self.poll_all_held(&mut handler, limit);
        // An error has forgotten it.
        self.pending.set_all();
        match polled {
            Ok(0) => {
                // It handed out nothing: what it skipped holds nothing back.
                self.consume_pending();
                self.found_nothing().map(|()| 0)
            }
            polled => polled,
        }
    }

    fn poll_all_held(
        &mut self,
        handler: &mut impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        let mut total = 0;
        while total < limit {
            let count = self.poll_lanes(handler, limit - total)?;
            total += count;
            let is_over = match total {
                // A new lane is held as well: see `take_shape`.
                0 => !self.found_new_lanes()?,
                // What a new publisher sends may follow a failure: the next call looks.
                _ => count == 0 || self.slow_state.has_new_publishers() || self.owes_a_failure(),
            };
            if is_over {
                break;
            }
        }
        if total > 0 {
            self.empty_calls = 0;
        }
        Ok(total)
    }

    /// Whether the next call reports a failure, and consumes first what this one handed out.
    fn owes_a_failure(&self) -> bool {
        !self.slow_state.page.is_plain()
            && self.slow_state.unreported_failure(&self.lanes).is_some()
    }

    /// Checks what every call must report first, and maps the lanes of new publishers. Then it
    /// reports a failure that later messages follow. While a failure is not reported, messages are
    /// read on the slow path, which does not pass it.
    #[cold]
    #[inline(never)]
    fn begin_carefully(&mut self) -> Result<(), ReceiveError> {
        self.slow_state.check_before_call()?;
        self.consume_pending();
        self.find_publishers()?;
        self.slow_state.stop_at_failures(&self.lanes);
        self.slow = self.checked || self.filter.is_some();
        self.stop_at_failure()
    }

    /// Maps the lanes of new publishers. A lane that cannot be mapped is reported now and then: the
    /// others may have messages.
    fn find_publishers(&mut self) -> Result<(), ReceiveError> {
        let found = self.found_new_lanes();
        self.map_failures = self.map_failures.wrapping_add(u32::from(found.is_err()));
        match found {
            Err(error) if self.map_failures.is_multiple_of(REPORT_EVERY) => Err(error),
            _ => Ok(()),
        }
    }

    /// A frame was found that may follow a failure, or a call begins: reports a failure that is
    /// due. After an error the frame stays for the next call.
    #[cold]
    #[inline(never)]
    fn stop_at_failure(&mut self) -> Result<(), ReceiveError> {
        let found = self.look_for_failure();
        if found.is_err() {
            self.pending.forget();
        }
        found
    }

    fn look_for_failure(&mut self) -> Result<(), ReceiveError> {
        if self.slow_state.has_new_publishers() {
            self.find_publishers()?;
        }
        if self.slow_state.page.is_plain() {
            return Ok(());
        }
        self.slow = true;
        if self.slow_state.unreported_failure(&self.lanes).is_some() {
            return self.report_failure_or_end();
        }
        Ok(())
    }

    /// The next frame of any lane; it stays in place until the next call.
    #[inline(always)]
    pub(super) fn next_frame(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        match self.pending.row.next() {
            Some(alike) => Ok(Some((0, alike.frame))),
            None => self.next_of_any(),
        }
    }

    /// The message in `alike`, which the row has just found. It has no topic: messages with a topic
    /// are read on the slow path.
    #[inline(always)]
    pub(super) fn message_alike(&self, alike: Alike) -> Message<'_> {
        let (lane, frame) = (alike.lane, alike.frame);
        message_of(alike.view(&self.lanes), lane, &frame, &[])
    }

    /// A frame without a topic was found and is pending: lets the row go on after it, if the lane
    /// is the only one and no error is pending. That stays so while the frame is pending: each
    /// call that looks for lanes, for failures or for the shape consumes it first.
    #[inline(always)]
    fn go_on_in_a_row(&mut self) {
        if let [only] = &self.lanes[..]
            && self.slow_state.page.is_plain()
        {
            self.pending.row.go_on(only, self.slow_state.lanes_epoch);
        }
    }

    /// As [`Subscriber::next_frame`], in all cases.
    #[inline(never)]
    pub(super) fn next_of_any(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        self.begin()?;
        loop {
            let found = if self.slow {
                self.next_slowly()?
            } else {
                match self.next_in_place(Consumer::next_plain) {
                    Ok(None) => None,
                    Ok(found) => {
                        // After the frame: what follows a failure is of a publisher that came
                        // before this load.
                        if self.slow_state.has_new_publishers() {
                            self.stop_at_failure()?;
                            if self.slow {
                                // The slow path reads it again.
                                self.pending.forget();
                                continue;
                            }
                        }
                        self.go_on_in_a_row();
                        found
                    }
                    Err(_) => {
                        self.slow = true;
                        self.next_slowly()?
                    }
                }
            };
            if found.is_some() {
                self.empty_calls = 0;
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
            if self.next_lane >= lanes {
                self.next_lane = 0;
            }
            let lane = self.next_lane;
            self.next_lane += 1;
            if let Some(frame) = next(&mut self.lanes[lane])? {
                self.pending.set(lane, &frame);
                return Ok(Some((lane, frame)));
            }
            self.lanes[lane].at_tail();
        }
        Ok(None)
    }

    /// The next frame of any lane, copied out and checked. The caller consumes it.
    fn next_copied(&mut self) -> Result<Option<(usize, Frame)>, ReceiveError> {
        for _ in 0..self.lanes.len() {
            if self.next_lane >= self.lanes.len() {
                self.next_lane = 0;
            }
            let lane = self.next_lane;
            self.next_lane += 1;
            let consumer = &mut self.lanes[lane];
            match consumer.next_checked(&mut self.copy) {
                Ok(None) => consumer.at_tail(),
                Ok(Some(frame)) => return Ok(Some((lane, frame))),
                Err(ReceiveError::Overrun { lost_bytes }) => {
                    return Err(self.slow_state.overrun(lost_bytes));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    /// The message in `frame`, which `next_frame` has just found.
    #[inline(always)]
    pub(super) fn message(&self, lane: usize, frame: &Frame) -> Message<'_> {
        // Each part has its own function, so that the fast path builds the message in registers.
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

    /// Whether lanes appeared since the last check; maps them. Costs one load of a word that hardly
    /// ever changes.
    #[inline(always)]
    pub(super) fn found_new_lanes(&mut self) -> Result<bool, ReceiveError> {
        let before = self.lanes.len();
        let found = self.slow_state.attach_new_lanes(&mut self.lanes);
        // Also after an error: a lane that was mapped before it is read by the rules of the shape.
        if self.lanes.len() > before {
            self.take_shape();
        }
        found
    }

    /// Reads by the rules of the channel's shape, which may have been fixed since the join. A new
    /// lane may have failed.
    #[cold]
    #[inline(never)]
    fn take_shape(&mut self) {
        self.checked |= self.slow_state.is_checked();
        self.slow |= self.checked || !self.slow_state.page.is_plain();
        if self.pending.is_all() {
            self.hold();
        }
    }

    /// A call found no message. Now and then this checks for other changes: the end of the stream,
    /// an eviction.
    #[inline(always)]
    fn found_nothing(&mut self) -> Result<(), ReceiveError> {
        self.empty_calls = self.empty_calls.wrapping_add(1);
        if let Some(watch) = &self.slow_state.watch {
            // The watch reports changes from here on. What has changed before is reported now.
            watch.arm(&self.lanes, &self.slow_state);
            self.check_slow_state()
        } else if self.empty_calls == FIRST_CHECK || self.empty_calls.is_multiple_of(CHECK_EVERY) {
            self.check_slow_state()
        } else {
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn check_slow_state(&mut self) -> Result<(), ReceiveError> {
        crate::points::look("look.around");
        self.slow_state.store_reports();
        if self.slow_state.is_evicted() {
            return Err(self.slow_state.evicted());
        }
        crate::points::look("look.ends");
        if self.slow_state.link_has_failed() && !self.found_new_lanes()? {
            self.slow_state.report_lane_failures(&self.lanes)?;
            self.slow_state.link_failure(&self.lanes)?;
        }
        self.report_failure_or_end()
    }

    /// Reports a failure of a lane once, or the end of the stream as long as it lasts.
    fn report_failure_or_end(&mut self) -> Result<(), ReceiveError> {
        let slow_state = &mut self.slow_state;
        let failure = slow_state.report_lane_failures(&self.lanes);
        let Some(end) = slow_state.stream_end(&self.lanes) else {
            return failure;
        };
        let end = slow_state.end(&self.lanes, end);
        if failure.is_err() && matches!(end, Err(ReceiveError::Closed)) {
            // A failure of an earlier publisher is not the end.
            return failure;
        }
        if end.is_err() {
            slow_state.reported_end = end_mark(&self.lanes);
            // The next call checks at once and reports it again.
            self.empty_calls = CHECKS_NEXT;
        }
        failure.and(end)
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

/// The payload and the topic of `frame`; the topic is empty for a message without one.
#[inline]
fn split_topic<'a>(frame: &Frame, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    if frame.topic {
        topic::split(bytes)
    } else {
        Some((bytes, &[]))
    }
}

/// The error for a `frame` that is marked as one with a topic but has no valid topic.
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

/// Passes up to `limit` messages of one lane to `handler`.
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
