//! The harness: the work of every method in a slice, in both processes.

use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, io};
use crate::latency::Latency;
use crate::pace::{Pacer, Rest};
use crate::payload::{self, Stamp};
use crate::sys::time::Alarm;
use std::time::Duration;

/// How long an end waits for a message before the method fails.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(5);

/// One end of a connection: sends and receives messages of one size.
///
/// The size is fixed when the end is opened. A [`Deadline`] limits each wait.
pub trait End {
    /// Called before messages are streamed, and again before each further stream: for libraries
    /// with separate settings for latency and throughput. The default does nothing.
    ///
    /// # Errors
    ///
    /// Errors of the library.
    fn prepare_to_stream(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sends the message that `fill` writes completely. Waits for room.
    ///
    /// # Errors
    ///
    /// System errors, or the deadline.
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), deadline: &mut Deadline<'_>) -> Result<()>;

    /// Waits for a message and passes it to `handle`.
    ///
    /// # Errors
    ///
    /// System errors, or the deadline.
    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        deadline: &mut Deadline<'_>,
    ) -> Result<T>;

    /// Waits for a message, and sends the same bytes back if `check` accepts them; returns whether
    /// it did.
    ///
    /// `stage` has room for a message.
    ///
    /// # Errors
    ///
    /// As [`End::send`] and [`End::receive`].
    fn echo(
        &mut self,
        stage: &mut [u8],
        check: impl FnOnce(&[u8]) -> bool,
        deadline: &mut Deadline<'_>,
    ) -> Result<bool> {
        let fits = self.receive(
            |message| {
                let fits = check(message) && message.len() == stage.len();
                if fits {
                    stage.copy_from_slice(message);
                }
                fits
            },
            deadline,
        )?;
        if fits {
            self.send(|place| place.copy_from_slice(stage), deadline)?;
        }
        Ok(fits)
    }

    /// Sends `count` messages; `fill` gets each number within the batch. The default sends one by
    /// one.
    ///
    /// # Errors
    ///
    /// As [`End::send`].
    fn send_many(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
        deadline: &mut Deadline<'_>,
    ) -> Result<()> {
        for number in 0..count {
            self.send(|place| fill(number, place), deadline)?;
        }
        Ok(())
    }

    /// Waits for messages and handles up to `limit` of them; returns how many. The default handles
    /// one.
    ///
    /// # Errors
    ///
    /// As [`End::receive`].
    fn receive_many(
        &mut self,
        limit: usize,
        mut handle: impl FnMut(&[u8]),
        deadline: &mut Deadline<'_>,
    ) -> Result<usize> {
        let _ = limit;
        self.receive(&mut handle, deadline)?;
        Ok(1)
    }

    /// Streams messages by a specialised loop. The default has none, and the harness calls
    /// [`End::send`] or [`End::send_many`] for each batch.
    ///
    /// # Errors
    ///
    /// As [`End::send`].
    fn stream_specialised(
        &mut self,
        batches: Batches,
        deadline: &mut Deadline<'_>,
    ) -> Option<Result<()>> {
        let _ = (batches, deadline);
        None
    }

    /// Checks `count` streamed messages from number `first` on by a specialised loop. The default
    /// has none, and the harness calls [`End::receive_many`].
    ///
    /// # Errors
    ///
    /// As [`Driver::take`].
    fn take_specialised(
        &mut self,
        first: u64,
        count: u64,
        deadline: &mut Deadline<'_>,
    ) -> Option<Result<()>> {
        let _ = (first, count, deadline);
        None
    }
}

/// Messages that are streamed one way.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// Number of the first message.
    pub first: u64,
    /// Messages in all.
    pub count: u64,
    /// Messages sent at once.
    pub batch: usize,
}

/// Messages that are sent one way when each is due, evenly spaced.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the arguments of one slice")]
pub struct Paced {
    /// Converts time to ticks.
    pub clock: TickClock,
    /// Messages a second.
    pub rate_per_s: f64,
    /// How the sender passes the time between two.
    pub rest: Rest,
    /// Number of the first one.
    pub first: u64,
    /// Messages in all.
    pub count: u64,
    /// The sender stands still before this message for so many nanoseconds: the self-check finds
    /// it.
    pub stall: Option<(u64, u64)>,
}

