//! `olivine demo`: the tool's `sub` and `pub` as two processes, first at full speed, then at a
//! fixed rate.

mod crash;
mod pair;
mod process;

use crate::args::{Common, DemoArgs};
use crate::bench;
use crate::failure::{Failure, Outcome};
use crate::meter::percentile_lines;
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine_bench::cpus;
use olivine_bench::latency::Percentiles;
use olivine_bench::machine::Machine;
use olivine_bench::payload::SIZE_MIN;
use olivine_bench::result::{Placement, Row, floor};
use olivine_bench::tally::Counts;
use olivine_bench::{scenario, text};
use pair::{Pair, PhaseResult};
use serde::Serialize;
use std::ops::ControlFlow;
use std::time::Duration;

/// Total time, unless `--seconds` says otherwise.
const SECONDS: Duration = Duration::from_secs(7);
/// Messages a second of the fixed-rate phase, unless `--rate` says otherwise.
const RATE: f64 = 100_000.0;
/// Share of the time at full speed.
const FULL_SHARE: f64 = 4.0 / 7.0;
/// Time for measuring the floor, in seconds.
const FLOOR_SECONDS: f64 = 0.15;

/// What the JSON output of every demo begins with.
#[derive(Serialize)]
struct Outline {
    ok: bool,
    interrupted: bool,
    size_bytes: u64,
    rate_per_s: f64,
}

/// The JSON output.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    outline: Outline,
    #[serde(flatten)]
    counts: Counts,
    full_speed: PhaseResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    paced: Option<PhaseResult>,
    #[serde(flatten)]
    floor: Option<Floor>,
    machine: Machine,
}

/// The distance of the two CPUs.
#[derive(Serialize)]
struct Floor {
    placement: Placement,
    floor_round_trip_p50_ns: f64,
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, common: Common) -> Outcome {
    if args.size < SIZE_MIN as u64 {
        return Err(Failure::usage(format!(
            "--size {} is too small: a checked message takes {SIZE_MIN} bytes or more, for its \
             number and time stamp",
            args.size
        )));
    }
    if args.crash {
        return crash::run(args, common);
    }
    let time = args.seconds.unwrap_or(SECONDS);
    let rate = args.rate.unwrap_or(RATE);
    // With one CPU the two alternate: a spinning one would only block the other.
    let cpus = if args.cpus.is_some() || cpus::allowed().len() > 1 {
        Some(bench::cpus(args.cpus)?)
    } else {
        None
    };
    let pair = Pair {
        size: args.size,
        capacity: args.capacity,
        cpus,
    };
    let machine = Machine::look();
    let stop = Stop::install()?;
    let full_time = time.mul_f64(FULL_SHARE);
    let paced_time = time.saturating_sub(full_time).max(Duration::from_millis(1));
    let bar = Progress::new(1000);
    bar.phase("full speed");
    let full_speed = pair.run(0, full_time, None, &stop, &bar)?;
    let floor = cpus.filter(|_| !stop.now()).and_then(look_at_floor);
    bar.phase("paced");
    let paced = if stop.now() {
        None
    } else {
        Some(pair.run(1, paced_time, Some(rate), &stop, &bar)?)
    };
    bar.clear();
    let mut counts = full_speed.counts;
    if let Some(paced) = &paced {
        counts.add(&paced.counts);
    }
    let report = Report {
        outline: Outline::of(&counts, args.size, rate, &stop),
        counts,
        full_speed,
        paced,
        floor,
        machine,
    };
    if common.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    report.outline.judge(&stop)
}

impl Outline {
    fn of(counts: &Counts, size_bytes: u64, rate_per_s: f64, stop: &Stop) -> Self {
        Self {
            ok: counts.is_clean(),
            interrupted: stop.interrupted(),
            size_bytes,
            rate_per_s,
        }
    }

    /// How the command ends.
    fn judge(&self, stop: &Stop) -> Outcome {
        if self.ok {
            stop.cut_short()
        } else {
            Err(Failure::BadResult)
        }
    }
}

/// Briefly measures the distance of the CPUs; `None` if that fails.
fn look_at_floor(cpus: (u32, u32)) -> Option<Floor> {
    let setup = bench::setup(cpus, 1, FLOOR_SECONDS).ok()?;
    // On another thread: measuring pins its thread, and this thread stays unpinned.
    let measured = std::thread::spawn(move || {
        scenario::floor::run(&setup, &mut |_| ControlFlow::Continue(()))
    });
    let rows = measured.join().ok()?.ok()?;
    let lines = rows.iter().filter(|row| row.method == floor::LINE);
    let line = lines
        .filter_map(Row::measured)
        .max_by_key(|line| line.slices_count)?;
    Some(Floor {
        placement: line.placement,
        floor_round_trip_p50_ns: line.p50_ns()?.median,
    })
}

impl Report {
    fn text(&self) -> String {
        let mut out = format!(
            "Two processes, {} messages through shared memory, every byte checked{}\n\n",
            text::bytes(self.outline.size_bytes),
            if self.outline.interrupted {
                " (interrupted)"
            } else {
                ""
            },
        );
        out.push_str(&self.full_speed.line("full speed"));
        if let Some(paced) = &self.paced {
            out.push_str(&paced.line("paced"));
            if let Some(latency) = &paced.latency {
                out.push_str(&self.latency(latency));
            }
        }
        out.push_str(&format!(
            "\n{} lost, {} repeated, {} reordered, {} corrupt of {} messages\n\n",
            text::count(self.counts.lost),
            text::count(self.counts.repeated),
            text::count(self.counts.reordered),
            text::count(self.counts.corrupt),
            text::count(self.counts.intact),
        ));
        out.push_str(
            "Latency runs from when a message was due until the other process had it\n\
             checked; row 99 says: 99 of 100 messages took no longer.\n",
        );
        out.push_str(&self.busy());
        if let Some(floor) = &self.floor {
            out.push_str(&format!(
                "The two CPUs: {}; a bare cache line to and fro takes {}. The place\n\
                 of CPUs changes every figure: compare only what was measured together.\n",
                floor.placement,
                text::nanos(floor.floor_round_trip_p50_ns),
            ));
        }
        out.push_str(&self.machine.text());
        out
    }

    /// A line if other processes used the CPUs so much that latencies show it.
    fn busy(&self) -> String {
        let share = self.paced.as_ref().map_or(0.0, PhaseResult::waited_share);
        if share < bench::WAITED_NOTABLY {
            return String::new();
        }
        format!(
            "This machine is busy: for {} % of the paced time one of the two was ready\n\
             and had no CPU. Its latencies mean nothing; try again when it is quiet.\n",
            text::three_figures(share * 100.0),
        )
    }

    fn latency(&self, latency: &Percentiles) -> String {
        format!(
            "\none-way latency at {}, from the intended send time\n{}",
            text::rate(self.outline.rate_per_s),
            percentile_lines(latency)
        )
    }
}
