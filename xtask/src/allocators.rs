//! `hello_http` under each allocator that can be loaded before the system's: no request allocates, so none
//! should matter.

use crate::child;
use crate::hello::{self, Server};
use crate::packages::{self, Missing};
use crate::report::Step;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an allocator's library is called, and packages that bring it, newest first.
const LIBRARIES: [(&str, &[&str]); 3] = [
    (
        "libtcmalloc_minimal.so.4",
        &["libtcmalloc-minimal4t64", "libtcmalloc-minimal4"],
    ),
    ("libjemalloc.so.2", &["libjemalloc2"]),
    ("libmimalloc.so", &["libmimalloc3", "libmimalloc2.0"]),
];

/// One allocator's server and what was measured.
struct Candidate {
    name: &'static str,
    server: Server,
    /// By run: CPU time of the server for each request, in nanoseconds, by depth.
    runs: Vec<Vec<(u64, f64)>>,
}

/// Loads each in turns, `runs` times for `seconds` at each depth, and prints a table.
pub(crate) fn run(seconds: u32, runs: u32, missing: Missing) -> Result<Step> {
    let (hello, tool) = (hello::build(true)?, hello::tool()?);
    let mut step = Step::new("allocators", "runs");
    let mut candidates = vec![Candidate::start("system", &hello, None)?];
    let mut left_out = Vec::new();
    for (name, names) in LIBRARIES {
        let mut library = find(name);
        if library.is_none() && missing == Missing::Install {
            let _ = names.iter().any(|package| packages::install(&[package]));
            library = find(name);
        }
        match library {
            Some(path) => candidates.push(Candidate::start(name, &hello, Some(&path))?),
            None => left_out.push(name),
        }
    }
    step.skipped = left_out.len();
    if !left_out.is_empty() {
        step.note = format!("left out, because not installed: {}", left_out.join(", "));
        println!("skipped: {}", step.note);
    }
    for _ in 0..runs {
        for candidate in &mut candidates {
            let url = format!("{}plaintext", candidate.server.url);
            let measured = load(&tool, &url, seconds);
            step.count(measured.is_ok());
            match measured {
                Ok(figures) => candidate.runs.push(figures),
                Err(error) => println!("{}: {error:#}", candidate.name),
            }
        }
    }
    print(&candidates);
    for candidate in candidates {
        candidate.server.stop()?;
    }
    Ok(step)
}

impl Candidate {
    fn start(name: &'static str, hello: &Path, preload: Option<&Path>) -> Result<Self> {
        let arguments = ["--threads", "1", "--cpus", "0", "--wait", "block"];
        let server = Server::start(hello, &arguments, preload)?;
        if preload.is_some() {
            let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid()))?;
            ensure!(maps.contains(name), "{name} was not taken");
        }
        Ok(Self {
            name,
            server,
            runs: Vec::new(),
        })
    }
}

/// Where a library is, by the loader's list or below the system's folder.
fn find(name: &str) -> Option<PathBuf> {
    let listed = child::output(Command::new("ldconfig").arg("--print-cache")).unwrap_or_default();
    let line = listed.lines().find(|line| line.trim().starts_with(name))?;
    Some(PathBuf::from(line.split_once("=> ")?.1.trim()))
}

/// Server CPU time for each request, by depth.
fn load(tool: &Path, url: &str, seconds: u32) -> Result<Vec<(u64, f64)>> {
    let seconds = seconds.to_string();
    let words = ["--depth", "1,16", "--runs", "1", "--seconds", &seconds];
    let rows = hello::load(tool, url, words.into_iter())?;
    rows.iter()
        .map(|row| {
            let depth = row["plan"]["depth"].as_u64().context("no depth")?;
            let cost = row["server_ns"]["median"].as_f64();
            let rate = row["per_s"]["median"].as_f64().unwrap_or(0.0);
            let cost = cost.with_context(|| {
                format!("depth {depth}: no CPU time of the server at {rate} answers/s")
            });
            Ok((depth, cost?))
        })
        .collect()
}

/// Medians and ranges, allocator by allocator.
fn print(candidates: &[Candidate]) {
    println!(
        "{:<26} {:>6} {:>24}",
        "ALLOCATOR", "DEPTH", "SERVER ns/request (range)"
    );
    for candidate in candidates {
        for depth in [1, 16] {
            let of_depth = |run: &Vec<(u64, f64)>| {
                let mut figures = run.iter();
                figures.find_map(|(found, cost)| (*found == depth).then_some(*cost))
            };
            let mut costs: Vec<f64> = candidate.runs.iter().filter_map(of_depth).collect();
            costs.sort_by(f64::total_cmp);
            if let (Some(low), Some(high)) = (costs.first(), costs.last()) {
                println!(
                    "{:<26} {depth:>6} {:>8.0} ({low:.0}–{high:.0})",
                    candidate.name,
                    costs[costs.len() / 2]
                );
            }
        }
    }
}
