//! The publishing side of one lane.
//!
//! # Protocol
//!
//! 1. Room: the frame and the next header end at or below the limit; else [`Producer::make_room`].
//! 2. Write the payload, zero the *next* header unless it was zeroed ahead, then one release store
//!    of this header: **COMMIT**.
//! 3. Store the cursor (**CURSOR**), then look at the sleepers hint (**SLEEP**).
//!
//! A publisher killed before the store of 2 has published nothing: the header still reads 0. After
//! that store everything is published. The next header reads 0, so subscribers stop there; only the
//! cursor is behind.

mod limit;
#[cfg(not(loom))]
pub(super) mod pace;
mod takeover;

use super::gate::Gate;
use super::layout::{control, frame_half, header_word, lane};
use super::pages::{Pages, Sleepers};
use crate::error::NotSent;
use crate::points;
use crate::region::{HEADER_BYTES, PrivateWord, Ring, RingAddress, RingBase, Word, Words};
use crate::sync::{AtomicU64, Ordering, light_barrier, mutant, unless};
use crate::wait::{Hint, RAISED};
use std::ops::RangeInclusive;
use std::sync::Arc;
#[cfg(not(loom))]
use zerocopy::IntoBytes as _;

/// Bytes of a cache line. On machines with other lines only time is lost.
const LINE_BYTES: u64 = 64;
/// Lines after that of a frame that are prefetched at once. The processor's store queue holds them.
const PREFETCH_LINES: u64 = 16;
/// Bytes in which they are.
const PREFETCH_BYTES: u64 = (PREFETCH_LINES + 1) * LINE_BYTES;
/// Lengths of messages after each of which the lines of a next one are prefetched. Longer ones are
/// streamed; lines of shorter ones are prefetched at once for several.
const PREFETCH_FOR: RangeInclusive<u64> = 505..=4152;
/// For lengths up to this it pays in any ring, for longer ones in rings up to a size.
const PREFETCH_SHORT: u64 = 64;
/// The second-level cache of the other side keeps all lines of a ring up to this size.
const PREFETCH_RING: u64 = 1 << 20;

/// Commits in a row that find the hint raised and no subscriber asleep before it is lowered. Until
/// then a subscriber that sleeps again needs no heavy barrier (ADR 0045).
const HINT_STAYS: u32 = if cfg!(loom) { 1 } else { 16 };

/// What [`Producer::fits`] found of a message's frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameShape {
    /// Bytes of header and payload; 0 for no frame.
    frame: u64,
    /// Bytes of the frame in the ring.
    padded: u64,
}

impl FrameShape {
    /// The shape of no frame.
    pub(crate) const NONE: Self = Self {
        frame: 0,
        padded: 0,
    };

    /// The shape of a message of `length` bytes whose frame takes `padded` bytes.
    #[inline(always)]
    pub(crate) fn new(length: usize, padded: u64) -> Self {
        Self {
            frame: length as u64 + HEADER_BYTES,
            padded,
        }
    }

    /// Whether the frame of a message of `length` bytes has it.
    #[inline(always)]
    pub(crate) fn is_of(self, length: usize) -> bool {
        self.frame == length as u64 + HEADER_BYTES
    }
}

/// Writes frames into one lane. Exactly one exists per lane: its owner holds the lane's lock.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    /// End of the last committed frame; private.
    position: u64,
    /// Bytes from the position to a header ahead that reads zero; 0 for none. That header is below
    /// the cached limit, which is at most a ring after the position. Any write clears it, except a
    /// frame or batch that ends there.
    stride: u64,
    /// Bytes of the header and payload of a message whose frame ends there; 0 for none. On the page
    /// of the limit. Such a message takes the fast path: `fits` found that it is not too long, and
    /// the header ahead is below the limit.
    ready: PrivateWord,
    /// Cached limit, on a page that reads as zeros in a forked child. So every call there takes the
    /// slow path.
    limit: PrivateWord,
    /// Lines before this position are prefetched, if that pays. At most the cached limit: headers
    /// up to it are zeroed on the fast path.
    prefetched: u64,
    align_mask: u64,
    /// Its complement.
    align_bits: u64,
    /// Lengths from this one on take the slow path: those that are too long, or all lengths.
    slow_from: u64,
    message_max: u64,
    cursor: Word,
    /// The sleepers hint, or a word that is always 1 if membarrier is missing.
    hint: Word,
    /// How fast it publishes: at full speed no lines of a large ring are prefetched.
    #[cfg(not(loom))]
    pub(super) pace: pace::Pace,
    // The fields below are used once per lap or less.
    lane: Words,
    gate: Gate,
    /// The limit as subscribers see it; at least the cached one.
    published_limit: u64,
    /// Subscribers with a page each, on a sealed channel.
    private_pages: Option<Box<Sleepers>>,
    /// Commits in a row that found the hint raised and no subscriber asleep.
    found_awake: u32,
}

