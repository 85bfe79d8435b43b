//! The file of a measurement: JSON, described by `docs/bench-schema.json`.

use super::{Distribution, MeasuringError, Outcome, Ratio, Row};
use crate::machine::{Machine, Processor};
use crate::privileges::Privileges;
use olivine::small_file;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// First field of a file: the name of the format and its version.
pub const SCHEMA: &str = "olivine-bench/2";
/// Most bytes of a result file.
const FILE_MAX: u64 = 64 << 20;
/// Fewest runs of a quotable figure.
pub const RUNS_QUOTABLE: u32 = 5;

/// Results of one measurement, with their conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ResultFile {
    /// Always [`SCHEMA`]: [`ResultFile::parse`] refuses others.
    pub schema: String,
    /// The name of the scenario, preset or job file.
    pub scenario: String,
    /// When it began, in seconds of Unix time; 0 if unknown.
    pub started_unix_s: u64,
    /// Machine, kernel, clock, build and command.
    pub machine: Machine,
    /// CPUs of the participants: first those of the measuring process and the second one, between
    /// which the floor is; many participants share them in rotation.
    pub cpus: Vec<u32>,
    /// Runs of each variant, which took turns.
    pub runs: u32,
    /// Seconds for each variant over all runs.
    pub seconds_per_variant: f64,
    /// It was stopped: fewer slices than planned, all of them complete.
    pub interrupted: bool,
    /// Its time was up before the last turn: some variants have fewer runs than others, all of them
    /// complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// Privileges of both processes.
    #[serde(default, skip_serializing_if = "Privileges::is_none")]
    pub privileges: Privileges,
    /// The difference of two equal measurements, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_error: Option<MeasuringError>,
    /// The rows.
    pub results: Vec<Row>,
    /// Ratios of rows, run by run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    /// What was to be measured and is missing on this machine, with the reason: one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What a measurement gave.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the parts of a file that are measured"
)]
pub struct Results {
    /// The rows.
    pub rows: Vec<Row>,
    /// The difference of two equal measurements, if measured.
    pub measuring_error: Option<MeasuringError>,
    /// Ratios of rows, run by run.
    pub ratios: Vec<Ratio>,
    /// What is missing on this machine, with the reason: one line each.
    pub left_out: Vec<String>,
}

impl From<Vec<Row>> for Results {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

/// Why a result file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is not one of our results.
    #[error(
        "{path} is not a result of `olivine bench --json`",
        path = path.display()
    )]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where it departs from the form.
        source: serde_json::Error,
    },
    /// It has another version of the format.
    #[error(
        "{path} says schema '{found}', this program reads '{SCHEMA}': use the version that wrote \
        it",
        path = path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
}

