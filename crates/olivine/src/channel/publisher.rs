//! The sending end: one lane of a channel.

mod room;
mod wait;

use super::attach::{self, ShapeRole, TypeTag};
use super::attached::{Attached, is_unlinked};
use super::back_pressure::StallMonitor;
use super::backing::private_page;
use super::batch::{Batch, BatchNotSent};
use super::claim::Claim;
use super::raw::BridgeLaneOwner;
use super::sealed::Rendezvous;
use super::take_lane::take_lane;
use crate::error::described::Known;
use crate::error::{Described, LinkError, NotSent, OpenError, Unacknowledged};
use crate::fork::ForkPage;
use crate::link::{Control, Link};
use crate::message::{Outgoing, Position};
use crate::ring::ending;
use crate::ring::layout::{lane, lane_entry, lock_byte};
use crate::ring::publish::{FrameShape, Producer};
use crate::sync::Ordering;
use crate::uri::topic::trailer_length;
use crate::uri::{Config, UriError};
use crate::wait::{Hint, Sleeper};
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends messages into a channel. Each publisher has its own lane.
///
/// It never overwrites what a reliable subscriber has not read. Without room,
/// [`Publisher::try_publish`] returns [`NotSent::BackPressured`], and [`Publisher::publish`] waits.
/// Sending allocates nothing. It makes a system call in two cases: it waits for room, or it wakes a
/// sleeping subscriber (`wait=park`, or `adaptive` after its spinning time).
///
/// Dropping a publisher closes it in order, also when `?` leaves the function: subscribers get
/// `Closed`, and a journal counts as finished. Where an error must not look like the end, call
/// [`Publisher::close_failed`]. A panic that drops it ends the stream as failed, as that does.
///
/// ```
/// use olivine::{Publisher, Subscriber};
/// let mut subscriber = Subscriber::open("inproc://hello")?;
/// let mut publisher = Publisher::open("inproc://hello")?;
/// publisher.publish(b"first")?;
/// assert_eq!(&*subscriber.receive()?, b"first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Publisher<T: ?Sized = [u8]> {
    pub(super) producer: Producer,
    pub(super) endpoint: Box<Endpoint>,
    typed: PhantomData<fn(&T)>,
}

/// The state that a publisher uses only when it waits.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) attached: Attached,
    config: Config,
    index: usize,
    page: ForkPage,
    pub(super) sleeper: Sleeper,
    /// Whether it still waits for the subscribers that the settings require.
    connecting: bool,
    closed: bool,
    /// The topic of messages that have none.
    pub(super) topic: Option<Box<str>>,
    /// The text that was refused last as a topic, or its beginning.
    refused_topic: Option<Box<str>>,
    /// The length that was refused last.
    refused_length: Option<usize>,
    stall: StallMonitor,
    /// The bridge behind the ring, if the channel is remote.
    pub(super) link: Option<Link>,
    /// The same, if it counts as a subscriber only once it has been connected.
    pub(super) uncounted: Option<Arc<Control>>,
}

/// What subscribers get if a panic drops a publisher.
pub(super) const PANICKED: &str = "its publisher's thread panicked";

/// How a publisher leaves its lane.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending<'a> {
    /// It sends nothing more: the end of the stream.
    Closed,
    /// Its source failed, for this reason.
    Failed(&'a str),
    /// It has sent nothing in a lane that had ended: subscribers get no further end.
    Unused,
    /// Like a dead publisher: the next one continues, and subscribers wait for it.
    Left,
}

/// Counters of one publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherStats {
    /// Times it found no room.
    pub back_pressure_count: u64,
    /// Nanoseconds without room: until room was found, the message was given up after a time-out,
    /// or the publisher closed. A wait that is not over counts up to now. If a message was given
    /// up, and no room is found again before anything is sent, the time between counts, too.
    pub back_pressure_ns: u64,
    /// Parked subscribers it woke.
    pub wakes: u64,
    /// Subscribers it evicted.
    pub evicted: u64,
    /// Dead subscribers it reclaimed.
    pub reclaimed: u64,
}

