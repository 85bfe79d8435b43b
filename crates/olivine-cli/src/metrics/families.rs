//! Every metric family: its name, and the samples that a look gives.
//!
//! Labels are the channel, the index of a lane or slot, and the durable name: their number is
//! bounded by the settings of the channels. A process number is never a label, because each start
//! of a program would add series.

use super::exposition::{Exposition, Family, Format, Kind, Value, labels};
use super::lines::{ChannelLines, Families, Lines, of_reader};
use crate::watch::sample::{Channel, Lane, Reader, Sample};
use crate::watch::view::{ChannelView, Finding, Participant, Role, State, View};
use olivine::LaneState;
use std::time::Duration;

/// Samples of lanes and subscribers in one text. Channels that would exceed it are shown without
/// their lanes and subscribers.
const DETAILS_MAX: usize = 100_000;
/// Samples of one lane, at most.
const LANE_SAMPLES_MAX: usize = OF_LANE.len();
/// Samples of one subscriber, at most: [`HELD_BACK`] and [`HOLD`] as well.
const READER_SAMPLES_MAX: usize = OF_READER.len() + 2;

/// What was seen of the channels, and what the text says about the looks themselves.
#[derive(Debug)]
pub(crate) struct Scrape<'a> {
    /// The look, if the folder can be read.
    pub(crate) looked: Result<(&'a Sample, &'a View), ()>,
    /// Since the start of this process, those of its page included.
    pub(crate) looks: u64,
    pub(crate) errors: u64,
    /// Time of this look.
    pub(crate) took: Duration,
    /// Whether the process that writes the text has looked before and will look again: only then
    /// it can count what no shared word counts.
    pub(crate) goes_on: bool,
}

const fn family(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind,
        unit,
        help,
    }
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    family(name, Kind::Gauge, unit, help)
}

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    family(name, Kind::Counter, unit, help)
}

const BUILD: Family = family(
    "olivine_build",
    Kind::Info,
    "",
    "Version of the tool that wrote this text.",
);
const READABLE: Family = gauge(
    "olivine_folder_readable",
    "",
    "Whether the folder of channels can be read: 1 or 0.",
);
const LOOKS: Family = counter(
    "olivine_looks",
    "",
    "Looks at the channels since the start of this process.",
);
const ERRORS: Family = counter(
    "olivine_scrape_errors",
    "",
    "Channels or folders that could not be read, counted once a look.",
);
const TOOK: Family = gauge(
    "olivine_scrape_duration_seconds",
    "seconds",
    "Time that this look at the channels took.",
);
const CHANNELS: Family = gauge("olivine_channels", "", "Channels, readable or not.");
const COLLAPSED: Family = gauge(
    "olivine_collapsed_channels",
    "",
    "Channels shown without lanes and subscribers, because the text would be too long.",
);
const CHANNEL_READABLE: Family = gauge(
    "olivine_channel_readable",
    "",
    "Whether a channel can be read: 1 or 0.",
);

