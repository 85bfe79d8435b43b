//! One scenario being measured: progress, interruption, the result in every form that was asked for.

use super::{cpus, files, print as show, setup};
use crate::args::{Common, MethodArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine_bench::machine::Machine;
use olivine_bench::privileges::Privileges;
use olivine_bench::result::file::{SCHEMA, unix_time_s};
use olivine_bench::result::{ResultFile, Row};
use olivine_bench::scenario::floor::FloorResult;
use olivine_bench::scenario::{self, Setup, Variant};
use olivine_bench::text;
use olivine_bench::twice::{self, MeasuringError};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// What a measurement found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<Row>,
    pub(super) error: Option<MeasuringError>,
    pub(super) floor: Option<FloorResult>,
}

impl From<Vec<Row>> for Found {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

/// One scenario being measured.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) setup: Setup,
    pub(super) machine: Machine,
    pub(super) stop: Stop,
    started_unix_s: u64,
    /// Where the result is written besides standard output.
    save: Vec<PathBuf>,
}

impl Bench {
    pub(super) fn new(name: &'static str, method: &MethodArgs) -> Outcome<Self> {
        let cpus = cpus(method.cpus)?;
        let mut setup = setup(cpus, method.runs, method.seconds.as_secs_f64())?;
        setup.privileges = Privileges {
            real_time: method.fifo,
            locked_memory: method.mlock,
        };
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

    pub(super) fn measure<T, E>(
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
        if result.is_err() {
            // What is missing is missing for that reason.
            self.stop.cut_short()?;
        }
        Ok(result?)
    }

    /// Measures variants of a scenario, one of them twice.
    pub(super) fn measure_twice(
        &self,
        scenario: twice::Scenario,
        variants: &[Variant],
    ) -> Outcome<Found> {
        let (rows, error) =
            self.measure(|setup, watch| twice::run(scenario, setup, variants, watch))?;
        Ok(Found {
            rows,
            error,
            floor: None,
        })
    }

    /// Prints what was found, and writes it where it was asked for. Rows without figures make the command fail.
    pub(super) fn report(self, common: Common, found: Found, mut out: String) -> Outcome {
        let file = self.file(found);
        // What cannot be written is still printed.
        let saved = files::save(&file, &self.save);
        if common.json {
            print_json(&file)?;
        } else {
            out.push_str(&show::failed(&file));
            out.push_str(&show::conditions(&file));
            print(&folded(&out))?;
        }
        saved?;
        if file.failures().next().is_some() {
            return Err(Failure::BadResult);
        }
        self.stop.cut_short()
    }

    /// What was found, with what it was found on.
    pub(super) fn file(&self, found: Found) -> ResultFile {
        ResultFile {
            schema: SCHEMA.to_owned(),
            scenario: self.name.to_owned(),
            started_unix_s: self.started_unix_s,
            machine: self.machine.clone(),
            cpus: vec![self.setup.cpus.0, self.setup.cpus.1],
            runs: self.setup.runs,
            seconds_per_variant: self.setup.seconds,
            interrupted: self.stop.interrupted(),
            privileges: self.setup.privileges,
            measuring_error: found.error,
            floor: found.floor,
            results: found.rows,
        }
    }
}

/// The last slice in a few words.
fn live(progress: &scenario::Progress) -> String {
    let p50 = progress.p50_ns.map(|ns| format!("p50 {}", text::nanos(ns)));
    let rate = progress.messages_per_s.map(text::rate);
    p50.or(rate).unwrap_or_default()
}
