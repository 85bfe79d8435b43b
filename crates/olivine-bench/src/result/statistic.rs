//! The statistics of a row, in one table: columns, CSV, comparisons and published figures follow
//! it. A new statistic is a row here.

use super::{Figures, Measured, Placement};
use crate::latency::Percentiles;
use crate::text;
use Of::{Given, Row, Samples, Slice};
use Shown::{Everywhere, Nowhere, Page, Unranked};
use Unit::{BytesPerS, Count, Nanos, PerS, Share, Times};

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Events a second.
    PerS,
    /// Bytes a second.
    BytesPerS,
    /// How many times something.
    Times,
    /// A share of one CPU.
    Share,
    /// A number of things.
    Count,
}

impl Unit {
    /// A value as text.
    #[must_use]
    pub fn text(self) -> fn(f64) -> String {
        match self {
            Self::Nanos => text::nanos,
            Self::PerS => text::rate,
            Self::BytesPerS => text::byte_rate,
            Self::Times => text::three_figures,
            Self::Share => |share| format!("{:.0} %", share * 100.0),
            Self::Count => text::whole,
        }
    }
}

/// Where a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown {
    /// In every output.
    Everywhere,
    /// In every output; only on the page if methods are ranked.
    Unranked,
    /// On the page.
    Page,
    /// In no table.
    Nowhere,
}

/// One slice for the statistics.
pub(super) struct Sample<'a> {
    pub(super) placement: Placement,
    pub(super) size_bytes: f64,
    pub(super) subscribers: f64,
    /// Middle of its times.
    pub(super) p50_ns: Option<f64>,
    /// Middle of the floor beside it.
    pub(super) floor_ns: Option<f64>,
    pub(super) figures: &'a Figures,
}

impl Sample<'_> {
    fn rate(&self) -> Option<f64> {
        self.figures.value("messages_per_s")
    }

    /// The floor, unless the CPUs moved within the slice: then it fits neither placement.
    fn still_floor_ns(&self) -> Option<f64> {
        self.floor_ns
            .filter(|_| self.placement != Placement::Changed)
    }

    fn per_floor(&self) -> Option<f64> {
        Some(self.rate()? * self.still_floor_ns()? / 1e9)
    }

    fn to_copy(&self) -> Option<f64> {
        Some(self.rate()? * self.size_bytes / self.figures.value("copy_bytes_per_s")?)
    }

    fn to_bare(&self) -> Option<f64> {
        Some(self.rate()? / self.figures.value("bare_messages_per_s")?)
    }

    fn bytes(&self) -> Option<f64> {
        let given = self.figures.value("bytes_per_s");
        given.or_else(|| Some(self.deliveries()? * self.size_bytes))
    }

    fn deliveries(&self) -> Option<f64> {
        Some(self.rate()? * self.subscribers)
    }
}

