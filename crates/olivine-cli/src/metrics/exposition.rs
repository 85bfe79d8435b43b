//! The text that a monitoring system scrapes: OpenMetrics 1.0, or the Prometheus text format 0.0.4.
//!
//! Both are written from the same calls. They differ in the names of counters and of the info
//! family, in the lines `# UNIT`, and in the last line.

use crate::terminal::escaped;
use std::fmt::Write;

/// Which text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// Also what the textfile collector of node_exporter reads.
    Prometheus,
}

impl Format {
    /// The value of Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What a request with this Accept field prefers; the plain text if it prefers neither.
    pub(crate) fn accepted(accept: Option<&[u8]>) -> Self {
        let text = accept.and_then(|accept| std::str::from_utf8(accept).ok());
        let (mut open, mut plain) = (0.0, 0.0);
        for range in text.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0, None);
            for part in parts {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match (kind.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => {
                    open = f64::max(open, weight);
                }
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => {
                    plain = f64::max(plain, weight);
                }
                _ => {}
            }
        }
        if open > 0.0 && open >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never falls, but starts again at 0.
    Counter,
    Gauge,
    /// Facts as labels; the value is 1.
    Info,
}

impl Kind {
    /// What the names of the samples have behind the name of the family.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge => "",
            Self::Info => "_info",
        }
    }

    fn word(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Gauge, _) | (Self::Info, Format::Prometheus) => "gauge",
            (Self::Info, Format::OpenMetrics) => "info",
        }
    }
}

/// A metric family: its name without the suffix of the samples, and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The last word of the name if it is a unit, else empty.
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    /// Shown in seconds.
    Ns(u64),
    /// Left out if it is not a number.
    Float(f64),
}

/// The text as far as it is written.
#[derive(Debug)]
pub(crate) struct Exposition {
    format: Format,
    text: String,
    samples: usize,
}

/// Samples of one family as they were written. With the same values they are not written again:
/// most values of most channels stay from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Part {
    text: String,
    samples: usize,
}

/// The value of a sample as it was written last, or left out; `None` before the first time. Those
/// of all parts of a channel stand in one row in memory: each look reads them, seldom from a cache.
pub(crate) type Known = Option<Option<Value>>;

impl Part {
    /// Takes these values in, with the texts of their labels, which are those of the last call.
    /// One without a value is left out. `known` has the values of the last call, as many.
    pub(crate) fn set<'l>(
        &mut self,
        family: &Family,
        known: &mut [Known],
        samples: impl Iterator<Item = (&'l str, Option<Value>)> + Clone,
    ) {
        let values = samples.clone().map(|(_, value)| Some(value));
        if values.eq(known.iter().copied()) {
            return;
        }
        self.text.clear();
        self.samples = 0;
        let mut written = Samples {
            family,
            text: &mut self.text,
            count: &mut self.samples,
        };
        for ((labels, value), known) in samples.zip(known) {
            *known = Some(value);
            if let Some(value) = value {
                written.add(labels, value);
            }
        }
    }
}

impl Exposition {
    /// An empty text with room for `bytes`.
    pub(crate) fn new(format: Format, bytes: usize) -> Self {
        Self {
            format,
            text: String::with_capacity(bytes),
            samples: 0,
        }
    }

    /// Writes a family: its metadata, and what `samples` adds. A family without samples is left
    /// out.
    pub(crate) fn family(&mut self, family: &Family, samples: impl FnOnce(&mut Samples<'_>)) {
        let before = (self.text.len(), self.samples);
        self.metadata(family);
        samples(&mut Samples {
            family,
            text: &mut self.text,
            count: &mut self.samples,
        });
        if self.samples == before.1 {
            self.text.truncate(before.0);
        }
    }

    fn metadata(&mut self, family: &Family) {
        let Family {
            name,
            kind,
            unit,
            help,
        } = *family;
        let shown = match self.format {
            Format::OpenMetrics => "",
            Format::Prometheus => kind.suffix(),
        };
        let word = kind.word(self.format);
        self.push(format_args!("# HELP {name}{shown} {}\n", quoted(help)));
        self.push(format_args!("# TYPE {name}{shown} {word}\n"));
        if self.format == Format::OpenMetrics && !unit.is_empty() {
            self.push(format_args!("# UNIT {name} {unit}\n"));
        }
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = self.text.write_fmt(text);
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        // A comment to readers of the plain text.
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// Adds the samples of one family.
#[derive(Debug)]
pub(crate) struct Samples<'a> {
    family: &'a Family,
    text: &'a mut String,
    count: &'a mut usize,
}

impl Samples<'_> {
    /// A sample with the text of its labels, which [`labels`] makes.
    pub(crate) fn add(&mut self, labels: &str, value: Value) {
        match value {
            Value::Count(count) => self.push(labels, format_args!("{count}")),
            Value::Ns(ns) => {
                let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                self.push(labels, format_args!("{whole}.{rest:09}"));
            }
            Value::Float(value) if value.is_finite() => {
                self.push(labels, format_args!("{value}"));
            }
            Value::Float(_) => {}
        }
    }

    /// Samples of this family as they were written.
    pub(crate) fn add_part(&mut self, part: &Part) {
        self.text.push_str(&part.text);
        *self.count += part.samples;
    }

    fn push(&mut self, labels: &str, value: std::fmt::Arguments<'_>) {
        let Family { name, kind, .. } = *self.family;
        *self.count += 1;
        self.text.push_str(name);
        self.text.push_str(kind.suffix());
        if !labels.is_empty() {
            self.text.push('{');
            self.text.push_str(labels);
            self.text.push('}');
        }
        // Writing to memory does not fail.
        let _ = writeln!(self.text, " {value}");
    }
}

/// Labels as they stand between braces. Values are escaped twice: control characters as on
/// terminals, so that the text can be printed, and then as the format asks.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        let shown = escaped(value);
        // Writing to memory does not fail.
        let _ = write!(text, "{name}=\"{}\"", quoted(&shown));
    }
    text
}

