//! One-way latency at a fixed rate, measured from the time at which each message was due.
//!
//! Measures: from the intended send time to the other process's check, an open loop: a message that leaves
//! late is late. Does not measure: saturation; choose rates well below the throughput.

use super::{Groups, Session, Setup, Watch};
use crate::channel::TemporaryChannel;
use crate::error::{BenchError, Result};
use crate::floor::{Placement, distribution, middle_ns};
use crate::latency::{Latency, Percentiles};
use crate::pace::{Pacer, Rest};
use crate::payload::{self, Stamp};
use crate::peer::{Order, Peer};
use crate::spread::Spread;
use olivine::clock::TickClock;
use olivine::{OpenError, Publisher};

/// Messages a slice should have, and bounds for its time in nanoseconds.
const SLICE_MESSAGES: f64 = 20_000.0;
const SLICE_NS: (f64, f64) = (40e6, 300e6);
/// Messages sent at the rate before anything counts, as a share of a slice.
const WARM_UP_SHARE: u64 = 4;

/// What is sent, and how often.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Variant {
    /// Message size in bytes.
    pub size_bytes: usize,
    /// Messages a second.
    pub rate_per_s: f64,
    /// Settings of the channel, as in a URI.
    pub settings: String,
}

/// Latencies of one variant under one placement.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LatencyResult {
    /// What was sent.
    #[serde(flatten)]
    pub variant: Variant,
    /// Where the CPUs were.
    pub placement: Placement,
    /// Slices measured there.
    pub slices: u64,
    /// From the intended send time to the check.
    pub one_way: Percentiles,
    /// From the intended send time to the commit: how evenly messages left.
    pub send_delay: Percentiles,
    /// Round trips of a bare cache line around those slices.
    pub floor_round_trip: Percentiles,
    /// One-way p50 of a slice to the floor's round trip beside it, over the runs.
    pub ratio_p50: Option<Spread>,
}

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`]; no figure is reported if any message was wrong.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Vec<LatencyResult>> {
    let slice_ns = |variant: &Variant| {
        (SLICE_MESSAGES / variant.rate_per_s * 1e9).clamp(SLICE_NS.0, SLICE_NS.1)
    };
    let slices = |variant: &Variant| super::slices_per_run(setup, slice_ns(variant) * 1.1);
    let all: u64 = variants
        .iter()
        .map(|variant| u64::from(slices(variant)))
        .sum();
    let mut session = Session::start(setup, u64::from(setup.runs) * all, watch)?;
    let mut groups: Vec<Groups> = variants.iter().map(|_| Groups::new()).collect();
    'runs: for run in 0..setup.runs {
        for (variant, groups) in variants.iter().zip(&mut groups) {
            let mut line = Line::open(&mut session.peer, variant)?;
            let count = ((slice_ns(variant) / 1e9 * variant.rate_per_s) as u64).max(20);
            line.send(
                &mut session.peer,
                session.clock,
                (count / WARM_UP_SHARE).max(1),
            )?;
            for _ in 0..slices(variant) {
                let clock = session.clock;
                let slice = session.slice(|peer| line.send(peer, clock, count))?;
                let group = groups.entry(slice.placement).or_default();
                let p50_ns = middle_ns(&clock, &slice.value);
                group.slices += 1;
                group.floor.merge(&slice.floor);
                group.latency.merge(&slice.value);
                group.extra.merge(&distribution(&line.delays));
                group.ratios.push((run, p50_ns / slice.floor_ns));
                if session.step().is_break() {
                    break 'runs;
                }
            }
            line.close(&mut session.peer)?;
        }
    }
    let clock = &session.clock;
    let mut results = Vec::new();
    for (variant, groups) in variants.iter().zip(&groups) {
        for (&placement, group) in groups {
            let (Some(one_way), Some(send_delay), Some(floor_round_trip)) = (
                group.latency.percentiles(clock),
                group.extra.percentiles(clock),
                group.floor_table(clock),
            ) else {
                continue;
            };
            results.push(LatencyResult {
                variant: variant.clone(),
                placement,
                slices: group.slices,
                one_way,
                send_delay,
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

/// One channel, open on both sides.
struct Line {
    publisher: Publisher,
    size: usize,
    rate_per_s: f64,
    sequence: u64,
    delays: Vec<u64>,
    _channel: TemporaryChannel,
}

impl Line {
    fn open(peer: &mut Peer, variant: &Variant) -> Result<Self> {
        let channel =
            TemporaryChannel::new("bench", 0, &variant.settings).map_err(OpenError::from)?;
        peer.run(&Order::Open {
            there: channel.uri(),
            back: None,
        })?;
        let publisher = Publisher::open(&channel.uri())?;
        Ok(Self {
            publisher,
            size: variant.size_bytes,
            rate_per_s: variant.rate_per_s,
            sequence: 0,
            delays: Vec::new(),
            _channel: channel,
        })
    }

    /// Sends `count` messages at the rate; returns the latencies that the other side saw. How late each one
    /// left lands in `self.delays`, in ticks.
    fn send(&mut self, peer: &mut Peer, clock: TickClock, count: u64) -> Result<Latency> {
        self.delays.clear();
        self.delays.reserve(usize::try_from(count).unwrap_or(0));
        peer.begin(&Order::Consume {
            first: self.sequence,
            count,
            timed: true,
        })?;
        let mut patience = peer.patience();
        let pacer = Pacer::start(clock, self.rate_per_s);
        for n in 0..count {
            let due = pacer.due(n);
            pacer.wait(due, Rest::Spin, || false);
            let stamp = Stamp {
                sequence: self.sequence + n,
                ticks: due,
            };
            loop {
                match self.publisher.claim(self.size) {
                    Ok(mut claim) => {
                        payload::fill(&mut claim, stamp);
                        claim.commit();
                        break;
                    }
                    Err(error) => patience.wait_for_room(&mut self.publisher, self.size, error)?,
                }
            }
            self.delays.push(TickClock::ticks().saturating_sub(due));
        }
        self.sequence += count;
        let (_, snapshot) = peer.end()?;
        let missing = || BenchError::Protocol {
            found: "an end without latencies".to_owned(),
        };
        Ok(Latency::from(&snapshot.ok_or_else(missing)?))
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}
