//! Ending on request: the exit code tells whether the work is complete.

use crate::common::{Running, TestFolder, hear, json, said, until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

/// Ends it with these signals, all pending at once; returns its exit code.
fn end(mut running: Running, signals: &[Signal]) -> Option<i32> {
    // Signals sent while it is stopped are pending when it continues.
    running.signal(Signal::STOP);
    for signal in signals {
        running.signal(*signal);
    }
    running.signal(Signal::CONT);
    running = running.reading();
    running.wait().code()
}

#[test]
fn interrupted_count_exits_with_the_signals_code() {
    let place = TestFolder::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let subscriber = place.start(&["sub", "shm://few", "--count", "3"]);
        place.await_subscribers("few", 1);
        assert_eq!(end(subscriber, &[signal]), Some(code));
    }
    let subscriber = place.start(&["sub", "shm://few", "--duration", "1h"]);
    place.await_subscribers("few", 1);
    assert_eq!(end(subscriber, &[Signal::INT]), Some(130));
    assert_eq!(place.left(), Vec::<String>::new(), "ended in order");
}

/// `--once` ends with the last publisher: a copy that is stopped before is a part of it.
#[test]
fn interrupted_once_exits_with_the_signals_code() {
    let place = TestFolder::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiting = place.start(&["sub", "shm://copy", "--once"]);
        place.await_subscribers("copy", 1);
        assert_eq!(end(waiting, &[signal]), Some(code), "no publisher yet");
        let mut publisher = place.olivine(&["pub", "shm://copy", "--stdin", "lines"]);
        let mut publisher = Running::new(publisher.stdin(Stdio::piped()).spawn().unwrap());
        let mut subscriber = place.start(&["sub", "shm://copy", "--once"]);
        place.await_subscribers("copy", 1);
        let input = publisher.child.stdin.as_mut().unwrap();
        input.write_all(b"one\n").unwrap();
        let mut line = [0; 4];
        let output = subscriber.child.stdout.as_mut().unwrap();
        output.read_exact(&mut line).unwrap();
        assert_eq!(end(subscriber, &[signal]), Some(code), "a part of the copy");
        // Its input has not ended.
        assert_eq!(end(publisher, &[signal]), Some(code));
    }
    let sealed = format!("shm+fd://{}", place.path().join("socket").display());
    let mut waiting = place.start(&["sub", &sealed, "--once"]);
    let (_, _rest) = hear(&mut waiting, "waiting for the publisher");
    assert_eq!(end(waiting, &[Signal::INT]), Some(130));
    assert_eq!(place.left(), Vec::<String>::new(), "ended in order");
}

