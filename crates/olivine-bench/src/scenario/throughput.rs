//! Streaming at full speed: one publisher, one subscriber, every byte of every message checked.
//!
//! Measures: from the first claim to the last check, in two processes; before and after each slice,
//! a bare stream of the same messages (its ring: docs/method.md). Does not measure: latency (the
//! ring is full most of the time, so a message's age is the ring's length) or what a program does
//! with a message.

use super::registry::Scenario;
use super::turns::{Subject, measure};
use super::{Session, Variant};
use crate::channel::{BY_RECEIVE, Channel};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::{nanos, per_s};
pub use crate::method::OWN;
use crate::method::{self, Side};
use crate::protocol::{Batches, Limit, Role, Work};
use crate::result::ratio::Target;
use crate::result::{Beside, Figures, Goal, Load, Placement, Row};
use crate::run::{CLIENT, Pair, Participants, SERVER};
use olivine::OpenError;
use std::time::Duration;

/// Time of one slice of streaming, in nanoseconds: of a variant whose ends spin, and of others.
/// Those have threads that take turns on the CPUs, and a turn takes several milliseconds.
const SLICE_NS: (f64, f64) = (10e6, 30e6);
/// Time of the bare stream before it, and again after it, in nanoseconds.
const BARE_NS: f64 = 3e6;
/// Messages that determine how many fit a slice.
const FIRST_COUNT: u64 = 200;
/// Bytes of the warm-up, where they fit a slice.
const WARM_UP_BYTES: u64 = 16 << 20;
/// Most messages in a slice.
const COUNT_MAX: u64 = 1 << 26;
/// Largest batch that is offered, in messages.
pub const BATCH_MAX: usize = 1024;
/// A message of this size or more is compared with a copy of it, in bytes.
pub const COPY_COMPARED_FROM: usize = 1024;

/// One publisher to one subscriber at full speed.
pub const SCENARIO: Scenario = Scenario {
    name: "throughput",
    about: "messages and bytes per second at full speed, one publisher, one subscriber",
    heading: "Full speed, one publisher, one subscriber, nothing lost",
    load: Load::Saturated,
    keys: &["method", "rival", "batch", "wait", "capacity", "take"],
    defaults: &[],
    in_harness: false,
    goals: &GOALS,
    run: measure::<BesideBare>,
};

/// What streams should reach.
const GOALS: [Goal; 6] = [
    Goal {
        of: |row| is_own(row, 32, 1) && !row.parameters.settings.contains(BY_RECEIVE),
        figure: "ratio_to_bare",
        beside: Beside::Itself("bare stream"),
        target: Target::AtLeast(0.9),
    },
    Goal {
        of: |row| is_own(row, 32, 1) && row.parameters.settings.contains(BY_RECEIVE),
        figure: "messages_per_s",
        beside: Beside::Without(BY_RECEIVE),
        target: Target::AtLeast(0.75),
    },
    Goal {
        of: |row| is_own(row, 32, 16),
        figure: "messages_per_s",
        beside: Beside::Best,
        target: Target::AtLeast(1.0),
    },
    Goal {
        of: |row| is_own(row, 1024, 1) || is_own(row, 8192, 1),
        figure: "ratio_to_copy",
        beside: Beside::Itself("copy"),
        target: Target::AtLeast(0.8),
    },
    Goal {
        of: |row| is_own(row, 32, 1),
        figure: "messages_per_s",
        beside: Beside::PerS(120e6, Placement::Far),
        target: Target::AtLeast(1.0),
    },
    Goal {
        of: |row| is_own(row, 32, 16),
        figure: "messages_per_s",
        beside: Beside::PerS(150e6, Placement::Far),
        target: Target::AtLeast(1.0),
    },
];

/// Whether a row is of a channel of this library with such messages.
fn is_own(row: &Row, size: u64, batch: u64) -> bool {
    let of = &row.parameters;
    row.method == OWN && of.size_bytes == size && of.batch_count == batch
}

/// Opens the ends of a method for messages that are `streamed` or paced, or those of a channel of
/// this library; returns the bytes of its ring, if it has one.
pub(super) fn open(
    session: &mut Session<'_>,
    variant: &Variant,
    streamed: bool,
    unpinned: bool,
) -> Result<Option<u64>> {
    let (size, settings) = (variant.size(), &variant.parameters.settings);
    if variant.method != OWN {
        let method = session.prepare(&variant.method)?;
        method::check_stream(method, variant.parameters.batch_count)?;
        session.set.open(Pair {
            role: Role::Measured,
            method: &method.name,
            settings,
            size,
            streamed,
            unpinned,
        })?;
        return Ok(None);
    }
    let (uri, ring) = if variant.parameters.subscribers_count > 1 {
        many(session, variant)?
    } else {
        session.prepare(method::OLIVINE.name)?;
        let (uri, ring) = channel(session, settings)?;
        session.set.open_channel(SERVER, Side::Server, &uri, size)?;
        (uri, ring)
    };
    session.set.open_channel(CLIENT, Side::Client, &uri, size)?;
    Ok(ring)
}

/// A participant for each publisher and subscriber of a channel, and the open subscribers; returns
/// its URI and the bytes of its ring.
pub(super) fn many(session: &mut Session<'_>, variant: &Variant) -> Result<(String, Option<u64>)> {
    let of = &variant.parameters;
    let wanted = of.publishers_count + of.subscribers_count;
    let pinned = session.setup.cpus_of(wanted);
    let cpus = pinned.iter().cycle().take(wanted as usize);
    let cpus: Vec<Vec<u32>> = cpus.map(|cpu| vec![*cpu]).collect();
    session.crowd(&cpus)?;
    session.observed = pinned;
    let (uri, ring) = channel(session, &of.settings)?;
    for end in of.publishers_count..wanted {
        let set = &mut session.set;
        set.open_channel(end as usize, Side::Server, &uri, variant.size())?;
    }
    Ok((uri, ring))
}

