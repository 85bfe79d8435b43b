//! Interleaved variants, run by run, in slices: the loop of all scenarios.

use super::{Found, Session, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::{BenchError, Result, chain};
use crate::floor::middle_ns;
use crate::latency::Latency;
use crate::method;
use crate::peer::Peer;
use crate::result::{ClockAhead, Collector, Figures, Load, Outcome, Pair, Row, Slice};
use crate::spread::Spread;
use olivine::clock;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// One variant of a scenario during its measurement. Opened again for each run.
pub(super) trait Subject: Sized {
    /// Name of the scenario.
    const SCENARIO: &'static str;
    /// How messages are offered in it.
    const LOAD: Load;

    /// Time of a slice of this variant, floor included, in nanoseconds.
    fn slice_ns(variant: &Variant) -> f64;

    /// Opens both sides and warms them up.
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self>;

    /// Measures one slice.
    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Taken>;

    /// Closes both sides.
    fn close(self, peer: &mut Peer) -> Result<()>;
}

/// The owned results of one slice: [`Figures`].
pub(super) enum Taken {
    RoundTrips(Latency),
    OneWay {
        one_way: Latency,
        send_delay: Latency,
        /// Bounds of how far the receiver's clock is ahead, if measured.
        clock_ahead: Option<ClockAhead>,
    },
    Rate {
        messages_per_s: f64,
        copy_bytes_per_s: Option<f64>,
        /// A mesh, pair by pair.
        pairs: Vec<Pair>,
    },
}

impl Taken {
    /// The median of its distribution, for the progress bar.
    pub(super) fn p50_ns(&self, clock: &TickClock) -> Option<f64> {
        match self {
            Self::RoundTrips(found) | Self::OneWay { one_way: found, .. } => {
                Some(middle_ns(clock, found))
            }
            Self::Rate { .. } => None,
        }
    }

    /// Its rate, for the progress bar.
    pub(super) fn messages_per_s(&self) -> Option<f64> {
        match self {
            Self::Rate { messages_per_s, .. } => Some(*messages_per_s),
            Self::RoundTrips(_) | Self::OneWay { .. } => None,
        }
    }

    pub(super) fn figures(&self) -> Figures<'_> {
        match self {
            Self::RoundTrips(round_trips) => Figures::RoundTrips(round_trips),
            Self::OneWay {
                one_way,
                send_delay,
                ..
            } => Figures::OneWay {
                one_way,
                send_delay,
            },
            &Self::Rate {
                messages_per_s,
                copy_bytes_per_s,
                ..
            } => Figures::Rate {
                messages_per_s,
                copy_bytes_per_s,
            },
        }
    }
}

/// The collected results of one variant.
struct Collected {
    collector: Collector,
    /// Rates of each pair of a mesh in each slice.
    pairs: BTreeMap<(u32, u32), Vec<f64>>,
    /// Bounds of how far the receiver's clock is ahead, over all runs.
    clock_ahead: Option<ClockAhead>,
    /// Why there are no figures.
    reason: Option<String>,
}

impl Collected {
    /// The pairs of a mesh at their median rate.
    fn pairs(&self) -> Vec<Pair> {
        let median = |(&(publisher, subscriber), rates): (&(u32, u32), &Vec<f64>)| {
            Some(Pair {
                publisher,
                subscriber,
                messages_per_s: Spread::of(rates)?.median,
            })
        };
        self.pairs.iter().filter_map(median).collect()
    }
}

