//! Round trip: a message there, checked, sent back by the same method, checked again.
//!
//! Measures: filling and sending, the other process's receiving, checking and sending back, our
//! receiving and checking; one clock reading per round. Does not measure: queueing (one message in
//! flight: a closed loop) or a fixed rate; that is `latency`.

use super::pair::Pair;
use super::registry::Scenario;
use super::turns::{Subject, measure};
use super::{Found, Session, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::{distribution, middle_ns, nanos};
use crate::method::{self, WAIT_MAX};
use crate::peer::{Order, Peer};
use crate::result::{Figures, Load};

/// Time of one slice of round trips, in nanoseconds.
const SLICE_NS: f64 = 10e6;
/// Warm-up rounds that determine how many fit [`SLICE_NS`].
const FIRST_ROUNDS: u64 = 100;
/// A slice with interruptions may last this many times [`SLICE_NS`].
const INTERRUPTED_TIMES: f64 = 10.0;
/// Rounds of the whole warm-up, where they fit a slice.
const WARM_UP_ROUNDS: u64 = 2_000;
/// Most rounds in a slice.
const ROUNDS_MAX: u64 = 1 << 20;

/// One message there and back.
pub const SCENARIO: Scenario = Scenario {
    name: "pingpong",
    about: "round-trip time of a message and its reply, any method (closed loop)",
    heading: "Round trip of a message and its answer",
    load: Load::Closed,
    keys: &["method", "wait", "capacity"],
    in_harness: true,
    run,
};

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`] if there is no row at all; a method that fails has a row that says why.
///
/// [`BenchError`]: crate::BenchError
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<PingPong>(setup, variants, watch)
}

/// Both ends of a method.
pub(super) struct PingPong {
    pair: Pair,
    /// Round trips of a slice.
    rounds: u64,
    sequence: u64,
    samples: Vec<u64>,
}

impl Subject for PingPong {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.6
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let method = method::find(session.setup.methods, &variant.method)?;
        let settings = &variant.parameters.settings;
        let pair = Pair::open(method, &mut session.peer, variant.size(), settings)?;
        let mut pingpong = Self {
            pair,
            rounds: super::ROUNDS_MIN,
            sequence: 0,
            samples: Vec::new(),
        };
        let mut each_ns = pingpong.warm_up(session)?;
        // On a busy machine the minimum of a slice is enough warm-up.
        for rounds in [FIRST_ROUNDS, WARM_UP_ROUNDS] {
            let fit = super::rounds_in(SLICE_NS, each_ns, rounds);
            if fit > pingpong.rounds {
                pingpong.rounds = fit;
                each_ns = pingpong.warm_up(session)?;
            }
        }
        pingpong.rounds = super::rounds_in(SLICE_NS, each_ns, ROUNDS_MAX);
        Ok(pingpong)
    }

    fn slice(&mut self, peer: &mut Peer, _clock: &TickClock) -> Result<Figures> {
        self.play(peer)?;
        Ok(Figures::round_trips(distribution(&self.samples)))
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        self.pair.close(peer)
    }
}

impl PingPong {
    /// Runs once, and returns the time per round of the total: a busy machine delays few of them,
    /// but those by far.
    #[allow(clippy::cast_precision_loss, reason = "a few rounds")]
    fn warm_up(&mut self, session: &mut Session<'_>) -> Result<f64> {
        self.play(&mut session.peer)?;
        let middle = middle_ns(&session.clock, &distribution(&self.samples));
        let all: u64 = self.samples.iter().sum();
        let mean = nanos(&session.clock, all) / self.samples.len().max(1) as f64;
        // A single interruption is not the method's fault.
        Ok(middle.max(mean / INTERRUPTED_TIMES))
    }

    /// Runs a slice of round trips; every sample in ticks goes to `self.samples`.
    fn play(&mut self, peer: &mut Peer) -> Result<()> {
        let (first, rounds) = (self.sequence, self.rounds);
        self.samples.clear();
        self.samples.reserve(usize::try_from(rounds).unwrap_or(0));
        peer.begin(&Order::Echo { first, rounds })?;
        let mut deadline = peer.deadline_of(WAIT_MAX);
        let driver = &mut self.pair.driver;
        let asked = driver.ask(first, rounds, &mut deadline, &mut self.samples);
        asked.map_err(|error| peer.or_its_reason(error))?;
        self.sequence += rounds;
        peer.end()?;
        Ok(())
    }
}
