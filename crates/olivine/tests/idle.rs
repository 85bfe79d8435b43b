//! The cost of waiting: a parked idle participant wakes up at most once a second, and passes no
//! barrier. And what long naps must not hide: a death between a store and its wake-up is detected
//! without them.

#![cfg(not(loom))]

mod common;

use crate::common::mapped::SharedWords;
use common::idle::wakeups;
use common::numbers::{fill, number, send};
use common::{TestFolder, finished, spawn, until};
use olivine::{Publisher, Subscriber};
use std::time::Duration;

/// Length of a count.
const LONG: Duration = Duration::from_secs(3);

/// Words between a test and its other process: it is ready; wake-ups; seconds.
const READY: usize = 0;
const COUNT: usize = 1;
const SECONDS: usize = 2;

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let setting = |name: &str| std::env::var(name).expect("set by the parent");
    let uri = setting("OLIVINE_IDLE_URI");
    let words = SharedWords::attach(setting("OLIVINE_IDLE_WORDS").as_ref()).unwrap();
    let count = || {
        let (count, seconds) = wakeups(LONG);
        words.store(COUNT, count);
        words.store(SECONDS, seconds);
    };
    match role.as_str() {
        "subscriber" => {
            let mut subscriber = Subscriber::open(&uri).unwrap();
            let waits = std::thread::spawn(move || number(&subscriber.receive().unwrap()));
            count();
            words.store(READY, 1);
            assert_eq!(waits.join().unwrap(), 7);
        }
        "subscriber in turns" => {
            let mut subscriber = Subscriber::open(&uri).unwrap();
            let turn = Duration::from_millis(400);
            let waits = std::thread::spawn(move || {
                loop {
                    if let Some(message) = subscriber.receive_timeout(turn).unwrap() {
                        return number(&message);
                    }
                }
            });
            count();
            words.store(READY, 1);
            assert_eq!(waits.join().unwrap(), 7);
        }
        "event loop" => {
            let mut subscriber = Subscriber::open(&uri).unwrap();
            assert_eq!(subscriber.poll(|_| (), 1).unwrap(), 0);
            let descriptor = subscriber.event_fd().unwrap();
            let descriptor = descriptor.try_clone_to_owned().unwrap();
            count();
            words.store(READY, 1);
            let mut set = [rustix::event::PollFd::new(
                &descriptor,
                rustix::event::PollFlags::IN,
            )];
            assert_eq!(rustix::event::poll(&mut set, None).unwrap(), 1);
        }
        "publisher" => {
            let mut publisher = Publisher::open(&uri).unwrap();
            fill(&mut publisher);
            let waits = std::thread::spawn(move || publisher.publish(b"more").unwrap());
            count();
            words.store(READY, 1);
            waits.join().unwrap();
        }
        #[cfg(feature = "points")]
        other => deaths::role(other, &uri, &words),
        #[cfg(not(feature = "points"))]
        other => panic!("no role {other}"),
    }
}

fn other(role: &str, uri: &str, place: &TestFolder, more: &[(&str, &str)]) -> common::Other {
    let mut variables = vec![
        ("OLIVINE_IDLE_URI", uri.to_owned()),
        (
            "OLIVINE_IDLE_WORDS",
            place.file("words").display().to_string(),
        ),
    ];
    variables.extend(
        more.iter()
            .map(|(name, value)| (*name, (*value).to_owned())),
    );
    spawn(role, &variables)
}

/// Lets `role` wait until it has counted, ends its wait, and asserts how often it woke up.
fn costs_one_wakeup_a_second(role: &str) {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 4).unwrap();
    let uri = place.uri("idle", "capacity=4KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut reader = (role == "publisher").then(|| Subscriber::open(&uri).unwrap());
    let mut child = other(role, &uri, &place, &[]);
    until("it has counted", || words.load(READY) == 1);
    let (count, seconds) = (words.load(COUNT), words.load(SECONDS));
    println!("{role}: {count} wake-ups in {seconds} s, no barrier");
    match &mut reader {
        Some(reader) => until("it goes on", || {
            reader.poll(|_| (), 1000).unwrap();
            child.try_wait().unwrap().is_some()
        }),
        None => send(&mut publisher, 7..8),
    }
    finished(child);
    assert!(count <= seconds, "{role}: {count} wake-ups in {seconds} s");
}

