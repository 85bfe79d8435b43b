//! Each check of the machine on planted files: good, bad, unreadable.

use super::rule::{Finding, Status};
use super::snapshot::{Facts, Snapshot, Space};
use super::{check_machine, memory, participants, processors, system};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// A machine on which every check is good: paths with their text.
const GOOD: &[(&str, &str)] = &[
    (
        "proc/self/mountinfo",
        "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
         25 22 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=2g\n\
         31 22 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
         32 22 0:29 / /mnt/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
         33 22 0:30 / /mnt/memory rw - cgroup cgroup rw,memory\n",
    ),
    (
        "proc/self/cgroup",
        "4:memory:/a\n3:cpu,cpuacct:/a\n0::/b/c\n",
    ),
    ("sys/fs/cgroup/b/c/cpu.max", "max 100000\n"),
    ("sys/fs/cgroup/b/c/memory.max", "max\n"),
    ("mnt/cpu/a/cpu.cfs_quota_us", "-1\n"),
    ("mnt/cpu/a/cpu.cfs_period_us", "100000\n"),
    (
        "mnt/memory/a/memory.limit_in_bytes",
        "9223372036854771712\n",
    ),
    (
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n\
         Max locked memory         unlimited            unlimited            bytes\n",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
    ),
    (
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force\n",
    ),
    (
        "proc/meminfo",
        "MemTotal: 1 kB\nSwapTotal:       0 kB\nSwapFree:        0 kB\n",
    ),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\n"),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/isolated", "1\n"),
    ("sys/devices/system/cpu/nohz_full", "1\n"),
    (
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
        "0\n",
    ),
    (
        "sys/devices/system/cpu/cpu1/topology/thread_siblings_list",
        "1\n",
    ),
    ("sys/devices/system/cpu/cpu0/cache/index3/level", "3\n"),
    (
        "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
        "0-1\n",
    ),
    ("sys/devices/system/cpu/cpu1/cache/index3/level", "3\n"),
    (
        "sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list",
        "0-1\n",
    ),
    (
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "performance\n",
    ),
    (
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
        "performance\n",
    ),
    (
        "proc/stat",
        "cpu  10 0 10 970 0 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
    ),
    ("proc/sys/kernel/osrelease", "6.18.1-x\n"),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "tsc\n",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        "tsc hpet\n",
    ),
    ("proc/self/timerslack_ns", "50000\n"),
    ("proc/sys/kernel/io_uring_disabled", "0\n"),
    ("run/systemd/system/x", ""),
    ("etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n"),
    (
        "etc/passwd",
        "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n",
    ),
];

/// A folder with planted files.
struct Machine {
    dir: TempDir,
    facts: Facts,
}

impl Machine {
    fn good() -> Self {
        let space = Space {
            size_bytes: 2 << 30,
            free_bytes: 1 << 30,
        };
        let machine = Self {
            dir: tempfile::tempdir().unwrap(),
            facts: Facts {
                user_id: 1000,
                folder: "/dev/shm/olivine-1000".into(),
                folder_error: None,
                folder_space: Ok(space),
                shm_space: Ok(space),
                has_membarrier: true,
                membarrier_off: false,
            },
        };
        GOOD.iter()
            .for_each(|(path, text)| machine.plant(path, text));
        for (link, target) in [
            ("self/ns/pid", "pid:[4026531836]"),
            ("self/ns/ipc", "ipc:[4026531839]"),
            ("self/ns/mnt", "mnt:[1]"),
            ("1/ns/mnt", "mnt:[1]"),
        ] {
            machine.link(&format!("proc/{link}"), target);
        }
        machine
    }

