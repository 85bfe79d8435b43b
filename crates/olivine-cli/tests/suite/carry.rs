//! `record` and `replay`, and topics from one end of the tool to the other.

use crate::common::{TestFolder, awkward_text, hear, json, said, until};
use olivine::{LaneState, ReceiveError, Subscriber};
use rustix::process::{Resource, Rlimit, Signal};
use std::io::{BufRead, BufReader};

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn recording_is_replayed_byte_for_byte() {
    let place = TestFolder::new();
    let text = awkward_text(200_000);
    let file = place.path().join("text.olv").display().to_string();
    let recorder = place.start(&["record", "text", &file, "--sync", "never", "--json"]);
    place.await_subscribers("text", 1);
    let words = ["pub", "shm://text", "--stdin", "lines"];
    let publisher = place.start_with(&words, text.clone()).output();
    assert!(publisher.status.success(), "{}", said(&publisher));
    let recorded = recorder.output();
    assert!(recorded.status.success(), "{}", said(&recorded));
    let bridge = &json(&recorded)["bridges"][0];
    assert_eq!(bridge["delivered"], true, "{bridge}");
    assert_eq!(bridge["source"], "shm://text");

    let reader = place.start(&["sub", "shm://again", "--once"]).reading();
    place.await_subscribers("again", 1);
    let replayed = place.run(&["replay", &file, "again", "--subscribers", "1"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    let output = reader.output();
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stdout == text, "{} bytes came", output.stdout.len());
}

#[test]
fn failed_replay_ends_sub_with_its_reason() {
    let place = TestFolder::new();
    let file = place.path().join("cut.olv").display().to_string();
    let journal = format!("file://{file}");
    assert!(
        place
            .run(&["pub", &journal, "--count", "100"])
            .status
            .success()
    );
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 8]).unwrap();
    for more in [&["--json"][..], &["--json", "--once"]] {
        let words = [&["sub", "shm://again", "--verify"], more].concat();
        let reader = place.start(&words).reading();
        place.await_subscribers("again", 1);
        let replay = place.run(&["replay", &file, "again", "--subscribers", "1"]);
        assert_eq!(replay.status.code(), Some(1), "{}", said(&replay));
        assert!(
            said(&replay).contains("was not finished"),
            "{}",
            said(&replay)
        );
        let output = reader.output();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("was not finished"),
            "{}",
            said(&output)
        );
        let summary = json(&output);
        assert_eq!(summary["verified"]["intact_count"], 100, "{summary}");
        let failure = summary["failure"].as_str().unwrap();
        assert!(failure.contains("was not finished"), "{summary}");
    }
    let accepted = place.run(&["sub", &format!("{journal}?unfinished=accept"), "--verify"]);
    assert!(accepted.status.success(), "{}", said(&accepted));
}

