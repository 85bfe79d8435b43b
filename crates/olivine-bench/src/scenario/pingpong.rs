//! Round trip: a message there, checked, sent back over a second channel, checked again.
//!
//! Measures: claim, fill, commit, the other process's receive, check and offer, our receive and check; one
//! clock reading a round. Does not measure: queueing (one message is under way at a time: a closed loop) or a
//! fixed rate; that is `latency`.

use super::turns::{Figures, Group, Subject, measure};
use super::{Setup, Table, Watch};
use crate::channel::TemporaryChannel;
use crate::error::{BenchError, Result};
use crate::floor::{Placement, distribution, middle_ns};
use crate::latency::Percentiles;
use crate::payload::{self, Stamp};
use crate::peer::{Order, Peer, receive, spins};
use crate::spread::Spread;
use olivine::clock::TickClock;
use olivine::{OpenError, Publisher, Subscriber};

/// Time of one slice of round trips, in nanoseconds.
const SLICE_NS: f64 = 10e6;
/// Rounds of the warm-up, which also tell how many fit a slice.
const WARM_UP_ROUNDS: u64 = 2_000;
/// Most rounds in a slice.
const ROUNDS_MAX: u64 = 1 << 20;

/// What is sent to and fro, and how.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Variant {
    /// Message size in bytes.
    pub size_bytes: usize,
    /// Settings of both channels, as in a URI.
    pub settings: String,
}

/// Round trips of one variant under one placement.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PingPongResult {
    /// What was sent.
    #[serde(flatten)]
    pub variant: Variant,
    /// Where the CPUs were.
    pub placement: Placement,
    /// Slices measured there.
    pub slices: u64,
    /// Round trips of messages.
    pub round_trip: Percentiles,
    /// Round trips of a bare cache line around those slices.
    pub floor_round_trip: Percentiles,
    /// p50 of a slice to p50 of the floor slices beside it, over the runs.
    pub ratio_p50: Option<Spread>,
}

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`]; no figure is reported if any message was wrong.
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Table<PingPongResult>> {
    measure::<Channels, _>(setup, variants, watch, row)
}

fn row(
    variant: &Variant,
    placement: Placement,
    group: &Group,
    clock: &TickClock,
) -> Option<PingPongResult> {
    Some(PingPongResult {
        variant: variant.clone(),
        placement,
        slices: group.slices,
        round_trip: group.latency.percentiles(clock)?,
        floor_round_trip: group.floor_table(clock)?,
        ratio_p50: group.ratio(),
    })
}

/// Both channels, open on both sides.
struct Channels {
    publisher: Publisher,
    subscriber: Subscriber,
    size: usize,
    spins: bool,
    /// Round trips of a slice.
    rounds: u64,
    sequence: u64,
    samples: Vec<u64>,
    // Last, so that both ends are closed when the channels are removed.
    _channels: [TemporaryChannel; 2],
}

impl Subject for Channels {
    type Variant = Variant;

    fn slices(setup: &Setup, _variant: &Variant) -> u32 {
        super::slices_per_run(setup, SLICE_NS * 1.6)
    }

    fn name(variant: &Variant) -> String {
        format!("{} B, {}", variant.size_bytes, variant.settings)
    }

    fn open(peer: &mut Peer, clock: &TickClock, variant: &Variant) -> Result<Self> {
        let channel = |serial| {
            TemporaryChannel::new("bench", serial, &variant.settings).map_err(OpenError::from)
        };
        let channels = [channel(0)?, channel(1)?];
        let [there, back] = [channels[0].uri(), channels[1].uri()];
        let subscriber = Subscriber::open(&back)?;
        peer.run(&Order::Open {
            there: there.clone(),
            back: Some(back),
        })?;
        let publisher = Publisher::open(&there)?;
        let mut opened = Self {
            publisher,
            subscriber,
            size: variant.size_bytes,
            spins: spins(&there),
            rounds: WARM_UP_ROUNDS,
            sequence: 0,
            samples: Vec::new(),
            _channels: channels,
        };
        opened.play(peer)?;
        let each_ns = middle_ns(clock, &distribution(&opened.samples));
        opened.rounds = super::rounds_in(SLICE_NS, each_ns, ROUNDS_MAX);
        Ok(opened)
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Figures> {
        self.play(peer)?;
        let latency = distribution(&self.samples);
        Ok(Figures {
            value: middle_ns(clock, &latency),
            latency,
            ..Figures::default()
        })
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }

    fn ratio(p50_ns: f64, floor_ns: f64) -> f64 {
        p50_ns / floor_ns
    }
}

impl Channels {
    /// Plays a slice of round trips; every sample in ticks lands in `self.samples`.
    fn play(&mut self, peer: &mut Peer) -> Result<()> {
        let rounds = self.rounds;
        self.samples.clear();
        self.samples.reserve(usize::try_from(rounds).unwrap_or(0));
        peer.begin(&Order::Echo {
            first: self.sequence,
            rounds,
        })?;
        let (subscriber, spins) = (&mut self.subscriber, self.spins);
        let mut patience = peer.patience();
        let mut last = TickClock::ticks();
        for sequence in self.sequence..self.sequence + rounds {
            let stamp = Stamp {
                sequence,
                ticks: last,
            };
            let mut claim = self.publisher.claim(self.size)?;
            payload::fill(&mut claim, stamp);
            claim.commit();
            let answer = receive(
                subscriber,
                spins,
                || patience.spend(),
                |message| payload::check(message),
            );
            if answer? != Some(stamp) {
                return Err(BenchError::Wrong { sequence });
            }
            let now = TickClock::ticks();
            self.samples.push(now.wrapping_sub(last));
            last = now;
        }
        self.sequence += rounds;
        peer.end()?;
        Ok(())
    }
}
