//! From slices to rows: the results of each slice, grouped by the placement of the CPUs.

use super::statistic::{STATISTICS, Sample};
use super::{
    ClockAhead, Distribution, Load, Measured, Outcome, Pair, Parameters, Placement, Row, Run, Worst,
};
use crate::clock::TickClock;
use crate::kernel::Counts;
use crate::latency::Latency;
use crate::spread::Spread;
use crate::worst::Tail;
use std::collections::{BTreeMap, BTreeSet};

/// What one slice gave.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Round trips, or one-way times from the intended send time.
    pub times: Option<Latency>,
    /// Open load: from the intended send time to the commit.
    pub send_delay: Option<Latency>,
    /// Other values, by the names of their statistics.
    pub values: Vec<(&'static str, f64)>,
    /// Open load: bounds of how far the receiver's clock is ahead.
    pub clock_ahead: Option<ClockAhead>,
    /// A mesh, pair by pair.
    pub pairs: Vec<Pair>,
    /// The worst messages, if they are kept.
    pub worst: Option<Tail>,
}

impl Figures {
    /// A slice of round trips.
    #[must_use]
    pub fn round_trips(times: Latency) -> Self {
        Self {
            times: Some(times),
            ..Self::default()
        }
    }

    /// A slice of one-way times, and how late the messages left.
    #[must_use]
    pub fn one_way(times: Latency, send_delay: Latency) -> Self {
        Self {
            times: Some(times),
            send_delay: Some(send_delay),
            ..Self::default()
        }
    }

    /// A slice at full speed.
    #[must_use]
    pub fn rate(messages_per_s: f64) -> Self {
        Self::default().with("messages_per_s", messages_per_s)
    }

    /// The same with another value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        self.values.push((name, value));
        self
    }

    /// A value by the name of its statistic.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let found = self.values.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// One slice with its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Number of its run, from 0.
    pub run: u32,
    /// Where the CPUs were.
    pub placement: Placement,
    /// Round trips of a bare cache line just before and after; empty where there is no floor to it.
    pub floor: &'a Latency,
    /// Its end, in seconds from the start of the measurement.
    pub at_s: f64,
    /// What the kernel counted during it.
    pub kernel: Counts,
    /// What was measured.
    pub figures: &'a Figures,
}

#[cfg(test)]
impl<'a> Slice<'a> {
    /// A slice in which nothing happened, at the second of its run's number.
    pub(crate) fn of(
        run: u32,
        placement: Placement,
        floor: &'a Latency,
        figures: &'a Figures,
    ) -> Self {
        Self {
            run,
            placement,
            floor,
            at_s: f64::from(run),
            kernel: Counts::default(),
            figures,
        }
    }
}

/// Collects the slices of one row's variant; returns a row for each placement found.
#[derive(Debug)]
pub struct Collector {
    clock: TickClock,
    session: Option<String>,
    groups: BTreeMap<Placement, Group>,
}

/// Values of slices, each with its run, by the names of their statistics.
type Values = BTreeMap<&'static str, Vec<(u32, f64)>>;

/// Whether other work took a CPU from two sides that never give theirs away: their rate is that of
/// the other work, too. Times are never left out: their tail is what they are measured for.
fn is_disturbed(parameters: &Parameters, slice: &Slice<'_>) -> bool {
    slice.figures.times.is_none()
        && parameters.wait.as_deref() == Some("spin")
        && !parameters.oversubscribed
        && (slice.kernel.forced_switches_count > 0 || slice.kernel.stolen_ms > 0)
}

/// Slices of one placement.
#[derive(Debug, Default)]
struct Group {
    slices: u64,
    floor: Latency,
    times: Latency,
    send_delay: Latency,
    kernel: Counts,
    /// Longest sample in ticks, with its slice.
    worst: Option<(u64, f64, u32, Counts)>,
    values: Values,
    /// The same of slices that were disturbed: used for a run that has no others.
    disturbed: Values,
    disturbed_count: u64,
    series: Vec<(u32, f64, f64)>,
    clock_ahead: Option<ClockAhead>,
    tail: Option<Tail>,
    /// Rates of each pair of a mesh in each slice.
    pairs: BTreeMap<(u32, u32), Vec<f64>>,
}

