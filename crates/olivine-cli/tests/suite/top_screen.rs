//! The screen of `olivine top` on a real terminal.

#![cfg(feature = "screen")]

use crate::common::{Running, TestFolder, terminal, until};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What enters the second screen, and what leaves it.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// `olivine top` with a terminal that only it uses.
struct Screen {
    top: Running,
    keys: File,
    theirs: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Screen {
    fn start(place: &TestFolder) -> Self {
        let (mut keys, theirs) = terminal();
        set_size(&theirs, 80, 24);
        // Its controlling terminal, so that it hears of changes of size.
        let mut command = Command::new("setsid");
        let top = [env!("CARGO_BIN_EXE_olivine"), "top", "-d", "50ms"];
        command
            .arg("--ctty")
            .args(top)
            .env("OLIVINE_DIR", place.path())
            .env("TERM", "xterm");
        command
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap());
        let top = Running::new(command.stderr(Stdio::piped()).spawn().unwrap());
        drop(command);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (into, mut ours) = (Arc::clone(&written), keys.try_clone().unwrap());
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            // A terminal whose other end is closed gives an error, not an end.
            while let Ok(taken @ 1..) = ours.read(&mut part) {
                into.lock().unwrap().extend_from_slice(&part[..taken]);
            }
        });
        keys.flush().unwrap();
        Self {
            top,
            keys,
            theirs,
            written,
            reader,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn await_text(&self, part: &str) {
        until(part, || self.text().contains(part));
    }

    /// Changes the size until `part` is drawn again. Each change draws the whole screen, but it may
    /// come before the last keys.
    fn resize_until(&self, part: &str) {
        let before = self.written.lock().unwrap().len();
        let mut columns = 20;
        until(part, || {
            columns = 41 - columns;
            set_size(&self.theirs, columns, 5);
            String::from_utf8_lossy(&self.written.lock().unwrap()[before..]).contains(part)
        });
    }

    /// The exit code, the settings of the terminal, and everything it wrote.
    fn end(self) -> (Option<i32>, String, String) {
        let Self {
            mut top,
            keys,
            theirs,
            written,
            reader,
        } = self;
        let code = top.wait().code();
        let settings = stty(&theirs, &["-a"]);
        drop(theirs);
        reader.join().unwrap();
        drop(keys);
        let text = String::from_utf8_lossy(&written.lock().unwrap()).into_owned();
        (code, settings, text)
    }
}

