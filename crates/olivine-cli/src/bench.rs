//! `olivine bench`: runs the scenarios of `olivine-bench` and prints the results.

mod compare;
mod far;
pub(crate) mod files;
mod load;
mod measure;
mod print;
mod report;
mod rivals;
mod selfcheck;
mod sweep;
mod variants;

use crate::args::{BenchArgs, Common, ManyArgs, MethodArgs, PeerArgs, Scenario};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use measure::{Bench, Found};
use olivine::Config;
use olivine_bench::cpus;
use olivine_bench::method;
use olivine_bench::privileges::Privileges;
use olivine_bench::result::file::RUNS_QUOTABLE;
use olivine_bench::rival::Program;
use olivine_bench::scenario::throughput::OWN;
use olivine_bench::scenario::{self, Setup, Variant, latency, mesh, pingpong, throughput};
use olivine_bench::{BenchError, peer, twice};
use std::path::Path;
use std::time::Duration;
use variants::{aligns, fits, method_variants, settings, throughput_variants, variant};

/// Default bytes of a message.
const DEFAULT_SIZE: u64 = 32;
/// The command of the second process of a measurement.
pub(crate) const PEER_COMMAND: &str = "__peer";
/// Seconds for each method if all are measured.
const ALL_SECONDS: f64 = 1.0;
/// Time limit on a busy machine: then later runs are left out.
const ALL_BUDGET: Duration = Duration::from_secs(48);
/// Share of time without a CPU above which other work of the machine affects latencies.
pub(crate) const WAITED_NOTABLY: f64 = 0.02;
/// Selects every built-in method.
const ALL: &str = "all";

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, common: Common) -> Outcome {
    let Some(scenario) = &args.scenario else {
        let method = MethodArgs {
            cpus: None,
            runs: RUNS_QUOTABLE,
            seconds: Duration::from_secs_f64(ALL_SECONDS),
            fifo: false,
            mlock: false,
            save: args.save.clone(),
        };
        let names = [ALL.to_owned()];
        let variants = method_variants(&names, &[DEFAULT_SIZE], "")?;
        let bench = Bench::new("pingpong", &method)?.within(ALL_BUDGET);
        return compared(bench, common, pingpong::run, &variants, &[]);
    };
    match scenario {
        Scenario::List => list(common),
        Scenario::Http(args) => load::http(args, common),
        Scenario::Tcp(args) => load::tcp(args, common),
        Scenario::Compare(args) => compare::run(args, common),
        Scenario::Report(args) => report::run(args, common),
        Scenario::Selfcheck(args) => selfcheck::run(args, common),
        Scenario::Floor(args) => {
            let bench = Bench::new("floor", &args.method)?;
            let found = Found {
                floor: Some(bench.measure(scenario::floor::run)?),
                ..Found::default()
            };
            bench.report(common, found)
        }
        Scenario::Pingpong(args) => {
            let mut variants = Vec::new();
            if args.method.is_empty() {
                let name = [format!("olivine-{}", args.ring.wait())];
                for slots in &args.slots {
                    for align in aligns(&args.ring) {
                        let more = format!("{align}&subscribers_max={slots}");
                        let settings = settings(&args.ring, &more)?;
                        variants.extend(method_variants(&name, &args.size, &settings)?);
                    }
                }
            } else {
                fits(&args.ring, &args.method)?;
                let settings = settings(&args.ring, "")?;
                variants = method_variants(&args.method, &args.size, &settings)?;
            }
            let rivals = programs(args.rivals.as_deref())?;
            let bench = Bench::new("pingpong", &args.method_args)?;
            compared(bench, common, pingpong::run, &variants, &rivals)
        }
        Scenario::Throughput(args) => {
            let rivals = programs(args.rivals.as_deref())?;
            fits(&args.ring, &args.method)?;
            let settings = settings(&args.ring, "")?;
            let variants = throughput_variants(&args.method, &args.size, &args.batch, &settings)?;
            let bench = Bench::new("throughput", &args.method_args)?;
            compared(bench, common, throughput::run, &variants, &rivals)
        }
        Scenario::Fanout(args) => many(common, "fanout", &[1], &args.many, &[1, 2, 4, 8]),
        Scenario::Mesh(args) => many(common, "mesh", &args.publishers, &args.many, &[6]),
        Scenario::Sweep(args) => sweep::run(args, common),
        Scenario::Bridge(args) => far::run(args, common),
        Scenario::Latency(args) => {
            let mut variants = Vec::new();
            for align in aligns(&args.ring) {
                let settings = settings(&args.ring, align)?;
                for &rate_per_s in &args.rate {
                    let mut variant = variant(OWN, args.size, &settings)?;
                    variant.parameters.rate_per_s = Some(rate_per_s);
                    variants.push(variant);
                }
            }
            let bench = Bench::new("latency", &args.method)?;
            let found = bench.measure_twice(latency::run, &variants)?;
            bench.report(common, found)
        }
    }
}