impl Collector {
    /// An empty collector; `clock` converts the recorders' ticks.
    #[must_use]
    pub fn new(clock: TickClock) -> Self {
        Self {
            clock,
            session: None,
            groups: BTreeMap::new(),
        }
    }

    /// Sets the session in which the slices are measured, interleaved with those of other
    /// collectors.
    pub fn set_session(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// Whether nothing was collected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a slice of a variant with these parameters.
    #[allow(clippy::cast_precision_loss, reason = "sizes stay far below 2^52")]
    pub fn add(&mut self, parameters: &Parameters, slice: &Slice<'_>) {
        let middle_ns = |times: &Latency| {
            (times.count() > 0).then(|| times.middle_ticks() / self.clock.ticks_per_ns())
        };
        let figures = slice.figures;
        let sample = Sample {
            placement: slice.placement,
            size_bytes: parameters.size_bytes as f64,
            subscribers: f64::from(parameters.subscribers_count),
            p50_ns: match &figures.times {
                Some(times) => middle_ns(times),
                None => figures.value("p50_ns"),
            },
            floor_ns: middle_ns(slice.floor),
            figures,
        };
        let group = self.groups.entry(slice.placement).or_default();
        group.slices += 1;
        let is_disturbed = is_disturbed(parameters, slice);
        group.disturbed_count += u64::from(is_disturbed);
        let into = if is_disturbed {
            &mut group.disturbed
        } else {
            &mut group.values
        };
        group.floor.merge(slice.floor);
        group.kernel = group.kernel.plus(&slice.kernel);
        for statistic in STATISTICS {
            if let Some(value) = statistic.of_slice(&sample) {
                let values = into.entry(statistic.name).or_default();
                values.push((slice.run, value));
            }
        }
        let tenths = |value: f64, of: f64| (value * of).round() / of;
        let figure = sample.p50_ns;
        let figure = figure.or_else(|| figures.value("messages_per_s"));
        let point = |value| (slice.run, tenths(slice.at_s, 1e3), tenths(value, 10.0));
        group.series.extend(figure.map(point));
        if let Some(times) = figures.times.as_ref().filter(|times| times.count() > 0) {
            group.times.merge(times);
            let longest = times.max_ticks();
            if group.worst.is_none_or(|(ticks, ..)| longest > ticks) {
                group.worst = Some((longest, slice.at_s, slice.run, slice.kernel));
            }
        }
        figures
            .send_delay
            .iter()
            .for_each(|late| group.send_delay.merge(late));
        let bounds = group.clock_ahead.into_iter().chain(figures.clock_ahead);
        group.clock_ahead = bounds.reduce(ClockAhead::or);
        if let Some(worst) = &figures.worst {
            let tail = group.tail.get_or_insert_default();
            tail.join(worst.clone());
        }
        for pair in &figures.pairs {
            let rates = group.pairs.entry((pair.publisher, pair.subscriber));
            rates.or_default().push(pair.messages_per_s);
        }
    }

    /// The rows, one for each placement, in the order same core, shared L3, far apart, changed.
    #[must_use]
    pub fn rows(
        &self,
        scenario: &str,
        load: Load,
        method: &str,
        parameters: &Parameters,
    ) -> Vec<Row> {
        let groups = self.groups.iter();
        let sleeps = parameters.sleeps();
        let row = |(&placement, group): (&Placement, &Group)| Row {
            scenario: scenario.to_owned(),
            load,
            method: method.to_owned(),
            lacks: String::new(),
            parameters: parameters.clone(),
            outcome: Outcome::Measured(Box::new(Measured {
                placement,
                session: self.session.clone(),
                negative_count: (load == Load::Open).then(|| group.times.negative_count()),
                ..group.measured(&self.clock, sleeps)
            })),
            published: Vec::new(),
        };
        groups.map(row).collect()
    }
}

impl Group {
    #[allow(clippy::cast_precision_loss, reason = "durations stay far below 2^52")]
    fn measured(&self, clock: &TickClock, sleeps: bool) -> Measured {
        let worst = self.worst.map(|(ticks, at_s, run, kernel)| {
            let ns = (ticks as f64 / clock.ticks_per_ns() * 10.0).round() / 10.0;
            Worst {
                ns,
                at_s: (at_s * 1e3).round() / 1e3,
                run,
                cause: kernel.likely_cause(ns, sleeps),
                kernel,
            }
        });
        let pairs = self
            .pairs
            .iter()
            .filter_map(|(&(publisher, subscriber), rates)| {
                Some(Pair {
                    publisher,
                    subscriber,
                    messages_per_s: Spread::of(rates)?.median,
                })
            });
        let distribution = Distribution::of(&self.times, clock);
        let of_slices = self.values();
        let spreads = of_slices
            .iter()
            .filter_map(|(name, values)| Some(((*name).to_owned(), Spread::over_runs(values)?)));
        let mut values: BTreeMap<String, Spread> = spreads.collect();
        if distribution
            .as_ref()
            .is_some_and(|found| found.percentiles.p50_ns.is_none())
        {
            values.remove("p50_ns");
        }
        Measured {
            placement: Placement::Changed,
            slices_count: self.slices,
            disturbed_count: self.disturbed_count,
            session: None,
            values,
            distribution,
            send_delay: Distribution::of(&self.send_delay, clock),
            floor: self.floor.percentiles(clock),
            runs: runs(&of_slices),
            series: self.series.clone(),
            worst,
            worst_messages: self
                .tail
                .clone()
                .map(|tail| tail.report(&self.times, clock)),
            kernel: self.kernel,
            clock_ahead: self.clock_ahead,
            negative_count: None,
            pairs: pairs.collect(),
        }
    }