fn stty(terminal: &OwnedFd, words: &[&str]) -> String {
    let mut command = Command::new("stty");
    let output = command
        .args(words)
        .stdin(terminal.try_clone().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn set_size(terminal: &OwnedFd, columns: u16, rows: u16) {
    let (columns, rows) = (columns.to_string(), rows.to_string());
    stty(terminal, &["cols", &columns, "rows", &rows]);
}

/// A channel whose publisher waits for the stopped subscriber 'audit'.
fn held(place: &TestFolder) -> [Running; 2] {
    let audit = place.start(&["sub", "x", "--out", "none", "--name", "audit"]);
    place.await_subscribers("x", 1);
    let publisher = place.start(&["pub", "x", "--rate", "max", "--capacity", "64KiB"]);
    place.await_publishing("x");
    audit.signal(Signal::STOP);
    until("a hold", || {
        place.look("x").unwrap().publishers[0].blocked_ns > 0
    });
    [audit, publisher]
}

/// The terminal is as before, and what is wrong stays on it.
fn assert_restored(code: Option<i32>, settings: &str, text: &str, id: u32) {
    assert_eq!(code, Some(0), "{text}");
    assert!(
        settings.contains(" icanon") && settings.contains(" echo "),
        "{settings}"
    );
    let (_, left) = text.rsplit_once(LEAVE).unwrap();
    assert!(
        !left.contains(ENTER) && left.contains(&format!("kill -CONT {id}")),
        "{left:?}"
    );
}

#[test]
fn screen_names_the_culprit_and_ctrl_c_restores_the_terminal() {
    let place = TestFolder::new();
    let [audit, _publisher] = held(&place);
    let mut screen = Screen::start(&place);
    for part in ["'audit'", "STOPPED", "kill -CONT"] {
        screen.await_text(part);
    }
    screen.type_keys("\u{3}");
    let (code, settings, text) = screen.end();
    assert_restored(code, &settings, &text, audit.child.id());
}

#[test]
fn screen_names_the_one_of_five_subscribers_that_is_stopped_while_it_watches() {
    let place = TestFolder::new();
    let names = ["a", "b", "audit", "d", "e"];
    let start = |name| place.start(&["sub", "x", "--out", "none", "--name", name]);
    let subscribers = names.map(start);
    place.await_subscribers("x", 5);
    // So seldom that no subscriber holds it back before.
    let _publisher = place.start(&["pub", "x", "--rate", "1000", "--capacity", "4KiB"]);
    place.await_publishing("x");
    let mut screen = Screen::start(&place);
    screen.await_text("holds a publisher back");
    subscribers[2].signal(Signal::STOP);
    screen.resize_until("'audit' (pid");
    screen.resize_until(&format!("kill -CONT {}", subscribers[2].child.id()));
    screen.type_keys("q");
    let (code, settings, text) = screen.end();
    assert_restored(code, &settings, &text, subscribers[2].child.id());
}

#[test]
fn resizing_and_keys_while_it_draws_are_survived() {
    let place = TestFolder::new();
    let [audit, _publisher] = held(&place);
    let mut screen = Screen::start(&place);
    screen.await_text("STOPPED");
    for step in 0..60_u16 {
        set_size(&screen.theirs, 1 + step * 37 % 120, 1 + step * 11 % 40);
        screen.type_keys(
            ["s", "\r", "/x", "\u{1b}[B", "\u{7f}\r", "?", "p", "pp"][usize::from(step) % 8],
        );
    }
    // A terminal of no size, too.
    set_size(&screen.theirs, 0, 0);
    screen.resize_until("STOPPED");
    screen.top.signal(Signal::TERM);
    let (code, settings, text) = screen.end();
    assert_restored(code, &settings, &text, audit.child.id());
}

/// The change of size and the key are there at one look of the library that reads both.
#[test]
fn key_together_with_a_change_of_size_is_read() {
    let place = TestFolder::new();
    let [audit, _publisher] = held(&place);
    let mut screen = Screen::start(&place);
    screen.await_text("STOPPED");
    for step in 0..500_u16 {
        set_size(&screen.theirs, 80 + step % 2, 24);
        // Help is shown, and hidden.
        let before = screen.written.lock().unwrap().len();
        screen.type_keys("?");
        let part = if step % 2 == 0 { "filter" } else { "STOPPED" };
        until(part, || {
            String::from_utf8_lossy(&screen.written.lock().unwrap()[before..]).contains(part)
        });
    }
    screen.type_keys("q");
    let (code, settings, text) = screen.end();
    assert_restored(code, &settings, &text, audit.child.id());
}

#[test]
fn lost_terminal_ends_it_in_order() {
    let place = TestFolder::new();
    let [_audit, _publisher] = held(&place);
    let screen = Screen::start(&place);
    screen.await_text("STOPPED");
    let mut top = screen.top;
    // What the kernel sends when a terminal is closed.
    top.signal(Signal::HUP);
    assert_eq!(top.wait().code(), Some(0));
}

#[test]
fn closed_terminal_ends_it_without_a_signal() {
    let place = TestFolder::new();
    let [_audit, _publisher] = held(&place);
    let (mut keys, theirs) = terminal();
    set_size(&theirs, 80, 24);
    // Not its controlling terminal: the kernel sends it no signal.
    let mut command = place.olivine(&["top", "-d", "50ms"]);
    command.env("TERM", "xterm");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs);
    let mut top = Running::new(command.spawn().unwrap());
    drop(command);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&text).contains("STOPPED") {
        let taken = keys.read(&mut part).unwrap();
        text.extend_from_slice(&part[..taken]);
    }
    drop(keys);
    // Its last findings could not be printed.
    assert_eq!(top.wait().code(), Some(1));
}
