//! The reading side of one lane.
//!
//! # Two gears
//!
//! A subscriber that has caught up looks at the next header itself: header and payload of a small message
//! arrive with one cache line, which is the latency gear. One that is behind reads the cursor once and walks
//! everything before it without touching the line being written. A subscriber that has never found the tail empty
//! for a run of messages, and finds the cursor moving by several of them meanwhile, is in the streaming gear: it rests for a moment
//! before it looks at the tail again, because a reader that hangs on the writer's line makes every commit a line
//! transfer. It rests when it is asked for more, not before it hands out what it has. One message or none
//! at a time, as in an exchange of requests and replies, never rests: the cursor stands still. Nor does one that gets a
//! few million a second: each of them would wait for the end of a rest.

use super::layout::{Geometry, POSITION_MAX, frame_bytes, frame_tag, lane, slot};
use crate::error::{Damage, ReceiveError};
use crate::region::{Copied, HEADER_BYTES, Ring, View, Word, Words};
use crate::sync::{Ordering, fence, light_barrier, mutant, unless};

/// A run of this many messages without an empty tail may be a stream: the cursor tells.
const STREAM_RUN: u32 = if cfg!(loom) { 1 } else { 24 };
/// The longest run after which a subscriber asks the cursor, if it stood still the last times.
const STREAM_RUN_MAX: u32 = 32 * STREAM_RUN;
/// Fewer messages than this between two rests are no stream any more.
const STREAM_KEPT: u32 = if cfg!(loom) { 8 } else { 64 };
/// How long the cursor is given to move, in `pause` instructions.
const STREAM_PROBE: u32 = 10;
/// How far it moves meanwhile in a stream, in bytes: several small messages, so that ten million of them a second are none.
const STREAM_PACE: u64 = if cfg!(loom) { 1 } else { 256 };
/// How long a streaming reader rests at the tail, in `pause` instructions.
const STREAM_REST: u32 = 200;

/// Reads frames of one lane.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    /// Start of the next frame.
    position: u64,
    /// Every frame before this is known to be committed.
    known: u64,
    align_mask: u64,
    /// Longest payload in bytes.
    payload_max: u64,
    /// Messages since the tail was last found empty, or since the last rest.
    run: u32,
    /// The run after which the tail may be that of a stream; 0 while it is one.
    run_asked: u32,
    start: u64,
    lane: Words,
    index: usize,
    cursor: Word,
    limit: Word,
    released: u64,
    release_step: u64,
    /// Our position as the publisher sees it; absent for a subscriber that does not gate.
    gate: Option<GateWords>,
}

/// A walk over frames: the position is written home when it ends, also by a panic of the handler.
struct Walk<'a> {
    home: &'a mut Consumer,
    position: u64,
    run: u32,
}

impl Walk<'_> {
    #[inline(always)]
    fn settle(&mut self) {
        self.home.position = self.position;
        self.home.run = self.run;
    }
}

impl Drop for Walk<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.settle();
    }
}

/// What a header says of its frame's length.
///
/// A walk goes on as far as the frame before it was long and only then compares, so that the processor need not wait
/// for a header to know where the next one is: in a stream of messages of one length it has many lines on their way at
/// once. A tag is no part of it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Bytes of header and payload, as the header has them.
    bytes: u64,
    /// Bytes of the payload.
    length: usize,
    /// Bytes from this frame's start to the next one's.
    padded: u64,
}

impl Shape {
    /// That of no frame.
    const NONE: Self = Self {
        bytes: u64::MAX,
        length: 0,
        padded: 0,
    };

    /// What `word` says. `None` if no publisher writes such a word: a length below that of a header or beyond what
    /// the ring holds.
    #[inline(always)]
    fn of(word: u64, payload_max: u64, align_mask: u64) -> Option<Self> {
        let bytes = frame_bytes(word);
        let payload = bytes.wrapping_sub(HEADER_BYTES);
        if payload > payload_max {
            return None;
        }
        #[allow(
            clippy::cast_possible_truncation,
            reason = "checked against the ring's size"
        )]
        let length = payload as usize;
        Some(Self {
            bytes,
            length,
            padded: (bytes + align_mask) & !align_mask,
        })
    }

    /// The frame of this shape at `position` whose header is `word`.
    #[inline(always)]
    fn frame(&self, position: u64, word: u64) -> Frame {
        Frame {
            position,
            tag: frame_tag(word),
            length: self.length,
            end: position + self.padded,
        }
    }
}

