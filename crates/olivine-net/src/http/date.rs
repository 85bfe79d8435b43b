//! The Date field, rendered at most once a second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of an HTTP date.
pub(crate) const LENGTH: usize = 29;

/// The current date, good until the next whole second.
#[derive(Debug)]
pub(crate) struct Date {
    text: [u8; LENGTH],
    /// The shard's tick at which the text is out of date.
    until: u64,
    /// Counts the renderings, so that users of a copy can detect a stale one.
    version: u64,
}

impl Date {
    pub(crate) fn new() -> Self {
        Self {
            text: [b' '; LENGTH],
            until: 0,
            version: 0,
        }
    }

    /// The date at the shard's `tick` (milliseconds), and the number of its rendering.
    #[inline]
    pub(crate) fn at(&mut self, tick: u64) -> (&[u8; LENGTH], u64) {
        // Also before the first: it was good until tick 0.
        if tick >= self.until {
            self.renew(tick);
        }
        (&self.text, self.version)
    }

    #[cold]
    fn renew(&mut self, tick: u64) {
        // A clock before 1970 is taken for 1970: a date is required and none would be right.
        #[allow(clippy::disallowed_methods, reason = "the header shows wall time")]
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        self.text = render(since.as_secs());
        self.until = tick + 1000 - u64::from(since.subsec_millis());
        self.version += 1;
    }
}

/// Renders seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// # Source
///
/// The days-to-date conversion is Howard Hinnant's `civil_from_days`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "each part is far below 256"
)]
fn render(seconds: u64) -> [u8; LENGTH] {
    const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    // Four digits of year end with 9999; a clock beyond that is broken.
    let seconds = seconds.min(253_402_300_799);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);

    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (days % 7) as usize * 3;
    text[..3].copy_from_slice(&DAYS[weekday..weekday + 3]);
    let name = (month as usize - 1) * 3;
    text[8..11].copy_from_slice(&MONTHS[name..name + 3]);
    let mut two = |at: usize, value: u64| {
        text[at] = b'0' + (value / 10 % 10) as u8;
        text[at + 1] = b'0' + (value % 10) as u8;
    };
    two(5, day);
    two(12, year / 100);
    two(14, year % 100);
    two(17, second / 3600);
    two(20, second / 60 % 60);
    two(23, second % 60);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_known_dates() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&render(seconds)).unwrap(), text);
        }
    }

    #[test]
    fn date_is_rendered_once_per_second() {
        let mut date = Date::new();
        let first = date.at(0).1;
        let until = date.until;
        assert!((1..=1000).contains(&until));
        assert_eq!(date.at(until - 1).1, first);
        assert_eq!(date.at(until).1, first + 1);
    }
}
