//! A short name for each kind of error, with what it means and what to do.
//!
//! Names do not change. `olivine explain ID` prints them; errors of the tool end with theirs.

use super::{
    Damage, JournalError, LinkError, MessageTypeError, NotSent, OpenError, ReceiveError,
    SealedError,
};
use crate::uri::UriError;

/// What an error means, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Its name, such as `open.missing`.
    pub id: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Gives each variant of an error type a name, and makes the table of these names. A variant with
/// an error inside has the name of that error.
macro_rules! ids {
    (
        $table:ident, $error:ty, $family:literal $(, inside $($inner:ident)*)?;
        $($variant:ident $id:literal $meaning:literal, $remedy:literal;)*
    ) => {
        impl $error {
            /// The name of this kind of error, such as `open.missing`. It does not change.
            /// [`explanations`](crate::explanations) say what it means.
            #[must_use]
            pub fn id(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => concat!($family, ".", $id),)*
                    $($(Self::$inner(inner) => inner.id(),)*)?
                }
            }
        }

        pub(crate) const $table: &[$crate::error::ids::Explanation] = &[
            $($crate::error::ids::Explanation {
                id: concat!($family, ".", $id),
                meaning: $meaning,
                remedy: $remedy,
            },)*
        ];
    };
}
pub(crate) use ids;

ids! {
    SEND, NotSent, "send";
    BackPressured "back-pressured"
        "the ring is full: a reliable subscriber has not read far enough",
        "call again or wait; find it with 'olivine top', and continue or end it; or use a larger \
         'capacity=' or 'slow=evict:TIME'";
    NotConnected "not-connected"
        "fewer reliable subscribers are attached than 'subscribers=' requires",
        "start them, or use a smaller number";
    Unacknowledged "unacknowledged"
        "closing waited as long as it may, and the far side has not acknowledged everything",
        "with a 'name=' the next program of that name delivers the rest, but not to a far side \
         that has expired or was evicted; to wait longer, use a longer 'linger=', or state a \
         longer 'expire='";
    Closed "closed" "this publisher was closed", "open the channel again";
    TooLong "too-long"
        "the message is longer than any that the ring takes",
        "use a larger 'capacity=', or split the message";
    Topic "topic"
        "the topic is not words of letters, digits, '_' and '-' joined by dots, or is too long",
        "use such a topic of at most 128 bytes";
    Forked "forked"
        "the handle was made before a fork, and this is the child",
        "open the channel again in the child";
    LinkFailed "link-failed"
        "the far side cannot be reached any more",
        "ask the handle for the failure of its link: it has another id; open the channel again";
}

ids! {
    LINK, LinkError, "link", inside Journal Sealed;
    Io "io" "the system refused an operation", "see the reason behind it";
    Version "version"
        "the two sides speak different versions of the protocol",
        "run matching versions";
    Protocol "protocol"
        "the other side does not speak the protocol of tcp://",
        "check host and port: another program may listen there";
    Refused "refused" "the other side refused", "see its reason: often the token or the name";
    Settings "settings"
        "a setting of the two sides does not agree",
        "use the same value on both sides";
    Loop "loop"
        "a bridge would carry messages back into the channel that they come from",
        "name another channel";
    Tls "tls" "TLS failed", "check 'tls_ca=', 'tls_cert=' and the name of the host";
    Lost "lost"
        "the other side no longer has messages from the position at which this side stopped",
        "open the channel again to continue without them";
    Damaged "damaged" "what was received or stored is damaged", "see the reason behind it";
    Ring "ring" "the ring of this side could not be opened", "see the reason behind it";
    Receive "receive" "the ring of this side could not be read", "see the reason behind it";
    Upstream "upstream"
        "what feeds a lane failed: a publisher, a bridge or a replay",
        "see the reason behind it; receiving again goes on with what follows, and so does \
         'olivine sub' if it is started again; behind a recording that failed it goes on at once";
    FarFailed "far-failed"
        "what feeds the channel on the other side failed",
        "see the reason behind it, on the other side";
    Bridge "bridge" "a bridge of another crate failed", "see the reason behind it";
    Panicked "panicked"
        "the thread of a bridge panicked",
        "report what it printed: this is a defect";
}

