//! One measurement: progress, interruption, and the result in every requested format.

use super::{WAITED_NOTABLY, cpus, files, print as show, setup};
use crate::args::{Common, MethodArgs};
use crate::failure::{Failure, Outcome};
use crate::log;
use crate::output::{folded, print, print_json};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine_bench::machine::Machine;
use olivine_bench::privileges::Privileges;
use olivine_bench::render;
use olivine_bench::result::file::{SCHEMA, unix_time_s};
use olivine_bench::result::{Parameters, ResultFile, Results, Row};
use olivine_bench::scenario::registry::{self, Run};
use olivine_bench::scenario::{self, Setup, Variant};
use olivine_bench::text;
use olivine_bench::view::{self, Source};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Fewest processes of a measurement: the measuring one and the second one.
const PAIR: u32 = 2;

/// One measurement.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) setup: Setup,
    pub(super) machine: Machine,
    pub(super) stop: Stop,
    /// Most processes that are measured together.
    participants: u32,
    pub(super) started_unix_s: u64,
    started: Instant,
    /// After every variant had its first turn, no turn begins after this time.
    budget: Option<Duration>,
    /// Whether the budget was used up.
    is_used_up: Cell<bool>,
    /// Files for the result.
    save: Vec<PathBuf>,
    /// Text above the tables.
    pub(super) about: String,
    /// Whether the tables are printed in Markdown.
    pub(super) markdown: bool,
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
        let stop = Stop::install()?;
        setup.stop = stop.flag();
        Ok(Self {
            name,
            setup,
            machine: Machine {
                checks: crate::doctor::conditions(),
                ..Machine::look()
            },
            stop,
            participants: PAIR,
            started_unix_s: unix_time_s(),
            started: Instant::now(),
            budget: None,
            is_used_up: Cell::new(false),
            save: method.save.clone(),
            about: String::new(),
            markdown: false,
        })
    }

    /// The same with a time budget, also if turns are slower than planned.
    pub(super) fn within(mut self, budget: Option<Duration>) -> Self {
        self.budget = budget;
        self
    }

    /// Whether the budget is used up, every variant had its first turn, and more is left.
    fn is_over(&self, progress: &scenario::Progress) -> bool {
        let is_late = self
            .budget
            .is_some_and(|budget| self.started.elapsed() >= budget);
        let had_turns = progress.done * u64::from(self.setup.runs) >= progress.total;
        let over = is_late && had_turns && progress.done < progress.total;
        self.is_used_up.set(self.is_used_up.get() || over);
        over
    }

    /// Counts the processes that are measured together, so that the result names the CPUs of all.
    /// Refuses shapes in which processes that share a CPU would keep each other from running.
    pub(super) fn place<'a>(&mut self, shapes: impl Iterator<Item = &'a Parameters>) -> Outcome {
        for of in shapes {
            let participants = of.publishers_count + of.subscribers_count;
            let refuse = |what: &str, how: &str| {
                let allowed = self.setup.allowed.len();
                Err(Failure::usage(format!(
                    "{what} needs a CPU for each process: two that share one would keep each \
                     other from running; {participants} processes have {allowed} CPUs: {how}"
                )))
            };
            if of.oversubscribed && self.setup.privileges.real_time {
                return refuse("--fifo", "leave it out, or measure fewer processes");
            }
            if of.oversubscribed && of.wait.as_deref() == Some("spin") {
                return refuse("wait=spin", "wait otherwise, or measure fewer processes");
            }
            self.participants = self.participants.max(participants);
        }
        Ok(())
    }

    /// Takes the privileges that are asked for before anything is measured.
    pub(super) fn take_privileges(&self) -> Outcome {
        Ok(self.setup.privileges.take()?)
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
            if self.stop.now() || self.is_over(&progress) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Some(bar) = bar {
            bar.clear();
        }
        if result.is_err() {
            // The interruption explains the missing results.
            self.stop.cut_short()?;
        }
        Ok(result?)
    }

    /// Measures variants of a scenario, one of them twice.
    pub(super) fn measure_twice(&self, scenario: Run, variants: &[Variant]) -> Outcome<Results> {
        let (rows, measuring_error) =
            self.measure(|setup, watch| registry::run_twice(scenario, setup, variants, watch))?;
        Ok(Results {
            rows,
            measuring_error,
            ..Results::default()
        })
    }

    /// Prints the results, and writes the requested files. Rows without figures make the command
    /// fail.
    pub(super) fn report(self, common: Common, found: Results) -> Outcome {
        let busy = busy(&found.rows, self.started.elapsed());
        for line in &found.left_out {
            log::warn(line);
        }
        let file = self.file(found);
        // If a file cannot be written, the result is still printed.
        let saved = files::save(&file, &self.save);
        if common.json {
            print_json(&file)?;
        } else {
            let name = self.name.to_owned();
            let view = view::view(&[Source {
                name,
                file: file.clone(),
            }]);
            if self.markdown {
                print(&render::markdown(&view))?;
                return self.ended(&file, saved);
            }
            let mut out = self.about.clone() + &show::text(&view);
            if self.is_used_up.get() {
                let seconds = self.started.elapsed().as_secs();
                out.push_str(&format!(
                    "ended after {seconds} s with fewer runs of some: the machine was too busy \
                    for all of them\n"
                ));
            }
            out.push_str(&busy);
            if file.is_quotable() {
                out.push_str(&show::quotation(&view));
            }
            print(&folded(&out))?;
        }
        self.ended(&file, saved)
    }

    /// The end of a command that has printed its results.
    fn ended(&self, file: &ResultFile, saved: Outcome) -> Outcome {
        saved?;
        if file.failures().next().is_some() {
            return Err(Failure::BadResult);
        }
        self.stop.cut_short()
    }

    /// The results, with their conditions.
    pub(super) fn file(&self, found: Results) -> ResultFile {
        ResultFile {
            schema: SCHEMA.to_owned(),
            scenario: self.name.to_owned(),
            started_unix_s: self.started_unix_s,
            machine: self.machine.clone(),
            cpus: self.setup.cpus_of(self.participants),
            runs: self.setup.runs,
            seconds_per_variant: self.setup.seconds,
            interrupted: self.stop.interrupted(),
            cut_short: self.is_used_up.get(),
            privileges: self.setup.privileges,
            measuring_error: found.measuring_error,
            ratios: [found.ratios, registry::reached(&found.rows)].concat(),
            results: found.rows,
            left_out: found.left_out,
        }
    }
}

/// A line if other work kept the two processes from their CPUs, which affects the figures.
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn busy(rows: &[Row], elapsed: Duration) -> String {
    if rows.iter().any(|row| row.parameters.oversubscribed) {
        // More processes than CPUs: ours compete with each other.
        return String::new();
    }
    let measured = rows.iter().filter_map(Row::measured);
    let waited: u64 = measured.map(|row| row.kernel.waited_for_cpu_ns).sum();
    let share = waited as f64 / (elapsed.as_nanos() as f64).max(1.0);
    if share < WAITED_NOTABLY {
        return String::new();
    }
    format!(
        "the machine was busy: for {} % of the time one of the two was ready and had no CPU\n",
        text::three_figures((share * 100.0).min(100.0)),
    )
}

/// The last slice in a few words.
fn live(progress: &scenario::Progress) -> String {
    let p50 = progress.p50_ns.map(|ns| format!("p50 {}", text::nanos(ns)));
    let rate = progress.messages_per_s.map(text::rate);
    p50.or(rate).unwrap_or_default()
}
