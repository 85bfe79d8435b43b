//! Channel URIs and the settings they carry. Depends on nothing else in the crate.
//!
//! `scheme://[host:port/]channel[?key=value&…]`; see [`remote`] for what stands before the `?`. The keys, the builder methods of [`Config`], the tool's flags and the
//! bindings' options are the same words with the same units, ranges and defaults. The grammar is strict: no
//! escapes, no repeated keys, nothing ignored.

#[cfg(any(test, fuzzing))]
pub(crate) mod claims;
mod journal;
pub(crate) mod nats;
mod parse;
pub(crate) mod remote;
mod sealed;
mod start;
pub(crate) mod topic;
mod values;

pub use journal::{Compression, Pace, Rotation, SyncPolicy, Unfinished};
pub(crate) use parse::TOPIC_OF_PUBLISHER_RULE;
pub use sealed::Peers;
pub use start::Start;
pub use values::{
    Delivery, Expire, HugePages, Retention, Role, Scheme, Slow, Storage, WaitStrategy,
};

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Smallest and largest ring in bytes.
pub(crate) const CAPACITY_RANGE: (u64, u64) = (4096, 1 << 31);
/// Most publishers a channel can be created for.
pub(crate) const PUBLISHERS_LIMIT: u64 = 256;
/// Most subscribers a channel can be created for.
pub(crate) const SUBSCRIBERS_LIMIT: u64 = 1024;
/// How long the place of somebody without a name is kept after its connection broke, and how long closing waits for a
/// far side that is away, unless the settings say otherwise.
pub(crate) const EXPIRE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest durable name in bytes.
pub(crate) const NAME_LENGTH_MAX: usize = 48;

/// Why a URI or a setting was refused. Nothing was opened or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// There is no `scheme://` at the start.
    #[error(
        "'{uri}' is no channel URI: expected shm://NAME, shm+fd:///SOCKET, inproc://NAME, tcp://HOST:PORT/NAME, nats://HOST/NAME or file:///PATH"
    )]
    NoScheme {
        /// The text given.
        uri: String,
    },
    /// The scheme is not one of ours.
    #[error(
        "unknown scheme '{scheme}': expected shm:// (processes of this machine), shm+fd:// (those that do not trust each other), inproc:// (threads of this process), tcp:// (other machines), nats:// (a cluster) or file:// (a journal)"
    )]
    UnknownScheme {
        /// The scheme given.
        scheme: String,
    },
    /// The channel name breaks the grammar.
    #[error(
        "channel name '{name}' is not usable: 1 to 64 of A-Z a-z 0-9 . _ -, and not '.' or '..' or starting with '.'"
    )]
    Name {
        /// The name given, control bytes escaped.
        name: String,
    },
    /// Host and port break the grammar.
    #[error(
        "address '{address}' is not usable: {rule}; expected HOST:PORT, such as example.org:9000 or [::1]:9000"
    )]
    Address {
        /// The address given, control bytes escaped.
        address: String,
        /// What is wrong.
        rule: &'static str,
    },
    /// The path of a `file://` channel breaks the grammar.
    #[error(
        "path '{path}' is not usable: expected file:// and an absolute path of a file, without control characters, '&' or '?'"
    )]
    Path {
        /// The path given, control bytes escaped.
        path: String,
    },
    /// The path of a `shm+fd://` channel breaks the grammar.
    #[error(
        "socket '{path}' is not usable: expected shm+fd:// and an absolute path of 1 to 90 bytes, without control characters, '&' or '?'"
    )]
    Socket {
        /// The path given, control bytes escaped.
        path: String,
    },
    /// The key is not one of ours.
    #[error(
        "unknown key '{key}' in the URI: {hint}the documentation of Config and 'olivine pub --help' list the keys"
    )]
    UnknownKey {
        /// The key given.
        key: String,
        /// The key that was probably meant, in words; empty if none is like it.
        hint: String,
        /// All keys, comma separated.
        known: String,
    },
    /// A key is given twice.
    #[error("key '{key}' is given twice: keep one")]
    Repeated {
        /// The key.
        key: String,
    },
    /// A value does not parse or is out of range.
    #[error("{key}={value} is not usable: {rule}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value given, control bytes escaped.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// Two settings exclude each other.
    #[error("{first} and {second} cannot be combined: {rule}")]
    Pair {
        /// One setting.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why, and what to do.
        rule: &'static str,
    },
}

