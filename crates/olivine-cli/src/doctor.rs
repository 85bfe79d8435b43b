//! `olivine doctor`: what on this machine makes Olivine slow or stops it, and the command that
//! mends it.
//!
//! It only reads: files below `/proc`, `/sys` and `/etc`, and the shared words of a channel that is
//! named, twice, half a second apart. Each check is a function of a [`Snapshot`] or of
//! [`Participants`]; a value that cannot be read is `unknown`.

mod cgroup;
mod memory;
mod participants;
mod processors;
mod rule;
mod snapshot;
mod system;
mod topology;

use crate::admin;
use crate::args::{Common, DoctorArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json, table};
use crate::stop::Stop;
use crate::terminal::escaped;
use crate::watch::{self, FIRST_WINDOW, Watch};
use olivine_bench::machine::Check;
use olivine_bench::text::plural;
use participants::Participants;
use rule::{Finding, Rule, Status};
use serde::Serialize;
use snapshot::{Facts, Snapshot};
use std::path::Path;
use std::time::Instant;

/// The JSON output.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Whether no check found a problem.
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    good_count: usize,
    note_count: usize,
    unknown_count: usize,
    warning_count: usize,
    problem_count: usize,
    elapsed_ns: u64,
    checks: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, common: Common) -> Outcome {
    let begun = Instant::now();
    let channel = match &args.uri {
        Some(uri) => Some(admin::config(uri, args.dir.as_deref())?),
        None => None,
    };
    let folder = match (&channel, &args.dir) {
        (Some(config), _) if config.get_dir().is_some() => config.get_dir().map(Into::into),
        (_, Some(dir)) => Some(dir.into()),
        _ => None,
    };
    let folder = folder.unwrap_or_else(olivine::admin::default_dir);
    let seen = Snapshot::new("/", Facts::look(&folder));
    let mut checks = check_machine(&seen);
    if let Some(config) = &channel {
        let info = olivine::admin::inspect(config)?;
        let participants = Participants::of(&seen, &info, holds(args)?);
        checks.extend(run_all(participants::RULES, &participants));
    }
    let channel = channel.map(|config| config.channel().to_owned());
    let report = Report::new(channel, begun, checks);
    if common.json {
        print_json(&report)?;
    } else {
        print(&folded(&report.text(args.all)))?;
    }
    if report.ok {
        Ok(())
    } else {
        Err(Failure::BadResult)
    }
}

/// Who holds back publishers of the channel: what `top` finds between two looks.
fn holds(args: &DoctorArgs) -> Outcome<Result<Vec<watch::view::Finding>, String>> {
    let uris: Vec<String> = args.uri.iter().cloned().collect();
    let mut watch = Watch::new(&uris, args.dir.as_deref(), admin::Looks::Once)?;
    let stop = Stop::install()?;
    watch.look()?;
    if !stop.wait_until(Instant::now() + FIRST_WINDOW) {
        stop.cut_short()?;
    }
    let view = watch.look()?;
    let error = view.channels.into_iter().find_map(|one| one.error);
    Ok(error.map_or(Ok(view.findings), Err))
}

/// The report about this machine, with this folder of channels.
pub(crate) fn machine(folder: &Path) -> Report {
    let begun = Instant::now();
    let seen = Snapshot::new("/", Facts::look(folder));
    Report::new(None, begun, check_machine(&seen))
}

/// What the checks of the machine find, for the result of a measurement.
pub(crate) fn conditions() -> Vec<Check> {
    let seen = Snapshot::new("/", Facts::look(&olivine::admin::default_dir()));
    let found = check_machine(&seen).into_iter().map(|one| Check {
        id: one.id.to_owned(),
        status: one.status.word().to_owned(),
        value: one.value,
    });
    found.collect()
}

/// Every check of the machine.
fn check_machine(seen: &Snapshot) -> Vec<Finding> {
    [memory::RULES, processors::RULES, system::RULES]
        .into_iter()
        .flat_map(|rules| run_all(rules, seen))
        .collect()
}

fn run_all<S>(rules: &[Rule<S>], seen: &S) -> Vec<Finding> {
    rules.iter().map(|rule| rule.run(seen)).collect()
}

impl Report {
    fn new(channel: Option<String>, begun: Instant, checks: Vec<Finding>) -> Self {
        let count = |status| checks.iter().filter(|one| one.status == status).count();
        Self {
            ok: count(Status::Problem) == 0,
            channel,
            good_count: count(Status::Good),
            note_count: count(Status::Note),
            unknown_count: count(Status::Unknown),
            warning_count: count(Status::Warning),
            problem_count: count(Status::Problem),
            elapsed_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            checks,
        }
    }

    /// A row for each check, then what to do, the worst last: it stays on the screen.
    fn text(&self, all: bool) -> String {
        let row = |one: &Finding| {
            vec![
                one.status.word().to_owned(),
                one.id.to_owned(),
                one.value.clone(),
            ]
        };
        let mut sorted: Vec<&Finding> = self.checks.iter().collect();
        sorted.sort_by_key(|one| one.status);
        let rows = sorted.iter().map(|one| row(one)).collect();
        let mut out = table(&["STATUS", "CHECK", "VALUE"], &[], rows);
        let explained = sorted
            .iter()
            .filter(|one| all || one.status >= Status::Warning);
        out.extend(explained.map(|one| one.text()));
        out.push_str(&self.sum(all));
        out
    }

    fn sum(&self, all: bool) -> String {
        let plural = |number: usize, thing| plural(number as u64, thing);
        let more = if all || self.note_count == 0 {
            ""
        } else {
            "; --all explains the notes"
        };
        let end = match (&self.channel, self.ok) {
            (_, false) => "a problem stops Olivine here".to_owned(),
            (Some(channel), _) => format!("no problem found on this machine or in {channel}"),
            (None, _) => "no problem found on this machine; no channel was looked at".to_owned(),
        };
        format!(
            "\n{} good, {}, {} unknown, {}, {}\n{end}{more}\n",
            self.good_count,
            plural(self.note_count, "note"),
            self.unknown_count,
            plural(self.warning_count, "warning"),
            plural(self.problem_count, "problem"),
        )
    }
}

impl Finding {
    /// Why it matters and what to do, for people.
    fn text(&self) -> String {
        let mut out = format!(
            "\n{} {}: {}\n",
            self.status.word(),
            self.id,
            escaped(&self.value)
        );
        out.push_str(&format!("  why     {}\n", self.why));
        if let Some(effect) = &self.effect {
            out.push_str(&format!(
                "  effect  {} ({})\n",
                effect.text, effect.document
            ));
        }
        if let Some(mend) = &self.mend {
            out.push_str(&format!("  mend    {}\n", escaped(mend)));
        }
        out
    }
}

#[cfg(test)]
#[path = "doctor/tests.rs"]
mod tests;