impl Publisher {
    /// Sends a copy of `message` if there is room. Never waits.
    ///
    /// Returns the position after the message. Every reliable subscriber attached now gets it.
    /// `message` is bytes, or an [`Outgoing`] with a tag and a topic.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing was sent. [`Publisher::describe`] adds the length or topic that was
    /// refused.
    #[inline(always)]
    pub fn try_publish<'m>(
        &mut self,
        message: impl Into<Outgoing<'m>>,
    ) -> Result<Position, NotSent> {
        self.send(message.into())
    }

    /// Sends a copy of `message`, waiting for room by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`; nothing was sent.
    #[inline(always)]
    pub fn publish<'m>(&mut self, message: impl Into<Outgoing<'m>>) -> Result<Position, NotSent> {
        self.send_within(message.into(), None)
    }

    /// As [`Publisher::publish`], but gives up after `timeout`.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    #[inline(always)]
    pub fn publish_timeout<'m>(
        &mut self,
        message: impl Into<Outgoing<'m>>,
        timeout: Duration,
    ) -> Result<Position, NotSent> {
        self.send_within(message.into(), Some(timeout))
    }

    /// Reserves a message, to be filled in place, if there is room. Never waits.
    ///
    /// `room` is its length in bytes, or [`Outgoing::sized`] with a tag and a topic. The first
    /// content of the bytes is unspecified. A claim is invisible until it is committed. A dropped
    /// claim is given up.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing is reserved.
    #[inline(always)]
    pub fn try_claim<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
    ) -> Result<Claim<'_>, NotSent> {
        self.reserve(room.into())
    }

    /// As [`Publisher::try_claim`], waiting for room by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    #[inline(always)]
    pub fn claim<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
    ) -> Result<Claim<'_>, NotSent> {
        self.reserve_within(room.into(), None)
    }

    /// As [`Publisher::claim`], but gives up after `timeout`.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    #[inline(always)]
    pub fn claim_timeout<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
        timeout: Duration,
    ) -> Result<Claim<'_>, NotSent> {
        self.reserve_within(room.into(), Some(timeout))
    }

    /// Sends copies of `messages` in one batch, as many as there is room for. Never waits. Returns
    /// their number: all.
    ///
    /// The messages of a batch become visible together, at the cost of one message.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]: how many were sent, and why not all.
    pub fn try_publish_batch<'m, M: Into<Outgoing<'m>>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(messages.into_iter().map(M::into), Some(Duration::ZERO))
    }

    /// Sends copies of `messages` in batches as large as there is room for, waiting for room by the
    /// wait strategy. Returns their number: all.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]; its reason is never `BackPressured` or `NotConnected`.
    pub fn publish_batch<'m, M: Into<Outgoing<'m>>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(messages.into_iter().map(M::into), None)
    }

    /// As [`Publisher::publish_batch`], but gives up after `timeout`, counted for all messages
    /// together.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    pub fn publish_batch_timeout<'m, M: Into<Outgoing<'m>>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
        timeout: Duration,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(messages.into_iter().map(M::into), Some(timeout))
    }
}

impl<T: ?Sized> Publisher<T> {
    /// Opens a channel whose ring is on this machine: `shm://`, `shm+fd://` or `inproc://`.
    /// `brought` names the bridge that publishes, if one does.
    pub(crate) fn open_as(
        config: &Config,
        typed: &TypeTag,
        brought: Option<BridgeLaneOwner>,
    ) -> Result<Self, OpenError> {
        attach::pin(config)?;
        let page = private_page(config.channel())?;
        let rendezvous = Rendezvous::of(config)?;
        let (attached, (index, mut producer)) =
            attach::open(config, typed, ShapeRole::Fixes, |attached| {
                take_lane(attached, config, &page, brought)
            })?;
        let entry = attached.geometry.lane_entry(index);
        let park = attached.control.resolve(entry + lane_entry::PARK);
        let sleeper = Sleeper::new(park, None, None);
        crate::wait::wake_sleepers(&attached.control, &attached.geometry, Hint::Lowered);
        let link = rendezvous.map(|rendezvous| rendezvous.open(config, &attached, &mut producer));
        let endpoint = Box::new(Endpoint {
            link: link.transpose()?,
            stall: StallMonitor::new(&attached),
            attached,
            config: config.clone(),
            index,
            page,
            sleeper,
            connecting: config.subscribers > 0,
            closed: false,
            topic: None,
            refused_topic: None,
            refused_length: None,
            uncounted: None,
        });
        let mut publisher = Self {
            producer,
            endpoint,
            typed: PhantomData,
        };
        if let Some(topic) = &config.topic {
            publisher.start_topic(topic)?;
        }
        Ok(publisher)
    }