/// A family with one sample a channel.
type OfChannel = (Family, fn(&Shown<'_>) -> Option<u64>);
const OF_CHANNEL: &[OfChannel] = &[
    (
        gauge(
            "olivine_ring_capacity_bytes",
            "bytes",
            "Bytes of each ring; absent while no publisher has fixed it.",
        ),
        |one| Some(one.channel.capacity).filter(|bytes| *bytes > 0),
    ),
    (
        gauge(
            "olivine_memory_bytes",
            "bytes",
            "Shared memory that the files of a channel occupy.",
        ),
        |one| Some(one.channel.totals.file_bytes),
    ),
    (
        gauge("olivine_publishers", "", "Living publishers."),
        |one| Some(one.view.publishers_count as u64),
    ),
    (
        gauge(
            "olivine_subscribers",
            "",
            "Living subscribers, and names that were evicted or have expired.",
        ),
        |one| Some(one.view.subscribers_count as u64),
    ),
    (
        gauge(
            "olivine_publishers_max",
            "",
            "Largest number of publishers; absent while no publisher has fixed it.",
        ),
        |one| Some(one.channel.totals.publishers_max).filter(|most| *most > 0),
    ),
    (
        gauge(
            "olivine_subscribers_max",
            "",
            "Largest number of subscribers; absent while it is not fixed.",
        ),
        |one| Some(one.channel.totals.subscribers_max).filter(|most| *most > 0),
    ),
    (
        counter(
            "olivine_subscribers_attached",
            "",
            "Subscribers that attached since the channel was made.",
        ),
        |one| Some(one.channel.totals.subscribers_ever),
    ),
    (
        counter(
            "olivine_evictions",
            "",
            "Subscribers evicted by publishers that had no room.",
        ),
        |one| Some(one.channel.totals.evictions),
    ),
    (
        counter(
            "olivine_reclaims",
            "",
            "Slots of dead subscribers that were freed.",
        ),
        |one| Some(one.channel.totals.reclaims),
    ),
];

const PARTICIPANTS: Family = gauge(
    "olivine_participants",
    "",
    "Participants by role and state; running are all that nothing is wrong with.",
);
const PUBLISHER_STATES: [&str; 5] = ["running", "held", "stopped", "gone", "unknown"];
const SUBSCRIBER_STATES: [&str; 6] = [
    "running",
    "not_reading",
    "stopped",
    "gone",
    "evicted",
    "unknown",
];
const PARTICIPANT_STATES: usize = PUBLISHER_STATES.len() + SUBSCRIBER_STATES.len();

/// A family with one sample a lane.
type OfLane = (Family, fn(&Channel, usize, &Lane) -> Option<Value>);
const OF_LANE: &[OfLane] = &[
    (
        counter(
            "olivine_published_bytes",
            "bytes",
            "Bytes of frames published in a lane, headers and padding included: its cursor.",
        ),
        |_, _, lane| Some(Value::Count(lane.cursor)),
    ),
    (
        gauge(
            "olivine_ring_fill_ratio",
            "ratio",
            "Part of a ring that waits for its slowest subscriber, from 0 to 1.",
        ),
        |channel, at, lane| fill(channel, at, lane).map(Value::Float),
    ),
    (
        counter(
            "olivine_waits_for_room",
            "",
            "Times that the publishers of a lane had no room.",
        ),
        |_, _, lane| Some(Value::Count(lane.totals.waits)),
    ),
    (
        counter(
            "olivine_without_room_seconds",
            "seconds",
            "Time that the publishers of a lane had no room; it grows while it lasts.",
        ),
        |_, _, lane| Some(Value::Ns(lane.waited_ns)),
    ),
    (
        counter(
            "olivine_wakes",
            "",
            "Parked subscribers that the publishers of a lane woke.",
        ),
        |_, _, lane| Some(Value::Count(lane.totals.wakes)),
    ),
    (
        counter(
            "olivine_takeovers",
            "",
            "Times that a publisher continued the lane of a dead one.",
        ),
        |_, _, lane| Some(Value::Count(lane.totals.takeovers)),
    ),
    (
        counter(
            "olivine_failures",
            "",
            "Times that the publisher of a lane or its source failed.",
        ),
        |_, _, lane| {
            let failures = lane.failures.as_ref();
            Some(Value::Count(failures.map_or(0, |failures| failures.count)))
        },
    ),
    (
        gauge(
            "olivine_publisher_parked",
            "",
            "Whether the publisher of a lane sleeps now: 1 or 0; absent if it is gone.",
        ),
        |_, _, lane| {
            (lane.state == LaneState::Open).then_some(Value::Count(u64::from(lane.parked)))
        },
    ),
];

/// A family with one sample a subscriber.
type OfReader = (Family, fn(&Reader, &Participant) -> Option<Value>);
const OF_READER: &[OfReader] = &[
    (
        gauge(
            "olivine_lag_bytes",
            "bytes",
            "Bytes published and not released by a subscriber, over all lanes.",
        ),
        |_, shown| Some(Value::Count(shown.behind_bytes)),
    ),
    (
        gauge(
            "olivine_lag_seconds",
            "seconds",
            "Age of the oldest message that a subscriber has not released; 0 if there is none.",
        ),
        |_, shown| match (shown.behind_ns, shown.behind_bytes) {
            (None, 0) => Some(Value::Count(0)),
            (age, _) => age.map(Value::Ns),
        },
    ),
    (
        gauge(
            "olivine_position_bytes",
            "bytes",
            "Sum of the positions that a subscriber has released, over the lanes that it gates.",
        ),
        |reader, _| {
            let released = reader.positions.iter().filter(|at| **at != u64::MAX);
            let sum = released.fold(0, |sum: u64, at| sum.saturating_add(*at));
            reader.gates.then_some(Value::Count(sum))
        },
    ),
    (
        counter(
            "olivine_lost_bytes",
            "bytes",
            "Bytes that a subscriber lost to overruns or missed while its name had no place.",
        ),
        |reader, _| Some(Value::Count(reader.lost_bytes)),
    ),
    (
        counter("olivine_overruns", "", "Overruns of a subscriber."),
        |reader, _| Some(Value::Count(reader.overruns)),
    ),
    (
        counter(
            "olivine_parks",
            "",
            "Times that a subscriber slept in the kernel.",
        ),
        |reader, _| Some(Value::Count(reader.parks)),
    ),
    (
        gauge(
            "olivine_subscriber_parked",
            "",
            "Whether a subscriber sleeps now: 1 or 0; absent if it is gone.",
        ),
        |reader, _| {
            reader
                .alive
                .then_some(Value::Count(u64::from(reader.parked)))
        },
    ),
    (
        gauge(
            "olivine_absent_seconds",
            "seconds",
            "How long a durable subscriber has been absent; 0 while it is attached.",
        ),
        |reader, _| reader.name.is_some().then_some(Value::Ns(reader.absent_ns)),
    ),
];
const HELD_BACK: Family = counter(
    "olivine_held_back_seconds",
    "seconds",
    "Time in which a subscriber held a publisher back, as seen since the start of this process.",
);
/// The families of subscribers, with [`HELD_BACK`] if this process `goes_on`.
fn of_reader_families(goes_on: bool) -> impl Iterator<Item = &'static OfReader> {
    static HELD: OfReader = (HELD_BACK, |_, shown| Some(Value::Ns(shown.held_ns)));
    OF_READER.iter().chain(goes_on.then_some(&HELD))
}

/// The families with a part in each channel; that of the states of its participants stands between
/// those of channels and those of lanes.
const FAMILIES: Families = Families {
    channel: OF_CHANNEL.len(),
    lane: OF_LANE.len(),
    reader: OF_READER.len() + 1,
};
const HOLD: Family = gauge(
    "olivine_hold_seconds",
    "seconds",
    "How long the present hold of a subscriber lasts; absent if it holds no publisher back.",
);

/// The part of the ring of lane `at` that waits for a subscriber.
#[allow(clippy::cast_precision_loss, reason = "a ratio")]
fn fill(channel: &Channel, at: usize, lane: &Lane) -> Option<f64> {
    let gating = channel.readers.iter().filter(|one| one.gates);
    let positions = gating.filter_map(|one| one.positions.get(at).copied());
    let slowest = positions.filter(|position| *position != u64::MAX).min();
    let behind = lane
        .cursor
        .saturating_sub(slowest.unwrap_or(lane.cursor))
        .min(channel.capacity);
    (channel.capacity > 0).then(|| behind as f64 / channel.capacity as f64)
}

/// A readable channel.
struct Shown<'a> {
    channel: &'a Channel,
    view: &'a ChannelView,
}