    fn plant(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    fn seen(&self) -> Snapshot {
        Snapshot::new(self.dir.path(), self.facts.clone())
    }

    fn found(&self, id: &str) -> Finding {
        let found = check_machine(&self.seen());
        found.into_iter().find(|one| one.id == id).unwrap()
    }

    /// The finding of `id` with `text` in `path`.
    fn with(path: &str, text: &str, id: &str) -> Finding {
        let machine = Self::good();
        machine.plant(path, text);
        machine.found(id)
    }
}

#[test]
fn well_kept_machine_is_good_in_every_check() {
    let found = check_machine(&Machine::good().seen());
    assert_eq!(found.len(), 22);
    for one in found {
        assert_eq!(one.status, Status::Good, "{one:?}");
        assert!(one.mend.is_none() && one.effect.is_none(), "{one:?}");
    }
}

/// A file, its text, and the status and value of the check that reads it.
#[test]
fn bad_value_is_reported_with_its_mend() {
    use Status::{Note, Problem, Warning};
    let cases = [
        (
            "sys/fs/cgroup/b/cpu.max",
            "50000 100000",
            "cpu-quota",
            Warning,
            "50 % of a CPU",
        ),
        (
            "mnt/cpu/a/cpu.cfs_quota_us",
            "200000",
            "cpu-quota",
            Warning,
            "200 % of a CPU",
        ),
        (
            "proc/self/status",
            "Cpus_allowed_list:\t1",
            "affinity",
            Warning,
            "CPU 1 allowed, 0-1 online",
        ),
        (
            "sys/devices/system/cpu/isolated",
            "",
            "isolation",
            Note,
            "isolated none",
        ),
        (
            "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list",
            "0",
            "cpu-distance",
            Note,
            "2 L3 caches",
        ),
        (
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "powersave",
            "governor",
            Warning,
            "powersave on CPU 1",
        ),
        (
            "proc/stat",
            "cpu  10 0 10 970 0 0 0 10 0 0",
            "stolen-time",
            Warning,
            "1.00 %",
        ),
        (
            "proc/self/limits",
            "Max locked memory  8388608  8388608  bytes",
            "memlock",
            Note,
            "8 MiB",
        ),
        (
            "sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always [never]",
            "huge-pages-shm",
            Note,
            "never",
        ),
        (
            "proc/meminfo",
            "SwapTotal: 2048 kB\nSwapFree: 1024 kB",
            "swap",
            Warning,
            "1 MiB used of 2 MiB",
        ),
        (
            "proc/meminfo",
            "SwapTotal: 2048 kB\nSwapFree: 2048 kB",
            "swap",
            Note,
            "0 B used of 2 MiB",
        ),
        (
            "proc/sys/vm/overcommit_memory",
            "2",
            "overcommit",
            Note,
            "strict",
        ),
        (
            "proc/sys/kernel/osrelease",
            "3.10.0-1160.el7",
            "kernel",
            Problem,
            "3.10.0",
        ),
        (
            "proc/sys/kernel/osrelease",
            "4.18.0",
            "kernel",
            Warning,
            "4.18.0",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
            "clock",
            Warning,
            "hpet",
        ),
        (
            "proc/self/timerslack_ns",
            "4000000",
            "timer-slack",
            Warning,
            "4 ms",
        ),
        (
            "proc/sys/kernel/io_uring_disabled",
            "2",
            "io-uring",
            Note,
            "disabled",
        ),
        (
            "etc/systemd/logind.conf",
            "#RemoveIPC=no",
            "remove-ipc",
            Warning,
            "RemoveIPC=yes",
        ),
        (
            "run/systemd/logind.conf.d/9.conf",
            "RemoveIPC = yes",
            "remove-ipc",
            Warning,
            "RemoveIPC=yes",
        ),
    ];
    for (path, text, id, status, value) in cases {
        let found = Machine::with(path, text, id);
        assert_eq!(found.status, status, "{found:?}");
        assert!(found.value.contains(value), "{found:?}");
        assert!(found.mend.is_some(), "{found:?}");
    }
}

#[test]
fn full_or_read_only_shm_is_a_problem_and_a_small_one_a_warning() {
    let mut machine = Machine::good();
    for (free_bytes, status) in [
        (64 << 10, Status::Problem),
        (32 << 20, Status::Warning),
        (64 << 20, Status::Good),
    ] {
        let space = Ok(Space {
            size_bytes: 64 << 20,
            free_bytes,
        });
        (machine.facts.shm_space, machine.facts.folder_space) = (space.clone(), space);
        assert_eq!(machine.found("shm").status, status, "{free_bytes}");
    }
    assert_eq!(machine.found("folder").status, Status::Good);
    machine.facts.folder_error = Some("it belongs to user 7".to_owned());
    assert_eq!(machine.found("folder").status, Status::Problem);
    let read_only = "25 22 0:23 / /dev/shm ro - tmpfs tmpfs ro\n1 0 0:1 / / rw - ext4 x rw";
    let mut machine = Machine::good();
    machine.plant("proc/self/mountinfo", read_only);
    assert_eq!(machine.found("shm").status, Status::Problem);
    assert_eq!(machine.found("folder").status, Status::Problem);
    // Channels on a disk work without it.
    machine.facts.folder = "/data/channels".into();
    assert_eq!(machine.found("shm").status, Status::Warning);
    let found = machine.found("folder");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert!(found.value.contains("ext4"), "{found:?}");
}

#[test]
fn tight_memory_limits_of_both_versions_are_warnings() {
    let machine = Machine::good();
    machine.plant("mnt/memory/memory.limit_in_bytes", "104857600");
    machine.plant("mnt/memory/memory.usage_in_bytes", "94371840");
    let found = machine.found("memory-limit");
    assert_eq!(found.status, Status::Warning, "{found:?}");
    assert_eq!(found.value, "10 MiB of 100 MiB left");
    machine.plant("sys/fs/cgroup/b/memory.max", "1048576");
    machine.plant("sys/fs/cgroup/b/memory.current", "4096");
    let mend = machine.found("memory-limit").mend.unwrap();
    assert_eq!(mend, "echo 2G | sudo tee /sys/fs/cgroup/b/memory.max");
    machine.plant("sys/fs/cgroup/b/memory.max", "4294967296");
    machine.plant("mnt/memory/memory.limit_in_bytes", "4294967296");
    assert_eq!(machine.found("memory-limit").status, Status::Good);
}

#[test]
fn hyper_threads_are_a_note_unless_they_are_all_there_is() {
    let machine = Machine::good();
    for cpu in [0, 1] {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        machine.plant(&path, "0-1");
    }
    assert_eq!(machine.found("hyper-threads").status, Status::Warning);
    machine.plant("proc/self/status", "Cpus_allowed_list:\t0-2");
    machine.plant(
        "sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
        "2",
    );
    let found = machine.found("hyper-threads");
    assert_eq!(found.status, Status::Note, "{found:?}");
    assert!(found.mend.unwrap().contains("cpu=0 and cpu=2"));
}

#[test]
fn containers_are_noted_and_a_refused_membarrier_is_a_warning() {
    let mut machine = Machine::good();
    machine.link("proc/self/ns/pid", "pid:[4026532000]");
    machine.link("proc/self/ns/mnt", "mnt:[2]");
    let found = machine.found("namespaces");
    assert_eq!(found.status, Status::Note, "{found:?}");
    assert!(found.value.starts_with("PID and mount"), "{found:?}");
    machine.facts.has_membarrier = false;
    assert_eq!(machine.found("membarrier").status, Status::Warning);
    machine.facts.membarrier_off = true;
    assert!(machine.found("membarrier").value.contains("OLIVINE_NO"));
}

#[test]
fn system_users_and_lingering_users_keep_their_channels() {
    let mut machine = Machine::good();
    machine.plant("etc/systemd/logind.conf", "");
    assert_eq!(machine.found("remove-ipc").status, Status::Warning);
    machine.plant("var/lib/systemd/linger/ann", "");
    assert_eq!(machine.found("remove-ipc").status, Status::Good);
    machine.facts.user_id = 1001;
    assert_eq!(machine.found("remove-ipc").status, Status::Warning);
    machine.facts.user_id = 999;
    assert_eq!(machine.found("remove-ipc").status, Status::Good);
    machine.plant("etc/login.defs", "SYS_UID_MAX 200\n");
    assert_eq!(machine.found("remove-ipc").status, Status::Warning);
}

#[test]
fn missing_file_is_unknown_with_its_name() {
    let mut machine = Machine::good();
    fs::remove_dir_all(machine.dir.path().join("proc")).unwrap();
    fs::remove_dir_all(machine.dir.path().join("sys")).unwrap();
    machine.facts.shm_space = Err("/dev/shm: entity not found".to_owned());
    // These look at values of this process, and at files of /etc.
    let known = ["membarrier", "remove-ipc"];
    let found = check_machine(&machine.seen());
    let (known, unknown): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|one| known.contains(&one.id));
    assert_eq!((known.len(), unknown.len()), (2, 20));
    for one in unknown {
        assert_eq!(one.status, Status::Unknown, "{one:?}");
        assert!(one.value.contains('/'), "{one:?}");
    }
}