/// The words through which a subscriber gives room back.
#[derive(Debug)]
pub(crate) struct GateWords {
    /// Our position in this lane.
    pub(crate) position: Word,
    /// The publisher's park word.
    pub(crate) park: Word,
    /// Whether a real fence is needed before looking at the park word.
    pub(crate) fence: bool,
    /// The slot's state, which says whether our place was taken; absent where the publisher is not trusted.
    pub(crate) state: Option<Word>,
}

/// A committed frame, not yet consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) position: u64,
    pub(crate) tag: u32,
    pub(crate) length: usize,
    /// Start of the frame after it.
    pub(crate) end: u64,
}

/// What a lane looks like to a thread that waits on a subscriber's behalf.
#[cfg(not(loom))]
#[derive(Clone, Debug)]
pub(crate) struct WatchPoint {
    ring: Ring,
    /// Start of the next frame.
    pub(crate) position: u64,
    state: Word,
    state_before: u64,
    /// Of a lane that may overrun the subscriber.
    limit: Option<Word>,
}

#[cfg(not(loom))]
impl WatchPoint {
    /// Whether a frame is there, the lane was closed or opened, or the subscriber was overrun.
    pub(crate) fn has_changed(&self) -> bool {
        // COMMIT (acquire).
        self.ring.header(self.position).load(Ordering::Acquire) != 0
            || self.state.load(Ordering::Acquire) != self.state_before
            || self.limit.as_ref().is_some_and(|limit| {
                self.position + self.ring.capacity() < limit.load(Ordering::Acquire)
            })
    }
}

/// `wanted` if frames are committed up to there, else the cursor: a publisher that died between its commit and
/// its cursor leaves a subscriber that read that frame ahead of the cursor, and it must not read it again.
pub(crate) fn committed_up_to(ring: &Ring, cursor: &Word, geometry: &Geometry, wanted: u64) -> u64 {
    loop {
        // CURSOR (acquire).
        let from = cursor.load(Ordering::Acquire);
        let mut at = from;
        while at < wanted {
            // COMMIT (acquire).
            let word = ring.header(at).load(Ordering::Acquire);
            let Some(shape) = Shape::of(word, geometry.message_max(), geometry.align - 1) else {
                break;
            };
            at += shape.padded;
        }
        if from >= wanted || at == wanted {
            return wanted;
        }
        // A publisher that lives goes on meanwhile; then the walk was over bytes in motion. Relaxed: the next
        // look acquires.
        if cursor.load(Ordering::Relaxed) == from {
            return from;
        }
    }
}

