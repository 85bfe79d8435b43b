//! The tables: printed, and compared with `docs/orderings.md` and `SAFETY.md`.

use crate::minimal::{Fate, Ordering};
use crate::models::Model;
use crate::{Checks, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const REPORT: &str = "docs/orderings.md";
/// Set to write the report instead of comparing it.
const WRITE: &str = "OLIVINE_WRITE_ORDERINGS";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn check(
    rows: &[Row],
    mutants: &BTreeMap<String, Fate>,
    orderings: &[Ordering],
    checks: &mut Checks,
) {
    let programs = programs(rows);
    let table = table(rows, orderings);
    println!("\n{programs}\n{table}");
    let text = format!(
        "# Orderings\n\n\
         Written by `OLIVINE_WRITE_ORDERINGS=1 cargo test -p olivine --test axiomatic`, compared\n\
         by `cargo xtask model`; [how to read it, and how it is\n\
         checked](../crates/olivine/model/axiomatic/README.md).\n\n\
         ## Programs\n\n{programs}\n\
         ## Each ordering, one step weaker\n\n{table}\n\
         ## Mutants of the sources\n\n{}\n\
         ## Counterexamples\n\n{}",
        mutant_table(mutants),
        counterexamples(orderings)
    );
    let path = root().join(REPORT);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &text).expect("the report is written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let stale =
        || format!("{REPORT} is not what was found: run with {WRITE}=1 and read what changed");
    checks.check("report::orderings_md", (known != text).then(stale));
    let safety = std::fs::read_to_string(root().join("SAFETY.md")).unwrap_or_default();
    for row in summary(rows, orderings) {
        let edge = row.split('|').nth(1).unwrap_or_default().trim().to_owned();
        let problem = (!safety.contains(&row)).then(|| format!("SAFETY.md lacks the row {row}"));
        checks.check(&format!("report::safety_md::{edge}"), problem);
    }
}

/// Edge, model, verdict, number of executions.
fn programs(rows: &[Row]) -> String {
    let mut text = String::from(
        "| program | edge | what it shows | model | executions | verdict |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let verdict = match (&row.explored.bad, row.litmus.allowed) {
            (None, false) => "holds",
            (Some(_), true) => "happens, as expected",
            _ => "FAILS",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {verdict} |",
            row.name,
            row.litmus.edges.join(", "),
            row.litmus.title,
            row.model.name(),
            row.explored.executions
        );
    }
    text
}

fn found(fate: &Fate, model: Model) -> String {
    match fate.by(model) {
        Some((name, _, _)) => format!("fails in {name}"),
        None => "holds".to_owned(),
    }
}

fn table(rows: &[Row], orderings: &[Ordering]) -> String {
    let places: BTreeMap<&str, &str> = rows
        .iter()
        .flat_map(|row| &row.litmus.sources)
        .map(|(label, path, _)| (label.as_str(), path.as_str()))
        .collect();
    let mut text = String::from(
        "| ordering | source | now | weaker | RC11 | ARMv8 | why it stays |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for ordering in orderings {
        let why = match &ordering.reason {
            Some(reason) => reason.as_str(),
            None => "needed",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {why} |",
            ordering.label,
            places.get(ordering.label.as_str()).unwrap_or(&""),
            ordering.from,
            ordering.to.name(),
            found(&ordering.fate, Model::Rc11),
            found(&ordering.fate, Model::Armv8),
        );
    }
    text
}

fn mutant_table(mutants: &BTreeMap<String, Fate>) -> String {
    let mut text = String::from("| mutant | RC11 | ARMv8 |\n| --- | --- | --- |\n");
    for (name, fate) in mutants {
        let (rc11, armv8) = (found(fate, Model::Rc11), found(fate, Model::Armv8));
        let _ = writeln!(text, "| {name} | {rc11} | {armv8} |");
    }
    text
}

/// One for each needed ordering: that of RC11, or of ARMv8 if only the machine shows it.
fn counterexamples(orderings: &[Ordering]) -> String {
    let mut text = String::from(
        "Events of each thread in program order. A load says what it sees and from which store: a\n\
         letter for the thread, a number for the line.\n",
    );
    for ordering in orderings {
        if let Some((name, model, execution)) = ordering.fate.shown.first() {
            let _ = write!(
                text,
                "\n### {}: {} to {}\n\n`{name}` under {}:\n\n```text\n{execution}```\n",
                ordering.label,
                ordering.from,
                ordering.to.name(),
                model.name()
            );
        }
    }
    text
}

