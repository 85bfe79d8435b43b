//! Tests under the sanitizers of the compiler: AddressSanitizer, ThreadSanitizer.

use crate::cargo::{TestOutput, at_most, target};
use crate::child::{self, Line};
use crate::nightly::Nightly;
use crate::report::Step;
use anyhow::Result;
use clap::ValueEnum;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7200);

/// A sanitizer, and what runs under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Accesses outside of what was reserved, or after it was given back: unit tests, channels, the property tests.
    Address,
    /// Data races between threads: the ring over heap memory. It does not see across processes, nor what a fence orders.
    Thread,
}

impl Sanitizer {
    pub(crate) const ALL: [Self; 2] = [Self::Address, Self::Thread];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// Arguments of `cargo test` and of the test programs.
    fn tests(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Address => (&["--lib", "--test", "channel", "--test", "property"], &[]),
            Self::Thread => (&["--lib"], &["ring::heap_tests", "ring::tests"]),
        }
    }

    /// `cargo test` of the core under it.
    fn command(self, nightly: &Nightly) -> Command {
        let mut command = nightly.cargo();
        command.arg("test");
        if self == Self::Thread {
            // Races with what the standard library does inside are only told apart where it is watched too.
            command.arg("-Zbuild-std");
        }
        command
            .args(["--package", "olivine", "--target", HOST])
            .env("RUSTFLAGS", format!("-Zsanitizer={}", self.name()))
            // No leaks: mappings and thread tables live as long as the program on purpose.
            .env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1")
            .env("TSAN_OPTIONS", "halt_on_error=1")
            .env("CARGO_TARGET_DIR", target().join(self.name()));
        command
    }

    /// Runs its tests.
    ///
    /// # Errors
    ///
    /// A child that cannot be started.
    pub(crate) fn run(self) -> Result<Step> {
        let name = format!("{} sanitizer", self.name());
        let nightly = match ready()? {
            Ok(nightly) => nightly,
            Err(missing) => return Ok(Step::skipped(&name, missing)),
        };
        let (targets, filter) = self.tests();
        let mut command = self.command(&nightly);
        command.args(targets).arg("--").args(filter);
        let mut output = TestOutput::default();
        let outcome = child::stream(&mut command, at_most(LIMIT), |line| output.line(line))?;
        Ok(output.step(&name, outcome.success(), &outcome.words()))
    }
}

/// The only kind of machine that the sanitizers are run on here.
const HOST: &str = "x86_64-unknown-linux-gnu";

fn ready() -> Result<Result<Nightly, String>> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Err("sanitizers are run on x86-64 only".to_owned()));
    }
    Nightly::with(&["rust-src"], &["--version"])
}

/// Hostile peers overwrite `writes` words in each attack, while their victims run under AddressSanitizer.
///
/// # Errors
///
/// A child that cannot be started.
pub(crate) fn hostile(writes: u64, seed: u64, said: &mut Vec<String>) -> Result<Step> {
    let nightly = match ready()? {
        Ok(nightly) => nightly,
        Err(missing) => return Ok(Step::skipped("hostile", missing)),
    };
    println!("{writes} writes, seed {seed}: repeat with --writes {writes} --seed {seed}");
    let mut command = Sanitizer::Address.command(&nightly);
    command
        .args(["--test", "hostile", "--release"])
        .args(["--", "--nocapture", "--test-threads=1"])
        .env("OLIVINE_HOSTILE_WRITES", writes.to_string())
        .env("OLIVINE_SEED", seed.to_string());
    let (mut output, mut attacks) = (TestOutput::default(), Vec::new());
    let outcome = child::stream(&mut command, at_most(LIMIT), |line| {
        attacks.extend(overwritten(line));
        let verdict = output.line(line);
        if verdict == Line::Show {
            said.push(line.to_owned());
        }
        verdict
    })?;
    let mut step = output.step("hostile", outcome.success(), &outcome.words());
    let (count, written) = (attacks.len(), attacks.iter().sum::<u64>());
    let note = format!("{written} words overwritten in {count} attacks, seed {seed}");
    step.note = format!("{note}; {}", step.note);
    if attacks.is_empty() || attacks.iter().any(|written| *written < writes) {
        step.failed = step.failed.max(1);
    }
    said.push(format!(
        "hostile, victims under AddressSanitizer: {}",
        step.note
    ));
    Ok(step)
}

/// Words in `SCENE: N words of … overwritten …`.
fn overwritten(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(": ")?;
    let (count, rest) = rest.split_once(" words of ")?;
    let count = count.parse().ok()?;
    rest.contains("overwritten").then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attack_overwrote_is_counted() {
        assert_eq!(
            overwritten("wait=park: 123 words of the control file overwritten"),
            Some(123)
        );
        assert_eq!(overwritten("17 rounds of the victim"), None);
        assert_eq!(overwritten("wait=park: many words of wisdom"), None);
    }
}
