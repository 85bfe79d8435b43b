//! Deaths, faults and hostile peers: the core's tests with real processes, for as long as one likes.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child::{self, Line};
use crate::report::Step;
use anyhow::Result;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// One test program of the core, run by itself.
struct Run<'a> {
    name: &'a str,
    /// Test program.
    test: &'a str,
    /// Arguments of cargo besides: what is built, and how.
    arguments: &'a [&'a str],
    /// Which of its tests; all where empty.
    filter: &'a str,
    environment: &'a [(&'a str, String)],
}

impl Run<'_> {
    /// Runs it; what it printed goes to `said` as well.
    fn run(&self, said: &mut Vec<String>) -> Result<Step> {
        let mut command = cargo();
        command
            .args(["test", "--test", self.test])
            .args(self.arguments)
            .args(["--", "--nocapture", "--test-threads=1", self.filter])
            .envs(
                self.environment
                    .iter()
                    .map(|(name, value)| (*name, value.as_str())),
            );
        let mut output = TestOutput::default();
        let outcome = child::stream(&mut command, at_most(LIMIT), |line| {
            let verdict = output.line(line);
            if verdict == Line::Show {
                said.push(line.to_owned());
            }
            verdict
        })?;
        Ok(output.step(self.name, outcome.success(), &outcome.words()))
    }
}

/// Kills `kills` participants; the same `seed` gives the same choices.
pub(crate) fn run(kills: u64, seed: Option<u64>, said: &mut Vec<String>) -> Result<Step> {
    let seed = seed.unwrap_or_else(any_seed);
    println!("{kills} kills, seed {seed}: repeat with --kills {kills} --seed {seed}");
    let run = Run {
        name: "death",
        test: "death",
        arguments: &["--package", "olivine", "--release"],
        filter: "",
        environment: &[
            ("OLIVINE_KILLS", kills.to_string()),
            ("OLIVINE_SEED", seed.to_string()),
        ],
    };
    let mut step = run.run(said)?;
    step.note = format!("{kills} kills, seed {seed}; {}", step.note);
    Ok(step)
}

/// Kills, stops and newcomers for `duration`.
pub(crate) fn soak(duration: Duration, seed: Option<u64>, said: &mut Vec<String>) -> Result<Step> {
    let seed = seed.unwrap_or_else(any_seed);
    println!("{} s, seed {seed}", duration.as_secs());
    let run = Run {
        name: "soak",
        test: "death",
        arguments: &["--package", "olivine", "--release"],
        filter: "whoever_is_killed",
        environment: &[
            ("OLIVINE_SOAK_S", duration.as_secs().to_string()),
            ("OLIVINE_SEED", seed.to_string()),
        ],
    };
    let mut step = run.run(said)?;
    step.note = format!("{} s, seed {seed}; {}", duration.as_secs(), step.note);
    Ok(step)
}

/// More busy processes than any machine here has processors.
pub(crate) fn crowd(said: &mut Vec<String>) -> Result<Step> {
    let run = Run {
        name: "crowd",
        test: "limits",
        arguments: &["--package", "olivine", "--release"],
        filter: "crowd",
        environment: &[("OLIVINE_CROWD", "64".to_owned())],
    };
    run.run(said)
}

/// Deaths aimed at the named places of the source, in a build with these `features` of the workspace.
pub(crate) fn points(features: &str, said: &mut Vec<String>) -> Result<Step> {
    let run = Run {
        name: "points",
        test: "death",
        arguments: &["--workspace", "--features", features],
        filter: "named_point",
        environment: &[],
    };
    run.run(said)
}

/// A death after every instruction, and every fault of every system call.
pub(crate) fn every_step(said: &mut Vec<String>) -> Result<Step> {
    let run = Run {
        name: "step",
        test: "step",
        arguments: &["--package", "olivine"],
        filter: "",
        environment: &[
            ("OLIVINE_STEP_EVERY", "1".to_owned()),
            ("OLIVINE_FAULT_EVERY", "1".to_owned()),
        ],
    };
    run.run(said)
}

/// The attacks on sealed channels, each for `length`.
pub(crate) fn sealed(length: Duration, seed: u64, said: &mut Vec<String>) -> Result<Step> {
    let run = Run {
        name: "sealed",
        test: "sealed",
        arguments: &["--package", "olivine"],
        filter: "",
        environment: &[
            ("OLIVINE_HOSTILE_MS", length.as_millis().to_string()),
            ("OLIVINE_SEED", seed.to_string()),
        ],
    };
    run.run(said)
}

/// Bridges over a wire between two network namespaces, which delays, loses and is cut for `cut`.
pub(crate) fn wire(
    messages: u64,
    cut: Duration,
    seed: u64,
    said: &mut Vec<String>,
) -> Result<Step> {
    let run = Run {
        name: "wire",
        test: "namespaces",
        arguments: &["--package", "olivine"],
        filter: "",
        environment: &[
            ("OLIVINE_WIRE_MESSAGES", messages.to_string()),
            ("OLIVINE_WIRE_CUT_S", cut.as_secs().to_string()),
            ("OLIVINE_WIRE_SEED", seed.to_string()),
        ],
    };
    run.run(said)
}

/// A seed nobody chose. It is printed, so that a failure can be repeated.
#[allow(
    clippy::disallowed_methods,
    reason = "the wall clock is only a source of variety here"
)]
pub(crate) fn any_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |now| u64::from(now.subsec_nanos()))
}
