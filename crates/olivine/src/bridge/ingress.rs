//! Into a ring: a publisher per lane of the source, which acknowledges after commit.

#[cfg(test)]
mod tests;

use crate::channel::attach::{self, Part, TypeTag};
use crate::channel::attached::Attached;
use crate::channel::publisher::Publisher;
use crate::channel::raw::{BridgeLaneOwner, Origin, lanes_kept_for};
use crate::channel::shape::ShapeRequest;
use crate::error::{LinkError, NotSent, OpenError, chain};
use crate::link::Control;
use crate::region::HEADER_BYTES;
#[cfg(any(feature = "journal", feature = "nats"))]
use crate::ring::layout::fixed;
use crate::ring::layout::{Geometry, fnv, frame_bytes, type_shown};
use crate::uri::{Config, Expire};
use std::sync::Arc;
use std::time::Duration;

/// What to do where the types of two channels differ.
pub(super) const TYPE_RULE: &str = "carry messages into a channel of their own type";

/// Publishes frames that come from elsewhere.
///
/// Each lane of the source has a lane here that is kept for it and remembers where it was: for a ring in shared
/// memory also after this process was killed, so that the source is asked for exactly what is missing. What is
/// committed is acknowledged ([`Ingress::acknowledged`]); a message of which only a part has come is not visible
/// and not acknowledged.
#[derive(Debug)]
pub(crate) struct Ingress {
    config: Config,
    typed: TypeTag,
    attached: Attached,
    /// Shape of the ring, or the one that it gets with the first lane.
    geometry: Geometry,
    key: u64,
    lanes: Vec<Lane>,
    messages: u64,
    /// Says why the bridge gave up, or that it was asked to stop.
    control: Arc<Control>,
}

#[derive(Debug)]
struct Lane {
    /// Index at the source.
    index: u32,
    /// Absent while the lane is closed at the source.
    publisher: Option<Publisher>,
    origin: Origin,
    /// Position here after the last committed frame; kept while the publisher is absent.
    position: u64,
    /// The message of which only a part has come.
    partial: Option<Partial>,
    /// Bytes of payload for which the source has no room.
    wanted: Option<usize>,
    /// It was opened here only because it is kept, and the source has not announced it since: whether the bridge before
    /// this one left it without an end.
    kept: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Partial {
    header: u64,
    /// Bytes of the frame that have come, its header included.
    come: u64,
}

/// Why frames were not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// The source breaks the rules.
    #[error("{0}")]
    Wrong(String),
    /// There is no room yet for the message that comes next. What came before it was taken.
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

impl Ingress {
    /// For the ring that `config` names, which is made with the type `typed` if need be. `who` says who brings the
    /// messages: the same words each time, others for others.
    ///
    /// Lanes that are kept for it are opened. What becomes of lanes that are open when it is dropped is in `control`:
    /// after a wish to stop they are left as of a dead publisher, for the next bridge; else they are closed with the
    /// reason for which the bridge gave up. So no way out of a bridge looks like the end of the stream: only
    /// [`Ingress::close_lane`], [`Ingress::close_lanes`] and [`Ingress::end`] close a lane in order.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(crate) fn open(
        config: &Config,
        typed: TypeTag,
        who: &str,
        control: &Arc<Control>,
    ) -> Result<Self, OpenError> {
        let key = fnv(who.bytes()).max(1);
        // Each lane is a publisher of its own; what else the settings say concerns the source.
        let mut config = config.clone();
        // What comes from there has its topic already.
        (config.name, config.expire, config.topic) = (None, Expire::Never, None);
        (config.cpu, config.linger) = (None, Duration::ZERO);
        let (attached, (kept, geometry)) =
            attach::open(&config, &typed, Part::Leaves, |attached| {
                let settings = ShapeRequest::of(&config, &typed, Part::Fixes)?;
                let geometry = settings.merged(&attached.geometry, attached.backing.free_bytes());
                Ok((lanes_kept_for(attached, key), geometry))
            })?;
        // Frames are taken as they lie: each lane's ring is as it is said here, or is refused.
        config.capacity = Some(geometry.capacity);
        config.align = Some(geometry.align);
        let mut ingress = Self {
            config,
            typed,
            attached,
            geometry,
            key,
            lanes: Vec::new(),
            messages: 0,
            control: Arc::clone(control),
        };
        for (index, is_left) in kept {
            let mut lane = ingress.open_lane(index)?;
            lane.kept = Some(is_left);
            ingress.lanes.push(lane);
        }
        Ok(ingress)
    }