impl Paced {
    /// Has `send` send each message when it is due. How late each one left lands in `delays`, in
    /// ticks.
    pub(crate) fn send(
        &self,
        deadline: &mut Deadline<'_>,
        delays: &mut Vec<u64>,
        mut send: impl FnMut(Stamp, &mut Deadline<'_>) -> Result<()>,
    ) -> Result<()> {
        delays.clear();
        delays.reserve(usize::try_from(self.count).unwrap_or(0));
        let pacer = Pacer::start(self.clock, self.rate_per_s);
        // The first one is due a period from now, so that slices of few messages keep the distance,
        // too.
        for n in 1..=self.count {
            let due = pacer.due(n);
            let mut error = None;
            pacer.wait(due, self.rest, || {
                error = deadline.look().err();
                error.is_some()
            });
            if let Some(error) = error {
                return Err(error);
            }
            let sequence = self.first + n - 1;
            if let Some((_, ns)) = self.stall.filter(|(number, _)| *number == sequence) {
                let end = TickClock::ticks() + self.clock.ticks_for(ns);
                pacer.wait(end, Rest::Spin, || false);
            }
            send(
                Stamp {
                    sequence,
                    ticks: due,
                },
                deadline,
            )?;
            delays.push(TickClock::ticks().saturating_sub(due));
            deadline.renew();
        }
        Ok(())
    }
}

/// An end with the harness.
pub trait Driver {
    /// Client: `rounds` messages from number `first` on, each sent after the reply to the last one
    /// is checked. Each round trip in ticks is added to `samples`.
    ///
    /// # Errors
    ///
    /// [`BenchError::Wrong`] for a reply that differs from the message; errors of the end.
    fn ask(
        &mut self,
        first: u64,
        rounds: u64,
        deadline: &mut Deadline<'_>,
        samples: &mut Vec<u64>,
    ) -> Result<()>;

