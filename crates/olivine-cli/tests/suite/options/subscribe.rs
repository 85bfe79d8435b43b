//! Options of `olivine sub`.

use super::stage::{Scene, Stage};
use crate::common::{json, said, until};

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("sub", &["--count", "--out", "--from"], count_out_from),
    Scene::acts("sub", &["--once"], once),
    Scene::acts("sub", &["--type"], values),
    Scene::acts("sub", &["--duration"], duration),
    Scene::acts("sub", &["--verify"], verify),
    Scene::acts("sub", &["--stats", "--json", "--log-level"], reports),
    Scene::acts("sub", &["--worst"], worst),
    Scene::acts("sub", &["--save"], save),
    Scene::acts("sub", &["--last"], last),
    Scene::acts("sub", &["--interval", "--csv"], rows),
    Scene::acts("sub", &["--delivery", "--name", "--wait"], kind),
    Scene::acts("sub", &["--expire"], expire),
    Scene::acts("sub", &["--topic"], topic),
    Scene::acts("sub", &["--batch"], batch),
];

const OLDEST: [&str; 4] = ["sub", "x", "--from", "oldest"];

fn oldest<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&OLDEST[..], more].concat()
}

/// The output for `messages`; the last subscriber of an unused channel removes it.
fn read(stage: &Stage, messages: &[&str], more: &[&str]) -> String {
    stage.ok(&[&["pub", "x"], messages].concat());
    stage.out(&oldest(more))
}

fn count_out_from(stage: &Stage) {
    let both = ["a", "b"];
    assert_eq!(read(stage, &both, &["--count", "1"]), "a\n");
    assert_eq!(read(stage, &both, &["--count", "1", "--out", "raw"]), "a");
    assert_eq!(read(stage, &both, &["--once"]), "a\nb\n");
    // Earlier messages are not the next message.
    stage.ok(&["pub", "y", "a", "b"]);
    assert_eq!(stage.out(&["sub", "y", "--duration", "100ms"]), "");
}

