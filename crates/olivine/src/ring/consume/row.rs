//! Frames in a row: each as long as the one before it.
//!
//! A subscriber that receives one message at a time cannot keep its place in registers, as a walk
//! does. So what a message needs is here, apart from the consumer: a load for each, and one store.

use super::{Consumer, Frame};
use crate::region::{FramePlace, HEADER_BYTES, PrivateWord, Ring, View, Word};
use crate::ring::layout::frame_tag;
use crate::sync::{Ordering, mutant, unless};

/// The frame that a consumer found and that was handed out, and the frames that may follow it
/// without asking the consumer. The consumer learns of them at [`Consumer::pass_to`] or
/// [`Consumer::advance_to`].
#[derive(Debug)]
pub(crate) struct Row {
    /// Keeps `next` mapped. `None` before the first row.
    ring: Option<Ring>,
    /// Where the next frame begins.
    next: FramePlace,
    /// Bytes from the start of the frame handed out last to that of the next one.
    padded: u64,
    /// The number of `next` must be below this one. 0 if the consumer must be asked, and in a
    /// forked child.
    due: PrivateWord,
    /// What the lower half of the next header must be.
    half: u32,
    /// The word that counts lanes.
    epoch: Word,
    /// What it must read.
    lanes_epoch: u64,
    /// A position less the number of its place.
    origin: u64,
    /// Index of the lane.
    lane: usize,
}

/// A frame that [`Row::next`] found, in place.
#[derive(Debug)]
pub(crate) struct Alike {
    pub(crate) frame: Frame,
    /// Index of its lane.
    pub(crate) lane: usize,
    place: FramePlace,
}

impl Alike {
    /// The payload, in place. `lanes` has its lane, which has advanced no further.
    #[inline(always)]
    pub(crate) fn view(self, lanes: &[Consumer]) -> View<'_> {
        debug_assert!(lanes.iter().any(|consumer| consumer.index == self.lane));
        // SAFETY: the lane keeps the ring mapped. `Shape::of` checked the length of the first frame
        // of the row. `Row::next` saw this frame committed. Our own position in the gate is at or
        // before it and holds the publisher back until an advance and a release, which need `&mut`
        // of the lane.
        unsafe { self.place.view(self.frame.length) }
    }
}

impl Row {
    /// A row of no frame. `due` reads 0, also in a forked child later, and only this row uses it.
    pub(crate) fn new(due: PrivateWord, epoch: Word) -> Self {
        Self {
            ring: None,
            next: FramePlace::NOWHERE,
            padded: 0,
            due,
            half: 0,
            epoch,
            lanes_epoch: 0,
            origin: 0,
            lane: 0,
        }
    }

