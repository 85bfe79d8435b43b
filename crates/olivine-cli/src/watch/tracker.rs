//! The difference of two samples: rates, states, ages, and how long each
//! subscriber held a publisher back.

use super::behind::Behind;
use super::finding::{Help, findings};
use super::past::Past;
use super::sample::{Channel, Lane, Process, Reader, Sample, Seen};
use super::view::{ChannelView, Participant, Role, State, View};
use olivine::LaneState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Cursors kept of each lane, for the age of what is behind.
const HISTORY_MAX: usize = 128;
/// CPU time that makes a participant with nothing to do a spinning one.
const SPINNING_SHARE: f64 = 0.5;
/// The kernel's unit of CPU time for programs, on every platform of this tool.
const TICK_NS: f64 = 1e7;

/// What earlier samples said.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    help: Help,
    at_ns: Option<u64>,
    channels: Past<PastChannel>,
    /// CPU ticks by process number and start.
    ticks: HashMap<(u64, u64), u64>,
}

#[derive(Debug, Default)]
struct PastChannel {
    /// When it was read.
    at_ns: u64,
    incarnation: u64,
    lanes: BTreeMap<usize, PastLane>,
    /// By slot and ticket.
    readers: Vec<PastReader>,
}

#[derive(Debug, Default)]
struct PastLane {
    waited_ns: u64,
    held_ns: u64,
    /// Of frames that were published between two looks.
    frame_bytes: Option<f64>,
    /// Of older ones.
    old_frame_bytes: Option<f64>,
    held: Option<HeldBack>,
    /// When the cursor was where.
    cursors: VecDeque<(u64, u64)>,
}

/// A subscriber holds a publisher back.
#[derive(Clone, Copy, Debug)]
struct HeldBack {
    slot: usize,
    since_ns: u64,
    /// It may have begun before the first look: a publisher that gives up and tries again starts
    /// its clock anew.
    is_minimum: bool,
}

#[derive(Debug, Default)]
struct PastReader {
    slot: usize,
    ticket: u64,
    positions: Vec<u64>,
    held_ns: u64,
}

/// What a lane did in the window.
#[derive(Debug)]
pub(crate) struct LaneStep {
    /// Bytes published; `None` on the first look.
    moved: Option<u64>,
    /// Nanoseconds without room.
    waited_ns: u64,
    /// Slot of the subscriber that holds it back now, or held it back in the window.
    pub(crate) blamed: Option<usize>,
    /// How long it has been held back; 0 if it has room.
    pub(crate) held_for_ns: u64,
    pub(crate) held_for_is_minimum: bool,
    pub(crate) fill: f64,
    pub(crate) bytes_per_s: Option<f64>,
}

/// The subscriber that holds a lane back, or would.
#[derive(Debug)]
struct Slowest {
    slot: usize,
    behind: u64,
    /// It released nothing in the window.
    is_stalled: bool,
    /// It cannot read: it is stopped or gone.
    is_idle: bool,
}

impl Tracker {
    pub(crate) fn new(help: Help) -> Self {
        Self {
            help,
            ..Self::default()
        }
    }

