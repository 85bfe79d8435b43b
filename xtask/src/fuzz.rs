//! The fuzz targets: libFuzzer with AddressSanitizer, each for a while of CPU time, some at a time.

use crate::cargo::{at_most, root, target};
use crate::child::{self, Line};
use crate::nightly::Nightly;
use crate::pool;
use crate::report::{Report, Step};
use crate::tools::Tool;
use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
    arguments: &[],
};
/// Workspaces of fuzz targets.
const FOLDERS: [&str; 2] = ["crates/olivine/fuzz", "crates/olivine-net/fuzz"];
/// What cargo-fuzz builds for.
const HOST: &str = "x86_64-unknown-linux-gnu";
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Longest input in bytes: every target reaches all it has with less.
const INPUT_MAX: u32 = 4096;
/// What an input may take. Far above what the slowest does, because the process may be stopped from outside.
const INPUT_SECONDS: u32 = 120;
/// How often a target's CPU time is looked at.
const BEAT: Duration = Duration::from_millis(200);
/// A target that gets less of a processor than this part of one has no chance to use up its time.
const SHARE_MIN: u32 = 30;

/// A fuzz target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    folder: &'static str,
    name: String,
}

/// What to fuzz, and for how long.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// Only the target of this name.
    pub(crate) only: Option<&'a str>,
    /// CPU time of each target.
    pub(crate) length: Duration,
    /// How many targets at a time.
    pub(crate) jobs: usize,
}

/// Runs the targets of `plan`.
pub(crate) fn run(report: &mut Report, plan: &Plan<'_>, said: &mut Vec<String>) {
    let chosen = match chosen(plan.only) {
        Ok(chosen) => chosen,
        Err(error) => return report.add(Step::single("fuzz", false, format!("{error:#}"))),
    };
    let ready = Nightly::with(&["rust-src"], &["--version"]).map(|nightly| {
        let nightly = nightly?;
        match CARGO_FUZZ.path() {
            Ok(tool) => Ok((nightly, tool)),
            Err(error) => Err(format!("cargo-fuzz cannot be installed: {error:#}")),
        }
    });
    let (nightly, tool) = match ready {
        Ok(Ok(ready)) => ready,
        Ok(Err(missing)) => {
            println!("skipped: {missing}");
            return report.add(Step::skipped("fuzz", missing));
        }
        Err(error) => return report.add(Step::single("fuzz", false, format!("{error:#}"))),
    };
    println!("\n== fuzz, {} at a time", plan.jobs);
    for folder in FOLDERS {
        let build = chosen.iter().any(|target| target.folder == folder);
        if let Some(error) = build
            .then(|| built(folder, &nightly, &tool).err())
            .flatten()
        {
            return report.add(Step::single("fuzz", false, format!("{folder}: {error:#}")));
        }
    }
    let fuzz = |target: Target| (target.fuzz(plan.length), target);
    let (mut total, mut inputs) = (Duration::ZERO, 0);
    for (heard, target) in pool::each(chosen, plan.jobs, fuzz) {
        let (step, line) = target.judge(heard, plan.length, &mut total);
        inputs += step.passed;
        report.add(step);
        said.push(line);
    }
    said.push(format!(
        "fuzz, all targets: {:.0} s of CPU time, {inputs} inputs",
        total.as_secs_f64()
    ));
    println!("{}", said.last().map_or("", String::as_str));
}

/// Every target, or the one called `only`.
fn chosen(only: Option<&str>) -> Result<Vec<Target>> {
    let all = targets(root())?;
    let Some(only) = only else { return Ok(all) };
    let names: Vec<_> = all.iter().map(|target| target.name.clone()).collect();
    let one = all.into_iter().find(|target| target.name == only);
    let one = one.with_context(|| format!("no target {only}; there are {}", names.join(", ")))?;
    Ok(vec![one])
}

