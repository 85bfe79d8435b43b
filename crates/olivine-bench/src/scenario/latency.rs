//! One-way latency at a fixed rate, measured from the due time of each message.
//!
//! Measures: from the planned send time to the other process's check, an open loop: a late send
//! counts as latency. Does not measure: saturation; choose rates well below the throughput.

use super::turns::{Subject, Taken, measure};
use super::{Found, Session, Setup, Variant, Watch};
use crate::channel::TemporaryChannel;
use crate::clock::TickClock;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result};
use crate::floor::{clock_ahead, distribution};
use crate::latency::Latency;
use crate::pace::{Pacer, RATES_PER_S, Rest};
use crate::payload::{self, Stamp};
use crate::peer::{Order, Peer};
use crate::result::{ClockAhead, Load};
use olivine::{OpenError, Publisher};

/// Messages a slice should have, and bounds for its time in nanoseconds.
const SLICE_MESSAGES: f64 = 20_000.0;
const SLICE_NS: (f64, f64) = (40e6, 300e6);
/// Balls that bound the difference of the two clocks.
const CLOCK_ROUNDS: u64 = 10_000;
/// Messages sent at the rate before anything counts, as a share of a slice.
const WARM_UP_SHARE: u64 = 4;

/// Measures every variant in turn, run by run.
///
/// # Errors
///
/// [`BenchError`]; no figure is reported if any message was wrong.
pub fn run(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<Line>(setup, variants, watch)
}

/// Length of the stall in each slice of [`run_stalled`], in nanoseconds.
pub(crate) const STALL_NS: u64 = 20_000_000;

/// Like [`run`], with a stall of [`STALL_NS`] in the middle of each slice, which the self-check
/// must find.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_stalled(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<Stalled>(setup, variants, watch)
}

/// `per_s` if it can be measured.
///
/// # Errors
///
/// [`BenchError::Rate`] if it is not within [`RATES_PER_S`].
pub fn check_rate(per_s: f64) -> Result<f64> {
    if RATES_PER_S.contains(&per_s) {
        Ok(per_s)
    } else {
        Err(BenchError::Rate { per_s })
    }
}

/// Due messages per second.
fn rate(variant: &Variant) -> Result<f64> {
    check_rate(variant.parameters.rate_per_s.ok_or(BenchError::NoRate)?)
}

/// Time of one slice in nanoseconds: of one message at least.
fn slice_ns(variant: &Variant) -> f64 {
    let rate = variant.parameters.rate_per_s.unwrap_or(SLICE_MESSAGES);
    let longest = SLICE_NS.1.max(1e9 / rate);
    (SLICE_MESSAGES / rate * 1e9).clamp(SLICE_NS.0, longest)
}

/// One channel, open on both sides.
struct Line {
    publisher: Publisher,
    size: usize,
    rate_per_s: f64,
    /// Messages of a slice.
    count: u64,
    sequence: u64,
    delays: Vec<u64>,
    /// How far the subscriber's clock is ahead of the publisher's.
    clock_ahead: Option<ClockAhead>,
    /// Stall before this message of a slice.
    stall_before: Option<u64>,
    _channel: TemporaryChannel,
}

impl Subject for Line {
    const SCENARIO: &'static str = "latency";
    const LOAD: Load = Load::Open;

    fn slice_ns(variant: &Variant) -> f64 {
        slice_ns(variant) * 1.1
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small positive numbers"
    )]
    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let rate_per_s = rate(variant)?;
        let settings = &variant.parameters.settings;
        let channel = TemporaryChannel::new("bench", 0, settings).map_err(OpenError::from)?;
        session.peer.run(&Order::Open {
            there: channel.uri(),
        })?;
        let publisher = Publisher::open(&channel.uri())?;
        let mut line = Self {
            publisher,
            size: variant.size(),
            rate_per_s,
            count: ((slice_ns(variant) / 1e9 * rate_per_s) as u64).max(1),
            sequence: 0,
            delays: Vec::new(),
            clock_ahead: clock_ahead(&mut session.peer, &session.clock, CLOCK_ROUNDS)?,
            stall_before: None,
            _channel: channel,
        };
        let warm_up = (line.count / WARM_UP_SHARE).max(1);
        line.send(&mut session.peer, session.clock, warm_up)?;
        Ok(line)
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Taken> {
        Ok(Taken::OneWay {
            clock_ahead: self.clock_ahead,
            one_way: self.send(peer, *clock, self.count)?,
            send_delay: distribution(&self.delays),
        })
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}

/// A subject that stalls in each slice.
struct Stalled(Line);

impl Subject for Stalled {
    const SCENARIO: &'static str = Line::SCENARIO;
    const LOAD: Load = Line::LOAD;

