//! The receiving end: every lane of a channel, polled in turn.

mod lifetime;

use super::attached::{Attached, is_unlinked};
use super::fields;
use super::poll::CHECKS_NEXT;
use super::shape::read_record;
use super::slow_state::{SubscriberSlowState, is_ready, watch_publishers, would_find};
use super::status::{Durable, LaneState, LaneStatus};
use super::watch::Watch;
use crate::error::ReceiveError;
use crate::message::{Fields, Message, OwnedMessage, Position};
use crate::region::Copied;
use crate::ring::consume::{Consumer, Frame, Row};
use crate::ring::layout::{control, lane, lane_entry, slot};
use crate::sync::Ordering;
use crate::uri::topic::TopicFilter;
use crate::wait::Step;
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives messages of a channel from all its publishers, in order for each publisher.
///
/// A reliable subscriber (the default) gets every message published from its opening to its
/// closing; publishers wait for it. It may be opened before any publisher exists.
///
/// A durable subscriber (`name=`) consumes a message with the next call after its return, or with
/// [`Subscriber::close`]. [`Subscriber::poll`] consumes it when its handler has returned. If it
/// dies, panics or is dropped before, the message comes again.
///
/// Receiving allocates nothing. It makes a system call in two cases: it waits, or it wakes a
/// publisher that sleeps because the ring was full. Messages are views of the ring. They are copied
/// only with `delivery=latest`, `slow=evict:` or `shm+fd://`.
///
/// ```
/// # use olivine::{Publisher, Subscriber, ReceiveError};
/// let mut subscriber = Subscriber::open("inproc://stream")?;
/// let mut publisher = Publisher::open("inproc://stream")?;
/// for n in 0..3_u8 {
///     publisher.publish(&[n])?;
/// }
/// publisher.close()?;
/// let mut sum = 0;
/// loop {
///     match subscriber.receive() {
///         Ok(message) => sum += message[0],
///         Err(ReceiveError::Closed) => break,
///         Err(error) => return Err(error.into()),
///     }
/// }
/// assert_eq!(sum, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subscriber<T: ?Sized = [u8]> {
    pub(super) lanes: Vec<Consumer>,
    /// The lane to read next.
    pub(super) next_lane: usize,
    /// The frame that `receive` returned and that the next call consumes.
    pub(super) pending: Pending,
    /// Messages are not simply read in place: they are copied out and checked, or one had a topic,
    /// or a filter chooses them.
    pub(super) slow: bool,
    /// May be overrun or evicted: copies messages out and checks the copies.
    pub(super) checked: bool,
    /// The topics that are received.
    pub(super) filter: Option<Box<TopicFilter>>,
    /// Bytes of the message found last, without its topic.
    pub(super) payload: usize,
    pub(super) copy: Copied,
    /// Calls in a row that found no message. They decide when to check for an eviction and the end.
    pub(super) empty_calls: u32,
    /// Calls that could not map a new lane.
    pub(super) map_failures: u32,
    pub(super) slow_state: Box<SubscriberSlowState>,
    typed: PhantomData<fn(&T)>,
}

/// The frame that `receive` returned and that the next call consumes. Its lane's position is at or
/// before it: at the start of its row.
#[derive(Debug)]
pub(super) struct Pending {
    /// Place of its lane; [`Pending::NO_LANE`] for none.
    lane: usize,
    /// The frame, and those that follow it without asking anything else. While there may be such
    /// frames, the lane is the only one, messages are read in place, and no error is pending.
    pub(super) row: Row,
}

impl Pending {
    const NO_LANE: usize = usize::MAX;
    /// In place of a lane: [`Subscriber::poll_and_hold`] has handed out messages, of any lanes.
    const ALL_LANES: usize = usize::MAX - 1;

