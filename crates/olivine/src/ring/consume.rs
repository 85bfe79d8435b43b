//! The reading side of one lane.
//!
//! [`gear`] decides when a subscriber reads the next header, `bridge` hands out runs of frames,
//! [`lossy`] detects overruns.

#[cfg(not(loom))]
mod bridge;
mod gear;
mod lossy;
#[cfg(not(loom))]
mod watch;

use super::layout::{
    Geometry, POSITION_MAX, TOPIC, frame_bytes, frame_half, frame_tag, has_topic, lane,
};
use crate::error::{Damage, ReceiveError};
use crate::region::{HEADER_BYTES, Ring, View, Word, Words};
use crate::sync::{Ordering, fence, light_barrier, mutant, unless};
use gear::STREAM_RUN;

#[cfg(not(loom))]
pub(crate) use watch::WatchPoint;

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

/// A walk over frames. Its end stores the position back, also after a panic of the handler.
struct Walk<'a> {
    consumer: &'a mut Consumer,
    position: u64,
    run: u32,
}

impl Walk<'_> {
    #[inline(always)]
    fn store_back(&mut self) {
        self.consumer.position = self.position;
        self.consumer.run = self.run;
    }
}

impl Drop for Walk<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.store_back();
    }
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

/// A reader of messages without a topic stopped: the next message carries one, or its header is one
/// that no publisher writes. [`Consumer::next`] tells which.
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
        // CURSOR (acquire): pairs with the release store in `Producer::advance`. A subscriber that
        // continues from here finds the frame there, or the zero, and nothing older.
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
        // COMMIT (acquire): pairs with the release store in `Producer::publish_header`.
        let word = header.load(unless(mutant("commit_load_relaxed"), Ordering::Acquire));
        if word == 0 {
            return Ok(None);
        }
        let shape = shape(self, self.position, word)?;
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
        self.walk_by(limit, handler, |consumer, position, word, _| {
            consumer.shape(position, word)
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
        self.walk_by(limit, handler, |consumer, _, word, count| {
            consumer.plain_shape(word, count)
        })
    }

    #[inline(always)]
    fn walk_by<E>(
        &mut self,
        limit: usize,
        mut handler: impl FnMut(&Frame, View<'_>),
        shape: impl Fn(&Self, u64, u64, usize) -> Result<Shape, E>,
    ) -> Result<usize, E> {
        let mut count = 0;
        if limit > 0 {
            self.rest_at_tail();
        }
        let (step, run_threshold) = (self.release_step, self.run_threshold);
        let mut looked = false;
        let mut at = Walk {
            position: self.position,
            run: self.run,
            consumer: self,
        };
        // The first frame replaces it.
        let mut last_shape = Shape::NONE;
        while count < limit {
            if count > 0 && at.position >= at.consumer.known && at.run >= run_threshold {
                // Read the cursor once. After the frames before it the walk ends; the next walk
                // rests first.
                at.store_back();
                if looked || !at.consumer.is_behind() {
                    break;
                }
                looked = true;
            }
            let address = at.consumer.ring.address(at.position);
            // COMMIT (acquire): pairs with the release store in `publish::publish_header`.
            let word = address
                .header()
                .load(unless(mutant("commit_walk_relaxed"), Ordering::Acquire));
            if frame_half(word) != last_shape.half {
                if word == 0 {
                    at.store_back();
                    at.consumer.at_tail();
                    at.run = 0;
                    break;
                }
                // The progress is stored back when `at` goes out of scope.
                last_shape = shape(at.consumer, at.position, word, count)?;
            }
            let frame = last_shape.frame(at.position, word);
            // SAFETY: `Shape::of` checked the length. The frame is committed. Our own position in
            // the gate is at or before it and holds the publisher back until the release below.
            let view = unsafe { address.view(frame.length) };
            // The position moves afterwards: after a panic the handler gets the same message again.
            handler(&frame, view);
            at.position = frame.end;
            at.run = at.run.wrapping_add(1);
            count += 1;
            if at.position - at.consumer.released >= step {
                at.store_back();
                at.consumer.release();
            }
        }
        Ok(count)
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
        self.position = frame.end;
        // Wraps if a damaged cursor never lets it rest: it only decides when to rest.
        self.run = self.run.wrapping_add(1);
        if self.position - self.released >= self.release_step {
            self.release();
        }
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
        // REUSE (release): pairs with the acquire load in `Gate::slowest`.
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
