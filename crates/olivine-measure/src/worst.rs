//! The worst messages of a stream, each with its cause.
//!
//! A message that is not among the worst costs one comparison. Causes come from evidence: spans of
//! time in which something kept a side from running, with the time that it took. A message has the
//! cause of the evidence that overlaps its latency and took at least half of it. If the ring was
//! seen empty after half of the latency, only causes on the side of the publisher count. Without
//! such evidence the cause is unknown; it is never guessed.

mod late;
mod report;
mod witness;

pub use late::Late;
pub use report::{LateMessage, Share, Tail, WorstReport};

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Messages that are kept at least: later readings may explain them, and so the part above p99.
const KEPT_MIN: usize = 256;
/// Pieces of evidence that are kept.
const EVIDENCE_MAX: usize = 256;
/// Buckets of one octave of the counts above the tail.
const STEPS_A_OCTAVE: u32 = 5;
/// Messages above the tail after which the tail is set again.
const RESET_EVERY: u64 = 1024;
/// Share of all messages that stay above the tail, in percent: twice what p99 leaves above it.
const TAIL_PERCENT: u64 = 2;

/// Why a message was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LateCause {
    /// The subscriber was ready, and another thread had its CPU.
    Preempted,
    /// The subscriber's process was stopped by a signal.
    SubscriberStopped,
    /// A thread of the publisher's process was ready without a CPU.
    PublisherPreempted,
    /// The publisher's process was stopped by a signal.
    PublisherStopped,
    /// The ring was seen empty after the message was due, and nothing says why.
    PublisherLate,
    /// The publisher found no room in its ring.
    RingFull,
    /// The hypervisor gave the CPU to another machine.
    Stolen,
    /// The CPU handled interrupts.
    Interrupts,
    /// Pages were read from disk.
    MajorFault,
    /// Pages were mapped or filled.
    MinorFault,
    /// The subscriber slept when the message was due.
    Asleep,
    /// This measurement was reading the causes of an earlier message.
    Measuring,
    /// No evidence explains it.
    Unknown,
}

impl fmt::Display for LateCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Preempted => "preemption of the subscriber",
            Self::SubscriberStopped => "a stopped subscriber",
            Self::PublisherPreempted => "preemption of the publisher",
            Self::PublisherStopped => "a stopped publisher",
            Self::PublisherLate => "a late publisher",
            Self::RingFull => "a full ring",
            Self::Stolen => "the hypervisor",
            Self::Interrupts => "interrupts",
            Self::MajorFault => "pages from disk",
            Self::MinorFault => "page faults",
            Self::Asleep => "wake-up, or a late publisher",
            Self::Measuring => "this measurement",
            Self::Unknown => "unknown",
        })
    }
}

impl LateCause {
    /// Whether it keeps a message from being published, not from being received.
    fn is_of_publisher(self) -> bool {
        matches!(
            self,
            Self::PublisherPreempted
                | Self::PublisherStopped
                | Self::PublisherLate
                | Self::RingFull
        )
    }

    /// Whether it is named only where nothing more precise explains as much.
    fn is_vague(self) -> bool {
        matches!(self, Self::Asleep | Self::PublisherLate | Self::Unknown)
    }
}

/// Something that kept a side from running.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Evidence {
    /// Start and end of the span in which it happened, in clock ticks.
    from: u64,
    to: u64,
    /// How long it took, in ticks. `None`: from the moment a message was due to the end of the
    /// span.
    ticks: Option<u64>,
    /// Step of the count behind it, in ticks: it explains nothing that is shorter than half a step.
    step: u64,
    /// What it was.
    cause: LateCause,
    /// The lane whose messages it kept; `None`: all.
    lane: Option<usize>,
    /// Who or what, as far as it is known.
    by: Option<String>,
}

impl Evidence {
    /// Of all lanes, counted exactly, by nothing that is known.
    fn new(from: u64, to: u64, ticks: Option<u64>, cause: LateCause) -> Self {
        Self {
            from,
            to,
            ticks,
            step: 0,
            cause,
            lane: None,
            by: None,
        }
    }

