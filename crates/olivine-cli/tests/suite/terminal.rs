//! Output of the tool on a real terminal.

use crate::common::{Running, TestFolder, said, terminal};
use std::fs::File;
use std::io::{Read, Write};

/// What goes back to the start of a row and clears it.
const OVER: &str = "\r\u{1b}[K";

/// A payload that sets title and colour of a terminal, moves its cursor and reverses text.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}2J\r\u{202e}z";

/// Runs the tool with standard output, and with `keys` also standard input, on a terminal.
fn on_terminal(
    place: &TestFolder,
    words: &[&str],
    keys: Option<&str>,
) -> (String, Option<i32>, String) {
    let (mut ours, theirs) = terminal();
    let mut command = place.olivine(words);
    if let Some(keys) = keys {
        command.stdin(theirs.try_clone().unwrap());
        ours.write_all(keys.as_bytes()).unwrap();
    }
    command.stdout(theirs);
    let running = Running::new(command.spawn().unwrap());
    // The command holds the tool's end open.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        // A terminal whose other end is closed gives an error, not an end.
        while let Ok(taken @ 1..) = ours.read(&mut part) {
            bytes.extend_from_slice(&part[..taken]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let output = running.output();
    (reader.join().unwrap(), output.status.code(), said(&output))
}

/// Bytes that a terminal obeys. The terminal echoes `keys`.
fn obeyed(text: &str) -> Vec<char> {
    let is_line_end = |text: &char| matches!(text, '\r' | '\n');
    let all = text.replace("\r\n", "\n");
    all.chars()
        .filter(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}')
        .filter(|c| !is_line_end(c))
        .collect()
}

#[test]
fn payload_is_escaped_on_a_terminal() {
    for form in ["lines", "topics", "json"] {
        let place = TestFolder::new();
        assert!(
            place
                .run(&["pub", "shm://x", HOSTILE, "--linger", "0s"])
                .status
                .success()
        );
        let words = [
            "sub", "shm://x", "--from", "oldest", "--count", "1", "--out", form,
        ];
        let (seen, code, said) = on_terminal(&place, &words, None);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(obeyed(&seen), Vec::<char>::new(), "{form}: {seen:?}");
        assert!(
            seen.contains("owned") && seen.contains("31m"),
            "{form}: {seen:?}"
        );
    }
}

#[test]
fn payload_is_unchanged_in_a_pipe() {
    let place = TestFolder::new();
    assert!(place.run(&["pub", "shm://x", HOSTILE]).status.success());
    let words = ["sub", "shm://x", "--from", "oldest", "--count", "1"];
    assert_eq!(place.run(&words).stdout, format!("{HOSTILE}\n").as_bytes());
}

#[test]
fn raw_bytes_need_a_yes_on_a_terminal() {
    for form in ["raw", "frames"] {
        let place = TestFolder::new();
        assert!(place.run(&["pub", "shm://x", HOSTILE]).status.success());
        let words = [
            "sub", "shm://x", "--from", "oldest", "--count", "1", "--out", form,
        ];
        let (seen, code, said) = on_terminal(&place, &words, None);
        assert_eq!((seen.as_str(), code), ("", Some(2)), "{said}");
        assert!(said.contains("redirect standard output"), "{said}");
        let (seen, code, said) = on_terminal(&place, &words, Some("n\n"));
        assert!(
            !seen.contains("owned") && code == Some(2),
            "{seen:?} {said}"
        );
        let (seen, code, said) = on_terminal(&place, &words, Some("y\n"));
        assert!(seen.contains("\u{1b}]0;owned"), "{seen:?} {said}");
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn file_names_in_errors_are_escaped() {
    let place = TestFolder::new();
    let output = place.run(&["sub", "--csv", "/no/\u{1b}]0;owned\u{7}file", "shm://x"]);
    let said = said(&output);
    assert_eq!(obeyed(&said), Vec::<char>::new(), "{said:?}");
    assert!(said.contains("\\x1b]0;owned"), "{said:?}");
}

#[test]
fn tables_of_a_recorded_run_fit_a_terminal() {
    let place = TestFolder::new();
    let folder = place.recorded_run();
    for name in ["pingpong", "throughput", "latency", "fanout", "floor"] {
        let file = folder.join(format!("{name}.json")).display().to_string();
        let words = ["bench", "report", &file, "--out", "-"];
        let (seen, code, said) = on_terminal(&place, &words, None);
        assert_eq!(code, Some(0), "{said}");
        let wide = seen
            .lines()
            .find(|line| line.trim_end().chars().count() > 80);
        assert!(wide.is_none() && seen.contains('─'), "{name}: {wide:?}");
        assert_eq!(obeyed(&seen), Vec::<char>::new(), "{name}: {seen:?}");
    }
}

/// Commands that carry messages for longer than a second write over one line; a pipe gets nothing.
#[test]
fn progress_is_one_line_that_is_written_over_on_a_terminal_only() {
    for is_terminal in [true, false] {
        let place = TestFolder::new();
        let file = place.path().join("long.olv").display().to_string();
        let start = |words: &[&str]| {
            let (ours, theirs) = terminal();
            let mut command = place.olivine(words);
            command.env("TERM", "xterm");
            if is_terminal {
                command.stderr(theirs);
            }
            (Running::new(command.spawn().unwrap()), ours)
        };
        let check = |(running, mut ours): (Running, File), way: &str| {
            let mut seen = String::new();
            if is_terminal {
                let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(taken @ 1..) = ours.read(&mut part) {
                    bytes.extend_from_slice(&part[..taken]);
                }
                seen = String::from_utf8_lossy(&bytes).into_owned();
            }
            let output = running.output();
            assert!(output.status.success(), "{}", said(&output));
            seen.push_str(&said(&output));
            let report = String::from_utf8_lossy(&output.stdout);
            assert!(
                report.contains("MESSAGES") && !report.contains('\u{1b}'),
                "{report}"
            );
            let drawn: Vec<&str> = seen.split(OVER).skip(1).collect();
            assert_eq!(!drawn.is_empty(), is_terminal, "{seen:?}");
            if let Some((last, lines)) = drawn.split_last() {
                // It is cleared at the end, and what follows it stands in its place.
                assert!(!last.contains(way), "{seen:?}");
                for line in lines.iter().filter(|line| !line.is_empty()) {
                    assert!(line.contains("/s, ") && line.contains(way), "{seen:?}");
                    assert!(
                        line.chars().count() < 80 && !line.contains('\n'),
                        "{seen:?}"
                    );
                }
            }
            drawn.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let recorder = start(&["record", "long", &file]);
        let bridge = start(&["bridge", "shm://long", "shm://far"]);
        place.await_subscribers("long", 2);
        let words = ["pub", "long", "--rate", "1000", "--duration", "3s"];
        assert!(place.run(&words).status.success());
        check(recorder, ": shm://long to file://");
        check(bridge, ": shm://long to shm://far");
        let replay = start(&["replay", &file, "again", "--pace", "1x"]);
        let lines = check(replay, ": file://");
        let parts = lines.iter().filter_map(|line| line.split_once(" %, "));
        let parts: Vec<u64> = parts.map(|(part, _)| part.parse().unwrap()).collect();
        assert_eq!(!parts.is_empty(), is_terminal, "{lines:?}");
        assert!(
            parts.is_sorted() && parts.iter().all(|part| *part <= 100),
            "{parts:?}"
        );
    }
}
