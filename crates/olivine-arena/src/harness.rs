//! The harness: the work of every method in a slice, in both processes.

use crate::clock::TickClock;
use crate::error::{ArenaError, Result};
use crate::pace::{Pacer, Rest};
use crate::payload::{self, Stamp};
use crate::protocol::{Batches, Done, Paced, Proof, Work};
use std::time::Duration;

/// One end of a connection: sends and receives messages of one size.
///
/// The size is fixed when the end is opened. Waits have no limit: the coordinator ends a
/// participant that hangs.
pub trait End {
    /// Sends the message that `fill` writes completely. Waits for room.
    ///
    /// # Errors
    ///
    /// System errors.
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()>;

    /// Waits for a message and passes it to `handle`.
    ///
    /// # Errors
    ///
    /// System errors.
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T>;

    /// Waits for a message, and sends the same bytes back if `check` accepts them; returns whether
    /// it did.
    ///
    /// `stage` has room for a message.
    ///
    /// # Errors
    ///
    /// As [`End::send`] and [`End::receive`].
    fn echo(&mut self, stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let fits = self.receive(|message| {
            let fits = check(message) && message.len() == stage.len();
            if fits {
                stage.copy_from_slice(message);
            }
            fits
        })?;
        if fits {
            self.send(|place| place.copy_from_slice(stage))?;
        }
        Ok(fits)
    }

    /// Sends `count` messages; `fill` gets each number within the batch. The default sends one by
    /// one.
    ///
    /// # Errors
    ///
    /// As [`End::send`].
    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        for number in 0..count {
            self.send(|place| fill(number, place))?;
        }
        Ok(())
    }

    /// Waits for messages and handles up to `limit` of them; returns how many. The default handles
    /// one.
    ///
    /// # Errors
    ///
    /// As [`End::receive`].
    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let _ = limit;
        self.receive(&mut handle)?;
        Ok(1)
    }

    /// Streams messages by a specialised loop. The default has none, and the harness calls
    /// [`End::send`] or [`End::send_many`] for each batch.
    ///
    /// # Errors
    ///
    /// As [`End::send`].
    fn stream_specialised(&mut self, batches: Batches) -> Option<Result<()>> {
        let _ = batches;
        None
    }

    /// Checks `count` streamed messages from number `first` on by a specialised loop. The default
    /// has none, and the harness calls [`End::receive_many`].
    ///
    /// # Errors
    ///
    /// As [`Driver::run`].
    fn take_specialised(&mut self, first: u64, count: u64) -> Option<Result<()>> {
        let _ = (first, count);
        None
    }
}

/// Has `send` send each message when it is due. How late each one left is added to `delays`, in
/// ticks.
///
/// # Errors
///
/// Errors of `send`.
pub fn send_paced(
    paced: &Paced,
    delays: &mut Vec<u64>,
    mut send: impl FnMut(Stamp) -> Result<()>,
) -> Result<()> {
    delays.reserve(usize::try_from(paced.count).unwrap_or(0));
    let clock = TickClock::of(paced.ticks_per_ns);
    let pacer = Pacer::start(clock, paced.rate_per_s);
    // The first one is due a period from now, so that slices of few messages keep the distance,
    // too.
    for n in 1..=paced.count {
        let due = pacer.due(n);
        pacer.wait(due, paced.rest, || false);
        let sequence = paced.first + n - 1;
        if let Some((_, ns)) = paced.stall.filter(|(number, _)| *number == sequence) {
            let end = TickClock::ticks() + clock.ticks_for(ns);
            pacer.wait(end, Rest::Spin, || false);
        }
        send(Stamp {
            sequence,
            ticks: due,
        })?;
        delays.push(TickClock::ticks().saturating_sub(due));
    }
    Ok(())
}

/// An end with the harness.
pub trait Driver {
    /// Prepares [`Driver::run`] with the same work; called before its time starts. The default does
    /// nothing.
    ///
    /// # Errors
    ///
    /// Errors of the end.
    fn prepare(&mut self, work: &Work) -> Result<()> {
        let _ = work;
        Ok(())
    }

    /// Does the work of a slice. Its samples are added to `samples`.
    ///
    /// # Errors
    ///
    /// [`ArenaError::Wrong`] for an unexpected message; errors of the end.
    fn run(&mut self, work: &Work, samples: &mut Vec<u64>) -> Result<Done>;
}

/// An open end with the harness, or why there is none.
pub type Driven = Result<Box<dyn Driver>>;

