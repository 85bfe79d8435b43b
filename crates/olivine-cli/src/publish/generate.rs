//! Generated messages: with a number, a time stamp and a pattern, written in place.

use super::{BURST, Sender};
use crate::args::PubArgs;
use crate::failure::Outcome;
use olivine::{NotSent, Outgoing};
use olivine_bench::clock::TickClock;
use olivine_bench::payload::{self, Stamp};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

/// Default bytes of a message: small market data.
const SIZE_DEFAULT: usize = 32;
/// At full speed, messages between two clock readings: reading the clock costs more than sending a
/// message.
const STAMP_SHARED_BY: u64 = 32;

/// Sends generated messages until the count, the time or a signal ends it.
pub(super) fn send(sender: &mut Sender, args: &PubArgs) -> Outcome {
    let mut sizes: Vec<usize> = args
        .size
        .iter()
        .map(|size| usize::try_from(*size).unwrap_or(usize::MAX))
        .collect();
    if sizes.is_empty() {
        sizes.push(SIZE_DEFAULT);
    }
    let longest = sizes.iter().copied().max().unwrap_or(SIZE_DEFAULT);
    if longest > sender.publisher.message_max() {
        return Err(sender.too_long(longest as u64, sender.publisher.message_max()));
    }
    let mut generator = Generator {
        sizes,
        tag: args.tag(),
        // Random: a system counter would be equal on two machines.
        first: payload::first_of(RandomState::new().hash_one(0)),
        scratch: vec![0; longest],
    };
    match (args.batch, sender.pacer.is_some()) {
        (1, false) if generator.sizes.len() == 1 => generator.stream(sender),
        (1, _) => generator.one_by_one(sender),
        (batch, _) => generator.batched(sender, u64::from(batch)),
    }
}

struct Generator {
    /// Sizes that alternate.
    sizes: Vec<usize>,
    tag: u32,
    /// Sequence number of the first message, which identifies this publisher.
    first: u64,
    /// Buffer for a message that must wait for room.
    scratch: Vec<u8>,
}

impl Generator {
    fn size(&self, sequence: u64) -> usize {
        let turn = usize::try_from(sequence % self.sizes.len() as u64).unwrap_or(0);
        self.sizes[turn]
    }

    /// Stamp of the message with this number, counted from 0.
    fn stamp(&self, number: u64, ticks: u64) -> Stamp {
        let sequence = self.first.wrapping_add(number);
        Stamp { sequence, ticks }
    }

    /// Full speed, one size: bursts of claims between two checks.
    fn stream(&mut self, sender: &mut Sender) -> Outcome {
        let size = self.sizes[0];
        while sender.totals.messages < sender.count && sender.look()? {
            let end = sender
                .totals
                .messages
                .saturating_add(BURST * 16)
                .min(sender.count);
            while sender.totals.messages < end {
                let first = sender.totals.messages;
                let stamped = first.saturating_add(STAMP_SHARED_BY).min(end);
                let ticks = TickClock::ticks();
                let (next, refused) = self.burst(sender, size, first..stamped, ticks);
                sender.totals.messages = next;
                sender.totals.bytes += (next - first) * size as u64;
                if let Some(error) = refused
                    && !self.send_late(sender, next, ticks, error)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Publishes a range of numbers; returns how far it got, and why it stopped.
    #[inline]
    fn burst(
        &self,
        sender: &mut Sender,
        size: usize,
        numbers: Range<u64>,
        ticks: u64,
    ) -> (u64, Option<NotSent>) {
        for number in numbers.clone() {
            match sender
                .publisher
                .try_claim(Outgoing::sized(size).tag(self.tag))
            {
                Ok(mut claim) => {
                    payload::fill(&mut claim, self.stamp(number, ticks));
                    claim.commit();
                }
                Err(error) => return (number, Some(error)),
            }
        }
        (numbers.end, None)
    }

    /// Any sizes, any rate.
    fn one_by_one(&mut self, sender: &mut Sender) -> Outcome {
        while sender.wait_until_due()? {
            let sequence = sender.totals.messages;
            let ticks = sender.due.unwrap_or_else(TickClock::ticks);
            let size = self.size(sequence);
            match self.burst(sender, size, sequence..sequence + 1, ticks) {
                (_, None) => sender.sent(size),
                (_, Some(error)) => {
                    if !self.send_late(sender, sequence, ticks, error)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Batches that become visible at once. A message of a paced batch keeps its due time.
    fn batched(&mut self, sender: &mut Sender, batch: u64) -> Outcome {
        let mut stage = vec![0; self.scratch.len() * usize::try_from(batch).unwrap_or(1)];
        while sender.totals.messages < sender.count {
            let first = sender.totals.messages;
            let end = first.saturating_add(batch).min(sender.count);
            let due = sender.pacer.map(|pacer| pacer.due(end - 1));
            if due.is_some_and(|due| !sender.pause_until(due)) || !sender.look()? {
                break;
            }
            let now = TickClock::ticks();
            // Built as a whole and then copied, so that no load waits for stores just before it.
            let width = self.scratch.len();
            for (message, sequence) in stage.chunks_exact_mut(width).zip(first..end) {
                let ticks = sender.pacer.map_or(now, |pacer| pacer.due(sequence));
                let message = &mut message[..self.size(sequence)];
                payload::fill(message, self.stamp(sequence, ticks));
            }
            if !self.push(sender, &stage, first..end)? {
                break;
            }
        }
        Ok(())
    }

    /// Publishes the messages in `stage`, in several batches if the ring has no room for all; false
    /// if asked to stop.
    fn push(&mut self, sender: &mut Sender, stage: &[u8], numbers: Range<u64>) -> Outcome<bool> {
        let width = self.scratch.len();
        let mut rest = stage.chunks_exact(width).zip(numbers).peekable();
        while rest.peek().is_some() {
            let mut batch = sender.publisher.batch();
            let mut refused = None;
            while let Some((message, sequence)) = rest.peek() {
                let message = &message[..self.size(*sequence)];
                match batch.push(Outgoing::new(message).tag(self.tag)) {
                    Ok(()) => sender.totals.add(message.len()),
                    Err(error) => {
                        refused = Some((error, message.len()));
                        break;
                    }
                }
                rest.next();
            }
            batch.commit();
            if let Some((error, length)) = refused
                && !sender.wait_for_room(length, error)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends a message that found no room; false if asked to stop.
    #[cold]
    fn send_late(
        &mut self,
        sender: &mut Sender,
        number: u64,
        ticks: u64,
        error: NotSent,
    ) -> Outcome<bool> {
        let (size, stamp) = (self.size(number), self.stamp(number, ticks));
        let message = &mut self.scratch[..size];
        payload::fill(message, stamp);
        let sent = sender.send_waiting(self.tag, message, error)?;
        if sent {
            sender.sent(size);
        }
        Ok(sent)
    }
}
