//! Many processes on one channel: one publisher to several subscribers, or several to several.
//!
//! Measures: from a common start to the last check of the last subscriber; every subscriber checks
//! every message of every publisher, in order. Participants are pinned to the CPUs of the floor
//! first, publishers before subscribers, then to the other allowed ones, and again from the start.
//! Does not measure: more participants than CPUs on more CPUs; such rows are marked as
//! oversubscribed.

use super::registry::Scenario;
use super::turns::{Subject, measure};
use super::{Found, Session, Setup, Variant, Watch};
use crate::channel::TemporaryChannel;
use crate::clock::TickClock;
use crate::error::{BenchError, Result};
use crate::floor::nanos;
use crate::kernel::Observed;
use crate::peer::{Order, Peer};
use crate::result::{Figures, Load, Pair, Parameters};
use olivine::OpenError;

/// Time of one slice in nanoseconds.
const SLICE_NS: f64 = 60e6;
/// From the last order to the common start, in nanoseconds.
const START_IN_NS: u64 = 5_000_000;
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
    keys: &["subscribers", "batch", "wait", "capacity"],
    in_harness: false,
    run: fanout,
};

/// Several publishers to several subscribers.
pub const MESH: Scenario = Scenario {
    name: "mesh",
    about: "throughput of several publishers to several subscribers, each in its own process",
    heading: "Full speed, several publishers and subscribers, every message to each",
    load: Load::Saturated,
    keys: &["publishers", "subscribers", "batch", "wait", "capacity"],
    in_harness: false,
    run: mesh,
};

/// Measures one publisher with several subscribers, every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`] if there is no row at all; a variant that fails has a row that says why.
fn fanout(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<Mesh<true>>(setup, variants, watch)
}

/// Measures several publishers with several subscribers, every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`] if there is no row at all; a variant that fails has a row that says why.
fn mesh(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<Mesh<false>>(setup, variants, watch)
}

/// Ticks from the start to the last check: in total, and of each publisher and subscriber.
type Elapsed = (u64, Vec<(u32, u32, u64)>);

/// All participants of one channel, each a process.
struct Mesh<const FAN_OUT: bool> {
    publishers: Vec<Peer>,
    subscribers: Vec<Peer>,
    /// Bytes of a message.
    size: usize,
    /// Number of each publisher's next message.
    sequence: u64,
    /// Messages of each publisher in a slice.
    count: u64,
    _channel: TemporaryChannel,
}

impl<const FAN_OUT: bool> Subject for Mesh<FAN_OUT> {
    const SCENARIO: &'static Scenario = if FAN_OUT { &FANOUT } else { &MESH };

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.3
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let Parameters {
            publishers_count,
            subscribers_count,
            batch_count,
            settings,
            ..
        } = &variant.parameters;
        let channel = TemporaryChannel::new("mesh", 0, settings).map_err(OpenError::from)?;
        let pinned = session.setup.cpus_of(publishers_count + subscribers_count);
        let mut cpus = pinned.iter().copied().cycle();
        let mut start = |count: u32| -> Result<Vec<Peer>> {
            let peers = (0..count).map(|_| {
                let cpu = cpus.next().ok_or(BenchError::TooFewCpus { allowed: 0 })?;
                session.setup.peer(cpu)
            });
            peers.collect()
        };
        let (mut publishers, mut subscribers) =
            (start(*publishers_count)?, start(*subscribers_count)?);
        // Counters of the participants, not of the two floor processes, which sleep in the
        // meantime.
        let processes: Vec<u32> = publishers
            .iter()
            .chain(&subscribers)
            .map(Peer::id)
            .collect();
        session.observed = Observed::of_others(&processes).on(&pinned);
        for peer in &mut subscribers {
            let there = channel.uri();
            peer.run(&Order::Open { there })?;
        }
        for peer in &mut publishers {
            peer.run(&Order::Publish {
                there: channel.uri(),
                size_bytes: variant.size(),
                batch: usize::try_from(*batch_count).unwrap_or(1),
            })?;
        }
        let mut mesh = Self {
            publishers,
            subscribers,
            size: variant.size(),
            sequence: 0,
            count: FIRST_COUNT,
            _channel: channel,
        };
        for most in [COUNT_MAX / 16, COUNT_MAX] {
            let (elapsed, _) = mesh.play(&session.clock)?;
            let each_ns = nanos(&session.clock, elapsed) / mesh.count as f64;
            mesh.count = super::rounds_in(SLICE_NS, each_ns, most);
        }
        Ok(mesh)
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn slice(&mut self, _peer: &mut Peer, clock: &TickClock) -> Result<Figures> {
        let count = self.count as f64;
        let (elapsed, pairs) = self.play(clock)?;
        let per_s = |ticks: u64| count / nanos(clock, ticks) * 1e9;
        let pair = |(publisher, subscriber, ticks): &(u32, u32, u64)| Pair {
            publisher: *publisher,
            subscriber: *subscriber,
            messages_per_s: per_s(*ticks),
        };
        let mut figures = Figures::rate(per_s(elapsed) * self.publishers.len() as f64);
        figures.pairs = pairs.iter().map(pair).collect();
        Ok(figures)
    }

    fn close(mut self, _peer: &mut Peer) -> Result<()> {
        for peer in self.publishers.iter_mut().chain(&mut self.subscribers) {
            peer.run(&Order::Close)?;
        }
        Ok(())
    }
}

impl<const FAN_OUT: bool> Mesh<FAN_OUT> {
    /// All publish and check; returns the ticks from the start to the last check, and to the last
    /// check of each pair (publisher, subscriber, ticks).
    fn play(&mut self, clock: &TickClock) -> Result<Elapsed> {
        let (first, count) = (self.sequence, self.count);
        for peer in &mut self.subscribers {
            peer.begin(&Order::Gather {
                size_bytes: self.size,
                publishers: self.publishers.len(),
                first,
                count,
            })?;
        }
        // Time for every publisher to get its order and stand ready.
        let orders = self.publishers.len() as u64 + 1;
        let at_ticks = TickClock::ticks() + clock.ticks_for(START_IN_NS * orders);
        for (own, peer) in (0..).zip(&mut self.publishers) {
            peer.begin(&Order::Produce {
                own,
                first,
                count,
                at_ticks,
            })?;
        }
        let mut pairs = Vec::new();
        for (subscriber, peer) in (0..).zip(&mut self.subscribers) {
            let ends = peer.end_gather()?;
            let of = |(publisher, end): (u32, u64)| {
                (publisher, subscriber, end.saturating_sub(at_ticks))
            };
            pairs.extend((0..).zip(ends).map(of));
        }
        for peer in &mut self.publishers {
            peer.end()?;
        }
        self.sequence += count;
        let elapsed = pairs.iter().map(|(_, _, ticks)| *ticks).max().unwrap_or(0);
        Ok((elapsed, pairs))
    }
}
