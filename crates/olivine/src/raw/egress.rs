//! The end of a bridge that reads a ring, with every argument checked.

use super::{Frames, NoFrame};
use crate::bridge::Source;
use crate::bridge::egress::Egress;
use crate::channel::attach::ShapeRole;
use crate::error::{LinkError, OpenError, ReceiveError};
use crate::message::KnownType;
use crate::ring::ending::Failure;
use crate::uri::Config;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Takes frames out of a ring for a far side.
///
/// It is a reliable subscriber. Each lane has two positions: the end of what was handed over
/// ([`CheckedEgress::position`]), and the end of what the far side acknowledged
/// ([`CheckedEgress::acknowledged`]). Publishers keep every byte behind the second, and only
/// [`CheckedEgress::acknowledge`] and [`CheckedEgress::resume`] move it. Dropping the egress leaves
/// it in place, so with a durable `name=` the next egress continues there.
///
/// Methods name a lane by its *place*: a number below the last result of [`CheckedEgress::look`].
///
/// # Why no argument is dangerous
///
/// * `acknowledged <= position <= committed` holds for each lane at all times, and each of the
///   three is a frame boundary: the methods that move a position walk over the headers up to the
///   new one first, and refuse any other.
/// * Bytes are lent only between the position and the end of what is committed. Publishers do not
///   write there while `acknowledged` is at or before them, and moving that needs the egress
///   mutably, which the loan excludes.
/// * A walk over headers that were overwritten meanwhile moves nothing.
/// * If a publisher may evict this reader (`slow=evict:`), if the egress is lossy, or if the
///   publisher is not trusted (`shm+fd://`), frames are copied and checked, and the copy is lent.
/// * In a forked child every call that reads or moves anything is refused: the positions are the
///   parent's.
#[derive(Debug)]
pub struct CheckedEgress {
    egress: Egress,
}

/// A failure with which a publisher closed its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneFailure {
    /// The place of the lane.
    pub place: usize,
    /// End of the last frame before it.
    pub position: u64,
    /// Distinguishes it from earlier and later failures of the lane. Never 0.
    pub number: u64,
    /// Why: one line of at most 480 bytes.
    pub reason: String,
}

impl LaneFailure {
    fn new(place: usize, failure: Failure) -> Self {
        let Failure {
            state: number,
            position,
            reason,
        } = failure;
        Self {
            place,
            position,
            number,
            reason,
        }
    }
}

/// Why a call of a [`CheckedEgress`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRead {
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] ReceiveError),
    /// There is no such lane.
    #[error("there is no lane at place {place}: the ring has {lanes}; use a place below it")]
    Lane {
        /// The given place.
        place: usize,
        /// Number of lanes.
        lanes: usize,
    },
    /// The position is none that the call accepts.
    #[error(
        "position {position} of the lane at place {place} is refused: give the end of a frame \
         that {rule}"
    )]
    Position {
        /// The given place.
        place: usize,
        /// The given position.
        position: u64,
        /// Which frames end at an accepted position.
        rule: &'static str,
    },
}

impl From<NotRead> for LinkError {
    fn from(error: NotRead) -> Self {
        match error {
            NotRead::Ring(source) => {
                let source = Arc::new(source);
                Self::Receive { source }
            }
            other => Self::Bridge {
                problem: other.to_string(),
            },
        }
    }
}

impl From<NoFrame> for LinkError {
    fn from(error: NoFrame) -> Self {
        Self::Bridge {
            problem: error.to_string(),
        }
    }
}

impl Source {
    /// The egress for a single far side. It has subscribed before the program could publish.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`] if it was taken before and cannot be opened again.
    pub fn egress(&mut self) -> Result<CheckedEgress, LinkError> {
        let egress = self.take_first()?;
        Ok(CheckedEgress { egress })
    }
}