    /// Starts a batch: messages that become visible together, at the cost of one message.
    pub fn batch(&mut self) -> Batch<'_, T> {
        let start = self.producer.position();
        self.producer.begin_batch();
        Batch {
            publisher: self,
            end: start,
            first: (0, 0),
            count: 0,
            last: FrameShape::NONE,
        }
    }

    /// Sets the topic for messages that have none.
    fn start_topic(&mut self, topic: &str) -> Result<(), UriError> {
        if trailer_length(topic) > self.producer.message_max() {
            return Err(UriError::Value {
                key: "topic",
                value: topic.escape_default().to_string(),
                rule: "it leaves no room for a message; make the ring larger by 'capacity='",
            });
        }
        self.endpoint.topic = Some(topic.into());
        // The slow path adds the topic to every message.
        self.producer.take_slow_path();
        Ok(())
    }

    /// The topic of messages that have none (`topic=`); `None` without one.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.endpoint.topic.as_deref()
    }

    /// Counts the reliable subscribers that get a message sent now: living ones, and absent durable
    /// ones: these may return. Tests the lock of each with a system call, and reclaims dead ones.
    ///
    /// The bridge of a remote channel counts as one, that of a `tcp://` publisher that connects
    /// once the far side has been connected.
    #[must_use]
    pub fn count_subscribers(&self) -> usize {
        if !self.endpoint.is_ours() {
            // The locks are the parent's, so this process cannot test them.
            return self.count_gate();
        }
        let (living, _) = wait::count_gating(&self.endpoint.attached);
        wait::counted(living, self.endpoint.uncounted.as_ref())
    }

    /// Subscribers that hold this lane back, dead ones included.
    fn count_gate(&self) -> usize {
        wait::counted(
            self.producer.gate().count(),
            self.endpoint.uncounted.as_ref(),
        )
    }

    /// `error`, of a call of this publisher, with what the publisher knows of it: how many
    /// subscribers are attached, the topic or the length that it refused last, why the link has
    /// failed, what it waits for while no far side is connected, or what closing waited for.
    #[must_use]
    pub fn describe(&self, error: NotSent) -> Described {
        let waits = matches!(error, NotSent::BackPressured | NotSent::NotConnected);
        let link = waits.then(|| self.link_status()).flatten();
        if let Some(why) = link.and_then(|link| link.unreached()) {
            return Described::new(error, Known::Unreached(why.into()));
        }
        let known = match error {
            NotSent::Unacknowledged(_) => self.link_status().map(|link| {
                let failure = self.link_failure();
                let is_of_source = failure.is_some_and(|why| why.of_source().is_some());
                Known::Left {
                    // Otherwise the closer would read its own reason.
                    note: match is_of_source {
                        true => "the reason of the failure was not confirmed".into(),
                        false => link.note.into(),
                    },
                }
            }),
            NotSent::NotConnected => Some(Known::Attached {
                attached: u32::try_from(self.count_gate()).unwrap_or(u32::MAX),
                wanted: self.endpoint.config.subscribers,
            }),
            NotSent::Topic => self.endpoint.refused_topic.clone().map(Known::Topic),
            NotSent::TooLong { .. } => self.endpoint.refused_length.map(Known::Length),
            NotSent::LinkFailed => self.link_failure().map(|why| Known::Link(Box::new(why))),
            _ => None,
        };
        Described::new(error, known.unwrap_or(Known::Nothing))
    }

    /// Position after the last message sent. A publisher to `tcp://`, `nats://` or `file://` with
    /// `name=` goes on behind the program that had the name before: until it sends, this is the
    /// position after that program's last message. 0 if that one has closed with everything
    /// delivered, and its ring is gone (`tcp://`).
    #[must_use]
    #[inline]
    pub fn cursor(&self) -> Position {
        Position(self.producer.position())
    }

    /// Whether the channel's files were removed from their folder while it was open. `rm`,
    /// `olivine rm --force` and systemd-logind remove them: with `RemoveIPC=yes` the latter removes
    /// a user's files in `/dev/shm` at that user's last logout.
    ///
    /// Handles that are open keep working with each other. A program that opens the name now gets
    /// a new channel: close the handle and open it again to join it. Makes one system call.
    #[must_use]
    pub fn check_unlinked(&self) -> bool {
        self.endpoint.is_ours() && is_unlinked(&self.endpoint.attached)
    }

    /// Whether this is a forked child of the process that opened it, and every call that sends is
    /// refused. One load.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        !self.endpoint.is_ours()
    }

    /// Index of this publisher's lane.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.endpoint.index
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.endpoint.attached.geometry.capacity
    }

    /// Longest message in bytes, with the topic that the publisher has now.
    #[must_use]
    pub fn message_max(&self) -> usize {
        self.producer.message_max() - self.carried(0, None)
    }

    /// Counters since this publisher opened its lane. The first three include those of the lane's
    /// earlier publishers.
    #[must_use]
    pub fn stats(&self) -> PublisherStats {
        // Relaxed: counters that only we write.
        let word = |index: usize| self.producer.lane().word(index).load(Ordering::Relaxed);
        PublisherStats {
            back_pressure_count: word(lane::BACK_PRESSURE_COUNT),
            back_pressure_ns: word(lane::BACK_PRESSURE_NS)
                .wrapping_add(self.endpoint.stall.running_ns()),
            wakes: word(lane::WAKES),
            evicted: self.endpoint.stall.evicted,
            reclaimed: self.endpoint.stall.reclaimed,
        }
    }

    /// The canonical URI this publisher was opened with.
    #[must_use]
    pub fn uri(&self) -> String {
        let link = self.endpoint.link.as_ref();
        link.map_or_else(|| self.endpoint.config.uri(), |link| link.uri().to_owned())
    }

    /// Waits up to `linger` for reliable subscribers to read everything, then ends the stream.
    /// Attached subscribers lose nothing in either case.
    ///
    /// For a remote channel (`tcp://`, `nats://`, `file://`) it waits up to `linger` until the far
    /// side has everything. There `linger=0`, the default, waits without bound for a far side that
    /// is connected, and for a full disk: set a `linger` for such channels. An absent far side of
    /// `tcp://` or `nats://` is given up after `expire`, or 30 s if that is never. Dropping waits
    /// as long.
    ///
    /// Over `tcp://` the far side also confirms the end of the stream. If the connection breaks
    /// before it does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by
    /// default, at least 2 s and at most `expire`. A far side that is connected and does not answer
    /// adds one `timeout`: 16 s in all. Then the end counts as received, and closing succeeds.
    /// `linger` bounds all of that. A far side that has left in order, because its bridge was
    /// stopped, is not waited for once it has every message: without `name=` its next bridge ends
    /// the stream as failed.
    ///
    /// A listening publisher to which no far side has connected does not wait: without `name=` its
    /// messages are gone, and closing succeeds.
    ///
    /// A listening publisher without `name=` waits for subscribers with a name that are away and do
    /// not have the end: for their `expire` or its own, whichever is shorter. Its own counts as
    /// 30 s if it is never. Then it returns [`NotSent::Unacknowledged`].
    ///
    /// # Errors
    ///
    /// [`NotSent::BackPressured`] if a subscriber had not read everything after `linger`, and
    /// [`NotSent::Unacknowledged`] if the far side of a remote channel had not acknowledged
    /// everything; the publisher is closed nevertheless. [`NotSent::LinkFailed`] if the link
    /// failed. [`NotSent::Forked`] in a forked child.
    pub fn close(mut self) -> Result<Position, NotSent> {
        self.end(&Ending::Closed)
    }

    /// Ends the stream as failed: after the last message subscribers get
    /// [`ReceiveError::Failed`](crate::ReceiveError::Failed) with `reason` instead of the end of
    /// the stream. Waits as [`Publisher::close`] does.
    ///
    /// `reason` is cut after 480 bytes; a blank one is replaced by "no reason was given". For a
    /// remote channel it succeeds once every far side has confirmed the reason, and a listening
    /// publisher without a far side at once.
    ///
    /// # Errors
    ///
    /// As [`Publisher::close`], but a far side that does not answer does not count as having the
    /// reason once the time is over for which [`Publisher::close`] waits for the end of the stream:
    /// that is [`NotSent::Unacknowledged`], whose text calls the reason the end of the stream.
    pub fn close_failed(mut self, reason: &str) -> Result<Position, NotSent> {
        self.end(&Ending::Failed(reason))
    }

    /// As [`Publisher::close`], or with a reason as [`Publisher::close_failed`]. The error has what
    /// the publisher knows of it, as from [`Publisher::describe`]: why the link has failed.
    ///
    /// # Errors
    ///
    /// As [`Publisher::close`].
    pub fn close_described(mut self, failure: Option<&str>) -> Result<Position, Described> {
        let ended = self.end(&failure.map_or(Ending::Closed, Ending::Failed));
        ended.map_err(|error| self.describe(error))
    }

    pub(super) fn end(&mut self, ending: &Ending<'_>) -> Result<Position, NotSent> {
        let end = self.cursor();
        let started = Instant::now();
        if self.finish_as(ending)? {
            return Ok(end);
        }
        let Some(link) = self.endpoint.link.as_ref().filter(|_| !self.is_local()) else {
            return Err(NotSent::BackPressured);
        };
        let link = link.control().status();
        let config = &self.endpoint.config;
        let waited = started.elapsed();
        let left = Unacknowledged::new(link.undelivered, link.abandoned, waited, config);
        Err(NotSent::Unacknowledged(left))
    }

    /// Whether the subscribers read this ring, and no bridge carries it to them.
    fn is_local(&self) -> bool {
        self.endpoint.link.is_none() || self.producer.pages().is_some()
    }

    pub(super) fn finish_as(&mut self, ending: &Ending<'_>) -> Result<bool, NotSent> {
        if self.endpoint.closed {
            return Ok(true);
        }
        let linger = self.endpoint.config.linger;
        if !self.endpoint.page.is_ours() {
            if let Some(link) = self.endpoint.link.take() {
                link.forget();
            }
            return Err(NotSent::Forked);
        }
        // A bridge waits for `linger` itself, once no message can follow.
        let is_local = self.is_local();
        let had_failed = self.endpoint.link_has_failed();
        // The stream ends in any case, with its reason: the error of this wait is returned last.
        let drained = match !is_local || linger.is_zero() {
            true => Ok(true),
            false => self.wait_drained(Some(linger)),
        };
        self.endpoint.closed = true;
        self.endpoint.stall.stall_ended(&self.producer);
        self.producer.shut();
        let attached = &mut self.endpoint.attached;
        let index = self.endpoint.index;
        let (lane, end) = (self.producer.lane(), self.producer.position());
        match ending {
            Ending::Closed => ending::close(lane, end, None),
            Ending::Failed(reason) => ending::close(lane, end, Some(reason)),
            Ending::Unused => ending::close_unused(lane),
            Ending::Left => {}
        }
        // Before the wait for the membership lock. These wake-ups are not counted: the lane's
        // counters count those for messages.
        self.producer.wake_all(Hint::Lowered);
        attached.leave(|attached| attached.locks.unlock(lock_byte::LANE + index as u64));
        if let Some(mut link) = self.endpoint.link.take() {
            let delivered = link.finish(linger);
            let failure = link.control().failure();
            self.endpoint.link = Some(link);
            if had_failed || failure.is_some_and(|why| !is_own_failure(&why, ending, index)) {
                return Err(NotSent::LinkFailed);
            }
            return if is_local { drained } else { Ok(delivered) };
        }
        drained
    }
}

/// Whether a bridge failed because it carried this ending of the lane `index` to the far side.
fn is_own_failure(failure: &LinkError, ending: &Ending<'_>, index: usize) -> bool {
    match (failure.of_source(), ending) {
        (Some(LinkError::Upstream { lane, reason }), Ending::Failed(given)) => {
            *lane == index && *reason == ending::kept(given)
        }
        _ => false,
    }
}

impl<T: ?Sized> Drop for Publisher<T> {
    fn drop(&mut self) {
        // The stream of a thread that panics is not complete.
        let ending = if std::thread::panicking() {
            Ending::Failed(PANICKED)
        } else {
            Ending::Closed
        };
        // In a forked child this error is intended: the lane is the parent's.
        let _ = self.finish_as(&ending);
    }
}

impl<T: ?Sized> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("uri", &self.uri())
            .field("lane", &self.lane())
            .field("cursor", &self.cursor())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Whether this is still the process that opened the publisher.
    pub(super) fn is_ours(&self) -> bool {
        self.page.is_ours()
    }

    /// Whether the bridge behind the ring failed. Checked only before a scan of the gate.
    fn link_has_failed(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.control().has_failed())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
