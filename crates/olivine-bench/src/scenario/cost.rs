//! What a message costs its publisher: bursts that fit a ring, each handed over as fast as
//! possible, to a subscriber that checks every byte.
//!
//! Measures: from the first message of a burst to the return of the last call that sends one, while
//! the subscriber reads. Does not measure: delivery. A method with little room makes its publisher
//! wait for the subscriber within a burst; so that it costs too.

use super::registry::Scenario;
use super::throughput::Stream;
use super::turns::{Subject, measure};
use super::{Session, Variant};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::nanos;
use crate::result::{Figures, Load};
use crate::run::Participants;
use crate::spread::Spread;
use olivine_arena::sys::process::Ended;

/// Bytes of a burst: half of a pipe, and little of the smallest measured ring.
const BURST_BYTES: u64 = 32 << 10;
/// Most messages of a burst.
const BURST_MAX: u64 = 1000;
/// Bursts of a slice; the middle one is its figure.
const BURSTS: u32 = 25;
/// Time of one slice, in nanoseconds: the two processes agree on each burst.
const SLICE_NS: f64 = 5e6;

/// The cost of sending.
pub const SCENARIO: Scenario = Scenario {
    name: "cost",
    about: "messages per second that a publisher can hand over in bursts that fit the ring",
    heading: "Handed over in bursts of up to 32 KiB: what a message costs its publisher",
    load: Load::Saturated,
    keys: &["method", "rival", "batch", "wait", "capacity"],
    defaults: &[],
    in_harness: false,
    goals: &[],
    run: measure::<Bursts>,
};

/// Bursts into a stream.
pub(super) struct Bursts {
    stream: Stream,
    /// Messages of a burst.
    count: u64,
    /// A process that the messages go through.
    _bridge: Option<Ended>,
}

impl Bursts {
    /// Bursts of messages of this variant, through a process if there is one.
    pub(super) fn into(stream: Stream, variant: &Variant, bridge: Option<Ended>) -> Self {
        let burst = BURST_BYTES / variant.parameters.size_bytes.max(1);
        Self {
            stream,
            count: burst.clamp(1, BURST_MAX),
            _bridge: bridge,
        }
    }
}

impl Subject for Bursts {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let stream = Stream::open(session, variant)?;
        Ok(Self::into(stream, variant, None))
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures> {
        let mut rates = Vec::with_capacity(BURSTS as usize);
        for _ in 0..BURSTS {
            let sent = self.stream.send(set, self.count)?;
            rates.push(self.count as f64 / nanos(clock, sent.handed_over).max(1.0) * 1e9);
        }
        let middle = Spread::of(&rates).map_or(0.0, |rates| rates.median);
        Ok(Figures::rate(middle))
    }
}
