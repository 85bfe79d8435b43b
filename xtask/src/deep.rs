//! `ci --deep`: everything that takes longer than a change may wait for, with its report in `docs/evidence`.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child;
use crate::evidence::{Evidence, Run};
use crate::packages::Missing;
use crate::report::{Report, Step};
use crate::{aarch64, again, browser, clients, death, fuzz, miri, pool, sanitize, test};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const CHURN_LIMIT: Duration = Duration::from_secs(3600);

/// How much of everything.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// How many participants to kill.
    #[arg(long, requires = "deep", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// What all choices are drawn from; printed when it is drawn itself.
    #[arg(long, requires = "deep")]
    seed: Option<u64>,
    /// How many seeds Miri runs with.
    #[arg(long, requires = "deep", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// How many words each of the seven hostile peers overwrites.
    #[arg(long, requires = "deep", default_value_t = 150_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    writes: u64,
    /// CPU time of each fuzz target.
    #[arg(long, requires = "deep", value_name = "TIME", default_value = "10m", value_parser = length)]
    fuzz: Duration,
    /// How many messages cross a bad wire.
    #[arg(long, requires = "deep", value_name = "MESSAGES", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    wire: u64,
    /// How long the wire is cut meanwhile.
    #[arg(long, requires = "deep", value_name = "TIME", default_value = "60s", value_parser = length)]
    cut: Duration,
    /// How long each attack on a sealed channel lasts.
    #[arg(long, requires = "deep", value_name = "TIME", default_value = "60s", value_parser = length)]
    sealed: Duration,
    /// How long the soak takes.
    #[arg(long, requires = "deep", value_name = "TIME", default_value = "10m", value_parser = length)]
    soak: Duration,
    /// How many connections come and go, on each back end.
    #[arg(long, requires = "deep", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How often every built-in method is measured in a row.
    #[arg(long, requires = "deep", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    benches: u32,
}

impl Plan {
    /// What repeats it.
    fn command(&self, seed: u64) -> String {
        let Self {
            kills,
            seed: _,
            seeds,
            writes,
            fuzz,
            wire,
            cut,
            sealed,
            soak,
            connections,
            benches,
        } = self;
        let [fuzz, cut, sealed, soak] = [fuzz, cut, sealed, soak].map(Duration::as_secs);
        format!(
            "cargo xtask ci --deep --kills {kills} --seed {seed} --seeds {seeds} --writes {writes} --fuzz {fuzz}s \
             --wire {wire} --cut {cut}s --sealed {sealed}s --soak {soak}s --connections {connections} \
             --benches {benches}"
        )
    }
}

/// `90`, `90s`, `10m`, `2h`.
///
/// # Errors
///
/// What else it is.
pub(crate) fn length(text: &str) -> Result<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    match seconds {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => bail!("'{text}' is no time: say 90s, 10m or 2h, at least one second"),
    }
}

/// A run under way.
struct Progress<'a> {
    report: &'a mut Report,
    /// Steps to run; all where empty.
    only: &'a [String],
    said: Vec<String>,
    evidence: Evidence,
    /// Where it was written down.
    path: PathBuf,
    command: String,
    started: Instant,
}

impl Progress<'_> {
    /// Runs one step, whatever became of those before, and writes down what is known by then.
    fn step(&mut self, name: &str, body: impl FnOnce(&mut Report, &mut Vec<String>)) {
        if !self.only.is_empty() && !self.only.iter().any(|only| only == name) {
            return;
        }
        let minutes = self.started.elapsed().as_secs() / 60;
        println!("\n#### {name}, {minutes} min after the start");
        body(self.report, &mut self.said);
        // At the end this is a failure; until then there is more to find out.
        if let Err(error) = self.write(&format!("so far, up to {name}")) {
            println!("error: {error:#}");
        }
    }

    fn single(&mut self, name: &str, body: impl FnOnce(&mut Vec<String>) -> Result<Step>) {
        self.step(name, |report, said| report.run(name, || body(said)))
    }

    fn write(&mut self, state: &str) -> Result<()> {
        if !self.only.is_empty() {
            return Ok(());
        }
        self.path = self.evidence.write(&Run {
            name: "",
            state,
            command: &self.command,
            summary: &self.report.text(),
            said: &self.said,
            elapsed: self.started.elapsed(),
        })?;
        Ok(())
    }
}

