//! Participants are killed at random moments; the others lose nothing and go on.
//!
//! `OLIVINE_KILLS` is the number of kills, `OLIVINE_SEED` repeats the choices of a run.

#![cfg(not(loom))]

mod common;

use common::{Place, Random, setting, signal, until};
use olivine::probe::SharedWords;
use olivine::{NotSent, Publisher, ReceiveError, Subscriber};
use std::collections::HashMap;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared words: what victims complain of, the order to stop, and one word a session from here on.
const TORN: usize = 0;
const GAPS: usize = 1;
const STOP: usize = 2;
const SESSIONS: usize = 8;

/// A message: session, sequence, a pattern whose length the two decide, checksum.
fn fill(session: u64, sequence: u64, into: &mut Vec<u8>) {
    let mut random = Random(session << 32 ^ sequence);
    let words = match random.below(64) {
        0 => random.below(2000),
        1..8 => 0,
        _ => random.below(40),
    };
    into.clear();
    into.extend(session.to_le_bytes());
    into.extend(sequence.to_le_bytes());
    let mut sum = session ^ sequence.rotate_left(32);
    for _ in 0..words {
        let word = random.next();
        sum = sum.rotate_left(5) ^ word;
        into.extend(word.to_le_bytes());
    }
    into.extend(sum.to_le_bytes());
}

/// Session and sequence of a message that is whole.
fn check(message: &[u8], scratch: &mut Vec<u8>) -> Option<(u64, u64)> {
    let word = |at: usize| {
        Some(u64::from_le_bytes(
            message.get(at..at + 8)?.try_into().ok()?,
        ))
    };
    let (session, sequence) = (word(0)?, word(8)?);
    fill(session, sequence, scratch);
    (message == scratch.as_slice()).then_some((session, sequence))
}

