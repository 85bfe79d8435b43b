//! What one subscriber received, over all its lives: every byte and every number is checked.
//!
//! A durable subscriber that is killed gets the message returned last again. So the first message
//! of a publisher after a kill may be the last one before it: that one counts as redelivered. Every
//! other message that comes twice counts as repeated.

use super::PUBLISHERS;
use olivine_bench::payload::{self, Stamp};
use olivine_bench::tally::{Counts, Verifier};

/// What came from one publisher.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    count: u64,
    /// Identity of its newest life.
    identity: u64,
    /// When the last message came, and how often either end had been disturbed.
    last: Option<(u64, u64)>,
}

/// The longest time without a message between two participants that nothing was done to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) ns: u64,
    pub(super) publisher: usize,
}

/// The state of the checks.
#[derive(Debug, Default)]
pub(super) struct Seen {
    verifier: Verifier,
    sources: [Source; PUBLISHERS],
    redelivered: u64,
    /// Messages of no publisher of ours, and incomplete ones.
    torn: u64,
    last: Option<(usize, Stamp)>,
    /// The last message before a kill.
    in_work: Option<(usize, Stamp)>,
    worst: Stall,
}

impl Seen {
    /// Checks a message with the tag of its publisher, which came at `now_ns`. `disturbed` counts
    /// what was done to a publisher and to this subscriber; `None` while something is being done.
    pub(super) fn receive(
        &mut self,
        tag: u32,
        message: &[u8],
        now_ns: u64,
        disturbed: impl Fn(usize) -> Option<u64>,
    ) {
        let publisher = usize::try_from(tag).unwrap_or(usize::MAX);
        let stamp = payload::check(message);
        let (Some(source), Some(stamp)) = (self.sources.get_mut(publisher), stamp) else {
            self.torn += 1;
            return;
        };
        let this = (publisher, stamp);
        if self.in_work.is_some_and(|(of, _)| of == publisher) && self.in_work.take() == Some(this)
        {
            self.redelivered += 1;
            return;
        }
        let disturbed = disturbed(publisher);
        if let (Some((last_ns, before)), Some(now)) = (source.last, disturbed)
            && before == now
        {
            let ns = now_ns.saturating_sub(last_ns);
            if ns > self.worst.ns {
                self.worst = Stall { ns, publisher };
            }
        }
        source.last = disturbed.map(|count| (now_ns, count));
        source.count += 1;
        source.identity = stamp.publisher();
        self.last = Some(this);
        self.verifier.receive(publisher, message);
    }

    /// A life of the subscriber ended; `killed` if it was not asked to end. `rest` is the number of
    /// bytes after the last whole message.
    pub(super) fn end_life(&mut self, killed: bool, rest: usize) {
        if killed {
            // It wrote a part of a message, and gets the whole one in its next life.
            self.in_work = self.last;
        } else if rest > 0 {
            self.torn += 1;
        }
    }

    /// Messages of a publisher so far.
    pub(super) fn count_of(&self, publisher: usize) -> u64 {
        self.sources[publisher].count
    }

    /// Identity of the newest life of a publisher.
    pub(super) fn identity_of(&self, publisher: usize) -> u64 {
        self.sources[publisher].identity
    }

    /// Different messages of all publishers.
    pub(super) fn distinct(&self) -> u64 {
        let counts = self.verifier.counts();
        counts.intact.saturating_sub(counts.repeated)
    }

    pub(super) fn redelivered(&self) -> u64 {
        self.redelivered
    }

    pub(super) fn worst(&self) -> Stall {
        self.worst
    }

    /// The sums, if `published` messages were published.
    pub(super) fn counts(&self, published: u64) -> Counts {
        let mut counts = self.verifier.counts();
        counts.corrupt += self.torn;
        // Messages missing at the end of a life leave no gap in the numbers.
        counts.lost = counts.lost.max(published.saturating_sub(self.distinct()));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds messages of publisher 0 with these numbers, all in undisturbed time.
    fn feed(seen: &mut Seen, numbers: &[u64]) {
        for number in numbers {
            let mut message = [0; 32];
            let stamp = Stamp {
                sequence: payload::first_of(7) + number,
                ticks: 100 + number,
            };
            payload::fill(&mut message, stamp);
            seen.receive(0, &message, number * 10, |_| Some(0));
        }
    }

    #[test]
    fn message_in_work_at_a_kill_may_come_again_and_no_other() {
        let mut seen = Seen::default();
        feed(&mut seen, &[0, 1, 2]);
        seen.end_life(true, 5);
        feed(&mut seen, &[2, 3]);
        assert_eq!(seen.redelivered(), 1);
        assert!(seen.counts(4).is_clean(), "{:?}", seen.counts(4));
        feed(&mut seen, &[3]);
        assert_eq!(seen.counts(4).repeated, 1);
        let mut seen = Seen::default();
        feed(&mut seen, &[0, 1, 2]);
        seen.end_life(true, 0);
        feed(&mut seen, &[1, 2, 3]);
        assert_eq!(seen.counts(4).repeated, 2, "older ones were released");
        let mut seen = Seen::default();
        feed(&mut seen, &[0, 1]);
        seen.end_life(false, 0);
        feed(&mut seen, &[1]);
        assert_eq!(seen.counts(2).repeated, 1, "it ended in order");
    }

    #[test]
    fn missing_messages_count_as_lost_also_at_the_end() {
        let mut seen = Seen::default();
        feed(&mut seen, &[0, 1, 4]);
        assert_eq!(seen.counts(5).lost, 2);
        assert_eq!(seen.counts(7).lost, 4);
    }

    #[test]
    fn wrong_byte_foreign_message_and_cut_message_count_as_torn() {
        let mut seen = Seen::default();
        let mut message = [0; 32];
        let stamp = Stamp {
            sequence: 0,
            ticks: 1,
        };
        payload::fill(&mut message, stamp);
        message[31] ^= 1;
        seen.receive(0, &message, 0, |_| Some(0));
        seen.receive(u32::MAX, b"x", 0, |_| Some(0));
        seen.end_life(true, 3);
        assert_eq!(seen.counts(0).corrupt, 2);
        seen.end_life(false, 3);
        assert_eq!(seen.counts(0).corrupt, 3);
    }

    #[test]
    fn stalls_count_only_where_neither_end_was_disturbed() {
        let mut seen = Seen::default();
        let at = |seen: &mut Seen, number: u64, now_ns, disturbed| {
            let mut message = [0; 32];
            let stamp = Stamp {
                sequence: number,
                ticks: number,
            };
            payload::fill(&mut message, stamp);
            seen.receive(0, &message, now_ns, |_| disturbed);
        };
        at(&mut seen, 0, 0, Some(0));
        at(&mut seen, 1, 50, Some(0));
        at(&mut seen, 2, 1_000, None);
        at(&mut seen, 3, 2_000, Some(2));
        at(&mut seen, 4, 2_010, Some(2));
        at(&mut seen, 5, 9_000, Some(4));
        assert_eq!(seen.worst().ns, 50);
    }
}
