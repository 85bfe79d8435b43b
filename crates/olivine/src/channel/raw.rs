//! What a bridge needs of the handles and programs do not: frames as they lie, positions that move only when told
//! to, and lanes that remember where their messages came from.

use super::attached::Attached;
use super::publisher::{Ending, Publisher};
use super::subscriber::Subscriber;
use super::surroundings::{end_mark, failure_of, rely};
use crate::error::{NotSent, ReceiveError};
use crate::link::{Link, LinkStatus};
use crate::region::Word;
use crate::region::Words;
use crate::ring::consume::Consumer;
use crate::ring::ending;
use crate::ring::layout::{control, lane, lane_entry};
use crate::sync::Ordering;
use crate::wait::warden::Watches;
use crate::wait::{Reliance, Sleeper};

/// Whom a bridge's lane is kept for: a hash of who brings the messages, and the lane's index at the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BridgeLaneOwner {
    /// Never 0.
    pub(crate) key: u64,
    pub(crate) lane: u32,
}

/// Where the messages of a bridge's lane come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Of the channel at the source; 0 for none.
    pub(crate) incarnation: u64,
    /// What is added to a position here, modulo 2^64, to get the position there.
    pub(crate) shift: u64,
}

impl BridgeLaneOwner {
    fn of(words: &Words) -> Option<Self> {
        // Acquire: the key is stored last.
        let key = words.word(lane::LINK_KEY).load(Ordering::Acquire);
        // Relaxed: stored before the key.
        let lane = words.word(lane::LINK_LANE).load(Ordering::Relaxed);
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        (key != 0).then_some(Self { key, lane })
    }

    /// The lane that is kept for us, if there is one.
    pub(super) fn find(self, attached: &Attached) -> Option<usize> {
        kept_lanes(attached).find_map(|(index, kept, _)| (kept == self).then_some(index))
    }

    /// Whether a publisher that brings messages for `wanted` may take the lane of these words. The caller holds
    /// the lane's lock; a free lane is kept for `wanted` from here on.
    pub(super) fn may_take(words: &Words, wanted: Option<Self>) -> bool {
        match (Self::of(words), wanted) {
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
                // Release: pairs with `of`.
                words
                    .word(lane::LINK_KEY)
                    .store(wanted.key, Ordering::Release);
                true
            }
            (found, wanted) => found == wanted,
        }
    }
}

/// Lanes that are kept for bridges, and whether each was left without an end.
fn kept_lanes(attached: &Attached) -> impl Iterator<Item = (usize, BridgeLaneOwner, bool)> + '_ {
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
        Some((
            index,
            BridgeLaneOwner::of(&words)?,
            ending::state(&words) & 1 == 1,
        ))
    })
}

/// Lanes of the source for which this channel keeps lanes of its own, for the bridge of `key`; with whether each was left
/// without an end, as a bridge that is killed or stopped leaves it.
pub(crate) fn lanes_kept_for(attached: &Attached, key: u64) -> Vec<(u32, bool)> {
    kept_lanes(attached)
        .filter(|(_, kept, _)| kept.key == key)
        .map(|(_, kept, is_left)| (kept.lane, is_left))
        .collect()
}

impl<T: ?Sized> Publisher<T> {
    /// What the bridge behind this publisher is doing, or who serves the socket of `shm+fd://`; `None` for `shm://` and
    /// `inproc://`.
    #[must_use]
    pub fn link_status(&self) -> Option<LinkStatus> {
        let link = self.endpoint.link.as_ref()?;
        Some(link.control().status())
    }

    /// Why the bridge behind this publisher gave up, if it did.
    #[must_use]
    pub fn link_failure(&self) -> Option<crate::error::LinkError> {
        self.endpoint.link.as_ref()?.control().failure()
    }

    /// The bridge behind the ring.
    pub(crate) fn set_link(&mut self, link: Link) {
        link.control().wakes(&self.endpoint.sleeper.park);
        self.endpoint.link = Some(link);
    }

    /// The channel as this publisher has it mapped.
    pub(crate) fn attached(&self) -> &Attached {
        &self.endpoint.attached
    }

    /// Where the lane's messages come from.
    pub(crate) fn origin(&self) -> Origin {
        let words = self.producer.lane();
        // Relaxed: only the lane's publisher writes these, and that is us; Acquire: of one before us.
        let turn = words.word(lane::LINK_TURN).load(Ordering::Acquire) & 1;
        let at = lane::LINK_RECORDS + usize::from(turn == 1) * 2;
        Origin {
            incarnation: words.word(at).load(Ordering::Relaxed),
            shift: words.word(at + 1).load(Ordering::Relaxed),
        }
    }

