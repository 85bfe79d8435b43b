//! The protocol model in Promela: `spin` explores every schedule of joining, leaving and waiting on
//! a lane.
//!
//! `-DMUTANT_NAME` weakens the model; each of these names must be detected. `cargo xtask model`
//! installs `spin` and runs this. It needs a C compiler too.

use std::collections::BTreeSet;
use std::process::Command;

/// The model.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/model/channel.pml");
/// The variants: a channel that waits for all, an evicting one, one where a waker dies midway, and
/// one where two join and leave. The last has 35 million states, the others 4.5 million at most. So
/// a mutant is killed by a small one if it can be, and the last is explored without a mutant only
/// with `OLIVINE_SPIN_ALL=1`, as `cargo xtask ci --deep` does.
const CHANNELS: [(&str, &[&str]); 4] = [
    ("waits", &[]),
    ("evicts", &["-DEVICT"]),
    ("dying waker", &["-DVISITOR", "-DC=1", "-DN=2"]),
    (
        "two subscribers",
        &["-DSUBSCRIBERS=2", "-DC=1", "-DN=2", "-DNAPPED=true"],
    ),
];
/// Longest path, in steps: far more than any has. Slots of the table of states, as a power of two:
/// with fewer than there are states, each look walks a list.
const LIMITS: [&str; 2] = ["-m1000000", "-w26"];

/// Result of an exploration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// As printed: large numbers as `1.2e+06`.
    states: String,
    error: Option<String>,
}

impl Found {
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(error) = line.strip_prefix("pan:1: ") {
                let (error, _) = error.split_once(" (at depth").unwrap_or((error, ""));
                found.error = Some(error.to_owned());
            } else if let Some(states) = line.strip_suffix(" states, stored") {
                states.clone_into(&mut found.states);
            } else if line.contains("max search depth too small") {
                found.error = Some("the search was cut off".to_owned());
            }
        }
        if matches!(found.states.as_str(), "" | "0") {
            let error = format!("nothing was explored: {text}");
            found.error.get_or_insert(error);
        }
        found
    }
}

/// Runs a program; returns its output.
fn said(command: &mut Command) -> String {
    let output = command.output().expect("spin and cc are installed");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Explores the whole model with these settings.
fn explore(settings: &[&str]) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        said(command.args(words).current_dir(folder.path()))
    };
    run("spin", &[settings, &["-a", MODEL]].concat());
    // Safety only: an endless run is found as an invalid end state. Most checkers run for less
    // time than it takes to optimise them further.
    let compile = "-O1 -DSAFETY -DVECTORSZ=2048 -w -o pan pan.c";
    run("cc", &compile.split(' ').collect::<Vec<_>>());
    Found::read(&run("./pan", &LIMITS))
}

/// Names behind `MUTANT_` in the model.
fn mutants_of(text: &str) -> BTreeSet<&str> {
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let names = text.split("MUTANT_").skip(1);
    let names = names.map(|rest| rest.split(is_end).next().unwrap_or_default());
    names.filter(|name| *name != "NAME").collect()
}

#[test]
fn model_holds_in_every_channel() {
    let all = std::env::var_os("OLIVINE_SPIN_ALL").is_some();
    let count = CHANNELS.len() - usize::from(!all);
    for (name, settings) in &CHANNELS[..count] {
        let found = explore(settings);
        println!("spin {name}: {} states", found.states);
        assert_eq!(found.error, None, "{name}");
    }
}

#[test]
fn weakened_model_fails() {
    let text = std::fs::read_to_string(MODEL).unwrap();
    let mut survivors = Vec::new();
    let mutants = mutants_of(&text);
    assert!(!mutants.is_empty(), "no mutant in {MODEL}");
    for mutant in mutants {
        let define = format!("-DMUTANT_{mutant}");
        let killer = CHANNELS.iter().find_map(|(channel, settings)| {
            let error = explore(&[*settings, &[define.as_str()]].concat()).error?;
            Some(format!("{channel}: {error}"))
        });
        println!("{mutant:32}  {}", killer.as_deref().unwrap_or("SURVIVED"));
        survivors.extend(killer.is_none().then_some(mutant));
    }
    assert!(survivors.is_empty(), "{survivors:?} survived");
}

#[test]
fn output_of_the_checker_is_understood() {
    let good = Found::read("State-vector 144 byte, errors: 0\n  2452797 states, stored\n");
    assert_eq!((good.states.as_str(), good.error), ("2452797", None));
    let bad = Found::read("pan:1: invalid end state (at depth 150)\n 1.5e+06 states, stored\n");
    assert_eq!(bad.error.as_deref(), Some("invalid end state"));
    assert!(Found::read("Segmentation fault").error.is_some());
}

#[test]
fn every_name_of_a_mutant_is_found_once() {
    let text = "-DMUTANT_NAME\n#ifdef MUTANT_a_b\n#ifndef MUTANT_c\n#ifndef MUTANT_a_b\n";
    assert_eq!(Vec::from_iter(mutants_of(text)), ["a_b", "c"]);
}