/// Where a channel is and how it behaves: a parsed URI that can also be changed setting by setting.
///
/// Setters take and return the value and never fail; [`Config::validate`] checks, and opening does so first.
/// Settings that shape the channel (marked *channel*) are fixed by the first publisher. A subscriber that comes first
/// fixes only what it names. Naming one that differs from a live channel's is an error; leaving it out accepts what is
/// there.
///
/// ```
/// use olivine::{Config, WaitStrategy};
/// let config = Config::parse("shm://ticks?capacity=4MiB")?.wait(WaitStrategy::Park).subscribers(2);
/// assert_eq!(config.uri(), "shm://ticks?capacity=4MiB&wait=park&subscribers=2");
/// assert!(Config::parse("shm://ticks?capacity=1000").is_err());
/// # Ok::<(), olivine::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a config does nothing until it is opened"]
pub struct Config {
    pub(crate) scheme: Scheme,
    pub(crate) channel: String,
    pub(crate) capacity: Option<u64>,
    /// Least capacity where none is named: what a bridge brings must fit.
    pub(crate) capacity_least: u64,
    pub(crate) align: Option<u64>,
    pub(crate) wait: WaitStrategy,
    pub(crate) delivery: Delivery,
    pub(crate) from: Start,
    pub(crate) name: Option<String>,
    pub(crate) expire: Expire,
    pub(crate) subscribers: u32,
    pub(crate) slow: Option<Slow>,
    pub(crate) publishers_max: Option<u32>,
    pub(crate) subscribers_max: Option<u32>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) mode: Option<u32>,
    pub(crate) group: Option<String>,
    pub(crate) hugepages: HugePages,
    pub(crate) numa: Option<u32>,
    pub(crate) linger: Duration,
    pub(crate) cpu: Option<u32>,
    pub(crate) topic: Option<String>,
    pub(crate) origin: u64,
    pub(crate) remote: Box<remote::Remote>,
}

impl Config {
    /// Default settings for a channel of this scheme and name. `tcp://` and `nats://` also need
    /// [`Config::address`], `file://` and `shm+fd://` need [`Config::path`].
    pub fn new(scheme: Scheme, channel: &str) -> Self {
        Self {
            scheme,
            channel: channel.to_owned(),
            capacity: None,
            capacity_least: 0,
            align: None,
            wait: WaitStrategy::default(),
            delivery: Delivery::default(),
            from: Start::default_of(scheme),
            name: None,
            expire: Expire::default(),
            subscribers: 0,
            slow: None,
            publishers_max: None,
            subscribers_max: None,
            dir: None,
            mode: None,
            group: None,
            hugepages: HugePages::default(),
            numa: None,
            linger: Duration::ZERO,
            cpu: None,
            topic: None,
            origin: 0,
            remote: Box::default(),
        }
    }

    /// Reads a URI.
    ///
    /// # Errors
    ///
    /// [`UriError`] naming the part, its value and what is allowed.
    pub fn parse(uri: &str) -> Result<Self, UriError> {
        parse::config(uri, [])
    }

