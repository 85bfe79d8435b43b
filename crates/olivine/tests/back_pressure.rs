//! Back pressure: visible while it lasts, with the slow subscriber, and bounded where the channel
//! says so.
//!
//! `OLIVINE_SLOW_MS` is the time after which a slow subscriber is evicted,
//! `OLIVINE_SLOW_SUBSCRIBERS` the number of subscribers.

#![cfg(not(loom))]

mod common;

use crate::common::mapped::SharedWords;
use common::{Other, TestFolder, WATCHDOG, kill, setting, signal, spawn, until};
use olivine::admin::{self, ChannelInfo, ProcessState};
use olivine::{Config, NotSent, Publisher, Subscriber};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shared word: the number of subscribers opened by the other process, or 1 once it waits for room.
const READY: usize = 0;

fn text(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let words = SharedWords::attach(text("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    let uri = text("OLIVINE_DEATH_URI");
    if role == "held" {
        let mut publisher = Publisher::open(&uri).unwrap();
        fill(&mut publisher);
        words.store(READY, 1);
        let _ = publisher.publish(&[0; 8]);
        return;
    }
    let count: u64 = role.parse().expect("how many");
    let subscribers: Vec<_> = (0..count)
        .map(|_| Subscriber::open(&uri).unwrap())
        .collect();
    words.store(READY, subscribers.len() as u64);
    loop {
        std::thread::park();
    }
}

fn start(place: &TestFolder, role: &str, uri: &str) -> Other {
    let words = place.file("words").display().to_string();
    let variables = [
        ("OLIVINE_DEATH_URI", uri.to_owned()),
        ("OLIVINE_DEATH_WORDS", words),
    ];
    spawn(role, &variables)
}

fn look(uri: &str) -> ChannelInfo {
    admin::inspect(&Config::parse(uri).unwrap()).unwrap()
}

/// Sends until the ring is full.
fn fill(publisher: &mut Publisher) -> u64 {
    let mut sent = 0;
    loop {
        match publisher.try_publish(&[0; 8]) {
            Ok(_) => sent += 1,
            Err(NotSent::BackPressured) => return sent,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn waiting_publisher_shows_time_and_slow_subscriber() {
    let place = TestFolder::new();
    let uri = place.uri("grows", "capacity=4KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut other = Subscriber::open(&uri).unwrap();
    let mut slow = Subscriber::open(&uri).unwrap();
    let sent = fill(&mut publisher);
    while other.try_receive().unwrap().is_some() {}
    std::thread::scope(|scope| {
        let publishing = scope.spawn(move || {
            publisher.publish(&[0; 8]).unwrap();
            publisher
        });
        let blocked = || look(&uri).publishers[0].clone();
        until("it waits", || blocked().blocked_by == Some(1));
        let first = blocked();
        assert!(first.blocked_ns > 0 && first.back_pressure_ns >= first.blocked_ns);
        until("the time grows", || {
            blocked().blocked_ns > first.blocked_ns + 1_000_000
        });
        for _ in 0..sent {
            slow.receive().unwrap();
        }
        assert!(slow.try_receive().is_ok());
        slow.release();
        let publisher = publishing.join().unwrap();
        let after = blocked();
        assert_eq!((after.blocked_ns, after.blocked_by), (0, None));
        assert!(after.back_pressure_ns > first.blocked_ns + 1_000_000);
        assert_eq!(publisher.stats().back_pressure_ns, after.back_pressure_ns);
    });
}

#[test]
fn given_up_message_counts_as_back_pressure() {
    let place = TestFolder::new();
    let uri = place.uri("gave-up", "capacity=4KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let _slow = Subscriber::open(&uri).unwrap();
    while publisher.try_publish(&[0; 8]).is_ok() {}
    let before = publisher.stats().back_pressure_ns;
    let timeout = Duration::from_millis(20);
    let gave_up = publisher.publish_timeout(&[0; 8], timeout);
    assert_eq!(gave_up, Err(NotSent::BackPressured));
    let counted = publisher.stats().back_pressure_ns;
    assert!(u128::from(counted - before) >= timeout.as_nanos());
    // It no longer waits: nothing is counted until its next attempt.
    let seen = look(&uri).publishers[0].clone();
    assert_eq!((seen.blocked_ns, seen.back_pressure_ns), (0, counted));
    assert_eq!(publisher.stats().back_pressure_ns, counted);
    assert!(publisher.try_publish(&[0; 8]).is_err());
    until("it counts again", || {
        publisher.stats().back_pressure_ns > counted
    });
    assert_eq!(publisher.stats().back_pressure_count, 1, "it is one wait");
}

#[test]
fn publisher_that_tries_again_shows_the_time_since_it_had_room() {
    let place = TestFolder::new();
    let uri = place.uri("again", "capacity=4KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let _slow = Subscriber::open(&uri).unwrap();
    let shown = || look(&uri).publishers[0].clone();
    let mut counted = 0;
    while publisher.try_publish(&[0; 1000]).is_ok() {}
    for _ in 0..3 {
        let gave_up = publisher.publish_timeout(&[0; 1000], Duration::from_millis(2));
        assert_eq!(gave_up, Err(NotSent::BackPressured));
        assert!(publisher.try_publish(&[0; 1000]).is_err());
        let again = shown();
        assert!(again.blocked_ns >= counted + 2_000_000, "{again:?}");
        // Nothing is counted twice.
        assert_eq!(again.back_pressure_ns, again.blocked_ns);
        counted = again.blocked_ns;
    }
    // A message that was sent meanwhile had room: the time begins anew.
    let gave_up = publisher.publish_timeout(&[0; 1000], Duration::ZERO);
    assert_eq!(gave_up, Err(NotSent::BackPressured));
    publisher.publish(&[0; 8]).unwrap();
    assert!(publisher.try_publish(&[0; 1000]).is_err());
    let anew = shown();
    assert!(
        anew.back_pressure_ns >= anew.blocked_ns + counted,
        "{anew:?}"
    );
}

#[test]
fn failed_offer_counts_as_back_pressure() {
    let place = TestFolder::new();
    let uri = place.uri("offers", "capacity=4KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let _slow = Subscriber::open(&uri).unwrap();
    while publisher.try_publish(&[0; 8]).is_ok() {}
    let first = look(&uri).publishers[0].clone();
    until("the time grows", || {
        look(&uri).publishers[0].back_pressure_ns > first.back_pressure_ns
    });
    assert_eq!(look(&uri).publishers[0].blocked_by, Some(0));
    drop(publisher);
    let closed = look(&uri).publishers[0].clone();
    assert!(closed.back_pressure_ns > first.back_pressure_ns);
    assert_eq!((closed.blocked_ns, closed.blocked_by), (0, None));
}

#[test]
fn dead_publisher_is_not_shown_as_waiting() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let uri = place.uri("died", "capacity=4KiB");
    let slow = Subscriber::open(&uri).unwrap();
    let child = start(&place, "held", &uri);
    until("it waits", || {
        words.load(READY) == 1 && look(&uri).publishers[0].blocked_ns > 0
    });
    kill(child);
    let dead = look(&uri).publishers[0].clone();
    assert_eq!((dead.blocked_ns, dead.blocked_by), (0, None));
    drop(slow);
    let successor = Publisher::open(&uri).unwrap();
    assert_eq!(look(&uri).publishers[0].blocked_ns, 0);
    drop(successor);
}

#[test]
fn stopped_subscriber_is_shown_as_stopped() {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let uri = place.uri("stopped", "capacity=4KiB");
    let _publisher = Publisher::open(&uri).unwrap();
    let child = start(&place, "1", &uri);
    until("it is there", || words.load(READY) == 1);
    let state = || look(&uri).subscribers[0].process;
    assert_eq!(state(), ProcessState::Running);
    signal(&child, Signal::STOP);
    until("it is seen to be stopped", || {
        state() == ProcessState::Stopped
    });
    signal(&child, Signal::CONT);
    until("it is seen to run", || state() == ProcessState::Running);
    kill(child);
    assert_eq!(state(), ProcessState::Unknown);
}

/// If the pid in a slot is not that of a participant, nothing is reported about that process.
#[test]
fn reused_pid_is_not_shown_as_participant() {
    use std::os::unix::fs::FileExt as _;
    let place = TestFolder::new();
    let uri = place.uri("stranger", "capacity=4KiB&publishers_max=1");
    let _subscriber = Subscriber::open(&uri).unwrap();
    // Words of the control file, see `docs/layout.md`: the pid in slot 0.
    let pid_of_slot = (512 + 1) * 8;
    let control = std::fs::File::options()
        .write(true)
        .open(place.channel("stranger").join("control"))
        .unwrap();
    control
        .write_all_at(&1_u64.to_le_bytes(), pid_of_slot)
        .unwrap();
    let found = look(&uri).subscribers[0].clone();
    assert_eq!((found.pid, found.process), (1, ProcessState::Unknown));
}

/// The eviction time of the tests below.
fn bound() -> Duration {
    Duration::from_millis(setting("OLIVINE_SLOW_MS", 200))
}

/// Most that a message waits: a quarter above the eviction time.
fn most() -> Duration {
    bound() + bound() / 4
}

/// Time that this thread was ready to run and had no processor; zero if the kernel does not count
/// it.
fn unscheduled() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_ascii_whitespace().nth(1);
    Duration::from_nanos(nanos.map_or(0, |nanos| nanos.parse().unwrap()))
}

/// Waits of a publisher, without the time that its thread had no processor.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    longest: Duration,
    /// That of all messages that waited longer than a millisecond.
    total: Duration,
    /// Longest time that another thread of this process found itself without a processor.
    gap: Duration,
    /// Sum of these times.
    gaps: Duration,
}

impl Waits {
    /// The machine took processors away for so long that a wait beyond the bound means nothing.
    fn is_disturbed(&self) -> bool {
        self.gap > bound() / 8 || self.gaps > bound() / 4
    }
}

/// Publishes far more than the ring holds.
fn publish_laps(publisher: &mut Publisher, messages: u64) -> Waits {
    let step = Duration::from_millis(1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pulse = scope.spawn(|| {
            let (mut gap, mut gaps) = (Duration::ZERO, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                std::thread::park_timeout(step);
                let slept = started.elapsed();
                gap = gap.max(slept);
                // A timer of an idle machine is late by less than the step.
                gaps += slept.saturating_sub(2 * step);
            }
            (gap, gaps)
        });
        let mut waits = Waits::default();
        for _ in 0..messages {
            let (started, before) = (Instant::now(), unscheduled());
            publisher.publish_timeout(&[7; 120], WATCHDOG).unwrap();
            let waited = started.elapsed().saturating_sub(unscheduled() - before);
            waits.longest = waits.longest.max(waited);
            if waited > step {
                waits.total += waited;
            }
        }
        stop.store(true, Ordering::Relaxed);
        (waits.gap, waits.gaps) = pulse.join().unwrap();
        waits
    })
}

/// Runs a scene that returns a wait, until one is within the bound. A wait beyond it fails, unless
/// the machine took processors away meanwhile.
fn waits_within_bound(scene: impl Fn() -> (Duration, Waits)) {
    for _ in 0..5 {
        let (waited, waits) = scene();
        if waited <= most() {
            return;
        }
        assert!(
            waits.is_disturbed(),
            "{waited:?}; at most {:?}: {waits:?}",
            most()
        );
    }
    common::skip("the machine took processors away in each of five runs: no wait could be judged");
}

/// `count` silent subscribers each have a different position: the publisher waits for one eviction
/// time, not for each.
fn silent_subscribers_cost_one_eviction_time(uri: &str, count: u32) -> (Duration, Waits) {
    let mut publisher = Publisher::open(uri).unwrap();
    let silent: Vec<_> = (0..count)
        .map(|_| {
            let subscriber = Subscriber::open(uri).unwrap();
            publisher.publish(&[7; 120]).unwrap();
            subscriber
        })
        .collect();
    let waits = publish_laps(&mut publisher, 2000);
    let stats = publisher.stats();
    assert_eq!(stats.evicted, u64::from(count));
    let waited = Duration::from_nanos(stats.back_pressure_ns);
    println!(
        "{count} silent subscribers, evicted after {:?}: waited {waited:?}, {waits:?}",
        bound()
    );
    assert!(waited >= bound(), "{waited:?}");
    // Later evictions take a few milliseconds each, not an eviction time each.
    assert!(
        waits.total < 2 * bound() || waits.is_disturbed(),
        "{waits:?}"
    );
    drop(silent);
    (waits.longest, waits)
}

#[test]
fn silent_subscribers_share_one_eviction_clock() {
    let place = TestFolder::new();
    let slow = format!(
        "capacity=64KiB&wait=park&slow=evict:{}ms",
        bound().as_millis()
    );
    let uri = place.uri("silent", &slow);
    waits_within_bound(|| silent_subscribers_cost_one_eviction_time(&uri, 20));
    let sealed = format!("shm+fd://{}?{slow}", place.file("socket").display());
    waits_within_bound(|| silent_subscribers_cost_one_eviction_time(&sealed, 19));
}

#[test]
fn no_message_waits_longer_than_the_eviction_time() {
    waits_within_bound(|| {
        let waits = subscribers_that_do_not_keep_up();
        (waits.longest, waits)
    });
}

/// Silent, slow, absent and stopped subscribers together.
fn subscribers_that_do_not_keep_up() -> Waits {
    let place = TestFolder::new();
    let words = SharedWords::create(&place.file("words"), 1).unwrap();
    let each = setting("OLIVINE_SLOW_SUBSCRIBERS", 100) / 4;
    let query = format!(
        "capacity=16KiB&subscribers_max=256&wait=park&slow=evict:{}ms",
        bound().as_millis()
    );
    let uri = place.uri("all", &query);
    let mut publisher = Publisher::open(&uri).unwrap();
    let stopped = start(&place, &each.to_string(), &uri);
    until("they are there", || words.load(READY) == each);
    signal(&stopped, Signal::STOP);
    let mut silent = Vec::new();
    let mut crawling = Vec::new();
    for n in 0..each {
        silent.push(Subscriber::open(&uri).unwrap());
        crawling.push(Subscriber::open(&uri).unwrap());
        drop(Subscriber::open(&format!("{uri}&name=absent-{n}")).unwrap());
        publisher.publish(&[7; 120]).unwrap();
    }
    let stop = AtomicBool::new(false);
    let waits = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for one in &mut crawling {
                    // A message, or the evicted error.
                    let _ = one.try_receive().map(|_| ());
                    one.release();
                }
                std::thread::park_timeout(bound() / 2);
            }
        });
        let waits = publish_laps(&mut publisher, 130);
        stop.store(true, Ordering::Relaxed);
        waits
    });
    let stats = publisher.stats();
    println!(
        "{} subscribers that do not keep up, evicted after {:?}: {waits:?}, {} waits, {:?} in all, \
         {} evicted",
        4 * each,
        bound(),
        stats.back_pressure_count,
        Duration::from_nanos(stats.back_pressure_ns),
        stats.evicted,
    );
    assert!(stats.evicted >= 3 * each, "{stats:?}");
    kill(stopped);
    // Each absent name gets the evicted error.
    for n in 0..each {
        let again = Subscriber::open(&format!("{uri}&name=absent-{n}")).unwrap();
        assert!(again.lost_bytes() > 0);
        again.unsubscribe();
    }
    waits
}