    /// Adds the next piece of the same, if both filled at least half of their time.
    fn extend(&mut self, next: &Self) -> bool {
        let (Some(before), Some(more)) = (self.ticks, next.ticks) else {
            return false;
        };
        let fills = |ticks: u64, from: u64, to: u64| ticks * 2 >= to - from;
        let goes_on = (self.lane, &self.by) == (next.lane, &next.by)
            && fills(before, self.from, self.to)
            && fills(more, next.from, next.to);
        if goes_on {
            (self.to, self.ticks) = (next.to, Some(before + more));
        }
        goes_on
    }

    /// Ticks of a latency from `due` to `received` that it explains.
    fn explains(&self, due: u64, received: u64) -> u64 {
        if self.to <= due || received <= self.from || (received - due) * 2 < self.step {
            return 0;
        }
        match self.ticks {
            Some(ticks) => ticks,
            None if self.from <= due => self.to.min(received) - due,
            None => 0,
        }
    }
}

/// A message that was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    sequence: u64,
    lane: usize,
    due: u64,
    ticks: u64,
    /// How much of this it was not in the ring, as far as that was seen.
    #[serde(skip)]
    unsent: u64,
    cause: LateCause,
    by: Option<String>,
}

/// The worst messages so far.
#[derive(Debug)]
struct Worst {
    /// The worst messages that are asked for: a reading is made for these only.
    count: usize,
    /// The longest latency first; at most `count`, or [`KEPT_MIN`] if that is more.
    kept: Vec<Kept>,
    /// Latencies up to this are not looked at, in ticks.
    from: u64,
    evidence: VecDeque<Evidence>,
    /// The last sleep of the subscriber.
    slept: Option<Evidence>,
    /// When the ring was seen empty last, in ticks.
    empty_at: u64,
    /// Messages with a latency above `from`, by bucket and cause.
    above: BTreeMap<(u64, LateCause), u64>,
    looked: u64,
    messages: u64,
    first_due: Option<u64>,
}

impl Worst {
    /// Keeps the `count` worst messages.
    fn new(count: usize) -> Self {
        Self {
            count,
            kept: Vec::new(),
            from: 0,
            evidence: VecDeque::with_capacity(EVIDENCE_MAX),
            slept: None,
            empty_at: 0,
            above: BTreeMap::new(),
            looked: 0,
            messages: 0,
            first_due: None,
        }
    }

    /// A message was received. `gather` is called if it is among the worst and nothing known
    /// explains it precisely: it returns new evidence.
    #[inline]
    fn note(
        &mut self,
        sequence: u64,
        lane: usize,
        due: u64,
        received: u64,
        gather: impl FnOnce() -> Vec<Evidence>,
    ) {
        self.messages += 1;
        let ticks = received.saturating_sub(due);
        if ticks > self.from {
            let kept = Kept {
                sequence,
                lane,
                due,
                ticks,
                unsent: self.empty_at.min(received).saturating_sub(due),
                cause: LateCause::Unknown,
                by: None,
            };
            self.look(kept, gather);
        }
    }

    #[cold]
    fn look(&mut self, mut message: Kept, gather: impl FnOnce() -> Vec<Evidence>) {
        self.first_due.get_or_insert(message.due);
        self.explain(&mut message);
        let ticks = message.ticks;
        let place = self.kept.partition_point(|kept| kept.ticks >= ticks);
        if place < self.count && message.cause.is_vague() {
            self.add(gather());
            self.explain(&mut message);
        }
        let bucket = bucket(message.ticks);
        *self.above.entry((bucket, message.cause)).or_insert(0) += 1;
        self.looked += 1;
        self.kept.insert(place, message);
        self.kept.truncate(self.count.max(KEPT_MIN));
        if self.looked.is_multiple_of(RESET_EVERY) {
            self.raise();
        }
    }

    /// Adds what a reading has found, which may explain messages that came since the last one.
    fn add(&mut self, found: Vec<Evidence>) {
        let Some(since) = found.iter().map(|evidence| evidence.from).min() else {
            return;
        };
        found.into_iter().for_each(|evidence| self.push(evidence));
        let mut kept = std::mem::take(&mut self.kept);
        let vague = kept.iter_mut().filter(|one| one.cause.is_vague());
        for message in vague.filter(|one| one.due + one.ticks > since) {
            let (bucket, before) = (bucket(message.ticks), message.cause);
            self.explain(message);
            if let Some(count) = self.above.get_mut(&(bucket, before))
                && before != message.cause
            {
                *count -= 1;
                *self.above.entry((bucket, message.cause)).or_insert(0) += 1;
            }
        }
        self.kept = kept;
    }

