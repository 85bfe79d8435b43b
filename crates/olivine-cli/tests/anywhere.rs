//! The demonstration of the README that carries a pipe everywhere.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn run(prepare: impl FnOnce(&mut Command)) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/anywhere.sh");
    let mut command = Command::new(script);
    let program = env!("CARGO_BIN_EXE_olivine");
    // target/PROFILE/olivine; `cargo xtask test` installs the server beside the profiles.
    let installed = Path::new(program)
        .ancestors()
        .nth(2)
        .map(|target| target.join("tools/bin/nats-server"));
    if let Some(server) = installed.filter(|server| server.is_file()) {
        command.env("NATS_SERVER", server);
    }
    command.env("OLIVINE", program);
    prepare(&mut command);
    let output = command.output().expect("bash");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

fn checksums(text: &str) -> [&str; 2] {
    ["sent ", "came "].map(|word| {
        let line = text.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("no '{word}' in {text}"))
    })
}

#[test]
fn a_pipe_goes_everywhere_with_equal_checksums() {
    let text = run(|_| ());
    let [sent, came] = checksums(&text);
    assert_eq!(sent, came);
    // Of `seq 200000`.
    assert_eq!(sent.len(), 64);
}

#[test]
fn a_pipe_goes_everywhere_without_root_and_without_nats() {
    // An `ip` that makes no namespaces, and no server.
    let folder = tempfile::tempdir().expect("a folder");
    let ip = folder.path().join("ip");
    std::fs::write(&ip, "#!/bin/sh\nexit 1\n").expect("a file");
    std::fs::set_permissions(&ip, PermissionsExt::from_mode(0o755)).expect("its mode");
    let path = std::env::var("PATH").unwrap_or_default();
    let text = run(|command| {
        command
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("NATS_SERVER", "no-such-server");
    });
    assert!(
        text.contains("both ends on loopback") && text.contains("without NATS"),
        "{text}"
    );
    let [sent, came] = checksums(&text);
    assert_eq!(sent, came);
}