/// Two signals at once are one request, whichever thread sees them first; the code is always the
/// same.
#[test]
fn two_signals_at_once_end_with_one_code() {
    let place = TestFolder::new();
    for round in 0..20 {
        let endless = place.start(&["sub", "shm://twice"]);
        let limited = place.start(&["sub", "shm://twice", "--count", "1"]);
        place.await_subscribers("twice", 2);
        let both = [Signal::INT, Signal::INT];
        assert_eq!(end(endless, &both), Some(0), "round {round}");
        assert_eq!(
            end(limited, &[Signal::TERM, Signal::INT]),
            Some(130),
            "round {round}"
        );
        assert_eq!(place.left(), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn endless_command_is_complete_when_stopped() {
    let place = TestFolder::new();
    let file = place.path().join("kept.olv").display().to_string();
    let recorder = place.start(&["record", "live", &file]);
    place.await_subscribers("live", 1);
    let subscriber = place.start(&["sub", "shm://live", "--out", "none"]);
    let publisher = place.start(&["pub", "shm://live", "--rate", "1000"]);
    place.await_publishing("live");
    for running in [publisher, subscriber, recorder] {
        assert_eq!(end(running, &[Signal::INT]), Some(0));
    }
}

#[test]
fn stopped_replay_is_incomplete() {
    let place = TestFolder::new();
    let file = place.path().join("some.olv").display().to_string();
    let journal = format!("file://{file}");
    assert!(place.run(&["pub", &journal, "one", "two"]).status.success());
    // The same bridge by its two URIs, too, but not where it follows later recordings.
    let to = |name: &str| format!("shm://{name}?subscribers=1");
    let follows = format!("{journal}?follow=yes");
    for (name, words, code) in [
        ("again", ["replay", &file, "again", "--subscribers=1"], 130),
        ("both", ["bridge", &journal, &to("both"), "--json"], 130),
        ("later", ["bridge", &follows, &to("later"), "--json"], 0),
    ] {
        let replay = place.start(&words);
        until("the replay has come", || place.look(name).is_some());
        assert_eq!(end(replay, &[Signal::INT]), Some(code), "{name}");
    }
}

/// The URI of a journal of two messages, behind which a block seems to begin eight million times:
/// the search for a whole one takes long.
fn long_journal(place: &TestFolder) -> String {
    let file = place.path().join("long.olv");
    let journal = format!("file://{}", file.display());
    assert!(place.run(&["pub", &journal, "one", "two"]).status.success());
    let mut opened = std::fs::File::options().append(true).open(&file).unwrap();
    let junk = b"OLVBLOCK".repeat(1 << 17);
    for _ in 0..64 {
        opened.write_all(&junk).unwrap();
    }
    journal
}

/// Waits until it reads in a [`long_journal`].
fn await_search(running: &Running) {
    let counts = format!("/proc/{}/io", running.child.id());
    until("it searches", || {
        let counts = std::fs::read_to_string(&counts).unwrap();
        let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.unwrap().parse::<u64>().unwrap() > 1 << 24
    });
}

#[test]
fn long_search_in_a_journal_ends_with_the_signals_code() {
    let place = TestFolder::new();
    let journal = long_journal(&place);
    let file = journal.trim_start_matches("file://");
    let cut = place.path().join("cut.olv").display().to_string();
    let behind = format!("{journal}?from=position:1000000");
    for words in [
        &["journal", "info", file][..],
        &["journal", "info", file, "--exact"],
        &["journal", "cut", file, &cut],
        &["sub", &behind],
        &["sub", &journal],
        &["replay", file, "again", "--from", "position:1000000"],
        &["replay", file, "again"],
    ] {
        let running = place.start(words);
        await_search(&running);
        running.signal(Signal::INT);
        let output = running.output();
        assert_eq!(output.status.code(), Some(130), "{words:?}");
        assert_ne!(said(&output), "", "{words:?}");
    }
    assert!(!std::path::Path::new(&cut).exists());
}

/// It said only that it had received 0 messages.
#[test]
fn subscriber_whose_time_ends_while_it_searches_says_so() {
    let place = TestFolder::new();
    let journal = long_journal(&place);
    let behind = format!("{journal}?from=position:1000000");
    let told =
        format!("olivine: no message came on {journal}: it was still looking for the first one\n");
    let words = ["sub", &behind, "--duration", "300ms"];
    let output = place.run(&words);
    assert_eq!(
        (output.status.code(), said(&output)),
        (Some(0), told.clone())
    );
    // A summary that was asked for comes, too.
    let output = place.run(&[&words[..], &["--out", "none"]].concat());
    assert_eq!(said(&output), told);
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(summary.starts_with("received 0 messages"), "{summary}");
}

/// It ended at once: the recording was unfinished, and publishers waited for its name.
#[test]
fn bridges_end_in_order_while_another_one_still_searches() {
    let place = TestFolder::new();
    let journal = long_journal(&place);
    let recorded = place.path().join("rec.olv").display().to_string();
    let pairs = format!(
        "[[bridge]]\nsource = 'shm://a'\ndestination = 'file://{recorded}'\n\
         [[bridge]]\nsource = '{journal}?from=position:1000000'\ndestination = 'shm://b'\n"
    );
    let config = place.path().join("pairs.toml").display().to_string();
    std::fs::write(&config, pairs).unwrap();
    let bridges = place.start(&["bridge", "--config", &config]);
    await_search(&bridges);
    assert!(place.run(&["pub", "shm://a", "one"]).status.success());
    bridges.signal(Signal::INT);
    let output = bridges.output();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("stopped while it looked"));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains(&recorded), "{table}");
    let info = json(&place.run(&["journal", "info", &recorded, "--json"]));
    assert_eq!(info["state"], "complete", "{info}");
    assert!(place.look("a").is_none(), "no place was left");
}

/// The first one left its place behind, and publishers waited for it.
#[test]
fn bridges_end_in_order_if_a_later_one_cannot_start() {
    let place = TestFolder::new();
    let recorded = place.path().join("rec.olv").display().to_string();
    let missing = place.path().join("missing.olv").display().to_string();
    for second in [
        format!("source = 'file://{missing}'\ndestination = 'shm://b'"),
        "source = 'inproc://b'\ndestination = 'shm://b'".to_owned(),
    ] {
        let pairs = format!(
            "[[bridge]]\nsource = 'shm://a'\ndestination = 'file://{recorded}'\n\
             [[bridge]]\n{second}\n"
        );
        let config = place.path().join("pairs.toml").display().to_string();
        std::fs::write(&config, pairs).unwrap();
        let output = place.run(&["bridge", "--config", &config]);
        assert!(!output.status.success(), "{}", said(&output));
        let table = String::from_utf8_lossy(&output.stdout);
        assert!(table.contains(&recorded), "{table}");
        assert!(place.look("a").is_none(), "no place was left");
    }
}

/// Ends it with this signal; returns its exit code, and the line of its bridge.
fn stop_bridge(running: Running, signal: Signal) -> (Option<i32>, serde_json::Value, String) {
    running.signal(signal);
    let output = running.output();
    let bridge = json(&output)["bridges"][0].clone();
    (output.status.code(), bridge, said(&output))
}

/// The path of a journal of 200 messages, recorded over a fifth of a second.
fn recorded(place: &TestFolder, name: &str) -> String {
    let file = place.path().join(name).display().to_string();
    let journal = format!("file://{file}");
    let recorded = place.run(&["pub", &journal, "--count", "200", "--rate", "1000"]);
    assert!(recorded.status.success(), "{}", said(&recorded));
    file
}

#[test]
fn replay_that_a_signal_stops_half_way_is_not_done() {
    let place = TestFolder::new();
    let file = recorded(&place, "slow.olv");
    let journal = format!("file://{file}");
    let paced = format!("{journal}?pace=0.001x");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for words in [
            &["replay", &file, "paced", "--pace", "0.001x", "--json"][..],
            &["bridge", &paced, "shm://paced", "--json"],
        ] {
            let replay = place.start(words);
            place.await_publishing("paced");
            let (ended, bridge, told) = stop_bridge(replay, signal);
            assert_eq!(ended, Some(code), "{words:?}: {bridge}");
            assert_eq!(bridge["delivered"], false, "{words:?}: {bridge}");
            let (messages, left) = (&bridge["messages"], &bridge["journal_left_bytes"]);
            assert!((1..200).contains(&messages.as_u64().unwrap()), "{bridge}");
            assert!(left.as_u64().unwrap() > 0, "{words:?}: {bridge}");
            let words = "are left: the next replay into shm://paced continues there";
            assert!(told.contains(words), "{told}");
            // The next replay begins with the first message.
            assert!(place.run(&["rm", "paced"]).status.success());
        }
    }
    let replay = place.start(&["replay", &file, "paced", "--pace", "0.001x"]);
    place.await_publishing("paced");
    replay.signal(Signal::TERM);
    let output = replay.output();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains(" stopped "), "{table}");
}

