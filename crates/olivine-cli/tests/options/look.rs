//! Options of the commands that list and remove channels, and of those about the tool.

use crate::common::{TestFolder, json};
use crate::stage::{Scene, Stage};

const REPORT: &[&str] = &["--json", "--log-level"];

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("ls", &["--dir"], |stage| dir(stage, &["ls"])),
    Scene::acts("ls", REPORT, |stage| report(stage, &["ls"])),
    Scene::acts("inspect", &["--dir"], |stage| dir(stage, &["inspect", "x"])),
    Scene::acts("inspect", REPORT, |stage| report(stage, &["inspect", "x"])),
    Scene::acts("rm", &["--dir"], |stage| dir(stage, &["rm", "x"])),
    Scene::acts("rm", &["--force", "--name"], force_and_name),
    Scene::acts("rm", REPORT, report_of_rm),
    Scene::acts("gc", &["--dir"], |stage| dir(stage, &["gc"])),
    Scene::acts("gc", &["--dry-run"], dry_run),
    Scene::acts("gc", REPORT, |stage| report(stage, &["gc"])),
    Scene::acts("doctor", &["--dir"], |stage| dir(stage, &["doctor", "x"])),
    Scene::acts("doctor", &["--all"], all),
    Scene::acts("doctor", REPORT, |stage| report(stage, &["doctor", "x"])),
    Scene::acts("demo", &["--seconds", "--size", "--rate", "--json"], demo),
    Scene::acts("demo", &["--capacity", "--cpus", "--log-level"], demo_pair),
    Scene::acts("demo", &["--crash"], crash),
    Scene::refused("completions", &["--json"], |stage| {
        no_json(stage, &["completions", "bash"])
    }),
    Scene::acts("completions", &["--log-level"], |stage| {
        stage.shows_level(&["completions", "bash"]);
    }),
    Scene::refused("man", &["--json"], |stage| no_json(stage, &["man", "pub"])),
    Scene::acts("man", &["--log-level"], |stage| {
        stage.shows_level(&["man", "pub"])
    }),
];

/// A channel that exists only in the given folder.
fn dir(stage: &Stage, words: &[&str]) {
    let other = TestFolder::new();
    assert!(other.run(&["pub", "x", "a"]).status.success());
    let folder = other.path().display().to_string();
    let here = stage.run(words);
    let there = stage.out(&[words, &["--dir", &folder]].concat());
    assert!(there.contains('x'), "{there}");
    assert_ne!(String::from_utf8_lossy(&here.stdout), there);
}

fn report(stage: &Stage, words: &[&str]) {
    stage.ok(&["pub", "x", "a"]);
    stage.shows_level(words);
    stage.shows_json(words);
}

fn report_of_rm(stage: &Stage) {
    stage.ok(&["pub", "x", "a"]);
    assert!(stage.out(&["rm", "x"]).starts_with("removed x"));
    stage.ok(&["pub", "x", "a"]);
    assert_eq!(
        json(&stage.ok(&["rm", "x", "--json"]))["removed"][0]["name"],
        "x"
    );
    stage.shows_level(&["rm", "x"]);
}

fn force_and_name(stage: &Stage) {
    stage.ok(&["sub", "x", "--name", "audit", "--duration", "1ms"]);
    stage.ok(&["pub", "x", "a"]);
    assert!(
        stage
            .out(&["rm", "x", "--name", "audit"])
            .starts_with("forgot 'audit' of")
    );
    assert!(
        stage
            .place
            .look("x")
            .is_none_or(|info| info.subscribers.is_empty())
    );
    let _reader = stage.start(&["sub", "x"]);
    stage.place.await_subscribers("x", 1);
    stage.fails(&["rm", "x"], 1);
    stage.ok(&["rm", "x", "--force"]);
    assert!(stage.place.look("x").is_none());
}

fn dry_run(stage: &Stage) {
    stage.ok(&["pub", "x", "a"]);
    assert!(stage.out(&["gc", "--dry-run"]).contains("would remove x"));
    assert_eq!(stage.place.left(), ["x"]);
    assert!(stage.out(&["gc"]).contains("removed x"));
    assert!(stage.place.left().is_empty());
}

/// Good checks are explained, too.
fn all(stage: &Stage) {
    let reasons = |words: &[&str]| stage.out(words).matches("  why     ").count();
    assert!(reasons(&["doctor"]) < 20);
    assert!(reasons(&["doctor", "--all"]) > 20);
}

fn demo(stage: &Stage) {
    let words = ["demo", "--seconds", "0.2", "--rate", "1K"];
    assert!(stage.out(&words).contains("paced"));
    let found = json(&stage.ok(&[&words[..], &["--size", "100", "--json"]].concat()));
    assert_eq!(found["size_bytes"], 100, "{found}");
    assert_eq!(found["rate_per_s"], 1_000.0, "{found}");
    // Three sevenths at this rate: 85 messages, not 3,000.
    assert!(
        found["paced"]["sent_count"].as_u64().unwrap() < 1_000,
        "{found}"
    );
    stage.fails(&["demo", "--size", "1"], 2);
}

/// The demo names the two processes that it runs.
fn demo_pair(stage: &Stage) {
    let words = ["demo", "--seconds", "0.1", "--json"];
    let commands = |more: &[&str]| {
        let found = json(&stage.ok(&[&words[..], more].concat()));
        found["full_speed"]["commands"].to_string()
    };
    assert!(commands(&[]).contains("capacity=1MiB"));
    assert!(commands(&["--capacity", "64KiB"]).contains("capacity=64KiB"));
    let said = stage.fails(&["demo", "--seconds", "0.1", "--cpus", "0,1000"], 2);
    assert!(said.contains("1000"), "{said}");
    stage.shows_level(&["demo", "--size", "1"]);
}

fn crash(stage: &Stage) {
    let words = ["demo", "--seconds", "1.2", "--json"];
    assert!(json(&stage.ok(&words)).get("killed_count").is_none());
    let found = json(&stage.ok(&[&words[..], &["--crash"]].concat()));
    assert_eq!(found["killed_count"], 1, "{found}");
    stage.fails(&["demo", "--crash", "--cpus", "0,1"], 2);
}

fn no_json(stage: &Stage, words: &[&str]) {
    stage.ok(words);
    stage.fails(&[words, &["--json"]].concat(), 2);
}
