//! Checks of memory: where channels are, and what limits it.

use super::cgroup;
use super::rule::{Effect, Judged, Rule, Status, Verdict};
use super::snapshot::{Snapshot, Space};
use olivine_bench::text;

/// A channel with one publisher and the smallest default ring, 64 KiB, as `olivine ls` shows it.
const SMALLEST_BYTES: u64 = 108 << 10;
/// The default ring is at most a sixteenth of the free space, and 4 MiB at most.
const ROOMY_BYTES: u64 = 16 * (4 << 20);
/// Less locked memory than this is a note: the two programs of a benchmark need more.
const LOCKED_BYTES: u64 = 64 << 20;
const SHM: &str = "/dev/shm";
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";

const RING: Effect = Effect {
    text: "a ring of 4 MiB streams 1.1 to 1.8 times as fast as one of 1 MiB with a shared cache",
    document: "docs/adr/0019-let-the-first-publisher-fix-the-shape.md",
    quote: &[
        "a ring of 4 MiB streams 1.1 times as fast as one of 1 MiB on AMD family 26",
        "1.8 times on family 25, model 17, both with a shared third-level cache",
    ],
};

pub(crate) const RULES: &[Rule<Snapshot>] = &[
    Rule {
        id: "shm",
        why: "channels are in /dev/shm; where little of it is free, default rings are small",
        effect: Some(RING),
        judge: shm,
    },
    Rule {
        id: "folder",
        why: "each channel is a folder in it, which must belong to this user, in memory",
        effect: None,
        judge: folder,
    },
    Rule {
        id: "memory-limit",
        why: "rings count against it, and at the limit the kernel kills processes of the group",
        effect: None,
        judge: limit,
    },
    Rule {
        id: "memlock",
        why: "programs that lock their memory need it, such as 'olivine bench --mlock'",
        effect: None,
        judge: memlock,
    },
    Rule {
        id: "huge-pages",
        why: "transparent huge pages of private memory; rings follow huge-pages-shm instead",
        effect: None,
        judge: huge_pages,
    },
    Rule {
        id: "huge-pages-shm",
        why: "hugepages=require is refused and hugepages=try has no effect without it",
        effect: None,
        judge: huge_pages_shm,
    },
    Rule {
        id: "swap",
        why: "pages of a ring that were swapped out are read from disk when a message needs them",
        effect: None,
        judge: swap,
    },
    Rule {
        id: "overcommit",
        why: "with strict accounting, making a channel fails although memory is free",
        effect: None,
        judge: overcommit,
    },
];

fn room(space: &Space) -> (Status, String) {
    let status = if space.free_bytes < SMALLEST_BYTES {
        Status::Problem
    } else if space.free_bytes < ROOMY_BYTES {
        Status::Warning
    } else {
        Status::Good
    };
    let value = format!(
        "{} free of {}",
        text::bytes(space.free_bytes),
        text::bytes(space.size_bytes)
    );
    (status, value)
}

/// The mount that holds `path`: the last of those with the longest name.
fn mount_of<'a>(mounts: &'a [cgroup::Mount], path: &str) -> Option<&'a cgroup::Mount> {
    let holds = |mount: &&cgroup::Mount| {
        let point = mount.point.trim_end_matches('/');
        path.strip_prefix(point)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    mounts
        .iter()
        .filter(holds)
        .max_by_key(|mount| mount.point.len())
}

fn is_read_only(mount: &cgroup::Mount) -> bool {
    mount.options.split(',').any(|option| option == "ro")
}

fn shm(seen: &Snapshot) -> Judged {
    const REMOUNT: &str = "sudo mount -o remount,rw,size=2g /dev/shm (docker run --shm-size=2g)";
    let (mut status, mut value) = room(&seen.facts.shm_space.clone()?);
    if let Ok(mounts) = cgroup::mounts(seen)
        && let Some(mount) = mount_of(&mounts, SHM)
    {
        value.push_str(&format!(", {}, {}", mount.kind, mount.options));
        if is_read_only(mount) {
            status = Status::Problem;
        } else if mount.kind != "tmpfs" && status == Status::Good {
            status = Status::Warning;
        }
    }
    // Channels in other folders work without it.
    if status == Status::Problem && !seen.facts.folder.starts_with(SHM) {
        status = Status::Warning;
    }
    Ok(match status {
        Status::Good => Verdict::good(value),
        status => Verdict::bad(status, value, REMOUNT),
    })
}