impl CheckedEgress {
    /// Subscribes to the ring that `config` names: `shm://`, `inproc://` or `shm+fd://`.
    ///
    /// For one of several far sides of an outlet, with the settings of [`Source::ring`] and another
    /// `name=` for each. It accepts messages of any type.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        super::validate_ring(config)?;
        let egress = Egress::open(config, ShapeRole::Names)?;
        Ok(Self { egress })
    }

    /// The ends, if this process may use them.
    fn ours(&mut self) -> Result<&mut Egress, NotRead> {
        if self.egress.is_of_this_process() {
            Ok(&mut self.egress)
        } else {
            Err(ReceiveError::Forked.into())
        }
    }

    fn at(&mut self, place: usize) -> Result<&mut Egress, NotRead> {
        let egress = self.ours()?;
        let lanes = egress.lanes();
        if place < lanes {
            Ok(egress)
        } else {
            Err(NotRead::Lane { place, lanes })
        }
    }

    /// Looks for new lanes; returns their number. Each keeps its place, in the order of appearance.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Evicted`]. [`ReceiveError::Lane`]: call again. [`ReceiveError::Failed`] once
    /// everything before the failure of a lane is acknowledged: the far side must not take this for
    /// the end.
    pub fn look(&mut self) -> Result<usize, NotRead> {
        Ok(self.ours()?.look()?)
    }

    /// Number of lanes that [`CheckedEgress::look`] has found so far, also when it failed.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Forked`].
    pub fn known_lanes(&mut self) -> Result<usize, NotRead> {
        Ok(self.ours()?.lanes())
    }

    /// The failures that [`CheckedEgress::look`] reports now, for a far side that stores each: do
    /// that before the bridge returns the error.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Forked`].
    pub fn due_failures(&mut self) -> Result<Vec<LaneFailure>, NotRead> {
        let due = self.ours()?.due_failures().into_iter();
        let named = due.map(|(place, failure)| LaneFailure::new(place, failure));
        Ok(named.collect())
    }

    /// The newest failure of a lane, if nothing behind it is acknowledged. A bridge before this one
    /// may have been killed before it stored it, and [`CheckedEgress::look`] reports it only once
    /// every lane is closed.
    ///
    /// # Errors
    ///
    /// [`NotRead::Lane`].
    pub fn failure_in_doubt(&mut self, place: usize) -> Result<Option<LaneFailure>, NotRead> {
        let failure = self.at(place)?.failure_in_doubt(place);
        Ok(failure.map(|failure| LaneFailure::new(place, failure)))
    }

    /// Index of the lane, as [`Message::lane`](crate::Message::lane) gives it.
    ///
    /// # Errors
    ///
    /// [`NotRead::Lane`].
    pub fn lane(&mut self, place: usize) -> Result<u32, NotRead> {
        Ok(self.at(place)?.lane(place))
    }

    /// Start of the next frames to hand over.
    ///
    /// # Errors
    ///
    /// [`NotRead::Lane`].
    pub fn position(&mut self, place: usize) -> Result<u64, NotRead> {
        Ok(self.at(place)?.position(place))
    }

    /// End of what the far side has acknowledged.
    ///
    /// # Errors
    ///
    /// [`NotRead::Lane`].
    pub fn acknowledged(&mut self, place: usize) -> Result<u64, NotRead> {
        Ok(self.at(place)?.acknowledged(place))
    }

    /// End of what is published from the position on.
    ///
    /// # Errors
    ///
    /// [`NotRead`].
    pub fn committed(&mut self, place: usize) -> Result<u64, NotRead> {
        Ok(self.at(place)?.committed(place)?)
    }

    /// Bytes of frames that may be handed over now.
    ///
    /// # Errors
    ///
    /// [`NotRead`].
    pub fn waiting(&mut self, place: usize) -> Result<u64, NotRead> {
        let egress = self.at(place)?;
        let end = egress.reachable(place)?.min(egress.goal(place));
        Ok(end.saturating_sub(egress.position(place)))
    }

    /// Whole frames from the position on: at most `bytes`, but one frame at least if there is one.
    /// They end at the goal ([`CheckedEgress::set_goal`]), and at a failure that is not reported
    /// yet. The position stays: [`CheckedEgress::advance`] moves it.
    ///
    /// The bytes are in the ring if no publisher can write there before they are acknowledged; else
    /// they are a checked copy. They start at the position, at or behind what is acknowledged, and
    /// end at or before what is committed. The loan excludes every call that could free them.
    ///
    /// # Errors
    ///
    /// [`NotRead`]; [`ReceiveError::Evicted`] if a publisher has overwritten them.
    pub fn frames(&mut self, place: usize, bytes: u64) -> Result<Frames<'_>, NotRead> {
        Ok(self.at(place)?.next_frames(place, bytes)?)
    }

    /// Moves the position to `end`: the frames before it are handed over, and stay in the ring.
    ///
    /// Walks over the headers from the position to `end`: one load for each frame.
    ///
    /// # Errors
    ///
    /// [`NotRead::Position`] unless `end` is the position, or the end of a frame behind it that
    /// [`CheckedEgress::frames`] would give. The position stays.
    pub fn advance(&mut self, place: usize, end: u64) -> Result<(), NotRead> {
        let rule = "starts at or behind the position and may be handed over now";
        let moved = self.at(place)?.advance_checked(place, end)?;
        accepted(moved, place, end, rule)
    }

    /// The far side has everything before `position`: publishers may write there again. An old
    /// acknowledgement changes nothing.
    ///
    /// Walks over the headers that become free, unless `position` is that of the egress.
    ///
    /// # Errors
    ///
    /// [`NotRead::Position`] unless `position` is the end of a frame that was handed over, or is at
    /// or before what was acknowledged. Nothing is freed.
    pub fn acknowledge(&mut self, place: usize, position: u64) -> Result<(), NotRead> {
        let rule = "was handed over";
        let freed = self.at(place)?.acknowledge_checked(place, position, 0)?;
        accepted(freed, place, position, rule)
    }

    /// Continues from `position`, where the far side says it is: everything before it is
    /// acknowledged, and everything behind it is handed over again. Returns `false` if no held
    /// frame starts or ends there: messages are missing.
    ///
    /// Walks over the headers of everything that is not acknowledged.
    ///
    /// # Errors
    ///
    /// [`NotRead`].
    pub fn resume(&mut self, place: usize, position: u64) -> Result<bool, NotRead> {
        Ok(self.at(place)?.resume(place, position)?)
    }

    /// Hands over again everything that was not acknowledged: for a new connection.
    pub fn rewind(&mut self) {
        self.egress.rewind();
    }

    /// The bridge is asked to end: from here on it hands over what is published so far, and nothing
    /// later. Publishers that continue cannot delay its end. Further calls change nothing.
    ///
    /// # Errors
    ///
    /// As [`CheckedEgress::look`].
    pub fn set_goal(&mut self) -> Result<(), NotRead> {
        Ok(self.ours()?.set_goal()?)
    }

    /// Whether everything published, or everything up to the goal, was handed over and
    /// acknowledged.
    ///
    /// # Errors
    ///
    /// As [`CheckedEgress::look`].
    pub fn is_delivered(&mut self) -> Result<bool, NotRead> {
        Ok(self.ours()?.is_delivered()?)
    }

    /// Number of messages up to the goal that were published and not acknowledged, for
    /// [`Control::leave_undelivered`](super::Control::leave_undelivered). They are handed over
    /// again afterwards.
    pub fn undelivered(&mut self) -> u64 {
        self.ours().map_or(0, Egress::undelivered)
    }

    /// Whether the lane's publisher has closed it and everything was handed over.
    ///
    /// # Errors
    ///
    /// [`NotRead::Lane`].
    pub fn is_lane_ended(&mut self, place: usize) -> Result<bool, NotRead> {
        Ok(self.at(place)?.is_lane_ended(place))
    }

    /// Whether at least one publisher existed, all have closed, everything was handed over, and no
    /// failure is left to report.
    #[must_use]
    pub fn is_ended(&mut self) -> bool {
        self.egress.is_ended()
    }

    /// Whether the durable name existed: an earlier bridge used it, and may have sent messages that
    /// are not acknowledged here.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.egress.is_resumed()
    }

    /// A descriptor that becomes readable once there is more than at the last
    /// [`CheckedEgress::arm`].
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left.
    pub fn event_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.egress.event_fd()
    }

    /// Clears the descriptor and arms it from the current positions. Look once more afterwards: it
    /// does not report earlier messages.
    /// In a forked child it does nothing.
    pub fn arm(&mut self) {
        if let Ok(egress) = self.ours() {
            egress.arm();
        }
    }

    /// Distinguishes the channel from earlier and later ones of its name.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.egress.incarnation()
    }

    /// Bytes to which frames are padded.
    #[must_use]
    pub fn align(&self) -> u64 {
        self.egress.geometry().align
    }

    /// Bytes of each ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.egress.geometry().capacity
    }

    /// Type of the messages, with the fields that openers of the ring have stated by now.
    #[must_use]
    pub fn message_type(&self) -> KnownType {
        self.egress.known_type()
    }

    /// Gives up a durable name with everything that was not acknowledged.
    pub fn unsubscribe(self) {
        self.egress.unsubscribe();
    }
}

/// The error for a position that was not accepted.
fn accepted(
    accepted: bool,
    place: usize,
    position: u64,
    rule: &'static str,
) -> Result<(), NotRead> {
    accepted.then_some(()).ok_or(NotRead::Position {
        place,
        position,
        rule,
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
