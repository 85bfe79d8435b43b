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
pub mod pingpong;
pub mod registry;
pub mod throughput;
pub(crate) mod turns;

use crate::clock::TickClock;
use crate::error::{BenchError, Result};
use crate::floor::{middle_ns, nanos};
use crate::kernel::{Counts, of_cpus};
use crate::latency::Latency;
use crate::method::{Description, THREADS};
use crate::privileges::Privileges;
use crate::result::{Parameters, Placement, Row};
use crate::run::{Participants, Program, Stopped};
use olivine_arena::error::ArenaError;
use registry::SCENARIOS;
use std::hash::BuildHasher as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The programs that take part. The first is this tool: the floor is between two of its
    /// processes where no other program is measured.
    pub programs: Vec<Program>,
    /// CPUs of the first and of the second participant.
    pub cpus: (u32, u32),
    /// Allowed CPUs of this process.
    pub allowed: Vec<u32>,
    /// Runs of each variant; five or more for a figure to be quoted.
    pub runs: u32,
    /// Seconds for each variant, over all runs, floor slices included.
    pub seconds: f64,
    /// What all participants run with.
    pub privileges: Privileges,
    /// Whether the person asked to stop.
    pub stop: Arc<AtomicBool>,
    /// Of how many of the worst messages the latency scenario says why they were late; 0 for none.
    /// Only [`throughput::OWN`] can say it.
    pub worst: usize,
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
    /// A method of another program in a `case`: it says itself how it waits.
    #[must_use]
    pub fn of_program(method: &Description, case: &Parameters) -> Self {
        Self {
            method: method.name.clone(),
            parameters: Parameters {
                wait: Some(method.wait.clone()),
                settings: if method.threads { THREADS } else { "" }.to_owned(),
                ..case.clone()
            },
        }
    }

    /// Bytes of a message.
    fn size(&self) -> usize {
        usize::try_from(self.parameters.size_bytes).unwrap_or(usize::MAX)
    }
}

impl Setup {
    /// The program that knows a method, and what the method says of itself.
    ///
    /// # Errors
    ///
    /// [`ArenaError::NoMethod`] with the known names.
    pub(crate) fn find(&self, method: &str) -> Result<(usize, &Description)> {
        let all = || {
            let programs = self.programs.iter().enumerate();
            programs.flat_map(|(at, program)| program.methods().iter().map(move |one| (at, one)))
        };
        let found = all().find(|(_, known)| known.name == method);
        found.ok_or_else(|| {
            ArenaError::NoMethod {
                name: method.to_owned(),
                known: all()
                    .map(|(_, known)| known.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }
            .into()
        })
    }

    /// Fills in what another program says of the method of `variant`.
    pub fn describe(&self, variant: &mut Variant) {
        if let Ok((program, known)) = self.find(&variant.method)
            && program > 0
        {
            *variant = Variant::of_program(known, &variant.parameters);
        }
    }

    /// Whether a program knows a method of this name.
    #[must_use]
    pub fn knows(&self, method: &str) -> bool {
        self.find(method).is_ok()
    }

    /// Whether the person asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: the flag carries no other data.
        self.stop.load(Ordering::Relaxed)
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

/// Which participants a method needs: the number of its program, and whether both ends are threads
/// of one process.
pub(crate) type Need = (usize, bool);

/// The need of many participants, which no method has.
const CROWD: Need = (usize::MAX, false);

/// The participants of a scenario with the floor between them.
struct Session<'a> {
    /// A unique word for this session.
    name: String,
    setup: &'a Setup,
    stopped: Stopped<'a>,
    set: Participants<'a>,
    need: Need,
    clock: TickClock,
    watch: Watch<'a>,
    progress: Progress,
    /// CPUs on which interrupts and stolen time are counted.
    observed: Vec<u32>,
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
    fn start(setup: &'a Setup, total: u64, watch: Watch<'a>, stopped: Stopped<'a>) -> Result<Self> {
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
        // This process gives orders between two of theirs.
        setup.privileges.take()?;
        let need = (0, false);
        let set = pair(setup, need, stopped)?;
        // Keys of the system's random source, which no two processes share.
        let random = std::hash::RandomState::new().hash_one(0_u8);
        let mut session = Self {
            name: format!("{random:016x}"),
            setup,
            stopped,
            set,
            need,
            clock: TickClock::calibrate(),
            watch,
            progress: Progress::of(0, total),
            observed: Vec::new(),
            start: TickClock::ticks(),
        };
        session.observe();
        // Both processes' pages and caches are warm before anything counts.
        session.floor()?;
        Ok(session)
    }

    /// Starts fresh participants: after a failure the state of the old ones is unknown.
    fn renew(&mut self, need: Need) -> Result<()> {
        self.set = pair(self.setup, need, self.stopped)?;
        self.need = need;
        self.observe();
        self.floor().map(drop)
    }

    /// Starts the participants that a method needs, if those that run are others; returns what it
    /// says of itself.
    fn prepare(&mut self, method: &str) -> Result<&'a Description> {
        let (program, known) = self.setup.find(method)?;
        let need = (program, known.threads);
        if need != self.need {
            self.renew(need)?;
        }
        Ok(known)
    }

    /// Starts many participants, each on its CPU; the floor is between the first two.
    fn crowd(&mut self, cpus: &[Vec<u32>]) -> Result<()> {
        let own = self.setup.programs.first().ok_or(ArenaError::EndClosed)?;
        self.set = Participants::start(own, cpus, self.setup.privileges, self.stopped)?;
        self.need = CROWD;
        self.floor().map(drop)
    }

    /// Counts what happens on the CPUs of both ends.
    fn observe(&mut self) {
        let (first, second) = self.setup.cpus;
        self.observed = vec![first, second];
    }

    /// One floor slice.
    fn floor(&mut self) -> Result<Latency> {
        self.set.floor(FLOOR_ROUNDS)
    }

    /// Measures `thing` between two floor slices.
    fn slice<T>(
        &mut self,
        thing: impl FnOnce(&mut Participants<'a>) -> Result<T>,
    ) -> Result<Slice<T>> {
        let mut floor = self.floor()?;
        let before = of_cpus(&self.observed);
        self.set.counts();
        let value = thing(&mut self.set)?;
        let kernel = of_cpus(&self.observed).since(&before);
        let kernel = kernel.plus(&self.set.counts());
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

/// The two ends of a method, each on its CPU.
pub(crate) fn pair<'a>(
    setup: &'a Setup,
    need: Need,
    stopped: Stopped<'a>,
) -> Result<Participants<'a>> {
    let (program, threads) = need;
    let (first, second) = setup.cpus;
    let cpus = if threads {
        vec![vec![first, second]]
    } else {
        vec![vec![first], vec![second]]
    };
    let program = setup.programs.get(program).ok_or(ArenaError::EndClosed)?;
    Participants::start(program, &cpus, setup.privileges, stopped)
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
            programs: Vec::new(),
            cpus: (4, 36),
            allowed: vec![0, 4, 8, 36],
            runs: 1,
            seconds: 1.0,
            privileges: Privileges::default(),
            stop: Arc::default(),
            worst: 0,
        };
        assert_eq!(setup.cpus_of(2), [4, 36]);
        assert_eq!(setup.cpus_of(3), [4, 36, 0]);
        assert_eq!(setup.cpus_of(12), [4, 36, 0, 8]);
    }
}
