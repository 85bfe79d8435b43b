//! Streaming at full speed: one publisher, one subscriber, every byte of every message checked.
//!
//! Measures: from the first claim to the last check, in two processes; before and after each slice,
//! a bare stream of the same messages in a ring of the same size. Does not measure: latency (the
//! ring is full most of the time, so a message's age is the ring's length) or what a program does
//! with a message.

use super::pair::Pair;
use super::registry::Scenario;
use super::turns::{Subject, measure};
use super::{Found, Session, Setup, Variant, Watch};
use crate::channel::TemporaryChannel;
use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::floor::{copy_bytes_per_s, nanos};
use crate::method::{self, Batches, WAIT_MAX};
use crate::payload::{self, Stamp};
use crate::peer::{Order, Peer, Role};
use crate::result::{Figures, Load};
use olivine::{Batch, NotSent, OpenError, Publisher};
use std::ops::Range;

/// Time of one slice of streaming, in nanoseconds.
pub(super) const SLICE_NS: f64 = 10e6;
/// Time of the bare stream before it, and again after it, in nanoseconds.
const BARE_NS: f64 = 3e6;
/// Messages that determine how many fit a slice.
const FIRST_COUNT: u64 = 200;
/// Bytes of the warm-up, where they fit a slice.
const WARM_UP_BYTES: u64 = 16 << 20;
/// This library with its fastest settings, besides the methods of the harness.
pub const OWN: &str = "olivine-shm";
/// Most messages in a slice.
const COUNT_MAX: u64 = 1 << 26;
/// Largest batch that is offered, in messages.
pub const BATCH_MAX: usize = 1024;
/// A message of this size or more is compared with a copy of it, in bytes.
pub const COPY_COMPARED_FROM: usize = 1024;

