//! Rivals in the table: their programs measure themselves, one after another, each in a separate
//! session.

use super::Bench;
use crate::progress::Progress;
use olivine_bench::error::{Result, chain};
use olivine_bench::method::{OLIVINE_PREFIX, THREADS};
use olivine_bench::result::{Load, Parameters, Row};
use olivine_bench::rival::{Job, Known, Program};
use olivine_bench::scenario::Variant;
use std::collections::BTreeSet;

/// The rival that needs a server.
const NEEDS_SERVER: &str = "nats";

/// The results of the methods of `rivals` for the sizes and batches of `variants`. A failure is a
/// row with its reason.
pub(super) fn measure(bench: &Bench, rivals: &[Program], variants: &[Variant]) -> Vec<Row> {
    let cases: BTreeSet<(u64, u64)> = variants
        .iter()
        .map(|variant| {
            let of = &variant.parameters;
            (of.size_bytes, of.batch_count)
        })
        .collect();
    // `bench bridge` starts a server for those, and passes its address.
    let rivals = rivals.iter().filter(|rival| rival.name() != NEEDS_SERVER);
    let mut rows = Vec::new();
    let bar = Progress::new(rivals.clone().count() as u64);
    bar.phase("rivals");
    for (done, rival) in (0..).zip(rivals) {
        if bench.stop.now() {
            break;
        }
        bar.show(done, rival.name());
        rows.extend(one(bench, rival, &cases));
    }
    bar.clear();
    rows
}

fn one(bench: &Bench, rival: &Program, cases: &BTreeSet<(u64, u64)>) -> Vec<Row> {
    let name = rival.name();
    // Until it has listed its methods, it counts as one method of its name.
    let known = match rival.methods(&|| bench.stop.now()) {
        Ok(known) => known,
        Err(_) if bench.stop.now() => return Vec::new(),
        Err(error) => return failed(bench, &[&name], cases, &chain(&error)),
    };
    let streamed = bench.name == "throughput";
    let known: Vec<Known> = known
        .into_iter()
        .filter(|method| method.streams || !streamed)
        .collect();
    match ask(bench, rival, &known, cases) {
        // Olivine was measured, too, for equal conditions; the table has its rows already.
        Ok(rows) => rows
            .into_iter()
            .filter(|row| is_theirs(&row.method))
            .collect(),
        // We ended it, so this is not a failure.
        Err(_) if bench.stop.now() => Vec::new(),
        Err(error) => {
            let names = known.iter().map(|method| method.name.as_str());
            let theirs: Vec<&str> = names.filter(|name| is_theirs(name)).collect();
            failed(bench, &theirs, cases, &chain(&error))
        }
    }
}

fn is_theirs(method: &str) -> bool {
    !method.starts_with(OLIVINE_PREFIX)
}

/// Asks a rival's program to measure every method it knows in every case.
fn ask(
    bench: &Bench,
    rival: &Program,
    known: &[Known],
    cases: &BTreeSet<(u64, u64)>,
) -> Result<Vec<Row>> {
    let mut variants = Vec::new();
    for &(size_bytes, batch_count) in cases {
        let can = |method: &&Known| batch_count == 1 || method.batches;
        for method in known.iter().filter(can) {
            variants.push(Variant {
                method: method.name.clone(),
                parameters: Parameters {
                    batch_count,
                    wait: Some(method.wait.clone()),
                    settings: if method.threads { THREADS } else { "" }.to_owned(),
                    ..Parameters::pair(size_bytes)
                },
            });
        }
    }
    let job = Job {
        scenario: bench.name.to_owned(),
        variants,
        cpus: bench.setup.cpus,
        runs: bench.setup.runs,
        seconds: bench.setup.seconds,
        privileges: bench.setup.privileges,
    };
    rival.measure(&job, &|| bench.stop.now())
}

/// A row without figures for every method in every case.
fn failed(bench: &Bench, methods: &[&str], cases: &BTreeSet<(u64, u64)>, reason: &str) -> Vec<Row> {
    let load = if bench.name == "throughput" {
        Load::Saturated
    } else {
        Load::Closed
    };
    let mut rows = Vec::new();
    for &(size_bytes, batch_count) in cases {
        for method in methods {
            let parameters = Parameters {
                batch_count,
                ..Parameters::pair(size_bytes)
            };
            rows.push(Row::failed(bench.name, load, method, parameters, reason));
        }
    }
    rows
}