/// Measures every variant interleaved, run by run. Returns for each variant a row for each
/// placement, or one for its failure; none if it had no turn.
///
/// A failure ends only its variant; the second process is restarted. A variant that fails once has
/// no figures, whatever earlier runs gave.
///
/// # Errors
///
/// [`BenchError`] if the two processes cannot be started, or a request to stop came before there
/// was a result.
pub(super) fn measure<S: Subject>(
    setup: &Setup,
    variants: &[Variant],
    watch: Watch<'_>,
) -> Result<Found> {
    let slices = |variant: &Variant| super::slices_per_run(setup, S::slice_ns(variant));
    let all: u64 = variants.iter().map(|v| u64::from(slices(v))).sum();
    let mut session = Session::start(setup, u64::from(setup.runs) * all, watch)?;
    let mut turns: Vec<Collected> = Vec::new();
    turns.resize_with(variants.len(), || Collected {
        collector: Collector::new(session.clock),
        pairs: BTreeMap::new(),
        clock_ahead: None,
        reason: None,
    });
    'runs: for run in 0..setup.runs {
        let open = variants.iter().zip(&mut turns);
        for (variant, turn) in open.filter(|(_, turn)| turn.reason.is_none()) {
            let done = session.progress.done;
            match one_run::<S>(&mut session, variant, run, slices(variant), turn) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break 'runs,
                Err(error) => {
                    turn.reason = Some(chain(&error));
                    session.progress.done = done;
                    let left = u64::from(setup.runs - run) * u64::from(slices(variant));
                    session.progress.total -= left;
                    session.renew()?;
                }
            }
        }
    }
    let mut rows = Vec::with_capacity(variants.len());
    for (Variant { method, parameters }, turn) in variants.iter().zip(&turns) {
        if let Some(reason) = &turn.reason {
            let parameters = parameters.clone();
            let failed = Row::failed(S::SCENARIO, S::LOAD, method, parameters, reason);
            rows.push(vec![failed]);
            continue;
        }
        let mut found = turn
            .collector
            .rows(S::SCENARIO, S::LOAD, method, parameters);
        let lacks = method::find(setup.methods, method).map_or("", |method| method.lacks());
        for row in &mut found {
            lacks.clone_into(&mut row.lacks);
            if let Outcome::Measured(measured) = &mut row.outcome {
                measured.pairs = turn.pairs();
                measured.clock_ahead = turn.clock_ahead;
            }
        }
        rows.push(found);
    }
    if rows.iter().all(Vec::is_empty) {
        return Err(BenchError::Stopped);
    }
    Ok(rows)
}

impl Session<'_> {
    /// Collects the results of a slice of messages of `size_bytes`, and shows its median.
    pub(super) fn keep(
        &mut self,
        collector: &mut Collector,
        size_bytes: u64,
        run: u32,
        slice: &super::Slice<Taken>,
    ) {
        collector.set_session(&self.name);
        collector.add(
            size_bytes,
            &Slice {
                run,
                placement: slice.placement,
                floor: &slice.floor,
                at_s: slice.at_s,
                kernel: slice.kernel,
                figures: slice.value.figures(),
            },
        );
        self.progress.p50_ns = slice.value.p50_ns(&self.clock);
        self.progress.messages_per_s = slice.value.messages_per_s();
    }
}

/// One run of one variant; breaks on a request to stop.
fn one_run<S: Subject>(
    session: &mut Session<'_>,
    variant: &Variant,
    run: u32,
    slices: u32,
    turn: &mut Collected,
) -> Result<ControlFlow<()>> {
    let ticks = session.clock;
    let deadline = clock::monotonic_ns().saturating_add(session.setup.run_ns());
    let planned = session.progress.done + u64::from(slices);
    let mut subject = S::open(session, variant)?;
    for _ in 0..slices {
        let slice = session.slice(|peer| subject.slice(peer, &ticks))?;
        session.keep(
            &mut turn.collector,
            variant.parameters.size_bytes,
            run,
            &slice,
        );
        match slice.value {
            Taken::Rate { pairs, .. } => {
                for pair in pairs {
                    let rates = turn.pairs.entry((pair.publisher, pair.subscriber));
                    rates.or_default().push(pair.messages_per_s);
                }
            }
            Taken::OneWay { clock_ahead, .. } => {
                let bounds = turn.clock_ahead.into_iter().chain(clock_ahead);
                turn.clock_ahead = bounds.reduce(ClockAhead::or);
            }
            Taken::RoundTrips(_) => {}
        }
        if session.step().is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // Slices of a sleeping method last longer on a loaded machine; the total time stays as
        // requested.
        if clock::monotonic_ns() > deadline {
            break;
        }
    }
    session.progress.done = planned;
    subject.close(&mut session.peer)?;
    Ok(ControlFlow::Continue(()))
}
