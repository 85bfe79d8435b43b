//! Figures and names as they are shown, short enough for columns.

use super::view::{Participant, Role};
use crate::terminal::escaped;
use olivine_bench::text;

/// What is shown where nothing is known.
pub(crate) const NOTHING: &str = "-";

/// A part as `43 %`.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A time that people wait: `12 ms`, `2.1 s`, `3 min`, `5 h`. `seconds` of `serve/format.js` shows
/// the same: `durations.txt` is the table of both.
#[allow(clippy::cast_precision_loss, reason = "shown with two figures")]
pub(crate) fn seconds(ns: u64) -> String {
    // A half is rounded up here and in JavaScript, and to the even figure by the formatter.
    let whole = |value: f64, unit: &str| format!("{} {unit}", value.round());
    match ns as f64 / 1e9 {
        s if s < 0.000_000_5 => "0 ns".to_owned(),
        s if s < 0.000_999_5 => whole(s * 1e6, "us"),
        s if s < 0.9995 => whole(s * 1e3, "ms"),
        s if s < 9.95 => format!("{:.1} s", (s * 10.0).round() / 10.0),
        s if s < 99.5 => whole(s, "s"),
        s if s < 5400.0 => whole(s / 60.0, "min"),
        s if s < 172_800.0 => whole(s / 3600.0, "h"),
        s => whole(s / 86_400.0, "d"),
    }
}

/// A share of the window or of a CPU, if it is known.
pub(crate) fn share(part: Option<f64>) -> String {
    part.map_or_else(|| NOTHING.to_owned(), percent)
}

/// Bytes a second, if they are known.
pub(crate) fn rate(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(|| NOTHING.to_owned(), text::byte_rate)
}

/// An estimated number of messages.
pub(crate) fn about(messages: Option<f64>) -> String {
    let shown = |number: f64| match number {
        few if few < 999.5 => format!("~{few:.0}"),
        // Three figures and the unit of a rate, without `/s`.
        many => format!("~{}", text::rate(many).replace("/s", "")),
    };
    messages.map_or_else(|| NOTHING.to_owned(), shown)
}

/// An estimated rate of messages.
pub(crate) fn about_rate(messages_per_s: Option<f64>) -> String {
    let shown = |rate: f64| format!("~{}", text::rate(rate));
    messages_per_s.map_or_else(|| NOTHING.to_owned(), shown)
}

/// Bytes behind; nothing for a publisher.
pub(crate) fn behind(one: &Participant) -> String {
    match one.role {
        Role::Publisher => String::new(),
        Role::Subscriber => text::bytes(one.behind_bytes),
    }
}

/// The age of what is behind: `>2.1 s` if it may be older.
pub(crate) fn age(one: &Participant) -> String {
    let more = if one.behind_ns_is_minimum { ">" } else { "" };
    let shown = |ns| format!("{more}{}", seconds(ns));
    match one.role {
        Role::Publisher => String::new(),
        Role::Subscriber => one.behind_ns.map_or_else(|| NOTHING.to_owned(), shown),
    }
}

/// Messages behind; nothing for a publisher.
pub(crate) fn messages(one: &Participant) -> String {
    match one.role {
        Role::Publisher => String::new(),
        Role::Subscriber => about(one.behind_messages_estimate),
    }
}

/// `pub` or `sub`.
pub(crate) fn role(one: &Participant) -> &'static str {
    match one.role {
        Role::Publisher => "pub",
        Role::Subscriber => "sub",
    }
}

/// The name of a participant: its durable name, else its command.
pub(crate) fn who(one: &Participant) -> String {
    match (&one.name, &one.command) {
        (Some(name), _) => escaped(name).replace('\t', "\\t"),
        (None, Some(command)) if !command.is_empty() => command.replace('\t', "\\t"),
        (None, _) if one.role == Role::Publisher => "a publisher".to_owned(),
        (None, _) => "a subscriber".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_fit_seven_columns() {
        let cases = include_str!("durations.txt").lines();
        let cases: Vec<_> = cases.filter_map(|line| line.split_once(" = ")).collect();
        assert!(cases.len() > 10, "{cases:?}");
        for (ns, expected) in cases {
            assert_eq!(seconds(ns.parse().unwrap()), expected);
            assert!(expected.len() <= 7, "{expected}");
        }
        assert_eq!(about(Some(12_345.0)), "~12.3 K");
        assert_eq!(
            (about(Some(0.0)), about(Some(2.6))),
            ("~0".to_owned(), "~3".to_owned())
        );
        assert_eq!(about_rate(Some(1e6)), "~1.00 M/s");
        assert_eq!(
            (share(Some(0.426)), share(None)),
            ("43 %".to_owned(), "-".to_owned())
        );
    }
}
