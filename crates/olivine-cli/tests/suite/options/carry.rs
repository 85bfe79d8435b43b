//! Options of the commands that carry messages between channels.

use super::stage::{Scene, Stage};
use crate::common::{Running, json, skip, until};
use rustix::process::Signal;
use std::process::Stdio;

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("bridge", &["--keep", "--json"], keep_of_bridge),
    Scene::acts("bridge", &["--config", "--log-level"], config),
    Scene::acts("record", &["--keep", "--json"], keep_of_record),
    Scene::acts(
        "record",
        &["--rotate", "--as", "--log-level"],
        rotate_and_as,
    ),
    Scene::acts("record", &["--durable"], durable),
    Scene::acts("record", &["--all"], all),
    Scene::acts("record", &["--sync"], sync),
    #[cfg(feature = "zstd")]
    COMPRESS,
    Scene::acts(
        "replay",
        &["--from", "--pace", "--json", "--log-level"],
        replay,
    ),
    Scene::acts("replay", &["--follow"], follow),
    Scene::acts("replay", &["--unfinished"], unfinished),
    Scene::acts("replay", &["--of", "--subscribers"], of_and_subscribers),
];

#[cfg(feature = "zstd")]
const COMPRESS: Scene = Scene::acts("record", &["--compress"], |stage| {
    let bytes = |name: &str, more: &[&str]| {
        let file = stage.path(name);
        let words = ["record", "x", &file];
        record(stage, &[&words[..], more].concat(), &"a".repeat(50_000));
        std::fs::metadata(file).unwrap().len()
    };
    assert!(bytes("packed", &["--compress", "zstd"]) < 50_000);
    assert!(bytes("plain", &[]) > 50_000);
});

/// Runs a recorder of channel x until its publisher, with this message, has closed.
fn record(stage: &Stage, words: &[&str], message: &str) -> std::process::Output {
    let recorder = stage.start(words);
    stage.place.await_subscribers("x", 1);
    stage.ok(&["pub", "x", message]);
    let output = recorder.output();
    assert!(output.status.success(), "{}", crate::common::said(&output));
    output
}

/// Shows that it continues after every publisher has closed, and the report in JSON.
fn keeps(stage: &Stage, words: &[&str], file: &str) {
    let plain = record(stage, words, "first");
    assert!(String::from_utf8_lossy(&plain.stdout).starts_with("SOURCE"));
    let keeper = stage.start(&[words, &["--keep", "--json"]].concat());
    stage.place.await_subscribers("x", 1);
    stage.ok(&["pub", "x", "second"]);
    stage.ok(&["pub", "x", "third"]);
    keeper.signal(Signal::TERM);
    let output = keeper.output();
    assert!(json(&output)["bridges"].is_array());
    let uri = format!("file://{file}");
    assert_eq!(
        stage.out(&["sub", &uri, "--once"]),
        "first\nsecond\nthird\n"
    );
}

fn keep_of_bridge(stage: &Stage) {
    let file = stage.path("kept.olv");
    keeps(
        stage,
        &["bridge", "shm://x", &format!("file://{file}")],
        &file,
    );
}

fn keep_of_record(stage: &Stage) {
    let file = stage.path("kept.olv");
    keeps(stage, &["record", "x", &file], &file);
}

fn config(stage: &Stage) {
    let (file, jobs) = (stage.path("x.olv"), stage.path("bridges.toml"));
    let job = format!("[[bridge]]\nsource = \"shm://x\"\ndestination = \"file://{file}\"\n");
    std::fs::write(&jobs, job).unwrap();
    record(stage, &["bridge", "--config", &jobs], "a");
    assert_eq!(
        stage.out(&["sub", "--once", &format!("file://{file}")]),
        "a\n"
    );
    stage.fails(&["bridge"], 2);
    stage.shows_level(&["bridge"]);
}