#[test]
fn idle_subscriber_wakes_once_a_second_without_barrier() {
    costs_one_wakeup_a_second("subscriber");
}

#[test]
fn idle_event_loop_wakes_once_a_second_without_barrier() {
    costs_one_wakeup_a_second("event loop");
}

#[test]
fn publisher_waiting_for_room_wakes_once_a_second_without_barrier() {
    costs_one_wakeup_a_second("publisher");
}

/// A program that does other work periodically: its waits end by time, and raise no flag anew.
#[test]
fn subscriber_with_timeouts_passes_no_barrier() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 4).unwrap();
    let uri = place.uri("turns", "capacity=4KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let child = other("subscriber in turns", &uri, &place, &[]);
    until("it has counted", || words.load(READY) == 1);
    send(&mut publisher, 7..8);
    finished(child);
    let (count, seconds) = (words.load(COUNT), words.load(SECONDS));
    // Waits of 0.4 s each.
    assert!(count <= seconds * 3, "{count} wake-ups in {seconds} s");
}

/// Deaths between a store and its wake-up. The sleeper has no time limit: only a wake-up ends its
/// sleep.
#[cfg(feature = "points")]
mod deaths {
    use super::*;
    use olivine::LaneState;
    use std::time::Instant;

    /// Monotonic time of the last receipt, in nanoseconds.
    const RECEIVED: usize = 3;

    const FOREVER: (&str, &str) = ("OLIVINE_NAPS", "off");

    pub(super) fn role(role: &str, uri: &str, words: &SharedWords) {
        match role {
            "sleeper" => {
                let mut subscriber = Subscriber::open(uri).unwrap();
                for expected in 0..2 {
                    words.store(READY, u64::from(expected) + 1);
                    assert_eq!(number(&subscriber.receive().unwrap()), expected);
                }
                words.store(RECEIVED, now_ns());
            }
            "until 99" => {
                let mut subscriber = Subscriber::open(uri).unwrap();
                while number(&subscriber.receive().unwrap()) != 99 {}
            }
            "victim" => {
                let mut publisher = Publisher::open(uri).unwrap();
                send(&mut publisher, 0..1);
                words.store(COUNT, 1);
                until("to go on", || words.load(SECONDS) == 1);
                send(&mut publisher, 1..2);
                panic!("alive");
            }
            "held back" => {
                let mut publisher = Publisher::open(uri).unwrap();
                fill(&mut publisher);
                words.store(READY, 1);
                publisher.publish(b"more").unwrap();
            }
            "holder" => {
                let mut subscriber = Subscriber::open(uri).unwrap();
                words.store(COUNT, 1);
                until("to go on", || words.load(SECONDS) == 1);
                while subscriber.poll(|_| (), 1000).is_ok() {}
                panic!("alive");
            }
            other => panic!("no role {other}"),
        }
    }

    /// Whether a process watches others, which it does right before its sleep.
    fn sleeps_and_watches(child: &common::Other) -> bool {
        let tasks = format!("/proc/{}/task", child.id());
        let names = std::fs::read_dir(tasks).unwrap().flatten();
        names
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .any(|name| name.trim() == "olivine-warden")
    }

