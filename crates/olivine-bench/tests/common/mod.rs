//! Result files for tests: every kind of row, from samples that follow a formula.

#![allow(dead_code, reason = "each test binary uses its share")]

use olivine_bench::clock::TickClock;
use olivine_bench::kernel::Counts;
use olivine_bench::latency::Latency;
use olivine_bench::machine::Machine;
use olivine_bench::privileges::Privileges;
use olivine_bench::result::file::SCHEMA;
use olivine_bench::result::{
    Collector, Figures, Load, Pair, Parameters, Placement, Published, ResultFile, Row, Slice,
};
use std::sync::LazyLock;

/// Samples around `p50_ns`: most near it, each further nine about three times as long.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds of a second at most"
)]
pub(crate) fn latency(clock: &TickClock, p50_ns: f64, samples: u32) -> Latency {
    let mut latency = Latency::new();
    for n in 0..samples {
        let quantile = (f64::from(n) + 0.5) / f64::from(samples);
        let rare = -(1.0 - quantile).log10();
        let ns = p50_ns
            * (0.85 + 0.5 * quantile * quantile + 0.28 * (3.0_f64.powf(rare) - 1.0).max(0.0) / 3.0);
        latency.record(clock.ticks_for(ns.round().max(1.0) as u64));
    }
    latency
}

/// The ingredients of a row.
pub(crate) struct Kind<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) method: &'a str,
    pub(crate) parameters: Parameters,
    /// Round trip, one way, or messages a second, by the load.
    pub(crate) value: f64,
    pub(crate) load: Load,
    pub(crate) samples: u32,
}

/// Rows of five runs that vary by two percent; the last slice is in another placement.
pub(crate) fn rows(kind: &Kind<'_>) -> Vec<Row> {
    let clock = TickClock::calibrate();
    let floor = latency(&clock, 122.0, 2_000);
    let far_floor = latency(&clock, 480.0, 2_000);
    let delay = latency(&clock, 30.0, kind.samples / 5);
    let mut collector = Collector::new(clock);
    for run in 0..6_u32 {
        let far = run == 5;
        let drift = 1.0 + 0.01 * f64::from(run % 5) - 0.02;
        let factor = if far { 2.6 } else { drift };
        let value = latency(&clock, kind.value.min(1e7) * factor, kind.samples / 5);
        let figures = match kind.load {
            Load::Closed => Figures::round_trips(value),
            Load::Open => Figures::one_way(value, delay.clone()),
            _ => {
                let factor = if far { 0.5 } else { drift };
                let figures = Figures::rate(kind.value * factor);
                if kind.parameters.size_bytes >= 1024 {
                    figures.with("copy_bytes_per_s", 1.2e10)
                } else {
                    figures
                }
            }
        };
        let slice = Slice {
            run: run % 5,
            placement: if far {
                Placement::Far
            } else {
                Placement::SharedL3
            },
            floor: if far { &far_floor } else { &floor },
            at_s: f64::from(run),
            kernel: Counts {
                forced_switches_count: u64::from(run == 4),
                waited_for_cpu_ns: u64::from(run == 4) * 9_000_000,
                ..Counts::default()
            },
            figures: &figures,
        };
        collector.add(&kind.parameters, &slice);
    }
    collector.rows(kind.scenario, kind.load, kind.method, &kind.parameters)
}

/// A file of `results`.
pub(crate) fn file(scenario: &str, results: Vec<Row>) -> ResultFile {
    ResultFile {
        schema: SCHEMA.to_owned(),
        scenario: scenario.to_owned(),
        started_unix_s: 1_795_248_000,
        machine: Machine::look(),
        cpus: vec![0, 1],
        runs: 5,
        seconds_per_variant: 2.0,
        interrupted: false,
        cut_short: false,
        privileges: Privileges::default(),
        measuring_error: None,
        results,
        ratios: Vec::new(),
        left_out: Vec::new(),
    }
}

/// Round trips of many methods, one of which failed and one with a published figure.
pub(crate) fn round_trips() -> ResultFile {
    // Millions of samples: made once for all tests of a program, like the next two.
    static MADE: LazyLock<ResultFile> = LazyLock::new(made_round_trips);
    MADE.clone()
}

