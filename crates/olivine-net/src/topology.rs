//! Which CPUs this process may use, and how they group into physical cores and L3 caches.
//!
//! Two hyper-threads of one core share its execution units, so a second event loop there takes
//! time from the first. [`Topology`] therefore counts *physical cores* and names one CPU of each:
//! the lowest CPU that the affinity mask (and with it the cpuset of a container) allows.
//!
//! On Linux the facts come from sysfs; the folder can be given, so that tests use made-up machines.
//! Without sysfs, each allowed CPU counts as a separate core.

use std::{fs, io, path::Path};

use crate::sys;

/// The physical cores this process may use.
///
/// ```
/// use olivine_net::Topology;
///
/// let topology = Topology::detect().expect("every process may run somewhere");
/// assert!(!topology.cores().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Core>,
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The CPU to run on: the lowest-numbered allowed hyper-thread of this core.
    pub cpu: usize,
    /// The other allowed hyper-threads of this core, ascending; a loop there would share the core.
    pub siblings: Vec<usize>,
    /// Cores with the same number share a last-level cache; counted from 0 without gaps.
    pub l3_group: usize,
    /// The socket, as the kernel numbers it; 0 where it is unknown.
    pub package: usize,
}

/// Why the cores could not be found, or requested CPUs cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The kernel did not report where this process may run.
    #[error("cannot read the CPU affinity of this process")]
    Affinity(#[source] io::Error),
    /// A CPU was named that does not exist or that the affinity mask or cpuset excludes.
    #[error("CPU {cpu} cannot be used: this process may run on {allowed}")]
    NotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs allowed, as ranges.
        allowed: String,
    },
    /// More pinned threads were asked for than there are physical cores.
    #[error(
        "{threads} threads were asked for, but there are {cores} physical cores; \
         name the CPUs or turn pinning off"
    )]
    TooManyThreads {
        /// The threads asked for.
        threads: usize,
        /// The physical cores allowed.
        cores: usize,
    },
    /// A list of CPUs such as `0-3,8` could not be read.
    #[error("CPU list {text:?} is not of the form 0-3,8")]
    List {
        /// The text as given.
        text: String,
    },
}

impl Topology {
    /// Looks at this machine, within this thread's affinity mask.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Affinity`] if the kernel refuses to name the mask.
    pub fn detect() -> Result<Self, TopologyError> {
        let allowed = sys::allowed().map_err(TopologyError::Affinity)?;
        Ok(Self::from_sysfs(Path::new("/sys"), &allowed))
    }

    /// Reads the machine described under `root` (a folder shaped like `/sys`), keeping only the
    /// CPUs in `allowed` that are online.
    ///
    /// Files that are missing or unreadable cost precision, never an error: a CPU whose siblings
    /// are unknown counts as a separate core, and an unknown L3 is shared by the package.
    #[must_use]
    pub fn from_sysfs(root: &Path, allowed: &[usize]) -> Self {
        let cpus = root.join("devices/system/cpu");
        let online = read_list(&cpus.join("online"));
        let mut usable: Vec<usize> = allowed.to_vec();
        usable.sort_unstable();
        usable.dedup();
        if let Some(online) = online {
            usable.retain(|cpu| online.contains(cpu));
        }
        let mut cores: Vec<Core> = Vec::new();
        let mut groups: Vec<usize> = Vec::new();
        let mut taken: Vec<usize> = Vec::new();
        for &cpu in &usable {
            if taken.contains(&cpu) {
                continue;
            }
            let folder = cpus.join(format!("cpu{cpu}"));
            let threads = read_list(&folder.join("topology/core_cpus_list"))
                .or_else(|| read_list(&folder.join("topology/thread_siblings_list")))
                .unwrap_or_default();
            let siblings: Vec<usize> = threads
                .into_iter()
                .filter(|other| *other > cpu && usable.contains(other) && !taken.contains(other))
                .collect();
            taken.push(cpu);
            taken.extend(&siblings);
            let package = fs::read_to_string(folder.join("topology/physical_package_id"))
                .ok()
                .and_then(|text| text.trim().parse::<usize>().ok())
                .unwrap_or(0);
            // The first CPU of a cache names it; packages without a known L3 count from the far end
            // of the number line, so that the two kinds of name never meet.
            let name = l3_name(&folder).unwrap_or(usize::MAX - package);
            let l3_group = groups
                .iter()
                .position(|group| *group == name)
                .unwrap_or_else(|| {
                    groups.push(name);
                    groups.len() - 1
                });
            cores.push(Core {
                cpu,
                siblings,
                l3_group,
                package,
            });
        }
        Self { cores }
    }

