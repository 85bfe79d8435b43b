//! Reports while nothing happens: what the tool waits for, which participant holds it back, and the
//! remedy.

use crate::common::{Running, TestFolder, hear, json, said, until};
use rustix::process::Signal;
use std::io::Read;

#[test]
fn subscriber_reports_a_missing_listener_and_retries() {
    let place = TestFolder::new();
    let mut subscriber = place.start(&["sub", "tcp://127.0.0.1:1/x"]);
    let (line, _) = hear(&mut subscriber, "127.0.0.1:1");
    assert!(
        line.contains("refused") && line.contains("trying again"),
        "{line}"
    );
    let mut quiet = place.start(&[
        "sub",
        "tcp://127.0.0.1:1/x",
        "-l",
        "warn",
        "--duration",
        "2s",
    ]);
    assert!(quiet.wait().success());
    let mut said = String::new();
    quiet
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
}

#[test]
fn wait_for_a_publisher_is_reported_once() {
    let place = TestFolder::new();
    let file = place.path().join("x.olv").display().to_string();
    let mut recorder = place.start(&["record", "x", &file]);
    let (line, mut rest) = hear(&mut recorder, "waiting");
    assert_eq!(line, "olivine: waiting for a publisher on shm://x\n");
    assert!(place.run(&["pub", "shm://x", "hello"]).status.success());
    assert!(recorder.wait().success());
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert!(!said.contains("waiting"), "{said}");
    let mut publisher = place.start(&["pub", "shm://y", "--subscribers", "1", "hello"]);
    let (line, _) = hear(&mut publisher, "waiting");
    assert_eq!(line, "olivine: waiting for 1 subscriber on shm://y\n");
}

#[test]
fn stream_that_ends_without_a_message_says_so() {
    let place = TestFolder::new();
    let nothing = place.run(&["sub", "shm://x", "--duration", "10ms"]);
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert_eq!(nothing.status.code(), Some(0));
    assert_eq!(
        said.lines().last(),
        Some("olivine: no message came on shm://x")
    );
    let counted = place.run(&["sub", "shm://x", "--duration", "10ms", "--out", "none"]);
    let summary = String::from_utf8_lossy(&counted.stdout);
    assert!(summary.starts_with("received 0 messages"), "{summary}");
    assert!(!String::from_utf8_lossy(&counted.stderr).contains("no message"));
}

#[test]
fn both_ends_report_removed_files() {
    let place = TestFolder::new();
    let mut subscriber = place.start(&["sub", "shm://gone"]);
    let (_, mut rest_of_subscriber) = hear(&mut subscriber, "waiting");
    let mut publisher = place.start(&["pub", "shm://gone", "--subscribers", "2", "hello"]);
    let (_, mut rest_of_publisher) = hear(&mut publisher, "waiting");
    std::fs::remove_dir_all(place.path().join("gone")).unwrap();
    for rest in [&mut rest_of_subscriber, &mut rest_of_publisher] {
        let mut line = String::new();
        std::io::BufRead::read_line(rest, &mut line).unwrap();
        assert!(
            line.contains("shm://gone was removed from its folder") && line.contains("RemoveIPC"),
            "{line}"
        );
    }
}

/// A publisher with more messages than the ring holds.
fn filling(place: &TestFolder, channel: &str) -> Running {
    place.start(&["pub", channel, "--count", "10K", "--size", "100", "--json"])
}

#[test]
fn publisher_names_the_absent_durable_subscriber_and_the_remedy() {
    let place = TestFolder::new();
    let uri = "shm://held?capacity=64KiB";
    let absent = place.start(&["sub", uri, "--name", "audit"]);
    place.await_subscribers("held", 1);
    absent.signal(Signal::KILL);
    drop(absent);
    let mut publisher = filling(&place, uri);
    let (line, _rest) = hear(&mut publisher, "waits for its durable subscriber");
    let command = "olivine rm shm://held --name audit";
    assert!(
        line.contains("'audit'") && line.contains("behind"),
        "{line}"
    );
    assert!(line.contains(&format!("'{command}'")), "{line}");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let forgotten = place.run(&words);
    assert!(forgotten.status.success(), "{}", said(&forgotten));
    let output = publisher.output();
    assert!(output.status.success());
    assert_eq!(json(&output)["messages_count"], 10_000);
}