/// Runs everything. A step that fails is a failure in the report; those after it are run all the same.
pub(crate) fn run(report: &mut Report, plan: &Plan, only: Vec<String>) {
    let seed = plan.seed.unwrap_or_else(death::any_seed);
    let command = plan.command(seed);
    println!("{command}");
    let evidence = match Evidence::begin() {
        Ok(evidence) => evidence,
        Err(error) => return report.add(Step::single("evidence", false, format!("{error:#}"))),
    };
    let mut progress = Progress {
        report,
        only: &only,
        said: Vec::new(),
        evidence,
        path: PathBuf::new(),
        command,
        started: Instant::now(),
    };
    steps(&mut progress, plan, seed);
    let written = progress.write("whole");
    if only.is_empty() {
        let path = progress.path.display().to_string();
        report.run("evidence", || {
            written.map(|()| Step::single("evidence", true, path))
        });
    }
}

fn steps(progress: &mut Progress<'_>, plan: &Plan, seed: u64) {
    progress.step("test", |report, said| test::test(report, true, said));
    progress.single("miri", |_| miri::run(plan.seeds, None));
    progress.single("aarch64", |_| aarch64::run());
    progress.single("step", death::every_step);
    progress.single("crowd", death::crowd);
    progress.step("sanitizers", |report, _| test::sanitizers(report, &[]));
    progress.single("hostile", |said| sanitize::hostile(plan.writes, seed, said));
    let targets = fuzz::Plan {
        only: None,
        length: plan.fuzz,
        jobs: pool::jobs(),
    };
    progress.step("fuzz", |report, said| fuzz::run(report, &targets, said));
    progress.single("wire", |said| death::wire(plan.wire, plan.cut, seed, said));
    progress.single("sealed", |said| death::sealed(plan.sealed, seed, said));
    progress.single("death", |said| death::run(plan.kills, Some(seed), said));
    progress.single("soak", |said| death::soak(plan.soak, Some(seed), said));
    progress.single("again", |_| again::run(plan.benches));
    progress.single("browser", |_| browser::run());
    progress.single("clients", |_| clients::run(Missing::Install, true));
    progress.single("churn", |_| churn(plan.connections));
}

/// Connections that come and go, so many that any leak shows.
fn churn(connections: u32) -> Result<Step> {
    let mut output = TestOutput::default();
    let mut command = cargo();
    let program = ["--package", "olivine-net", "--test", "process"];
    command
        .args(["test", "--release"])
        .args(program)
        .args(["churn", "--", "--nocapture"])
        .env("OLIVINE_NET_CHURN", connections.to_string());
    let outcome = child::stream(&mut command, at_most(CHURN_LIMIT), |line| output.line(line))?;
    let mut step = output.step("churn", outcome.success(), &outcome.words());
    step.note = format!("{connections} connections on each back end; {}", step.note);
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long)]
        deep: bool,
        #[command(flatten)]
        plan: Plan,
    }

    #[test]
    fn times_have_units() {
        let seconds = |text| length(text).map(|length| length.as_secs());
        assert_eq!(seconds("90").unwrap(), 90);
        assert_eq!(seconds("30s").unwrap(), 30);
        assert_eq!(seconds("10m").unwrap(), 600);
        assert_eq!(seconds("2h").unwrap(), 7200);
        for bad in ["", "s", "0s", "1d", "-1s", "99999999999999999999h"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_that_is_written_down_means_the_same() {
        let chosen = [
            "ci",
            "--deep",
            "--kills",
            "7",
            "--cut",
            "2m",
            "--connections",
            "9",
        ];
        let plan = Line::parse_from(chosen).plan;
        let command = plan.command(11);
        let words = command.split_whitespace().skip(2);
        let again = Line::parse_from(words).plan;
        assert_eq!((again.kills, again.seed), (7, Some(11)));
        assert_eq!(again.command(11), command);
    }
}
