//! Limits of the control groups of this process, of versions 1 and 2.

use super::snapshot::Snapshot;

/// Limits of memory above this mean "unlimited": version 1 shows the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// A limit of CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) quota_us: u64,
    pub(super) period_us: u64,
    /// The file that sets it.
    pub(super) file: String,
}

/// A limit of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) limit_bytes: u64,
    pub(super) used_bytes: u64,
    /// The file that sets it.
    pub(super) file: String,
}

/// One mounted file system.
pub(super) struct Mount {
    pub(super) point: String,
    pub(super) options: String,
    pub(super) kind: String,
    pub(super) super_options: String,
}

/// The mounted file systems, in order.
pub(super) fn mounts(seen: &Snapshot) -> Result<Vec<Mount>, String> {
    let text = seen.read("/proc/self/mountinfo")?;
    let of_line = |line: &str| {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(4);
        let mut system = system.split(' ');
        Some(Mount {
            point: unescaped(place.next()?),
            options: place.next()?.to_owned(),
            kind: system.next()?.to_owned(),
            super_options: system.nth(1).unwrap_or_default().to_owned(),
        })
    };
    Ok(text.lines().filter_map(of_line).collect())
}

/// The kernel writes a space in a path as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\134", "\\")
}

/// The folders of this process's group and of those above it, the closest first. `controller` is of
/// version 1; `None` asks for version 2.
fn folders(seen: &Snapshot, controller: Option<&str>) -> Result<Vec<String>, String> {
    let groups = seen.read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let is_it = match controller {
            Some(name) => controllers.split(',').any(|found| found == name),
            None => controllers.is_empty(),
        };
        parts.next().filter(|_| is_it)
    });
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let mounts = mounts(seen)?;
    let mount = mounts.iter().rev().find(|mount| match controller {
        Some(name) => {
            mount.kind == "cgroup" && mount.super_options.split(',').any(|found| found == name)
        }
        None => mount.kind == "cgroup2",
    });
    let Some(mount) = mount else {
        return Ok(Vec::new());
    };
    let mut folders = Vec::new();
    let mut path = path.trim_end_matches('/');
    while let Some((above, _)) = path.rsplit_once('/') {
        folders.push(format!("{}{path}", mount.point));
        path = above;
    }
    folders.push(mount.point.clone());
    Ok(folders)
}

/// The tightest limit of CPU time.
pub(super) fn cpu_quota(seen: &Snapshot) -> Result<Option<Quota>, String> {
    let mut found = Vec::new();
    for folder in folders(seen, None)? {
        let file = format!("{folder}/cpu.max");
        // The root has none. Either word may be missing from a planted file.
        let text = seen.read(&file).unwrap_or_default();
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        if let (Some(Some(quota_us)), Some(Some(period_us))) = (words.next(), words.next()) {
            found.push(Quota {
                quota_us,
                period_us,
                file,
            });
        }
    }
    for folder in folders(seen, Some("cpu"))? {
        let file = format!("{folder}/cpu.cfs_quota_us");
        // Without a limit it is -1, which is not a number here.
        let period_us = seen.number(&format!("{folder}/cpu.cfs_period_us"));
        if let (Ok(quota_us), Ok(period_us)) = (seen.number(&file), period_us) {
            found.push(Quota {
                quota_us,
                period_us,
                file,
            });
        }
    }
    let share = |quota: &Quota| quota.quota_us.saturating_mul(1000) / quota.period_us.max(1);
    Ok(found.into_iter().min_by_key(share))
}

/// The limit of memory with the least room.
pub(super) fn memory(seen: &Snapshot) -> Result<Option<Memory>, String> {
    let names = [
        (None, "memory.max", "memory.current"),
        (
            Some("memory"),
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
    ];
    let mut found = Vec::new();
    for (controller, limit, used) in names {
        for folder in folders(seen, controller)? {
            let file = format!("{folder}/{limit}");
            // The root of version 2 has no file, and "max" is not a number.
            let Ok(limit_bytes) = seen.number(&file) else {
                continue;
            };
            if limit_bytes < NO_LIMIT {
                found.push(Memory {
                    limit_bytes,
                    used_bytes: seen.number(&format!("{folder}/{used}"))?,
                    file,
                });
            }
        }
    }
    let room = |memory: &Memory| memory.limit_bytes.saturating_sub(memory.used_bytes);
    Ok(found.into_iter().min_by_key(room))
}
