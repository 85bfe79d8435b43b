//! `olivine bench bridge`: bridges and other transports.

use super::Bench;
use crate::args::{Common, FarArgs};
use crate::failure::{Failure, Outcome};
use olivine::Config;
use olivine_bench::BenchError;
use olivine_bench::result::Results;
use olivine_bench::scenario::bridge::{self, PARTS, Part, Plan};
use std::path::Path;

/// CPUs that both ends and both bridges need for spinning.
const SPINNING_FROM: usize = 4;

/// CPUs from which on the threads of bridges run beside two real-time processes.
const FIFO_FROM: usize = 3;

/// Folder of the rivals where none is named.
pub(super) const RIVALS: &str = "rivals/target/release";
/// Default messages per second.
const RATE_PER_S: f64 = 10_000.0;

/// The parts to measure: all if none is named.
fn parts(args: &FarArgs) -> Vec<Part> {
    match args.part.is_empty() {
        true => PARTS.map(|(part, _)| part).to_vec(),
        false => args.part.clone(),
    }
}

/// Refuses an option that no part uses.
fn fits(args: &FarArgs) -> Outcome {
    let parts = parts(args);
    let options: [(&str, bool, &[Part], &str); 4] = [
        ("--rate", args.rate.is_some(), &[Part::Paced], "paced"),
        ("--wait", args.wait.is_some(), &[Part::Paced], "paced"),
        (
            "--folder",
            args.folder.is_some(),
            &[Part::Stored, Part::Disk],
            "stored or disk",
        ),
        (
            "--rivals",
            args.rivals.is_some(),
            &[Part::Stream, Part::Stored],
            "stream or stored",
        ),
    ];
    for (option, is_given, users, names) in options {
        if is_given && !parts.iter().any(|part| users.contains(part)) {
            return Err(Failure::usage(format!(
                "{option} is for the part {names}, which is not measured here: name that part, \
                too, or leave {option} out"
            )));
        }
    }
    Ok(())
}

/// Fails where a folder that is named is not there, or cannot be written to.
fn check_places(args: &FarArgs) -> Outcome {
    let failed = |action: &str, folder: &Path, error| {
        let context = format!("cannot {action} {}", folder.display());
        Failure::Failed(anyhow::Error::new(error).context(context))
    };
    if let Some(folder) = &args.folder {
        let made = tempfile::tempdir_in(folder);
        made.map_err(|error| failed("write to --folder", folder, error))?;
    }
    if let Some(folder) = &args.rivals {
        let listed = std::fs::read_dir(folder);
        listed.map_err(|error| failed("read --rivals", folder, error))?;
    }
    Ok(())
}

/// Runs the command.
pub(super) fn run(args: &FarArgs, common: Common) -> Outcome {
    let bench = Bench::new("bridge", &args.method)?;
    fits(args)?;
    let plan = plan(args, &bench)?;
    let found = measure(&bench, &plan)?;
    bench.report(common, found)
}

/// Measures all parts in turns.
pub(super) fn measure(bench: &Bench, plan: &Plan) -> Outcome<Results> {
    bench.measure(|setup, watch| {
        let found = bridge::run(setup, plan, watch)?;
        Ok::<_, BenchError>(found)
    })
}

/// The plan of a measurement, checked before anything starts.
pub(super) fn plan(args: &FarArgs, bench: &Bench) -> Outcome<Plan> {
    let parts = parts(args);
    check_places(args)?;
    let streamed = [Part::Paced, Part::Trip, Part::Stream, Part::Cost];
    let has_threads = parts.iter().any(|part| streamed.contains(part));
    if args.method.fifo && has_threads && bench.setup.allowed.len() < FIFO_FROM {
        return Err(Failure::usage(format!(
            "--fifo needs {FIFO_FROM} CPUs here: two processes under SCHED_FIFO would keep the \
             threads of the bridges from running; leave it out, or allow more CPUs"
        )));
    }
    let wait = args.wait.clone().unwrap_or_else(|| {
        let spins = bench.setup.allowed.len() >= SPINNING_FROM;
        if spins { "spin" } else { "yield" }.to_owned()
    });
    let _checked = Config::parse(&format!("tcp://127.0.0.1:0/bench?wait={wait}"))?;
    Ok(Plan {
        parts,
        rivals: args.rivals.clone().unwrap_or_else(|| RIVALS.into()),
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        wait,
        rate_per_s: args.rate.unwrap_or(RATE_PER_S),
    })
}
