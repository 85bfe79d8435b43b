//! What a bridge needs of the handles and programs do not: frames in place, positions that move
//! only on request, and lanes that store where their messages came from.

use super::attach;
use super::attached::{Attached, lock_membership};
use super::publisher::{Ending, Publisher};
#[cfg(feature = "tcp")]
use super::slots;
use super::slow_state::{StreamEnd, end_mark, watch_publishers};
use super::status::Durable;
use super::subscriber::Subscriber;
use crate::error::{NotSent, OpenError, ReceiveError};
use crate::link::{Link, LinkStatus};
use crate::region::Word;
use crate::region::Words;
use crate::ring::consume::Consumer;
use crate::ring::ending;
use crate::ring::layout::{control, fnv, lane, lane_entry, lock_byte};
use crate::sync::Ordering;
#[cfg(feature = "tcp")]
use crate::uri::Expire;
use crate::uri::HugePages;
use crate::wait::warden::Watches;
use crate::wait::{LongNaps, Sleeper};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The owner of a bridge's lane: the source, and the lane's index there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgeLaneOwner {
    pub(crate) source: LaneSource,
    pub(crate) lane: u32,
}

/// The source of a bridge, for which lanes are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSource {
    /// A hash that names it; never 0.
    pub(crate) key: u64,
    /// How long its lanes are kept while it is away; zero for ever.
    pub(crate) expire: Duration,
}

impl LaneSource {
    /// The source `who`.
    pub(crate) fn new(who: &str, expire: Duration) -> Self {
        let key = fnv(who.bytes()).max(1);
        Self { key, expire }
    }
}

/// The source of the messages in a bridge's lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Incarnation of the channel at the source; 0 for none.
    pub(crate) incarnation: u64,
    /// This plus a position here, modulo 2^64, is the position at the source.
    pub(crate) shift: u64,
}

impl BridgeLaneOwner {
    fn of(words: &Words) -> Option<Self> {
        // Acquire: the key is stored last.
        let key = words.word(lane::LINK_KEY).load(Ordering::Acquire);
        // Relaxed: stored before the key.
        let lane = words.word(lane::LINK_LANE).load(Ordering::Relaxed);
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        let expire = words.word(lane::LINK_EXPIRE).load(Ordering::Relaxed);
        let expire = Duration::from_millis(expire);
        let source = LaneSource { key, expire };
        (key != 0).then_some(Self { source, lane })
    }

    /// Whether both own the same lane.
    fn is(self, other: Self) -> bool {
        (self.source.key, self.lane) == (other.source.key, other.lane)
    }

    /// The lane that is kept for this owner, if there is one.
    pub(super) fn find(self, attached: &Attached) -> Option<usize> {
        kept_lanes(attached).find_map(|(index, kept, _)| kept.is(self).then_some(index))
    }

    /// Whether a publisher for the owner `wanted` may take the lane of these words. The caller
    /// holds the lane's lock. A free lane is kept for `wanted` from here on.
    pub(super) fn may_take(words: &Words, wanted: Option<Self>) -> bool {
        let set_expire = |owner: Self| {
            // Away for less than a millisecond counts as one: 0 means for ever.
            let expire = owner.source.expire;
            let ms = u64::try_from(expire.as_millis()).unwrap_or(u64::MAX);
            let ms = ms.max(u64::from(!expire.is_zero()));
            words.word(lane::LINK_EXPIRE).store(ms, Ordering::Relaxed);
        };
        match (Self::of(words), wanted) {
            (None, None) => true,
            (None, Some(wanted)) => {
                // Relaxed: before the key.
                for record in 0..4 {
                    words
                        .word(lane::LINK_RECORDS + record)
                        .store(0, Ordering::Relaxed);
                }
                words
                    .word(lane::LINK_LANE)
                    .store(u64::from(wanted.lane), Ordering::Relaxed);
                set_expire(wanted);
                // Release: pairs with `of`.
                words
                    .word(lane::LINK_KEY)
                    .store(wanted.source.key, Ordering::Release);
                true
            }
            (Some(found), Some(wanted)) if found.is(wanted) => {
                set_expire(wanted);
                true
            }
            _ => false,
        }
    }
}

/// A lane of the source for which this channel keeps a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptLane {
    /// Index at the source.
    pub(crate) lane: u32,
    /// It has no end yet, because the bridge was killed or stopped.
    pub(crate) is_left: bool,
    /// It is closed with a failure of its publisher at the source: where it ends here, and where
    /// its messages came from.
    pub(crate) failed: Option<(u64, Origin)>,
}

