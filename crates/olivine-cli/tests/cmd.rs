//! Output of the tool: help, errors, empty folders. Each session in `tests/cmd` is a test.

use std::os::unix::ffi::OsStrExt;

/// Runs sessions in a private folder of channels.
fn sessions(pattern: &str) {
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let dir = tempfile::Builder::new()
        .prefix("olivine-cmd-")
        .tempdir_in(place)
        .expect("a folder");
    let path = dir.path().to_str().expect("a plain path");
    let cases = trycmd::TestCases::new();
    cases
        .env("OLIVINE_DIR", path)
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1");
    cases
        .insert_var("[DIR]", path.to_owned())
        .expect("a valid name");
    cases.case(pattern).run();
}

#[test]
fn sessions_without_channel_match_the_recording() {
    sessions("tests/cmd/*.trycmd");
}

/// Sessions of one folder run in parallel: a session that leaves a channel has a separate folder.
#[test]
fn sessions_with_channel_match_the_recording() {
    sessions("tests/cmd/alone/*.trycmd");
}

#[test]
fn argument_without_utf8_is_refused_in_one_line() {
    let word = std::ffi::OsStr::from_bytes(b"\xff");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_olivine"));
    let output = command.arg(word).output().expect("the tool");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("there are pub, sub, ls"), "{said}");
}
