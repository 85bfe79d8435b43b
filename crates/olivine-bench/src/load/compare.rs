//! Several servers under several loads, taking turns, so that a disturbance hits all alike.

use super::{LoadError, Outcome, Plan};
use crate::error::chain;
use crate::latency::{Latency, Percentiles};
use crate::scenario::Progress;
use crate::spread::Spread;
use olivine::clock::TickClock;
use std::ops::ControlFlow;

/// What one server did under one load, over all runs.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The server.
    pub server: String,
    /// What was done to it.
    pub plan: Plan,
    /// Answers a second.
    pub per_s: Option<Spread>,
    /// Its CPU time for each answer, in nanoseconds.
    pub server_ns: Option<Spread>,
    /// The generator's CPU time for each answer, in nanoseconds.
    pub client_ns: Option<Spread>,
    /// Share of one CPU that the server used.
    pub server_busy: Option<Spread>,
    /// Share of one CPU that the generator used; near 1 the generator is the limit.
    pub client_busy: Option<Spread>,
    /// Its answers a second to the first server's, run by run.
    pub per_s_ratio: Option<Spread>,
    /// Its CPU time for each answer to the first server's, run by run.
    pub server_ns_ratio: Option<Spread>,
    /// Its median latency to the last server's, run by run.
    pub p50_ratio: Option<Spread>,
    /// Latency of all runs together.
    pub latency: Option<Percentiles>,
    /// From when a request was due to when it left; in open loops only.
    pub send_delay: Option<Percentiles>,
    /// Requests of the open loop without an answer.
    pub unanswered_count: u64,
    /// Connections closed between two answers.
    pub closed_count: u64,
    /// Connections that ended inside an answer.
    pub cut_count: u64,
    /// Why there is no figure, or fewer than there should be.
    pub failure: Option<String>,
}

/// What one server did under one load, run by run; `None` where it failed.
struct Cell {
    runs: Vec<Option<Outcome>>,
    failure: Option<String>,
}

/// Runs `load` with each server and plan in turn, `runs` times.
///
/// Rows come plan by plan, servers in the order given. A server that fails is not asked again for that plan,
/// and its row says why. Breaking off in `watch` ends with what there is so far.
///
/// # Errors
///
/// [`LoadError::Stopped`] if `watch` broke off before every server had one run of some plan.
pub fn run(
    servers: &[String],
    plans: &[Plan],
    runs: u32,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    mut load: impl FnMut(usize, &Plan) -> Result<Outcome, LoadError>,
) -> Result<Vec<Row>, LoadError> {
    let cell = || Cell {
        runs: Vec::new(),
        failure: None,
    };
    let mut cells: Vec<Vec<Cell>> = plans
        .iter()
        .map(|_| servers.iter().map(|_| cell()).collect())
        .collect();
    let total = u64::from(runs) * (plans.len() * servers.len()) as u64;
    let mut done = 0;
    'runs: for _ in 0..runs {
        for (plan, row) in plans.iter().zip(&mut cells) {
            for (index, cell) in row.iter_mut().enumerate() {
                if watch(Progress::of(done, total)).is_break() {
                    break 'runs;
                }
                done += 1;
                if cell.failure.is_some() {
                    cell.runs.push(None);
                    continue;
                }
                match load(index, plan) {
                    Ok(outcome) => cell.runs.push(Some(outcome)),
                    Err(error) => {
                        cell.failure = Some(chain(&error));
                        cell.runs.push(None);
                    }
                }
            }
        }
    }
    if done < servers.len() as u64 {
        return Err(LoadError::Stopped);
    }
    let rows = plans.iter().zip(&cells).flat_map(|(plan, cells)| {
        let (first, last) = (&cells[0], &cells[cells.len() - 1]);
        let servers = servers.iter().zip(cells);
        servers.map(move |(server, cell)| row(server, plan, cell, first, last))
    });
    Ok(rows.collect())
}

fn row(server: &str, plan: &Plan, cell: &Cell, first: &Cell, last: &Cell) -> Row {
    let outcomes = || cell.runs.iter().flatten();
    let spread = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
        Spread::of(&outcomes().filter_map(figure).collect::<Vec<_>>())
    };
    let ratio = |other: &Cell, figure: &dyn Fn(&Outcome) -> Option<f64>| {
        let pairs = cell.runs.iter().zip(&other.runs);
        let ratios: Vec<f64> = pairs
            .filter_map(|(ours, theirs)| Some(figure(ours.as_ref()?)? / figure(theirs.as_ref()?)?))
            .collect();
        Spread::of(&ratios)
    };
    let merged = |of: &dyn Fn(&Outcome) -> &Latency| {
        let mut all = Latency::new();
        outcomes().for_each(|outcome| all.merge(of(outcome)));
        all.percentiles(&TickClock::calibrate())
    };
    let sum = |of: &dyn Fn(&Outcome) -> u64| outcomes().map(of).sum();
    let p50 = |outcome: &Outcome| Some(outcome.latency.middle_ticks()).filter(|ticks| *ticks > 0.0);
    Row {
        server: server.to_owned(),
        plan: plan.clone(),
        per_s: spread(&|outcome| Some(outcome.per_s())),
        server_ns: spread(&Outcome::server_ns),
        client_ns: spread(&|outcome| Some(outcome.client_ns())),
        server_busy: spread(&Outcome::server_busy),
        client_busy: spread(&|outcome| Some(outcome.client_busy())),
        per_s_ratio: ratio(first, &|outcome| Some(outcome.per_s())),
        server_ns_ratio: ratio(first, &Outcome::server_ns),
        p50_ratio: ratio(last, &p50),
        latency: merged(&|outcome| &outcome.latency),
        send_delay: merged(&|outcome| &outcome.send_delay),
        unanswered_count: sum(&|outcome| outcome.unanswered),
        closed_count: sum(&|outcome| outcome.closed),
        cut_count: sum(&|outcome| outcome.cut),
        failure: cell.failure.clone(),
    }
}
