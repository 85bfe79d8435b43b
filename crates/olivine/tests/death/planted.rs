//! Faults planted in the observer's input: each kind must fail a round.

use crate::common::TestFolder;
use crate::common::words::SharedWords;
use crate::tally::Tally;
use crate::{lanes, roles, stage};

/// Each kind of fault: the round must fail, and name it.
#[test]
fn planted_faults_fail_the_suite() {
    /// Of the first ten messages of this session only this one is empty.
    const SESSION: u64 = 19;
    const EMPTY: usize = 7;
    fn message(sequence: u64) -> Vec<u8> {
        let mut message = Vec::new();
        lanes::fill(SESSION, sequence, &mut message);
        message
    }
    /// Messages 0 to 9 of one session, one of them empty, after `spoil`.
    fn found(spoil: fn(&mut Vec<Vec<u8>>)) -> Result<(), String> {
        let mut messages: Vec<Vec<u8>> = (0..10).map(message).collect();
        let empty = |message: &Vec<u8>| message.is_empty();
        assert_eq!(messages.iter().position(empty), Some(EMPTY));
        spoil(&mut messages);
        let place = TestFolder::new();
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
    /// A round without loss, with `waits` unfinished waits and `retries` repeated openings.
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
        // The rest is the whole report, which contains every word.
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
    fails(stuck(0, 3), "openings that timed out");
}
