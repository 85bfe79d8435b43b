//! Checks of the kernel, its clock, its namespaces, and of systemd.

use super::rule::{Effect, Judged, Rule, Status, Verdict};
use super::snapshot::Snapshot;

/// The namespaces that a machine starts with have fixed numbers (`PROC_PID_INIT_INO`,
/// `PROC_IPC_INIT_INO` of the kernel).
const FIRST_PID: &str = "pid:[4026531836]";
const FIRST_IPC: &str = "ipc:[4026531839]";
/// Users below this number are system users unless `login.defs` says otherwise.
const SYSTEM_USER_MAX: u32 = 999;
/// The first kernel with locks of open file descriptions, which decide who lives.
const OFD_LOCKS: (u32, u32) = (3, 15);
const PIDFD: (u32, u32) = (5, 3);
/// What the kernel gives each process.
const SLACK_NS: u64 = 50_000;

pub(crate) const RULES: &[Rule<Snapshot>] = &[
    Rule {
        id: "kernel",
        why: "pidfd (Linux 5.3) reports a death to sleepers; before, they look every 16 ms",
        effect: None,
        judge: kernel,
    },
    Rule {
        id: "membarrier",
        why: "with membarrier(GLOBAL_EXPEDITED) publishers pay no fence and sleepers sleep \
              longer; without it they wake every millisecond",
        effect: None,
        judge: membarrier,
    },
    Rule {
        id: "clock",
        why: "time stamps read the time stamp counter, and the kernel must hold it for stable",
        effect: None,
        judge: clock,
    },
    Rule {
        id: "timer-slack",
        why: "the kernel ends paced sends and naps up to this much later",
        effect: None,
        judge: timer_slack,
    },
    Rule {
        id: "io-uring",
        why: "tcp:// and the HTTP engine can use it; they use epoll otherwise",
        effect: Some(Effect {
            text: "548 ns with io_uring and 540 ns with epoll a request at depth 16: within noise",
            document: "docs/method.md",
            quote: &["7.12 us | 548 ns", "7.27 us | 540 ns"],
        }),
        judge: io_uring,
    },
    Rule {
        id: "namespaces",
        why: "programs of another PID namespace cannot be watched for their death, and those of \
              another mount namespace may see another /dev/shm",
        effect: None,
        judge: namespaces,
    },
    Rule {
        id: "remove-ipc",
        why: "systemd-logind removes the files of channels at the last logout of a normal user",
        effect: None,
        judge: remove_ipc,
    },
];

fn kernel(seen: &Snapshot) -> Judged {
    let release = seen.read("/proc/sys/kernel/osrelease")?;
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return Err(format!("'{release}' is not a kernel release"));
    };
    let version: (u32, u32) = (major, minor);
    let status = if version < OFD_LOCKS {
        Status::Problem
    } else if version < PIDFD {
        Status::Warning
    } else {
        return Ok(Verdict::good(release));
    };
    Ok(Verdict::bad(status, release, "install Linux 5.3 or later"))
}

fn membarrier(seen: &Snapshot) -> Judged {
    if seen.facts.membarrier_off {
        return Ok(Verdict::bad(
            Status::Warning,
            "switched off by OLIVINE_NO_MEMBARRIER",
            "unset OLIVINE_NO_MEMBARRIER",
        ));
    }
    if seen.facts.has_membarrier {
        return Ok(Verdict::good("available"));
    }
    Ok(Verdict::bad(
        Status::Warning,
        "not available: an old kernel, or a filter of system calls refuses it",
        "docker run --security-opt seccomp=PROFILE, with membarrier allowed in the profile",
    ))
}

