//! The messages of a run, and the check of what arrived.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes before the pattern (publisher, length and number), and of the checksum after it.
const HEAD: usize = 16;
const SUM: usize = 4;
/// Shortest message.
pub(crate) const SHORTEST: usize = HEAD + SUM;

/// Message `number` of `publisher`, of `length` bytes.
pub(crate) fn message(publisher: u32, number: u64, length: usize) -> Vec<u8> {
    let length = length.max(SHORTEST);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(publisher.to_le_bytes());
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes.extend(number.to_le_bytes());
    let filling = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(publisher);
    let filling = filling.to_le_bytes().into_iter().cycle();
    bytes.extend(filling.take(length - HEAD - SUM));
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Publisher and number of a valid message.
fn read(bytes: &[u8]) -> Option<(u32, u64)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?));
    let body = bytes.len().checked_sub(SUM)?;
    let number = u64::from_le_bytes(*bytes.get(8..)?.first_chunk::<8>()?);
    let whole = word(4)? as usize == bytes.len() && word(body)? == crc32c::crc32c(&bytes[..body]);
    whole.then_some((word(0)?, number))
}

/// What arrived of one publisher's messages.
#[derive(Debug, Default)]
struct Stream {
    /// The expected number.
    next: u64,
    /// Numbers that were skipped.
    missing: BTreeSet<u64>,
    /// Messages that the publisher reported as published.
    sent: u64,
    /// The publisher has closed.
    closed: bool,
}

/// The errors and the counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) reordered: u64,
    pub(crate) torn: u64,
    /// Ends of the stream before it was complete, without an error.
    pub(crate) silent_ends: u64,
    pub(crate) hung: u64,
    /// Reasons with which the stream failed.
    pub(crate) failed: Vec<String>,
}

impl Verdict {
    /// Whether every message arrived once and in order, and the end was reported.
    pub(crate) fn is_good(&self) -> bool {
        let bad = [
            self.lost,
            self.repeated,
            self.reordered,
            self.torn,
            self.silent_ends,
            self.hung,
        ];
        bad.iter().all(|count| *count == 0) && self.failed.is_empty()
    }

    /// Adds another verdict.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.reordered += other.reordered;
        self.torn += other.torn;
        self.silent_ends += other.silent_ends;
        self.hung += other.hung;
        self.failed.extend(other.failed.iter().cloned());
    }
}

/// Checks the messages of a run.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    streams: BTreeMap<u32, Stream>,
    verdict: Verdict,
    /// Publisher and number of the last message.
    last: Option<(u32, u64)>,
    /// The message that a killed receiver was handling: it may come again, after messages of other
    /// publishers.
    in_hand: Option<(u32, u64)>,
}

impl Checker {
    /// `publisher` published `sent` messages.
    pub(crate) fn sent(&mut self, publisher: u32, sent: u64) {
        self.streams.entry(publisher).or_default().sent = sent;
    }

    /// `publisher` has closed.
    pub(crate) fn closed(&mut self, publisher: u32) {
        self.streams.entry(publisher).or_default().closed = true;
    }

    /// A receiver of the messages was killed and started again.
    pub(crate) fn receiver_killed(&mut self) {
        self.in_hand = self.last;
    }

