//! Round trip: a message there, checked, sent back over a second channel, checked again.
//!
//! Measures: claim, fill, commit, the other process's receive, check and offer, our receive and check; one
//! clock reading a round. Does not measure: queueing (one message is under way at a time: a closed loop) or a
//! fixed rate; that is `latency`.

use super::{Groups, Session, Setup, Watch};
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
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Vec<PingPongResult>> {
    let slices = super::slices_per_run(setup, SLICE_NS * 1.6);
    let total = u64::from(setup.runs) * u64::from(slices) * variants.len() as u64;
    let mut session = Session::start(setup, total, watch)?;
    let mut groups: Vec<Groups> = variants.iter().map(|_| Groups::new()).collect();
    'runs: for run in 0..setup.runs {
        for (variant, groups) in variants.iter().zip(&mut groups) {
            let mut table = Table::open(&mut session.peer, variant)?;
            table.rounds(&mut session.peer, WARM_UP_ROUNDS)?;
            let each_ns = middle_ns(&session.clock, &distribution(&table.samples));
            let rounds = super::rounds_in(SLICE_NS, each_ns, ROUNDS_MAX);
            for _ in 0..slices {
                let slice = session.slice(|peer| table.rounds(peer, rounds))?;
                let samples = distribution(&table.samples);
                let p50_ns = middle_ns(&session.clock, &samples);
                let group = groups.entry(slice.placement).or_default();
                group.slices += 1;
                group.floor.merge(&slice.floor);
                group.latency.merge(&samples);
                group.ratios.push((run, p50_ns / slice.floor_ns));
                if session.step().is_break() {
                    break 'runs;
                }
            }
            table.close(&mut session.peer)?;
        }
    }
    let mut results = Vec::new();
    for (variant, groups) in variants.iter().zip(&groups) {
        for (&placement, group) in groups {
            let tables = (
                group.latency.percentiles(&session.clock),
                group.floor_table(&session.clock),
            );
            let (Some(round_trip), Some(floor_round_trip)) = tables else {
                continue;
            };
            results.push(PingPongResult {
                variant: variant.clone(),
                placement,
                slices: group.slices,
                round_trip,
                floor_round_trip,
                ratio_p50: group.ratio(),
            });
        }
    }
    if results.is_empty() {
        Err(BenchError::Stopped)
    } else {
        Ok(results)
    }
}

/// Both channels, open on both sides.
struct Table {
    publisher: Publisher,
    subscriber: Subscriber,
    size: usize,
    spins: bool,
    sequence: u64,
    samples: Vec<u64>,
    // Last, so that both ends are closed when the channels are removed.
    _channels: [TemporaryChannel; 2],
}

impl Table {
    fn open(peer: &mut Peer, variant: &Variant) -> Result<Self> {
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
        Ok(Self {
            publisher,
            subscriber,
            size: variant.size_bytes,
            spins: spins(&there),
            sequence: 0,
            samples: Vec::new(),
            _channels: channels,
        })
    }

    /// Plays `rounds` round trips; every sample in ticks lands in `self.samples`.
    fn rounds(&mut self, peer: &mut Peer, rounds: u64) -> Result<()> {
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

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}
