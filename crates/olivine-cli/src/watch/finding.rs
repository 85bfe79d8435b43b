//! What is wrong: who holds publishers back, since when, and the command that helps.

use super::format::{percent, seconds, who};
use super::sample::Channel;
use super::tracker::LaneStep;
use super::view::{ChannelView, Finding, Participant, Role, Severity, State};
use crate::quote;
use crate::terminal::escaped;
use olivine::LaneState;
use std::collections::BTreeMap;

/// A subscriber that held a publisher back for a smaller part of the window is not reported.
const SLOWED_SHARE: f64 = 0.05;
/// A ring with less behind a subscriber that does not read is not reported.
const RISK_FILL: f64 = 0.05;
/// Durable names that recorders and bridges take if they are given none begin with it.
const BRIDGE_NAME: &str = "bridge.";
/// Durable names that a listening bridge gives its far sides begin with it.
const FAR_SIDE_NAME: &str = "tcp.";

/// What reads under the durable `name`, if a bridge made it; its word in output.
pub(crate) fn carrying(name: &str) -> Option<&'static str> {
    if name.starts_with(BRIDGE_NAME) {
        return Some("recorder or bridge");
    }
    name.starts_with(FAR_SIDE_NAME)
        .then_some("far side over tcp://")
}

/// What remedies depend on beside the channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Help {
    /// Behind each command of the tool that names a channel: the folder, if it is not the default.
    pub(crate) place: String,
    /// The same of channels whose URI names a folder.
    pub(crate) own_places: Vec<(String, String)>,
    pub(crate) has_gdb: bool,
}

impl Help {
    /// What names the folder of `channel` behind a command.
    fn place_of(&self, channel: &str) -> &str {
        let mut own = self.own_places.iter();
        let own = own.find(|(name, _)| name == channel);
        own.map_or(&self.place, |(_, place)| place)
    }
}

/// What one subscriber does to the lanes of a channel.
#[derive(Debug, Default)]
struct Blame {
    held_ns: u64,
    is_minimum: bool,
    fill: f64,
    publishers: Vec<u64>,
    /// Nanoseconds until the first ring is full, at the present rate.
    full_in_ns: Option<u64>,
}

/// The findings of one channel, in no order.
pub(super) fn findings(
    shown: &ChannelView,
    channel: &Channel,
    lanes: &[LaneStep],
    help: &Help,
) -> Vec<Finding> {
    let mut blames: BTreeMap<usize, Blame> = BTreeMap::new();
    for (lane, step) in channel.lanes.iter().zip(lanes) {
        // Nothing waits in the lane of a publisher that has ended.
        let Some(slot) = step.blamed.filter(|_| lane.state == LaneState::Open) else {
            continue;
        };
        let blame = blames.entry(slot).or_default();
        blame.fill = blame.fill.max(step.fill);
        if step.held_for_ns > 0 {
            let held = (step.held_for_ns, step.held_for_is_minimum);
            (blame.held_ns, blame.is_minimum) = (blame.held_ns, blame.is_minimum).max(held);
            blame.publishers.push(lane.pid);
        }
        if let Some(rate) = step.bytes_per_s.filter(|rate| *rate > 0.0) {
            let ns = time_to_fill(step.fill, channel.capacity, rate);
            blame.full_in_ns = Some(blame.full_in_ns.map_or(ns, |least| least.min(ns)));
        }
    }
    let subscriber = |slot: usize| {
        let mut subscribers = shown.participants.iter();
        subscribers.find(|one| one.role == Role::Subscriber && one.index == slot)
    };
    let found = blames.into_iter().filter_map(|(slot, blame)| {
        let one = subscriber(slot)?;
        let severity = severity(one, &blame)?;
        Some(finding(shown, one, severity, blame, help))
    });
    found.collect()
}

/// Nanoseconds until a ring is full.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a positive time, shown with two figures"
)]
fn time_to_fill(fill: f64, capacity: u64, bytes_per_s: f64) -> u64 {
    ((1.0 - fill) * capacity as f64 / bytes_per_s * 1e9) as u64
}