fn clock(seen: &Snapshot) -> Judged {
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let current = seen.read(&format!("{FOLDER}/current_clocksource"))?;
    if matches!(current.as_str(), "tsc" | "arch_sys_counter") {
        return Ok(Verdict::good(current));
    }
    let available = seen.read(&format!("{FOLDER}/available_clocksource"));
    let has_tsc = available.is_ok_and(|text| text.split_whitespace().any(|word| word == "tsc"));
    let mend = if has_tsc {
        format!("echo tsc | sudo tee {FOLDER}/current_clocksource")
    } else {
        "see why the kernel refused it: sudo dmesg | grep -i tsc".to_owned()
    };
    Ok(Verdict::bad(Status::Warning, current, mend))
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn timer_slack(seen: &Snapshot) -> Judged {
    let slack_ns = seen.number("/proc/self/timerslack_ns")?;
    let value = olivine_bench::text::short_nanos(slack_ns as f64);
    if slack_ns <= SLACK_NS {
        return Ok(Verdict::good(value));
    }
    let mend = format!("echo {SLACK_NS} | sudo tee /proc/$$/timerslack_ns");
    Ok(Verdict::bad(Status::Warning, value, mend))
}

fn io_uring(seen: &Snapshot) -> Judged {
    const FILE: &str = "/proc/sys/kernel/io_uring_disabled";
    if !seen.has(FILE) {
        return Err(format!("{FILE}: missing, as before Linux 6.6"));
    }
    let value = match seen.number(FILE)? {
        0 => return Ok(Verdict::good("enabled")),
        1 => "disabled for all but a group",
        2 => "disabled",
        other => return Err(format!("{FILE}: {other}")),
    };
    let mend = "sudo sysctl kernel.io_uring_disabled=0";
    Ok(Verdict::bad(Status::Note, value, mend))
}

fn namespaces(seen: &Snapshot) -> Judged {
    let mut own = Vec::new();
    for (kind, first) in [("pid", FIRST_PID), ("ipc", FIRST_IPC)] {
        if seen.link(&format!("/proc/self/ns/{kind}"))? != first {
            own.push(kind.to_uppercase());
        }
    }
    // The first process is this machine's init, or the container's.
    let mount = seen.link("/proc/self/ns/mnt")?;
    if seen
        .link("/proc/1/ns/mnt")
        .is_ok_and(|first| first != mount)
    {
        own.push("mount".to_owned());
    }
    if own.is_empty() {
        return Ok(Verdict::good("those of the machine"));
    }
    let value = format!("{} namespace of a container", own.join(" and "));
    let mend = "docker run --pid=host --ipc=host, or one container for all participants";
    Ok(Verdict::bad(Status::Note, value, mend))
}

/// The value of `RemoveIPC=`: later files win, files of one name hide each other.
fn removes_ipc(seen: &Snapshot) -> bool {
    // From the strongest to the weakest.
    const FOLDERS: [&str; 4] = [
        "/etc/systemd",
        "/run/systemd",
        "/usr/local/lib/systemd",
        "/usr/lib/systemd",
    ];
    let main = FOLDERS
        .iter()
        .map(|folder| format!("{folder}/logind.conf"))
        .find(|file| seen.has(file));
    let mut names: Vec<String> = FOLDERS
        .iter()
        .flat_map(|folder| seen.names(&format!("{folder}/logind.conf.d")))
        .filter(|name| name.ends_with(".conf"))
        .collect();
    names.sort();
    names.dedup();
    let parts = names.iter().filter_map(|name| {
        FOLDERS
            .iter()
            .map(|folder| format!("{folder}/logind.conf.d/{name}"))
            .find(|file| seen.has(file))
    });
    let mut removes = true;
    for file in main.into_iter().chain(parts) {
        for line in seen.read(&file).unwrap_or_default().lines() {
            if let Some(("RemoveIPC", value)) = line
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
            {
                removes = matches!(
                    value.to_ascii_lowercase().as_str(),
                    "" | "1" | "y" | "yes" | "t" | "true" | "on"
                );
            }
        }
    }
    removes
}

fn system_user_max(seen: &Snapshot) -> u32 {
    let text = seen.read("/etc/login.defs").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "SYS_UID_MAX").then(|| words.next()?.parse().ok())?
    });
    found.unwrap_or(SYSTEM_USER_MAX)
}

/// The name of a user by the file of users.
fn user_name(seen: &Snapshot, user_id: u32) -> Option<String> {
    let users = seen.read("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(user_id)).then(|| name.to_owned())
    })
}

fn remove_ipc(seen: &Snapshot) -> Judged {
    let facts = &seen.facts;
    if !seen.has("/run/systemd/system") {
        return Ok(Verdict::good("systemd does not run here"));
    }
    if facts.user_id <= system_user_max(seen) {
        return Ok(Verdict::good(format!(
            "user {} is a system user",
            facts.user_id
        )));
    }
    if !facts.folder.starts_with("/dev/shm") {
        return Ok(Verdict::good("the folder of channels is not in /dev/shm"));
    }
    if !removes_ipc(seen) {
        return Ok(Verdict::good("RemoveIPC=no"));
    }
    let name = user_name(seen, facts.user_id);
    if let Some(name) = &name
        && seen.has(&format!("/var/lib/systemd/linger/{name}"))
    {
        return Ok(Verdict::good(format!("{name} lingers after logout")));
    }
    let name = name.unwrap_or_else(|| facts.user_id.to_string());
    Ok(Verdict::bad(
        Status::Warning,
        "RemoveIPC=yes, and this user is not a system user",
        format!("sudo loginctl enable-linger {name}"),
    ))
}
