//! Participants are killed, stopped, forked and left unburied; the others lose nothing and go on.
//!
//! `OLIVINE_KILLS` is the number of kills, `OLIVINE_SEED` repeats the choices of a run, `OLIVINE_SOAK_S` goes on for that
//! many seconds instead.

#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
mod message;
#[cfg(feature = "points")]
mod points;
mod roles;
mod stage;
mod tally;
mod zygote;

use common::{Place, setting, signal, until};
use message::{check, fill};
use olivine::probe::SharedWords;
use olivine::{NotSent, Publisher, ReceiveError, Subscriber};
use stage::{Actor, Stage};
use std::time::{Duration, Instant};
use tally::Tally;

/// Kills on one channel, before everything is checked and the next one is made.
const ROUND: u64 = 1000;
/// Who besides two publishers is on stage, by lot.
const OTHERS: [&str; 8] = [
    "subscriber",
    "subscriber",
    "latest",
    "both",
    "recoverer",
    "creator",
    "forker-publisher",
    "forker-subscriber",
];
/// The same on a channel that evicts whoever is too slow.
const OTHERS_WHERE_EVICTED: [&str; 4] = ["evictable", "evictable", "latest", "recoverer"];
const OTHERS_AT_ONCE: usize = 3;

fn role_setting(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes.
#[test]
fn role() {
    let Ok(role) = std::env::var("OLIVINE_DEATH_ROLE") else {
        return;
    };
    let words = SharedWords::attach(role_setting("OLIVINE_DEATH_WORDS").as_ref()).unwrap();
    match role.as_str() {
        "zygote" => zygote::serve(&words),
        "witness" => witness(&role_setting("OLIVINE_DEATH_URI"), &words),
        other => panic!("no role {other}"),
    }
}

/// One channel, `kills` blows.
fn round(kills: u64, seed: u64, tally: &mut Tally) {
    let mut stage = Stage::new("", kills, seed);
    // Its place is held from the first message on, so that it misses none of any session.
    drop(Subscriber::open(&stage.uri("name=durable")).unwrap());
    stage.observe();
    let mut actors: Vec<Actor> = ["publisher", "publisher", "durable"]
        .map(|role| stage.enter(role, ""))
        .to_vec();
    for _ in 0..OTHERS_AT_ONCE {
        let role = any_of(&OTHERS, &mut stage);
        actors.push(stage.enter(role, ""));
    }
    for _ in 0..kills {
        blow(&mut stage, &mut actors, &OTHERS, tally);
    }
    // Whoever comes after the others have closed takes one of their lanes over, and the lane of the dead stays.
    stage.progress(&actors.iter().take(2).collect::<Vec<_>>(), Instant::now());
    let (findings, complaints) = stage.finish(actors);
    tally.add(&findings, complaints);
}

fn any_of<'a>(roles: &[&'a str], stage: &mut Stage) -> &'a str {
    roles[usize::try_from(stage.random.below(roles.len() as u64)).unwrap()]
}

/// The publishers that have begun, without `victim`.
fn survivors<'a>(stage: &Stage, actors: &'a [Actor], victim: &Actor) -> Vec<&'a Actor> {
    let publishers = actors.iter().take(2);
    publishers
        .filter(|actor| actor.pid != victim.pid && stage.acknowledged(actor) > 0)
        .collect()
}

