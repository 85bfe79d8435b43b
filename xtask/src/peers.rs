//! Our server and generator compared with others: their programs are built and installed, all are
//! measured interleaved, and the tables are printed for the documents.

use crate::cargo::{self, cargo, root, target};
use crate::child::{self, Line};
use crate::record::{Marks, put};
use crate::report::{Report, Step};
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Servers from the distribution's packages of the same name.
const PACKAGES: [&str; 3] = ["nginx", "h2o", "haproxy"];
/// Arguments of `olivine bench` for each table of the engine's README.
const TABLES: [(&str, &str); 4] = [
    (
        "http",
        "http --peers all --backend mio,io-uring --depth 16,1",
    ),
    (
        "unparsed",
        "http --ours parsed,unparsed,floor --backend mio,io-uring --depth 16,64",
    ),
    ("echo", "tcp --backend mio,io-uring"),
    ("frames", "tcp --frames --backend mio,io-uring"),
];

/// The tables of servers.
pub(crate) const SERVERS: Marks = ("crates/olivine-net/README.md", "http");
/// The table of load generators.
pub(crate) const GENERATOR: Marks = ("docs/method.md", "generator");

/// Prepares, measures and prints everything; with `write` also into the documents.
pub(crate) fn run(report: &mut Report, seconds: f64, runs: u32, write: bool) {
    report.run("packages", || {
        Ok(tools::each(&PACKAGES.map(|name| (name, name))))
    });
    report.run("servers", servers);
    let Some(tool) = cargo::tool(report) else {
        return;
    };
    let mut text = String::new();
    for (name, words) in TABLES {
        report.run(name, || {
            let table = measure(&tool, words, seconds, runs)?;
            println!("\n{table}");
            text = format!("{text}\n{table}");
            Ok(Step::single(true, ""))
        });
    }
    let complete = !report.has_failed();
    report.run("generator", || {
        let table = generators(&tool, seconds, runs)?;
        println!("\n{table}");
        if write {
            return put(GENERATOR, &table);
        }
        Ok(Step::single(true, ""))
    });
    if write {
        report.run("tables", || {
            ensure!(complete, "a table is missing: {} stays as it is", SERVERS.0);
            put(SERVERS, &text)
        });
    }
}

/// The table of load generators, measured in turns by a script.
fn generators(tool: &Path, seconds: f64, runs: u32) -> Result<String> {
    tools::program(&["wrk"], "wrk")?;
    let build = "build --release --package olivine-net --example hello_http";
    child::said(cargo().args(build.split(' ')), 15)?;
    let mut command = Command::new("python3");
    command.arg(folder().join("generators.py")).arg(tool);
    command.arg(target().join("release/examples/hello_http"));
    child::output(command.args([seconds.to_string(), runs.to_string()]))
}

fn folder() -> PathBuf {
    root().join("rivals/http")
}

/// Builds the servers. A failed build is skipped here and reported in the table.
fn servers() -> Result<Step> {
    let mut left_out = Vec::new();
    let mut build = Command::new(folder().join("build"));
    let outcome = child::stream(&mut build, 30, |line| {
        if line.contains(" is left out: ") {
            left_out.push(line.to_owned());
            return Line::Show;
        }
        Line::Hide
    })?;
    ensure!(outcome.success(), "rivals/http/build: {}", outcome.words());
    let mut step = Step::new("servers");
    let bin = folder().join("bin");
    let built = fs::read_dir(&bin).with_context(|| bin.display().to_string())?;
    step.passed = built
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_none_or(|it| it != "missing"))
        .count();
    step.skipped = left_out.len();
    Ok(step)
}

/// The output of `olivine bench` for a document; its messages go to the terminal.
fn measure(tool: &Path, words: &str, seconds: f64, runs: u32) -> Result<String> {
    let line = format!("bench {words} --seconds {seconds} --runs {runs} --markdown");
    let mut command = Command::new(tool);
    command.current_dir(root()).args(line.split(' '));
    child::output(command.stdin(Stdio::null()).stderr(Stdio::inherit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_builds_and_what_is_a_package_are_what_the_tool_knows() {
        let script = fs::read_to_string(folder().join("build")).unwrap();
        let known = root().join("crates/olivine-measure/src/load/rivals.rs");
        let known = fs::read_to_string(known).unwrap();
        let loops = script
            .lines()
            .filter_map(|line| line.strip_prefix("for server in "));
        let loops = loops.filter_map(|names| names.strip_suffix("; do"));
        let names: Vec<&str> = loops.flat_map(|names| names.split(' ')).collect();
        assert_eq!(names.len(), 11);
        for name in names.into_iter().chain(PACKAGES) {
            assert!(known.contains(&format!("\"{name}\"")), "{name}");
        }
    }

    #[test]
    fn generators_script_passes_its_doc_tests() {
        let mut command = Command::new("python3");
        command.args(["-m", "doctest", "-o", "ELLIPSIS"]);
        child::output(command.arg(folder().join("generators.py"))).unwrap();
    }
}
