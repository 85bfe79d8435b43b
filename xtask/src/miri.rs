//! Unit tests of the core under Miri: undefined behaviour, provenance, data races.

use crate::cargo::{target, tests};
use crate::report::Step;
use crate::tools::Toolchain;
use anyhow::Result;
use std::num::NonZeroU32;

/// Modules with `unsafe` that Miri can run: it supports no shared file and no other process.
const PATHS: [&str; 2] = ["ring::heap_tests", "wait::"];

/// Runs the unit tests whose path contains `filter`, by default those in `PATHS`, once per seed.
pub(crate) fn run(seeds: NonZeroU32, filter: Option<&str>) -> Result<Step> {
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
        command.args(filter.map_or_else(|| PATHS.to_vec(), |filter| vec![filter]));
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

    #[test]
    fn safety_lists_the_tests_and_they_exist() {
        let safety = std::fs::read_to_string(root().join("SAFETY.md")).unwrap();
        for path in PATHS {
            assert!(safety.contains(&format!("`{path}`")), "{path}");
            let file = path.trim_end_matches("::").replace("::", "/");
            let file = root().join(format!("crates/olivine/src/{file}.rs"));
            assert!(file.is_file(), "{}", file.display());
        }
    }
}
