//! Waiting: every mix of strategies, and the descriptor for event loops.

#![cfg(not(loom))]

mod common;

use common::numbers::{LONG, SHORT, expect, number, send};
use common::{TestFolder, until};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::time::Duration;

#[test]
fn every_mix_of_wait_strategies_delivers() {
    let place = TestFolder::new();
    let strategies = ["park", "yield", "adaptive", "spin"];
    for sends in strategies {
        let uri = |wait| place.uri("mix", &format!("capacity=4KiB&wait={wait}"));
        let readers: Vec<_> = strategies[..3]
            .iter()
            .map(|wait| {
                let mut subscriber = Subscriber::open(&uri(*wait)).unwrap();
                std::thread::spawn(move || {
                    expect(&mut subscriber, 0..2_000);
                    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
                })
            })
            .collect();
        let mut publisher = Publisher::open(&uri(sends)).unwrap();
        send(&mut publisher, 0..2_000);
        publisher.close().unwrap();
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    }
}

/// Whether a descriptor becomes readable within `timeout`.
fn readable(subscriber: &mut Subscriber, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let descriptor = subscriber.event_fd().unwrap();
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).unwrap();
    poll(&mut set, Some(&timeout)).unwrap() == 1
}

/// Polls until nothing is left, which arms the descriptor again.
fn drain(subscriber: &mut Subscriber) -> Vec<u32> {
    let mut got = Vec::new();
    while subscriber
        .poll(|message| got.push(number(&message)), 100)
        .unwrap()
        > 0
    {}
    got
}

