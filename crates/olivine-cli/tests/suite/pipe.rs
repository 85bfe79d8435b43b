//! `pub` and `sub` as a Unix pipe that fans out.

use crate::common::{Running, TestFolder, awkward_text, hear, json, said, until};
use olivine::admin::ProcessState;
use olivine::{Config, MessageType, Outgoing, Publisher};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

/// Early subscribers, a ring far smaller than the file, a publisher that exits after its last
/// write.
#[test]
fn lines_reach_three_subscribers_byte_for_byte() {
    let place = TestFolder::new();
    let text = awkward_text(3 << 20);
    let subscribers: Vec<_> = (0..3)
        .map(|_| {
            place
                .start(&["sub", "shm://lines?capacity=16KiB", "--once"])
                .reading()
        })
        .collect();
    place.await_subscribers("lines", 3);
    let publisher = place
        .start_with(&["pub", "shm://lines", "--stdin", "lines"], text.clone())
        .output();
    assert!(publisher.status.success(), "{}", said(&publisher));
    for subscriber in subscribers {
        let output = subscriber.output();
        assert!(output.status.success(), "{}", said(&output));
        assert!(
            output.stdout == text,
            "{} of {} bytes came",
            output.stdout.len(),
            text.len()
        );
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

/// A subscriber that was there before the publisher, and so before the fields.
#[test]
fn values_of_another_program_are_printed_by_their_fields() {
    let place = TestFolder::new();
    let sub = ["sub", "shm://trades", "--once", "--out", "json"];
    let subscriber = place.start(&sub).reading();
    place.await_subscribers("trades", 1);
    let uri = format!("shm://trades?dir={}", place.path().display());
    let trade = MessageType::new("trade v1", 16, 8).unwrap();
    let trade = trade.with_fields("price i64, symbol text[8]").unwrap();
    let mut publisher = Publisher::open_for(&Config::parse(&uri).unwrap(), &trade).unwrap();
    for price in [-7_i64, i64::MAX] {
        let value = [price.to_le_bytes(), *b"OLV\0\0\0\0\0"].concat();
        publisher.publish(&value).unwrap();
    }
    let inspected = json(&place.run(&["inspect", "shm://trades", "--json"]));
    assert_eq!(inspected["fields"], "price i64, symbol text[8]");
    let last = place.run(&["sub", "shm://trades", "--last", "--out", "json"]);
    let last = String::from_utf8_lossy(&last.stdout).into_owned();
    assert!(last.contains(r#""symbol":"OLV""#), "{last}");
    publisher.close().unwrap();
    let output = subscriber.output();
    let lines = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<_> = lines
        .lines()
        .map(|line| line.split_once(r#""fields":"#).unwrap().1)
        .collect();
    assert_eq!(
        fields,
        [
            r#"{"price":-7,"symbol":"OLV"}}"#,
            r#"{"price":9223372036854775807,"symbol":"OLV"}}"#
        ]
    );
}

#[test]
fn values_from_a_connection_and_a_journal_are_printed_by_their_fields() {
    let place = TestFolder::new();
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let far = format!("tcp://127.0.0.1:{port}/trades");
    let journal = format!("file://{}", place.path().join("trades.olv").display());
    let value = r#"{"price":-7,"symbol":"OLV"}"#;
    let published = |uri: &str, more: &[&str]| {
        let stated = "trade v1: price i64, symbol text[8]";
        let words = [&["pub", uri, "--type", stated, value], more].concat();
        let output = place.run(&words);
        assert!(output.status.success(), "{}", said(&output));
    };
    let sub = |uri: &str| place.start(&["sub", uri, "--from", "oldest", "--once", "--out", "json"]);
    let printed = |subscriber: Running| {
        let output = subscriber.output();
        let line = String::from_utf8(output.stdout).unwrap();
        let fields = line.trim_end().split_once(r#""fields":"#);
        assert_eq!(fields.unwrap().1, format!("{value}}}"));
    };
    let subscriber = sub(&far).reading();
    published(&far, &["--subscribers", "1"]);
    printed(subscriber);
    published(&journal, &[]);
    printed(sub(&journal));
}

/// A reader that leaves has what it wanted, as of `head -n 1`. Without any standard output the
/// runtime of Rust opens `/dev/null` in its place, before the tool runs.
#[test]
fn closed_standard_output_is_not_a_failure() {
    let place = TestFolder::new();
    let tool = env!("CARGO_BIN_EXE_olivine");
    for script in [
        format!("set -o pipefail; {tool} sub read --from oldest --count 3 | true"),
        format!("{tool} sub read --from oldest --count 3 >&-"),
        format!("{tool} ls >&-"),
    ] {
        let published = place.run(&["pub", "read", "one", "two", "three"]);
        assert!(published.status.success(), "{}", said(&published));
        let mut shell = std::process::Command::new("bash");
        let shell = shell.args(["-c", &script]).env("OLIVINE_DIR", place.path());
        let output = shell.env("OLIVINE_CONFIG", "").output().unwrap();
        assert!(output.status.success(), "{script}: {}", said(&output));
    }
}

/// The first publisher states no fields, the second one does.
#[test]
fn values_are_printed_by_fields_that_are_stated_later() {
    let place = TestFolder::new();
    let sub = ["sub", "shm://later", "--count", "2", "--out", "json"];
    let subscriber = place.start(&sub).reading();
    place.await_subscribers("later", 1);
    let uri = format!("shm://later?dir={}", place.path().display());
    let config = Config::parse(&uri).unwrap();
    let trade = MessageType::new("trade v1", 8, 8).unwrap();
    let mut bare = Publisher::open_for(&config, &trade).unwrap();
    bare.publish(&1_i64.to_le_bytes()).unwrap();
    until("the first message is read", || {
        let info = place.look("later");
        info.is_some_and(|info| info.subscribers.iter().all(|one| one.lag_bytes == 0))
    });
    let trade = trade.with_fields("price i64").unwrap();
    let mut stating = Publisher::open_for(&config, &trade).unwrap();
    stating.publish(&2_i64.to_le_bytes()).unwrap();
    let output = subscriber.output();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = lines.lines().collect();
    assert!(!lines[0].contains("fields"), "{lines:?}");
    assert!(lines[1].ends_with(r#""fields":{"price":2}}"#), "{lines:?}");
}

#[test]
fn raw_bytes_reach_the_others_after_one_subscriber_is_killed() {
    let place = TestFolder::new();
    let bytes = awkward_text(4 << 20);
    let subscribers: Vec<_> = (0..2)
        .map(|_| {
            place
                .start(&["sub", "shm://raw?capacity=64KiB", "--once", "--out", "raw"])
                .reading()
        })
        .collect();
    // The output of this subscriber is not read: it blocks on a full pipe and holds the publisher
    // back.
    let stuck = place.start(&["sub", "shm://raw?capacity=64KiB", "--once", "--out", "raw"]);
    place.await_subscribers("raw", 3);
    let words = ["pub", "shm://raw", "--stdin", "raw", "--size", "1000"];
    let publisher = place.start_with(&words, bytes.clone());
    until("back-pressure", || {
        let info = place.look("raw");
        info.is_some_and(|info| {
            info.publishers
                .iter()
                .any(|p| p.back_pressure_count > 0 && p.cursor > 64_000)
        })
    });
    stuck.signal(Signal::KILL);
    assert!(publisher.output().status.success());
    for subscriber in subscribers {
        let output = subscriber.output();
        assert!(
            output.stdout == bytes,
            "{} of {} bytes came",
            output.stdout.len(),
            bytes.len()
        );
    }
}

#[test]
fn frames_keep_their_tags_and_lengths() {
    let place = TestFolder::new();
    let mut frames = Vec::new();
    for n in 0..2000_u32 {
        let payload = vec![n.to_le_bytes()[0]; (n % 97) as usize];
        frames.extend_from_slice(&(n % 97).to_le_bytes());
        frames.extend_from_slice(&(n * 7).to_le_bytes());
        frames.extend_from_slice(&payload);
    }
    let subscriber = place.start(&["sub", "shm://frames", "--once", "--out", "frames"]);
    place.await_subscribers("frames", 1);
    let publisher = place.start_with(
        &["pub", "shm://frames", "--stdin", "frames"],
        frames.clone(),
    );
    assert!(publisher.output().status.success());
    assert!(subscriber.output().stdout == frames);
}

#[test]
fn arguments_are_messages_and_repeat() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://words", "--once"]);
    place.await_subscribers("words", 1);
    let publisher = place.run(&["pub", "shm://words", "--count", "5", "one", "two words", ""]);
    assert_eq!(
        (publisher.status.code(), said(&publisher)),
        (Some(0), String::new())
    );
    assert_eq!(
        subscriber.output().stdout,
        b"one\ntwo words\n\none\ntwo words\n"
    );
}

#[test]
fn sub_waits_for_the_next_publisher_without_once() {
    let place = TestFolder::new();
    let stays = place.start(&["sub", "shm://stay"]);
    let once = place.start(&["sub", "shm://stay", "--once"]);
    place.await_subscribers("stay", 2);
    assert!(place.run(&["pub", "shm://stay", "one"]).status.success());
    let ended = once.output();
    assert_eq!(
        (ended.status.code(), &ended.stdout[..]),
        (Some(0), &b"one\n"[..])
    );
    assert!(place.run(&["pub", "shm://stay", "two"]).status.success());
    until("both are read", || {
        let info = place.look("stay");
        info.is_some_and(|info| info.subscribers.iter().all(|one| one.lag_bytes == 0))
    });
    stays.signal(Signal::INT);
    let ended = stays.output();
    assert_eq!(
        (ended.status.code(), &ended.stdout[..]),
        (Some(0), &b"one\ntwo\n"[..])
    );
}

#[test]
fn early_subscriber_reports_the_wait_and_ends_at_its_count() {
    let place = TestFolder::new();
    let mut subscriber = place.start(&["sub", "shm://first", "--count", "2"]);
    let mut notice = String::new();
    BufReader::new(subscriber.child.stderr.take().unwrap())
        .read_line(&mut notice)
        .unwrap();
    assert_eq!(notice, "olivine: waiting for a publisher on shm://first\n");
    assert!(
        place
            .run(&["pub", "shm://first", "a", "b", "c"])
            .status
            .success()
    );
    assert_eq!(subscriber.output().stdout, b"a\nb\n");
}

/// `| head -1`: a closed standard output ends the tool silently.
#[test]
fn closed_standard_output_ends_silently() {
    let place = TestFolder::new();
    let mut subscriber = place.start(&["sub", "shm://head", "-l", "off"]);
    place.await_subscribers("head", 1);
    let publisher = place.start(&[
        "pub",
        "shm://head",
        "--rate",
        "100K",
        "hello",
        "--count",
        "1G",
    ]);
    let mut line = String::new();
    let mut stdout = BufReader::new(subscriber.child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "hello\n");
    drop(stdout);
    assert_eq!(subscriber.wait().code(), Some(0));
    let mut complaint = String::new();
    subscriber
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut complaint)
        .unwrap();
    assert_eq!(complaint, "");
    // The publisher continues without it, and a Ctrl-C ends it with its summary.
    publisher.signal(Signal::INT);
    let output = publisher.output();
    assert_eq!(output.status.code(), Some(130), "of 1G messages");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("(interrupted)"),
        "{output:?}"
    );
    // Short output into a closed pipe.
    let mut listing = place.olivine(&["man"]);
    let mut child = listing.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn too_long_message_is_reported_in_one_line() {
    let place = TestFolder::new();
    let mut long = vec![b'x'; 5000];
    long.push(b'\n');
    let output = place
        .start_with(
            &["pub", "shm://small?capacity=4KiB", "--stdin", "lines"],
            long,
        )
        .output();
    assert_eq!(output.status.code(), Some(1));
    let complaint = said(&output);
    assert!(
        complaint.starts_with("olivine: line 1 of 5000 bytes"),
        "{complaint}"
    );
    assert!(
        complaint.contains("up to 4080 bytes; use a larger --capacity"),
        "{complaint}"
    );
    assert_eq!(complaint.lines().count(), 1);
    let torn = place
        .start_with(
            &["pub", "shm://small", "--stdin", "frames"],
            vec![9, 0, 0, 0, 0],
        )
        .output();
    assert_eq!(torn.status.code(), Some(1));
    assert!(
        said(&torn).contains("ends within frame 1: 3 bytes are missing"),
        "{}",
        said(&torn)
    );
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn ctrl_c_ends_waiting_and_streaming_with_a_summary() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://calm", "--once", "--json", "--verify"]);
    place.await_subscribers("calm", 1);
    let idle = place.start_with(
        &[
            "pub",
            "shm://other",
            "--subscribers",
            "1",
            "--stdin",
            "lines",
        ],
        Vec::new(),
    );
    until("a channel", || place.look("other").is_some());
    let publisher = place.start(&["pub", "shm://calm", "--json", "--size", "100"]);
    place.await_publishing("calm");
    idle.signal(Signal::TERM);
    assert_eq!(idle.output().status.code(), Some(143), "input left");
    publisher.signal(Signal::INT);
    let (sent, received) = (publisher.output(), subscriber.output());
    assert_eq!(
        (sent.status.code(), received.status.code()),
        (Some(0), Some(0))
    );
    let (sent, received) = (json(&sent), json(&received));
    assert_eq!(sent["interrupted"], true);
    assert_eq!(sent["messages_count"], received["messages_count"]);
    assert_eq!(received["verified"]["lost_count"], 0);
    // A subscriber that only waits.
    let lonely = place.start(&["sub", "shm://lonely"]);
    place.await_subscribers("lonely", 1);
    lonely.signal(Signal::INT);
    let output = lonely.output();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said(&output).contains("received 0 messages"),
        "{}",
        said(&output)
    );
}

/// Numbered lines, and the arguments of `olivine pub` for them.
fn numbered(count: usize) -> Vec<u8> {
    (0..count).fold(Vec::new(), |mut text, number| {
        writeln!(text, "line {number}").expect("memory");
        text
    })
}

#[test]
fn killed_durable_subscriber_has_written_what_it_released() {
    const LINES: usize = 50_000;
    let place = TestFolder::new();
    let text = numbered(LINES);
    let path = place.path().join("lines.txt");
    let subscribe = || {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        let mut command = place.olivine(&[
            "sub",
            "shm://kept",
            "--once",
            "--name",
            "reader",
            "--out",
            "lines",
        ]);
        command.stdout(file).spawn().map(Running::new).unwrap()
    };
    let mut first = subscribe();
    place.await_subscribers("kept", 1);
    let publisher = place.start_with(&["pub", "shm://kept", "--stdin", "lines"], text.clone());
    until("the first lines", || {
        std::fs::metadata(&path).unwrap().len() > 0
    });
    first.signal(Signal::KILL);
    first.wait();
    let mut second = subscribe();
    assert!(publisher.output().status.success());
    assert!(second.wait().success());
    let written = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = written.lines().collect();
    // The message that was being written comes again.
    lines.dedup();
    let count = lines.len();
    let whole = lines.join("\n") + "\n";
    assert!(whole.as_bytes() == text, "{count} lines of {LINES}");
}

#[test]
fn durable_subscriber_keeps_what_it_could_not_write() {
    let place = TestFolder::new();
    let words = [
        "sub",
        "shm://full",
        "--once",
        "--name",
        "reader",
        "--out",
        "lines",
    ];
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let first = place
        .olivine(&words)
        .stdout(full)
        .spawn()
        .map(Running::new)
        .unwrap();
    place.await_subscribers("full", 1);
    let text = numbered(1000);
    let publisher = place.start_with(&["pub", "shm://full", "--stdin", "lines"], text.clone());
    let refused = first.output();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        output.stdout == text,
        "{} bytes of {}",
        output.stdout.len(),
        text.len()
    );
    assert!(publisher.output().status.success());
}

/// Only messages of another topic come before the failure, and the next publisher has the lane.
#[test]
fn sub_with_a_topic_reports_the_failure_of_a_publisher() {
    let place = TestFolder::new();
    let uri = format!("shm://failing?dir={}", place.path().display());
    let mut fails = Publisher::open(&uri).unwrap();
    fails.publish(Outgoing::new(b"x").topic("other")).unwrap();
    let _stays = Publisher::open(&uri).unwrap();
    fails.close_failed("the disk is gone").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    next.publish(Outgoing::new(b"last").topic("own")).unwrap();
    let words = ["sub", "failing", "--from", "oldest", "--topic", "own"];
    let subscriber = place.start(&[&words[..], &["--count", "1"]].concat());
    let output = subscriber.output();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("the disk is gone"), "{told}");
}

/// An overrun of one lane comes behind messages of the other lane.
#[test]
fn sub_counts_messages_before_an_overrun() {
    let place = TestFolder::new();
    let uri = format!("shm://lapped?capacity=4KiB&dir={}", place.path().display());
    let [mut slow, mut fast] = [(); 2].map(|()| Publisher::open(&uri).unwrap());
    let subscriber = place.start(&["sub", "lapped", "--delivery", "latest", "--count", "5"]);
    place.await_subscribers("lapped", 1);
    subscriber.signal(Signal::STOP);
    until("the subscriber is stopped", || {
        let info = place.look("lapped").unwrap();
        info.subscribers[0].process == ProcessState::Stopped
    });
    for _ in 0..20 {
        slow.publish(b"slow").unwrap();
    }
    for _ in 0..1000 {
        fast.publish(b"fast").unwrap();
    }
    subscriber.signal(Signal::CONT);
    let output = subscriber.output();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 5, "{lines}");
    assert!(lines.contains("slow"), "{lines}");
}

#[test]
fn report_of_a_bridge_shows_no_secret() {
    let place = TestFolder::new();
    // Nothing listens on port 1.
    let far = "tcp://127.0.0.1:1/x?token=hidden&timeout=1s";
    let mut bridge = place.start(&["bridge", far, "shm://x", "--json"]);
    let (_, _rest) = hear(&mut bridge, "waiting for 127.0.0.1:1");
    bridge.signal(Signal::INT);
    let output = bridge.output();
    let report = json(&output);
    let source = report["bridges"][0]["source"].as_str().unwrap();
    assert_eq!(source, "tcp://127.0.0.1:1/x?token=***&timeout=1s");
}

#[test]
fn refusals_of_a_uri_show_no_secret() {
    let place = TestFolder::new();
    let far = "tcp://127.0.0.1:1/x?token=hidden";
    for words in [
        &["top", far][..],
        &["record", far, "x.olv"],
        &["replay", far, "y"],
    ] {
        let output = place.run(words);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("tcp://127.0.0.1:1/x"), "{told}");
        assert!(!told.contains("hidden"), "{told}");
    }
}
