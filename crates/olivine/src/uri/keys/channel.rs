//! The keys of a channel in this machine's memory, and of its ends.

use super::EVERYWHERE;
use crate::uri::key::{
    Schemes, changed, given, is_path, is_power, is_within, keys, path, whole, word,
};
use crate::uri::parse::is_name;
use crate::uri::topic::TopicFilter;
use crate::uri::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use crate::uri::{
    CAPACITY_RANGE, Config, Delivery, Expire, HugePages, NAME_LENGTH_MAX, PUBLISHERS_LIMIT,
    SUBSCRIBERS_LIMIT, Scheme, Slow, Start, WaitStrategy,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

const NO_FILES: (&str, &str) = (
    "inproc://",
    "a channel inside one process has no files; use shm://",
);

const WITH_FOLDER: Schemes = Schemes {
    has: &[Scheme::Shm, Scheme::Tcp, Scheme::Nats, Scheme::File],
    refusals: &[
        NO_FILES,
        (
            "shm+fd://",
            "a sealed channel has no folder: the socket's path stands in the URI",
        ),
    ],
};

const WITH_FILES: Schemes = Schemes {
    has: &[
        Scheme::Shm,
        Scheme::Sealed,
        Scheme::Tcp,
        Scheme::Nats,
        Scheme::File,
    ],
    refusals: &[NO_FILES],
};

const WITH_GROUP: Schemes = Schemes {
    has: &[Scheme::Shm, Scheme::Sealed, Scheme::Tcp, Scheme::Nats],
    refusals: &[
        NO_FILES,
        (
            "file://",
            "the group of a journal's files is the recording process's; give their mode=, and \
             change the group outside",
        ),
    ],
};

const WITH_NAMES: Schemes = Schemes {
    has: &[Scheme::Shm, Scheme::Tcp, Scheme::Nats, Scheme::File],
    refusals: &[
        (
            "inproc://",
            "nothing outlives the process; use shm:// for a durable subscriber",
        ),
        (
            "shm+fd://",
            "a sealed channel keeps no place for absent subscribers; use shm:// for a durable one",
        ),
    ],
};

keys! { KEYS {
    /// Bytes of one publisher's ring (*channel*).
    ///
    /// The longest message is `capacity` less `align` and 8 bytes; a topic shortens it by its
    /// length and 1 byte. `message_max` of the publisher says it.
    ///
    /// Larger rings absorb longer bursts before back-pressure, and stream faster up to a few times
    /// the second-level cache. Rings larger than the last cache cost cache misses, and a full ring
    /// adds queueing delay.
    ///
    /// If space is scarce, the default below is at most a sixteenth of the free space, but at least
    /// 64 KiB.
    capacity(config: Config, bytes: u64) in Config {
        getter: get_capacity -> Option<u64> = config.capacity,
        value: "BYTES", schemes: EVERYWHERE, end: Both,
        default: "the smallest power of two from 1MiB to 4MiB that is at least twice the \
                  second-level cache",
        rule: "a power of two from 4KiB to 2GiB, such as 64KiB or 1MiB",
        read: parse_bytes, put: config.capacity = Some(bytes),
        show: config.capacity.map(show_bytes),
        holds: is_power(config.capacity, CAPACITY_RANGE),
    }

    /// Bytes to which frames are padded (*channel*).
    ///
    /// With 64 each frame begins on a cache line: lowest latency, more memory. A message of 32 B
    /// takes 64 bytes then, and 40 by default.
    align(config: Config, bytes: u64) in Config {
        getter: get_align -> Option<u64> = config.align,
        value: "BYTES", schemes: EVERYWHERE, end: Both,
        default: "8", rule: "a power of two from 8 to 4096",
        read: parse_bytes, put: config.align = Some(bytes),
        show: given(&config.align),
        holds: is_power(config.align, (8, 4096)),
    }

    /// How this endpoint waits: `spin` keeps looking, `yield` gives the CPU away between looks,
    /// `park` sleeps in the kernel, `adaptive` spins for about 50 µs, then sleeps.
    ///
    /// In each wait, a subscriber with `park` looks 32 times before each of its first 20 sleeps. It
    /// looks for 25 µs before the first one while that finds messages.
    wait(config: Config, strategy: WaitStrategy) in Config {
        getter: get_wait -> WaitStrategy = config.wait,
        value: "STRATEGY", schemes: EVERYWHERE, end: Both,
        default: "adaptive", rule: "one of spin, yield, park, adaptive",
        read: word, put: config.wait = strategy,
        show: changed(&config.wait),
    }

    /// Whether publishers wait for this subscriber.
    ///
    /// They wait for a `reliable` one. They do not wait for a `latest` one: when they need room,
    /// they overwrite what it has not read. It gets each message, in order, that no publisher was
    /// free to overwrite before. Without a reliable subscriber a publisher may overwrite up to an
    /// eighth of the ring beyond its last message; with some, all that each of them has read.
    /// Otherwise the next call returns `Overrun`, after which the subscriber continues in that
    /// publisher's lane with the next message that is published there. `lost_bytes` counts what it
    /// skipped. Messages that were skipped are not counted, only bytes. So where the publisher
    /// pauses or closes after an overrun, its newest message is among those that were skipped: a
    /// program that needs it opens the channel again with `from=oldest`, and takes the last one.
    ///
    /// A `latest` subscriber cannot have a `name`. Over `tcp://` `latest` is for a program that is
    /// slow: a slow or broken link holds the publisher back with either kind, until `slow=evict:`
    /// of the publisher or, for a broken link, `expire=` ends that.
    delivery(config: Config, delivery: Delivery) in Config {
        getter: get_delivery -> Delivery = config.delivery,
        value: "KIND", schemes: EVERYWHERE, end: Subscriber,
        default: "reliable", rule: "one of reliable, latest",
        read: word, put: config.delivery = delivery,
        show: changed(&config.delivery),
    }

    /// The first message that a new subscriber gets.
    ///
    /// `now` is the next message of each publisher's lane that is there, and the first one of each
    /// lane that comes later. `oldest` is the oldest message that its publisher is not yet free to
    /// overwrite. Once no reliable subscriber has been there for a lap, that is most of a ring.
    /// With reliable subscribers that keep up it is anything from the last message to a whole ring:
    /// a publisher frees what all of them have read only when it reaches its limit, about once a
    /// lap.
    ///
    /// Over `tcp://` to a publisher that listens, and over `nats://`, this counts from the
    /// connection: what was sent before it is missed. Opening may return before it: `link_status`
    /// says when it is there. Give `oldest` to get that, or `subscribers=` to the publisher. A
    /// `tcp://` publisher that connects delivers what no subscriber has acknowledged, to the
    /// first one all that it sent since it was opened, whatever `from=` says.
    ///
    /// In a journal, `oldest` is its first message, and `now` the next one to be recorded after
    /// opening, so nothing of a finished journal. `time:DATE` is the first message that was
    /// recorded then or later; DATE is in UTC, from 1970 on, and may have a fraction of a second. A
    /// DATE behind the last message of a finished journal is its end at once, without an error.
    /// `position:BYTES` is the first message whose journal position is BYTES or more. The journal
    /// position of a message is the number of bytes of all frames that were recorded before it; the
    /// rows of `olivine journal export` have it as `journal_position`. No handle returns it for a
    /// message: positions of messages and of publishers count rings.
    from(config: Config, start: Start) in Config {
        getter: get_from -> Start = config.from,
        value: "START", schemes: EVERYWHERE, end: Subscriber,
        default: "now; oldest for file://",
        rule: "one of now, oldest, or for file:// time:DATE such as \
               time:2026-01-31T08:30:00Z, or position:BYTES",
        read: word, put: config.from = start,
        show: {
            let default = Start::default_of(config.scheme);
            (config.from != default).then(|| config.from.to_string())
        },
    }

    /// Name under which a position or undelivered messages are kept across restarts.
    ///
    /// A subscriber with a name is durable. Its position survives a crash or a close, and keeps
    /// holding publishers back until the name is opened again, unsubscribed, or expires.
    ///
    /// A publisher to `tcp://`, `nats://` or `file://` keeps undelivered messages under this name,
    /// in shared memory of this machine. After a crash, the next program that opens the same URI
    /// and `dir` with this name delivers them. Without a name the messages are in memory of the
    /// process, and a kill loses those that were not acknowledged. Positions go on behind those of
    /// a killed program, so `cursor` after opening is the position behind its last message: a
    /// program that stores the position of each message it sent knows whether more were sent.
    /// After a `close` that delivered everything a `tcp://` listener begins at 0 in a new ring:
    /// `cursor` below the stored position means that.
    ///
    /// A program elsewhere with a name has a ring on its own machine, called `link.` and a hash.
    /// `olivine inspect`, `top` and `rm` find it by the URI with the name, such as
    /// `tcp://host:9000/ticks?name=NAME`; `inspect` of `file://` shows the journal. `ls`, `gc` and
    /// `inspect` of the ring show its URI, without a token. `rm` removes it with what was not
    /// delivered. `olivine gc` keeps it while the name may come back.
    name(config: Config, name: &str) in Config {
        getter: get_name -> Option<&str> = config.name.as_deref(),
        value: "NAME", schemes: WITH_NAMES, end: Both,
        default: "no name", rule: "1 to 48 of A-Z a-z 0-9 . _ -",
        read: Some, put: config.name = Some(name.to_owned()),
        show: config.name.clone(),
        holds: {
            let name = config.name.as_deref();
            name.is_none_or(|name| is_name(name, NAME_LENGTH_MAX))
        },
    }

    /// How long publishers keep messages for the `name` while no program uses it.
    ///
    /// Afterwards a publisher that needs room, or a subscriber that needs a slot, may take its
    /// place. The name still has its positions. When it is opened again, it gets what was not
    /// overwritten. If something was, its first call that receives returns `Evicted`, once; over
    /// `tcp://` it is `Failed`. If its slot was used again meanwhile, it is a new name: `Created`.
    /// A `tcp://` listener keeps the positions of the last 4,096 expired names while it runs. After
    /// its restart, a name whose own ring is gone, as after a reboot, is new: nothing reports what
    /// it missed.
    ///
    /// It needs a `name`, except over `tcp://` and `nats://`. Over `tcp://` it also sets how long
    /// an end without a name keeps its place after its connection broke: 30 s if not given, and at
    /// most 30 s. Over `nats://` without a name it sets when the server removes the consumer.
    expire(config: Config, expire: Expire) in Config {
        getter: get_expire -> Expire = config.expire,
        value: "DURATION", schemes: WITH_NAMES, end: Both,
        default: "never; over tcp:// and nats:// without a name 30 s",
        rule: "never, or a duration such as 30s",
        read: word, put: config.expire = expire,
        show: changed(&config.expire),
    }

    /// How many reliable subscribers must be attached before a publisher sends its first message.
    ///
    /// Opening does not wait, and later messages wait for none of them. An absent `name=` counts,
    /// `delivery=latest` does not. A `tcp://` publisher that listens (the default) counts the far
    /// sides that have connected, also if they have `delivery=latest`. One with `role=connect`
    /// counts its far side once that has been connected, and one of `file://` its bridge from the
    /// start: these two take 0 or 1 only. Over `nats://` `publish` does not wait: messages stay in
    /// the ring until the stream has COUNT consumers, and `link_status` says how many are there.
    subscribers(config: Config, count: u32) in Config {
        getter: get_subscribers -> u32 = config.subscribers,
        value: "COUNT", schemes: EVERYWHERE, end: Publisher,
        default: "0", rule: "a number from 0 to 1024",
        read: whole, put: config.subscribers = count,
        show: changed(&config.subscribers),
        holds: u64::from(config.subscribers) <= SUBSCRIBERS_LIMIT,
    }

    /// What happens to a slow subscriber (*channel*): `wait` lets publishers wait for it.
    /// `evict:DURATION` takes the place of every subscriber in the way, also of a new one, once a
    /// publisher has had no room for so long. A subscriber that does not read keeps its place while
    /// publishers have room.
    ///
    /// On a channel that may evict, subscribers copy each message out and check the copy. So an
    /// evicted subscriber never sees torn bytes, at the cost of a copy.
    slow(config: Config, slow: Slow) in Config {
        getter: get_slow -> Option<Slow> = config.slow,
        value: "POLICY", schemes: EVERYWHERE, end: Both,
        default: "wait",
        rule: "wait, or evict:DURATION with a duration above 0 such as evict:500ms",
        read: word, put: config.slow = Some(slow),
        show: given(&config.slow),
        holds: !matches!(config.slow, Some(Slow::Evict(after)) if after.is_zero()),
    }

    /// Most publishers at a time (*channel*).
    ///
    /// Rings are made as publishers come.
    publishers_max(config: Config, count: u32) in Config {
        getter: get_publishers_max -> Option<u32> = config.publishers_max,
        value: "COUNT", schemes: EVERYWHERE, end: Both,
        default: "16", rule: "a number from 1 to 256",
        read: whole, put: config.publishers_max = Some(count),
        show: given(&config.publishers_max),
        holds: is_within(config.publishers_max.map(u64::from), (1, PUBLISHERS_LIMIT)),
    }

    /// Most subscribers at a time (*channel*).
    ///
    /// Each costs 384 bytes, and 8 for each of `publishers_max`, rounded up to a multiple of 16.
    subscribers_max(config: Config, count: u32) in Config {
        getter: get_subscribers_max -> Option<u32> = config.subscribers_max,
        value: "COUNT", schemes: EVERYWHERE, end: Both,
        default: "64", rule: "a number from 1 to 1024",
        read: whole, put: config.subscribers_max = Some(count),
        show: given(&config.subscribers_max),
        holds: is_within(config.subscribers_max.map(u64::from), (1, SUBSCRIBERS_LIMIT)),
    }

    /// Folder of the channels.
    ///
    /// It is made if it is missing. Its parent is not made.
    dir(config: Config, folder: impl Into<PathBuf>) in Config {
        getter: get_dir -> Option<&Path> = config.dir.as_deref(),
        value: "PATH", schemes: WITH_FOLDER, end: Both,
        default: "$OLIVINE_DIR, else /dev/shm/olivine-UID",
        rule: "an absolute path without control characters, '&' or '?'",
        read: Some, put: config.dir = Some(folder.into()),
        show: path(&config.dir),
        holds: is_path(&config.dir),
    }

    /// Permission bits of the channel's files (*channel*).
    ///
    /// For `shm+fd://`: the bits of the socket. A channel that gives other users more rights is
    /// refused. Another user's channel can be used with `group` only.
    mode(config: Config, bits: u32) in Config {
        getter: get_mode -> Option<u32> = config.mode,
        value: "BITS", schemes: WITH_FILES, end: Both,
        default: "0600",
        rule: "octal permission bits from 0600 to 0666 that keep 0600, such as 0660",
        read: octal, put: config.mode = Some(bits),
        show: config.mode.map(|bits| format!("{bits:04o}")),
        holds: config.mode.is_none_or(|bits| bits & !0o666 == 0 && bits & 0o600 == 0o600),
    }

    /// Group that owns the channel's files (*channel*).
    ///
    /// It implies mode `0o660`. A channel of another group is refused. A channel of this group may
    /// belong to any member. Give every user the same `dir=`: the default folder belongs to one
    /// user.
    group(config: Config, name: &str) in Config {
        getter: get_group -> Option<&str> = config.group.as_deref(),
        value: "NAME", schemes: WITH_GROUP, end: Both,
        default: "the caller's", rule: "a group name of this machine",
        read: Some, put: config.group = Some(name.to_owned()),
        show: config.group.clone(),
        holds: config.group.as_deref().is_none_or(|name| is_name(name, 32)),
    }

    /// Large pages for the ring.
    ///
    /// The kernel shows whether a process got them: in `/proc/PID/smaps` the entries of the
    /// channel's `lane-N` count them under `ShmemPmdMapped`. `require` refuses to open if the
    /// kernel gives none.
    hugepages(config: Config, hugepages: HugePages) in Config {
        getter: get_hugepages -> HugePages = config.hugepages,
        value: "CHOICE", schemes: EVERYWHERE, end: Both,
        default: "no", rule: "one of no, try, require",
        read: word, put: config.hugepages = hugepages,
        show: changed(&config.hugepages),
    }

    /// NUMA node of the memory of a new ring.
    numa(config: Config, node: u32) in Config {
        getter: get_numa -> Option<u32> = config.numa,
        value: "NODE", schemes: EVERYWHERE, end: Publisher,
        default: "the kernel's choice", rule: "a node number from 0 to 63",
        read: whole, put: config.numa = Some(node),
        show: given(&config.numa),
        holds: is_within(config.numa, (0, 63)),
    }

    /// How long closing a publisher waits for reliable subscribers to read everything.
    ///
    /// Attached subscribers of `shm://`, `shm+fd://` and `inproc://` lose nothing, also if closing
    /// does not wait: the ring outlives the publisher. For other schemes 0 sets no bound: closing
    /// waits until the far side has everything. A `tcp://` publisher that listens waits for the far
    /// sides that have connected, to it or to an earlier program of its `name=`; before the first
    /// one closing does not wait. What a `name=` keeps then is delivered by the next program that
    /// opens the URI with this name, but not to a far side that has expired or was evicted. Closing
    /// gives up a `tcp://` or `nats://` far side that has been absent for `expire`, or 30 s if that
    /// is never, also if `linger` is longer. The time before closing counts: a far side that has
    /// been absent for so long gets one more attempt.
    /// On a full disk closing waits for ever unless `linger` is set.
    ///
    /// Over `tcp://` the far side also confirms the end of the stream. If the connection breaks
    /// before it does, closing waits for it to come back: twice `timeout=` plus 1 s, so 11 s by
    /// default, at least 2 s and at most `expire=`. A far side that is connected and does not
    /// answer adds one `timeout=`: 16 s in all. Then the end counts as received, and closing
    /// succeeds. A listening publisher without `name=` also waits for named subscribers that are
    /// away and have not received the end. `linger=` bounds all of that. `close_failed` waits as
    /// long for its reason. If that was not confirmed, it answers `Unacknowledged`.
    linger(config: Config, duration: Duration) in Config {
        getter: get_linger -> Duration = config.linger,
        value: "DURATION", schemes: EVERYWHERE, end: Publisher,
        default: "0: no wait for shm, shm+fd and inproc, no limit for others",
        rule: "a duration such as 500ms, 2s or 1m",
        read: parse_duration, put: config.linger = duration,
        show: (!config.linger.is_zero()).then(|| show_duration(config.linger)),
    }

    /// CPU to which opening pins the calling thread.
    cpu(config: Config, cpu: u32) in Config {
        getter: get_cpu -> Option<u32> = config.cpu,
        value: "N", schemes: EVERYWHERE, end: Both,
        default: "not pinned", rule: "a CPU number from 0 to 1023",
        read: whole, put: config.cpu = Some(cpu),
        show: given(&config.cpu),
        holds: is_within(config.cpu, (0, 1023)),
    }

    /// Topic of a publisher's messages, or filters of a subscriber.
    ///
    /// A publisher gives one topic, such as `orders.eu.created`. A message can be sent with another
    /// one. A subscriber gives filters, and receives each message that any of them
    /// matches. In a filter `*` matches any one word, and `>` at the end matches one or more words.
    ///
    /// A channel carries messages with and without a topic. A subscriber without `topic` gets every
    /// message, a subscriber with `topic` those that match. `>` matches every topic, and no message
    /// without one. A message carries its topic after the payload: the bytes of the topic and one
    /// more.
    topic(config: Config, topic: &str) in Config {
        getter: get_topic -> Option<&str> = config.topic.as_deref(),
        value: "TOPIC", schemes: EVERYWHERE, end: Both,
        default: "a publisher's messages have no topic, a subscriber gets every message",
        rule: "words of A-Z a-z 0-9 _ - joined by dots, such as orders.eu.created, 128 \
               bytes at most; for subscribers also filters with * for a word and > for the rest, \
               16 at most, separated by commas",
        read: Some, put: config.topic = Some(topic.to_owned()),
        show: config.topic.clone(),
        holds: config.topic.as_deref().is_none_or(|topic| TopicFilter::read(topic).is_some()),
    }
} }

/// Reads permission bits: octal digits.
fn octal(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| u32::from_str_radix(text, 8).ok())?
}
