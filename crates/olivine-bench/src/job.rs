//! Job files: what to measure, crossed out of lists, in TOML; and the presets, which are job files with the figures
//! that others published.
//!
//! ```toml
//! about = "sizes against methods"
//!
//! [[measure]]
//! scenario = "pingpong"                 # pingpong, latency, throughput, fanout, mesh
//! method = ["olivine-spin", "pipe"]     # default: this library
//! size = [32, 1024]                     # bytes; every list is crossed with every other
//! wait = ["spin", "adaptive"]           # channels of this library
//! capacity = ["64KiB", "1MiB"]          # likewise
//! rate = [1000.0, 1000000.0]            # messages a second, for latency
//! batch = [1, 16]                       # for throughput, fanout, mesh
//! publishers = [6]                      # for mesh
//! subscribers = [1, 2, 4]               # for fanout, mesh
//! ```
//!
//! A sweep measures point by point and can be taken up again: points that a result already has are left out.

use crate::error::chain;
use crate::method;
use crate::payload::SIZE_MIN;
use crate::result::{Load, Parameters, Published, Row};
use crate::scenario::{self, Setup, Variant, Watch, throughput};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Most points of one job.
const POINTS_MAX: usize = 10_000;

/// Why a job cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The file cannot be read.
    #[error("cannot read job file {path}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is no job.
    #[error("job {name}: {message}")]
    Form {
        /// Which job.
        name: String,
        /// Where it departs from the form, in one line.
        message: String,
    },
    /// A block asks for something that cannot be measured.
    #[error("job {name}, measure {number}: {message}")]
    Block {
        /// Which job.
        name: String,
        /// Number of the block, from 1.
        number: usize,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// There is no such preset.
    #[error("there is no preset '{name}'; there are {known}", known = PRESETS.map(|(name, _)| name).join(", "))]
    NoPreset {
        /// What was asked for.
        name: String,
    },
}

/// The presets: what each of the systems before us published, measured again.
pub const PRESETS: [(&str, &str); 5] = [
    ("ipc-bench", include_str!("job/ipc-bench.toml")),
    ("octane", include_str!("job/octane.toml")),
    ("olive", include_str!("job/olive.toml")),
    ("ring-buffer", include_str!("job/ring-buffer.toml")),
    ("solace", include_str!("job/solace.toml")),
];

/// One thing to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which scenario.
    pub scenario: Scenario,
    /// What is measured in it.
    pub variant: Variant,
    /// What others published for it.
    pub published: Vec<Published>,
}

/// The scenarios that a job can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scenario {
    /// Round trips.
    Pingpong,
    /// One-way latency at a rate.
    Latency,
    /// Full speed, one to one.
    Throughput,
    /// Full speed, one to several.
    Fanout,
    /// Full speed, several to several.
    Mesh,
}

impl Scenario {
    /// Its name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Fanout => "fanout",
            Self::Mesh => "mesh",
        }
    }

    /// How messages are offered in it.
    #[must_use]
    pub fn load(self) -> Load {
        match self {
            Self::Pingpong => Load::Closed,
            Self::Latency => Load::Open,
            Self::Throughput | Self::Fanout | Self::Mesh => Load::Saturated,
        }
    }
}

/// A parsed job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name: that of the preset, or of the file.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// What to measure, in this order.
    pub points: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    about: String,
    #[serde(default)]
    measure: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    scenario: Scenario,
    #[serde(default)]
    method: Vec<String>,
    size: Vec<u64>,
    #[serde(default)]
    wait: Vec<String>,
    #[serde(default)]
    capacity: Vec<String>,
    #[serde(default)]
    rate: Vec<f64>,
    #[serde(default)]
    batch: Vec<u64>,
    #[serde(default)]
    publishers: Vec<u32>,
    #[serde(default)]
    subscribers: Vec<u32>,
    #[serde(default)]
    published: Vec<Published>,
}

impl Job {
    /// A preset by name; `cpus` are those that may be used, which decides what is oversubscribed.
    ///
    /// # Errors
    ///
    /// [`JobError::NoPreset`] naming those there are.
    pub fn preset(name: &str, cpus: usize) -> Result<Self, JobError> {
        let found = PRESETS.iter().find(|(known, _)| *known == name);
        let (name, text) = found.ok_or_else(|| JobError::NoPreset {
            name: name.to_owned(),
        })?;
        Self::parse(name, text, cpus)
    }

