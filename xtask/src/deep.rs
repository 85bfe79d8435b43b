//! `ci --deep`: all slow checks, with a report in `docs/evidence`. Also `death`, which runs alone.

use crate::cargo::{cargo, suite, target};
use crate::child;
use crate::evidence::Evidence;
use crate::packages;
use crate::report::{Report, Step};
use crate::{aarch64, fuzz, miri, pool, sanitize, test};
use anyhow::{Result, bail};
use clap::value_parser;
use std::fmt::Display;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Names of tests that a step runs alone.
const KILLS: &str = "survivors_of_kills_lose_nothing_and_continue";
const CROWD: &str = "busy_processes_do_not_block_a_stream";
const CHURN: &str = "churn_leaks_no_descriptors_or_memory";

/// The amount of each check.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Number of participants to kill.
    #[arg(
        long, requires = "deep", default_value_t = 200_000,
        value_parser = value_parser!(u64).range(1..)
    )]
    kills: u64,
    /// Seed of all random choices; a random seed is printed.
    #[arg(long, requires = "deep")]
    seed: Option<u64>,
    /// Number of Miri seeds.
    #[arg(
        long, requires = "deep", default_value_t = 8,
        value_parser = value_parser!(u32).range(1..)
    )]
    seeds: u32,
    /// Words that each of the seven hostile peers overwrites.
    #[arg(
        long, requires = "deep", default_value_t = 150_000_000,
        value_parser = value_parser!(u64).range(1..)
    )]
    writes: u64,
    /// CPU time of each fuzz target.
    #[arg(
        long, requires = "deep", value_name = "TIME", default_value = "10m",
        value_parser = length
    )]
    fuzz: Duration,
    /// Messages over a lossy link.
    #[arg(
        long, requires = "deep", value_name = "MESSAGES", default_value_t = 10_000_000,
        value_parser = value_parser!(u64).range(1..)
    )]
    wire: u64,
    /// How long the link is cut.
    #[arg(
        long, requires = "deep", value_name = "TIME", default_value = "60s",
        value_parser = length
    )]
    cut: Duration,
    /// Length of each attack on a sealed channel.
    #[arg(
        long, requires = "deep", value_name = "TIME", default_value = "60s",
        value_parser = length
    )]
    sealed: Duration,
    /// Length of the soak test.
    #[arg(
        long, requires = "deep", value_name = "TIME", default_value = "10m",
        value_parser = length
    )]
    soak: Duration,
    /// Connections opened and closed, on each back end.
    #[arg(
        long, requires = "deep", default_value_t = 100_000,
        value_parser = value_parser!(u32).range(1..)
    )]
    connections: u32,
    /// Number of runs of every built-in method.
    #[arg(
        long, requires = "deep", default_value_t = 20,
        value_parser = value_parser!(u32).range(1..)
    )]
    benches: u32,
}

/// `90`, `90s`, `10m`, `2h`.
///
/// # Errors
///
/// Any other text.
pub(crate) fn length(text: &str) -> Result<Duration> {
    let number = text.trim_end_matches(['s', 'm', 'h']);
    let factor = match &text[number.len()..] {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let number = number.parse::<u64>().ok().zip(factor);
    match number.and_then(|(number, factor)| number.checked_mul(factor)) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => bail!("'{text}' is no time: say 90s, 10m or 2h, at least one second"),
    }
}

/// A random seed. It is printed, so that a failure can be repeated.
#[allow(
    clippy::disallowed_methods,
    reason = "the wall clock is only a source of variety here"
)]
pub(crate) fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()))
}

/// Runs some tests of a test program of the core in a release build, with these settings.
fn core(test: &str, settings: &[(&str, &dyn Display)]) -> Result<Step> {
    let words = format!("--package olivine --release --test {test}");
    let set = settings
        .iter()
        .map(|(name, value)| (*name, value.to_string()));
    suite(&words, &set.collect::<Vec<_>>())
}