impl ResultFile {
    /// Reads a regular file of at most 64 MiB.
    ///
    /// # Errors
    ///
    /// [`FileError`] naming the file: it cannot be read, or is not a result of this version.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = small_file::read_text(path, FILE_MAX).map_err(|source| FileError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Reads the text of the file at `path`, which is named in errors only.
    ///
    /// # Errors
    ///
    /// [`FileError::Form`] or [`FileError::Version`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let form = |source| FileError::Form {
            path: path.to_path_buf(),
            source,
        };
        let Head { schema } = serde_json::from_str(text).map_err(form)?;
        if schema == SCHEMA {
            return serde_json::from_str(text).map_err(form);
        }
        Err(FileError::Version {
            path: path.to_path_buf(),
            found: schema,
        })
    }

    /// Makes the file small: merges buckets of distributions, which changes no percentile and no
    /// curve, then removes the buckets of the slowest rows until the JSON has at most `bytes_max`
    /// bytes.
    pub fn pack(&mut self, bytes_max: usize) {
        self.distributions_mut().for_each(Distribution::pack);
        // Slices are the first to go: the runs stay.
        let series = |row: &mut Row| match &mut row.outcome {
            Outcome::Measured(measured) => measured.series.clear(),
            Outcome::Failed { .. } => {}
        };
        let length = |file: &Self| serde_json::to_string(file).map_or(0, |text| text.len());
        if length(self) > bytes_max {
            self.results.iter_mut().for_each(series);
        }
        while length(self) > bytes_max {
            let p50_ns = |found: &Distribution| found.percentiles.p50_ns.unwrap_or(f64::MAX);
            let left = self.distributions_mut();
            let left = left.filter(|found| !found.buckets_ns.is_empty());
            let Some(slowest) = left.max_by(|a, b| p50_ns(a).total_cmp(&p50_ns(b))) else {
                break;
            };
            slowest.buckets_ns.clear();
        }
    }

    fn distributions_mut(&mut self) -> impl Iterator<Item = &mut Distribution> {
        self.results.iter_mut().flat_map(|row| {
            let measured = match &mut row.outcome {
                Outcome::Measured(measured) => Some(measured),
                Outcome::Failed { .. } => None,
            };
            measured.into_iter().flat_map(|measured| {
                let times = measured.distribution.iter_mut();
                times.chain(&mut measured.send_delay)
            })
        })
    }

    /// Rows without figures.
    pub fn failures(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.results.iter().filter_map(|row| match &row.outcome {
            Outcome::Failed { reason } => Some((row, reason.as_str())),
            Outcome::Measured(_) => None,
        })
    }

    /// Whether its figures may be quoted: enough runs of everything, not interrupted.
    #[must_use]
    pub fn is_quotable(&self) -> bool {
        self.runs >= RUNS_QUOTABLE && !self.interrupted && !self.cut_short
    }

    /// The first condition in which `other` differs, with both values; `None` if rows of both may
    /// share one header. Load, clock cost and command may differ.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<String> {
        // More participants use further CPUs in the same order.
        let shared = self.cpus.len().min(other.cpus.len());
        // Files from before this field are of the same processor, as far as they say.
        let known = self.machine.processor.is_some() && other.machine.processor.is_some();
        let processor = |file: &Self| {
            let processor = file.machine.processor.as_ref().filter(|_| known);
            processor.map_or_else(String::new, Processor::text)
        };
        let conditions = |file: &Self| {
            let machine = &file.machine;
            [
                ("scenario", file.scenario.clone()),
                ("runs", file.runs.to_string()),
                ("CPUs", format!("{:?}", &file.cpus[..shared])),
                ("real-time class", file.privileges.real_time.to_string()),
                ("locked memory", file.privileges.locked_memory.to_string()),
                ("commit", machine.commit.clone()),
                ("version", machine.version.clone()),
                ("processor", machine.cpu_model.clone()),
                ("processor", processor(file)),
                ("allowed CPUs", machine.cpus_allowed.to_string()),
                ("kernel", machine.kernel.clone()),
                ("governor", machine.governor.clone()),
                ("clock", machine.clock.clone()),
                // The last digit of a number may change by writing and reading.
                ("seconds", format!("{:.6}", file.seconds_per_variant)),
            ]
        };
        let mut both = conditions(self).into_iter().zip(conditions(other));
        let ((name, ours), (_, theirs)) = both.find(|(ours, theirs)| ours != theirs)?;
        Some(format!("{name} {ours} there, {theirs} now"))
    }

    /// When it began, as `2026-11-21 07:30 UTC`; empty if unknown.
    #[must_use]
    pub fn started(&self) -> String {
        if self.started_unix_s == 0 {
            return String::new();
        }
        let (days, second) = (self.started_unix_s / 86_400, self.started_unix_s % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute) = (second / 3600, second % 3600 / 60);
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

/// Seconds of Unix time, for the date in a result; 0 if the clock stands before 1970.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the date of a result, from which nothing is measured"
)]
pub fn unix_time_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// # Source
///
/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the leap day is the last of a year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_722, (2023, 12, 31)),
            (20_778, (2026, 11, 21)),
        ] {
            assert_eq!(civil(days), date, "day {days}");
        }
        assert!(unix_time_s() > 1_700_000_000);
    }

    #[test]
    fn only_rows_with_equal_conditions_are_joined() {
        let file = ResultFile {
            schema: SCHEMA.to_owned(),
            scenario: "sweep".to_owned(),
            started_unix_s: 1,
            machine: Machine::look(),
            cpus: vec![4, 36],
            runs: 5,
            seconds_per_variant: 2.0,
            interrupted: false,
            cut_short: false,
            privileges: Privileges::default(),
            measuring_error: None,
            results: Vec::new(),
            ratios: Vec::new(),
            left_out: Vec::new(),
        };
        let differs = |change: fn(&mut ResultFile)| {
            let mut other = file.clone();
            change(&mut other);
            file.differs(&other)
        };
        assert_eq!(differs(|other| other.machine = Machine::look()), None);
        assert_eq!(differs(|other| other.machine.processor = None), None);
        assert_eq!(differs(|other| other.started_unix_s = 2), None);
        assert_eq!(differs(|other| other.cpus.push(8)), None);
        let said = |change, expected: &str| {
            let said = differs(change).unwrap_or_default();
            assert_eq!(said, expected);
        };
        said(|other| other.runs = 1, "runs 5 there, 1 now");
        said(|other| other.cpus[1] = 5, "CPUs [4, 36] there, [4, 5] now");
        said(
            |other| other.seconds_per_variant = 0.5,
            "seconds 2.000000 there, 0.500000 now",
        );
        said(
            |other| other.privileges.real_time = true,
            "real-time class false there, true now",
        );
        for change in [
            (|other| other.machine.commit.push('x')) as fn(&mut ResultFile),
            |other| other.machine.cpu_model.push('x'),
            |other| other.machine.kernel.push('x'),
            |other| {
                let processor = other.machine.processor.get_or_insert_default();
                processor.microcode.get_or_insert_default().push('x');
            },
            |other| other.scenario.push('x'),
        ] {
            assert!(differs(change).is_some());
        }
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let path = Path::new("some.json");
        let error = ResultFile::parse(path, "{\"a\":1}").unwrap_err();
        assert!(
            error.to_string().starts_with("some.json is not a result"),
            "{error}"
        );
        let error = ResultFile::parse(path, "{\"schema\":\"olivine-bench/9\"}").unwrap_err();
        assert!(error.to_string().contains("'olivine-bench/9'"), "{error}");
        let error = ResultFile::read(Path::new("/nonexistent/x.json")).unwrap_err();
        assert!(matches!(error, FileError::Read { .. }), "{error}");
    }

    /// After a change: `OLIVINE_SCHEMA=write cargo test -p olivine-bench --lib schema`.
    #[test]
    fn published_schema_is_that_of_the_types() {
        let mut made = serde_json::to_value(schemars::schema_for!(ResultFile)).unwrap();
        made["title"] = "A result of `olivine bench`, as --json prints it".into();
        made["properties"]["schema"]["const"] = SCHEMA.into();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-schema.json");
        if std::env::var_os("OLIVINE_SCHEMA").is_some() {
            let text = serde_json::to_string_pretty(&made).unwrap() + "\n";
            std::fs::write(path, text).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap();
        let published: serde_json::Value = serde_json::from_str(&published).unwrap();
        assert_eq!(made, published);
    }
}
