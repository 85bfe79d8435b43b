//! The values of settings, and their words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Declares an enum of plain words with its parser and printer, so each word is written once.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word used in URIs, flags and output.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.word() == text).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|value| value.word()).collect();
                    format!("'{}' is not one of {}", text.escape_default(), all.join(", "))
                })
            }
        }
    };
}

words! {
    /// The transport of a channel.
    Scheme {
        /// Files in shared memory: processes of this machine.
        #[default]
        Shm = "shm",
        /// Sealed memory passed over a socket: processes of this machine that do not trust each
        /// other.
        Sealed = "shm+fd",
        /// Memory of this process: its threads.
        Inproc = "inproc",
        /// A connection to another machine.
        Tcp = "tcp",
        /// A NATS server or cluster.
        Nats = "nats",
        /// A journal in a file.
        File = "file",
    }
}

impl Scheme {
    /// Whether this build contains the scheme. `tcp`, `nats` and `file` need the cargo features
    /// `tcp`, `nats` and `journal`. Opening a channel of a missing scheme is
    /// [`OpenError::NoBridge`](crate::OpenError::NoBridge).
    ///
    /// ```
    /// assert!(olivine::Scheme::Shm.is_built());
    /// ```
    #[must_use]
    pub const fn is_built(self) -> bool {
        match self {
            Self::Tcp => cfg!(feature = "tcp"),
            Self::Nats => cfg!(feature = "nats"),
            Self::File => cfg!(feature = "journal"),
            Self::Shm | Self::Sealed | Self::Inproc => true,
        }
    }
}

words! {
    /// Which side of a connection waits for the other.
    Role {
        /// Waits for connections.
        #[default]
        Listen = "listen",
        /// Makes the connection.
        Connect = "connect",
    }
}

words! {
    /// How an idle endpoint waits. The endpoints of one channel may use different strategies.
    WaitStrategy {
        /// Keeps looking: lowest latency, one whole CPU.
        Spin = "spin",
        /// Yields the CPU to others between two checks.
        Yield = "yield",
        /// Looks for a moment, then sleeps in the kernel until woken: hardly any CPU, tens of
        /// microseconds to wake.
        Park = "park",
        /// Spins for about 50 µs, then parks.
        #[default]
        Adaptive = "adaptive",
    }
}

words! {
    /// Whether a subscriber holds publishers back.
    Delivery {
        /// Publishers wait for it: it gets every message.
        #[default]
        Reliable = "reliable",
        /// Publishers never wait for it. It may be overrun, gets the number of lost bytes, and
        /// never sees torn data.
        Latest = "latest",
    }
}

words! {
    /// Where a `nats://` stream stores its messages.
    Storage {
        /// Files of the server: they survive a restart.
        #[default]
        File = "file",
        /// Memory of the server: lost when it stops, unless other replicas live.
        Memory = "memory",
    }
}

words! {
    /// How long a `nats://` stream keeps a message.
    Retention {
        /// Until `max_age=`. A full stream holds publishers back, and reading frees nothing.
        #[default]
        Limits = "limits",
        /// Until every subscriber has it, as in a ring. Without a subscriber it is not kept at all.
        Interest = "interest",
    }
}

words! {
    /// Large pages for the ring: 2 MiB each on x86-64, collected when an end opens
    /// (`MADV_COLLAPSE`, Linux 6.1). Nothing has to be reserved or mounted. Every setting of
    /// `shmem_enabled` works except `deny`.
    HugePages {
        /// Ordinary pages.
        #[default]
        No = "no",
        /// Ask the kernel for large pages, and continue without them.
        Try = "try",
        /// Refuse to open if a part of the ring has none. The ring needs at least 2 MiB.
        Require = "require",
    }
}

/// What happens to a reliable subscriber that does not keep up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slow {
    /// Publishers wait for it.
    #[default]
    Wait,
    /// No message waits longer than this for subscribers. Then a publisher evicts all that block
    /// it, also absent durable ones. The next call of an evicted subscriber reports it; for a
    /// durable name, the next subscriber of the name does.
    Evict(Duration),
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("wait"),
            Self::Evict(after) => write!(f, "evict:{}", show_duration(*after)),
        }
    }
}

impl FromStr for Slow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("'{}' is not wait or evict:DURATION", text.escape_default());
        if text == "wait" {
            return Ok(Self::Wait);
        }
        let after = text
            .strip_prefix("evict:")
            .and_then(parse_duration)
            .ok_or_else(refused)?;
        if after.is_zero() {
            Err(refused())
        } else {
            Ok(Self::Evict(after))
        }
    }
}

/// How long an absent durable subscriber keeps its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expire {
    /// Until the name is opened again or unsubscribed.
    #[default]
    Never,
    /// For this long after a publisher noticed the absence. The next subscriber of the name gets
    /// the number of missed bytes if the channel still has the name. The channel loses it with its
    /// removal, or when another subscriber needs the slot.
    After(Duration),
}

impl fmt::Display for Expire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::After(after) => f.write_str(&show_duration(*after)),
        }
    }
}

impl FromStr for Expire {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let after = parse_duration(text);
        after
            .map(Self::After)
            .ok_or_else(|| format!("'{}' is not never or a duration", text.escape_default()))
    }
}

/// Reads `65536`, `64KiB`, `1MiB`, `1GiB`: bytes.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1_u64 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Prints bytes with the largest unit that divides them.
pub(super) fn show_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Reads `500ms`, `2s`, `10us`, `250ns`, `1m`, `1h`, `0`: a whole number and a unit.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let nanos: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(
        digits.parse::<u64>().ok()?.checked_mul(nanos)?,
    ))
}

/// Prints a duration with the largest unit that divides it.
pub(super) fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    for (unit, factor) in [("s", 1_000_000_000_u128), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos.is_multiple_of(factor) {
            return format!("{}{unit}", nanos / factor);
        }
    }
    format!("{nanos}ns")
}
