//! Lanes of the stream's publishers, written to lanes of this side.
//!
//! A lane takes only the message that continues it. Known messages are skipped. Messages that come
//! too early are skipped, too: their sender sends them again after the missing ones. Each lane
//! stores its position in its own memory. So over shared memory nothing is lost or repeated,
//! whichever process is killed and whatever the server repeats.
//!
//! Messages of other programs have no label. They share one lane; their positions are made from
//! their sequence numbers in the stream.

use super::label::{self, Kind, Label, NoLabel};
use crate::raw::{CheckedIngress, KnownType, LaneOrigin, NotTaken, stable_hash};
use crate::{LinkError, OpenError, Outgoing};
use bytes::Bytes;
use std::time::Duration;

/// Frame bytes that become visible together.
const RUN_BYTES: usize = 256 << 10;
/// Time between the first early message and a later one, by the server's clock, after which the
/// missing messages count as lost. A sender retries after a few seconds.
const HOLE_MAX: Duration = Duration::from_secs(60);
/// Distance between two messages of other programs in the lane: more than any server's longest
/// message.
const OTHERS_STEP: u64 = 1 << 27;
/// Bit in the key of a lane: it was closed.
const CLOSED: u64 = 1;

/// A message of the stream.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    /// Its sequence number.
    pub(super) sequence: u64,
    /// When it was stored: nanoseconds since 1970.
    pub(super) time_ns: u64,
    /// Its label, if a bridge sent it.
    pub(super) label: Result<Label, NoLabel>,
    pub(super) tag: u32,
    /// Its topic, if it has one.
    pub(super) topic: Option<String>,
    /// Its sender has given up earlier messages.
    pub(super) is_start: bool,
    pub(super) payload: Bytes,
}

/// Result of taking a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeResult {
    /// It was taken, or was there already.
    Done,
    /// It is the first early message of its lane.
    Early,
    /// There is no room; nothing was taken.
    NoRoom,
}

/// Every lane of a stream.
#[derive(Debug)]
pub(super) struct Sources {
    ingress: CheckedIngress,
    /// Where the messages come from, for people.
    place: String,
    /// By which the lane of other programs is known.
    others: u64,
    /// The stream reuses sequence numbers for messages stored after this time: nanoseconds since
    /// 1970.
    rewound_ns: Option<u64>,
    lanes: Vec<Lane>,
    run: Option<Run>,
    heard: u64,
    /// Lost lanes and the reasons: closed with the reason when the bridge ends.
    lost: Vec<(u32, String)>,
    /// Reason of the first lane that failed, and the number of later ones.
    failed: Option<(String, u64)>,
}

