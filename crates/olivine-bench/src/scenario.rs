//! Measured situations, in slices between slices of the floor.
//!
//! A run opens fresh channels and warms them up; runs of all variants are interleaved, so that a
//! disturbance affects all alike. Each slice is between two floor slices, which show the distance
//! of the CPUs and the current cost of a cache line. Results are grouped by placement; a ratio only
//! compares neighbours in time.

pub mod bridge;
pub mod cost;
pub mod floor;
pub mod latency;
pub mod mesh;
mod pair;
pub mod pingpong;
pub mod registry;
pub mod throughput;
pub(crate) mod turns;

use crate::clock::TickClock;
use crate::error::{BenchError, Result};
use crate::floor::{distribution, middle_ns, nanos, round_trips};
use crate::kernel::{Counts, Observed};
use crate::latency::Latency;
use crate::method::Method;
use crate::peer::{Order, Peer};
use crate::privileges::Privileges;
use crate::result::{Parameters, Placement, Row};
use registry::SCENARIOS;
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Round trips of the floor in a slice: about 1 ms, so that on a busy machine most slices fit into
/// one scheduler turn.
const FLOOR_ROUNDS: u64 = 5_000;

/// Scenarios with another form of result: name and description.
const OTHERS: [(&str, &str); 4] = [
    (
        "floor",
        "hardware limits: cache line transfer, copy, system call, futex, clock",
    ),
    (
        "bridge",
        "tcp://, nats:// and file:// against ZeroMQ, a plain socket, the NATS client, the disk",
    ),
    (
        "http",
        "an HTTP server under load: requests per second, CPU time per request, latency",
    ),
    (
        "tcp",
        "a TCP server under load: echoed messages, or a one-way stream of 32 B frames",
    ),
];

/// Name and description of each scenario, for `bench list`.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let measured = SCENARIOS
        .iter()
        .map(|scenario| (scenario.name, scenario.about));
    measured.chain(OTHERS)
}

/// Settings of all scenarios.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Program to run as the second process.
    pub program: PathBuf,
    /// Arguments that make it call [`crate::peer::serve`]; path and CPU are appended.
    pub arguments: Vec<String>,
    /// CPUs of the measuring and of the second process.
    pub cpus: (u32, u32),
    /// Allowed CPUs of this process at its start: it is pinned later.
    pub allowed: Vec<u32>,
    /// Runs of each variant; five or more for a figure to be quoted.
    pub runs: u32,
    /// Seconds for each variant, over all runs, floor slices included.
    pub seconds: f64,
    /// What both processes run with.
    pub privileges: Privileges,
    /// The methods that both processes know.
    pub methods: &'static [&'static dyn Method],
}

/// One of the interleaved variants.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Variant {
    /// Name of the method that carries the messages.
    pub method: String,
    /// What else varies.
    pub parameters: Parameters,
}

/// The rows of each variant, in the given order.
pub type Found = Vec<Vec<Row>>;

impl Variant {
    /// Bytes of a message.
    fn size(&self) -> usize {
        usize::try_from(self.parameters.size_bytes).unwrap_or(usize::MAX)
    }
}

impl Setup {
    /// Starts a process that answers on `cpu`.
    pub(crate) fn peer(&self, cpu: u32) -> Result<Peer> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut peer = Peer::start(&self.program, &arguments, cpu)?;
        if !self.privileges.is_none() {
            peer.run(&Order::Privileges(self.privileges))?;
        }
        Ok(peer)
    }

    /// The CPUs for this many participants: those of `cpus` first, then the other allowed ones. If
    /// there are fewer CPUs than participants, they are reused.
    #[must_use]
    pub fn cpus_of(&self, participants: u32) -> Vec<u32> {
        let (first, second) = self.cpus;
        let others = self.allowed.iter().copied();
        let others = others.filter(|cpu| ![first, second].contains(cpu));
        let wanted = usize::try_from(participants).unwrap_or(usize::MAX);
        [first, second]
            .into_iter()
            .chain(others)
            .take(wanted)
            .collect()
    }

    /// Seconds for one run of one variant.
    #[must_use]
    pub fn run_s(&self) -> f64 {
        self.seconds / f64::from(self.runs.max(1))
    }

    /// The same in nanoseconds.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number; too large a one saturates"
    )]
    fn run_ns(&self) -> u64 {
        (self.run_s() * 1e9) as u64
    }

    /// The kernel's counters of both processes' measuring threads.
    fn observe(&self, peer: &Peer) -> Observed {
        Observed::new(&[peer.id()], &[self.cpus.0, self.cpus.1])
    }
}

/// Progress of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Slices done.
    pub done: u64,
    /// Slices in all.
    pub total: u64,
    /// p50 of the last slice in nanoseconds, where it has a distribution.
    pub p50_ns: Option<f64>,
    /// Rate of the last slice, where it has one.
    pub messages_per_s: Option<f64>,
}