    /// A message arrived.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Some((publisher, number)) = read(bytes) else {
            self.verdict.torn += 1;
            return;
        };
        let stream = self.streams.entry(publisher).or_default();
        if number == stream.next {
            stream.next += 1;
        } else if number > stream.next {
            stream.missing.extend(stream.next..number);
            stream.next = number + 1;
        } else if stream.missing.remove(&number) {
            self.verdict.reordered += 1;
        } else if self.in_hand == Some((publisher, number)) {
            self.in_hand = None;
            return;
        } else {
            self.verdict.repeated += 1;
            return;
        }
        self.last = Some((publisher, number));
        self.verdict.received += 1;
    }

    /// Messages of `publisher` that arrived without a gap.
    pub(crate) fn arrived(&self, publisher: u32) -> u64 {
        let stream = self.streams.get(&publisher);
        stream.map_or(0, |stream| match stream.missing.first() {
            Some(first) => *first,
            None => stream.next,
        })
    }

    /// Messages that arrived, of all publishers.
    pub(crate) fn received(&self) -> u64 {
        self.verdict.received
    }

    /// The stream ended without an error.
    pub(crate) fn ended(&mut self) {
        let complete = |stream: &Stream| {
            stream.closed && stream.missing.is_empty() && stream.next == stream.sent
        };
        if !self.streams.values().all(complete) {
            self.verdict.silent_ends += 1;
        }
    }

    /// The stream failed.
    pub(crate) fn failed(&mut self, reason: String) {
        self.verdict.failed.push(reason);
    }

    /// Whether the stream failed.
    pub(crate) fn has_failed(&self) -> bool {
        !self.verdict.failed.is_empty()
    }

    /// Nothing happened for too long.
    pub(crate) fn hung(&mut self) {
        self.verdict.hung += 1;
    }

    /// The verdict, once nothing more can arrive.
    pub(crate) fn verdict(mut self) -> Verdict {
        for stream in self.streams.values() {
            let lost = stream.missing.len() as u64 + stream.sent.saturating_sub(stream.next);
            self.verdict.lost += lost;
        }
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten messages of a closed publisher, after `change`.
    fn account(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Checker {
        let mut checker = Checker::default();
        checker.sent(1, 10);
        checker.closed(1);
        let mut messages: Vec<_> = (0..10).map(|number| message(1, number, 40)).collect();
        change(&mut messages);
        for message in messages {
            checker.take(&message);
        }
        checker
    }

    fn verdict(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Verdict {
        let mut checker = account(change);
        checker.ended();
        checker.verdict()
    }

    #[test]
    fn complete_stream_passes() {
        let verdict = verdict(|_| ());
        assert!(verdict.is_good() && verdict.received == 10, "{verdict:?}");
    }

    #[test]
    fn lost_message_is_counted() {
        for at in [0, 4, 9] {
            let verdict = verdict(|messages| drop(messages.remove(at)));
            assert_eq!((verdict.lost, verdict.repeated), (1, 0), "{at}");
            assert!(!verdict.is_good());
        }
    }

    #[test]
    fn repeated_message_is_counted() {
        for at in [1, 5, 10] {
            let verdict = verdict(|messages| messages.insert(at, messages[at - 1].clone()));
            assert_eq!((verdict.lost, verdict.repeated), (0, 1), "{at}");
            assert!(!verdict.is_good());
        }
    }

    #[test]
    fn reordered_message_is_counted() {
        let verdict = verdict(|messages| messages.swap(3, 4));
        assert_eq!((verdict.lost, verdict.reordered), (0, 1));
        assert!(!verdict.is_good());
    }

    #[test]
    fn torn_message_is_counted() {
        for at in [0, 4, 8, 20, 39] {
            let verdict = verdict(|messages| messages[4][at] ^= 4);
            assert_eq!((verdict.lost, verdict.torn), (1, 1), "byte {at}");
            assert!(!verdict.is_good());
        }
        let verdict = verdict(|messages| messages[4].truncate(12));
        assert_eq!((verdict.lost, verdict.torn), (1, 1));
    }

    #[test]
    fn early_end_is_counted() {
        let verdict = verdict(|messages| messages.truncate(6));
        assert_eq!((verdict.lost, verdict.silent_ends), (4, 1));
        assert!(!verdict.is_good());
        // A publisher that is still open, though all its messages came.
        let mut checker = account(|_| ());
        checker.sent(2, 0);
        checker.ended();
        assert_eq!(checker.verdict().silent_ends, 1);
    }

    #[test]
    fn hung_and_failed_streams_are_counted() {
        let mut checker = account(|_| ());
        checker.hung();
        assert!(!checker.verdict().is_good());
        let mut checker = account(|_| ());
        checker.failed("why".into());
        assert!(!checker.verdict().is_good());
    }

    #[test]
    fn killed_receiver_may_repeat_one_message() {
        let again = |number| {
            let mut checker = account(|_| ());
            checker.receiver_killed();
            checker.take(&message(1, number, 40));
            checker.take(&message(1, 9, 40));
            checker.verdict().repeated
        };
        assert_eq!((again(9), again(8)), (1, 1));
    }
}
