//! Groups of rows, their distinguishing parameters, and their names.

use crate::method::THREADS;
use crate::result::{Load, Measured, ResultFile, Row, floor};
use crate::spread::Spread;
use crate::text;

/// Settings with a separate parameter.
const OWN_SETTINGS: [&str; 2] = ["wait=", "capacity="];

/// Scenarios of servers under load.
const OF_SERVERS: [&str; 3] = ["http", "tcp", "frames"];

/// A row that has figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) row: &'a Row,
    pub(super) measured: &'a Measured,
}

impl Entry<'_> {
    /// Whether it is a method of this library.
    pub(super) fn is_ours(&self) -> bool {
        self.row.is_ours()
    }

    /// Whether both ends are threads of one process.
    pub(super) fn is_between_threads(&self) -> bool {
        self.row
            .parameters
            .settings
            .split('&')
            .any(|s| s == THREADS)
    }

    /// The figure for ranking and drawing: p50 of the median run, or messages per second.
    pub(super) fn figure(&self) -> Option<Spread> {
        match self.row.load {
            Load::Saturated => self.measured.spread("messages_per_s"),
            Load::Closed | Load::Open => self.measured.p50_ns(),
        }
    }

    /// A method with its settings, without its wait strategy, which has a column.
    pub(super) fn name(&self) -> String {
        self.row.name()
    }

    /// How a method waits, where its name does not end in that.
    pub(super) fn waits(&self) -> &str {
        let wait = self.row.parameters.wait.as_deref().unwrap_or_default();
        if self.row.method.ends_with(wait) {
            ""
        } else {
            wait
        }
    }

    /// Its name by the varying parameters; the method's if nothing varies.
    pub(super) fn label(&self, varied: &[Param]) -> String {
        let texts = varied.iter().map(|param| match param {
            Param::Method => self.name(),
            param => param.text(self),
        });
        // The name of a method has its settings.
        let in_name: &[Param] = if varied.contains(&Param::Method) {
            &[Param::Settings, Param::Ring, Param::Wait]
        } else {
            &[]
        };
        let texts = texts.zip(varied);
        let texts = texts.filter(|(text, param)| !text.is_empty() && !in_name.contains(param));
        let parts: Vec<String> = texts.map(|(text, _)| text).collect();
        if parts.is_empty() {
            return self.name();
        }
        parts.join(", ")
    }
}

/// The unit of the figure of a load.
pub(super) fn unit(load: Load) -> fn(f64) -> String {
    match load {
        Load::Saturated => text::rate,
        Load::Closed | Load::Open => text::nanos,
    }
}

/// One scenario of a file.
pub(super) struct Part<'a> {
    pub(super) scenario: &'a str,
    pub(super) load: Load,
    /// Rows with figures.
    pub(super) entries: Vec<Entry<'a>>,
    /// Rows without, and why.
    pub(super) failed: Vec<(&'a Row, &'a str)>,
    /// Whether several methods are ranked.
    pub(super) compares: bool,
}

impl Part<'_> {
    /// Whether it is of servers under load.
    pub(super) fn is_of_servers(&self) -> bool {
        OF_SERVERS.contains(&self.scenario)
    }

    /// Heads of the columns of small outputs, for rows that are not ranked: hardware limits and
    /// servers.
    pub(super) fn heads(&self) -> Option<&'static [&'static str]> {
        if self.is_of_servers() {
            return Some(&[
                "p50",
                "p99",
                "messages",
                "CPU",
                "busy",
                "generator",
                "closed",
                "unanswered",
            ]);
        }
        let is_floor = self.scenario == floor::SCENARIO;
        is_floor.then_some(&["p50", "p50 runs", "bytes", "bytes runs"])
    }
}

/// The scenarios of a file, in the order in which they are met.
pub(super) fn parts(file: &ResultFile) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for row in &file.results {
        let is_it = |part: &Part<'_>| part.scenario == row.scenario && part.load == row.load;
        let at = parts.iter().position(is_it).unwrap_or_else(|| {
            parts.push(Part {
                scenario: &row.scenario,
                load: row.load,
                entries: Vec::new(),
                failed: Vec::new(),
                compares: false,
            });
            parts.len() - 1
        });
        let part = &mut parts[at];
        match row.measured() {
            Some(measured) => part.entries.push(Entry { row, measured }),
            None => part
                .failed
                .extend(file.failures().find(|(failed, _)| *failed == row)),
        }
    }
    for part in &mut parts {
        let methods = part.entries.windows(2);
        let mut methods = methods.map(|pair| [pair[0].row, pair[1].row]);
        part.compares =
            part.heads().is_none() && methods.any(|[one, other]| one.method != other.method);
    }
    parts
}

/// Parameters in which rows may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Method,
    Size,
    Batch,
    Rate,
    Connections,
    Depth,
    Count,
    Ring,
    Wait,
    Shape,
    Publishers,
    Subscribers,
    Settings,
}

/// Parameters in tables and titles.
pub(super) const OF_TABLES: [Param; 11] = [
    Param::Method,
    Param::Size,
    Param::Batch,
    Param::Rate,
    Param::Connections,
    Param::Depth,
    Param::Count,
    Param::Ring,
    Param::Wait,
    Param::Shape,
    Param::Settings,
];

