//! Streaming at full speed: one publisher, one subscriber, every byte of every message checked.
//!
//! Measures: from the first claim to the last check, in two processes. Does not measure: latency (the ring is
//! full most of the time, so a message's age is the ring's length) or what a program does with a message.

use super::turns::{Subject, Taken, measure};
use super::{Session, Setup, Variant, Watch};
use crate::channel::TemporaryChannel;
use crate::error::Result;
use crate::floor::{copy_bytes_per_s, nanos};
use crate::payload::{self, Stamp};
use crate::peer::{Order, Patience, Peer};
use crate::result::{Load, Parameters, Row};
use olivine::clock::TickClock;
use olivine::{Batch, NotSent, OpenError, Publisher};
use std::ops::Range;

/// Time of one slice of streaming, in nanoseconds.
const SLICE_NS: f64 = 30e6;
/// Messages of the warm-up, which also tell how many fit a slice.
const WARM_UP_BYTES: u64 = 16 << 20;
/// Most messages in a slice.
const COUNT_MAX: u64 = 1 << 26;
/// Largest batch that is offered, in messages.
pub const BATCH_MAX: usize = 1024;
/// A message of this size or more is compared with a copy of it, in bytes.
pub const COPY_COMPARED_FROM: usize = 1024;

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`]; no figure is reported if any message was wrong.
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Vec<Row>> {
    measure::<Stream>(setup, variants, watch)
}

/// One channel, open on both sides.
struct Stream {
    publisher: Publisher,
    size: usize,
    batch: usize,
    sequence: u64,
    /// Messages of a slice.
    count: u64,
    _channel: TemporaryChannel,
}

impl Subject for Stream {
    const SCENARIO: &'static str = "throughput";
    const LOAD: Load = Load::Saturated;

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.3
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let Parameters {
            settings,
            batch_count,
            ..
        } = &variant.parameters;
        let (clock, peer) = (&session.clock, &mut session.peer);
        let channel = TemporaryChannel::new("bench", 0, settings).map_err(OpenError::from)?;
        peer.run(&Order::Open {
            there: channel.uri(),
        })?;
        let publisher = Publisher::open(&channel.uri())?;
        let mut stream = Self {
            publisher,
            size: variant.size(),
            batch: usize::try_from(*batch_count).unwrap_or(BATCH_MAX),
            sequence: 0,
            count: 0,
            _channel: channel,
        };
        let warm_up = (WARM_UP_BYTES / variant.parameters.size_bytes).max(1);
        let each_ns = nanos(clock, stream.send(peer, warm_up)?) / warm_up as f64;
        stream.count = super::rounds_in(SLICE_NS, each_ns, COUNT_MAX);
        Ok(stream)
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Taken> {
        let elapsed = self.send(peer, self.count)?;
        let compared = self.size >= COPY_COMPARED_FROM;
        Ok(Taken::Rate {
            messages_per_s: self.count as f64 / nanos(clock, elapsed) * 1e9,
            copy_bytes_per_s: compared
                .then(|| copy_bytes_per_s(clock, self.size, self.ring_bytes())),
        })
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}

impl Stream {
    fn ring_bytes(&self) -> usize {
        usize::try_from(self.publisher.capacity()).unwrap_or(usize::MAX)
    }

    /// Streams `count` messages; returns the ticks from the first claim to the other side's last check.
    fn send(&mut self, peer: &mut Peer, count: u64) -> Result<u64> {
        let first = self.sequence;
        peer.begin(&Order::Consume {
            first,
            count,
            timed: false,
        })?;
        let mut patience = peer.patience();
        let start = TickClock::ticks();
        match (self.batch, self.size) {
            (1, 16) => offered::<16>(&mut self.publisher, &mut patience, first, count)?,
            (1, 32) => offered::<32>(&mut self.publisher, &mut patience, first, count)?,
            (1, 64) => offered::<64>(&mut self.publisher, &mut patience, first, count)?,
            (1, size) => claimed(&mut self.publisher, &mut patience, size, first, count)?,
            // Where the size is known, a message is built in registers and copied from there.
            (batch, 16) => batched::<16>(&mut self.publisher, &mut patience, batch, first, count)?,
            (batch, 32) => batched::<32>(&mut self.publisher, &mut patience, batch, first, count)?,
            (batch, 64) => batched::<64>(&mut self.publisher, &mut patience, batch, first, count)?,
            (batch, size) => staged(
                &mut self.publisher,
                &mut patience,
                size,
                batch,
                first,
                count,
            )?,
        }
        self.sequence += count;
        let (end, _) = peer.end()?;
        Ok(end.saturating_sub(start))
    }
}

/// A message of a size that the compiler knows, built in registers.
#[inline(always)]
fn build<const SIZE: usize>(sequence: u64) -> [u8; SIZE] {
    let mut message = [0; SIZE];
    payload::fill(&mut message, Stamp { sequence, ticks: 0 });
    message
}

/// Sends messages of a size that the compiler knows, one by one.
#[inline(never)]
fn offered<const SIZE: usize>(
    publisher: &mut Publisher,
    patience: &mut Patience<'_>,
    first: u64,
    count: u64,
) -> Result<()> {
    for sequence in first..first + count {
        while let Err(error) = publisher.offer(&build::<SIZE>(sequence)) {
            patience.wait_for_room(publisher, SIZE, error)?;
        }
    }
    Ok(())
}

/// Sends messages of any size, one by one, written in place.
#[inline(never)]
fn claimed(
    publisher: &mut Publisher,
    patience: &mut Patience<'_>,
    size: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    for sequence in first..first + count {
        loop {
            match publisher.claim(size) {
                Ok(mut claim) => {
                    payload::fill(&mut claim, Stamp { sequence, ticks: 0 });
                    claim.commit();
                    break;
                }
                Err(error) => patience.wait_for_room(publisher, size, error)?,
            }
        }
    }
    Ok(())
}

/// Sends batches of messages of a size that the compiler knows.
#[inline(never)]
fn batched<const SIZE: usize>(
    publisher: &mut Publisher,
    patience: &mut Patience<'_>,
    batch: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    let mut next = first;
    while next != first + count {
        let end = (first + count).min(next + batch as u64);
        next = push_batch(publisher, patience, SIZE, next..end, |batch, n| {
            batch.push(&build::<SIZE>(n))
        })?;
    }
    Ok(())
}

/// Sends batches of messages of any size: a whole batch is written first and copied after, so that no load
/// has to wait for the stores just before it.
#[inline(never)]
fn staged(
    publisher: &mut Publisher,
    patience: &mut Patience<'_>,
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
        next = push_batch(publisher, patience, size, base..end, |batch, sequence| {
            let at = usize::try_from(sequence - base).unwrap_or(0) * size;
            batch.push(&stage[at..at + size])
        })?;
    }
    Ok(())
}

/// Publishes `numbers` as one batch, or as several where the ring has no room for all; returns their end.
#[inline(always)]
fn push_batch(
    publisher: &mut Publisher,
    patience: &mut Patience<'_>,
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
            Some(error) => patience.wait_for_room(publisher, size, error)?,
            None => return Ok(next),
        }
    }
}