    /// The physical cores, by ascending [`Core::cpu`].
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Every CPU this process may use, hyper-threads included, ascending.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self
            .cores
            .iter()
            .flat_map(|core| core.siblings.iter().copied().chain([core.cpu]))
            .collect();
        all.sort_unstable();
        all
    }

    /// Chooses a CPU for each of `threads` event loops: one per physical core, the cores of one L3
    /// before those of the next. `threads == 0` means every core.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TooManyThreads`] if there are fewer cores than threads.
    pub fn choose(&self, threads: usize) -> Result<Vec<usize>, TopologyError> {
        let cores = self.cores.len();
        if threads > cores {
            return Err(TopologyError::TooManyThreads { threads, cores });
        }
        let mut order: Vec<&Core> = self.cores.iter().collect();
        order.sort_by_key(|core| (core.l3_group, core.cpu));
        let count = if threads == 0 { cores } else { threads };
        Ok(order.into_iter().take(count).map(|core| core.cpu).collect())
    }

    /// Checks that each of `cpus` may be used.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NotAllowed`] for the first CPU that may not.
    pub fn check(&self, cpus: &[usize]) -> Result<(), TopologyError> {
        let allowed = self.cpus();
        match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(()),
            Some(&cpu) => Err(TopologyError::NotAllowed {
                cpu,
                allowed: format_cpu_list(&allowed),
            }),
        }
    }
}

/// Reads a list of CPUs as the kernel writes it: `0-3,8` is 0, 1, 2, 3 and 8.
///
/// The result is ascending and free of repeats; an empty text is an empty list. CPU numbers above
/// 65,535 are refused, so that a typing mistake cannot ask for gigabytes of list.
///
/// # Errors
///
/// [`TopologyError::List`] if the text has another form or a range runs backwards.
///
/// ```
/// assert_eq!(olivine_net::parse_cpu_list("0-2,5").unwrap(), [0, 1, 2, 5]);
/// assert!(olivine_net::parse_cpu_list("3-1").is_err());
/// ```
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>, TopologyError> {
    let wrong = || TopologyError::List {
        text: text.to_owned(),
    };
    let number = |digits: &str| -> Result<usize, TopologyError> {
        digits
            .trim()
            .parse::<u16>()
            .map(usize::from)
            .map_err(|_| wrong())
    };
    let mut cpus = Vec::new();
    for part in text
        .trim()
        .split(',')
        .filter(|part| !part.trim().is_empty())
    {
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(wrong());
                }
                cpus.extend(first..=last);
            }
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes an ascending list of CPUs as ranges: the reverse of [`parse_cpu_list`].
fn format_cpu_list(cpus: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let [first, ..] = rest {
        let run = rest
            .iter()
            .enumerate()
            .take_while(|(i, cpu)| **cpu == first + i)
            .count();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.to_string());
        if run > 1 {
            text.push('-');
            text.push_str(&(first + run - 1).to_string());
        }
        rest = &rest[run..];
    }
    text
}

fn read_list(path: &Path) -> Option<Vec<usize>> {
    parse_cpu_list(&fs::read_to_string(path).ok()?).ok()
}

