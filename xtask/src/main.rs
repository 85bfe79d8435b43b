//! Automation of this repository: `cargo xtask help` lists the commands.
//!
//! Every command prints the number of checks, fails if it is zero, and ends with a line `N passed,
//! N failed[, N skipped]`.
#![forbid(unsafe_code)]

mod cargo;
mod child;
mod deep;
mod evidence;
mod fuzz;
#[path = "../../crates/olivine-capi/install.rs"]
mod install;
mod model;
mod packages;
mod peers;
mod programs;
mod record;
mod report;
mod rivals;
mod sanitize;
mod source;
mod test;
mod tidy;
mod tools;

use clap::{Parser, Subcommand};
use report::Report;
use sanitize::Sanitizer;
use std::num::{NonZeroU32, NonZeroU64};
use std::process::ExitCode;
use std::time::Duration;

/// Automation of this repository.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", disable_version_flag = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// All tests: tidy, unit, integration and doc tests, models, examples, the commands and
    /// programs in the READMEs.
    Test {
        /// Also run every mutant against the models.
        #[arg(long)]
        mutants: bool,
        /// Only this step; can be repeated. A wrong name prints all names. The mutants belong to
        /// `model` and `spin`.
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
    },
    /// The checks of every change: `lock`, `fmt`, `clippy`, `docs`, `deny`, and the steps of `test`
    /// with the mutants of the core, without `spin`, `zstd`, `points` and `naps`. With `--deep`:
    /// the slow checks and `test --mutants`, without `lock`, `fmt`, `clippy`, `docs` and `deny`,
    /// and with a report in `docs/evidence`.
    Ci {
        /// Fail whatever still runs after this many minutes.
        #[arg(long, value_name = "MINUTES")]
        limit: Option<NonZeroU64>,
        /// Only this step, without a report; can be repeated. A wrong name prints all names. With
        /// `--deep` a group such as `test` is one step: `cargo xtask test --only` runs its parts.
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
        /// The slow checks, which take hours: CONTRIBUTING.md lists the steps.
        #[arg(long)]
        deep: bool,
        #[command(flatten)]
        plan: deep::Plan,
    },
    /// Check rules on the text of the repository.
    Tidy,
    /// The models: the code under loom, the protocol under spin, the edges under RC11 and ARMv8.
    Model {
        /// Also run every mutant: each must make a model fail.
        #[arg(long)]
        mutants: bool,
        /// Run only this mutant of the core, such as `commit_relaxed`.
        #[arg(long, value_name = "NAME", conflicts_with = "mutants")]
        mutant: Option<String>,
    },
    /// Unit tests of the core that need no shared file, under Miri.
    Miri {
        /// Number of seeds.
        #[arg(long, default_value = "1")]
        seeds: NonZeroU32,
        /// Run only tests whose path contains this.
        #[arg(long)]
        filter: Option<String>,
    },
    /// The death suite.
    Death {
        /// Number of participants to kill.
        #[arg(long, default_value = "5000")]
        kills: NonZeroU64,
        /// Kill for this time instead, and check that memory does not grow: `90s`, `10m`, `2h`.
        #[arg(long, value_name = "TIME", conflicts_with = "kills")]
        duration: Option<humantime::Duration>,
        /// Seed of all random choices; a random seed is printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The fuzz targets, under AddressSanitizer.
    Fuzz {
        /// Only this target.
        #[arg(long, value_name = "NAME")]
        target: Option<String>,
        /// Time of each target in seconds.
        #[arg(long, value_name = "SECONDS", default_value = "60")]
        seconds: NonZeroU64,
        /// Number of parallel targets.
        #[arg(long, default_value_t = programs::jobs())]
        jobs: usize,
        /// Also write the report to `docs/evidence`.
        #[arg(long)]
        evidence: bool,
    },
    /// Tests under sanitizers.
    Sanitize {
        /// Which sanitizers; all if none is named.
        #[arg(value_enum, value_name = "SANITIZERS")]
        sanitizers: Vec<Sanitizer>,
    },
    /// Compare our HTTP server and load generator with others, which it builds and installs: the
    /// tables of the engine's README and of `docs/method.md`. Takes about ten minutes, on a quiet
    /// machine.
    Peers {
        /// Seconds of load for each server and depth, over all runs.
        #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
        seconds: f64,
        /// Number of interleaved runs; quote only figures of 5 or more.
        #[arg(long, default_value = "5")]
        runs: NonZeroU32,
        /// Also put the tables into the documents.
        #[arg(long)]
        write: bool,
    },
    /// Build the library for C and C++, install it below a folder (headers, libraries, files for
    /// `pkg-config` and CMake), and try it there.
    Capi {
        /// The folder, such as `/usr/local`; created if missing.
        #[arg(long, value_name = "DIR")]
        prefix: std::path::PathBuf,
        /// Features of the library, such as `nats,tls,zstd`.
        #[arg(long, value_name = "LIST", default_value = "")]
        features: String,
    },
    /// Other libraries for the benchmark: builds those that can be built, and reports why the rest
    /// cannot.
    Rivals,
    /// Record the results of this machine, with rivals and the page, in `results/NAME`. Takes ten
    /// minutes, on a quiet machine.
    Record {
        /// Folder in `results`, such as `epyc-2cpu-virtual`.
        #[arg(value_parser = record::folder)]
        name: String,
        #[command(flatten)]
        scope: record::Scope,
    },
}