impl<'a> Shown<'a> {
    /// Its subscribers, in the order of `channel.readers`.
    fn subscribers(&self) -> impl Iterator<Item = &'a Participant> + Clone + use<'a> {
        // The tracker shows each of them, in this order.
        let all = self.view.participants.iter();
        all.filter(|one| one.role == Role::Subscriber)
    }

    /// Samples of its lanes and subscribers at most.
    fn details(&self) -> usize {
        let (lanes, readers) = (self.channel.lanes.len(), self.channel.readers.len());
        lanes * LANE_SAMPLES_MAX + readers * READER_SAMPLES_MAX
    }

    /// Takes its values in; without those of its lanes and subscribers if `is_collapsed`. All
    /// families of one channel after the other: they read the same memory.
    fn fill(&self, lines: &mut ChannelLines, is_collapsed: bool, goes_on: bool) {
        let ChannelLines {
            own,
            states,
            lanes,
            readers,
            parts,
            known,
            ..
        } = lines;
        let mut parts = parts.iter_mut();
        let mut known = &mut known[..];
        let mut next = |samples: usize| known.split_off_mut(..samples).unwrap_or_default();
        for ((family, value), part) in OF_CHANNEL.iter().zip(&mut parts) {
            part.set(
                family,
                next(1),
                std::iter::once((&**own, value(self).map(Value::Count))),
            );
        }
        if let Some(part) = parts.next() {
            let counts = participants(self.view);
            let counts = counts.map(|number| Some(Value::Count(number)));
            part.set(
                &PARTICIPANTS,
                next(states.len()),
                states.iter().map(|labels| &**labels).zip(counts),
            );
        }
        if is_collapsed {
            return;
        }
        let channel = self.channel;
        for ((family, value), part) in OF_LANE.iter().zip(&mut parts) {
            let values = lanes.iter().zip(&channel.lanes).enumerate();
            let values =
                values.map(|(at, ((_, labels), lane))| (&**labels, value(channel, at, lane)));
            part.set(family, next(channel.lanes.len()), values);
        }
        for ((family, value), part) in of_reader_families(goes_on).zip(&mut parts) {
            let subscribers = channel.readers.iter().zip(self.subscribers());
            let values = readers.iter().zip(subscribers);
            let values =
                values.map(|((_, labels), (reader, shown))| (&**labels, value(reader, shown)));
            part.set(family, next(channel.readers.len()), values);
        }
    }
}

