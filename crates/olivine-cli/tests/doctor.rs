//! `olivine doctor` on this machine: exit codes, JSON, and that it changes nothing.

mod common;

use common::{TestFolder, json, said};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Files of a folder with their lengths and times of change.
fn contents(folder: &Path, found: &mut BTreeMap<String, (u64, SystemTime)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let about = entry.metadata().unwrap();
        let path = entry.path();
        found.insert(
            path.display().to_string(),
            (about.len(), about.modified().unwrap()),
        );
        if about.is_dir() {
            contents(&path, found);
        }
    }
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|one| one["id"] == id);
    found.unwrap_or_else(|| panic!("no check {id} in {report}"))
}

#[test]
fn this_machine_is_checked_as_json_and_nothing_is_written() {
    let place = TestFolder::new();
    let output = place.run(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = json(&output);
    assert_eq!(report["ok"], true, "{report}");
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 22, "{report}");
    let words = ["good", "note", "unknown", "warning", "problem"];
    for word in words {
        let count = checks.iter().filter(|one| one["status"] == word).count();
        assert_eq!(report[format!("{word}_count")], count, "{report}");
    }
    for one in checks {
        let is_text = |key: &str| one[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_text("id") && is_text("value") && is_text("why"), "{one}");
        let needs_mend = ["note", "warning", "problem"].map(Value::from);
        assert_eq!(
            is_text("mend"),
            needs_mend.contains(&one["status"]),
            "{one}"
        );
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn text_has_a_row_for_each_check_and_no_control_characters() {
    let place = TestFolder::new();
    let output = place.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
    assert_eq!(rows.count(), 22, "{text}");
    assert!(
        text.ends_with('\n') && text.contains("nothing stops Olivine"),
        "{text}"
    );
    assert!(
        text.chars().all(|one| one == '\n' || !one.is_control()),
        "{text:?}"
    );
}

/// A link in place of the folder is refused by the library, and so by the doctor.
#[test]
fn unusable_folder_is_a_problem_and_exit_code_1() {
    let place = TestFolder::new();
    let folder = place.path().join("link");
    std::os::unix::fs::symlink("/tmp", &folder).unwrap();
    let output = place.run(&["doctor", "--json", "--dir", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report = json(&output);
    assert_eq!(report["ok"], false, "{report}");
    assert_eq!(check(&report, "folder")["status"], "problem", "{report}");
}

#[test]
fn wrong_uris_are_wrong_use_and_a_missing_channel_is_a_failure() {
    let place = TestFolder::new();
    let cases = [
        ("tcp://h:1/x", 2, "tcp://h:1/x"),
        ("shm://x?no=1", 2, "'no'"),
        ("absent", 1, "absent"),
    ];
    for (uri, code, named) in cases {
        let output = place.run(&["doctor", uri]);
        assert_eq!(output.status.code(), Some(code), "{uri}: {}", said(&output));
        assert!(said(&output).contains(named), "{}", said(&output));
    }
}

/// Two participants on one CPU, one of them stopped.
#[test]
fn stopped_and_crowded_participants_are_named_without_touching_the_channel() {
    let place = TestFolder::new();
    let cpu = olivine_bench::cpus::allowed()[0].to_string();
    let reader = place.start(&["sub", "busy", "--cpu", &cpu, "--wait", "park"]);
    place.await_subscribers("busy", 1);
    let writer = place.start(&["pub", "busy", "--cpu", &cpu, "--rate", "1000"]);
    place.await_publishing("busy");
    for running in [&reader, &writer] {
        running.signal(Signal::STOP);
    }
    let stopped = || {
        place.look("busy").unwrap().subscribers[0]
            .process
            .to_string()
    };
    common::until("the subscriber is stopped", || stopped() == "stopped");
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    contents(place.path(), &mut before);
    let output = place.run(&["doctor", "busy", "--json"]);
    contents(place.path(), &mut after);
    assert_eq!(before, after);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = json(&output);
    assert_eq!(report["channel"], "busy");
    let crowded = check(&report, "channel-cpus");
    assert_eq!(crowded["status"], "warning", "{crowded}");
    let stopped = check(&report, "channel-stopped");
    assert_eq!(stopped["status"], "warning", "{stopped}");
    let id = reader.child.id().to_string();
    assert!(stopped["mend"].as_str().unwrap().contains(&id), "{stopped}");
    for running in [&reader, &writer] {
        running.signal(Signal::CONT);
    }
}