ids! {
    RECEIVE, ReceiveError, "receive", inside Failed;
    Closed "closed"
        "the stream has ended: every publisher has closed and everything was read",
        "nothing: this is the orderly end";
    Overrun "overrun"
        "a publisher overwrote messages before this subscriber with 'delivery=latest' read them",
        "call again: it continues with newer messages; read faster or use a larger 'capacity=' to \
         lose less, or 'delivery=reliable' to lose nothing";
    Evicted "evicted"
        "the subscriber lost its place: it was in the way of a publisher that had no room for too \
         long, or was absent for too long",
        "open it again; read faster, or use a longer 'slow=evict:TIME' or 'expire='";
    Corrupt "corrupt"
        "a lane holds words that no publisher of this version writes",
        "stop the users of the channel, remove it with 'olivine rm', and start them again";
    Forked "forked"
        "the handle was made before a fork, and this is the child",
        "open the channel again in the child";
    Lane "lane" "a lane could not be mapped", "see the reason behind it; the call may be repeated";
}

ids! {
    OPEN, OpenError, "open", inside Uri Link;
    Io "io" "the system refused an operation", "see the reason behind it";
    Folder "folder"
        "the folder of the channels is none, or has another owner, group or mode than is safe",
        "use your own folder with 'dir=' or $OLIVINE_DIR, or give it the right owner and mode";
    NotAChannel "not-a-channel"
        "a file is not a channel's",
        "use another folder, or remove the file if no other program needs it";
    EarlierBoot "earlier-boot"
        "the channel was made before the system was started last",
        "remove it with 'olivine rm': its messages may be torn";
    Layout "layout"
        "the channel was made by a version with another layout",
        "run the matching version, or stop its users and remove it";
    Mismatch "mismatch"
        "the channel has another value of a setting that its first publisher fixed",
        "use that value, or remove the channel when it is not in use";
    Type "type" "the channel carries another type", "use the channel's type, or another channel";
    PublishersFull "publishers-full"
        "every lane has a publisher or is kept for a bridge",
        "close one, or make the channel with a larger 'publishers_max='";
    SubscribersFull "subscribers-full"
        "every slot has a subscriber, or is kept for an absent name",
        "close a subscriber, remove an absent name with 'olivine rm CHANNEL --name NAME', or make \
         the channel with a larger 'subscribers_max='";
    NameInUse "name-in-use"
        "a durable subscriber of this name is open",
        "close it there, or use another 'name='";
    SourceInUse "source-in-use"
        "another bridge publishes from the same source",
        "stop it, or give this one another name";
    NoSpace "no-space"
        "there is not enough shared memory",
        "remove channels with 'olivine gc', use a smaller 'capacity=', or enlarge /dev/shm";
    Busy "busy"
        "another process has been opening or closing the channel for long: it is stopped or stuck",
        "continue it with 'kill -CONT', or end it";
    Restless "restless"
        "other programs make and remove the channel again and again",
        "try again";
    Missing "missing"
        "there is no such channel in this folder",
        "check its name with 'olivine ls' and its folder with 'dir='; opening it makes it";
    Cpu "cpu" "the CPU of 'cpu=' is not allowed to this process", "use a CPU that is";
    Numa "numa"
        "the memory cannot be put on the NUMA node of 'numa='",
        "use a node that the error names, or leave it out";
    Group "group"
        "the files cannot be given to the group of 'group='",
        "name a group that this user is in";
    NoBridge "no-bridge"
        "this build does not have the bridge of this scheme",
        "build with the feature that the error names";
    HugePages "hugepages"
        "'hugepages=require' cannot be met",
        "see the reason behind it, or use 'hugepages=try'";
}

ids! {
    DAMAGE, Damage, "damage";
    Frame "frame"
        "a frame has a length that is not possible",
        "stop the users of the channel, remove it, and start them again";
    Lead "lead"
        "more bytes wait to be read than the ring holds",
        "stop the users of the channel, remove it, and start them again";
    Limit "limit"
        "a publisher may write further ahead than the ring is long",
        "stop the users of the channel, remove it, and start them again";
    Topic "topic"
        "a message is marked as one with a topic and does not end with it",
        "find the publisher that wrote it: it does not use this library";
    Value "value"
        "a message has another length than each value of the channel's type",
        "find the publisher that wrote it: it publishes bytes, not values";
}