fn folder(seen: &Snapshot) -> Judged {
    let facts = &seen.facts;
    let path = facts.folder.display().to_string();
    if let Some(error) = &facts.folder_error {
        return Ok(Verdict::bad(
            Status::Problem,
            error,
            "export OLIVINE_DIR=/dev/shm/NAME, a folder of this user, or mend what the value says",
        ));
    }
    let (status, free) = room(&facts.folder_space.clone()?);
    let mounts = cgroup::mounts(seen)?;
    let mount = mount_of(&mounts, &path).ok_or_else(|| format!("no mount holds {path}"))?;
    let value = format!("{path}, {free}, {}", mount.kind);
    if is_read_only(mount) || status == Status::Problem {
        let mend = "export OLIVINE_DIR=DIR with a DIR that has room and is writable";
        return Ok(Verdict::bad(Status::Problem, value, mend));
    }
    if !matches!(mount.kind.as_str(), "tmpfs" | "ramfs" | "hugetlbfs") {
        let mend = "unset OLIVINE_DIR, or name a folder in /dev/shm";
        return Ok(Verdict::bad(Status::Warning, value, mend));
    }
    Ok(Verdict::good(value))
}

fn limit(seen: &Snapshot) -> Judged {
    let Some(found) = cgroup::memory(seen)? else {
        return Ok(Verdict::good("no limit"));
    };
    let free = found.limit_bytes.saturating_sub(found.used_bytes);
    let value = format!(
        "{} of {} left",
        text::bytes(free),
        text::bytes(found.limit_bytes)
    );
    if free >= ROOMY_BYTES {
        return Ok(Verdict::good(value));
    }
    let mend = format!("echo 2G | sudo tee {}", found.file);
    Ok(Verdict::bad(Status::Warning, value, mend))
}

fn memlock(seen: &Snapshot) -> Judged {
    const FILE: &str = "/proc/self/limits";
    const NAME: &str = "Max locked memory";
    let text = seen.read(FILE)?;
    let line = text.lines().find_map(|line| line.strip_prefix(NAME));
    let soft = line.and_then(|line| line.split_whitespace().next());
    let soft = soft.ok_or_else(|| format!("{FILE}: no line '{NAME}'"))?;
    if soft == "unlimited" {
        return Ok(Verdict::good(soft));
    }
    let bytes: u64 = soft
        .parse()
        .map_err(|_| format!("{FILE}: '{soft}' is not a number"))?;
    let value = text::bytes(bytes);
    if bytes >= LOCKED_BYTES {
        return Ok(Verdict::good(value));
    }
    let mend = "sudo prlimit --memlock=unlimited --pid $$ (systemd: LimitMEMLOCK=infinity)";
    Ok(Verdict::bad(Status::Note, value, mend))
}

/// The chosen word of a file such as `always [madvise] never`.
fn chosen(seen: &Snapshot, file: &str) -> Result<String, String> {
    let text = seen.read(file)?;
    let word = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.map(str::to_owned)
        .ok_or_else(|| format!("{file}: '{text}' has no chosen word"))
}

fn huge_pages(seen: &Snapshot) -> Judged {
    Ok(Verdict::good(chosen(seen, &format!("{HUGE}/enabled"))?))
}

fn huge_pages_shm(seen: &Snapshot) -> Judged {
    let file = format!("{HUGE}/shmem_enabled");
    let word = chosen(seen, &file)?;
    if matches!(word.as_str(), "never" | "deny") {
        let mend = format!("echo advise | sudo tee {file}");
        return Ok(Verdict::bad(Status::Note, word, mend));
    }
    Ok(Verdict::good(word))
}

fn swap(seen: &Snapshot) -> Judged {
    const FILE: &str = "/proc/meminfo";
    let kilobytes = |name| -> Result<u64, String> {
        let field = seen.field(FILE, name)?;
        let number = field.trim_end_matches("kB").trim();
        number
            .parse()
            .map_err(|_| format!("{FILE}: {name} '{field}' is not a number"))
    };
    let (all, free) = (kilobytes("SwapTotal")?, kilobytes("SwapFree")?);
    if all == 0 {
        return Ok(Verdict::good("none"));
    }
    let bytes = |kilobytes: u64| text::bytes(kilobytes.saturating_mul(1024));
    let used = all.saturating_sub(free);
    let value = format!("{} used of {}", bytes(used), bytes(all));
    let status = if used > 0 {
        Status::Warning
    } else {
        Status::Note
    };
    Ok(Verdict::bad(status, value, "sudo swapoff --all"))
}

fn overcommit(seen: &Snapshot) -> Judged {
    let mode = seen.number("/proc/sys/vm/overcommit_memory")?;
    let word = match mode {
        0 => "0, heuristic",
        1 => "1, always",
        2 => "2, strict",
        _ => return Err(format!("vm.overcommit_memory is {mode}")),
    };
    if mode == 2 {
        let mend = "sudo sysctl vm.overcommit_memory=0";
        return Ok(Verdict::bad(Status::Note, word, mend));
    }
    Ok(Verdict::good(word))
}
