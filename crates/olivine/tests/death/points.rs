//! Kills at named points: every name, in every role that reaches it.

use crate::common::{Deadline, until};
use crate::roles;
use crate::stage::{Actor, LAP, Stage};
use crate::tally::Tally;
use crate::zygote::End;
use olivine::Subscriber;
use std::collections::BTreeMap;
use std::path::Path;

const ROLES: [&str; 9] = [
    "publisher",
    "recoverer",
    "subscriber",
    "latest",
    "durable",
    "both",
    "creator",
    "forker-publisher",
    "forker-subscriber",
];

/// The names in the source, so that the test covers all.
fn names(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            names(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        for (at, mark) in text.match_indices("points::pass(\"") {
            let name = &text[at + mark.len()..];
            found.extend(name.split('"').next().map(str::to_owned));
        }
    }
}

#[test]
fn death_at_each_named_point_is_survived() {
    let mut all = Vec::new();
    names(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src").as_path(),
        &mut all,
    );
    // These threads are not a role here: `tests/kills_elsewhere.rs` and `tests/panics.rs` reach
    // their points.
    all.retain(|name| {
        !["bridge.", "room.", "watch."]
            .iter()
            .any(|thread| name.starts_with(thread))
    });
    assert!(all.len() > 15, "{all:?}");
    let trials = u64::try_from(all.len() * ROLES.len() * 2).expect("few");
    // The durable subscriber comes back after each death.
    let mut stage = Stage::new("", trials * 2, 1);
    drop(Subscriber::open(&stage.uri("name=durable")).expect("a place"));
    stage.observe();
    let mut tally = Tally::default();
    let publishers = ["publisher", "publisher"].map(|role| stage.enter(role, ""));
    let mut durable = stage.enter("durable", "");
    let mut hits: BTreeMap<&str, u64> = all.iter().map(|name| (name.as_str(), 0)).collect();
    for name in &all {
        for role in ROLES {
            for times in [1, 5] {
                let die_at = format!("{name}:{times}");
                if role == "durable" {
                    stage.kill(&durable);
                    stage.bury(&durable);
                }
                let victim = stage.enter(role, &die_at);
                let died = dies(&mut stage, &victim, &publishers);
                *hits.get_mut(name.as_str()).expect("known") += u64::from(died);
                if role == "durable" {
                    durable = stage.enter(role, "");
                }
                let survivors: Vec<&Actor> = publishers.iter().collect();
                let recovery = stage.progress(&survivors, 1, Deadline::new());
                let recovery = tally.waited(recovery, 1);
                if died {
                    tally.kill(role, stage.mode(role));
                    if role != "durable" {
                        let spins = survivors.iter().any(|survivor| survivor.spins());
                        tally.recovery(role, spins, recovery);
                    }
                }
            }
        }
    }
    let mut actors = publishers.to_vec();
    actors.push(durable);
    let (findings, complaints) = stage.finish(actors);
    tally.add(&findings, complaints);
    tally.assert_clean(1);
    println!("{tally}");
    among_the_evicted(&mut hits);
    let missed: Vec<_> = hits.iter().filter(|(_, hits)| **hits == 0).collect();
    assert!(missed.is_empty(), "no role reaches {missed:?}");
    println!("points {}, deaths at each: {hits:?}", hits.len());
}

/// Points that only an evicting channel reaches: a publisher dies while it evicts, and a durable
/// subscriber while it comes back to a lost position.
fn among_the_evicted(hits: &mut BTreeMap<&str, u64>) {
    let mut stage = Stage::new("&slow=evict:1ms", 16, 2);
    let mut count = |name: &str, died: bool| *hits.get_mut(name).expect("known") += u64::from(died);
    let stuck = Subscriber::open(&stage.uri("")).expect("a place");
    let victim = stage.enter("publisher", "evict.state_stored:1");
    let died = dies(&mut stage, &victim, &[]);
    count("evict.state_stored", died);
    drop(stuck);
    let stuck = Subscriber::open(&stage.uri("name=durable")).expect("a place");
    let publisher = stage.enter("publisher", "");
    // More than the ring holds: the silent subscriber is evicted, and then misses a whole ring.
    let lap_twice = |stage: &Stage| {
        let waited = stage.progress(&[&publisher], 2 * LAP, Deadline::new());
        waited.unwrap_or_else(|hung| panic!("{hung}"));
    };
    lap_twice(&stage);
    drop(stuck);
    lap_twice(&stage);
    let victim = stage.enter("durable", "join.missed_counted:1");
    let died = dies(&mut stage, &victim, core::slice::from_ref(&publisher));
    count("join.missed_counted", died);
    stage.finish(vec![publisher]);
}

/// Waits until `victim` has died at its point, or is killed after many rounds without reaching it.
fn dies(stage: &mut Stage, victim: &Actor, publishers: &[Actor]) -> bool {
    // Rounds of a creator are whole channel lifetimes, those of others are messages.
    let rounds = if victim.role == "creator" { 20 } else { 1000 };
    let mut end = None;
    until("it dies or goes on", || {
        stage.allow(core::slice::from_ref(victim));
        stage.allow(publishers);
        end = stage.has_ended(victim);
        end.is_some() || stage.words.load(roles::beats(victim.session)) > rounds
    });
    let died = end.is_some();
    let end = end.unwrap_or_else(|| {
        stage.kill(victim);
        stage.bury(victim)
    });
    assert_eq!(end, End::Killed, "{victim:?}");
    died
}