    /// Says where the lane's messages come from, from here on. Whoever dies on the way leaves the old record.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        let words = self.producer.lane();
        // Relaxed: only we write it.
        let turn = words.word(lane::LINK_TURN).load(Ordering::Relaxed) & 1 ^ 1;
        let at = lane::LINK_RECORDS + usize::from(turn == 1) * 2;
        words.word(at).store(origin.incarnation, Ordering::Relaxed);
        words.word(at + 1).store(origin.shift, Ordering::Relaxed);
        // Release: the record is whole for whoever sees its turn.
        words.word(lane::LINK_TURN).store(turn, Ordering::Release);
    }

    /// Gives the lane back to everybody: the source has ended for good.
    pub(crate) fn forget_origin(&mut self) {
        let words = self.producer.lane();
        // Relaxed: only we write it.
        words.word(lane::LINK_KEY).store(0, Ordering::Relaxed);
    }

    /// Closes the lane because what fed it failed: subscribers are told `reason` behind its last message.
    pub(crate) fn fail(mut self, reason: &str) {
        // In a forked child the lane is the parent's.
        let _ = self.finish_as(&Ending::Failed(reason));
    }

    /// Leaves the lane as a publisher that died does: subscribers wait for the next one.
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
    /// Puts the cursor back, as if this publisher had been killed before it moved.
    #[cfg(all(test, feature = "tcp"))]
    pub(crate) fn put_cursor_back(&self, position: u64) {
        let cursor = self.producer.lane().resolve(lane::CURSOR);
        cursor.store(position, Ordering::Relaxed);
    }

    /// Writes a part of a message of `length` bytes that becomes visible by [`Publisher::publish_parts`]; where its frame
    /// ends. Room for the first part is room for all of them: whoever joins later waits behind it.
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

    /// Asks for room for a message of `length` bytes as a publisher does that waits for it.
    ///
    /// # Errors
    ///
    /// [`NotSent`].
    pub(crate) fn ask_room(&mut self, length: usize) -> Result<(), NotSent> {
        self.room(self.producer.position(), length).map(|_| ())
    }

    /// Bytes of frames that have room now without asking the gate.
    pub(crate) fn room_left(&self) -> u64 {
        self.producer.room_left()
    }

    /// Makes whole frames of another ring with the same `align` visible together. At least one, no more bytes than
    /// [`Publisher::room_left`] says, and only of lengths that this ring takes.
    pub(crate) fn publish_frames(&mut self, frames: &[u8]) {
        self.producer.send_frames(frames);
    }

    /// Makes the message that [`Publisher::write_part`] put together, and whose end it said,
    /// visible with this header.
    pub(crate) fn publish_parts(&mut self, end: u64, header: u64) {
        self.producer.commit_as(end, header);
    }
}

impl<T: ?Sized> Subscriber<T> {
    /// What the bridge behind this subscriber is doing, or who watches over the socket of `shm+fd://`; `None` for
    /// `shm://` and `inproc://`.
    #[must_use]
    pub fn link_status(&self) -> Option<LinkStatus> {
        let link = self.around.link.as_ref()?;
        Some(link.control().status())
    }

    /// The bridge behind the ring.
    pub(crate) fn set_link(&mut self, link: Link) {
        link.control().wakes(&self.around.sleeper.park);
        self.around.link = Some(link);
    }

    /// The channel as this subscriber has it mapped.
    pub(crate) fn attached(&self) -> &Attached {
        &self.around.attached
    }

    /// Maps lanes that appeared since the last look.
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

    /// Whether frames may be overwritten while they are read: this subscriber may be evicted.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Its slot.
    #[cfg(test)]
    pub(crate) fn slot(&self) -> usize {
        self.around.slot
    }

    /// Says that a publisher evicted this subscriber, or had taken the place of its name before it was opened.
    pub(crate) fn eviction(&mut self) -> Option<ReceiveError> {
        if self.around.is_evicted() {
            return Some(self.around.evicted());
        }
        self.around.say_first().err()
    }

    /// Whether a lane was closed by its publisher, without a failure, and nothing is left in it to go past.
    pub(crate) fn is_lane_ended(&self, index: usize) -> bool {
        let consumer = &self.lanes[index];
        // END: closed comes after the last frame and the last limit, so the look for them is the last word.
        let state = ending::state(consumer.lane());
        state & 1 == 0 && !self.around.has_more(consumer) && !ending::is_failed(consumer.lane())
    }

    /// Whether the stream has ended: every lane closed and none with a failure, after something was heard.
    pub(crate) fn is_at_end(&self) -> bool {
        let mut lanes = self.lanes.iter();
        self.around.is_at_end(&self.lanes) && !lanes.any(|lane| ending::is_failed(lane.lane()))
    }

    /// The failure with which a lane is closed now, of which everything was gone past and given back.
    pub(crate) fn lane_failure(&self) -> Option<ReceiveError> {
        let mut lanes = self.lanes.iter();
        let is_told = |lane: &&Consumer| {
            ending::is_failed(lane.lane())
                && !self.around.has_more(lane)
                && lane.released() == lane.position()
        };
        lanes.find(is_told).and_then(failure_of)
    }

    /// The end of the stream was told where it was to be told: a durable name needs not tell it again.
    pub(crate) fn hand_on_end(&mut self) {
        if self.is_at_end() {
            self.around.told_end = end_mark(&self.lanes);
        }
    }

    /// What is closed by now counts as an end, though nothing was heard of it: an earlier life of the name may have heard.
    pub(crate) fn expect_end(&mut self) {
        self.around.heard = true;
    }

    /// Leaves for good when dropped, whatever the name.
    pub(crate) fn forget_name(&mut self) {
        self.around.config.name = None;
    }

    /// The flags by which this subscriber sleeps and is woken.
    pub(crate) fn sleeper(&self) -> Sleeper {
        self.around.sleeper.clone()
    }

    /// Whether a thread that sleeps by [`Subscriber::sleeper`] may sleep long; `park` is its word.
    pub(crate) fn rely(&self, watches: &mut Watches, park: &Word) -> Reliance {
        rely(&self.around, &self.lanes, watches, park)
    }

    /// Arms the descriptor of `event_fd` with the lanes as they are now, if it was asked for.
    pub(crate) fn arm(&mut self) {
        if let Some(watch) = &self.around.watch {
            watch.arm(&self.lanes, &self.around);
        }
    }
}

impl Attached {
    /// The number drawn when the channel was made.
    pub(crate) fn incarnation(&self) -> u64 {
        // Relaxed: written before the file had a name, never changed.
        self.control
            .word(control::INCARNATION)
            .load(Ordering::Relaxed)
    }
}