impl Origin {
    /// The record that counts.
    fn of(words: &Words) -> Self {
        // Relaxed: only the lane's publisher writes these, and that is us or has closed. Acquire:
        // for the words of an earlier publisher.
        let turn = words.word(lane::LINK_TURN).load(Ordering::Acquire) & 1;
        let at = lane::LINK_RECORDS + usize::from(turn == 1) * 2;
        Self {
            incarnation: words.word(at).load(Ordering::Relaxed),
            shift: words.word(at + 1).load(Ordering::Relaxed),
        }
    }
}

/// Lanes that are kept for bridges.
fn kept_lanes(attached: &Attached) -> impl Iterator<Item = (usize, BridgeLaneOwner, Words)> + '_ {
    let Attached {
        backing,
        control,
        geometry,
        ..
    } = attached;
    (0..geometry.lanes()).filter_map(move |index| {
        let present = control.word(geometry.lane_entry(index) + lane_entry::PRESENT);
        if present.load(Ordering::Acquire) == 0 {
            return None;
        }
        let words = backing.look_at_lane(&attached.lane(index)).ok().flatten()?;
        Some((index, BridgeLaneOwner::of(&words)?, words))
    })
}

/// Index and process of a lane kept for the source `key` that another bridge has open.
pub(crate) fn lane_in_use(attached: &Attached, key: u64) -> Option<(usize, u64)> {
    let mut own = kept_lanes(attached).filter(|(_, kept, _)| kept.source.key == key);
    let (index, ..) = own.find(|(index, ..)| is_held(attached, *index))?;
    let entry = attached.geometry.lane_entry(index);
    // Relaxed: for the message of an error only.
    let pid = attached.control.word(entry + lane_entry::PID);
    Some((index, pid.load(Ordering::Relaxed)))
}

/// Whether another handle has the lane open.
fn is_held(attached: &Attached, index: usize) -> bool {
    let byte = lock_byte::LANE + index as u64;
    attached.locks.held_by_others(byte, byte + 1)
}

/// The source's lanes for which this channel keeps lanes of the bridge `key`.
pub(crate) fn lanes_kept_for(attached: &Attached, key: u64) -> Vec<KeptLane> {
    let own = kept_lanes(attached).filter(|(_, kept, _)| kept.source.key == key);
    own.map(|(_, kept, words)| {
        // END: a thread that sees the lane closed sees the words of its failure.
        let state = ending::state(&words);
        // Relaxed: before END.
        let passed_on = words.word(lane::LINK_FAILURE).load(Ordering::Relaxed);
        let is_failed = state == passed_on && ending::is_failed(&words);
        KeptLane {
            lane: kept.lane,
            is_left: state & 1 == 1,
            failed: is_failed.then(|| (ending::failed_position(&words), Origin::of(&words))),
        }
    })
    .collect()
}

/// The failure with which the lane that is kept for `owner` is closed.
#[cfg(feature = "journal")]
pub(crate) fn kept_failure(attached: &Attached, owner: BridgeLaneOwner) -> Option<String> {
    let (.., words) = kept_lanes(attached).find(|(_, kept, _)| kept.is(owner))?;
    let failure = ending::failure(&words).filter(|_| ending::is_failed(&words));
    failure.map(|failure| failure.reason)
}

/// Makes a closed lane that is kept for `owner` available to others. Unlike opening and closing it,
/// this does not count as a new end of the stream. A lane in use is left alone.
///
/// # Errors
///
/// [`OpenError`]: the lane stays reserved.
pub(crate) fn free_kept_lane(
    attached: &mut Attached,
    owner: BridgeLaneOwner,
) -> Result<(), OpenError> {
    lock_membership(attached, Instant::now())?;
    // This lane's publisher may have fixed the channel's shape.
    let refreshed = attached.refresh();
    let freed = refreshed.and_then(|()| free_locked(attached, owner));
    attached.locks.unlock(lock_byte::MEMBERSHIP);
    freed
}

