//! Participants are killed, stopped, forked and left as zombies; the others lose nothing and
//! continue.
//!
//! `OLIVINE_AIM_ONE_IN`: one in this many kills is aimed at code of the core; the report lists
//! where. `OLIVINE_KILLS` is the number of kills, `OLIVINE_SEED` repeats the choices of a run,
//! `OLIVINE_SOAK_S` runs for this many seconds instead. `OLIVINE_STAGES` is the number of
//! concurrent channels, each with its own participants: most time is spent waiting for locks of
//! dead processes.

#![cfg(not(loom))]

#[cfg(target_arch = "x86_64")]
mod aim;
mod big;
#[path = "../common/mod.rs"]
mod common;
mod lanes;
mod planted;
#[cfg(feature = "points")]
mod points;
#[cfg(target_arch = "x86_64")]
#[path = "../common/ptrace.rs"]
mod ptrace;
mod roles;
mod sealed;
mod stage;
mod tally;
mod wake_word;
mod zygote;

use crate::common::mapped::SharedWords;
use common::message::{check, fill};
use common::{Deadline, TestFolder, setting, signal, until};
use olivine::{NotSent, Publisher, ReceiveError, Subscriber};
use stage::{Actor, LAP, Stage};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;
use wake_word::WakeWord;

/// Kills on one channel, before it is checked and replaced.
const ROUND: u64 = 500;
/// Kills of an ordinary run: four rounds, one with spinning participants. `cargo xtask death` and
/// `ci --deep` say how many they want.
const KILLS: u64 = 2000;
/// One in this many rounds has spinning participants.
const SPINNING: u64 = 8;
/// One in this many kills is aimed at code of the core (`OLIVINE_AIM_ONE_IN`).
const AIM_ONE_IN: u64 = 4;
/// One in this many rounds uses a channel shared in a group.
const SHARED: u64 = 3;
/// Most kills at once.
const KILLS_AT_ONCE: u64 = 3;
/// Number of a round that never runs.
const END: u64 = u64::MAX / ROUND / 2;
/// Number of concurrent channels.
const STAGES: u64 = 4;
/// Random roles besides the two publishers.
const OTHERS: [&str; 10] = [
    "subscriber",
    "subscriber",
    "latest",
    "both",
    "recoverer",
    "creator",
    "forker-publisher",
    "forker-subscriber",
    "sealed",
    "sealed",
];
/// The same on a channel that evicts slow subscribers.
const OTHERS_WHERE_EVICTED: [&str; 4] = ["evictable", "evictable", "latest", "recoverer"];
const OTHERS_AT_ONCE: usize = 3;

fn role_setting(name: &str) -> String {
    std::env::var(name).expect("set by the parent")
}

/// The other processes.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let path = role_setting("OLIVINE_DEATH_WORDS");
    let words = SharedWords::attach(path.as_ref()).unwrap();
    match role.as_str() {
        "zygote" => zygote::serve(
            &words,
            &WakeWord::attach(&stage::wake_word_of(path.as_ref())),
        ),
        "big" => big::role(&role_setting("OLIVINE_DEATH_URI"), &words),
        "witness" => witness(&role_setting("OLIVINE_DEATH_URI"), &words),
        other => panic!("no role {other}"),
    }
}

/// One channel, `kills` kills.
fn round(number: u64, kills: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let group = rustix::process::getegid().as_raw();
    let shared = format!("&mode=0660&group={group}");
    let is_shared = number % SHARED == SHARED - 2;
    let mut stage = Stage::new(if is_shared { &shared } else { "" }, kills, seed);
    if number % SPINNING == SPINNING / 2 - 1 {
        stage.spin();
    }
    // Its durable position exists before the first message, so it misses none.
    drop(Subscriber::open(&stage.uri("name=durable")).unwrap());
    stage.observe();
    let mut actors: Vec<Actor> = ["publisher", "publisher", "durable"]
        .map(|role| stage.enter(role, ""))
        .to_vec();
    for _ in 0..OTHERS_AT_ONCE {
        let role = any_of(&OTHERS, &mut stage);
        actors.push(stage.enter(role, ""));
    }
    while tally.kills() < kills {
        let left = kills - tally.kills();
        kill_at_once(&mut stage, &mut actors, &OTHERS, left, &mut tally);
    }
    // After the others have closed, a replacement would take over one of their lanes, and the dead
    // one's lane would stay.
    let publishers: Vec<_> = actors.iter().take(2).collect();
    tally.waited(stage.progress(&publishers, 1, Deadline::new()), seed);
    let (findings, complaints) = stage.finish(actors);
    tally.add(&findings, complaints);
    tally.assert_clean(seed);
    tally
}

fn any_of<'a>(roles: &[&'a str], stage: &mut Stage) -> &'a str {
    roles[usize::try_from(stage.random.below(roles.len() as u64)).unwrap()]
}

/// The started publishers that are not among the `victims`.
fn survivors<'a>(stage: &Stage, actors: &'a [Actor], victims: &[usize]) -> Vec<&'a Actor> {
    let publishers = actors.iter().enumerate().take(2);
    publishers
        .filter(|(place, actor)| !victims.contains(place) && stage.acknowledged(actor) > 0)
        .map(|(_, actor)| actor)
        .collect()
}