    fn open_lane(&self, index: u32) -> Result<Lane, OpenError> {
        Self::reopen(&self.config, &self.typed, self.key, index)
    }

    fn reopen(config: &Config, typed: &TypeTag, key: u64, index: u32) -> Result<Lane, OpenError> {
        let brought = BridgeLaneOwner { key, lane: index };
        let publisher = Publisher::open_as(config, typed, Some(brought))?;
        Ok(Lane {
            index,
            origin: publisher.origin(),
            position: publisher.cursor().0,
            publisher: Some(publisher),
            partial: None,
            wanted: None,
            kept: None,
        })
    }

    /// Why the lanes that are open now are to be closed with a failure; `None` if they are to be left to the next
    /// bridge.
    fn failure(&self) -> Option<String> {
        match self.control.failure() {
            Some(failure) => Some(chain(&failure)),
            None if std::thread::panicking() => Some(chain(&LinkError::Panicked)),
            None if self.control.stopping().is_some() => None,
            None => Some("it ended before its source did, and did not say why".to_owned()),
        }
    }

    /// The shape of the ring, or the one that it gets with the first lane.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Takes over the type of the source's messages, where the ring takes any and no participant has fixed one.
    #[cfg(any(feature = "journal", feature = "nats"))]
    pub(crate) fn adopt(&mut self, hash: u64, name: &str) {
        let is_fixed = self.attached.geometry.is_fixed(fixed::TYPE);
        if self.typed.any && !is_fixed && self.lanes.is_empty() {
            let any = false;
            let name = name.to_owned();
            (self.geometry.type_hash, self.geometry.type_name) = (hash, name.clone());
            let name = name.into();
            self.typed = TypeTag { hash, name, any };
        }
    }

    /// Tells the ring from others that had or will have its name.
    pub(crate) fn incarnation(&self) -> u64 {
        self.attached.incarnation()
    }

    /// Whether frames of a ring of the shape `source`, which `far` has, can be taken as they lie: the ring of this side
    /// may have been made by somebody else.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`].
    pub(crate) fn fits(&self, far: &str, source: &Geometry) -> Result<(), LinkError> {
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
        if source.align != ours.align {
            let rule = "give both channels the same 'align='";
            let (theirs, ours) = (source.align.to_string(), ours.align.to_string());
            return differs("align", theirs, ours, rule);
        }
        if ours.capacity < source.capacity {
            let rule = "the destination's ring must be as large at least";
            let (theirs, ours) = (source.capacity.to_string(), ours.capacity.to_string());
            return differs("capacity", theirs, ours, rule);
        }
        self.check_type(far, source.type_hash, &source.type_name)
    }

    /// Whether messages of this type, which `far` has, may lie in the ring of this side.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`].
    pub(crate) fn check_type(&self, far: &str, hash: u64, name: &str) -> Result<(), LinkError> {
        if hash == self.geometry.type_hash {
            return Ok(());
        }
        Err(LinkError::Settings {
            far: far.to_owned(),
            key: "type",
            theirs: type_shown(name),
            ours: type_shown(&self.geometry.type_name),
            rule: TYPE_RULE,
        })
    }

    /// Where to go on with a source of this incarnation: its lanes, and positions there. Lanes that are not named
    /// start where the source says.
    pub(crate) fn resume(&self, incarnation: u64) -> Vec<(u32, u64)> {
        let ours = |lane: &&Lane| lane.origin.incarnation == incarnation;
        self.lanes
            .iter()
            .filter(ours)
            .map(|lane| (lane.index, lane.there(lane.position)))
            .collect()
    }

