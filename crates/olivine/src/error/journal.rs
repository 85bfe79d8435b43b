//! Why a journal could not be written or read.

use super::remedy;
use std::io;
use std::path::PathBuf;

/// Why a journal could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The operating system returned an error.
    #[error("cannot {action} {}{}", path.display(), remedy(source))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full, or the file may not grow. Earlier blocks stay whole. The call may be
    /// repeated once there is room.
    #[error(
        "no room to record {need_bytes} bytes in {}: free space there or raise the limit on file \
         sizes, then repeat",
        path.display()
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Bytes of the block that did not fit.
        need_bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such journal.
    #[error(
        "there is no journal {}: check the path, record it first, or wait for it with 'follow=yes'",
        path.display()
    )]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// It has messages, and none of the channel that was asked for.
    #[error(
        "{} has no messages of the channel '{channel}': choose one of its channels with \
         'channel=', or --of of the tool: {held}",
        path.display()
    )]
    NoChannel {
        /// The journal.
        path: PathBuf,
        /// The channel that was asked for.
        channel: String,
        /// Its channels, separated by commas.
        held: String,
    },
    /// It ends before the position that was asked for, and nothing records into it; or before the
    /// place of a name.
    #[error(
        "{} has no position {position}: it ends at position {end}; start at or before that, or \
         wait for what will be recorded with 'follow=yes'; a 'name=' that has read further begins \
         anew after 'olivine rm URI'",
        path.display()
    )]
    NoPosition {
        /// The journal.
        path: PathBuf,
        /// The position that was asked for.
        position: u64,
        /// Its end.
        end: u64,
    },
    /// It was to be a new journal, and there is a file of that name.
    #[error("{} is there already, and is not overwritten: name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another recorder records into it.
    #[error(
        "journal {} is being recorded into by another recorder: stop that one, or record into \
         another file",
        path.display()
    )]
    InUse {
        /// Its newest file.
        path: PathBuf,
    },
    /// The file is not a journal.
    #[error("{} is not a journal file: {problem}; name another path", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
    /// The journal was written by a build with another format.
    #[error(
        "{} has journal format {found}, this build speaks {expected}: use the matching version",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Version of this build.
        expected: u32,
    },
    /// The file is damaged here, and whole blocks follow. Nothing after this place is delivered
    /// until `skip_damage` is called, or the journal is read again from `next` on.
    #[error(
        "{} is damaged at byte {offset}: {problem}; {}",
        path.display(),
        goes_on(*offset, *next, *lost_bytes)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Start of its first damaged block, in bytes from the start of the file.
        offset: u64,
        /// What is wrong.
        problem: &'static str,
        /// Position in the journal of the next whole block; `None` if none was found.
        next: Option<u64>,
        /// Bytes of frames between the end of what was delivered and `next`, over all lanes. If
        /// `next` is `None`, up to the end of the file. `None` if they are unknown.
        lost_bytes: Option<u64>,
    },
    /// The recording is unfinished. Everything up to its last whole block was delivered.
    #[error(
        "the recording was not finished: {} has whole blocks up to byte {offset}, position \
         {position} of the journal, and {problem}; its recorder was killed, or the file was \
         cut: record into it again, which mends its end, or accept this end with \
         'unfinished=accept'",
        path.display()
    )]
    Unfinished {
        /// Its last file.
        path: PathBuf,
        /// End of the last whole block, in bytes from the start of the file.
        offset: u64,
        /// Bytes of frames that are recorded in whole blocks.
        position: u64,
        /// What follows the last whole block.
        problem: String,
    },
    /// The recorder failed, and wrote why. Everything that it had recorded was delivered.
    #[error(
        "the recording failed: {}; {} has what was recorded before, up to position {position} of \
         the journal: record into it again, which mends its end, or accept this end with \
         'unfinished=accept'",
        Self::given(reason),
        path.display()
    )]
    Failed {
        /// Its last file.
        path: PathBuf,
        /// Bytes of frames that are recorded.
        position: u64,
        /// Why, as its recorder wrote it; it may be empty.
        reason: String,
    },
    /// The recording has a hole: its recorder was stopped or evicted, and did not get messages that
    /// were published in the meantime. Everything before the hole was delivered.
    #[error(
        "messages are missing: {bytes} bytes from position {position} of lane {lane} of \
         '{channel}' on were never recorded in {}, at position {journal_position} of the journal; \
         its recorder was stopped or evicted there: read what follows with 'unfinished=accept'",
        path.display()
    )]
    Hole {
        /// The journal.
        path: PathBuf,
        /// The channel.
        channel: String,
        /// Its lane.
        lane: u32,
        /// The first missing byte of that lane.
        position: u64,
        /// Position in the journal between the messages before and behind the hole.
        journal_position: u64,
        /// Missing bytes.
        bytes: u64,
    },
    /// Its oldest files were removed after a replay had begun, and before it came to their
    /// messages. Everything before them was delivered.
    #[error(
        "messages are missing: {bytes} bytes of all channels from position {position} of {} on \
         were removed with its oldest files before they were replayed, and it begins at position \
         {start} now: replay it again to go on there",
        path.display()
    )]
    Removed {
        /// The journal.
        path: PathBuf,
        /// The first position that is missing.
        position: u64,
        /// Where the journal begins now.
        start: u64,
        /// Missing bytes of frames, those of channels that were not replayed included.
        bytes: u64,
    },
    /// The journal is compressed, and this build has no zstd.
    #[error(
        "{} needs zstd, which this build does not have: build with the cargo feature 'zstd'",
        path.display()
    )]
    NoZstd {
        /// The file.
        path: PathBuf,
    },
    /// The bytes to record are not a run of whole frames.
    #[error(
        "the bytes to record are not a run of whole frames: byte {offset} {problem}; nothing of \
         them was recorded"
    )]
    Frames {
        /// Bytes from the start of the run to the invalid frame.
        offset: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// A lane's description or a setting cannot be stored.
    #[error("{what} of {value} is not usable: {rule}")]
    Value {
        /// The name of the value.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// An earlier attempt to force blocks to the disk failed. Which of them are on the disk is
    /// unknown, so the recorder records nothing more.
    #[error(
        "the disk refused blocks of {} earlier, and what it holds of them is unknown: open the \
         journal again, which keeps what is whole",
        path.display()
    )]
    Unsynced {
        /// The file.
        path: PathBuf,
    },
    /// The recorder was opened before a `fork`, and this is the child.
    #[error("this recorder belongs to the parent process: open the journal again after fork")]
    Forked,
}

