//! The self-check: planted errors must be found.
//!
//! Four checks. A stall of known length in a paced run must appear in the percentiles as all the
//! messages that it delayed, not as one (coordinated omission). A method that returns one wrong bit
//! must give a failure and no figure. A method that returns only a part of each message, with every
//! byte correct, must give the same. Two interleaved measurements of the same method show by how
//! much two figures may differ without meaning.

use crate::error::Result;
use crate::result::compare::RUNS_MIN;
use crate::result::{Distribution, MeasuringError, Outcome, Parameters, Row};
use crate::scenario::latency::{self, STALL_NS};
use crate::scenario::registry::run_twice;
use crate::scenario::throughput::OWN;
use crate::scenario::{Setup, Variant, Watch, pingpong};
use crate::text;

/// Messages a second of the stalled run: a tenth of a slice is delayed by the stall.
const RATE_PER_S: f64 = 100_000.0;
/// Share of the messages delayed by more than half of the stall that must be found.
const FOUND_SHARE: f64 = 0.8;
/// The measured method: it also works on a busy machine.
const METHOD: &str = "olivine-adaptive";
/// Bytes of a message.
const SIZE_BYTES: u64 = 32;

/// Result of one check.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// Whether it passed.
    pub ok: bool,
    /// The planted error and the result.
    pub what: String,
}

/// Runs the checks. The first program must know every method of [`crate::method::every`].
///
/// # Errors
///
/// [`crate::BenchError`] if nothing could be measured at all.
pub fn run(setup: &Setup, watch: Watch<'_>) -> Result<Vec<Finding>> {
    let variant = |method: &str, settings: &str| Variant {
        method: method.to_owned(),
        parameters: Parameters {
            rate_per_s: Some(RATE_PER_S),
            settings: settings.to_owned(),
            ..Parameters::pair(SIZE_BYTES)
        },
    };
    let stalled = latency::run_stalled(setup, &[variant(OWN, "wait=adaptive")], watch)?;
    let wrong = (pingpong::SCENARIO.run)(setup, &[variant("wrong-echo", "")], watch)?;
    let short = (pingpong::SCENARIO.run)(setup, &[variant("short-echo", "")], watch)?;
    let (rows, error) = run_twice(pingpong::SCENARIO.run, setup, &[variant(METHOD, "")], watch)?;
    Ok(vec![
        stall(&stalled.concat()),
        lie("wrong echo", "with one wrong bit", &wrong.concat()),
        lie("short echo", "that cuts an answer short", &short.concat()),
        same(error.as_ref(), &rows),
    ])
}

/// All messages that a stall delayed are late, by as much as it delayed them.
fn stall(rows: &[Row]) -> Finding {
    let judged: Vec<(bool, String)> = rows
        .iter()
        .filter_map(Row::measured)
        .filter_map(|measured| {
            Some(judge(
                measured.distribution.as_ref()?,
                measured.slices_count,
            ))
        })
        .collect();
    let ok = !judged.is_empty() && judged.iter().all(|(ok, _)| *ok);
    let mut what = format!(
        "a stall of {} in each slice: ",
        text::nanos(nanos(STALL_NS))
    );
    if judged.is_empty() {
        what.push_str(&reasons(rows));
    } else {
        let found = judged.into_iter().map(|(_, what)| what);
        what.push_str(&found.collect::<Vec<_>>().join("; "));
    }
    Finding {
        check: "stall",
        ok,
        what,
    }
}

/// Whether `found`, from `slices` slices with a stall each, shows every message that was delayed.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn judge(found: &Distribution, slices: u64) -> (bool, String) {
    let stall_ns = nanos(STALL_NS);
    let half_ns = stall_ns / 2.0;
    // Messages become due throughout the stall, so those of its first half wait for at least half
    // of it.
    let expected = (half_ns / 1e9 * RATE_PER_S * slices as f64).floor();
    let late = found.buckets_ns.iter().filter(|(ns, _)| *ns >= half_ns);
    let late: u64 = late.map(|(_, count)| count).sum();
    let ok = late as f64 >= expected * FOUND_SHARE && found.percentiles.max_ns >= stall_ns;
    let p99 = found
        .percentiles
        .p99_ns
        .map_or_else(|| "blank".to_owned(), text::nanos);
    let what = format!(
        "p99 {p99}, max {}, {} samples above {} where {expected:.0} are due",
        text::nanos(found.percentiles.max_ns),
        text::count(late),
        text::nanos(half_ns),
    );
    (ok, what)
}

/// A wrong reply gives a failure.
fn lie(check: &'static str, what: &str, rows: &[Row]) -> Finding {
    let wrong = |row: &Row| match &row.outcome {
        Outcome::Failed { reason } => reason.contains("did not arrive as it was sent"),
        _ => false,
    };
    let ok = !rows.is_empty() && rows.iter().all(wrong);
    let found = if rows.iter().any(|row| row.measured().is_some()) {
        "a figure".to_owned()
    } else {
        reasons(rows)
    };
    Finding {
        check,
        ok,
        what: format!("a method {what} gave: {found}"),
    }
}

/// The same method twice, interleaved: the difference is the measuring error.
fn same(error: Option<&MeasuringError>, rows: &[Row]) -> Finding {
    let what = match error {
        Some(error) => error.sentence(),
        None => format!(
            "no {RUNS_MIN} runs of both times were in one place: measure with --runs 5; {}",
            reasons(rows)
        ),
    };
    Finding {
        check: "measuring error",
        ok: error.is_some(),
        what: what.trim_end_matches("; ").to_owned(),
    }
}

fn reasons(rows: &[Row]) -> String {
    let reason = |row: &Row| match &row.outcome {
        Outcome::Failed { reason } => Some(reason.clone()),
        Outcome::Measured(_) => None,
    };
    rows.iter()
        .filter_map(reason)
        .collect::<Vec<_>>()
        .join("; ")
}

#[allow(clippy::cast_precision_loss, reason = "a short time")]
fn nanos(ns: u64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TickClock;
    use crate::latency::Latency;
    use crate::result::Load;

    /// A slice of 20,000 messages with a stall, seen by a correct clock and by a clock that stops
    /// during the stall.
    fn slice(honest: bool) -> Distribution {
        let clock = TickClock::calibrate();
        let mut latency = Latency::new();
        (0..18_000).for_each(|_| latency.record(clock.ticks_for(200)));
        for n in 0..2_000_u64 {
            let waits = honest || n == 0;
            let late = if waits {
                STALL_NS + 500 - n * 10_000
            } else {
                200
            };
            latency.record(clock.ticks_for(late));
        }
        Distribution::of(&latency, &clock).unwrap()
    }

    #[test]
    fn a_clock_that_stops_with_the_stall_is_caught() {
        let (ok, what) = judge(&slice(true), 1);
        assert!(ok, "{what}");
        let (ok, what) = judge(&slice(false), 1);
        assert!(!ok, "{what}");
        assert!(
            what.contains("1 samples above 10.0 ms where 1000 are due"),
            "{what}"
        );
    }

    #[test]
    fn a_figure_for_wrong_bytes_is_caught() {
        let failed = |reason: &str| {
            Row::failed(
                "pingpong",
                Load::Closed,
                "wrong-echo",
                Parameters::pair(32),
                reason,
            )
        };
        let judged = |rows: &[Row]| lie("wrong echo", "with one wrong bit", rows).ok;
        assert!(judged(&[failed(
            "message 7 did not arrive as it was sent: …"
        )]));
        assert!(!judged(&[failed("a participant did not answer")]));
        assert!(!judged(&[]));
        assert!(!same(None, &[]).ok && !stall(&[]).ok);
    }
}
