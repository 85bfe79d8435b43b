//! The state of a participant's process, as far as the system shows it.

use crate::channel::attached::Attached;
use crate::channel::backing::Backing;
use crate::segment::CONTROL;
use core::fmt;
use rustix::fs::AtFlags;

/// Whether a participant's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// It runs or sleeps.
    Running,
    /// It is stopped, by a signal or a debugger. It loses nothing and keeps its place.
    Stopped,
    /// It is dead, in another PID namespace, or not visible to this user.
    Unknown,
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        })
    }
}

impl ProcessState {
    /// The state of process `pid`, if it has mapped this channel.
    ///
    /// The id is from the process's PID namespace: in ours it may be that of an unrelated process.
    /// So the mappings are checked.
    pub(super) fn of(attached: &Attached, pid: u64) -> Self {
        Self::find(attached, pid).unwrap_or(Self::Unknown)
    }

    fn find(attached: &Attached, pid: u64) -> Option<Self> {
        let Backing::Files(folder) = &attached.backing else {
            return None;
        };
        let control = rustix::fs::statat(folder, CONTROL, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let inode = control.st_ino.to_string();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let is_it = maps
            .lines()
            .any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        is_it.then(|| Self::read(&stat))
    }

    /// From a line of `/proc/PID/stat`: number, name in parentheses, and a letter.
    fn read(stat: &str) -> Self {
        let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        match behind_name.and_then(|rest| rest.chars().next()) {
            Some('T' | 't') => Self::Stopped,
            Some('R' | 'S' | 'D' | 'I' | 'P' | 'K' | 'W') => Self::Running,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_state_is_read_after_any_process_name() {
        let cases = [
            ("1 (reader) S 0 1", ProcessState::Running),
            ("1 (a) T (b) R 0 1", ProcessState::Running),
            ("1 (reader) T 0 1", ProcessState::Stopped),
            ("1 (reader) t 0 1", ProcessState::Stopped),
            ("1 (reader) Z 0 1", ProcessState::Unknown),
            ("1 (reader)", ProcessState::Unknown),
            ("", ProcessState::Unknown),
        ];
        for (line, expected) in cases {
            assert_eq!(ProcessState::read(line), expected, "{line}");
        }
    }
}
