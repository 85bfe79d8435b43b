//! The fuzz targets: libFuzzer with AddressSanitizer, each for a time.

use crate::cargo::{at_most, root, target};
use crate::child::{self, Line};
use crate::nightly::Nightly;
use crate::report::{Report, Step};
use crate::tools::Tool;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
    arguments: &[],
};
/// Workspaces of fuzz targets.
const FOLDERS: [&str; 2] = ["crates/olivine/fuzz", "crates/olivine-net/fuzz"];
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Longest input in bytes: every target reaches all it has with less.
const INPUT_MAX: u32 = 4096;
/// What an input may take. Far above what the slowest does, because the process may be stopped from outside.
const INPUT_SECONDS: u32 = 120;

/// A fuzz target.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    folder: &'static str,
    name: String,
}

/// Runs every target, or the one called `only`, for `seconds` each.
pub(crate) fn run(report: &mut Report, only: Option<&str>, seconds: u64, said: &mut Vec<String>) {
    let targets = match targets(root()) {
        Ok(targets) => targets,
        Err(error) => return report.add(Step::single("fuzz", false, format!("{error:#}"))),
    };
    let chosen: Vec<_> = targets
        .iter()
        .filter(|target| only.is_none_or(|name| name == target.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        let note = format!("no target of that name; there are {}", names.join(", "));
        return report.add(Step::single("fuzz", false, note));
    }
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
    for target in chosen {
        report.run(&format!("fuzz {}", target.name), || {
            target.fuzz(&nightly, &tool, seconds, said)
        });
    }
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

/// What libFuzzer says of a run.
#[derive(Debug, Default)]
struct Heard {
    inputs: Option<usize>,
    finding: Option<String>,
}

impl Heard {
    fn line(&mut self, line: &str) -> Line {
        if let Some(inputs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.inputs = inputs.trim().parse().ok();
            return Line::Hide;
        }
        let is_finding = ["panicked at", "ERROR: ", "SUMMARY: "]
            .iter()
            .any(|mark| line.contains(mark));
        if is_finding && self.finding.is_none() {
            self.finding = Some(line.trim().to_owned());
        }
        let is_progress = line.starts_with('#') || line.starts_with("\tNEW_FUNC");
        if is_progress { Line::Hide } else { Line::Show }
    }
}

impl Target {
    /// New inputs go to the target folder; the kept ones are read and left alone.
    fn fuzz(
        &self,
        nightly: &Nightly,
        tool: &Path,
        seconds: u64,
        said: &mut Vec<String>,
    ) -> Result<Step> {
        let Self { folder, name } = self;
        let builds = target().join("fuzz");
        let found = builds.join("corpus").join(name);
        let artifacts = builds.join("artifacts").join(name);
        for folder in [&found, &artifacts] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut command: Command = nightly.cargo();
        if let Some(tools) = tool.parent().filter(|tools| !tools.as_os_str().is_empty()) {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", tools.display()));
        }
        command
            .args(["fuzz", "run", "--fuzz-dir", folder, name])
            .arg(&found)
            .arg(root().join(folder).join("corpus").join(name))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={INPUT_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-verbosity=1"])
            .env("CARGO_TARGET_DIR", &builds);
        let mut heard = Heard::default();
        let limit = at_most(BUILD_LIMIT + Duration::from_secs(seconds * 2));
        let outcome = child::stream(&mut command, limit, |line| heard.line(line))?;
        let mut step = Step::new(&format!("fuzz {name}"), "inputs");
        step.passed = heard.inputs.unwrap_or(0);
        if !outcome.success() {
            step.failed = 1;
            let why = heard.finding.unwrap_or_else(|| outcome.words());
            step.note = format!("{why}; inputs in {}", artifacts.display());
        } else {
            step.note = format!("{seconds} s, no finding");
        }
        said.push(format!(
            "fuzz {name}: {} inputs, {}",
            step.passed, step.note
        ));
        Ok(step)
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
            let folder = root().join(target.folder);
            assert!(folder.join(format!("targets/{}.rs", target.name)).is_file());
            assert!(folder.join("corpus").join(&target.name).is_dir());
        }
    }

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let mut heard = Heard::default();
        assert_eq!(heard.line("#12\tNEW    cov: 1 ft: 2"), Line::Hide);
        assert_eq!(heard.line("thread panicked at src/x.rs:1:2:"), Line::Show);
        heard.line("stat::number_of_executed_units: 4711");
        assert_eq!(heard.inputs, Some(4711));
        assert_eq!(
            heard.finding.as_deref(),
            Some("thread panicked at src/x.rs:1:2:")
        );
    }
}