    /// Whether a lane of the source is open here.
    pub(crate) fn is_open(&self, index: u32) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| lane.index == index && lane.publisher.is_some())
    }

    /// Whether the bridge before us left this lane of the source without its end.
    #[cfg(feature = "journal")]
    pub(crate) fn was_left_open(&self, index: u32) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| lane.index == index && lane.kept == Some(true))
    }

    /// The source carries the channel of this incarnation from here on.
    ///
    /// It does not announce lanes of another one that were opened only because they are kept. Those that had ended are
    /// closed; those that the bridge before this one left fail, because what was in them and did not arrive is lost.
    ///
    /// # Errors
    ///
    /// Why not: lanes of another incarnation that we followed are open, which never told their end. What was in it and
    /// did not arrive is lost.
    #[cfg(feature = "tcp")]
    pub(crate) fn follow(&mut self, incarnation: u64) -> Result<(), String> {
        let is_other =
            |lane: &Lane| lane.publisher.is_some() && lane.origin.incarnation != incarnation;
        let lost = |lane: &Lane| {
            format!(
                "the source's channel is another one ({incarnation:016x}) than the one ({:016x}) whose lane {} was \
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
        // A lane without an incarnation was taken by a bridge that was killed before it published.
        let was_left = |lane: &&Lane| {
            is_other(lane) && lane.kept == Some(true) && lane.origin.incarnation != 0
        };
        let left = self.lanes.iter().filter(was_left);
        for (index, reason) in left
            .map(|lane| (lane.index, lost(lane)))
            .collect::<Vec<_>>()
        {
            // It is open, so that nothing has to be opened for this.
            let _ = self.fail_lane(index, &reason);
        }
        for lane in self.lanes.iter_mut().filter(|lane| is_other(lane)) {
            lane.publisher = None;
        }
        Ok(())
    }

    /// Every lane that was kept or opened: its index, the incarnation that it goes by, and the position there.
    #[cfg(feature = "nats")]
    pub(crate) fn origins(&self) -> Vec<(u32, u64, u64)> {
        self.lanes
            .iter()
            .map(|lane| {
                (
                    lane.index,
                    lane.origin.incarnation,
                    lane.there(lane.position),
                )
            })
            .collect()
    }

    /// An open lane goes by another incarnation of the source from here on; its positions stay.
    #[cfg(feature = "nats")]
    pub(crate) fn rename(&mut self, index: u32, incarnation: u64) {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        if let Some(lane) = lane
            && let Some(publisher) = &mut lane.publisher
        {
            lane.origin.incarnation = incarnation;
            publisher.set_origin(lane.origin);
        }
    }

    /// The connection broke: forgets messages of which only a part has come.
    pub(crate) fn interrupt(&mut self) {
        for lane in &mut self.lanes {
            lane.partial = None;
            lane.wanted = None;
        }
    }

    /// A lane of the source is open, and goes on from `position` there.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if that is not where we are; [`NotTaken::Ring`].
    pub(crate) fn open_from(
        &mut self,
        incarnation: u64,
        index: u32,
        position: u64,
    ) -> Result<(), NotTaken> {
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
        let lane = &mut self.lanes[place];
        lane.kept = None;
        if lane.origin.incarnation != incarnation {
            let shift = position.wrapping_sub(lane.position);
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
        Err(NotTaken::Wrong(format!(
            "lane {index} goes on from position {position}, not from {expected}"
        )))
    }

    /// What lies before `position` in an open lane of the source is not for us: goes on there.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Wrong`] if the lane was never opened, or a part of a message has come.
    pub(crate) fn skip_to(&mut self, index: u32, position: u64) -> Result<(), NotTaken> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        let Some(lane) = lane.filter(|lane| lane.partial.is_none()) else {
            return Err(NotTaken::Wrong(format!(
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

    /// Every publisher of the source has closed: closes every lane, and remembers where it was.
    #[cfg(feature = "tcp")]
    pub(crate) fn close_lanes(&mut self) {
        for lane in &mut self.lanes {
            lane.partial = None;
            lane.publisher = None;
        }
    }

    /// The source has ended for good: closes every lane, and gives them back to everybody.
    pub(crate) fn end(&mut self) {
        for mut lane in std::mem::take(&mut self.lanes) {
            if lane.publisher.is_none()
                && let Ok(opened) = self.open_lane(lane.index)
            {
                lane = opened;
            }
            // One that cannot be opened stays kept for whoever says the same words.
            lane.give_back();
        }
    }

    /// Nothing after this point of a lane of the source will come, because of a failure: closes it with this reason, and
    /// gives it back to everybody.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Ring`] if it was closed and cannot be opened for that.
    pub(crate) fn fail_lane(&mut self, index: u32, reason: &str) -> Result<(), NotTaken> {
        if let Some(place) = self.lanes.iter().position(|lane| lane.index == index) {
            if self.lanes[place].publisher.is_none() {
                self.lanes[place] = self.open_lane(index)?;
            }
            if let Some(mut publisher) = self.lanes.swap_remove(place).publisher {
                publisher.forget_origin();
                publisher.fail(reason);
            }
        }
        Ok(())
    }

    /// The far side that brought these lanes does not come back: closes each that it had not ended with this reason,
    /// and gives all of them back to everybody.
    #[cfg(feature = "tcp")]
    pub(crate) fn abandon(mut self, reason: &str) {
        let open = self.lanes.iter().filter(|lane| lane.publisher.is_some());
        for index in open.map(|lane| lane.index).collect::<Vec<_>>() {
            // One that cannot be opened stays kept for whoever says the same words.
            let _ = self.fail_lane(index, reason);
        }
        self.end();
    }

    /// A lane of the source has ended for good: closes it if it is open, and gives it back to everybody.
    ///
    /// # Errors
    ///
    /// [`NotTaken::Ring`] if it was closed and cannot be opened for that.
    #[cfg(feature = "nats")]
    pub(crate) fn end_lane(&mut self, index: u32) -> Result<(), NotTaken> {
        if let Some(place) = self.lanes.iter().position(|lane| lane.index == index) {
            if self.lanes[place].publisher.is_none() {
                self.lanes[place] = self.open_lane(index)?;
            }
            self.lanes.swap_remove(place).give_back();
        }
        Ok(())
    }

    /// Takes frames, or parts of them, of a lane of the source that start at `position` there. Their number of
    /// bytes is a multiple of 8. Whole messages become visible together.
    ///
    /// # Errors
    ///
    /// [`NotTaken`].
    pub(crate) fn take(&mut self, index: u32, position: u64, bytes: &[u8]) -> Result<(), NotTaken> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index);
        let Some(lane) = lane else {
            return Err(NotTaken::Wrong(format!("lane {index} was never opened")));
        };
        let expected = lane.there(lane.position + lane.partial.map_or(0, |partial| partial.come));
        if position != expected || !bytes.len().is_multiple_of(8) {
            return Err(NotTaken::Wrong(format!(
                "{} bytes at position {position} of lane {index}, where {expected} comes next",
                bytes.len()
            )));
        }
        lane.take(bytes, &mut self.messages)
    }

    /// Position at the source up to which a lane's messages are committed here.
    pub(crate) fn acknowledged(&self, index: u32) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.index == index)?;
        Some(lane.there(lane.position))
    }

    /// Position at the source up to which whole frames have room here now. A promise that a new subscriber may
    /// break: then [`Ingress::take`] finds no room.
    pub(crate) fn room(&mut self, index: u32) -> Option<u64> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == index)?;
        let end = lane.publisher.as_mut()?.room_end();
        Some(lane.there(end))
    }

    /// The source has no room for a message of `length` bytes: asks for it, as a publisher that waits does, so that
    /// subscribers that died are reclaimed and slow ones judged.
    pub(crate) fn want(&mut self, index: u32, length: usize) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.index == index) {
            lane.wanted = Some(length);
        }
    }

    /// Looks after the lanes that want room; `true` if one still does.
    pub(crate) fn press(&mut self) -> bool {
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

    /// Messages committed so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }
}