fn severity(one: &Participant, blame: &Blame) -> Option<Severity> {
    let idles = matches!(one.state, State::Stopped | State::Gone | State::NotReading);
    if blame.held_ns > 0 {
        Some(Severity::Held)
    } else if one.held_share.is_some_and(|share| share >= SLOWED_SHARE) {
        Some(Severity::Slowed)
    } else if one.state == State::Stopped || idles && blame.fill >= RISK_FILL {
        Some(Severity::Risk)
    } else {
        None
    }
}

fn finding(
    shown: &ChannelView,
    one: &Participant,
    severity: Severity,
    blame: Blame,
    help: &Help,
) -> Finding {
    let who = culprit(one);
    let ring = format!("ring {}", percent(blame.fill));
    let channel = &shown.name;
    let text = match severity {
        Severity::Held => {
            let more = if blame.is_minimum { ">" } else { "" };
            let lasts = seconds(blame.held_ns);
            format!("{channel}: held {more}{lasts} by {who}, {ring}")
        }
        Severity::Slowed => {
            let share = percent(one.held_share.unwrap_or(0.0));
            format!("{channel}: held {share} of the time by {who}, {ring}")
        }
        Severity::Risk => {
            let full = blame.full_in_ns.map(seconds);
            let full = full.map_or_else(String::new, |full| format!(", full in {full}"));
            format!("{channel}: {who} does not read, {ring}{full}")
        }
    };
    Finding {
        severity,
        channel: channel.clone(),
        text,
        remedy: remedy(shown, one, help),
        slot: one.index,
        process_id: one.process_id,
        name: one.name.clone(),
        state: one.state,
        held_ns: (blame.held_ns > 0).then_some(blame.held_ns),
        held_ns_is_minimum: blame.is_minimum,
        held_share: one.held_share,
        ring_fill: blame.fill,
        publisher_process_ids: blame.publishers,
    }
}

/// `'audit' (pid 6388, STOPPED)`.
fn culprit(one: &Participant) -> String {
    let called = match &one.name {
        Some(name) => format!("'{}'", escaped(name)),
        None => who(one),
    };
    let state = match one.state {
        State::Gone if one.absent_ns > 0 => {
            return format!("{called} (gone for {})", seconds(one.absent_ns));
        }
        State::Gone => ", gone",
        State::Stopped => ", STOPPED",
        State::NotReading => ", reads nothing",
        State::Moving => ", reads",
        State::Evicted => ", evicted",
        _ => "",
    };
    // Its name is a number that says nothing to people.
    let program = match (&one.name, carrier(one)) {
        (Some(name), Some(program)) if carrying(name).is_some() => format!("{program}, "),
        _ => String::new(),
    };
    format!("{called} ({program}pid {}{state})", one.process_id)
}

/// The command of a recorder or a bridge of the tool.
fn carrier(one: &Participant) -> Option<&str> {
    let command = one.command.as_deref()?;
    ["olivine record", "olivine bridge"]
        .into_iter()
        .find(|known| *known == command)
}

/// The command that ends the hold, or shows why it lasts.
fn remedy(shown: &ChannelView, one: &Participant, help: &Help) -> String {
    let (channel, id) = (&shown.name, one.process_id);
    let place = help.place_of(channel);
    match (one.state, one.name.as_deref().and_then(quote::word)) {
        (State::Stopped, _) => quote::resume([id]),
        (State::Gone, Some(name)) => format!("olivine rm shm://{channel} --name {name}{place}"),
        (State::Gone, None) => format!("olivine inspect shm://{channel}{place}"),
        // Only the number of a visible process is surely its number here.
        (State::NotReading | State::Parked, _) if one.command.is_some() => match carrier(one) {
            Some("olivine record") => {
                format!("readlink /proc/{id}/fd/2  # the log of olivine record: is its disk full?")
            }
            Some(program) => format!(
                "readlink /proc/{id}/fd/2  # the log of {program}: does its far side answer?"
            ),
            None if help.has_gdb => format!("gdb -p {id} --batch -ex 'thread apply all backtrace'"),
            None => format!("sudo head /proc/{id}/task/*/stack"),
        },
        _ => format!("olivine doctor shm://{channel}{place}"),
    }
}
