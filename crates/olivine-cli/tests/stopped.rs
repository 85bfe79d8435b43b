//! A measurement with other programs that is stopped or killed: none of them counts as failed, and
//! none is left.

mod common;

use common::{Running, TestFolder, said, until};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// A rival's description of its method.
const KNOWN: &str = r#"[{"name":"sleeper","about":"","wait":"spin","streams":true,"lacks":""}]"#;
/// The shortest measurement besides the requested one.
const QUICK: [&str; 4] = ["--runs", "1", "--seconds", "0.1"];

fn has_two_cpus() -> bool {
    common::has_two_cpus()
}

/// Creates a program `name` that writes its pid to the returned file and then sleeps; a rival first
/// lists its method.
fn sleeper(folder: &Path, name: &str) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let id = folder.join("id");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = list ] && {{ echo '{KNOWN}'; exit; }}\necho $$ > {id}.new\nmv \
         {id}.new {id}\nexec sleep 1000\n",
        id = id.display(),
    );
    let path = folder.join(name);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    id
}

/// The pid that a sleeper wrote.
fn noted(id: &Path) -> u32 {
    until("a process of others", || id.exists());
    std::fs::read_to_string(id).unwrap().trim().parse().unwrap()
}

/// Whether a process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// All descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    let further = children.iter().flat_map(|child| descendants(*child));
    further.chain(children.iter().copied()).collect()
}

/// Starts the tool like a terminal: as the leader of the foreground group.
fn start(place: &TestFolder, words: &[&str]) -> Running {
    let mut command = place.olivine(words);
    command.env("OLIVINE_NATS_SERVER", place.path().join("nats/nats-server"));
    Running::new(command.process_group(0).spawn().unwrap())
}

#[test]
fn stopped_measurement_reports_no_rival_failure() {
    if !has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = place.path().join(signal.as_raw().to_string());
        let id = sleeper(&folder, "rival-sleeper");
        let rivals = ["--rivals", folder.to_str().unwrap()];
        let words = ["bench", "pingpong", "--method", "olivine-adaptive"];
        let bench = start(&place, &[&words[..], &rivals, &QUICK].concat());
        let rival = noted(&id);
        kill_process_group(Pid::from_child(&bench.child), signal).unwrap();
        let output = bench.output();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}{}", said(&output));
        assert!(text.contains("olivine-adaptive"), "{text}");
        assert!(!text.contains("sleeper"), "{text}");
        assert!(!runs(rival));
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Kills a measurement that has started the sleeper of `id`; no process is left.
fn kill_measurement(place: &TestFolder, words: &[&str], id: &Path) {
    let mut bench = start(place, &[words, &QUICK].concat());
    let theirs = noted(id);
    let children = descendants(bench.child.id());
    assert!(children.contains(&theirs), "{words:?}: {children:?}");
    bench.signal(Signal::KILL);
    bench.wait();
    until("the end of every child", || {
        !children.iter().any(|child| runs(*child))
    });
}

#[test]
fn killed_measurement_leaves_no_process() {
    if !has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let [rivals, servers] = ["rivals", "servers"].map(|name| place.path().join(name));
    let rival = sleeper(&rivals, "rival-sleeper");
    let server = sleeper(&servers, "hyper");
    let [rivals, servers] = [rivals, servers].map(|path| path.display().to_string());
    let words = ["bench", "pingpong", "--method", "olivine-adaptive"];
    kill_measurement(
        &place,
        &[&words[..], &["--rivals", &rivals]].concat(),
        &rival,
    );
    let words = ["bench", "http", "--peers", "hyper", "--rivals", &servers];
    kill_measurement(&place, &words, &server);
}

/// Only a build with `nats://` measures it and starts a server.
#[cfg(feature = "nats")]
#[test]
fn killed_measurement_with_a_server_leaves_no_process_and_a_folder_for_the_next_one() {
    if !has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let nats = place.path().join("nats");
    let server = sleeper(&nats, "nats-server");
    let [rivals, disk] = ["rivals", "disk"].map(|name| place.path().join(name));
    sleeper(&rivals, "rival-sleeper");
    std::fs::create_dir(&disk).unwrap();
    let left = || std::fs::read_dir(&disk).unwrap().count();
    let [rivals, folder] = [&rivals, &disk].map(|path| path.display().to_string());
    let words = [
        "bench", "bridge", "stored", "--rivals", &rivals, "--folder", &folder,
    ];
    kill_measurement(&place, &words, &server);
    assert_eq!(left(), 1, "the folder of the server that was killed");
    std::fs::write(nats.join("nats-server"), "#!/bin/sh\nexit 1\n").unwrap();
    let output = start(&place, &[&words[..], &QUICK].concat()).output();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(left(), 0, "taken away by the next one");
}

/// It runs until it is ended, and its publisher is killed.
#[test]
fn bridge_ends_with_the_measurement() {
    if !has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let words = [
        "bench",
        "bridge",
        "cost",
        "--runs",
        "1000",
        "--seconds",
        "600",
    ];
    let mut bench = start(&place, &words);
    let is_bridge = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"bridge")
    };
    let id = bench.child.id();
    // Every second turn has one.
    let mut children = Vec::new();
    until("a bridge", || {
        children = descendants(id);
        children.iter().any(is_bridge)
    });
    bench.signal(Signal::KILL);
    bench.wait();
    until("the end of every child", || {
        !children.iter().any(|child| runs(*child))
    });
}