    /// Monotonic time in nanoseconds: one clock for all processes.
    fn now_ns() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
    }

    /// `OLIVINE_WITHHELD` deaths. Prints how long after the death the message was received: from
    /// the time at which the lock of the publisher is seen free. A busy machine makes it longer, so
    /// no time is asserted.
    #[test]
    fn message_of_a_publisher_dead_before_its_wakeup_is_received() {
        let mut withheld_us = Vec::new();
        for _ in 0..common::setting("OLIVINE_WITHHELD", 3) {
            let place = TestFolder::new();
            let words = SharedWords::create(&place.file("words"), 4).unwrap();
            let uri = place.uri("silent", "capacity=4KiB&wait=park");
            let mut observer = Subscriber::open(&uri).unwrap();
            let sleeper = other("sleeper", &uri, &place, &[FOREVER]);
            until("it is there", || words.load(READY) == 1);
            let die_at = ("OLIVINE_DIE_AT", "publish.shown:2");
            let mut victim = other("victim", &uri, &place, &[die_at]);
            until("one is received", || words.load(READY) == 2);
            until("it sleeps", || sleeps_and_watches(&sleeper));
            assert_eq!(number(&observer.receive().unwrap()), 0);
            words.store(SECONDS, 1);
            let start = Instant::now();
            while observer.inspect_lanes()[0].state != LaneState::Dead {
                assert!(start.elapsed() < common::WATCHDOG, "it does not die");
            }
            let free_ns = now_ns();
            assert!(!victim.wait().unwrap().success());
            finished(sleeper);
            withheld_us.push(words.load(RECEIVED).saturating_sub(free_ns) / 1000);
        }
        withheld_us.sort_unstable();
        let at = |share: usize| withheld_us[(withheld_us.len() - 1) * share / 100];
        println!(
            "{} deaths between a commit and its wake-up: received {} us after the lock was free \
             (median), {} us (99 %), {} us (longest)",
            withheld_us.len(),
            at(50),
            at(99),
            at(100)
        );
    }

    #[test]
    fn publisher_continues_after_its_reader_died_before_the_wakeup() {
        let place = TestFolder::new();
        for die_at in ["release.stored:1", "wake.word_taken:1"] {
            let words = SharedWords::create(&place.file("words"), 4).unwrap();
            let uri = place.uri("held", "capacity=4KiB&wait=park");
            let mut victim = other("holder", &uri, &place, &[("OLIVINE_DIE_AT", die_at)]);
            until("it is there", || words.load(COUNT) == 1);
            let publisher = other("held back", &uri, &place, &[FOREVER]);
            until("it is held back", || words.load(READY) == 1);
            until("it sleeps", || sleeps_and_watches(&publisher));
            words.store(SECONDS, 1);
            until("it died", || victim.try_wait().unwrap().is_some());
            finished(publisher);
            std::fs::remove_file(place.file("words")).unwrap();
        }
    }

    /// A waker that dies with some of the park words taken must not hide the other sleepers from
    /// the next waker.
    #[test]
    fn sleepers_wake_after_a_waker_died_midway() {
        let place = TestFolder::new();
        for die_at in ["wake.word_taken:1", "wake.words_taken:1"] {
            let words = SharedWords::create(&place.file("words"), 4).unwrap();
            let uri = place.uri("half", "capacity=4KiB&wait=park");
            let mut survivor = Publisher::open(&uri).unwrap();
            let sleepers = [(); 3].map(|()| other("until 99", &uri, &place, &[FOREVER]));
            let wanted = Some(common::WATCHDOG);
            assert!(survivor.wait_for_subscribers(3, wanted).unwrap());
            until("they sleep", || sleepers.iter().all(sleeps_and_watches));
            // It wakes the sleepers because it has opened, and dies during that.
            let mut victim = other("victim", &uri, &place, &[("OLIVINE_DIE_AT", die_at)]);
            until("it died", || victim.try_wait().unwrap().is_some());
            assert_eq!(words.load(COUNT), 0, "alive");
            send(&mut survivor, 99..100);
            sleepers.into_iter().for_each(finished);
            std::fs::remove_file(place.file("words")).unwrap();
        }
    }
}
