//! `olivine bench`: runs the scenarios of `olivine-bench` and prints what they found.

mod load;
mod print;

use crate::args::{BenchArgs, Common, MethodArgs, PeerArgs, RingArgs, Scenario};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine::{Config, probe};
use olivine_bench::machine::Machine;
use olivine_bench::payload::SIZE_MIN;
use olivine_bench::scenario::{self, Setup, latency, pingpong, throughput};
use olivine_bench::{BenchError, peer};
use serde::Serialize;
use std::ops::ControlFlow;

/// Runs from which a figure may be quoted.
const RUNS_QUOTABLE: u32 = 5;
/// The word that makes this program the second process of a measurement.
pub(crate) const PEER_COMMAND: &str = "__peer";

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, common: Common) -> Outcome {
    match &args.scenario {
        Scenario::List => list(common),
        Scenario::Http(args) => load::http(args, common),
        Scenario::Tcp(args) => load::tcp(args, common),
        Scenario::Floor(args) => {
            let bench = Bench::new("floor", &args.method)?;
            let result = bench.measure(scenario::floor::run)?;
            bench.report(common, &result, &print::floor(&result))
        }
        Scenario::Pingpong(args) => {
            let mut variants = Vec::new();
            for &size in &args.size {
                for slots in &args.slots {
                    for align in aligns(&args.ring) {
                        let more = format!("{align}&subscribers_max={slots}");
                        let settings = settings(&args.ring, &more)?;
                        let size_bytes = message_size(size)?;
                        variants.push(pingpong::Variant {
                            size_bytes,
                            settings,
                        });
                    }
                }
            }
            let bench = Bench::new("pingpong", &args.method)?;
            let results = bench.measure(|setup, watch| pingpong::run(setup, &variants, watch))?;
            bench.report(common, &results, &print::pingpong(&results))
        }
        Scenario::Throughput(args) => {
            let variants =
                throughput_variants(&args.size, &args.batch, &settings(&args.ring, "")?)?;
            let bench = Bench::new("throughput", &args.method)?;
            let results = bench.measure(|setup, watch| throughput::run(setup, &variants, watch))?;
            bench.report(common, &results, &print::throughput(&results))
        }
        Scenario::Latency(args) => {
            let settings = settings(&args.ring, "")?;
            let size_bytes = message_size(args.size)?;
            let variant = |&rate_per_s| latency::Variant {
                size_bytes,
                rate_per_s,
                settings: settings.clone(),
            };
            let variants: Vec<_> = args.rate.iter().map(variant).collect();
            let bench = Bench::new("latency", &args.method)?;
            let results = bench.measure(|setup, watch| latency::run(setup, &variants, watch))?;
            bench.report(common, &results, &print::latency(&results))
        }
    }
}

pub(crate) use load::serve as serve_load;

/// Runs as the second process of a measurement.
pub(crate) fn serve(args: &PeerArgs) -> Outcome {
    Ok(peer::serve(&args.words, args.cpu)?)
}

/// The CPUs asked for, or the first two allowed.
pub(crate) fn cpus(asked: Option<(u32, u32)>) -> Outcome<(u32, u32)> {
    let allowed = probe::allowed_cpus();
    if let Some((first, second)) = asked {
        for cpu in [first, second] {
            if !allowed.contains(&cpu) {
                let allowed = allowed
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(",");
                return Err(BenchError::Cpu { cpu, allowed }.into());
            }
        }
        return Ok((first, second));
    }
    match allowed.as_slice() {
        [first, second, ..] => Ok((*first, *second)),
        few => Err(BenchError::TooFewCpus { allowed: few.len() }.into()),
    }
}

/// A set-up for `runs` runs of this program with itself.
pub(crate) fn setup(cpus: (u32, u32), runs: u32, seconds: f64) -> Outcome<Setup> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::Failed(
            anyhow::Error::new(error).context("cannot find this program to start it again"),
        )
    })?;
    Ok(Setup {
        program,
        arguments: vec![PEER_COMMAND.to_owned()],
        cpus,
        runs,
        seconds,
    })
}

fn list(common: Common) -> Outcome {
    if common.json {
        let entry =
            |(name, what): &(&str, &str)| serde_json::json!({ "name": name, "measures": what });
        return print_json(&serde_json::json!({
            "scenarios": scenario::LIST.iter().map(entry).collect::<Vec<_>>()
        }));
    }
    let rows = scenario::LIST
        .iter()
        .map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()]);
    print(&table(&["SCENARIO", "MEASURES"], &[], rows.collect()))
}

/// One scenario being measured.
struct Bench {
    name: &'static str,
    setup: Setup,
    machine: Machine,
    stop: Stop,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a, T> {
    scenario: &'static str,
    machine: &'a Machine,
    cpus: (u32, u32),
    runs: u32,
    seconds_per_variant: f64,
    interrupted: bool,
    results: &'a T,
}

impl Bench {
    fn new(name: &'static str, method: &MethodArgs) -> Outcome<Self> {
        let setup = setup(
            cpus(method.cpus)?,
            method.runs,
            method.seconds.as_secs_f64(),
        )?;
        Ok(Self {
            name,
            setup,
            machine: Machine::look(),
            stop: Stop::install()?,
        })
    }