/// The programs of rivals in `folder`, if requested.
fn programs(folder: Option<&Path>) -> Outcome<Vec<Program>> {
    Ok(match folder {
        Some(folder) => Program::find(folder)?,
        None => Vec::new(),
    })
}

/// Measures variants of a scenario, and then `rivals` with the same sizes and batches.
fn compared(
    bench: Bench,
    common: Common,
    scenario: twice::Scenario,
    variants: &[Variant],
    rivals: &[Program],
) -> Outcome {
    let mut found = bench.measure_twice(scenario, variants)?;
    found.rows.extend(rivals::measure(&bench, rivals, variants));
    bench.report(common, found)
}

/// One channel with several participants on it.
fn many(
    common: Common,
    name: &'static str,
    publishers: &[u32],
    args: &ManyArgs,
    default_subscribers: &[u32],
) -> Outcome {
    let capacity = args.capacity.as_ref();
    let capacity = capacity.map_or_else(String::new, |bytes| format!("&capacity={bytes}"));
    let settings = format!("wait={}{capacity}", args.wait);
    let _checked = Config::parse(&format!("shm://bench?{settings}"))?;
    let mut bench = Bench::new(name, &args.method)?;
    let subscribers = if args.subscribers.is_empty() {
        default_subscribers
    } else {
        &args.subscribers
    };
    let mut variants = Vec::new();
    for &size in &args.size {
        for &batch in &args.batch {
            for &publishers in publishers {
                for &subscribers in subscribers {
                    let mut variant = variant(OWN, size, &settings)?;
                    let parameters = &mut variant.parameters;
                    parameters.batch_count = u64::from(batch);
                    parameters.wait = Some(args.wait.clone());
                    parameters.publishers_count = publishers;
                    parameters.subscribers_count = subscribers;
                    let wanted = (publishers + subscribers) as usize;
                    parameters.oversubscribed = wanted > bench.setup.allowed.len();
                    variants.push(variant);
                }
            }
        }
    }
    bench.place(variants.iter().map(|variant| &variant.parameters))?;
    let rows = bench.measure(|setup, watch| {
        let found = if name == "fanout" {
            mesh::fanout(setup, &variants, watch)?
        } else {
            mesh::mesh(setup, &variants, watch)?
        };
        Ok::<_, BenchError>(found.concat())
    })?;
    bench.report(common, rows.into())
}

pub(crate) use load::serve as serve_load;

/// Runs as the second process of a measurement.
pub(crate) fn serve(args: &PeerArgs) -> Outcome {
    let methods = if args.self_check {
        method::SELF_CHECK
    } else {
        method::BUILT_IN
    };
    Ok(peer::serve(&args.words, args.cpu, methods)?)
}

/// The given CPUs, or the first two allowed.
pub(crate) fn cpus(asked: Option<(u32, u32)>) -> Outcome<(u32, u32)> {
    let allowed = cpus::allowed();
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

/// Settings for runs of this program with itself.
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
        allowed: cpus::allowed(),
        runs,
        seconds,
        privileges: Privileges::default(),
        methods: method::BUILT_IN,
    })
}

fn list(common: Common) -> Outcome {
    if common.json {
        let entry =
            |(name, what): &(&str, &str)| serde_json::json!({ "name": name, "measures": what });
        return print_json(&serde_json::json!({
            "scenarios": scenario::LIST.iter().map(entry).collect::<Vec<_>>(),
            "methods": method::BUILT_IN
                .iter()
                .map(|method| entry(&(method.name(), method.about())))
                .collect::<Vec<_>>(),
        }));
    }
    let rows = scenario::LIST
        .iter()
        .map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()]);
    let mut out = table(&["SCENARIO", "MEASURES"], &[], rows.collect());
    let rows = method::BUILT_IN
        .iter()
        .map(|method| vec![method.name().to_owned(), method.about().to_owned()]);
    out.push('\n');
    out.push_str(&table(&["METHOD", "WHAT"], &[], rows.collect()));
    print(&out)
}
