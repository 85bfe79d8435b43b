//! All methods measured `OLIVINE_AGAIN` times in a row: no run hangs, fails or leaves anything
//! behind.
//!
//! Each run has a folder, and if possible a System V namespace, so that leftovers of other programs
//! do not count.

mod common;

use common::{TestFolder, skip};
use std::path::Path;
use std::process::Command;

/// Heading lines of the kernel's three lists of System V objects.
const HEADINGS: usize = 3;
/// Runs in the namespace: the tool for at most ten minutes, then a count of the leftover objects.
const SCRIPT: &str = "timeout 600 \"$0\" bench \"$@\"; code=$?; \
    cd /proc/sysvipc && echo \"left: $(cat msg sem shm | wc -l)\"; exit $code";

#[test]
fn table_of_all_methods_leaves_nothing_behind() {
    let Some(times) = std::env::var("OLIVINE_AGAIN").ok() else {
        return skip("all methods in a row: OLIVINE_AGAIN is not set to a number of runs");
    };
    let unshare = Command::new("unshare").args(["--ipc", "true"]).output();
    let has_namespace = unshare.is_ok_and(|tried| tried.status.success());
    let program = if has_namespace { "unshare" } else { "env" };
    for run in 1..=times.parse::<u32>().expect("OLIVINE_AGAIN is a number") {
        let place = TestFolder::new();
        let mut command = Command::new(program);
        command.args(["--ipc"].iter().filter(|_| has_namespace));
        command.args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_olivine"), "--json"]);
        let output = command.env("OLIVINE_DIR", place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let place_said = format!("run {run}: {}\n{said}", output.status);
        assert!(output.status.success(), "{place_said}");
        let found = said
            .lines()
            .find(|line| line.starts_with('{'))
            .unwrap_or("{}");
        let found: serde_json::Value = serde_json::from_str(found).unwrap();
        let rows = found["results"].as_array().expect("results");
        assert!(!rows.is_empty(), "{place_said}");
        for row in rows {
            assert_eq!(row["status"], "measured", "run {run}: {row}");
        }
        let left = said.lines().find_map(|line| line.strip_prefix("left: "));
        let objects: usize = left.and_then(|count| count.trim().parse().ok()).unwrap();
        if has_namespace {
            assert_eq!(objects, HEADINGS, "System V objects are left: {place_said}");
        }
        let files = std::fs::read_dir(place.path()).unwrap().count();
        assert_eq!(
            (files, processes_in(place.path())),
            (0, 0),
            "files and processes left"
        );
        println!("run {run} of {times}: ok");
    }
}

/// Processes that use `folder`.
fn processes_in(folder: &Path) -> usize {
    let wanted = format!("OLIVINE_DIR={}", folder.display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    // Those of other users cannot be read, and are not ours.
    let environments = all.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    let has_it = |text: &Vec<u8>| {
        text.split(|&byte| byte == 0)
            .any(|one| one == wanted.as_bytes())
    };
    environments.filter(has_it).count()
}

#[test]
fn leftover_process_is_found_by_its_folder() {
    let place = TestFolder::new();
    assert_eq!(processes_in(place.path()), 0);
    let mut subscriber = place.start(&["sub", "shm://left", "--once"]);
    // Then it runs with its environment.
    place.await_subscribers("left", 1);
    assert_eq!(processes_in(place.path()), 1);
    subscriber.signal(rustix::process::Signal::KILL);
    subscriber.wait();
    assert_eq!(processes_in(place.path()), 0);
}
