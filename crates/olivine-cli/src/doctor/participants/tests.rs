//! Checks of participants on planted processes: good, bad, hidden.

use super::*;
use crate::doctor::rule::Finding;
use crate::doctor::snapshot::{Facts, Space};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const INODE: u64 = 77;
const CPUS: &str = "sys/devices/system/cpu";

/// Two processes that have mapped the channel, 10 pinned to CPU 0 and 11 to CPU 1.
struct Planted(TempDir);

impl Planted {
    fn new() -> Self {
        let planted = Self(tempfile::tempdir().unwrap());
        planted.write("proc/self/status", "Cpus_allowed_list:\t0-1\n");
        for (process, cpu) in [(10, 0), (11, 1)] {
            let folder = format!("proc/{process}");
            let maps = format!("7f00-7f01 rw-s 00000000 00:19 {INODE} /dev/shm/o/x/control\n");
            planted.write(&format!("{folder}/maps"), &maps);
            planted.status(process, "S (sleeping)", "1000", cpu);
            for (kind, number) in [("pid", 1), ("mnt", 2), ("ipc", 3)] {
                planted.link(
                    &format!("{folder}/ns/{kind}"),
                    &format!("{kind}:[{number}]"),
                );
                planted.link(
                    &format!("proc/self/ns/{kind}"),
                    &format!("{kind}:[{number}]"),
                );
            }
            let of_cpu = format!("{CPUS}/cpu{cpu}");
            planted.write(
                &format!("{of_cpu}/topology/thread_siblings_list"),
                &cpu.to_string(),
            );
            planted.write(&format!("{of_cpu}/topology/physical_package_id"), "0");
            planted.write(&format!("{of_cpu}/cache/index3/level"), "3");
            planted.write(&format!("{of_cpu}/cache/index3/shared_cpu_list"), "0-1");
            planted.write(&format!("{of_cpu}/cpufreq/scaling_governor"), "performance");
        }
        planted
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    fn status(&self, process: u32, state: &str, user: &str, cpu: u32) {
        let text = format!("State:\t{state}\nUid:\t{user}\t{user}\t{user}\t{user}\n");
        let text = format!("{text}Cpus_allowed_list:\t{cpu}\n");
        self.write(&format!("proc/{process}/status"), &text);
        self.write(&format!("proc/{process}/task/{process}/status"), &text);
    }

    fn found(&self, id: &str) -> Finding {
        let facts = Facts {
            user_id: 1000,
            folder: "/dev/shm/o".into(),
            folder_error: None,
            folder_space: Err(String::new()),
            shm_space: Ok(Space {
                size_bytes: 1,
                free_bytes: 1,
            }),
            has_membarrier: true,
            membarrier_off: false,
        };
        let seen = Snapshot::new(self.0.path(), facts);
        let given = [("publisher", 10), ("subscriber", 11), ("subscriber", 11)];
        let participants = Participants::new(&seen, INODE, given.into_iter());
        let rule = RULES.iter().find(|rule| rule.id == id).unwrap();
        rule.run(&participants)
    }
}

#[test]
fn well_placed_participants_are_good_in_every_check() {
    let planted = Planted::new();
    for rule in RULES {
        let found = planted.found(rule.id);
        assert_eq!(found.status, Status::Good, "{found:?}");
    }
}

#[test]
fn stopped_process_is_a_warning() {
    let planted = Planted::new();
    planted.status(11, "T (stopped)", "1000", 1);
    let found = planted.found("channel-stopped");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert_eq!(found.value, "subscriber 11");
    assert_eq!(found.mend.as_deref(), Some("kill -CONT 11"));
}

#[test]
fn two_processes_on_one_cpu_are_a_warning() {
    let planted = Planted::new();
    planted.status(11, "R (running)", "1000", 0);
    let found = planted.found("channel-cpus");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert_eq!(found.value, "publisher 10 and subscriber 11 on CPU 0");
    assert!(found.mend.unwrap().ends_with("--cpu-list 1 11"));
}

#[test]
fn participants_far_apart_are_noted_with_the_measured_effect() {
    let planted = Planted::new();
    planted.write(&format!("{CPUS}/cpu0/cache/index3/shared_cpu_list"), "0");
    let found = planted.found("channel-distance");
    assert_eq!(found.status, Status::Note, "{found:?}");
    assert!(found.value.contains("one socket") && found.effect.is_some());
    planted.write(&format!("{CPUS}/cpu1/topology/physical_package_id"), "1");
    assert!(
        planted
            .found("channel-distance")
            .value
            .contains("two sockets")
    );
}

#[test]
fn slow_governor_other_namespace_and_other_user_are_named() {
    let planted = Planted::new();
    planted.write(
        &format!("{CPUS}/cpu1/cpufreq/scaling_governor"),
        "powersave",
    );
    let found = planted.found("channel-governor");
    assert_eq!(
        (found.status, found.value.as_str()),
        (Status::Warning, "powersave on CPU 1")
    );
    planted.link("proc/11/ns/mnt", "mnt:[9]");
    let found = planted.found("channel-spaces");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert!(
        found.value.contains("subscriber 11 has another mnt"),
        "{found:?}"
    );
    planted.status(11, "S (sleeping)", "1001", 1);
    let found = planted.found("channel-users");
    assert_eq!(found.status, Status::Note, "{found:?}");
    assert_eq!(found.value, "users 1000, 1001");
}

/// A process of that number that has not mapped the channel is another process.
#[test]
fn hidden_processes_are_a_warning_and_their_checks_unknown() {
    let planted = Planted::new();
    planted.write("proc/11/maps", "");
    let found = planted.found("channel-visible");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert!(found.value.contains("not subscriber 11"), "{found:?}");
    assert_eq!(planted.found("channel-stopped").status, Status::Good);
    fs::remove_file(planted.0.path().join("proc/10/maps")).unwrap();
    for rule in &RULES[1..] {
        let found = planted.found(rule.id);
        assert_eq!(found.status, Status::Unknown, "{found:?}");
        assert!(found.value.contains("publisher 10") || found.value.contains("subscriber 11"));
    }
}

#[test]
fn unreadable_status_is_unknown() {
    let planted = Planted::new();
    fs::remove_file(planted.0.path().join("proc/10/status")).unwrap();
    for id in ["channel-stopped", "channel-governor", "channel-users"] {
        let found = planted.found(id);
        assert_eq!(found.status, Status::Unknown, "{found:?}");
        assert!(found.value.contains("/proc/10/status"), "{found:?}");
    }
}
