//! The reading side of one lane.
//!
//! [`gear`] decides when a subscriber reads the next header, `bridge` hands out runs of frames,
//! [`lossy`] detects overruns, [`row`] hands out frames of one length one by one.

#[cfg(not(loom))]
mod bridge;
mod gear;
mod lossy;
mod row;
#[cfg(not(loom))]
mod watch;

use super::layout::{
    Geometry, POSITION_MAX, TOPIC, frame_bytes, frame_half, frame_tag, has_topic, lane,
};
use crate::error::{Damage, ReceiveError};
use crate::region::{HEADER_BYTES, Ring, View, Word, Words};
use crate::sync::{Ordering, fence, light_barrier, mutant, unless};
use gear::STREAM_RUN;

pub(crate) use row::{Alike, Row};
#[cfg(not(loom))]
pub(crate) use watch::WatchPoint;

/// A release step that no ring reaches. A position plus this step fits a word.
const HOLD_STEP: u64 = 1 << 62;
const _: () = assert!(POSITION_MAX.checked_add(HOLD_STEP).is_some());

/// Reads frames of one lane.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    /// Start of the next frame.
    position: u64,
    /// Every frame before this position is known to be committed.
    known: u64,
    align_mask: u64,
    /// Longest payload in bytes.
    payload_max: u64,
    /// Messages since the last empty tail or the last rest.
    run: u32,
    /// Length of a run after which a publisher may be streaming; 0 in the streaming gear.
    run_threshold: u32,
    /// The shape of the frame that [`Consumer::next`] found last.
    last: Shape,
    start: u64,
    lane: Words,
    index: usize,
    cursor: Word,
    limit: Word,
    released: u64,
    release_step: u64,
    /// Our position as the publisher sees it; absent for a lossy subscriber.
    gate: Option<GateWords>,
}

/// A part of a walk over frames. Its end stores the progress back, also after a panic of the
/// handler.
struct Walk<'a> {
    position: u64,
    count: usize,
    place: &'a mut u64,
    run: &'a mut u32,
}

impl Drop for Walk<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.place = self.position;
        // Only decides when to rest, so the upper bits do not matter.
        #[allow(clippy::cast_possible_truncation, reason = "said above")]
        let count = self.count as u32;
        *self.run = self.run.wrapping_add(count);
    }
}

/// Why a part of a walk ended.
enum PartEnd {
    /// It went as far as it was to go.
    Due,
    /// No further frame is committed.
    Tail,
    /// The walk does not read this header.
    Header(u64),
}

/// The length that a header gives.
///
/// A walk assumes that the next frame is as long as the last one, and compares afterwards. So the
/// processor need not wait for a header to find the next one. In a stream of messages of one length
/// it loads many cache lines at once. The tag may differ.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The lower half of the header: bytes of header and payload, and whether there is a topic.
    half: u64,
    /// Bytes of the payload.
    length: usize,
    /// Bytes from this frame's start to the next one's.
    padded: u64,
    /// The payload ends with a topic.
    topic: bool,
}

impl Shape {
    /// The shape of no frame.
    const NONE: Self = Self {
        half: u64::MAX,
        length: 0,
        padded: 0,
        topic: false,
    };

    /// The shape in header `word` of a message without a topic. `None` for a message with a topic,
    /// and for a word that no publisher writes: a length below that of a header or above the
    /// ring's.
    #[inline(always)]
    fn of(word: u64, payload_max: u64, align_mask: u64) -> Option<Self> {
        // With the mark of a topic it is longer than any payload.
        let half = frame_half(word);
        let payload = half.wrapping_sub(HEADER_BYTES);
        if payload > payload_max {
            return None;
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "checked against the ring's size"
        )]
        let length = payload as usize;
        Some(Self {
            half,
            length,
            padded: (half + align_mask) & !align_mask,
            topic: false,
        })
    }

    /// What `word` says of a message with a topic or without. `None` for a word that no publisher
    /// writes.
    #[inline(always)]
    fn of_any(word: u64, payload_max: u64, align_mask: u64) -> Option<Self> {
        let plain = Self::of(word, payload_max, align_mask);
        plain.or_else(|| Self::of_topic(word, payload_max, align_mask))
    }

    #[cold]
    fn of_topic(word: u64, payload_max: u64, align_mask: u64) -> Option<Self> {
        let plain = has_topic(word).then_some(word & !TOPIC)?;
        let like = Self::of(plain, payload_max, align_mask)?;
        Some(Self {
            half: frame_half(word),
            topic: true,
            ..like
        })
    }

    /// The frame of this shape at `position` whose header is `word`.
    #[inline(always)]
    fn frame(&self, position: u64, word: u64) -> Frame {
        Frame {
            position,
            tag: frame_tag(word),
            length: self.length,
            topic: self.topic,
            end: position + self.padded,
        }
    }
}