    /// As [`Config::parse`], with settings by key and value as a URI has them: for programs, other languages and
    /// files that hold settings as text.
    ///
    /// ```
    /// use olivine::Config;
    /// let config = Config::parse_with("shm://ticks?wait=park", [("capacity", "4MiB")])?;
    /// assert_eq!(config, Config::parse("shm://ticks?wait=park&capacity=4MiB")?);
    /// assert!(Config::parse_with("shm://ticks?wait=park", [("wait", "spin")]).is_err());
    /// # Ok::<(), olivine::UriError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`UriError`] naming the part, its value and what is allowed; `Repeated` where the URI has the key already.
    pub fn parse_with<'a>(
        uri: &'a str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, UriError> {
        parse::config(uri, settings)
    }

    /// Bytes of one publisher's ring (*channel*): a power of two from 4 KiB to 2 GiB.
    ///
    /// Default: the smallest power of two that is at least twice this machine's second-level cache and at least 1 MiB, at
    /// most 4 MiB; where space is scarce, at most a sixteenth of what is free, but at least 64 KiB.
    ///
    /// Larger rings absorb longer bursts before back-pressure; beyond the caches they cost misses, and a full
    /// ring is queueing delay.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Bytes to which frames are padded (*channel*): a power of two from 8 to 4096. Default 8.
    ///
    /// 64 gives each small message a cache line of its own: lowest latency, more memory per message.
    pub fn align(mut self, bytes: u64) -> Self {
        self.align = Some(bytes);
        self
    }

    /// How this endpoint waits. Default [`WaitStrategy::Adaptive`].
    pub fn wait(mut self, strategy: WaitStrategy) -> Self {
        self.wait = strategy;
        self
    }

    /// Whether this subscriber holds publishers back. Default [`Delivery::Reliable`].
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Where a new subscriber starts. Default [`Start::Now`]; [`Start::Oldest`] for `file://`.
    pub fn from(mut self, start: Start) -> Self {
        self.from = start;
        self
    }

    /// Makes the subscriber durable under this name: 1 to 48 of `A-Za-z0-9._-`. Default: not durable.
    ///
    /// Its position outlives a crash or a close and keeps holding publishers back until it is opened again,
    /// unsubscribed, or expires.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How long an absent durable subscriber keeps its place. Default [`Expire::Never`].
    ///
    /// Over `tcp://` it also says how long a subscriber without a name, whose connection broke, keeps its place:
    /// 30 s unless given, and at most: a longer time needs a `name`, without one it is taken for 30 s.
    pub fn expire(mut self, expire: Expire) -> Self {
        self.expire = expire;
        self
    }

    /// Reliable subscribers a publisher waits for before its first message: 0 to 1024. Default 0.
    pub fn subscribers(mut self, count: u32) -> Self {
        self.subscribers = count;
        self
    }

    /// What happens to a subscriber that does not keep up (*channel*). Default [`Slow::Wait`].
    ///
    /// On a channel that may evict, subscribers copy each message out and check the copy, so that an evicted
    /// one never sees torn bytes; that costs a copy.
    pub fn slow(mut self, slow: Slow) -> Self {
        self.slow = Some(slow);
        self
    }

    /// Publishers at a time (*channel*): 1 to 256. Default 16. Rings are made as publishers come.
    pub fn publishers_max(mut self, count: u32) -> Self {
        self.publishers_max = Some(count);
        self
    }

    /// Subscribers at a time (*channel*): 1 to 1024. Default 64. Each costs 384 bytes plus 8 per publisher.
    pub fn subscribers_max(mut self, count: u32) -> Self {
        self.subscribers_max = Some(count);
        self
    }

    /// Folder of the channels. Default `$OLIVINE_DIR`, else `/dev/shm/olivine-UID`.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.dir = Some(path.into());
        self
    }

    /// Permission bits of the channel's files (*channel*), such as `0o660`. Default `0o600`. Of `shm+fd://` those of
    /// the socket. A channel that gives other users more rights is refused. Another user's channel is used with
    /// [`Config::group`] only.
    pub fn mode(mut self, bits: u32) -> Self {
        self.mode = Some(bits);
        self
    }

    /// Group that owns the channel's files (*channel*); implies mode `0o660`. Default: the caller's. A channel of
    /// another group is refused; a channel of this group is used from any member.
    pub fn group(mut self, name: &str) -> Self {
        self.group = Some(name.to_owned());
        self
    }

    /// Large pages for the ring. Default [`HugePages::No`].
    ///
    /// Whether a process got them is said by the kernel: in `/proc/PID/smaps` the entries of the channel's `lane-N`
    /// count them under `ShmemPmdMapped`. [`HugePages::Require`] refuses to open where they are not to be had.
    pub fn hugepages(mut self, hugepages: HugePages) -> Self {
        self.hugepages = hugepages;
        self
    }

    /// NUMA node whose memory a newly made ring takes: 0 to 63. Default: the kernel's choice.
    pub fn numa(mut self, node: u32) -> Self {
        self.numa = Some(node);
        self
    }

    /// How long closing a publisher waits for reliable subscribers to read everything. Default 0.
    ///
    /// Attached subscribers of `shm://` and `inproc://` lose nothing either way: the ring outlives the publisher.
    /// Elsewhere 0 means no bound: closing waits until the far side has taken everything, or is given up.
    pub fn linger(mut self, duration: Duration) -> Self {
        self.linger = duration;
        self
    }

    /// CPU to which opening pins the calling thread. Default: not pinned.
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// What messages are about. Default: a publisher's messages have no topic, a subscriber gets every message.
    ///
    /// A publisher gives one topic, 1 to 128 bytes: words of `A-Za-z0-9_-` joined by dots, such as
    /// `orders.eu.created`; a
    /// message can be given another one ([`crate::Outgoing::topic`]). A subscriber gives up to 16
    /// filters separated by commas, in which
    /// `*` stands for any one word and `>` at the end for one or more, and receives what any of them matches.
    ///
    /// A channel carries messages with and without a topic. A subscriber without `topic` gets every
    /// message, with `topic` those that match. `>` matches every topic, and no message without one.
    /// A message carries its topic behind the payload: that many bytes and one more.
    pub fn topic(mut self, topic: &str) -> Self {
        self.topic = Some(topic.to_owned());
        self
    }

    /// Position at which every lane of a new channel starts. For tests of counters near their limits.
    #[doc(hidden)]
    pub fn origin(mut self, position: u64) -> Self {
        self.origin = position;
        self
    }

    /// Where the channel lives.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// The folder named by `dir`, if one is.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// How long closing a `tcp://` or `nats://` channel waits for a far side that is away and has not got everything:
    /// [`Config::expire`], or 30 s where that is never. Others wait for nobody who is away.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match self.expire {
            Expire::After(after) => after,
            Expire::Never => EXPIRE_DEFAULT,
        }
    }

    /// The canonical URI: settings that differ from their defaults, in a fixed order. A token is not shown.
    #[must_use]
    pub fn uri(&self) -> String {
        let mut uri = format!("{}://{}", self.scheme, remote::show(self));
        let mut mark = '?';
        let mut add = |key: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = write!(uri, "{mark}{key}={value}");
            mark = '&';
        };
        for key in parse::KEYS {
            if let Some(value) = parse::show(self, key) {
                add(key, value);
            }
        }
        uri
    }

    /// Checks every setting and their combinations. Opening does this first.
    ///
    /// # Errors
    ///
    /// [`UriError`] naming the setting, its value and the rule.
    pub fn validate(&self) -> Result<(), UriError> {
        parse::validate(self)
    }
}

impl FromStr for Config {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}
