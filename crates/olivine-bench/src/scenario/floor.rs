//! The floor on its own: what the other scenarios compare with.

use super::pingpong::PingPong;
use super::turns::{Subject, Taken};
use super::{Progress, Session, Setup, Variant, Watch};
use crate::error::{BenchError, Result};
use crate::floor::{copy_bytes_per_s, futex_wake_ns, middle_ns, system_call_ns};
use crate::latency::Latency;
use crate::machine;
use crate::method;
use crate::result::{FloorResult, LineResult, Parameters, Placement};
use crate::spread::Spread;
use std::collections::BTreeMap;

/// Message size whose copying is measured, in bytes.
pub const COPY_BYTES: usize = 8192;
/// Memory that the copies walk through: the default capacity of a ring, in bytes.
pub const COPY_RING_BYTES: usize = 1 << 20;
/// Bytes of a message whose arrival a futex tells.
const WOKEN_BYTES: u64 = 32;
/// Time of one slice with its share of everything, in nanoseconds.
const SLICE_NS: f64 = 2e6;

/// Slices of the floor under one placement.
#[derive(Default)]
struct Lines {
    slices: u64,
    floor: Latency,
    /// p50 of each slice, with its run.
    values: Vec<(u32, f64)>,
}

/// Measures the floor.
///
/// # Errors
///
/// [`BenchError`] if a process cannot be started, pinned or does not answer.
pub fn run(setup: &Setup, watch: Watch<'_>) -> Result<FloorResult> {
    let slices = super::slices_per_run(setup, SLICE_NS);
    let total = u64::from(setup.runs) * u64::from(slices);
    let mut session = Session::start(setup, total, watch)?;
    let mut groups: BTreeMap<Placement, Lines> = BTreeMap::new();
    let (mut copies, mut calls, mut readings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut wakes, mut wake_trips) = (Vec::new(), Vec::new());
    'runs: for run in 0..setup.runs {
        copies.push(copy_bytes_per_s(
            &session.clock,
            COPY_BYTES,
            COPY_RING_BYTES,
        ));
        calls.push(system_call_ns(&session.clock));
        readings.push(machine::clock_cost_ns(&session.clock));
        wakes.push(futex_wake_ns(&session.clock));
        wake_trips.extend(futex_round_trip_ns(&mut session)?);
        for _ in 0..slices {
            let floor = session.floor()?;
            let p50_ns = middle_ns(&session.clock, &floor);
            let group = groups.entry(Placement::of(p50_ns)).or_default();
            group.slices += 1;
            group.values.push((run, p50_ns));
            group.floor.merge(&floor);
            if session.step().is_break() {
                break 'runs;
            }
        }
    }
    let Progress { done, .. } = session.progress;
    let spread = |values: &[f64]| {
        Spread::of(values)
            .filter(|_| done > 0)
            .ok_or(BenchError::Stopped)
    };
    let cache_line = groups.iter().filter_map(|(&placement, group)| {
        Some(LineResult {
            placement,
            slices: group.slices,
            round_trip: group.floor.percentiles(&session.clock)?,
            round_trip_p50_ns: Spread::over_runs(&group.values)?,
        })
    });
    Ok(FloorResult {
        cache_line: cache_line.collect(),
        copy_bytes_per_s: spread(&copies)?,
        system_call_ns: spread(&calls)?,
        futex_wake_ns: Some(spread(&wakes)?),
        futex_round_trip_ns: Spread::of(&wake_trips),
        clock_cost_ns: spread(&readings)?,
    })
}

/// p50 of a slice of round trips in which both sides sleep; `None` where the second process knows
/// no such method.
fn futex_round_trip_ns(session: &mut Session<'_>) -> Result<Option<f64>> {
    let name = method::FUTEX.name();
    if method::find(session.setup.methods, name).is_err() {
        return Ok(None);
    }
    let variant = Variant {
        method: name.to_owned(),
        parameters: Parameters::pair(WOKEN_BYTES),
    };
    let clock = session.clock;
    let mut pingpong = PingPong::open(session, &variant)?;
    let taken = pingpong.slice(&mut session.peer, &clock)?;
    pingpong.close(&mut session.peer)?;
    Ok(match taken {
        Taken::RoundTrips(found) => Some(middle_ns(&clock, &found)),
        Taken::OneWay { .. } | Taken::Rate { .. } => None,
    })
}
