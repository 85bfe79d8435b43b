//! Chaos: transports under random faults. Each run draws its options from a seed; a failing seed
//! repeats the run.
//!
//! ```text
//! cargo test -p olivine --test chaos                               a few runs of each scene
//! CHAOS_RUNS=1000 cargo test -p olivine --test chaos tcp_loses     a thousand runs of one
//! CHAOS_SEED=42 CHAOS_RUNS=1 cargo test -p olivine --test chaos tcp_loses -- --nocapture
//! ```
//!
//! | module | what it has |
//! | --- | --- |
//! | [`checker`] | the messages, and what arrived lost, repeated, reordered, torn, early or never |
//! | [`options`] | seeds and numbers of runs from the environment, the report of a scene |
//! | [`traffic`] | publishers on threads, and the receive loop, which triggers faults |
//! | [`faults`] | faults of a connection, by [`common::proxy`] |
//! | [`tcp`] | the scene of `tcp://` |
//! | [`named`] | the scene of `tcp://` with a `name=` at both ends, which are killed |
//! | [`planted`] | faults of each kind that the suite must find |
//! | [`far`] | the scenes of `file://` and `nats://`: kills of each process of theirs |
//! | [`reader`] | a durable subscriber that is killed and continues |
//!
//! # How to add a scene
//!
//! 1. A module with `pub(crate) fn run(random: &mut Random) -> Run`. It draws every option from
//!    `random`, prints them by `options::say`, and builds its URIs, bridges and servers.
//! 2. [`traffic::Publishers::start`] for its publishers, [`traffic::receive_all`] for the rest. Its
//!    closure is called between messages with the number received so far, and follows the scene's
//!    plan. It returns a [`checker::Checker`], whose `verdict()` is the result.
//! 3. Here: `mod NAME;`, a `#[test]` that calls [`options::storm`], and a role in [`role`] if it
//!    runs processes.
//!    runs processes.

#![cfg(all(not(loom), feature = "tcp"))]

mod checker;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "journal")]
mod far;
mod faults;
mod named;
#[cfg(feature = "nats")]
#[path = "../nats_server/mod.rs"]
mod nats_server;
mod planted;
mod reader;
mod tcp;
mod traffic;

/// Runs of a scene in an ordinary test run.
const RUNS: u64 = 8;
/// The features that decide what a run uses. A seed draws the same options with any of them.
const FEATURES: [&str; 3] = [
    if cfg!(feature = "tls") { "tls" } else { "" },
    if cfg!(feature = "nats") { "nats" } else { "" },
    if cfg!(feature = "zstd") { "zstd" } else { "" },
];

#[test]
fn tcp_loses_and_repeats_nothing() {
    options::storm("tcp", RUNS, tcp::run);
}

#[test]
fn named_loses_and_repeats_nothing() {
    options::storm("named", RUNS, named::run);
}

#[cfg(feature = "journal")]
#[test]
fn file_loses_and_repeats_nothing() {
    options::storm("file", RUNS, |random| {
        far::run(random, far::Far::Journal, None)
    });
}

#[cfg(all(feature = "journal", feature = "nats"))]
#[test]
fn nats_loses_and_repeats_nothing() {
    let Some(server) = nats_server::server("") else {
        return;
    };
    let server = std::cell::RefCell::new(server);
    options::storm("nats", RUNS, |random| {
        far::run(random, far::Far::Nats(&mut server.borrow_mut()), None)
    });
}

#[cfg(feature = "journal")]
#[test]
fn planted_faults_are_found() {
    use far::Planted;
    let found = |planted| {
        let run = far::run(&mut common::Random(1), far::Far::Journal, Some(planted));
        assert!(!run.verdict.is_good(), "{planted:?}");
        run.verdict
    };
    assert_eq!(found(Planted::Lost).lost, 1);
    assert_eq!(found(Planted::Repeated).repeated, 1);
    let torn = found(Planted::Torn);
    assert_eq!((torn.torn, torn.lost), (1, 1));
    assert_eq!(found(Planted::Hung).hung, 1);
    assert_eq!(found(Planted::SilentEnd).silent_ends, 1);
}

/// The other processes.
#[test]
fn role() {
    match common::my_role().as_deref() {
        None => {}
        Some("bridge") => common::bridges::role(),
        Some("sender") => named::role(),
        Some("reader") => reader::role(),
        Some(other) => panic!("no role {other}"),
    }
}

/// Seeds and numbers of runs, and the report of a scene.
mod options {
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
            "chaos {scene}: {runs} runs from seed {seed} in {took:.1?}: {verdict:?}, \
             faults {faults:?}"
        );
        assert!(
            bad.is_empty(),
            "{} of {runs} runs went wrong, seeds {bad:?}; again: CHAOS_SEED={} CHAOS_RUNS=1 \
             cargo test -p olivine --features \"{}\" --test chaos {scene}_loses -- --nocapture",
            bad.len(),
            bad[0],
            super::FEATURES.join(" ").trim(),
        );
    }
}
