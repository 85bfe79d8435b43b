//! Job files and presets, point by point.

use super::{Bench, far, rivals};
use crate::args::{Common, FarArgs, SweepArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, json_line, print};
use crate::progress::Progress;
use olivine_bench::cpus;
use olivine_bench::job::{Bridges, Job, JobError, PRESETS};
use olivine_bench::result::{ResultFile, Results};
use olivine_bench::scenario::bridge::{PARTS, Plan};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self::Usage(error.into())
    }
}

/// Runs the command.
pub(super) fn run(args: &SweepArgs, common: Common) -> Outcome {
    let cpus = cpus::allowed().len();
    let mut job = match (&args.preset, &args.job) {
        (Some(name), _) => Job::preset(name, cpus)?,
        (None, Some(path)) => Job::read(path, cpus)?,
        (None, None) => {
            return Err(Failure::usage(format!(
                "name a job file, or --preset with one of {}",
                PRESETS.map(|(name, _)| name).join(", ")
            )));
        }
    };
    if args.print_job {
        return print(&job.text);
    }
    let mut bench = Bench::new("sweep", &args.method)?;
    let wanted = job.points.iter().map(|point| point.variant.method.as_str());
    let wanted: Vec<&str> = wanted.collect();
    rivals::know(&mut bench, &args.rivals, &wanted)?;
    job.know(&bench.setup);
    bench.place(job.points.iter().map(|point| &point.variant.parameters))?;
    // Each point would fail for the same reason.
    bench.take_privileges()?;
    let mut found = match &args.out {
        Some(path) => earlier(path, &mut bench)?,
        None => Results::default(),
    };
    let bridges = match &job.bridge {
        Some(of) => plan(of, args, &bench, &found)?,
        None => None,
    };
    if let Some(path) = &args.out {
        // Before hours of measurements: is the file writable?
        keep(path, &bench.file(found.clone()))?;
    }
    let bar = Progress::new(job.points.len() as u64);
    bar.phase("sweep");
    for (done, point) in (0..).zip(&job.points) {
        let name = format!(
            "{} {} B",
            point.variant.method, point.variant.parameters.size_bytes
        );
        bar.show(done, name);
        if found.rows.iter().any(|row| point.is_in(row)) {
            continue;
        }
        if bench.stop.now() {
            break;
        }
        let rows = point.measure(&bench.setup, &mut |_| {
            if bench.stop.now() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        // An interrupted point is measured again when the sweep resumes.
        if bench.stop.now() {
            break;
        }
        found.rows.extend(rows);
        if let Some(path) = &args.out {
            keep(path, &bench.file(found.clone()))?;
        }
    }
    bar.clear();
    let mut failed = None;
    if let Some(plan) = bridges.filter(|_| !bench.stop.now()) {
        match far::measure(&bench, &plan) {
            // Measured again when the sweep resumes.
            _ if bench.stop.now() => {}
            Err(error) => failed = Some(error),
            Ok(more) => {
                found.rows.extend(more.rows);
                found.ratios.extend(more.ratios);
                let known = std::mem::take(&mut found.left_out);
                let kept = known
                    .into_iter()
                    .filter(|line| !more.left_out.contains(line));
                found.left_out = kept.chain(more.left_out.clone()).collect();
            }
        }
        if let Some(path) = &args.out {
            keep(path, &bench.file(found.clone()))?;
        }
    }
    bench.about = format!("{}: {}\n\n", job.name, job.about);
    for refused in &job.refused {
        let line = format!("not measured: {}: {}", refused.published, refused.reason);
        bench.about.push_str(&folded(&format!("{line}\n")));
    }
    if !job.refused.is_empty() {
        bench.about.push('\n');
    }
    // What was measured is reported also where the bridges failed.
    bench.report(common, found)?;
    failed.map_or(Ok(()), Err)
}

/// The bridges without a result; `None` if all have one.
fn plan(of: &Bridges, args: &SweepArgs, bench: &Bench, had: &Results) -> Outcome<Option<Plan>> {
    let part = of.missing(&had.rows);
    if part.is_empty() {
        return Ok(None);
    }
    let rivals = Some(args.rivals.clone());
    let args = FarArgs {
        part,
        rivals: rivals.filter(|folder| folder != Path::new(far::RIVALS)),
        folder: of.folder.clone(),
        wait: of.wait.clone(),
        rate: of.rate,
        method: args.method.clone(),
    };
    far::plan(&args, bench).map(Some)
}

/// Results of an earlier sweep without its failures; nothing if the file does not exist. The start
/// time is that of the earlier sweep.
fn earlier(path: &Path, bench: &mut Bench) -> Outcome<Results> {
    // Empty if --save has just created it.
    if fs::metadata(path).map_or(true, |found| found.len() == 0) {
        return Ok(Results::default());
    }
    let file = ResultFile::read(path).map_err(|error| Failure::Usage(error.into()))?;
    if let Some(difference) = file.differs(&bench.file(Results::default())) {
        return Err(Failure::usage(format!(
            "{} was measured under other conditions: {difference}; go on under the same ones, or \
             name another file with \
             --out to begin anew",
            path.display()
        )));
    }
    bench.started_unix_s = file.started_unix_s;
    let is_part = |scenario: &str| PARTS.iter().any(|(_, name)| scenario == *name);
    // A part is measured again as a whole: its ratios are of neighbours in time.
    let failed = file.failures().map(|(row, _)| row.scenario.clone());
    let failed: Vec<String> = failed.filter(|scenario| is_part(scenario)).collect();
    let is_kept = |scenario: &String| !failed.contains(scenario);
    let measured = file.results.into_iter();
    let measured = measured.filter(|row| row.measured().is_some() && is_kept(&row.scenario));
    // The goals of the other scenarios follow from their rows.
    let ratios = file.ratios.into_iter();
    let ratios = ratios.filter(|ratio| is_part(&ratio.scenario) && is_kept(&ratio.scenario));
    Ok(Results {
        rows: measured.collect(),
        ratios: ratios.collect(),
        left_out: file.left_out,
        ..Results::default()
    })
}

/// Replaces the file completely, or not at all.
fn keep(path: &Path, file: &ResultFile) -> Outcome {
    let next = path.with_extension("next");
    let text = json_line(file)?;
    fs::write(&next, text)
        .and_then(|()| fs::rename(&next, path))
        .map_err(|error| {
            let error = anyhow::Error::new(error);
            Failure::Failed(error.context(format!("cannot write {}", path.display())))
        })
}
