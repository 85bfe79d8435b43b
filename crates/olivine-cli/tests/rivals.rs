//! Rivals that fail in every way: a line for each, and all others are measured.

mod common;

use common::{Place, said};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// What a rival's program says of a method that it knows.
const KNOWN: &str = r#"[{"name":"NAME","about":"","wait":"spin","streams":true,"lacks":""}]"#;

/// A folder of rivals, each a script that is called with `list` or `measure`.
fn rivals(place: &Place, scripts: &[(&str, &str)]) -> PathBuf {
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
fn a_rival_that_fails_is_a_line_and_the_others_have_figures() {
    if !common::has_two_cpus() {
        return;
    }
    let place = Place::new();
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