fn role_setting(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes.
#[test]
fn role() {
    let Ok(role) = std::env::var("OLIVINE_DEATH_ROLE") else {
        return;
    };
    let uri = role_setting("OLIVINE_DEATH_URI");
    let words = SharedWords::attach(role_setting("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    let session = setting("OLIVINE_DEATH_SESSION", 0);
    match role.as_str() {
        "publisher" => publish_until_stopped(&uri, &words, session),
        "victim" => receive_until_stopped(&uri, &words),
        "witness" => witness(&uri, &words),
        other => panic!("no role {other}"),
    }
}

fn publish_until_stopped(uri: &str, words: &SharedWords, session: u64) {
    let mut publisher = Publisher::open(uri).unwrap();
    let mut message = Vec::new();
    let index = SESSIONS + usize::try_from(session).unwrap();
    for sequence in 0.. {
        if words.load(STOP) != 0 {
            break;
        }
        fill(session, sequence, &mut message);
        match sequence % 3 {
            0 => {
                publisher.publish(&message).unwrap();
            }
            1 => {
                let mut claim = publisher.claim_wait(message.len()).unwrap();
                claim.copy_from_slice(&message);
                claim.commit();
            }
            _ => {
                publisher.wait_for_room(message.len(), None).unwrap();
                let mut batch = publisher.batch();
                batch.push(&message).unwrap();
                batch.commit();
            }
        }
        words.store(index, sequence + 1);
    }
    publisher.close().unwrap();
}

/// Adds one; a lost count among several does not matter, that it is not 0 does.
fn complain(words: &SharedWords, index: usize) {
    words.store(index, words.load(index) + 1);
}

fn receive_until_stopped(uri: &str, words: &SharedWords) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut next = HashMap::new();
    let mut scratch = Vec::new();
    while words.load(STOP) == 0 {
        let message = match subscriber.receive_timeout(Duration::from_millis(50)) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(ReceiveError::Closed) => break,
            Err(error) => panic!("{error}"),
        };
        match check(&message, &mut scratch) {
            None => complain(words, TORN),
            Some((session, sequence)) => {
                let expected = next.insert(session, sequence + 1);
                if expected.is_some_and(|expected| expected != sequence) {
                    complain(words, GAPS);
                }
            }
        }
    }
}

/// What the bystander found.
#[derive(Debug, Default)]
struct Findings {
    seen: HashMap<u64, u64>,
    checked: u64,
    torn: u64,
    lost: u64,
    repeated: u64,
}

impl Findings {
    fn take(&mut self, message: &[u8], scratch: &mut Vec<u8>) {
        self.checked += 1;
        let Some((session, sequence)) = check(message, scratch) else {
            self.torn += 1;
            return;
        };
        let next = self.seen.entry(session).or_insert(0);
        self.lost += sequence.saturating_sub(*next);
        self.repeated += u64::from(sequence < *next);
        *next = (*next).max(sequence + 1);
    }
}

/// Reads until every publisher has closed; `count` tells how far it is.
fn observe(mut subscriber: Subscriber, count: &AtomicU64) -> Findings {
    let mut findings = Findings::default();
    let mut scratch = Vec::new();
    loop {
        match subscriber.receive() {
            Ok(message) => findings.take(&message, &mut scratch),
            Err(ReceiveError::Closed) => return findings,
            Err(error) => panic!("{error}"),
        }
        count.store(findings.checked, Ordering::Release);
    }
}

struct Stage {
    place: Place,
    words: SharedWords,
    seed: u64,
    random: Random,
    sessions: u64,
}

impl Stage {
    fn new(kills: u64) -> Self {
        let place = Place::new();
        let seed = setting("OLIVINE_SEED", 1);
        let sessions = usize::try_from(kills).unwrap() + 8;
        let words = SharedWords::create(&place.file("words"), SESSIONS + sessions).unwrap();
        Self {
            place,
            words,
            seed,
            random: Random(seed),
            sessions: 0,
        }
    }

    fn uri(&self, query: &str) -> String {
        self.place.uri("death", &format!("capacity=64KiB&{query}"))
    }

    fn spawn(&self, role: &str, uri: String, session: u64) -> Child {
        common::spawn(
            role,
            &[
                ("OLIVINE_DEATH_URI", uri),
                (
                    "OLIVINE_DEATH_WORDS",
                    self.place.file("words").display().to_string(),
                ),
                ("OLIVINE_DEATH_SESSION", session.to_string()),
            ],
        )
    }

    fn publisher(&mut self) -> Child {
        let session = self.sessions;
        self.sessions += 1;
        let wait = ["park", "adaptive", "yield"][usize::try_from(self.random.below(3)).unwrap()];
        self.spawn("publisher", self.uri(&format!("wait={wait}")), session)
    }

    fn victim(&mut self) -> Child {
        let wait = ["park", "adaptive", "yield"][usize::try_from(self.random.below(3)).unwrap()];
        let from = ["now", "oldest"][usize::try_from(self.random.below(2)).unwrap()];
        self.spawn("victim", self.uri(&format!("wait={wait}&from={from}")), 0)
    }
}

#[test]
fn whoever_is_killed_the_others_lose_nothing_and_go_on() {
    const PUBLISHERS: usize = 2;
    let before = common::descriptors();
    let kills = setting("OLIVINE_KILLS", 1000);
    let mut stage = Stage::new(kills);
    println!("seed {}", stage.seed);
    let count = Arc::new(AtomicU64::new(0));
    let bystander = Subscriber::open(&stage.uri("wait=park")).unwrap();
    let observer = std::thread::spawn({
        let count = Arc::clone(&count);
        move || observe(bystander, &count)
    });
    let mut children: Vec<Child> = (0..PUBLISHERS).map(|_| stage.publisher()).collect();
    children.extend((0..2).map(|_| stage.victim()));
    let mut live: Vec<u64> = (0..PUBLISHERS as u64).collect();
    let (mut of_publishers, mut worst) = (0, Duration::ZERO);
    for _ in 0..kills {
        // A random moment, from the first instruction of a new process to the middle of a stream.
        let pause = Duration::from_micros(stage.random.below(3000));
        std::thread::park_timeout(pause);
        let chosen = usize::try_from(stage.random.below(children.len() as u64)).unwrap();
        let struck = Instant::now();
        common::kill(children.swap_remove(chosen));
        let is_publisher = chosen < PUBLISHERS;
        of_publishers += u64::from(is_publisher);
        // Publishers stay in front.
        let next = if is_publisher {
            live[chosen] = stage.sessions;
            stage.publisher()
        } else {
            stage.victim()
        };
        children.push(next);
        let last = children.len() - 1;
        children.swap(chosen, last);
        let seen = count.load(Ordering::Acquire);
        until("messages flow again", || {
            assert!(!observer.is_finished(), "the bystander gave up");
            count.load(Ordering::Acquire) > seen
        });
        worst = worst.max(struck.elapsed());
    }
    // Whoever comes after the others have closed takes one of their lanes over, and the lane of the dead stays.
    until("every publisher publishes", || {
        let started = |session: &u64| {
            stage
                .words
                .load(SESSIONS + usize::try_from(*session).unwrap())
                > 0
        };
        live.iter().all(started)
    });
    stage.words.store(STOP, 1);
    children.into_iter().for_each(common::finished);
    until("the end of the stream", || observer.is_finished());
    let mut findings = observer.join().unwrap();
    for session in 0..stage.sessions {
        let acknowledged = stage
            .words
            .load(SESSIONS + usize::try_from(session).unwrap());
        let seen = findings.seen.get(&session).copied().unwrap_or(0);
        findings.lost += acknowledged.saturating_sub(seen);
    }
    println!(
        "kills {kills} (publishers {of_publishers}, subscribers {}), messages checked {}, lost {}, torn {}, repeated {}, worst recovery {} ms",
        kills - of_publishers,
        findings.checked,
        findings.lost,
        findings.torn,
        findings.repeated,
        worst.as_millis(),
    );
    assert_eq!(
        (findings.lost, findings.torn, findings.repeated),
        (0, 0, 0),
        "seed {}",
        stage.seed
    );
    let complaints = (stage.words.load(GAPS), stage.words.load(TORN));
    assert_eq!(
        complaints,
        (0, 0),
        "gaps and torn messages of the victims, seed {}",
        stage.seed
    );
    assert!(
        !stage.place.channel("death").exists(),
        "the last one out removes the channel"
    );
    drop(stage);
    // The other test of this file runs beside this one and has a few of its own.
    until("descriptors are closed", || {
        common::descriptors() <= before + 16
    });
}

/// Counts what it receives until the end of the stream.
fn witness(uri: &str, words: &SharedWords) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    words.store(SESSIONS, 1);
    let mut scratch = Vec::new();
    let mut next = 0;
    loop {
        match subscriber.receive() {
            Ok(message) => assert_eq!(check(&message, &mut scratch), Some((7, next))),
            Err(ReceiveError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
        next += 1;
    }
    words.store(SESSIONS + 1, next);
}

#[test]
fn a_stopped_subscriber_is_waited_for_and_loses_nothing() {
    use rustix::process::Signal;
    let stage = Stage::new(0);
    let uri = stage.uri("wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let child = stage.spawn("witness", uri, 0);
    until("the witness is there", || stage.words.load(SESSIONS) == 1);
    let mut message = Vec::new();
    let mut sent = 0;
    for _ in 0..20 {
        signal(&child, Signal::STOP);
        // Far more than the ring holds, unless somebody goes on reading.
        let blocked = loop {
            fill(7, sent, &mut message);
            match publisher.publish_timeout(&message, Duration::from_millis(20)) {
                Ok(_) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(blocked, NotSent::BackPressured);
        assert_eq!(
            (publisher.stats().evicted, publisher.stats().reclaimed),
            (0, 0)
        );
        signal(&child, Signal::CONT);
        for _ in 0..1000 {
            fill(7, sent, &mut message);
            publisher.publish(&message).unwrap();
            sent += 1;
        }
    }
    publisher.close().unwrap();
    common::finished(child);
    assert_eq!(stage.words.load(SESSIONS + 1), sent);
    assert!(!stage.place.channel("death").exists());
}
