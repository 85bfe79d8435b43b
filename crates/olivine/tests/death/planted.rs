//! Faults planted where the bystander reads: each kind makes a round fail.

use crate::common::Place;
use crate::tally::Tally;
use crate::{lanes, roles, stage};
use olivine::probe::SharedWords;

/// Each fault that the suite looks for: the round must fail, and say which.
#[test]
fn a_planted_fault_of_each_kind_fails_the_suite() {
    /// Of its first ten messages only this one has no bytes.
    const SESSION: u64 = 19;
    const EMPTY: usize = 7;
    fn message(sequence: u64) -> Vec<u8> {
        let mut message = Vec::new();
        lanes::fill(SESSION, sequence, &mut message);
        message
    }
    /// Messages 0 to 9 of one session, of which one is empty, after `spoil` has had its way with
    /// them.
    fn found(spoil: fn(&mut Vec<Vec<u8>>)) -> Result<(), String> {
        let mut messages: Vec<Vec<u8>> = (0..10).map(message).collect();
        let empty = |message: &Vec<u8>| message.is_empty();
        assert_eq!(messages.iter().position(empty), Some(EMPTY));
        spoil(&mut messages);
        let place = Place::new();
        let sessions = SESSION + 1;
        let words = SharedWords::create(&place.file("words"), roles::words(sessions)).unwrap();
        words.store(roles::acknowledged(SESSION), 10);
        let mut findings = stage::Findings::default();
        for message in &messages {
            findings.take(0, message);
        }
        findings.settle(&words, sessions);
        let mut tally = Tally::default();
        tally.add(&findings, [0; 6]);
        let checked = std::panic::catch_unwind(|| tally.assert_clean(0));
        checked.map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
    }
    /// A round in which nothing was lost, `waits` waits did not end, and `retries` openings were
    /// tried again.
    fn stuck(waits: u64, retries: u64) -> Result<(), String> {
        let mut tally = Tally::default();
        let mut findings = stage::Findings::default();
        findings.checked = 1;
        tally.add(&findings, [0, 0, 0, 0, 0, retries]);
        (0..waits).for_each(|_| tally.waits());
        let checked = std::panic::catch_unwind(|| tally.assert_clean(0));
        checked.map_err(|why| why.downcast_ref::<String>().cloned().unwrap_or_default())
    }
    assert_eq!(found(|_| {}), Ok(()));
    let fails = |verdict: Result<(), String>, what: &str| {
        let why = verdict.expect_err(what);
        // What follows is the whole report, in which every word is.
        let said = why.lines().next().unwrap_or_default();
        assert!(said.contains(what), "{what}: {why}");
    };
    fails(found(|messages| drop(messages.remove(4))), "lost");
    fails(found(|messages| drop(messages.pop())), "lost");
    fails(found(|messages| messages[3][9] ^= 1), "torn");
    fails(found(|messages| messages.swap(2, 3)), "lost");
    fails(
        found(|messages| {
            let again = messages[5].clone();
            messages.insert(6, again);
        }),
        "repeated",
    );
    fails(
        found(|messages| {
            messages.extend((10..12).map(message));
        }),
        "invented",
    );
    fails(found(Vec::clear), "lost");
    fails(found(|messages| drop(messages.remove(EMPTY))), "lost");
    fails(
        found(|messages| messages.insert(EMPTY, Vec::new())),
        "repeated",
    );
    fails(
        found(|messages| messages.insert(EMPTY - 2, Vec::new())),
        "torn",
    );
    fails(found(|messages| messages.insert(0, Vec::new())), "invented");
    fails(found(|messages| messages[2].clear()), "torn");
    assert_eq!(stuck(0, 2), Ok(()));
    fails(stuck(1, 0), "survivors that hung");
    fails(stuck(0, 3), "openings that found no rest");
}
