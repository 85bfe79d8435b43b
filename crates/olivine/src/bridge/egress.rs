//! Out of a ring: a reliable subscriber whose position moves only on acknowledgement.

#[cfg(feature = "tcp")]
mod far_side;
#[cfg(all(test, feature = "tcp"))]
mod tests;

use super::frame::Frames;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::fields::{self, CheckWord};
use crate::channel::status::Durable;
use crate::channel::subscriber::Subscriber;
use crate::error::{LinkError, OpenError, ReceiveError};
use crate::link::Control;
use crate::message::KnownType;
use crate::region::Word;
use crate::ring::consume::Consumer;
use crate::ring::ending::{self, Failure};
use crate::ring::layout::Geometry;
use crate::uri::Config;
use crate::wait::warden::Watches;
use crate::wait::{LongNaps, Sleeper};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Takes frames out of a ring for the far side.
///
/// Each lane has two positions: the end of what was handed over ([`Egress::position`]), and the end
/// of what the far side acknowledged ([`Egress::acknowledged`]). Only the second holds publishers
/// back, and only [`Egress::acknowledge`] moves it. [`Egress::rewind`] goes back to it after a
/// connection broke. Dropping leaves it in place, so that a durable bridge continues from there.
#[derive(Debug)]
pub(crate) struct Egress {
    subscriber: Subscriber,
    copy: Vec<u8>,
    /// End of each lane when the bridge was asked to end. Later messages are for the next bridge.
    goal: Option<Vec<u64>>,
    /// For each lane the [`ending::failed_state`] of its newest failure that is not to be reported.
    reported: Vec<u64>,
    /// The state of the bridge between two URIs that it belongs to: a failure that was delivered
    /// is kept as reported, and the next bridge of the name does not report it again.
    told: Option<Arc<Control>>,
    /// The failures that were reported last: places of their lanes, and states.
    due: Vec<(usize, u64)>,
    /// The far side that reads, if it has a number.
    #[cfg(feature = "tcp")]
    reader: Option<u64>,
    /// Since when the far side is away, if it did not come back here; 0 if it did.
    #[cfg(feature = "tcp")]
    absent_since: u64,
    /// For each lane the failure that the far side was sent last.
    #[cfg(feature = "tcp")]
    sent: Vec<far_side::SentFailure>,
}

