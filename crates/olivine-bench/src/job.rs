//! Job files: lists of parameters in TOML, measured in every combination; and the presets, which
//! are job files with published figures of others.
//!
//! ```toml
//! about = "sizes against methods"
//!
//! [[measure]]
//! scenario = "pingpong"                 # pingpong, latency, throughput, fanout, mesh, cost
//! size = [32, 1024]                     # bytes; every list is crossed with every other
//! method = ["olivine-shm", "pipe"]      # for pingpong, throughput; default: this library
//! wait = ["spin", "adaptive"]           # of olivine-shm
//! count = 100000                        # for pingpong: round trips of a run, not a time
//! capacity = ["64KiB", "1MiB"]          # of methods of this library
//!
//! [[measure]]
//! scenario = "mesh"
//! size = [32]
//! publishers = [6]                      # for mesh
//! subscribers = [1, 2, 4]               # for fanout, mesh
//! batch = [1, 16]                       # for throughput, fanout, mesh
//!
//! [[measure]]
//! scenario = "latency"
//! size = [32]
//! rate = [1000.0, 1000000.0]            # messages a second, for latency
//! subscribers = [1, 2]
//! topic = ["a.b", "a.c"]                # for latency, fanout, mesh: of messages, in turns
//!
//! [[measure]]
//! scenario = "pingpong"
//! size = [100]
//! rival = ["zeromq-ipc"]                # methods of other programs
//!
//! [bridge]                              # what 'olivine bench bridge' measures, all in turns
//! part = ["paced", "disk"]
//! rate = 10000.0                        # messages a second, for paced
//! wait = "park"                         # for paced
//! folder = "/var/tmp"                   # on the disk to measure, for stored and disk
//!
//! [[refused]]
//! published = "queue of 100 B: 157 ns"  # printed with the reason
//! reason = "a ring has 4 KiB or more"
//! ```
//!
//! A list that a scenario or all of its methods ignore is refused: rows would show a parameter
//! without effect.
//!
//! A sweep measures point by point, then the bridges, and can resume: it leaves out points and
//! parts with a result.

use crate::error::chain;
use crate::plan::{Matrix, PlanError};
use crate::result::{Published, Row};
use crate::scenario::bridge::Part;
use crate::scenario::registry::Scenario;
use crate::scenario::{Setup, Variant, Watch, latency};
use olivine::small_file::{self, SETTINGS_FILE_MAX};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Most points of one job.
const POINTS_MAX: usize = 10_000;

/// Reasons why a job cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The file cannot be read.
    #[error("cannot read job file {path}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
    /// It is not a valid job.
    #[error("job {name}: {message}")]
    Form {
        /// Which job.
        name: String,
        /// The first error of its form, in one line.
        message: String,
    },
    /// A block requests an impossible measurement.
    #[error("job {name}, measure {number}")]
    Block {
        /// Which job.
        name: String,
        /// Number of the block, from 1.
        number: usize,
        /// What is wrong, and what is allowed.
        source: Box<PlanError>,
    },
    /// There is no such preset.
    #[error("there is no preset '{name}'; there are \
    {known}", known = PRESETS.map(|(name, _)| name).join(", "))]
    NoPreset {
        /// The requested name.
        name: String,
    },
}

/// The presets: the published experiments of earlier systems, measured again, and the bridges.
pub const PRESETS: [(&str, &str); 6] = [
    ("bridges", include_str!("job/bridges.toml")),
    ("ipc-bench", include_str!("job/ipc-bench.toml")),
    ("octane", include_str!("job/octane.toml")),
    ("olive", include_str!("job/olive.toml")),
    ("ring-buffer", include_str!("job/ring-buffer.toml")),
    ("solace", include_str!("job/solace.toml")),
];

/// One point to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which scenario.
    pub scenario: &'static Scenario,
    /// Its parameters.
    pub variant: Variant,
    /// Published figures for it.
    pub published: Vec<Published>,
}

/// A parsed job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name: that of the preset, or of the file.
    pub name: String,
    /// Its description.
    pub about: String,
    /// The file that it was read from.
    pub text: String,
    /// The points, in this order.
    pub points: Vec<Point>,
    /// Bridges, measured after the points.
    pub bridge: Option<Bridges>,
    /// What others published and cannot be measured here.
    pub refused: Vec<Refused>,
}

