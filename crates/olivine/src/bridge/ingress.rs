//! Into a ring: one publisher for each lane of the source, which acknowledges after commit.

mod failures;
mod lane;
mod positions;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "tcp"))]
pub(crate) use failures::AfterFailure;
pub(crate) use positions::SourcePosition;

use crate::channel::attach::{self, ShapeRole, TypeTag};
use crate::channel::attached::Attached;
use crate::channel::fields::{self, CheckWord};
use crate::channel::publisher::Publisher;
use crate::channel::raw::{
    BridgeLaneOwner, LaneSource, Origin, free_kept_lane, lane_in_use, lanes_kept_for,
};
use crate::channel::shape::ShapeRequest;
use crate::error::{LinkError, NotSent, OpenError};
use crate::link::Control;
use crate::message::KnownType;
use crate::ring::layout::{Geometry, fixed};
use crate::uri::{Config, Expire};
use lane::Lane;
use std::sync::Arc;
use std::time::Duration;

/// What to do if the types of two channels differ.
pub(super) const TYPE_RULE: &str = "carry messages into a channel of the same type";

/// Publishes frames that come from another channel.
///
/// Each lane of the source has a reserved lane here, which stores its position. In shared memory it
/// stays stored after this process is killed, so the source is asked for exactly the missing
/// frames. Committed frames are acknowledged ([`Ingress::acknowledged`]). A partly received message
/// is neither visible nor acknowledged.
#[derive(Debug)]
pub(crate) struct Ingress {
    config: Config,
    typed: TypeTag,
    attached: Attached,
    /// Geometry of the ring, or the one it gets with the first lane.
    geometry: Geometry,
    source: LaneSource,
    /// Name of the source, for errors.
    name: String,
    lanes: Vec<Lane>,
    /// Positions of the source whose lanes here were freed, until the source opens the lane again.
    freed: Vec<SourcePosition>,
    messages: u64,
    #[cfg(feature = "journal")]
    keeps_unread_failures: bool,
    /// Records why the bridge failed, or that it was asked to stop.
    control: Arc<Control>,
    /// The process that opened it.
    generation: u64,
}

/// Why frames were not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The source breaks the protocol.
    #[error("{problem}")]
    Wrong {
        /// How.
        problem: String,
    },
    /// The next message has no room yet. Everything before it was taken.
    #[error("no room in the ring yet")]
    NoRoom {
        /// Bytes taken.
        taken: usize,
    },
    /// The ring cannot be written.
    #[error("the ring of this side cannot be written")]
    Ring(#[from] OpenError),
    /// The ring is closed, or belongs to a parent process.
    #[error("the ring of this side is closed")]
    Closed,
}

impl NotTaken {
    pub(crate) fn wrong(problem: String) -> Self {
        Self::Wrong { problem }
    }
}

