//! `olivine top` with real participants.

use crate::common::{Running, TestFolder, json, said, terminal, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;

/// The view of two looks 100 ms apart.
fn look(place: &TestFolder, more: &[&str]) -> Value {
    let words = ["top", "--once", "--json", "-d", "100ms"];
    json(&place.run(&[&words[..], more].concat()))
}

fn id(running: &Running) -> u64 {
    u64::from(running.child.id())
}

fn participants(view: &Value) -> Vec<&Value> {
    let channels = view["channels"].as_array().unwrap().iter();
    let all = channels.flat_map(|channel| channel["participants"].as_array().unwrap());
    all.collect()
}

fn of_process(view: &Value, id: u64) -> &Value {
    let mut all = participants(view).into_iter();
    let found = all.find(|one| one["process_id"] == id);
    found.unwrap_or_else(|| panic!("no process {id} in {view}"))
}

/// Five subscribers and a publisher at full speed.
fn five(place: &TestFolder) -> (Vec<Running>, Running) {
    let words = |name| ["sub", "x", "--out", "none", "--name", name];
    let names = ["a", "b", "audit", "d", "e"];
    let subscribers = names.map(|name| place.start(&words(name))).into();
    place.await_subscribers("x", 5);
    let publisher = place.start(&["pub", "x", "--rate", "max", "--capacity", "64KiB"]);
    place.await_publishing("x");
    (subscribers, publisher)
}

/// Waits until the publisher waits for 'audit'.
fn await_hold(place: &TestFolder) {
    until("the ring to be full", || {
        let info = place.look("x").unwrap();
        let mut all = info.subscribers.iter();
        let audit = all
            .find(|one| one.name.as_deref() == Some("audit"))
            .unwrap();
        info.publishers[0].blocked_by == Some(audit.slot) && info.publishers[0].blocked_ns > 0
    });
}

/// The next view of `top --json`.
fn next_view(stdout: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended");
    serde_json::from_str(&line).unwrap()
}

/// Whether there is something to read now.
fn is_readable(stdout: &BufReader<ChildStdout>) -> bool {
    let mut pipe = [PollFd::new(stdout.get_ref(), PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    !stdout.buffer().is_empty() || poll(&mut pipe, Some(&now)).unwrap() > 0
}

/// The first look that begins when the ring is full names it. So with a look each 300 ms it is
/// named within a second of being stopped.
#[test]
fn one_of_five_subscribers_is_named_by_the_first_look_after_it_was_stopped() {
    let place = TestFolder::new();
    let (subscribers, _publisher) = five(&place);
    let mut top = place.start(&["top", "--json", "-d", "300ms"]);
    let mut stdout = BufReader::new(top.child.stdout.take().unwrap());
    let held_by = |view: &Value| {
        let found = &view["findings"][0];
        (found["severity"] == "held").then(|| found["process_id"].clone())
    };
    next_view(&mut stdout);
    let culprit = &subscribers[2];
    culprit.signal(Signal::STOP);
    await_hold(&place);
    while is_readable(&stdout) {
        next_view(&mut stdout);
    }
    // This one may have begun before the ring was full.
    next_view(&mut stdout);
    let view = next_view(&mut stdout);
    assert_eq!(held_by(&view), Some(id(culprit).into()), "{view}");
}

#[test]
fn stopped_one_of_five_subscribers_is_named_with_its_remedy() {
    let place = TestFolder::new();
    let (subscribers, publisher) = five(&place);
    let culprit = &subscribers[2];
    culprit.signal(Signal::STOP);
    // The ring fills in microseconds; the first command after that must name the culprit.
    await_hold(&place);
    let view = look(&place, &[]);
    let found = &view["findings"][0];
    assert_eq!(found["severity"], "held", "{view}");
    assert_eq!(
        (&found["name"], &found["state"]),
        (&"audit".into(), &"stopped".into())
    );
    assert_eq!(found["process_id"], id(culprit));
    assert_eq!(found["publisher_process_ids"][0], id(&publisher));
    let text = found["text"].as_str().unwrap();
    let expected = format!(" by 'audit' (pid {}, STOPPED), ring ", id(culprit));
    assert!(
        text.starts_with("x: held ") && text.contains(&expected),
        "{text}"
    );
    assert_eq!(found["remedy"], format!("kill -CONT {}", id(culprit)));
    assert_eq!(of_process(&view, id(&publisher))["state"], "held");
    let share = of_process(&view, id(culprit))["held_share"]
        .as_f64()
        .unwrap();
    assert!(share > 0.9, "{share}");
    // The lane has not moved since the first look.
    let messages = of_process(&view, id(culprit))["behind_messages_estimate"].as_f64();
    assert!(messages.is_some_and(|messages| messages > 1.0), "{view}");
    // The same as text.
    let shown = place.run(&["top", "x", "--once", "-d", "100ms"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.starts_with("x: held ") && shown.contains(&expected),
        "{shown}"
    );
    assert_eq!(
        shown.lines().nth(1),
        Some(format!("  kill -CONT {}", id(culprit)).as_str())
    );
    culprit.signal(Signal::CONT);
    until("the publisher to go on", || {
        look(&place, &[])["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["name"] != "audit")
    });
}

#[test]
fn killed_durable_subscriber_is_gone_and_named_while_it_holds_the_publisher() {
    let place = TestFolder::new();
    let (mut subscribers, _publisher) = five(&place);
    let killed = subscribers.remove(2);
    killed.signal(Signal::KILL);
    drop(killed);
    until("the absence", || {
        let view = look(&place, &[]);
        let all = participants(&view);
        let gone = all.iter().find(|one| one["name"] == "audit").unwrap();
        let found = &view["findings"][0];
        gone["state"] == "gone" && found["severity"] == "held" && found["name"] == "audit"
    });
    let view = look(&place, &[]);
    assert_eq!(
        view["findings"][0]["remedy"],
        "olivine rm shm://x --name audit"
    );
    assert_eq!(view["channels"][0]["gone_count"], 1);
}

#[test]
fn killed_publisher_is_gone() {
    let place = TestFolder::new();
    let _subscriber = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    let publisher = place.start(&["pub", "x", "--rate", "1000"]);
    place.await_publishing("x");
    publisher.signal(Signal::KILL);
    let killed = id(&publisher);
    drop(publisher);
    until("the death", || {
        of_process(&look(&place, &[]), killed)["state"] == "gone"
    });
    let table = String::from_utf8(place.run(&["top", "--once"]).stdout).unwrap();
    let channel = table.lines().find(|line| line.starts_with("x ")).unwrap();
    let cells = channel.split("  ").map(str::trim);
    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells[cells.len() - 2..], ["0 (+1 gone)", "1"], "{table}");
}

#[test]
fn rates_and_estimates_are_those_of_the_publisher() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    let _publisher = place.start(&["pub", "x", "--rate", "1000", "--size", "56"]);
    place.await_publishing("x");
    let view = look(&place, &["x"]);
    let channel = &view["channels"][0];
    let (bytes, messages) = (&channel["bytes_per_s"], &channel["messages_per_s_estimate"]);
    let per_message = bytes.as_f64().unwrap() / messages.as_f64().unwrap();
    assert!((per_message - 64.0).abs() < 1e-6, "{view}");
    let shown = of_process(&view, id(&subscriber));
    assert_eq!(
        (&shown["role"], &shown["command"]),
        (&"subscriber".into(), &"olivine sub".into())
    );
}

#[test]
fn unreadable_and_hostile_channels_are_shown_and_none_is_fatal() {
    let place = TestFolder::new();
    let name = "a\u{1b}]0;owned\u{7}\u{202e}";
    let _subscriber = place.start(&["sub", "shm://good", "--out", "none", "--name", "audit"]);
    place.await_subscribers("good", 1);
    place.plant_broken_channels("good");
    std::fs::create_dir(place.path().join(name)).unwrap();
    let view = look(&place, &[]);
    let error_of = |wanted: &str| {
        let mut channels = view["channels"].as_array().unwrap().iter();
        let found = channels.find(|one| one["name"] == wanted);
        found.map(|one| one["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(error_of("good").as_deref(), Some(""));
    for broken in ["short", "zeros", "empty"] {
        assert!(
            error_of(broken).unwrap().contains("olivine rm --force"),
            "{view}"
        );
    }
    assert!(error_of("other").unwrap().contains("layout"), "{view}");
    assert_eq!((error_of("half-made"), error_of(name)), (None, None));
    let shown = place.run(&["top", "--once", "-d", "100ms"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("unreadable") && !text.contains('\u{1b}'),
        "{text}"
    );
    // No channel is named: nothing fails, and the text has the reasons.
    assert!(
        text.contains("\nother: ") && shown.stderr.is_empty(),
        "{text}"
    );
    // A channel that is named is missed.
    let shown = place.run(&["top", "--once", "-d", "100ms", "--json", "half-made"]);
    assert_eq!(shown.status.code(), Some(1), "{}", said(&shown));
    let view = json(&shown);
    let error = view["channels"][0]["error"].as_str().unwrap();
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn named_channel_that_cannot_be_read_fails_a_single_look() {
    let place = TestFolder::new();
    let published = place.run(&["pub", "good", "one"]);
    assert!(published.status.success(), "{}", said(&published));
    let text = place.path().join("olivine.prom").display().to_string();
    let page = place.path().join("page.html").display().to_string();
    for words in [
        &["top", "--once"][..],
        &["top", "--once", "--json"],
        &["metrics", "--once"],
        &["metrics", "--textfile", &text],
        &["serve", "--seconds", "100ms", "--snapshot", &page],
    ] {
        let output = place.run(&[words, &["good"]].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words:?}: {}",
            said(&output)
        );
        let output = place.run(&[words, &["good", "nosuch"]].concat());
        assert_eq!(
            output.status.code(),
            Some(1),
            "{words:?}: {}",
            said(&output)
        );
        let inspected = place.run(&["inspect", "nosuch"]);
        assert_eq!(said(&output), said(&inspected), "{words:?}");
        // JSON is for programs, which do not read standard error.
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_json = words.contains(&"--json");
        assert_eq!(shown.contains("does not exist"), is_json, "{shown}");
    }
    let written = std::fs::read_to_string(text).unwrap();
    assert!(
        written.contains(r#"olivine_channel_readable{channel="nosuch"} 0"#),
        "{written}"
    );
    let shown = place.run(&["top", "--once", "nosuch"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.starts_with("CHANNEL"),
        "no channel was looked at: {shown}"
    );
}

#[test]
fn wrong_use_is_refused_and_no_channel_does_not_fail() {
    let place = TestFolder::new();
    let empty = place.run(&["top", "--once", "-d", "50ms"]);
    assert_eq!(empty.status.code(), Some(0));
    let text = String::from_utf8(empty.stdout).unwrap();
    assert!(text.starts_with("no channels in "), "{text}");
    let cases = [
        (
            &["top", "-d", "1ms"][..],
            "--interval 1ms is too short: give 50ms or more",
        ),
        (&["top", "inproc://x"], "shm://"),
        (&["top", "shm+fd:///run/x"], "sealed"),
        (
            &["top", "x", "shm://x?dir=/dev/shm/other"],
            "in two folders",
        ),
    ];
    for (words, expected) in cases {
        let output = place.run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            said(&output).contains(expected),
            "{words:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn channel_in_the_folder_of_its_uri_needs_no_folder_of_the_environment() {
    let place = TestFolder::new();
    let elsewhere = TestFolder::new();
    let (subscribers, _publisher) = five(&elsewhere);
    subscribers[2].signal(Signal::KILL);
    await_hold(&elsewhere);
    let dir = elsewhere.path().display();
    let uri = format!("shm://x?dir={dir}");
    let missing = place.path().join("missing");
    for words in [
        &["top", "--once", &uri][..],
        &["metrics", "--once", &uri],
        &["doctor", &uri],
        &["inspect", &uri],
        &["tap", "--duration", "1ms", &uri],
    ] {
        let mut command = place.olivine(words);
        let output = command.env("OLIVINE_DIR", &missing).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.stderr.is_empty(), "{words:?}: {}", said(&output));
        // The remedies name the folder.
        let remedy = format!("olivine rm shm://x --name audit --dir {dir}");
        assert!(words[0] != "top" || text.contains(&remedy), "{text}");
    }
    // A folder that was named by the option must exist.
    let absent = place.run(&["top", "--once", "x", "--dir", missing.to_str().unwrap()]);
    assert!(
        said(&absent).contains("does not exist"),
        "{}",
        said(&absent)
    );
}

/// Where a terminal has no screen: the first line must not leave it at the top.
#[test]
fn finding_stays_on_a_terminal_with_fewer_rows_than_the_text_has() {
    let place = TestFolder::new();
    let (subscribers, _publisher) = five(&place);
    subscribers[2].signal(Signal::STOP);
    await_hold(&place);
    let (mut ours, theirs) = terminal();
    let size = Winsize {
        ws_row: 8,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    let mut command = place.olivine(&["top", "-d", "50ms"]);
    command.env("TERM", "dumb");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs);
    let _top = Running::new(command.spawn().unwrap());
    drop(command);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    let whole = loop {
        let taken = ours.read(&mut part).unwrap();
        text.extend_from_slice(&part[..taken]);
        let seen = String::from_utf8_lossy(&text).into_owned();
        // Between two times of clearing the terminal.
        if let Some(one) = seen.rsplit("\u{1b}[H\u{1b}[2J").nth(1)
            && one.contains("more lines")
        {
            break one.to_owned();
        }
    };
    assert!(whole.starts_with("x: held "), "{whole}");
    assert_eq!(whole.lines().count(), 7, "{whole}");
}

/// Starts the tool and reads one line of its output.
fn first_line(place: &TestFolder, words: &[&str]) -> (Running, BufReader<ChildStdout>) {
    let mut watching = place.start(words);
    let mut stdout = BufReader::new(watching.child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(!line.trim().is_empty());
    (watching, stdout)
}

#[test]
fn closed_pipe_and_signals_end_it_without_a_failure() {
    let place = TestFolder::new();
    for words in [&["top", "-d", "50ms"][..], &["top", "-d", "50ms", "--json"]] {
        let (mut watching, stdout) = first_line(&place, words);
        drop(stdout);
        assert_eq!(watching.wait().code(), Some(0), "{words:?}");
        for signal in [Signal::INT, Signal::TERM] {
            let (mut watching, mut stdout) = first_line(&place, words);
            watching.signal(signal);
            std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
            assert_eq!(watching.wait().code(), Some(0), "{words:?} {signal:?}");
        }
    }
}