fn free_locked(attached: &Attached, owner: BridgeLaneOwner) -> Result<(), OpenError> {
    let Attached { backing, locks, .. } = attached;
    let Some(index) = owner.find(attached) else {
        return Ok(());
    };
    let byte = lock_byte::LANE + index as u64;
    let locked = locks.try_lock(byte);
    if !locked.map_err(attach::io_error("lock", backing.path()))? {
        return Ok(());
    }
    let opened = backing.open_lane(&attached.lane(index), true, HugePages::No);
    if let Ok(Some((words, _))) = &opened
        && BridgeLaneOwner::of(words).is_some_and(|found| found.is(owner))
        && ending::state(words) & 1 == 0
    {
        // Relaxed: under the lane's lock.
        words.word(lane::LINK_KEY).store(0, Ordering::Relaxed);
    }
    locks.unlock(byte);
    opened.map(|_| ())
}

/// The sources that expire and for which this channel keeps a lane that no process has, each once.
#[cfg(feature = "tcp")]
pub(crate) fn absent_sources(attached: &Attached) -> Vec<LaneSource> {
    let mut absent: Vec<LaneSource> = Vec::new();
    for (index, BridgeLaneOwner { source, .. }, _) in kept_lanes(attached) {
        let is_known = absent.iter().any(|known| known.key == source.key);
        if !source.expire.is_zero() && !is_known && !is_held(attached, index) {
            absent.push(source);
        }
    }
    absent
}

impl<T: ?Sized> Publisher<T> {
    /// The status of the bridge behind this publisher, or of the thread that serves the socket of
    /// `shm+fd://`. `None` for `shm://` and `inproc://`.
    #[must_use]
    pub fn link_status(&self) -> Option<LinkStatus> {
        let link = self.endpoint.link.as_ref()?;
        Some(link.control().status())
    }

    /// Why the bridge behind this publisher failed, if it did.
    #[must_use]
    pub fn link_failure(&self) -> Option<crate::error::LinkError> {
        self.endpoint.link.as_ref()?.control().failure()
    }

    /// Sets the bridge behind the ring.
    pub(crate) fn set_link(&mut self, link: Link, counts_once_connected: bool) {
        link.control().wakes(&self.endpoint.sleeper.park);
        self.endpoint.uncounted = counts_once_connected.then(|| Arc::clone(link.control()));
        self.endpoint.link = Some(link);
    }

    /// The channel as this publisher has mapped it.
    pub(crate) fn attached(&self) -> &Attached {
        &self.endpoint.attached
    }

    /// The source of the lane's messages.
    pub(crate) fn origin(&self) -> Origin {
        Origin::of(self.producer.lane())
    }

    /// Stores the source of the lane's messages from here on. A death half way leaves the old
    /// record.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        let words = self.producer.lane();
        // Relaxed: only we write it.
        let turn = words.word(lane::LINK_TURN).load(Ordering::Relaxed) & 1 ^ 1;
        let at = lane::LINK_RECORDS + usize::from(turn == 1) * 2;
        words.word(at).store(origin.incarnation, Ordering::Relaxed);
        words.word(at + 1).store(origin.shift, Ordering::Relaxed);
        // Release: the record is whole for a thread that sees its turn.
        words.word(lane::LINK_TURN).store(turn, Ordering::Release);
    }

    /// Frees the lane for other publishers: the source has ended for good.
    pub(crate) fn forget_origin(&mut self) {
        let words = self.producer.lane();
        // Relaxed: only we write it.
        words.word(lane::LINK_KEY).store(0, Ordering::Relaxed);
    }

    /// Closes the lane because its source failed: subscribers get `reason` after its last message.
    pub(crate) fn fail(mut self, reason: &str) {
        // In a forked child the lane is the parent's.
        let _ = self.finish_as(&Ending::Failed(reason));
    }

    /// As [`Publisher::fail`], because the lane's publisher at the source failed: a later bridge
    /// finds the lane closed with this failure, and lets it be until the source goes on with it.
    pub(crate) fn pass_on_failure(self, reason: &str) {
        let words = self.producer.lane();
        // Relaxed: only we write these, and END releases them.
        let closed = words.word(lane::STATE).load(Ordering::Relaxed) & !1;
        words
            .word(lane::LINK_FAILURE)
            .store(closed, Ordering::Relaxed);
        self.fail(reason);
    }

    /// Closes a lane that had ended when this publisher opened it, and in which it sent nothing:
    /// subscribers get no further end.
    pub(crate) fn close_unused(mut self) {
        // As above.
        let _ = self.finish_as(&Ending::Unused);
    }

    /// Leaves the lane like a publisher that died: subscribers wait for the next one.
    pub(crate) fn leave_open(mut self) {
        // As above.
        let _ = self.finish_as(&Ending::Left);
    }

    /// Position up to which frames may be written now.
    pub(crate) fn room_end(&mut self) -> u64 {
        self.producer.room_end()
    }
}