fn rotate_and_as(stage: &Stage) {
    let plain = stage.path("plain.olv");
    record(stage, &["record", "x", &plain], "a");
    let files = || {
        std::fs::read_dir(std::path::Path::new(&plain).parent().unwrap())
            .unwrap()
            .count()
    };
    let before = files();
    let turned = stage.path("turned.olv");
    let recorder = stage.start(&["record", "x", &turned, "--rotate", "1MiB", "--as", "other"]);
    stage.place.await_subscribers("x", 1);
    // Four rings: what the recorder takes at once goes into one file.
    stage.ok(&["pub", "x", "--size", "64KiB", "--count", "256"]);
    assert!(recorder.output().status.success());
    assert!(files() > before + 1, "{} files, before {before}", files());
    let name = |file: &str| {
        let found = json(&stage.ok(&["inspect", &format!("file://{file}"), "--json"]));
        found["lanes"][0]["channel"].clone()
    };
    assert_eq!((name(&plain), name(&turned)), ("x".into(), "other".into()));
    stage.shows_level(&["record", "tcp://h:1/x", &plain]);
}

/// Only a recorder with a name keeps its position in the channel.
fn durable(stage: &Stage) {
    let file = stage.path("x.olv");
    let words = ["record", "x", &file];
    record(stage, &words, "a");
    let places = || {
        stage
            .place
            .look("x")
            .map_or(0, |info| info.subscribers.len())
    };
    assert_eq!(places(), 0);
    record(stage, &[&words[..], &["--durable", "audit"]].concat(), "b");
    let kept = stage.place.look("x").unwrap().subscribers;
    assert_eq!(kept[0].name.as_deref(), Some("audit"));
}

/// One journal for each channel that exists.
fn all(stage: &Stage) {
    let folder = stage.path("journals");
    let told = stage.fails(&["record", "--all", &folder], 1);
    assert!(told.contains("nothing to record"), "{told}");
    for name in ["x", "y"] {
        stage.ok(&["pub", name, "before"]);
    }
    let recorder = stage.start(&["record", "--all", &folder, "--keep"]);
    for name in ["x", "y"] {
        stage.place.await_subscribers(name, 1);
        stage.ok(&["pub", name, name]);
    }
    recorder.signal(Signal::TERM);
    assert!(recorder.output().status.success());
    let told = |name: &str| stage.out(&["sub", "--once", &format!("file://{folder}/{name}.olv")]);
    assert!(told("x").ends_with("x\n") && told("y").ends_with("y\n"));
    // As many channels by name.
    let again = stage.path("again");
    let recorder = stage.start(&["record", "x", "y", &again]);
    for name in ["x", "y"] {
        stage.place.await_subscribers(name, 1);
        stage.ok(&["pub", name, "named"]);
    }
    assert!(recorder.output().status.success());
    assert!(std::fs::metadata(format!("{again}/y.olv")).is_ok());
    for wrong in [["--all", "x"], ["x", "x"]] {
        let words = [&["record"][..], &wrong, &[&folder]].concat();
        stage.fails(&words, 2);
    }
    stage.fails(&["record", "x"], 2);
    stage.fails(&["record", "x", "y", &folder, "--as", "z"], 2);
}

/// System calls show what survives a power failure.
fn sync(stage: &Stage) {
    let file = stage.path("x.olv");
    let told = stage.fails(&["record", "x", &file, "--sync", "sometimes"], 2);
    assert!(told.contains("sync"), "{told}");
    record(stage, &["record", "x", &file], "a");
    let trace = stage.path("trace");
    let syncs = |name: &str, more: &[&str]| {
        let file = stage.path(name);
        let tool = env!("CARGO_BIN_EXE_olivine");
        let mut traced = std::process::Command::new("strace");
        traced.args([
            "-f",
            "-qq",
            "-e",
            "trace=fdatasync,fsync,sync_file_range",
            "-o",
            &trace,
        ]);
        traced.args([tool, "record", "x", &file]).args(more);
        traced.env("OLIVINE_DIR", stage.place.path());
        traced.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut traced = Running::new(traced.spawn().ok()?);
        until("a recorder", || {
            let info = stage.place.look("x");
            info.is_some_and(|info| info.subscribers.iter().any(|reader| reader.alive))
                || traced.child.try_wait().unwrap().is_some()
        });
        stage.ok(&["pub", "x", "b"]);
        if !traced.wait().success() {
            return None;
        }
        let text = std::fs::read_to_string(&trace).unwrap();
        Some(text.matches("sync(").count())
    };
    let (Some(block), Some(never)) = (
        syncs("block.olv", &[]),
        syncs("never.olv", &["--sync", "never"]),
    ) else {
        return skip("strace is missing or may not trace: what --sync does is left out");
    };
    assert!(
        block > never,
        "{block} calls with block, {never} with never"
    );
}