/// Origin of the values.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Given by the scenario for each slice, by this name.
    Given,
    /// Calculated for each slice.
    Slice(fn(&Sample<'_>) -> Option<f64>),
    /// Of all samples of a row together.
    Samples(fn(&Percentiles) -> Option<f64>),
    /// Of the whole row.
    Row(fn(&Measured) -> Option<f64>),
}

/// A statistic of a row.
pub struct Statistic {
    /// Its name in files.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Head of its column.
    pub head: &'static str,
    /// What its head means; empty if the head suffices.
    pub meaning: &'static str,
    /// Where its column is shown.
    pub shown: Shown,
    /// Head of the column with the least and the most run, its meaning, and where it is shown.
    pub range: Option<(&'static str, &'static str, Shown)>,
    pub(super) of: Of,
}

/// A statistic that is shown everywhere and has no range.
const fn of(name: &'static str, unit: Unit, head: &'static str, of: Of) -> Statistic {
    Statistic {
        name,
        unit,
        head,
        meaning: "",
        shown: Everywhere,
        range: None,
        of,
    }
}

impl Statistic {
    const fn means(mut self, meaning: &'static str) -> Self {
        self.meaning = meaning;
        self
    }

    const fn on(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    const fn range(mut self, head: &'static str, meaning: &'static str, shown: Shown) -> Self {
        self.range = Some((head, meaning, shown));
        self
    }

    /// Its value in one slice, if it has a value for each.
    pub(super) fn of_slice(&self, sample: &Sample<'_>) -> Option<f64> {
        match self.of {
            Given => sample.figures.value(self.name),
            Slice(of) => of(sample),
            Samples(_) | Row(_) => None,
        }
    }

    /// Its value for a whole row.
    pub(super) fn of_row(&self, measured: &Measured) -> Option<f64> {
        match self.of {
            Given | Slice(_) => measured.spread(self.name).map(|spread| spread.median),
            Samples(of) => of(&measured.distribution.as_ref()?.percentiles),
            Row(of) => of(measured),
        }
    }

    /// Whether each run has a value, so that a row has a spread.
    #[must_use]
    pub fn is_of_runs(&self) -> bool {
        matches!(self.of, Given | Slice(_))
    }
}

impl std::fmt::Debug for Statistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What the least and most column means.
const RUNS: &str = "least and most of the runs";

/// Every statistic, in the order of columns.
pub const STATISTICS: &[Statistic] = &[
    of("p50_ns", Nanos, "p50", Slice(|s| s.p50_ns))
        .means("of the median run")
        .range("p50 runs", "least and most p50 of the runs", Unranked),
    of("p90_ns", Nanos, "p90", Samples(|p| p.p90_ns)).on(Page),
    of("p99_ns", Nanos, "p99", Samples(|p| p.p99_ns)).means("p90 and above are of all samples"),
    of("p99_9_ns", Nanos, "p99.9", Samples(|p| p.p99_9_ns)),
    of("p99_99_ns", Nanos, "p99.99", Samples(|p| p.p99_99_ns)).on(Page),
    of("max_ns", Nanos, "max", Samples(|p| Some(p.max_ns))).on(Unranked),
    of("min_ns", Nanos, "min", Samples(|p| Some(p.min_ns))).on(Nowhere),
    of("mean_ns", Nanos, "mean", Samples(|p| p.mean_ns)).on(Page),
    of(
        "deviation_ns",
        Nanos,
        "deviation",
        Samples(|p| p.deviation_ns),
    )
    .on(Page),
    of("round_trips_per_s", PerS, "by the mean", Samples(by_mean)).on(Nowhere),
    of("late_p99_ns", Nanos, "left late p99", Row(late)).on(Page),
    of(
        "ratio_p50",
        Times,
        "× floor",
        Slice(|s| Some(s.p50_ns? / s.still_floor_ns()?)),
    )
    .means("p50 to that of a bare cache line, median of the runs")
    .range("× runs", RUNS, Everywhere),
    of("count", Count, "samples", Samples(count)).on(Page),
    of("messages_per_s", PerS, "messages", Given)
        .means("published a second by all, median of the runs")
        .range("runs", RUNS, Everywhere),
    of(
        "deliveries_per_s",
        PerS,
        "received",
        Slice(|s| s.deliveries()),
    )
    .means("messages received a second by all subscribers"),
    of("bytes_per_s", BytesPerS, "bytes", Slice(|s| s.bytes()))
        .means("received a second by all subscribers")
        .on(Unranked)
        .range("bytes runs", RUNS, Page),
    of(
        "messages_per_floor_round_trip",
        Times,
        "per floor",
        Slice(|s| s.per_floor()),
    )
    .means("messages in the time of one bare cache-line round trip"),
    of("ratio_to_bare", Times, "× bare", Slice(|s| s.to_bare()))
        .means("messages to those of a bare stream; its ring: docs/method.md")
        .range("× bare runs", RUNS, Page),
    of("bare_messages_per_s", PerS, "bare", Given).on(Page),
    of("ratio_to_copy", Times, "× copy", Slice(|s| s.to_copy()))
        .means("bytes to a copy of as many through a ring's length")
        .on(Unranked),
    of("copy_bytes_per_s", BytesPerS, "copy", Given).on(Page),
    of("floor_p50_ns", Nanos, "floor", Slice(|s| s.floor_ns)).on(Nowhere),
    of("cpu_ns", Nanos, "CPU", Given).means("the server's CPU time for a message"),
    of("busy", Share, "busy", Given).means("share of a CPU that the server used"),
    of("user_busy", Share, "usr", Given)
        .means("share of a CPU that the server used outside of the kernel")
        .on(Nowhere),
    of("system_busy", Share, "sys", Given)
        .means("share of a CPU that the server used in the kernel")
        .on(Nowhere),
    of("softirq_busy", Share, "softirq", Given)
        .means("share of a CPU that all CPUs together spent in soft interrupts")
        .on(Nowhere),
    of("generator_cpu_ns", Nanos, "generator CPU", Given).on(Page),
    of("generator_busy", Share, "generator", Given)
        .means("share of a CPU that the generator used; near 100 % it is the limit"),
    of("closed_count", Count, "closed", Given).means("connections that the server closed"),
    of("unanswered_count", Count, "unanswered", Given),
    of("slices_count", Count, "slices", Row(slices)).on(Page),
    of("disturbed_count", Count, "disturbed", Row(disturbed))
        .means("slices in which other work took a CPU: not counted if their run has others")
        .on(Page),
];

/// The statistic of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Statistic> {
    STATISTICS.iter().find(|statistic| statistic.name == name)
}

/// Round trips one after the other.
fn by_mean(percentiles: &Percentiles) -> Option<f64> {
    percentiles.mean_ns.map(|ns| 1e9 / ns)
}

fn late(measured: &Measured) -> Option<f64> {
    measured.send_delay.as_ref()?.percentiles.p99_ns
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn count(percentiles: &Percentiles) -> Option<f64> {
    Some(percentiles.count as f64)
}

/// Disturbed slices, if there are any.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn disturbed(measured: &Measured) -> Option<f64> {
    (measured.disturbed_count > 0).then_some(measured.disturbed_count as f64)
}

/// Slices of a row of rates.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn slices(measured: &Measured) -> Option<f64> {
    let is_rate = measured.distribution.is_none();
    is_rate.then_some(measured.slices_count as f64)
}