impl Publisher {
    /// Puts the cursor back, as if this publisher was killed before it moved.
    #[cfg(all(test, feature = "tcp"))]
    pub(crate) fn put_cursor_back(&self, position: u64) {
        let cursor = self.producer.lane().resolve(lane::CURSOR);
        cursor.store(position, Ordering::Relaxed);
    }

    /// Writes a part of a message of `length` bytes; returns the end of its frame.
    /// [`Publisher::publish_parts`] makes the message visible. If the first part has room, all
    /// parts have: a later subscriber joins after the frame.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; there must be room for the whole.
    pub(crate) fn write_part(
        &mut self,
        length: usize,
        at: usize,
        part: &[u8],
    ) -> Result<u64, NotSent> {
        let end = self.room(self.producer.position(), length)?;
        self.producer.begin(end);
        self.producer.payload_mut(length)[at..at + part.len()].copy_from_slice(part);
        Ok(end)
    }

    /// Asks for room for a message of `length` bytes, like a publisher that waits for it.
    ///
    /// # Errors
    ///
    /// [`NotSent`].
    pub(crate) fn ask_room(&mut self, length: usize) -> Result<(), NotSent> {
        self.room(self.producer.position(), length).map(|_| ())
    }

    /// Bytes of frames that have room now, without a scan of the gate.
    pub(crate) fn room_left(&self) -> u64 {
        self.producer.room_left()
    }

    /// Makes whole frames of another ring with the same `align` visible together. There must be at
    /// least one frame, at most [`Publisher::room_left`] bytes, and only lengths that this ring
    /// takes.
    pub(crate) fn publish_frames(&mut self, frames: &[u8]) {
        self.producer.send_frames(frames);
    }

    /// Makes the message of [`Publisher::write_part`] visible with this header; `end` is the end
    /// that it returned.
    pub(crate) fn publish_parts(&mut self, end: u64, header: u64) {
        self.producer.commit_as(end, header);
    }
}

impl<T: ?Sized> Subscriber<T> {
    /// The status of the bridge behind this subscriber, or of the thread that watches the socket of
    /// `shm+fd://`. `None` for `shm://` and `inproc://`.
    #[must_use]
    pub fn link_status(&self) -> Option<LinkStatus> {
        let link = self.slow_state.link.as_ref()?;
        Some(link.control().status())
    }

    /// Sets the bridge behind the ring.
    pub(crate) fn set_link(&mut self, link: Link) {
        link.control().wakes(&self.slow_state.sleeper.park);
        self.slow_state.link = Some(link);
    }

    /// The channel as this subscriber has mapped it.
    pub(crate) fn attached(&self) -> &Attached {
        &self.slow_state.attached
    }

    /// Maps lanes that appeared since the last check.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Lane`].
    pub(crate) fn map_lanes(&mut self) -> Result<(), ReceiveError> {
        self.found_new_lanes().map(|_| ())
    }

    /// The lanes seen so far.
    pub(crate) fn consumers(&mut self) -> &mut [Consumer] {
        &mut self.lanes
    }