    /// Server: checks `rounds` messages from number `first` on and sends each one back.
    ///
    /// # Errors
    ///
    /// [`BenchError::Wrong`] for an unexpected message; errors of the end.
    fn answer(&mut self, first: u64, rounds: u64, deadline: &mut Deadline<'_>) -> Result<()>;

    /// Prepares [`Driver::stream`] with the same batches; called before its time starts.
    ///
    /// # Errors
    ///
    /// Errors of the end.
    fn prepare(&mut self, batches: Batches) -> Result<()>;

    /// Streams messages without replies.
    ///
    /// # Errors
    ///
    /// Errors of the end.
    fn stream(&mut self, batches: Batches, deadline: &mut Deadline<'_>) -> Result<()>;

    /// Checks `count` streamed messages from number `first` on; returns the ticks after the last
    /// one.
    ///
    /// # Errors
    ///
    /// [`BenchError::Wrong`] for an unexpected message; errors of the end.
    fn take(&mut self, first: u64, count: u64, deadline: &mut Deadline<'_>) -> Result<u64>;

    /// Sends messages when they are due. How late each one left lands in `delays`, in ticks.
    /// Returns the latencies if the receiving end is in this process.
    ///
    /// # Errors
    ///
    /// Errors of the end.
    fn pace(
        &mut self,
        paced: &Paced,
        deadline: &mut Deadline<'_>,
        delays: &mut Vec<u64>,
    ) -> Result<Option<Latency>>;

    /// Checks `count` paced messages from number `first` on; returns the ticks after the last one,
    /// and the times from each stamp to its check.
    ///
    /// # Errors
    ///
    /// [`BenchError::Wrong`] for an unexpected message; errors of the end.
    fn hear(
        &mut self,
        first: u64,
        count: u64,
        deadline: &mut Deadline<'_>,
    ) -> Result<(u64, Latency)>;
}

struct Harness<E> {
    end: E,
    stage: Vec<u8>,
}

/// Connects an end for messages of `size` bytes to the harness.
pub fn drive<E: End + 'static>(end: E, size: usize) -> Box<dyn Driver> {
    let stage = vec![0; size];
    Box::new(Harness { end, stage })
}

fn alarm() -> Result<Alarm> {
    Alarm::start().map_err(io("start a timer"))
}

impl<E: End> Driver for Harness<E> {
    fn ask(
        &mut self,
        first: u64,
        rounds: u64,
        deadline: &mut Deadline<'_>,
        samples: &mut Vec<u64>,
    ) -> Result<()> {
        let _alarm = alarm()?;
        let size = self.stage.len();
        let end = &mut self.end;
        let mut last = TickClock::ticks();
        for sequence in first..first + rounds {
            let stamp = Stamp {
                sequence,
                ticks: last,
            };
            end.send(|place| payload::fill(place, stamp), deadline)?;
            let answer = end.receive(|answer| payload::check_whole(answer, size), deadline)?;
            if answer != Some(stamp) {
                return Err(BenchError::Wrong { sequence });
            }
            let now = TickClock::ticks();
            samples.push(now.wrapping_sub(last));
            last = now;
            deadline.renew();
        }
        Ok(())
    }

    fn answer(&mut self, first: u64, rounds: u64, deadline: &mut Deadline<'_>) -> Result<()> {
        let _alarm = alarm()?;
        let Self { end, stage } = self;
        let size = stage.len();
        for sequence in first..first + rounds {
            let is_due = |message: &[u8]| {
                payload::check_whole(message, size).is_some_and(|stamp| stamp.sequence == sequence)
            };
            if !end.echo(stage, is_due, deadline)? {
                return Err(BenchError::Wrong { sequence });
            }
            deadline.renew();
        }
        Ok(())
    }

    fn prepare(&mut self, _batches: Batches) -> Result<()> {
        self.end.prepare_to_stream()
    }

    fn stream(&mut self, batches: Batches, deadline: &mut Deadline<'_>) -> Result<()> {
        let _alarm = alarm()?;
        if let Some(streamed) = self.end.stream_specialised(batches, deadline) {
            return streamed;
        }
        let Batches {
            first,
            count,
            batch,
        } = batches;
        let mut next = first;
        let last = first + count;
        while next != last {
            let room = usize::try_from(last - next)
                .unwrap_or(usize::MAX)
                .min(batch.max(1));
            let base = next;
            let fill = |number: usize, place: &mut [u8]| {
                let sequence = base + number as u64;
                payload::fill(place, Stamp { sequence, ticks: 0 });
            };
            if batch <= 1 {
                self.end.send(|place| fill(0, place), deadline)?;
            } else {
                self.end.send_many(room, fill, deadline)?;
            }
            next += room as u64;
            deadline.renew();
        }
        Ok(())
    }

    fn take(&mut self, first: u64, count: u64, deadline: &mut Deadline<'_>) -> Result<u64> {
        let _alarm = alarm()?;
        self.end.prepare_to_stream()?;
        if let Some(taken) = self.end.take_specialised(first, count, deadline) {
            return taken.map(|()| TickClock::ticks());
        }
        let size = self.stage.len();
        let mut next = first;
        let mut wrong = None;
        let last = first + count;
        while next != last {
            let room = usize::try_from(last - next).unwrap_or(usize::MAX);
            let check = |message: &[u8]| {
                let found = payload::check_whole(message, size);
                if found.is_none_or(|stamp| stamp.sequence != next) {
                    wrong = wrong.or(Some(next));
                }
                next += 1;
            };
            self.end.receive_many(room, check, deadline)?;
            if let Some(sequence) = wrong {
                return Err(BenchError::Wrong { sequence });
            }
            deadline.renew();
        }
        Ok(TickClock::ticks())
    }

    fn pace(
        &mut self,
        paced: &Paced,
        deadline: &mut Deadline<'_>,
        delays: &mut Vec<u64>,
    ) -> Result<Option<Latency>> {
        let _alarm = alarm()?;
        let end = &mut self.end;
        paced.send(deadline, delays, |stamp, deadline| {
            end.send(|place| payload::fill(place, stamp), deadline)
        })?;
        Ok(None)
    }

    fn hear(
        &mut self,
        first: u64,
        count: u64,
        deadline: &mut Deadline<'_>,
    ) -> Result<(u64, Latency)> {
        let _alarm = alarm()?;
        let size = self.stage.len();
        let mut samples = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for sequence in first..first + count {
            let check = |message: &[u8]| (payload::check_whole(message, size), TickClock::ticks());
            match self.end.receive(check, deadline)? {
                (Some(stamp), now) if stamp.sequence == sequence => {
                    samples.push((stamp.ticks, now));
                }
                _ => return Err(BenchError::Wrong { sequence }),
            }
            deadline.renew();
        }
        let mut latency = Latency::new();
        let samples = samples.into_iter();
        samples.for_each(|(due, now)| latency.record_between(due, now));
        Ok((TickClock::ticks(), latency))
    }
}
