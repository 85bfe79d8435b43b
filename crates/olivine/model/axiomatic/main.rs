//! The ring's edges under weak memory: every execution of small programs, by the axioms of RC11 and
//! ARMv8.
//!
//! `README.md` in this folder says how to read and write the programs. The checks, in this order:
//! the checker against published verdicts and execution counts; each program of `edges/` holds and
//! shows something; each mutant named in the sources is rejected; each ordering, weakened by one
//! step, has a counterexample or a reason to stay; programs, sources and `docs/orderings.md` agree.

mod execution;
mod litmus;
mod minimal;
mod models;
mod published;
mod relation;
mod report;
mod show;
mod sources;
mod trace;

use execution::Execution;
use litmus::{Change, Expression, Litmus};
use models::{Model, Verdict};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// This folder.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model/axiomatic")
}

/// Programs of a folder, by name: path and text.
fn programs(below: &str) -> BTreeMap<String, (String, String)> {
    let folder = folder().join(below);
    let entries = std::fs::read_dir(&folder).expect("the folder of programs");
    let paths = entries.map(|entry| entry.expect("a program").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "litmus"))
        .map(|path| {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let text = std::fs::read_to_string(&path).expect("a program");
            (name.clone(), (format!("{below}/{name}.litmus"), text))
        })
        .collect()
}

/// The result of all executions of a program.
#[derive(Debug, Default)]
struct Explored {
    /// Executions that the model allows.
    executions: u64,
    /// The first forbidden execution; with a race only if there is no other.
    bad: Option<(Execution, Verdict)>,
    /// Conditions that must be reachable and are not.
    unreached: Vec<String>,
}

impl Explored {
    /// Whether the forbidden outcome of `litmus` never happens, or happens if the program must show
    /// it.
    fn holds(&self, litmus: &Litmus) -> bool {
        self.bad.is_some() == litmus.allowed && self.unreached.is_empty() && self.executions > 0
    }
}

/// Visits every execution of `litmus` that `model` allows.
fn explore(litmus: &Litmus, model: Model) -> Explored {
    let mut explored = Explored::default();
    let mut reached = vec![false; litmus.reach.len()];
    let forbidden = |execution: &Execution| {
        litmus
            .forbid
            .as_ref()
            .is_some_and(|condition: &Expression| execution.holds(condition))
    };
    execution::candidates(litmus, &mut |execution| {
        let verdict = models::judge(model, execution);
        if verdict == Verdict::Never {
            return;
        }
        explored.executions += 1;
        for ((_, condition), reached) in litmus.reach.iter().zip(&mut reached) {
            *reached |= execution.holds(condition);
        }
        let (bad, race) = (forbidden(execution), verdict != Verdict::Happens);
        let found = explored.bad.as_ref();
        let better = match found {
            None => bad || race,
            Some((old, _)) => bad && !forbidden(old),
        };
        if better {
            explored.bad = Some((execution.clone(), verdict));
        }
    });
    let missed = litmus.reach.iter().zip(reached);
    explored.unreached = missed
        .filter(|(_, reached)| !reached)
        .map(|((text, _), _)| text.clone())
        .collect();
    explored
}

/// A program of `edges/` under one model.
struct Row {
    name: String,
    litmus: Litmus,
    model: Model,
    explored: Explored,
}

/// Counts checks, and prints each in the format of test programs.
#[derive(Debug, Default)]
struct Checks {
    passed: u32,
    failures: Vec<String>,
}

impl Checks {
    fn check(&mut self, name: &str, problem: Option<String>) {
        match problem {
            None => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Some(problem) => {
                println!("test {name} ... FAILED");
                println!("    {problem}");
                self.failures.push(name.to_owned());
            }
        }
    }
}

fn main() -> ExitCode {
    // Test runners ask for a list. Filters are ignored: everything runs.
    if std::env::args().any(|argument| argument == "--list") {
        println!("axiomatic: test");
        return ExitCode::SUCCESS;
    }
    let mut checks = Checks::default();
    published::check(&mut checks);
    let edges = programs("edges");
    let rows = hold(&edges, &mut checks);
    let mutants = minimal::mutants(&edges, &rows, &mut checks);
    let orderings = minimal::orderings(&rows, &mut checks);
    sources::check(&rows, &mutants, &mut checks);
    report::check(&rows, &mutants, &orderings, &mut checks);
    let (passed, failed) = (checks.passed, checks.failures.len());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

/// Each program holds under each model, and reaches what it must reach.
fn hold(edges: &BTreeMap<String, (String, String)>, checks: &mut Checks) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, (file, text)) in edges {
        let litmus = match Litmus::parse(file, text, None) {
            Ok(litmus) => litmus,
            Err(error) => {
                checks.check(&format!("edges::{name}"), Some(error));
                continue;
            }
        };
        for model in [Model::Rc11, Model::Armv8] {
            let explored = explore(&litmus, model);
            let problem = (!explored.holds(&litmus)).then(|| problem(&litmus, &explored));
            checks.check(&format!("edges::{name}::{}", model.name()), problem);
            rows.push(Row {
                name: name.clone(),
                litmus: litmus.clone(),
                model,
                explored,
            });
        }
    }
    rows
}

fn problem(litmus: &Litmus, explored: &Explored) -> String {
    if let Some(unreached) = explored.unreached.first() {
        return format!("never reached, so nothing is shown: {unreached}");
    }
    match &explored.bad {
        Some((execution, verdict)) => show::execution(litmus, execution, *verdict),
        None => format!(
            "{} executions, and none is as it should be",
            explored.executions
        ),
    }
}

/// The changes of one label alone.
fn change(label: &str, change: Change) -> BTreeMap<String, Change> {
    BTreeMap::from([(label.to_owned(), change)])
}