/// Up to `most` distinct indices of actors.
fn victims(stage: &mut Stage, actors: &[Actor], most: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..actors.len()).collect();
    let count = 1 + stage.random.below(most.min(KILLS_AT_ONCE));
    (0..count)
        .map(|_| {
            let place = stage.random.below(places.len() as u64);
            places.swap_remove(usize::try_from(place).unwrap())
        })
        .collect()
}

/// Kills up to `most` at once, waits until the others continue, and replaces the victims.
fn kill_at_once(
    stage: &mut Stage,
    actors: &mut [Actor],
    others: &[&'static str],
    most: u64,
    tally: &mut Tally,
) {
    stage.allow(actors);
    // A random moment, from the first instruction of a new process to the middle of a stream.
    pause_below(stage, 800);
    if stage.random.below(32) == 0 {
        let survivors = survivors(stage, actors, &[]);
        let calm = stage.progress(&survivors, 1, Deadline::new());
        let calm = tally.waited(calm, stage.seed);
        tally.calm(calm);
    }
    let places = victims(stage, actors, most);
    stop_one(stage, actors, places[0], tally);
    let deadline = Deadline::new();
    for place in &places {
        let victim = &actors[*place];
        // A stopped process executes no instruction to aim at.
        if stage
            .random
            .below(setting("OLIVINE_AIM_ONE_IN", AIM_ONE_IN))
            == 0
        {
            tally.fell(stage.kill_in_core(victim));
        } else {
            stage.kill(victim);
        }
        tally.kill(victim.role, stage.mode(victim.role));
    }
    let mut unburied = Vec::new();
    for &place in &places {
        let victim = actors[place].clone();
        // A name is free shortly after its holder got the signal; reaping it early is part of the
        // test.
        if victim.role == "durable" {
            stage.bury(&victim);
            // Other participants wait for it, because it requires that.
            actors[place] = stage.enter(victim.role, "");
        } else if stage.random.below(2) == 0 {
            stage.bury(&victim);
        } else {
            unburied.push(victim);
        }
    }
    let counts = places.iter().all(|place| actors[*place].role != "durable");
    let (role, survivors) = (actors[places[0]].role, survivors(stage, actors, &places));
    // More than the dead participants can hold back.
    let is_lap = stage.random.below(4) == 0;
    let waited = stage.progress(&survivors, if is_lap { LAP } else { 1 }, deadline);
    let progress = tally.waited(waited, stage.seed);
    match counts && !survivors.is_empty() {
        true if is_lap => tally.lap(role, progress),
        true => {
            let spins = survivors.iter().any(|survivor| survivor.spins());
            tally.recovery(role, spins, progress);
        }
        false => {}
    }
    tally.zombies += unburied.len() as u64;
    for victim in unburied {
        stage.bury(&victim);
    }
    for place in places {
        let role = match (place, actors[place].role) {
            (_, "durable") => continue,
            (0 | 1, role) => role,
            _ => any_of(others, stage),
        };
        actors[place] = stage.enter(role, "");
    }
}

fn pause_below(stage: &mut Stage, micros: u64) {
    let pause = Duration::from_micros(stage.random.below(micros));
    std::thread::park_timeout(pause);
}

/// Sometimes: stops `victim` before it is killed, or another one, which continues afterwards.
fn stop_one(stage: &mut Stage, actors: &[Actor], victim: usize, tally: &mut Tally) {
    use rustix::process::Signal;
    match stage.random.below(16) {
        // It never wakes up again.
        0 => {
            zygote::signal(actors[victim].pid, Signal::STOP);
            tally.stops += 1;
            pause_below(stage, 3000);
        }
        1 => {
            let other = &actors[(victim + 1) % actors.len()];
            zygote::signal(other.pid, Signal::STOP);
            tally.stops += 1;
            pause_below(stage, 3000);
            zygote::signal(other.pid, Signal::CONT);
        }
        _ => {}
    }
}

/// The remaining rounds, and the results of the others.
struct Run {
    kills: u64,
    seed: u64,
    soak: Duration,
    started: Instant,
    /// Number of the next round; beyond the last one after a failure.
    next: AtomicU64,
    tally: Mutex<(Tally, Vec<u64>)>,
}

impl Run {
    /// Number and kills of the next round.
    fn next(&self) -> Option<(u64, u64)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if !self.soak.is_zero() {
            return (number < END && self.started.elapsed() < self.soak).then_some((number, ROUND));
        }
        let before = number.checked_mul(ROUND)?;
        let left = self.kills.checked_sub(before).filter(|left| *left > 0)?;
        Some((number, left.min(ROUND)))
    }

    /// Runs rounds until none is left.
    fn play(&self) {
        struct EndsAll<'a>(&'a AtomicU64);
        impl Drop for EndsAll<'_> {
            fn drop(&mut self) {
                self.0.store(END, Ordering::Relaxed);
            }
        }
        // Also after a failure: then no new round begins.
        let _ends_all = EndsAll(&self.next);
        while let Some((number, kills)) = self.next() {
            let found = round(number, kills, self.seed.wrapping_add(number));
            let mut all = self.tally.lock().unwrap();
            let (tally, resident) = &mut *all;
            tally.append(found);
            resident.push(common::resident_kib());
            let seconds = self.started.elapsed().as_secs_f64();
            println!("{seconds:.1} s: {}", tally.line());
        }
    }
}