    fn measure<T, E>(
        &self,
        scenario: impl FnOnce(&Setup, scenario::Watch<'_>) -> Result<T, E>,
    ) -> Outcome<T>
    where
        Failure: From<E>,
    {
        let mut bar: Option<Progress> = None;
        let result = scenario(&self.setup, &mut |progress| {
            let bar = bar.get_or_insert_with(|| Progress::new(progress.total));
            bar.phase(self.name);
            bar.show(progress.done, String::new());
            if self.stop.now() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Some(bar) = bar {
            bar.clear();
        }
        Ok(result?)
    }

    fn report<T: Serialize>(&self, common: Common, results: &T, text: &str) -> Outcome {
        let interrupted = self.stop.interrupted();
        if common.json {
            return print_json(&Report {
                scenario: self.name,
                machine: &self.machine,
                cpus: self.setup.cpus,
                runs: self.setup.runs,
                seconds_per_variant: self.setup.seconds,
                interrupted,
                results,
            });
        }
        let mut out = text.to_owned();
        let (first, second) = self.setup.cpus;
        out.push_str(&format!(
            "\n{} runs on CPUs {first} and {second}, two processes, every byte checked{}\n",
            self.setup.runs,
            if interrupted { "; interrupted" } else { "" },
        ));
        if self.setup.runs < RUNS_QUOTABLE {
            out.push_str(&format!(
                "fewer than {RUNS_QUOTABLE} runs: not a figure to quote\n"
            ));
        }
        out.push_str(&self.machine.text());
        print(&out)
    }
}

fn message_size(bytes: u64) -> Outcome<usize> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes >= SIZE_MIN).ok_or_else(|| {
        Failure::usage(format!(
            "--size {bytes} is too small: a checked message takes {SIZE_MIN} bytes or more, for its number and time stamp"
        ))
    })
}

/// The query of the measured channel's URI, checked by the library's own parser.
fn settings(ring: &RingArgs, more: &str) -> Outcome<String> {
    let mut settings = format!("wait={}", ring.wait);
    for (key, value) in [("align", &ring.align), ("capacity", &ring.capacity)] {
        if let Some(value) = value {
            settings.push_str(&format!("&{key}={value}"));
        }
    }
    settings.push_str(more);
    let _checked = Config::parse(&format!("shm://bench?{settings}"))?;
    Ok(settings)
}

/// Where no alignment is asked for, frames are measured packed and each on a cache line of its own.
fn aligns(ring: &RingArgs) -> &'static [&'static str] {
    if ring.align.is_some() {
        &[""]
    } else {
        &["", "&align=64"]
    }
}

/// Every size with every batch; without either, the three that say most.
fn throughput_variants(
    sizes: &[u64],
    batches: &[u16],
    settings: &str,
) -> Outcome<Vec<throughput::Variant>> {
    let variant = |size: u64, batch: u16| {
        let size_bytes = message_size(size)?;
        Ok(throughput::Variant {
            size_bytes,
            batch: usize::from(batch),
            settings: settings.to_owned(),
        })
    };
    if sizes.is_empty() && batches.is_empty() {
        return [(32, 1), (32, 16), (8192, 1)]
            .into_iter()
            .map(|(size, batch)| variant(size, batch))
            .collect();
    }
    let sizes = if sizes.is_empty() { &[32] } else { sizes };
    let batches = if batches.is_empty() { &[1] } else { batches };
    sizes
        .iter()
        .flat_map(|&size| batches.iter().map(move |&batch| (size, batch)))
        .map(|(s, b)| variant(s, b))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_batches_are_crossed_and_have_defaults() {
        let shape = |sizes: &[u64], batches: &[u16]| -> Vec<(usize, usize)> {
            let variants = throughput_variants(sizes, batches, "wait=spin").unwrap();
            variants
                .iter()
                .map(|variant| (variant.size_bytes, variant.batch))
                .collect()
        };
        assert_eq!(shape(&[], &[]), [(32, 1), (32, 16), (8192, 1)]);
        assert_eq!(shape(&[64], &[]), [(64, 1)]);
        assert_eq!(shape(&[], &[4]), [(32, 4)]);
        assert_eq!(
            shape(&[16, 32], &[1, 2]),
            [(16, 1), (16, 2), (32, 1), (32, 2)]
        );
        assert!(throughput_variants(&[8], &[], "").is_err());
    }

    #[test]
    fn settings_of_the_measured_channel_are_checked_before_anything_starts() {
        let ring = |wait: &str, align: Option<&str>| RingArgs {
            wait: wait.to_owned(),
            align: align.map(str::to_owned),
            capacity: None,
        };
        assert_eq!(
            settings(&ring("spin", Some("64")), "").unwrap(),
            "wait=spin&align=64"
        );
        assert!(matches!(
            settings(&ring("nap", None), ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(
            settings(&ring("spin", Some("3")), ""),
            Err(Failure::Usage(_))
        ));
        assert!(matches!(
            settings(&ring("spin", None), "&subscribers_max=9999"),
            Err(Failure::Usage(_))
        ));
    }
}