/// One publisher to one subscriber at full speed.
pub const SCENARIO: Scenario = Scenario {
    name: "throughput",
    about: "messages and bytes per second at full speed, one publisher, one subscriber",
    heading: "Full speed, one publisher, one subscriber, nothing lost",
    load: Load::Saturated,
    keys: &["method", "batch", "wait", "capacity"],
    in_harness: false,
    run,
};

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`](crate::error::BenchError); no figure is reported if any message was wrong.
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<BesideBare>(setup, variants, watch)
}

/// One channel, open on both sides.
pub(super) struct Stream {
    way: Way,
    size: usize,
    batch: usize,
    sequence: u64,
    /// Messages of a slice.
    count: u64,
}

/// The transport of the messages.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Way {
    /// A channel of this library, filled by the fastest call.
    Channel {
        publisher: Publisher,
        _channel: TemporaryChannel,
    },
    /// Any method, through its end.
    Pair(Pair),
}

impl Way {
    pub(super) fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let settings = &variant.parameters.settings;
        let peer = &mut session.peer;
        if variant.method != OWN {
            let method = method::find(session.setup.methods, &variant.method)?;
            method::check_stream(method, variant.parameters.batch_count)?;
            return Pair::open(method, peer, variant.size(), settings).map(Self::Pair);
        }
        let channel = TemporaryChannel::new("bench", 0, settings).map_err(OpenError::from)?;
        peer.run(&Order::Open {
            there: channel.uri(),
        })?;
        Ok(Self::Channel {
            publisher: Publisher::open(&channel.uri())?,
            _channel: channel,
        })
    }
}

/// A stream with the bare one beside it.
struct BesideBare {
    stream: Stream,
    bare: Stream,
}

impl Subject for BesideBare {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(_variant: &Variant) -> f64 {
        (SLICE_NS + 2.0 * BARE_NS) * 1.3
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let stream = Stream::open(session, variant)?;
        let (peer, size) = (&mut session.peer, variant.size());
        // A frame and two headers fit.
        let ring = stream.ring_bytes().max((size + 24).next_power_of_two());
        let ring = format!("capacity={ring}");
        let pair = Pair::open_as(Role::Bare, method::BARE, peer, size, &ring)?;
        let bare = Stream::over(session, Way::Pair(pair), variant, BARE_NS)?;
        Ok(Self { stream, bare })
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Figures> {
        let before = self.bare.rate(peer, clock)?;
        let figures = self.stream.slice(peer, clock)?;
        let bare = f64::midpoint(before, self.bare.rate(peer, clock)?);
        Ok(figures.with("bare_messages_per_s", bare))
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        self.stream.close(peer)
    }
}

impl Subject for Stream {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.3
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let way = Way::open(session, variant)?;
        Self::over(session, way, variant, SLICE_NS)
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Figures> {
        let figures = Figures::rate(self.rate(peer, clock)?);
        if self.size < COPY_COMPARED_FROM {
            return Ok(figures);
        }
        let copy = copy_bytes_per_s(clock, self.size, self.ring_bytes());
        Ok(figures.with("copy_bytes_per_s", copy))
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}

impl Stream {
    /// Streams the messages of a slice; returns how many a second.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn rate(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<f64> {
        let elapsed = self.send(peer, self.count)?.checked();
        Ok(self.count as f64 / nanos(clock, elapsed) * 1e9)
    }

    /// Warms up over what is open on both sides, for slices of `slice_ns`.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(super) fn over(
        session: &mut Session<'_>,
        way: Way,
        variant: &Variant,
        slice_ns: f64,
    ) -> Result<Self> {
        let batch = usize::try_from(variant.parameters.batch_count).unwrap_or(BATCH_MAX);
        let mut stream = Self {
            way,
            size: variant.size(),
            batch: batch.min(BATCH_MAX),
            sequence: 0,
            count: FIRST_COUNT,
        };
        let warm_up = (WARM_UP_BYTES / variant.parameters.size_bytes.max(1)).max(1);
        // The first few determine how many fit a slice; then enough for the warm-up.
        for most in [warm_up, COUNT_MAX] {
            let sent = stream.send(&mut session.peer, stream.count)?;
            let each_ns = nanos(&session.clock, sent.checked()) / stream.count as f64;
            stream.count = super::rounds_in(slice_ns, each_ns, most);
        }
        Ok(stream)
    }
}

/// When streamed messages had come how far, in ticks.
pub(super) struct Sent {
    start: u64,
    handed_over: u64,
    checked: u64,
}

impl Sent {
    /// Ticks until the last call that sends has returned.
    pub(super) fn handed_over(&self) -> u64 {
        self.handed_over.saturating_sub(self.start)
    }

    /// Ticks until the other side has checked the last message.
    fn checked(&self) -> u64 {
        self.checked.saturating_sub(self.start)
    }
}

impl Stream {
    /// Memory that a copy walks through for comparison.
    fn ring_bytes(&self) -> usize {
        let bytes = match &self.way {
            Way::Channel { publisher, .. } => publisher.capacity(),
            Way::Pair(_) => super::floor::COPY_RING_BYTES as u64,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX).max(self.size)
    }

    /// Streams `count` messages.
    pub(super) fn send(&mut self, peer: &mut Peer, count: u64) -> Result<Sent> {
        let first = self.sequence;
        let start = match &mut self.way {
            Way::Pair(pair) => {
                let role = pair.role;
                peer.begin(&Order::Take { role, first, count })?;
                let mut deadline = peer.deadline_of(WAIT_MAX);
                let batches = Batches {
                    first,
                    count,
                    batch: self.batch,
                };
                let prepared = pair.driver.prepare(batches);
                let start = TickClock::ticks();
                let streamed = prepared.and_then(|()| pair.driver.stream(batches, &mut deadline));
                streamed.map_err(|error| peer.or_its_reason(error))?;
                start
            }
            Way::Channel { publisher, .. } => {
                peer.begin(&Order::Consume {
                    size_bytes: self.size,
                    first,
                    count,
                    timed: false,
                })?;
                let start = TickClock::ticks();
                fill_channel(publisher, peer, self.size, self.batch, first, count)?;
                start
            }
        };
        let handed_over = TickClock::ticks();
        self.sequence += count;
        let (checked, _) = peer.end()?;
        Ok(Sent {
            start,
            handed_over,
            checked,
        })
    }
}

/// Sends messages through a channel by the call that fits their size and batch.
fn fill_channel(
    publisher: &mut Publisher,
    peer: &mut Peer,
    size: usize,
    batch: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    let deadline = &mut peer.deadline();
    match (batch, size) {
        (1, 16) => offered::<16>(publisher, deadline, first, count),
        (1, 32) => offered::<32>(publisher, deadline, first, count),
        (1, 64) => offered::<64>(publisher, deadline, first, count),
        (1, size) => claimed(publisher, deadline, size, first, count),
        // For a known size, a message is built in registers and copied from there.
        (batch, 16) => batched::<16>(publisher, deadline, batch, first, count),
        (batch, 32) => batched::<32>(publisher, deadline, batch, first, count),
        (batch, 64) => batched::<64>(publisher, deadline, batch, first, count),
        (batch, size) => staged(publisher, deadline, size, batch, first, count),
    }
}

/// A message of a size that the compiler knows.
#[inline(always)]
fn build<const SIZE: usize>(sequence: u64) -> [u8; SIZE] {
    payload::build(Stamp { sequence, ticks: 0 })
}

/// Sends messages of a size that the compiler knows, one by one.
#[inline(never)]
fn offered<const SIZE: usize>(
    publisher: &mut Publisher,
    deadline: &mut Deadline<'_>,
    first: u64,
    count: u64,
) -> Result<()> {
    for sequence in first..first + count {
        while let Err(error) = publisher.try_publish(&build::<SIZE>(sequence)) {
            deadline.wait_for_room(publisher, SIZE, error)?;
        }
    }
    Ok(())
}

/// Sends messages of any size, one by one, written in place.
#[inline(never)]
fn claimed(
    publisher: &mut Publisher,
    deadline: &mut Deadline<'_>,
    size: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    for sequence in first..first + count {
        loop {
            match publisher.try_claim(size) {
                Ok(mut claim) => {
                    payload::fill(&mut claim, Stamp { sequence, ticks: 0 });
                    claim.commit();
                    break;
                }
                Err(error) => deadline.wait_for_room(publisher, size, error)?,
            }
        }
    }
    Ok(())
}

/// Sends batches of messages of a size that the compiler knows.
#[inline(never)]
fn batched<const SIZE: usize>(
    publisher: &mut Publisher,
    deadline: &mut Deadline<'_>,
    batch: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    let mut next = first;
    while next != first + count {
        let end = (first + count).min(next + batch as u64);
        next = push_batch(publisher, deadline, SIZE, next..end, |batch, n| {
            batch.push(&build::<SIZE>(n))
        })?;
    }
    Ok(())
}

/// Sends batches of messages of any size: a whole batch is written first and then copied, so that
/// no load waits for stores just before it.
#[inline(never)]
fn staged(
    publisher: &mut Publisher,
    deadline: &mut Deadline<'_>,
    size: usize,
    batch: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    let mut stage = vec![0; size * batch];
    let mut next = first;
    while next != first + count {
        let base = next;
        let end = (first + count).min(base + batch as u64);
        for (message, sequence) in stage.chunks_exact_mut(size).zip(base..end) {
            payload::fill(message, Stamp { sequence, ticks: 0 });
        }
        next = push_batch(publisher, deadline, size, base..end, |batch, sequence| {
            let at = usize::try_from(sequence - base).unwrap_or(0) * size;
            batch.push(&stage[at..at + size])
        })?;
    }
    Ok(())
}

/// Publishes `numbers` as one batch, or as several if the ring has no room for all; returns their
/// end.
#[inline(always)]
fn push_batch(
    publisher: &mut Publisher,
    deadline: &mut Deadline<'_>,
    size: usize,
    numbers: Range<u64>,
    mut push: impl FnMut(&mut Batch<'_>, u64) -> std::result::Result<(), NotSent>,
) -> Result<u64> {
    let mut next = numbers.start;
    loop {
        let mut batch = publisher.batch();
        let mut refused = None;
        while next != numbers.end && refused.is_none() {
            match push(&mut batch, next) {
                Ok(()) => next += 1,
                Err(error) => refused = Some(error),
            }
        }
        batch.commit();
        match refused {
            Some(error) => deadline.wait_for_room(publisher, size, error)?,
            None => return Ok(next),
        }
    }
}