/// Builds every target of a workspace.
fn built(folder: &str, nightly: &Nightly, tool: &Path) -> Result<()> {
    let mut command: Command = nightly.cargo();
    if let Some(tools) = tool.parent().filter(|tools| !tools.as_os_str().is_empty()) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", tools.display()));
    }
    command
        .args(["fuzz", "build", "--target", HOST, "--fuzz-dir", folder])
        .env("CARGO_TARGET_DIR", builds());
    let mut last = String::new();
    let outcome = child::stream(&mut command, at_most(BUILD_LIMIT), |line| {
        line.clone_into(&mut last);
        let is_problem = line.starts_with("error") || line.starts_with("warning");
        if is_problem { Line::Show } else { Line::Hide }
    })?;
    anyhow::ensure!(outcome.success(), "{}: {last}", outcome.words());
    Ok(())
}

/// Where targets are built and keep what they find.
fn builds() -> PathBuf {
    target().join("fuzz")
}

/// Names of the binaries in the manifests of the fuzz workspaces.
fn targets(root: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for folder in FOLDERS {
        let path = root.join(folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let names = names(&text);
        anyhow::ensure!(!names.is_empty(), "no target in {}", path.display());
        targets.extend(names.into_iter().map(|name| Target { folder, name }));
    }
    Ok(targets)
}

fn names(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    bins.filter_map(|bin| {
        let line = bin.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim_matches('"').to_owned())
    })
    .collect()
}

/// What was heard and seen of a run.
#[derive(Debug, Default)]
struct Heard {
    inputs: Option<usize>,
    /// Edges, and inputs that together reach them, as libFuzzer says.
    reached: String,
    finding: Option<String>,
    /// CPU time of the target.
    cpu: Duration,
    /// How it failed.
    failed: Option<String>,
}

impl Heard {
    fn line(&mut self, line: &str) -> Line {
        if let Some(inputs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.inputs = inputs.trim().parse().ok();
            return Line::Hide;
        }
        let is_progress = line.starts_with('#') || line.starts_with("\tNEW_FUNC");
        if is_progress {
            self.progress(line);
            return Line::Hide;
        }
        let is_finding = ["panicked at", "ERROR: ", "SUMMARY: "]
            .iter()
            .any(|mark| line.contains(mark));
        if is_finding && self.finding.is_none() {
            self.finding = Some(line.trim().to_owned());
        }
        let is_chatter = line.starts_with("INFO: ") || line.starts_with("stat::");
        if is_chatter { Line::Hide } else { Line::Show }
    }

    /// `#12  NEW    cov: 1 ft: 2 corp: 3/4b …`
    fn progress(&mut self, line: &str) {
        let after = |mark: &str| {
            let (_, rest) = line.split_once(mark)?;
            rest.split([' ', '/']).next()
        };
        if let (Some(edges), Some(kept)) = (after(" cov: "), after(" corp: ")) {
            self.reached = format!("{edges} edges reached by {kept} inputs");
        }
    }
}

impl Target {
    /// The inputs that are kept: one a line, in hexadecimal digits.
    fn kept(&self) -> Result<Vec<Vec<u8>>> {
        let path = root()
            .join(self.folder)
            .join("corpus")
            .join(format!("{}.hex", self.name));
        let packed = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let decode = |line: &str| HEXLOWER.decode(line.as_bytes());
        Ok(packed.lines().map(decode).collect::<Result<_, _>>()?)
    }

    fn artifacts(&self) -> PathBuf {
        builds().join("artifacts").join(&self.name)
    }

    /// Runs it until it has used `length` of CPU time. New inputs go to the target folder; the kept ones are read and left
    /// alone.
    fn fuzz(&self, length: Duration) -> (Duration, Result<Heard>) {
        let start = Instant::now();
        println!("fuzz {}: begins", self.name);
        let heard = self.heard(length);
        (start.elapsed(), heard)
    }