impl Consumer {
    /// Reads `lane` from `position`, a frame boundary. `durable` gives room back after every message, so that
    /// a crash repeats as little as possible.
    pub(crate) fn new(
        ring: Ring,
        lane: Words,
        geometry: &Geometry,
        index: usize,
        position: u64,
        gate: Option<GateWords>,
        durable: bool,
    ) -> Self {
        // Read from shared memory by whoever joined.
        let position = position.min(POSITION_MAX);
        Self {
            position,
            known: position,
            align_mask: geometry.align - 1,
            payload_max: geometry.message_max(),
            run: 0,
            run_asked: STREAM_RUN,
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
        // CURSOR (acquire): pairs with the release store in `Producer::advance`. Whoever goes on from here finds
        // the frame that lies here, or the zero, and nothing older.
        self.cursor
            .load(unless(mutant("cursor_load_relaxed"), Ordering::Acquire))
            .min(POSITION_MAX)
            .max(self.position)
    }

    /// The next committed frame, if there is one. Never sleeps; in the streaming gear it rests for about four
    /// microseconds at the tail (see the module text).
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if the header is one that no publisher writes.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ReceiveError> {
        self.rest_at_tail();
        let header = self.ring.header(self.position);
        // COMMIT (acquire): pairs with the release store in `Producer::show`.
        let word = header.load(unless(mutant("commit_load_relaxed"), Ordering::Acquire));
        if word == 0 {
            return Ok(None);
        }
        self.frame(word).map(Some)
    }

    #[inline(always)]
    fn frame(&self, word: u64) -> Result<Frame, ReceiveError> {
        Ok(self.shape(self.position, word)?.frame(self.position, word))
    }

    /// What the header `word` at `position`, which is not zero, says.
    #[inline(always)]
    fn shape(&self, position: u64, word: u64) -> Result<Shape, ReceiveError> {
        Shape::of(word, self.payload_max, self.align_mask)
            .ok_or_else(|| self.impossible(position, word))
    }

    /// Hands up to `limit` messages to `handler`; how many.
    ///
    /// As `next` and `advance` for each, but the position is in a register while it goes on.
    ///
    /// # Errors
    ///
    /// As [`Consumer::next`]; what was handed out before is consumed.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        limit: usize,
        mut handler: impl FnMut(&Frame, View<'_>),
    ) -> Result<usize, ReceiveError> {
        let mut count = 0;
        if limit > 0 {
            self.rest_at_tail();
        }
        let (step, run_asked) = (self.release_step, self.run_asked);
        let mut looked = false;
        let mut at = Walk {
            position: self.position,
            run: self.run,
            home: self,
        };
        // No frame is as long as this: the first one sets it.
        let mut like = Shape::NONE;
        while count < limit {
            if count > 0 && at.position >= at.home.known && at.run >= run_asked {
                // One look at how far the publisher is by now. When that is handed out, too, the next walk rests
                // before it looks further.
                at.settle();
                if looked || !at.home.is_behind() {
                    break;
                }
                looked = true;
            }
            let spot = at.home.ring.spot(at.position);
            // COMMIT (acquire): pairs with the release store in `publish::show`.
            let word = spot
                .header()
                .load(unless(mutant("commit_walk_relaxed"), Ordering::Acquire));
            if frame_bytes(word) != like.bytes {
                if word == 0 {
                    at.settle();
                    at.home.at_tail();
                    at.run = 0;
                    break;
                }
                // What was walked so far is written home when `at` goes out of scope.
                like = at.home.shape(at.position, word)?;
            }
            let frame = like.frame(at.position, word);
            // SAFETY: `shape` checked the length. The frame is committed; our own position in the gate,
            // which is at or before it, holds the publisher back until the release below.
            let view = unsafe { spot.view(frame.length) };
            // A handler that panics gets the same message again: the position moves after it.
            handler(&frame, view);
            at.position = frame.end;
            at.run = at.run.wrapping_add(1);
            count += 1;
            if at.position - at.home.released >= step {
                at.settle();
                at.home.release();
            }
        }
        Ok(count)
    }

    /// The header `word` at `position` is one that no publisher writes.
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

    /// For a subscriber that may be overrun: whether the publisher may have written over the frame at the position. The
    /// header there may read zero then, a whole number of rings behind the publisher.
    pub(crate) fn is_lapped(&self) -> bool {
        self.position + self.ring.capacity() < self.limit.load(Ordering::Acquire)
            && !self.has_place()
    }

    /// Whether publishers stay behind our position, however far their limit is: a publisher stores its limit before it
    /// looks for those who joined meanwhile (JOIN), and goes no further than they allow. Asked behind a look at the limit.
    #[cold]
    fn has_place(&self) -> bool {
        // Acquire: a place is taken before its bit goes, and the bit goes before a limit that does without it is stored.
        // Who has seen that limit, or what was written below it, sees that the place was taken.
        fence(Ordering::Acquire);
        let state = self.gate.as_ref().and_then(|gate| gate.state.as_ref());
        state.is_some_and(|state| state.load(Ordering::Relaxed) != slot::EVICTED)
    }

    /// Whether anything was read here.
    pub(crate) fn has_moved(&self) -> bool {
        self.position != self.start
    }

    /// What to look at for the next frame, and the lane's state word with its value now: for a thread that waits
    /// on our behalf. `checked` for a subscriber that may be overrun.
    #[cfg(not(loom))]
    pub(crate) fn watch_point(&self, checked: bool) -> WatchPoint {
        let state = self.lane.resolve(lane::STATE);
        // Acquire: a lane that is closed here is found closed by the look that follows.
        let state_before = state.load(Ordering::Acquire);
        WatchPoint {
            ring: self.ring.clone(),
            position: self.position,
            state,
            state_before,
            limit: checked.then(|| self.limit.clone()),
        }
    }

    /// The payload of `frame`, in place.
    #[inline(always)]
    pub(crate) fn view(&self, frame: &Frame) -> View<'_> {
        // SAFETY: `next` saw the frame committed; our own position in the gate, which is at or before it,
        // holds the publisher back until `advance` and a release, and those need `&mut self`.
        unsafe { self.ring.view(frame.position, frame.length) }
    }

