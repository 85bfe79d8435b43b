//! `ci --deep`: all slow checks, with a report in `docs/evidence`. Also `death`, which runs alone.

use crate::cargo::{alone, cargo, target};
use crate::child;
use crate::evidence::Evidence;
use crate::packages::program;
use crate::report::{Report, Step};
use crate::{aarch64, fuzz, miri, pool, sanitize, test};
use anyhow::Result;
use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

/// Names of tests that a step runs alone.
const KILLS: &str = "survivors_of_kills_lose_nothing_and_continue";
const CROWD: &str = "busy_processes_do_not_block_a_stream";
const CHURN: &str = "churn_leaks_no_descriptors_or_memory";
/// Arguments of the death suite.
const DEATH: &str = "olivine --release --test death";

/// The amount of each check.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "amounts", requires = "deep")]
pub(crate) struct Plan {
    /// Number of participants to kill.
    #[arg(long, default_value = "200000")]
    kills: NonZeroU64,
    /// Seed of all random choices; a random seed is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of Miri seeds.
    #[arg(long, default_value = "8")]
    seeds: NonZeroU32,
    /// Words that each of the seven hostile peers overwrites.
    #[arg(long, default_value = "150000000")]
    writes: NonZeroU64,
    /// CPU time of each fuzz target.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    fuzz: humantime::Duration,
    /// Messages over a lossy link.
    #[arg(long, value_name = "MESSAGES", default_value = "10000000")]
    wire: NonZeroU64,
    /// How long the link is cut.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    cut: humantime::Duration,
    /// Length of each attack on a sealed channel.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    sealed: humantime::Duration,
    /// Length of the soak test.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    soak: humantime::Duration,
    /// Connections opened and closed, on each back end.
    #[arg(long, default_value = "100000")]
    connections: NonZeroU32,
    /// Number of runs of every built-in method.
    #[arg(long, default_value = "20")]
    benches: NonZeroU32,
}

/// A random seed. It is printed, so that a failure can be repeated.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Kills `kills` participants; the same `seed` gives the same choices.
pub(crate) fn death(kills: NonZeroU64, seed: u64) -> Result<Step> {
    alone(DEATH, &[("OLIVINE_KILLS", &kills), ("OLIVINE_SEED", &seed)])
}

/// Kills, stops and new participants for `time`.
pub(crate) fn soak(time: Duration, seed: u64) -> Result<Step> {
    let time = ("OLIVINE_SOAK_S", &time.as_secs() as &dyn Display);
    alone(
        &format!("{DEATH} {KILLS}"),
        &[time, ("OLIVINE_SEED", &seed)],
    )
}

/// A run in progress.
struct Progress<'a> {
    report: &'a mut Report,
    /// Steps to run; empty means all.
    only: &'a [String],
    evidence: Evidence,
    started: Instant,
}

impl Progress<'_> {
    /// Runs one step, even after a failure, and saves the report so far.
    fn steps(&mut self, name: &str, body: impl FnOnce(&mut Report)) {
        if !self.only.is_empty() && !self.only.iter().any(|only| only == name) {
            return;
        }
        let minutes = self.started.elapsed().as_secs() / 60;
        println!("\n#### {name}, {minutes} min after the start");
        body(self.report);
        // At the end this is a failure; before, the remaining steps still run.
        if let Err(error) = self.write(&format!("so far, up to {name}")) {
            println!("error: {error:#}");
        }
    }

    fn step(&mut self, name: &str, body: impl FnOnce() -> Result<Step>) {
        self.steps(name, |report| report.run(name, body));
    }

    /// Runs tests one after the other, with these settings.
    fn alone(&mut self, name: &str, words: &str, settings: &[(&str, &dyn Display)]) {
        self.step(name, || alone(words, settings));
    }

    /// Writes the report; nothing if only some steps run. Returns where.
    fn write(&self, state: &str) -> Result<String> {
        if !self.only.is_empty() {
            return Ok("not written: only some steps ran".to_owned());
        }
        let path = self.evidence.write("", state, &self.report.text())?;
        Ok(path.display().to_string())
    }
}

