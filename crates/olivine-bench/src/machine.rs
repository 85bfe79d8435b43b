//! The conditions of a result: without them a figure is meaningless.

use crate::clock::TickClock;
use std::fs;

/// Clock readings timed for the cost of one.
const CLOCK_READINGS: u32 = 100_000;

/// Machine, kernel, clock and build, as each result carries them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Machine {
    /// Model of the first processor.
    pub cpu_model: String,
    /// Processors this process may run on.
    pub cpus_allowed: usize,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor of the first processor; "unknown" where the kernel shows none, as in most
    /// virtual machines.
    pub governor: String,
    /// Load average of the last minute before the start. Other work affects every figure.
    pub load_average_1m: f64,
    /// Whether a hypervisor announces itself.
    pub virtual_machine: bool,
    /// Source of time stamps.
    pub clock: String,
    /// Ticks of that clock in a nanosecond.
    pub clock_ticks_per_ns: f64,
    /// Cost of one clock reading. Part of every figure, never subtracted.
    pub clock_cost_ns: f64,
    /// Version of this tool.
    pub version: String,
    /// Commit it was built from; "unknown" outside a repository.
    pub commit: String,
    /// The command as given.
    pub command: String,
    /// What `olivine doctor` found before the start; empty in files from before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// A check of the machine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[allow(
    clippy::exhaustive_structs,
    reason = "three texts, made where they are read"
)]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Check {
    /// Its name, such as `governor`.
    pub id: String,
    /// `good`, `note`, `unknown`, `warning` or `problem`.
    pub status: String,
    /// What was seen, or why nothing was.
    pub value: String,
}

impl Machine {
    /// Looks at this machine, without [`checks`](Self::checks). Takes about 10 ms for the clock.
    #[must_use]
    pub fn look() -> Self {
        let clock = TickClock::calibrate();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu_model: field(&info, "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus_allowed: crate::cpus::allowed().len(),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average_1m: line_of("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
            virtual_machine: field(&info, "flags")
                .is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor")),
            clock: clock.source().to_owned(),
            clock_ticks_per_ns: clock.ticks_per_ns(),
            clock_cost_ns: clock_cost_ns(&clock),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("OLIVINE_COMMIT").to_owned(),
            command: command(),
            checks: Vec::new(),
        }
    }

    /// Three short lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "machine: {}, {} CPUs{}\n         \
             Linux {}, governor {}, load {:.1} before the start\n         \
             clock {}, {:.1} ns a reading (in every figure)\n         \
             olivine {} ({})\n",
            self.cpu_model,
            self.cpus_allowed,
            if self.virtual_machine {
                ", virtual"
            } else {
                ""
            },
            self.kernel,
            self.governor,
            self.load_average_1m,
            self.clock,
            self.clock_cost_ns,
            self.version,
            self.commit,
        )
    }
}

/// Nanoseconds of one clock reading, averaged over many.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "ticks of a millisecond")]
pub fn clock_cost_ns(clock: &TickClock) -> f64 {
    let start = TickClock::ticks();
    for _ in 0..CLOCK_READINGS {
        std::hint::black_box(TickClock::ticks());
    }
    let ticks = TickClock::ticks().wrapping_sub(start) as f64;
    (ticks / clock.ticks_per_ns() / f64::from(CLOCK_READINGS) * 10.0).round() / 10.0
}

/// The command as typed, without the path of the program.
fn command() -> String {
    let mut words = vec!["olivine".to_owned()];
    words.extend(
        std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn line_of(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn field(info: &str, name: &str) -> Option<String> {
    let line = info.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_cpuinfo_are_found() {
        let info = "processor\t: 0\nmodel name\t: Example 9000\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(info, "model name").as_deref(), Some("Example 9000"));
        assert_eq!(field(info, "bogomips"), None);
    }
}