    /// The values of the undisturbed slices of each run, or of all its slices if it has no others.
    fn values(&self) -> Values {
        let mut values = self.values.clone();
        for (name, disturbed) in &self.disturbed {
            let kept = values.entry(name).or_default();
            let runs: BTreeSet<u32> = kept.iter().map(|(run, _)| *run).collect();
            kept.extend(disturbed.iter().filter(|(run, _)| !runs.contains(run)));
        }
        values
    }
}

fn runs(values: &Values) -> Vec<Run> {
    let mut runs: BTreeMap<u32, Run> = BTreeMap::new();
    for (name, values) in values {
        for (run, median) in Spread::medians_of_runs(values) {
            let of_run = runs.entry(run).or_insert_with(|| Run {
                run,
                ..Run::default()
            });
            of_run.values.insert((*name).to_owned(), median);
        }
    }
    runs.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Cause;

    fn recorder(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        values.into_iter().for_each(|value| latency.record(value));
        latency
    }

    #[test]
    fn disturbed_slices_are_left_out_where_a_run_has_others() {
        let mut collector = Collector::new(TickClock::calibrate());
        let parameters = Parameters {
            wait: Some("spin".to_owned()),
            ..Parameters::pair(32)
        };
        let floor = recorder([100; 50]);
        // Run 0 has one slice that is not disturbed, run 1 has none.
        for (run, rate, forced) in [(0, 10.0, 0), (0, 2.0, 1), (0, 2.0, 3), (1, 4.0, 1)] {
            let kernel = Counts {
                forced_switches_count: forced,
                ..Counts::default()
            };
            let figures = Figures::rate(rate);
            let slice = Slice::of(run, Placement::SharedL3, &floor, &figures);
            collector.add(&parameters, &Slice { kernel, ..slice });
        }
        let rows = collector.rows("throughput", Load::Saturated, "x", &parameters);
        let found = rows[0].measured().unwrap();
        assert_eq!((found.slices_count, found.disturbed_count), (4, 3));
        let rates = found.runs.iter().map(|run| run.values["messages_per_s"]);
        assert_eq!(rates.collect::<Vec<_>>(), [10.0, 4.0]);
    }

    #[test]
    fn slices_are_grouped_by_placement_and_runs_keep_their_numbers() {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        let floor = recorder([100; 50]);
        let places = [Placement::SharedL3, Placement::SharedL3, Placement::Far];
        for (run, placement) in (0_u32..).zip(places) {
            let base = 200 + u64::from(run) * 100;
            let samples = recorder((0..1000).map(|n| base + n % 3));
            let figures = Figures::round_trips(samples);
            let mut slice = Slice::of(run, placement, &floor, &figures);
            slice.kernel.forced_switches_count = 1;
            collector.add(&Parameters::pair(32), &slice);
        }
        let rows = collector.rows(
            "pingpong",
            Load::Closed,
            "olivine-shm",
            &Parameters::pair(32),
        );
        assert_eq!(rows.len(), 2);
        let near = rows[0].measured().unwrap();
        assert_eq!(
            (near.placement, near.slices_count),
            (Placement::SharedL3, 2)
        );
        let session = |row: &Row| row.measured().unwrap().session.clone();
        assert!(session(&rows[0]).is_none() && !rows[0].took_turns_with(&rows[1]));
        collector.set_session("one");
        let again = collector.rows("pingpong", Load::Closed, "pipe", &Parameters::pair(32));
        assert!(again[0].took_turns_with(&again[1]) && !again[0].took_turns_with(&rows[0]));
        assert_eq!(near.distribution.as_ref().unwrap().percentiles.count, 2000);
        assert_eq!(
            near.runs.iter().map(|run| run.run).collect::<Vec<_>>(),
            [0, 1]
        );
        let series = near.series.iter().map(|&(run, at_s, _)| (run, at_s));
        assert!(series.eq([(0, 0.0), (1, 1.0)]), "{:?}", near.series);
        let ratio = near.spread("ratio_p50").unwrap();
        assert!(
            (ratio.min - 2.0).abs() < 0.05 && (ratio.max - 3.0).abs() < 0.05,
            "{ratio:?}"
        );
        let worst = near.worst.as_ref().unwrap();
        assert_eq!(
            (worst.run, worst.at_s, worst.cause),
            (1, 1.0, Cause::Preempted)
        );
        assert_eq!(near.kernel.forced_switches_count, 2);
        assert!(near.spread("messages_per_s").is_none() && near.send_delay.is_none());
    }

    #[test]
    fn p50_of_a_row_is_that_of_its_median_run() {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        let floor = recorder([100; 50]);
        for (run, samples, base_ns) in [(0, 10_000, 100_000), (1, 100, 300_000), (2, 100, 500_000)]
        {
            let ticks = clock.ticks_for(base_ns);
            let samples = recorder((0..samples).map(|n| ticks + n % 3));
            let figures = Figures::round_trips(samples);
            let slice = Slice::of(run, Placement::Far, &floor, &figures);
            collector.add(&Parameters::pair(32), &slice);
        }
        let rows = collector.rows("pingpong", Load::Closed, "pipe", &Parameters::pair(32));
        let measured = rows[0].measured().unwrap();
        let of_samples = measured.distribution.as_ref().unwrap().percentiles.p50_ns;
        assert!(of_samples.unwrap() < 110e3, "{of_samples:?}");
        let p50 = measured.p50_ns().unwrap();
        for (found, expected) in [(p50.min, 100e3), (p50.median, 300e3), (p50.max, 500e3)] {
            assert!((found / expected - 1.0).abs() < 0.02, "{p50:?}");
        }
    }

    #[test]
    fn a_rate_counts_deliveries_and_is_compared_with_copying() {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        let floor = recorder([clock.ticks_for(100_000); 50]);
        let parameters = Parameters {
            subscribers_count: 4,
            ..Parameters::pair(8000)
        };
        for run in 0..3 {
            let figures = Figures::rate(1e6).with("copy_bytes_per_s", 16e9);
            let slice = Slice::of(run, Placement::Changed, &floor, &figures);
            collector.add(&parameters, &slice);
        }
        let rows = collector.rows("fanout", Load::Saturated, "olivine-shm", &parameters);
        let measured = rows[0].measured().unwrap();
        let median = |name: &str| measured.spread(name).map(|spread| spread.median);
        assert_eq!(median("deliveries_per_s"), Some(4e6));
        assert_eq!(median("bytes_per_s"), Some(32e9));
        assert_eq!(median("ratio_to_copy"), Some(0.5));
        let per_floor = median("messages_per_floor_round_trip");
        assert_eq!(per_floor, None, "the CPUs moved");
        assert!(measured.worst.is_none() && measured.distribution.is_none());
    }
}