impl Drop for Ingress {
    fn drop(&mut self) {
        let failure = self.failure();
        // A bridge that ended in order, as it was to at the end of the source, has closed every lane and says no more.
        let gave_up = self.control.has_failed() || std::thread::panicking();
        if gave_up && self.lanes.iter().all(|lane| lane.publisher.is_none()) {
            // Every lane had ended, and another stream would have followed: one of them tells that none does.
            if let Some(lane) = self.lanes.first_mut()
                && let Ok(opened) = Self::reopen(&self.config, &self.typed, self.key, lane.index)
            {
                *lane = opened;
            }
        }
        for publisher in self.lanes.drain(..).filter_map(|lane| lane.publisher) {
            match &failure {
                Some(reason) => publisher.fail(reason),
                None => publisher.leave_open(),
            }
        }
        // The last one to leave removes the ring.
        self.attached.leave(|_| ());
    }
}

impl Lane {
    fn give_back(&mut self) {
        if let Some(publisher) = &mut self.publisher {
            publisher.forget_origin();
        }
        self.publisher = None;
    }

    /// A position of ours as the source counts.
    fn there(&self, here: u64) -> u64 {
        here.wrapping_add(self.origin.shift)
    }

    fn take(&mut self, mut bytes: &[u8], messages: &mut u64) -> Result<(), NotTaken> {
        let Some(publisher) = &mut self.publisher else {
            return Err(NotTaken::Wrong(format!(
                "bytes for lane {}, which is closed",
                self.index
            )));
        };
        let align = publisher.attached().geometry.align;
        let frame_max = publisher.message_max() as u64 + HEADER_BYTES;
        let all = bytes.len();
        let wrong = |header: u64| {
            let length = frame_bytes(header);
            NotTaken::Wrong(format!(
                "a frame of {length} bytes, where 8 to {frame_max} are possible"
            ))
        };
        // First the rest of the message of which a part has come.
        if let Some(partial) = &mut self.partial {
            let frame = frame_bytes(partial.header);
            let padded = frame.next_multiple_of(align);
            let part = usize_of((padded - partial.come).min(bytes.len() as u64));
            let payload = usize_of((frame.saturating_sub(partial.come)).min(part as u64));
            let length = usize_of(frame - HEADER_BYTES);
            let at = usize_of((partial.come - HEADER_BYTES).min(length as u64));
            let end = publisher
                .write_part(length, at, &bytes[..payload])
                .map_err(|why| refused(why, 0))?;
            partial.come += part as u64;
            bytes = &bytes[part..];
            if partial.come < padded {
                return Ok(());
            }
            publisher.publish_parts(end, partial.header);
            self.position = publisher.cursor().0;
            self.partial = None;
            *messages += 1;
        }
        // Then whole ones, together and as they lie, as many at a time as there is room for.
        let mut rest = bytes;
        let mut outcome = Ok(());
        while let Some((header, _)) = rest.split_first_chunk::<8>() {
            let header = u64::from_le_bytes(*header);
            let Some(padded) = padded_frame(header, align, frame_max) else {
                outcome = Err(wrong(header));
                break;
            };
            if padded > rest.len() as u64 {
                break;
            }
            // Asks the gate if need be; what follows takes what it said.
            if let Err(why) = publisher.ask_room(usize_of(frame_bytes(header) - HEADER_BYTES)) {
                outcome = Err(refused(why, all - rest.len()));
                break;
            }
            let most = publisher.room_left().min(rest.len() as u64);
            let (run, count) = whole_frames(rest, align, frame_max, most);
            if run == 0 {
                // Another process's memory that changed meanwhile.
                outcome = Err(wrong(header));
                break;
            }
            let (frames, behind) = rest.split_at(run);
            publisher.publish_frames(frames);
            *messages += count;
            rest = behind;
        }
        self.position = publisher.cursor().0;
        outcome?;
        // Last the first part of the next one.
        if let Some((header, part)) = rest.split_first_chunk::<8>() {
            let header = u64::from_le_bytes(*header);
            let frame = frame_bytes(header);
            let length = usize_of(frame - HEADER_BYTES);
            let payload = part.len().min(length);
            let taken = all - rest.len();
            let _end = publisher
                .write_part(length, 0, &part[..payload])
                .map_err(|why| refused(why, taken))?;
            let come = rest.len() as u64;
            self.partial = Some(Partial { header, come });
        }
        Ok(())
    }
}

