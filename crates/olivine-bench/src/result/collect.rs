//! From slices to rows: the results of each slice, grouped by the placement of the CPUs.

use super::{Distribution, Load, Measured, Outcome, Parameters, Placement, Row, Run, Worst};
use crate::clock::TickClock;
use crate::kernel::Counts;
use crate::latency::Latency;
use crate::spread::Spread;
use std::collections::BTreeMap;

/// The samples of one slice.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Figures<'a> {
    /// Closed load: round trips.
    RoundTrips(&'a Latency),
    /// Open load: latencies from the planned time, and the delay of each send.
    OneWay {
        /// From the intended send time to the check.
        one_way: &'a Latency,
        /// From the intended send time to the commit.
        send_delay: &'a Latency,
    },
    /// Saturated load: a rate, and the rate of copying as many bytes measured beside it.
    Rate {
        /// Messages a second, by all publishers together.
        messages_per_s: f64,
        /// Bytes a second of a copy, where the two are compared.
        copy_bytes_per_s: Option<f64>,
    },
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
    pub figures: Figures<'a>,
}

/// Collects the slices of one row's variant; returns a row for each placement found.
#[derive(Debug)]
pub struct Collector {
    clock: TickClock,
    session: Option<String>,
    groups: BTreeMap<Placement, Group>,
}

/// Slices of one placement.
#[derive(Debug, Default)]
struct Group {
    slices: u64,
    floor: Latency,
    round_trip: Latency,
    one_way: Latency,
    send_delay: Latency,
    kernel: Counts,
    /// Longest sample in ticks, with its slice.
    worst: Option<(u64, f64, u32, Counts)>,
    /// Figures of slices, each with its run.
    p50_ns: Vec<(u32, f64)>,
    floor_ns: Vec<(u32, f64)>,
    rates: Vec<(u32, f64)>,
    ratios: Vec<(u32, f64)>,
    copies: Vec<(u32, f64)>,
    to_copy: Vec<(u32, f64)>,
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

