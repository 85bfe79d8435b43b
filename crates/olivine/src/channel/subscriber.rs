//! The receiving end: every lane of a channel, polled in turn.

use super::attach::{self, Part, TypeTag};
use super::attached::{Attached, is_unlinked, wake_publishers};
use super::join::{Admission, join};
use super::sealed;
use super::slots::{self, Missed};
use super::status::{Durable, LaneState, LaneStatus};
use super::surroundings::{Joined, News, SubscriberSlowState, has_news, is_ready, rely};
use super::watch::Watch;
use crate::error::{OpenError, ReceiveError};
use crate::fork::ForkPage;
use crate::message::{Message, OwnedMessage, Position};
use crate::region::Copied;
use crate::ring::consume::{Consumer, Frame};
use crate::ring::gate::{clear_slot, set_bit};
use crate::ring::layout::{control, lane, lane_entry, lock_byte, slot};
use crate::sync::Ordering;
use crate::uri::topic::Filter;
use crate::uri::{Config, Scheme};
use crate::wait::{Idle, Sleeper, Step};
use core::fmt;
use core::marker::PhantomData;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives messages of a channel from all its publishers, in order for each publisher.
///
/// A reliable subscriber (the default) gets every message published from the moment it is open until it is
/// closed; publishers wait for it. A durable one (`name=`) goes past a message with the next call after the one that
/// handed it out, or with [`Subscriber::close`]: what it was working on when it died, panicked or was dropped comes
/// again. It may be opened before any publisher exists. Receiving
/// allocates nothing, and makes a system call in two cases: it waits, or it wakes a publisher that sleeps because the ring
/// was full. Messages are views of the ring: nothing is copied.
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
    /// The lane whose turn it is.
    pub(super) turn: usize,
    /// The frame that `receive` handed out and that the next call goes past.
    pub(super) pending: Option<(usize, Frame)>,
    /// Messages are not handed out just as they lie: they are copied out and checked, or one had a
    /// topic, or they are chosen by topic.
    pub(super) slow: bool,
    /// May be overrun or evicted: copies messages out and checks the copies.
    pub(super) checked: bool,
    /// The topics that are asked for.
    pub(super) filter: Option<Box<Filter>>,
    /// Bytes of the message found last, without its topic.
    pub(super) payload: usize,
    pub(super) copy: Copied,
    /// Looks in a row that found nothing.
    pub(super) empty_polls: u32,
    /// Looks of any kind.
    pub(super) looks: u32,
    pub(super) around: Box<SubscriberSlowState>,
    typed: PhantomData<fn(&T)>,
}

impl Subscriber {
    /// Hands up to `limit` messages to `handler`; returns how many. Never sleeps.
    ///
    /// A handler that panics gets the same message again.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; messages handed out before it was found are consumed.
    #[inline(always)]
    pub fn poll(
        &mut self,
        handler: impl FnMut(Message<'_>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        self.poll_frames(handler, limit)
    }

    /// The next message, if there is one. Never sleeps.
    ///
    /// With `topic=` one call goes past 4096 messages of other topics at most: `None` after that many may mean that one
    /// of ours lies behind them, which a later call finds.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    #[inline]
    pub fn try_receive(&mut self) -> Result<Option<Message<'_>>, ReceiveError> {
        let found = self.next_frame()?;
        Ok(found.map(|(lane, frame)| self.message(lane, &frame)))
    }

