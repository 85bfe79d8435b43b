//! `olivine sub --worst`: causes of late messages, with processes that are really stopped, kept
//! from their CPU or held back.

use crate::common::{Running, TestFolder, has_two_cpus, json, said, until};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The shortest disturbance: far longer than what else delays a message on a busy machine.
const DISTURBED: Duration = Duration::from_millis(700);

/// A subscriber that ends after `count` messages, with the worst `kept` of them.
fn subscribe(place: &TestFolder, uri: &str, count: u32, kept: u32, more: &[&str]) -> Running {
    let [count, kept] = [count, kept].map(|number| number.to_string());
    let words = ["sub", uri, "--stats", "latency", "--json", "--count"];
    let words = [&words[..], &[&count, "--worst", &kept], more].concat();
    let running = place.start(&words);
    place.await_subscribers("x", 1);
    running
}

fn report(subscriber: Running) -> Value {
    let output = subscriber.output();
    assert!(output.status.success(), "{}", said(&output));
    json(&output)["worst"].clone()
}

/// The causes of the worst messages.
fn causes(report: &Value) -> Vec<&str> {
    let messages = report["messages"].as_array().unwrap();
    messages
        .iter()
        .map(|one| one["cause"].as_str().unwrap())
        .collect()
}

/// Waits until the publisher of channel x has published `bytes` more.
fn await_published(place: &TestFolder, bytes: u64) {
    let cursor = || {
        let info = place.look("x");
        info.and_then(|info| info.publishers.first().map(|lane| lane.cursor))
            .unwrap_or(0)
    };
    let before = cursor();
    until("messages", || cursor() >= before + bytes);
}

/// The length of the disturbance is what is tested, so it is waited for.
fn await_disturbance() {
    let begun = Instant::now();
    until("the disturbance", || begun.elapsed() > DISTURBED);
}

#[test]
fn messages_of_the_time_in_which_the_subscriber_was_stopped_say_so() {
    let place = TestFolder::new();
    let subscriber = subscribe(&place, "x", 2_500, 5, &[]);
    let _publisher = place.start(&["pub", "x", "--rate", "1K", "--count", "2500"]);
    await_published(&place, 200 * 40);
    subscriber.signal(Signal::STOP);
    await_published(&place, 700 * 40);
    subscriber.signal(Signal::CONT);
    let report = report(subscriber);
    assert_eq!(causes(&report), ["subscriber_stopped"; 5], "{report}");
    let first = &report["messages"][0];
    assert!(
        first["latency_ns"].as_u64().unwrap() > 300_000_000,
        "{report}"
    );
    assert_eq!(
        report["above_p99"][0]["cause"], "subscriber_stopped",
        "{report}"
    );
}

#[test]
fn messages_of_a_stopped_publisher_name_it() {
    let place = TestFolder::new();
    let subscriber = subscribe(&place, "x", 2_500, 5, &[]);
    let publisher = place.start(&["pub", "x", "--rate", "1K", "--count", "2500"]);
    await_published(&place, 200 * 40);
    publisher.signal(Signal::STOP);
    await_disturbance();
    publisher.signal(Signal::CONT);
    let report = report(subscriber);
    assert_eq!(causes(&report), ["publisher_stopped"; 5], "{report}");
    let by = report["messages"][0]["by"].as_str().unwrap();
    assert_eq!(by, format!("pid {}", publisher.child.id()));
}

/// The ring has room for 2,000 messages. The other subscriber holds the publisher back.
#[test]
fn messages_that_waited_for_room_name_the_subscriber_that_held_the_publisher() {
    let place = TestFolder::new();
    let uri = "shm://x?capacity=64KiB";
    let subscriber = subscribe(&place, uri, 9_000, 5, &[]);
    let other = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 2);
    let _publisher = place.start(&["pub", uri, "--rate", "3K", "--count", "9000"]);
    await_published(&place, 100 * 40);
    other.signal(Signal::STOP);
    until("back-pressure", || {
        let held = |info: &olivine::admin::ChannelInfo| info.publishers[0].back_pressure_ns;
        place.look("x").as_ref().map_or(0, held) > 700_000_000
    });
    other.signal(Signal::CONT);
    let report = report(subscriber);
    assert_eq!(causes(&report), ["ring_full"; 5], "{report}");
    let by = report["messages"][0]["by"].as_str().unwrap();
    assert_eq!(by, format!("pid {}", other.child.id()));
}

/// Other programs on the CPU of a spinning subscriber take it for milliseconds.
#[test]
fn messages_of_a_preempted_subscriber_name_what_had_its_cpu() {
    if !has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let cpu = olivine_bench::cpus::allowed()[0].to_string();
    let hog = || {
        let mut hog = Command::new("taskset");
        hog.args(["--cpu-list", &cpu, "sh", "-c", "while :; do :; done"]);
        hog.stdin(Stdio::null()).spawn().map(Running::new)
    };
    let hogs: Result<Vec<_>, _> = (0..4).map(|_| hog()).collect();
    let Ok(hogs) = hogs else {
        return crate::common::skip(
            "taskset is missing: preemption by a known program is left out",
        );
    };
    let subscriber = subscribe(&place, "x", 3_000, 50, &["--wait", "spin", "--cpu", &cpu]);
    let _publisher = place.start(&["pub", "x", "--rate", "1K", "--count", "3000"]);
    let report = report(subscriber);
    // On a busy machine the publisher waits for its CPU, too.
    let messages = report["messages"].as_array().unwrap();
    let preempted = messages.iter().find(|one| one["cause"] == "preempted");
    let by = preempted.unwrap_or_else(|| panic!("{report}"))["by"].as_str();
    // Other tests may use more of this CPU.
    assert!(
        by.is_some_and(|by| by.contains("% of CPU") && by.contains("pid ")),
        "{report}"
    );
    drop(hogs);
}
