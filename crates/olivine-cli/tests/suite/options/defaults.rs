//! Defaults of options, from a file and from the environment.

use crate::common::{TestFolder, json, said};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

/// The tool with this file and these variables.
fn run(place: &TestFolder, file: &str, variables: &[(&str, &str)], words: &[&str]) -> Output {
    let path: PathBuf = place.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = place.olivine(words);
    command.env("OLIVINE_CONFIG", &path);
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn option_uri_variable_and_file_come_in_this_order() {
    const FILE: &str = "[pub]\ncapacity = \"64KiB\"\n";
    let variable = [("OLIVINE_PUB_CAPACITY", "128KiB")];
    let uri = "x?capacity=256KiB";
    let option = ["--capacity", "512KiB"];
    let cases: [(bool, &[&str], u64); 4] = [
        (false, &["pub", "x", "a"], 64),
        (true, &["pub", "x", "a"], 128),
        (true, &["pub", uri, "a"], 256),
        (true, &["pub", uri, "a", option[0], option[1]], 512),
    ];
    for (has_variable, words, kib) in cases {
        let variables = if has_variable { &variable[..] } else { &[] };
        let place = TestFolder::new();
        // The channel goes with its last participant; a durable subscriber keeps it.
        ok(&place.run(&["sub", "x", "--name", "keeps", "--duration", "1ms"]));
        ok(&run(&place, FILE, variables, words));
        let info = json(&place.run(&["inspect", "x", "--json"]));
        assert_eq!(info["capacity_bytes"], kib << 10, "{words:?}: {info}");
    }
}

#[test]
fn each_setting_is_shown_with_its_origin() {
    let place = TestFolder::new();
    let file = "log_level = \"warn\"\n[serve]\nhost = [\"a\", \"b\"]\n[sub]\nwait = \"park\"\n";
    let variables = [("OLIVINE_SUB_WAIT", "spin")];
    let words = ["config", "--origin", "--json"];
    let found: Value = serde_json::from_str(&ok(&run(&place, file, &variables, &words))).unwrap();
    let path = place.path().join("config.toml").display().to_string();
    assert_eq!(found["file"], path);
    let of = |name: &str| {
        let settings = found["settings"].as_array().unwrap();
        let one = settings.iter().find(|one| one["name"] == name).unwrap();
        [&one["value"], &one["origin"]].map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(of("log_level"), ["warn".to_owned(), format!("file {path}")]);
    assert_eq!(of("serve.host"), ["a,b".to_owned(), format!("file {path}")]);
    assert_eq!(of("sub.wait"), ["spin", "environment OLIVINE_SUB_WAIT"]);
    assert_eq!(of("pub.wait"), ["adaptive", "built in"]);
    assert_eq!(of("top.interval"), ["1s", "built in"]);
    let dir = place.path().display().to_string();
    assert_eq!(of("dir"), [dir, "environment OLIVINE_DIR".to_owned()]);
}

#[test]
fn bad_configuration_is_refused_and_help_still_shown() {
    let place = TestFolder::new();
    let refused = |file: &str, variables: &[(&str, &str)], told: &str| {
        let output = run(&place, file, variables, &["ls"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains(told) && !said.contains("panicked"), "{said}");
        let output = run(&place, file, variables, &["ls", "--help"]);
        assert!(ok(&output).contains("Usage: olivine ls"));
    };
    refused(
        "[top]\nintervall = \"1s\"",
        &[],
        "no setting 'top.intervall'",
    );
    refused(
        "[top]\ninterval = \"soon\"",
        &[],
        "expected a duration above 0",
    );
    refused("\u{1b}[2J = 1", &[], "config.toml");
    refused("", &[("OLIVINE_TOP_INTERVALL", "1s")], "no setting");
    refused("", &[("OLIVINE_LOG_LEVEL", "loud")], "possible values");
    let missing = place.path().join("missing.toml");
    let mut command = place.olivine(&["ls"]);
    let output = command.env("OLIVINE_CONFIG", missing).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cannot read"), "{}", said(&output));
}