/// The words by which a subscriber gives room back.
#[derive(Debug)]
pub(crate) struct GateWords {
    /// Our position in this lane.
    pub(crate) position: Word,
    /// The publisher's park word.
    pub(crate) park: Word,
    /// Whether a real fence is needed before the load of the park word.
    pub(crate) fence: bool,
    /// The slot's state, which says whether we were evicted; absent if the publisher is not
    /// trusted.
    pub(crate) state: Option<Word>,
}

/// A committed frame, not yet consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) position: u64,
    pub(crate) tag: u32,
    pub(crate) length: usize,
    /// The payload ends with a topic.
    pub(crate) topic: bool,
    /// Start of the frame after it.
    pub(crate) end: u64,
}

/// A reader of messages without a topic stopped: the next message carries a topic, or its header is
/// invalid. [`Consumer::next`] tells which.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Messages that were handed out before.
    pub(crate) count: usize,
}

impl Consumer {
    /// Reads `lane` from `position`, a frame boundary. `durable` gives room back after every
    /// message, so that a crash repeats few messages.
    pub(crate) fn new(
        ring: Ring,
        lane: Words,
        geometry: &Geometry,
        index: usize,
        position: u64,
        gate: Option<GateWords>,
        durable: bool,
    ) -> Self {
        // The position comes from shared memory.
        let position = position.min(POSITION_MAX);
        Self {
            position,
            known: position,
            align_mask: geometry.align - 1,
            payload_max: geometry.message_max(),
            run: 0,
            run_threshold: STREAM_RUN,
            last: Shape::NONE,
            start: position,
            cursor: lane.resolve(lane::CURSOR),
            limit: lane.resolve(lane::LIMIT),
            released: position,
            release_step: if durable { 0 } else { ring.capacity() / 8 },
            gate,
            ring,
            lane,
            index,
        }
    }

    /// Advancing gives no room back until [`Consumer::end_hold`].
    #[cfg(not(loom))]
    pub(crate) fn hold(&mut self) {
        self.release_step = HOLD_STEP;
    }

    /// Gives what was held back, and from now on room after every message, as a durable subscriber.
    #[cfg(not(loom))]
    pub(crate) fn end_hold(&mut self) {
        self.release_step = 0;
        if self.position != self.released {
            self.release();
        }
    }

    /// Gives room back after each so many bytes.
    #[cfg(loom)]
    pub(super) fn release_each(&mut self, bytes: u64) {
        self.release_step = bytes;
    }

    /// Start of the next frame.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Index of the lane.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// This lane's header words.
    pub(crate) fn lane(&self) -> &Words {
        &self.lane
    }

    /// The newest position known to be committed, read afresh.
    pub(crate) fn cursor(&self) -> u64 {
        // CURSOR (acquire): pairs with the release store in `publish::publish_cursor`. A subscriber
        // that continues from here finds the frame there, or the zero, and nothing older.
        self.cursor
            .load(unless(mutant("cursor_load_relaxed"), Ordering::Acquire))
            .min(POSITION_MAX)
            .max(self.position)
    }

    /// The next committed frame, if there is one. Never sleeps. In the streaming gear it rests for
    /// about four microseconds at the tail (see [`gear`]).
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if the header is invalid.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ReceiveError> {
        self.next_by(Self::shape)
    }

    /// As [`Consumer::next`], for messages without a topic.
    ///
    /// # Errors
    ///
    /// [`Stop`].
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn next_plain(&mut self) -> Result<Option<Frame>, Stop> {
        self.next_by(|consumer, _, word| consumer.plain_shape(word, 0))
    }