/// A subscriber that does not read holds the replay in the middle of a run.
#[test]
fn held_replay_that_is_stopped_reports_what_it_delivered() {
    let place = TestFolder::new();
    let file = place.path().join("held.olv").display().to_string();
    let journal = format!("file://{file}");
    let recorded = place.run(&["pub", &journal, "--count", "2000"]);
    assert!(recorded.status.success(), "{}", said(&recorded));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let words = ["sub", "held?capacity=4KiB", "--verify", "--json", "--once"];
        let mut reader = place.start(&words);
        // Stopped earlier, it could hold the lock of the channel.
        let (_, rest_of_log) = hear(&mut reader, "waiting for a publisher");
        reader.signal(Signal::STOP);
        let replay = place.start(&["replay", &file, "held", "--json"]);
        place.await_publishing("held");
        let (ended, bridge, _) = stop_bridge(replay, signal);
        assert_eq!(ended, Some(code), "{bridge}");
        assert_eq!(bridge["delivered"], false, "{bridge}");
        let before = bridge["messages"].as_u64().unwrap();
        assert!((1..2000).contains(&before), "{bridge}");
        reader.signal(Signal::CONT);
        drop(rest_of_log);
        let rest = place.run(&["replay", &file, "held", "--json"]);
        assert!(rest.status.success(), "{}", said(&rest));
        let bridge = &json(&rest)["bridges"][0];
        assert_eq!(bridge["messages"], 2000 - before, "{bridge}");
        let output = reader.output();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(json(&output)["verified"]["intact_count"], 2000);
    }
}