/// Kills `kills` participants; the same `seed` gives the same choices.
pub(crate) fn death(kills: u64, seed: u64) -> Result<Step> {
    let test = "death -- --nocapture --test-threads=1";
    core(test, &[("OLIVINE_KILLS", &kills), ("OLIVINE_SEED", &seed)])
}

/// Kills, stops and new participants for `duration`.
pub(crate) fn soak(duration: Duration, seed: u64) -> Result<Step> {
    let test = format!("death -- --nocapture --test-threads=1 {KILLS}");
    core(
        &test,
        &[
            ("OLIVINE_SOAK_S", &duration.as_secs()),
            ("OLIVINE_SEED", &seed),
        ],
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

fn steps(progress: &mut Progress<'_>, plan: &Plan, seed: u64) {
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
    progress.step("instructions", || core("instructions -- --nocapture", &[]));
    progress.step("miri", || miri::run(plan.seeds, None));
    progress.step("aarch64", aarch64::run);
    // A death after every instruction, and every fault of every system call.
    progress.step("step", || {
        let settings =
            ["OLIVINE_STEP_EVERY", "OLIVINE_FAULT_EVERY"].map(|name| (name, "1".to_owned()));
        suite(
            "--package olivine --test step -- --nocapture --test-threads=1",
            &settings,
        )
    });
    // More busy processes than processors on any machine here.
    progress.step("crowd", || {
        core(
            &format!("limits -- --nocapture --test-threads=1 {CROWD}"),
            &[("OLIVINE_CROWD", &64)],
        )
    });
    progress.steps("sanitizers", |report| sanitize::run(report, &[]));
    progress.step("hostile", || sanitize::hostile(plan.writes, seed));
    progress.steps("fuzz", |report| {
        fuzz::run(report, None, plan.fuzz, pool::jobs())
    });
    // Bridges between two network namespaces, over a link with delay, loss and a cut.
    progress.step("wire", || {
        let (messages, cut) = (plan.wire, plan.cut.as_secs());
        let wire = ("OLIVINE_WIRE_MESSAGES", messages.to_string());
        let cut = ("OLIVINE_WIRE_CUT_S", cut.to_string());
        let words = "--package olivine --test namespaces -- --nocapture --test-threads=1";
        suite(words, &[wire, cut, ("OLIVINE_WIRE_SEED", seed.to_string())])
    });
    progress.step("sealed", || {
        let time = ("OLIVINE_HOSTILE_MS", plan.sealed.as_millis().to_string());
        let words = "--package olivine --test sealed -- --nocapture --test-threads=1";
        suite(words, &[time, ("OLIVINE_SEED", seed.to_string())])
    });
    progress.step("death", || death(plan.kills, seed));
    progress.step("soak", || soak(plan.soak, seed));
    // No run may hang, fail or leave anything behind.
    progress.step("again", || {
        let times = ("OLIVINE_AGAIN", plan.benches.to_string());
        suite(
            "--package olivine-cli --release --test again -- --nocapture",
            &[times],
        )
    });
    let browser = || {
        packages::program(
            &["chromium", "chromium-browser", "google-chrome"],
            "chromium",
        )?;
        let pictures = target().join("browser").display().to_string();
        anyhow::Ok([("OLIVINE_BROWSER", pictures)])
    };
    progress.step("browser", || {
        suite("--package olivine-cli --test browser", &browser()?)
    });
    progress.step("clients", || {
        let settings = browser()?;
        packages::program(&["curl"], "curl").and_then(|_| packages::program(&["wrk"], "wrk"))?;
        suite("--package olivine-net --test clients", &settings)
    });
    // So many that any leak is visible.
    progress.step("churn", || {
        let connections = ("OLIVINE_NET_CHURN", plan.connections.to_string());
        let words =
            format!("--package olivine-net --release --test process {CHURN} -- --nocapture");
        suite(&words, &[connections])
    });
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

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90), ("30s", 30), ("10m", 600), ("2h", 7200)] {
            assert_eq!(length(text).unwrap().as_secs(), seconds, "{text}");
        }
        for bad in ["", "s", "0s", "1d", "1ss", "-1s", "99999999999999999999h"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }
}
