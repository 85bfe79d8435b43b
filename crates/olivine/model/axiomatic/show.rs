//! An execution as text.

use crate::execution::{Execution, NO_THREAD};
use crate::litmus::Litmus;
use crate::models::Verdict;
use crate::trace::Kind;
use std::fmt::Write as _;

/// Events by thread in program order; the value and source of each load; the order of stores; the
/// fault.
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

/// The events of a thread. A fence of another thread's `membarrier` follows the events that surely
/// come before it.
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
