//! The values of settings that only journals have, and their words.

use super::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When recorded messages are forced to the disk, and so which of them survive a power cut.
///
/// A message counts as recorded once the journal has done what the policy requires. Only then its
/// room in the ring is released. With every policy, a recorded message survives the death of every
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// `block`: every block is on the disk before its messages count as recorded. They survive a
    /// power cut.
    #[default]
    Block,
    /// `interval:DURATION`: messages count once the kernel has them, and reach the disk at most
    /// this much later. A power cut loses at most the messages of the last interval.
    Interval(Duration),
    /// `never`: messages count once the kernel has them. The kernel writes them to the disk later
    /// (within half a minute on a default Linux). A power cut may lose all of these, and blocks in
    /// between.
    Never,
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("block"),
            Self::Interval(every) => write!(f, "interval:{}", show_duration(*every)),
            Self::Never => f.write_str("never"),
        }
    }
}

impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "block" => return Ok(Self::Block),
            "never" => return Ok(Self::Never),
            _ => {}
        }
        text.strip_prefix("interval:")
            .and_then(parse_duration)
            .filter(|every| !every.is_zero())
            .map(Self::Interval)
            .ok_or_else(|| {
                format!(
                    "'{}' is not block, never or interval:DURATION",
                    text.escape_default()
                )
            })
    }
}

/// Compression of the blocks of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// As they are in the ring.
    #[default]
    No,
    /// `zstd` or `zstd:LEVEL`, level 1 to 19, default 3. Needs the cargo feature `zstd`.
    Zstd(u8),
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("no"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = match text {
            "no" => return Ok(Self::No),
            "zstd" => Some(3),
            _ => text
                .strip_prefix("zstd:")
                .filter(|level| level.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|level| level.parse().ok()),
        };
        level
            .filter(|level| (1..=19).contains(level))
            .map(Self::Zstd)
            .ok_or_else(|| {
                format!(
                    "'{}' is not no, zstd or zstd:LEVEL with a level from 1 to 19",
                    text.escape_default()
                )
            })
    }
}

/// When a journal continues in its next file.
///
/// `never`, a size such as `1GiB`, a duration such as `1h`, or both as `1GiB,1h`: the first limit
/// that is reached counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Rotation {
    /// Largest size of a file in bytes. Only a single block may exceed it.
    pub bytes: Option<u64>,
    /// How long a file is written.
    pub after: Option<Duration>,
}

/// Smallest size for rotation by size, in bytes.
const ROTATE_BYTES_MIN: u64 = 4096;

impl Rotation {
    /// One file of any length.
    pub const NEVER: Self = Self {
        bytes: None,
        after: None,
    };

    /// The next file starts when the next block would make this one longer than `bytes`.
    #[must_use]
    pub const fn by_size(bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            after: None,
        }
    }

    /// The next file starts when this one has been written for that long.
    #[must_use]
    pub const fn by_time(after: Duration) -> Self {
        Self {
            bytes: None,
            after: Some(after),
        }
    }
}

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.after) {
            (None, None) => f.write_str("never"),
            (Some(bytes), None) => f.write_str(&show_bytes(bytes)),
            (None, Some(after)) => f.write_str(&show_duration(after)),
            (Some(bytes), Some(after)) => {
                write!(f, "{},{}", show_bytes(bytes), show_duration(after))
            }
        }
    }
}

impl FromStr for Rotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "'{}' is not never, a size from 4KiB such as 1GiB, a duration such as 1h, or \
                 SIZE,DURATION",
                text.escape_default()
            )
        };
        let size = |text| parse_bytes(text).filter(|bytes| *bytes >= ROTATE_BYTES_MIN);
        let span = |text| parse_duration(text).filter(|after| !after.is_zero());
        if text == "never" {
            return Ok(Self::NEVER);
        }
        if let Some((bytes, after)) = text.split_once(',') {
            return match (size(bytes), span(after)) {
                (Some(bytes), Some(after)) => Ok(Self {
                    bytes: Some(bytes),
                    after: Some(after),
                }),
                _ => Err(refused()),
            };
        }
        // A duration always has a unit of time, a size never has one: `1m` is a minute, `1M` a
        // mebibyte.
        match (span(text), size(text)) {
            (Some(after), _) => Ok(Self::by_time(after)),
            (None, Some(bytes)) => Ok(Self::by_size(bytes)),
            (None, None) => Err(refused()),
        }
    }
}