/// What is left around damage at `offset` of a file, and what to do.
fn goes_on(offset: u64, next: Option<u64>, lost_bytes: Option<u64>) -> String {
    let before = "everything before was delivered, and 'olivine journal cut' copies it";
    match next {
        Some(next) => {
            let lost = match lost_bytes {
                Some(bytes) => format!("{bytes} bytes of frames between are lost"),
                None => "what is between is lost".to_owned(),
            };
            format!(
                "{before}; read on behind it with 'from=position:{next}', or --from of the tool; \
                 {lost}"
            )
        }
        None if offset == 0 => {
            "no block of this file can be read, and no whole file is known behind it: restore it \
             from a copy, or record into another journal"
                .to_owned()
        }
        None => match lost_bytes {
            Some(bytes) => format!(
                "{before}; {bytes} bytes of frames behind it are lost, and no block is known that \
                 can be read behind them"
            ),
            None => format!("{before}; no whole block is known behind it"),
        },
    }
}

impl JournalError {
    /// The reason of a recorder that failed, or that there is none.
    #[must_use]
    pub fn given(reason: &str) -> &str {
        match reason.trim() {
            "" => "its recorder gave no reason",
            reason => reason,
        }
    }

    /// How many earlier recordings failed, and where and why the last of them did.
    #[must_use]
    pub fn earlier_failures(count: u64, last: &str) -> String {
        match count {
            1 => format!("1 earlier recording failed, {last}"),
            _ => format!("{count} earlier recordings failed, the last {last}"),
        }
    }
}