fn made_round_trips() -> ResultFile {
    let methods = [
        ("olivine-shm", 150.0),
        ("shared-memory", 240.0),
        ("mapped-file", 255.0),
        ("seqlock-ring", 310.0),
        ("eventfd", 9_800.0),
        ("futex", 34_000.0),
        ("pipe", 11_200.0),
        ("fifo", 11_900.0),
        ("unix-stream", 13_600.0),
        ("unix-datagram", 14_100.0),
        ("tcp-nodelay", 24_000.0),
        ("udp", 22_000.0),
        ("posix-queue", 10_900.0),
        ("zeromq-ipc", 55_000.0),
        ("nng-ipc", 219_000.0),
    ];
    let mut results = Vec::new();
    for (method, value) in methods {
        results.extend(rows(&Kind {
            scenario: "pingpong",
            method,
            parameters: Parameters::pair(32),
            value,
            load: Load::Closed,
            samples: 120_000,
        }));
    }
    results[2].published.push(Published {
        figure: "p50_ns".to_owned(),
        value: 157.0,
        source: "Olive README, 1 K/s".to_owned(),
        machine: "4 cores at 3.5 GHz".to_owned(),
    });
    let reason = "no answer within 20 s <stopped>";
    results.push(Row::failed(
        "pingpong",
        Load::Closed,
        "sysv-queue",
        Parameters::pair(32),
        reason,
    ));
    file("pingpong", results)
}

/// Latency over rate, size, ring size and wait strategy.
pub(crate) fn sweep() -> ResultFile {
    static MADE: LazyLock<ResultFile> = LazyLock::new(made_sweep);
    MADE.clone()
}

fn made_sweep() -> ResultFile {
    let mut results = Vec::new();
    for (wait, cost) in [("spin", 0.0), ("park", 30_000.0)] {
        for size in [32_u64, 256, 4096] {
            for ring in [65_536_u64, 1 << 20, 16 << 20] {
                for rate in [1e3_f64, 1e4, 1e5, 1e6] {
                    let value = 130.0
                        + cost
                        + size as f64 / 12.0
                        + 20.0 * (7.0 - rate.log10())
                        + (ring as f64).log2();
                    results.extend(rows(&Kind {
                        scenario: "latency",
                        method: "olivine-shm",
                        parameters: Parameters {
                            rate_per_s: Some(rate),
                            ring_bytes: Some(ring),
                            wait: Some(wait.to_owned()),
                            ..Parameters::pair(size)
                        },
                        value,
                        load: Load::Open,
                        samples: 20_000,
                    }));
                }
            }
        }
    }
    file("sweep", results)
}

/// Rates: by size and batch, to several subscribers, in a mesh, pair by pair.
pub(crate) fn rates() -> ResultFile {
    static MADE: LazyLock<ResultFile> = LazyLock::new(made_rates);
    MADE.clone()
}

fn made_rates() -> ResultFile {
    let kind = |scenario, method, parameters, value| Kind {
        scenario,
        method,
        parameters,
        value,
        load: Load::Saturated,
        samples: 0,
    };
    let mut results = Vec::new();
    for (method, value) in [
        ("olivine-shm", 3.1e8),
        ("disruptor", 8.7e7),
        ("shaq", 2.3e7),
        ("iceoryx2", 3.0e6),
    ] {
        for size in [32_u64, 256, 8192] {
            let of_size = value / (1.0 + size as f64 / 300.0);
            results.extend(rows(&kind(
                "throughput",
                method,
                Parameters::pair(size),
                of_size,
            )));
        }
    }
    for subscribers_count in [1, 2, 4, 8] {
        let parameters = Parameters {
            subscribers_count,
            oversubscribed: subscribers_count > 1,
            ..Parameters::pair(32)
        };
        let value = 2e8 / f64::from(subscribers_count).sqrt();
        results.extend(rows(&kind("fanout", "olivine-shm", parameters, value)));
    }
    for publishers_count in [1, 2, 4, 6] {
        for subscribers_count in [1, 2, 4, 6] {
            let parameters = Parameters {
                publishers_count,
                subscribers_count,
                oversubscribed: true,
                ..Parameters::pair(128)
            };
            let value =
                2e7 * f64::from(publishers_count).sqrt() / f64::from(subscribers_count).sqrt();
            let mut found = rows(&kind("mesh", "olivine-shm", parameters, value));
            if publishers_count * subscribers_count == 36 {
                let olivine_bench::result::Outcome::Measured(measured) = &mut found[0].outcome
                else {
                    panic!("the row was measured");
                };
                let pairs = (0..6)
                    .flat_map(|publisher| (0..6).map(move |subscriber| (publisher, subscriber)));
                measured.pairs = pairs
                    .map(|(publisher, subscriber)| Pair {
                        publisher,
                        subscriber,
                        messages_per_s: 1.3e6 + 1e4 * f64::from(publisher * 5 + subscriber),
                    })
                    .collect();
            }
            results.extend(found);
        }
    }
    file("rates", results)
}