#[test]
fn event_loop_is_notified_of_messages() {
    let place = TestFolder::new();
    let uri = place.uri("events", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut got = Vec::new();
    for round in 0..50 {
        send(&mut publisher, round * 3..round * 3 + 3);
        while got.len() < (round as usize + 1) * 3 {
            assert!(readable(&mut subscriber, LONG));
            got.extend(drain(&mut subscriber));
        }
    }
    assert_eq!(got, (0..150).collect::<Vec<_>>());
    assert!(!readable(&mut subscriber, SHORT), "nothing to read");
    // The end is an event, too.
    publisher.close().unwrap();
    assert!(readable(&mut subscriber, LONG));
    until("the end is found", || {
        matches!(subscriber.poll(|_| (), 1), Err(ReceiveError::Closed))
    });
}

#[test]
fn event_loop_that_also_polls_is_notified() {
    let place = TestFolder::new();
    let uri = place.uri("both", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    // Zeros, so that a position of the previous lap looks empty.
    let zeros = [0; 256];
    // The new publisher is an event, too.
    assert_eq!(subscriber.poll(|_| {}, 100).unwrap(), 0);
    for round in 0..300 {
        assert!(!readable(&mut subscriber, Duration::ZERO), "all was read");
        // More than a lap, read without the descriptor.
        for message in 0..20 {
            publisher
                .publish(&zeros[..24 + (round + message) % 232])
                .unwrap();
            let mut count = 0;
            while subscriber.poll(|_| count += 1, 100).unwrap() > 0 {}
            assert_eq!(count, 1);
        }
        publisher.publish(&zeros).unwrap();
        assert!(readable(&mut subscriber, LONG), "round {round}");
        while subscriber.poll(|_| {}, 100).unwrap() > 0 {}
    }
}

#[test]
fn event_loop_sleeps_after_one_of_two_publishers_closed() {
    let uri = "inproc://half-closed?capacity=4KiB";
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut stays = Publisher::open(uri).unwrap();
    let mut goes = Publisher::open(uri).unwrap();
    send(&mut stays, 0..1);
    send(&mut goes, 0..1);
    assert!(readable(&mut subscriber, LONG));
    goes.close().unwrap();
    let mut looks = 0;
    until("it rests", || {
        drain(&mut subscriber);
        looks += 1;
        assert!(looks < 100, "the descriptor is always readable");
        !readable(&mut subscriber, SHORT)
    });
    send(&mut stays, 1..2);
    assert!(readable(&mut subscriber, LONG));
    stays.close().unwrap();
    assert!(readable(&mut subscriber, LONG));
}

#[test]
fn membarrier_is_refused_on_request() {
    common::idle::membarrier_is_as_expected();
}

#[test]
fn tests_pass_without_membarrier() {
    common::idle::again_without_membarrier("tests_pass_without_membarrier");
}

/// Storms of sleeps and wake-ups whose naps have no time limit, so that a lost wake-up is a hang,
/// not a delay.
#[cfg(feature = "points")]
mod storms {
    use super::*;
    use crate::common::mapped::SharedWords;
    use olivine::AsyncPublisher;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    const ROUNDS: u32 = 20_000;
    /// On a busy machine a storm has only a few hundred wake-ups, and a dropped one does no harm if
    /// its sleeper is not in the kernel yet.
    const DROP_ONE_IN: Option<u64> = Some(20);

    /// A storm in its own process, which stores its progress.
    pub(super) fn run() {
        let Some(role) = common::my_role() else {
            return;
        };
        let setting = |name: &str| std::env::var(name).expect("set by the parent");
        let words = SharedWords::attach(setting("OLIVINE_STORM_WORDS").as_ref()).unwrap();
        let uri = setting("OLIVINE_STORM_URI");
        match role.as_str() {
            // The ring is full again and again, and sometimes empty.
            "room" => {
                let mut readers: Vec<_> = (0..3).map(|_| Subscriber::open(&uri).unwrap()).collect();
                let mut publisher = Publisher::open(&uri).unwrap();
                std::thread::scope(|scope| {
                    for reader in &mut readers {
                        scope.spawn(|| expect(reader, 0..ROUNDS));
                    }
                    for n in 0..ROUNDS {
                        send(&mut publisher, n..n + 1);
                        words.store(0, u64::from(n) + 1);
                    }
                });
            }
            // Waits for room that other calls end.
            "given_up" => {
                let mut reader = Subscriber::open(&uri).unwrap();
                let mut publisher = AsyncPublisher::new(Publisher::open(&uri).unwrap()).unwrap();
                let mut context = Context::from_waker(Waker::noop());
                let (mut sent, mut given_up) = (0_u32, 0);
                while given_up < ROUNDS {
                    if pin!(publisher.publish(&sent.to_le_bytes()))
                        .poll(&mut context)
                        .is_ready()
                    {
                        sent += 1;
                        continue;
                    }
                    // Some of the waits sleep by then.
                    for _ in 0..given_up % 4 {
                        std::thread::yield_now();
                    }
                    smol::block_on(publisher.get_mut()).unwrap();
                    given_up += 1;
                    words.store(0, u64::from(given_up));
                    if given_up % 8 == 0 {
                        reader.try_receive().unwrap();
                        reader.release();
                    }
                }
            }
            // A message of each round is awaited asleep.
            "turns" => {
                let back = uri.replace("storm", "back");
                let mut there = Subscriber::open(&uri).unwrap();
                let mut here = Subscriber::open(&back).unwrap();
                let mut asks = Publisher::open(&uri).unwrap();
                let mut answers = Publisher::open(&back).unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        for n in 0..ROUNDS {
                            assert_eq!(number(&there.receive().unwrap()), n);
                            send(&mut answers, n..n + 1);
                        }
                    });
                    for n in 0..ROUNDS {
                        outlast_looks();
                        send(&mut asks, n..n + 1);
                        assert_eq!(number(&here.receive().unwrap()), n);
                        words.store(0, u64::from(n) + 1);
                    }
                });
            }
            other => panic!("no role {other}"),
        }
    }

    /// Lasts longer than a participant with `park` looks before it sleeps: 25 us.
    fn outlast_looks() {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
    }

    /// Runs a storm; returns whether it finished.
    fn ends(role: &str, drop_wakes: Option<u64>) -> bool {
        let place = TestFolder::new();
        let words = SharedWords::create(&place.file("words"), 1).unwrap();
        let mut variables = vec![
            (
                "OLIVINE_STORM_URI",
                place.uri("storm", "capacity=4KiB&wait=park"),
            ),
            (
                "OLIVINE_STORM_WORDS",
                place.file("words").display().to_string(),
            ),
            ("OLIVINE_NAPS", "off".to_owned()),
        ];
        variables.extend(drop_wakes.map(|every| ("OLIVINE_DROP_WAKES", every.to_string())));
        let mut child = common::spawn(role, &variables);
        let (mut progress, mut deadline) = (0, common::Deadline::new());
        loop {
            if let Some(end) = child.try_wait().unwrap() {
                assert!(end.success(), "{role}: {end}");
                return true;
            }
            let now = words.load(0);
            if now != progress {
                (progress, deadline) = (now, common::Deadline::new());
            }
            // A thousand times the duration of a wake-up.
            if !deadline.lasts() || (drop_wakes.is_some() && deadline.waited() > LONG / 20) {
                return false;
            }
        }
    }

    #[test]
    fn no_wakeup_is_lost() {
        assert!(ends("room", None), "the room storm hangs");
        assert!(ends("turns", None), "the storm of turns hangs");
        assert!(ends("given_up", None), "the storm of ended waits hangs");
    }

    #[test]
    fn dropped_wakeups_are_detected() {
        for role in ["room", "turns", "given_up"] {
            assert!(
                !ends(role, DROP_ONE_IN),
                "{role}: a wake-up was dropped and not missed"
            );
        }
    }
}

/// The other processes.
#[cfg(feature = "points")]
#[test]
fn role() {
    storms::run();
}