/// The text of a look. `lines` has those of the looks before.
pub(crate) fn text(scrape: &Scrape<'_>, lines: &mut Lines, format: Format) -> String {
    let mut out = Exposition::new(format, lines.text_bytes());
    let version = labels(&[("version", env!("CARGO_PKG_VERSION"))]);
    let is_readable = u64::from(scrape.looked.is_ok());
    let count = Value::Count;
    out.family(&BUILD, |to| to.add(&version, count(1)));
    out.family(&READABLE, |to| to.add("", count(is_readable)));
    if scrape.goes_on {
        out.family(&LOOKS, |to| to.add("", count(scrape.looks)));
    }
    if let Ok((sample, view)) = scrape.looked {
        channels(&mut out, sample, view, lines, scrape.goes_on);
    }
    if scrape.goes_on {
        out.family(&ERRORS, |to| to.add("", count(scrape.errors)));
    }
    let took = u64::try_from(scrape.took.as_nanos()).unwrap_or(u64::MAX);
    out.family(&TOOK, |to| to.add("", Value::Ns(took)));
    let text = out.finish();
    lines.note_text(text.len());
    text
}

fn channels(out: &mut Exposition, sample: &Sample, view: &View, lines: &mut Lines, goes_on: bool) {
    // The tracker shows each channel of a sample, in this order.
    let pairs = || sample.channels.iter().zip(&view.channels);
    let mut left = DETAILS_MAX;
    let mut collapsed = 0;
    let mut readable = Vec::with_capacity(sample.channels.len());
    for (seen, view) in pairs() {
        let Ok(channel) = &seen.looked else { continue };
        let shown = Shown { channel, view };
        let rest = left.checked_sub(shown.details());
        match rest {
            Some(rest) => left = rest,
            None => collapsed += 1,
        }
        let lines = lines.of(&seen.name, channel, FAMILIES);
        shown.fill(lines, rest.is_none(), goes_on);
        readable.push((&*seen.name, rest.is_none()));
    }
    let lines = &*lines;
    let readable = readable.into_iter();
    let readable =
        readable.filter_map(|(name, is_collapsed)| Some((lines.get(name)?, is_collapsed)));
    let readable: Vec<(&ChannelLines, bool)> = readable.collect();
    let count = Value::Count;
    out.family(&CHANNELS, |to| {
        to.add("", count(view.channels.len() as u64));
    });
    out.family(&COLLAPSED, |to| to.add("", count(collapsed)));
    out.family(&CHANNEL_READABLE, |to| {
        for (seen, _) in pairs() {
            let labels = labels(&[("channel", &seen.name)]);
            to.add(&labels, count(u64::from(seen.looked.is_ok())));
        }
    });
    let of_channels = OF_CHANNEL.iter().map(|(family, _)| family);
    let of_channels = of_channels
        .chain([&PARTICIPANTS])
        .map(|family| (family, false));
    let of_lanes = OF_LANE.iter().map(|(family, _)| (family, true));
    let of_readers = of_reader_families(goes_on).map(|(family, _)| (family, true));
    let families = of_channels.chain(of_lanes).chain(of_readers);
    for (at, (family, is_detail)) in families.enumerate() {
        out.family(family, |to| {
            for (lines, is_collapsed) in &readable {
                let part = lines.parts.get(at);
                if let Some(part) = part.filter(|_| !(is_detail && *is_collapsed)) {
                    to.add_part(part);
                }
            }
        });
    }
    out.family(&HOLD, |to| {
        let holds = |one: &Finding| Some((of_finding(one), one.held_ns?));
        for (labels, ns) in view.findings.iter().filter_map(holds) {
            to.add(&labels, Value::Ns(ns));
        }
    });
}