    fn none(row: Row) -> Self {
        Self {
            lane: Self::NO_LANE,
            row,
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, frame: &Frame) {
        self.lane = lane;
        self.row.hold(frame);
    }

    /// Each lane holds what was handed out since its last release.
    pub(super) fn set_all(&mut self) {
        self.forget();
        self.lane = Self::ALL_LANES;
    }

    pub(super) fn is_all(&self) -> bool {
        self.lane == Self::ALL_LANES
    }

    pub(super) fn forget(&mut self) {
        self.lane = Self::NO_LANE;
        self.row.stop();
    }

    /// The lane and the end of the frame, if there is one; forgets it. No subscriber has so many
    /// lanes as the lane says after [`Pending::set_all`].
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<(usize, u64)> {
        let lane = self.lane;
        if lane == Self::NO_LANE {
            return None;
        }
        self.forget();
        Some((lane, self.row.end()))
    }

    /// The lane and the start of the frame, if there is one.
    pub(super) fn held(&self) -> Option<(usize, u64)> {
        (self.lane < Self::ALL_LANES).then(|| (self.lane, self.row.start()))
    }
}

impl Subscriber {
    /// Passes up to `limit` messages to `handler`; returns how many. Never sleeps.
    ///
    /// A handler that panics gets the same message again, first of all, at the next call: unless an
    /// `Overrun`, `Evicted` or `Failed` is due. Messages before it are consumed.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; messages passed before it are consumed, and are not counted for the
    /// caller: a handler that must know counts itself.
    #[inline(always)]
    pub fn poll(
        &mut self,
        handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.poll_frames(handler, limit)
    }

    /// As [`Subscriber::poll`], but a durable subscriber consumes the messages like what
    /// `receive` returned: with its next call that receives, polls or waits, or with
    /// [`Subscriber::close`]. If it dies or is dropped before, all of them come again. For a
    /// handler that only copies messages, which are dealt with after the call.
    ///
    /// Until then they hold publishers back: up to a whole ring. So a program that also publishes
    /// into the ring calls `poll` with a limit of 0 first, which consumes them.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::poll`].
    pub fn poll_and_hold(
        &mut self,
        handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        if self.slow_state.config.name.is_none() {
            return self.poll_frames(handler, limit);
        }
        self.poll_held(handler, limit)
    }

    /// The next message, if there is one. Never sleeps.
    ///
    /// The end of the stream, a failure and an eviction are looked for at the fourth call in a row
    /// that finds nothing, then at every 32nd, as by [`Subscriber::poll`].
    ///
    /// With `topic=` one call skips at most 4096 messages of other topics. If it returns `None`
    /// after so many, a later call may still find a message.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    #[inline]
    pub fn try_receive(&mut self) -> Result<Option<Message<'_>>, ReceiveError> {
        if let Some(alike) = self.pending.row.next() {
            return Ok(Some(self.message_alike(alike)));
        }
        // Two steps: else the compiler builds the message above in memory, too.
        let message = self.try_receive_any()?;
        Ok(message)
    }