    /// Reads a job file.
    ///
    /// # Errors
    ///
    /// [`JobError`] naming the file and what is wrong in it.
    pub fn read(path: &Path, cpus: usize) -> Result<Self, JobError> {
        let text = std::fs::read_to_string(path).map_err(|source| JobError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        Self::parse(&path.display().to_string(), &text, cpus)
    }

    /// Parses the text of a job called `name`.
    ///
    /// # Errors
    ///
    /// [`JobError::Form`] or [`JobError::Block`].
    pub fn parse(name: &str, text: &str, cpus: usize) -> Result<Self, JobError> {
        let form = |message: String| JobError::Form {
            name: name.to_owned(),
            message,
        };
        let found: Form = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or("", |span| &text[..span.start]);
            let line = before.matches('\n').count() + 1;
            form(format!("line {line}: {}", error.message()))
        })?;
        let mut points = Vec::new();
        for (number, block) in (1..).zip(&found.measure) {
            let block = block.points(cpus).map_err(|message| JobError::Block {
                name: name.to_owned(),
                number,
                message,
            })?;
            points.extend(block);
            if points.len() > POINTS_MAX {
                return Err(form(format!("more than {POINTS_MAX} points")));
            }
        }
        if points.is_empty() {
            return Err(form(
                "nothing to measure: it needs a [[measure]] with sizes".to_owned(),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            about: found.about,
            points,
        })
    }
}

/// A list, or one default.
fn or<T: Clone>(list: &[T], default: T) -> Vec<T> {
    if list.is_empty() {
        vec![default]
    } else {
        list.to_vec()
    }
}