    fn heard(&self, length: Duration) -> Result<Heard> {
        let name = &self.name;
        let found = builds().join("corpus").join(name);
        let kept = builds().join("kept").join(name);
        let artifacts = self.artifacts();
        for folder in [&found, &kept, &artifacts] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        for (n, input) in self.kept()?.iter().enumerate() {
            std::fs::write(kept.join(n.to_string()), input)?;
        }
        let mut command = Command::new(builds().join(HOST).join("release").join(name));
        command
            .current_dir(root())
            .arg(&found)
            .arg(&kept)
            .arg(format!("-max_len={INPUT_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-verbosity=1"])
            .env("ASAN_OPTIONS", "detect_odr_violation=0");
        let (mut heard, mut cpu) = (Heard::default(), Duration::ZERO);
        let watch = |pid| {
            cpu = child::cpu_time(pid).unwrap_or(cpu);
            let child = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(child) = child.filter(|_| cpu >= length) {
                // libFuzzer ends after the input it is at. It may have ended already.
                let _ = kill_process(child, Signal::USR1);
            }
        };
        let limit = at_most(length * SHARE_MIN + Duration::from_secs(u64::from(INPUT_SECONDS)));
        let outcome = child::stream_watched(&mut command, limit, BEAT, watch, |line| {
            if heard.line(line) == Line::Show {
                println!("fuzz {name}: {line}");
            }
            Line::Hide
        })?;
        heard.cpu = cpu;
        if !outcome.success() {
            heard.failed = Some(outcome.words());
        } else if cpu < length {
            heard.failed = Some("it ended by itself".to_owned());
        }
        Ok(heard)
    }

    /// The step that a run was, and what to write down of it.
    fn judge(
        &self,
        (elapsed, heard): (Duration, Result<Heard>),
        length: Duration,
        total: &mut Duration,
    ) -> (Step, String) {
        let mut step = Step::new(&format!("fuzz {}", self.name), "inputs");
        step.elapsed = elapsed;
        match heard {
            Ok(heard) => {
                *total += heard.cpu;
                step.passed = heard.inputs.unwrap_or(0);
                let cpu = heard.cpu.as_secs_f64();
                let reached = &heard.reached;
                step.note = match heard.failed {
                    Some(how) => {
                        step.failed = 1;
                        let why = heard.finding.unwrap_or(how);
                        let artifacts = self.artifacts();
                        let wanted = length.as_secs();
                        format!(
                            "{why}; after {cpu:.0} of {wanted} s of CPU time, {reached}; inputs in {}",
                            artifacts.display()
                        )
                    }
                    None => format!("{cpu:.0} s of CPU time, {reached}, no finding"),
                };
            }
            Err(error) => {
                step.failed = 1;
                step.note = format!("{error:#}");
            }
        }
        let line = format!("fuzz {}: {} inputs, {}", self.name, step.passed, step.note);
        (step, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_a_source() {
        let targets = targets(root()).unwrap();
        assert!(targets.len() > 4, "{targets:?}");
        for target in targets {
            let source = format!("targets/{}.rs", target.name);
            assert!(root().join(target.folder).join(source).is_file());
            assert!(target.kept().unwrap().len() > 20, "{}", target.name);
        }
    }

    #[test]
    fn a_target_that_ends_before_its_time_has_failed() {
        let target = chosen(Some("uri")).unwrap().remove(0);
        let heard = |failed| {
            let heard = Heard {
                inputs: Some(9),
                cpu: Duration::from_secs(3),
                failed,
                ..Heard::default()
            };
            (Duration::ZERO, Ok(heard))
        };
        let (length, mut total) = (Duration::from_secs(3), Duration::ZERO);
        let (good, _) = target.judge(heard(None), length, &mut total);
        assert_eq!((good.passed, good.failed), (9, 0));
        let (bad, said) = target.judge(heard(Some("it ended".to_owned())), length, &mut total);
        assert_eq!((bad.passed, bad.failed), (9, 1));
        assert!(said.contains("it ended"), "{said}");
        assert_eq!(total, Duration::from_secs(6));
        assert!(chosen(Some("no such target")).is_err());
    }

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let mut heard = Heard::default();
        assert_eq!(heard.line("#12\tNEW    cov: 1 ft: 2"), Line::Hide);
        assert_eq!(heard.line("thread panicked at src/x.rs:1:2:"), Line::Show);
        let pulse = "#262144\tpulse  cov: 1203 ft: 4000 corp: 310/20Kb lim: 4096 exec/s: 1";
        assert_eq!(heard.line(pulse), Line::Hide);
        assert_eq!(heard.reached, "1203 edges reached by 310 inputs");
        heard.line("stat::number_of_executed_units: 4711");
        assert_eq!(heard.inputs, Some(4711));
        assert_eq!(
            heard.finding.as_deref(),
            Some("thread panicked at src/x.rs:1:2:")
        );
    }
}
