//! The hardware limits on their own. The other scenarios compare with the first, the floor.

use super::pingpong::PingPong;
use super::turns::{Candidate, RunSlot, Subject, measure_all};
use super::{FLOOR_ROUNDS, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::{
    copy_bytes_per_s, distribution, futex_wake_ns, middle_ns, round_trips, system_call_ns,
};
use crate::machine;
use crate::method;
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
        method: method::FUTEX.name().to_owned(),
        parameters: Parameters::pair(WOKEN_BYTES),
    };
    let mut samples = Vec::new();
    let mut line = candidate(floor::LINE, move |turn| {
        while turn.slice(|peer, _| {
            round_trips(peer, FLOOR_ROUNDS, &mut samples)?;
            Ok(Figures::round_trips(distribution(&samples)))
        })? {}
        Ok(())
    });
    line.slices = super::slices_per_run(setup, SLICE_NS);
    let copied = |clock: &TickClock| copy_bytes_per_s(clock, COPY_BYTES, COPY_RING_BYTES);
    let mut candidates = vec![
        line,
        cost(floor::COPY, "bytes_per_s", copied),
        cost(floor::CALL, "p50_ns", system_call_ns),
        cost(floor::WAKE, "p50_ns", futex_wake_ns),
    ];
    // The second process may not know the method.
    if method::find(setup.methods, &sleepers.method).is_ok() {
        candidates.push(candidate(floor::SLEEPERS, |turn| {
            let mut pingpong = PingPong::open(turn.session, &sleepers)?;
            turn.slice(|peer, clock| {
                let times = pingpong.slice(peer, clock)?.times.unwrap_or_default();
                Ok(Figures::default().with("p50_ns", middle_ns(clock, &times)))
            })?;
            pingpong.close(&mut turn.session.peer)
        }));
    }
    candidates.push(cost(floor::CLOCK, "p50_ns", machine::clock_cost_ns));
    Ok(measure_all(setup, candidates, watch, &|| false)?.concat())
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
        lacks: "",
        parameters: Parameters::pair(0),
        slices: 1,
        play: Box::new(play),
    }
}

/// A limit that is one number, measured in this process.
fn cost<'a>(method: &str, name: &'static str, of: fn(&TickClock) -> f64) -> Candidate<'a> {
    candidate(method, move |turn| {
        let one = |clock: &TickClock| Figures::default().with(name, of(clock));
        turn.slice(|_, clock| Ok(one(clock))).map(|_| ())
    })
}