/// The next frame and what its commit reads of a producer.
struct FrameToShow<'a> {
    address: RingAddress<'a>,
    end: u64,
    /// The end of a next frame or batch of this length.
    ahead: u64,
    position: &'a mut u64,
    ring: RingBase<'a>,
    cursor: &'a AtomicU64,
    prefetched: u64,
}

/// A frame that was shown.
struct Shown {
    end: u64,
    /// Where the header ahead is that is not zeroed yet.
    left: Option<u64>,
}

impl FrameToShow<'_> {
    /// Commits the frame, stores the cursor, and zeroes the header ahead if its line is prefetched.
    #[inline(always)]
    fn show(self, header: u64) -> Shown {
        let Self { end, ahead, .. } = self;
        points::pass("publish.written");
        publish_header(self.address.header(), header);
        points::pass("publish.shown");
        *self.position = end;
        publish_cursor(self.cursor, end);
        let is_prefetched = ahead + HEADER_BYTES <= self.prefetched;
        if is_prefetched {
            zero_ahead(self.ring, ahead);
        }
        Shown {
            end,
            left: (!is_prefetched).then_some(ahead),
        }
    }
}

impl Producer {
    /// Replaces the shared control file by private pages of subscribers that are not trusted. Their
    /// hints are read after each commit; the hint of the channel does not matter.
    pub(crate) fn use_private_pages(&mut self, pages: &Arc<Pages>) {
        self.hint = self.gate.control().resolve(control::ALWAYS);
        self.private_pages = Some(Box::new(Sleepers::new(pages)));
    }

    /// The pages of the subscribers of a sealed channel.
    pub(crate) fn pages(&self) -> Option<&Arc<Pages>> {
        self.private_pages.as_ref().map(|sleepers| sleepers.pages())
    }

    /// Bytes of a frame in the ring, given those of its header and payload.
    #[inline(always)]
    fn padded(&self, frame: u64) -> u64 {
        (frame + self.align_mask) & self.align_bits
    }

    /// End of the last committed frame.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Longest payload in bytes.
    pub(crate) fn message_max(&self) -> usize {
        usize::try_from(self.message_max).unwrap_or(usize::MAX)
    }

    /// The subscribers that hold this lane back.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// This lane's header words.
    pub(crate) fn lane(&self) -> &Words {
        &self.lane
    }

    /// Where a frame of `length` bytes that starts at `at` ends, if it fits below the limit.
    ///
    /// # Errors
    ///
    /// [`NotSent::TooLong`], for every length after [`Producer::take_slow_path`].
    /// [`NotSent::BackPressured`] if the cached limit is used up: then the gate must be asked.
    #[inline(always)]
    pub(crate) fn fits(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        if length as u64 >= self.slow_from {
            return Err(self.too_long());
        }
        self.ends(at, length)
    }

    /// From now on [`Producer::fits`] refuses every length. The caller adds bytes to each message,
    /// and asks [`Producer::fits_whole`].
    #[cfg(not(loom))]
    pub(crate) fn take_slow_path(&mut self) {
        self.slow_from = 0;
        self.ready.set(0);
    }

    /// As [`Producer::fits`], also on the slow path.
    ///
    /// # Errors
    ///
    /// As [`Producer::fits`].
    #[cfg(not(loom))]
    pub(crate) fn fits_whole(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        if length as u64 > self.message_max {
            return Err(self.too_long());
        }
        self.ends(at, length)
    }

    #[inline(always)]
    fn ends(&self, at: u64, length: usize) -> Result<u64, NotSent> {
        let end = at + self.padded(length as u64 + HEADER_BYTES);
        if end + HEADER_BYTES > self.limit.get() {
            return Err(NotSent::BackPressured);
        }
        Ok(end)
    }

