//! Job files and presets, point by point.

use super::{Bench, rivals};
use crate::args::{Common, SweepArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, json_line, print};
use crate::progress::Progress;
use olivine_bench::cpus;
use olivine_bench::job::{Job, JobError};
use olivine_bench::result::{ResultFile, Results, Row};
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
        (None, None) => return Err(Failure::usage("a job file or --preset is needed")),
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
    let mut rows = match &args.out {
        Some(path) => earlier(path, &mut bench)?,
        None => Vec::new(),
    };
    if let Some(path) = &args.out {
        // Before hours of measurements: is the file writable?
        keep(path, &bench.file(rows.clone().into()))?;
    }
    let bar = Progress::new(job.points.len() as u64);
    bar.phase("sweep");
    for (done, point) in (0..).zip(&job.points) {
        let name = format!(
            "{} {} B",
            point.variant.method, point.variant.parameters.size_bytes
        );
        bar.show(done, name);
        if rows.iter().any(|row| point.is_in(row)) {
            continue;
        }
        if bench.stop.now() {
            break;
        }
        let found = point.measure(&bench.setup, &mut |_| {
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
        rows.extend(found);
        if let Some(path) = &args.out {
            keep(path, &bench.file(rows.clone().into()))?;
        }
    }
    bar.clear();
    bench.about = format!("{}: {}\n\n", job.name, job.about);
    for refused in &job.refused {
        let line = format!("not measured: {}: {}", refused.published, refused.reason);
        bench.about.push_str(&folded(&format!("{line}\n")));
    }
    if !job.refused.is_empty() {
        bench.about.push('\n');
    }
    bench.report(common, rows.into())
}

/// Results of an earlier sweep without its failures; nothing if the file does not exist. The start
/// time is that of the earlier sweep.
fn earlier(path: &Path, bench: &mut Bench) -> Outcome<Vec<Row>> {
    // Empty if --save has just created it.
    if fs::metadata(path).map_or(true, |found| found.len() == 0) {
        return Ok(Vec::new());
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
    let measured = file
        .results
        .into_iter()
        .filter(|row| row.measured().is_some());
    Ok(measured.collect())
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
