//! Options of `olivine journal`.

use super::stage::{Scene, Stage};
use crate::common::json;

const REPORT: &[&str] = &["--json", "--log-level"];

pub(crate) const SCENES: &[Scene] = &[
    // Also before the name of the inner command.
    Scene::acts("journal", REPORT, |stage| {
        let file = recording(stage);
        assert!(!stage.out(&["journal", "info", &file]).starts_with('{'));
        assert_eq!(
            json(&stage.ok(&["journal", "--json", "info", &file]))["messages"],
            3
        );
        let told = stage.ok(&["journal", "--log-level", "debug", "info", &file]);
        assert!(!told.stderr.is_empty());
    }),
    Scene::acts("journal info", REPORT, |stage| {
        report(stage, |file| vec!["journal", "info", file]);
    }),
    Scene::acts("journal info", &["--exact"], exact),
    Scene::acts("journal cut", &["--from", "--to"], |stage| {
        range(stage, "cut")
    }),
    Scene::acts("journal cut", &["--of", "--lane", "--topic"], |stage| {
        choice(stage, "cut");
    }),
    Scene::acts("journal cut", &["--unfinished"], |stage| {
        unfinished(stage, "cut")
    }),
    Scene::acts("journal cut", &["--skip-damage"], |stage| {
        skip_damage(stage, "cut");
    }),
    Scene::acts("journal cut", REPORT, report_of_cut),
    Scene::acts("journal export", &["--from", "--to"], |stage| {
        range(stage, "export")
    }),
    Scene::acts("journal export", &["--of", "--lane", "--topic"], |stage| {
        choice(stage, "export");
    }),
    Scene::acts("journal export", &["--unfinished"], |stage| {
        unfinished(stage, "export")
    }),
    Scene::acts("journal export", &["--skip-damage"], |stage| {
        skip_damage(stage, "export");
    }),
    Scene::acts("journal export", &["--out"], out),
    Scene::acts("journal export", REPORT, report_of_export),
];

/// A journal of one lane of two channels: two messages with a topic, one without.
fn recording(stage: &Stage) -> String {
    let file = stage.path("x.olv");
    let uri = format!("file://{file}");
    stage.ok(&[
        "pub",
        &format!("{uri}?channel=one"),
        "--topic",
        "a.b",
        "1",
        "2",
    ]);
    stage.ok(&["pub", &format!("{uri}?channel=two"), "3"]);
    file
}

fn report(stage: &Stage, words: fn(&str) -> Vec<&str>) {
    let file = recording(stage);
    stage.shows_level(&words(&file));
    stage.shows_json(&words(&file));
}

/// Only a long journal is read in part.
fn exact(stage: &Stage) {
    let file = stage.path("long.olv");
    let uri = format!("file://{file}?sync=never");
    stage.ok(&["pub", &uri, "--size", "64KiB", "--count", "300"]);
    let words = ["journal", "info", &file, "--json"];
    assert_eq!(json(&stage.ok(&words))["exact"], false);
    let found = json(&stage.ok(&[&words[..], &["--exact"]].concat()));
    assert_eq!(
        (&found["exact"], &found["messages"]),
        (&true.into(), &300.into())
    );
}

/// Messages of a part: of the new journal, or of the lines.
fn count(stage: &Stage, command: &str, file: &str, options: &[&str]) -> u64 {
    let new = stage.path(&format!("{command}{}.jsonl", options.join("")).replace([':', '/'], "_"));
    let words = ["journal", command, file, &new, "--json"];
    let found = json(&stage.ok(&[&words[..], options].concat()));
    found["messages"].as_u64().unwrap()
}

fn range(stage: &Stage, command: &str) {
    let file = recording(stage);
    assert_eq!(count(stage, command, &file, &[]), 3);
    assert_eq!(count(stage, command, &file, &["--from", "position:1"]), 2);
    assert_eq!(count(stage, command, &file, &["--to", "position:1"]), 1);
    assert_eq!(
        count(
            stage,
            command,
            &file,
            &["--to", "time:1970-01-02T00:00:00Z"]
        ),
        0
    );
    let words = ["journal", command, &file, "y"];
    stage.fails(&[&words[..], &["--from", "now"]].concat(), 2);
    stage.fails(&[&words[..], &["--to", "oldest"]].concat(), 2);
}

fn choice(stage: &Stage, command: &str) {
    let file = recording(stage);
    assert_eq!(count(stage, command, &file, &["--of", "two"]), 1);
    assert_eq!(count(stage, command, &file, &["--lane", "0"]), 3);
    assert_eq!(count(stage, command, &file, &["--topic", "a.>"]), 2);
    let words = ["journal", command, &file, &stage.path("y.csv")];
    assert!(
        stage
            .fails(&[&words[..], &["--lane", "9"]].concat(), 1)
            .contains("--lane 9")
    );
    assert!(
        stage
            .fails(&[&words[..], &["--topic", "a..b"]].concat(), 2)
            .contains("a..b")
    );
}

fn unfinished(stage: &Stage, command: &str) {
    let file = recording(stage);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 8]).unwrap();
    let words = ["journal", command, &file];
    let new = |name: &str| stage.path(&format!("{name}.jsonl"));
    let told = stage.fails(&[&words[..], &[&new("short")]].concat(), 1);
    assert!(told.contains("and not all"), "{told}");
    stage.ok(&[&words[..], &[&new("all"), "--unfinished", "accept"]].concat());
}

fn skip_damage(stage: &Stage, command: &str) {
    let file = recording(stage);
    let mut bytes = std::fs::read(&file).unwrap();
    let topic = bytes.windows(3).position(|bytes| bytes == b"a.b");
    bytes[topic.unwrap()] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let words = ["journal", command, &file, "--json"];
    let new = |name: &str| stage.path(&format!("{command}-{name}.jsonl"));
    stage.fails(&[&words[..], &[&new("short")]].concat(), 1);
    let found = json(&stage.ok(&[&words[..], &[&new("all"), "--skip-damage"]].concat()));
    assert!(found["messages"].as_u64().unwrap() >= 1, "{found}");
    assert_eq!(found["damaged_places"], 1, "{found}");
}

fn report_of_cut(stage: &Stage) {
    let file = recording(stage);
    let plain = stage.out(&["journal", "cut", &file, &stage.path("a.olv")]);
    assert!(plain.starts_with("cut 3 messages (3 B) into"), "{plain}");
    let found = json(&stage.ok(&["journal", "cut", &file, &stage.path("b.olv"), "--json"]));
    assert_eq!(
        (&found["messages"], &found["complete"]),
        (&3.into(), &true.into())
    );
    stage.shows_level(&["journal", "cut", &file, &file]);
}

fn out(stage: &Stage) {
    let file = recording(stage);
    let words = ["journal", "export", &file];
    assert!(stage.out(&words).starts_with("{\"recorded_unix_ns\":"));
    let rows = stage.out(&[&words[..], &["--out", "csv"]].concat());
    assert!(rows.starts_with("recorded_unix_ns,channel,lane,"), "{rows}");
    assert_eq!(rows.lines().count(), 4);
    stage.fails(&[&words[..], &[&stage.path("x.txt")]].concat(), 2);
}

fn report_of_export(stage: &Stage) {
    let file = recording(stage);
    let words = ["journal", "export", &file];
    stage.fails(&[&words[..], &["--json"]].concat(), 2);
    let found = json(&stage.ok(&[&words[..], &[&stage.path("a.csv"), "--json"]].concat()));
    assert_eq!(
        (&found["form"], &found["messages"]),
        (&"csv".into(), &3.into())
    );
    stage.shows_level(&words);
}
