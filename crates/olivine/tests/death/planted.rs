//! Planted faults: the suite must fail, and name each.

use crate::common::mapped::SharedWords;
use crate::common::planted::verdict;
use crate::common::{Deadline, TestFolder, until};
use crate::roles::Seen;
use crate::stage::{Findings, Stage};
use crate::tally::Tally;
use crate::{lanes, roles, zygote};
use rustix::process::Signal;
use std::time::Duration;

/// Of the first ten messages of this session only this one is empty.
const SESSION: u64 = 19;
const EMPTY: usize = 7;

fn message(sequence: u64) -> Vec<u8> {
    let mut message = Vec::new();
    lanes::fill(SESSION, sequence, &mut message);
    message
}

#[track_caller]
fn fails(verdict: Result<(), String>, what: &str) {
    let why = verdict.expect_err(what);
    // The rest is the whole report, which contains every word.
    let said = why.lines().next().unwrap_or_default();
    assert!(said.contains(what), "{what}: {why}");
}

/// Words of `SESSION`, of which ten messages were acknowledged.
fn words(place: &TestFolder) -> SharedWords {
    let count = roles::words(SESSION + 1);
    let words = SharedWords::create(&place.file("words"), count).unwrap();
    words.store(roles::acknowledged(SESSION), 10);
    words
}

/// Messages 0 to 9 of one session, one of them empty, after `spoil`, as the observer gets them.
fn found(spoil: fn(&mut Vec<Vec<u8>>)) -> Result<(), String> {
    let mut messages: Vec<Vec<u8>> = (0..10).map(message).collect();
    let empty = |message: &Vec<u8>| message.is_empty();
    assert_eq!(messages.iter().position(empty), Some(EMPTY));
    spoil(&mut messages);
    let place = TestFolder::new();
    let words = words(&place);
    let mut findings = Findings::default();
    for message in &messages {
        findings.take(0, message);
    }
    findings.settle(&words, SESSION + 1);
    let mut tally = Tally::default();
    tally.add(&findings, [0; 7]);
    verdict(|| tally.assert_clean(0))
}

/// The messages that the lives of the durable subscriber get, each of them after the first after a
/// death.
fn durable(lives: &[&[u64]]) -> Result<(), String> {
    let place = TestFolder::new();
    let words = words(&place);
    for (number, life) in lives.iter().enumerate() {
        if number > 0 {
            roles::bump(&words, roles::REPEATS_LEFT);
        }
        let mut seen = Seen::durable();
        for sequence in *life {
            roles::take(&words, 0, &message(*sequence), &mut seen);
        }
    }
    let mut findings = Findings::default();
    findings.lost = roles::missed_by_durable(&words, SESSION + 1);
    let [gaps, repeats, checked] =
        [roles::GAPS, roles::REPEATS, roles::CHECKED].map(|word| words.load(word));
    let mut tally = Tally::default();
    tally.add(&findings, [0, gaps, 0, 0, checked, 0, repeats]);
    verdict(|| tally.assert_clean(0))
}

/// A round without loss, with `retries` repeated openings.
fn retried(retries: u64) -> Result<(), String> {
    let mut tally = Tally::default();
    let mut findings = Findings::default();
    findings.checked = 1;
    tally.add(&findings, [0, 0, 0, 0, 0, retries, 0]);
    verdict(|| tally.assert_clean(0))
}

/// Whether its process is stopped by a signal.
fn is_stopped(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    state == Some(Some('T'))
}

#[test]
fn planted_faults_fail_the_suite() {
    assert_eq!(found(|_| {}), Ok(()));
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
    assert_eq!(retried(2), Ok(()));
    fails(retried(3), "openings that timed out");
}

#[test]
fn planted_faults_of_a_durable_subscriber_fail_the_suite() {
    let rest: Vec<u64> = (3..10).collect();
    let after = |first: &[u64]| [first, &rest].concat();
    assert_eq!(durable(&[&after(&[0, 1, 2])]), Ok(()));
    // Each death may repeat one message, also the same one, and the empty one is not identified.
    assert_eq!(durable(&[&[0, 1, 2], &[2], &after(&[2])]), Ok(()));
    assert_eq!(durable(&[&after(&[0, 1, 2]), &[9]]), Ok(()));
    assert_eq!(durable(&[&[0, 1, 2, 3, 4, 5, 6], &[7], &[8, 9]]), Ok(()));
    let repeats = "repeats to a durable name";
    fails(durable(&[&[0, 1, 2], &after(&[1, 2])]), repeats);
    fails(durable(&[&[0, 1, 2], &after(&[2, 2])]), repeats);
    fails(durable(&[&after(&[0, 1, 2, 2])]), repeats);
    fails(durable(&[&[0, 1], &after(&[])]), "gaps");
    fails(durable(&[&[0, 1, 2], &[3, 4, 5, 6, 7, 8]]), "lost");
    fails(durable(&[]), "lost");
}

#[test]
fn planted_hang_fails_the_suite() {
    let mut stage = Stage::new("", 2, 1);
    stage.observe();
    let actors = ["publisher", "publisher"].map(|role| stage.enter(role, ""));
    let all = actors.each_ref();
    let mut tally = Tally::default();
    tally.waited(stage.progress(&all, 1, Deadline::new()), 1);
    zygote::signal(actors[1].pid, Signal::STOP);
    until("it is stopped", || is_stopped(actors[1].pid));
    let waited = stage.progress(&all, 1, Deadline::of(Duration::from_millis(50)));
    fails(verdict(|| tally.waited(waited, 1)), "survivors that hung 1");
    zygote::signal(actors[1].pid, Signal::CONT);
    Tally::default().waited(stage.progress(&all, 1, Deadline::new()), 1);
    stage.finish(actors.to_vec());
}

#[test]
fn planted_leak_fails_the_suite() {
    let mut stage = Stage::new("", 1, 1);
    stage.observe();
    let stray = stage.place.dir().join("stray");
    std::fs::write(&stray, "").unwrap();
    fails(verdict(|| stage.finish(Vec::new())), "left behind: [");
}

#[test]
fn planted_silent_end_fails_the_suite() {
    let mut stage = Stage::new("", 1, 1);
    stage.observe();
    stage.end_stream_early();
    let ended = verdict(|| stage.progress(&[], 1, Deadline::new()));
    fails(ended, "the bystander gave up");
}