/// Others go on: the reason is printed when it is known, and is not repeated at the end.
#[test]
fn bridge_that_fails_beside_another_says_why_once() {
    let place = TestFolder::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let mut pairs = String::new();
    for name in ["whole", "cut"] {
        let journal = format!("file://{}.olv", file(name));
        let published = place.run(&["pub", &journal, "--count", "100"]);
        assert!(published.status.success(), "{}", said(&published));
        pairs +=
            &format!("[[bridge]]\nsource = \"{journal}\"\ndestination = \"shm://{name}-again\"\n");
    }
    let bytes = std::fs::read(file("cut.olv")).unwrap();
    std::fs::write(file("cut.olv"), &bytes[..bytes.len() - 8]).unwrap();
    let config = file("pairs.toml");
    std::fs::write(&config, pairs).unwrap();
    for level in ["info", "off"] {
        let output = place.run(&["bridge", "--config", &config, "--log-level", level]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let text = said(&output);
        let mut reasons = text
            .lines()
            .filter(|line| line.contains("was not finished"));
        let reason = reasons.next().unwrap();
        assert!(reason.starts_with("olivine: file://"), "{text}");
        assert!(
            reason.contains("cut.olv: ") && reason.ends_with(']'),
            "{text}"
        );
        assert_eq!(reasons.next(), None, "{text}");
    }
}

#[test]
fn ended_recorder_keeps_only_a_named_position() {
    let place = TestFolder::new();
    // The channel folder then contains only the channel's files.
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("kept.olv").display().to_string();
    for (words, kept) in [(&[][..], false), (&["--durable", "archive"][..], true)] {
        for interrupted in [false, true] {
            let record = [&["record", "claimed", &file], words].concat();
            let recorder = place.start(&record);
            place.await_subscribers("claimed", 1);
            if interrupted {
                recorder.signal(Signal::INT);
            } else {
                assert!(place.run(&["pub", "shm://claimed", "one"]).status.success());
            }
            let output = recorder.output();
            assert!(output.status.success(), "{}", said(&output));
            let left = place.left();
            assert_eq!(left.is_empty(), !kept, "{left:?}");
            assert_eq!(
                said(&output).contains("--name archive"),
                kept,
                "{}",
                said(&output)
            );
        }
    }
}

#[test]
fn interleaved_publishers_of_a_journal_are_verified_apart() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("turns.olv").display().to_string();
    let recorder = place.start(&["record", "turns", &file, "--sync", "never"]);
    place.await_subscribers("turns", 1);
    let words = ["pub", "shm://turns", "--rate", "1000", "--count", "1G"];
    let long = place.start(&words);
    place.await_publishing("turns");
    let short = place.run(&["pub", "shm://turns", "--count", "100"]);
    assert!(short.status.success(), "{}", said(&short));
    let sent = || {
        let info = place.look("turns");
        let lanes = info.map(|info| info.publishers).unwrap_or_default();
        lanes.iter().map(|lane| lane.cursor).max().unwrap_or(0)
    };
    let before = sent();
    until("the first goes on", || sent() > before);
    long.signal(Signal::INT);
    assert!(long.output().status.code().is_some());
    let recorded = recorder.output();
    assert!(recorded.status.success(), "{}", said(&recorded));

    let journal = format!("file://{file}");
    let output = place.run(&["sub", &journal, "--verify", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let count = json(&output)["verified"]["intact_count"].as_u64().unwrap();
    assert!(count > 101, "{count} messages");
    // A replay keeps the order of the recording, in one lane.
    let reader = place.start(&["sub", "shm://again", "--once", "--verify", "--json"]);
    place.await_subscribers("again", 1);
    let replayed = place.run(&["replay", &file, "again", "--subscribers", "1"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    let output = reader.output();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(json(&output)["verified"]["intact_count"], count);
}

#[test]
fn missing_channel_of_a_journal_is_refused_with_the_known_ones() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("two.olv").display().to_string();
    for channel in ["bids", "asks"] {
        let uri = format!("file://{file}?channel={channel}");
        assert!(place.run(&["pub", &uri, "one"]).status.success());
    }
    let expected = format!(
        "{file} has no messages of the channel 'trades': choose one of its channels with \
         'channel=', or --of of the tool: asks, bids"
    );
    let expected = expected.as_str();
    let output = place.run(&["replay", &file, "shm://out", "--of", "trades"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // Once, in one line.
    let line = format!("olivine: {expected} [journal.no-channel]\n");
    assert_eq!(said(&output), line);
    let output = place.run(&["sub", &format!("file://{file}?channel=trades")]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains(expected), "{}", said(&output));
    // A known channel, and an empty journal.
    let output = place.run(&["replay", &file, "shm://out", "--of", "asks"]);
    assert!(output.status.success(), "{}", said(&output));
    let empty = journals.path().join("empty.olv").display().to_string();
    let uri = format!("file://{empty}?channel=bids");
    let published = place.start_with(&["pub", &uri, "--stdin", "lines"], Vec::new());
    assert!(published.output().status.success());
    let output = place.run(&["replay", &empty, "shm://out", "--of", "bids"]);
    assert!(output.status.success(), "{}", said(&output));
}

/// A ring keeps the place of a replay into it, so that a killed one loses and repeats nothing.
#[test]
fn replay_into_the_same_ring_says_that_it_continues_and_waits_for_its_subscribers() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("t.olv").display().to_string();
    let journal = format!("file://{file}");
    let published = place.run(&["pub", &journal, "one", "two"]);
    assert!(published.status.success(), "{}", said(&published));
    let follower = place.start(&["replay", &file, "again", "--follow"]);
    // Asked to end, it delivers what is recorded. The lane is closed at the end of the journal.
    until("a message", || {
        let info = place.look("again");
        info.is_some_and(|info| info.publishers.iter().any(|one| one.cursor > 0))
    });
    follower.signal(Signal::INT);
    let output = follower.output();
    assert!(output.status.success(), "{}", said(&output));
    let waits = || {
        let mut replay = place.start(&["replay", &file, "again", "--subscribers", "1"]);
        let (line, rest) = hear(&mut replay, "continues at position");
        assert!(
            line.contains("where an earlier replay into this channel stopped"),
            "{line}"
        );
        // It has nothing to deliver, and keeps its lane open for the subscriber.
        until("a publisher", || {
            let info = place.look("again");
            info.is_some_and(|info| {
                let mut publishers = info.publishers.iter();
                publishers.any(|one| one.state == LaneState::Open)
            })
        });
        assert!(replay.child.try_wait().unwrap().is_none(), "it has ended");
        (replay, rest)
    };
    // It has not reported the end, so it is incomplete.
    let (stopped, rest) = waits();
    stopped.signal(Signal::TERM);
    drop(rest);
    assert_eq!(stopped.output().status.code(), Some(143));
    let (mut replay, _rest) = waits();
    let reader = place
        .start(&["sub", "again", "--once", "--from", "oldest"])
        .reading();
    assert!(replay.wait().success());
    let output = reader.output();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(lines(&output.stdout), ["one", "two"]);
}

/// A later replay into the ring went on silently behind files that were removed before it came.
#[test]
fn replay_reports_files_of_its_journal_that_were_removed_before_it_came_back() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("t.olv").display().to_string();
    let journal = format!("file://{file}?rotate=4KiB&sync=never");
    let publish = |letter: &str| {
        let published = place.run(&["pub", &journal, &letter.repeat(5_000)]);
        assert!(published.status.success(), "{}", said(&published));
    };
    publish("a");
    let follower = place.start(&["replay", &file, "again", "--follow"]);
    until("a message", || {
        let info = place.look("again");
        info.is_some_and(|info| info.publishers.iter().any(|one| one.cursor > 0))
    });
    follower.signal(Signal::INT);
    let output = follower.output();
    assert!(output.status.success(), "{}", said(&output));
    for letter in ["b", "c", "d"] {
        publish(letter);
    }
    for gone in ["", ".000001", ".000002"] {
        std::fs::remove_file(format!("{file}{gone}")).unwrap();
    }
    // The ring stays as long as a participant has it open.
    let ring = format!("shm://again?from=oldest&dir={}", place.path().display());
    let mut keeper = Subscriber::open(&ring).unwrap();
    let reader = place.start(&["sub", "again", "--from", "oldest"]).reading();
    let failed = place.run(&["replay", &file, "again", "--subscribers", "2"]);
    for output in [failed, reader.output()] {
        let report = said(&output);
        assert_eq!(output.status.code(), Some(1), "{report}");
        let words = "messages are missing: 10016 bytes of all channels";
        assert!(report.contains(words), "{report}");
    }
    let replayed = place.run(&["replay", &file, "again", "--subscribers", "1"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    assert_eq!(*keeper.receive().unwrap(), [b'a'; 5_000]);
    let failure = keeper.receive().unwrap_err();
    assert!(matches!(failure, ReceiveError::Failed(_)), "{failure}");
    assert_eq!(*keeper.receive().unwrap(), [b'd'; 5_000]);
}

#[test]
fn start_behind_the_end_of_a_journal_is_refused_unless_it_may_grow() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("t.olv").display().to_string();
    let journal = format!("file://{file}");
    let published = place.run(&["pub", &journal, "one", "two"]);
    assert!(published.status.success(), "{}", said(&published));
    let end = json(&place.run(&["journal", "info", &file, "--json"]))["position_bytes"].clone();
    let words = format!("has no position 99999: it ends at position {end}");
    for command in [
        &["replay", &file, "x", "--from", "position:99999"][..],
        &["sub", &format!("{journal}?from=position:99999")],
        &["sub", &journal, "--from", "position:99999", "--once"],
    ] {
        let output = place.run(command);
        let complaint = said(&output);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {complaint}");
        assert!(complaint.contains(&words), "{command:?}: {complaint}");
        assert!(complaint.contains("[journal.no-position]"), "{complaint}");
    }
    let at_end = format!("position:{end}");
    let output = place.run(&["replay", &file, "x", "--from", &at_end]);
    assert!(output.status.success(), "{}", said(&output));
    let grows = format!("{journal}?follow=yes&from=position:99999");
    let follower = place.start(&["sub", &grows]);
    until("the follower reads the journal", || {
        let maps = std::fs::read_dir(format!("/proc/{}/fd", follower.child.id()));
        maps.is_ok_and(|fds| {
            fds.flatten()
                .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path.ends_with("t.olv")))
        })
    });
    follower.signal(Signal::INT);
    let output = follower.output();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn replay_that_follows_reports_a_channel_that_the_journal_does_not_hold_yet() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("two.olv").display().to_string();
    let publish = |channel: &str| {
        let uri = format!("file://{file}?channel={channel}");
        assert!(place.run(&["pub", &uri, "one"]).status.success());
    };
    publish("bids");
    let words = ["replay", &file, "shm://out", "--follow", "--of", "trades"];
    let mut replay = place.start(&words);
    let mut told = BufReader::new(replay.child.stderr.take().unwrap()).lines();
    let mut line = || told.next().expect("a line").unwrap();
    let waits = "waiting for the channel 'trades' to be recorded into";
    let first = line();
    assert!(
        first.contains(waits) && first.ends_with("which holds bids"),
        "{first}"
    );
    publish("asks");
    let second = line();
    assert!(
        second.contains(waits) && second.ends_with("which holds asks, bids"),
        "{second}"
    );
    publish("trades");
    let third = line();
    assert!(
        third.ends_with("the channel 'trades' is recorded"),
        "{third}"
    );
    replay.signal(Signal::INT);
    let output = replay.output();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn replay_waits_for_the_requested_subscribers() {
    let place = TestFolder::new();
    let file = place.path().join("few.olv").display().to_string();
    let journal = format!("file://{file}");
    let published = place.run(&["pub", &journal, "one", "two", "three"]);
    assert!(published.status.success(), "{}", said(&published));
    let replay = place.start(&["replay", &file, "shm://late", "--wait-for", "1"]);
    until("the replay has come", || place.look("late").is_some());
    let output = place.run(&["sub", "shm://late", "--once", "--from", "oldest"]);
    assert_eq!(lines(&output.stdout), ["one", "two", "three"]);
    let replayed = replay.output();
    assert!(replayed.status.success(), "{}", said(&replayed));
}

#[test]
fn topics_pass_through_a_journal() {
    let place = TestFolder::new();
    let file = place.path().join("news.olv").display().to_string();
    let publish = |topic: &str, words: &[&str]| {
        let uri = format!("file://{file}?channel=news&topic={topic}");
        let output = place.run(&[&["pub", &uri], words].concat());
        assert!(output.status.success(), "{}", said(&output));
    };
    publish("sport.tennis", &["game", "set"]);
    publish("weather", &["rain"]);
    publish("sport.chess", &["mate"]);

    let reader = place
        .start(&[
            "sub",
            "shm://news?topic=sport.*",
            "--once",
            "--out",
            "topics",
        ])
        .reading();
    place.await_subscribers("news", 1);
    let replayed = place.run(&["replay", &file, "news", "--wait-for", "1"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    let output = reader.output();
    assert_eq!(
        lines(&output.stdout),
        [
            "sport.tennis\tgame",
            "sport.tennis\tset",
            "sport.chess\tmate"
        ],
        "{}",
        said(&output)
    );
    // Directly from the journal, and only a part of it.
    let uri = format!("file://{file}");
    let output = place.run(&["sub", &uri, "--topic", "weather", "--out", "topics"]);
    assert_eq!(lines(&output.stdout), ["weather\train"]);
}

/// The journal waits until the limit is raised; no message is lost, and no process ends.
#[test]
fn file_size_limit_is_reported_and_waited_for() {
    const LIMIT: u64 = 64 << 10;
    let place = TestFolder::new();
    let text = awkward_text(300_000);
    let file = place.path().join("limited.olv").display().to_string();
    let mut recorder = place.start(&["record", "limited", &file, "--sync", "never"]);
    place.await_subscribers("limited", 1);
    let pid = rustix::process::Pid::from_child(&recorder.child);
    let before = rustix::process::getrlimit(Resource::Fsize);
    let limit = |current| {
        let limit = Rlimit {
            current,
            maximum: before.maximum,
        };
        rustix::process::prlimit(Some(pid), Resource::Fsize, limit).expect("a limit");
    };
    limit(Some(LIMIT));
    let publisher = place
        .start_with(&["pub", "shm://limited", "--stdin", "lines"], text.clone())
        .output();
    assert!(publisher.status.success(), "{}", said(&publisher));
    let mut said = BufReader::new(recorder.child.stderr.take().expect("its words")).lines();
    let full = said.find(|line| {
        line.as_ref()
            .is_ok_and(|line| line.contains("raise the limit on file sizes"))
    });
    assert!(full.is_some(), "it ended without a word of the limit");
    let length = std::fs::metadata(&file).unwrap().len();
    assert!(length <= LIMIT, "{length} bytes in spite of the limit");
    limit(before.current);
    assert!(recorder.wait().success());
    let output = place.run(&["sub", &format!("file://{file}"), "--out", "lines"]);
    assert!(output.stdout == text, "{} bytes came", output.stdout.len());
}

#[test]
fn wrong_use_is_refused_in_one_line() {
    let place = TestFolder::new();
    let cases = [
        (
            &["record", "tcp://h:1/x", "/tmp/a.olv"][..],
            "is not in shared memory",
        ),
        (&["replay", "shm://x", "shm://y"], "is not a journal"),
        (
            &["replay", "/no/such/a.olv", "x", "--pace", "fast"],
            "pace=fast is not usable",
        ),
        (
            &["record", "x", "/tmp/a.olv", "--sync", "never&mode=0666"],
            "contains a '&'",
        ),
        (&["sub", "shm://x?topic=a..b"], "topic=a..b is not usable"),
        (
            &["pub", "shm://x?topic=a.*", "m"],
            "filters are for subscribers",
        ),
        (
            &["bridge", "shm://x?topic=a", "file:///tmp/a.olv"],
            "it carries every topic",
        ),
    ];
    for (words, expected) in cases {
        let output = place.run(words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            said(&output)
        );
        let text = said(&output);
        assert!(text.contains(expected), "{words:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// `pub`, `sub` and `bridge` over sealed memory.
mod sealed {
    use crate::common::{TestFolder, awkward_text, said};
    use olivine::{Publisher, ReceiveError, Subscriber};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lines_reach_two_sealed_subscribers_byte_for_byte() {
        let place = TestFolder::new();
        let text = awkward_text(1 << 20);
        let uri = format!("shm+fd://{}/lines.sock", place.path().display());
        // The subscribers start first, and wait.
        let subscribers = [(); 2].map(|()| {
            let uri = format!("{uri}?timeout=60s");
            place.start(&["sub", &uri]).reading()
        });
        let publish = format!("{uri}?capacity=16KiB&subscribers=2");
        let words = ["pub", &publish, "--stdin", "lines"];
        let publisher = place.start_with(&words, text.clone()).output();
        assert!(publisher.status.success(), "{}", said(&publisher));
        for subscriber in subscribers {
            let output = subscriber.output();
            assert!(output.status.success(), "{}", said(&output));
            assert!(output.stdout == text, "{} bytes came", output.stdout.len());
        }
        assert_eq!(place.left(), Vec::<String>::new());
    }

    /// From a named channel into a sealed one, and from there into another named one.
    #[test]
    fn bridges_carry_into_and_out_of_a_sealed_channel() {
        let place = TestFolder::new();
        let named = |name: &str| format!("shm://{name}?dir={}", place.path().display());
        let socket = place.path().join("between.sock").display().to_string();
        let mut last = Subscriber::open(&named("last")).unwrap();
        let mut first = Publisher::open(&named("first")).unwrap();
        let into = place.start(&["bridge", "shm://first", &format!("shm+fd://{socket}")]);
        assert!(first.wait_for_subscribers(1, Some(LONG)).unwrap());
        let sealed = format!("shm+fd://{socket}?from=oldest&timeout=60s");
        let out = place.start(&["bridge", &sealed, "shm://last"]);
        for n in 0..5000_u64 {
            first.publish(&n.to_le_bytes()).unwrap();
            // After the second bridge is attached: earlier messages are history, limited by the
            // ring.
            if n == 100 {
                assert_eq!(
                    *last.receive_timeout(LONG).unwrap().unwrap(),
                    0_u64.to_le_bytes()
                );
            }
        }
        first.close().unwrap();
        for n in 1..5000_u64 {
            assert_eq!(
                *last.receive_timeout(LONG).unwrap().unwrap(),
                n.to_le_bytes()
            );
        }
        // Their sources have ended, one after the other.
        for bridge in [into, out] {
            let output = bridge.output();
            assert!(output.status.success(), "{}", said(&output));
        }
        assert!(matches!(last.receive(), Err(ReceiveError::Closed)));
    }
}

/// As 'olivine pub' says.
#[test]
fn replay_and_bridge_into_a_ring_without_a_subscriber_say_so_once() {
    let place = TestFolder::new();
    let journals = tempfile::tempdir().unwrap();
    let file = journals.path().join("lone.olv").display().to_string();
    let journal = format!("file://{file}");
    let recorded = place.run(&["pub", &journal, "--count", "1000"]);
    assert!(recorded.status.success(), "{}", said(&recorded));
    let note = |place: &str, stays: &str| {
        format!(
            "{place} has no subscriber yet: up to {stays} of it stay for 'olivine sub {place} \
             --from oldest'; when that ends and no other program uses it, the rest is gone"
        )
    };
    let count = |output: &std::process::Output, note: &str| said(output).matches(note).count();
    // Before its messages are overwritten, and after.
    let replayed = place.run(&["replay", &file, "shm://whole?capacity=1MiB"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    let whole = note("shm://whole", "1 MiB");
    assert_eq!(count(&replayed, &whole), 1, "{}", said(&replayed));
    let bridged = place.run(&["bridge", &journal, "shm://lapped?capacity=4KiB"]);
    assert!(bridged.status.success(), "{}", said(&bridged));
    let lapped = note("shm://lapped", "4 KiB");
    assert_eq!(count(&bridged, &lapped), 1, "{}", said(&bridged));

    let reader = place
        .start(&["sub", "heard", "--once", "--out", "none"])
        .reading();
    place.await_subscribers("heard", 1);
    let heard = place.run(&["replay", &file, "heard"]);
    assert!(heard.status.success(), "{}", said(&heard));
    assert_eq!(count(&heard, "has no subscriber"), 0, "{}", said(&heard));
    let output = reader.output();
    assert!(output.status.success(), "{}", said(&output));
    // It comes later, and may be gone before the end.
    let replay = place.start(&["replay", &file, "late", "--subscribers", "1"]);
    until("the replay has come", || place.look("late").is_some());
    let output = place.run(&["sub", "late", "--once", "--out", "none"]);
    assert!(output.status.success(), "{}", said(&output));
    let heard = replay.output();
    assert_eq!(count(&heard, "has no subscriber"), 0, "{}", said(&heard));
}

#[test]
fn channel_that_is_carried_into_itself_is_wrong_usage() {
    let place = TestFolder::new();
    let output = place.run(&["bridge", "shm://a", "shm://a"]);
    let complaint = said(&output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("the very channel"), "{complaint}");
}

#[test]
fn file_of_bridges_with_a_mistake_is_reported_with_its_line() {
    let place = TestFolder::new();
    let config = place.path().join("b.toml").display().to_string();
    std::fs::write(&config, "\n[[bridge]]\nsource = \"shm://a\"\n").unwrap();
    let output = place.run(&["bridge", "--config", &config]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expected = format!("olivine: {config}, line 2: missing field `destination`\n");
    assert_eq!(said(&output), expected);
}