impl Ingress {
    /// Opens the ring that `config` names; a new one gets the type `typed`. The key of `source`
    /// must be the same for the same source, and different for others. `name` names the source in
    /// errors.
    ///
    /// Opens the lanes that are reserved for this source. What happens to open lanes on drop
    /// depends on `control`. After a request to stop they stay like lanes of a dead publisher, for
    /// the next bridge. Otherwise they are closed with the reason of the failure. So only
    /// [`Ingress::close_lane`], [`Ingress::close_lanes`] and [`Ingress::end`] look like the end of
    /// the stream.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; [`OpenError::SourceInUse`] if another bridge writes a lane of this source.
    pub(crate) fn open(
        config: &Config,
        typed: TypeTag,
        source: LaneSource,
        name: &str,
        control: &Arc<Control>,
    ) -> Result<Self, OpenError> {
        // Each lane is a separate publisher; the other settings concern the source.
        let mut config = config.clone();
        // Messages from there already have their topics.
        (config.name, config.expire, config.topic) = (None, Expire::Never, None);
        (config.cpu, config.linger) = (None, Duration::ZERO);
        let (attached, (kept, geometry)) =
            attach::open(&config, &typed, ShapeRole::Leaves, |attached| {
                let settings = ShapeRequest::of(&config, &typed, ShapeRole::Fixes);
                let geometry = settings.merged(&attached.geometry, attached.backing.free_bytes());
                Ok((lanes_kept_for(attached, source.key), geometry))
            })?;
        // Frames are copied unchanged: each lane's ring must have this capacity.
        config.capacity = Some(geometry.capacity);
        config.align = Some(geometry.align);
        let mut ingress = Self {
            config,
            typed,
            attached,
            geometry,
            source,
            name: name.to_owned(),
            lanes: Vec::new(),
            freed: Vec::new(),
            messages: 0,
            #[cfg(feature = "journal")]
            keeps_unread_failures: false,
            control: Arc::clone(control),
            generation: crate::fork::generation(),
        };
        ingress.refuse_second_bridge()?;
        for kept in kept {
            let lane = match kept.failed {
                // Opened and closed again, it would no longer end with its failure.
                Some((position, origin)) => Lane::failed(kept.lane, position, origin),
                None => Lane {
                    kept: Some(kept.is_left),
                    ..ingress.open_lane(kept.lane)?
                },
            };
            ingress.lanes.push(lane);
        }
        Ok(ingress)
    }

    /// Refuses a channel of which another bridge writes a lane of our source. No lane is open here.
    fn refuse_second_bridge(&self) -> Result<(), OpenError> {
        match lane_in_use(&self.attached, self.source.key) {
            None => Ok(()),
            Some((lane, pid)) => Err(self.source_in_use(lane, pid)),
        }
    }

    fn source_in_use(&self, lane: usize, pid: u64) -> OpenError {
        OpenError::SourceInUse {
            channel: self.attached.channel.clone(),
            lane,
            source_name: self.name.clone(),
            pid,
        }
    }

    fn open_lane(&mut self, index: u32) -> Result<Lane, OpenError> {
        let (source, lane) = (self.source, index);
        // Another bridge may have opened the first lane, and fixed the shape.
        match self.attached.refresh() {
            // A lane that was closed without messages was the last participant, and removed it.
            Err(OpenError::Missing { .. }) => {
                let role = ShapeRole::Leaves;
                (self.attached, ()) = attach::open(&self.config, &self.typed, role, |_| Ok(()))?;
            }
            known => known?,
        }
        let brought = BridgeLaneOwner { source, lane };
        let publisher = Publisher::open_as(&self.config, &self.typed, Some(brought));
        let publisher = publisher.map_err(|error| match error {
            OpenError::SourceInUse { lane, pid, .. } => self.source_in_use(lane, pid),
            other => other,
        })?;
        Ok(Lane::of(index, publisher))
    }

    /// The geometry of the ring, or the one it gets with the first lane.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Takes over the type of the source's messages, if the ring accepts any and no participant has
    /// fixed one. A ring of this type takes its fields, unless some are stated.
    pub(crate) fn adopt(&mut self, source: &KnownType) {
        let is_fixed = self.attached.geometry.is_fixed(fixed::TYPE);
        if self.typed.any && !is_fixed && self.lanes.is_empty() {
            self.geometry.type_hash = source.hash;
            self.geometry.type_name.clone_from(&source.name);
            self.typed = TypeTag::of(source.clone());
        } else if !self.typed.any {
            self.typed.known.take_fields(source);
        }
    }

    /// The type of the ring's messages, with the fields that are stored or will be.
    pub(crate) fn known_type(&self) -> KnownType {
        let mut known = fields::known_type(&self.attached.control, &self.geometry);
        known.take_fields(&self.typed.known);
        known
    }

    /// Changes with the fields of the ring.
    pub(crate) fn fields_check(&self) -> CheckWord {
        CheckWord::of(&self.attached.control)
    }

