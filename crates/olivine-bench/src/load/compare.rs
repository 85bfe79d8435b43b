//! Several servers under several loads, interleaved, so that a disturbance affects all alike.

use super::{LoadError, Outcome, Plan};
use crate::clock::TickClock;
use crate::error::chain;
use crate::latency::{Latency, Percentiles};
use crate::scenario::Progress;
use crate::spread::Spread;
use std::ops::ControlFlow;

/// Results of one server under one load, over all runs.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The server.
    pub server: String,
    /// Its load.
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
    /// Its replies per second relative to the first server's, run by run.
    pub per_s_ratio: Option<Spread>,
    /// Its CPU time per reply relative to the first server's, run by run.
    pub server_ns_ratio: Option<Spread>,
    /// Its median latency relative to the last server's, run by run.
    pub p50_ratio: Option<Spread>,
    /// Latency of all runs together.
    pub latency: Option<Percentiles>,
    /// Delay of the send after the due time; in open loops only.
    pub send_delay: Option<Percentiles>,
    /// Requests of the open loop without a reply.
    pub unanswered_count: u64,
    /// Connections closed between two answers.
    pub closed_count: u64,
    /// Connections that ended inside a reply.
    pub cut_count: u64,
    /// Why there is no figure: one failed run leaves only counts.
    pub failure: Option<String>,
}

/// Results of one server under one load, run by run; `None` for a failed run.
struct Cell {
    runs: Vec<Option<Outcome>>,
    failure: Option<String>,
}

impl Cell {
    /// The runs for figures: none if one failed.
    fn counting(&self) -> &[Option<Outcome>] {
        if self.failure.is_some() {
            &[]
        } else {
            &self.runs
        }
    }
}

/// Runs `load` with each server and plan in turn, `runs` times.
///
/// Rows come plan by plan, servers in the given order. A server that fails, or ends early, is not
/// measured again for that plan, and its row has the reason instead of figures. If `watch` breaks,
/// the results so far are returned.
///
/// # Errors
///
/// [`LoadError::Stopped`] if `watch` broke before every server had one run of some plan.
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
                    Ok(outcome) => {
                        // Its rate is that of a shorter time, in which it may have been ending.
                        let answers = outcome.answers;
                        cell.failure = outcome.gone.then(|| {
                            format!(
                                "the server was gone before the time was over, after \
                            {answers} answers"
                            )
                        });
                        cell.runs.push(Some(outcome));
                    }
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
    let outcomes = || cell.counting().iter().flatten();
    let spread = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
        Spread::of(&outcomes().filter_map(figure).collect::<Vec<_>>())
    };
    let ratio = |other: &Cell, figure: &dyn Fn(&Outcome) -> Option<f64>| {
        let pairs = cell.counting().iter().zip(other.counting());
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
    let sum = |of: &dyn Fn(&Outcome) -> u64| cell.runs.iter().flatten().map(of).sum();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Interface, Waiting};

    fn outcome(gone: bool) -> Outcome {
        let mut latency = Latency::new();
        latency.record_many(1000, 50);
        Outcome {
            answers: 50,
            seconds: 1.0,
            latency,
            send_delay: Latency::new(),
            unanswered: 0,
            closed: 1,
            cut: 0,
            gone,
            server_cpu_ns: Some(1),
            client_cpu_ns: 1,
        }
    }

    #[test]
    fn failed_run_leaves_its_reason_and_no_figure() {
        let names = ["steady", "cheat", "crasher"].map(str::to_owned);
        let plan = Plan {
            connections: 1,
            depth: 1,
            rate_per_s: None,
            seconds: 1.0,
            cpu: 0,
            waiting: Waiting::Block,
            interface: Interface::Epoll,
        };
        let mut turns = 0;
        let mut watch = |_| ControlFlow::Continue(());
        let rows = run(&names, &[plan], 3, &mut watch, |server, _| {
            turns += 1;
            let is_last = turns > 6;
            match server {
                1 if is_last => Err(LoadError::Wrong {
                    number: 7,
                    found: "nonsense".to_owned(),
                }),
                server => Ok(outcome(server == 2 && is_last)),
            }
        });
        let rows = rows.unwrap();
        let [steady, cheat, crasher] = rows.as_slice() else {
            panic!("{rows:?}");
        };
        assert_eq!(steady.failure, None);
        assert!(steady.per_s.is_some() && steady.latency.is_some());
        assert!(steady.per_s_ratio.is_some());
        assert!(steady.p50_ratio.is_none(), "the last one has no figure");
        for (row, reason, closed) in [
            (cheat, "answer 7 differs", 2),
            (crasher, "after 50 answers", 3),
        ] {
            assert!(
                row.failure.as_ref().is_some_and(|why| why.contains(reason)),
                "{row:?}"
            );
            let figures = [
                &row.per_s,
                &row.server_ns,
                &row.client_ns,
                &row.server_busy,
                &row.client_busy,
            ];
            assert!(figures.iter().all(|figure| figure.is_none()), "{row:?}");
            let ratios = [&row.per_s_ratio, &row.server_ns_ratio, &row.p50_ratio];
            assert!(ratios.iter().all(|ratio| ratio.is_none()), "{row:?}");
            assert!(row.latency.is_none() && row.send_delay.is_none(), "{row:?}");
            assert_eq!(row.closed_count, closed);
        }
    }
}