/// How a subscriber reads an unfinished recording: its recorder was killed and has not repaired it
/// yet, or it was cut. It is also for a recording with holes: its recorder was stopped or evicted,
/// and messages were published before it was started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unfinished {
    /// `fail`: the subscriber gets everything up to the last whole block, and then an error. It
    /// also gets an error at a hole.
    #[default]
    Fail,
    /// `accept`: the last whole block is the end of the stream, and holes are passed.
    Accept,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "fail",
            Self::Accept => "accept",
        })
    }
}

impl FromStr for Unfinished {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fail" => Ok(Self::Fail),
            "accept" => Ok(Self::Accept),
            _ => Err(format!("'{}' is not fail or accept", text.escape_default())),
        }
    }
}

/// How fast a journal is replayed.
///
/// `full`, `original`, or a factor such as `2x` or `0.5x`. Messages that were recorded together
/// have one time stamp and are replayed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pace {
    /// As fast as subscribers read.
    #[default]
    Full,
    /// With the pauses of the recording, multiplied by 1000 and divided by this number; 1000 is the
    /// original pace.
    Thousandths(u32),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Thousandths(1000) => f.write_str("original"),
            Self::Thousandths(factor) if factor % 1000 == 0 => write!(f, "{}x", factor / 1000),
            Self::Thousandths(factor) => {
                let part = format!("{:03}", factor % 1000);
                write!(f, "{}.{}x", factor / 1000, part.trim_end_matches('0'))
            }
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => return Ok(Self::Full),
            "original" => return Ok(Self::ORIGINAL),
            _ => {}
        }
        text.strip_suffix('x')
            .and_then(thousandths)
            .filter(|factor| *factor > 0)
            .map(Self::Thousandths)
            .ok_or_else(|| {
                format!(
                    "'{}' is not full, original or a factor such as 2x or 0.5x, with up to 3 \
                     digits after the point",
                    text.escape_default()
                )
            })
    }
}

impl Pace {
    /// With the pauses of the recording.
    pub const ORIGINAL: Self = Self::Thousandths(1000);
}

/// Reads `2` and `0.125` as thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let part = format!("{part:0<3}").parse::<u32>().ok()?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn round_trips<T: FromStr<Err = String> + fmt::Display + Debug>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(text.parse::<T>().unwrap().to_string(), *text);
        }
        for text in bad {
            let error = text.parse::<T>().expect_err(text);
            assert!(error.starts_with(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn words_round_trip_and_others_are_refused() {
        round_trips::<SyncPolicy>(
            &["block", "never", "interval:200ms", "interval:1s"],
            &[
                "",
                "always",
                "interval",
                "interval:",
                "interval:0",
                "interval:5",
            ],
        );
        round_trips::<Compression>(
            &["no", "zstd:1", "zstd:19"],
            &["", "gzip", "zstd:0", "zstd:20", "zstd:+3", "zstd:"],
        );
        round_trips::<Rotation>(
            &["never", "1GiB", "4KiB", "60s", "1GiB,3600s"],
            &[
                "",
                "0",
                "1KiB",
                "0s",
                "1GiB,",
                ",1h",
                "1h,1GiB",
                "1GiB,1h,2h",
            ],
        );
        round_trips::<Unfinished>(&["fail", "accept"], &["", "no", "ignore"]);
        round_trips::<Pace>(
            &["full", "original", "2x", "0.5x"],
            &[
                "", "2", "x", "-1x", "0x", "infx", "1e3x", "+2x", "1.x", ".5x", "1.2345x",
                "9999999x",
            ],
        );
        assert_eq!("zstd".parse(), Ok(Compression::Zstd(3)));
        assert_eq!("1m".parse(), Ok(Rotation::by_time(Duration::from_secs(60))));
        assert_eq!("1M".parse(), Ok(Rotation::by_size(1 << 20)));
    }
}
