//! Counts errors in a stream of numbered messages: lost, repeated, reordered, corrupt.
//!
//! A publisher numbers its messages from 0 and has its identity in the top bits of each number.
//! Each publisher is counted separately, because a lane may carry several: a journal keeps the
//! order of the recording in one lane. A subscriber may join late, so counting starts with the
//! first number seen in a lane. A gap counts as lost until one of its numbers arrives, which then
//! counts as reordered. A number seen before counts as repeated. Number 0 with a later time stamp
//! is a new publisher.
//!
//! A later publisher of a lane starts at 0. If it does not, the numbers before its first one are
//! lost, unless the lane carries several publishers at a time: their recording may have begun late.

use crate::payload::{self, Stamp};
use std::collections::BTreeMap;

/// Gaps remembered per lane; the oldest of more stay counted as lost.
const GAPS_MAX: usize = 1024;

/// The sums that `--verify` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Messages that passed the check of every byte.
    #[serde(rename = "intact_count")]
    pub intact: u64,
    /// Numbers that never came.
    #[serde(rename = "lost_count")]
    pub lost: u64,
    /// Messages that came again.
    #[serde(rename = "repeated_count")]
    pub repeated: u64,
    /// Messages that came after a later one.
    #[serde(rename = "reordered_count")]
    pub reordered: u64,
    /// Messages with at least one wrong byte, or too short to carry a stamp.
    #[serde(rename = "corrupt_count")]
    pub corrupt: u64,
}

impl Counts {
    /// Whether every message came once, in order and unchanged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.repeated == 0 && self.reordered == 0 && self.corrupt == 0
    }

    /// Adds the sums of another stream.
    pub fn add(&mut self, other: &Self) {
        self.intact += other.intact;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.reordered += other.reordered;
        self.corrupt += other.corrupt;
    }
}

/// What arrives in one lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Of the publisher whose message came last.
    stream: Stream,
    /// Of the others, by identity.
    others: BTreeMap<u64, Stream>,
    /// Publishers alternate in this lane.
    is_shared: bool,
}

impl Lane {
    #[inline]
    fn receive(&mut self, stamp: Stamp) {
        if stamp.publisher() != self.stream.publisher {
            self.turn_to(stamp);
        }
        self.stream.receive(stamp);
    }

    #[cold]
    fn turn_to(&mut self, stamp: Stamp) {
        let publisher = stamp.publisher();
        let known = self.others.remove(&publisher);
        self.is_shared |= known.is_some();
        let is_first = self.stream.next.is_none();
        let stream = known.unwrap_or_else(|| Stream {
            publisher,
            unseen: if is_first { 0 } else { stamp.number() },
            ..Stream::default()
        });
        let before = std::mem::replace(&mut self.stream, stream);
        if !is_first {
            self.others.insert(before.publisher, before);
        }
    }

    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for stream in self.others.values().chain([&self.stream]) {
            sum.add(&stream.counts);
            if !self.is_shared {
                sum.lost += stream.unseen;
            }
        }
        sum
    }
}

/// One publisher's messages in one lane.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Its identity.
    publisher: u64,
    /// Messages before the first seen, where a publisher was seen in the lane before.
    unseen: u64,
    /// The next expected number; `None` before the first message.
    next: Option<u64>,
    first: u64,
    newest_ticks: u64,
    /// Numbers missing so far: start to end (exclusive).
    gaps: BTreeMap<u64, u64>,
    counts: Counts,
}

impl Stream {
    #[inline]
    fn receive(&mut self, stamp: Stamp) {
        self.counts.intact += 1;
        if self.next == Some(stamp.sequence) {
            self.next = Some(stamp.sequence + 1);
            self.newest_ticks = stamp.ticks;
            return;
        }
        self.receive_unexpected(stamp);
    }

    #[cold]
    fn receive_unexpected(&mut self, stamp: Stamp) {
        let sequence = stamp.sequence;
        let fresh_stream = stamp.number() == 0 && stamp.ticks > self.newest_ticks;
        match self.next {
            Some(next) if !fresh_stream && sequence < next => {
                if self.fill_gap(sequence) {
                    self.counts.lost -= 1;
                    self.counts.reordered += 1;
                } else if sequence < self.first {
                    self.counts.reordered += 1;
                } else {
                    self.counts.repeated += 1;
                }
                return;
            }
            Some(next) if !fresh_stream => {
                self.counts.lost += sequence - next;
                if self.gaps.len() == GAPS_MAX {
                    self.gaps.pop_first();
                }
                self.gaps.insert(next, sequence);
            }
            _ => {
                self.first = sequence;
                self.gaps.clear();
            }
        }
        self.next = Some(sequence.wrapping_add(1));
        self.newest_ticks = stamp.ticks;
    }

    /// Removes `sequence` from its gap; false if it is in none.
    fn fill_gap(&mut self, sequence: u64) -> bool {
        let Some((&start, &end)) = self.gaps.range(..=sequence).next_back() else {
            return false;
        };
        if sequence >= end {
            return false;
        }
        self.gaps.remove(&start);
        if start < sequence {
            self.gaps.insert(start, sequence);
        }
        if sequence + 1 < end {
            self.gaps.insert(sequence + 1, end);
        }
        true
    }
}

