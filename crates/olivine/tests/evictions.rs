//! Durable subscribers in other processes are evicted again and again, killed or closed, and return
//! by their names. Each message is read, or reported as lost.
//!
//! `OLIVINE_EVICTIONS=10000` sets the number of evictions, a few hundred by default.

#![cfg(not(loom))]

mod common;

use crate::common::mapped::SharedWords;
use common::{
    Deadline, Other, Random, TestFolder, WATCHDOG, bridges, kill, receive, setting, spawn, until,
};
use olivine::{Bridge, Config, Durable, LinkError, OpenError, Publisher, ReceiveError, Subscriber};
use std::path::Path;

/// Bytes of the frame of a message of 8 bytes.
const FRAME: u64 = 16;
/// Channels, each with a publisher and a durable name.
const CHANNELS: u64 = 2;

/// Words that all lives of a name and its publisher share. The number of the next message that was
/// not handled.
const NEXT: usize = 0;
/// Bytes reported as lost since the last message was received.
const TOLD_SINCE: usize = 1;
/// Evictions counted by the publisher.
const EVICTIONS: usize = 2;
/// Evictions that a life of the name waited for.
const SEEN: usize = 3;
/// 1 after the last message, and the number of messages.
const STOPPED: usize = 4;
const PUBLISHED: usize = 5;
/// Lives that got the evicted error, and all lives.
const TOLD_LIVES: usize = 6;
const LIVES: usize = 7;
/// Messages that were reported as lost; missing; reported although the life before had handled
/// them; received twice.
const TOLD: usize = 8;
const MISSING: usize = 9;
const TOLD_TOO_MUCH: usize = 10;
const REPEATED: usize = 11;
/// Messages that were received.
const RECEIVED: usize = 12;
const WORDS: usize = 13;

fn add(words: &SharedWords, at: usize, more: u64) {
    words.store(at, words.load(at) + more);
}

