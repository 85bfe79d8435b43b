//! Mutants, and orderings one step weaker: each must be rejected, or have a reason to stay.

use crate::litmus::{Action, Change, Line, Litmus, Order};
use crate::models::Model;
use crate::report::show;
use crate::{Checks, Explored, Row, change, explore};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a weakened program.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Programs that reject it, each with the model and the counterexample.
    pub(crate) shown: Vec<(String, Model, String)>,
}

impl Fate {
    fn add(&mut self, name: &str, litmus: &Litmus, model: Model, explored: &Explored) {
        if let Some((execution, verdict)) = &explored.bad {
            let text = show::execution(litmus, execution, *verdict);
            self.shown.push((name.to_owned(), model, text));
        }
    }

    /// The first program that rejects it under `model`.
    pub(crate) fn by(&self, model: Model) -> Option<&(String, Model, String)> {
        self.shown.iter().find(|(_, by, _)| *by == model)
    }
}

/// Programs, except those that only show a possible outcome.
fn that_forbid(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| !row.litmus.allowed)
}

/// Each mutant of the sources is rejected by a program.
pub(crate) fn mutants(
    edges: &BTreeMap<String, (String, String)>,
    rows: &[Row],
    checks: &mut Checks,
) -> BTreeMap<String, Fate> {
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    for row in that_forbid(rows) {
        let (file, text) = &edges[&row.name];
        for name in &row.litmus.structural {
            let fate = fates.entry(name.clone()).or_default();
            if let Ok(litmus) = Litmus::parse(file, text, Some(name)) {
                fate.add(&row.name, &litmus, row.model, &explore(&litmus, row.model));
            }
        }
        for (name, label, to) in &row.litmus.mutants {
            let litmus = row.litmus.changed(&change(label, *to));
            let fate = fates.entry(name.clone()).or_default();
            fate.add(&row.name, &litmus, row.model, &explore(&litmus, row.model));
        }
    }
    for (name, fate) in &fates {
        let problem = fate
            .shown
            .is_empty()
            .then(|| "SURVIVED: no program needs it".to_owned());
        checks.check(&format!("mutants::{name}"), problem);
    }
    fates
}

/// One ordering, one step weaker.
#[derive(Debug)]
pub(crate) struct Ordering {
    pub(crate) label: String,
    pub(crate) from: &'static str,
    pub(crate) to: Change,
    pub(crate) fate: Fate,
    /// Why it stays if no program needs it.
    pub(crate) reason: Option<String>,
}

/// The orderings one step weaker than that of `line`.
fn weaker(line: &Line) -> Vec<Change> {
    use Order::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    let fence = line.action == Action::Fence;
    let to = |orders: &[Order]| orders.iter().copied().map(Change::Order).collect();
    match (&line.action, line.order) {
        (Action::Light | Action::Heavy, _) => vec![Change::Gone],
        (_, Some(SeqCst)) => to(&[AcqRel]),
        (_, Some(AcqRel)) => to(&[Acquire, Release]),
        (_, Some(Acquire | Release)) if fence => vec![Change::Gone],
        (_, Some(Acquire | Release)) => to(&[Relaxed]),
        _ => Vec::new(),
    }
}

/// Each ordering of the programs, one step weaker: rejected by at least one program, or kept for a
/// reason.
pub(crate) fn orderings(rows: &[Row], checks: &mut Checks) -> Vec<Ordering> {
    let mut labels: BTreeMap<String, (&'static str, BTreeSet<Change>)> = BTreeMap::new();
    for line in that_forbid(rows).flat_map(|row| row.litmus.labelled()) {
        let changes = weaker(line);
        let label = line.label.clone().unwrap_or_default();
        if !changes.is_empty() {
            let from = line.order.map_or("there", Order::name);
            labels
                .entry(label)
                .or_insert((from, BTreeSet::new()))
                .1
                .extend(changes);
        }
    }
    let kept = |label: &str, to: Change| {
        let all = rows.iter().flat_map(|row| &row.litmus.keep);
        let mut own = all.filter(|(kept, change, _)| kept == label && *change == to);
        own.next().map(|(_, _, why)| why.clone())
    };
    let mut all = Vec::new();
    for (label, (from, changes)) in labels {
        for to in changes {
            let mut fate = Fate::default();
            for row in that_forbid(rows).filter(|row| row.litmus.line_of(&label).is_some()) {
                let litmus = row.litmus.changed(&change(&label, to));
                fate.add(&row.name, &litmus, row.model, &explore(&litmus, row.model));
            }
            let reason = kept(&label, to);
            let problem = match (fate.shown.is_empty(), &reason) {
                (true, None) => Some("no program needs it, and no reason is given".to_owned()),
                (false, Some(_)) => Some("kept for a reason, but it is needed".to_owned()),
                _ => None,
            };
            checks.check(
                &format!("orderings::{label}::{from}_to_{}", to.name()),
                problem,
            );
            all.push(Ordering {
                label: label.clone(),
                from,
                to,
                fate,
                reason,
            });
        }
    }
    all
}