    /// Adds a slice of messages of `size_bytes`.
    #[allow(clippy::cast_precision_loss, reason = "sizes stay far below 2^52")]
    pub fn add(&mut self, size_bytes: u64, slice: &Slice<'_>) {
        let ns = |ticks: f64| ticks / self.clock.ticks_per_ns();
        let group = self.groups.entry(slice.placement).or_default();
        let floor_ns = (slice.floor.count() > 0).then(|| ns(slice.floor.middle_ticks()));
        group.slices += 1;
        group.floor.merge(slice.floor);
        group.kernel = group.kernel.plus(&slice.kernel);
        group.floor_ns.extend(floor_ns.map(|ns| (slice.run, ns)));
        let longest = match slice.figures {
            Figures::RoundTrips(round_trips) => {
                group.round_trip.merge(round_trips);
                Some(round_trips)
            }
            Figures::OneWay {
                one_way,
                send_delay,
            } => {
                group.one_way.merge(one_way);
                group.send_delay.merge(send_delay);
                Some(one_way)
            }
            Figures::Rate {
                messages_per_s,
                copy_bytes_per_s,
            } => {
                group.rates.push((slice.run, messages_per_s));
                let ratio = floor_ns.map(|ns| (slice.run, messages_per_s * ns / 1e9));
                group.ratios.extend(ratio);
                if let Some(copy) = copy_bytes_per_s {
                    group.copies.push((slice.run, copy));
                    let bytes = messages_per_s * size_bytes as f64;
                    group.to_copy.push((slice.run, bytes / copy));
                }
                None
            }
        };
        if let Some(samples) = longest.filter(|samples| samples.count() > 0) {
            let p50_ns = ns(samples.middle_ticks());
            group.p50_ns.push((slice.run, p50_ns));
            let ratio = floor_ns.map(|floor_ns| (slice.run, p50_ns / floor_ns));
            group.ratios.extend(ratio);
            let longest = samples.max_ticks();
            if group.worst.is_none_or(|(ticks, ..)| longest > ticks) {
                group.worst = Some((longest, slice.at_s, slice.run, slice.kernel));
            }
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
        let row = |(&placement, group): (&Placement, &Group)| Row {
            scenario: scenario.to_owned(),
            load,
            method: method.to_owned(),
            lacks: String::new(),
            parameters: parameters.clone(),
            outcome: Outcome::Measured(Box::new(Measured {
                session: self.session.clone(),
                ..group.measured(&self.clock, placement, parameters)
            })),
            published: Vec::new(),
        };
        groups.map(row).collect()
    }
}

impl Group {
    #[allow(
        clippy::cast_precision_loss,
        reason = "durations and sizes stay far below 2^52"
    )]
    fn measured(
        &self,
        clock: &TickClock,
        placement: Placement,
        parameters: &Parameters,
    ) -> Measured {
        let rates = Spread::over_runs(&self.rates);
        let deliveries = rates.map(|rate| rate.median * f64::from(parameters.subscribers_count));
        // If the CPUs moved within a slice, the floor around it fits neither placement.
        let still = placement != Placement::Changed;
        let ratio = Spread::over_runs(&self.ratios).filter(|_| still);
        let sleeps = !matches!(parameters.wait.as_deref(), Some("spin" | "yield"));
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
        Measured {
            placement,
            slices_count: self.slices,
            session: None,
            round_trip: Distribution::of(&self.round_trip, clock),
            one_way: Distribution::of(&self.one_way, clock),
            send_delay: Distribution::of(&self.send_delay, clock),
            messages_per_s: rates,
            deliveries_per_s: deliveries,
            bytes_per_s: deliveries.map(|rate| rate * parameters.size_bytes as f64),
            floor_round_trip: self.floor.percentiles(clock),
            ratio_p50: ratio.filter(|_| !self.p50_ns.is_empty()),
            messages_per_floor_round_trip: ratio.filter(|_| rates.is_some()),
            copy_bytes_per_s: Spread::over_runs(&self.copies),
            ratio_to_copy: Spread::over_runs(&self.to_copy),
            runs: self.runs(),
            worst,
            kernel: self.kernel,
            clock_ahead: None,
            negative_count: (self.one_way.count() > 0).then(|| self.one_way.negative_count()),
            pairs: Vec::new(),
        }
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: BTreeMap<u32, Run> = BTreeMap::new();
        let mut of = |slices: &[(u32, f64)], set: fn(&mut Run, f64)| {
            for (run, median) in Spread::medians_of_runs(slices) {
                let empty = Run {
                    run,
                    p50_ns: None,
                    messages_per_s: None,
                    floor_p50_ns: None,
                };
                set(runs.entry(run).or_insert(empty), median);
            }
        };
        of(&self.p50_ns, |run, median| run.p50_ns = Some(median));
        of(&self.rates, |run, median| run.messages_per_s = Some(median));
        of(&self.floor_ns, |run, median| {
            run.floor_p50_ns = Some(median);
        });
        runs.into_values().collect()
    }
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
    fn slices_are_grouped_by_placement_and_runs_keep_their_numbers() {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        let floor = recorder([100; 50]);
        let places = [Placement::SharedL3, Placement::SharedL3, Placement::Far];
        for (run, placement) in (0_u32..).zip(places) {
            let base = 200 + u64::from(run) * 100;
            let samples = recorder((0..1000).map(|n| base + n % 3));
            collector.add(
                32,
                &Slice {
                    run,
                    placement,
                    floor: &floor,
                    at_s: f64::from(run),
                    kernel: Counts {
                        forced_switches_count: 1,
                        ..Counts::default()
                    },
                    figures: Figures::RoundTrips(&samples),
                },
            );
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
        assert_eq!(near.round_trip.as_ref().unwrap().percentiles.count, 2000);
        assert_eq!(
            near.runs.iter().map(|run| run.run).collect::<Vec<_>>(),
            [0, 1]
        );
        let ratio = near.ratio_p50.unwrap();
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
        assert!(near.messages_per_s.is_none() && near.one_way.is_none());
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
            collector.add(
                32,
                &Slice {
                    run,
                    placement: Placement::Far,
                    floor: &floor,
                    at_s: 0.0,
                    kernel: Counts::default(),
                    figures: Figures::RoundTrips(&samples),
                },
            );
        }
        let rows = collector.rows("pingpong", Load::Closed, "pipe", &Parameters::pair(32));
        let measured = rows[0].measured().unwrap();
        let of_samples = measured.round_trip.as_ref().unwrap().percentiles.p50_ns;
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
        for run in 0..3 {
            let figures = Figures::Rate {
                messages_per_s: 1e6,
                copy_bytes_per_s: Some(16e9),
            };
            let slice = Slice {
                run,
                placement: Placement::Changed,
                floor: &floor,
                at_s: 0.0,
                kernel: Counts::default(),
                figures,
            };
            collector.add(8000, &slice);
        }
        let parameters = Parameters {
            subscribers_count: 4,
            ..Parameters::pair(8000)
        };
        let rows = collector.rows("fanout", Load::Saturated, "olivine-shm", &parameters);
        let measured = rows[0].measured().unwrap();
        assert_eq!(measured.deliveries_per_s, Some(4e6));
        assert_eq!(measured.bytes_per_s, Some(32e9));
        assert_eq!(measured.ratio_to_copy.unwrap().median, 0.5);
        assert_eq!(
            measured.messages_per_floor_round_trip, None,
            "the CPUs moved"
        );
        assert!(measured.worst.is_none() && measured.distribution().is_none());
    }
}