fn text(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes: lives of a durable name, and relays.
#[test]
fn role() {
    match common::my_role().as_deref() {
        None => return,
        Some("bridge") => return bridges::role(),
        Some(_) => {}
    }
    let words = SharedWords::attach(Path::new(&text("OLIVINE_EVICTIONS_WORDS"))).unwrap();
    let uri = text("OLIVINE_EVICTIONS_URI");
    let mut random = Random(text("OLIVINE_EVICTIONS_SEED").parse().unwrap());
    while !live(&uri, &words, &mut random) {}
}

/// A message arrived. The missing messages before it must have been reported, and at most one more:
/// the message that an earlier life was handling when it ended.
fn account(words: &SharedWords, number: u64) {
    let (next, told) = (words.load(NEXT), words.load(TOLD_SINCE));
    assert_eq!(told % FRAME, 0);
    let told = told / FRAME;
    let missing = number.saturating_sub(next);
    assert!(
        (missing..=missing + 1).contains(&told),
        "{missing} messages are missing before {number}, {told} were reported"
    );
    let repeated = next.saturating_sub(number);
    assert!(repeated <= 1, "{repeated} messages came again");
    add(words, TOLD, told);
    add(words, MISSING, missing);
    add(words, TOLD_TOO_MUCH, told - missing);
    add(words, REPEATED, repeated);
    add(words, RECEIVED, 1);
    words.store(TOLD_SINCE, 0);
    words.store(NEXT, number + 1);
}

/// After the last message: whether all unhandled messages were reported as lost, `more` bytes of
/// them by this life.
fn ends_with_told(words: &SharedWords, more: u64) -> bool {
    let (next, published) = (words.load(NEXT), words.load(PUBLISHED));
    let told = (words.load(TOLD_SINCE) + more) / FRAME;
    let missing = published - next;
    if missing == 0 || !(missing..=missing + 1).contains(&told) {
        return false;
    }
    add(words, TOLD, told);
    add(words, MISSING, missing);
    add(words, TOLD_TOO_MUCH, told - missing);
    words.store(TOLD_SINCE, 0);
    words.store(NEXT, published);
    true
}

/// One life of a subscriber, from opening to its end; `true` after the last message.
fn live(uri: &str, words: &SharedWords, random: &mut Random) -> bool {
    let mut subscriber = Subscriber::open(uri).unwrap();
    add(words, LIVES, 1);
    let told = subscriber.lost_bytes();
    if let Some(Durable::LostPlace { bytes }) = subscriber.durable() {
        assert_eq!(bytes, told);
        add(words, TOLD_LIVES, 1);
    }
    add(words, TOLD_SINCE, told);
    // The first call reports the eviction, unless the life before got the error.
    let mut is_first = true;
    let mut left = 1 + random.below(300);
    let mut deadline = Deadline::new();
    let was_evicted = loop {
        let is_last = words.load(STOPPED) == 1;
        if is_last && words.load(NEXT) == words.load(PUBLISHED) {
            subscriber.unsubscribe();
            return true;
        }
        if left == 0 && !is_last {
            break false;
        }
        let received = subscriber.receive_timeout(Deadline::STEP_MAX);
        let number = received
            .map(|found| found.map(|message| u64::from_le_bytes(message[..].try_into().unwrap())));
        match number {
            Ok(Some(number)) => {
                account(words, number);
                left = left.saturating_sub(1);
                deadline = Deadline::new();
            }
            Ok(None) if is_last && ends_with_told(words, subscriber.lost_bytes() - told) => {
                subscriber.unsubscribe();
                return true;
            }
            Ok(None) => assert!(deadline.lasts(), "no message comes"),
            Err(ReceiveError::Evicted) if is_first && told > 0 => {}
            Err(ReceiveError::Evicted) => break true,
            Err(error) => panic!("{error}"),
        }
        is_first = false;
    };
    if !was_evicted {
        let seen = words.load(SEEN);
        until("an eviction", || {
            words.load(EVICTIONS) > seen || words.load(STOPPED) == 1
        });
    }
    words.store(SEEN, words.load(EVICTIONS));
    if !was_evicted && random.below(2) == 0 {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
    }
    if !was_evicted && random.below(2) == 0 {
        // The messages left before the overwritten ones. Bounded: without an eviction it may keep
        // up forever.
        for _ in 0..512 {
            let Ok(Some(message)) = subscriber.try_receive() else {
                break;
            };
            let number = u64::from_le_bytes(message[..].try_into().unwrap());
            account(words, number);
        }
    }
    // The error of this life; its position stays before its last message.
    add(words, TOLD_SINCE, subscriber.lost_bytes() - told);
    drop(subscriber);
    false
}

/// Publishes to one channel until its name was evicted often enough; returns the number of started
/// processes.
fn run(place: &TestFolder, channel: u64, evictions: u64) -> (u64, [u64; WORDS]) {
    let path = place.file(&format!("words-{channel}"));
    let words = SharedWords::create(&path, WORDS).unwrap();
    let name = format!("evicts-{channel}");
    let uri = place.uri(&name, "capacity=4KiB&slow=evict:1ms");
    let named = place.uri(&name, "name=archive");
    let mut publisher = Publisher::open(&uri).unwrap();
    // From the first message on.
    drop(Subscriber::open(&named).unwrap());
    let mut starts = 0;
    let start = |starts: &mut u64| -> Other {
        *starts += 1;
        let seed = *starts + 1_000_000 * channel;
        spawn(
            "archive",
            &[
                ("OLIVINE_EVICTIONS_URI", named.clone()),
                ("OLIVINE_EVICTIONS_WORDS", path.display().to_string()),
                ("OLIVINE_EVICTIONS_SEED", seed.to_string()),
            ],
        )
    };
    let mut child = start(&mut starts);
    let mut number = 0_u64;
    let mut deadline = Deadline::new();
    loop {
        let mut before = words.load(EVICTIONS);
        if before < evictions {
            for _ in 0..64 {
                publisher.publish(&number.to_le_bytes()).unwrap();
                number += 1;
            }
            let evicted = publisher.stats().evicted;
            words.store(EVICTIONS, evicted);
            if evicted > before {
                before = evicted;
                deadline = Deadline::new();
            }
        } else {
            words.store(PUBLISHED, number);
            words.store(STOPPED, 1);
        }
        if let Some(status) = child.try_wait().unwrap() {
            use std::os::unix::process::ExitStatusExt;
            if status.success() {
                assert_eq!(words.load(STOPPED), 1, "it ended too early");
                break;
            }
            assert_eq!(status.signal(), Some(9), "{status}: a check failed");
            child = start(&mut starts);
            deadline = Deadline::new();
        }
        let next = words.load(NEXT);
        let told = words.load(TOLD_SINCE);
        assert!(
            deadline.lasts(),
            "no eviction after {before}; {number} messages, {next} handled, \
             {told} bytes reported since"
        );
    }
    let mut found = [0; WORDS];
    for (at, word) in found.iter_mut().enumerate() {
        *word = words.load(at);
    }
    assert_eq!(found[NEXT], number, "everything was read or reported");
    // Each message once, except repeated ones.
    assert_eq!(found[RECEIVED] - found[REPEATED] + found[MISSING], number);
    (starts, found)
}

#[test]
fn evicted_durable_subscriber_learns_exactly_what_it_missed() {
    let evictions = setting("OLIVINE_EVICTIONS", 300);
    let place = TestFolder::new();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CHANNELS)
            .map(|channel| {
                let place = &place;
                scope.spawn(move || run(place, channel, evictions.div_ceil(CHANNELS)))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let sum = |at: usize| results.iter().map(|(_, found)| found[at]).sum::<u64>();
    let starts = results.iter().map(|(starts, _)| starts).sum::<u64>();
    println!(
        "{} evictions, {starts} processes, {} lives, {} of them with the evicted error; \
         {} messages published, {} received, {} missing, {} reported as lost \
         ({} of them the last message of a life), {} received twice",
        sum(EVICTIONS),
        sum(LIVES),
        sum(TOLD_LIVES),
        sum(PUBLISHED),
        sum(RECEIVED),
        sum(MISSING),
        sum(TOLD),
        sum(TOLD_TOO_MUCH),
        sum(REPEATED),
    );
    assert!(sum(EVICTIONS) >= evictions);
    assert!(sum(MISSING) > 0 && starts > CHANNELS);
    assert_eq!(sum(TOLD), sum(MISSING) + sum(TOLD_TOO_MUCH));
}

/// A relay that was evicted never started again: its lane at the destination stayed at a position
/// that the source no longer had.
#[test]
fn evicted_relay_reports_the_lost_messages_and_then_goes_on() {
    let place = TestFolder::new();
    let from = place.uri("from", "capacity=4KiB&slow=evict:1ms");
    let to = place.uri("to", "");
    let mut subscriber = Subscriber::open(&to).unwrap();
    let relay = bridges::ending(&from, &to);
    let query = "capacity=4KiB&slow=evict:1ms&subscribers=1";
    let mut publisher = Publisher::open(&place.uri("from", query)).unwrap();
    publisher.publish(b"before").unwrap();
    assert_eq!(
        receive(&mut subscriber, |message| message.to_vec()),
        b"before"
    );
    kill(relay);
    until("the eviction", || {
        publisher.publish(&[7; 512]).unwrap();
        publisher.stats().evicted > 0
    });
    let mut failures = 0;
    let (from, to) = (Config::parse(&from).unwrap(), Config::parse(&to).unwrap());
    loop {
        // A relay that fails at once does not start.
        let relay = Bridge::start(&from, &to, false);
        if failures == 0 {
            // Without this, the first start reports the eviction, and the second one the lane.
            let lost = relay.as_ref().map(|_| ()).unwrap_err();
            let is_lost = matches!(lost, OpenError::Link(LinkError::Lost { .. }));
            assert!(is_lost, "{lost:?}");
        }
        publisher.publish(b"after").unwrap();
        let works = relay.is_ok_and(|relay| {
            until("the relay works or fails", || {
                relay.has_ended() || relay.status().messages > 0
            });
            relay.stop(WATCHDOG).is_ok()
        });
        if works {
            break;
        }
        let told = subscriber.receive_timeout(WATCHDOG).map(|_| ());
        assert!(matches!(told, Err(ReceiveError::Failed(_))), "{told:?}");
        failures += 1;
        // The publisher may evict it once more.
        assert!(failures <= 2, "it never goes on");
    }
    assert!(failures > 0);
    // Before it come those that were not overwritten.
    until("the new message comes", || {
        receive(&mut subscriber, |message| message.to_vec()) == b"after"
    });
}
