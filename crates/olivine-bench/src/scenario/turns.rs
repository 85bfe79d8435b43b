//! Variants that take turns, run by run, in slices: the loop that all scenarios share.

use super::{Session, Setup, Variant, Watch};
use crate::error::{BenchError, Result};
use crate::latency::Latency;
use crate::peer::Peer;
use crate::result::{Collector, Figures, Load, Row, Slice};
use olivine::clock::TickClock;
use std::ops::ControlFlow;

/// One variant of a scenario while it is measured. Opened anew for each run.
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

/// What one slice gave: [`Figures`] with their owner.
pub(super) enum Taken {
    RoundTrips(Latency),
    OneWay {
        one_way: Latency,
        send_delay: Latency,
    },
    Rate {
        messages_per_s: f64,
        copy_bytes_per_s: Option<f64>,
    },
}

impl Taken {
    fn figures(&self) -> Figures<'_> {
        match self {
            Self::RoundTrips(round_trips) => Figures::RoundTrips(round_trips),
            Self::OneWay {
                one_way,
                send_delay,
            } => Figures::OneWay {
                one_way,
                send_delay,
            },
            &Self::Rate {
                messages_per_s,
                copy_bytes_per_s,
            } => Figures::Rate {
                messages_per_s,
                copy_bytes_per_s,
            },
        }
    }
}

/// Measures every variant in turn, run by run; a row for each variant and placement, or for its failure.
///
/// The failure of one variant ends that variant only; the second process is started afresh. A variant that
/// fails once has no figures, whatever earlier runs gave.
///
/// # Errors
///
/// [`BenchError`] if the two processes cannot be started, or the person stopped before there was a result.
pub(super) fn measure<S: Subject>(
    setup: &Setup,
    variants: &[Variant],
    watch: Watch<'_>,
) -> Result<Vec<Row>> {
    let slices = |variant: &Variant| super::slices_per_run(setup, S::slice_ns(variant));
    let all: u64 = variants.iter().map(|v| u64::from(slices(v))).sum();
    let mut session = Session::start(setup, u64::from(setup.runs) * all, watch)?;
    let mut turns: Vec<(Collector, Option<String>)> = Vec::new();
    turns.resize_with(variants.len(), || (Collector::new(session.clock), None));
    'runs: for run in 0..setup.runs {
        let open = variants.iter().zip(&mut turns);
        for (variant, (collector, reason)) in open.filter(|(_, (_, reason))| reason.is_none()) {
            let done = session.progress.done;
            match one_run::<S>(&mut session, variant, run, slices(variant), collector) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break 'runs,
                Err(error) => {
                    *reason = Some(error.chain());
                    session.progress.done = done;
                    let left = u64::from(setup.runs - run) * u64::from(slices(variant));
                    session.progress.total -= left;
                    session.renew()?;
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (Variant { method, parameters }, (collector, reason)) in variants.iter().zip(turns) {
        match reason {
            Some(reason) => {
                rows.push(Row::failed(
                    S::SCENARIO,
                    S::LOAD,
                    method,
                    parameters.clone(),
                    reason,
                ));
            }
            None => rows.extend(collector.rows(S::SCENARIO, S::LOAD, method, parameters)),
        }
    }
    if rows.is_empty() {
        return Err(BenchError::Stopped);
    }
    Ok(rows)
}

/// One run of one variant; breaks when the person wants to stop.
fn one_run<S: Subject>(
    session: &mut Session<'_>,
    variant: &Variant,
    run: u32,
    slices: u32,
    collector: &mut Collector,
) -> Result<ControlFlow<()>> {
    let clock = session.clock;
    let mut subject = S::open(session, variant)?;
    for _ in 0..slices {
        let slice = session.slice(|peer| subject.slice(peer, &clock))?;
        collector.add(
            variant.parameters.size_bytes,
            &Slice {
                run,
                placement: slice.placement,
                floor: &slice.floor,
                at_s: slice.at_s,
                kernel: slice.kernel,
                figures: slice.value.figures(),
            },
        );
        if session.step().is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    subject.close(&mut session.peer)?;
    Ok(ControlFlow::Continue(()))
}