    /// Takes the next sample in.
    pub(crate) fn advance(&mut self, sample: &Sample) -> View {
        let window_ns = self.at_ns.map(|before| sample.at_ns.saturating_sub(before));
        let window_ns = window_ns.filter(|window| *window > 0);
        let mut view = View {
            window_ns,
            findings: Vec::new(),
            channels: Vec::with_capacity(sample.channels.len()),
        };
        for seen in &sample.channels {
            let Seen { name, looked } = seen;
            let channel = match looked {
                Ok(channel) => channel,
                Err(error) => {
                    view.channels.push(unreadable(name, error));
                    // Its counts go on when it is readable again.
                    self.channels.keep(name);
                    continue;
                }
            };
            let (past, is_known) = self.channels.of(
                name,
                |past| past.incarnation == channel.incarnation,
                || PastChannel::new(channel),
            );
            // Without an earlier look at this channel nothing is known about the window.
            let since = is_known.then_some(past.at_ns);
            let own_ns = since.map(|since| sample.at_ns.saturating_sub(since));
            let mut step = Step {
                at_ns: sample.at_ns,
                window_ns: own_ns.filter(|window| *window > 0),
                ticks_ns: window_ns,
                channel,
                past,
                ticks: &self.ticks,
            };
            let (shown, lanes) = step.view(name);
            view.findings
                .extend(findings(&shown, channel, &lanes, &self.help));
            view.channels.push(shown);
            step.past.at_ns = sample.at_ns;
        }
        self.channels.forget_unnamed();
        view.findings.sort_by(|a, b| {
            let key = |one: &super::view::Finding| (one.severity, std::cmp::Reverse(one.held_ns));
            key(a)
                .cmp(&key(b))
                .then(b.ring_fill.total_cmp(&a.ring_fill))
        });
        self.at_ns = Some(sample.at_ns);
        self.ticks = ticks(sample);
        view
    }
}

fn ticks(sample: &Sample) -> HashMap<(u64, u64), u64> {
    let channels = sample
        .channels
        .iter()
        .filter_map(|seen| seen.looked.as_ref().ok());
    let processes = channels.flat_map(|channel| &channel.processes);
    processes
        .map(|(id, process)| ((*id, process.stat.started), process.stat.ticks))
        .collect()
}

fn unreadable(name: &str, error: &str) -> ChannelView {
    ChannelView {
        name: name.to_owned(),
        error: Some(error.to_owned()),
        capacity_bytes: 0,
        bytes_per_s: None,
        messages_per_s_estimate: None,
        ring_fill: 0.0,
        held_share: None,
        behind_bytes: 0,
        publishers_count: 0,
        subscribers_count: 0,
        gone_count: 0,
        participants: Vec::new(),
    }
}

impl PastLane {
    /// Mean bytes of frames, for estimates of messages.
    fn shown_frame_bytes(&self) -> Option<f64> {
        self.frame_bytes.or(self.old_frame_bytes)
    }
}

impl PastChannel {
    fn new(channel: &Channel) -> Self {
        Self {
            incarnation: channel.incarnation,
            ..Self::default()
        }
    }

    fn reader(&self, one: &Reader) -> Option<&PastReader> {
        let readers = &self.readers;
        // Samples have their subscribers in the order of their slots.
        let at = readers.partition_point(|past| past.slot < one.slot);
        let found = readers.get(at)?;
        ((found.slot, found.ticket) == (one.slot, one.ticket)).then_some(found)
    }
}

/// One channel between two samples.
struct Step<'a> {
    at_ns: u64,
    /// Since this channel was read before.
    window_ns: Option<u64>,
    /// Since `ticks`, of the sample before.
    ticks_ns: Option<u64>,
    channel: &'a Channel,
    past: &'a mut PastChannel,
    ticks: &'a HashMap<(u64, u64), u64>,
}

