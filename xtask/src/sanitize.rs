//! Tests under the sanitizers of the compiler, each of which must first detect a planted fault, and
//! under Miri: undefined behaviour, provenance, data races.

use crate::cargo::{target, tests};
use crate::child;
use crate::report::{Report, Step, missing};
use crate::tools::Toolchain;
use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use std::num::{NonZeroU32, NonZeroU64};
use std::process::Command;

/// The only supported platform for the sanitizers.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The tests of each of `which`, of all if that is empty.
pub(crate) fn run(report: &mut Report, which: &[Sanitizer]) {
    let all = [Sanitizer::Address, Sanitizer::Thread];
    for sanitizer in if which.is_empty() { &all } else { which } {
        report.run(&format!("{} sanitizer", sanitizer.name()), || {
            sanitizer.run()
        });
    }
}

/// A sanitizer, and its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Accesses outside of allocated memory, or after it was freed: unit tests, channels, bridges,
    /// journals.
    Address,
    /// Races between threads: unit tests with rings in heap memory, channels of one process,
    /// waiting, bridges and journals with their threads. A ring that is mapped twice counts as two,
    /// so it sees heap memory, and both ends of a ring only at one address. It does not understand
    /// fences, and nothing here relies on that. No report is suppressed.
    Thread,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// Arguments of `cargo test` for it.
    fn words(self) -> &'static str {
        match self {
            Self::Address => "--lib --test channel --test journals --test property --test tcp",
            Self::Thread => {
                "--lib --test channel --test journals --test property --test tcp --test waiting"
            }
        }
    }

    /// A program with its kind of fault, and the expected report.
    fn planted(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => (
                "fn main() { let v = vec![1_u8; 8]; let at = v.as_ptr(); drop(v); \
                 println!(\"{}\", unsafe { at.read_volatile() }); }",
                "heap-use-after-free",
            ),
            Self::Thread => (
                // Alternately, without ordering (relaxed): two free loops may by chance not meet
                // at all.
                "use std::sync::atomic::{AtomicU32, Ordering::Relaxed}; \
                 static mut N: u64 = 0; static TURN: AtomicU32 = AtomicU32::new(0); \
                 fn add(me: u32) { for _ in 0..100 { \
                 while TURN.load(Relaxed) % 2 != me { std::thread::yield_now() } \
                 unsafe { N += 1 } TURN.fetch_add(1, Relaxed); } } \
                 fn main() { let other = std::thread::spawn(|| add(1)); add(0); \
                 other.join().unwrap(); }",
                "data race",
            ),
        }
    }

    /// Whether it detects its planted fault.
    fn sees(self, nightly: &Toolchain) -> Result<bool> {
        let folder = tempfile::tempdir().context("a folder for a program with a fault")?;
        let (source, program) = (folder.path().join("planted.rs"), folder.path().join("it"));
        let (text, said) = self.planted();
        std::fs::write(&source, text)?;
        let mut compile = nightly.rustc();
        compile
            .args(["--edition", "2021", "--target", HOST, "-o"])
            .arg(&program)
            .arg(format!("-Zsanitizer={}", self.name()))
            // The prebuilt standard library is not instrumented.
            .arg("-Cunsafe-allow-abi-mismatch=sanitizer")
            .arg(&source);
        child::said(&mut compile, 2).context("the planted fault does not build")?;
        let (outcome, text) = child::capture(&mut Command::new(&program), 2)?;
        Ok(!outcome.success() && text.contains(said))
    }

    /// `cargo test` of the core under it.
    fn command(self, nightly: &Toolchain) -> Command {
        let mut command = nightly.cargo();
        command
            .args(["test", "--package", "olivine", "--target", HOST])
            .env("RUSTFLAGS", format!("-Zsanitizer={}", self.name()))
            .env("CARGO_TARGET_DIR", target().join(self.name()));
        match self {
            Self::Address => {
                // No leaks: mappings and thread tables live as long as the program on purpose.
                command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1")
            }
            Self::Thread => {
                // It must see how the standard library passes data between threads.
                command
                    .arg("-Zbuild-std")
                    .env("TSAN_OPTIONS", "halt_on_error=1")
            }
        };
        command
    }

    fn run(self) -> Result<Step> {
        let nightly = ready()?;
        if self == Self::Thread {
            nightly.needs_sources()?;
        }
        ensure!(self.sees(&nightly)?, "it does not see a planted fault");
        let mut command = self.command(&nightly);
        let mut step = tests(command.args(self.words().split(' ')), 120)?;
        step.note = format!("a planted fault was found; {}", step.note);
        Ok(step)
    }
}