/// One row an edge, as in `SAFETY.md`.
fn summary(rows: &[Row], orderings: &[Ordering]) -> Vec<String> {
    let edges: BTreeSet<&String> = rows.iter().flat_map(|row| &row.litmus.edges).collect();
    let row = |edge: &String| {
        let own = || rows.iter().filter(|row| row.litmus.edges.contains(edge));
        let names: BTreeSet<&str> = own().map(|row| row.name.as_str()).collect();
        let count = |model| -> u64 {
            own()
                .filter(|row| row.model == model)
                .map(|row| row.explored.executions)
                .sum()
        };
        let labels: BTreeSet<&str> = own()
            .flat_map(|row| row.litmus.labelled())
            .filter_map(|line| line.label.as_deref())
            .collect();
        let about = || {
            orderings
                .iter()
                .filter(|o| labels.contains(o.label.as_str()))
        };
        let needed = about().filter(|o| o.reason.is_none()).count();
        format!(
            "| {edge} | {} | {} | {} | {needed} | {} |",
            names.len(),
            count(Model::Rc11),
            count(Model::Armv8),
            about().count() - needed
        )
    };
    edges.into_iter().map(row).collect()
}

/// An execution as text.
pub(crate) mod show {
    use crate::execution::{Execution, NO_THREAD};
    use crate::litmus::Litmus;
    use crate::models::Verdict;
    use crate::trace::Kind;
    use std::fmt::Write as _;

    /// Events by thread in program order; the value and source of each load; the order of stores;
    /// the fault.
    pub(crate) fn execution(litmus: &Litmus, execution: &Execution, verdict: Verdict) -> String {
        let mut text = String::new();
        let name = |event: usize| {
            let thread = execution.events[event].thread;
            if thread == NO_THREAD {
                "the start".to_owned()
            } else {
                number(execution, event)
            }
        };
        for (thread, told) in litmus.threads.iter().enumerate() {
            let dead = if execution.done[thread] {
                ""
            } else {
                " (dies)"
            };
            let _ = writeln!(text, "{}{dead}", told.name);
            for event in in_order(execution, thread) {
                let here = &execution.events[event];
                // A read-modify-write is one line: its read's.
                let half = here.modifies && here.kind == Kind::Write;
                if half || here.kind == Kind::HeavyEnds {
                    continue;
                }
                let mut line = format!("  {:>3}  {:<34}", number(execution, event), here.text);
                if here.kind == Kind::Read {
                    let from = (0..execution.size()).find(|write| execution.rf.has(*write, event));
                    let from = from.map_or_else(String::new, &name);
                    let _ = write!(line, "  sees {} from {from}", here.value);
                }
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        for (place, told) in litmus.places.iter().enumerate() {
            let writes = (0..execution.size()).filter(|event| {
                execution.is(*event, Kind::Write) && execution.events[*event].place == place
            });
            let mut writes: Vec<usize> = writes.collect();
            writes.sort_by_key(|write| {
                (0..execution.size())
                    .filter(|w| execution.co.has(*w, *write))
                    .count()
            });
            if writes.len() > 2 {
                let order: Vec<String> = writes.iter().map(|write| name(*write)).collect();
                let _ = writeln!(text, "stores of {told}, in order: {}", order.join(", "));
            }
        }
        let bad = litmus
            .forbid
            .as_ref()
            .is_some_and(|bad| execution.holds(bad));
        if let Verdict::Race(a, b) = verdict {
            let _ = writeln!(
                text,
                "race: {} and {} use one plain place, unordered",
                name(a),
                name(b)
            );
        }
        if bad {
            let _ = writeln!(text, "the forbidden end is reached");
        }
        text
    }

    /// Threads are letters, lines numbers; both halves of a read-modify-write have one number.
    fn number(execution: &Execution, event: usize) -> String {
        let thread = execution.events[event].thread;
        let own = in_order(execution, thread);
        let at = own.iter().position(|other| *other == event).unwrap_or(0);
        let skipped = own[..=at].iter().filter(|event| {
            let here = &execution.events[**event];
            (here.modifies && here.kind == Kind::Write) || here.kind == Kind::HeavyEnds
        });
        let letter = char::from(b'a' + u8::try_from(thread % 26).unwrap_or(0));
        format!("{letter}{}", at + 1 - skipped.count())
    }

    /// The events of a thread. A fence of another thread's `membarrier` follows the events that
    /// surely come before it.
    fn in_order(execution: &Execution, thread: usize) -> Vec<usize> {
        let own = |event: &usize| execution.events[*event].thread == thread;
        let mut order: Vec<usize> = (0..execution.size())
            .filter(own)
            .filter(|event| !execution.is(*event, Kind::Struck))
            .collect();
        for fence in (0..execution.size()).filter(own) {
            if execution.is(fence, Kind::Struck) {
                let at = order
                    .iter()
                    .rposition(|event| execution.po.has(*event, fence));
                order.insert(at.map_or(0, |at| at + 1), fence);
            }
        }
        order
    }
}