/// The lowest CPU that shares the L3 of the CPU in `folder`.
fn l3_name(folder: &Path) -> Option<usize> {
    for entry in fs::read_dir(folder.join("cache")).ok()?.flatten() {
        let level = fs::read_to_string(entry.path().join("level")).unwrap_or_default();
        if level.trim() == "3" {
            return read_list(&entry.path().join("shared_cpu_list"))?
                .first()
                .copied();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a sysfs tree: for each CPU its core's CPUs, its package and its L3's CPUs.
    fn machine(online: &str, cpus: &[(&str, usize, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().join("devices/system/cpu");
        fs::create_dir_all(&base).unwrap();
        fs::write(base.join("online"), format!("{online}\n")).unwrap();
        for (cpu, (siblings, package, l3)) in cpus.iter().enumerate() {
            let folder = base.join(format!("cpu{cpu}"));
            fs::create_dir_all(folder.join("topology")).unwrap();
            fs::create_dir_all(folder.join("cache/index0")).unwrap();
            fs::create_dir_all(folder.join("cache/index3")).unwrap();
            fs::write(folder.join("topology/core_cpus_list"), siblings).unwrap();
            fs::write(
                folder.join("topology/physical_package_id"),
                package.to_string(),
            )
            .unwrap();
            fs::write(folder.join("cache/index0/level"), "1\n").unwrap();
            fs::write(folder.join("cache/index3/level"), "3\n").unwrap();
            fs::write(folder.join("cache/index3/shared_cpu_list"), l3).unwrap();
        }
        root
    }

    fn eight_threads() -> tempfile::TempDir {
        let pair = ["0,4", "1,5", "2,6", "3,7"];
        let l3 = |cpu: usize| if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
        let cpus: Vec<_> = (0..8)
            .map(|cpu| (pair[cpu % 4], usize::from(cpu % 4 > 1), l3(cpu)))
            .collect();
        machine("0-7", &cpus)
    }

    #[test]
    fn leaves_hyper_threads_out_and_groups_by_l3() {
        let root = eight_threads();
        let topology = Topology::from_sysfs(root.path(), &(0..8).collect::<Vec<_>>());
        let seen: Vec<_> = topology
            .cores()
            .iter()
            .map(|c| (c.cpu, c.siblings.clone(), c.l3_group, c.package))
            .collect();
        assert_eq!(
            seen,
            [
                (0, vec![4], 0, 0),
                (1, vec![5], 0, 0),
                (2, vec![6], 1, 1),
                (3, vec![7], 1, 1)
            ]
        );
        assert_eq!(topology.choose(0).unwrap(), [0, 1, 2, 3]);
        assert_eq!(topology.choose(3).unwrap(), [0, 1, 2]);
        assert!(matches!(
            topology.choose(5),
            Err(TopologyError::TooManyThreads {
                threads: 5,
                cores: 4
            })
        ));
    }

    #[test]
    fn respects_the_affinity_mask_and_offline_cpus() {
        let root = eight_threads();
        // Only hyper-threads of cores 1 and 3 are left: they represent their cores.
        let topology = Topology::from_sysfs(root.path(), &[5, 7, 3]);
        assert_eq!(topology.choose(0).unwrap(), [3, 5]);
        assert_eq!(topology.cores()[0].siblings, [7]);
        let cpus = vec![("0", 0, "0-1"), ("1", 0, "0-1"), ("2", 0, "2")];
        let root = machine("0,2", &cpus);
        assert_eq!(
            Topology::from_sysfs(root.path(), &[0, 1, 2, 9]).cpus(),
            [0, 2]
        );
    }

    #[test]
    fn machine_without_sysfs_has_one_core_per_allowed_cpu() {
        let topology = Topology::from_sysfs(Path::new("/nonexistent"), &[2, 1, 1]);
        assert_eq!(topology.choose(0).unwrap(), [1, 2]);
        assert_eq!(topology.cores()[0].l3_group, topology.cores()[1].l3_group);
    }

    #[test]
    fn forbidden_cpu_is_refused_with_the_allowed_ones() {
        let topology = Topology::from_sysfs(Path::new("/nonexistent"), &[0, 1, 2, 5]);
        assert!(topology.check(&[0, 5]).is_ok());
        let error = topology.check(&[1, 64]).unwrap_err().to_string();
        assert_eq!(
            error,
            "CPU 64 cannot be used: this process may run on 0-2,5"
        );
    }

    #[test]
    fn cpu_lists_round_trip_and_invalid_ones_are_refused() {
        for text in ["0", "0-3", "0-1,4-5", "1,3,5-9"] {
            assert_eq!(format_cpu_list(&parse_cpu_list(text).unwrap()), text);
        }
        assert!(parse_cpu_list(" \n").unwrap().is_empty());
        for text in ["a", "1-", "-1", "4-2", "0-99999999", "1;2"] {
            assert!(parse_cpu_list(text).is_err(), "{text:?} must be refused");
        }
    }
}