impl Step<'_> {
    fn view(&mut self, name: &str) -> (ChannelView, Vec<LaneStep>) {
        let channel = self.channel;
        let lanes: Vec<LaneStep> = (0..channel.lanes.len()).map(|at| self.lane(at)).collect();
        let mut participants: Vec<Participant> =
            Vec::with_capacity(lanes.len() + channel.readers.len());
        participants.extend(
            channel
                .lanes
                .iter()
                .zip(&lanes)
                // The lane of a publisher that ended in order is free.
                .filter(|(lane, _)| lane.state != LaneState::Closed)
                .map(|(lane, step)| self.publisher(lane, step)),
        );
        participants.extend(
            channel
                .readers
                .iter()
                .map(|one| self.subscriber(one, &lanes)),
        );
        self.remember(&participants);
        let sum = |rate: fn(&LaneStep) -> Option<f64>| {
            let mut known = lanes.iter().filter_map(rate).peekable();
            known.peek().is_some().then(|| known.sum::<f64>())
        };
        let is_gone = |one: &&Participant| one.state == State::Gone;
        let count = |role| {
            let of_role = participants.iter().filter(|one| one.role == role);
            of_role.filter(|one| !is_gone(one)).count()
        };
        let frames = channel.lanes.iter().zip(&lanes).filter_map(|(lane, step)| {
            let past = self.past.lanes.get(&lane.index)?;
            Some(step.bytes_per_s? / past.shown_frame_bytes()?)
        });
        let messages: Vec<f64> = frames.collect();
        let shown = ChannelView {
            name: name.to_owned(),
            error: None,
            capacity_bytes: channel.capacity,
            bytes_per_s: sum(|step| step.bytes_per_s),
            messages_per_s_estimate: (!messages.is_empty()).then(|| messages.iter().sum()),
            ring_fill: lanes.iter().map(|step| step.fill).fold(0.0, f64::max),
            held_share: self.share(lanes.iter().map(|step| step.waited_ns).max().unwrap_or(0)),
            behind_bytes: participants
                .iter()
                .map(|one| one.behind_bytes)
                .max()
                .unwrap_or(0),
            publishers_count: count(Role::Publisher),
            subscribers_count: count(Role::Subscriber),
            gone_count: participants.iter().filter(is_gone).count(),
            participants,
        };
        (shown, lanes)
    }

    /// Of the window; `None` on the first look.
    fn share(&self, ns: u64) -> Option<f64> {
        Some((float(ns) / float(self.window_ns?)).min(1.0))
    }

    fn per_s(&self, amount: u64) -> Option<f64> {
        Some(float(amount) * 1e9 / float(self.window_ns?))
    }

    fn lane(&mut self, at: usize) -> LaneStep {
        let channel = self.channel;
        let lane = &channel.lanes[at];
        let slowest = self.slowest(at);
        let behind = slowest.as_ref().map_or(0, |one| one.behind);
        let window_ns = self.window_ns;
        let past = self.past.lanes.entry(lane.index).or_default();
        let before = past.cursors.back().map(|(_, cursor)| *cursor);
        let moved = before.map(|before| lane.cursor.saturating_sub(before));
        let moved = moved.filter(|_| window_ns.is_some());
        past.frame_bytes = lane.frame_bytes.or(past.frame_bytes);
        past.old_frame_bytes = lane.old_frame_bytes.or(past.old_frame_bytes);
        let capacity = float(channel.capacity);
        // A publisher that tries again counts the time between only with its next try. The refused
        // message may be larger than its old frames.
        let frame_bytes = past.frame_bytes.unwrap_or(capacity / 16.0);
        let is_full = behind > 0 && float(channel.capacity.saturating_sub(behind)) < frame_bytes;
        let is_stalled = slowest.as_ref().is_some_and(|one| one.is_stalled);
        let is_open = lane.state == LaneState::Open;
        let waited_ns = match window_ns {
            // Nothing waits in the lane of a publisher that has ended.
            Some(window) if is_open && is_full && is_stalled && moved == Some(0) => window,
            Some(window) => lane.waited_ns.saturating_sub(past.waited_ns).min(window),
            None => 0,
        };
        past.waited_ns = lane.waited_ns;
        past.held_ns = past.held_ns.saturating_add(waited_ns);
        past.cursors.push_back((self.at_ns, lane.cursor));
        if past.cursors.len() > HISTORY_MAX {
            past.cursors.pop_front();
        }
        // A publisher that was stopped while it waited does not know that there is room.
        let stops = process(channel, lane.pid).is_some_and(|process| process.stat.is_stopped());
        let waits = lane.blocked_ns > 0
            || window_ns.is_some_and(|window| is_stalled && waited_ns >= window / 10 * 9);
        let is_idle = slowest.as_ref().is_some_and(|one| one.is_idle);
        let slot = slowest.map(|one| one.slot);
        let held = slot.filter(|_| is_open && waits && !stops);
        let looks = past.cursors.len();
        past.held = held.map(|slot| {
            // All of the wait was for a subscriber that cannot read, also if it released before.
            let for_ns = match is_stalled || is_idle {
                true => lane.blocked_ns.max(waited_ns),
                false => lane.blocked_ns,
            };
            let new = HeldBack {
                slot,
                since_ns: self.at_ns.saturating_sub(for_ns),
                is_minimum: looks == 1 || looks == 2 && Some(waited_ns) == window_ns,
            };
            match past.held {
                Some(old) if old.slot == slot && is_stalled && old.since_ns <= new.since_ns => old,
                _ => new,
            }
        });
        let held_for = |hold: HeldBack| self.at_ns.saturating_sub(hold.since_ns).max(1);
        LaneStep {
            moved,
            waited_ns,
            blamed: slot,
            held_for_ns: past.held.map_or(0, held_for),
            held_for_is_minimum: past.held.is_some_and(|hold| hold.is_minimum),
            fill: match channel.capacity {
                0 => 0.0,
                capacity => (float(behind) / float(capacity)).min(1.0),
            },
            bytes_per_s: moved.and_then(|moved| self.per_s(moved)),
        }
    }

    /// The subscriber that a lane waits for, or would wait for: the one its waiting publisher
    /// names, if it is behind, else the slowest.
    fn slowest(&self, at: usize) -> Option<Slowest> {
        let lane = &self.channel.lanes[at];
        let gating = || {
            let all = self.channel.readers.iter();
            all.filter_map(|one| Some((one, gated(one, at)?)))
                .filter(|(_, position)| *position < lane.cursor)
        };
        let named = lane.blocked_by.filter(|_| lane.blocked_ns > 0);
        let named = named.and_then(|slot| gating().find(|(one, _)| one.slot == slot));
        let (one, position) = named.or_else(|| gating().min_by_key(|(_, at)| *at))?;
        let past = self.past.reader(one);
        let before = past.and_then(|past| past.positions.get(at).copied());
        Some(Slowest {
            slot: one.slot,
            behind: lane.cursor - position,
            is_stalled: before == Some(position),
            is_idle: !one.alive
                || process(self.channel, one.pid).is_some_and(|one| one.stat.is_stopped()),
        })
    }

    fn publisher(&self, lane: &Lane, step: &LaneStep) -> Participant {
        let process = process(self.channel, lane.pid);
        let cpu_share = self.cpu_share(lane.pid, process);
        let state = if lane.state != LaneState::Open {
            State::Gone
        } else if process.is_some_and(|process| process.stat.is_stopped()) {
            State::Stopped
        } else if step.held_for_ns > 0 {
            State::Held
        } else {
            calm(step.moved.map(|moved| moved > 0), lane.parked, cpu_share)
        };
        let failures = lane.failures.as_ref();
        Participant {
            role: Role::Publisher,
            index: lane.index,
            process_id: lane.pid,
            name: None,
            command: process.map(|process| Arc::clone(&process.command)),
            state,
            cpu: process.and_then(|process| process.stat.cpu),
            cpu_share,
            bytes_per_s: step.bytes_per_s,
            behind_bytes: 0,
            behind_messages_estimate: None,
            behind_ns: None,
            behind_ns_is_minimum: false,
            lost_bytes: 0,
            overruns_count: 0,
            parks_count: 0,
            failures_count: failures.map_or(0, |failures| failures.count),
            since_first_failure_ns: failures.map(|failures| failures.since_first_ns),
            since_last_failure_ns: failures.map(|failures| failures.since_last_ns),
            last_failure: failures.map(|failures| failures.reason.clone()),
            delivery: None,
            held_share: self.share(step.waited_ns),
            held_ns: self
                .past
                .lanes
                .get(&lane.index)
                .map_or(0, |past| past.held_ns),
            absent_ns: 0,
        }
    }

    fn subscriber(&self, one: &Reader, lanes: &[LaneStep]) -> Participant {
        let process = process(self.channel, one.pid).filter(|_| one.alive);
        let cpu_share = self.cpu_share(one.pid, process);
        let past = self.past.reader(one);
        let mut behind = Behind::default();
        let mut moved = past.filter(|_| self.window_ns.is_some()).map(|_| 0_u64);
        let mut held_ns = 0;
        for (at, (lane, step)) in self.channel.lanes.iter().zip(lanes).enumerate() {
            let Some(position) = gated(one, at) else {
                continue;
            };
            let before = past.and_then(|past| past.positions.get(at).copied());
            if let (Some(moved), Some(before)) = (&mut moved, before) {
                *moved = moved.saturating_add(position.saturating_sub(before));
            }
            if step.blamed == Some(one.slot) {
                held_ns = held_ns.max(step.waited_ns);
                behind.held(step.held_for_ns);
            }
            if let Some(past) = self.past.lanes.get(&lane.index) {
                behind.add(
                    past.shown_frame_bytes(),
                    &past.cursors,
                    self.at_ns,
                    (lane.cursor, position),
                );
            }
        }
        let state = if one.evicted {
            State::Evicted
        } else if !one.alive {
            State::Gone
        } else if process.is_some_and(|process| process.stat.is_stopped()) {
            State::Stopped
        } else if behind.bytes > 0 && moved == Some(0) && !one.parked {
            State::NotReading
        } else {
            calm(moved.map(|moved| moved > 0), one.parked, cpu_share)
        };
        Participant {
            role: Role::Subscriber,
            index: one.slot,
            process_id: one.pid,
            name: one.name.clone(),
            command: process.map(|process| Arc::clone(&process.command)),
            state,
            cpu: process.and_then(|process| process.stat.cpu),
            cpu_share,
            bytes_per_s: moved.and_then(|moved| self.per_s(moved)),
            behind_bytes: behind.bytes,
            behind_messages_estimate: behind.messages(),
            behind_ns: behind.age.map(|(ns, _)| ns),
            behind_ns_is_minimum: behind.age.is_some_and(|(_, is_minimum)| is_minimum),
            lost_bytes: one.lost_bytes,
            overruns_count: one.overruns,
            parks_count: one.parks,
            failures_count: 0,
            since_first_failure_ns: None,
            since_last_failure_ns: None,
            last_failure: None,
            delivery: Some(one.delivery.word()),
            held_share: self.share(held_ns),
            held_ns: past.map_or(0, |past| past.held_ns).saturating_add(held_ns),
            absent_ns: one.absent_ns,
        }
    }

    /// CPU time of all threads of a process in the window.
    fn cpu_share(&self, id: u64, process: Option<&Process>) -> Option<f64> {
        let stat = &process?.stat;
        let before = self.ticks.get(&(id, stat.started))?;
        let used = float(stat.ticks.saturating_sub(*before)) * TICK_NS;
        Some(used / float(self.ticks_ns?))
    }

    /// Keeps what the next step needs of the subscribers.
    fn remember(&mut self, participants: &[Participant]) {
        let subscribers = participants
            .iter()
            .filter(|one| one.role == Role::Subscriber);
        let readers = &self.channel.readers;
        let past = &mut self.past.readers;
        past.resize_with(readers.len(), PastReader::default);
        // The view has them in the same order.
        for ((past, one), shown) in past.iter_mut().zip(readers).zip(subscribers) {
            (past.slot, past.ticket, past.held_ns) = (one.slot, one.ticket, shown.held_ns);
            past.positions.clone_from(&one.positions);
        }
    }
}

/// The process of a participant, if it is visible.
pub(super) fn process(channel: &Channel, id: u64) -> Option<&Process> {
    channel.processes.get(&id)
}

/// The position at which a subscriber holds the lane `at` of the sample.
fn gated(one: &Reader, at: usize) -> Option<u64> {
    let position = one.positions.get(at).copied().filter(|_| one.gates);
    position.filter(|position| *position != u64::MAX)
}

/// The state of a participant that nothing is wrong with.
fn calm(moved: Option<bool>, parked: bool, cpu_share: Option<f64>) -> State {
    match moved {
        Some(true) => State::Moving,
        _ if parked => State::Parked,
        None => State::Unknown,
        Some(false) if cpu_share.is_some_and(|share| share >= SPINNING_SHARE) => State::Spinning,
        Some(false) => State::Idle,
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod tests;
