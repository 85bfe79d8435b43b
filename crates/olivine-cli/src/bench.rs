//! `olivine bench`: runs the scenarios of `olivine-bench` and prints what they found.

mod compare;
mod files;
mod load;
mod print;
mod report;
mod rivals;
mod selfcheck;
mod sweep;

use crate::args::values;
use crate::args::{BenchArgs, Common, ManyArgs, MethodArgs, PeerArgs, RingArgs, Scenario};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine::{Config, probe};
use olivine_bench::machine::Machine;
use olivine_bench::method;
use olivine_bench::payload::SIZE_MIN;
use olivine_bench::result::file::{RUNS_QUOTABLE, SCHEMA, unix_time_s};
use olivine_bench::result::{Parameters, ResultFile, Row};
use olivine_bench::rival::Program;
use olivine_bench::scenario::floor::FloorResult;
use olivine_bench::scenario::throughput::OWN;
use olivine_bench::scenario::{self, Setup, Variant, latency, mesh, pingpong, throughput};
use olivine_bench::{BenchError, peer, text};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// How the names of this library's methods start.
const OLIVINE_PREFIX: &str = "olivine-";
/// Bytes of a message where nothing is said.
const DEFAULT_SIZE: u64 = 32;
/// The word that makes this program the second process of a measurement.
pub(crate) const PEER_COMMAND: &str = "__peer";
/// Seconds for each method where all are measured.
const ALL_SECONDS: f64 = 1.0;
/// Setting that gives each message a cache line of its own.
const ALIGNED: &str = "align=64";
/// The word for every built-in method.
const ALL: &str = "all";

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, common: Common) -> Outcome {
    let Some(scenario) = &args.scenario else {
        let method = MethodArgs {
            cpus: None,
            runs: RUNS_QUOTABLE,
            seconds: Duration::from_secs_f64(ALL_SECONDS),
            save: args.save.clone(),
        };
        let names = [ALL.to_owned()];
        let variants = method_variants(&names, &[DEFAULT_SIZE], "")?;
        return pingpong_table(common, &method, &variants, &[]);
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
            let result = bench.measure(scenario::floor::run)?;
            let text = print::floor(&result);
            bench.report(common, Vec::new(), Some(result), text)
        }
        Scenario::Pingpong(args) => {
            let mut variants = Vec::new();
            if args.method.is_empty() {
                let name = [format!("olivine-{}", args.ring.wait)];
                for slots in &args.slots {
                    for align in aligns(&args.ring) {
                        let more = format!("{align}&subscribers_max={slots}");
                        let settings = settings(&args.ring, &more)?;
                        variants.extend(method_variants(&name, &args.size, &settings)?);
                    }
                }
            } else {
                let settings = settings(&args.ring, "")?;
                variants = method_variants(&args.method, &args.size, &settings)?;
            }
            let rivals = match &args.rivals {
                Some(folder) => Program::find(folder)?,
                None => Vec::new(),
            };
            pingpong_table(common, &args.method_args, &variants, &rivals)
        }
        Scenario::Throughput(args) => {
            let variants =
                throughput_variants(&args.size, &args.batch, &settings(&args.ring, "")?)?;
            let bench = Bench::new("throughput", &args.method)?;
            let rows = bench.measure(|setup, watch| throughput::run(setup, &variants, watch))?;
            let text = print::throughput(&rows);
            bench.report(common, rows, None, text)
        }
        Scenario::Fanout(args) => many(common, "fanout", &[1], &args.many, &[1, 2, 4, 8]),
        Scenario::Mesh(args) => many(common, "mesh", &args.publishers, &args.many, &[6]),
        Scenario::Sweep(args) => sweep::run(args, common),
        Scenario::Latency(args) => {
            let settings = settings(&args.ring, "")?;
            let variant = |&rate_per_s| -> Outcome<Variant> {
                let mut variant = variant(OWN, args.size, &settings)?;
                variant.parameters.rate_per_s = Some(rate_per_s);
                Ok(variant)
            };
            let variants: Vec<_> = args.rate.iter().map(variant).collect::<Outcome<_>>()?;
            let bench = Bench::new("latency", &args.method)?;
            let rows = bench.measure(|setup, watch| latency::run(setup, &variants, watch))?;
            let text = print::latency(&rows);
            bench.report(common, rows, None, text)
        }
    }
}

/// Round trips: one method with all its percentiles, or several in one table, and those of `rivals`.
fn pingpong_table(
    common: Common,
    method: &MethodArgs,
    variants: &[Variant],
    rivals: &[Program],
) -> Outcome {
    let bench = Bench::new("pingpong", method)?;
    let mut rows = bench.measure(|setup, watch| pingpong::run(setup, variants, watch))?;
    for rival in rivals {
        if bench.stop.now() {
            break;
        }
        rows.extend(rivals::pingpong(rival, &bench.setup, variants));
    }
    let first = &variants[0].method;
    let several = rows.iter().any(|row| row.method != *first);
    let text = if several {
        print::methods(&rows)
    } else {
        print::pingpong(&rows)
    };
    bench.report(common, rows, None, text)
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
    let bench = Bench::new(name, &args.method)?;
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
    let rows = bench.measure(|setup, watch| {
        if name == "fanout" {
            mesh::fanout(setup, &variants, watch)
        } else {
            mesh::mesh(setup, &variants, watch)
        }
    })?;
    let text = print::many(&rows);
    bench.report(common, rows, None, text)
}