impl Progress {
    /// Progress without a figure.
    #[must_use]
    pub fn of(done: u64, total: u64) -> Self {
        Self {
            done,
            total,
            p50_ns: None,
            messages_per_s: None,
        }
    }
}

/// Called between slices, never within one; breaking ends the scenario with the results so far.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// The two processes of a scenario with the floor between them.
struct Session<'a> {
    /// A unique word for this session.
    name: String,
    setup: &'a Setup,
    peer: Peer,
    clock: TickClock,
    watch: Watch<'a>,
    progress: Progress,
    samples: Vec<u64>,
    observed: Observed,
    start: u64,
}

/// One slice of the thing measured, and what the floor was around it.
struct Slice<T> {
    placement: Placement,
    floor: Latency,
    at_s: f64,
    kernel: Counts,
    value: T,
}

impl<'a> Session<'a> {
    fn start(setup: &'a Setup, total: u64, watch: Watch<'a>) -> Result<Self> {
        let allowed = &setup.allowed;
        for cpu in [setup.cpus.0, setup.cpus.1] {
            if !allowed.contains(&cpu) {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                return Err(BenchError::Cpu {
                    cpu,
                    allowed: allowed.join(","),
                });
            }
        }
        setup.privileges.take()?;
        let peer = setup.peer(setup.cpus.1)?;
        crate::cpus::pin(setup.cpus.0).map_err(|source| BenchError::Io {
            action: "pin this process",
            source,
        })?;
        let clock = TickClock::calibrate();
        let observed = setup.observe(&peer);
        let samples = Vec::with_capacity(usize::try_from(FLOOR_ROUNDS).unwrap_or(0));
        // Keys of the system's random source, which no two processes share.
        let random = std::hash::RandomState::new().hash_one(0_u8);
        let mut session = Self {
            name: format!("{random:016x}"),
            setup,
            peer,
            clock,
            watch,
            progress: Progress {
                done: 0,
                total,
                p50_ns: None,
                messages_per_s: None,
            },
            samples,
            observed,
            start: TickClock::ticks(),
        };
        // Both processes' pages and caches are warm before anything counts.
        session.floor()?;
        Ok(session)
    }

    /// Starts a fresh second process: after a failure the state of the old one is unknown.
    fn renew(&mut self) -> Result<()> {
        self.peer = self.setup.peer(self.setup.cpus.1)?;
        self.observed = self.setup.observe(&self.peer);
        Ok(())
    }

    /// One floor slice.
    fn floor(&mut self) -> Result<Latency> {
        round_trips(&mut self.peer, FLOOR_ROUNDS, &mut self.samples)?;
        Ok(distribution(&self.samples))
    }

    /// Measures `thing` between two floor slices.
    fn slice<T>(&mut self, thing: impl FnOnce(&mut Peer) -> Result<T>) -> Result<Slice<T>> {
        let mut floor = self.floor()?;
        let before = self.observed.counts();
        let value = thing(&mut self.peer)?;
        let kernel = self.observed.counts().since(&before);
        let kernel = kernel.without_the_measuring();
        let at_s = nanos(&self.clock, TickClock::ticks().wrapping_sub(self.start)) / 1e9;
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
            floor,
            at_s,
            kernel,
            value,
        })
    }

    /// Counts a finished slice; breaks on a request to stop.
    fn step(&mut self) -> ControlFlow<()> {
        self.progress.done += 1;
        (self.watch)(self.progress)
    }
}

/// Number of slices of `slice_ns` in a run of one variant.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn slices_per_run(setup: &Setup, slice_ns: f64) -> u32 {
    let slices = setup.run_s() * 1e9 / slice_ns;
    (slices as u32).clamp(1, 10_000)
}

/// Fewest rounds of a slice: on a busy machine each may wait for a CPU.
const ROUNDS_MIN: u64 = 20;

/// Number of repetitions of `each_ns` in a slice.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped"
)]
fn rounds_in(slice_ns: f64, each_ns: f64, most: u64) -> u64 {
    ((slice_ns / each_ns.max(0.1)) as u64).clamp(ROUNDS_MIN, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participants_use_the_given_cpus_first() {
        let setup = Setup {
            program: PathBuf::new(),
            arguments: Vec::new(),
            cpus: (4, 36),
            allowed: vec![0, 4, 8, 36],
            runs: 1,
            seconds: 1.0,
            privileges: Privileges::default(),
            methods: &[],
        };
        assert_eq!(setup.cpus_of(2), [4, 36]);
        assert_eq!(setup.cpus_of(3), [4, 36, 0]);
        assert_eq!(setup.cpus_of(12), [4, 36, 0, 8]);
    }
}
