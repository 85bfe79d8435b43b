//! Candidates that take turns, run by run: the loop of all scenarios.

use super::registry::Scenario;
use super::{Found, Session, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::{BenchError, Result, chain};
use crate::floor::middle_ns;
use crate::result::{Collector, Figures, Load, Parameters, Row, Slice};
use crate::run::Participants;
use olivine::clock;
use std::ops::ControlFlow;

/// One variant of a scenario during its measurement. Opened again for each run.
pub(super) trait Subject: Sized {
    /// The scenario.
    const SCENARIO: &'static Scenario;

    /// Time of a slice of this variant, floor included, in nanoseconds.
    fn slice_ns(variant: &Variant) -> f64;

    /// Opens both sides and warms them up.
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self>;

    /// Measures one slice.
    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures>;

    /// Whether a run has all messages that were asked for; never without a number of them.
    fn is_done(&self) -> bool {
        false
    }
}

/// One run of a candidate: opens everything, measures slices, closes everything.
type Play<'a> = Box<dyn FnMut(&mut RunSlot<'_, '_>) -> Result<()> + 'a>;

/// One of the things that take turns.
pub(crate) struct Candidate<'a> {
    pub(crate) scenario: &'static str,
    pub(crate) load: Load,
    pub(crate) method: String,
    pub(crate) lacks: String,
    pub(crate) parameters: Parameters,
    /// Slices of a run.
    pub(crate) slices: u32,
    pub(crate) play: Play<'a>,
}

impl<'a> Candidate<'a> {
    /// A variant of a scenario.
    pub(super) fn of<S: Subject + 'a>(setup: &Setup, variant: Variant) -> Self {
        Self::opened(setup, variant, S::open)
    }

    /// A variant of a scenario that `open` opens.
    pub(super) fn opened<S: Subject + 'a>(
        setup: &Setup,
        variant: Variant,
        open: impl Fn(&mut Session<'_>, &Variant) -> Result<S> + 'a,
    ) -> Self {
        let found = setup.find(&variant.method);
        Self {
            scenario: S::SCENARIO.name,
            load: S::SCENARIO.load,
            method: variant.method.clone(),
            lacks: found.map_or_else(|_| String::new(), |(_, known)| known.lacks.clone()),
            parameters: variant.parameters.clone(),
            slices: super::slices_per_run(setup, S::slice_ns(&variant)),
            play: Box::new(move |turn| {
                let mut subject = open(turn.session, &variant)?;
                while turn.slice(|set, clock| subject.slice(set, clock))? && !subject.is_done() {}
                if turn.is_stopped {
                    return Ok(());
                }
                turn.session.set.close()
            }),
        }
    }
}

/// One run of a candidate, and where its slices go.
pub(crate) struct RunSlot<'t, 's> {
    pub(super) session: &'t mut Session<'s>,
    collector: &'t mut Collector,
    parameters: &'t Parameters,
    run: u32,
    /// Slices that are left.
    left: u32,
    /// When the time of the run is over.
    end_ns: u64,
    /// Whether a request to stop came.
    is_stopped: bool,
}

impl RunSlot<'_, '_> {
    /// Measures one slice between two slices of the floor; true if another one should follow.
    pub(crate) fn slice(
        &mut self,
        thing: impl FnOnce(&mut Participants<'_>, &TickClock) -> Result<Figures>,
    ) -> Result<bool> {
        let session = &mut *self.session;
        let clock = session.clock;
        let slice = session.slice(|set| thing(set, &clock))?;
        let figures = &slice.value;
        self.collector.set_session(&session.name);
        self.collector.add(
            self.parameters,
            &Slice {
                run: self.run,
                placement: slice.placement,
                floor: &slice.floor,
                at_s: slice.at_s,
                kernel: slice.kernel,
                figures,
            },
        );
        session.progress.p50_ns = figures.times.as_ref().map(|times| middle_ns(&clock, times));
        session.progress.messages_per_s = figures.value("messages_per_s");
        self.left = self.left.saturating_sub(1);
        self.is_stopped = session.step().is_break();
        // Slices of a sleeping method last longer on a loaded machine; the total time stays as
        // requested.
        Ok(!self.is_stopped && self.left > 0 && clock::monotonic_ns() <= self.end_ns)
    }
}

/// The collected results of a candidate.
struct Collected {
    collector: Collector,
    /// Why there are no figures.
    reason: Option<String>,
}

/// Measures every variant of a scenario interleaved, run by run.
///
/// # Errors
///
/// As [`measure_all`].
pub(super) fn measure<S: Subject + 'static>(
    setup: &Setup,
    variants: &[Variant],
    watch: Watch<'_>,
) -> Result<Found> {
    let candidates = variants
        .iter()
        .map(|variant| Candidate::of::<S>(setup, variant.clone()));
    measure_all(setup, candidates.collect(), watch)
}

