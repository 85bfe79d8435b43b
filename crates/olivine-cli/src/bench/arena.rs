//! `olivine bench arena`: entries of others are validated, and then ranked among all methods.

use super::report::PACKED_MAX;
use super::{ALL, Bench, DEFAULT_SIZE, files, programs, rivals, variants};
use crate::args::{ArenaArgs, Common, SubmitArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json, table};
use crate::progress::Progress;
use olivine_bench::error::chain;
use olivine_bench::method;
use olivine_bench::plan::Matrix;
use olivine_bench::result::{Parameters, Results, Row};
use olivine_bench::scenario::registry::Scenario;
use olivine_bench::scenario::{floor, latency, pingpong, throughput};
use olivine_bench::selfcheck::Finding;
use olivine_bench::validate::validate;
use std::path::PathBuf;

/// What entries are ranked by.
const RANKED: [&Scenario; 2] = [&pingpong::SCENARIO, &throughput::SCENARIO];

/// What a submission has, beside the floor.
const SUBMITTED: [&Scenario; 3] = [
    &pingpong::SCENARIO,
    &throughput::SCENARIO,
    &latency::SCENARIO,
];
/// Messages a second of its paced latency.
const RATE_PER_S: f64 = 100_000.0;

/// The validation of a method.
#[derive(serde::Serialize)]
struct Verdict {
    method: String,
    checks: Vec<Finding>,
}

impl Verdict {
    /// Why it has no figure.
    fn reason(&self) -> Option<String> {
        let failed = self.checks.iter().find(|check| !check.ok)?;
        Some(format!("validation of {}: {}", failed.check, failed.what))
    }
}

/// Runs the command.
pub(super) fn run(args: &ArenaArgs, common: Common) -> Outcome {
    let mut bench = Bench::new("arena", &args.method)?;
    // Each entry would fail for the same reason.
    bench.take_privileges()?;
    let verdicts = enter(&mut bench, &args.folder)?;
    if args.check {
        return tell(&verdicts, common);
    }
    let found = all(&bench, &RANKED, &args.among, &verdicts)?;
    bench.about = text(&verdicts) + "\n";
    bench.report(common, found)
}

/// Runs `olivine bench submit`.
pub(super) fn submit(args: &SubmitArgs, common: Common) -> Outcome {
    // The form first: a check of the file creates it.
    files::only(std::slice::from_ref(&args.file), &["json"], "a submission")?;
    files::check(std::slice::from_ref(&args.file))?;
    let mut bench = Bench::new("submit", &args.method)?;
    bench.take_privileges()?;
    let verdicts = enter(&mut bench, &args.folder)?;
    let mut rows = bench.measure(floor::run)?;
    let mut found = all(&bench, &SUBMITTED, &args.among, &verdicts)?;
    rows.append(&mut found.rows);
    found.rows = rows;
    let mut file = bench.file(found.clone());
    file.pack(PACKED_MAX);
    files::save(&file, std::slice::from_ref(&args.file))?;
    bench.report(common, found)
}

/// Measures scenarios one after the other. Entries that failed their validation have rows that say
/// why.
fn all(
    bench: &Bench,
    scenarios: &[&'static Scenario],
    among: &[String],
    verdicts: &[Verdict],
) -> Outcome<Results> {
    let mut found = Results::default();
    for scenario in scenarios {
        let rows = ranked(bench, scenario, among)?;
        found.measuring_error = found.measuring_error.or(rows.measuring_error);
        found.rows.extend(rows.rows);
        let case = Parameters::pair(DEFAULT_SIZE);
        found.rows.extend(verdicts.iter().filter_map(|verdict| {
            let (name, reason) = (&verdict.method, verdict.reason()?);
            let (scenario, load) = (scenario.name, scenario.load);
            Some(Row::failed(scenario, load, name, case.clone(), reason))
        }));
    }
    Ok(found)
}

/// Builds the entries and validates each of their methods. Those that pass stay in the setup.
fn enter(bench: &mut Bench, folders: &[PathBuf]) -> Outcome<Vec<Verdict>> {
    let mut found = Vec::new();
    for folder in folders {
        found.extend(programs(Some(folder))?);
    }
    let bar = Progress::new(found.len() as u64);
    bar.phase("validation");
    let mut verdicts = Vec::new();
    for (done, mut program) in (0..).zip(found) {
        bar.show(done, program.name().to_owned());
        if let Err(error) = program.look(&|| bench.stop.now()) {
            bench.stop.cut_short()?;
            verdicts.push(Verdict {
                method: program.name().to_owned(),
                checks: vec![Finding {
                    check: "build, list",
                    ok: false,
                    what: chain(&error),
                }],
            });
            continue;
        }
        let names: Vec<String> = program
            .methods()
            .iter()
            .map(|one| one.name.clone())
            .collect();
        if let Some(name) = names.iter().find(|name| bench.setup.knows(name)) {
            return Err(Failure::failed(format!(
                "two methods are called '{name}': rename the one in {}",
                program.path().display()
            )));
        }
        bench.setup.programs.push(program);
        for name in names {
            let checks = validate(&bench.setup, &name, &|| bench.stop.now());
            // An unfinished validation is neither right nor wrong.
            bench.stop.cut_short()?;
            verdicts.push(Verdict {
                method: name,
                checks: checks?,
            });
        }
        let failed = |name: &str| {
            let mut of = verdicts.iter().filter(|verdict| verdict.method == name);
            of.any(|verdict| verdict.reason().is_some())
        };
        if let Some(program) = bench.setup.programs.last_mut() {
            program.retain(|method| !failed(&method.name));
        }
    }
    bar.clear();
    Ok(verdicts)
}

/// Measures the methods called `among` that the scenario can have, and every valid one of the
/// entries, in turns.
fn ranked(bench: &Bench, scenario: &'static Scenario, among: &[String]) -> Outcome<Results> {
    let mut matrix = Matrix::new(scenario, &[DEFAULT_SIZE]);
    let can = |name: &&String| {
        let known = method::find(method::BUILT_IN, name);
        scenario.in_harness || *name == ALL || known.is_ok_and(|known| known.streams)
    };
    matrix.method = among.iter().filter(can).cloned().collect();
    let mut case = Parameters::pair(DEFAULT_SIZE);
    if scenario.reads("rate") {
        matrix.rate.push(RATE_PER_S);
        case.rate_per_s = Some(RATE_PER_S);
    }
    let mut all = Vec::new();
    if !matrix.method.is_empty() {
        all = variants(&[matrix])?;
    }
    let entries = bench.setup.programs.iter().skip(1);
    all.extend(entries.flat_map(|program| rivals::of(scenario, program, &case)));
    bench.measure_twice(scenario.run, &all)
}

fn tell(verdicts: &[Verdict], common: Common) -> Outcome {
    let ok = verdicts.iter().all(|verdict| verdict.reason().is_none());
    if common.json {
        print_json(&serde_json::json!({ "ok": ok, "entries": verdicts }))?;
    } else {
        print(&folded(&text(verdicts)))?;
    }
    if ok { Ok(()) } else { Err(Failure::BadResult) }
}

fn text(verdicts: &[Verdict]) -> String {
    let rows = verdicts.iter().flat_map(|verdict| {
        verdict.checks.iter().map(|check| {
            vec![
                verdict.method.clone(),
                check.check.to_owned(),
                if check.ok { "ok" } else { "FAILED" }.to_owned(),
                check.what.clone(),
            ]
        })
    });
    table(&["ENTRY", "CHECK", "RESULT", "WHAT"], &[], rows.collect())
}