fn of_finding(one: &Finding) -> String {
    of_reader(&one.channel, one.slot, one.name.as_deref())
}

/// The labels of the numbers of participants: each role and state, of which there are
/// [`PARTICIPANT_STATES`]. All are there: a series that comes and goes is hard to alert on.
pub(super) fn of_states(channel: &str) -> Vec<String> {
    let of_role = |role: &'static str, states: &'static [&'static str]| {
        states.iter().map(move |state| (role, *state))
    };
    let publishers = of_role("publisher", &PUBLISHER_STATES);
    publishers
        .chain(of_role("subscriber", &SUBSCRIBER_STATES))
        .map(|(role, state)| format!("{channel},role=\"{role}\",state=\"{state}\""))
        .collect()
}

/// The numbers of participants in each state, in the order of [`of_states`].
fn participants(view: &ChannelView) -> [u64; PARTICIPANT_STATES] {
    let mut counts = [0; PARTICIPANT_STATES];
    for one in &view.participants {
        let word = state_word(one.state);
        let (before, states) = match one.role {
            Role::Publisher => (0, &PUBLISHER_STATES[..]),
            Role::Subscriber => (PUBLISHER_STATES.len(), &SUBSCRIBER_STATES[..]),
        };
        if let Some(at) = states.iter().position(|state| *state == word) {
            counts[before + at] += 1;
        }
    }
    counts
}

/// The states of the screen, with all that nothing is wrong with as one.
fn state_word(state: State) -> &'static str {
    match state {
        State::Stopped => "stopped",
        State::Gone => "gone",
        State::Evicted => "evicted",
        State::Held => "held",
        State::NotReading => "not_reading",
        State::Moving | State::Parked | State::Spinning | State::Idle => "running",
        State::Unknown => "unknown",
    }
}