/// Checks every byte and every number of a channel's messages, lane by lane.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    lanes: Vec<Lane>,
    corrupt: u64,
}

impl Verifier {
    /// A verifier that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks one message of `lane`; returns its stamp if it is intact.
    #[inline]
    pub fn receive(&mut self, lane: usize, message: &[u8]) -> Option<Stamp> {
        let Some(stamp) = payload::check(message) else {
            self.corrupt += 1;
            return None;
        };
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        self.lanes[lane].receive(stamp);
        Some(stamp)
    }

    /// The sums over all lanes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts {
            corrupt: self.corrupt,
            ..Counts::default()
        };
        for lane in &self.lanes {
            sum.add(&lane.counts());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds numbers in this order, each with its time stamp.
    fn counts_of(numbers: &[u64]) -> Counts {
        let mut lane = Lane::default();
        for &sequence in numbers {
            lane.receive(Stamp {
                sequence,
                ticks: sequence + 100,
            });
        }
        lane.counts()
    }

    #[test]
    fn an_unbroken_stream_is_clean_wherever_it_starts() {
        assert!(counts_of(&[0, 1, 2, 3]).is_clean());
        assert_eq!(counts_of(&[41, 42, 43]).intact, 3);
        assert!(counts_of(&[41, 42, 43]).is_clean());
    }

    #[test]
    fn gaps_repeats_and_late_messages_are_distinguished() {
        assert_eq!(counts_of(&[0, 1, 5]).lost, 3);
        let late = counts_of(&[0, 1, 5, 3, 6]);
        assert_eq!((late.lost, late.reordered, late.repeated), (2, 1, 0));
        let again = counts_of(&[0, 1, 5, 3, 3, 1]);
        assert_eq!((again.lost, again.reordered, again.repeated), (2, 1, 2));
        let all_back = counts_of(&[0, 4, 3, 2, 1, 5]);
        assert_eq!((all_back.lost, all_back.reordered), (0, 3));
        assert_eq!(counts_of(&[7, 8, 6]).reordered, 1);
    }

    #[test]
    fn a_new_publisher_starts_again_at_zero() {
        let mut lane = Lane::default();
        for (sequence, ticks) in [(0, 10), (1, 11), (0, 20), (1, 21), (0, 20)] {
            lane.receive(Stamp { sequence, ticks });
        }
        let counts = lane.counts();
        assert_eq!((counts.lost, counts.repeated), (0, 1));
    }

    /// Feeds numbers of publishers in this order.
    fn counts_of_several(numbers: &[(u64, u64)]) -> Counts {
        let mut lane = Lane::default();
        for (at, &(publisher, number)) in (1..).zip(numbers) {
            let sequence = payload::first_of(publisher) + number;
            let ticks = at;
            lane.receive(Stamp { sequence, ticks });
        }
        lane.counts()
    }

    #[test]
    fn publishers_that_share_a_lane_are_counted_apart() {
        let turns = [(7, 0), (9, 40), (7, 1), (9, 41), (9, 42), (7, 2)];
        let counts = counts_of_several(&turns);
        assert!(counts.is_clean() && counts.intact == 6, "{counts:?}");
        let turns = [(7, 0), (9, 0), (9, 1), (7, 2), (9, 1), (9, 3), (9, 2)];
        let counts = counts_of_several(&turns);
        let found = (counts.lost, counts.repeated, counts.reordered);
        assert_eq!(found, (1, 1, 1), "{counts:?}");
    }

    #[test]
    fn what_a_later_publisher_of_a_lane_sent_first_is_missed() {
        assert_eq!(counts_of_several(&[(7, 5), (7, 6), (9, 3), (9, 4)]).lost, 3);
        assert!(counts_of_several(&[(7, 5), (7, 6), (9, 0), (9, 1)]).is_clean());
        assert!(counts_of_several(&[(0, 0), (0, 1), (9, 0), (9, 1)]).is_clean());
    }

    #[test]
    fn lanes_are_counted_apart_and_bad_bytes_are_corrupt() {
        let mut verifier = Verifier::new();
        let mut message = [0; 32];
        for sequence in 0..3 {
            for lane in [0, 4] {
                payload::fill(&mut message, Stamp { sequence, ticks: 1 });
                assert!(verifier.receive(lane, &message).is_some());
            }
        }
        message[31] ^= 1;
        assert!(verifier.receive(0, &message).is_none());
        let counts = verifier.counts();
        assert_eq!((counts.intact, counts.lost, counts.corrupt), (6, 0, 1));
        assert!(!counts.is_clean());
    }

    #[test]
    fn gaps_beyond_the_memory_stay_lost() {
        let evens: Vec<u64> = (0..5000).map(|n| n * 2).collect();
        let counts = counts_of(&evens);
        assert_eq!(counts.lost, 4999);
        let mut back = evens;
        back.push(1);
        assert_eq!(counts_of(&back).lost, 4999, "the oldest gap is forgotten");
    }
}
