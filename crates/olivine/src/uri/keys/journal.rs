//! The keys that only journals have.

use crate::uri::key::{Schemes, given, keys, on, word, yes_or_no};
use crate::uri::{Compression, FileSettings, Pace, Rotation, Scheme, SyncPolicy, Unfinished};

/// The rule of a setting that only a journal has.
pub(in crate::uri) const JOURNAL_RULE: &str =
    "only a journal has it; use file://, or another value";

const JOURNAL: Schemes = Schemes {
    has: &[Scheme::File],
    refusals: &[("this scheme", JOURNAL_RULE)],
};

keys! { KEYS {
    /// When a message in a `file://` journal is forced to the disk, and so what it survives.
    ///
    /// `block`: before it counts as recorded. `interval:`: at most that much later. `never`: when
    /// the kernel does so. [What survives what](journal.md#what-survives-what).
    sync(file: FileSettings, policy: SyncPolicy) in FileSettings {
        getter: get_sync -> Option<SyncPolicy> = file.sync,
        value: "POLICY", schemes: JOURNAL, end: Publisher,
        default: "block", rule: "block, never, or interval:DURATION such as interval:1s",
        read: word, put: file.sync = Some(policy),
        show: given(&file.sync),
    }

    /// When the recording of a `file://` journal continues in its next file.
    ///
    /// With a size: before the block that would make the file longer. A block is never split, and
    /// no file ends while a sync runs, so a file may be longer than the size.
    rotate(file: FileSettings, when: Rotation) in FileSettings {
        getter: get_rotate -> Option<Rotation> = file.rotate,
        value: "LIMIT", schemes: JOURNAL, end: Publisher,
        default: "never",
        rule: "never, a size from 4KiB such as 1GiB, a duration such as 1h, or both as 1GiB,1h",
        read: word, put: file.rotate = Some(when),
        show: given(&file.rotate),
    }

    /// Compression of a `file://` journal.
    compress(file: FileSettings, how: Compression) in FileSettings {
        getter: get_compress -> Option<Compression> = file.compress,
        value: "METHOD", schemes: JOURNAL, end: Publisher,
        default: "no", rule: "no, zstd, or zstd:LEVEL with a level from 1 to 19",
        read: word, put: file.compress = Some(how),
        show: given(&file.compress),
    }

    /// Whether a subscriber of a `file://` journal waits for the next recorder at its end.
    ///
    /// In both cases it follows a living recorder until that recorder closes the journal.
    follow(file: FileSettings, on: bool) in FileSettings {
        getter: get_follow -> bool = file.follow,
        value: "CHOICE", schemes: JOURNAL, end: Subscriber,
        default: "no", rule: "one of yes, no",
        read: yes_or_no, put: file.follow = on,
        show: on(file.follow),
    }

    /// How fast a `file://` journal is replayed.
    ///
    /// `original` keeps the times of the recording, counted from the first message of this replay.
    /// A replay that had to wait for room catches up without pauses. Messages that were recorded
    /// together come together.
    pace(file: FileSettings, pace: Pace) in FileSettings {
        getter: get_pace -> Option<Pace> = file.pace,
        value: "SPEED", schemes: JOURNAL, end: Subscriber,
        default: "full", rule: "full, original, or a factor such as 2x or 0.5x",
        read: word, put: file.pace = Some(pace),
        show: given(&file.pace),
    }

    /// How a subscriber of a `file://` journal reads a recording that is not finished or has holes.
    ///
    /// `fail` returns an error at its end, at a hole, and once where a `name=` had not read files
    /// that were removed. `accept` reads it like a complete one.
    unfinished(file: FileSettings, unfinished: Unfinished) in FileSettings {
        getter: get_unfinished -> Option<Unfinished> = file.unfinished,
        value: "CHOICE", schemes: JOURNAL, end: Subscriber,
        default: "fail", rule: "fail or accept",
        read: word, put: file.unfinished = Some(unfinished),
        show: given(&file.unfinished),
    }
} }
