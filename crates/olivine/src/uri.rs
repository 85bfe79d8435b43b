//! Channel URIs and their settings. Depends on nothing else in the crate.
//!
//! `scheme://[host:port/]channel[?key=value&…]`; [`remote`] describes the part before the `?`. Each
//! key is one row of a table in [`keys`]. The keys, the methods of [`Config`], the flags of the
//! tool and the options of the bindings have the same names, units, ranges and defaults. The
//! grammar is strict: no escapes, no repeated and no unknown keys. A key of the other end is
//! accepted and has no effect: both ends may use one URI.

mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
pub(crate) mod groups;
mod journal;
mod key;
mod keys;
#[cfg(test)]
mod page;
mod parse;
pub(crate) mod remote;
mod sealed;
mod start;
pub(crate) mod topic;
mod values;

pub use error::UriError;
pub use groups::{FileSettings, NatsSettings, SealedSettings, TcpSettings};
pub use journal::{Compression, Pace, Rotation, SyncPolicy, Unfinished};
pub(crate) use key::is_secret;
pub use key::{End, Key};
pub(crate) use parse::{BIND_RULE, TWO_FRAMES_RULE, holds_two_frames, is_channel_name};
pub use sealed::Peers;
pub use start::Start;
pub use topic::TopicFilter;
pub use values::{
    Delivery, Expire, HugePages, Retention, Role, Scheme, Slow, Storage, WaitStrategy,
};

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Smallest and largest ring in bytes.
pub(crate) const CAPACITY_RANGE: (u64, u64) = (4096, 1 << 31);
/// Most publishers a channel can be created for.
pub(crate) const PUBLISHERS_LIMIT: u64 = 256;
/// Most subscribers a channel can be created for.
pub(crate) const SUBSCRIBERS_LIMIT: u64 = 1024;
/// How long a subscriber without a name keeps its place after its connection broke. Also how long
/// closing waits for an absent far side, unless the settings set another time.
pub(crate) const EXPIRE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest durable name in bytes.
pub(crate) const NAME_LENGTH_MAX: usize = 48;

/// The place of a channel and its settings: a parsed URI, which methods can change.
///
/// Setters take and return the value and never fail. [`Config::validate`] checks, and opening does
/// so first. The first publisher fixes the settings that shape the channel (marked *channel*). A
/// subscriber that comes first fixes only what it names. If it names another value than a live
/// channel has, opening fails. If it names none, it accepts the channel's value.
///
/// A key `x` has a setter `x` and a getter `get_x`. What belongs to one scheme is in the group of
/// that scheme: [`Config::tcp`], [`Config::nats`], [`Config::file`] and [`Config::sealed`] change
/// it, and [`Config::get_tcp`] and its like show it. Settings for another scheme than the channel's
/// are refused, unless they are defaults.
///
/// ```
/// use olivine::{Config, WaitStrategy};
/// let config = Config::parse("shm://ticks?capacity=4MiB")?;
/// let config = config.wait(WaitStrategy::Park).subscribers(2);
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
    /// Least capacity if none is named: the messages of a bridge must fit.
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
    /// What the file `uri` of a ring behind a channel elsewhere says.
    pub(crate) note: Option<String>,
    pub(crate) groups: Box<groups::Groups>,
}

impl Config {
    /// Default settings for a channel of this scheme and name. `tcp://` and `nats://` also need an
    /// `address`, `file://` and `shm+fd://` a `path`: see [`TcpSettings`], [`NatsSettings`],
    /// [`FileSettings`] and [`SealedSettings`].
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
            note: None,
            groups: Box::default(),
        }
    }

    /// Reads a URI.
    ///
    /// # Errors
    ///
    /// [`UriError`] with the part, its value and what is allowed.
    pub fn parse(uri: &str) -> Result<Self, UriError> {
        parse::config(uri, [])
    }

    /// As [`Config::parse`], with more settings as keys and values of text: for programs, other
    /// languages and files that hold settings as text.
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
    /// [`UriError`] with the part, its value and what is allowed; `Repeated` if the URI has the key
    /// already.
    pub fn parse_with<'a>(
        uri: &'a str,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, UriError> {
        parse::config(uri, settings)
    }

    /// Position at which every lane of a new channel starts: for tests of counters near their
    /// limits.
    #[doc(hidden)]
    pub fn origin(mut self, position: u64) -> Self {
        self.origin = position;
        self
    }

    /// The scheme of the channel.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// How long closing a `tcp://` or `nats://` channel waits for an absent far side that has not
    /// received everything: [`Config::get_expire`], or 30 s if that is never. Other schemes do not
    /// wait for an absent far side.
    #[must_use]
    pub fn close_timeout(&self) -> Duration {
        match self.expire {
            Expire::After(after) => after,
            Expire::Never => EXPIRE_DEFAULT,
        }
    }

    /// The canonical URI: settings that differ from their defaults, in a fixed order. A token is
    /// not shown.
    #[must_use]
    pub fn uri(&self) -> String {
        let mut uri = format!("{}://{}", self.scheme, remote::show(self));
        let mut mark = '?';
        let mut add = |key: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = write!(uri, "{mark}{key}={value}");
            mark = '&';
        };
        for key in keys::all() {
            if let Some(value) = (key.show)(self) {
                add(key.name, value);
            }
        }
        uri
    }

    /// Checks every setting and their combinations. Opening does this first, and once: the rooms
    /// behind it take the settings as they are.
    ///
    /// # Errors
    ///
    /// [`UriError`] with the setting, its value and the rule.
    pub fn validate(&self) -> Result<(), UriError> {
        parse::validate(self)
    }

    /// As [`Config::validate`], for a handle of this end: what opening one checks.
    pub(crate) fn validate_for(&self, end: End) -> Result<(), UriError> {
        parse::validate_for(self, end)
    }
}

impl FromStr for Config {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        Self::parse(uri)
    }
}
