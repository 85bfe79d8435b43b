//! The keys that only journals have.

use crate::uri::key::{Schemes, given, keys, on, word, yes_or_no};
use crate::uri::{Compression, Pace, Rotation, Scheme, SyncPolicy, Unfinished};

/// The rule of a setting that only a journal has.
pub(in crate::uri) const JOURNAL_RULE: &str =
    "only a journal has it; use file://, or another value";

const JOURNAL: Schemes = Schemes {
    has: &[Scheme::File],
    refusals: &[("this scheme", JOURNAL_RULE)],
    listed: false,
};

keys! { KEYS {
    /// What a message recorded in a `file://` journal survives.
    sync(config, policy: SyncPolicy) {
        value: "POLICY", schemes: JOURNAL, end: Publisher,
        default: "block", rule: "block, never, or interval:DURATION such as interval:1s",
        read: word, put: config.remote.sync = Some(policy),
        show: |config| given(&config.remote.sync),
    }

    /// When the recording of a `file://` journal continues in its next file.
    rotate(config, when: Rotation) {
        value: "LIMIT", schemes: JOURNAL, end: Publisher,
        default: "never",
        rule: "never, a size from 4KiB such as 1GiB, a duration such as 1h, or both as 1GiB,1h",
        read: word, put: config.remote.rotate = Some(when),
        show: |config| given(&config.remote.rotate),
    }

    /// Compression of a `file://` journal.
    compress(config, how: Compression) {
        value: "METHOD", schemes: JOURNAL, end: Publisher,
        default: "no", rule: "no, zstd, or zstd:LEVEL with a level from 1 to 19",
        read: word, put: config.remote.compress = Some(how),
        show: |config| given(&config.remote.compress),
    }

    /// Whether a subscriber of a `file://` journal waits for the next recorder at its end.
    ///
    /// In both cases it follows a living recorder until that recorder closes the journal.
    follow(config, on: bool) {
        value: "CHOICE", schemes: JOURNAL, end: Subscriber,
        default: "no", rule: "one of yes, no",
        read: yes_or_no, put: config.remote.follow = on,
        show: |config| on(config.remote.follow),
    }

    /// How fast a `file://` journal is replayed.
    pace(config, pace: Pace) {
        value: "SPEED", schemes: JOURNAL, end: Subscriber,
        default: "full", rule: "full, original, or a factor such as 2x or 0.5x",
        read: word, put: config.remote.pace = Some(pace),
        show: |config| given(&config.remote.pace),
    }

    /// How a subscriber of a `file://` journal reads an unfinished recording.
    unfinished(config, unfinished: Unfinished) {
        value: "CHOICE", schemes: JOURNAL, end: Subscriber,
        default: "fail", rule: "fail or accept",
        read: word, put: config.remote.unfinished = Some(unfinished),
        show: |config| given(&config.remote.unfinished),
    }
} }
