//! The checker against published results, and against itself.
//!
//! Verdicts in `published/verdicts.litmus` come from the papers named in `models.rs` and from the
//! catalogue of herd7 (`kinds.txt` of its aarch64 tests). Execution counts come from GenMC in the
//! tests of Miri.

use crate::execution::{self, Execution};
use crate::litmus::{Action, Change, Line, Litmus, Order};
use crate::models::{self, Model, Verdict};
use crate::{Checks, explore, programs};
use std::collections::{BTreeMap, BTreeSet};

const MODELS: [Model; 3] = [Model::Rc11, Model::Armv8, Model::Sc];

pub(crate) fn check(checks: &mut Checks) {
    for (name, (file, text)) in programs("published") {
        let litmus = match Litmus::parse(&file, &text, None) {
            Ok(litmus) => litmus,
            Err(error) => {
                checks.check(&format!("published::{name}"), Some(error));
                continue;
            }
        };
        for case in &litmus.cases {
            let program = litmus.changed(&case.changes);
            for (model, allowed) in &case.verdicts {
                let explored = explore(&program, by_name(model));
                let happens = explored.bad.is_some();
                let problem = (happens != *allowed).then(|| {
                    format!(
                        "published as {}",
                        if *allowed { "allowed" } else { "forbidden" }
                    )
                });
                checks.check(
                    &format!("published::{}::{model}", case.name.replace(' ', "_")),
                    problem,
                );
            }
            for (model, count) in &case.counts {
                let found = explore(&program, by_name(model)).executions;
                let problem = (found != *count).then(|| format!("{found} executions, not {count}"));
                checks.check(
                    &format!(
                        "published::{}::{model}::{count}_executions",
                        case.name.replace(' ', "_")
                    ),
                    problem,
                );
            }
        }
    }
    itself(checks);
}

fn by_name(name: &str) -> Model {
    let found = MODELS.into_iter().find(|model| model.name() == name);
    found.expect("a model's name")
}

/// Programs that are checked with every choice of orders and fences.
const SHAPES: [&str; 5] = ["sb", "mp", "s", "r", "2+2w"];

/// With every choice of orders and fences: sequentially consistent outcomes are possible, the
/// language allows what the machine does, and no weaker program forbids more.
fn itself(checks: &mut Checks) {
    let programs = programs("published");
    for shape in SHAPES {
        let (file, text) = &programs[shape];
        let litmus = Litmus::parse(file, text, None).expect("checked above");
        let labels: Vec<(String, Vec<Order>)> = litmus
            .labelled()
            .map(|line| (line.label.clone().unwrap_or_default(), choices(line)))
            .collect();
        let mut outcomes: BTreeMap<Vec<usize>, [BTreeSet<String>; 3]> = BTreeMap::new();
        let mut chosen = vec![0; labels.len()];
        let mut problem = None;
        loop {
            let changes = labels.iter().zip(&chosen);
            let changes =
                changes.map(|((label, orders), at)| (label.clone(), Change::Order(orders[*at])));
            let found = ends(&litmus.changed(&changes.collect()));
            let [rc11, armv8, sc] = &found;
            if !sc.is_subset(rc11) || !sc.is_subset(armv8) {
                problem = Some(format!(
                    "{chosen:?}: a sequentially consistent end is forbidden"
                ));
            }
            if !armv8.is_subset(rc11) {
                problem = Some(format!(
                    "{chosen:?}: the machine does what the language forbids"
                ));
            }
            for (at, orders) in labels.iter().map(|(_, orders)| orders).enumerate() {
                for weaker in
                    (0..chosen[at]).filter(|weaker| is_weaker(orders[*weaker], orders[chosen[at]]))
                {
                    let mut other = chosen.clone();
                    other[at] = weaker;
                    let other = &outcomes[&other];
                    if !rc11.is_subset(&other[0]) || !armv8.is_subset(&other[1]) {
                        problem = Some(format!("{chosen:?}: stronger, and allows more"));
                    }
                }
            }
            outcomes.insert(chosen.clone(), found);
            if !execution::advance(&mut chosen, |at| labels[at].1.len()) {
                break;
            }
        }
        let count = outcomes.len();
        checks.check(
            &format!("itself::{shape}_with_{count}_choices_of_orders"),
            problem,
        );
    }
}

/// Orders of a line, from weak to strong.
fn choices(line: &Line) -> Vec<Order> {
    use Order::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    match line.action {
        Action::Store { .. } => vec![Relaxed, Release, SeqCst],
        Action::Load { .. } => vec![Relaxed, Acquire, SeqCst],
        _ => vec![Relaxed, Acquire, Release, AcqRel, SeqCst],
    }
}

/// Acquire and release are not ordered; all others are.
fn is_weaker(weak: Order, strong: Order) -> bool {
    weak < strong && !(weak == Order::Acquire && strong == Order::Release)
}

/// The possible values of registers and places at the end, under each model.
fn ends(litmus: &Litmus) -> [BTreeSet<String>; 3] {
    let mut ends = MODELS.map(|_| BTreeSet::new());
    execution::candidates(litmus, &mut |execution: &Execution| {
        let end = format!("{:?}{:?}", execution.registers, execution.last);
        for (model, ends) in MODELS.into_iter().zip(&mut ends) {
            if !ends.contains(&end) && models::judge(model, execution) != Verdict::Never {
                ends.insert(end.clone());
            }
        }
    });
    ends
}