impl Egress {
    /// Subscribes to the ring that `config` names, for messages of any type. `part` says how it
    /// treats an open geometry.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(crate) fn open(config: &Config, part: ShapeRole) -> Result<Self, OpenError> {
        let any = TypeTag {
            any: true,
            ..TypeTag::default()
        };
        let mut subscriber = Subscriber::open_as(config, &any, part)?;
        let lanes = subscriber.consumers().iter();
        // A failure before our position was for an earlier bridge.
        let before_us = |lane: &Consumer| {
            let failure = ending::failure(lane.lane());
            let before_us = failure.filter(|failure| failure.position <= lane.position());
            before_us.map_or(0, |failure| failure.state)
        };
        let reported = lanes.map(before_us).collect();
        Ok(Self {
            subscriber,
            copy: Vec::new(),
            goal: None,
            reported,
            told: None,
            due: Vec::new(),
            #[cfg(feature = "tcp")]
            reader: None,
            #[cfg(feature = "tcp")]
            absent_since: 0,
            #[cfg(feature = "tcp")]
            sent: Vec::new(),
        })
    }

    /// The geometry of the channel.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.subscriber.attached().geometry
    }

    /// The type of the channel's messages, with the fields that are stored now. A publisher stores
    /// them before its first message.
    pub(crate) fn known_type(&self) -> KnownType {
        let attached = self.subscriber.attached();
        fields::known_type(&attached.control, &attached.geometry)
    }

    /// Changes with the fields of [`Egress::known_type`].
    pub(crate) fn fields_check(&self) -> CheckWord {
        CheckWord::of(&self.subscriber.attached().control)
    }

    /// Distinguishes the channel from earlier and later ones of its name.
    pub(crate) fn incarnation(&self) -> u64 {
        self.subscriber.attached().incarnation()
    }

    /// Looks for new lanes; returns their number. Each keeps its index, in the order of appearance.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Lane`]; [`ReceiveError::Failed`], from each call,
    /// once everything before a failure of a lane is acknowledged. The far side must not take this
    /// for the end. A failure from before this bridge is reported only if every lane is closed: the
    /// other publishers' messages are still carried. A failure that an earlier bridge
    /// has delivered is not reported: [`Egress::keep_reports`].
    pub(crate) fn look(&mut self) -> Result<usize, ReceiveError> {
        let count = self.map_lanes()?;
        let due = self.due_failures();
        // A failure that becomes due after the delivery was not part of it.
        if !self.has_told() {
            self.due = due.iter().map(|(at, due)| (*at, due.state)).collect();
        }
        match self.error_of(due) {
            Some(failure) => Err(failure),
            None => Ok(count),
        }
    }

    /// Whether the failures that were due are delivered, and the durable name keeps that.
    fn has_told(&self) -> bool {
        let mut told = self.told.iter();
        told.any(|told| told.is_failure_delivered())
    }

    /// As [`Egress::look`], without failures.
    fn map_lanes(&mut self) -> Result<usize, ReceiveError> {
        if let Some(error) = self.subscriber.eviction() {
            return Err(error);
        }
        let mapped = self.subscriber.map_lanes();
        // Also after an error: some lanes may be there.
        let count = self.lanes();
        self.reported.resize(count, 0);
        mapped.map(|()| count)
    }

    /// These failures, as one error: the lane of the first, and the reasons of all.
    pub(crate) fn error_of(&mut self, failures: Vec<(usize, Failure)>) -> Option<ReceiveError> {
        let mut due: Option<(usize, String)> = None;
        for (place, Failure { reason, .. }) in failures {
            let lane = self.subscriber.consumers()[place].index();
            match &mut due {
                None => due = Some((lane, reason)),
                Some((_, reasons)) => reasons.push_str(&format!("; lane {lane}: {reason}")),
            }
        }
        due.map(|(lane, reason)| ReceiveError::Failed(LinkError::Upstream { lane, reason }))
    }

    /// The failures that [`Egress::look`] reports now, and the places of their lanes.
    pub(crate) fn due_failures(&mut self) -> Vec<(usize, Failure)> {
        let is_over = self.subscriber.is_failed_and_released();
        let mut due = Vec::new();
        for place in 0..self.reported.len() {
            let owed = self.owed_failure(place);
            let consumer = &self.subscriber.consumers()[place];
            let failure = owed
                .filter(|owed| consumer.released() >= owed.position)
                .or_else(|| is_over.then(|| failure_of_closed(consumer)).flatten())
                .filter(|_| !self.was_delivered(place));
            due.extend(failure.map(|failure| (place, failure)));
        }
        due
    }

    /// The durable name keeps which failures were delivered, as `control` says. Those that an
    /// earlier bridge has kept are not reported.
    pub(crate) fn keep_reports(&mut self, control: &Arc<Control>) {
        self.told = Some(Arc::clone(control));
        self.subscriber.pass_reported_failures();
    }

    /// Whether a lane is closed with a failure that an earlier bridge has delivered.
    fn was_delivered(&self, place: usize) -> bool {
        self.told.is_some() && self.subscriber.has_passed_failure(place)
    }

    /// The newest failure of a lane, if nothing behind it was acknowledged: an earlier bridge may
    /// have been killed before it reported it.
    pub(crate) fn failure_in_doubt(&mut self, place: usize) -> Option<Failure> {
        let consumer = &self.subscriber.consumers()[place];
        let failure = ending::failure(consumer.lane());
        failure.filter(|failure| failure.position == consumer.released())
    }

    /// The newest failure of a lane, if it was not reported.
    fn owed_failure(&mut self, place: usize) -> Option<Failure> {
        let words = self.subscriber.consumers()[place].lane();
        let state = ending::failed_state(words);
        let is_owed = state != 0 && self.reported.get(place).is_none_or(|told| *told != state);
        is_owed.then(|| ending::failure(words)).flatten()
    }

    /// Frames of a lane are handed over up to here. Those behind a failure wait for its report.
    fn limit(&mut self, place: usize) -> u64 {
        let position = self.position(place);
        let failure = self.owed_failure(place).map(|failure| failure.position);
        failure
            .filter(|failed| *failed >= position)
            .unwrap_or(u64::MAX)
    }

    /// End of what may be handed over now, from the position on.
    ///
    /// # Errors
    ///
    /// As [`Egress::committed`].
    pub(crate) fn reachable(&mut self, place: usize) -> Result<u64, ReceiveError> {
        // `limit` comes last, as in `frames_end`.
        let committed = self.committed(place)?;
        Ok(committed.min(self.limit(place)))
    }

    /// Number of lanes that were found so far.
    pub(crate) fn lanes(&mut self) -> usize {
        self.subscriber.consumers().len()
    }

    /// Whether this process opened it. In a forked child the positions are those of the parent.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.subscriber.is_of_this_process()
    }

    /// Index of the lane at `place`, as messages carry it.
    pub(crate) fn lane(&mut self, place: usize) -> u32 {
        u32::try_from(self.subscriber.consumers()[place].index()).unwrap_or(u32::MAX)
    }

    /// Start of the next frames to hand over.
    pub(crate) fn position(&mut self, place: usize) -> u64 {
        self.subscriber.consumers()[place].position()
    }

    /// End of what was acknowledged.
    pub(crate) fn acknowledged(&mut self, place: usize) -> u64 {
        self.subscriber.consumers()[place].released()
    }

    /// End of what is published from the position on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Corrupt`].
    pub(crate) fn committed(&mut self, place: usize) -> Result<u64, ReceiveError> {
        let committed = self.subscriber.consumers()[place].committed();
        self.judged(committed)
    }

    /// Whole frames from the position up to position `most`; empty if there are none. They stay in
    /// the ring until they are acknowledged.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Corrupt`].
    pub(crate) fn frames(&mut self, place: usize, most: u64) -> Result<Frames<'_>, ReceiveError> {
        let end = self.frames_end(place, most)?;
        let position = self.position(place);
        let align = self.geometry().align;
        if self.subscriber.is_checked() {
            let mut copy = std::mem::take(&mut self.copy);
            let copied = self.copy_frames(place, end, &mut copy);
            self.copy = copy;
            copied?;
            let bytes = &self.copy;
            return Ok(Frames {
                position,
                bytes,
                align,
            });
        }
        Ok(Frames {
            position,
            bytes: self.bytes(place, position, end),
            align,
        })
    }

    /// Whole frames from the position up to the goal: at most `bytes`, but one at least if there is
    /// one.
    ///
    /// # Errors
    ///
    /// As [`Egress::frames`].
    pub(crate) fn next_frames(
        &mut self,
        place: usize,
        bytes: u64,
    ) -> Result<Frames<'_>, ReceiveError> {
        let (position, goal) = (self.position(place), self.goal(place));
        // No lane reaches `u64::MAX`, but the goal of a new lane is before its position.
        let most = position.saturating_add(bytes).min(goal).max(position);
        let mut end = self.frames_end(place, most)?;
        if end == position && position < goal {
            // No message, or a longer one.
            end = self.next_frame(place)?.map_or(end, |(next, _)| next);
        }
        self.frames(place, end)
    }

    /// End of the whole frames from the position up to `most`; the position itself if no frame ends
    /// there.
    ///
    /// # Errors
    ///
    /// As [`Egress::committed`].
    pub(crate) fn frames_end(&mut self, place: usize, most: u64) -> Result<u64, ReceiveError> {
        // A lane that fails and is opened again in between ends at the failure: `limit` comes last.
        let committed = self.committed(place)?;
        let most = most.min(self.limit(place));
        if committed <= most {
            return Ok(committed);
        }
        let consumer = &self.subscriber.consumers()[place];
        let end = consumer.boundary(consumer.position(), committed, most);
        self.judged(end)
    }

    /// End of the frame at the position, and the bytes of its payload; `None` if there is no frame.
    ///
    /// # Errors
    ///
    /// As [`Egress::committed`].
    pub(crate) fn next_frame(&mut self, place: usize) -> Result<Option<(u64, u64)>, ReceiveError> {
        let frame = self.frame_at_position(place)?;
        // `limit` comes last, as in `frames_end`.
        let is_behind = self.position(place) >= self.limit(place);
        Ok(frame.filter(|_| !is_behind))
    }

    /// As [`Egress::next_frame`], also behind a failure that is not reported.
    fn frame_at_position(&mut self, place: usize) -> Result<Option<(u64, u64)>, ReceiveError> {
        if self.committed(place)? == self.position(place) {
            return Ok(None);
        }
        let frame = self.subscriber.consumers()[place].next();
        Ok(self
            .judged(frame)?
            .map(|frame| (frame.end, frame.length as u64)))
    }

    /// Whether frames must be copied out and checked, because a publisher may evict this subscriber
    /// and overwrite them.
    pub(crate) fn is_checked(&self) -> bool {
        self.subscriber.is_checked()
    }

    /// The held and committed bytes between two positions, unchanged.
    pub(crate) fn bytes(&mut self, place: usize, from: u64, end: u64) -> &[u8] {
        // The ring is read from word boundaries; a connection takes any number of bytes.
        let (word, skip) = (from & !7, usize::from(from.to_le_bytes()[0] & 7));
        let bytes = self.subscriber.consumers()[place].frames(word, end);
        bytes.get(skip..).unwrap_or_default()
    }

    /// A copy of the frames from the position to `end`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`] if they were overwritten in the meantime.
    pub(crate) fn copy_frames(
        &mut self,
        place: usize,
        end: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), ReceiveError> {
        let whole = self.subscriber.consumers()[place].copy_frames(end, into);
        whole.then_some(()).ok_or(ReceiveError::Evicted)
    }

    /// Moves the position to `end`, behind frames that were handed over. They stay held.
    pub(crate) fn advance(&mut self, place: usize, end: u64) {
        self.subscriber.consumers()[place].go_to(end);
    }

    /// Like [`Egress::advance`], for an untrusted caller. Returns `false` if no frame that may be
    /// handed over now ends at `end`, and `end` is not the position itself.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Corrupt`].
    pub(crate) fn advance_checked(&mut self, place: usize, end: u64) -> Result<bool, ReceiveError> {
        let (from, reachable) = (self.position(place), self.reachable(place)?);
        if !(from..=reachable).contains(&end) {
            return Ok(false);
        }
        let boundary = self.subscriber.consumers()[place].boundary(from, reachable, end);
        if self.walked(place, boundary)? != end {
            return Ok(false);
        }
        self.advance(place, end);
        Ok(true)
    }

    /// The far side has everything before `position`, the end of a frame: frees the room. An old
    /// acknowledgement changes nothing. Returns `false` if `position` was never handed over.
    pub(crate) fn acknowledge(&mut self, place: usize, position: u64) -> bool {
        let consumer = &mut self.subscriber.consumers()[place];
        if position > consumer.position() {
            return false;
        }
        if position > consumer.released() {
            consumer.release_to(position);
        }
        true
    }

    /// Like [`Egress::acknowledge`], for an untrusted far side that also got a part of the frames
    /// behind the position, up to `handed_over`. Also returns `false` if no frame ends at
    /// `position`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Corrupt`].
    pub(crate) fn acknowledge_checked(
        &mut self,
        place: usize,
        position: u64,
        handed_over: u64,
    ) -> Result<bool, ReceiveError> {
        let consumer = &self.subscriber.consumers()[place];
        let released = consumer.released();
        if position > consumer.position().max(handed_over) {
            return Ok(false);
        }
        // The end of everything handed over is a frame boundary: the common case needs no walk.
        if position > released && position != consumer.position() {
            let boundary = consumer.boundary(released, position, position);
            if self.walked(place, boundary)? != position {
                return Ok(false);
            }
        }
        let consumer = &mut self.subscriber.consumers()[place];
        if position > released {
            consumer.release_to(position);
        }
        Ok(true)
    }

    /// The end of a walk over headers. Overwritten headers prove nothing about a far side.
    fn walked(
        &mut self,
        place: usize,
        end: Result<u64, ReceiveError>,
    ) -> Result<u64, ReceiveError> {
        let end = self.judged(end)?;
        let checked = self.subscriber.is_checked();
        if checked && self.subscriber.consumers()[place].is_overwritten() {
            return Err(self.subscriber.eviction().unwrap_or(ReceiveError::Evicted));
        }
        Ok(end)
    }

    /// `answer`; but if it is an error and we were evicted, the eviction: a publisher may have
    /// overwritten the frames it comes from.
    fn judged<T>(&mut self, answer: Result<T, ReceiveError>) -> Result<T, ReceiveError> {
        answer.map_err(|error| self.subscriber.eviction().unwrap_or(error))
    }

    /// Hands over again everything that was not acknowledged.
    pub(crate) fn rewind(&mut self) {
        for consumer in self.subscriber.consumers() {
            consumer.go_to(consumer.released());
        }
    }

    /// Continues from `position`, where the far side says it is: everything before it is
    /// acknowledged. Returns `false` if no held frame starts or ends there.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]; [`ReceiveError::Corrupt`].
    pub(crate) fn resume(&mut self, place: usize, position: u64) -> Result<bool, ReceiveError> {
        let released = self.acknowledged(place);
        self.advance(place, released);
        let committed = self.committed(place)?;
        if position < released {
            return Ok(false);
        }
        let boundary = self.subscriber.consumers()[place].boundary(released, committed, position);
        if self.walked(place, boundary)? != position {
            return Ok(false);
        }
        if let Some(failure) = self.owed_failure(place)
            && failure.position < position
        {
            // The far side continued behind it: an earlier bridge reported it.
            self.reported[place] = failure.state;
        }
        let consumer = &mut self.subscriber.consumers()[place];
        consumer.go_to(position);
        consumer.release_to(position);
        Ok(true)
    }

    /// The bridge is asked to end: it delivers what is published so far and nothing later.
    /// Publishers that continue cannot delay its end.
    ///
    /// # Errors
    ///
    /// As [`Egress::look`].
    pub(crate) fn set_goal(&mut self) -> Result<(), ReceiveError> {
        if self.goal.is_none() {
            let lanes = self.map_lanes()?;
            let goal = (0..lanes).map(|place| self.committed(place));
            self.goal = Some(goal.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    /// Position up to which a lane is to be delivered.
    pub(crate) fn goal(&self, place: usize) -> u64 {
        match &self.goal {
            Some(goal) => goal.get(place).copied().unwrap_or(0),
            None => u64::MAX,
        }
    }

    /// Whether everything published, or everything up to the goal, was handed over and
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// As [`Egress::look`].
    pub(crate) fn is_delivered(&mut self) -> Result<bool, ReceiveError> {
        self.look()?;
        self.is_acknowledged()
    }

    /// As [`Egress::is_delivered`], also where a failure is due.
    pub(crate) fn is_acknowledged(&mut self) -> Result<bool, ReceiveError> {
        for place in 0..self.reported.len() {
            let goal = self.goal(place);
            let delivered = if goal == u64::MAX {
                let position = self.position(place);
                self.committed(place)? == position && self.acknowledged(place) == position
            } else {
                self.acknowledged(place) >= goal
            };
            if !delivered {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Number of messages up to the goal that were published and not acknowledged. They are handed
    /// over again afterwards.
    pub(crate) fn undelivered(&mut self) -> u64 {
        self.rewind();
        let mut messages = 0;
        for place in 0..self.subscriber.consumers().len() {
            let goal = self.goal(place);
            // Unreadable messages are counted as lost elsewhere.
            while let Ok(Some((end, _))) = self.frame_at_position(place)
                && end <= goal
            {
                messages += 1;
                self.advance(place, end);
            }
        }
        self.rewind();
        messages
    }

    /// Whether the lane's publisher has closed it and everything was handed over.
    pub(crate) fn is_lane_ended(&mut self, place: usize) -> bool {
        let is_closed = self.subscriber.is_lane_ended(place) || self.was_delivered(place);
        is_closed && self.owed_failure(place).is_none()
    }

    /// Whether at least one publisher existed, all have closed, everything was handed over, and no
    /// failure is left to report.
    pub(crate) fn is_ended(&mut self) -> bool {
        // END: the failures last. A lane that failed and was opened and closed again looks closed.
        self.subscriber.is_at_end()
            && (0..self.lanes()).all(|place| self.owed_failure(place).is_none())
    }

    /// Whether the durable name existed: an earlier bridge used it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.subscriber.durable() == Some(Durable::Resumed)
    }

    /// Whether the durable name did not exist.
    pub(crate) fn has_new_name(&self) -> bool {
        self.subscriber.durable() == Some(Durable::Created)
    }

    /// Publishers that closed before the bridge looked count as an end, unless an earlier bridge
    /// has delivered the failure of one of them: the stream has ended with that.
    pub(crate) fn accept_closed_as_end(&mut self) {
        if (0..self.lanes()).any(|place| self.was_delivered(place)) {
            return;
        }
        self.subscriber.accept_closed_as_end();
    }

    /// A descriptor that becomes readable once there is more than at the last [`Egress::arm`].
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left.
    pub(crate) fn event_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.subscriber.event_fd()
    }

    /// Clears the descriptor and arms it from the current positions. Look once more afterwards: it
    /// does not report earlier messages.
    pub(crate) fn arm(&mut self) {
        self.subscriber.arm();
    }

    /// What a waiting thread sleeps on.
    pub(crate) fn sleeper(&self) -> Sleeper {
        self.subscriber.sleeper()
    }

    /// Whether a thread that sleeps with [`Egress::sleeper`] may sleep long; `park` is its word.
    pub(crate) fn watch_publishers(&self, watches: &mut Watches, park: &Word) -> LongNaps {
        self.subscriber.watch_publishers(watches, park)
    }

    /// Gives up a durable name that the opening before this one made, and that carried nothing.
    pub(crate) fn unsubscribe_unused(mut self) {
        self.subscriber.forget_unused_name();
    }

    /// Gives up a durable name with everything that was not acknowledged.
    pub(crate) fn unsubscribe(mut self) {
        self.subscriber.forget_name();
    }
}

/// The failure with which a lane is closed.
fn failure_of_closed(consumer: &Consumer) -> Option<Failure> {
    let words = consumer.lane();
    ending::is_failed(words)
        .then(|| ending::failure(words))
        .flatten()
}

impl Drop for Egress {
    fn drop(&mut self) {
        // A subscriber that leaves releases everything before its position: without this it would
        // release unacknowledged frames.
        self.rewind();
        // A bridge that ends without being killed has reported the end of what it delivered.
        self.subscriber.mark_end_reported();
        if self.has_told() {
            self.subscriber.mark_failures_reported(&self.due);
        }
        #[cfg(feature = "tcp")]
        if self.absent_since != 0 {
            self.subscriber.keep_absence(self.absent_since);
        }
    }
}