/// Runs everything. A failed step is a failure in the report; later steps still run.
pub(crate) fn run(report: &mut Report, plan: &Plan, only: &[String]) {
    let seed = plan.seed.unwrap_or_else(any_seed);
    let drawn = if plan.seed.is_none() {
        format!(" --seed {seed}")
    } else {
        String::new()
    };
    // The defaults belong to the commit, which is in the report, too.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("cargo xtask {}{drawn}", words.join(" "));
    println!("{command}");
    let evidence = match Evidence::begin(&command) {
        Ok(evidence) => evidence,
        Err(error) => return report.add(Step::broken(&error).called("evidence")),
    };
    let started = Instant::now();
    let mut progress = Progress {
        report,
        only,
        evidence,
        started,
    };
    steps(&mut progress, plan, seed);
    let written = progress.write("whole");
    report.run("evidence", || Ok(Step::single(true, written?)));
}

fn steps(progress: &mut Progress<'_>, plan: &Plan, number: u64) {
    let seed = ("OLIVINE_SEED", &number as &dyn Display);
    progress.steps("test", |report| test::test(report, true));
    // Every published crate as a registry gets it, built from its package alone.
    progress.step("publish", || {
        let words = "publish --workspace --dry-run --allow-dirty";
        let said = child::said(cargo().args(words.split(' ')), 60)?;
        let mut step = Step::new("packages");
        step.passed = said.matches("Packaged ").count();
        Ok(step)
    });
    // A release build has the figures.
    progress.alone("instructions", "olivine --release --test instructions", &[]);
    progress.step("miri", || miri::run(plan.seeds, None));
    progress.step("aarch64", aarch64::run);
    // A death after every instruction, and every fault of every system call.
    let every = [
        ("OLIVINE_STEP_EVERY", &1 as _),
        ("OLIVINE_FAULT_EVERY", &1 as _),
    ];
    progress.alone("step", "olivine --test step", &every);
    // More busy processes than processors on any machine here.
    let crowd = format!("olivine --release --test limits {CROWD}");
    progress.alone("crowd", &crowd, &[("OLIVINE_CROWD", &64)]);
    progress.steps("sanitizers", |report| sanitize::run(report, &[]));
    progress.step("hostile", || sanitize::hostile(plan.writes, number));
    progress.steps("fuzz", |report| {
        fuzz::run(report, None, *plan.fuzz, pool::jobs())
    });
    // Bridges between two network namespaces, over a link with delay, loss and a cut.
    let (messages, cut) = (
        ("OLIVINE_WIRE_MESSAGES", &plan.wire as _),
        plan.cut.as_secs(),
    );
    let wire = [
        messages,
        ("OLIVINE_WIRE_CUT_S", &cut as _),
        ("OLIVINE_WIRE_SEED", seed.1),
    ];
    progress.alone("wire", "olivine --test namespaces", &wire);
    let attack = ("OLIVINE_HOSTILE_MS", &plan.sealed.as_millis() as _);
    progress.alone("sealed", "olivine --test sealed", &[attack, seed]);
    progress.step("death", || death(plan.kills, number));
    progress.step("soak", || soak(*plan.soak, number));
    // No run may hang, fail or leave anything behind.
    let times = ("OLIVINE_AGAIN", &plan.benches as _);
    progress.alone("again", "olivine-cli --release --test again", &[times]);
    let pictures = target().join("browser").display().to_string();
    let pictures = [("OLIVINE_BROWSER", &pictures as _)];
    let browser = || {
        program(
            &["chromium", "chromium-browser", "google-chrome"],
            "chromium",
        )
    };
    progress.step("browser", || {
        browser().and_then(|_| alone("olivine-cli --test browser", &pictures))
    });
    progress.step("clients", || {
        browser()?;
        program(&["curl"], "curl").and_then(|_| program(&["wrk"], "wrk"))?;
        alone("olivine-net --test clients", &pictures)
    });
    // So many that any leak is visible.
    let connections = ("OLIVINE_NET_CHURN", &plan.connections as _);
    let churn = format!("olivine-net --release --test process {CHURN}");
    progress.alone("churn", &churn, &[connections]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_run_alone_exist() {
        for (name, path) in [
            (KILLS, "olivine/tests/death/main.rs"),
            (CROWD, "olivine/tests/limits.rs"),
            (CHURN, "olivine-net/tests/process.rs"),
        ] {
            let path = format!("{}/../crates/{path}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(&format!("fn {name}(")), "{name} in {path}");
        }
    }
}