    /// The next message; waits for it by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; `Closed` is the end of the stream: it is returned again until a later publisher comes. Who
    /// wants to go on with that one calls [`Subscriber::wait`] before the next `receive`.
    #[inline]
    pub fn receive(&mut self) -> Result<Message<'_>, ReceiveError> {
        loop {
            if let Some((lane, frame)) = self.next_frame()? {
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

    /// Iterates over copies of messages, waiting for each, until the last publisher closes; then it is over, also
    /// where a later publisher comes. An error that [`ReceiveError::is_final`] is its last item.
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
    /// Opens a channel whose ring is here: `shm://`, `shm+fd://` or `inproc://`.
    pub(crate) fn open_as(config: &Config, typed: &TypeTag, part: Part) -> Result<Self, OpenError> {
        attach::pin(config)?;
        let page = ForkPage::new().map_err(attach::io_error(
            "map a private page for",
            std::path::Path::new(config.channel()),
        ))?;
        let sealed = config.scheme() == Scheme::Sealed;
        let (attached, joined, link) = if sealed {
            config.validate()?;
            let entered = sealed::enter(config, typed)?;
            let joined = Admission {
                slot: 0,
                lanes: vec![entered.lane],
                durable: None,
                must_tell: false,
            };
            (entered.attached, joined, Some(entered.link))
        } else {
            let (mut attached, joined) =
                attach::open(config, typed, part, |attached| join(attached, config))?;
            attached.slot = Some(joined.slot);
            wake_publishers(&attached.control, &attached.geometry);
            (attached, joined, None)
        };
        let Admission {
            slot: index,
            lanes,
            durable,
            must_tell,
        } = joined;
        page.set_plain(!must_tell);
        let lost_bytes = match durable {
            Some(Durable::LostPlace { bytes }) => bytes,
            _ => 0,
        };
        // Relaxed: for display; only we write it.
        attached
            .control
            .word(attached.geometry.slot(index) + slot::LOST_BYTES)
            .store(lost_bytes, Ordering::Relaxed);
        let park = attached
            .control
            .resolve(attached.geometry.slot(index) + slot::PARK);
        let hint = Some(attached.control.resolve(control::SLEEPERS));
        let joined: Vec<Joined> = lanes.iter().map(Joined::of).collect();
        let mut around = Box::new(SubscriberSlowState {
            sleeper: Sleeper::new(park, hint),
            epoch: attached.control.resolve(control::LANES_EPOCH),
            lanes_epoch: 0,
            heard: joined.iter().any(|joined| joined.state & 1 == 1),
            joined,
            slot: index,
            page,
            config: config.clone(),
            lost_bytes,
            durable,
            news: if must_tell { News::Untold } else { News::None },
            told_evicted: false,
            watch: None,
            link,
            closed: false,
            told_end: 0,
            attached,
        });
        around.heard |= around.owes_end(&lanes);
        // Where the publisher is not trusted, a message that was handed out must not change any more.
        let checked = around.is_checked();
        // `validate` has seen that it can be read.
        let filter = config.topic.as_deref().and_then(Filter::read);
        Ok(Self {
            lanes,
            turn: 0,
            pending: None,
            slow: checked || filter.is_some(),
            checked,
            filter: filter.map(Box::new),
            payload: 0,
            copy: Copied::default(),
            empty_polls: 0,
            looks: 0,
            around,
            typed: PhantomData,
        })
    }

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

    /// Waits by the wait strategy until a poll would find something (a message, or the end of the stream), or
    /// `timeout` is over: `true` if there is something. Once the end of the stream was told, it waits for the next
    /// publisher.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, ReceiveError> {
        self.begin()?;
        let deadline = (timeout != Duration::MAX)
            .then(|| Instant::now().checked_add(timeout))
            .flatten();
        let mut idle = Idle::new(self.around.config.wait);
        if self.lanes.iter().any(Consumer::has_next) {
            return Ok(true);
        }
        for lane in &mut self.lanes {
            lane.at_tail();
        }
        loop {
            // The shortest reaction: nothing but the next headers, most of the time.
            while idle.keep_spinning() {
                if self.lanes.iter().any(Consumer::has_next) {
                    return Ok(true);
                }
            }
            // A publisher that came is no news as long as it has sent nothing.
            self.found_new_lanes()?;
            if has_news(&self.around, &self.lanes) {
                // Where that is no message, the next look that finds none looks around.
                self.empty_polls = 3;
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
                let (around, lanes) = (&self.around, &self.lanes);
                around.sleeper.sleep(
                    nap,
                    |watches| rely(around, lanes, watches, &around.sleeper.park),
                    || is_ready(around, lanes),
                );
            }
        }
    }

    /// Gives the room of everything read back to the publishers now, rather than in steps of an eighth of the
    /// ring. The message handed out last stays held.
    pub fn release(&mut self) {
        if !self.around.page.is_ours() {
            return;
        }
        for lane in &mut self.lanes {
            lane.release();
        }
    }

    /// Bytes of frames read so far, over all lanes. With a single publisher this is its position.
    #[must_use]
    pub fn position(&self) -> Position {
        let origin = self.around.attached.geometry.origin;
        let read = self
            .lanes
            .iter()
            .map(|lane| lane.position() - origin)
            .sum::<u64>();
        Position(origin + read)
    }

    /// Bytes of frames published but not read yet, over all lanes that were there at the last call that received.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.lanes
            .iter()
            .map(|lane| lane.cursor() - lane.position())
            .sum()
    }

