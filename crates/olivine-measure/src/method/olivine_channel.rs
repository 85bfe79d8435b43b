//! One end of a channel of this library, by the calls that are the fastest for a size and a batch:
//! what a program does that sends at full speed. The settings are the URI, as [`Channel`] reads it.
//!
//! The client publishes, the server subscribes. The coordinator opens the subscribers first, so the
//! ends need not meet.

use super::{Driven, Driver, Method, Rendezvous, Side};
use crate::channel::{Channel, Looks, POLL_LIMIT, WAIT_STEP, await_room};
use crate::clock::TickClock;
use crate::payload::{self, Stamp};
use crate::worst::Late;
use olivine::{Batch, Config, NotSent, Outgoing, Publisher, ReceiveError, Subscriber};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::harness::{done_now, send_paced};
use olivine_arena::protocol::{Batches, Done, Work};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Its name, in orders only.
pub const CHANNEL: &str = "olivine-channel";
/// How long a publisher waits for a subscriber.
const JOIN_MAX: Duration = Duration::from_secs(10);

pub(super) const END: Method = Method::new(CHANNEL, "one end of a channel", "", open).batching();

fn open(side: Side, _rendezvous: &mut Rendezvous, size: usize, uri: &str) -> Driven {
    let channel = Channel::parse(uri).map_err(ArenaError::method)?;
    let looks = channel.looks;
    if side == Side::Server {
        let config = channel.subscriber;
        let subscriber = Subscriber::open_with(&config).map_err(ArenaError::method)?;
        return Ok(Box::new(Receiving {
            config,
            subscriber,
            size,
            looks: Looks::new(looks),
            receives: channel.receives,
            late: None,
        }));
    }
    let mut publisher = Publisher::open_with(&channel.publisher).map_err(ArenaError::method)?;
    let joined = publisher.wait_for_subscribers(1, Some(JOIN_MAX));
    if !joined.map_err(ArenaError::method)? {
        return Err(ArenaError::Protocol {
            found: "no subscriber joined the channel".to_owned(),
        });
    }
    Ok(Box::new(Sending {
        publisher,
        size,
        looks,
        topics: channel.topics,
    }))
}

/// The error of work that the other end does.
fn one_way() -> ArenaError {
    ArenaError::Protocol {
        found: "work of the other end of a channel".to_owned(),
    }
}

/// The end that publishes.
struct Sending {
    publisher: Publisher,
    size: usize,
    /// How often it looks for room before it sleeps.
    looks: u32,
    /// Topics that messages have in turns, by their numbers.
    topics: Vec<String>,
}

impl Sending {
    /// Its stream, with the number of this publisher.
    fn line(&mut self, own: u64) -> Line<'_> {
        Line {
            publisher: &mut self.publisher,
            own,
            looks: self.looks,
            topics: &self.topics,
        }
    }
}

impl Driver for Sending {
    fn run(&mut self, work: &Work, samples: &mut Vec<u64>) -> Result<Done> {
        let size = self.size;
        match *work {
            Work::Stream(Batches {
                first,
                count,
                batch,
                own,
            }) => {
                let numbers = first..first + count;
                self.line(own).fill(size, batch, numbers)?;
            }
            Work::Pace(ref paced) => {
                let mut line = self.line(0);
                send_paced(paced, samples, |stamp| line.claim(size, stamp))?;
            }
            _ => return Err(one_way()),
        }
        Ok(done_now())
    }
}

/// Publishes one message of `size` bytes, and waits for room.
///
/// # Errors
///
/// No room for the `longest` wait; those of [`Publisher::try_claim`].
pub fn publish(
    publisher: &mut Publisher,
    size: usize,
    stamp: Stamp,
    longest: Option<Duration>,
) -> Result<()> {
    loop {
        match publisher.try_claim(size) {
            Ok(mut claim) => {
                payload::fill(&mut claim, stamp);
                claim.commit();
                return Ok(());
            }
            Err(error) => await_room(publisher, size, error, longest, 0)?,
        }
    }
}

/// The topic of a message; none if there are no topics.
#[inline(always)]
fn topic_of(topics: &[String], sequence: u64) -> Option<&str> {
    let at = sequence.checked_rem(topics.len() as u64)?;
    topics.get(usize::try_from(at).ok()?).map(String::as_str)
}

