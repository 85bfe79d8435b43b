//! Many processes on one channel: one publisher to several subscribers, or several to several.
//!
//! Measures: from a common start to the last check of the last subscriber; every subscriber checks
//! every message of every publisher, in order. Participants are pinned to the CPUs of the floor
//! first, publishers before subscribers, then to the other allowed ones, and again from the start.
//! Does not measure: more participants than CPUs on more CPUs; such rows are marked as
//! oversubscribed.

use super::registry::Scenario;
use super::throughput::many;
use super::turns::{Subject, measure};
use super::{Session, Variant};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::nanos;
use crate::method::Side;
use crate::protocol::{Batches, Role, Work};
use crate::result::{Figures, Load, Pair};
use crate::run::Participants;
use std::time::Duration;

/// Time of one slice in nanoseconds.
const SLICE_NS: f64 = 60e6;
/// Messages of each publisher that determine how many fit a slice.
const FIRST_COUNT: u64 = 2_000;
/// Most messages of each publisher in a slice.
const COUNT_MAX: u64 = 1 << 26;

/// One publisher to several subscribers.
pub const FANOUT: Scenario = Scenario {
    name: "fanout",
    about: "throughput of one publisher to several subscribers, each in its own process",
    heading: "Full speed, one publisher, several subscribers that get every message",
    load: Load::Saturated,
    keys: &["subscribers", "batch", "wait", "capacity", "topic"],
    defaults: &[("size", "32"), ("subscribers", "1,2,4,8"), ("batch", "1")],
    in_harness: false,
    goals: &[],
    run: measure::<Mesh<true>>,
};

/// Several publishers to several subscribers.
pub const MESH: Scenario = Scenario {
    name: "mesh",
    about: "throughput of several publishers to several subscribers, each in its own process",
    heading: "Full speed, several publishers and subscribers, every message to each",
    load: Load::Saturated,
    keys: &[
        "publishers",
        "subscribers",
        "batch",
        "wait",
        "capacity",
        "topic",
    ],
    defaults: &[
        ("size", "32"),
        ("publishers", "6"),
        ("subscribers", "6"),
        ("batch", "1"),
    ],
    in_harness: false,
    goals: &[],
    run: measure::<Mesh<false>>,
};

/// Ticks from the start to the last check: in total, and of each publisher and subscriber.
type Elapsed = (u64, Vec<(u32, u32, u64)>);

/// All participants of one channel, each a process: first the publishers.
struct Mesh<const FAN_OUT: bool> {
    publishers: usize,
    subscribers: usize,
    batch: usize,
    /// Number of each publisher's next message.
    sequence: u64,
    /// Messages of each publisher in a slice.
    count: u64,
}

impl<const FAN_OUT: bool> Subject for Mesh<FAN_OUT> {
    const SCENARIO: &'static Scenario = if FAN_OUT { &FANOUT } else { &MESH };

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.3
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let of = &variant.parameters;
        let (publishers, subscribers) =
            (of.publishers_count as usize, of.subscribers_count as usize);
        let (uri, _) = many(session, variant)?;
        let set = &mut session.set;
        for end in 0..publishers {
            set.open_channel(end, Side::Client, &uri, variant.size())?;
        }
        let mut mesh = Self {
            publishers,
            subscribers,
            batch: usize::try_from(of.batch_count).unwrap_or(1),
            sequence: 0,
            count: FIRST_COUNT,
        };
        for most in [COUNT_MAX / 16, COUNT_MAX] {
            let (elapsed, _) = mesh.play(set)?;
            let each_ns = nanos(&session.clock, elapsed) / mesh.count as f64;
            mesh.count = super::rounds_in(SLICE_NS, each_ns, most);
        }
        Ok(mesh)
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures> {
        let count = self.count as f64;
        let (elapsed, pairs) = self.play(set)?;
        let per_s = |ticks: u64| count / nanos(clock, ticks) * 1e9;
        let pair = |(publisher, subscriber, ticks): &(u32, u32, u64)| Pair {
            publisher: *publisher,
            subscriber: *subscriber,
            messages_per_s: per_s(*ticks),
        };
        let mut figures = Figures::rate(per_s(elapsed) * self.publishers as f64);
        figures.pairs = pairs.iter().map(pair).collect();
        Ok(figures)
    }
}

impl<const FAN_OUT: bool> Mesh<FAN_OUT> {
    /// All publish and check; returns the ticks from the start to the last check, and to the last
    /// check of each pair (publisher, subscriber, ticks).
    fn play(&mut self, set: &mut Participants<'_>) -> Result<Elapsed> {
        let (first, count) = (self.sequence, self.count);
        let (publishers, batch) = (self.publishers, self.batch);
        let stream = |own| {
            Work::Stream(Batches {
                first,
                count,
                batch,
                own,
            })
        };
        let take = Work::Take {
            first,
            count,
            publishers,
        };
        let mut works: Vec<Work> = (0..publishers as u64).map(stream).collect();
        works.resize(publishers + self.subscribers, take);
        let done = set.run(Role::Measured, &works, Duration::ZERO)?;
        let (sent, taken) = done.split_at(publishers);
        let start = sent.iter().map(|done| done.start_ticks).min().unwrap_or(0);
        let mut pairs = Vec::new();
        for (subscriber, done) in (0..).zip(taken) {
            let of =
                |(publisher, end): (u32, &u64)| (publisher, subscriber, end.saturating_sub(start));
            pairs.extend((0..).zip(&done.ends_ticks).map(of));
        }
        self.sequence += count;
        let elapsed = pairs.iter().map(|(_, _, ticks)| *ticks).max().unwrap_or(0);
        Ok((elapsed, pairs))
    }
}
