//! Options of `olivine pub`.

use super::stage::{Scene, Stage};
use crate::common::{hear, json, said};
use rustix::process::Signal;
use serde_json::Value;

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("pub", &["--stdin"], stdin),
    Scene::acts("pub", &["--size", "--count"], generated),
    Scene::acts("pub", &["--duration", "--rate"], pace),
    Scene::acts("pub", &["--type"], values),
    Scene::acts("pub", &["--batch"], batch),
    Scene::acts("pub", &["--tag", "--topic"], tag_and_topic),
    Scene::acts("pub", &["--stats", "--json", "--log-level"], reports),
    Scene::acts("pub", &["--interval", "--csv"], rows),
    Scene::acts("pub", &["--subscribers"], subscribers),
    Scene::acts("pub", &["--linger"], linger),
    Scene::acts("pub", &["--numa"], numa),
    Scene::acts("pub", &["--name", "--expire"], name_elsewhere),
];

/// What a run published, from the JSON summary.
fn summary(stage: &Stage, words: &[&str]) -> Value {
    json(&stage.ok(&[&["pub", "x"], words, &["--json"]].concat()))
}

fn stdin(stage: &Stage) {
    let words = ["pub", "x", "--stdin", "lines", "--json"];
    assert_eq!(json(&stage.ok_with(&words, b"a\nb\n"))["messages_count"], 2);
    let generated = json(&stage.ok_with(&["pub", "x", "-c", "5", "--json"], b"a\nb\n"));
    assert_eq!(generated["messages_count"], 5);
}

fn generated(stage: &Stage) {
    let found = summary(stage, &["--count", "3", "--size", "100"]);
    assert_eq!(
        (&found["messages_count"], &found["payload_bytes"]),
        (&3.into(), &300.into())
    );
    let found = summary(stage, &["--count", "3"]);
    assert_eq!(found["payload_bytes"], 96);
    // Without a count, the arguments end it.
    assert_eq!(summary(stage, &["a", "b"])["messages_count"], 2);
    assert_eq!(
        summary(stage, &["a", "b", "--count", "7"])["messages_count"],
        7
    );
}

fn pace(stage: &Stage) {
    // Neither ends before the time.
    let many = ["--count", "1G", "--duration", "100ms"];
    let fast = summary(stage, &many)["messages_count"].as_u64().unwrap();
    let slow = [&many[..], &["--rate", "0.01"]].concat();
    assert_eq!(summary(stage, &slow)["messages_count"], 1);
    assert!(fast > 1, "{fast}");
    assert_eq!(summary(stage, &["--count", "300"])["messages_count"], 300);
}

fn values(stage: &Stage) {
    let value = r#"{"a":7}"#;
    assert_eq!(summary(stage, &[value])["payload_bytes"], 7);
    let words = ["pub", "typed", "--type", "point v1: a u32", value, "--json"];
    assert_eq!(json(&stage.ok(&words))["payload_bytes"], 4);
    stage.fails(&["pub", "typed", value], 1);
}

fn batch(stage: &Stage) {
    // An invisible batch fills a small ring.
    let words = |channel, batch| {
        let words = [
            "pub",
            channel,
            "--size",
            "512",
            "--capacity",
            "4KiB",
            "--count",
            "64",
        ];
        json(&stage.ok(&[&words[..], batch, &["--json"]].concat()))["back_pressure_count"].clone()
    };
    assert_eq!(words("alone", &[]), 0);
    assert!(words("batch", &["--batch", "64"]).as_u64().unwrap() > 0);
}

fn tag_and_topic(stage: &Stage) {
    stage.ok(&["pub", "x", "a", "--tag", "7", "--topic", "orders.eu"]);
    stage.ok(&["pub", "y", "a"]);
    let read = |channel, more: &[&str]| -> Value {
        let words = [
            "sub", channel, "--from", "oldest", "--count", "1", "--out", "json",
        ];
        serde_json::from_str(&stage.out(&[&words[..], more].concat())).unwrap()
    };
    let marked = read("x", &["--topic", ">"]);
    assert_eq!(
        (&marked["tag"], &marked["topic"]),
        (&7.into(), &"orders.eu".into())
    );
    let plain = read("y", &[]);
    assert_eq!(plain["tag"], 0);
    assert!(plain["topic"].is_null(), "{plain}");
}

