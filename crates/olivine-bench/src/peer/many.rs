//! The second process as one of many: a publisher or a subscriber of a mesh.
//!
//! Each publisher numbers its messages and writes its own number in place of the time stamp, so
//! that a subscriber can distinguish publishers and check the order of each.

use super::ANSWER_MAX;
use crate::channel::{POLL_LIMIT, WAIT_STEP};
use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result};
use crate::payload::{self, Stamp};
use olivine::{Publisher, Subscriber};

/// A publisher of a mesh.
pub(super) struct Producer {
    publisher: Publisher,
    size: usize,
    batch: usize,
    stage: Vec<u8>,
}

impl Producer {
    pub(super) fn open(uri: &str, size: usize, batch: usize) -> Result<Self> {
        let batch = batch.max(1);
        Ok(Self {
            publisher: Publisher::open(uri)?,
            size,
            batch,
            stage: vec![0; size * batch],
        })
    }

    /// Publishes `count` messages from `at_ticks` on.
    pub(super) fn produce(
        &mut self,
        own: u64,
        first: u64,
        count: u64,
        at_ticks: u64,
    ) -> Result<()> {
        // All start at the same time, whatever the order of requests.
        while TickClock::ticks() < at_ticks {
            std::hint::spin_loop();
        }
        let mut deadline = Deadline::of(ANSWER_MAX);
        let mut next = first;
        let last = first + count;
        while next != last {
            let room = usize::try_from(last - next)
                .unwrap_or(usize::MAX)
                .min(self.batch);
            for (message, sequence) in self
                .stage
                .chunks_exact_mut(self.size)
                .zip(next..)
                .take(room)
            {
                payload::fill(
                    message,
                    Stamp {
                        sequence,
                        ticks: own,
                    },
                );
            }
            self.push(room, &mut deadline)?;
            next += room as u64;
        }
        Ok(())
    }

    /// Publishes the first `room` staged messages.
    fn push(&mut self, room: usize, deadline: &mut Deadline<'_>) -> Result<()> {
        let mut left = self.stage.chunks_exact(self.size).take(room).peekable();
        while left.peek().is_some() {
            let mut refused = None;
            if self.batch == 1 {
                while let Some(message) = left.peek() {
                    match self.publisher.try_publish(message) {
                        Ok(_) => drop(left.next()),
                        Err(error) => {
                            refused = Some(error);
                            break;
                        }
                    }
                }
            } else {
                let mut batch = self.publisher.batch();
                while let Some(message) = left.peek() {
                    match batch.push(message) {
                        Ok(()) => drop(left.next()),
                        Err(error) => {
                            refused = Some(error);
                            break;
                        }
                    }
                }
                batch.commit();
            }
            if let Some(error) = refused {
                deadline.wait_for_room(&mut self.publisher, self.size, error)?;
            }
        }
        Ok(())
    }
}

/// Checks `count` messages of `size` bytes of each of `publishers` publishers; returns the ticks at
/// the last one of each.
pub(super) fn gather(
    subscriber: &mut Subscriber,
    size: usize,
    publishers: usize,
    first: u64,
    count: u64,
) -> Result<Vec<u64>> {
    let mut next = vec![first; publishers];
    let mut ends = vec![0; publishers];
    let last = first + count;
    let mut left = publishers;
    let mut wrong = None;
    let mut deadline = Deadline::of(ANSWER_MAX);
    while left != 0 {
        let taken = subscriber.poll(
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
        )?;
        if let Some(sequence) = wrong {
            return Err(BenchError::Wrong { sequence });
        }
        if taken == 0 {
            subscriber.wait(WAIT_STEP)?;
            deadline.look()?;
        } else {
            deadline.renew();
        }
    }
    subscriber.release();
    Ok(ends)
}