#[test]
fn survivors_of_kills_lose_nothing_and_continue() {
    let run = Run {
        kills: setting("OLIVINE_KILLS", KILLS),
        seed: setting("OLIVINE_SEED", 1),
        soak: Duration::from_secs(setting("OLIVINE_SOAK_S", 0)),
        started: Instant::now(),
        next: AtomicU64::new(0),
        tally: Mutex::default(),
    };
    let stages = setting("OLIVINE_STAGES", STAGES);
    std::thread::scope(|scope| {
        for _ in 0..stages {
            scope.spawn(|| run.play());
        }
    });
    let (tally, resident) = run.tally.into_inner().unwrap();
    let seconds = run.started.elapsed().as_secs_f64();
    println!(
        "seed {}, {stages} channels at once, {seconds:.1} s",
        run.seed
    );
    println!("{tally}");
    if run.soak.is_zero() {
        assert_eq!(tally.kills(), run.kills);
    }
    if cfg!(target_arch = "x86_64") && tally.kills() >= 100 {
        assert!(tally.in_core() > 0, "no aimed kill fell into the core");
    }
    for mode in ["mode=0600", "mode=0660", "shm+fd://"] {
        // Two whole rounds use channels of either kind.
        let is_played = tally.kills() >= 2 * ROUND;
        assert!(!is_played || tally.kills_in(mode) > 0, "no kill in {mode}");
    }
    // The first rounds fill caches: allocator, names, code pages.
    let early = resident.iter().take(resident.len() / 2).max();
    if let (Some(early), Some(last)) = (early, resident.last()) {
        println!(
            "the bystanders' memory: {early} KiB at most in the first half, {last} KiB at the end"
        );
        assert!(*last < early + 16 * 1024, "it grows: {resident:?} KiB");
    }
}

/// Slow subscribers are evicted here: back pressure is short, evictions are reported, and no
/// message is torn.
#[test]
fn survivors_on_an_evicting_channel_continue() {
    let kills = setting("OLIVINE_KILLS", KILLS) / 10;
    let seed = setting("OLIVINE_SEED", 1);
    let mut tally = Tally::default();
    for number in 0..kills.div_ceil(ROUND) {
        let kills = (kills - number * ROUND).min(ROUND);
        let mut stage = Stage::new("&slow=evict:1ms", kills, seed.wrapping_add(number));
        stage.observe();
        let mut actors: Vec<Actor> = ["publisher", "publisher"]
            .map(|role| stage.enter(role, ""))
            .to_vec();
        for _ in 0..OTHERS_AT_ONCE {
            let role = any_of(&OTHERS_WHERE_EVICTED, &mut stage);
            actors.push(stage.enter(role, ""));
        }
        let goal = tally.kills() + kills;
        while tally.kills() < goal {
            let left = goal - tally.kills();
            kill_at_once(
                &mut stage,
                &mut actors,
                &OTHERS_WHERE_EVICTED,
                left,
                &mut tally,
            );
        }
        let (findings, complaints) = stage.finish(actors);
        tally.add(&findings, complaints);
        tally.assert_clean(seed.wrapping_add(number));
    }
    println!("where the slow are evicted, seed {seed}\n{tally}");
    assert!(tally.evicted() > 0, "no subscriber was evicted");
}

/// Counts received messages until the end of the stream.
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
fn stopped_subscriber_loses_nothing() {
    use rustix::process::Signal;
    let place = TestFolder::new();
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
        // Far more than the ring holds, unless a subscriber continues to read.
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

/// A forked child inherits mappings and descriptors; its dead parent must still count as dead.
#[test]
fn dead_parent_is_detected_while_its_child_lives() {
    let mut stage = Stage::new("", 2, 1);
    let subscriber = stage.enter("forker-subscriber", "");
    stage.await_fork(&subscriber);
    stage.kill(&subscriber);
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
    stage.await_fork(&lane);
    stage.kill(&lane);
    assert_eq!(stage.reap(&lane), zygote::End::Killed);
    let successor = Publisher::open(&stage.uri("")).unwrap();
    assert_eq!(successor.lane(), 0, "the lane of the dead is taken over");
    drop(successor);
    stage.end_orphan(&lane);
    stage.bury(&subscriber);
    stage.finish(Vec::new());
}

/// Unaimed kills: registers of this processor are not supported.
#[cfg(not(target_arch = "x86_64"))]
mod aim {
    use crate::common::Random;

    /// Report entry of a kill outside the core.
    pub(crate) const ELSEWHERE: &str = "elsewhere";

    /// Kills the process `pid`.
    pub(crate) fn kill(pid: libc::pid_t, _: &'static str, _: &mut Random) -> String {
        // SAFETY: a process that was not reaped, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        ELSEWHERE.to_owned()
    }
}
