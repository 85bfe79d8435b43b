//! Variants that take turns, run by run, in slices: the loop that all scenarios share.

use super::{Session, Setup, Watch};
use crate::error::{BenchError, Result};
use crate::floor::Placement;
use crate::latency::{Latency, Percentiles};
use crate::peer::Peer;
use crate::spread::Spread;
use olivine::clock::TickClock;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// One variant of a scenario while it is measured. Opened anew for each run.
pub(super) trait Subject: Sized {
    /// What tells one variant from another.
    type Variant;

    /// Slices of one run.
    fn slices(setup: &Setup, variant: &Self::Variant) -> u32;

    /// The variant in a few words.
    fn name(variant: &Self::Variant) -> String;

    /// Opens both sides and warms them up.
    fn open(peer: &mut Peer, clock: &TickClock, variant: &Self::Variant) -> Result<Self>;

    /// Measures one slice.
    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Figures>;

    /// Closes both sides.
    fn close(self, peer: &mut Peer) -> Result<()>;

    /// Compares the figure of a slice with the floor's round trip beside it.
    fn ratio(value: f64, floor_ns: f64) -> f64;
}

/// What one slice gave.
#[derive(Default)]
pub(super) struct Figures {
    /// The figure that stands for the slice.
    pub(super) value: f64,
    pub(super) latency: Latency,
    pub(super) extra: Latency,
    /// Bytes a second of a copy, where that is compared.
    pub(super) copy: Option<f64>,
}

/// Slices of one variant that were measured under one placement.
#[derive(Default)]
pub(super) struct Group {
    pub(super) slices: u64,
    pub(super) floor: Latency,
    pub(super) latency: Latency,
    pub(super) extra: Latency,
    /// Figures of slices, with their runs.
    pub(super) values: Vec<(u32, f64)>,
    pub(super) ratios: Vec<(u32, f64)>,
    pub(super) copies: Vec<(u32, f64)>,
}

impl Group {
    pub(super) fn floor_table(&self, clock: &TickClock) -> Option<Percentiles> {
        self.floor.percentiles(clock)
    }

    pub(super) fn ratio(&self) -> Option<Spread> {
        Spread::over_runs(&self.ratios)
    }
}

/// The groups of one variant.
pub(super) type Groups = BTreeMap<Placement, Group>;

/// A variant that gave no figure.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Failed {
    /// What was to be measured.
    pub what: String,
    /// Why there is no figure, in one line.
    pub reason: String,
}

/// What a scenario found: a row for each variant and placement, and the variants without a figure.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Table<R> {
    /// Rows with figures.
    pub rows: Vec<R>,
    /// Variants without one. A variant that fails once has no row, whatever earlier runs gave.
    pub failed: Vec<Failed>,
}

/// Measures every variant in turn, run by run, and makes rows of what `row` finds in their groups.
///
/// The failure of one variant ends that variant only; the second process is started afresh.
///
/// # Errors
///
/// [`BenchError`] if the two processes cannot be started, or the person stopped before there was a result.
pub(super) fn measure<S: Subject, R>(
    setup: &Setup,
    variants: &[S::Variant],
    watch: Watch<'_>,
    row: impl Fn(&S::Variant, Placement, &Group, &TickClock) -> Option<R>,
) -> Result<Table<R>> {
    let slices: u64 = variants
        .iter()
        .map(|v| u64::from(S::slices(setup, v)))
        .sum();
    let mut session = Session::start(setup, u64::from(setup.runs) * slices, watch)?;
    let mut groups: Vec<Groups> = variants.iter().map(|_| Groups::new()).collect();
    let mut reasons: Vec<Option<String>> = variants.iter().map(|_| None).collect();
    'runs: for run in 0..setup.runs {
        let turns = variants.iter().zip(&mut groups).zip(&mut reasons);
        for ((variant, groups), reason) in turns.filter(|(_, reason)| reason.is_none()) {
            let done = session.progress.done;
            match one_run::<S>(&mut session, variant, run, groups) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break 'runs,
                Err(error) => {
                    *reason = Some(error.chain());
                    session.progress.done = done;
                    let left = u64::from(setup.runs - run) * u64::from(S::slices(setup, variant));
                    session.progress.total -= left;
                    session.renew()?;
                }
            }
        }
    }
    let mut table = Table {
        rows: Vec::new(),
        failed: Vec::new(),
    };
    for ((variant, groups), reason) in variants.iter().zip(&groups).zip(reasons) {
        if let Some(reason) = reason {
            let what = S::name(variant);
            table.failed.push(Failed { what, reason });
            continue;
        }
        let rows = groups
            .iter()
            .filter_map(|(&placement, group)| row(variant, placement, group, &session.clock));
        table.rows.extend(rows);
    }
    if table.rows.is_empty() && table.failed.is_empty() {
        return Err(BenchError::Stopped);
    }
    Ok(table)
}

/// One run of one variant; breaks when the person wants to stop.
fn one_run<S: Subject>(
    session: &mut Session<'_>,
    variant: &S::Variant,
    run: u32,
    groups: &mut Groups,
) -> Result<ControlFlow<()>> {
    let clock = session.clock;
    let mut subject = S::open(&mut session.peer, &clock, variant)?;
    for _ in 0..S::slices(session.setup, variant) {
        let slice = session.slice(|peer| subject.slice(peer, &clock))?;
        let group = groups.entry(slice.placement).or_default();
        let figures = slice.value;
        group.slices += 1;
        group.floor.merge(&slice.floor);
        group.latency.merge(&figures.latency);
        group.extra.merge(&figures.extra);
        group.values.push((run, figures.value));
        let ratio = S::ratio(figures.value, slice.floor_ns);
        group.ratios.push((run, ratio));
        group.copies.extend(figures.copy.map(|copy| (run, copy)));
        if session.step().is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    subject.close(&mut session.peer)?;
    Ok(ControlFlow::Continue(()))
}
