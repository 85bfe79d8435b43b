//! Lists of CPUs, and how far two CPUs are apart.

use super::snapshot::Snapshot;
use std::fmt;

const CPUS: &str = "/sys/devices/system/cpu";
/// Largest number that is taken for a CPU.
const CPU_MAX: u32 = 8191;

/// The CPUs of a text such as `0-3,8`.
pub(crate) fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let refused = || format!("'{text}' is not a list of CPUs");
    let mut cpus = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu <= CPU_MAX);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(refused());
        };
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A text such as `0-3,8`; `none` without CPUs.
pub(crate) fn list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let words = parts.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(",")
    }
}

/// `CPU 3` or `CPUs 0-3`.
pub(crate) fn named(cpus: &[u32]) -> String {
    let word = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{word} {}", list(cpus))
}

/// How far two CPUs are apart, by what the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    /// One CPU.
    Same,
    /// Hyper-threads of a core.
    Core,
    /// Two cores with a common third-level cache.
    Cache,
    /// One socket, without a common third-level cache.
    Socket,
    /// Two sockets.
    Far,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Same => "the same CPU",
            Self::Core => "one core",
            Self::Cache => "shared L3",
            Self::Socket => "one socket, no shared L3",
            Self::Far => "two sockets",
        })
    }
}

/// The CPUs that this process may run on.
pub(crate) fn allowed(seen: &Snapshot) -> Result<Vec<u32>, String> {
    parse_list(&seen.field("/proc/self/status", "Cpus_allowed_list")?)
}

/// The hyper-threads of the core of `cpu`, with itself.
pub(crate) fn siblings(seen: &Snapshot, cpu: u32) -> Result<Vec<u32>, String> {
    parse_list(&seen.read(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"))?)
}

/// The CPUs that share the third-level cache of `cpu`, with itself.
fn sharing(seen: &Snapshot, cpu: u32) -> Result<Vec<u32>, String> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    for index in seen.names(&folder) {
        if seen.read(&format!("{folder}/{index}/level")).as_deref() == Ok("3") {
            return parse_list(&seen.read(&format!("{folder}/{index}/shared_cpu_list"))?);
        }
    }
    Err(format!("{folder}: no third-level cache is shown"))
}

fn socket(seen: &Snapshot, cpu: u32) -> Result<String, String> {
    seen.read(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"))
}

/// How far two CPUs are apart.
pub(crate) fn distance(seen: &Snapshot, a: u32, b: u32) -> Result<Distance, String> {
    if a == b {
        return Ok(Distance::Same);
    }
    if siblings(seen, a)?.contains(&b) {
        return Ok(Distance::Core);
    }
    if sharing(seen, a)?.contains(&b) {
        return Ok(Distance::Cache);
    }
    if socket(seen, a)? == socket(seen, b)? {
        return Ok(Distance::Socket);
    }
    Ok(Distance::Far)
}

/// `cpus` in groups that share a third-level cache.
pub(crate) fn cache_groups(seen: &Snapshot, cpus: &[u32]) -> Result<Vec<Vec<u32>>, String> {
    let mut left = cpus.to_vec();
    let mut groups = Vec::new();
    while let Some(&first) = left.first() {
        let near = sharing(seen, first)?;
        let (group, rest): (Vec<u32>, Vec<u32>) = left
            .into_iter()
            .partition(|cpu| *cpu == first || near.contains(cpu));
        groups.push(group);
        left = rest;
    }
    Ok(groups)
}

/// The governor of each of `cpus` that is not `performance`.
pub(crate) fn slow_governors(seen: &Snapshot, cpus: &[u32]) -> Result<Vec<(u32, String)>, String> {
    let mut slow = Vec::new();
    for &cpu in cpus {
        if !seen.has(&format!("{CPUS}/cpu{cpu}/cpufreq")) {
            let machines = "as in most virtual machines";
            return Err(format!("cpu{cpu}/cpufreq is missing, {machines}"));
        }
        let governor = seen.read(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor"))?;
        if governor != "performance" {
            slow.push((cpu, governor));
        }
    }
    Ok(slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_and_nonsense_is_refused() {
        assert_eq!(parse_list("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("").unwrap(), [0_u32; 0]);
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(list(&[]), "none");
        assert_eq!(named(&[4]), "CPU 4");
        for bad in ["x", "1-", "0-99999999", "-1", "1-2-3"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
    }
}
