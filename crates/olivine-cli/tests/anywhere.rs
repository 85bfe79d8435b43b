//! The README's demonstration of a pipe over every transport.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_olivine");

/// The server that `cargo xtask test` installs beside the profiles: the tool is
/// target/PROFILE/olivine.
fn server() -> Option<PathBuf> {
    let target = Path::new(PROGRAM).ancestors().nth(2)?;
    let server = target.join("tools/bin/nats-server");
    server.is_file().then_some(server)
}

fn run(prepare: impl FnOnce(&mut Command)) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/anywhere.sh");
    let mut command = Command::new(script);
    if let Some(server) = server() {
        command.env("NATS_SERVER", server);
    }
    command.env("OLIVINE", PROGRAM);
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
fn pipe_crosses_every_transport_with_equal_checksums() {
    let text = run(|_| ());
    let [sent, came] = checksums(&text);
    assert_eq!(sent, came);
    assert_eq!(sent.len(), 64);
    let has_nats = server().is_some() && olivine::Scheme::Nats.is_built();
    assert_eq!(has_nats, text.contains("through "), "{text}");
}

#[test]
fn pipe_crosses_transports_without_root_and_nats() {
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
