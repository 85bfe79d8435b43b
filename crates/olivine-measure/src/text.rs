//! Readable numbers: three figures and a unit.

/// A duration of `ns` nanoseconds: `87.3 ns`, `1.25 us`, `3.10 ms`, `2.00 s`.
#[must_use]
pub fn nanos(ns: f64) -> String {
    scaled(ns, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// Events a second: `950 /s`, `12.3 K/s`, `301 M/s`.
#[must_use]
pub fn rate(per_s: f64) -> String {
    scaled(
        per_s,
        &[("/s", 1.0), ("K/s", 1e3), ("M/s", 1e6), ("G/s", 1e9)],
    )
}

/// Bytes a second in decimal units: `9.60 GB/s`.
#[must_use]
pub fn byte_rate(bytes_per_s: f64) -> String {
    scaled(
        bytes_per_s,
        &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
    )
}

/// A size in binary units: `32 B`, `1.50 KiB`, `1 MiB`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
pub fn bytes(bytes: u64) -> String {
    let mut shown = ("B", 1_u64);
    for unit in [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ] {
        if bytes >= unit.1 {
            shown = unit;
        }
    }
    let (unit, factor) = shown;
    if bytes.is_multiple_of(factor) {
        format!("{} {unit}", bytes / factor)
    } else {
        format!("{} {unit}", three_figures(bytes as f64 / factor as f64))
    }
}

/// A value that is a number of things, as [`count`] has it.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are positive and far below 2^52"
)]
pub fn whole(value: f64) -> String {
    count(value.round() as u64)
}

/// A whole number with its thousands set apart: `12,345,678`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 subscriber`, `3 subscribers`. The plural of `thing` ends in s.
#[must_use]
pub fn plural(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number))
}

/// A rate without empty digits: `1 M/s`.
#[must_use]
pub fn short_rate(per_s: f64) -> String {
    short(&rate(per_s))
}

/// A duration without empty digits: `5 us`.
#[must_use]
pub fn short_nanos(ns: f64) -> String {
    short(&nanos(ns))
}

/// A byte count without empty digits.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive whole numbers"
)]
pub fn short_bytes(size: f64) -> String {
    short(&bytes(size.round() as u64))
}

/// Cuts zeros behind a decimal point.
fn short(text: &str) -> String {
    let Some((number, unit)) = text.split_once(' ') else {
        return text.to_owned();
    };
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}")
}

fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let mut shown = units[0];
    for &unit in units {
        // What would round up to 1000 of a unit is shown as 1.00 of the next.
        if value >= unit.1 * 0.9995 {
            shown = unit;
        }
    }
    format!("{} {}", three_figures(value / shown.1), shown.0)
}

/// Three significant figures, no exponent; whole numbers below 1000 stay whole.
#[must_use]
pub fn three_figures(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1000.0 && (value == 0.0 || value.abs() >= 100.0) {
        return format!("{value:.0}");
    }
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(plural(1, "run"), "1 run");
        assert_eq!(
            (plural(0, "run"), plural(1200, "run")),
            ("0 runs".into(), "1,200 runs".into())
        );
    }

    #[test]
    fn short_texts_have_no_empty_digits() {
        assert_eq!(short_nanos(1000.0), "1 us");
        assert_eq!(short_nanos(1500.0), "1.5 us");
        assert_eq!(short_nanos(200.0), "200 ns");
        assert_eq!(short_rate(1e6), "1 M/s");
        assert_eq!(short_bytes(1048576.0), "1 MiB");
    }

    #[test]
    fn numbers_have_three_figures_and_a_unit() {
        let cases = [
            (nanos(87.34), "87.3 ns"),
            (nanos(0.0), "0 ns"),
            (nanos(999.9), "1.00 us"),
            (nanos(1250.0), "1.25 us"),
            (nanos(3.1e6), "3.10 ms"),
            (nanos(2e9), "2.00 s"),
            (rate(950.0), "950 /s"),
            (rate(12_345.0), "12.3 K/s"),
            (rate(301.4e6), "301 M/s"),
            (byte_rate(9.6e9), "9.60 GB/s"),
            (bytes(32), "32 B"),
            (bytes(1 << 20), "1 MiB"),
            (bytes(1536), "1.50 KiB"),
            (count(0), "0"),
            (count(999), "999"),
            (count(12_345_678), "12,345,678"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