/// The journal has an end, so the stream has one without `--once`.
#[test]
fn stopped_subscriber_of_a_journal_is_incomplete() {
    let place = TestFolder::new();
    let file = recorded(&place, "read.olv");
    let journal = format!("file://{file}");
    for (settings, interrupted) in [("pace=0.001x", true), ("pace=0.001x&follow=yes", false)] {
        let uri = format!("{journal}?{settings}");
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut reader = place.start(&["sub", &uri]);
            let mut byte = [0];
            let output = reader.child.stdout.as_mut().unwrap();
            output.read_exact(&mut byte).unwrap();
            let expected = if interrupted { code } else { 0 };
            assert_eq!(end(reader, &[signal]), Some(expected), "{settings}");
        }
    }
}

#[test]
fn stopped_measurement_prints_partial_results() {
    if !crate::common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let bench = place.start(&[
        "bench",
        "floor",
        "--seconds",
        "600",
        "--runs",
        "1",
        "--json",
    ]);
    let pid = bench.child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    until("its participants", || {
        std::fs::read_to_string(&children).is_ok_and(|children| !children.is_empty())
    });
    bench.signal(Signal::INT);
    let output = bench.output();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    if !output.stdout.is_empty() {
        assert_eq!(json(&output)["interrupted"], true);
    }
}

/// No far side takes the message: Ctrl-C ends the command at once, and it reports the loss.
#[test]
fn publisher_without_far_side_ends_at_once_and_counts_undelivered() {
    let place = TestFolder::new();
    let mut publisher = place.start(&["pub", "tcp://127.0.0.1:1/away?role=connect", "hello"]);
    let (line, mut rest) = hear(&mut publisher, "waiting for");
    assert!(
        line.contains("127.0.0.1:1") && line.contains("refused"),
        "{line}"
    );
    assert!(line.contains("trying again"), "{line}");
    publisher.signal(Signal::INT);
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(publisher.wait().code(), Some(130), "{said}");
    assert!(said.contains("has not acknowledged everything"), "{said}");
}

