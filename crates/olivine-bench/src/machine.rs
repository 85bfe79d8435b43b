//! The conditions of a result: without them a figure is meaningless.

use crate::clock::TickClock;
use crate::text;
use std::fs;
use std::path::Path;

/// The commit that this build was made of, or `unknown`.
pub const COMMIT: &str = env!("OLIVINE_COMMIT");

/// Most caches of a processor that are read.
const CACHES_MAX: u32 = 16;
/// Clock readings timed for the cost of one.
const CLOCK_READINGS: u32 = 100_000;

/// Machine, kernel, clock and build, as each result carries them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Machine {
    /// Model of the first processor.
    pub cpu_model: String,
    /// What tells this processor from others with that name; absent in files from before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
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

/// The first processor and its caches.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[non_exhaustive]
pub struct Processor {
    /// Its family, if the kernel gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<u32>,
    /// Its model within the family, if the kernel gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// Its stepping, if the kernel gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stepping: Option<u32>,
    /// Revision of its microcode, if the kernel gives one. A hypervisor may show another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Its caches, nearest first; empty if the kernel shows none.
    pub caches: Vec<Cache>,
}

/// A cache of the first processor.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[non_exhaustive]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
    /// CPUs that share it, such as `0-1,4`.
    pub shared_cpus: String,
}

impl Processor {
    /// Reads `/proc/cpuinfo`, given as `info`, and the caches in `folder`.
    fn read(info: &str, folder: &Path) -> Self {
        let number = |name: &str| field(info, name).and_then(|text| text.parse().ok());
        Self {
            family: number("cpu family"),
            model: number("model"),
            stepping: number("stepping"),
            microcode: field(info, "microcode"),
            caches: (0..CACHES_MAX)
                .map_while(|index| Cache::read(&folder.join(format!("index{index}"))))
                .collect(),
        }
    }

    /// What is known of it, in a line; empty if nothing is.
    #[must_use]
    pub fn text(&self) -> String {
        let numbers = [
            ("family", self.family),
            ("model", self.model),
            ("stepping", self.stepping),
        ];
        let numbers = numbers.into_iter();
        let mut parts: Vec<String> = numbers
            .filter_map(|(name, number)| Some(format!("{name} {}", number?)))
            .collect();
        parts.extend(
            self.microcode
                .as_ref()
                .map(|code| format!("microcode {code}")),
        );
        let caches = self
            .caches
            .iter()
            .filter(|cache| cache.kind != "Instruction");
        parts.extend(caches.map(|cache| format!("L{} {}", cache.level, text::bytes(cache.bytes))));
        parts.join(", ")
    }
}

impl Cache {
    /// Reads the folder of a cache in `/sys/devices/system/cpu`; `None` if it is missing.
    fn read(folder: &Path) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let size = read("size")?;
        let kib: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        Some(Self {
            level: read("level")?.trim().parse().ok()?,
            kind: read("type")?.trim().to_owned(),
            bytes: kib.checked_mul(1024)?,
            shared_cpus: read("shared_cpu_list")?.trim().to_owned(),
        })
    }
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
            processor: Some(Processor::read(
                &info,
                Path::new("/sys/devices/system/cpu/cpu0/cache"),
            )),
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
            commit: COMMIT.to_owned(),
            command: command(),
            checks: Vec::new(),
        }
    }

    /// Processor and CPUs in a few words.
    pub(crate) fn brief(&self) -> String {
        let virtual_one = if self.virtual_machine {
            ", virtual"
        } else {
            ""
        };
        format!(
            "{}, {} CPUs{virtual_one}",
            self.cpu_model, self.cpus_allowed
        )
    }

    /// A few short lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let processor = self.processor.as_ref().map(Processor::text);
        let processor = processor.filter(|text| !text.is_empty());
        format!(
            "machine: {}\n{}         \
             Linux {}, governor {}, load {:.1} before the start\n         \
             clock {}, {:.1} ns a reading (in every figure)\n         \
             olivine {} ({})\n",
            self.brief(),
            processor.map_or_else(String::new, |text| format!("         {text}\n")),
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

/// The value of the first line with this name.
fn field(info: &str, name: &str) -> Option<String> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(found, _)| found.trim() == name)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_cpuinfo_are_found() {
        let info = "processor\t: 0\nmodel name\t: Example 9000\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(info, "model name").as_deref(), Some("Example 9000"));
        assert_eq!(field(info, "bogomips"), None);
        assert_eq!(field(info, "model"), None);
    }

    #[test]
    fn processor_is_described_as_far_as_the_kernel_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [
            ("1", "Data", "32K"),
            ("1", "Instruction", "32K"),
            ("3", "Unified", "32768K"),
        ];
        for (index, (level, kind, size)) in caches.into_iter().enumerate() {
            let folder = folder.path().join(format!("index{index}"));
            fs::create_dir(&folder).unwrap();
            let files = [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("shared_cpu_list", "0-1"),
            ];
            for (name, text) in files {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        let info =
            "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD\nstepping\t: 2\nmicrocode\t: 0xa\n";
        let found = Processor::read(info, folder.path());
        assert_eq!(
            found.text(),
            "family 25, model 1, stepping 2, microcode 0xa, L1 32 KiB, L3 32 MiB"
        );
        assert_eq!(found.caches.len(), 3);
        assert_eq!(
            (found.caches[2].level, found.caches[2].bytes),
            (3, 32 << 20)
        );
        assert_eq!(found.caches[2].shared_cpus, "0-1");
        let unknown = Processor::read("CPU part\t: 0xd0c\n", Path::new("/nonexistent"));
        assert_eq!(
            (unknown.text().as_str(), unknown),
            ("", Processor::default())
        );
    }
}