/// Bridges to measure, all in turns.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "a job file states each of them")]
pub struct Bridges {
    /// Which parts.
    pub part: Vec<Part>,
    /// Messages a second where they are paced.
    #[serde(default)]
    pub rate: Option<f64>,
    /// How both ends wait where messages are paced.
    #[serde(default)]
    pub wait: Option<String>,
    /// Folder on the disk to measure.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

impl Bridges {
    /// The parts without figures in `rows`.
    #[must_use]
    pub fn missing(&self, rows: &[Row]) -> Vec<Part> {
        let parts = self.part.iter().copied();
        let is_missing = |part: &Part| {
            let mut of_part = rows.iter().filter(|row| row.scenario == part.scenario());
            !of_part.any(|row| row.measured().is_some())
        };
        parts.filter(is_missing).collect()
    }
}

/// A published figure that cannot be measured here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::exhaustive_structs, reason = "a job file states each of them")]
pub struct Refused {
    /// What was published, with its figure and where it stands.
    pub published: String,
    /// Why it cannot be measured, and what can.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    about: String,
    #[serde(default)]
    measure: Vec<Matrix>,
    bridge: Option<Bridges>,
    #[serde(default)]
    requests: Vec<Requests>,
    #[serde(default)]
    refused: Vec<Refused>,
}

/// Figures that others published of HTTP requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    depth: u64,
    published: Vec<Published>,
}

/// Puts what others published of HTTP requests beside `rows` of the same depth.
///
/// # Errors
///
/// [`JobError::Form`] for a preset that is wrong, which a test excludes.
pub fn beside_requests(rows: &mut [Row]) -> Result<(), JobError> {
    for (name, text) in PRESETS {
        for requests in form(name, text)?.requests {
            let is_alike = |row: &&mut Row| row.parameters.depth_count == Some(requests.depth);
            for row in rows.iter_mut().filter(is_alike) {
                row.published.extend(requests.published.iter().cloned());
            }
        }
    }
    Ok(())
}

/// The text of a job.
fn form(name: &str, text: &str) -> Result<Form, JobError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let line = before.matches('\n').count() + 1;
        JobError::Form {
            name: name.to_owned(),
            message: format!("line {line}: {}", error.message()),
        }
    })
}

impl Job {
    /// A preset by name; the number of `cpus` decides what is oversubscribed.
    ///
    /// # Errors
    ///
    /// [`JobError::NoPreset`] with the known names.
    pub fn preset(name: &str, cpus: usize) -> Result<Self, JobError> {
        let found = PRESETS.iter().find(|(known, _)| *known == name);
        let (name, text) = found.ok_or_else(|| JobError::NoPreset {
            name: name.to_owned(),
        })?;
        Self::parse(name, text, cpus)
    }

