//! Rivals in the table: their programs take turns with this library.

use super::{Bench, programs};
use crate::failure::Outcome;
use crate::progress::Progress;
use olivine_bench::error::chain;
use olivine_bench::method::OWN;
use olivine_bench::plan::{ALL, Matrix};
use olivine_bench::result::{Parameters, Row};
use olivine_bench::run::Program;
use olivine_bench::scenario::Variant;
use olivine_bench::scenario::registry::Scenario;
use std::path::Path;

/// The rival that needs a server, which `bench bridge` starts.
const NEEDS_SERVER: &str = "nats";

/// Adds the methods of `rivals` to `variants`, in the sizes, batches and rates that these have. A
/// rival that does not list its methods counts as one method of its name; its rows have the reason.
pub(super) fn enter(
    bench: &mut Bench,
    scenario: &Scenario,
    rivals: Vec<Program>,
    mut variants: Vec<Variant>,
) -> (Vec<Variant>, Vec<Row>) {
    let mut cases: Vec<Parameters> = Vec::new();
    for Variant { parameters: of, .. } in &variants {
        let case = Parameters {
            batch_count: of.batch_count,
            rate_per_s: of.rate_per_s,
            ..Parameters::pair(of.size_bytes)
        };
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let mut failed = Vec::new();
    let rivals = rivals
        .into_iter()
        .filter(|rival| rival.name() != NEEDS_SERVER);
    let rivals: Vec<Program> = rivals.collect();
    let bar = Progress::new(rivals.len() as u64);
    bar.phase("rivals");
    for (done, mut rival) in (0..).zip(rivals) {
        bar.show(done, rival.name().to_owned());
        match rival.look(&|| bench.stop.now()) {
            Ok(()) => {
                variants.extend(cases.iter().flat_map(|case| of(scenario, &rival, case)));
                bench.setup.programs.push(rival);
            }
            Err(_) if bench.stop.now() => break,
            Err(error) => failed.extend(cases.iter().map(|case| {
                let (name, reason) = (rival.name(), chain(&error));
                Row::failed(scenario.name, scenario.load, name, case.clone(), reason)
            })),
        }
    }
    bar.clear();
    (variants, failed)
}

/// Whether methods of rivals in `folder` are named: their programs are added then, and their names
/// moved from `method` to `rival` in each of the `matrices`.
pub(super) fn named(bench: &mut Bench, folder: &Path, matrices: &mut [Matrix]) -> Outcome<bool> {
    let names = matrices[0].method.clone();
    let wanted = names.iter().map(String::as_str);
    let wanted = wanted.filter(|name| ![ALL, OWN].contains(name) && !bench.setup.knows(name));
    let wanted: Vec<&str> = wanted.collect();
    if wanted.is_empty() {
        return Ok(false);
    }
    know(bench, folder, &wanted)?;
    for matrix in &mut *matrices {
        let methods = std::mem::take(&mut matrix.method).into_iter();
        (matrix.rival, matrix.method) =
            methods.partition(|name| wanted.contains(&name.as_str()) && bench.setup.knows(name));
    }
    Ok(!matrices[0].rival.is_empty())
}

/// Adds the programs in `folder` that have one of the `wanted` methods. Without a folder there are
/// none, and the rows of their methods say so.
pub(super) fn know(bench: &mut Bench, folder: &Path, wanted: &[&str]) -> Outcome {
    let known = |bench: &Bench| wanted.iter().all(|name| bench.setup.knows(name));
    if known(bench) || !folder.is_dir() {
        return Ok(());
    }
    for mut rival in programs(Some(folder))? {
        // A program that lists no methods adds none.
        let looked = rival.look(&|| bench.stop.now()).is_ok();
        rival.retain(|method| wanted.contains(&method.name.as_str()));
        if looked && !rival.methods().is_empty() {
            bench.setup.programs.push(rival);
        }
    }
    Ok(())
}

/// The methods of a rival that can be measured in a case.
pub(super) fn of(scenario: &Scenario, rival: &Program, case: &Parameters) -> Vec<Variant> {
    let known = rival.methods().iter();
    let known = known.filter(|method| method.streams || scenario.in_harness);
    let known = known.filter(|method| case.batch_count == 1 || method.batches);
    known
        .map(|method| Variant::of_program(method, case))
        .collect()
}