/// The URI of a channel with these settings, in a folder of the participants, and the bytes of its
/// ring.
pub(super) fn channel(session: &mut Session<'_>, settings: &str) -> Result<(String, Option<u64>)> {
    let folder = session.set.folder()?.join("channels");
    let more = if settings.is_empty() { "" } else { "&" };
    let uri = format!("shm://bench?dir={}{more}{settings}", folder.display());
    let found = Channel::parse(&uri).map_err(OpenError::from)?;
    Ok((uri, found.subscriber.get_capacity()))
}

/// Time of a slice of the variant's stream, in nanoseconds.
pub(super) fn stream_ns(variant: &Variant) -> f64 {
    if variant.parameters.wait.as_deref() == Some("spin") {
        SLICE_NS.0
    } else {
        SLICE_NS.1
    }
}

/// A stream with the bare one beside it.
struct BesideBare {
    stream: Stream,
    bare: Stream,
}

impl Subject for BesideBare {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(variant: &Variant) -> f64 {
        (stream_ns(variant) + 2.0 * BARE_NS) * 1.3
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let stream = Stream::open(session, variant)?;
        let size = variant.size();
        // A frame and two headers fit.
        let ring = stream.ring_bytes.max((size + 24).next_power_of_two());
        session.set.open(Pair {
            role: Role::Bare,
            method: method::BARE.name,
            settings: &format!("capacity={ring}"),
            size,
            streamed: true,
            unpinned: false,
        })?;
        let bare = Stream::over(session, Role::Bare, ring, variant, BARE_NS)?;
        Ok(Self { stream, bare })
    }

    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures> {
        let before = self.bare.rate(set, clock)?;
        let figures = self.stream.slice(set, clock)?;
        let bare = f64::midpoint(before, self.bare.rate(set, clock)?);
        Ok(figures.with("bare_messages_per_s", bare))
    }
}

/// Two ends, open.
pub(super) struct Stream {
    role: Role,
    size: usize,
    batch: usize,
    /// Memory that a copy walks through for comparison.
    ring_bytes: usize,
    sequence: u64,
    /// Messages of a slice.
    count: u64,
}

impl Subject for Stream {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(variant: &Variant) -> f64 {
        stream_ns(variant) * 1.3
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let capacity = open(session, variant, true, false)?;
        let ring = capacity.map_or(super::floor::COPY_RING_BYTES, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        let slice_ns = stream_ns(variant);
        Self::over(session, Role::Measured, ring, variant, slice_ns)
    }

    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures> {
        let figures = Figures::rate(self.rate(set, clock)?);
        if self.size < COPY_COMPARED_FROM {
            return Ok(figures);
        }
        let copies = set.limit(Limit::Copy {
            size_bytes: self.size,
            ring_bytes: self.ring_bytes.max(self.size),
        })?;
        Ok(figures.with("copy_bytes_per_s", per_s(clock, &copies)))
    }
}

impl Stream {
    /// Streams the messages of a slice; returns how many a second.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn rate(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<f64> {
        let elapsed = self.send(set, self.count)?.checked;
        Ok(self.count as f64 / nanos(clock, elapsed) * 1e9)
    }

    /// Warms up over what is open on both sides, for slices of `slice_ns`.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(super) fn over(
        session: &mut Session<'_>,
        role: Role,
        ring_bytes: usize,
        variant: &Variant,
        slice_ns: f64,
    ) -> Result<Self> {
        let batch = usize::try_from(variant.parameters.batch_count).unwrap_or(BATCH_MAX);
        let mut stream = Self {
            role,
            size: variant.size(),
            batch: batch.min(BATCH_MAX),
            ring_bytes,
            sequence: 0,
            count: FIRST_COUNT,
        };
        let warm_up = (WARM_UP_BYTES / variant.parameters.size_bytes.max(1)).max(1);
        // The first few determine how many fit a slice; then enough for the warm-up.
        for most in [warm_up, COUNT_MAX] {
            let sent = stream.send(&mut session.set, stream.count)?;
            let each_ns = nanos(&session.clock, sent.checked) / stream.count as f64;
            stream.count = super::rounds_in(slice_ns, each_ns, most);
        }
        Ok(stream)
    }

    /// Streams `count` messages.
    pub(super) fn send(&mut self, set: &mut Participants<'_>, count: u64) -> Result<Sent> {
        let (first, batch) = (self.sequence, self.batch);
        let works = [
            Work::Stream(Batches {
                first,
                count,
                batch,
                own: 0,
            }),
            Work::Take {
                first,
                count,
                publishers: 1,
            },
        ];
        let done = set.run(self.role, &works, Duration::ZERO)?;
        self.sequence += count;
        let since = |ticks: u64| ticks.saturating_sub(done[CLIENT].start_ticks);
        Ok(Sent {
            handed_over: since(done[CLIENT].end_ticks),
            checked: since(done[SERVER].end_ticks),
        })
    }
}

/// When streamed messages had come how far, in ticks from the first one.
pub(super) struct Sent {
    /// Until the last call that sends has returned.
    pub(super) handed_over: u64,
    /// Until the other side has checked the last message.
    checked: u64,
}