/// A publisher that streams.
pub(super) struct Line<'l> {
    pub(super) publisher: &'l mut Publisher,
    /// Its number, in place of the time of each message.
    pub(super) own: u64,
    pub(super) looks: u32,
    pub(super) topics: &'l [String],
}

impl Line<'_> {
    /// Sends messages by the call that fits their size and batch.
    pub(super) fn fill(&mut self, size: usize, batch: usize, numbers: Range<u64>) -> Result<()> {
        match (batch, size) {
            (1, size) if !self.topics.is_empty() => self.claimed(size, numbers),
            (batch, size) if !self.topics.is_empty() => self.staged(size, batch, numbers),
            (1, 16) => self.offered::<16>(numbers),
            (1, 32) => self.offered::<32>(numbers),
            (1, 64) => self.offered::<64>(numbers),
            (1, size) => self.claimed(size, numbers),
            // For a known size, a message is built in registers and copied from there.
            (batch, 16) => self.batched::<16>(batch, numbers),
            (batch, 32) => self.batched::<32>(batch, numbers),
            (batch, 64) => self.batched::<64>(batch, numbers),
            (batch, size) => self.staged(size, batch, numbers),
        }
    }

    /// Waits for room for a message of `size` bytes, after a refusal with `error`.
    fn await_room(&mut self, size: usize, error: NotSent) -> Result<()> {
        await_room(self.publisher, size, error, None, self.looks)
    }

    /// Sends one message of any size, written in place.
    #[inline(always)]
    fn claim(&mut self, size: usize, stamp: Stamp) -> Result<()> {
        loop {
            let claimed = match topic_of(self.topics, stamp.sequence) {
                Some(topic) => self.publisher.try_claim(Outgoing::sized(size).topic(topic)),
                None => self.publisher.try_claim(size),
            };
            match claimed {
                Ok(mut claim) => {
                    payload::fill(&mut claim, stamp);
                    claim.commit();
                    return Ok(());
                }
                Err(error) => self.await_room(size, error)?,
            }
        }
    }

    fn stamp(&self, sequence: u64) -> Stamp {
        Stamp {
            sequence,
            ticks: self.own,
        }
    }

    /// Sends messages of a size that the compiler knows, one by one.
    #[inline(never)]
    fn offered<const SIZE: usize>(&mut self, numbers: Range<u64>) -> Result<()> {
        for sequence in numbers {
            let stamp = self.stamp(sequence);
            while let Err(error) = self.publisher.try_publish(&payload::build::<SIZE>(stamp)) {
                self.await_room(SIZE, error)?;
            }
        }
        Ok(())
    }

    /// Sends messages of any size, one by one, written in place.
    #[inline(never)]
    fn claimed(&mut self, size: usize, numbers: Range<u64>) -> Result<()> {
        for sequence in numbers {
            let stamp = self.stamp(sequence);
            self.claim(size, stamp)?;
        }
        Ok(())
    }

    /// Sends batches of messages of a size that the compiler knows.
    #[inline(never)]
    fn batched<const SIZE: usize>(&mut self, batch: usize, numbers: Range<u64>) -> Result<()> {
        let own = self.own;
        let mut next = numbers.start;
        while next != numbers.end {
            let end = numbers.end.min(next + batch as u64);
            next = self.push_batch(SIZE, next..end, |batch, sequence| {
                batch.push(&payload::build::<SIZE>(Stamp {
                    sequence,
                    ticks: own,
                }))
            })?;
        }
        Ok(())
    }

    /// Sends batches of messages of any size: a whole batch is written first and then copied, so
    /// that no load waits for stores just before it.
    #[inline(never)]
    fn staged(&mut self, size: usize, batch: usize, numbers: Range<u64>) -> Result<()> {
        let mut stage = vec![0; size * batch];
        let topics = self.topics;
        let mut next = numbers.start;
        while next != numbers.end {
            let base = next;
            let end = numbers.end.min(base + batch as u64);
            for (message, sequence) in stage.chunks_exact_mut(size).zip(base..end) {
                payload::fill(message, self.stamp(sequence));
            }
            next = self.push_batch(size, base..end, |batch, sequence| {
                let at = usize::try_from(sequence - base).unwrap_or(0) * size;
                let message = Outgoing::new(&stage[at..at + size]);
                batch.push(match topic_of(topics, sequence) {
                    Some(topic) => message.topic(topic),
                    None => message,
                })
            })?;
        }
        Ok(())
    }

    /// Publishes `numbers` as one batch, or as several if the ring has no room for all; returns
    /// their end.
    #[inline(always)]
    fn push_batch(
        &mut self,
        size: usize,
        numbers: Range<u64>,
        mut push: impl FnMut(&mut Batch<'_>, u64) -> std::result::Result<(), NotSent>,
    ) -> Result<u64> {
        let mut next = numbers.start;
        loop {
            let mut batch = self.publisher.batch();
            let mut refused = None;
            while next != numbers.end && refused.is_none() {
                match push(&mut batch, next) {
                    Ok(()) => next += 1,
                    Err(error) => refused = Some(error),
                }
            }
            batch.commit();
            match refused {
                Some(error) => self.await_room(size, error)?,
                None => return Ok(next),
            }
        }
    }
}

