//! Rivals in the table: their programs measure themselves, one after another, each in a separate
//! session.

use super::Bench;
use crate::progress::Progress;
use olivine_bench::error::{Result, chain};
use olivine_bench::method::{OLIVINE_PREFIX, THREADS};
use olivine_bench::result::{Parameters, Row};
use olivine_bench::rival::{Job, Known, Program};
use olivine_bench::scenario::Variant;
use olivine_bench::scenario::registry::Scenario;

/// The rival that needs a server.
const NEEDS_SERVER: &str = "nats";

/// The results of the methods of `rivals` for the sizes and batches of `variants`. A failure is a
/// row with its reason.
pub(super) fn measure(
    bench: &Bench,
    scenario: &Scenario,
    rivals: &[Program],
    variants: &[Variant],
) -> Vec<Row> {
    let mut cases: Vec<Parameters> = Vec::new();
    for Variant { parameters: of, .. } in variants {
        let case = Parameters {
            batch_count: of.batch_count,
            rate_per_s: of.rate_per_s,
            ..Parameters::pair(of.size_bytes)
        };
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
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
        rows.extend(one(bench, scenario, rival, &cases));
    }
    bar.clear();
    rows
}

fn one(bench: &Bench, scenario: &Scenario, rival: &Program, cases: &[Parameters]) -> Vec<Row> {
    let name = rival.name();
    // Until it has listed its methods, it counts as one method of its name.
    let known = match rival.methods(&|| bench.stop.now()) {
        Ok(known) => known,
        Err(_) if bench.stop.now() => return Vec::new(),
        Err(error) => return failed(scenario, &[&name], cases, &chain(&error)),
    };
    let known: Vec<Known> = known
        .into_iter()
        .filter(|method| method.streams || scenario.in_harness)
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
            failed(scenario, &theirs, cases, &chain(&error))
        }
    }
}

fn is_theirs(method: &str) -> bool {
    !method.starts_with(OLIVINE_PREFIX)
}

/// Asks a rival's program to measure every method it knows in every case.
fn ask(bench: &Bench, rival: &Program, known: &[Known], cases: &[Parameters]) -> Result<Vec<Row>> {
    let mut variants = Vec::new();
    for case in cases {
        let can = |method: &&Known| case.batch_count == 1 || method.batches;
        for method in known.iter().filter(can) {
            variants.push(Variant {
                method: method.name.clone(),
                parameters: Parameters {
                    wait: Some(method.wait.clone()),
                    settings: if method.threads { THREADS } else { "" }.to_owned(),
                    ..case.clone()
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
fn failed(
    &Scenario { name, load, .. }: &Scenario,
    methods: &[&str],
    cases: &[Parameters],
    reason: &str,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases {
        for method in methods {
            rows.push(Row::failed(name, load, method, case.clone(), reason));
        }
    }
    rows
}
