//! Options of the commands that list and remove channels, and of those about the tool.

use super::stage::{Scene, Stage};
use crate::common::{Running, TestFolder, json};
use serde_json::Value;

const REPORT: &[&str] = &["--json", "--log-level"];

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("ls", &["--dir"], |stage| dir(stage, &["ls"])),
    Scene::acts("ls", REPORT, |stage| report(stage, &["ls"])),
    Scene::acts("inspect", &["--dir"], |stage| dir(stage, &["inspect", "x"])),
    Scene::acts("inspect", REPORT, |stage| report(stage, &["inspect", "x"])),
    Scene::acts("top", &["--dir"], |stage| {
        dir(stage, &["top", "--once", "--interval", "50ms"])
    }),
    Scene::acts("top", &["--once", "--interval"], once_and_interval),
    Scene::acts("top", REPORT, |stage| {
        report(stage, &["top", "--once", "--interval", "50ms"])
    }),
    Scene::acts("tap", &["--count", "--sample", "--head"], count_and_sample),
    Scene::acts("tap", &["--hz", "--interval"], hz_and_interval),
    Scene::acts("tap", &["--duration", "--dir"], duration_and_dir),
    Scene::acts("tap", REPORT, report_of_tap),
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
    Scene::acts("explain", REPORT, |stage| {
        stage.shows_level(&["explain", "journal.hole"]);
        stage.shows_json(&["explain", "journal.hole"]);
    }),
    Scene::acts("config", &["--origin"], |stage| {
        let origin = stage.out(&["config", "--origin"]);
        assert!(origin.contains("built in") && origin.contains("file: none"));
        assert!(!stage.out(&["config"]).contains("built in"));
    }),
    Scene::acts("config", REPORT, |stage| {
        stage.shows_level(&["config"]);
        stage.shows_json(&["config"]);
    }),
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

/// Without `--once` it does not end; rates are of the interval.
fn once_and_interval(stage: &Stage) {
    let mut endless = stage.start(&["top"]);
    let once = stage.ok(&["top", "--once", "--json"]);
    let window = |output| json(output)["window_ns"].as_u64().unwrap();
    assert!(window(&once) >= 500_000_000);
    let short = stage.ok(&["top", "--once", "--json", "--interval", "60ms"]);
    assert!(window(&short) >= 60_000_000);
    assert!(
        stage
            .fails(&["top", "--interval", "1ms"], 2)
            .contains("50ms or more")
    );
    assert!(endless.child.try_wait().unwrap().is_none());
}

/// A publisher of one message again and again.
fn ticking(place: &TestFolder, message: &str) -> Running {
    let publisher = place.start(&["pub", "x", message, "--rate", "200", "--count", "1M"]);
    place.await_publishing("x");
    publisher
}

fn count_and_sample(stage: &Stage) {
    let _publisher = ticking(&stage.place, "three");
    let text = stage.out(&["tap", "x", "--count", "2", "--head", "3"]);
    let behind = |line: &str| line["00:00:00.000000Z".len()..].to_owned();
    let expected = "  lane 0  tag 0  5 B  -  thr…";
    assert_eq!(text.lines().map(behind).collect::<Vec<_>>(), [expected; 2]);
    let words = ["tap", "x", "--count", "2", "--sample", "3", "--json"];
    let lines = stage.out(&words);
    let position = |line| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64();
    let positions: Vec<_> = lines.lines().filter_map(position).collect();
    assert_eq!(positions[1] - positions[0], 3 * 16, "{lines}");
    for bad in [["--head", "4097"], ["--sample", "0"], ["--count", "0"]] {
        stage.fails(&[&["tap", "x"], &bad[..]].concat(), 2);
    }
}

fn hz_and_interval(stage: &Stage) {
    stage.fails(&["tap", "x", "--interval", "1us"], 2);
    stage.fails(&["tap", "x", "--hz", "--sample", "2"], 2);
    let _publisher = ticking(&stage.place, "three");
    let words = ["tap", "x", "--hz", "--count", "1", "--interval", "2ms"];
    let text = stage.out(&words);
    assert!(
        text.contains(" /s  ") && text.contains("5 B to 5 B"),
        "{text}"
    );
    let row = json(&stage.ok(&[&words[..], &["--json"]].concat()));
    assert!(row["messages_count"].as_u64().unwrap() > 0, "{row}");
    assert_eq!(row["payload_min_bytes"], 5);
}

fn duration_and_dir(stage: &Stage) {
    let other = TestFolder::new();
    let folder = other.path().display().to_string();
    let words = ["tap", "x", "--count", "1"];
    // Its channel is not there.
    let output = stage.ok(&[&words[..], &["--duration", "1s"]].concat());
    assert!(output.stdout.is_empty(), "{output:?}");
    let tap = stage.start(&[&words[..], &["--dir", &folder]].concat());
    let _publisher = ticking(&other, "a");
    assert!(tap.output().stdout.ends_with(b"-  a\n"));
}

fn report_of_tap(stage: &Stage) {
    let _publisher = ticking(&stage.place, "\u{1b}a");
    let seen = json(&stage.ok(&["tap", "x", "--count", "1", "--json"]));
    assert_eq!(
        (&seen["text"], &seen["payload_bytes"]),
        (&"\u{1b}a".into(), &2.into())
    );
    assert!(
        stage
            .out(&["tap", "x", "--count", "1"])
            .ends_with("-  \\x1ba\n")
    );
    stage.shows_level(&["tap", "x", "--count", "1"]);
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
