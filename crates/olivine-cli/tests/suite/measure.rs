//! Generated messages: verified, paced, reported; the demo and the bench commands.

use crate::common::{TestFolder, json, said};
use rustix::process::Signal;

#[test]
fn every_generated_message_is_verified() {
    let place = TestFolder::new();
    let uri = "shm://checked?capacity=64KiB";
    for (size, batch) in [
        ("16", "1"),
        ("32", "16"),
        ("61,8192,300", "1"),
        ("100", "7"),
    ] {
        let subscriber = place.start(&["sub", uri, "--once", "--verify", "--json"]);
        place.await_subscribers("checked", 1);
        let words = [
            "pub", uri, "--count", "20K", "--size", size, "--batch", batch, "--json", "--tag", "5",
        ];
        let sent = json(&place.run(&words));
        let output = subscriber.output();
        let received = json(&output);
        assert_eq!(output.status.code(), Some(0), "{received}");
        assert_eq!(sent["messages_count"], 20_000);
        assert_eq!(received["payload_bytes"], sent["payload_bytes"]);
        let counts = &received["verified"];
        assert_eq!(
            counts["intact_count"], 20_000,
            "size {size} batch {batch}: {counts}"
        );
        for name in [
            "lost_count",
            "repeated_count",
            "reordered_count",
            "corrupt_count",
        ] {
            assert_eq!(counts[name], 0, "size {size} batch {batch}: {name}");
        }
    }
}

#[test]
fn foreign_message_counts_as_corrupt() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://odd", "--once", "--verify"]);
    place.await_subscribers("odd", 1);
    assert!(
        place
            .run(&[
                "pub",
                "shm://odd",
                "this is not a generated message",
                "short"
            ])
            .status
            .success()
    );
    let output = subscriber.output();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("verified 0 messages: 0 lost, 0 repeated, 0 reordered, 2 corrupt"),
        "{text}"
    );
}

#[test]
fn rate_is_kept_and_latency_is_reported() {
    let place = TestFolder::new();
    let csv = place.path().join("rows.csv");
    let subscriber = place.start(&[
        "sub",
        "shm://paced",
        "--once",
        "--stats",
        "latency,interval",
        "--interval",
        "50ms",
        "--csv",
        csv.to_str().unwrap(),
        "--json",
    ]);
    place.await_subscribers("paced", 1);
    let sent = json(&place.run(&[
        "pub",
        "shm://paced",
        "--count",
        "1000",
        "--rate",
        "4K",
        "--json",
    ]));
    // The last of 1000 messages is due 999 periods after the first.
    assert!(
        sent["elapsed_ns"].as_u64().unwrap() >= 999 * 250_000,
        "{sent}"
    );
    let output = subscriber.output();
    let received = json(&output);
    let latency = &received["latency"];
    assert_eq!(latency["count"], 1000);
    assert!(latency["p50_ns"].as_f64().unwrap() <= latency["max_ns"].as_f64().unwrap());
    assert_eq!(latency["p99_99_ns"], serde_json::Value::Null);
    let rows = std::fs::read_to_string(&csv).unwrap();
    let mut lines = rows.lines();
    let heads = lines.next().unwrap().split(',').count();
    let mut messages = 0;
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), heads, "{line}");
        messages += cells[1].parse::<u64>().unwrap();
    }
    assert_eq!(messages, 1000);
    let events = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|l| l.contains("\"interval\""))
        .count();
    assert!(events >= 1);
}