    /// The position up to which a frame of `length` bytes at `at` needs room: the end of the next
    /// header.
    pub(crate) fn need(&self, at: u64, length: usize) -> u64 {
        at + self.padded(length as u64 + HEADER_BYTES) + HEADER_BYTES
    }

    #[cold]
    fn too_long(&self) -> NotSent {
        NotSent::TooLong {
            max: self.message_max(),
        }
    }

    /// A claim of `length` bytes begins at the position, and may be aborted; returns its end. The
    /// header there reads zero, and stays so: the claim ends before it.
    ///
    /// # Errors
    ///
    /// As [`Producer::fits`].
    #[inline(always)]
    pub(crate) fn reserve(&mut self, length: usize) -> Result<u64, NotSent> {
        // Zero in a forked child, and without room. A sum that overflowed could be zero, too.
        if (length as u64).checked_add(HEADER_BYTES) != Some(self.ready.get()) {
            self.get_ready(length)?;
        }
        Ok(self.position + self.stride)
    }

    /// A claim up to `end` begins, and may be aborted. The bytes after the position may change.
    #[inline(always)]
    pub(crate) fn begin(&mut self, end: u64) {
        if end - self.position != self.stride && !mutant("claim_keeps_zeroed") {
            self.forget_zeroed();
        }
    }

    /// A batch begins, and may be aborted. The bytes after the position may change.
    #[inline(always)]
    pub(crate) fn begin_batch(&mut self) {
        if !mutant("claim_keeps_zeroed") {
            self.forget_zeroed();
        }
    }