    /// Reads a job file: a regular file of at most 1 MiB.
    ///
    /// # Errors
    ///
    /// [`JobError`] naming the file and what is wrong in it.
    pub fn read(path: &Path, cpus: usize) -> Result<Self, JobError> {
        let text =
            small_file::read_text(path, SETTINGS_FILE_MAX).map_err(|source| JobError::Read {
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
        let wrong = |message: String| JobError::Form {
            name: name.to_owned(),
            message,
        };
        let found = form(name, text)?;
        let mut points = Vec::new();
        for (number, matrix) in (1..).zip(found.measure) {
            let variants = matrix.variants(cpus).map_err(|source| JobError::Block {
                name: name.to_owned(),
                number,
                source: Box::new(source),
            })?;
            points.extend(variants.into_iter().map(|variant| Point {
                scenario: matrix.scenario,
                variant,
                published: matrix.published.clone(),
            }));
            if points.len() > POINTS_MAX {
                return Err(wrong(format!("more than {POINTS_MAX} points")));
            }
        }
        let rate = found.bridge.as_ref().and_then(|bridge| bridge.rate);
        if let Some(error) = rate.and_then(|rate| latency::check_rate(rate).err()) {
            return Err(wrong(format!("bridge: {error}")));
        }
        if points.is_empty() && found.bridge.as_ref().is_none_or(|of| of.part.is_empty()) {
            let message = "nothing to measure: it needs a [[measure]] with sizes, or a [bridge] \
                           with parts";
            return Err(wrong(message.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            about: found.about,
            text: text.to_owned(),
            points,
            bridge: found.bridge,
            refused: found.refused,
        })
    }

    /// Fills in what the programs of `setup` say of their methods.
    pub fn know(&mut self, setup: &Setup) {
        for point in &mut self.points {
            setup.describe(&mut point.variant);
        }
    }
}

impl Point {
    /// Whether `row` is a result of this point with figures.
    #[must_use]
    pub fn is_in(&self, row: &Row) -> bool {
        row.scenario == self.scenario.name
            && row.method == self.variant.method
            && row.parameters == self.variant.parameters
            && row.measured().is_some()
    }

    /// Measures it. A failure is a row with its reason.
    pub fn measure(&self, setup: &Setup, watch: Watch<'_>) -> Vec<Row> {
        let variants = std::slice::from_ref(&self.variant);
        let rows = (self.scenario.run)(setup, variants, watch);
        let mut rows = rows.map(|found| found.concat()).unwrap_or_else(|error| {
            vec![Row::failed(
                self.scenario.name,
                self.scenario.load,
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
    use crate::result::statistic;
    use crate::scenario::registry::SCENARIOS;

    #[test]
    fn requests_have_published_figures_of_their_depth() {
        let parameters = |depth| crate::result::Parameters {
            depth_count: Some(depth),
            ..crate::result::Parameters::pair(0)
        };
        let row = |depth| {
            Row::failed(
                "http",
                crate::result::Load::Closed,
                "x",
                parameters(depth),
                "",
            )
        };
        let mut rows = [row(1), row(64)];
        beside_requests(&mut rows).unwrap();
        let counts = rows.map(|row| row.published.len());
        assert_eq!(counts, [0, 6]);
    }

    #[test]
    fn every_preset_has_published_figures() {
        for (name, text) in PRESETS {
            let job = Job::preset(name, 2).unwrap();
            assert!(!job.about.is_empty(), "{name}");
            let published = job.points.iter().flat_map(|point| &point.published);
            let is_known = published.count() > 0 || job.bridge.is_some();
            assert!(is_known, "{name} has no published figure");
            let of_requests = form(name, text).unwrap().requests;
            let of_requests = of_requests.iter().flat_map(|requests| &requests.published);
            let published = job.points.iter().flat_map(|point| &point.published);
            for Published { figure, .. } in published.chain(of_requests) {
                assert!(statistic::find(figure).is_some(), "{name}: {figure}");
            }
            let guide = include_str!("../../../docs/method.md");
            assert!(
                guide.contains(&format!("`sweep --preset {name}`")),
                "{name}"
            );
        }
        let error = Job::preset("nothing", 2).unwrap_err();
        assert!(error.to_string().contains("ipc-bench"), "{error}");
    }

    #[test]
    fn lists_are_combined() {
        let text = "[[measure]]\nscenario = 'latency'\nsize = [32, 64]\nrate = [1e3, 1e4]\nwait = \
        ['spin', 'park']\n\
                    [[measure]]\nscenario = 'mesh'\nsize = [16]\npublishers = [2]\nsubscribers = \
                    [3]\n";
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
    fn list_without_effect_is_refused() {
        let block = |scenario: &str, more: &str| {
            let rate = if scenario == "latency" {
                "rate = [1e3]\n"
            } else {
                ""
            };
            format!("[[measure]]\nscenario = '{scenario}'\nsize = [32]\n{rate}{more}\n")
        };
        let lists = [
            ("method", "['olivine-spin']"),
            ("rate", "[1e3]"),
            ("batch", "[4]"),
            ("publishers", "[2]"),
            ("subscribers", "[2]"),
            ("capacity", "['1MiB']"),
        ];
        for scenario in SCENARIOS {
            let (name, known) = (scenario.name, scenario.keys);
            for (key, list) in lists.iter().filter(|(key, _)| !known.contains(key)) {
                let text = block(name, &format!("{key} = {list}"));
                let error = chain(&Job::parse("x", &text, 2).unwrap_err());
                let expected = format!("{key} is not used by {name}");
                assert!(error.contains(&expected), "{error}");
                assert!(error.contains(&known.join(", ")), "{error}");
            }
        }
        for (lists, expected) in [
            (
                "method = ['pipe']\nwait = ['park']",
                "wait does not go with method pipe",
            ),
            (
                "method = ['olivine-spin']\nwait = ['park']",
                "only olivine-shm",
            ),
            (
                "method = ['pipe']\ncapacity = ['1MiB']",
                "capacity does not go with method pipe",
            ),
        ] {
            let error = chain(&Job::parse("x", &block("pingpong", lists), 2).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn lists_apply_only_to_methods_that_use_them() {
        let text = "[[measure]]\nscenario = 'pingpong'\nsize = [32]\nmethod = ['olivine-shm', \
        'pipe']\n\
                    wait = ['spin', 'park']\ncapacity = ['64KiB', '1MiB']\n";
        let job = Job::parse("x", text, 2).unwrap();
        let names = job.points.iter().map(|point| point.variant.method.as_str());
        let names: Vec<&str> = names.collect();
        let (spin, park) = ("olivine-spin", "olivine-park");
        assert_eq!(names, [spin, spin, park, park, "pipe"]);
    }

    #[test]
    fn broken_job_names_the_place() {
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
            ("[bridge]\npart = []".to_owned(), "nothing to measure"),
            (
                "[bridge]\npart = ['warp']".to_owned(),
                "there is no part 'warp'; there are paced,",
            ),
            (
                "[bridge]\npart = ['paced']\nrate = 1e300".to_owned(),
                "is not within 1 to",
            ),
            (
                "[[measure]]\nscenario = 'latency'\nsize = [32]".to_owned(),
                "needs a list of rates",
            ),
            (
                "[[measure]]\nscenario = 'latency'\nsize = [32]\nrate = [1e300]".to_owned(),
                "is not within 1 to",
            ),
        ] {
            let error = chain(&Job::parse("x.toml", &text, 2).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(matches!(
            Job::read(Path::new("/nonexistent"), 2),
            Err(JobError::Read { .. })
        ));
    }
}
