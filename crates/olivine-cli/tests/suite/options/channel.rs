//! Settings of a channel that both roles take as options.

use super::stage::{Scene, Stage};
use crate::common::{TestFolder, said, until};
use olivine::admin::ChannelInfo;
use std::os::unix::fs::PermissionsExt;

const SHAPE: &[&str] = &[
    "--capacity",
    "--align",
    "--slow",
    "--publishers-max",
    "--subscribers-max",
];

pub(crate) const SCENES: &[Scene] = &[
    Scene::acts("pub", SHAPE, |stage| shape(stage, published)),
    Scene::acts("sub", SHAPE, |stage| shape(stage, awaited)),
    Scene::acts("pub", &["--mode", "--group"], |stage| {
        rights(stage, published)
    }),
    Scene::acts("sub", &["--mode", "--group"], |stage| {
        rights(stage, awaited)
    }),
    Scene::acts("pub", &["--dir"], dir_of_pub),
    Scene::acts("sub", &["--dir"], dir_of_sub),
    Scene::acts("pub", &["--hugepages"], hugepages_of_pub),
    Scene::acts("sub", &["--hugepages"], hugepages_of_sub),
    Scene::acts("pub", &["--cpu"], |stage| {
        cpu(stage, &["pub", "x", "--rate", "1"])
    }),
    Scene::acts("sub", &["--cpu"], |stage| cpu(stage, &["sub", "x"])),
    Scene::acts("pub", &["--wait"], wait_of_pub),
];

/// A channel as one of the roles creates it.
type Make = fn(&Stage, &str, &[&str]) -> ChannelInfo;

/// The leftover of a publisher.
fn published(stage: &Stage, channel: &str, more: &[&str]) -> ChannelInfo {
    stage.ok(&[&["pub", channel, "a"], more].concat());
    stage.place.look(channel).unwrap()
}

/// The channel of an early subscriber.
fn awaited(stage: &Stage, channel: &str, more: &[&str]) -> ChannelInfo {
    let reader = stage.start(&[&["sub", channel], more].concat());
    stage.place.await_subscribers(channel, 1);
    let info = stage.place.look(channel).unwrap();
    // Killed, so that the channel stays.
    drop(reader);
    info
}

fn shape(stage: &Stage, make: Make) {
    let plain = make(stage, "plain", &[]);
    let words = [
        "--capacity",
        "64KiB",
        "--align",
        "128",
        "--slow",
        "evict:9s",
        "--publishers-max",
        "3",
        "--subscribers-max",
        "5",
    ];
    let named = make(stage, "named", &words);
    let of = |info: &ChannelInfo| (info.capacity_bytes, info.align_bytes, info.publishers_max);
    assert_eq!(of(&named), (65_536, 128, 3));
    assert_eq!(
        (named.subscribers_max, named.slow.to_string()),
        (5, "evict:9s".to_owned())
    );
    assert_ne!(plain.capacity_bytes, named.capacity_bytes);
    assert_ne!(plain.align_bytes, named.align_bytes);
    assert_ne!(plain.publishers_max, named.publishers_max);
    assert_ne!(plain.subscribers_max, named.subscribers_max);
    assert_ne!(plain.slow.to_string(), named.slow.to_string());
}

fn rights(stage: &Stage, make: Make) {
    let bits = |channel: &str, more: &[&str]| {
        let path = make(stage, channel, more).path.join("control");
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(bits("plain", &[]), 0o600);
    assert_eq!(bits("moded", &["--mode", "0660"]), 0o660);
    let own = std::process::Command::new("id")
        .arg("-gn")
        .output()
        .unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    assert_eq!(bits("grouped", &["--group", own.trim()]), 0o660);
}

fn dir_of_pub(stage: &Stage) {
    let other = TestFolder::new();
    stage.ok(&[
        "pub",
        "x",
        "a",
        "--dir",
        &other.path().display().to_string(),
    ]);
    assert_eq!(
        (other.left(), stage.place.left()),
        (vec!["x".to_owned()], Vec::new())
    );
    stage.ok(&["pub", "x", "a"]);
    assert_eq!(stage.place.left(), ["x"]);
}

fn dir_of_sub(stage: &Stage) {
    let other = TestFolder::new();
    let words = ["pub", "x", "there"];
    assert!(other.run(&words).status.success());
    stage.ok(&["pub", "x", "here"]);
    let words = ["sub", "x", "--from", "oldest", "--count", "1"];
    assert_eq!(stage.out(&words), "here\n");
    let folder = other.path().display().to_string();
    assert_eq!(
        stage.out(&[&words[..], &["--dir", &folder]].concat()),
        "there\n"
    );
}

/// A ring below a large page has none on any machine.
const SMALL: &str = "'capacity=' is below 2MiB";

fn hugepages_of_pub(stage: &Stage) {
    let words = ["pub", "x", "a", "--capacity", "64KiB"];
    stage.ok(&words);
    let said = stage.fails(&[&words[..], &["--hugepages", "require"]].concat(), 1);
    assert!(said.contains(SMALL), "{said}");
}

fn hugepages_of_sub(stage: &Stage) {
    stage.ok(&["pub", "x", "a", "--capacity", "64KiB"]);
    let words = ["sub", "x", "--from", "oldest", "--count", "1"];
    let refused = stage.fails(&[&words[..], &["--hugepages", "require"]].concat(), 1);
    assert!(refused.contains(SMALL), "{refused}");
    stage.ok(&words);
}

fn cpu(stage: &Stage, words: &[&str]) {
    let allowed = olivine_bench::cpus::allowed();
    let last = allowed.last().unwrap().to_string();
    let listed = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    let tied = stage.start(&[words, &["--cpu", &last]].concat());
    until("the tie to a CPU", || listed(tied.child.id()) == last);
    drop(tied);
    let free = stage.start(words);
    until("the channel to be there", || {
        let info = stage.place.look("x");
        info.is_some_and(|info| !info.publishers.is_empty() || !info.subscribers.is_empty())
    });
    assert_eq!(listed(free.child.id()) == last, allowed.len() == 1);
    drop(free);
    let output = stage.run(&[words, &["--cpu", "1000"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cpu=1000"), "{}", said(&output));
}

/// How a waiting publisher waits: asleep, or on a CPU.
fn wait_of_pub(stage: &Stage) {
    let sleeps = |channel: &str, more: &[&str]| {
        stage.ok(&["sub", channel, "--name", "absent", "--duration", "1ms"]);
        let words = ["pub", channel, "--capacity", "4KiB"];
        let held = stage.start(&[&words[..], more].concat());
        until("a publisher that is held up", || {
            let info = stage.place.look(channel);
            info.is_some_and(|info| info.publishers.iter().any(|p| p.back_pressure_count > 0))
        });
        let path = format!("/proc/{}/stat", held.child.id());
        let mut asleep = 0;
        for _ in 0..40 {
            let stat = std::fs::read_to_string(&path).unwrap();
            let (_, rest) = stat.rsplit_once(") ").unwrap();
            asleep += usize::from(rest.starts_with('S'));
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        asleep
    };
    let (spinning, parked) = (sleeps("spin", &["--wait", "spin"]), sleeps("adaptive", &[]));
    assert!(spinning < 10, "asleep in {spinning} of 40 looks");
    assert!(parked > 20, "asleep in {parked} of 40 looks");
}