#[test]
fn demo_loses_nothing_and_leaves_nothing() {
    let place = TestFolder::new();
    let output = place.run(&["demo", "--seconds", "0.35", "--rate", "5K", "--json"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["lost_count"], 0);
    assert!(report["full_speed"]["sent_count"].as_u64().unwrap() > 0);
    assert_eq!(
        report["paced"]["sent_count"],
        report["paced"]["received_count"]
    );
    assert!(report["paced"]["latency"]["min_ns"].is_number());
    assert_eq!(place.left(), Vec::<String>::new(), "{}", said(&output));
}

#[test]
fn interrupted_demo_cleans_up_and_reports() {
    let place = TestFolder::new();
    let demo = place.start(&["demo", "--seconds", "600"]);
    crate::common::until("the demo's publisher", || {
        place.left().iter().any(|name| {
            place
                .look(name)
                .is_some_and(|info| info.publishers.iter().any(|p| p.cursor > 0))
        })
    });
    demo.signal(Signal::INT);
    let output = demo.output();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}{}", said(&output));
    assert!(
        text.contains("(interrupted)") && text.contains("0 lost"),
        "{text}"
    );
    assert_eq!(place.left(), Vec::<String>::new());
}

/// After a `kill -9` of the demo its two processes end, too, and `gc` removes their channel.
#[test]
fn killed_demo_leaves_no_process() {
    let place = TestFolder::new();
    let demo = place.start(&["demo", "--seconds", "600"]);
    let is_live = || {
        place.left().iter().any(|name| {
            place.look(name).is_some_and(|info| {
                info.publishers
                    .iter()
                    .any(|p| p.cursor > 0 && p.state == olivine::LaneState::Open)
            })
        })
    };
    crate::common::until("the demo's publisher", is_live);
    demo.signal(Signal::KILL);
    drop(demo);
    crate::common::until("the end of its processes", || {
        place.left().iter().all(|name| {
            place.look(name).is_none_or(|info| {
                info.publishers
                    .iter()
                    .all(|p| p.state != olivine::LaneState::Open)
                    && info.subscribers.iter().all(|s| !s.alive)
            })
        })
    });
    assert!(place.run(&["gc"]).status.success());
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn every_bench_command_gives_figures_and_leaves_nothing() {
    if !crate::common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let short = ["--runs", "1", "--seconds", "0.05", "--json"];
    let bench = |words: &[&str]| {
        let all: Vec<&str> = ["bench"]
            .iter()
            .chain(words)
            .chain(&short)
            .copied()
            .collect();
        let output = place.run(&all);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words:?}: {}",
            said(&output)
        );
        let report = json(&output);
        assert!(report["machine"]["kernel"].is_string() && report["cpus"].is_array());
        report
    };
    let median = |row: &serde_json::Value, name: &str| row["values"][name]["median"].as_f64();
    let floor = &bench(&["floor"])["results"][0];
    assert_eq!(floor["method"], "bare cache line, to and fro");
    assert!(median(floor, "p50_ns") > Some(0.0), "{floor}");
    // A slice during which other work moved the CPUs has no ratio.
    crate::common::until("a run whose slices keep their placement", || {
        let words = ["pingpong", "--slots", "64,1024", "--wait", "adaptive"];
        let pingpong = &bench(&words)["results"];
        assert!(pingpong.as_array().unwrap().len() >= 2);
        median(&pingpong[0], "ratio_p50") > Some(0.0)
    });
    let throughput = &bench(&["throughput", "--size", "32,4096", "--batch", "1,4"])["results"];
    assert!(throughput.as_array().unwrap().len() >= 4);
    assert!(
        median(&throughput[0], "messages_per_s") > Some(0.0),
        "{throughput}"
    );
    let latency = &bench(&["latency", "--rate", "10K"])["results"];
    assert!(
        latency[0]["distribution"]["min_ns"].is_number(),
        "{latency}"
    );
    assert_eq!(place.left(), Vec::<String>::new());
}

/// The time counts from the first message: the ten milliseconds before it do not count.
#[test]
fn rate_lasts_the_whole_time() {
    let place = TestFolder::new();
    let words = ["pub", "x", "--rate", "1000", "--duration", "200ms"];
    crate::common::until("a run that nothing else disturbs", || {
        let sent = json(&place.run(&[&words[..], &["--json"]].concat()));
        sent["messages_count"].as_u64() >= Some(195)
    });
}
