//! Kernel counters during a measurement: the first place to look for the cause of a long sample.
//!
//! Read just before and just after a slice, never within one: each participant reads switches and
//! faults of its thread, and the time that it was ready without a CPU; the coordinator reads
//! interrupts and stolen time of their CPUs from `/proc`. A counter
//! that the kernel does not show is 0. Stolen time has steps of 10 ms, and only some hypervisors
//! report it.

use olivine_arena::counts::ThreadCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// Milliseconds in a step of `/proc/stat`: `USER_HZ` is 100 on every Linux that we run on.
pub(crate) const STEP_MS: u64 = 10;
/// A fault may explain a sample of up to this many nanoseconds: the page is filled, not read from
/// disk.
const FAULT_MAX_NS: f64 = 100_000.0;
/// An interrupt with its handler may explain a sample of up to this many nanoseconds.
const INTERRUPT_MAX_NS: f64 = 200_000.0;

/// Sums over some threads and their CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Counts {
    /// Times a thread was taken off its CPU although it was ready.
    pub forced_switches_count: u64,
    /// Times a thread yielded its CPU to wait.
    pub voluntary_switches_count: u64,
    /// Pages that had to be mapped or filled.
    pub minor_faults_count: u64,
    /// Pages that had to be read from disk.
    pub major_faults_count: u64,
    /// Interrupts on the CPUs, for any process.
    pub interrupts_count: u64,
    /// Time that threads were ready without a CPU, in nanoseconds.
    pub waited_for_cpu_ns: u64,
    /// Time that the hypervisor gave the CPUs to other machines, in milliseconds.
    pub stolen_ms: u64,
}

impl Counts {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            forced_switches_count: combine(self.forced_switches_count, other.forced_switches_count),
            voluntary_switches_count: combine(
                self.voluntary_switches_count,
                other.voluntary_switches_count,
            ),
            minor_faults_count: combine(self.minor_faults_count, other.minor_faults_count),
            major_faults_count: combine(self.major_faults_count, other.major_faults_count),
            interrupts_count: combine(self.interrupts_count, other.interrupts_count),
            waited_for_cpu_ns: combine(self.waited_for_cpu_ns, other.waited_for_cpu_ns),
            stolen_ms: combine(self.stolen_ms, other.stolen_ms),
        }
    }

    /// The most likely cause of a sample of `ns` nanoseconds, if these counts were taken around it.
    ///
    /// `sleeps` tells whether the method waits by sleeping: a spinning method is not delayed by
    /// that.
    ///
    /// A cause is named only if it explains the length: a wait for the CPU of at least half of it,
    /// a fault for a sample that a fault can explain. Otherwise the result is that the kernel saw
    /// nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "durations of seconds at most")]
    pub fn likely_cause(&self, ns: f64, sleeps: bool) -> Cause {
        if self.waited_for_cpu_ns as f64 * 2.0 >= ns {
            return Cause::Preempted;
        }
        if self.stolen_ms > 0 && ns >= 1e6 {
            return Cause::Stolen;
        }
        if self.major_faults_count > 0 {
            return Cause::MajorFault;
        }
        if self.forced_switches_count > 0 {
            return Cause::Preempted;
        }
        if self.minor_faults_count > 0 && ns <= FAULT_MAX_NS {
            return Cause::MinorFault;
        }
        if sleeps && self.voluntary_switches_count > 0 {
            return Cause::Slept;
        }
        if self.interrupts_count > 0 && ns <= INTERRUPT_MAX_NS {
            return Cause::Interrupt;
        }
        Cause::Unseen
    }
}

/// The most likely cause of a long sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Another thread had the CPU.
    Preempted,
    /// The hypervisor gave the CPU to another machine.
    Stolen,
    /// A page was read from disk.
    MajorFault,
    /// A page was mapped or filled.
    MinorFault,
    /// A side waited in the kernel, as its wait strategy does.
    Slept,
    /// An interrupt was handled.
    Interrupt,
    /// No counter explains it: caches, firmware, a hypervisor that does not report.
    Unseen,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Preempted => "another thread",
            Self::Stolen => "hypervisor",
            Self::MajorFault => "page from disk",
            Self::MinorFault => "page fault",
            Self::Slept => "slept",
            Self::Interrupt => "interrupt",
            Self::Unseen => "not seen",
        })
    }
}

impl From<&ThreadCounts> for Counts {
    fn from(thread: &ThreadCounts) -> Self {
        Self {
            forced_switches_count: thread.forced_switches,
            voluntary_switches_count: thread.voluntary_switches,
            minor_faults_count: thread.minor_faults,
            major_faults_count: thread.major_faults,
            waited_for_cpu_ns: thread.waited_for_cpu_ns,
            ..Self::default()
        }
    }
}

/// What happened on `cpus` up to now: interrupts and stolen time. Takes some 100 µs: call it
/// between slices.
#[must_use]
pub fn of_cpus(cpus: &[u32]) -> Counts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Counts {
        interrupts_count: interrupts(&read("/proc/interrupts"), cpus),
        stolen_ms: stolen_ms(&read("/proc/stat"), cpus),
        ..Counts::default()
    }
}