/// Kills somebody, waits until the others go on, and lets another take its place.
fn blow(stage: &mut Stage, actors: &mut [Actor], others: &[&'static str], tally: &mut Tally) {
    use rustix::process::Signal;
    // A random moment, from the first instruction of a new process to the middle of a stream.
    let pause = Duration::from_micros(stage.random.below(2000));
    std::thread::park_timeout(pause);
    let chosen = usize::try_from(stage.random.below(actors.len() as u64)).unwrap();
    let victim = actors[chosen].clone();
    if stage.random.below(32) == 0 {
        let survivors = survivors(stage, actors, &victim);
        tally.calm(stage.progress(&survivors, Instant::now()));
    }
    match stage.random.below(16) {
        // Stopped, and then killed: it wakes up no more.
        0 => {
            zygote::signal(victim.pid, Signal::STOP);
            tally.stops += 1;
            std::thread::park_timeout(Duration::from_micros(stage.random.below(3000)));
        }
        // Another one is stopped meanwhile and goes on afterwards.
        1 => {
            let other = &actors[(chosen + 1) % actors.len()];
            zygote::signal(other.pid, Signal::STOP);
            tally.stops += 1;
            std::thread::park_timeout(Duration::from_micros(stage.random.below(3000)));
            zygote::signal(other.pid, Signal::CONT);
        }
        _ => {}
    }
    let struck = Instant::now();
    stage.strike(&victim);
    let is_durable = victim.role == "durable";
    // A name is free once its holder has died, which takes a moment after the signal; else that is the survivors'
    // business.
    let buried_first = is_durable || stage.random.below(2) == 0;
    if buried_first {
        stage.bury(&victim);
    }
    if is_durable {
        // Others wait for it, as it wants them to.
        actors[chosen] = stage.enter(victim.role, "");
    }
    let survivors = survivors(stage, actors, &victim);
    let recovery = stage.progress(&survivors, struck);
    tally.kill(victim.role, recovery, !is_durable && !survivors.is_empty());
    if !buried_first {
        tally.zombies += 1;
        stage.bury(&victim);
    }
    if !is_durable {
        let role = if chosen < 2 {
            victim.role
        } else {
            any_of(others, stage)
        };
        actors[chosen] = stage.enter(role, "");
    }
}

#[test]
fn whoever_is_killed_the_others_lose_nothing_and_go_on() {
    let kills = setting("OLIVINE_KILLS", 5000);
    let seed = setting("OLIVINE_SEED", 1);
    let soak = Duration::from_secs(setting("OLIVINE_SOAK_S", 0));
    let started = Instant::now();
    let mut tally = Tally::default();
    let (mut resident, mut done) = (Vec::new(), 0);
    let goes_on = |done| match soak {
        Duration::ZERO => done < kills,
        soak => started.elapsed() < soak,
    };
    for number in 0.. {
        if !goes_on(done) {
            break;
        }
        let size = if soak.is_zero() {
            ROUND.min(kills - done)
        } else {
            ROUND
        };
        let seed = seed.wrapping_add(number);
        round(size, seed, &mut tally);
        tally.assert_clean(seed);
        done += size;
        resident.push(common::resident_kib());
        println!("{done} kills, nothing lost");
    }
    println!("seed {seed}, {:.1} s", started.elapsed().as_secs_f64());
    println!("{tally}");
    // The first rounds fill what is kept: allocator, names, code pages.
    if let [_, second, .., last] = resident[..] {
        println!("the bystander's memory: {second} KiB after two rounds, {last} KiB at the end");
        assert!(last < second + 16 * 1024, "it grows: {resident:?} KiB");
    }
}

/// Nobody holds anybody back here for long; whoever is thrown out is told, and nothing is torn.
#[test]
fn where_the_slow_are_evicted_the_killed_harm_nobody() {
    let kills = setting("OLIVINE_KILLS", 5000) / 10;
    let seed = setting("OLIVINE_SEED", 1);
    let mut tally = Tally::default();
    for number in 0..kills.div_ceil(ROUND) {
        let kills = (kills - number * ROUND).min(ROUND);
        let mut stage = Stage::new("&slow=evict:1ms", kills, seed.wrapping_add(number));
        let mut actors: Vec<Actor> = ["publisher", "publisher"]
            .map(|role| stage.enter(role, ""))
            .to_vec();
        for _ in 0..OTHERS_AT_ONCE {
            let role = any_of(&OTHERS_WHERE_EVICTED, &mut stage);
            actors.push(stage.enter(role, ""));
        }
        for _ in 0..kills {
            blow(&mut stage, &mut actors, &OTHERS_WHERE_EVICTED, &mut tally);
        }
        let (findings, complaints) = stage.finish(actors);
        tally.add(&findings, complaints);
        tally.assert_clean(seed.wrapping_add(number));
    }
    println!("where the slow are evicted, seed {seed}\n{tally}");
}

/// Counts what it receives until the end of the stream.
fn witness(uri: &str, words: &SharedWords) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    words.store(0, 1);
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
    words.store(1, next);
}

#[test]
fn a_stopped_subscriber_is_waited_for_and_loses_nothing() {
    use rustix::process::Signal;
    let place = Place::new();
    let words = SharedWords::create(&place.file("words"), 2).unwrap();
    let uri = place.uri("stopped", "capacity=64KiB&wait=park");
    let mut publisher = Publisher::open(&uri).unwrap();
    let child = common::spawn(
        "witness",
        &[
            ("OLIVINE_DEATH_URI", uri),
            (
                "OLIVINE_DEATH_WORDS",
                place.file("words").display().to_string(),
            ),
        ],
    );
    until("the witness is there", || words.load(0) == 1);
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
    assert_eq!(words.load(1), sent);
    assert!(!place.channel("stopped").exists());
}

/// A child made by `fork` inherits mappings and descriptors; the life of a dead parent must not go on in it.
#[test]
fn a_dead_parent_is_noticed_while_its_forked_child_lives() {
    let mut stage = Stage::new("", 2, 1);
    let subscriber = stage.enter("forker-subscriber", "");
    let forked = roles::orphan(subscriber.session);
    until("the subscriber has forked", || {
        stage.words.load(forked) != 0
    });
    stage.strike(&subscriber);
    let mut publisher = Publisher::open(&stage.uri("wait=park")).unwrap();
    let mut message = Vec::new();
    // Twice what the ring holds.
    for sequence in 0..1000 {
        fill(0, sequence, &mut message);
        publisher
            .publish_timeout(&message, common::WATCHDOG)
            .unwrap();
    }
    assert_eq!(publisher.stats().reclaimed, 1);
    drop(publisher);
    let lane = stage.enter("forker-publisher", "");
    let forked = roles::orphan(lane.session);
    until("the publisher has forked", || stage.words.load(forked) != 0);
    stage.strike(&lane);
    assert_eq!(stage.bury(&lane), zygote::End::Killed);
    let heir = Publisher::open(&stage.uri("")).unwrap();
    assert_eq!(heir.lane(), 0, "the lane of the dead is taken over");
    drop(heir);
    stage.bury(&subscriber);
    stage.finish(Vec::new());
}