/// One far side is connected; another is absent with an unread message and may come back any time.
#[test]
fn publisher_waiting_for_one_of_two_far_sides_ends_on_request() {
    let place = TestFolder::new();
    // A free port, and one of many.
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let uri = format!("tcp://127.0.0.1:{port}/two");
    let mut command = place.olivine(&["pub", &uri, "--subscribers", "2", "--stdin", "lines"]);
    let mut publisher = Running::new(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut lines = publisher.child.stdin.take().unwrap();
    lines.write_all(b"one\n").unwrap();
    let mut connected = place.start(&["sub", &uri]);
    let mut away = place.start(&["sub", &uri, "--name", "audit"]);
    for subscriber in [&mut connected, &mut away] {
        let mut line = [0; 4];
        let stdout = subscriber.child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");
    }
    drop(away);
    lines.write_all(b"two\n").unwrap();
    drop(lines);
    let (line, mut rest) = hear(&mut publisher, "waiting until");
    assert!(line.contains(&uri), "{line}");
    publisher.signal(Signal::INT);
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(publisher.wait().code(), Some(130), "{said}");
    assert!(said.contains("has not acknowledged everything"), "{said}");
    drop(connected);
}

/// At the request everything is read.
#[test]
fn stopped_publisher_with_everything_read_is_complete() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://all", "--once", "--out", "none"]);
    // Asleep, so not in the middle of opening: there it would hold a lock while it is stopped.
    until("the subscriber sleeps", || {
        let info = place.look("all");
        info.is_some_and(|info| info.subscribers.iter().any(|one| one.parked))
    });
    subscriber.signal(Signal::STOP);
    let mut publisher = place.start(&["pub", "shm://all", "hello", "--linger", "1h"]);
    let (_, _rest) = hear(&mut publisher, "waits for its subscriber");
    publisher.signal(Signal::STOP);
    publisher.signal(Signal::INT);
    subscriber.signal(Signal::CONT);
    until("the message is read", || {
        let info = place.look("all");
        info.is_some_and(|info| info.subscribers.iter().all(|one| one.lag_bytes == 0))
    });
    publisher.signal(Signal::CONT);
    assert_eq!(publisher.wait().code(), Some(0));
    assert!(subscriber.output().status.success());
}

/// A measurement with other programs that is stopped or killed: none of them counts as failed, and
/// none is left.
mod stopped {
    use crate::common::{Running, TestFolder, said, until};
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::path::{Path, PathBuf};

    /// A rival's description of its method.
    const KNOWN: &str =
        r#"[{"name":"sleeper","about":"","wait":"spin","streams":true,"lacks":""}]"#;
    /// The shortest measurement besides the requested one.
    const QUICK: [&str; 4] = ["--runs", "1", "--seconds", "0.1"];

    fn has_two_cpus() -> bool {
        crate::common::has_two_cpus()
    }