/// Measures every candidate interleaved, run by run. Returns for each candidate a row for each
/// placement, or one for its failure; none if it had no turn.
///
/// A failure ends only its candidate; the participants are started again. A candidate that fails
/// once has no figures, whatever earlier runs gave. A turn that fails because of a request to stop
/// is neither a figure nor a failure.
///
/// # Errors
///
/// [`BenchError`] if the two processes cannot be started, or a request to stop came before there
/// was a result.
pub(crate) fn measure_all(
    setup: &Setup,
    mut candidates: Vec<Candidate<'_>>,
    watch: Watch<'_>,
) -> Result<Found> {
    let stopped = || setup.is_stopped();
    let all: u64 = candidates.iter().map(|one| u64::from(one.slices)).sum();
    let mut session = Session::start(setup, u64::from(setup.runs) * all, watch, &stopped)?;
    let mut found: Vec<Collected> = Vec::new();
    found.resize_with(candidates.len(), || Collected {
        collector: Collector::new(session.clock),
        reason: None,
    });
    'runs: for run in 0..setup.runs {
        let open = candidates.iter_mut().zip(&mut found);
        for (candidate, collected) in open.filter(|(_, collected)| collected.reason.is_none()) {
            let done = session.progress.done;
            match one_run(&mut session, candidate, run, &mut collected.collector) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break 'runs,
                Err(_) if stopped() => break 'runs,
                Err(error) => {
                    collected.reason = Some(chain(&error));
                    session.progress.done = done;
                    let left = u64::from(setup.runs - run) * u64::from(candidate.slices);
                    session.progress.total -= left;
                    session.renew((0, false))?;
                }
            }
        }
    }
    let rows = |(candidate, collected): (&Candidate<'_>, &Collected)| {
        let Candidate {
            scenario,
            load,
            method,
            parameters,
            ..
        } = candidate;
        if let Some(reason) = &collected.reason {
            return vec![Row::failed(
                scenario,
                *load,
                method,
                parameters.clone(),
                reason,
            )];
        }
        let mut rows = collected
            .collector
            .rows(scenario, *load, method, parameters);
        rows.iter_mut()
            .for_each(|row| row.lacks.clone_from(&candidate.lacks));
        rows
    };
    let rows: Found = candidates.iter().zip(&found).map(rows).collect();
    if !rows.is_empty() && rows.iter().all(Vec::is_empty) {
        return Err(BenchError::Stopped);
    }
    Ok(rows)
}

/// One run of one candidate; breaks on a request to stop.
fn one_run(
    session: &mut Session<'_>,
    candidate: &mut Candidate<'_>,
    run: u32,
    collector: &mut Collector,
) -> Result<ControlFlow<()>> {
    let planned = session.progress.done + u64::from(candidate.slices);
    // A number of messages takes as long as it takes.
    let is_counted = candidate.parameters.messages_count.is_some();
    let (left, run_ns) = match is_counted {
        true => (u32::MAX, u64::MAX),
        false => (candidate.slices, session.setup.run_ns()),
    };
    let end_ns = clock::monotonic_ns().saturating_add(run_ns);
    let mut turn = RunSlot {
        session,
        collector,
        parameters: &candidate.parameters,
        run,
        left,
        end_ns,
        is_stopped: false,
    };
    (candidate.play)(&mut turn)?;
    if turn.is_stopped {
        return Ok(ControlFlow::Break(()));
    }
    session.progress.done = planned;
    Ok(ControlFlow::Continue(()))
}