fn ready() -> Result<Toolchain> {
    let here = cfg!(target_arch = "x86_64");
    ensure!(here, missing("sanitizers are run on x86-64 only"));
    Toolchain::nightly(&["rust-src"], &["--version"])
}

/// Hostile peers overwrite `writes` words in each attack, while their victims run under
/// AddressSanitizer.
///
/// # Errors
///
/// A child that cannot be started.
pub(crate) fn hostile(writes: NonZeroU64, seed: u64) -> Result<Step> {
    println!("{writes} writes, seed {seed}: repeat with --writes {writes} --seed {seed}");
    let mut command = Sanitizer::Address.command(&ready()?);
    let words = "--test hostile --release -- --nocapture --test-threads=1";
    command.args(words.split(' '));
    command.env("OLIVINE_HOSTILE_WRITES", writes.to_string());
    let mut step = tests(command.env("OLIVINE_SEED", seed.to_string()), 120)?;
    step.note = format!(
        "at least {writes} words overwritten in each attack; {}",
        step.note
    );
    Ok(step)
}

/// Modules with `unsafe` that Miri can run: it supports no shared file and no other process.
const MIRI: [&str; 2] = ["ring::heap_tests", "wait::"];

/// Runs the unit tests whose path contains `filter`, by default those in `MIRI`, once per seed.
pub(crate) fn miri(seeds: NonZeroU32, filter: Option<&str>) -> Result<Step> {
    let nightly = Toolchain::nightly(&["miri", "rust-src"], &["miri", "--version"])?;
    let mut total = Step::new("tests");
    for seed in 0..seeds.get() {
        println!("-- seed {seed}");
        // Its emulation of weak memory fails where headers overlay old payload; loom checks
        // orderings.
        let flags = "-Zmiri-strict-provenance -Zmiri-disable-isolation \
                     -Zmiri-disable-weak-memory-emulation";
        let mut command = nightly.cargo();
        command.args(["miri", "test", "--package", "olivine", "--lib", "--"]);
        command.args(filter.map_or_else(|| MIRI.to_vec(), |filter| vec![filter]));
        command.env("MIRIFLAGS", format!("{flags} -Zmiri-seed={seed}"));
        let step = tests(command.env("CARGO_TARGET_DIR", target().join("miri")), 60)?;
        total.passed += step.passed;
        // Tests that cannot run under Miri are the same for every seed.
        total.skipped = total.skipped.max(step.skipped);
        total.note = format!("{seeds} seeds");
        if step.failed > 0 {
            total.failed = step.failed;
            total.note = format!("seed {seed}: {}", step.note);
            break;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::root;

    /// The suites that SAFETY.md lists behind `words`, up to the next semicolon or full stop.
    fn stated(safety: &str, words: &str) -> Vec<String> {
        let (_, behind) = safety.split_once(words).expect(words);
        let listed = behind.split([';', '.']).next().unwrap();
        assert!(listed.starts_with("unit tests, "), "{listed}");
        let names = listed.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn safety_lists_the_suites_of_each_sanitizer() {
        let safety = std::fs::read_to_string(root().join("SAFETY.md")).unwrap();
        for (sanitizer, words) in [
            (Sanitizer::Address, "under AddressSanitizer: "),
            (Sanitizer::Thread, "under ThreadSanitizer: "),
        ] {
            let run = sanitizer.words();
            assert!(run.starts_with("--lib --test "), "{run}");
            let mut suites: Vec<_> = run.split("--test ").skip(1).map(str::trim).collect();
            let mut stated = stated(&safety, words);
            suites.sort_unstable();
            stated.sort_unstable();
            assert_eq!(stated, suites, "{sanitizer:?}");
        }
    }

    #[test]
    fn safety_lists_the_tests_and_they_exist() {
        let safety = std::fs::read_to_string(root().join("SAFETY.md")).unwrap();
        for path in MIRI {
            assert!(safety.contains(&format!("`{path}`")), "{path}");
            let file = path.trim_end_matches("::").replace("::", "/");
            let file = root().join(format!("crates/olivine/src/{file}.rs"));
            assert!(file.is_file(), "{}", file.display());
        }
    }
}