    /// As [`Subscriber::try_receive`], in all cases.
    #[cold]
    #[inline(never)]
    fn try_receive_any(&mut self) -> Result<Option<Message<'_>>, ReceiveError> {
        let found = self.next_of_any()?;
        Ok(found.map(|(lane, frame)| self.message(lane, &frame)))
    }

    /// The next message; waits for it by the wait strategy.
    ///
    /// On shared memory a publisher that was killed has not closed: this waits for its successor,
    /// without bound. [`Subscriber::inspect_lanes`] tells such a lane from a quiet one, and
    /// [`Subscriber::receive_timeout`] comes back to look.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; `Closed` is the end of the stream. It is returned again until a later
    /// publisher comes. To continue with that publisher, call [`Subscriber::wait`] before the next
    /// `receive`.
    #[inline]
    pub fn receive(&mut self) -> Result<Message<'_>, ReceiveError> {
        if let Some(alike) = self.pending.row.next() {
            return Ok(self.message_alike(alike));
        }
        // Two steps: else the compiler builds the message above in memory, too.
        let message = self.receive_any()?;
        Ok(message)
    }

    /// As [`Subscriber::receive`], in all cases.
    #[cold]
    #[inline(never)]
    fn receive_any(&mut self) -> Result<Message<'_>, ReceiveError> {
        loop {
            if let Some((lane, frame)) = self.next_of_any()? {
                return Ok(self.message(lane, &frame));
            }
            self.wait(Duration::MAX)?;
        }
    }

    /// As [`Subscriber::receive`], but gives up with `None` after `timeout`.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    pub fn receive_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Message<'_>>, ReceiveError> {
        let found = self.next_within(timeout)?;
        Ok(found.map(|(lane, frame)| self.message(lane, &frame)))
    }

    /// Iterates over copies of messages, waiting for each, until the last publisher closes. Then
    /// the iterator is over, even if a later publisher comes. An error that
    /// [`ReceiveError::is_final`] is its last item.
    pub fn iter(&mut self) -> impl Iterator<Item = Result<OwnedMessage, ReceiveError>> + '_ {
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            match self.receive() {
                Ok(message) => Some(Ok(message.to_owned_message())),
                Err(error) => {
                    is_over = error.is_final();
                    (!matches!(error, ReceiveError::Closed)).then_some(Err(error))
                }
            }
        })
    }
}