    /// Whether this process opened it. A forked child must not write what the parent writes.
    pub(crate) fn is_of_this_process(&self) -> bool {
        crate::fork::generation() == self.generation
    }

    /// Distinguishes the ring from earlier and later ones of its name.
    pub(crate) fn incarnation(&self) -> u64 {
        self.attached.incarnation()
    }

    /// Whether frames of a ring at `far` fit unchanged, which has this capacity, `align` and type:
    /// another process may have created the ring of this side.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`].
    pub(crate) fn fits(
        &self,
        far: &str,
        capacity: u64,
        align: u64,
        source: &KnownType,
    ) -> Result<(), LinkError> {
        let ours = self.geometry();
        let differs = |key, theirs: String, ours: String, rule| {
            let far = far.to_owned();
            Err(LinkError::Settings {
                far,
                key,
                theirs,
                ours,
                rule,
            })
        };
        if align != ours.align {
            let rule = "give both channels the same 'align='";
            let (theirs, ours) = (align.to_string(), ours.align.to_string());
            return differs("align", theirs, ours, rule);
        }
        if ours.capacity < capacity {
            let rule = "the destination's ring must be as large at least";
            let (theirs, ours) = (capacity.to_string(), ours.capacity.to_string());
            return differs("capacity", theirs, ours, rule);
        }
        self.check_type(far, source)
    }

    /// Whether messages of this type at `far` are allowed in the ring of this side.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`].
    pub(crate) fn check_type(&self, far: &str, source: &KnownType) -> Result<(), LinkError> {
        match source.difference(&self.known_type()) {
            None => Ok(()),
            Some((theirs, ours)) => Err(LinkError::Settings {
                far: far.to_owned(),
                key: "type",
                theirs,
                ours,
                rule: TYPE_RULE,
            }),
        }
    }