/// Two numbers of each thread of a process, in nanoseconds: its CPU time, and the time in which it
/// was ready without a CPU. Threads that have ended are not counted.
pub(crate) fn times_of_threads(process: u64) -> Vec<[u64; 2]> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    texts
        .map(|text| [0, 1].map(|place| nth(&text, place)))
        .collect()
}

/// Nanoseconds that threads of a process were ready without a CPU.
#[must_use]
pub fn waited_ns(process: u64) -> u64 {
    let times = times_of_threads(process);
    times.iter().map(|[_, waited]| waited).sum()
}

/// Interrupts of `cpus`: the columns under their names.
fn interrupts(text: &str, cpus: &[u32]) -> u64 {
    let mut lines = text.lines();
    let heads: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|head| head.strip_prefix("CPU")?.parse().ok())
        .collect();
    let counted = |line: &str| -> u64 {
        let cells = line.split_whitespace().skip(1).zip(&heads);
        let ours = cells.filter(|(_, cpu)| cpus.contains(cpu));
        ours.map(|(cell, _)| number(cell)).sum()
    };
    lines.map(counted).sum()
}

/// Stolen time of `cpus`.
fn stolen_ms(text: &str, cpus: &[u32]) -> u64 {
    let times = cpu_times(text);
    let ours = times.iter().filter(|(cpu, _)| cpus.contains(cpu));
    ours.map(|(_, times)| times.stolen).sum::<u64>() * STEP_MS
}

/// Times of a CPU, in steps of [`STEP_MS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) interrupts: u64,
    pub(crate) stolen: u64,
}

/// Interrupt and stolen time of each CPU, from the text of `/proc/stat`.
pub(crate) fn cpu_times(text: &str) -> BTreeMap<u32, CpuTimes> {
    let of_line = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        let times = CpuTimes {
            interrupts: nth(numbers, 5) + nth(numbers, 6),
            stolen: nth(numbers, 7),
        };
        Some((cpu, times))
    };
    text.lines().filter_map(of_line).collect()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// The number at this place of a line, counted from 0; 0 if there is none.
pub(crate) fn nth(text: &str, place: usize) -> u64 {
    number(text.split_whitespace().nth(place).unwrap_or_default())
}

/// What follows the name in a line of `stat`. The name is in brackets and may contain anything.
pub(crate) fn behind_name(stat: &str) -> &str {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_parsed_from_proc() {
        let stat = "99 (a) b) R 1 2 3 4 5 6 101 0 11 0 40 50";
        let numbers = [7, 9].map(|place| nth(behind_name(stat), place));
        assert_eq!(numbers, [101, 11]);
        let table = "           CPU0       CPU2\n 24:   1   20  IO-APIC\nLOC:   300  4000  \
        Local\nERR:  5\n";
        assert_eq!(interrupts(table, &[2]), 4020);
        assert_eq!(interrupts(table, &[0, 2]), 4326);
        let stat = "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 80 0 \
        0\nintr 5\n";
        assert_eq!(stolen_ms(stat, &[1]), 800);
        let times = CpuTimes {
            interrupts: 6 + 7,
            stolen: 80,
        };
        assert_eq!(cpu_times(stat)[&1], times);
        assert!(times_of_threads(u64::from(std::process::id()))[0][0] > 0);
        assert_eq!(waited_ns(u64::MAX), 0);
    }

    #[test]
    fn cause_is_named_only_if_it_explains_the_length() {
        let waited = Counts {
            waited_for_cpu_ns: 3_000_000,
            interrupts_count: 10,
            ..Counts::default()
        };
        assert_eq!(waited.likely_cause(4e6, true), Cause::Preempted);
        assert_eq!(waited.likely_cause(50e6, true), Cause::Unseen);
        let fault = Counts {
            minor_faults_count: 1,
            ..Counts::default()
        };
        assert_eq!(fault.likely_cause(20e3, true), Cause::MinorFault);
        assert_eq!(fault.likely_cause(20e6, true), Cause::Unseen);
        let stolen = Counts {
            stolen_ms: 10,
            ..Counts::default()
        };
        assert_eq!(stolen.likely_cause(9e6, true), Cause::Stolen);
        assert_eq!(stolen.likely_cause(900.0, true), Cause::Unseen);
        let interrupts = Counts {
            interrupts_count: 3,
            ..Counts::default()
        };
        assert_eq!(interrupts.likely_cause(9e3, true), Cause::Interrupt);
        assert_eq!(Counts::default().likely_cause(1.0, true), Cause::Unseen);
        let slept = Counts {
            voluntary_switches_count: 1,
            ..Counts::default()
        };
        assert_eq!(slept.likely_cause(50e3, true), Cause::Slept);
        assert_eq!(slept.likely_cause(50e3, false), Cause::Unseen);
    }
}
