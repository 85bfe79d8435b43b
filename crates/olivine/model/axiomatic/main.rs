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

/// Programs of a folder, by name: the path of the file, and the text.
///
/// A file holds many programs. Each begins with a line `program NAME`. Its text starts with as many
/// empty lines as the file has before it, so errors name the line of the file.
fn programs(below: &str) -> BTreeMap<String, (String, String)> {
    let mut programs = BTreeMap::new();
    for entry in std::fs::read_dir(folder().join(below)).expect("the folder of programs") {
        let path = entry.expect("a file of programs").path();
        if path.extension().is_none_or(|end| end != "litmus") {
            continue;
        }
        let file = format!("{below}/{}", path.file_name().expect("a name").display());
        let text = std::fs::read_to_string(&path).expect("programs");
        let lines: Vec<&str> = text.lines().collect();
        let is_start = |at: &usize| lines[*at].starts_with("program ");
        let mut starts: Vec<usize> = (0..lines.len()).filter(is_start).collect();
        let is_head = |line: &&str| line.is_empty() || line.starts_with("//");
        let head = lines.iter().take_while(|line| is_head(line)).count();
        assert_eq!(starts.first(), Some(&head), "{file} begins with no program");
        starts.push(lines.len());
        for part in starts.windows(2) {
            let name = lines[part[0]].trim_start_matches("program ").trim();
            let before = "\n".repeat(part[0] + 1);
            let text = before + &lines[part[0] + 1..part[1]].join("\n");
            let other = programs.insert(name.to_owned(), (file.clone(), text));
            assert!(
                other.is_none(),
                "{file}: {name} is the name of two programs"
            );
        }
    }
    programs
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
        Some((execution, verdict)) => report::show::execution(litmus, execution, *verdict),
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

/// Programs and sources agree: edges, mutants, places.
mod sources {
    use crate::minimal::Fate;
    use crate::{Checks, Row};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    fn sources() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
    }

    /// Every edge and every mutant of the sources has a program, and no program has others. Every
    /// label names a place in the sources, and the text is there.
    pub(crate) fn check(rows: &[Row], mutants: &BTreeMap<String, Fate>, checks: &mut Checks) {
        let texts = texts();
        // As in the rule of `tidy`: a bold capital word in a module's documentation.
        let documents = texts.values().flat_map(|text| text.lines());
        let documents = documents.filter_map(|line| line.trim_start().strip_prefix("//!"));
        let bold = documents.flat_map(|line| line.split("**").skip(1).step_by(2));
        let is_edge = |word: &&str| {
            word.len() >= 3 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        let declared: BTreeSet<&str> = bold.filter(is_edge).collect();
        let shown: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.litmus.edges.iter().map(String::as_str))
            .collect();
        checks.check("sources::edges", difference("edge", &declared, &shown));
        let named = texts
            .iter()
            .filter(|(path, _)| *path != "sync.rs")
            .flat_map(|(_, text)| {
                let calls = text.split("mutant(\"").skip(1);
                calls.filter_map(|call| call.split_once('"').map(|(name, _)| name))
            });
        let named: BTreeSet<&str> = named.collect();
        let rejected: BTreeSet<&str> = mutants.keys().map(String::as_str).collect();
        checks.check("sources::mutants", difference("mutant", &named, &rejected));

        let given: BTreeMap<&str, (&str, &str)> = rows
            .iter()
            .flat_map(|row| &row.litmus.sources)
            .map(|(label, path, text)| (label.as_str(), (path.as_str(), text.as_str())))
            .collect();
        let used: BTreeSet<&str> = rows
            .iter()
            .filter(|row| !row.litmus.allowed)
            .flat_map(|row| row.litmus.labelled())
            .filter_map(|line| line.label.as_deref())
            .collect();
        let labels: BTreeSet<&str> = given.keys().copied().collect();
        checks.check("sources::labels", difference("label", &used, &labels));
        for (label, (path, text)) in given {
            let wanted = words(text);
            let there = texts
                .get(path)
                .is_some_and(|source| words(source).contains(&wanted));
            let problem = (!there).then(|| format!("{path} does not say: {text}"));
            checks.check(&format!("sources::places::{label}"), problem);
        }
    }

    /// Text with one space between words, so that line breaks do not matter.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn difference(
        what: &str,
        sources: &BTreeSet<&str>,
        programs: &BTreeSet<&str>,
    ) -> Option<String> {
        if sources.is_empty() {
            return Some(format!("no {what} is found at all"));
        }
        let missing: Vec<_> = sources.difference(programs).collect();
        let stale: Vec<_> = programs.difference(sources).collect();
        (!missing.is_empty() || !stale.is_empty())
            .then(|| format!("{what} without a program: {missing:?}; in programs alone: {stale:?}"))
    }

    /// Every source of the core, by its path below `src`.
    fn texts() -> BTreeMap<String, String> {
        let root = sources();
        let (mut texts, mut open) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).expect("sources") {
                let path = entry.expect("a source").path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let name = path.strip_prefix(&root).expect("below the root");
                    let name = name.to_string_lossy().into_owned();
                    texts.insert(name, std::fs::read_to_string(&path).expect("a source"));
                }
            }
        }
        texts
    }
}