/// A shell reads each command that is printed as it is meant.
#[test]
fn folder_with_odd_characters_is_quoted_in_each_remedy() {
    let place = TestFolder::new();
    let dir = place.path().join("chan dir;touch x").display().to_string();
    let hint = place.run(&["pub", "read", "--dir", &dir, "hello"]);
    let hint = said(&hint);
    assert!(
        hint.contains(&format!(
            "olivine sub shm://read --from oldest --dir '{dir}'"
        )),
        "{hint}"
    );
    let config = olivine::Config::parse("shm://held").unwrap().dir(&dir);
    let absent = place.start(&["sub", "held", "--dir", &dir, "--name", "audit"]);
    until("the subscriber", || {
        let info = olivine::admin::inspect(&config);
        info.is_ok_and(|info| !info.subscribers.is_empty())
    });
    absent.signal(Signal::KILL);
    drop(absent);
    let mut publisher = place.start(&[
        "pub",
        "held",
        "--dir",
        &dir,
        "--capacity",
        "64KiB",
        "--count",
        "10000",
    ]);
    let (line, _rest) = hear(&mut publisher, "waits for its durable subscriber");
    let (_, command) = line.split_once("'olivine ").unwrap();
    let command = command.trim_end().strip_suffix('\'').unwrap();
    let words = shlex::split(command).unwrap();
    assert_eq!(
        words,
        ["rm", "shm://held", "--name", "audit", "--dir", &dir]
    );
    let top = place.run(&["top", "--once", "--json", "held", "--dir", &dir]);
    let remedy = json(&top)["findings"][0]["remedy"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(shlex::split(&remedy).unwrap()[1..], words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let forgotten = place.run(&words);
    assert!(forgotten.status.success(), "{}", said(&forgotten));
    assert!(publisher.wait().success());
}

#[test]
fn publisher_names_the_stopped_process() {
    let place = TestFolder::new();
    let uri = "shm://stuck?capacity=64KiB";
    let stopped = place
        .start(&["sub", uri, "--once", "--out", "none"])
        .reading();
    place.await_subscribers("stuck", 1);
    stopped.signal(Signal::STOP);
    let mut publisher = filling(&place, uri);
    let (line, _rest) = hear(&mut publisher, "waits for its subscriber");
    assert!(
        line.contains(&format!("process {},", stopped.child.id())),
        "{line}"
    );
    let remedy = format!("'kill -CONT {}'", stopped.child.id());
    let is_free = "; its end frees the publisher";
    assert!(line.contains(&remedy) && line.contains(is_free), "{line}");
    stopped.signal(Signal::CONT);
    assert!(publisher.output().status.success());
    assert!(stopped.output().status.success());
}

/// The end of a durable subscriber does not free the publisher, and no line says so. The names that
/// recorders and bridges give themselves are known.
#[test]
fn publisher_does_not_call_the_end_of_a_durable_subscriber_a_remedy() {
    let place = TestFolder::new();
    for (channel, name, what) in [
        ("stuck", "audit", "its subscriber"),
        ("recorded", "bridge.0", "its recorder or bridge"),
        ("served", "tcp.0", "its far side over tcp://"),
    ] {
        let uri = format!("shm://{channel}?capacity=64KiB");
        let stopped = place.start(&["sub", &uri, "--name", name, "--out", "none"]);
        place.await_subscribers(channel, 1);
        stopped.signal(Signal::STOP);
        let mut publisher = filling(&place, &uri);
        let (line, mut rest) = hear(&mut publisher, "waits for its");
        let named = format!("waits for {what} '{name}', process {}", stopped.child.id());
        assert!(line.contains(&named), "{line}");
        let forget = format!("'olivine rm shm://{channel} --name {name}'");
        assert!(line.contains(&forget) && !line.contains("frees"), "{line}");
        // It was killed, and holds the publisher still.
        stopped.signal(Signal::KILL);
        drop(stopped);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut rest, &mut line).unwrap();
        assert!(
            line.contains("which is gone") && line.contains(&forget),
            "{line}"
        );
        assert!(place.run(&["rm", channel, "--name", name]).status.success());
        assert!(publisher.output().status.success());
    }
}

#[test]
fn only_an_absent_durable_subscriber_can_be_removed() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://kept", "--name", "audit"]);
    place.await_subscribers("kept", 1);
    for (name, words) in [
        ("other", "has no durable subscriber 'other'"),
        ("audit", "audit"),
    ] {
        let output = place.run(&["rm", "shm://kept", "--name", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    subscriber.signal(Signal::INT);
    assert!(subscriber.output().status.success());
    let output = place.run(&["rm", "shm://kept", "--name", "audit", "--json"]);
    assert_eq!(json(&output)["forgotten"][0]["name"], "audit");
    assert_eq!(place.left(), Vec::<String>::new());
}

/// With messages of any type; a failure on one channel does not stop the others.
#[test]
fn durable_subscriber_is_removed_from_every_channel() {
    let place = TestFolder::new();
    for (channel, uri) in [("about", "shm://about?topic=a.*"), ("plain", "shm://plain")] {
        let subscriber = place.start(&["sub", uri, "--name", "audit"]);
        place.await_subscribers(channel, 1);
        subscriber.signal(Signal::INT);
        assert!(subscriber.output().status.success());
    }
    let stays = place.start(&["sub", "shm://plain"]);
    place.await_subscribers("plain", 1);
    let words = [
        "rm",
        "shm://about",
        "shm://none",
        "shm://plain",
        "--name",
        "audit",
        "--json",
    ];
    let output = place.run(&words);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    assert!(said(&output).contains("'none'"), "{}", said(&output));
    let report = json(&output);
    assert_eq!(report["failed_count"], 1, "{report}");
    let forgotten = report["forgotten"].as_array().unwrap();
    let told: Vec<_> = forgotten
        .iter()
        .map(|one| (one["channel"].as_str(), one["channel_removed"].as_bool()))
        .collect();
    let expected = [("about", true), ("plain", false)];
    assert_eq!(told, expected.map(|(name, gone)| (Some(name), Some(gone))));
    assert_eq!(place.left(), ["plain"]);
    drop(stays);
}

/// A subscriber that is pinned to a CPU opens in the same way.
#[test]
fn sealed_channel_is_waited_for_up_to_the_timeout() {
    let place = TestFolder::new();
    let uri = format!("shm+fd://{}/sock", place.path().display());
    let cpu = olivine_bench::cpus::allowed()[0].to_string();
    for pinned in [&[][..], &["--cpu", &cpu]] {
        let words = ["sub", &uri, "--duration", "1s", "--json"];
        let output = place.run(&[&words, pinned].concat());
        assert!(output.status.success(), "{}", said(&output));
        let summary = json(&output);
        assert_eq!(summary["messages_count"], 0);
        assert!(
            summary["elapsed_ns"].as_u64().unwrap() >= 1_000_000_000,
            "{summary}"
        );
        assert!(
            said(&output).contains("waiting for the publisher of shm+fd://"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn messages_and_statistics_are_one_stream_of_json() {
    let place = TestFolder::new();
    let subscriber = place
        .start(&[
            "sub",
            "shm://json",
            "--once",
            "--json",
            "--stats",
            "interval",
            "--out",
            "json",
        ])
        .reading();
    place.await_subscribers("json", 1);
    let sent = b"a \"quoted\" line\n\xff\xfe\n".to_vec();
    let words = ["pub", "shm://json", "--stdin", "lines", "--tag", "7"];
    assert!(place.start_with(&words, sent).output().status.success());
    let output = subscriber.output();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .collect::<Vec<_>>()
    };
    let messages = of("message");
    assert_eq!(messages[0]["text"], "a \"quoted\" line");
    assert_eq!(
        (&messages[0]["tag"], &messages[0]["lane"]),
        (&7.into(), &0.into())
    );
    assert_eq!(messages[1]["base64"], "//4=");
    assert_eq!((messages.len(), of("summary").len()), (2, 1));
    assert_eq!(lines.last().unwrap()["event"], "summary");
    assert!(!of("interval").is_empty());
}

/// All messages may come in a single poll; that took time, too.
#[test]
fn journal_read_at_once_has_a_duration() {
    let place = TestFolder::new();
    let uri = format!("file://{}", place.path().join("j.olv").display());
    assert!(place.run(&["pub", &uri, "one", "two"]).status.success());
    let summary = json(&place.run(&["sub", &uri, "--out", "none", "--json"]));
    assert_eq!(summary["messages_count"], 2);
    assert!(summary["elapsed_ns"].as_u64().unwrap() > 0, "{summary}");
    let idle = place.start(&["sub", "shm://idle", "--json"]);
    place.await_subscribers("idle", 1);
    idle.signal(Signal::INT);
    let summary = json(&idle.output());
    assert!(summary["elapsed_ns"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn subscriber_says_once_that_its_publisher_was_killed() {
    let place = TestFolder::new();
    for more in [&["--once"][..], &[]] {
        let words = [&["sub", "orphan", "--out", "none"], more].concat();
        let mut reader = place.start(&words);
        place.await_subscribers("orphan", 1);
        let publisher = place.start(&["pub", "orphan", "--rate", "1000"]);
        place.await_publishing("orphan");
        let pid = publisher.child.id();
        publisher.signal(Signal::KILL);
        assert_eq!(publisher.output().status.code(), None);
        let (line, mut rest) = hear(&mut reader, "gone without closing");
        let expected = format!(
            "olivine: the publisher of lane 0 of shm://orphan (process {pid}) is gone without \
             closing: it was killed, or is a bridge that was stopped; waiting for the next \
             publisher\n"
        );
        assert_eq!(line, expected);
        let next = place.run(&["pub", "orphan", "one"]);
        assert!(next.status.success(), "{}", said(&next));
        if more.is_empty() {
            reader.signal(Signal::INT);
        }
        let mut after = String::new();
        rest.read_to_string(&mut after).unwrap();
        assert!(!after.contains("gone without closing"), "{after}");
        assert!(reader.wait().success(), "{after}");
    }
}

/// They are lost with the last program that uses the channel.
#[test]
fn reader_that_begins_behind_unread_messages_says_so() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("rec.olv").display().to_string();
    let note = |remedy: &str| {
        format!(
            "olivine: shm://rec has 48 B of older messages that no subscriber has read, and this \
             one begins behind them: {remedy} reads them; they are gone when the last program that \
             uses the channel ends\n"
        )
    };
    for (words, remedy) in [
        (
            &["sub", "rec", "--once"][..],
            "'olivine sub shm://rec --from oldest'",
        ),
        (
            &["record", "rec", &file],
            "'shm://rec?from=oldest' as the source",
        ),
    ] {
        let published = place.run(&["pub", "rec", "a", "b", "c"]);
        assert!(published.status.success(), "{}", said(&published));
        let mut reader = place.start(words);
        let (line, rest) = hear(&mut reader, "older messages");
        assert_eq!(line, note(remedy));
        reader.signal(Signal::INT);
        drop(rest);
        reader.wait();
    }
    for words in [
        &["sub", "rec", "--from", "oldest", "--once"][..],
        &["record", "shm://rec?from=oldest", &file],
    ] {
        let published = place.run(&["pub", "rec", "a", "b", "c"]);
        assert!(published.status.success(), "{}", said(&published));
        let output = place.run(words);
        assert!(output.status.success(), "{}", said(&output));
        assert!(!said(&output).contains("older"), "{}", said(&output));
    }
    let known = place.run(&["journal", "info", &file, "--exact", "--json"]);
    assert_eq!(json(&known)["messages"], 3, "{}", json(&known));
}

/// A person copies it into a shell, and gets the same channel.
#[test]
fn source_that_reads_unread_messages_has_the_other_keys_and_is_quoted() {
    let place = TestFolder::new();
    let folder = place.path().join("it's here");
    std::fs::create_dir(&folder).unwrap();
    let dir = format!("dir={}", folder.display());
    let source = format!("shm://rec?{dir}&name=ledger");
    let file = folder.join("rec.olv").display().to_string();
    let published = place.run(&["pub", &format!("shm://rec?{dir}"), "a"]);
    assert!(published.status.success(), "{}", said(&published));
    let mut reader = place.start(&["record", &source, &file]);
    let (line, rest) = hear(&mut reader, "older messages");
    reader.signal(Signal::INT);
    drop(rest);
    reader.wait();
    let (_, remedy) = line.split_once("begins behind them: ").unwrap();
    let words = shlex::split(remedy).unwrap();
    let wanted = format!("shm://rec?from=oldest&name=ledger&{dir}");
    assert_eq!(words[0], wanted, "{line}");
}