/// Parameters of curves.
pub(super) const OF_CURVES: [Param; 11] = [
    Param::Method,
    Param::Size,
    Param::Batch,
    Param::Rate,
    Param::Connections,
    Param::Depth,
    Param::Ring,
    Param::Wait,
    Param::Publishers,
    Param::Subscribers,
    Param::Settings,
];

impl Param {
    /// Head of its column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Size => "size",
            Self::Batch => "batch",
            Self::Rate => "rate",
            Self::Connections => "connections",
            Self::Depth => "depth",
            Self::Count => "count",
            Self::Ring => "ring",
            Self::Wait => "waits",
            Self::Shape => "shape",
            Self::Publishers => "publishers",
            Self::Subscribers => "subscribers",
            Self::Settings => "settings",
        }
    }

    /// Its value in a row; empty where it does not apply.
    pub(super) fn text(self, entry: &Entry<'_>) -> String {
        let of = &entry.row.parameters;
        match self {
            Self::Method => entry.row.method.clone(),
            Self::Size => text::bytes(of.size_bytes),
            Self::Batch if of.batch_count == 1 => "one by one".to_owned(),
            Self::Batch => format!("batches of {}", of.batch_count),
            Self::Rate => of.rate_per_s.map(text::short_rate).unwrap_or_default(),
            Self::Connections => {
                let counted = |count| text::plural(count, "connection");
                of.connections_count.map(counted).unwrap_or_default()
            }
            Self::Depth => {
                let depth = of.depth_count.map(|depth| format!("depth {depth}"));
                depth.unwrap_or_default()
            }
            Self::Count => {
                let of_run = |count| format!("{} a run", text::count(count));
                of.messages_count.map(of_run).unwrap_or_default()
            }
            Self::Ring => of.ring_bytes.map(text::bytes).unwrap_or_default(),
            Self::Wait => of.wait.clone().unwrap_or_default(),
            Self::Shape => format!(
                "{} → {}{}",
                of.publishers_count,
                of.subscribers_count,
                if of.oversubscribed { "*" } else { "" }
            ),
            Self::Publishers => format!("{} pub", of.publishers_count),
            Self::Subscribers => format!("{} sub", of.subscribers_count),
            Self::Settings => {
                let pairs = of.settings.split('&');
                let own = |pair: &&str| !OWN_SETTINGS.iter().any(|key| pair.starts_with(key));
                pairs.filter(own).collect::<Vec<_>>().join("&")
            }
        }
    }

    /// Its value where it is a number that an axis can show.
    #[allow(
        clippy::cast_precision_loss,
        reason = "sizes and counts stay far below 2^52"
    )]
    pub(super) fn number(self, entry: &Entry<'_>) -> Option<f64> {
        let of = &entry.row.parameters;
        let value = match self {
            Self::Size => Some(of.size_bytes as f64),
            Self::Batch => Some(of.batch_count as f64),
            Self::Rate => of.rate_per_s,
            Self::Connections => of.connections_count.map(|count| count as f64),
            Self::Depth => of.depth_count.map(|count| count as f64),
            Self::Ring => of.ring_bytes.map(|bytes| bytes as f64),
            Self::Publishers => Some(f64::from(of.publishers_count)),
            Self::Subscribers => Some(f64::from(of.subscribers_count)),
            _ => None,
        };
        value.filter(|value| *value > 0.0)
    }

    /// Title and unit of an axis for it.
    pub(super) fn axis(self) -> (&'static str, fn(f64) -> String) {
        match self {
            Self::Size => ("message size", text::short_bytes),
            Self::Batch => ("messages made visible at once", whole),
            Self::Rate => ("messages a second, evenly paced", text::short_rate),
            Self::Connections => ("connections", whole),
            Self::Depth => ("requests in flight on a connection", whole),
            Self::Ring => ("ring size", text::short_bytes),
            Self::Publishers => ("publishers", whole),
            _ => ("subscribers", whole),
        }
    }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Parameters in which some of `entries` differ.
pub(super) fn varied(params: &[Param], entries: &[Entry<'_>]) -> Vec<Param> {
    let differs = |param: &Param| {
        let mut texts = entries.iter().map(|entry| param.text(entry));
        let first = texts.next();
        texts.any(|text| Some(text) != first)
    };
    params.iter().copied().filter(differs).collect()
}

/// Common parameters of all `entries`, in words.
pub(super) fn constant(entries: &[Entry<'_>]) -> String {
    let Some(first) = entries.first() else {
        return String::new();
    };
    let of = &first.row.parameters;
    let differ = varied(&OF_TABLES, entries);
    let compares = differ.contains(&Param::Method);
    let shown = OF_TABLES.into_iter().filter(|param| {
        let says_nothing = match param {
            Param::Size => of.size_bytes == 0,
            Param::Batch => of.batch_count == 1,
            Param::Shape => of.publishers_count == 1 && of.subscribers_count == 1,
            // Names of methods have them.
            Param::Ring | Param::Wait | Param::Settings => compares,
            _ => false,
        };
        !says_nothing && !differ.contains(param)
    });
    let texts = shown.map(|param| match (param, param.text(first)) {
        (Param::Ring, ring) if !ring.is_empty() => format!("ring {ring}"),
        (_, text) => text,
    });
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    texts.join(", ")
}