impl Drop for Sources {
    fn drop(&mut self) {
        for (index, reason) in std::mem::take(&mut self.lost) {
            // Its messages stay readable. If it cannot be released, the next bridge finds it
            // unchanged.
            let _ = self.ingress.fail_lane(index, &reason);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    /// Index in the ring's table of lanes.
    index: u32,
    /// From the incarnation and lane at the source; even.
    key: u64,
    is_open: bool,
    /// It is closed, and the reason was given.
    is_failed: bool,
    /// The number of its newest failure; 0 if an earlier bridge took it.
    failure: u64,
    /// Next position at the source.
    next: u64,
    /// When the first early message was stored.
    early_ns: Option<u64>,
    /// Message count at the last message of this lane.
    heard: u64,
}

/// Frames of one lane that are not in the ring yet.
#[derive(Debug)]
struct Run {
    lane: u32,
    position: u64,
    bytes: Vec<u8>,
}

impl Sources {
    /// Continues with the lanes that are in the ring. `created` distinguishes the stream from
    /// others of its name.
    pub(super) fn new(mut ingress: CheckedIngress, place: String, created: u64) -> Self {
        let mut lanes = Vec::new();
        for lane in ingress.lanes() {
            let LaneOrigin {
                index,
                incarnation,
                position: next,
                is_failed,
                ..
            } = lane;
            let is_open = incarnation & CLOSED == 0 && !is_failed;
            if !is_open {
                ingress.close_lane(index);
            }
            lanes.push(Lane {
                index,
                key: incarnation & !CLOSED,
                is_open,
                is_failed,
                failure: 0,
                next,
                early_ns: None,
                heard: 0,
            });
        }
        Self {
            ingress,
            others: key_of_others(created),
            rewound_ns: None,
            place,
            lanes,
            run: None,
            heard: 0,
            lost: Vec::new(),
            failed: None,
        }
    }

    /// The stream was made again: the messages of other programs get a new lane.
    pub(super) fn remade(&mut self, created: u64) {
        self.others = key_of_others(created);
    }

    /// The stream reuses sequence numbers. `done_ns` is the latest storing time of the messages
    /// taken so far.
    pub(super) fn rewound(&mut self, done_ns: u64) {
        self.rewound_ns = Some(done_ns);
    }

    /// Sequence number of the last message taken from another program.
    pub(super) fn others_reached(&self) -> Option<u64> {
        let lane = self.lanes.iter().find(|lane| lane.key == self.others)?;
        Some(lane.next / OTHERS_STEP)
    }

    /// Whether a message begins an unknown lane, whose type is unchecked.
    pub(super) fn is_new(&self, arrived: &Arrived) -> bool {
        let label = arrived.label.as_ref();
        let key = label.map_or(self.others, key_of_lane);
        self.lanes.iter().all(|lane| lane.key != key)
    }

    /// Takes over the current type of the stream, before a lane is added.
    ///
    /// # Errors
    ///
    /// [`LinkError::Settings`] if existing lanes carry another type.
    pub(super) fn adopt(&mut self, typed: &KnownType) -> Result<(), LinkError> {
        self.ingress.adopt(typed);
        if typed.hash == 0 {
            // A stream without a type, as of other programs, has the type of its egress.
            return Ok(());
        }
        self.ingress.check_type(&self.place, typed)
    }

    /// Takes a message; it becomes visible with [`Sources::flush`] at the latest. `replaces`:
    /// another message had its number, and was taken.
    ///
    /// # Errors
    ///
    /// [`LinkError::Lost`] if messages are missing; others if the ring does not accept the message.
    pub(super) fn take(
        &mut self,
        arrived: &Arrived,
        replaces: bool,
    ) -> Result<TakeResult, LinkError> {
        let (key, position) = match &arrived.label {
            Ok(label) => {
                self.check(label)?;
                (key_of_lane(label), label.position)
            }
            Err(NoLabel::Later) => {
                let sequence = arrived.sequence;
                return Err(self.damaged(&format!(
                    "message {sequence} has an id of a later version of Olivine: use a version \
                     here that is as new as that of the publishers"
                )));
            }
            Err(NoLabel::Foreign) => (self.others, arrived.sequence.wrapping_mul(OTHERS_STEP)),
        };
        self.heard += 1;
        let known = self.lanes.iter().position(|lane| lane.key == key);
        let kind = arrived.label.map_or(Kind::Message, |label| label.kind);
        if let Some(place) = known {
            let next = self.lanes[place].next;
            self.lanes[place].heard = self.heard;
            let is_later = self.rewound_ns.is_some_and(|ns| arrived.time_ns > ns);
            if position < next && (is_later || replaces) && arrived.label.is_err() {
                let problem = "the stream lost its last messages and gives their numbers again";
                return Err(self.lose_lane(place, 0, problem));
            }
            let is_known = match kind {
                Kind::Message => false,
                Kind::End => !self.lanes[place].is_open,
                Kind::Failed(number) => {
                    let Lane {
                        is_failed, failure, ..
                    } = self.lanes[place];
                    is_failed && (failure == 0 || number <= failure)
                }
            };
            if position < next || position == next && is_known {
                return Ok(TakeResult::Done);
            }
            if position > next {
                if arrived.label.is_ok() {
                    return self.early(place, arrived);
                }
                // Messages of other programs in between are for others, or were taken.
                if !self.flush()? {
                    return Ok(TakeResult::NoRoom);
                }
                self.open(place)?;
                let lane = &mut self.lanes[place];
                let skipped = self.ingress.skip_to(lane.index, position);
                lane.next = position;
                skipped.map_err(|why| self.not_taken(why))?;
            }
        }
        let place = match known {
            Some(place) => place,
            None => match self.add(key, position)? {
                Some(place) => place,
                None => return Ok(TakeResult::NoRoom),
            },
        };
        self.lanes[place].early_ns = None;
        match kind {
            Kind::Message => {}
            Kind::End => return self.close(place),
            Kind::Failed(number) => {
                return self.fail(place, number, &label::reason_of(&arrived.payload));
            }
        }
        let lane = self.lanes[place];
        let is_other_run = |run: &Run| run.lane != lane.index || run.bytes.len() >= RUN_BYTES;
        if self.run.as_ref().is_some_and(is_other_run) && !self.flush()? {
            return Ok(TakeResult::NoRoom);
        }
        self.open(place)?;
        let run = self.run.get_or_insert_with(|| Run {
            lane: lane.index,
            position,
            bytes: Vec::new(),
        });
        let topic = arrived.topic.as_deref().unwrap_or_default();
        let message = Outgoing::new(&arrived.payload);
        let message = message.tag(arrived.tag).topic(topic);
        match self.ingress.add_frame(&mut run.bytes, message) {
            Ok(()) => {}
            Err(why) => return Err(self.misfit(&why)),
        }
        self.lanes[place].next = run.position + run.bytes.len() as u64;
        Ok(TakeResult::Done)
    }

    /// Makes the taken messages visible; `false` if there is no room for all of them yet.
    ///
    /// # Errors
    ///
    /// [`LinkError`] if the ring does not accept them.
    pub(super) fn flush(&mut self) -> Result<bool, LinkError> {
        let Some(run) = &mut self.run else {
            return Ok(true);
        };
        match self.ingress.take(run.lane, run.position, &run.bytes) {
            Ok(()) => {
                self.run = None;
                Ok(true)
            }
            Err(NotTaken::NoRoom { taken }) => {
                run.position += taken as u64;
                run.bytes.drain(..taken);
                Ok(false)
            }
            Err(why) => Err(self.not_taken(why)),
        }
    }

    /// Retries the lanes that need room; `true` if one still does.
    pub(super) fn retry_room(&mut self) -> bool {
        self.ingress.retry_room()
    }

    /// Messages committed so far.
    pub(super) fn messages(&self) -> u64 {
        self.ingress.messages()
    }

    /// The failures of lanes taken so far, as one error. A failure that the bridge before this one
    /// took counts, too, if nothing was heard, or only of its lane what that bridge had.
    pub(super) fn failure(&self) -> Option<LinkError> {
        let is_kept = |lane: &Lane| lane.is_failed && (self.heard == 0 || lane.heard > 0);
        let reason = match &self.failed {
            None if self.lanes.iter().any(is_kept) => {
                "a publisher has failed: the bridge before this one reported why".to_owned()
            }
            None => return None,
            Some((reason, 0)) => reason.clone(),
            Some((reason, more)) => format!("{reason}, and {more} more failures"),
        };
        let far = self.place.clone();
        Some(LinkError::FarFailed { far, reason })
    }

    /// Whether at least one lane is known, and all known lanes have ended. The bridge before this
    /// one may have acknowledged every end: then only its lanes are known.
    pub(super) fn is_ended(&self) -> bool {
        (self.heard > 0 || !self.lanes.is_empty()) && self.lanes.iter().all(|lane| !lane.is_open)
    }

    /// Whether a message of the stream belongs to the lane of an early message, before the missing
    /// part.
    pub(super) fn is_behind(&self, arrived: &Arrived, label: &Label) -> bool {
        let Ok(own) = arrived.label else {
            return false;
        };
        let lane = self.lanes.iter().find(|lane| lane.key == key_of_lane(&own));
        (label.incarnation, label.lane) == (own.incarnation, own.lane)
            && lane.is_some_and(|lane| label.position < lane.next)
    }

    /// Marks the missing messages of the lane as lost: it continues with the next message.
    pub(super) fn lose(&mut self, arrived: &Arrived, problem: &str) -> LinkError {
        let Ok(label) = arrived.label else {
            return self.damaged("a message of another program came too early");
        };
        let key = key_of_lane(&label);
        let Some(place) = self.lanes.iter().position(|lane| lane.key == key) else {
            return self.damaged("a lane came too early that was never heard of");
        };
        self.lose_lane(place, label.lane, problem)
    }

    /// Marks a lane as lost. `number` is its number at the sender.
    fn lose_lane(&mut self, place: usize, number: u32, problem: &str) -> LinkError {
        let lane = self.lanes.swap_remove(place);
        let lost = LinkError::Lost {
            far: self.place.clone(),
            lane: number,
            position: lane.next,
            problem: problem.to_owned(),
        };
        self.lost.push((lane.index, lost.to_string()));
        lost
    }

    /// A message is ahead of its lane's next position.
    fn early(&mut self, place: usize, arrived: &Arrived) -> Result<TakeResult, LinkError> {
        if arrived.is_start {
            let problem = "its publisher went on without them";
            return Err(self.lose(arrived, problem));
        }
        let lane = &mut self.lanes[place];
        let Some(since) = lane.early_ns else {
            lane.early_ns = Some(arrived.time_ns);
            return Ok(TakeResult::Early);
        };
        if Duration::from_nanos(arrived.time_ns.saturating_sub(since)) > HOLE_MAX {
            let problem = "they were removed from the stream, or never stored";
            return Err(self.lose(arrived, problem));
        }
        Ok(TakeResult::Done)
    }

    /// An unknown lane begins at `position`; `None` if there is no room for it.
    fn add(&mut self, key: u64, position: u64) -> Result<Option<usize>, LinkError> {
        let index = (0..).find(|index| self.lanes.iter().all(|lane| lane.index != *index));
        let index = index.unwrap_or(u32::MAX);
        loop {
            match self.ingress.open_lane(key, index, position) {
                Ok(()) => break,
                Err(NotTaken::Ring(OpenError::PublishersFull { max, .. })) => {
                    if !self.flush()? {
                        return Ok(None);
                    }
                    self.forget_oldest(max)?;
                }
                Err(why) => return Err(self.not_taken(why)),
            }
        }
        self.lanes.push(Lane {
            index,
            key,
            is_open: true,
            is_failed: false,
            failure: 0,
            next: position,
            early_ns: None,
            heard: self.heard,
        });
        Ok(Some(self.lanes.len() - 1))
    }

    /// Gives up the lane that was silent for longest; closed ones first.
    fn forget_oldest(&mut self, max: u64) -> Result<(), LinkError> {
        let oldest = (0..self.lanes.len())
            .min_by_key(|place| (self.lanes[*place].is_open, self.lanes[*place].heard));
        let Some(place) = oldest else {
            let full = NotTaken::Ring(OpenError::PublishersFull {
                channel: self.place.clone(),
                max,
                holders: "other publishers".to_owned(),
            });
            return Err(full.into());
        };
        let lane = self.lanes.swap_remove(place);
        let ended = self.ingress.end_lane(lane.index);
        ended.map_err(|why| self.not_taken(why))
    }

    /// Opens a closed lane.
    fn open(&mut self, place: usize) -> Result<(), LinkError> {
        let lane = &mut self.lanes[place];
        if lane.is_open {
            return Ok(());
        }
        (lane.is_open, lane.is_failed) = (true, false);
        let Lane {
            index, key, next, ..
        } = *lane;
        let opened = self.ingress.open_lane(key | CLOSED, index, next);
        let opened = opened.and_then(|()| self.ingress.set_incarnation(index, key));
        opened.map_err(|why| self.not_taken(why))
    }

    fn close(&mut self, place: usize) -> Result<TakeResult, LinkError> {
        if !self.flush()? {
            return Ok(TakeResult::NoRoom);
        }
        let lane = &mut self.lanes[place];
        lane.is_open = false;
        let marked = self.ingress.set_incarnation(lane.index, lane.key | CLOSED);
        self.ingress.close_lane(lane.index);
        marked.map_err(|why| self.not_taken(why))?;
        Ok(TakeResult::Done)
    }

    /// The publisher of a lane has failed with this reason.
    fn fail(&mut self, place: usize, number: u64, reason: &str) -> Result<TakeResult, LinkError> {
        if !self.flush()? {
            return Ok(TakeResult::NoRoom);
        }
        self.open(place)?;
        let lane = &mut self.lanes[place];
        (lane.is_open, lane.is_failed, lane.failure) = (false, true, number);
        self.ingress.close_lane_failed(lane.index, reason);
        match &mut self.failed {
            None => self.failed = Some((reason.to_owned(), 0)),
            Some((_, more)) => *more += 1,
        }
        Ok(TakeResult::Done)
    }

    fn check(&self, label: &Label) -> Result<(), LinkError> {
        let ours = self.ingress.align();
        if u64::from(label.align) == ours {
            return Ok(());
        }
        Err(LinkError::Settings {
            far: self.place.clone(),
            key: "align",
            theirs: label.align.to_string(),
            ours: ours.to_string(),
            rule: "give publishers and subscribers the same 'align='",
        })
    }

    fn damaged(&self, problem: &str) -> LinkError {
        LinkError::Damaged {
            place: self.place.clone(),
            problem: problem.to_owned(),
        }
    }

    fn not_taken(&self, why: NotTaken) -> LinkError {
        match why {
            NotTaken::Ring(_) => why.into(),
            other => self.misfit(&other),
        }
    }

    fn misfit(&self, why: &dyn std::error::Error) -> LinkError {
        self.damaged(&format!(
            "a message does not fit this side's ring: {why}; longer messages need a larger \
            'capacity='"
        ))
    }
}

/// The key of a message's lane.
fn key_of_lane(label: &Label) -> u64 {
    let lane = label.lane.to_le_bytes();
    key_of(label.incarnation.to_le_bytes().into_iter().chain(lane))
}

/// Key of the lane of other programs, in a stream created at this time.
fn key_of_others(created: u64) -> u64 {
    key_of(format!("others {created}").bytes())
}

/// The key of a lane.
fn key_of(bytes: impl IntoIterator<Item = u8>) -> u64 {
    // 0 is for lanes without an owner.
    (stable_hash(bytes) & !CLOSED).max(2)
}
