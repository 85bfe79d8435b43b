//! The fuzz targets: libFuzzer with AddressSanitizer, each for some time, several in parallel.

use crate::cargo::{root, target};
use crate::child::{self, Line};
use crate::programs;
use crate::report::{self, Report, Step};
use crate::tools::{self, Toolchain};
use anyhow::{Context as _, Result, ensure};
use data_encoding::HEXLOWER;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The workspace of the fuzz targets.
const FOLDER: &str = "fuzz";
/// Target of the builds of cargo-fuzz.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Longest input in bytes: every target reaches all its code with less.
const INPUT_MAX: u32 = 4096;
/// Time limit of an input. Far above the slowest, because the process may be stopped from outside.
const INPUT_SECONDS: u32 = 120;

/// A fuzz target, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target(String);

/// Runs every target, or only `only`, `jobs` in parallel, each for `length`.
pub(crate) fn run(report: &mut Report, only: Option<&str>, length: Duration, jobs: usize) {
    let chosen = match ready(only) {
        Ok(chosen) => chosen,
        Err(error) => return report.add(Step::broken(&error).called("fuzz")),
    };
    println!("\n== fuzz, {jobs} at a time");
    let (mut total, mut inputs) = (Duration::ZERO, 0);
    for (target, step) in programs::each(chosen, jobs, |target| target.fuzz(length)) {
        total += step.elapsed;
        inputs += step.passed;
        let (count, note) = (step.passed, &step.note);
        report::keep(format!("fuzz {target}: {count} inputs, {note}"));
        report.add(step.called(&format!("fuzz {target}")));
    }
    let seconds = total.as_secs_f64();
    report::say(&format!(
        "fuzz, all targets: {seconds:.0} s, {inputs} inputs"
    ));
}

/// The chosen targets; their program is built.
fn ready(only: Option<&str>) -> Result<Vec<Target>> {
    let chosen = chosen(only)?;
    let nightly = Toolchain::nightly(&["rust-src"], &["--version"])?;
    let tool = tools::installed("cargo-fuzz", "0.13.2", &[])?;
    let mut build = nightly.cargo();
    // cargo finds the subcommand on the path.
    let folder = tool.parent().unwrap_or_else(|| Path::new(""));
    let path = std::env::var("PATH").unwrap_or_default();
    build.env("PATH", format!("{}:{path}", folder.display()));
    build.args(["fuzz", "build", "--target", HOST, "--fuzz-dir", FOLDER]);
    child::said(build.env("CARGO_TARGET_DIR", builds()), 30)?;
    Ok(chosen)
}

/// Every target, or only `only`. Each has a corpus.
fn chosen(only: Option<&str>) -> Result<Vec<Target>> {
    let folder = root().join(FOLDER).join("corpus");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".hex").map(str::to_owned));
    }
    names.sort();
    let chosen = names
        .iter()
        .filter(|name| only.is_none_or(|only| only == *name));
    let chosen: Vec<_> = chosen.cloned().map(Target).collect();
    let (name, names) = (only.unwrap_or_default(), names.join(", "));
    ensure!(!chosen.is_empty(), "no target {name}; there are {names}");
    Ok(chosen)
}

/// Folder of the builds and findings.
fn builds() -> PathBuf {
    target().join("fuzz")
}

/// Output and measurements of a run.
#[derive(Debug, Default)]
struct Heard {
    inputs: Option<usize>,
    /// Edges, and inputs that reach them, from libFuzzer.
    reached: String,
    finding: Option<String>,
    /// The failure, if any.
    failed: Option<String>,
}

