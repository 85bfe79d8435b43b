//! A hostile participant overwrites all memory that it can write, while its victims continue. They
//! stay inside their memory, every call returns, no victim panics, and every failure is a named
//! error.
//!
//! `OLIVINE_HOSTILE_MS` is the length of each attack. `OLIVINE_HOSTILE_WRITES` is the least number
//! of words that each overwrites. `OLIVINE_SEED` repeats its choices. `cargo xtask ci --deep --only
//! hostile` runs it with the victims under AddressSanitizer.

#![cfg(not(loom))]

mod common;
#[path = "../src/fuzz_checks/refusals.rs"]
mod refusals;

use crate::common::mapped::SharedWords;
use common::mapped::{Mapped, nonsense};
use common::planted::verdict;
use common::{Deadline, Random, TestFolder, setting, until};
use olivine::{
    Config, LinkError, MessageType, NotSent, OpenError, Publisher, ReceiveError, Subscriber,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared words: the order to stop, and the number of overwritten words.
const STOP: usize = 0;
const WRITTEN: usize = 1;
const SHAPE: &str = "capacity=4KiB&publishers_max=2&subscribers_max=4";

/// Settings and type of the victims, which state fields.
fn stated(uri: &str) -> (Config, MessageType) {
    let stated = MessageType::new("victim v1", 512, 8).unwrap();
    let stated = stated.with_fields("number u64, name text[8], rest u8[496]");
    (Config::parse(uri).unwrap(), stated.unwrap())
}

fn open_publisher(uri: &str) -> Result<Publisher, OpenError> {
    let (config, stated) = stated(uri);
    Publisher::open_for(&config, &stated)
}

fn open_subscriber(uri: &str) -> Result<Subscriber, OpenError> {
    let (config, stated) = stated(uri);
    Subscriber::open_for(&config, &stated)
}

/// The attacker: overwrites random words of its files as fast as possible.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    if role == "hanging" {
        return hang();
    }
    assert_eq!(role, "scribbler");
    let text = |name: &str| std::env::var(name).expect("set by the parent");
    let words = SharedWords::attach(text("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    let files: Vec<Mapped> = text("OLIVINE_DEATH_FILES")
        .split(':')
        .map(|path| Mapped::new(path.as_ref()))
        .collect();
    let mut random = Random(setting("OLIVINE_SEED", 1));
    let mut written = 0;
    while words.load(STOP) == 0 {
        let file = &files[usize::try_from(random.below(files.len() as u64)).unwrap()];
        // Half of the writes hit cursors and flags, half hit any word.
        let bound = if random.below(2) == 0 {
            file.words()
        } else {
            file.words().min(1024)
        };
        let index = usize::try_from(random.below(bound as u64)).unwrap();
        let word = file.word(index);
        // One word is flipped many times while a victim reads it.
        let times = random.below(64);
        for _ in 0..times {
            let value = nonsense(&mut random, word.load(Ordering::Relaxed));
            word.store(value, Ordering::Relaxed);
        }
        written += times;
        words.store(WRITTEN, written);
    }
}

/// Runs `victim` during an attack on `files`; returns the number of overwritten words.
fn attack(place: &TestFolder, files: &[&str], victim: impl FnMut() + Send) -> u64 {
    let path = place.file("words");
    let _ = std::fs::remove_file(&path);
    let words = SharedWords::create(&path, 2).unwrap();
    let folder = place.channel("victim");
    let files: Vec<_> = files
        .iter()
        .map(|name| folder.join(name).display().to_string())
        .collect();
    let scribbler = common::spawn(
        "scribbler",
        &[
            ("OLIVINE_DEATH_WORDS", path.display().to_string()),
            ("OLIVINE_DEATH_FILES", files.join(":")),
        ],
    );
    until("the attack begins", || words.load(WRITTEN) > 0);
    let length = Duration::from_millis(setting("OLIVINE_HOSTILE_MS", 1000));
    let goal = setting("OLIVINE_HOSTILE_WRITES", 0);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mut victim = victim;
        let (rounds, words) = (&rounds, &words);
        let suffering = scope.spawn(move || {
            let started = Instant::now();
            while started.elapsed() < length
                || words.load(WRITTEN) < goal
                || rounds.load(Ordering::Relaxed) == 0
            {
                victim();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let watchdog = Duration::from_millis(setting("OLIVINE_HOSTILE_WATCHDOG_MS", 60_000));
        let (mut deadline, mut seen) = (Deadline::of(watchdog), 0);
        // A hang cannot be joined: it ends the whole test.
        while !suffering.is_finished() {
            let now = rounds.load(Ordering::Relaxed);
            if now != seen {
                (deadline, seen) = (Deadline::of(watchdog), now);
            }
            if !deadline.lasts() {
                eprintln!("a call never returned");
                std::process::abort();
            }
        }
        suffering.join().expect("no panic");
        words.store(STOP, 1);
        common::finished(scribbler);
    });
    println!("{} rounds of the victim", rounds.load(Ordering::Relaxed));
    let written = words.load(WRITTEN);
    assert!(written >= goal, "{written} words overwritten, not {goal}");
    written
}

/// Whether an attack explains that opening failed. The details come from damaged memory.
fn is_explained(error: &OpenError) -> bool {
    let disturbed = matches!(error, OpenError::Busy { .. } | OpenError::Restless { .. });
    disturbed || refusals::is_refusal(error)
}

/// Checks that opening failed for a reason that an attack explains.
fn refused(error: &OpenError) {
    assert!(is_explained(error), "{error}");
}

/// Checks that receiving failed for a reason that an attack explains.
fn unread(error: &ReceiveError) {
    let ends = refusals::ends_reading(error, is_explained);
    assert!(ends, "{error}");
}

/// Results of a subscriber under attack: messages, or errors that [`unread`] allows.
fn receive(subscriber: &mut Subscriber) {
    for _ in 0..20 {
        let mut bytes = 0;
        match subscriber.poll(|message| bytes += message.len(), 100) {
            Ok(_) => {}
            Err(error) => unread(&error),
        }
        match subscriber.receive_timeout(Duration::from_micros(200)) {
            Ok(_) => {}
            Err(error) => unread(&error),
        }
        let _ = (
            subscriber.lag(),
            subscriber.position(),
            subscriber.inspect_lanes(),
            subscriber.fields(),
        );
    }
}

fn publish(publisher: &mut Publisher, of: &mut u64) {
    for _ in 0..50 {
        *of += 1;
        let message = [7; 500];
        let length = usize::try_from(*of % 500).unwrap();
        match publisher.publish_timeout(&message[..length], Duration::from_micros(200)) {
            Ok(_) | Err(NotSent::BackPressured | NotSent::NotConnected) => {}
            Err(error) => panic!("{error}"),
        }
        let _ = (publisher.stats(), publisher.count_subscribers());
    }
}

/// Opens during an attack: errors are those that [`refused`] allows.
fn open(uri: &str) -> (Option<Publisher>, Option<Subscriber>) {
    let told = |error: OpenError| refused(&error);
    (
        open_publisher(uri).map_err(told).ok(),
        open_subscriber(uri).map_err(told).ok(),
    )
}

/// A victim whose first call never returns.
fn hang() {
    let place = TestFolder::new();
    let uri = place.uri("victim", SHAPE);
    let _publisher = open_publisher(&uri).unwrap();
    attack(&place, &["control"], || {
        loop {
            std::thread::park();
        }
    });
}

#[test]
fn planted_faults_fail_the_suite() {
    use std::os::unix::process::ExitStatusExt;
    let panics = |what: &str, victim: &mut (dyn FnMut() + Send)| {
        let place = TestFolder::new();
        let uri = place.uri("victim", SHAPE);
        let _publisher = open_publisher(&uri).unwrap();
        let attacked = || attack(&place, &["control", "lane-0"], victim);
        let why = verdict(attacked).expect_err(what);
        assert!(why.contains("no panic"), "{what}: {why}");
    };
    panics("a victim that panics", &mut || panic!("planted"));
    panics("an error that no attack explains", &mut || {
        unread(&ReceiveError::Forked);
    });
    let watchdog = [("OLIVINE_HOSTILE_WATCHDOG_MS", "500".to_owned())];
    let mut hanging = common::spawn("hanging", &watchdog);
    let mut end = None;
    until("the watchdog ends a test that hangs", || {
        end = hanging.try_wait().unwrap();
        end.is_some()
    });
    assert_eq!(end.unwrap().signal(), Some(libc::SIGABRT));
}

#[test]
fn hostile_subscriber_damages_no_memory_of_others() {
    let place = TestFolder::new();
    for query in ["wait=park", "wait=yield&slow=evict:1ms"] {
        let uri = place.uri("victim", &format!("{SHAPE}&{query}"));
        let mut publisher = open_publisher(&uri).unwrap();
        let mut subscriber = open_subscriber(&uri).unwrap();
        let mut sent = 0;
        // It can write only the control file: the kernel protects the lanes.
        let written = attack(&place, &["control"], || {
            publish(&mut publisher, &mut sent);
            receive(&mut subscriber);
        });
        println!("{query}: {written} words of the control file overwritten");
        drop((publisher, subscriber));
        let _ = std::fs::remove_dir_all(place.channel("victim"));
    }
}

#[test]
fn hostile_publisher_damages_no_memory_of_others() {
    let place = TestFolder::new();
    for query in [
        "wait=park",
        "wait=yield&delivery=latest",
        "wait=park&slow=evict:1ms",
    ] {
        let uri = place.uri("victim", &format!("{SHAPE}&{query}"));
        let publisher = open_publisher(&uri).unwrap();
        let mut subscriber = open_subscriber(&uri).unwrap();
        let written = attack(&place, &["control", "lane-0"], || receive(&mut subscriber));
        println!("{query}: {written} words of control file and lane overwritten");
        drop((publisher, subscriber));
        let _ = std::fs::remove_dir_all(place.channel("victim"));
    }
}

#[test]
fn joining_a_damaged_lane_returns() {
    let place = TestFolder::new();
    let uri = place.uri("victim", SHAPE);
    let mut held = open_publisher(&uri).unwrap();
    held.publish(b"an unread message").unwrap();
    for from in ["now", "oldest"] {
        let uri = place.uri("victim", &format!("{SHAPE}&from={from}"));
        let written = attack(&place, &["lane-0"], || {
            let (publisher, subscriber) = open(&uri);
            if let Some(mut subscriber) = subscriber {
                receive(&mut subscriber);
            }
            drop(publisher);
        });
        println!("from={from}: {written} words of a lane overwritten while it was joined");
    }
    let _ = std::fs::remove_dir_all(place.channel("victim"));
}