/// A variant of a method with messages of `size` bytes.
fn variant(method: &str, size: u64, settings: &str) -> Outcome<Variant> {
    message_size(size)?;
    let mut parameters = Parameters::pair(size);
    settings.clone_into(&mut parameters.settings);
    for (key, value) in settings.split('&').filter_map(|pair| pair.split_once('=')) {
        match key {
            "wait" => parameters.wait = Some(value.to_owned()),
            "capacity" => parameters.ring_bytes = values::size(value).ok(),
            _ => {}
        }
    }
    Ok(Variant {
        method: method.to_owned(),
        parameters,
    })
}

/// Every method named, with every size. `settings` are those of the channels of Olivine.
fn method_variants(names: &[String], sizes: &[u64], settings: &str) -> Outcome<Vec<Variant>> {
    let mut chosen = Vec::new();
    for name in names {
        if name == ALL {
            chosen.extend(method::BUILT_IN);
        } else {
            let found = method::find(method::BUILT_IN, name);
            chosen.push(found.map_err(|error| Failure::usage(error.to_string()))?);
        }
    }
    let mut variants = Vec::new();
    for &size in sizes {
        for method in &chosen {
            let name = method.name();
            let is_ours = name.starts_with(OLIVINE_PREFIX);
            // The strategy follows from the name.
            let settings = settings.split_once('&').map_or("", |(_wait, more)| more);
            let mut variant = variant(name, size, if is_ours { settings } else { "" })?;
            variant.parameters.wait = Some(method.wait().to_owned());
            if name == method::OLIVINE.name() && settings.is_empty() {
                // Packed and with a cache line for each message, as nobody knows which suits better.
                let mut aligned = variant.clone();
                ALIGNED.clone_into(&mut aligned.parameters.settings);
                variants.push(aligned);
            }
            variants.push(variant);
        }
    }
    Ok(variants)
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
        allowed: probe::allowed_cpus(),
        runs,
        seconds,
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

/// One scenario being measured.
struct Bench {
    name: &'static str,
    setup: Setup,
    machine: Machine,
    stop: Stop,
    started_unix_s: u64,
    /// Where the result is written besides standard output.
    save: Vec<PathBuf>,
}

impl Bench {
    fn new(name: &'static str, method: &MethodArgs) -> Outcome<Self> {
        let setup = setup(
            cpus(method.cpus)?,
            method.runs,
            method.seconds.as_secs_f64(),
        )?;
        files::check(&method.save)?;
        Ok(Self {
            name,
            setup,
            machine: Machine::look(),
            stop: Stop::install()?,
            started_unix_s: unix_time_s(),
            save: method.save.clone(),
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
            bar.show(progress.done, live(&progress));
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

    /// Prints what was found, and writes it where it was asked for. Rows without figures make the command fail.
    fn report(
        self,
        common: Common,
        results: Vec<Row>,
        floor: Option<FloorResult>,
        mut out: String,
    ) -> Outcome {
        let file = self.file(results, floor);
        files::save(&file, &self.save)?;
        if common.json {
            print_json(&file)?;
        } else {
            out.push_str(&print::failed(&file));
            out.push_str(&print::conditions(&file));
            print(&out)?;
        }
        if file.failures().next().is_some() {
            return Err(Failure::BadResult);
        }
        Ok(())
    }

    /// What was found, with what it was found on.
    fn file(&self, results: Vec<Row>, floor: Option<FloorResult>) -> ResultFile {
        ResultFile {
            schema: SCHEMA.to_owned(),
            scenario: self.name.to_owned(),
            started_unix_s: self.started_unix_s,
            machine: self.machine.clone(),
            cpus: vec![self.setup.cpus.0, self.setup.cpus.1],
            runs: self.setup.runs,
            seconds_per_variant: self.setup.seconds,
            interrupted: self.stop.interrupted(),
            floor,
            results,
        }
    }
}

/// The last slice in a few words.
fn live(progress: &scenario::Progress) -> String {
    let p50 = progress.p50_ns.map(|ns| format!("p50 {}", text::nanos(ns)));
    let rate = progress.messages_per_s.map(text::rate);
    p50.or(rate).unwrap_or_default()
}

/// Refuses a size that cannot be checked.
fn message_size(bytes: u64) -> Outcome {
    if bytes < SIZE_MIN as u64 {
        return Err(Failure::usage(format!(
            "--size {bytes} is too small: a checked message takes {SIZE_MIN} bytes or more, for its number and time stamp"
        )));
    }
    Ok(())
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
fn throughput_variants(sizes: &[u64], batches: &[u16], settings: &str) -> Outcome<Vec<Variant>> {
    let variant = |size: u64, batch: u16| -> Outcome<Variant> {
        let mut variant = variant(OWN, size, settings)?;
        variant.parameters.batch_count = u64::from(batch);
        Ok(variant)
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
        let shape = |sizes: &[u64], batches: &[u16]| -> Vec<(u64, u64)> {
            let variants = throughput_variants(sizes, batches, "wait=spin").unwrap();
            variants
                .iter()
                .map(|variant| {
                    let parameters = &variant.parameters;
                    (parameters.size_bytes, parameters.batch_count)
                })
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
