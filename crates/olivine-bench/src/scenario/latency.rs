//! One-way latency at a fixed rate, measured from the time at which each message was due.
//!
//! Measures: from the intended send time to the other process's check, an open loop: a message that leaves
//! late is late. Does not measure: saturation; choose rates well below the throughput.

use super::turns::{Figures, Group, Subject, measure};
use super::{Setup, Table, Watch};
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
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Table<LatencyResult>> {
    measure::<Line, _>(setup, variants, watch, row)
}

fn row(
    variant: &Variant,
    placement: Placement,
    group: &Group,
    clock: &TickClock,
) -> Option<LatencyResult> {
    Some(LatencyResult {
        variant: variant.clone(),
        placement,
        slices: group.slices,
        one_way: group.latency.percentiles(clock)?,
        send_delay: group.extra.percentiles(clock)?,
        floor_round_trip: group.floor_table(clock)?,
        ratio_p50: group.ratio(),
    })
}

/// Time of one slice in nanoseconds.
fn slice_ns(variant: &Variant) -> f64 {
    (SLICE_MESSAGES / variant.rate_per_s * 1e9).clamp(SLICE_NS.0, SLICE_NS.1)
}

/// One channel, open on both sides.
struct Line {
    publisher: Publisher,
    size: usize,
    rate_per_s: f64,
    /// Messages of a slice.
    count: u64,
    sequence: u64,
    delays: Vec<u64>,
    _channel: TemporaryChannel,
}

impl Subject for Line {
    type Variant = Variant;

    fn slices(setup: &Setup, variant: &Variant) -> u32 {
        super::slices_per_run(setup, slice_ns(variant) * 1.1)
    }

    fn name(variant: &Variant) -> String {
        format!(
            "{} B at {} /s, {}",
            variant.size_bytes, variant.rate_per_s, variant.settings
        )
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small positive numbers"
    )]
    fn open(peer: &mut Peer, clock: &TickClock, variant: &Variant) -> Result<Self> {
        let channel =
            TemporaryChannel::new("bench", 0, &variant.settings).map_err(OpenError::from)?;
        peer.run(&Order::Open {
            there: channel.uri(),
            back: None,
        })?;
        let publisher = Publisher::open(&channel.uri())?;
        let mut line = Self {
            publisher,
            size: variant.size_bytes,
            rate_per_s: variant.rate_per_s,
            count: ((slice_ns(variant) / 1e9 * variant.rate_per_s) as u64).max(20),
            sequence: 0,
            delays: Vec::new(),
            _channel: channel,
        };
        line.send(peer, *clock, (line.count / WARM_UP_SHARE).max(1))?;
        Ok(line)
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Figures> {
        let latency = self.send(peer, *clock, self.count)?;
        Ok(Figures {
            value: middle_ns(clock, &latency),
            latency,
            extra: distribution(&self.delays),
            copy: None,
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

impl Line {
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
}
