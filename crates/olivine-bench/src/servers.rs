//! Several servers under several loads, interleaved, so that a disturbance affects all alike.

use crate::error::{BenchError, Result};
use crate::kernel::Counts;
use crate::load::frames::{self, Streamed};
use crate::load::{Interface, LoadError, Outcome, Plan};
use crate::result::{self, Figures, Load, Parameters, Ratio, Results, Row, ratio};
use crate::scenario::turns::{Candidate, measure_all};
use crate::scenario::{Setup, Watch};

/// What is measured of servers.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the arguments of `run`")]
pub struct Contest<'a> {
    /// Name of the scenario: `http` or `tcp`.
    pub scenario: &'static str,
    /// Names of the servers.
    pub servers: &'a [String],
    /// The loads.
    pub plans: &'a [Plan],
    /// Bytes of a message; 0 if they are not all equal.
    pub size_bytes: u64,
    /// What a ratio compares, by the name of its statistic.
    pub figure: &'static str,
    /// The server that all others are compared with.
    pub reference: usize,
}

impl Contest<'_> {
    /// Runs `load` with each server and plan in turn. Rows come plan by plan, servers in the given
    /// order. A server that fails, or ends early, has no figure for that plan, but the reason.
    ///
    /// # Errors
    ///
    /// [`BenchError::Stopped`] if `watch` broke before there was a result.
    pub fn run(
        &self,
        setup: &Setup,
        watch: Watch<'_>,
        load: impl Fn(usize, &Plan) -> std::result::Result<Outcome, LoadError>,
    ) -> Result<Results> {
        let load = &load;
        let candidates = self.plans.iter().flat_map(|plan| {
            let servers = self.servers.iter().enumerate();
            servers.map(move |(index, server)| Candidate {
                scenario: self.scenario,
                load: load_of(plan),
                method: server.clone(),
                lacks: String::new(),
                parameters: parameters(plan, self.size_bytes),
                slices: 1,
                play: Box::new(move |turn| {
                    let figures = || Ok(figures(load(index, plan)?, load_of(plan))?);
                    turn.slice(|_, _| figures()).map(|_| ())
                }),
            })
        });
        let rows = measure_all(setup, candidates.collect(), watch)?.concat();
        let ratios = self.plans.iter().flat_map(|plan| self.ratios(plan, &rows));
        Ok(Results {
            ratios: ratios.collect(),
            rows: rows.into_iter().map(without_counters).collect(),
            ..Results::default()
        })
    }

    /// Every server beside the reference under one load.
    fn ratios(&self, plan: &Plan, rows: &[Row]) -> Vec<Ratio> {
        let parameters = parameters(plan, self.size_bytes);
        let runs = |server: &String| {
            let is_it = |row: &Row| row.method == *server && row.parameters == parameters;
            ratio::runs(rows, self.figure, is_it)
        };
        let Some(beside) = self.servers.get(self.reference) else {
            return Vec::new();
        };
        let others = self.servers.iter().filter(|server| *server != beside);
        let ratio = |server: &String| {
            Some(Ratio {
                scenario: self.scenario.to_owned(),
                figure: self.figure.to_owned(),
                ours: server.clone(),
                beside: beside.clone(),
                situation: format!("depth {}", plan.depth),
                ratio: ratio::of_runs(&runs(server), &runs(beside))?,
                target: None,
            })
        };
        others.filter_map(ratio).collect()
    }
}

/// Streams frames in each of these batches to each server, in turns.
///
/// # Errors
///
/// As [`Contest::run`].
pub fn stream(
    setup: &Setup,
    cases: &[(String, u32)],
    watch: Watch<'_>,
    send: impl Fn(usize) -> std::result::Result<Streamed, LoadError>,
) -> Result<Results> {
    let send = &send;
    let candidates = cases
        .iter()
        .enumerate()
        .map(|(index, (server, batch))| Candidate {
            scenario: "frames",
            load: Load::Saturated,
            method: server.clone(),
            lacks: String::new(),
            parameters: Parameters {
                batch_count: u64::from(*batch),
                ..Parameters::pair(frames::FRAME as u64)
            },
            slices: 1,
            play: Box::new(move |turn| {
                let figures = || Ok(figures_of_frames(send(index)?));
                turn.slice(|_, _| figures()).map(|_| ())
            }),
        });
    let rows = measure_all(setup, candidates.collect(), watch)?.concat();
    Ok(rows
        .into_iter()
        .map(without_counters)
        .collect::<Vec<_>>()
        .into())
}

/// The counters of the two processes say nothing about a server and the generator.
fn without_counters(mut row: Row) -> Row {
    if let result::Outcome::Measured(measured) = &mut row.outcome {
        (measured.worst, measured.kernel) = (None, Counts::default());
    }
    row
}

/// How requests are offered.
fn load_of(plan: &Plan) -> Load {
    match plan.rate_per_s {
        Some(_) => Load::Open,
        None => Load::Closed,
    }
}

fn parameters(plan: &Plan, size_bytes: u64) -> Parameters {
    let settings = match plan.interface {
        Interface::IoUring => "generator=io_uring",
        _ => "",
    };
    Parameters {
        rate_per_s: plan.rate_per_s,
        wait: Some(plan.waiting.name().to_owned()),
        connections_count: Some(plan.connections as u64),
        depth_count: Some(plan.depth as u64),
        settings: settings.to_owned(),
        ..Parameters::pair(size_bytes)
    }
}

/// The figures of a run; none of a server that ended early.
fn figures(outcome: Outcome, load: Load) -> std::result::Result<Figures, LoadError> {
    let values = outcome.values()?;
    let mut figures = match load {
        Load::Open => Figures::one_way(outcome.latency, outcome.send_delay),
        _ => Figures::round_trips(outcome.latency),
    };
    figures.values = values.into_iter().collect();
    Ok(figures)
}

fn figures_of_frames(streamed: Streamed) -> Figures {
    let figures = Figures::rate(streamed.frames_per_s);
    match streamed.cpu_ns {
        Some(used) => figures.with("cpu_ns", used),
        None => figures,
    }
}

impl From<LoadError> for BenchError {
    fn from(error: LoadError) -> Self {
        Self::Server(Box::new(error))
    }
}