    /// Bytes of frames that this subscriber missed so far: lost to overruns, or while the place of its durable name was
    /// taken. Always 0 for a reliable subscriber that was not evicted.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.around.lost_bytes
    }

    /// Whether the durable name was new, goes on where it was, or lost its place; `None` without `name=`.
    ///
    /// Of a channel elsewhere (`tcp://`, `nats://`) it speaks of the ring in this machine.
    ///
    /// ```
    /// # use olivine::{Durable, Publisher, ReceiveError, Subscriber};
    /// # let dir = std::env::temp_dir().join(format!("olivine-doc-durable-{}", std::process::id()));
    /// # let uri = format!("shm://orders?capacity=4KiB&slow=evict:1ms&dir={}", dir.display());
    /// let mut publisher = Publisher::open(&uri)?;
    /// let named = format!("{uri}&name=billing");
    /// let billing = Subscriber::open(&named)?;
    /// assert_eq!(billing.durable(), Some(Durable::Created));
    /// drop(billing);
    /// // Nobody reads for longer than the channel allows: the publisher goes on.
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
        self.around.durable
    }

    /// The publishers' lanes seen so far. Looks at the lock of each, by a system call.
    #[must_use]
    pub fn inspect_lanes(&self) -> Vec<LaneStatus> {
        let Attached {
            control,
            geometry,
            locks,
            ..
        } = &self.around.attached;
        let status = |consumer: &Consumer| {
            let index = consumer.index();
            LaneStatus {
                index,
                state: LaneState::of(
                    consumer.lane().word(lane::STATE).load(Ordering::Acquire),
                    locks,
                    index,
                ),
                position: Position(consumer.position()),
                cursor: Position(consumer.cursor()),
                // Relaxed: for display.
                publisher_pid: control
                    .word(geometry.lane_entry(index) + lane_entry::PID)
                    .load(Ordering::Relaxed),
            }
        };
        self.lanes.iter().map(status).collect()
    }

    /// A descriptor that becomes readable when there is something to poll: for `epoll` and event loops.
    ///
    /// Poll until it returns 0 each time; that arms it again and clears it. Do not read it yourself, and do not
    /// call the waiting methods besides. The first call starts a thread that parks on behalf of the loop.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left, or in a forked child.
    pub fn event_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
        if !self.around.page.is_ours() {
            return Err(io::Error::other(ReceiveError::Forked));
        }
        if self.around.watch.is_none() {
            let Attached {
                control, geometry, ..
            } = &self.around.attached;
            let epoch = control.resolve(control::LANES_EPOCH);
            let state = control.resolve(geometry.slot(self.around.slot) + slot::STATE);
            let link = self
                .around
                .link
                .as_ref()
                .map(|link| Arc::clone(link.control()));
            let locks = self.around.attached.locks.reader();
            let watch = Watch::start(self.around.sleeper.clone(), locks, epoch, state, link)?;
            watch.arm(&self.lanes, &self.around);
            self.around.watch = Some(watch);
        }
        match &self.around.watch {
            Some(watch) => Ok(watch.descriptor()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether the channel's files were removed from their folder while it was open: by `rm`, by `olivine rm --force`, or
    /// by systemd-logind, whose `RemoveIPC=yes` removes what a user has in `/dev/shm` at that user's last logout.
    ///
    /// Those who have the channel open go on with each other. A program that opens its name now gets another channel:
    /// close the handle and open it again to meet it. Makes one system call.
    #[must_use]
    pub fn check_unlinked(&self) -> bool {
        self.around.page.is_ours() && is_unlinked(&self.around.attached)
    }

    /// The canonical URI this subscriber was opened with.
    #[must_use]
    pub fn uri(&self) -> String {
        let link = self.around.link.as_ref();
        link.map_or_else(|| self.around.config.uri(), |link| link.uri().to_owned())
    }

    /// Bytes of each publisher's ring; 0 as long as no publisher has come that fixes it.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.around.attached.geometry.capacity
    }

    /// Leaves the channel. A durable subscriber keeps its place, behind the message handed out last.
    ///
    /// One that is only dropped (by a panic, by `?`) keeps its place before that message, which comes again when the
    /// name does.
    pub fn close(mut self) {
        if self.around.page.is_ours()
            && let Some((lane, frame)) = self.pending.take()
        {
            self.lanes[lane].advance(&frame);
        }
    }

    /// Leaves the channel and forgets a durable name.
    pub fn unsubscribe(mut self) {
        self.finish(true);
    }

    fn finish(&mut self, forget: bool) {
        if !self.around.page.is_ours() {
            // Its thread lives in the parent: there is nothing here to stop or to join.
            let _theirs = core::mem::ManuallyDrop::new(self.around.watch.take());
            if let Some(link) = self.around.link.take() {
                link.forget();
            }
            return;
        }
        self.around.watch = None;
        if self.around.closed {
            return;
        }
        self.around.closed = true;
        self.around.heard_news();
        self.around.heard_end();
        // The message handed out last stays where it is: only the next call, or `close`, says that it was dealt with.
        self.release();
        // The bridge stops while we still hold the channel.
        self.around.link = None;
        let around = &mut self.around;
        let (keep, slot) = (around.config.name.is_some() && !forget, around.slot);
        let told = around.told_evicted;
        around.attached.leave(|attached| {
            let Attached {
                control,
                geometry,
                locks,
                ..
            } = attached;
            if keep {
                if told && slots::state(control, geometry, slot) == slot::EVICTED {
                    Missed::of(control, geometry, slot).tell_evicted();
                }
                slots::note_absence(control, geometry, slot);
                set_bit(control, control::ATTACHED, slot, false);
            } else {
                clear_slot(control, geometry, slot);
            }
            locks.unlock(lock_byte::SLOT + slot as u64);
        });
        around.attached.wake_publishers();
    }
}

impl<T: ?Sized> Drop for Subscriber<T> {
    fn drop(&mut self) {
        self.finish(false);
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