    /// Whether a lane of the source is open here.
    pub(crate) fn is_open(&self, index: u32) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| lane.index == index && lane.publisher.is_some())
    }

    /// Whether lanes were opened here, and each of them has ended without a failure.
    #[cfg(feature = "tcp")]
    pub(crate) fn has_ended(&self) -> bool {
        let mut lanes = self.lanes.iter();
        !self.lanes.is_empty() && lanes.all(|lane| !lane.is_unfinished() && !lane.is_failed)
    }

    /// Whether a lane is closed because its publisher at the source failed.
    pub(crate) fn is_failed(&self, index: u32) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| lane.index == index && lane.is_failed)
    }

    /// Whether the bridge before this one left this lane without its end.
    #[cfg(feature = "journal")]
    pub(crate) fn was_left_open(&self, index: u32) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| lane.index == index && lane.kept == Some(true))
    }

    /// From here on the source carries the channel of this incarnation.
    ///
    /// Reserved lanes of another incarnation, opened but not announced, are closed if they had
    /// ended. They fail if the bridge before this one left them open: their undelivered messages
    /// are lost.
    ///
    /// # Errors
    ///
    /// Lanes of another incarnation are open without an end. Their undelivered messages are lost.
    pub(crate) fn follow(&mut self, incarnation: u64) -> Result<(), String> {
        let is_other =
            |lane: &Lane| lane.publisher.is_some() && lane.origin.incarnation != incarnation;
        let lost = |lane: &Lane| {
            format!(
                "the source's channel is another one ({incarnation:016x}) than the one ({:016x}) \
                 whose lane {} was \
                 open at position {}: messages are missing",
                lane.origin.incarnation,
                lane.index,
                lane.there(lane.position)
            )
        };
        let mut lanes = self.lanes.iter();
        if let Some(lane) = lanes.find(|lane| is_other(lane) && lane.kept.is_none()) {
            let rule = "open the channel again to go on without them";
            return Err(format!("{}; {rule}", lost(lane)));
        }
        // A lane without an incarnation belongs to a bridge that was killed before it published.
        let was_left = |lane: &&Lane| {
            is_other(lane) && lane.kept == Some(true) && lane.origin.incarnation != 0
        };
        let left = self.lanes.iter().filter(was_left);
        for (index, reason) in left
            .map(|lane| (lane.index, lost(lane)))
            .collect::<Vec<_>>()
        {
            // It is open, so `fail_lane` opens nothing.
            let _ = self.fail_lane(index, &reason);
        }
        for lane in self.lanes.iter_mut().filter(|lane| is_other(lane)) {
            lane.close_as_found();
        }
        Ok(())
    }

    /// Changes the incarnation of an open lane; its positions stay.
    pub(crate) fn rename(&mut self, index: u32, incarnation: u64) {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        if let Some(lane) = lane
            && let Some(publisher) = &mut lane.publisher
        {
            lane.origin.incarnation = incarnation;
            publisher.set_origin(lane.origin);
        }
    }

    /// The connection broke: discards partly received messages.
    pub(crate) fn interrupt(&mut self) {
        for lane in &mut self.lanes {
            lane.partial = None;
            lane.wanted = None;
        }
    }

    /// A lane of the source is open, and continues from `position` there.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if `position` is not the expected one; [`NotTaken::Ring`].
    pub(crate) fn open_from(
        &mut self,
        incarnation: u64,
        index: u32,
        position: u64,
    ) -> Result<(), NotTaken> {
        let wrong = |expected| {
            NotTaken::wrong(format!(
                "lane {index} goes on from position {position}, not from {expected}"
            ))
        };
        let mut freed = self.freed.iter();
        if let Some(freed) = freed.find(|freed| freed.is(index, incarnation))
            && freed.position != position
        {
            return Err(wrong(freed.position));
        }
        let place = match self.lanes.iter().position(|lane| lane.index == index) {
            Some(place) => place,
            None => {
                let lane = self.open_lane(index)?;
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        if self.lanes[place].publisher.is_none() {
            self.lanes[place] = self.open_lane(index)?;
        }
        self.freed.retain(|freed| !freed.is(index, incarnation));
        let lane = &mut self.lanes[place];
        lane.kept = None;
        if lane.origin.incarnation != incarnation {
            let shift = position.wrapping_sub(lane.position);
            // A part of a message of another channel has no rest.
            lane.partial = None;
            lane.origin = Origin { incarnation, shift };
            if let Some(publisher) = &mut lane.publisher {
                publisher.set_origin(lane.origin);
            }
            return Ok(());
        }
        let expected = lane.there(lane.position);
        if expected == position {
            return Ok(());
        }
        Err(wrong(expected))
    }

    /// Skips to `position` in an open lane of the source: what is before it is not for this side.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if the lane was never opened, or a message is partly received.
    pub(crate) fn skip_to(&mut self, index: u32, position: u64) -> Result<(), NotTaken> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        let Some(lane) = lane.filter(|lane| lane.partial.is_none()) else {
            return Err(NotTaken::wrong(format!(
                "lane {index} cannot go on from position {position}"
            )));
        };
        lane.origin.shift = position.wrapping_sub(lane.position);
        if let Some(publisher) = &mut lane.publisher {
            publisher.set_origin(lane.origin);
        }
        Ok(())
    }

    /// A lane of the source is closed.
    pub(crate) fn close_lane(&mut self, index: u32) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.index == index) {
            lane.partial = None;
            lane.publisher = None;
        }
    }

    /// Every publisher of the source has closed: closes every lane, and keeps the positions.
    #[cfg(feature = "tcp")]
    pub(crate) fn close_lanes(&mut self) {
        for lane in &mut self.lanes {
            lane.partial = None;
            lane.publisher = None;
        }
    }

    /// The source has ended permanently: closes every lane, and makes it available to others.
    pub(crate) fn end(&mut self) {
        for lane in std::mem::take(&mut self.lanes) {
            self.give_back(lane);
        }
    }

    /// Closes a lane if it is open, and makes it available to others.
    fn give_back(&mut self, lane: Lane) {
        match lane.publisher {
            Some(mut publisher) => publisher.forget_origin(),
            // A lane that cannot be freed stays reserved for the same `who`.
            None => {
                let (source, lane) = (self.source, lane.index);
                let _ = free_kept_lane(&mut self.attached, BridgeLaneOwner { source, lane });
            }
        }
    }

    /// A lane of the source has ended permanently: closes it if it is open, and makes it available
    /// to others.
    pub(crate) fn end_lane(&mut self, index: u32) {
        if let Some(place) = self.lanes.iter().position(|lane| lane.index == index) {
            let lane = self.lanes.swap_remove(place);
            self.give_back(lane);
        }
    }

    /// Takes whole or partial frames of a lane of the source that start at `position` there. The
    /// number of bytes is a multiple of 8. Whole messages become visible together.
    ///
    /// # Errors
    ///
    /// [`NotTaken`].
    pub(crate) fn take(&mut self, index: u32, position: u64, bytes: &[u8]) -> Result<(), NotTaken> {
        crate::points::pass("bridge.take");
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        let Some(lane) = lane else {
            return Err(NotTaken::wrong(format!("lane {index} was never opened")));
        };
        let expected = lane.there(lane.position + lane.partial.map_or(0, |partial| partial.come));
        if position != expected || !bytes.len().is_multiple_of(8) {
            return Err(NotTaken::wrong(format!(
                "{} bytes at position {position} of lane {index}, where {expected} comes next",
                bytes.len()
            )));
        }
        let before = lane.position;
        let taken = lane.take(bytes, &mut self.messages);
        if lane.position != before || lane.partial.is_some() {
            // What had ended goes on, also if the source did not announce that.
            lane.kept = None;
        }
        taken
    }

    /// Position at the source up to which a lane's messages are committed here.
    pub(crate) fn acknowledged(&self, index: u32) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.index == index)?;
        Some(lane.there(lane.position))
    }

    /// Position at the source up to which whole frames have room here now. A new subscriber may
    /// take this room: then [`Ingress::take`] finds none.
    pub(crate) fn room(&mut self, index: u32) -> Option<u64> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index)?;
        let end = lane.publisher.as_mut()?.room_end();
        Some(lane.there(end))
    }

    /// The source has no room for a message of `length` bytes: requests it like a waiting
    /// publisher, so that dead subscribers are reclaimed and slow ones evicted.
    pub(crate) fn request_room(&mut self, index: u32, length: usize) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.index == index) {
            lane.wanted = Some(length);
        }
    }

    /// Retries the lanes that need room; `true` if one still does.
    pub(crate) fn retry_room(&mut self) -> bool {
        let mut wanting = false;
        for lane in &mut self.lanes {
            let (Some(length), Some(publisher)) = (lane.wanted, &mut lane.publisher) else {
                continue;
            };
            match publisher.ask_room(length) {
                Err(NotSent::BackPressured | NotSent::NotConnected) => wanting = true,
                _ => lane.wanted = None,
            }
        }
        wanting
    }

    #[cfg(feature = "journal")]
    /// Whether an open lane has sent nothing and still waits for the subscribers of `subscribers=`.
    pub(crate) fn lacks_subscribers(&mut self, index: u32) -> bool {
        let mut lanes = self.lanes.iter_mut();
        let lane = lanes.find(|lane| lane.index == index);
        let publisher = lane.and_then(|lane| lane.publisher.as_mut());
        publisher.is_some_and(|one| matches!(one.ask_room(0), Err(NotSent::NotConnected)))
    }

    /// Messages committed so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            return;
        }
        if std::thread::panicking() {
            // Before the lanes close.
            self.control.give_up(&LinkError::Panicked);
        }
        self.stop_lanes();
        // What had ended before this bridge has ended.
        self.lanes.iter_mut().for_each(Lane::close_as_found);
        // The last participant removes the ring.
        self.attached.leave(|_| ());
    }
}