/// Nonsense, huge numbers, bytes that are not text and a folder in place of a file: unknown or a
/// verdict, never a panic.
#[test]
fn nonsense_in_any_file_does_not_panic() {
    let nonsense: [&[u8]; 7] = [
        b"",
        b"-",
        b"99999999999999999999999999",
        b"18446744073709551615 18446744073709551615",
        b"\xff\xfe\x1b[2J",
        b"cpu 18446744073709551 1 1 1 1 1 1 18446744073709551",
        b"0-8191",
    ];
    let machine = Machine::good();
    let mut checked = 0;
    for (path, text) in GOOD {
        let file = machine.dir.path().join(path);
        for text in nonsense {
            fs::write(&file, text).unwrap();
            checked += check_machine(&machine.seen()).len();
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        checked += check_machine(&machine.seen()).len();
        fs::remove_dir(&file).unwrap();
        machine.plant(path, text);
    }
    assert!(checked > 5_000, "{checked}");
}

/// An effect is a figure that a document of this project has.
#[test]
fn each_effect_is_quoted_from_its_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut quoted = 0;
    let machine = [memory::RULES, processors::RULES, system::RULES]
        .into_iter()
        .flatten()
        .filter_map(|rule| rule.effect);
    let channel = participants::RULES.iter().filter_map(|rule| rule.effect);
    for effect in machine.chain(channel) {
        let text = fs::read_to_string(root.join(effect.document)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in effect.quote {
            assert!(text.contains(words), "{}: {words}", effect.document);
            quoted += 1;
        }
    }
    assert!(quoted >= 5, "{quoted}");
}

#[test]
fn hostile_text_is_escaped_in_text() {
    let found = Machine::with(
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "\u{1b}]0;owned\u{7}",
        "clock",
    );
    let text = found.text();
    assert!(text.contains("\\x1b]0;owned\\x07"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}
