//! Rivals that fail in every way: one row each, and all others are measured.

mod common;

use common::{TestFolder, said};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A rival's description of its method.
const KNOWN: &str = r#"[{"name":"NAME","about":"","wait":"spin","streams":true,"lacks":""}]"#;

/// A folder of rivals, each a script with the commands `list` and `measure`.
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