    /// Goes past `frame`, giving room back in steps of an eighth of the ring.
    #[inline(always)]
    pub(crate) fn advance(&mut self, frame: &Frame) {
        self.position = frame.end;
        // Wraps, where a lying cursor never lets it rest: it only says when to ask again.
        self.run = self.run.wrapping_add(1);
        if self.position - self.released >= self.release_step {
            self.release();
        }
    }

    /// Whether frames are known to lie before the cursor, which is read afresh.
    #[inline(never)]
    fn is_behind(&mut self) -> bool {
        // Relaxed: says only how long not to ask again; every header is acquired by itself (COMMIT).
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
        self.known > self.position
    }

    /// Rests if this may be the tail of a stream.
    #[inline(always)]
    fn rest_at_tail(&mut self) {
        if self.position >= self.known && self.run >= self.run_asked {
            self.rest();
        }
    }

    /// Finds out whether a publisher streams, unless it just did, and lets it, for a moment, if so. What lies before
    /// the cursor can be walked without touching the line that the publisher writes.
    #[inline(never)]
    fn rest(&mut self) {
        // Relaxed, here and below: says only how long not to ask again; every header is acquired by itself (COMMIT).
        let streamed = self.run_asked == 0 && self.run >= STREAM_KEPT;
        self.run = 0;
        if streamed {
            pause(STREAM_REST);
        } else {
            let before = self.cursor.load(Ordering::Relaxed);
            pause(STREAM_PROBE);
            let moved = self.cursor.load(Ordering::Relaxed).wrapping_sub(before);
            if moved < STREAM_PACE {
                self.run_asked = (self.run_asked * 2).clamp(STREAM_RUN, STREAM_RUN_MAX);
            } else {
                pause(STREAM_REST - STREAM_PROBE);
                self.run_asked = 0;
            }
        }
        self.known = self.cursor.load(Ordering::Relaxed).max(self.known);
    }

    /// The tail was found empty: ends the run and gives back what is held.
    #[inline]
    pub(crate) fn at_tail(&mut self) {
        self.run = 0;
        self.run_asked = self.run_asked.max(STREAM_RUN);
        if self.released != self.position {
            self.release();
        }
    }

    /// Hands everything before the position back to the publisher.
    #[inline(never)]
    pub(crate) fn release(&mut self) {
        self.release_to(self.position);
    }

    /// Hands everything before `position`, at or before our own, back to the publisher.
    #[inline]
    pub(crate) fn release_to(&mut self, position: u64) {
        self.released = position;
        let Some(gate) = &self.gate else { return };
        // REUSE (release): pairs with the acquire load in `Gate::slowest`.
        gate.position
            .store(position, unless(mutant("reuse_relaxed"), Ordering::Release));
        crate::points::pass("release.stored");
        // ROOM (light side): the position above comes before the look at the park word.
        light_barrier(mutant("room_no_light_barrier"));
        if gate.fence {
            // SeqCst: ROOM without membarrier; the same order by a fence of our own.
            fence(Ordering::SeqCst);
        }
        // Relaxed: `wake` takes the word by read-modify-write (WAKE).
        if gate.park.load(Ordering::Relaxed) != 0 {
            crate::wait::wake(&gate.park);
        }
    }

    /// Everything before this was handed back.
    #[cfg(not(loom))]
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// Goes on from `position`, a frame boundary from [`Consumer::released`] to the cursor, without handing
    /// anything back.
    #[cfg(not(loom))]
    pub(crate) fn go_to(&mut self, position: u64) {
        self.position = position;
        self.known = position;
    }