impl<T: ?Sized> Subscriber<T> {
    /// The next frame within `timeout`.
    pub(super) fn next_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<(usize, Frame)>, ReceiveError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(found) = self.next_frame()? {
                return Ok(Some(found));
            }
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(None);
            }
            self.wait(left)?;
        }
    }

    /// Waits by the wait strategy until a poll would find a message or the end of the stream:
    /// `true`. `false` if `timeout` is over first. Once the end of the stream was reported, it
    /// waits for the next publisher.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, ReceiveError> {
        self.begin()?;
        let deadline = (timeout != Duration::MAX)
            .then(|| Instant::now().checked_add(timeout))
            .flatten();
        let strategy = self.slow_state.config.wait;
        let mut idle = self.slow_state.park_looks.begin(strategy, timeout);
        if self.lanes.iter().any(Consumer::has_next) {
            return Ok(true);
        }
        for lane in &mut self.lanes {
            lane.at_tail();
        }
        loop {
            // The shortest reaction: most of the time only the next headers are loaded.
            while idle.keep_spinning() {
                if self.lanes.iter().any(Consumer::has_next) {
                    self.slow_state.park_looks.found(&idle);
                    return Ok(true);
                }
                // Leaves the publisher its line for longer: ADR 0041.
                core::hint::spin_loop();
            }
            self.slow_state.park_looks.missed(&idle);
            // A new publisher that has sent nothing does not end the wait.
            self.found_new_lanes()?;
            if would_find(&self.slow_state, &self.lanes) {
                // If it is not a message, the next call that finds none checks for other changes.
                self.empty_calls = CHECKS_NEXT;
                return Ok(true);
            }
            let mut nap = Duration::MAX;
            if let Some(deadline) = deadline {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(false);
                }
                nap = left;
            }
            if idle.step() == Step::Park {
                self.release();
                let (slow_state, lanes) = (&self.slow_state, &self.lanes);
                slow_state.sleeper.sleep(
                    nap,
                    |watches| {
                        watch_publishers(slow_state, lanes, watches, &slow_state.sleeper.park)
                    },
                    || is_ready(slow_state, lanes),
                );
            }
        }
    }

    /// Gives the room of everything read back to the publishers now, not in steps of an eighth of
    /// the ring. The message returned last stays held, and so do those of
    /// [`Subscriber::poll_and_hold`].
    pub fn release(&mut self) {
        if !self.slow_state.page.is_ours() || self.pending.is_all() {
            return;
        }
        self.pass_to_pending();
        for lane in &mut self.lanes {
            lane.release();
        }
    }

    /// Moves the lane's position to the message returned last.
    fn pass_to_pending(&mut self) {
        if let Some((lane, start)) = self.pending.held() {
            self.lanes[lane].pass_to(start);
        }
    }

    /// Each lane, with the start of the message returned last or of the next one.
    fn positions(&self) -> impl Iterator<Item = (&Consumer, u64)> {
        let (held, is_all) = (self.pending.held(), self.pending.is_all());
        let lanes = self.lanes.iter().enumerate();
        lanes.map(move |(place, lane)| match held {
            Some((of, start)) if of == place => (lane, start),
            _ if is_all => (lane, lane.released()),
            _ => (lane, lane.position()),
        })
    }

    /// Bytes of frames read so far, over all lanes. With a single publisher this is its position.
    #[must_use]
    pub fn position(&self) -> Position {
        let origin = self.slow_state.attached.geometry.origin;
        let read = self
            .positions()
            .map(|(_, position)| position - origin)
            .sum::<u64>();
        Position(origin + read)
    }

    /// Bytes of frames published but not read yet, over all lanes known at the last receiving call.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.positions()
            .map(|(lane, position)| lane.cursor().saturating_sub(position))
            .sum()
    }

    /// Bytes of frames that this subscriber missed so far, by overruns and evictions, or while
    /// its durable name had lost its place. Always 0 for a reliable subscriber that kept its place.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.slow_state.lost_bytes
    }

    /// Whether the durable name was new, resumed, or lost its place; `None` without `name=`.
    ///
    /// For a remote channel (`tcp://`, `nats://`) this describes the ring on this machine.
    ///
    /// ```
    /// # use olivine::{Durable, Publisher, ReceiveError, Subscriber};
    /// # let dir = format!("olivine-doc-durable-{}", std::process::id());
    /// # let dir = std::env::temp_dir().join(dir);
    /// # let uri = format!("shm://orders?capacity=4KiB&slow=evict:1ms&dir={}", dir.display());
    /// let mut publisher = Publisher::open(&uri)?;
    /// let named = format!("{uri}&name=billing");
    /// let billing = Subscriber::open(&named)?;
    /// assert_eq!(billing.durable(), Some(Durable::Created));
    /// drop(billing);
    /// // No subscriber reads for longer than the channel allows: the publisher continues.
    /// for _ in 0..1000 {
    ///     publisher.publish(b"order")?;
    /// }
    /// let mut billing = Subscriber::open(&named)?;
    /// let Some(Durable::LostPlace { bytes }) = billing.durable() else {
    ///     panic!("it was not waited for");
    /// };
    /// assert_eq!(billing.lost_bytes(), bytes);
    /// assert!(matches!(billing.receive(), Err(ReceiveError::Evicted)));
    /// assert_eq!(&*billing.receive()?, b"order");
    /// # billing.unsubscribe();
    /// # drop(publisher);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn durable(&self) -> Option<Durable> {
        self.slow_state.durable
    }

    /// The publishers' lanes seen so far. Tests the lock of each with a system call.
    #[must_use]
    pub fn inspect_lanes(&self) -> Vec<LaneStatus> {
        let Attached {
            control,
            geometry,
            locks,
            ..
        } = &self.slow_state.attached;
        let status = |(consumer, position): (&Consumer, u64)| {
            let index = consumer.index();
            LaneStatus {
                index,
                state: LaneState::of(
                    consumer.lane().word(lane::STATE).load(Ordering::Acquire),
                    locks,
                    index,
                ),
                position: Position(position),
                cursor: Position(consumer.cursor().max(position)),
                // Relaxed: for display.
                publisher_pid: control
                    .word(geometry.lane_entry(index) + lane_entry::PID)
                    .load(Ordering::Relaxed),
            }
        };
        self.positions().map(status).collect()
    }

    /// A descriptor that becomes readable when there is something to poll: for `epoll` and event
    /// loops.
    ///
    /// Poll until it returns 0 each time: that arms and clears the descriptor. Do not read it, and
    /// do not call the waiting methods as well. The first call starts a thread that parks on behalf
    /// of the loop.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left, or in a forked child.
    pub fn event_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.start_watch().map(Watch::descriptor)
    }

    /// The thread that parks on behalf of a loop or a task; starts it if needed.
    pub(super) fn start_watch(&mut self) -> io::Result<&Watch> {
        if !self.slow_state.page.is_ours() {
            return Err(io::Error::other(ReceiveError::Forked));
        }
        if self.slow_state.watch.is_none() {
            let Attached {
                control, geometry, ..
            } = &self.slow_state.attached;
            let epoch = control.resolve(control::LANES_EPOCH);
            let state = control.resolve(geometry.slot(self.slow_state.slot) + slot::STATE);
            let link = self
                .slow_state
                .link
                .as_ref()
                .map(|link| Arc::clone(link.control()));
            let locks = self.slow_state.attached.locks.reader();
            let watch = Watch::start(self.slow_state.sleeper.clone(), locks, epoch, state, link)?;
            self.pass_to_pending();
            watch.arm(&self.lanes, &self.slow_state);
            self.slow_state.watch = Some(watch);
        }
        let watch = self.slow_state.watch.as_ref();
        watch.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Wakes a task once at the next change from here on. The thread must run.
    pub(super) fn wake_at_change(&self, waker: &Waker) {
        if let Some(watch) = &self.slow_state.watch {
            watch.wake_next(waker);
            watch.arm(&self.lanes, &self.slow_state);
        }
    }

    /// Whether the channel's files were removed from their folder while it was open. `rm`,
    /// `olivine rm --force` and systemd-logind remove them: with `RemoveIPC=yes` the latter removes
    /// a user's files in `/dev/shm` at that user's last logout.
    ///
    /// Handles that are open keep working with each other. A program that opens the name now gets
    /// a new channel: close the handle and open it again to join it. Makes one system call.
    #[must_use]
    pub fn check_unlinked(&self) -> bool {
        self.slow_state.page.is_ours() && is_unlinked(&self.slow_state.attached)
    }

    /// Whether this is a forked child of the process that opened it, and every call that receives
    /// is refused. One load.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        !self.slow_state.page.is_ours()
    }

    /// The canonical URI this subscriber was opened with.
    #[must_use]
    pub fn uri(&self) -> String {
        let link = self.slow_state.link.as_ref();
        link.map_or_else(
            || self.slow_state.config.uri(),
            |link| link.uri().to_owned(),
        )
    }

    /// The fields of the channel's type, if an opener has stated them: what a subscriber of bytes
    /// needs to show messages. Empty until then. A message that came is of a publisher whose fields
    /// are stored, if it stated any. A bridge carries those that were stated when it connected.
    ///
    /// The offsets are not compared with a message, which has any length: take the bytes of a field
    /// by [`Field::bytes`](crate::Field::bytes). Makes no system call.
    #[must_use]
    pub fn fields(&self) -> Fields {
        let control = &self.slow_state.attached.control;
        // A publisher may have fixed the type since this subscriber looked.
        let shape = read_record(control).unwrap_or_default();
        fields::stored(control, shape.type_hash)
    }

    /// Bytes of each publisher's ring; 0 until a participant has named it or a publisher has fixed
    /// it.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.slow_state.attached.geometry.capacity
    }

    /// Leaves the channel. A durable subscriber keeps its place after the message returned last, or
    /// after those of [`Subscriber::poll_and_hold`].
    ///
    /// If it is only dropped (by a panic, by `?`), it keeps its place before them. They come again
    /// when the name returns.
    pub fn close(mut self) {
        if self.slow_state.page.is_ours() {
            self.consume_pending();
        }
    }

    /// Leaves the channel and forgets its durable name. Over `tcp://` the far side forgets it too,
    /// if the two are connected; otherwise it keeps the name until `expire=`.
    pub fn unsubscribe(mut self) {
        self.finish(true);
    }
}

impl<T: ?Sized> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("uri", &self.uri())
            .field("position", &self.position())
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}