    /// Start of the frame handed out last.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.end() - self.padded
    }

    /// Its end.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.next.number().wrapping_add(self.origin)
    }

    /// A row of `frame` alone.
    #[inline(always)]
    pub(crate) fn hold(&mut self, frame: &Frame) {
        self.due.set(0);
        self.padded = frame.end - frame.position;
        self.origin = frame.end.wrapping_sub(self.next.number());
    }

    /// No frame follows without asking the consumer.
    #[inline(always)]
    pub(crate) fn stop(&mut self) {
        self.due.set(0);
    }

    /// Frames that follow the one held, which `consumer` has just found and which has no topic, may
    /// be handed out while the lanes' epoch reads `lanes_epoch`. `consumer` must not advance
    /// otherwise than by [`Consumer::pass_to`] or [`Consumer::advance_to`] meanwhile: its position
    /// holds the publisher back.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, consumer: &Consumer, lanes_epoch: u64) {
        if consumer.is_first() {
            return;
        }
        // The lower half of a word.
        #[allow(clippy::cast_possible_truncation, reason = "said above")]
        let half = consumer.last.half as u32;
        let end = self.end();
        let is_kept = |ring: &Ring| ring.is_same(&consumer.ring);
        if !self.ring.as_ref().is_some_and(is_kept) {
            self.ring = Some(consumer.ring.clone());
        }
        self.half = half;
        self.lane = consumer.index;
        self.lanes_epoch = lanes_epoch;
        self.next = consumer.ring.place(end);
        self.origin = end.wrapping_sub(self.next.number());
        // Up to the end of this lap the place of a frame follows from that of the one before.
        let lap_end = consumer.ring.lap_end(end);
        let bytes = consumer.due().min(lap_end).saturating_sub(end);
        self.due.set(self.next.number() + bytes);
    }

    /// Consumes the frame handed out last and returns the next one, if it is committed and as long,
    /// no publisher came before it, and neither a rest nor a release is due.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Alike> {
        let number = self.next.number();
        if number >= self.due.get() {
            return None;
        }
        // Read before the header: behind an acquire load the compiler would read it again.
        let (place, padded) = (self.next.clone(), self.padded);
        let (origin, lane) = (self.origin, self.lane);
        // SAFETY: `due` is above the number, so `go_on` has set the place, and the place is in that
        // lap. `ring` keeps it mapped.
        let next = unsafe { place.header() };
        // COMMIT (acquire): pairs with the release store in `publish::publish_header`.
        let word = next.load(unless(mutant("commit_alike_relaxed"), Ordering::Acquire));
        #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
        let (half, header) = (word as u32, HEADER_BYTES as u32);
        // After the header: what follows a failure is of a publisher that came before this load.
        // Acquire: the lanes that the number counts are in place.
        if half != self.half || self.epoch.load(Ordering::Acquire) != self.lanes_epoch {
            return None;
        }
        self.next = place.plus(padded);
        let position = number.wrapping_add(origin);
        let frame = Frame {
            position,
            tag: frame_tag(word),
            // `Shape::of` checked it in the first frame of the row.
            length: half.wrapping_sub(header) as usize,
            topic: false,
            end: position.wrapping_add(padded),
        };
        Some(Alike { frame, lane, place })
    }
}

impl Consumer {
    /// Whether the frame that was found last is the first after an empty tail. Often the tail is
    /// empty again after it, as in an exchange of requests and replies.
    #[inline(always)]
    fn is_first(&self) -> bool {
        self.run == 0 && self.run_threshold > 0
    }

    /// For the frame that [`Consumer::next`] has just found: frames of its shape that follow it and
    /// begin before this position need neither a rest nor a release first.
    #[inline(always)]
    fn due(&self) -> u64 {
        // Each of them grows the run when the next is asked for.
        let left = self.run_threshold.saturating_sub(self.run);
        let rest = match left > 1 {
            true => self.position + u64::from(left) * self.last.padded,
            false => self.known,
        };
        rest.min(self.released + self.release_step)
    }

    /// Consumes the frames before `start` of a row that began here; releases nothing.
    pub(crate) fn pass_to(&mut self, start: u64) {
        self.run = self.run.wrapping_add(self.frames_to(start));
        self.position = start;
    }

    /// Consumes the frames before `end` of a row that began here: one or more. Gives room back as
    /// [`Consumer::advance`] does.
    #[inline(always)]
    pub(crate) fn advance_to(&mut self, end: u64) {
        let count = match end - self.position == self.last.padded {
            true => 1,
            false => self.frames_to(end),
        };
        self.position = end;
        // Wraps if a damaged cursor never lets it rest: it only decides when to rest.
        self.run = self.run.wrapping_add(count);
        if self.position - self.released >= self.release_step {
            self.release();
        }
    }

    /// Frames of the last shape from the position to `end`.
    #[inline(never)]
    fn frames_to(&self, end: u64) -> u32 {
        // A frame has a header, so it is longer than 0.
        let count = (end - self.position) / self.last.padded.max(1);
        // Only decides when to rest, so the upper bits do not matter.
        #[allow(clippy::cast_possible_truncation, reason = "said above")]
        let count = count as u32;
        count
    }
}
