//! Values of flags: sizes, durations, rates, lists. Each error says which values are valid.

use olivine_bench::scenario::latency;
use std::net::SocketAddr;
use std::time::Duration;

/// `65536`, `64KiB`, `1MiB`, `1GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    let factor = match unit {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1_u64 << 30,
        _ => 0,
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a size above 0 such as 32, 8KiB or 1MiB".to_owned())
}

/// `500ms`, `2s`, `1m`; also a plain number of seconds such as `2` or `0.5`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split(text);
    let factor = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse::<f64>().unwrap_or(f64::NAN) * factor;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "expected a duration above 0 such as 500ms, 2s or 1m".to_owned())
}

/// `1000`, `100K`, `1.5M`, optionally followed by `/s`; `0` and `max` are full speed.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let refused =
        || "expected messages a second such as 1000, 100K or 1M, or 0 for full speed".to_owned();
    if text == "max" {
        return Ok(Rate::Max);
    }
    let (digits, unit) = split(text.strip_suffix("/s").unwrap_or(text));
    let factor = match unit {
        "" => 1.0,
        "K" | "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(refused()),
    };
    let per_s = digits.parse::<f64>().map_err(|_| refused())? * factor;
    match per_s {
        0.0 => Ok(Rate::Max),
        per_s if (1e-3..=1e10).contains(&per_s) => Ok(Rate::PerSecond(per_s)),
        _ => Err(refused()),
    }
}

/// A finite rate, not full speed.
pub(crate) fn steady_rate(text: &str) -> Result<f64, String> {
    match rate(text)? {
        Rate::PerSecond(per_s) => Ok(per_s),
        Rate::Max => Err("expected a rate above 0 such as 1000, 100K or 1M".to_owned()),
    }
}

/// A rate at which latencies can be measured.
pub(crate) fn latency_rate(text: &str) -> Result<f64, String> {
    latency::check_rate(steady_rate(text)?).map_err(|error| error.to_string())
}

/// A number of messages: 1 or more, with K, M or G for thousands.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['K', 'k', 'M', 'G']) {
        Some(digits) if text.ends_with('M') => (digits, 1_000_000),
        Some(digits) if text.ends_with('G') => (digits, 1_000_000_000),
        Some(digits) => (digits, 1_000),
        None => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))
        .flatten()
        .filter(|count| *count > 0)
        .ok_or_else(|| "expected a number of messages above 0 such as 10, 5K or 1M".to_owned())
}

/// An address with a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected a numeric address and a port such as 127.0.0.1:6549, 0.0.0.0:6549 or [::1]:6549"
            .to_owned()
    })
}

/// Two CPU numbers, such as `0,1`.
pub(crate) fn cpu_pair(text: &str) -> Result<(u32, u32), String> {
    let refused = || "expected two different CPU numbers such as 0,1".to_owned();
    let (first, second) = text.split_once(',').ok_or_else(refused)?;
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < 1024);
    match (number(first), number(second)) {
        (Some(first), Some(second)) if first != second => Ok((first, second)),
        _ => Err(refused()),
    }
}

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// As fast as the subscribers take it.
    Max,
    /// Evenly spaced.
    PerSecond(f64),
}

/// A number without sign or exponent, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units_and_refuse_zero_and_empty() {
        assert_eq!(size("32"), Ok(32));
        assert_eq!(size("8KiB"), Ok(8192));
        assert_eq!(size("1M"), Ok(1 << 20));
        for bad in [
            "",
            "0",
            "x",
            "-1",
            "+1",
            "1.5KiB",
            "1KB",
            "99999999999GiB",
            "1 KiB",
        ] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn counts_take_decimal_units() {
        assert_eq!(count("10"), Ok(10));
        assert_eq!(count("5K"), Ok(5_000));
        assert_eq!(count("2M"), Ok(2_000_000));
        for bad in ["", "0", "K", "-1", "+1", "1.5K", "99999999999999G", "ten"] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_take_units_or_plain_seconds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        for bad in ["", "0", "-1s", "soon", "1d", "inf", "nan", "1e3"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rates_take_decimal_units_and_zero_is_full_speed() {
        assert_eq!(rate("1000"), Ok(Rate::PerSecond(1000.0)));
        assert_eq!(rate("1.5M/s"), Ok(Rate::PerSecond(1.5e6)));
        assert_eq!((rate("0"), rate("max")), (Ok(Rate::Max), Ok(Rate::Max)));
        for bad in ["", "fast", "-5", "1T", "1e6", "99999999999G", "0.0001"] {
            assert!(rate(bad).is_err(), "{bad:?}");
        }
        assert!(steady_rate("0").is_err());
        assert_eq!(latency_rate("1"), Ok(1.0));
        for bad in ["0.5", "1G", "max"] {
            assert!(latency_rate(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn addresses_are_numbers_with_a_port() {
        assert!(address("127.0.0.1:0").is_ok() && address("[::1]:6549").is_ok());
        for bad in ["foo", "6549", ":6549", "127.0.0.1", "localhost:6549"] {
            assert!(
                address(bad).unwrap_err().contains("127.0.0.1:6549"),
                "{bad}"
            );
        }
    }

    #[test]
    fn cpu_pair_is_two_different_numbers() {
        assert_eq!(cpu_pair("2,5"), Ok((2, 5)));
        for bad in ["", "1", "1,1", "a,b", "1,2,3", "-1,2", "0,5000"] {
            assert!(cpu_pair(bad).is_err(), "{bad:?}");
        }
    }
}