    /// End of the committed frames from the position on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if there is more than a ring holds, or a header that no publisher writes.
    #[cfg(not(loom))]
    pub(crate) fn committed(&mut self) -> Result<u64, ReceiveError> {
        let cursor = self.cursor();
        if cursor - self.position > self.ring.capacity() {
            let damage = Damage::Lead {
                bytes: cursor - self.position,
                capacity: self.ring.capacity(),
            };
            return Err(self.corrupt(self.position, damage));
        }
        if cursor > self.position {
            return Ok(cursor);
        }
        // A publisher that died between the commit and its cursor leaves a frame that only its header tells of.
        self.run = 0;
        Ok(self.next()?.map_or(cursor, |frame| frame.end))
    }

    /// The last end of a frame at or before `most`, walking from `from`, a frame boundary at or after the
    /// position, to `committed`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Corrupt`] if a header is one that no publisher writes.
    #[cfg(not(loom))]
    pub(crate) fn boundary(
        &self,
        from: u64,
        committed: u64,
        most: u64,
    ) -> Result<u64, ReceiveError> {
        let mut at = from;
        while at < committed {
            // Relaxed: committed before the cursor that the caller has acquired (CURSOR).
            let word = self.ring.header(at).load(Ordering::Relaxed);
            let end = at + self.shape(at, word)?.padded;
            if end > most {
                break;
            }
            at = end;
        }
        Ok(at)
    }

    /// The frames from `from`, at or after [`Consumer::released`], to `end`, at or before
    /// [`Consumer::committed`], as they lie.
    ///
    /// # Panics
    ///
    /// If `from` was handed back already: a bug of ours.
    #[cfg(not(loom))]
    pub(crate) fn frames(&mut self, from: u64, end: u64) -> View<'_> {
        assert!(self.released <= from && from <= end);
        // No caller's mistake shows what is not committed.
        let mut committed = self.cursor();
        if end > committed {
            // COMMIT (acquire): a frame that only its header tells of, as `committed` finds it.
            let word = self.ring.header(committed).load(Ordering::Acquire);
            let shape = (word != 0).then(|| self.shape(committed, word));
            if let Some(Ok(shape)) = shape {
                committed += shape.padded;
            }
        }
        let end = end.min(committed);
        let length = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        // SAFETY: committed (CURSOR, or the header that moved our position); our own position in the gate, at or
        // before `from`, holds the publisher back until `release_to`, which needs `&mut self`.
        unsafe { self.ring.frames(from, length) }
    }

    /// For a subscriber that may be overrun: copies the frames from the position to `end` out; `false` if a
    /// publisher may have written there meanwhile.
    #[cfg(not(loom))]
    pub(crate) fn copy_frames(&self, end: u64, into: &mut Vec<u8>) -> bool {
        let length = usize::try_from(end - self.position).unwrap_or(usize::MAX);
        self.ring.copy_frames(self.position, length, into);
        // OVERRUN: the loads above come before the limit is read again.
        fence(Ordering::Acquire);
        self.position + self.ring.capacity() >= self.limit.load(Ordering::Relaxed)
            || self.has_place()
    }

    /// For a subscriber that may be overrun: copies the next frame out and makes sure the copy is whole.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Overrun`] after skipping to the newest frame; [`ReceiveError::Corrupt`].
    pub(crate) fn next_checked(
        &mut self,
        into: &mut Copied,
    ) -> Result<Option<Frame>, ReceiveError> {
        let found = self.next();
        if let Ok(Some(frame)) = &found {
            self.ring.copy_out(frame.position, frame.length, into);
        }
        if !mutant("overrun_no_fence_reader") {
            // OVERRUN: the loads above come before the limit is read again.
            fence(Ordering::Acquire);
        }
        if self.position + self.ring.capacity() < self.limit.load(Ordering::Relaxed)
            && !self.has_place()
        {
            // Whatever was found may be torn: the publisher was free to write there. Skip to the cursor.
            let from = self.position;
            self.known = self.cursor();
            self.position = self.known;
            self.released = self.position;
            return Err(ReceiveError::Overrun {
                lost_bytes: self.position - from,
            });
        }
        found
    }
}

fn pause(times: u32) {
    for _ in 0..times {
        core::hint::spin_loop();
    }
}