fn main() -> ExitCode {
    let mut report = Report::default();
    match Cli::parse().command {
        Task::Test { mutants, only } => {
            report.choose(only);
            test::test(&mut report, mutants);
        }
        Task::Ci {
            limit,
            only,
            deep,
            plan,
        } => {
            if let Some(minutes) = limit {
                cargo::set_deadline(Duration::from_secs(minutes.get() * 60));
            }
            if deep {
                deep::run(&mut report, &plan, only);
            } else {
                report.choose(only);
                test::ci(&mut report);
            }
        }
        Task::Tidy => report.run("tidy", tidy::run),
        Task::Model {
            mutant: Some(name), ..
        } => report.run("mutant", || model::run_mutant(name)),
        Task::Model { mutants, .. } => test::models(&mut report, mutants),
        Task::Miri { seeds, filter } => {
            report.run("miri", || sanitize::miri(seeds, filter.as_deref()))
        }
        Task::Death {
            kills,
            duration,
            seed,
        } => {
            let seed = seed.unwrap_or_else(deep::any_seed);
            match duration {
                None => report.run("death", || deep::death(kills, seed)),
                Some(time) => report.run("soak", || deep::soak(*time, seed)),
            }
        }
        Task::Fuzz {
            target,
            seconds,
            jobs,
            evidence,
        } => {
            let (only, length) = (target.as_deref(), Duration::from_secs(seconds.get()));
            let fuzz = |report: &mut Report| fuzz::run(report, only, length, jobs);
            if evidence {
                report.with_evidence(only.unwrap_or("fuzz"), "", fuzz);
            } else {
                fuzz(&mut report);
            }
        }
        Task::Sanitize { sanitizers } => sanitize::run(&mut report, &sanitizers),
        Task::Peers {
            seconds,
            runs,
            write,
        } => peers::run(&mut report, seconds, runs.get(), write),
        Task::Capi { prefix, features } => test::install(&mut report, &prefix, &features),
        Task::Rivals => rivals::run(&mut report),
        Task::Record { name, scope } => record::run(&mut report, &name, scope),
    }
    if report.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::fs;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn readme_states_the_rust_version_of_the_manifest() {
        let readme = fs::read_to_string(cargo::root().join("README.md")).unwrap();
        let stated = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), " or later");
        assert!(readme.contains(stated), "{stated}");
    }

    #[test]
    fn published_crates_have_a_readme_and_both_licences() {
        let mut count = 0;
        for entry in fs::read_dir(cargo::root().join("crates")).unwrap() {
            let folder = entry.unwrap().path();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            if !manifest.contains("\npublish = false\n") {
                for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
                    let path = folder.join(name);
                    // A link to a file that is gone does not exist.
                    assert!(path.exists(), "no {}", path.display());
                }
                count += 1;
            }
        }
        assert!(count > 5, "only {count} crates");
    }

    #[test]
    fn amounts_need_deep_and_are_positive() {
        let parse = |words: &str| Cli::try_parse_from(words.split(' ')).map(drop);
        for good in [
            "xtask ci",
            "xtask ci --deep",
            "xtask ci --deep --kills 5 --soak 2h",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "--kills 5",
            "--deep --kills 0",
            "--deep --soak 10x",
            "--limit 0",
        ] {
            assert!(parse(&format!("xtask ci {bad}")).is_err(), "{bad}");
        }
    }

    /// The steps that `--only` of a command can choose; none of them runs.
    fn offered(command: &str) -> Vec<String> {
        let mut report = Report::default();
        report.choose(vec![String::new()]);
        match Cli::parse_from(command.split_whitespace().skip(1)).command {
            Task::Test { mutants, .. } => test::test(&mut report, mutants),
            Task::Ci {
                deep: true, plan, ..
            } => deep::steps(&mut report, &plan, 0),
            Task::Ci { .. } => test::ci(&mut report),
            _ => panic!("{command} has no --only"),
        }
        report.offered().map(str::to_owned).collect()
    }

    #[test]
    fn contributing_lists_every_step_of_a_change() {
        let text = fs::read_to_string(cargo::root().join("CONTRIBUTING.md")).unwrap();
        let section = text.split_once("## Before a change is merged").unwrap().1;
        let section = section.split_once("\n## ").unwrap().0;
        let steps = offered("cargo xtask ci");
        assert!(steps.len() > 10, "{steps:?}");
        for step in steps {
            assert!(section.contains(&format!("`{step}`")), "{step}");
        }
    }

    /// Each `cargo xtask` in code of the documents is parsed up to its help. Each step that it
    /// chooses exists.
    #[test]
    fn every_documented_command_is_understood() {
        let understood = |words: &str| {
            let words = words.split_whitespace().skip(1).chain(["--help"]);
            let error = Cli::command().try_get_matches_from(words).unwrap_err();
            !error.use_stderr()
        };
        let unknown_step = |command: &str| {
            let (task, chosen) = command.split_once(" --only ")?;
            let offered = offered(task);
            let steps = chosen
                .split(" --only ")
                .filter_map(|rest| rest.split(' ').next());
            let mut steps = steps.filter(|step| *step != "STEP");
            steps
                .find(|step| !offered.iter().any(|name| name == step))
                .map(str::to_owned)
        };
        let mut count = 0;
        for document in [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "RELEASING.md",
            "SAFETY.md",
            "crates/olivine-capi/README.md",
            "crates/olivine-net/README.md",
            "crates/olivine/model/axiomatic/README.md",
            "docs/arena.md",
            "docs/figures.md",
            "docs/method.md",
        ] {
            let text = fs::read_to_string(cargo::root().join(document)).unwrap();
            let begins = text
                .match_indices("cargo xtask ")
                .filter(|(at, _)| text[..*at].ends_with(['`', '\n']));
            for (at, _) in begins {
                let command = text[at..]
                    .split(['`', '\n', '#'])
                    .next()
                    .unwrap_or_default();
                assert!(understood(command), "{document}: {command}");
                let unknown = unknown_step(command);
                assert_eq!(unknown, None, "{document}: {command}");
                count += 1;
            }
        }
        assert!(count > 15, "only {count} commands");
        for bad in [
            "cargo xtask tset",
            "cargo xtask model --mutant",
            "cargo xtask fuzz --jobs x",
        ] {
            assert!(!understood(bad), "{bad}");
        }
        let bad = "cargo xtask ci --only fmt --only readme";
        assert_eq!(unknown_step(bad).as_deref(), Some("readme"));
    }
}