    #[inline(always)]
    fn next_by<E>(
        &mut self,
        shape: impl Fn(&Self, u64, u64) -> Result<Shape, E>,
    ) -> Result<Option<Frame>, E> {
        self.rest_at_tail();
        let header = self.ring.header(self.position);
        // COMMIT (acquire): pairs with the release store in `publish::publish_header`.
        let word = header.load(unless(mutant("commit_load_relaxed"), Ordering::Acquire));
        if word == 0 {
            return Ok(None);
        }
        let shape = shape(self, self.position, word)?;
        self.last = shape;
        Ok(Some(shape.frame(self.position, word)))
    }

    /// The shape in the header `word` at `position`; `word` is not zero.
    #[inline(always)]
    fn shape(&self, position: u64, word: u64) -> Result<Shape, ReceiveError> {
        Shape::of_any(word, self.payload_max, self.align_mask)
            .ok_or_else(|| self.impossible(position, word))
    }

    /// The same as [`Consumer::shape`], for messages without a topic; `count` messages were handed
    /// out before.
    #[cfg(not(loom))]
    #[inline(always)]
    fn plain_shape(&self, word: u64, count: usize) -> Result<Shape, Stop> {
        Shape::of(word, self.payload_max, self.align_mask).ok_or(Stop { count })
    }

    /// Passes up to `limit` messages to `handler`; returns how many.
    ///
    /// The same as `next` and `advance` for each, but with the position in a register.
    ///
    /// # Errors
    ///
    /// As [`Consumer::next`]. Messages passed before it are consumed.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        limit: usize,
        handler: impl FnMut(&Frame, View<'_>),
    ) -> Result<usize, ReceiveError> {
        self.walk_by(limit, handler, Shape::of_any, |consumer, word, _| {
            consumer.impossible(consumer.position, word)
        })
    }

    /// As [`Consumer::walk`], for messages without a topic.
    ///
    /// # Errors
    ///
    /// [`Stop`]; what was handed out before is consumed.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn walk_plain(
        &mut self,
        limit: usize,
        handler: impl FnMut(&Frame, View<'_>),
    ) -> Result<usize, Stop> {
        self.walk_by(limit, handler, Shape::of, |_, _, count| Stop { count })
    }