    /// Creates a program `name` that writes its pid to the returned file and then sleeps; a rival
    /// first lists its method. Both ends of a measurement may write at the same time.
    fn sleeper(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let id = folder.join("id");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = list ] && {{ echo '{KNOWN}'; exit; }}\necho $$ > {id}.$$\nmv \
         {id}.$$ {id}\nexec sleep 1000\n",
            id = id.display(),
        );
        let path = folder.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        id
    }

    /// The pid that a sleeper wrote.
    fn noted(id: &Path) -> u32 {
        until("a process of others", || id.exists());
        std::fs::read_to_string(id).unwrap().trim().parse().unwrap()
    }

    /// Whether a process exists and is not a zombie.
    fn runs(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        state.is_some_and(|state| !"ZX".contains(state))
    }

    /// All descendants of a process.
    fn descendants(pid: u32) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let lists = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<u32> = lists
            .flat_map(|list| {
                list.split_whitespace()
                    .map(|pid| pid.parse().unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        let further = children.iter().flat_map(|child| descendants(*child));
        further.chain(children.iter().copied()).collect()
    }

    /// Starts the tool like a terminal: as the leader of the foreground group.
    fn start(place: &TestFolder, words: &[&str]) -> Running {
        let mut command = place.olivine(words);
        command.env("OLIVINE_NATS_SERVER", place.path().join("nats/nats-server"));
        Running::new(command.process_group(0).spawn().unwrap())
    }

    #[test]
    fn stopped_measurement_reports_no_rival_failure() {
        if !has_two_cpus() {
            return;
        }
        let place = TestFolder::new();
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let folder = place.path().join(signal.as_raw().to_string());
            let id = sleeper(&folder, "rival-sleeper");
            let rivals = ["--rivals", folder.to_str().unwrap()];
            let words = ["bench", "pingpong", "--method", "olivine-adaptive"];
            let bench = start(&place, &[&words[..], &rivals, &QUICK].concat());
            let rival = noted(&id);
            kill_process_group(Pid::from_child(&bench.child), signal).unwrap();
            let output = bench.output();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(code), "{text}{}", said(&output));
            assert!(text.contains("olivine-adaptive"), "{text}");
            assert!(!text.contains("sleeper"), "{text}");
            assert!(!runs(rival));
            std::fs::remove_dir_all(&folder).unwrap();
        }
        assert_eq!(place.left(), Vec::<String>::new());
    }

    /// Kills a measurement that has started the sleeper of `id`; no process is left.
    fn kill_measurement(place: &TestFolder, words: &[&str], id: &Path) {
        let mut bench = start(place, &[words, &QUICK].concat());
        let theirs = noted(id);
        let children = descendants(bench.child.id());
        assert!(children.contains(&theirs), "{words:?}: {children:?}");
        bench.signal(Signal::KILL);
        bench.wait();
        until("the end of every child", || {
            !children.iter().any(|child| runs(*child))
        });
    }

    #[test]
    fn killed_measurement_leaves_no_process() {
        if !has_two_cpus() {
            return;
        }
        let place = TestFolder::new();
        let [rivals, servers] = ["rivals", "servers"].map(|name| place.path().join(name));
        let rival = sleeper(&rivals, "rival-sleeper");
        let server = sleeper(&servers, "hyper");
        let [rivals, servers] = [rivals, servers].map(|path| path.display().to_string());
        let words = ["bench", "pingpong", "--method", "olivine-adaptive"];
        kill_measurement(
            &place,
            &[&words[..], &["--rivals", &rivals]].concat(),
            &rival,
        );
        let words = ["bench", "http", "--peers", "hyper", "--rivals", &servers];
        kill_measurement(&place, &words, &server);
    }

    /// Only a build with `nats://` measures it and starts a server.
    #[cfg(feature = "nats")]
    #[test]
    fn killed_measurement_with_a_server_leaves_no_process_and_a_folder_for_the_next_one() {
        if !has_two_cpus() {
            return;
        }
        let place = TestFolder::new();
        let nats = place.path().join("nats");
        let server = sleeper(&nats, "nats-server");
        let [rivals, disk] = ["rivals", "disk"].map(|name| place.path().join(name));
        sleeper(&rivals, "rival-sleeper");
        std::fs::create_dir(&disk).unwrap();
        let left = || std::fs::read_dir(&disk).unwrap().count();
        let [rivals, folder] = [&rivals, &disk].map(|path| path.display().to_string());
        let words = [
            "bench", "bridge", "stored", "--rivals", &rivals, "--folder", &folder,
        ];
        kill_measurement(&place, &words, &server);
        assert_eq!(left(), 1, "the folder of the server that was killed");
        std::fs::write(nats.join("nats-server"), "#!/bin/sh\nexit 1\n").unwrap();
        let output = start(&place, &[&words[..], &QUICK].concat()).output();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert_eq!(left(), 0, "taken away by the next one");
    }

    /// It runs until it is ended, and its publisher is killed.
    #[test]
    fn bridge_ends_with_the_measurement() {
        if !has_two_cpus() {
            return;
        }
        let place = TestFolder::new();
        let words = [
            "bench",
            "bridge",
            "cost",
            "--runs",
            "1000",
            "--seconds",
            "600",
        ];
        let mut bench = start(&place, &words);
        let is_bridge = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"bridge")
        };
        let id = bench.child.id();
        // Every second turn has one.
        let mut children = Vec::new();
        until("a bridge", || {
            children = descendants(id);
            children.iter().any(is_bridge)
        });
        bench.signal(Signal::KILL);
        bench.wait();
        until("the end of every child", || {
            !children.iter().any(|child| runs(*child))
        });
    }
}