/// The recording of a killed recorder is refused, unless it is accepted.
fn unfinished(stage: &Stage) {
    let file = stage.path("x.olv");
    let writer = stage.start(&["pub", &format!("file://{file}"), "--rate", "1000"]);
    until("a block in the journal", || {
        std::fs::metadata(&file).is_ok_and(|found| found.len() > 16_384)
    });
    writer.signal(Signal::KILL);
    drop(writer);
    let told = stage.fails(&["replay", &file, "y"], 1);
    assert!(told.contains("unfinished=accept"), "{told}");
    stage.ok(&["replay", &file, "y", "--unfinished", "accept"]);
}

fn replay(stage: &Stage) {
    let file = stage.path("x.olv");
    let uri = format!("file://{file}");
    // Half a second apart, which the slow pace extends.
    stage.ok(&["pub", &uri, "a", "b", "--rate", "2"]);
    let words = ["replay", &file, "y"];
    stage.shows_level(&words);
    stage.shows_json(&words);
    let replayed = |more: &[&str]| {
        let found = json(&stage.ok(&[&words[..], more, &["--json"]].concat()));
        found["bridges"][0]["messages"].as_u64().unwrap()
    };
    assert_eq!((replayed(&[]), replayed(&["--from", "now"])), (2, 0));
    let reader = stage.start(&["sub", "slow", "--count", "1"]);
    stage.place.await_subscribers("slow", 1);
    let mut slow = stage.start(&["replay", &file, "slow", "--pace", "0.01x"]);
    assert_eq!(reader.output().stdout, b"a\n");
    assert!(
        slow.child.try_wait().unwrap().is_none(),
        "the second message is due much later"
    );
}

fn follow(stage: &Stage) {
    let file = stage.path("x.olv");
    let uri = format!("file://{file}");
    stage.ok(&["pub", &uri, "a"]);
    stage.ok(&["replay", &file, "y"]);
    let reader = stage.start(&["sub", "z", "--count", "2"]);
    stage.place.await_subscribers("z", 1);
    let _follower = stage.start(&["replay", &file, "z", "--follow"]);
    until("the first message", || {
        stage
            .place
            .look("z")
            .is_some_and(|info| info.publishers.iter().any(|p| p.cursor > 0))
    });
    stage.ok(&["pub", &uri, "b"]);
    assert_eq!(reader.output().stdout, b"a\nb\n");
}

fn of_and_subscribers(stage: &Stage) {
    let file = stage.path("two.olv");
    stage.ok(&["pub", &format!("file://{file}?channel=one"), "a"]);
    stage.ok(&["pub", &format!("file://{file}?channel=two"), "b"]);
    stage.ok(&["replay", &file, "first", "--of", "one"]);
    let mut waiting = stage.start(&["replay", &file, "z", "--of", "two", "--subscribers", "1"]);
    until("the channel", || stage.place.look("z").is_some());
    assert_eq!(
        stage
            .start(&["sub", "z", "--from", "oldest", "--once"])
            .output()
            .stdout,
        b"b\n"
    );
    assert!(waiting.wait().success());
    stage.fails(&["replay", &file, "z"], 1);
}