impl Heard {
    fn line(&mut self, line: &str) -> Line {
        if let Some(inputs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.inputs = inputs.trim().parse().ok();
            return Line::Hide;
        }
        // `#12  NEW    cov: 1 ft: 2 corp: 3/4b …`
        let is_progress = line.starts_with('#') || line.starts_with("\tNEW_FUNC");
        if is_progress {
            let after = |mark: &str| line.split_once(mark)?.1.split([' ', '/']).next();
            if let (Some(edges), Some(kept)) = (after(" cov: "), after(" corp: ")) {
                self.reached = format!("{edges} edges reached by {kept} inputs");
            }
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
}

impl Target {
    /// The kept inputs: one per line, in hexadecimal digits.
    fn kept(&self) -> Result<Vec<Vec<u8>>> {
        let path = format!("{FOLDER}/corpus/{}.hex", self.0);
        let packed = fs::read_to_string(root().join(&path)).context(path)?;
        let decode = |line: &str| HEXLOWER.decode(line.as_bytes());
        Ok(packed.lines().map(decode).collect::<Result<_, _>>()?)
    }

    fn artifacts(&self) -> PathBuf {
        builds().join("artifacts").join(&self.0)
    }

    /// Runs it for `length`: its name, and the step.
    fn fuzz(self, length: Duration) -> (String, Step) {
        let start = Instant::now();
        println!("fuzz {}: begins", self.0);
        let heard = self.heard(length);
        let mut step = heard.map_or_else(|error| Step::broken(&error), |heard| self.judge(heard));
        step.elapsed = start.elapsed();
        (self.0, step)
    }

    /// Runs it. New inputs go to the target folder; the kept ones are only read.
    fn heard(&self, length: Duration) -> Result<Heard> {
        let name = &self.0;
        let found = builds().join("corpus").join(name);
        let kept = builds().join("kept").join(name);
        let artifacts = self.artifacts();
        for folder in [&found, &kept, &artifacts] {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        for (n, input) in self.kept()?.iter().enumerate() {
            fs::write(kept.join(n.to_string()), input)?;
        }
        let mut command = Command::new(builds().join(HOST).join("release/fuzz"));
        command
            .current_dir(root())
            .env("OLIVINE_FUZZ_TARGET", name)
            .arg(&found)
            .arg(&kept)
            .arg(format!("-max_len={INPUT_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-max_total_time={}", length.as_secs()))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-verbosity=1"])
            .env("ASAN_OPTIONS", "detect_odr_violation=0");
        let mut heard = Heard::default();
        let limit = length + Duration::from_secs(2 * u64::from(INPUT_SECONDS));
        let outcome = child::stream_for(&mut command, limit, |line| {
            if heard.line(line) == Line::Show {
                println!("fuzz {name}: {line}");
            }
            Line::Hide
        })?;
        heard.failed = (!outcome.success()).then(|| outcome.words());
        if outcome.success() && outcome.elapsed < length {
            heard.failed = Some("it ended before its time".to_owned());
        }
        Ok(heard)
    }

    /// The step of a run.
    fn judge(&self, heard: Heard) -> Step {
        let mut step = Step::new("inputs");
        step.passed = heard.inputs.unwrap_or(0);
        step.note = format!("{}, no finding", heard.reached);
        if let Some(how) = heard.failed {
            step.failed = 1;
            let (why, inputs) = (heard.finding.unwrap_or(how), self.artifacts());
            step.note = format!("{why}; {}; inputs in {}", heard.reached, inputs.display());
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus_and_a_source() {
        let source = fs::read_to_string(root().join(FOLDER).join("main.rs")).unwrap();
        let targets = chosen(None).unwrap();
        assert_eq!(
            source.matches("=> core::").count() + source.matches("=> net::").count(),
            targets.len()
        );
        for target in targets {
            assert!(
                source.contains(&format!("\"{}\" => ", target.0)),
                "{target:?}"
            );
            assert!(target.kept().unwrap().len() > 20, "{target:?}");
        }
    }

    #[test]
    fn early_end_of_a_fuzz_target_is_a_failure() {
        let target = chosen(Some("uri")).unwrap().remove(0);
        let judge = |failed: Option<&str>| {
            target.judge(Heard {
                inputs: Some(9),
                failed: failed.map(str::to_owned),
                ..Heard::default()
            })
        };
        let (good, bad) = (judge(None), judge(Some("it ended")));
        assert_eq!((good.passed, good.failed), (9, 0));
        assert_eq!((bad.passed, bad.failed), (9, 1));
        assert!(bad.note.contains("it ended"), "{}", bad.note);
        assert!(chosen(Some("no such target")).is_err());
    }

    #[test]
    fn libfuzzer_output_is_parsed() {
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
