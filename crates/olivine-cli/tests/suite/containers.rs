//! Channels between containers: processes in separate mount, IPC and PID namespaces, as
//! docs/containers.md describes them.

use crate::common::{Running, TestFolder, json, said, skip, until};
use std::process::{Command, Stdio};

/// The start of a command line in new namespaces, with a private `/dev/shm`.
const UNSHARE: [&str; 6] = [
    "unshare",
    "--mount",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
];

/// The tool in a separate container. If `shares`, it sees the folder of the test as `/mnt`.
fn contained(place: &TestFolder, shares: bool, words: &[&str]) -> Command {
    let folder = place.path().display().to_string();
    // The first word of the script's arguments is the tool.
    let script = if shares {
        format!("mount --bind {folder} /mnt && mount -t tmpfs none /dev/shm && exec \"$@\"")
    } else {
        "mount -t tmpfs none /dev/shm && exec \"$@\"".to_owned()
    };
    let mut command = Command::new(UNSHARE[0]);
    command
        .args(&UNSHARE[1..])
        .args(["--mount-proc", "sh", "-c", &script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_olivine")).args(words);
    if shares {
        command.env("OLIVINE_DIR", "/mnt");
    } else {
        command.env_remove("OLIVINE_DIR");
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn start(place: &TestFolder, words: &[&str]) -> Running {
    Running::new(contained(place, true, words).spawn().unwrap())
}

/// Whether namespaces can be made here.
fn has_namespaces(place: &TestFolder) -> bool {
    let tried = contained(place, true, &["ls"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        skip("no namespaces to be had here: that needs root and `unshare`");
    }
    can
}

#[test]
fn channel_crosses_namespaces_of_containers() {
    let place = TestFolder::new();
    if !has_namespaces(&place) {
        return;
    }
    let reader = start(&place, &["sub", "x", "--count", "2"]);
    place.await_subscribers("x", 1);
    let writer = start(&place, &["pub", "x", "a", "b", "--subscribers", "1"]);
    assert!(writer.output().status.success());
    assert_eq!(reader.output().stdout, b"a\nb\n");
    // Seen from a container, the participants of another one have another PID namespace.
    let _reader = start(&place, &["sub", "x"]);
    place.await_subscribers("x", 1);
    let doctor = start(&place, &["doctor", "x", "--json"]).output();
    let checks = json(&doctor)["checks"].to_string();
    assert!(
        checks.contains("of another PID namespace"),
        "{}",
        said(&doctor)
    );
}

/// File locks tell a death across namespaces.
#[test]
fn killed_subscriber_of_another_container_continues_where_it_stopped() {
    let place = TestFolder::new();
    if !has_namespaces(&place) {
        return;
    }
    let words = ["sub", "x", "--name", "audit", "--count", "2"];
    let mut reader = start(&place, &words);
    place.await_subscribers("x", 1);
    reader.child.kill().unwrap();
    reader.child.wait().unwrap();
    until("the death", || {
        let info = place.look("x");
        info.is_some_and(|info| info.subscribers.iter().all(|one| !one.alive))
    });
    let writer = start(&place, &["pub", "x", "a", "b"]);
    assert!(writer.output().status.success());
    assert_eq!(start(&place, &words).output().stdout, b"a\nb\n");
}

#[test]
fn containers_with_different_folders_see_different_channels() {
    let place = TestFolder::new();
    if !has_namespaces(&place) {
        return;
    }
    let reader = Running::new(contained(&place, false, &["sub", "x"]).spawn().unwrap());
    let _other = start(&place, &["sub", "x"]);
    place.await_subscribers("x", 1);
    let listed = contained(&place, false, &["ls"]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        text.contains("no channels in /dev/shm/olivine-"),
        "{text}{}",
        said(&listed)
    );
    drop(reader);
}
