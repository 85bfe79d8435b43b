//! Processes of participants, as `/proc` shows them.

use crate::terminal::write_escaped;
use olivine::LaneState;
use olivine::admin::ChannelInfo;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;

/// Most bytes read of a file of a process.
const FILE_MAX: u64 = 1 << 20;
/// Longest shown command in bytes.
const COMMAND_MAX: usize = 64;

/// The living participants of a channel: role and process number, in the process's own PID
/// namespace.
pub(crate) fn participants(info: &ChannelInfo) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let publishers = info
        .publishers
        .iter()
        .filter(|publisher| publisher.state == LaneState::Open)
        .map(|publisher| ("publisher", publisher.pid));
    let subscribers = info
        .subscribers
        .iter()
        .filter(|subscriber| subscriber.alive)
        .map(|subscriber| ("subscriber", subscriber.pid));
    publishers.chain(subscribers)
}

/// Whether a process's list of mappings has the file with this inode. A process number in shared
/// memory may be that of an unrelated process here, so only a process that has mapped the control
/// file is taken for the participant.
pub(crate) fn has_mapped(maps: &str, inode: u64) -> bool {
    let inode = inode.to_string();
    maps.lines()
        .any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode))
}

/// The inodes of all files that process `id` has mapped; none if this user may not know.
pub(crate) fn mapped(id: u64) -> HashSet<u64> {
    let maps = maps(id).unwrap_or_default();
    let inode = |line: &str| line.split_ascii_whitespace().nth(4)?.parse().ok();
    // 0 is memory without a file.
    maps.lines()
        .filter_map(inode)
        .filter(|inode| *inode != 0)
        .collect()
}

/// What one process does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The letter of its state: `R`, `S`, `T` and so on.
    pub(crate) state: char,
    /// Time on CPUs of all its threads, in ticks of 10 ms.
    pub(crate) ticks: u64,
    /// When it started, in ticks since the system's start: tells processes of one number apart.
    pub(crate) started: u64,
    /// CPU of its first thread.
    pub(crate) cpu: Option<u32>,
}

impl Stat {
    /// Of process `id`; `None` if it is not visible.
    pub(crate) fn of(id: u64) -> Option<Self> {
        Self::parse(&read(id, "stat")?)
    }

    /// From a line of `/proc/PID/stat`: number, name in parentheses, and then fields. The name may
    /// hold any byte.
    fn parse(line: &[u8]) -> Option<Self> {
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
        // Counted from the state, which `proc(5)` numbers 3.
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            ticks: number(14)?.saturating_add(number(15)?),
            started: number(22)?,
            cpu: number(39).and_then(|cpu| cpu.try_into().ok()),
        })
    }

    /// Whether a signal or a debugger stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

/// The list of mappings of process `id`; `None` if this user may not read it.
pub(crate) fn maps(id: u64) -> Option<String> {
    Some(String::from_utf8_lossy(&read(id, "maps")?).into_owned())
}

/// The program of process `id` and the name of its first argument, if that is a word or a file:
/// `olivine sub`, `python3 feed.py`. Never a URI or an option, which may hold a secret.
pub(crate) fn command(id: u64) -> Option<String> {
    let line = read(id, "cmdline")?;
    match shown(&line) {
        command if command.is_empty() => {
            let name = read(id, "comm")?;
            Some(text(name.strip_suffix(b"\n").unwrap_or(&name)))
        }
        command => Some(command),
    }
}

fn shown(line: &[u8]) -> String {
    let mut words = line.split(|byte| *byte == 0);
    let file = |word: &[u8]| {
        let name = word.rsplit(|byte| *byte == b'/').next();
        text(name.unwrap_or_default())
    };
    let program = file(words.next().unwrap_or_default());
    let is_plain = |word: &&[u8]| {
        let refused = |byte: &u8| matches!(byte, b':' | b'=' | b'@' | b'?' | b' ');
        !word.is_empty() && !word.starts_with(b"-") && !word.iter().any(refused)
    };
    match words.next().filter(is_plain) {
        Some(word) => format!("{program} {}", file(word)),
        None => program,
    }
}

/// Text of another program, escaped and of a bounded length.
fn text(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write_escaped(&mut out, bytes.get(..COMMAND_MAX).unwrap_or(bytes));
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a program of this name is in a folder of `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn read(id: u64, file: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(512);
    let opened = File::open(format!("/proc/{id}/{file}")).ok()?;
    opened.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let fields = "S 1 2 3 0 -1 4194304 90 0 0 0 21 12 0 0 20 0 1 0 777 9 8 7 6 5 4 3 2 1 0 0 \
                      0 0 0 0 17 1 0 0";
        let expected = Stat {
            state: 'S',
            ticks: 33,
            started: 777,
            cpu: Some(1),
        };
        for name in [&b"reader"[..], b"a) R (b", b"\xff\x1b[2J"] {
            let line = [&b"7 ("[..], name, b") ", fields.as_bytes()].concat();
            assert_eq!(Stat::parse(&line), Some(expected.clone()), "{name:?}");
        }
        for line in ["", "7 (x", "7 (x) ", "7 (x) S 1 2", "7 (x) S a b c"] {
            assert_eq!(Stat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn command_shows_no_uri_no_option_and_no_control_character() {
        let cases: [(&[u8], &str); 7] = [
            (b"/usr/bin/olivine\0sub\0shm://x\0", "olivine sub"),
            (b"python3\0/home/me/feed.py\0--key\0", "python3 feed.py"),
            (b"relay\0tcp://h:1/x?token=abc\0", "relay"),
            (b"relay\0--token=abc\0", "relay"),
            (b"relay\0token=abc\0", "relay"),
            (b"a\x1b[2J\xff\0b\nc\0", "a\\x1b[2J\\xff b\\nc"),
            (b"", ""),
        ];
        for (line, expected) in cases {
            assert_eq!(shown(line), expected);
        }
        assert!(shown(&[b'x'; 4096]).len() <= COMMAND_MAX);
    }

    #[test]
    fn own_process_is_visible() {
        let id = u64::from(std::process::id());
        let stat = Stat::of(id).unwrap();
        assert!(!stat.is_stopped() && stat.started > 0);
        assert!(command(id).is_some_and(|command| command.starts_with("olivine")));
        let maps = maps(id).unwrap();
        assert!(!has_mapped(&maps, u64::MAX));
        let files = mapped(id);
        assert!(!files.is_empty() && files.iter().all(|inode| has_mapped(&maps, *inode)));
        assert!(mapped(u64::MAX).is_empty());
        assert_eq!(Stat::of(u64::MAX), None);
    }
}