impl Block {
    fn check(&self) -> Result<(), String> {
        if let Some(size) = self.size.iter().find(|size| **size < SIZE_MIN as u64) {
            return Err(format!("size {size} is too small: {SIZE_MIN} or more"));
        }
        if self.scenario == Scenario::Latency && self.rate.is_empty() {
            return Err("latency needs a list of rates".to_owned());
        }
        if let Some(rate) = self
            .rate
            .iter()
            .find(|rate| !(**rate > 0.0 && rate.is_finite()))
        {
            return Err(format!("rate {rate} is no number above 0"));
        }
        if self.scenario == Scenario::Latency {
            let refused = self
                .rate
                .iter()
                .find_map(|&rate| scenario::latency::check_rate(rate).err());
            if let Some(refused) = refused {
                return Err(refused.to_string());
            }
        }
        let most = throughput::BATCH_MAX as u64;
        if let Some(batch) = self.batch.iter().find(|batch| !(1..=most).contains(*batch)) {
            return Err(format!("batch {batch} is not within 1 to {most}"));
        }
        let counts = self.publishers.iter().chain(&self.subscribers);
        if let Some(count) = counts.copied().find(|count| !(1..=64).contains(count)) {
            return Err(format!("{count} participants is not within 1 to 64"));
        }
        for name in &self.method {
            if name != throughput::OWN {
                method::find(method::BUILT_IN, name).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn points(&self, cpus: usize) -> Result<Vec<Point>, String> {
        self.check()?;
        let pingpong = self.scenario == Scenario::Pingpong;
        let many = matches!(self.scenario, Scenario::Fanout | Scenario::Mesh);
        let mut points = Vec::new();
        for method in or(&self.method, String::new()) {
            for &size in &self.size {
                // What the method itself decides is not crossed.
                let is_ours = method.is_empty() || method == throughput::OWN;
                let waits = or(
                    &self.wait,
                    if many { "adaptive" } else { "spin" }.to_owned(),
                );
                for wait in waits.iter().take(if is_ours { waits.len() } else { 1 }) {
                    for capacity in or(&self.capacity, String::new()) {
                        for rate in or(
                            &self.rate.iter().map(|r| Some(*r)).collect::<Vec<_>>(),
                            None,
                        ) {
                            for batch in or(&self.batch, 1) {
                                for publishers in or(&self.publishers, 1) {
                                    for subscribers in or(&self.subscribers, 1) {
                                        let mut parameters = Parameters::pair(size);
                                        parameters.rate_per_s = rate;
                                        parameters.batch_count = batch;
                                        parameters.publishers_count = publishers;
                                        parameters.subscribers_count = subscribers;
                                        let wanted = (publishers + subscribers) as usize;
                                        parameters.oversubscribed = wanted > cpus;
                                        let variant =
                                            named(&method, pingpong, wait, &capacity, parameters)?;
                                        points.push(Point {
                                            scenario: self.scenario,
                                            variant,
                                            published: self.published.clone(),
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(points)
    }
}

/// The capacity that a channel's URI states, in bytes.
fn ring_bytes(config: &olivine::Config) -> Option<u64> {
    let uri = config.uri();
    let text = uri
        .split(['?', '&'])
        .find_map(|setting| setting.strip_prefix("capacity="))?;
    let digits = text.trim_end_matches(char::is_alphabetic);
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The variant of a method with what a channel of ours is set to.
fn named(
    method: &str,
    pingpong: bool,
    wait: &str,
    capacity: &str,
    mut parameters: Parameters,
) -> Result<Variant, String> {
    let is_ours = method.is_empty() || method == throughput::OWN;
    let capacity = if capacity.is_empty() {
        String::new()
    } else {
        format!("&capacity={capacity}")
    };
    let uri = format!("shm://bench?wait={wait}{capacity}");
    let config = olivine::Config::parse(&uri).map_err(|error| error.to_string())?;
    if !is_ours {
        let found = method::find(method::BUILT_IN, method).map_err(|error| error.to_string())?;
        parameters.wait = Some(found.wait().to_owned());
        if method.starts_with("olivine-") {
            parameters.ring_bytes = ring_bytes(&config);
            parameters.settings = capacity.trim_start_matches('&').to_owned();
        }
        return Ok(Variant {
            method: method.to_owned(),
            parameters,
        });
    }
    parameters.wait = Some(wait.to_owned());
    parameters.ring_bytes = ring_bytes(&config);
    // For round trips the strategy is part of the method's name.
    let (method, settings) = if pingpong {
        (
            format!("olivine-{wait}"),
            capacity.trim_start_matches('&').to_owned(),
        )
    } else {
        (throughput::OWN.to_owned(), format!("wait={wait}{capacity}"))
    };
    parameters.settings = settings;
    Ok(Variant { method, parameters })
}

impl Point {
    /// Whether `row` is a result of this point with figures.
    #[must_use]
    pub fn is_in(&self, row: &Row) -> bool {
        row.scenario == self.scenario.name()
            && row.method == self.variant.method
            && row.parameters == self.variant.parameters
            && row.measured().is_some()
    }

    /// Measures it. What fails is a row that says why.
    pub fn measure(&self, setup: &Setup, watch: Watch<'_>) -> Vec<Row> {
        let variants = std::slice::from_ref(&self.variant);
        let rows = match self.scenario {
            Scenario::Pingpong => scenario::pingpong::run(setup, variants, watch),
            Scenario::Latency => scenario::latency::run(setup, variants, watch),
            Scenario::Throughput => throughput::run(setup, variants, watch),
            Scenario::Fanout => scenario::mesh::fanout(setup, variants, watch),
            Scenario::Mesh => scenario::mesh::mesh(setup, variants, watch),
        };
        let mut rows = rows.map(|found| found.concat()).unwrap_or_else(|error| {
            vec![Row::failed(
                self.scenario.name(),
                self.scenario.load(),
                &self.variant.method,
                self.variant.parameters.clone(),
                chain(&error),
            )]
        });
        for row in &mut rows {
            row.published.clone_from(&self.published);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_job_with_published_figures() {
        for (name, _) in PRESETS {
            let job = Job::preset(name, 2).unwrap();
            assert!(!job.about.is_empty(), "{name}");
            let published = job.points.iter().flat_map(|point| &point.published);
            assert!(published.count() > 0, "{name} has no published figure");
        }
        let error = Job::preset("nobody", 2).unwrap_err();
        assert!(error.to_string().contains("ipc-bench"), "{error}");
    }

    #[test]
    fn lists_are_crossed() {
        let text = "[[measure]]\nscenario = 'latency'\nsize = [32, 64]\nrate = [1e3, 1e4]\nwait = ['spin', 'park']\n\
                    [[measure]]\nscenario = 'mesh'\nsize = [16]\npublishers = [2]\nsubscribers = [3]\n";
        let job = Job::parse("x", text, 2).unwrap();
        assert_eq!(job.points.len(), 9);
        let mesh = &job.points[8].variant.parameters;
        assert!(mesh.oversubscribed && mesh.publishers_count == 2);
        assert!(
            !Job::parse("x", text, 8).unwrap().points[8]
                .variant
                .parameters
                .oversubscribed
        );
    }

    #[test]
    fn a_broken_job_says_where() {
        let block = |text: &str| format!("[[measure]]\nscenario = 'pingpong'\n{text}\n");
        for (text, expected) in [
            ("x = ".to_owned(), "line 1"),
            (
                block("size = [32]\nspeed = 3"),
                "line 4: unknown field `speed`",
            ),
            (block("size = [8]"), "measure 1: size 8 is too small"),
            (
                block("size = [32]\nmethod = ['pigeon']"),
                "no method 'pigeon'",
            ),
            (block("size = [32]\nwait = ['nap']"), "nap"),
            (block("size = [32]\ncapacity = ['3']"), "capacity"),
            ("about = 'x'".to_owned(), "nothing to measure"),
            (
                "[[measure]]\nscenario = 'latency'\nsize = [32]".to_owned(),
                "needs a list of rates",
            ),
            (
                "[[measure]]\nscenario = 'latency'\nsize = [32]\nrate = [1e300]".to_owned(),
                "is not within 1 to",
            ),
        ] {
            let error = Job::parse("x.toml", &text, 2).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(matches!(
            Job::read(Path::new("/nonexistent"), 2),
            Err(JobError::Read { .. })
        ));
    }
}