    /// Writes the payload of the frame at `at` in a batch that has begun. [`Producer::fits`] found
    /// room for it.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: u64, message: &[u8]) {
        debug_assert!(self.stride == 0 || mutant("claim_keeps_zeroed"));
        // SAFETY: `fits` holds the frame below the limit, so no reliable subscriber reads these
        // bytes (REUSE), and its header is not committed: `at` is at or behind our uncommitted
        // position.
        unsafe { self.ring.write(at, message) };
    }

    /// [`Producer::fits`], [`Producer::write`] and [`Producer::prepare`] for a message as long as
    /// one before it in the batch, for which [`Producer::fits`] found the `shape`. Without `tag`
    /// the frame is the first of the batch, and gets no header. Returns the end of the frame;
    /// `None` without room by the cached limit.
    #[inline(always)]
    pub(crate) fn write_alike(
        &mut self,
        at: u64,
        shape: FrameShape,
        tag: Option<u32>,
        message: &[u8],
    ) -> Option<u64> {
        debug_assert!(shape.is_of(message.len()));
        debug_assert!(self.stride == 0 || mutant("claim_keeps_zeroed"));
        let end = at + shape.padded;
        // Zero in a forked child.
        if end + HEADER_BYTES > self.limit.get() {
            return None;
        }
        // One place for both stores: the compiler must expect that the first changes `self`.
        let address = self.ring.address(at);
        // SAFETY: `fits` found that the length is at most the ring's. The rest is as in `write`.
        unsafe { address.write(message) };
        if let Some(tag) = tag {
            // Relaxed: released by the COMMIT of the batch's first frame.
            let word = header_word(tag, message.len());
            address.header().store(word, Ordering::Relaxed);
        }
        Some(end)
    }

    /// The payload of the claimed frame at the position. A forked child gets leaked zeros instead,
    /// because its parent may be filling the frame.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn payload_mut(&mut self, length: usize) -> &mut [u8] {
        if self.is_shut() {
            return leaked_zeros(length);
        }
        // SAFETY: as in `write`; `&mut self` makes the slice the only one.
        unsafe { self.ring.payload_mut(self.position, length) }
    }

    /// As [`Producer::payload_mut`], in the call that claims: no fork came between.
    /// [`Producer::reserve`] or [`Producer::fits_whole`] has just found room for `length` bytes.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn new_payload_mut(&mut self, length: usize) -> &mut [u8] {
        debug_assert!(length as u64 <= self.message_max && !self.is_shut());
        // SAFETY: the length fits the ring. The rest is as in `payload_mut`.
        unsafe { self.ring.address(self.position).payload_mut(length) }
    }

    /// The payload of the frame at `at` in a batch that may be aborted. [`Producer::fits_whole`]
    /// found room for it.
    #[cfg(not(loom))]
    pub(crate) fn place_mut(&mut self, at: u64, length: usize) -> &mut [u8] {
        self.begin_batch();
        // SAFETY: as in `write`; `&mut self` makes the slice the only one.
        unsafe { self.ring.payload_mut(at, length) }
    }

    /// The bytes written by [`Producer::payload_mut`].
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn payload(&self, length: usize) -> &[u8] {
        // SAFETY: claimed and not committed: only this producer writes here, and not while `self`
        // is borrowed.
        unsafe { self.ring.view(self.position, length) }
    }

    /// Writes `message` at the position and makes it visible; returns the position after it.
    ///
    /// # Errors
    ///
    /// As [`Producer::fits`].
    #[inline(always)]
    pub(crate) fn send(&mut self, tag: u32, message: &[u8]) -> Result<u64, NotSent> {
        // Zero in a forked child, and without room.
        if message.len() as u64 + HEADER_BYTES != self.ready.get() {
            self.get_ready(message.len())?;
        }
        let next = self.frame_to_show();
        // SAFETY: the length is at most the ring's and the frame is below the limit, so no reliable
        // subscriber reads these bytes (REUSE). Its header is not committed: it is at our position.
        unsafe { next.address.write(message) };
        let shown = next.show(header_word(tag, message.len()));
        Ok(self.finish(shown))
    }

    /// What showing the frame at the position takes, if it ends where the header is known to read
    /// zero. Read before its stores: the compiler must expect that these change `self`.
    #[inline(always)]
    fn frame_to_show(&mut self) -> FrameToShow<'_> {
        let ring = self.ring.base();
        FrameToShow {
            address: ring.address(self.position),
            end: self.position + self.stride,
            ahead: self.position + 2 * self.stride,
            position: &mut self.position,
            ring,
            cursor: &self.cursor,
            prefetched: self.prefetched,
        }
    }

    /// What follows the commit and the cursor; returns the end of the frame.
    #[inline(always)]
    fn finish(&mut self, shown: Shown) -> u64 {
        if let Some(ahead) = shown.left {
            self.prefetch_ahead(shown.end, ahead);
        }
        self.look_for_sleepers();
        shown.end
    }

    /// Prepares the fast path for a message or claim of `length` bytes at the position: it has
    /// room, and the header after it reads zero.
    ///
    /// # Errors
    ///
    /// As [`Producer::fits`].
    #[inline(never)]
    fn get_ready(&mut self, length: usize) -> Result<(), NotSent> {
        let end = self.fits(self.position, length)?;
        self.zero_next_header(end);
        self.stride = end - self.position;
        self.ready.set(length as u64 + HEADER_BYTES);
        Ok(())
    }

    /// Makes the frame from the position to `end` visible; returns the position after it. In a
    /// forked child it does nothing: the frame is the parent's.
    #[inline(always)]
    pub(crate) fn commit(&mut self, end: u64, tag: u32, length: usize) -> u64 {
        self.commit_as(end, header_word(tag, length))
    }

    /// As [`Producer::commit`], with this header.
    #[inline(always)]
    pub(crate) fn commit_as(&mut self, end: u64, header: u64) -> u64 {
        if self.is_shut() {
            return self.position;
        }
        if end - self.position != self.stride {
            self.zero_next_header(end);
            // Another length: no message is known to fit.
            self.ready.set(0);
            self.stride = end - self.position;
        }
        self.commit_ready(header)
    }

    /// As [`Producer::commit_as`], for a claim.
    #[inline(always)]
    pub(crate) fn commit_claim(&mut self, end: u64, header: u64) -> u64 {
        match self.commit_found(header) {
            Some(end) => end,
            None => self.commit_slowly(end, header),
        }
    }

    /// As [`Producer::commit_as`], for a claim that [`Producer::reserve`] found ready. The same
    /// word says so again, and reads zero in a forked child. `None` for others; nothing is done.
    #[inline(always)]
    pub(crate) fn commit_found(&mut self, header: u64) -> Option<u64> {
        // Zero in a forked child, and after any claim of another length.
        (frame_half(header) == self.ready.get()).then(|| self.commit_ready(header))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn commit_slowly(&mut self, end: u64, header: u64) -> u64 {
        self.commit_as(end, header)
    }

    /// Shows the frame at the position, which is written and ends where the header reads zero.
    #[inline(always)]
    fn commit_ready(&mut self, header: u64) -> u64 {
        let shown = self.frame_to_show().show(header);
        self.finish(shown)
    }

    /// The commit. A publisher that dies after it has published everything up to `end`.
    #[cfg(loom)]
    pub(super) fn commit_only(&self, end: u64, tag: u32, length: usize) {
        self.zero_next_header(end);
        let header = header_word(tag, length);
        publish_header(self.ring.header(self.position), header);
    }

    /// Zeroes the header at `end`, before the commit of the frame that ends there, unless it reads
    /// zero.
    #[inline(always)]
    fn zero_next_header(&self, end: u64) {
        if end - self.position != self.stride && !mutant("commit_without_next_zero") {
            // Relaxed: released by COMMIT.
            self.ring.header(end).store(0, Ordering::Relaxed);
        }
    }

    /// Writes the header of a later frame of a batch. It is invisible until the first frame is
    /// committed.
    #[inline(always)]
    pub(crate) fn prepare(&mut self, at: u64, tag: u32, length: usize) {
        // Relaxed: released by the COMMIT of the batch's first frame.
        self.ring
            .header(at)
            .store(header_word(tag, length), Ordering::Relaxed);
    }

    /// Zeroes the header at `ahead`, unless it is above the limit, and prefetches the cache lines
    /// of the messages after `end`: of the next one, or of several short ones, for which this is
    /// called once (ADR 0018, ADR 0037).
    #[inline(never)]
    fn prefetch_ahead(&mut self, end: u64, ahead: u64) {
        let limit = self.limit.get();
        let is_free = |to: u64| to <= limit || mutant("zero_past_limit");
        if !is_free(ahead + HEADER_BYTES) {
            self.forget_zeroed();
            return;
        }
        let ring = self.ring.base();
        zero_ahead(ring, ahead);
        let (length, most) = (ahead - end - HEADER_BYTES, end + PREFETCH_BYTES);
        #[cfg(loom)]
        let prefetches = true;
        // At full speed in a large ring the stores are the bound, and not the wait for lines.
        #[cfg(not(loom))]
        let prefetches = !self.pace.is_full();
        if length < *PREFETCH_FOR.start() {
            // Frames of whole lines: it would slow an exchange of them by a seventh.
            let pays = prefetches
                && !(ahead - end).is_multiple_of(LINE_BYTES)
                && (length <= PREFETCH_SHORT || self.ring.capacity() <= PREFETCH_RING);
            let to = if is_free(most) { most } else { limit };
            self.prefetched = to;
            if pays && to == most {
                // As often as the compiler knows: no loop.
                (1..=PREFETCH_LINES).for_each(|line| prefetch_line(ring, end + line * LINE_BYTES));
            } else if pays {
                prefetch_for_write(ring, end, to);
            }
        } else if prefetches && PREFETCH_FOR.contains(&length) {
            prefetch_for_write(ring, end, ahead.min(most));
        }
    }

    /// Wakes subscribers that sleep, after a commit.
    #[inline(always)]
    fn look_for_sleepers(&mut self) {
        // SLEEP (light side): the commit above comes before the load of the hint.
        light_barrier(mutant("sleep_no_light_barrier"));
        // Relaxed: only a hint; the waker reads it again (WAKE).
        if self.hint.load(Ordering::Relaxed) & RAISED != 0 {
            self.wake_sleepers();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleepers(&mut self) {
        let stays = self.found_awake < HINT_STAYS;
        let woken = self.wake_all(if stays { Hint::Stays } else { Hint::Lowered });
        self.found_awake = match woken {
            Some(0) if stays => self.found_awake + 1,
            _ => 0,
        };
        if let Some(woken @ 1..) = woken {
            add_to_counter(&self.lane, lane::WAKES, woken);
        }
    }

    /// Wakes every subscriber that sleeps; returns how many, and `None` if no hint is raised.
    pub(crate) fn wake_all(&mut self, after: Hint) -> Option<u64> {
        match &mut self.private_pages {
            Some(sleepers) => sleepers.wake(after),
            None => crate::wait::wake_sleepers(self.gate.control(), self.gate.geometry(), after),
        }
    }

    /// Bytes of frames that fit after the position, by the cached limit.
    #[cfg(not(loom))]
    pub(crate) fn room_left(&self) -> u64 {
        let limit = self.limit.get();
        limit.saturating_sub(self.position + HEADER_BYTES)
    }

    /// Makes whole frames of another ring with the same `align` visible together. There is at least
    /// one. They are at most [`Producer::room_left`] bytes.
    #[cfg(not(loom))]
    pub(crate) fn send_frames(&mut self, frames: &[u8]) {
        // As a batch: first everything after the first header, then that header, which commits.
        if let Some((header, rest)) = frames.split_first_chunk::<8>() {
            self.begin_batch();
            self.write(self.position, rest);
            let end = self.position + frames.len() as u64;
            self.commit_as(end, u64::from_le_bytes(*header));
        }
    }

    /// The end of a frame of `length` bytes at `at`, after asking the gate for room if needed.
    #[cfg(any(test, fuzzing))]
    pub(super) fn room(&mut self, at: u64, length: usize) -> Option<u64> {
        if self.fits(at, length).is_err() && !self.make_room(self.need(at, length)) {
            return None;
        }
        self.fits(at, length).ok()
    }

    /// Whether nothing may be sent: in a forked child, where the limit reads zero.
    #[inline(always)]
    pub(crate) fn is_shut(&self) -> bool {
        self.limit.get() == 0
    }

    /// No header ahead is known to read zero.
    #[inline(always)]
    fn forget_zeroed(&mut self) {
        self.stride = 0;
        self.ready.set(0);
    }

    /// Refuses everything from now on. The next call takes the slow path.
    pub(crate) fn shut(&mut self) {
        self.forget_zeroed();
        self.prefetched = 0;
        self.limit.set(0);
    }
}

/// Zeros for a forked child; never freed.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
fn leaked_zeros(length: usize) -> &'static mut [u8] {
    // As in a ring, on an 8-byte boundary.
    let words: &mut [u64] = vec![0; length.div_ceil(8)].leak();
    &mut words.as_mut_bytes()[..length]
}

/// Commits the frame or batch that begins with `header`. The header after it reads zero.
#[inline(always)]
fn publish_header(header: &AtomicU64, word: u64) {
    // COMMIT (release): pairs with the acquire load in `Consumer::next`, `Consumer::walk` and
    // `Row::next`.
    header.store(word, unless(mutant("commit_relaxed"), Ordering::Release));
}

/// Stores the position after the last committed frame.
#[inline(always)]
fn publish_cursor(cursor: &AtomicU64, end: u64) {
    // CURSOR (release): pairs with the acquire load in `Consumer::cursor`.
    cursor.store(end, unless(mutant("cursor_relaxed"), Ordering::Release));
}

/// Zeroes the header at `ahead`, below the limit, and so fetches its cache line now, not between
/// the next message and its commit (ADR 0012). After the header that ends the stream every byte
/// below the limit is free.
#[inline(always)]
fn zero_ahead(ring: RingBase<'_>, ahead: u64) {
    // Relaxed: released by the next COMMIT.
    ring.address(ahead).header().store(0, Ordering::Relaxed);
}

/// Fetches the cache lines after that of `from` up to `to`, below the limit, by storing zeros (ADR
/// 0018). An aborted claim leaves such bytes, too.
#[inline(never)]
fn prefetch_for_write(ring: RingBase<'_>, from: u64, to: u64) {
    let mut line = from + LINE_BYTES;
    while line + HEADER_BYTES <= to {
        prefetch_line(ring, line);
        line += LINE_BYTES;
    }
}

/// Fetches the cache line at `place` by storing a zero.
#[inline(always)]
fn prefetch_line(ring: RingBase<'_>, place: u64) {
    // Relaxed: not a header. It is read only after the COMMIT of the frame that will contain it.
    ring.address(place).header().store(0, Ordering::Relaxed);
}

/// Adds to a counter that only this process writes.
pub(crate) fn add_to_counter(words: &Words, index: usize, by: u64) {
    let word = words.word(index);
    // Relaxed: one writer, display only.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
