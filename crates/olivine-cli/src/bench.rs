//! `olivine bench`: runs the scenarios of `olivine-bench` and prints the results.

mod arena;
mod compare;
mod far;
pub(crate) mod files;
mod load;
mod measure;
mod print;
mod report;
mod rivals;
mod selfcheck;
mod site;
mod sweep;

use crate::args::{
    BenchArgs, BenchCommand, Common, EntryArgs, MethodArgs, ParticipantArgs, Registered,
};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json, table};
use measure::Bench;
use olivine_bench::BenchError;
use olivine_bench::cpus;
use olivine_bench::method::{self, Method, foreign};
use olivine_bench::participant::{Seat, follow, participate};
use olivine_bench::plan::{ALL, Matrix, PlanError};
use olivine_bench::privileges::Privileges;
use olivine_bench::result::file::RUNS_QUOTABLE;
use olivine_bench::run::Program;
use olivine_bench::scenario::{self, Setup, Variant, pingpong};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Default bytes of a message.
const DEFAULT_SIZE: u64 = 32;
/// Seconds for each method if all are measured.
const ALL_SECONDS: f64 = 1.0;
/// Time limit on a busy machine: then later runs are left out.
const ALL_BUDGET: Duration = Duration::from_secs(48);
/// Share of time without a CPU above which other work of the machine affects latencies.
pub(crate) const WAITED_NOTABLY: f64 = 0.02;

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, common: Common) -> Outcome {
    let Some(command) = &args.command else {
        let method = MethodArgs {
            cpus: None,
            runs: RUNS_QUOTABLE,
            seconds: Duration::from_secs_f64(ALL_SECONDS),
            fifo: false,
            mlock: false,
            save: args.save.clone(),
        };
        let mut matrix = Matrix::new(&pingpong::SCENARIO, &[DEFAULT_SIZE]);
        matrix.method.push(ALL.to_owned());
        let bench = Bench::new(pingpong::SCENARIO.name, &method)?.within(Some(ALL_BUDGET));
        return measured(bench, common, &[matrix], None);
    };
    match command {
        BenchCommand::List => list(common),
        BenchCommand::Http(args) => load::http(args, common),
        BenchCommand::Tcp(args) => load::tcp(args, common),
        BenchCommand::Arena(args) => arena::run(args, common),
        BenchCommand::Submit(args) => arena::submit(args, common),
        BenchCommand::Site(args) => site::run(args, common),
        BenchCommand::Compare(args) => compare::run(args, common),
        BenchCommand::Report(args) => report::run(args, common),
        BenchCommand::Selfcheck(args) => selfcheck::run(args, common),
        BenchCommand::Floor(args) => {
            let bench = Bench::new("floor", &args.method)?;
            let rows = bench.measure(scenario::floor::run)?;
            bench.report(common, rows.into())
        }
        BenchCommand::Registered(Registered { scenario, args }) => {
            let mut matrices = vec![args.matrix(scenario)];
            if args.size.is_empty() {
                matrices[0].size.push(DEFAULT_SIZE);
            }
            if args.size.is_empty() && args.batch.is_empty() {
                // The main cases of a stream.
                let given = matrices[0].clone();
                matrices[0].batch = vec![1, 16];
                matrices.extend(given.by_receive());
                matrices.push(Matrix {
                    size: vec![1024, 8192],
                    ..given
                });
            }
            let mut bench = Bench::new(scenario.name, &args.method_args)?;
            bench.setup.worst = args.worst.map_or(0, usize::from);
            measured(bench, common, &matrices, args.rivals.as_deref())
        }
        BenchCommand::Sweep(args) => sweep::run(args, common),
        BenchCommand::Bridge(args) => far::run(args, common),
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Channel(error) => error.into(),
            PlanError::List { key, message } => Self::usage(format!("--{key} {message}")),
            PlanError::Method(error) => {
                Self::usage(format!("{error}; those of other libraries need --rivals"))
            }
            other => Self::Usage(other.into()),
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

/// The variants of some matrices.
fn variants(matrices: &[Matrix]) -> Outcome<Vec<Variant>> {
    let cpus = cpus::allowed().len();
    let variants = matrices.iter().map(|matrix| Ok(matrix.variants(cpus)?));
    Ok(variants.collect::<Outcome<Vec<_>>>()?.concat())
}

/// Measures matrices of one scenario, and the `rivals` of a folder with the same sizes and batches:
/// all of them, unless methods of some are named.
fn measured(
    mut bench: Bench,
    common: Common,
    matrices: &[Matrix],
    rivals: Option<&Path>,
) -> Outcome {
    let scenario = matrices[0].scenario;
    let mut matrices = matrices.to_vec();
    let rivals = match rivals {
        Some(folder) if rivals::named(&mut bench, folder, &mut matrices)? => Vec::new(),
        folder => programs(folder)?,
    };
    let mut variants = variants(&matrices)?;
    for variant in &mut variants {
        bench.setup.describe(variant);
    }
    bench.place(variants.iter().map(|variant| &variant.parameters))?;
    if !scenario.reads("method") {
        let rows = bench.measure(|setup, watch| (scenario.run)(setup, &variants, watch))?;
        return bench.report(common, rows.concat().into());
    }
    let (variants, failed) = rivals::enter(&mut bench, scenario, rivals, variants);
    let mut found = bench.measure_twice(scenario.run, &variants)?;
    found.rows.extend(failed);
    bench.report(common, found)
}

pub(crate) use load::serve as serve_load;

/// Runs as a participant of a measurement.
pub(crate) fn take_part(args: &ParticipantArgs) -> Outcome {
    let seat = Seat::parse(&args.seat).map_err(BenchError::from)?;
    Ok(participate(&seat, method::every()).map_err(BenchError::from)?)
}

/// Runs as a participant with the method of an entry.
pub(crate) fn take_part_with(args: &EntryArgs) -> Outcome {
    let method = foreign::load(&args.library).map_err(BenchError::from)?;
    let methods: &'static [Method] = Box::leak(Box::new([method]));
    Ok(follow(&args.words, methods).map_err(BenchError::from)?)
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
    Ok(Setup {
        programs: vec![Program::own(method::every())?],
        cpus,
        allowed: cpus::allowed(),
        runs,
        seconds,
        privileges: Privileges::default(),
        stop: Arc::default(),
        worst: 0,
    })
}

fn list(common: Common) -> Outcome {
    if common.json {
        let entry =
            |(name, what): (&str, &str)| serde_json::json!({ "name": name, "measures": what });
        return print_json(&serde_json::json!({
            "scenarios": scenario::list().map(entry).collect::<Vec<_>>(),
            "methods": method::BUILT_IN
                .iter()
                .map(|method| entry((method.name, method.about)))
                .collect::<Vec<_>>(),
        }));
    }
    let rows = scenario::list().map(|(name, what)| vec![name.to_owned(), what.to_owned()]);
    let mut out = table(&["SCENARIO", "MEASURES"], &[], rows.collect());
    let rows = method::BUILT_IN
        .iter()
        .map(|method| vec![method.name.to_owned(), method.about.to_owned()]);
    out.push('\n');
    out.push_str(&table(&["METHOD", "WHAT"], &[], rows.collect()));
    print(&out)
}
