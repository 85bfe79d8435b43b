//! Chaos: transports under random faults. Each run draws its options from a seed; a failing seed
//! repeats the run.
//!
//! ```text
//! cargo test -p olivine --test chaos                               a few runs of each scene
//! CHAOS_RUNS=1000 cargo test -p olivine --test chaos tcp_           a thousand runs of one
//! CHAOS_SEED=42 CHAOS_RUNS=1 cargo test -p olivine --test chaos tcp -- --nocapture
//! ```
//!
//! | module | what it has |
//! | --- | --- |
//! | [`checker`] | the messages, and what arrived lost, repeated, reordered, torn, early or never |
//! | [`options`] | seeds and numbers of runs from the environment, the report of a scene |
//! | [`traffic`] | publishers on threads, and the receive loop, which triggers faults |
//! | [`faults`] | faults of a connection, by [`common::proxy`] |
//! | [`tcp`] | the scene of `tcp://` |
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
#[cfg(feature = "nats")]
#[path = "../nats_server/mod.rs"]
mod nats_server;
mod options;
mod planted;
#[cfg(feature = "journal")]
mod reader;
mod tcp;
mod traffic;

/// Runs of a scene in an ordinary test run.
const RUNS: u64 = 8;

#[test]
fn tcp_loses_and_repeats_nothing() {
    options::storm("tcp", RUNS, tcp::run);
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
        #[cfg(feature = "journal")]
        Some("reader") => reader::role(),
        Some(other) => panic!("no role {other}"),
    }
}