ids! {
    JOURNAL, JournalError, "journal";
    Io "io" "the system refused an operation", "see the reason behind it";
    NoSpace "no-space"
        "the disk is full, or the file may not grow",
        "free space, or raise the limit on file sizes; recording continues then";
    Missing "missing" "there is no such journal", "check the path";
    NoChannel "no-channel"
        "the journal has no messages of the channel that was asked for",
        "choose one of its channels: the error lists them, and so does 'olivine journal info'";
    NoPosition "no-position"
        "the journal ends before the position that was asked for",
        "start at or before its end, or wait for more with 'follow=yes'";
    Exists "exists"
        "the file of a new journal is there already",
        "name another file: nothing is overwritten";
    InUse "in-use"
        "another recorder records into the journal",
        "stop that one, or record into another file";
    NotAJournal "not-a-journal" "the file is not a journal's", "check the path";
    Version "version"
        "the journal was written by a version with another format",
        "use the matching version";
    Damaged "damaged"
        "bytes are damaged, and whole blocks follow",
        "use what is before, which 'olivine journal cut' copies; from=position: with the number in \
         the error reads on behind it";
    Unfinished "unfinished"
        "the recording was not finished: its recorder was killed, works on, or the file was cut",
        "record into it again, which mends its end, or accept it with 'unfinished=accept'";
    Failed "failed"
        "the recorder of the journal failed, or its publisher did",
        "see its reason; record into it again, or accept this end with 'unfinished=accept'";
    Hole "hole"
        "messages between two recorded ones were never recorded",
        "continue behind them with 'unfinished=accept'; a durable recorder leaves no holes";
    Removed "removed"
        "the oldest files were removed before a replay that had begun came to them",
        "replay it again: it goes on with what is left. Remove files later, or replay sooner";
    NoZstd "no-zstd"
        "the journal is compressed, and this build cannot read that",
        "build with the feature 'zstd'";
    Frames "frames"
        "the bytes to record are not whole frames",
        "hand over frames as a ring has them";
    Value "value" "a description or setting cannot be stored", "use a value that the error allows";
    Unsynced "unsynced"
        "the disk refused blocks earlier, so the recorder records nothing more",
        "check the disk, and open the journal again: it keeps what is whole";
    Forked "forked"
        "the recorder was made before a fork, and this is the child",
        "open the journal again in the child";
}

ids! {
    SEALED, SealedError, "sealed";
    Io "io" "the system refused an operation", "see the reason behind it";
    NoPublisher "no-publisher"
        "no publisher serves the socket",
        "start it, or wait longer with 'timeout='";
    InUse "in-use"
        "another publisher serves the socket: a sealed channel has one",
        "close it, or use another socket";
    Group "group"
        "the socket cannot be given to the group of 'group='",
        "name a group that this user is in";
    NotASocket "not-a-socket"
        "something else has the path of the socket",
        "remove it, or use another path";
    Peer "peer"
        "the user or process at the other end is not allowed by 'peers='",
        "allow it with 'peers=', or find out who it is";
    Refused "refused" "the publisher refuses this subscriber", "see its reason";
    NoAnswer "no-answer"
        "what serves the socket gives no answer: it is stopped or busy",
        "continue it, or wait longer with 'timeout='";
    Protocol "protocol"
        "what serves the socket is not an Olivine publisher",
        "check the path of the socket";
    Memory "memory"
        "the memory that was handed out cannot be trusted",
        "do not use this publisher: it is another version, or hostile";
    Expelled "expelled"
        "the publisher expelled this subscriber",
        "see its reason, and open the channel again";
    Died "died"
        "the publisher died",
        "open the channel again when another one serves it";
}

