//! Seeds and numbers of runs, and the report of a scene.

use crate::checker::Verdict;
use crate::common::{Random, setting};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) verdict: Verdict,
    /// Faults of the run, with their counts.
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

/// Prints the options of the current run; visible if the run fails, or with `--nocapture`.
pub(crate) fn say(options: &dyn std::fmt::Debug) {
    println!("  {options:?}");
}

/// Runs a scene `CHAOS_RUNS` times from the seed `CHAOS_SEED` on, and reports.
///
/// # Panics
///
/// If a run lost, repeated, reordered or tore a message, ended in silence, failed or hung.
pub(crate) fn storm(scene: &str, runs: u64, run: impl Fn(&mut Random) -> Run) {
    let (seed, runs) = (setting("CHAOS_SEED", 1), setting("CHAOS_RUNS", runs));
    let began = Instant::now();
    let mut sum = Run::default();
    let mut bad = Vec::new();
    for seed in seed..seed + runs {
        println!("chaos {scene}, seed {seed}:");
        match catch_unwind(AssertUnwindSafe(|| run(&mut Random(seed)))) {
            Ok(run) => {
                sum.verdict.add(&run.verdict);
                for (fault, count) in &run.faults {
                    *sum.faults.entry(fault).or_default() += count;
                }
                if !run.verdict.is_good() {
                    println!("  {:?}", run.verdict);
                    bad.push(seed);
                }
            }
            Err(_) => bad.push(seed),
        }
    }
    let (verdict, faults, took) = (&sum.verdict, &sum.faults, began.elapsed());
    println!(
        "chaos {scene}: {runs} runs from seed {seed} in {took:.1?}: {verdict:?}, faults {faults:?}"
    );
    assert!(
        bad.is_empty(),
        "{} of {runs} runs went wrong, seeds {bad:?}; again: CHAOS_SEED={} CHAOS_RUNS=1 \
         cargo test -p olivine --test chaos {scene} -- --nocapture",
        bad.len(),
        bad[0],
    );
}