/// With the characters escaped that end a value or a line.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Family = Family {
        name: "olivine_lag_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Bytes \"behind\".",
    };
    const WAITS: Family = Family {
        name: "olivine_waits",
        kind: Kind::Counter,
        unit: "",
        help: "Waits.",
    };

    fn written(format: Format) -> String {
        let mut out = Exposition::new(format, 0);
        out.family(&BYTES, |samples| {
            samples.add("channel=\"x\"", Value::Count(7));
            samples.add("", Value::Float(f64::NAN));
        });
        out.family(&WAITS, |samples| samples.add("", Value::Ns(1_500_000_000)));
        out.family(&BYTES, |_| {});
        out.finish()
    }

    #[test]
    fn both_formats_have_the_lines_of_their_standard() {
        assert_eq!(
            written(Format::OpenMetrics),
            "# HELP olivine_lag_bytes Bytes \\\"behind\\\".\n# TYPE olivine_lag_bytes gauge\n\
             # UNIT olivine_lag_bytes bytes\nolivine_lag_bytes{channel=\"x\"} 7\n\
             # HELP olivine_waits Waits.\n# TYPE olivine_waits counter\n\
             olivine_waits_total 1.500000000\n# EOF\n"
        );
        let plain = written(Format::Prometheus);
        assert!(plain.contains("# TYPE olivine_waits_total counter\nolivine_waits_total 1.5"));
        assert!(!plain.contains("# UNIT"), "{plain}");
    }

    #[test]
    fn part_is_written_again_only_with_another_value() {
        let (mut part, mut known) = (Part::default(), [None; 2]);
        let mut written = |first: Option<Value>| {
            let samples = [("lane=\"0\"", first), ("lane=\"1\"", Some(Value::Count(5)))];
            let mut out = Exposition::new(Format::OpenMetrics, 0);
            part.set(&BYTES, &mut known, samples.into_iter());
            out.family(&BYTES, |to| to.add_part(&part));
            let text = out.finish();
            // What is copied is seen in the text.
            part.text.push_str("# copied\n");
            text
        };
        let seven = Some(Value::Count(7));
        let first = written(seven);
        assert!(first.contains("{lane=\"0\"} 7\n") && first.contains("{lane=\"1\"} 5\n"));
        assert!(written(seven).contains("# copied\n"));
        let none = written(None);
        assert!(!none.contains("lane=\"0\"") && none.contains("lane=\"1\""));
        assert!(!none.contains("# copied\n"), "{none}");
    }

    #[test]
    fn the_accepted_format_with_the_larger_weight_is_written() {
        let cases = [
            (None, Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some("text/html, nonsense;;q"), Format::Prometheus),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            (
                Some("application/openmetrics-text; version=0.0.1, text/plain;q=0.5"),
                Format::Prometheus,
            ),
            (
                Some("application/openmetrics-text;q=0.2,text/plain;version=0.0.4"),
                Format::Prometheus,
            ),
            (
                Some("application/openmetrics-text;version=1.0.0;q=0"),
                Format::Prometheus,
            ),
            // What Prometheus sends.
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                     application/openmetrics-text;version=0.0.1;q=0.4,\
                     text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                ),
                Format::OpenMetrics,
            ),
        ];
        for (accept, expected) in cases {
            let format = Format::accepted(accept.map(str::as_bytes));
            assert_eq!(format, expected, "{accept:?}");
        }
        assert_eq!(Format::accepted(Some(b"\xff")), Format::Prometheus);
    }

    #[test]
    fn hostile_label_values_end_neither_value_nor_line() {
        let shown = labels(&[("channel", "a\"b\\c\nd\u{1b}[2J\u{202e}"), ("lane", "0")]);
        let expected = "channel=\"a\\\"b\\\\c\\\\nd\\\\x1b[2J\\\\u{202e}\",lane=\"0\"";
        assert_eq!(shown, expected);
    }
}
