//! `olivine demo --crash`: nothing is lost, a planted fault is found, nothing is left over.

use crate::common::{Running, TestFolder, json, said, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Processes that take part in the demonstration's channel, by their command lines.
fn participants(channel: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().to_str().and_then(|id| id.parse().ok());
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&line).into_owned();
        if let Some(process) = process
            && words.contains(&format!("shm://{channel}?"))
        {
            found.push(process);
        }
    }
    found
}

/// Starts it for ten minutes, and waits until messages pass; the name of its channel.
fn started(place: &TestFolder, words: &[&str]) -> (Running, String) {
    let words = [&["demo", "--crash", "--seconds", "600"], words].concat();
    let demo = place.start(&words);
    let channel = format!("crash-{}-0", demo.child.id());
    place.await_publishing(&channel);
    (demo, channel)
}

#[test]
fn killed_and_stopped_participants_lose_and_repeat_nothing() {
    let place = TestFolder::new();
    let output = place.run(&["demo", "--crash", "--seconds", "5.2", "--json"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report} {}", said(&output));
    for key in ["lost", "repeated", "reordered", "corrupt"] {
        assert_eq!(report[format!("{key}_count")], 0, "{report}");
    }
    assert_eq!(report["killed_count"], 2, "{report}");
    assert_eq!(report["stopped_count"], 2, "{report}");
    // Two publishers with 10,000 messages a second; a busy machine may lag behind.
    let messages = report["messages_count"].as_u64().unwrap();
    assert!(messages > 1_000, "{report}");
    let subscribers = report["subscribers_count"].as_u64().unwrap();
    assert_eq!(report["intact_count"], messages * subscribers, "{report}");
    for event in report["events"].as_array().unwrap() {
        let is_time = |key: &str| event[key].as_u64().is_some_and(|ns| ns > 0);
        assert!(is_time("noticed_ns") && is_time("back_ns"), "{event}");
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn lines_in_a_pipe_are_plain_and_fit_a_terminal() {
    let place = TestFolder::new();
    let output = place.run(&["demo", "--crash", "--seconds", "2.3"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n0 lost, 0 repeated, 0 torn\n"), "{text}");
    assert!(
        text.contains("kill  subscriber 1") && text.contains("stop  publisher 1"),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    // With the 13 lines of the default time instead of 2.
    assert!(text.lines().count() + 11 < 24, "{text}");
}

#[test]
fn message_of_a_stranger_in_the_channel_ends_the_crash_demo_with_1() {
    let place = TestFolder::new();
    let (demo, channel) = started(&place, &["--json"]);
    assert!(
        place
            .run(&["pub", &channel, "not checkable"])
            .status
            .success()
    );
    demo.signal(Signal::INT);
    let output = demo.output();
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{report} {}", said(&output));
    assert_eq!(
        report["corrupt_count"], 2,
        "one for each subscriber: {report}"
    );
    assert_eq!(
        (&report["ok"], &report["lost_count"]),
        (&false.into(), &0.into())
    );
}

#[test]
fn interrupted_crash_demo_counts_and_leaves_nothing() {
    let place = TestFolder::new();
    let (demo, channel) = started(&place, &[]);
    until("all participants", || participants(&channel).len() == 4);
    demo.signal(Signal::INT);
    let output = demo.output();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(130), "{text}{}", said(&output));
    assert!(
        text.contains("0 lost, 0 repeated, 0 torn (interrupted)"),
        "{text}"
    );
    assert_eq!(participants(&channel), [0; 0]);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// A stopped process is continued when its parent dies, and then ends.
#[test]
fn killed_crash_demo_leaves_no_process_even_if_one_is_stopped() {
    let place = TestFolder::new();
    let (demo, channel) = started(&place, &[]);
    let stopped = Pid::from_raw(participants(&channel)[0]).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    demo.signal(Signal::KILL);
    drop(demo);
    until("the end of its processes", || {
        participants(&channel).is_empty()
    });
    assert!(place.run(&["rm", &channel, "--force"]).status.success());
}
