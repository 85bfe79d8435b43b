//! The end of a bridge that writes a ring, with every argument checked.

use crate::bridge::ingress::{Ingress, NotTaken, SourcePosition};
use crate::bridge::{Destination, frame, ring_error};
use crate::error::{LinkError, NotSent};
use crate::message::{KnownType, Outgoing};

/// Publishes frames that come from a far side.
///
/// Each lane of the far side has a lane here, reserved for this bridge. The memory of the lane
/// stores the *incarnation* of the far side's channel, and the position there up to which messages
/// are committed. In shared memory both survive the process, so the next bridge asks the far side
/// for exactly the missing messages ([`CheckedIngress::lanes`]). Each incarnation, lane index and
/// position is a number of the far side: this side compares and adds, and gives them no other
/// meaning.
///
/// Dropping it after a request to stop leaves the open lanes to the next bridge. Dropping it
/// otherwise closes them as failed: only [`CheckedIngress::close_lane`],
/// [`CheckedIngress::end_lane`] and [`CheckedIngress::end`] look like the end of a stream to
/// subscribers.
///
/// # Why no argument is dangerous
///
/// * A lane is written by one publisher at a time: its lock decides. A second ingress for the same
///   far side is refused, because it would repeat what the first one took.
/// * The length in each header is checked against the ring before anything is written, and a run
///   of frames is written only where the gate gave room. A header of another length is refused.
/// * Positions of the far side never become positions here: bytes go behind the last committed
///   frame, wherever the far side says that they come from.
/// * In a forked child every call that writes does nothing or is refused: the lanes are the
///   parent's.
#[derive(Debug)]
pub struct CheckedIngress {
    ingress: Ingress,
}

/// A lane that this bridge, or the one before it, has opened here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneOrigin {
    /// Index of the lane at the far side.
    pub index: u32,
    /// Incarnation of the channel there; 0 if no message ever came.
    pub incarnation: u64,
    /// Position there up to which messages are committed here.
    pub position: u64,
    /// It is closed with [`CheckedIngress::close_lane_failed`].
    pub is_failed: bool,
}

impl From<NotTaken> for LinkError {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Ring(source) => ring_error(source),
            other => Self::Bridge {
                problem: other.to_string(),
            },
        }
    }
}

impl Destination {
    /// Opens the ring for the far side that `who` names. With the same name it finds the lanes of
    /// an earlier bridge; another far side needs another name.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`], with [`OpenError::SourceInUse`](crate::OpenError::SourceInUse) if a
    /// lane of this far side is open in another bridge; [`LinkError::Settings`] if the ring is of
    /// another type.
    pub fn ingress(&self, who: &str) -> Result<CheckedIngress, LinkError> {
        let ingress = self.unchecked_ingress(who)?;
        Ok(CheckedIngress { ingress })
    }

    /// Type that the ring has or gets; `None` if it accepts any.
    #[must_use]
    pub fn message_type(&self) -> Option<&KnownType> {
        let typed = self.typed();
        (!typed.any).then_some(&typed.known)
    }
}

impl CheckedIngress {
    fn ours(&mut self) -> Result<&mut Ingress, NotTaken> {
        if self.ingress.is_of_this_process() {
            Ok(&mut self.ingress)
        } else {
            Err(NotTaken::Closed)
        }
    }