    fn slice_ns(variant: &Variant) -> f64 {
        Line::slice_ns(variant)
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let mut line = Line::open(session, variant)?;
        line.stall_before = Some(line.count / 2);
        Ok(Self(line))
    }

    fn slice(&mut self, peer: &mut Peer, clock: &TickClock) -> Result<Taken> {
        self.0.slice(peer, clock)
    }

    fn close(self, peer: &mut Peer) -> Result<()> {
        self.0.close(peer)
    }
}

impl Line {
    /// Sends `count` messages at the rate; returns the latencies that the other side saw. How late
    /// each one left lands in `self.delays`, in ticks.
    fn send(&mut self, peer: &mut Peer, clock: TickClock, count: u64) -> Result<Latency> {
        peer.begin(&Order::Consume {
            size_bytes: self.size,
            first: self.sequence,
            count,
            timed: true,
        })?;
        let paced = Paced {
            rate_per_s: self.rate_per_s,
            rest: Rest::Spin,
            first: self.sequence,
            count,
        };
        let (publisher, size) = (&mut self.publisher, self.size);
        let (stall_before, first) = (self.stall_before, self.sequence);
        let latency = paced.send(peer, clock, &mut self.delays, |stamp, pacer, deadline| {
            if stall_before.is_some_and(|n| stamp.sequence == first + n) {
                let end = TickClock::ticks() + clock.ticks_for(STALL_NS);
                pacer.wait(end, Rest::Spin, || false);
            }
            publish(publisher, size, stamp, deadline)
        })?;
        self.sequence += count;
        Ok(latency)
    }
}

/// Publishes one message of `size` bytes.
pub(super) fn publish(
    publisher: &mut Publisher,
    size: usize,
    stamp: Stamp,
    deadline: &mut Deadline<'_>,
) -> Result<()> {
    loop {
        match publisher.try_claim(size) {
            Ok(mut claim) => {
                payload::fill(&mut claim, stamp);
                claim.commit();
                return Ok(());
            }
            Err(error) => deadline.wait_for_room(publisher, size, error)?,
        }
    }
}

/// Messages with equally spaced due times.
pub(super) struct Paced {
    pub(super) rate_per_s: f64,
    /// How to pass the time between two.
    pub(super) rest: Rest,
    /// Number of the first one.
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Paced {
    /// Has `send` send each one when it is due, to a peer that has begun to note when they arrive;
    /// returns the latencies that it saw. How late each one left lands in `delays`, in ticks.
    pub(super) fn send(
        &self,
        peer: &mut Peer,
        clock: TickClock,
        delays: &mut Vec<u64>,
        mut send: impl FnMut(Stamp, &Pacer, &mut Deadline<'_>) -> Result<()>,
    ) -> Result<Latency> {
        delays.clear();
        delays.reserve(usize::try_from(self.count).unwrap_or(0));
        let mut deadline = peer.deadline();
        let pacer = Pacer::start(clock, self.rate_per_s);
        // The first one is due a period from now, so that slices of few messages keep the distance,
        // too.
        for n in 1..=self.count {
            let due = pacer.due(n);
            let mut trouble = None;
            pacer.wait(due, self.rest, || {
                trouble = deadline.look().err();
                trouble.is_some()
            });
            if let Some(trouble) = trouble {
                return Err(trouble);
            }
            let stamp = Stamp {
                sequence: self.first + n - 1,
                ticks: due,
            };
            send(stamp, &pacer, &mut deadline)?;
            delays.push(TickClock::ticks().saturating_sub(due));
            deadline.renew();
        }
        let (_, snapshot) = peer.end()?;
        let missing = || BenchError::Protocol {
            found: "an end without latencies".to_owned(),
        };
        Ok(Latency::from(&snapshot.ok_or_else(missing)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Parameters;

    #[test]
    fn a_slice_has_a_message_at_every_rate_and_no_rate_is_beyond_measure() {
        for per_s in [1.0, 2.5, 1e3, 1e6, 1e8] {
            let variant = Variant {
                method: String::new(),
                parameters: Parameters {
                    rate_per_s: Some(per_s),
                    ..Parameters::pair(32)
                },
            };
            assert_eq!(rate(&variant).unwrap(), per_s);
            let messages = slice_ns(&variant) / 1e9 * per_s;
            assert!((1.0..=4.1e6).contains(&messages), "{per_s}/s: {messages}");
            assert!(slice_ns(&variant) <= 1e9, "{per_s}/s");
        }
        for per_s in [0.0, 0.001, -5.0, 1e10, 1e300, f64::INFINITY, f64::NAN] {
            let error = check_rate(per_s).unwrap_err().to_string();
            assert!(error.contains("within 1 to 100000000"), "{error}");
        }
    }
}