    /// Adds evidence. The oldest gives way. What goes on from one reading to the next is one piece.
    fn push(&mut self, evidence: Evidence) {
        let known = self.evidence.iter_mut().rev();
        let mut known = known.filter(|one| one.to == evidence.from && one.cause == evidence.cause);
        if known.next().is_some_and(|one| one.extend(&evidence)) {
            return;
        }
        if self.evidence.len() == EVIDENCE_MAX {
            self.evidence.pop_front();
        }
        self.evidence.push_back(evidence);
    }

    /// The subscriber waited in this span of ticks, and may have slept. Only the last is kept.
    fn slept(&mut self, from: u64, to: u64) {
        self.slept = Some(Evidence::new(from, to, None, LateCause::Asleep));
    }

    /// A look at the ring that began at `at`, in ticks, found it empty.
    #[inline]
    fn empty(&mut self, at: u64) {
        self.empty_at = at;
    }

    /// Gives a message the cause that explains the most of its latency, and at least half of it.
    fn explain(&self, message: &mut Kept) {
        let half = message.ticks.div_ceil(2).max(1);
        // A message that was not in the ring for half of the time was published late.
        let is_published_late = message.unsent >= half;
        let received = message.due + message.ticks;
        let explains = |one: &Evidence| one.explains(message.due, received).min(message.ticks);
        let fits = |one: &&Evidence| {
            explains(one) >= half
                && one.lane.is_none_or(|of| of == message.lane)
                && (!is_published_late || one.cause.is_of_publisher())
        };
        // A sleep also covers what kept its end off, so it is the last choice. Of two that explain
        // the same, the newer one is the nearer one.
        let known = self.slept.iter().chain(&self.evidence).filter(fits);
        let best = known.max_by_key(|one| (!one.cause.is_vague(), explains(one), one.to));
        if let Some(best) = best {
            (message.cause, message.by) = (best.cause, best.by.clone());
        } else if is_published_late {
            message.cause = LateCause::PublisherLate;
        }
    }

    /// Looks at few messages only: those above p98 so far, and no fewer than are kept.
    fn raise(&mut self) {
        let target = (self.messages * TAIL_PERCENT / 100).max(self.count as u64);
        let mut above = 0;
        let mut from = 0;
        for ((bucket, _), count) in self.above.iter().rev() {
            above += count;
            if above > target {
                from = *bucket;
                break;
            }
        }
        // The bucket itself stays: its messages are above its start.
        self.from = self.from.max(start(from).saturating_sub(1));
        self.above.retain(|(bucket, _), _| *bucket >= from);
    }

    /// What was found since the last call, and begins anew. Evidence is kept.
    fn take(&mut self) -> Tail {
        let fresh = Self {
            evidence: std::mem::take(&mut self.evidence),
            slept: self.slept.take(),
            empty_at: self.empty_at,
            ..Self::new(self.count)
        };
        let found = std::mem::replace(self, fresh);
        let above = found.above.into_iter();
        Tail::new(
            found.count,
            found.kept,
            above.map(|((bucket, cause), count)| (bucket, cause, count)),
            found.first_due,
        )
    }
}

/// Buckets of rising width: 32 of each octave.
fn bucket(ticks: u64) -> u64 {
    let shift = (64 - ticks.leading_zeros()).saturating_sub(STEPS_A_OCTAVE + 1);
    (u64::from(shift) << (STEPS_A_OCTAVE + 1)) | (ticks >> shift)
}

