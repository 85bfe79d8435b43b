//! Automation of this repository: `cargo xtask help` lists what it does.
//!
//! Every command prints how many things it checked, fails when that number is zero, and ends with
//! a line `N passed, N failed[, N skipped]`.
#![forbid(unsafe_code)]

mod aarch64;
mod again;
mod allocators;
mod axiomatic;
mod bindings;
mod browser;
mod cargo;
mod child;
mod clients;
mod death;
mod deep;
mod deny;
mod evidence;
mod examples;
mod found;
mod fresh;
mod fuzz;
mod hello;
mod miri;
mod model;
mod nats;
mod nightly;
mod packages;
mod peers;
mod pool;
mod programs;
mod readme;
mod record;
mod report;
mod rivals;
mod sanitize;
mod source;
mod spin;
mod test;
mod tidy;
mod tools;

use clap::{Parser, Subcommand};
use packages::Missing;
use report::Report;
use sanitize::Sanitizer;
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
    /// All tests: tidy, unit, integration and doc tests, models, examples, the README's commands.
    Test {
        /// Also run every mutant against the models.
        #[arg(long)]
        mutants: bool,
    },
    /// What a change must pass: lock file, fmt, clippy, docs, deny, and `test --mutants`.
    Ci {
        /// Fail whatever is still running after this many minutes.
        #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Everything, at length, with its report in `docs/evidence`: `test --mutants`, Miri, sanitizers, deaths after
    /// every instruction, faults of every system call, hostile peers, fuzzing, 64 busy processes, many kills, a soak, aarch64,
    /// the report in a browser.
    Deep(deep::Plan),
    /// Rules checked on the text of the repository.
    Tidy,
    /// The models: the code under loom, the protocol under spin, the edges under RC11 and ARMv8.
    Model {
        /// Also run every mutant: each must make a model fail.
        #[arg(long)]
        mutants: bool,
    },
    /// The protocol model over whole lives.
    Spin {
        /// Also take away from it whatever can be: each must be found out.
        #[arg(long)]
        mutants: bool,
    },
    /// The core's unit tests under Miri.
    Miri {
        /// How many seeds to run with.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        seeds: u32,
        /// Run only tests whose path contains this.
        #[arg(long)]
        filter: Option<String>,
    },
    /// The death suite.
    Death {
        /// How many participants to kill.
        #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
        kills: u64,
        /// What the choices are drawn from; printed when it is drawn itself.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The death suite for a time: newcomers, kills and stops, with memory that must not grow.
    Soak {
        /// How long: `90s`, `10m`, `2h`.
        #[arg(long, value_name = "TIME", value_parser = deep::length)]
        duration: Duration,
        /// What the choices are drawn from; printed when it is drawn itself.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The fuzz targets, each for a time, under AddressSanitizer.
    Fuzz {
        /// Only this one.
        #[arg(long, value_name = "NAME")]
        target: Option<String>,
        /// How much CPU time each gets.
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
        seconds: u64,
        /// How many run at a time.
        #[arg(long, default_value_t = pool::jobs())]
        jobs: usize,
        /// Write the report to `docs/evidence` as well.
        #[arg(long)]
        evidence: bool,
    },
    /// Hostile peers, with their victims under AddressSanitizer.
    Hostile {
        /// How many words each attack overwrites at least.
        #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        writes: u64,
        /// What the choices are drawn from; printed when it is drawn itself.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Tests under sanitizers.
    Sanitize {
        /// Which; all of them if none is named.
        #[arg(value_enum, value_name = "SANITIZERS")]
        sanitizers: Vec<Sanitizer>,
    },
    /// The examples.
    Examples,
    /// The commands and Rust blocks of the README.
    Readme,
    /// The report page in a real browser.
    Browser,
    /// Other people's clients before the example `hello_http`: curl, wrk and a browser, installed when missing.
    Clients,
    /// The example `hello_http` under each allocator that can be loaded before the system's, installed when
    /// missing: a table of the CPU time of a request.
    Allocators {
        /// How long each run loads the server at each depth, in seconds.
        #[arg(long, default_value_t = 3, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
        seconds: u32,
        /// How many runs each allocator gets, in turns.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Our server and generator beside other people's, which it builds and installs: the tables of the engine's README and
    /// of `docs/method.md`. Takes about ten minutes, on a quiet machine.
    Peers {
        /// How long each server is loaded at each depth, in seconds over all runs.
        #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
        seconds: f64,
        /// How many runs each gets, in turns; fewer than 5 are not to be quoted.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Put the tables into the documents, too.
        #[arg(long)]
        write: bool,
    },
    /// The library for C and C++, built and installed below a folder: headers, libraries, and what
    /// `pkg-config` and CMake find them by.
    Capi {
        /// The folder, such as `/usr/local`; made where it is not there.
        #[arg(long, value_name = "DIR")]
        prefix: std::path::PathBuf,
    },
    /// Licences, sources and advisories of the dependencies.
    Deny,
    /// A clone in an empty folder, and the README's two commands in it.
    Fresh,
    /// Other people's libraries for the benchmark: builds what can be built, says why the rest cannot.
    Rivals,
    /// The table of all built-in methods, again and again: nothing may hang, fail or leave anything behind.
    Again {
        /// How many times; each takes a minute.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        times: u32,
    },
    /// The recorded results of this machine, with rivals and the page: `results/NAME`. Takes ten minutes, on a quiet machine.
    Record {
        /// Folder in `results`, such as `epyc-2cpu-virtual`.
        name: String,
        #[command(flatten)]
        scope: record::Scope,
    },
}

fn main() -> ExitCode {
    let mut report = Report::default();
    match Cli::parse().command {
        Task::Test { mutants } => test::test(&mut report, mutants, &mut Vec::new()),
        Task::Ci { limit } => {
            if let Some(minutes) = limit {
                cargo::set_deadline(Duration::from_secs(minutes * 60));
            }
            test::ci(&mut report);
        }
        Task::Deep(plan) => deep::run(&mut report, &plan),
        Task::Tidy => report.run("tidy", tidy::run),
        Task::Model { mutants } => test::models(&mut report, mutants, &mut Vec::new()),
        Task::Spin { mutants } => report.run("spin", || spin::run(mutants, &mut Vec::new())),
        Task::Miri { seeds, filter } => report.run("miri", || miri::run(seeds, filter.as_deref())),
        Task::Death { kills, seed } => {
            report.run("death", || death::run(kills, seed, &mut Vec::new()));
        }
        Task::Soak { duration, seed } => {
            report.run("soak", || death::soak(duration, seed, &mut Vec::new()));
        }
        Task::Fuzz {
            target,
            seconds,
            jobs,
            evidence,
        } => {
            let plan = fuzz::Plan {
                only: target.as_deref(),
                length: Duration::from_secs(seconds),
                jobs,
            };
            test::fuzz(&mut report, &plan, evidence);
        }
        Task::Hostile { writes, seed } => report.run("hostile", || {
            let seed = seed.unwrap_or_else(death::any_seed);
            sanitize::hostile(writes, seed, &mut Vec::new())
        }),
        Task::Sanitize { sanitizers } => test::sanitizers(&mut report, &sanitizers),
        Task::Examples => report.run("examples", examples::run),
        Task::Readme => report.run("readme", readme::run),
        Task::Browser => report.run("browser", browser::run),
        Task::Clients => report.run("clients", || clients::run(Missing::Install, true)),
        Task::Allocators { seconds, runs } => report.run("allocators", || {
            allocators::run(seconds, runs, Missing::Install)
        }),
        Task::Peers {
            seconds,
            runs,
            write,
        } => peers::run(&mut report, seconds, runs, write),
        Task::Capi { prefix } => {
            report.run("capi", || bindings::install(&prefix));
            report.run("cmake", || found::by_cmake(&prefix, Missing::LeaveOut));
        }
        Task::Deny => report.run("deny", deny::run),
        Task::Fresh => fresh::run(&mut report),
        Task::Rivals => rivals::run(&mut report),
        Task::Again { times } => report.run("again", || again::run(times)),
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

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
