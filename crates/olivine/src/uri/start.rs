//! Where a new subscriber starts, and dates in one form: UTC as in `2026-01-31T08:30:00.5Z`.

use super::Scheme;
use std::fmt;
use std::str::FromStr;

const NANOS: u64 = 1_000_000_000;
const DAY_SECONDS: u64 = 86_400;

/// Where a new subscriber starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// With the next message published.
    #[default]
    Now,
    /// With the oldest message still in the ring. For a `file://` journal, with its first message.
    Oldest,
    /// For a `file://` journal: with the first message recorded at that time or later, in
    /// nanoseconds since 1970.
    Time(u64),
    /// For a `file://` journal: with the first message at that position or after it, in bytes of
    /// frames.
    Position(u64),
}

impl Start {
    /// The start of a subscriber without `from=`: a journal is replayed from its beginning.
    #[must_use]
    pub const fn default_of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::File => Self::Oldest,
            _ => Self::Now,
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.pad("now"),
            Self::Oldest => f.pad("oldest"),
            Self::Time(nanos) => f.pad(&format!("time:{}", show_date(*nanos))),
            Self::Position(position) => f.pad(&format!("position:{position}")),
        }
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let found = match text.split_once(':') {
            None if text == "now" => Some(Self::Now),
            None if text == "oldest" => Some(Self::Oldest),
            Some(("time", date)) => read_date(date).map(Self::Time),
            Some(("position", bytes)) if digits(bytes) => bytes.parse().ok().map(Self::Position),
            _ => None,
        };
        found.ok_or_else(|| {
            format!(
                "'{}' is not one of now, oldest, time:DATE such as time:2026-01-31T08:30:00Z, \
                 position:BYTES",
                text.escape_default()
            )
        })
    }
}

/// Days from 1970-01-01 to the first of a month of the Gregorian calendar, from 1970 on.
fn days_before(year: u64, month: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let past = year - 1;
    let leaps = past / 4 - past / 100 + past / 400;
    let month = usize::try_from(month - 1).unwrap_or(0).min(11);
    let leap_day = u64::from(month > 1 && is_leap(year));
    // 719,162 days before 1970 in this count.
    past * 365 + leaps + BEFORE[month] + leap_day - 719_162
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Prints nanoseconds since 1970.
fn show_date(nanos: u64) -> String {
    let (seconds, part) = (nanos / NANOS, nanos % NANOS);
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    // 365.25 days a year: the result is at most one year too late and never too early, for the
    // dates that fit.
    let mut year = 1970 + days * 4 / 1461 + 1;
    while days_before(year, 1) > days {
        year -= 1;
    }
    let month = (1..=12)
        .rev()
        .find(|month| days_before(year, *month) <= days);
    let month = month.unwrap_or(1);
    let day = days - days_before(year, month) + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let part = format!(".{part:09}");
    let part = part.trim_end_matches('0').trim_end_matches('.');
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{part}Z")
}

/// Reads a date in UTC, with up to 9 digits after the second; years 1970 to 2500.
fn read_date(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str, length: usize| {
        (text.len() == length && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<u64>().ok())?
    };
    let mut parts = date.splitn(3, '-');
    let year = number(parts.next()?, 4)?;
    let month = number(parts.next()?, 2)?;
    let day = number(parts.next()?, 2)?;
    let (time, part) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.splitn(3, ':');
    let hour = number(parts.next()?, 2)?;
    let minute = number(parts.next()?, 2)?;
    let second = number(parts.next()?, 2)?;
    let is_part = (1..=9).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) || !is_part {
        return None;
    }
    let (next_year, next_month) = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    let first = days_before(year, month);
    let length = days_before(next_year, next_month) - first;
    if !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = (first + day - 1) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let nanos = format!("{part:0<9}").parse::<u64>().ok()?;
    seconds.checked_mul(NANOS)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_and_match_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1972-02-29T23:59:59Z", 68_255_999),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2024-12-31T12:00:00Z", 1_735_646_400),
            ("2026-11-21T08:00:00Z", 1_795_248_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(read_date(text), Some(seconds * NANOS), "{text}");
            assert_eq!(show_date(seconds * NANOS), text);
        }
        for day in 0..190_000 {
            let nanos = day * DAY_SECONDS * NANOS + day * 431_000_007 % NANOS;
            assert_eq!(read_date(&show_date(nanos)), Some(nanos), "day {day}");
        }
        assert!(show_date(u64::MAX).starts_with("2554-07-21T23:34:33.7"));
    }

    #[test]
    fn invalid_start_is_refused() {
        for text in [
            "",
            "later",
            "time:",
            "time:now",
            "time:2026-02-29T00:00:00Z",
            "time:2026-13-01T00:00:00Z",
            "time:2026-01-01T24:00:00Z",
            "time:2026-01-01T00:00:00",
            "time:2026-01-01T00:00:00.Z",
            "time:2026-1-01T00:00:00Z",
            "time:1969-12-31T00:00:00Z",
            "position:",
            "position:+1",
            "position:1MiB",
        ] {
            assert!(text.parse::<Start>().is_err(), "{text}");
        }
        for text in ["now", "oldest", "position:0", "time:2026-01-31T08:30:00.5Z"] {
            assert_eq!(text.parse::<Start>().unwrap().to_string(), text);
        }
    }
}
