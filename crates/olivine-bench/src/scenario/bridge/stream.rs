//! Full speed over `tcp://`, beside libraries that carry messages over TCP, with a server or
//! without.

use super::paced::OURS;
use super::{Beside, Field, Part, Plan, Resources, Target};
use crate::error::{BenchError, Result};
use crate::result::{Figures, Parameters, Row};
use crate::rival::{Job, Program, unpinned};
use crate::scenario::throughput::{self, Stream};
use crate::scenario::turns::Candidate;
use crate::scenario::{Setup, Variant};

const SMALL: u64 = 32;
const LARGE: u64 = 8192;
/// Messages that are made visible at once, where a candidate can do that.
const BATCH: u64 = 16;
/// Rings that are tried: the smallest default, and one with more room than a socket.
const RINGS: [u64; 2] = [1 << 20, 4 << 20];
/// Rates beside each rival, for small messages.
const TARGET: Target = Target::AtLeast(5.0);
/// What a stream of small messages should reach alone, in messages a second, and one of large ones,
/// in bytes.
const SMALL_PER_S: f64 = 20e6;
const LARGE_PER_S: f64 = ((1 << 30) / LARGE) as f64;

/// Rivals: the program, the method of it, and whether it needs a NATS server.
const RIVALS: [(&str, &str, bool); 2] =
    [("zeromq", "zeromq-tcp", false), ("nats", "nats-core", true)];

pub(super) fn enter(field: &mut Field<'_>, setup: &Setup, plan: &Plan) {
    let parameters = |size: u64, batch: u64, settings: &str| Parameters {
        batch_count: batch,
        settings: settings.to_owned(),
        ..Parameters::pair(size)
    };
    for (size, batch) in [(SMALL, BATCH), (LARGE, 1)] {
        for ring in RINGS {
            let name = format!("{OURS} {}", crate::text::bytes(ring));
            let variant = Variant {
                method: OURS.to_owned(),
                parameters: Parameters {
                    ring_bytes: Some(ring),
                    ..parameters(size, batch, &format!("capacity={ring}"))
                },
            };
            field.candidates.push(Candidate {
                scenario: Part::Stream.scenario(),
                method: name,
                ..Candidate::of::<Stream>(setup, variant)
            });
        }
    }
    let best = format!("{OURS} {}", crate::text::bytes(RINGS[1]));
    for (size, per_s) in [(SMALL, SMALL_PER_S), (LARGE, LARGE_PER_S)] {
        let beside = Beside::Rate(per_s);
        field.expect(Part::Stream, size, &best, beside, Target::AtLeast(1.0));
    }
    for (program, method, needs_server) in RIVALS {
        let server = needs_server.then(|| field.server(plan));
        let is_missing = matches!(server, Some(None));
        let Some(program) = field.rival(plan, program).filter(|_| !is_missing) else {
            continue;
        };
        let server = server.flatten();
        for (size, batch) in [(SMALL, BATCH), (LARGE, 1)] {
            let variant = Variant {
                method: method.to_owned(),
                parameters: parameters(size, batch, ""),
            };
            let (program, server) = (program.clone(), server.clone());
            field.add(
                Part::Stream,
                method,
                variant.parameters.clone(),
                move |turn| {
                    let mut variant = variant.clone();
                    if let Some(server) = &server {
                        variant.parameters.settings = server.borrow_mut().take()?.0;
                    }
                    theirs(turn, &program, &variant)
                },
            );
            if size == SMALL {
                field.compare(Part::Stream, size, &best, method, TARGET);
            }
        }
    }
}

fn theirs(turn: &mut Resources<'_>, program: &Program, variant: &Variant) -> Result<Figures> {
    let job = Job {
        scenario: throughput::SCENARIO.name.to_owned(),
        variants: vec![variant.clone()],
        cpus: turn.setup.cpus,
        runs: 1,
        seconds: turn.seconds(),
        privileges: turn.setup.privileges,
    };
    let rows = unpinned(|| program.measure(&job, turn.stopped))?;
    rate_of(&rows, &variant.method)
}

/// The rate of the place that most slices were in.
fn rate_of(rows: &[Row], name: &str) -> Result<Figures> {
    let measured = rows.iter().filter_map(Row::measured);
    let best = measured.max_by_key(|found| found.slices_count);
    let rate = best.and_then(|found| found.spread("messages_per_s"));
    rate.map(|rate| Figures::rate(rate.median)).ok_or_else(|| {
        let reason = rows.iter().find_map(|row| match &row.outcome {
            crate::result::Outcome::Failed { reason } => Some(reason.clone()),
            crate::result::Outcome::Measured(_) => None,
        });
        BenchError::Rival {
            name: name.to_owned(),
            message: reason.unwrap_or_else(|| "it gave no figure".to_owned()),
        }
    })
}