/// What was done until now.
#[must_use]
pub fn done_now() -> Done {
    let now = TickClock::ticks();
    Done {
        end_ticks: now,
        ends_ticks: vec![now],
        ..Done::default()
    }
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

impl<E: End> Driver for Harness<E> {
    fn run(&mut self, work: &Work, samples: &mut Vec<u64>) -> Result<Done> {
        match *work {
            Work::Ask { first, rounds } => self.ask(first, rounds, samples)?,
            Work::Answer { first, rounds } => self.answer(first, rounds)?,
            Work::Stream(batches) => self.stream(batches)?,
            Work::Take {
                first,
                count,
                publishers: 1,
            } => self.take(first, count)?,
            Work::Take { publishers, .. } => {
                return Err(ArenaError::Protocol {
                    found: format!("{publishers} publishers of a method with one"),
                });
            }
            Work::Pace(ref paced) => {
                let end = &mut self.end;
                send_paced(paced, samples, |stamp| {
                    end.send(|place| payload::fill(place, stamp))
                })?;
            }
            Work::Hear {
                first,
                count,
                worst: 0,
            } => self.hear(first, count, samples)?,
            Work::Hear { .. } => {
                return Err(ArenaError::Protocol {
                    found: "the worst messages of a method that knows no causes".to_owned(),
                });
            }
            Work::Prove(ref proof) => self.prove(proof)?,
            Work::Verify(ref proof) => self.verify(proof)?,
        }
        Ok(done_now())
    }
}

impl<E: End> Harness<E> {
    #[inline(never)]
    fn ask(&mut self, first: u64, rounds: u64, samples: &mut Vec<u64>) -> Result<()> {
        samples.reserve(usize::try_from(rounds).unwrap_or(0));
        let size = self.stage.len();
        let end = &mut self.end;
        let mut last = TickClock::ticks();
        for sequence in first..first + rounds {
            let stamp = Stamp {
                sequence,
                ticks: last,
            };
            end.send(|place| payload::fill(place, stamp))?;
            let answer = end.receive(|answer| payload::check_whole(answer, size))?;
            if answer != Some(stamp) {
                return Err(ArenaError::Wrong { sequence });
            }
            let now = TickClock::ticks();
            samples.push(now.wrapping_sub(last));
            last = now;
        }
        Ok(())
    }

    #[inline(never)]
    fn answer(&mut self, first: u64, rounds: u64) -> Result<()> {
        self.answer_all(first, rounds, |stamp, sequence| stamp.sequence == sequence)
    }

    #[inline(always)]
    fn answer_all(
        &mut self,
        first: u64,
        rounds: u64,
        is_due: impl Fn(Stamp, u64) -> bool,
    ) -> Result<()> {
        let Self { end, stage } = self;
        let size = stage.len();
        for sequence in first..first + rounds {
            let check = |message: &[u8]| {
                payload::check_whole(message, size).is_some_and(|stamp| is_due(stamp, sequence))
            };
            if !end.echo(stage, check)? {
                return Err(ArenaError::Wrong { sequence });
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn stream(&mut self, batches: Batches) -> Result<()> {
        if let Some(streamed) = self.end.stream_specialised(batches) {
            return streamed;
        }
        let stamp = |sequence| Stamp {
            sequence,
            ticks: batches.own,
        };
        self.send_all(batches.first, batches.count, batches.batch, stamp)
    }

    #[inline(always)]
    fn send_all(
        &mut self,
        first: u64,
        count: u64,
        batch: usize,
        stamp: impl Fn(u64) -> Stamp,
    ) -> Result<()> {
        let mut next = first;
        let last = first + count;
        while next != last {
            let room = usize::try_from(last - next)
                .unwrap_or(usize::MAX)
                .min(batch.max(1));
            let base = next;
            let fill = |number: usize, place: &mut [u8]| {
                payload::fill(place, stamp(base + number as u64));
            };
            if batch <= 1 {
                self.end.send(|place| fill(0, place))?;
            } else {
                self.end.send_many(room, fill)?;
            }
            next += room as u64;
        }
        Ok(())
    }

    #[inline(never)]
    fn take(&mut self, first: u64, count: u64) -> Result<()> {
        if let Some(taken) = self.end.take_specialised(first, count) {
            return taken;
        }
        self.take_all(first, count, |stamp, sequence| stamp.sequence == sequence)
    }

    #[inline(always)]
    fn take_all(
        &mut self,
        first: u64,
        count: u64,
        is_due: impl Fn(Stamp, u64) -> bool,
    ) -> Result<()> {
        let size = self.stage.len();
        let mut next = first;
        let mut wrong = None;
        let last = first + count;
        while next != last {
            let room = usize::try_from(last - next).unwrap_or(usize::MAX);
            let check = |message: &[u8]| {
                let found = payload::check_whole(message, size);
                if found.is_none_or(|stamp| !is_due(stamp, next)) {
                    wrong = wrong.or(Some(next));
                }
                next += 1;
            };
            self.end.receive_many(room, check)?;
            if let Some(sequence) = wrong {
                return Err(ArenaError::Wrong { sequence });
            }
        }
        Ok(())
    }

    fn prove(&mut self, proof: &Proof) -> Result<()> {
        let &Proof {
            first,
            count,
            batch,
            replies,
            ..
        } = proof;
        if !replies {
            return self.send_all(first, count, batch, |sequence| proof.stamp(sequence));
        }
        let size = self.stage.len();
        for sequence in first..first + count {
            let stamp = proof.stamp(sequence);
            self.end.send(|place| payload::fill(place, stamp))?;
            let answer = self
                .end
                .receive(|answer| payload::check_whole(answer, size))?;
            if answer != Some(stamp) {
                return Err(ArenaError::Wrong { sequence });
            }
        }
        Ok(())
    }

    fn verify(&mut self, proof: &Proof) -> Result<()> {
        // A delay on purpose: the sender meets a full queue.
        std::thread::park_timeout(Duration::from_millis(proof.late_ms));
        let is_due = |stamp, sequence| stamp == proof.stamp(sequence);
        match proof.replies {
            true => self.answer_all(proof.first, proof.count, is_due),
            false => self.take_all(proof.first, proof.count, is_due),
        }
    }

    #[inline(never)]
    fn hear(&mut self, first: u64, count: u64, samples: &mut Vec<u64>) -> Result<()> {
        samples.reserve(usize::try_from(count).unwrap_or(0));
        let size = self.stage.len();
        for sequence in first..first + count {
            let check = |message: &[u8]| (payload::check_whole(message, size), TickClock::ticks());
            match self.end.receive(check)? {
                (Some(stamp), now) if stamp.sequence == sequence => {
                    samples.push(now.wrapping_sub(stamp.ticks));
                }
                _ => return Err(ArenaError::Wrong { sequence }),
            }
        }
        Ok(())
    }
}
