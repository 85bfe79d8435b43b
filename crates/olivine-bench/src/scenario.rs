//! Measured situations, each in slices between slices of the floor.
//!
//! A run opens fresh channels and warms them up; runs of all variants take turns, so that a disturbance hits
//! all alike. Each slice lies between two floor slices, which tell where the two CPUs are and what a bare cache
//! line costs right then. Results are grouped by placement; a ratio compares neighbours in time only.

pub mod floor;
pub mod latency;
pub mod pingpong;
pub mod throughput;

use crate::error::{BenchError, Result};
use crate::floor::{Placement, distribution, middle_ns, round_trips};
use crate::latency::{Latency, Percentiles};
use crate::peer::Peer;
use crate::spread::Spread;
use olivine::clock::TickClock;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Round trips of the floor in a slice: about 3 ms where the cores are near.
const FLOOR_ROUNDS: u64 = 20_000;

/// A scenario's name and what it measures, for the list of them.
pub const LIST: [(&str, &str); 6] = [
    (
        "floor",
        "what the machine does without a channel: bare cache line, copy, system call, clock",
    ),
    (
        "pingpong",
        "round trip of a message and its answer over two channels (closed loop)",
    ),
    (
        "throughput",
        "messages and bytes a second at full speed, one publisher, one subscriber",
    ),
    (
        "latency",
        "one-way latency at a fixed rate, from the intended send time (open loop)",
    ),
    (
        "http",
        "an HTTP server under load, ours, others or any: rate, CPU time a request, latency",
    ),
    (
        "tcp",
        "messages to an echo server and back, or a stream of 32 B frames one way",
    ),
];

/// What all scenarios need to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Program to run as the second process.
    pub program: PathBuf,
    /// Words that make it call [`crate::peer::serve`]; path and CPU are appended.
    pub arguments: Vec<String>,
    /// CPUs of the measuring and of the second process.
    pub cpus: (u32, u32),
    /// Runs of each variant; five or more for a figure to be quoted.
    pub runs: u32,
    /// Seconds for each variant, over all runs, floor slices included.
    pub seconds: f64,
}

/// How far a scenario is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Slices done.
    pub done: u64,
    /// Slices in all.
    pub total: u64,
}

/// Called between slices, never within one; breaking ends the scenario with what there is so far.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// The two processes of a scenario with the floor between them.
struct Session<'a> {
    peer: Peer,
    clock: TickClock,
    watch: Watch<'a>,
    progress: Progress,
    samples: Vec<u64>,
}

/// One slice of the thing measured, and what the floor was around it.
struct Slice<T> {
    placement: Placement,
    floor_ns: f64,
    floor: Latency,
    value: T,
}

impl<'a> Session<'a> {
    fn start(setup: &Setup, total: u64, watch: Watch<'a>) -> Result<Self> {
        let allowed = olivine::probe::allowed_cpus();
        for cpu in [setup.cpus.0, setup.cpus.1] {
            if !allowed.contains(&cpu) {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                return Err(BenchError::Cpu {
                    cpu,
                    allowed: allowed.join(","),
                });
            }
        }
        let arguments: Vec<&str> = setup.arguments.iter().map(String::as_str).collect();
        let peer = Peer::start(&setup.program, &arguments, setup.cpus.1)?;
        olivine::probe::pin_to_cpu(setup.cpus.0).map_err(|source| BenchError::Io {
            action: "pin this process",
            source,
        })?;
        let clock = TickClock::calibrate();
        let samples = Vec::with_capacity(usize::try_from(FLOOR_ROUNDS).unwrap_or(0));
        let mut session = Self {
            peer,
            clock,
            watch,
            progress: Progress { done: 0, total },
            samples,
        };
        // Both processes' pages and caches are warm before anything counts.
        session.floor()?;
        Ok(session)
    }

    /// One floor slice.
    fn floor(&mut self) -> Result<Latency> {
        round_trips(&mut self.peer, FLOOR_ROUNDS, &mut self.samples)?;
        Ok(distribution(&self.samples))
    }

    /// Measures `thing` between two floor slices.
    fn slice<T>(&mut self, thing: impl FnOnce(&mut Peer) -> Result<T>) -> Result<Slice<T>> {
        let mut floor = self.floor()?;
        let value = thing(&mut self.peer)?;
        let after = self.floor()?;
        let (before_ns, after_ns) = (
            middle_ns(&self.clock, &floor),
            middle_ns(&self.clock, &after),
        );
        floor.merge(&after);
        let placement = Placement::of(before_ns);
        let placement = if placement == Placement::of(after_ns) {
            placement
        } else {
            Placement::Changed
        };
        Ok(Slice {
            placement,
            floor_ns: f64::midpoint(before_ns, after_ns),
            floor,
            value,
        })
    }

    /// Notes a finished slice; breaks when the person wants to stop.
    fn step(&mut self) -> ControlFlow<()> {
        self.progress.done += 1;
        (self.watch)(self.progress)
    }
}

/// Slices of one variant that were measured under one placement.
#[derive(Default)]
struct Group {
    slices: u64,
    floor: Latency,
    latency: Latency,
    extra: Latency,
    /// Figures of slices, with their runs.
    values: Vec<(u32, f64)>,
    ratios: Vec<(u32, f64)>,
    copies: Vec<(u32, f64)>,
}

impl Group {
    fn floor_table(&self, clock: &TickClock) -> Option<Percentiles> {
        self.floor.percentiles(clock)
    }

    fn ratio(&self) -> Option<Spread> {
        Spread::over_runs(&self.ratios)
    }
}

/// The groups of one variant.
type Groups = BTreeMap<Placement, Group>;

/// How many slices of `slice_ns` fit into a run of one variant.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn slices_per_run(setup: &Setup, slice_ns: f64) -> u32 {
    let slices = setup.seconds * 1e9 / f64::from(setup.runs.max(1)) / slice_ns;
    (slices as u32).clamp(1, 10_000)
}

/// How often something of `each_ns` fits into a slice.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped"
)]
fn rounds_in(slice_ns: f64, each_ns: f64, most: u64) -> u64 {
    ((slice_ns / each_ns.max(0.1)) as u64).clamp(100, most)
}
