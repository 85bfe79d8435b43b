//! Channels whose files were removed while processes use them. Their folder no longer shows them,
//! but the processes' mappings do. Who only watches has mapped them read-only.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that every participant of a channel maps.
const CONTROL: &str = "control";
/// The kernel's suffix for the path of a removed file.
const REMOVED: &str = " (deleted)";

/// A channel without files, and the processes that use it. Those of other users are invisible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unlinked {
    pub(super) name: String,
    pub(super) processes: Vec<u32>,
}

impl Unlinked {
    /// The cause, and the remedy.
    pub(super) fn line(&self) -> String {
        let ids: Vec<String> = self.processes.iter().map(u32::to_string).collect();
        format!(
            "unlinked     {}: its files were removed while used by process {};\n             \
             programs that open it now get a new channel: start these again\n",
            self.name,
            ids.join(", "),
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({ "name": self.name, "process_ids": self.processes })
    }
}

/// The channels of `folder` without files that a process still uses, by name.
pub(super) fn find(folder: &Path) -> Vec<Unlinked> {
    let folder = absolute(folder);
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else {
            continue;
        };
        // The process ended, or belongs to another user.
        let Ok(maps) = fs::read(entry.path().join("maps")) else {
            continue;
        };
        for name in names(&String::from_utf8_lossy(&maps), &folder) {
            let processes = found.entry(name).or_default();
            if processes.last() != Some(&process) {
                processes.push(process);
            }
        }
    }
    let found = found.into_iter().map(|(name, mut processes)| {
        processes.sort_unstable();
        Unlinked { name, processes }
    });
    found.collect()
}

/// The kernel's path of a folder, which may be removed, too.
fn absolute(folder: &Path) -> PathBuf {
    let known = fs::canonicalize(folder).or_else(|_| std::path::absolute(folder));
    known.unwrap_or_else(|_| folder.to_path_buf())
}

/// Names of the channels of `folder` whose removed control file is in a process's list of mappings
/// and writable: a participant writes there, and `top`, `serve` or `metrics` do not.
fn names(maps: &str, folder: &Path) -> Vec<String> {
    let of_line = |line: &str| {
        let mode = line.split_ascii_whitespace().nth(1)?;
        if !mode.contains('w') {
            return None;
        }
        let path = Path::new(&line[line.find('/')?..]).to_str()?;
        let path = Path::new(path.strip_suffix(REMOVED)?);
        let channel = path.parent()?;
        let is_ours = path.file_name()? == CONTROL && channel.parent()? == folder;
        Some(
            channel
                .file_name()?
                .to_str()
                .filter(|_| is_ours)?
                .to_owned(),
        )
    };
    maps.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_control_files_are_found_in_mappings() {
        let maps = "\
7f00-7f01 rw-s 00000000 00:19 17 /dev/shm/olivine-0/ticks/control (deleted)
7f01-7f02 rw-s 00000000 00:19 18 /dev/shm/olivine-0/ticks/lane-0 (deleted)
7f02-7f03 rw-s 00000000 00:19 19 /dev/shm/olivine-0/live/control
7f03-7f04 rw-s 00000000 00:19 20 /dev/shm/other/x/control (deleted)
7f04-7f05 rw-p 00000000 00:00 0
7f05-7f06 rw-p 00000000 00:00 0 [stack]
7f06-7f07 r--s 00000000 00:19 21 /dev/shm/olivine-0/watched/control (deleted)
";
        let found = names(maps, Path::new("/dev/shm/olivine-0"));
        assert_eq!(found, ["ticks"]);
    }
}
