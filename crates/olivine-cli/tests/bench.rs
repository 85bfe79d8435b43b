//! Rivals that fail in every way: one row each, and all others are measured.

mod common;

#[path = "bench/arena.rs"]
mod arena;

use common::{TestFolder, said};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A rival's description of its method.
const KNOWN: &str = r#"[{"name":"NAME","about":"","wait":"spin","streams":true,"lacks":""}]"#;

/// A folder of rivals, each a script with the command `list` that is a participant otherwise.
fn rivals(place: &TestFolder, scripts: &[(&str, &str)]) -> PathBuf {
    let folder = place.path().join("rivals");
    std::fs::create_dir(&folder).unwrap();
    for (name, script) in scripts {
        let path = folder.join(format!("rival-{name}"));
        let known = KNOWN.replace("NAME", &format!("{name}-queue"));
        let text = format!("#!/bin/sh\nknown() {{ echo '{known}'; }}\n{script}\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn failed_rival_is_one_row_and_others_are_measured() {
    if !common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let folder = rivals(
        &place,
        &[
            ("mute", "exit 3"),
            ("babbler", "echo good morning"),
            (
                "crasher",
                "[ $1 = list ] && { known; exit; }; echo 'lost its nerve' >&2; kill -SEGV $$",
            ),
            (
                "orphan",
                "echo \"$0: error while loading shared libraries: libpigeon.so.5\" >&2; exit 127",
            ),
            (
                "forger",
                "[ $1 = list ] && { known; exit; }; echo '[{\"p50_ns\":1}]'",
            ),
        ],
    );
    for scenario in ["pingpong", "throughput"] {
        let words = [
            "bench",
            scenario,
            "--method",
            "olivine-adaptive",
            "--rivals",
            folder.to_str().unwrap(),
            "--size",
            "32",
            "--runs",
            "1",
            "--seconds",
            "0.02",
        ];
        let output = place.run(&words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = format!("{text}{}", said(&output));
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(text.contains("olivine-adaptive, 32 B"), "{told}");
        for (method, reason) in [
            (
                "mute",
                "rival mute failed: it said nothing (exit status: 3)",
            ),
            (
                "babbler",
                "rival babbler failed: it answered 'good morning'",
            ),
            ("crasher-queue", "rival crasher failed: lost its nerve"),
            ("orphan", "rival orphan failed: "),
            (
                "forger-queue",
                "rival forger failed: it answered '[{\"p50_ns\":1}]'",
            ),
        ] {
            let line = format!("no figure: {method}, 32 B: {reason}");
            let found = text.lines().filter(|told| told.starts_with(&line)).count();
            assert_eq!(found, 1, "{scenario} {method}: {told}");
        }
        let library = "error while loading shared libraries: libpigeon.so.5";
        assert!(text.contains(library), "{told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.left(), Vec::<String>::new());
}

/// `olivine bench bridge`: figures of every part that can run here, and a line for each missing
/// program.
mod bridges {
    use crate::common;
    use crate::common::{TestFolder, json, said};

    #[test]
    fn every_part_has_figures_and_missing_programs_are_named() {
        if !common::has_two_cpus() {
            return;
        }
        let place = TestFolder::new();
        let folder = place.path().join("disk");
        std::fs::create_dir(&folder).unwrap();
        let words = [
            "bench",
            "bridge",
            "--runs",
            "1",
            "--seconds",
            "0.1",
            "--rate",
            "1K",
            "--rivals",
            folder.to_str().unwrap(),
            "--folder",
            folder.to_str().unwrap(),
            "--json",
        ];
        let output = place.run(&words);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(0), "{told}");
        for rival in ["zeromq", "nats"] {
            let folder = folder.display();
            let line = format!("{rival} is left out: no rival-{rival} in {folder}");
            assert_eq!(told.matches(&line).count(), 1, "{told}");
        }
        let report = json(&output);
        let schema = serde_json::from_str(include_str!("../../../docs/bench-schema.json")).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&report)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let rows = report["results"].as_array().unwrap();
        let has = |scenario: &str, method: &str, figure: &str| {
            rows.iter().any(|row| {
                row["scenario"] == scenario
                    && row["method"] == method
                    && row["values"][figure].is_object()
            })
        };
        for method in ["olivine-tcp", "bare socket"] {
            assert!(has("bridge-paced", method, "p50_ns"), "{method}: {told}");
        }
        for method in ["olivine-tcp", "bare socket"] {
            assert!(has("bridge-trip", method, "p50_ns"), "{method}: {told}");
        }
        for method in ["olivine-tcp 1 MiB", "olivine-tcp 4 MiB", "bare socket"] {
            assert!(has("bridge-stream", method, "messages_per_s"), "{method}");
        }
        for method in ["subscriber on shm://", "bridge to tcp://"] {
            assert!(has("bridge-cost", method, "messages_per_s"), "{method}");
        }
        for method in ["file:// sync=block", "disk, a sync each 4 MiB"] {
            assert!(has("bridge-disk", method, "messages_per_s"), "{method}");
        }
        let no_server = told.contains("no nats-server is installed")
            || told.contains("build the tool with the cargo feature 'nats'");
        assert!(no_server || has("bridge-stored", "nats://", "messages_per_s"));
        assert_eq!(
            std::fs::read_dir(&folder).unwrap().count(),
            0,
            "left behind"
        );
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(place.left(), Vec::<String>::new());
    }

    #[test]
    fn unknown_part_is_refused_with_the_known_ones() {
        let output = TestFolder::new().run(&["bench", "bridge", "warp"]);
        assert_eq!(output.status.code(), Some(2));
        let told = said(&output);
        assert!(
            told.contains("'warp'") && told.contains("paced, trip"),
            "{told}"
        );
    }
}

/// All methods measured `OLIVINE_AGAIN` times in a row: no run hangs, fails or leaves anything
/// behind.
///
/// Each run has a folder, and if possible a System V namespace, so that leftovers of other programs
/// do not count.
mod again {
    use crate::common::{TestFolder, skip};
    use std::path::Path;
    use std::process::Command;

    /// Heading lines of the kernel's three lists of System V objects.
    const HEADINGS: usize = 3;
    /// Runs in the namespace: the tool for at most ten minutes, then a count of the leftover
    /// objects.
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
}