/// The smallest value of a bucket.
fn start(bucket: u64) -> u64 {
    let mask = (1 << (STEPS_A_OCTAVE + 1)) - 1;
    (bucket & mask) << (bucket >> (STEPS_A_OCTAVE + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TickClock;
    use crate::latency::Latency;

    /// The cause of a message of lane 0; `None` if it is unknown.
    fn cause(worst: &Worst, due: u64, received: u64) -> Option<LateCause> {
        let mut message = Kept {
            sequence: 0,
            lane: 0,
            due,
            ticks: received - due,
            unsent: worst.empty_at.min(received).saturating_sub(due),
            cause: LateCause::Unknown,
            by: None,
        };
        worst.explain(&mut message);
        Some(message.cause).filter(|cause| *cause != LateCause::Unknown)
    }

    #[test]
    fn buckets_rise_and_start_where_they_say() {
        let mut last = 0;
        for ticks in (0..5_000).chain((5_000..1 << 40).step_by(7_654_321_987)) {
            let found = bucket(ticks);
            assert!(found >= last && start(found) <= ticks, "{ticks}");
            assert!(ticks - start(found) <= ticks / 32, "{ticks}");
            last = found;
        }
    }

    #[test]
    fn cause_is_named_only_if_it_took_half_of_the_latency_and_at_that_time() {
        let mut worst = Worst::new(10);
        worst.push(Evidence::new(
            1_000,
            5_000,
            Some(3_000),
            LateCause::Preempted,
        ));
        let cause = |due, received| cause(&worst, due, received);
        assert_eq!(cause(1_500, 5_000), Some(LateCause::Preempted));
        // A follower, which was due meanwhile.
        assert_eq!(cause(4_000, 5_010), Some(LateCause::Preempted));
        // Longer than it explains; before and behind it.
        assert_eq!(cause(1_500, 8_000), None);
        assert_eq!(cause(0, 1_000), None);
        assert_eq!(cause(5_000, 6_000), None);
    }

    #[test]
    fn sleep_explains_what_was_due_in_it_until_its_end() {
        let mut worst = Worst::new(10);
        worst.slept(1_000, 5_000);
        assert_eq!(cause(&worst, 4_000, 5_100), Some(LateCause::Asleep));
        assert_eq!(cause(&worst, 4_900, 5_300), None);
        assert_eq!(
            cause(&worst, 900, 5_000),
            None,
            "it was due before the sleep began"
        );
        // Half of it was something more precise.
        worst.push(Evidence::new(1_000, 5_100, Some(600), LateCause::Preempted));
        assert_eq!(cause(&worst, 4_000, 5_100), Some(LateCause::Preempted));
    }

    #[test]
    fn what_goes_on_over_several_readings_is_one_piece() {
        let mut worst = Worst::new(10);
        for at in 0..20 {
            let full = Evidence::new(at * 100, at * 100 + 100, Some(90), LateCause::RingFull);
            worst.push(full);
            // Rare and short: it explains no long latency.
            let rare = Evidence::new(at * 100, at * 100 + 100, Some(10), LateCause::Preempted);
            worst.push(rare);
        }
        let cause = |due, received| cause(&worst, due, received);
        assert_eq!(cause(50, 2_000), Some(LateCause::RingFull));
        assert_eq!(worst.evidence.len(), 1 + 20);
    }

    /// Readings are not made for each message: the next one may explain several.
    #[test]
    fn later_reading_explains_messages_that_came_before_it() {
        let mut worst = Worst::new(2);
        for n in 0..3 {
            worst.note(n, 0, 1_000 + n, 2_000, Vec::new);
        }
        let late = Evidence::new(500, 2_500, Some(1_500), LateCause::Preempted);
        worst.add(vec![late]);
        let causes = worst.kept.iter().map(|one| one.cause);
        assert!(causes.eq([LateCause::Preempted; 3]));
        let mut all = Latency::new();
        all.record_many(1, 999);
        all.record_many(1_000, 3);
        let report = worst.take().report(&all, &TickClock::calibrate());
        assert_eq!(report.messages.len(), 2);
        let preempted = Share {
            cause: LateCause::Preempted,
            percent: 100.0,
        };
        assert_eq!(report.above_p99, [preempted]);
    }

    /// A count in steps cannot tell what took less than one.
    #[test]
    fn count_in_steps_explains_nothing_shorter_than_half_a_step() {
        let mut worst = Worst::new(10);
        worst.push(Evidence {
            step: 1_000,
            ..Evidence::new(0, 9_000, Some(1_000), LateCause::Interrupts)
        });
        let cause = |due, received| cause(&worst, due, received);
        assert_eq!(cause(100, 599), None);
        assert_eq!(cause(100, 600), Some(LateCause::Interrupts));
    }

    #[test]
    fn message_that_was_not_in_the_ring_was_late_because_of_its_publisher() {
        let mut worst = Worst::new(10);
        worst.push(Evidence::new(
            1_000,
            9_000,
            Some(8_000),
            LateCause::Preempted,
        ));
        worst.empty(4_000);
        assert_eq!(cause(&worst, 2_000, 5_000), Some(LateCause::PublisherLate));
        // It was published for more than half of the time.
        assert_eq!(cause(&worst, 3_000, 5_100), Some(LateCause::Preempted));
        let mut full = Evidence::new(1_000, 9_000, Some(8_000), LateCause::RingFull);
        full.lane = Some(1);
        worst.push(full.clone());
        assert_eq!(cause(&worst, 2_000, 5_000), Some(LateCause::PublisherLate));
        full.lane = Some(0);
        worst.push(full);
        assert_eq!(cause(&worst, 2_000, 5_000), Some(LateCause::RingFull));
    }

    /// As a benchmark does after each of its slices.
    #[test]
    fn tails_of_two_streams_are_joined() {
        let mut worst = Worst::new(2);
        let mut all = Latency::new();
        let mut tail = Tail::default();
        for slice in 0..4_u64 {
            for n in 0..1_000 {
                let due = 1_000_000 * (slice + 1) + n * 100;
                let ticks = if n < 2 { 10_000 + slice } else { 10 };
                all.record(ticks);
                let known = || {
                    vec![Evidence::new(
                        due,
                        due + ticks,
                        Some(ticks),
                        LateCause::RingFull,
                    )]
                };
                worst.note(n, 0, due, due + ticks, known);
            }
            tail.join(worst.take());
        }
        let report = tail.report(&all, &TickClock::calibrate());
        assert_eq!(report.messages.len(), 2);
        let clock = TickClock::calibrate();
        let longest = report.messages.iter().map(|one| one.latency_ns);
        assert!(longest.eq([clock.nanos(10_003); 2]));
        // All 8 long ones count.
        let full = Share {
            cause: LateCause::RingFull,
            percent: 100.0,
        };
        assert_eq!(report.above_p99, [full]);
    }

    /// One of 20 messages is long; evidence exists for half of these.
    #[test]
    fn worst_messages_are_kept_and_shares_are_of_those_above_p99() {
        let mut worst = Worst::new(4);
        let mut all = Latency::new();
        let mut gathered = 0;
        for n in 0..100_000_u64 {
            let due = 1_000_000 + n * 10_000;
            let ticks = match n % 200 {
                0 => 5_000 + n / 200,
                _ => 100 + n % 7,
            };
            all.record(ticks);
            worst.note(n, 3, due, due + ticks, || {
                gathered += 1;
                if n % 400 == 0 {
                    vec![Evidence::new(
                        due,
                        due + ticks,
                        Some(ticks),
                        LateCause::RingFull,
                    )]
                } else {
                    Vec::new()
                }
            });
        }
        assert!(gathered < 3_000, "{gathered} of 100,000");
        let clock = TickClock::calibrate();
        let report = worst.take().report(&all, &clock);
        let kept: Vec<u64> = report.messages.iter().map(|one| one.sequence).collect();
        assert_eq!(kept, [99_800, 99_600, 99_400, 99_200]);
        let causes: Vec<_> = report.messages.iter().map(|one| one.cause).collect();
        let (full, unknown) = (LateCause::RingFull, LateCause::Unknown);
        assert_eq!(causes, [unknown, full, unknown, full]);
        assert_eq!(report.messages[0].lane, 3);
        let share = |cause| {
            let found = report.above_p99.iter().find(|share| share.cause == cause);
            found.map_or(0.0, |share| share.percent)
        };
        assert!(share(full) > 0.0 && share(unknown) > 0.0, "{report:?}");
        let total: f64 = report.above_p99.iter().map(|share| share.percent).sum();
        assert!((99.0..101.0).contains(&total), "{report:?}");
        let sentence = report.sentence().unwrap();
        assert!(sentence.contains(" % of what is above p99 ("), "{sentence}");
        assert_eq!(report.text().lines().count(), 1 + 4 + 1);
    }

    #[test]
    fn few_messages_have_no_share() {
        let mut worst = Worst::new(2);
        let mut all = Latency::new();
        for n in 0..10 {
            all.record(n);
            worst.note(n, 0, 50, 50 + n, Vec::new);
        }
        let report = worst.take().report(&all, &TickClock::calibrate());
        assert_eq!((report.sentence(), report.messages.len()), (None, 2));
        assert_eq!(report.above_p99, []);
    }
}