    #[inline(always)]
    fn walk_by<E>(
        &mut self,
        limit: usize,
        mut handler: impl FnMut(&Frame, View<'_>),
        shape: impl Fn(u64, u64, u64) -> Option<Shape>,
        refuse: impl Fn(&Self, u64, usize) -> E,
    ) -> Result<usize, E> {
        if limit == 0 {
            return Ok(0);
        }
        self.rest_at_tail();
        let mut count = 0;
        let mut looked = false;
        loop {
            // The next look at the known frames is due after so many messages, or there.
            let left = self.run_threshold.saturating_sub(self.run) as usize;
            let (most, known) = if left > 0 {
                (left.min(limit - count), u64::MAX)
            } else {
                (limit - count, self.known)
            };
            let due = known.min(self.released + self.release_step);
            let (more, end) = self.walk_part(most, due, &mut handler, &shape);
            count += more;
            match end {
                PartEnd::Due => {}
                PartEnd::Tail => {
                    self.at_tail();
                    return Ok(count);
                }
                PartEnd::Header(word) => return Err(refuse(self, word, count)),
            }
            if self.position - self.released >= self.release_step {
                self.release();
            }
            if count == limit {
                return Ok(count);
            }
            if self.position >= self.known && self.run >= self.run_threshold {
                // Read the cursor once. After the frames before it the walk ends; the next walk
                // rests first.
                if looked || !self.is_behind() {
                    return Ok(count);
                }
                looked = true;
            }
        }
    }

    /// Passes messages to `handler`: `most`, at least one, or until the position is at `due` or
    /// after it. Returns their number.
    #[inline(always)]
    fn walk_part(
        &mut self,
        most: usize,
        due: u64,
        handler: &mut impl FnMut(&Frame, View<'_>),
        shape: &impl Fn(u64, u64, u64) -> Option<Shape>,
    ) -> (usize, PartEnd) {
        let (payload_max, align_mask) = (self.payload_max, self.align_mask);
        let ring = self.ring.base();
        // The first frame replaces it.
        let mut last = Shape::NONE;
        let mut at = Walk {
            position: self.position,
            count: 0,
            place: &mut self.position,
            run: &mut self.run,
        };
        loop {
            let address = ring.address(at.position);
            // COMMIT (acquire): pairs with the release store in `publish::publish_header`.
            let word = address
                .header()
                .load(unless(mutant("commit_walk_relaxed"), Ordering::Acquire));
            if frame_half(word) != last.half {
                if word == 0 {
                    return (at.count, PartEnd::Tail);
                }
                match shape(word, payload_max, align_mask) {
                    Some(found) => last = found,
                    None => return (at.count, PartEnd::Header(word)),
                }
            }
            let frame = last.frame(at.position, word);
            // SAFETY: `Shape::of` checked the length. The frame is committed. Our own position in
            // the gate is at or before it and holds the publisher back until the next release.
            let view = unsafe { address.view(frame.length) };
            // The position moves afterwards: after a panic the handler gets the same message again.
            handler(&frame, view);
            at.position = frame.end;
            at.count += 1;
            if at.count == most || at.position >= due {
                return (at.count, PartEnd::Due);
            }
        }
    }

    /// The error for the invalid header `word` at `position`.
    #[cold]
    fn impossible(&self, position: u64, word: u64) -> ReceiveError {
        self.corrupt(
            position,
            Damage::Frame {
                bytes: frame_bytes(word),
                min: HEADER_BYTES,
                max: HEADER_BYTES + self.payload_max,
            },
        )
    }

    fn corrupt(&self, position: u64, damage: Damage) -> ReceiveError {
        ReceiveError::Corrupt {
            lane: self.index,
            position,
            damage,
        }
    }

    /// Whether a frame is waiting.
    pub(crate) fn has_next(&self) -> bool {
        // COMMIT (acquire).
        self.ring.header(self.position).load(Ordering::Acquire) != 0
    }

    /// Whether any frame was read.
    pub(crate) fn has_moved(&self) -> bool {
        self.position != self.start
    }

    /// The payload of `frame`, in place.
    #[inline(always)]
    pub(crate) fn view(&self, frame: &Frame) -> View<'_> {
        // SAFETY: `next` saw the frame committed. Our own position in the gate is at or before it
        // and holds the publisher back until `advance` and a release. Those need `&mut self`.
        unsafe { self.ring.view(frame.position, frame.length) }
    }

    /// Continues after `frame`. Gives room back in steps of an eighth of the ring.
    #[inline(always)]
    pub(crate) fn advance(&mut self, frame: &Frame) {
        self.advance_to(frame.end);
    }

    /// Gives the bytes before the position back to the publisher.
    #[inline(never)]
    pub(crate) fn release(&mut self) {
        self.release_to(self.position);
    }

    /// Gives the bytes before `position`, at or before our own, back to the publisher.
    #[inline]
    pub(crate) fn release_to(&mut self, position: u64) {
        self.released = position;
        let Some(gate) = &self.gate else { return };
        // REUSE (release): pairs with the acquire load in `Gate::positions`; on a sealed
        // channel in `Pages::collect`.
        gate.position
            .store(position, unless(mutant("reuse_relaxed"), Ordering::Release));
        crate::points::pass("release.stored");
        // ROOM (light side): the position above comes before the load of the park word.
        light_barrier(mutant("room_no_light_barrier"));
        if gate.fence {
            // SeqCst: ROOM without membarrier; the same order by a fence here.
            fence(Ordering::SeqCst);
        }
        // Relaxed: `wake` takes the word by read-modify-write (WAKE).
        if gate.park.load(Ordering::Relaxed) != 0 {
            crate::wait::wake(&gate.park);
        }
    }
}

/// `wanted` if frames are committed up to there, else the cursor. A publisher that dies between its
/// commit and its cursor leaves a subscriber ahead of the cursor. That subscriber must not read the
/// frame again.
pub(crate) fn committed_up_to(ring: &Ring, cursor: &Word, geometry: &Geometry, wanted: u64) -> u64 {
    loop {
        // CURSOR (acquire).
        let from = cursor.load(Ordering::Acquire);
        let mut at = from;
        while at < wanted {
            // COMMIT (acquire).
            let word = ring.header(at).load(Ordering::Acquire);
            let shape = Shape::of_any(word, geometry.message_max(), geometry.align - 1);
            let Some(shape) = shape else {
                break;
            };
            at += shape.padded;
        }
        if from >= wanted || at == wanted {
            return wanted;
        }
        // If the cursor moved, a publisher was writing during the walk: walk again. Relaxed: the
        // next load acquires.
        if cursor.load(Ordering::Relaxed) == from {
            return from;
        }
    }
}