    /// The lanes of this bridge and of the ones before it: where to continue.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneOrigin> {
        let origin = |known: SourcePosition| LaneOrigin {
            index: known.lane,
            incarnation: known.incarnation,
            position: known.position,
            is_failed: self.ingress.is_failed(known.lane),
        };
        self.ingress.positions().map(origin).collect()
    }

    /// Whether a lane of the far side is open here.
    #[must_use]
    pub fn is_open(&self, index: u32) -> bool {
        self.ingress.is_open(index)
    }

    /// Lane `index` of the far side's channel is open, and continues from `position` there.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if `incarnation` is 0, or if the lane is known and `position` is not
    /// where it stopped. [`NotTaken::Ring`] if the ring has no lane left, or another bridge has the
    /// lane open.
    pub fn open_lane(
        &mut self,
        incarnation: u64,
        index: u32,
        position: u64,
    ) -> Result<(), NotTaken> {
        let ingress = self.ours()?;
        not_zero(incarnation)?;
        ingress.open_from(incarnation, index, position)
    }

    /// Changes the incarnation of an open lane; its positions stay.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if `incarnation` is 0.
    pub fn set_incarnation(&mut self, index: u32, incarnation: u64) -> Result<(), NotTaken> {
        let ingress = self.ours()?;
        not_zero(incarnation)?;
        ingress.rename(index, incarnation);
        Ok(())
    }

    /// Continues with `position` in an open lane: what is before it is not for this side.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if the lane was never opened, or a message is partly received.
    pub fn skip_to(&mut self, index: u32, position: u64) -> Result<(), NotTaken> {
        self.ours()?.skip_to(index, position)
    }

    /// Takes whole or partial frames of a lane that start at `position` of the far side. The number
    /// of bytes is a multiple of 8. Whole messages become visible together; a partial one when its
    /// rest has come.
    ///
    /// The frames are those of a [`CheckedEgress`](super::CheckedEgress) of the same align, or of
    /// [`CheckedIngress::add_frame`]. A message that is marked as one with a topic and has none is
    /// not noticed here: subscribers get [`ReceiveError::Corrupt`](crate::ReceiveError::Corrupt).
    ///
    /// # Errors
    ///
    /// [`NotTaken::NoRoom`]: what is before the refused message was taken. Repeat the call with the
    /// rest after [`CheckedIngress::retry_room`] returned `false`. [`NotTaken::Wrong`] if the lane
    /// is not open, `position` is not the next one, or a length is none of this ring.
    pub fn take(&mut self, index: u32, position: u64, bytes: &[u8]) -> Result<(), NotTaken> {
        let ingress = self.ours()?;
        let outcome = ingress.take(index, position, bytes);
        if let Err(NotTaken::NoRoom { taken }) = outcome {
            let rest = bytes.get(taken..).unwrap_or_default();
            ingress.request_room(index, frame::carried_bytes(rest));
        }
        outcome
    }

    /// Asks for room like a publisher that waits for it: dead subscribers are reclaimed, slow ones
    /// evicted where `slow=evict:` allows. Returns whether a lane that found no room still has
    /// none.
    pub fn retry_room(&mut self) -> bool {
        self.ours().is_ok_and(Ingress::retry_room)
    }

    /// Appends the frame of `message` to bytes for [`CheckedIngress::take`].
    ///
    /// # Errors
    ///
    /// [`NotSent::TooLong`], [`NotSent::Topic`]; nothing was appended.
    pub fn add_frame(&self, into: &mut Vec<u8>, message: Outgoing<'_>) -> Result<(), NotSent> {
        let geometry = self.ingress.geometry();
        frame::add(into, message, geometry.align, geometry.message_max())
    }

    /// Position at the far side up to which a lane's messages are committed here: what to
    /// acknowledge. `None` if the lane is not known.
    #[must_use]
    pub fn acknowledged(&self, index: u32) -> Option<u64> {
        self.ingress.acknowledged(index)
    }

    /// The connection broke: discards partly received messages, which come again.
    pub fn interrupt(&mut self) {
        self.ingress.interrupt();
    }

    /// A lane of the far side is closed. Its position is kept.
    pub fn close_lane(&mut self, index: u32) {
        if let Ok(ingress) = self.ours() {
            ingress.close_lane(index);
        }
    }

    /// The publisher of an open lane of the far side has failed. Closes the lane with this reason,
    /// which subscribers get behind its last message. Its position is kept: the next bridge finds
    /// it closed as failed, and the far side may go on with it.
    pub fn close_lane_failed(&mut self, index: u32, reason: &str) {
        if let Ok(ingress) = self.ours() {
            ingress.close_lane_failed(index, reason);
        }
    }

    /// A lane of the far side has ended permanently: closes it if it is open, and makes it
    /// available to others. Its position is forgotten.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Closed`] in a forked child.
    pub fn end_lane(&mut self, index: u32) -> Result<(), NotTaken> {
        self.ours()?.end_lane(index);
        Ok(())
    }

    /// A failure cuts a lane of the far side off at this point: closes it with this reason, which
    /// subscribers get behind its last message, and makes it available to others.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Ring`] if it was closed and cannot be opened again.
    pub fn fail_lane(&mut self, index: u32, reason: &str) -> Result<(), NotTaken> {
        self.ours()?.fail_lane(index, reason)
    }

    /// The far side has ended permanently: closes every lane, and makes it available to others.
    pub fn end(&mut self) {
        if let Ok(ingress) = self.ours() {
            ingress.end();
        }
    }

    /// Takes over the type of the far side's messages, if the ring accepts any, and neither it nor
    /// an open lane has one. A ring of this type takes its fields, unless some are stated.
    pub fn adopt(&mut self, source: &KnownType) {
        self.ingress.adopt(source);
    }

    /// Whether messages of this type at `far` are allowed in the ring.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`].
    pub fn check_type(&self, far: &str, source: &KnownType) -> Result<(), LinkError> {
        self.ingress.check_type(far, source)
    }

    /// Bytes to which frames of this ring are padded: those of the far side must be, too.
    #[must_use]
    pub fn align(&self) -> u64 {
        self.ingress.geometry().align
    }

    /// Distinguishes the ring from earlier and later ones of its name.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.ingress.incarnation()
    }

    /// Messages committed so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.ingress.messages()
    }
}

fn not_zero(incarnation: u64) -> Result<(), NotTaken> {
    let problem = "incarnation 0 is none: give each channel of the far side another number";
    (incarnation != 0)
        .then_some(())
        .ok_or_else(|| NotTaken::wrong(problem.to_owned()))
}

#[cfg(all(test, not(loom)))]
mod tests;