/// The end that subscribes.
struct Receiving {
    config: Config,
    subscriber: Subscriber,
    size: usize,
    looks: Looks,
    /// Takes one message at a call from a stream.
    receives: bool,
    /// Keeps the worst messages, once they were asked for.
    late: Option<Late>,
}

impl Driver for Receiving {
    fn prepare(&mut self, work: &Work) -> Result<()> {
        match (work, &mut self.late) {
            (Work::Hear { worst: 0, .. }, _) => {}
            (Work::Hear { .. }, Some(late)) => late.begin(),
            // A stop of this process would end the measurement, so it is not noted.
            (Work::Hear { worst, .. }, late) => {
                *late = Some(Late::new(*worst, Arc::default(), &self.config));
            }
            _ => {}
        }
        Ok(())
    }

    fn run(&mut self, work: &Work, samples: &mut Vec<u64>) -> Result<Done> {
        let size = self.size;
        let done = match *work {
            Work::Take {
                first,
                count,
                publishers: 1,
            } => {
                let check = |message: &[u8]| payload::check_whole(message, size);
                // Separate loops, in which nothing else needs a register.
                match (self.receives, size == payload::COMMON) {
                    (false, _) => {
                        take_stream(&mut self.subscriber, &mut self.looks, size, first, count)?;
                    }
                    (true, true) => self.receive_each(first, count, payload::check_common)?,
                    (true, false) => self.receive_each(first, count, check)?,
                }
                done_now()
            }
            Work::Take {
                first,
                count,
                publishers,
            } => {
                let ends_ticks = self.gather(publishers, first, count)?;
                Done {
                    ends_ticks,
                    ..done_now()
                }
            }
            Work::Hear {
                first,
                count,
                worst,
            } => {
                samples.reserve(usize::try_from(count).unwrap_or(0));
                if worst > 0 {
                    return self.explain(first, count, samples);
                }
                let check = |message: &[u8]| payload::check_whole(message, size);
                let (subscriber, looks) = (&mut self.subscriber, &mut self.looks);
                take(subscriber, looks, first, count, check, |stamp| {
                    samples.push(TickClock::ticks().wrapping_sub(stamp.ticks));
                })?;
                done_now()
            }
            _ => return Err(one_way()),
        };
        self.subscriber.release();
        Ok(done)
    }
}

/// Checks `count` streamed messages of `size` bytes in order.
pub(super) fn take_stream(
    subscriber: &mut Subscriber,
    looks: &mut Looks,
    size: usize,
    first: u64,
    count: u64,
) -> Result<()> {
    // Separate loops, in which nothing else needs a register.
    if size == payload::COMMON {
        return take(
            subscriber,
            looks,
            first,
            count,
            payload::check_common,
            |_| (),
        );
    }
    let check = |message: &[u8]| payload::check_whole(message, size);
    take(subscriber, looks, first, count, check, |_| ())
}

/// Fails if polling failed or a message was `wrong`, and waits if nothing was taken.
#[inline(always)]
fn after_poll(
    subscriber: &mut Subscriber,
    looks: &mut Looks,
    taken: std::result::Result<usize, ReceiveError>,
    wrong: Option<u64>,
) -> Result<()> {
    let taken = taken.map_err(ArenaError::method)?;
    if let Some(sequence) = wrong {
        return Err(ArenaError::Wrong { sequence });
    }
    if taken > 0 {
        looks.found();
    } else if !looks.again() {
        subscriber.wait(WAIT_STEP).map_err(ArenaError::method)?;
    }
    Ok(())
}

