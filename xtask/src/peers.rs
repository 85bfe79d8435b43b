//! Our server and our generator beside other people's: what they need is built and installed, every one is
//! measured in turns, and the tables are printed as they stand in the documents.

mod generator;

use crate::cargo::{at_most, root};
use crate::child::{self, Line};
use crate::hello;
use crate::packages::{Missing, program};
use crate::report::{Report, Step};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Servers that come from the distribution's packages of the same name.
const PACKAGES: [&str; 3] = ["nginx", "h2o", "haproxy"];
/// All of them compile from their sources.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Words of `olivine bench` for each table of the engine's README.
const TABLES: [(&str, &[&str]); 4] = [
    (
        "http",
        &[
            "http",
            "--peers",
            "all",
            "--backend",
            "mio,io-uring",
            "--depth",
            "16,1",
        ],
    ),
    (
        "unparsed",
        &[
            "http",
            "--unparsed",
            "--backend",
            "mio,io-uring",
            "--depth",
            "64",
        ],
    ),
    ("echo", &["tcp", "--backend", "mio,io-uring"]),
    ("frames", &["tcp", "--frames", "--backend", "mio,io-uring"]),
];

/// Between which lines of a document the tables stand.
struct Place {
    document: &'static str,
    name: &'static str,
}

const SERVERS: Place = Place {
    document: "crates/olivine-net/README.md",
    name: "http",
};
const GENERATOR: Place = Place {
    document: "docs/method.md",
    name: "generator",
};

/// Prepares, measures and prints everything; with `write` it goes into the documents, too.
pub(crate) fn run(report: &mut Report, seconds: f64, runs: u32, write: bool) {
    report.run("packages", packages);
    report.run("servers", servers);
    let mut tool = None;
    report.run("tool", || {
        let path = hello::tool()?;
        let step = Step::single("tool", path.is_file(), path.display().to_string());
        tool = Some(path);
        Ok(step)
    });
    let Some(tool) = tool else { return };
    let mut text = String::new();
    for (name, words) in TABLES {
        report.run(name, || {
            let table = measure(&tool, words, seconds, runs)?;
            println!("\n{table}");
            text = format!("{text}\n{table}");
            Ok(Step::single(name, true, ""))
        });
    }
    let complete = !report.has_failed();
    report.run("generator", || {
        let table = generator::run(&tool, seconds, runs)?;
        println!("\n{table}");
        if write {
            put(&GENERATOR, &table)?;
        }
        Ok(Step::single("generator", true, ""))
    });
    if write {
        report.run("tables", || {
            ensure!(
                complete,
                "a table is missing: {} stays as it is",
                SERVERS.document
            );
            put(&SERVERS, &text)?;
            Ok(Step::single("tables", true, SERVERS.document))
        });
    }
}

/// Installs what is a package. One that cannot be had is skipped here and named in the table.
fn packages() -> Result<Step> {
    let mut step = Step::new("packages", "servers");
    let mut left_out = Vec::new();
    for name in PACKAGES {
        if program(&[name], name, Missing::Install).is_some() {
            step.count(true);
        } else {
            left_out.push(name);
        }
    }
    step.skipped = left_out.len();
    if !left_out.is_empty() {
        step.note = format!("not installed: {}", left_out.join(", "));
    }
    Ok(step)
}

fn folder() -> PathBuf {
    root().join("rivals/http")
}

/// Builds what is built. One that cannot be is skipped here and named in the table.
fn servers() -> Result<Step> {
    let mut left_out = Vec::new();
    let mut build = Command::new(folder().join("build"));
    let outcome = child::stream(&mut build, at_most(BUILD_LIMIT), |line| {
        if line.contains(" is left out: ") {
            left_out.push(line.to_owned());
            return Line::Show;
        }
        Line::Hide
    })?;
    ensure!(outcome.success(), "rivals/http/build: {}", outcome.words());
    let mut step = Step::new("servers", "servers");
    let bin = folder().join("bin");
    let built = fs::read_dir(&bin).with_context(|| bin.display().to_string())?;
    step.passed = built
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_none_or(|it| it != "missing"))
        .count();
    step.skipped = left_out.len();
    Ok(step)
}

/// What `olivine bench` prints for a document; what it says besides goes to the terminal.
fn measure(tool: &Path, words: &[&str], seconds: f64, runs: u32) -> Result<String> {
    let mut command = Command::new(tool);
    command
        .current_dir(root())
        .arg("bench")
        .args(words)
        .args([
            "--seconds",
            &seconds.to_string(),
            "--runs",
            &runs.to_string(),
        ])
        .arg("--markdown")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().context("cannot start olivine")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "olivine bench {} ended with {}\n{text}",
        words.join(" "),
        output.status
    );
    Ok(text)
}

/// Puts `text` between the marks of a document.
fn put(place: &Place, text: &str) -> Result<()> {
    let path = root().join(place.document);
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = between(&old, place.name, text)
        .with_context(|| format!("{} has no marks of {}", place.document, place.name))?;
    fs::write(&path, new).with_context(|| path.display().to_string())
}

/// `document` with `text` between the marks called `name`; `None` where they are missing.
pub(crate) fn between(document: &str, name: &str, text: &str) -> Option<String> {
    let (start, end) = (
        format!("<!-- {name}:start -->"),
        format!("<!-- {name}:end -->"),
    );
    let (before, rest) = document.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}\n{}\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_a_place_for_the_tables() {
        for place in [SERVERS, GENERATOR] {
            let text = fs::read_to_string(root().join(place.document)).unwrap();
            let new = between(&text, place.name, "\nnew figures\n").unwrap();
            assert!(new.contains(":start -->\nnew figures\n<!-- "));
            // Again gives the same, and nothing outside of the marks has changed.
            assert_eq!(between(&new, place.name, "new figures").unwrap(), new);
            let outside = |text: &str| between(text, place.name, "").unwrap();
            assert_eq!(outside(&new), outside(&text));
        }
        assert_eq!(between("no marks", "http", "text"), None);
    }

    #[test]
    fn what_the_script_builds_and_what_is_a_package_are_what_the_tool_knows() {
        let script = fs::read_to_string(folder().join("build")).unwrap();
        let known = fs::read_to_string(root().join("crates/olivine-bench/src/load/rivals.rs"));
        let known = known.unwrap();
        for name in PACKAGES {
            assert!(known.contains(&format!("\"{name}\"")), "{name}");
        }
        let loops = script.lines().filter_map(|line| {
            let names = line.strip_prefix("for server in ")?;
            names.strip_suffix("; do")
        });
        let names: Vec<&str> = loops.flat_map(|names| names.split(' ')).collect();
        assert_eq!(names.len(), 11);
        for name in names {
            assert!(known.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
