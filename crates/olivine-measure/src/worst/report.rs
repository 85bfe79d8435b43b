//! What the worst messages of a stream came to: a list with causes, and a sentence.

use super::{Kept, LateCause, bucket};
use crate::clock::TickClock;
use crate::latency::Latency;
use crate::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Messages from which a share above p99 is named.
const SHARED_FROM: u64 = 1_000;

/// One of the worst messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateMessage {
    /// Its sequence number, from 0.
    pub sequence: u64,
    /// Lane of its publisher.
    pub lane: usize,
    /// When it was due, in seconds since the first message.
    pub at_s: f64,
    /// Its latency in nanoseconds.
    pub latency_ns: u64,
    /// Why it was late.
    pub cause: LateCause,
    /// Who or what, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
}

/// A share of the messages above p99.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The cause.
    pub cause: LateCause,
    /// Percent of the messages above p99.
    pub percent: f64,
}

/// The worst messages, and the causes of those above p99.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstReport {
    /// The worst messages, the longest latency first.
    pub messages: Vec<LateMessage>,
    /// p99 of all messages in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Causes of the messages above p99, the most frequent first.
    pub above_p99: Vec<Share>,
}

/// The worst messages of a stream, and the counts of its late ones. Those of several streams can be
/// joined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tail {
    count: usize,
    /// The longest latency first.
    kept: Vec<Kept>,
    /// Late messages: bucket, cause, count.
    above: Vec<(u64, LateCause, u64)>,
    first_due: Option<u64>,
}

impl Tail {
    pub(super) fn new(
        count: usize,
        mut kept: Vec<Kept>,
        above: impl Iterator<Item = (u64, LateCause, u64)>,
        first_due: Option<u64>,
    ) -> Self {
        kept.truncate(count);
        Self {
            count,
            kept,
            above: above.collect(),
            first_due,
        }
    }

    /// Names who or what was behind `cause`, where that is not known.
    pub(super) fn name(&mut self, cause: LateCause, name: impl FnOnce() -> Option<String>) {
        let is_meant = |kept: &&mut Kept| kept.cause == cause && kept.by.is_none();
        let mut meant = self.kept.iter_mut().filter(is_meant).peekable();
        if meant.peek().is_some() {
            let name = name();
            meant.for_each(|kept| kept.by.clone_from(&name));
        }
    }

    /// Adds those of another stream, and keeps the worst of both.
    pub fn join(&mut self, other: Self) {
        self.count = self.count.max(other.count);
        self.kept.extend(other.kept);
        self.kept
            .sort_by(|a, b| b.ticks.cmp(&a.ticks).then(a.due.cmp(&b.due)));
        self.kept.truncate(self.count);
        self.above.extend(other.above);
        let due = self.first_due.into_iter().chain(other.first_due);
        self.first_due = due.min();
    }

    /// The report; `all` are the latencies of all messages.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn report(self, all: &Latency, clock: &TickClock) -> WorstReport {
        let first = self.first_due.unwrap_or(0);
        let messages = self.kept.into_iter().map(|kept| LateMessage {
            sequence: kept.sequence,
            lane: kept.lane,
            at_s: clock.nanos(kept.due.saturating_sub(first)) as f64 / 1e9,
            latency_ns: clock.nanos(kept.ticks),
            cause: kept.cause,
            by: kept.by,
        });
        let histogram = all.histogram();
        let p99 = (all.count() >= SHARED_FROM).then(|| histogram.value_at_quantile(0.99));
        let mut counts: BTreeMap<LateCause, u64> = BTreeMap::new();
        if let Some(p99) = p99.map(bucket) {
            let late = self.above.iter().filter(|(bucket, ..)| *bucket > p99);
            late.for_each(|(_, cause, count)| *counts.entry(*cause).or_default() += count);
            let looked: u64 = counts.values().sum();
            let steps = histogram.iter_recorded();
            let above = steps.filter(|step| bucket(step.value_iterated_to()) > p99);
            let above: u64 = above.map(|step| step.count_at_value()).sum();
            // Of the others in this part no cause was looked for.
            *counts.entry(LateCause::Unknown).or_default() += above.saturating_sub(looked);
        }
        let total: u64 = counts.values().sum();
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut above_p99: Vec<Share> = counts
            .map(|(cause, count)| Share {
                cause,
                percent: (count as f64 * 1e3 / total as f64).round() / 10.0,
            })
            .collect();
        above_p99.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        WorstReport {
            messages: messages.collect(),
            p99_ns: p99.map(|ticks| clock.nanos(ticks)),
            above_p99,
        }
    }
}

impl WorstReport {
    /// What is above p99, in one sentence; `None` with fewer than 1,000 messages.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub fn sentence(&self) -> Option<String> {
        let p99 = text::nanos(self.p99_ns? as f64);
        let Some((most, others)) = self.above_p99.split_first() else {
            return Some(format!("nothing is notably above p99 ({p99})"));
        };
        let mut sentence = format!(
            "{} % of what is above p99 ({p99}) is {}",
            most.percent, most.cause
        );
        for share in others {
            sentence.push_str(&format!(", {} % {}", share.percent, share.cause));
        }
        Some(sentence)
    }

    /// A table for people: heading, a row for each message, the sentence.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:>10}  {:>4}  {:>10}  {:>9}  CAUSE\n",
            "MESSAGE", "LANE", "AT", "LATENCY"
        );
        for message in &self.messages {
            out.push_str(&format!(
                "{:>10}  {:>4}  {:>8.3} s  {:>9}  {}\n",
                message.sequence,
                message.lane,
                message.at_s,
                text::nanos(message.latency_ns as f64),
                message.why(),
            ));
        }
        if let Some(sentence) = self.sentence() {
            out.push_str(&format!("{sentence}\n"));
        }
        out
    }
}

impl LateMessage {
    /// The cause, and who or what as far as it is known.
    #[must_use]
    pub fn why(&self) -> String {
        match &self.by {
            Some(by) => format!("{}: {by}", self.cause),
            None => self.cause.to_string(),
        }
    }
}