/// Checks `count` messages in order by `check`, and notes each stamp.
#[inline(always)]
fn take(
    subscriber: &mut Subscriber,
    looks: &mut Looks,
    first: u64,
    count: u64,
    check: impl Fn(&[u8]) -> Option<Stamp>,
    mut note: impl FnMut(Stamp),
) -> Result<()> {
    let mut next = first;
    let end = first + count;
    let mut wrong = None;
    while next != end {
        let room = usize::try_from(end - next)
            .unwrap_or(usize::MAX)
            .min(POLL_LIMIT);
        let taken = subscriber.poll(
            |message| {
                match check(&message) {
                    Some(stamp) if stamp.sequence == next => note(stamp),
                    _ => wrong = wrong.or(Some(next)),
                }
                next += 1;
            },
            room,
        );
        after_poll(subscriber, looks, taken, wrong)?;
    }
    Ok(())
}

impl Receiving {
    /// Checks `count` messages in order by `check`, each received by a call.
    #[inline(always)]
    fn receive_each(
        &mut self,
        first: u64,
        count: u64,
        check: impl Fn(&[u8]) -> Option<Stamp>,
    ) -> Result<()> {
        for sequence in first..first + count {
            let message = self.subscriber.receive().map_err(ArenaError::method)?;
            let found = check(&message);
            if found.is_none_or(|stamp| stamp.sequence != sequence) {
                return Err(ArenaError::Wrong { sequence });
            }
        }
        Ok(())
    }

    /// Checks `count` messages in order, and says why the worst were late.
    fn explain(&mut self, first: u64, count: u64, samples: &mut Vec<u64>) -> Result<Done> {
        let Self {
            subscriber,
            size,
            looks,
            late,
            ..
        } = self;
        let Some(late) = late else {
            return Err(ArenaError::Protocol {
                found: "work that was not prepared".to_owned(),
            });
        };
        let mut next = first;
        let end = first + count;
        let mut wrong = None;
        while next != end {
            let room = usize::try_from(end - next)
                .unwrap_or(usize::MAX)
                .min(POLL_LIMIT);
            let begun = TickClock::ticks();
            let taken = subscriber.poll(
                |message| {
                    let found = payload::check_whole(&message, *size);
                    match found.filter(|stamp| stamp.sequence == next) {
                        Some(stamp) => {
                            let now = TickClock::ticks();
                            samples.push(now.wrapping_sub(stamp.ticks));
                            late.note(next, message.lane(), stamp.ticks, now);
                        }
                        None => wrong = wrong.or(Some(next)),
                    }
                    next += 1;
                },
                room,
            );
            let taken = taken.map_err(ArenaError::method)?;
            if let Some(sequence) = wrong {
                return Err(ArenaError::Wrong { sequence });
            }
            if taken > 0 {
                looks.found();
                continue;
            }
            late.empty(begun);
            if !looks.again() {
                let waited = late.wait(subscriber, WAIT_STEP);
                waited.map_err(ArenaError::method)?;
            }
        }
        let done = done_now();
        subscriber.release();
        let worst = serde_json::to_value(late.take()).map_err(ArenaError::method)?;
        Ok(Done {
            worst: Some(worst),
            ..done
        })
    }

    /// Checks `count` messages of each of `publishers` publishers, each of which numbers its
    /// messages from `first` on and has its own number in place of their time; returns the ticks at
    /// the last one of each.
    fn gather(&mut self, publishers: usize, first: u64, count: u64) -> Result<Vec<u64>> {
        let mut next = vec![first; publishers];
        let mut ends = vec![0; publishers];
        let size = self.size;
        let last = first + count;
        let mut left = publishers;
        let mut wrong = None;
        while left != 0 {
            let taken = self.subscriber.poll(
                |message| {
                    let due = payload::check_whole(&message, size).and_then(|stamp| {
                        let own = usize::try_from(stamp.ticks).ok()?;
                        let due = next.get_mut(own).filter(|due| **due == stamp.sequence)?;
                        *due += 1;
                        Some((own, *due))
                    });
                    match due {
                        Some((own, due)) if due == last => {
                            ends[own] = TickClock::ticks();
                            left -= 1;
                        }
                        Some(_) => {}
                        None => wrong = Some(next.iter().min().copied().unwrap_or(first)),
                    }
                },
                POLL_LIMIT,
            );
            after_poll(&mut self.subscriber, &mut self.looks, taken, wrong)?;
        }
        Ok(ends)
    }
}
