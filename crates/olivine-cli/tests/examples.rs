//! Each example of the workspace ends with success, without input.
//!
//! `cargo test` builds them with the tests; `cargo test --test examples` alone does not.

mod common;

use common::TestFolder;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Examples with arguments, and examples that run together. Each other example runs alone.
const COMMANDS: &[&[&str]] = &[
    &["chat --listen 127.0.0.1:0 --duration 1"],
    &["echo --listen 127.0.0.1:0 --duration 1"],
    &["events --listen 127.0.0.1:0 --duration 1"],
    &["files --listen 127.0.0.1:0 --duration 1"],
    &["hand_off --listen 127.0.0.1:0 --duration 1"],
    &["idle_neighbours 8 1"],
    &["json --listen 127.0.0.1:0 --duration 1"],
    &["looks 1"],
    &["record 16"],
    &["stream --listen 127.0.0.1:0 --duration 1"],
    &["subscribe", "publish"],
    &["upload --listen 127.0.0.1:0 --duration 1 --folder uploads"],
    &["websocket --listen 127.0.0.1:0 --duration 1"],
    &[
        "hello_http --listen 127.0.0.1:18733 --duration 6",
        "load 127.0.0.1:18733 --connections 4 --duration 1 --cpu 0",
    ],
];
/// Longer than any example takes on a busy machine; only a hang reaches it.
const LIMIT_S: &str = "240";

/// Names of the examples of all crates.
fn names() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = crates.read_dir().unwrap().flatten();
    let folders = folders.filter_map(|folder| folder.path().join("examples").read_dir().ok());
    let files = folders.flatten().map(|file| file.unwrap().path());
    let sources = files.filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let name = |file: std::path::PathBuf| file.file_stem().unwrap().display().to_string();
    sources.map(name).collect()
}

/// Runs the examples of `group` together; returns what failed.
fn failures(group: &[&str], folder: &Path) -> Vec<String> {
    let tests = std::env::current_exe().unwrap();
    let programs = tests.ancestors().nth(2).unwrap().join("examples");
    let run = |line: &str| {
        let mut words = line.split(' ');
        let program = programs.join(words.next().unwrap());
        let mut command = Command::new("timeout");
        command.arg(LIMIT_S).arg(program).args(words);
        let ended = command.current_dir(folder).env("OLIVINE_DIR", folder);
        let ended = ended.output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        (!ended.status.success()).then(|| format!("{line}: {}: {said}", ended.status))
    };
    thread::scope(|scope| {
        let start = |line| scope.spawn(move || run(line));
        let running: Vec<_> = group.iter().map(|line| start(*line)).collect();
        let ended = running.into_iter().filter_map(|run| run.join().unwrap());
        ended.collect()
    })
}

#[test]
fn every_example_ends_with_success() {
    let mut alone = names();
    assert!(alone.len() >= 18, "{alone:?}");
    for line in COMMANDS.iter().copied().flatten() {
        let name = line.split(' ').next().unwrap();
        assert!(alone.remove(name), "there is no example {name}");
    }
    let others: Vec<[&str; 1]> = alone.iter().map(|name| [name.as_str()]).collect();
    let others = others.iter().map(<[&str; 1]>::as_slice);
    let mut failed = Vec::new();
    for group in COMMANDS.iter().copied().chain(others) {
        failed.extend(failures(group, TestFolder::new().path()));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