    /// Whether this process opened it: a forked child did not.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.slow_state.page.is_ours()
    }

    /// Whether frames may be overwritten while they are read, because this subscriber may be
    /// evicted.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Its slot.
    #[cfg(test)]
    pub(crate) fn slot(&self) -> usize {
        self.slow_state.slot
    }

    /// The error if a publisher evicted this subscriber, or if its name had lost its place before
    /// it was opened.
    pub(crate) fn eviction(&mut self) -> Option<ReceiveError> {
        if self.slow_state.is_evicted() {
            return Some(self.slow_state.evicted());
        }
        self.slow_state.check_before_call().err()
    }

    /// Whether a lane was closed without a failure, and every frame of it is consumed.
    pub(crate) fn is_lane_ended(&self, index: usize) -> bool {
        let consumer = &self.lanes[index];
        // END: "closed" comes after the last frame and the last limit. So the check for more below
        // finds all of them.
        let state = ending::state(consumer.lane());
        let is_failed = ending::has_failed_as(consumer.lane(), state);
        state & 1 == 0 && !self.slow_state.has_more(consumer) && !is_failed
    }

    /// Whether the stream has ended: it had started, every lane is closed, and none failed.
    pub(crate) fn is_at_end(&self) -> bool {
        self.slow_state.stream_end(&self.lanes) == Some(StreamEnd::Closed)
    }

    /// Whether every lane is closed, one with a failure, and every frame is consumed and released.
    pub(crate) fn is_failed_and_released(&self) -> bool {
        let is_over = |lane: &Consumer| {
            ending::state(lane.lane()) & 1 == 0
                && !self.slow_state.has_more(lane)
                && lane.released() == lane.position()
        };
        let mut lanes = self.lanes.iter();
        // As in `is_at_end`: the number of publishers after their states.
        self.lanes.iter().all(is_over)
            && lanes.any(|lane| ending::is_failed(lane.lane()))
            && !self.slow_state.has_new_publishers()
    }

    /// The bridge has reported the end of the stream: the durable name does not report it again.
    pub(crate) fn mark_end_reported(&mut self) {
        if self.is_at_end() {
            self.slow_state.reported_end = end_mark(&self.lanes);
        }
    }

    /// The durable name has another `expire=` from now on.
    #[cfg(feature = "tcp")]
    pub(crate) fn set_expire(&mut self, expire: Expire) {
        let Attached {
            control, geometry, ..
        } = &self.slow_state.attached;
        if self.slow_state.config.name.is_some() {
            slots::set_expire(control, geometry, self.slow_state.slot, expire);
        }
    }

    /// Lanes that are closed with a failure that the durable name has reported count as closed in
    /// order.
    pub(crate) fn pass_reported_failures(&mut self) {
        self.slow_state.passes_failures = self.slow_state.durable == Some(Durable::Resumed);
    }

    /// Whether a lane is closed with a failure that is passed over:
    /// [`Subscriber::pass_reported_failures`].
    pub(crate) fn has_passed_failure(&self, index: usize) -> bool {
        let lane = &self.lanes[index];
        self.slow_state
            .passes_failure(index, ending::state(lane.lane()))
            && ending::is_failed(lane.lane())
    }

    /// The bridge has reported these failures, by the place of the lane and its
    /// [`ending::failed_state`]: the durable name does not report them again, nor the end there.
    /// Failures of other lanes stay unreported.
    pub(crate) fn mark_failures_reported(&mut self, told: &[(usize, u64)]) {
        if !self.is_of_this_process() {
            return;
        }
        for (place, state) in told {
            if let Some(joined) = self.slow_state.joined.get_mut(*place) {
                joined.reported_failure = *state;
            }
        }
        self.slow_state.has_reported_failure = true;
        self.slow_state.reported_end = end_mark(&self.lanes);
        self.slow_state.store_reports();
    }

    /// Before dropping: nothing has come for the durable name since then, so its clock goes on.
    #[cfg(feature = "tcp")]
    pub(crate) fn keep_absence(&mut self, since: u64) {
        let Attached {
            control, geometry, ..
        } = &self.slow_state.attached;
        slots::keep_absence(control, geometry, self.slow_state.slot, since);
    }

    /// Lanes that are closed by now count as an end although nothing was received: an earlier
    /// subscriber of the name may have received their messages.
    pub(crate) fn accept_closed_as_end(&mut self) {
        self.slow_state.stream_started = true;
    }

    /// Forgets the name, which the opening before this one made and never used: dropping frees the
    /// slot. If no other subscriber ever joined, the channel keeps its messages for the first one.
    pub(crate) fn forget_unused_name(&mut self) {
        self.forget_name();
        self.slow_state.never_joined = true;
    }

    /// Forgets the name: dropping frees the slot.
    pub(crate) fn forget_name(&mut self) {
        self.slow_state.config.name = None;
    }

    /// The flags with which this subscriber sleeps and is woken.
    pub(crate) fn sleeper(&self) -> Sleeper {
        self.slow_state.sleeper.clone()
    }

    /// Whether a thread that sleeps by [`Subscriber::sleeper`] may sleep long; `park` is its word.
    pub(crate) fn watch_publishers(&self, watches: &mut Watches, park: &Word) -> LongNaps {
        watch_publishers(&self.slow_state, &self.lanes, watches, park)
    }

    /// Arms the descriptor of `event_fd`, if there is one, for the lanes as they are now.
    pub(crate) fn arm(&mut self) {
        if let Some(watch) = &self.slow_state.watch {
            watch.arm(&self.lanes, &self.slow_state);
        }
    }
}

impl Attached {
    /// The random number of the channel, from its making.
    pub(crate) fn incarnation(&self) -> u64 {
        // Relaxed: written before the file had a name, and never changed.
        self.control
            .word(control::INCARNATION)
            .load(Ordering::Relaxed)
    }
}