fn values(stage: &Stage) {
    stage.ok(&["pub", "x", "--type", "point v1: a u32", r#"{"a":7}"#]);
    let other = ["--count", "1", "--type", "point v2: a u32"];
    let refused = stage.fails(&oldest(&other), 1);
    assert!(refused.contains("point v1"), "{refused}");
    let same = ["--count", "1", "--out", "json", "--type", "point v1: a u32"];
    let shown = stage.out(&oldest(&same));
    assert!(shown.contains(r#""fields":{"a":7}"#), "{shown}");
    // Without it bytes are read, of any type.
    let bytes = ["--count", "1", "--out", "raw"];
    assert_eq!(
        read(stage, &[r#"{"a":7}"#, "--type", "point v1: a u32"], &bytes),
        "\u{7}\0\0\0"
    );
}

fn once(stage: &Stage) {
    let ends = stage.start(&["sub", "x", "--once"]);
    let stays = stage.start(&["sub", "x", "--count", "2"]);
    stage.place.await_subscribers("x", 2);
    stage.ok(&["pub", "x", "a"]);
    assert_eq!(ends.output().stdout, b"a\n");
    stage.ok(&["pub", "x", "b"]);
    assert_eq!(stays.output().stdout, b"a\nb\n");
}

fn duration(stage: &Stage) {
    // Without it, the command would wait for a publisher without end.
    stage.ok(&["sub", "x", "--duration", "10ms"]);
    let mut waiting = stage.start(&["sub", "x"]);
    stage.place.await_subscribers("x", 1);
    assert!(waiting.child.try_wait().unwrap().is_none());
}

fn verify(stage: &Stage) {
    let other = ["no generated message"];
    read(stage, &other, &["--count", "1"]);
    stage.ok(&["pub", "x", other[0]]);
    stage.fails(&oldest(&["--count", "1", "--verify"]), 1);
    // A check that saw nothing has not passed.
    let nothing = ["sub", "none", "--verify", "--once", "--duration", "10ms"];
    let told = stage.fails(&nothing, 1);
    assert!(told.contains("no message was received"), "{told}");
    let socket = format!("shm+fd://{}", stage.path("socket"));
    stage.fails(&["sub", &socket, "--verify", "--duration", "10ms"], 1);
}

fn reports(stage: &Stage) {
    assert_eq!(read(stage, &["a"], &["-c", "1"]), "a\n");
    let told = read(stage, &["a"], &["-c", "1", "--stats", "throughput"]);
    assert!(told.contains("received 1 message"), "{told}");
    let told = read(stage, &["a"], &["-c", "1", "--json"]);
    let last: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(last["role"], "subscriber");
    stage.shows_level(&["sub", "y", "--duration", "1ms"]);
}

/// It waits for the first message only if there is none.
fn last(stage: &Stage) {
    stage.ok(&["pub", "x", "a", "b", "newest"]);
    assert_eq!(stage.out(&["sub", "x", "--last"]), "newest\n");
    stage.fails(&["sub", "y", "--last", "--duration", "10ms"], 1);
    let waiting = stage.start(&["sub", "z", "--last"]);
    stage.place.await_subscribers("z", 1);
    let publisher = stage.start(&["pub", "z", "first", "--rate", "10", "--count", "1M"]);
    assert_eq!(waiting.output().stdout, b"first\n");
    drop(publisher);
    let told = stage.fails(&["sub", "tcp://h:1/x", "--last"], 2);
    assert!(told.contains("use --count 1"), "{told}");
    stage.fails(&["sub", "x", "--last", "--count", "2"], 2);
    // Without it, all of the ring.
    stage.ok(&["pub", "w", "a", "b"]);
    assert_eq!(
        stage.out(&["sub", "w", "--from", "oldest", "--once"]),
        "a\nb\n"
    );
}

/// Which causes it names is in `tests/suite/worst.rs`.
fn worst(stage: &Stage) {
    let words = ["sub", "x", "--count", "50", "--stats", "latency", "--json"];
    let listed = |more: &[&str]| {
        let reader = stage.start(&[&words[..], more].concat());
        stage.place.await_subscribers("x", 1);
        stage.ok(&["pub", "x", "--rate", "1000", "--count", "50"]);
        json(&reader.output())["worst"]["messages"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!((listed(&[]), listed(&["--worst", "3"])), (None, Some(3)));
    let told = stage.fails(&["sub", "x", "--worst", "3"], 2);
    assert!(told.contains("add --stats latency"), "{told}");
    // Messages that were not generated have no time.
    let timed = |channel: &str, sent: &[&str]| {
        stage.ok(&[&["pub", channel][..], sent].concat());
        let words = [
            "sub", channel, "--from", "oldest", "--once", "--stats", "latency",
        ];
        said(&stage.ok(&words)).contains("no latency: ")
    };
    assert!(timed("plain", &["a"]));
    assert!(!timed("made", &["--count", "1"]));
}

fn save(stage: &Stage) {
    let file = stage.path("all.hlog");
    let timed = |more: &[&str]| {
        stage.ok(&["pub", "x", "--count", "100"]);
        let words = oldest(&["--once", "--stats", "latency"]);
        stage.ok(&[&words[..], more].concat());
    };
    timed(&[]);
    assert!(!std::path::Path::new(&file).exists());
    timed(&["--save", &file]);
    let log = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("Tag="))
        .collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("Tag=sub/"),
        "{log}"
    );
    assert!(
        stage
            .fails(&["sub", "x", "--save", &file], 2)
            .contains("--stats latency")
    );
    let other = stage.path("all.csv");
    let words = ["sub", "x", "--stats", "latency", "--save", &other];
    assert!(stage.fails(&words, 2).contains("ends in .hlog"));
}

fn rows(stage: &Stage) {
    let file = stage.path("rows.csv");
    let rows = |channel: &str, more: &[&str]| {
        let words = ["sub", channel, "--once", "--out", "none", "--csv", &file];
        let reader = stage.start(&[&words[..], more].concat());
        stage.place.await_subscribers(channel, 1);
        stage.ok(&["pub", channel, "--rate", "1000", "--count", "100"]);
        assert!(reader.output().status.success());
        std::fs::read_to_string(&file).unwrap().lines().count()
    };
    assert_eq!(rows("rare", &["--interval", "1h"]), 2);
    assert!(rows("often", &["--interval", "1ms"]) > 2);
    std::fs::remove_file(&file).unwrap();
    stage.ok(&["sub", "x", "--duration", "1ms"]);
    assert!(!std::path::Path::new(&file).exists());
}

/// The channel's description of a subscriber.
fn kind(stage: &Stage) {
    let seen = |channel: &str, more: &[&str]| {
        let _reader = stage.start(&[&["sub", channel], more].concat());
        stage.place.await_subscribers(channel, 1);
        let found = json(&stage.ok(&["inspect", channel, "--json"]));
        found["subscribers"][0].clone()
    };
    let plain = seen("plain", &[]);
    assert_eq!(plain["delivery"], "reliable");
    assert_eq!(plain["wait"], "adaptive");
    assert!(plain["name"].is_null());
    let other = seen("other", &["--delivery", "latest", "--wait", "park"]);
    assert_eq!(other["delivery"], "latest");
    assert_eq!(other["wait"], "park");
    assert_eq!(seen("named", &["--name", "audit"])["name"], "audit");
}

fn expire(stage: &Stage) {
    let words = ["--name", "n", "--duration", "1ms"];
    stage.ok(&[&["sub", "kept"], &words[..]].concat());
    stage.ok(&[&["sub", "gone"], &words[..], &["--expire", "1ms"]].concat());
    until("the end of its time", || {
        stage.ok(&["gc"]);
        stage.place.left().iter().all(|name| name != "gone")
    });
    assert_eq!(stage.place.left(), ["kept"]);
}

fn topic(stage: &Stage) {
    let read = |count: &str, more: &[&str]| {
        // The first publisher of the channel gives no topic.
        stage.ok(&["pub", "x", "c"]);
        stage.ok(&["pub", "x", "a", "--topic", "one"]);
        stage.ok(&["pub", "x", "b", "--topic", "two"]);
        stage.out(&oldest(&[&["--count", count], more].concat()))
    };
    assert_eq!(read("1", &["--topic", "two"]), "b\n");
    let all = read("2", &["--topic", ">"]);
    assert!(all.contains('a') && all.contains('b'), "{all}");
    // A subscriber without topics gets all messages.
    assert_eq!(read("3", &[]).lines().count(), 3);
}

/// Between two batches there is time for a row.
fn batch(stage: &Stage) {
    let file = stage.path("rows.csv");
    let rows = |more: &[&str]| {
        stage.ok(&["pub", "x", "--count", "100"]);
        let words = ["--count", "100", "--out", "none", "--interval", "1ns"];
        stage.ok(&oldest(&[&words[..], &["--csv", &file], more].concat()));
        std::fs::read_to_string(&file).unwrap().lines().count()
    };
    assert_eq!(rows(&[]), 2);
    assert!(rows(&["--batch", "1"]) > 50);
}
