//! The protocol model in Promela: `spin` explores every schedule of joining, leaving and waiting on
//! a lane.
//!
//! `-DMUTANT_NAME` weakens the model; each of these names must be detected.

use crate::cargo::root;
use crate::child;
use crate::packages;
use crate::report::{Step, say};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MODEL: &str = "crates/olivine/model/channel.pml";
/// The variants: a channel that waits for all, an evicting one, one where two join and leave, and
/// one where a waker dies midway.
const CHANNELS: [(&str, &[&str]); 4] = [
    ("waits", &[]),
    ("evicts", &["-DEVICT"]),
    (
        "two subscribers",
        &["-DSUBSCRIBERS=2", "-DC=1", "-DN=2", "-DNAPPED=true"],
    ),
    ("dying waker", &["-DVISITOR", "-DC=1", "-DN=2"]),
];
/// Longest path, in steps: far more than any has.
const DEPTH: &str = "-m1000000";

/// Explores the model; with `mutants` also every weakened one.
///
/// # Errors
///
/// A missing model, or a child that cannot be started.
pub(crate) fn run(mutants: bool) -> Result<Step> {
    let mut step = Step::new("models");
    packages::program(&["spin"], "spin")?;
    let model = root().join(MODEL);
    let text = std::fs::read_to_string(&model).with_context(|| format!("cannot read {MODEL}"))?;
    for (name, settings) in CHANNELS {
        let found = walk(&model, settings)?;
        let verdict = found.error.as_deref().unwrap_or("no error");
        say(&format!("spin {name}: {} states, {verdict}", found.states));
        step.count(found.error.is_none() && found.states > 0);
    }
    if !mutants || step.failed > 0 {
        return Ok(step);
    }
    let names = mutants_of(&text);
    step.note = format!("{} mutants of {MODEL}", names.len());
    for name in names {
        let started = Instant::now();
        let define = format!("-DMUTANT_{name}");
        let mut killer = None;
        for (channel, settings) in CHANNELS {
            if let Some(error) = walk(&model, &[settings, &[define.as_str()]].concat())?.error {
                killer = Some(format!("{channel}: {error}"));
                break;
            }
        }
        let text = killer.as_deref().unwrap_or("SURVIVED");
        say(&format!(
            "{name:32}  {:>6.2}  {text}",
            started.elapsed().as_secs_f64()
        ));
        step.count(killer.is_some());
    }
    Ok(step)
}

/// Result of an exploration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    states: u64,
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
                // Large numbers are printed as 1.2e+06.
                let states: f64 = states.parse().unwrap_or(0.0);
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count, printed roughly"
                )]
                let whole = states as u64;
                found.states = whole;
            } else if line.contains("max search depth too small") {
                found.error = Some("the search was cut off".to_owned());
            }
        }
        found
    }
}

/// Explores the whole model with these settings.
fn walk(model: &Path, settings: &[&str]) -> Result<Found> {
    let folder = tempfile::tempdir().context("a folder for the checker")?;
    let mut generate = Command::new("spin");
    generate.args(settings).arg("-a").arg(model);
    let mut compile = Command::new("cc");
    // Safety only: an endless run is found as an invalid end state.
    compile.args("-O2 -DSAFETY -DVECTORSZ=2048 -w -o pan pan.c".split(' '));
    for command in [&mut generate, &mut compile] {
        child::said(command.current_dir(folder.path()), 2)?;
    }
    let mut check = Command::new(folder.path().join("pan"));
    let said = child::said(check.arg(DEPTH).current_dir(folder.path()), 20)?;
    Ok(Found::read(&said))
}

/// Names behind `MUTANT_` in the model.
fn mutants_of(text: &str) -> BTreeSet<String> {
    let names = text.match_indices("MUTANT_").map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest[..end.unwrap_or(rest.len())].to_owned()
    });
    names.filter(|name| name != "NAME").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_checker_says_is_understood() {
        let good = Found::read("State-vector 144 byte, errors: 0\n  2452797 states, stored\n");
        assert_eq!((good.states, good.error), (2_452_797, None));
        let bad = Found::read("pan:1: invalid end state (at depth 150)\n 1.5e+06 states, stored\n");
        assert_eq!(
            (bad.states, bad.error.as_deref()),
            (1_500_000, Some("invalid end state"))
        );
        assert_eq!(Found::read("Segmentation fault").states, 0);
    }

    #[test]
    fn every_name_of_a_mutant_is_found_once() {
        let text = "-DMUTANT_NAME\n#ifdef MUTANT_a_b\n#ifndef MUTANT_c\n#ifndef MUTANT_a_b\n";
        assert_eq!(Vec::from_iter(mutants_of(text)), ["a_b", "c"]);
    }
}