fn reports(stage: &Stage) {
    let plain = stage.ok(&["pub", "x", "a"]);
    assert!(plain.stdout.is_empty());
    assert!(
        said(&plain).contains("has no subscriber yet"),
        "{}",
        said(&plain)
    );
    assert!(
        stage
            .out(&["pub", "x", "a", "--stats", "throughput"])
            .contains("1 message")
    );
    assert_eq!(summary(stage, &["a"])["event"], "summary");
    let silent = stage.ok(&["pub", "x", "a", "--log-level", "off"]);
    assert_eq!(said(&silent), "");
    stage.shows_level(&["pub", "x", "a"]);
}

fn rows(stage: &Stage) {
    let file = stage.path("rows.csv");
    let rows = |more: &[&str]| {
        let words = [
            "pub", "x", "--rate", "1000", "--count", "100", "--csv", &file,
        ];
        stage.ok(&[&words[..], more].concat());
        std::fs::read_to_string(&file).unwrap().lines().count()
    };
    // A head, and the last row.
    assert_eq!(rows(&["--interval", "1h"]), 2);
    assert!(rows(&["--interval", "1ms"]) > 2);
    std::fs::remove_file(&file).unwrap();
    stage.ok(&["pub", "x", "a"]);
    assert!(!std::path::Path::new(&file).exists());
}

fn subscribers(stage: &Stage) {
    stage.ok(&["pub", "x", "a"]);
    let mut waiting = stage.start(&["pub", "y", "a", "--subscribers", "1"]);
    let (_, _rest) = hear(&mut waiting, "waiting for 1 subscriber");
    let reader = stage.start(&["sub", "y", "--once"]).output();
    assert_eq!(reader.stdout, b"a\n");
    assert!(waiting.wait().success());
}

fn linger(stage: &Stage) {
    let stopped = stage.start(&["sub", "x", "--once"]);
    stage.place.await_subscribers("x", 1);
    stopped.signal(Signal::STOP);
    let left = "have not read everything yet";
    assert!(!said(&stage.ok(&["pub", "x", "a"])).contains(left));
    assert!(said(&stage.ok(&["pub", "x", "a", "--linger", "20ms"])).contains(left));
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.output().stdout, b"a\na\n");
}

fn numa(stage: &Stage) {
    stage.ok(&["pub", "x", "a"]);
    let nodes = std::fs::read_dir("/sys/devices/system/node").map_or(0, |nodes| {
        let names = nodes.filter_map(|node| node.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with("node")).count()
    });
    assert!(nodes < 64, "{nodes} nodes: choose another one here");
    // The kernel is asked for an unknown node, and the error names it and those that there are.
    let said = stage.fails(&["pub", "y", "a", "--numa", "63"], 1);
    assert!(
        said.contains("on numa=63: ") && said.contains("[open.numa]"),
        "{said}"
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    let nodes = format!("these nodes: {};", allowed.unwrap().trim());
    assert!(said.contains(&nodes), "{said}");
}

/// Without a far side: only remote publishers have a name.
fn name_elsewhere(stage: &Stage) {
    let far = "tcp://127.0.0.1:1/x?role=connect";
    let base = ["pub", far, "a", "--linger", "20ms"];
    let goes = stage.fails(&base, 1);
    assert!(goes.contains("it goes with this program"), "{goes}");
    let stays = stage.fails(&[&base[..], &["--name", "n"]].concat(), 1);
    assert!(stays.contains("the next publisher of this name"), "{stays}");
    // Without a linger it gives up after the expiry, otherwise never.
    let given_up = stage.fails(&["pub", far, "a", "--name", "m", "--expire", "20ms"], 1);
    assert!(given_up.contains("has not acknowledged"), "{given_up}");
    // On a local channel, subscribers have names.
    for option in ["--name", "--expire"] {
        let said = stage.fails(&["pub", "x", "a", option, "1s"], 2);
        assert!(said.contains(option.trim_start_matches('-')), "{said}");
    }
}