ids! {
    URI, UriError, "uri";
    NoScheme "no-scheme"
        "the text is not a URI of a channel",
        "write shm://NAME, or one of the other schemes";
    UnknownScheme "unknown-scheme"
        "there is no such scheme",
        "use one of those that the error lists";
    Name "name"
        "the name of the channel has other characters, or is too long",
        "use 1 to 64 of A-Z a-z 0-9 . _ - that do not start with a dot";
    NoName "no-name"
        "the URI ends before the name of its channel",
        "write it behind the address: tcp://HOST:PORT/NAME, nats://HOST/NAME, or shm://NAME";
    Address "address" "the address is not HOST:PORT", "write example.org:9000 or [::1]:9000";
    Path "path" "the path of a journal is not absolute", "write file:// and an absolute path";
    Socket "socket"
        "the path of a socket is not absolute, or is too long",
        "write shm+fd:// and an absolute path of at most 90 bytes";
    UnknownKey "unknown-key"
        "the URI has a key that does not exist",
        "see docs/uri.md or 'olivine pub --help'";
    Repeated "repeated" "a key is given twice", "keep one";
    Value "value" "the value of a key is not usable", "use a value that the error allows";
    Misplaced "misplaced"
        "channels of this scheme do not have the key",
        "drop it, or use a scheme that docs/uri.md lists for it";
    Pair "pair" "two settings cannot be combined", "leave one of them out";
}

ids! {
    TYPE, MessageTypeError, "type";
    Name "name"
        "the name of a type is empty or too long",
        "choose one of 1 to 64 bytes";
    Align "align"
        "values of the type need an alignment that messages do not have",
        "use a type whose alignment is 1, 2, 4 or 8 bytes";
    Size "size"
        "the size of a type is 0, or not a multiple of its alignment",
        "state the size that the compiler gives, with the padding at the end";
    Field "field"
        "a field of the type is not understood, or ends behind the value",
        "write NAME KIND, with @OFFSET where the field begins elsewhere than in C";
}

/// The tables of this module, in groups.
pub(crate) const TABLES: [&[Explanation]; 9] = [
    URI, OPEN, SEND, RECEIVE, DAMAGE, LINK, JOURNAL, SEALED, TYPE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn names_are_unique_words_in_a_family() {
        let mut seen = BTreeSet::new();
        for entry in TABLES.into_iter().flatten() {
            assert!(seen.insert(entry.id), "{} twice", entry.id);
            let (family, word) = entry.id.split_once('.').unwrap();
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(plain(family) && plain(word), "{}", entry.id);
            assert!(!entry.meaning.is_empty() && !entry.remedy.is_empty());
        }
        assert!(seen.len() > 70, "{}", seen.len());
    }

    /// A value that no key has was recommended.
    #[test]
    fn settings_in_explanations_are_accepted() {
        let places = [
            "shm://x",
            "tcp://localhost:1/x",
            "nats://localhost:1/x",
            "file:///x",
        ];
        let mut count = 0;
        for entry in TABLES.into_iter().flatten() {
            let texts = [entry.meaning, entry.remedy];
            let quoted = texts
                .iter()
                .flat_map(|text| text.split('\'').skip(1).step_by(2));
            let is_setting = |text: &&str| text.contains('=') && !text.contains([' ', '$']);
            for setting in quoted.filter(is_setting) {
                let (key, value) = setting.split_once('=').unwrap();
                if key.is_empty() || value.is_empty() {
                    continue;
                }
                count += 1;
                let setting = setting.replace("TIME", "1s");
                let mut uris = places.iter().map(|place| format!("{place}?{setting}"));
                let is_accepted = uris.any(|uri| crate::Config::parse(&uri).is_ok());
                assert!(is_accepted, "{} names '{setting}'", entry.id);
            }
        }
        assert!(count >= 4, "{count} settings");
    }

    // The models have no message types.
    #[cfg(not(loom))]
    #[test]
    fn type_that_no_channel_carries_has_a_name() {
        let type_of = |name, size, align| crate::MessageType::new(name, size, align);
        assert_eq!(type_of("", 8, 8).unwrap_err().id(), "type.name");
        assert_eq!(type_of("a", 16, 16).unwrap_err().id(), "type.align");
        assert_eq!(type_of("a", 12, 8).unwrap_err().id(), "type.size");
    }

    #[test]
    fn error_with_a_cause_inside_has_the_name_of_the_cause() {
        let cause = JournalError::Forked;
        let link = LinkError::Journal(Arc::new(cause));
        assert_eq!(OpenError::Link(link.clone()).id(), "journal.forked");
        assert_eq!(ReceiveError::Failed(link).id(), "journal.forked");
        assert_eq!(NotSent::TooLong { max: 3 }.id(), "send.too-long");
    }
}
