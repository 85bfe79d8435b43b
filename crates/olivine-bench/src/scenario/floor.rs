//! The hardware limits on their own. The other scenarios compare with the first, the floor.

use super::pingpong::PingPong;
use super::turns::{Candidate, RunSlot, Subject, measure_all};
use super::{FLOOR_ROUNDS, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::{each_ns, middle_ns, per_s};
use crate::method;
use crate::protocol::{Done, Limit};
use crate::result::{Figures, Load, Parameters, Row, floor};

/// Message size whose copying is measured, in bytes.
const COPY_BYTES: usize = 8192;
/// Memory that the copies walk through, in bytes: the smallest default capacity of a ring.
pub const COPY_RING_BYTES: usize = 1 << 20;
/// Bytes of a message whose receiver a futex wakes.
const WOKEN_BYTES: u64 = 32;
/// Time of one slice of the bare cache line, with those beside it, in nanoseconds.
const SLICE_NS: f64 = 4e6;

/// Measures the hardware limits.
///
/// # Errors
///
/// [`BenchError`](crate::BenchError) if a process cannot be started, pinned or does not answer.
pub fn run(setup: &Setup, watch: Watch<'_>) -> Result<Vec<Row>> {
    let sleepers = Variant {
        method: method::FUTEX.name.to_owned(),
        parameters: Parameters::pair(WOKEN_BYTES),
    };
    let mut line = candidate(floor::LINE, move |turn| {
        while turn.slice(|set, _| Ok(Figures::round_trips(set.floor(FLOOR_ROUNDS)?)))? {}
        Ok(())
    });
    line.slices = super::slices_per_run(setup, SLICE_NS);
    let copy = Limit::Copy {
        size_bytes: COPY_BYTES,
        ring_bytes: COPY_RING_BYTES,
    };
    let mut candidates = vec![
        line,
        cost(floor::COPY, copy, "bytes_per_s", per_s),
        cost(floor::CALL, Limit::Call, "p50_ns", each_ns),
        cost(floor::WAKE, Limit::Wake, "p50_ns", each_ns),
    ];
    candidates.push(candidate(floor::SLEEPERS, |turn| {
        let mut pingpong = PingPong::open(turn.session, &sleepers)?;
        turn.slice(|set, clock| {
            let times = pingpong.slice(set, clock)?.times.unwrap_or_default();
            Ok(Figures::default().with("p50_ns", middle_ns(clock, &times)))
        })?;
        turn.session.set.close()
    }));
    candidates.push(cost(floor::CLOCK, Limit::Clock, "p50_ns", each_ns));
    Ok(measure_all(setup, candidates, watch)?.concat())
}

/// A limit that `play` measures, in one slice a run.
fn candidate<'a>(
    method: &str,
    play: impl FnMut(&mut RunSlot<'_, '_>) -> Result<()> + 'a,
) -> Candidate<'a> {
    Candidate {
        scenario: floor::SCENARIO,
        load: Load::Closed,
        method: method.to_owned(),
        lacks: String::new(),
        parameters: Parameters::pair(0),
        slices: 1,
        play: Box::new(play),
    }
}

/// A limit of one CPU that is one number.
fn cost<'a>(
    method: &str,
    limit: Limit,
    name: &'static str,
    of: fn(&TickClock, &Done) -> f64,
) -> Candidate<'a> {
    candidate(method, move |turn| {
        let slice = turn.slice(|set, clock| {
            let value = of(clock, &set.limit(limit)?);
            Ok(Figures::default().with(name, value))
        });
        slice.map(|_| ())
    })
}