/// Bytes of the frame that begins with `header`, padding included; `None` for a length that no message has here.
#[inline]
fn padded_frame(header: u64, align: u64, frame_max: u64) -> Option<u64> {
    let frame = frame_bytes(header);
    (HEADER_BYTES..=frame_max)
        .contains(&frame)
        .then(|| frame.next_multiple_of(align))
}

/// Bytes and number of the whole frames at the start of `bytes`, `most` bytes at most. Ends before a frame of a length
/// that no message has.
fn whole_frames(bytes: &[u8], align: u64, frame_max: u64, most: u64) -> (usize, u64) {
    let (mut end, mut count) = (0, 0);
    while let Some(header) = bytes.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
        let header = u64::from_le_bytes(*header);
        let Some(padded) = padded_frame(header, align, frame_max) else {
            break;
        };
        if end as u64 + padded > most {
            break;
        }
        end += usize_of(padded);
        count += 1;
    }
    (end, count)
}

/// What a lane's publisher answered, after `taken` bytes were taken.
fn refused(why: NotSent, taken: usize) -> NotTaken {
    match why {
        NotSent::BackPressured | NotSent::NotConnected => NotTaken::NoRoom { taken },
        NotSent::TooLong { max } => NotTaken::Wrong(format!(
            "a message longer than the {max} bytes that this ring takes"
        )),
        _ => NotTaken::Closed,
    }
}

/// A number of bytes that a ring of ours holds.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
