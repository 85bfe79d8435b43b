//! `olivine demo --crash`: participants are killed and stopped in turn, and every message is
//! counted.
//!
//! Publishers and subscribers are processes of this tool on a private channel. Subscribers have
//! durable names and write each message to a pipe before they move past it. This process reads the
//! pipes: it checks every byte and every number, over all lives of a subscriber.

mod crew;
mod seen;

use super::Outline;
use crate::args::{Common, DemoArgs};
use crate::failure::Outcome;
use crate::output::{print, print_json};
use crate::stop::Stop;
use crew::{Action, Crew, Member, Taken};
use olivine_bench::machine::Machine;
use olivine_bench::tally::Counts;
use olivine_bench::text;
use serde::Serialize;
use std::time::{Duration, Instant};

const PUBLISHERS: usize = 2;
const SUBSCRIBERS: usize = 2;
/// Time of the whole demonstration, unless `--seconds` says otherwise.
const SECONDS: Duration = Duration::from_secs(15);
/// Messages a second of each publisher, unless `--rate` says otherwise.
const RATE: f64 = 10_000.0;
/// From one action to the next.
const EVERY: Duration = Duration::from_millis(1_100);

/// The order: each participant is killed and stopped, and publishers and subscribers take turns.
const TURNS: [(Action, Member); 8] = [
    (Action::Kill, Member::Subscriber(0)),
    (Action::Stop, Member::Publisher(0)),
    (Action::Kill, Member::Publisher(1)),
    (Action::Stop, Member::Subscriber(1)),
    (Action::Kill, Member::Publisher(0)),
    (Action::Stop, Member::Subscriber(0)),
    (Action::Kill, Member::Subscriber(1)),
    (Action::Stop, Member::Publisher(1)),
];

/// One action, as it is shown.
#[derive(Clone, Debug, Serialize)]
struct Event {
    at_ns: u64,
    action: Action,
    participant: String,
    noticed_ns: Option<u64>,
    back_ns: Option<u64>,
}

/// The JSON output.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    outline: Outline,
    publishers_count: usize,
    subscribers_count: usize,
    killed_count: usize,
    stopped_count: usize,
    /// Messages published, and each of them is for each subscriber.
    messages_count: u64,
    /// Of all subscribers together.
    #[serde(flatten)]
    counts: Counts,
    /// Messages in work when their subscriber was killed, which it got again.
    redelivered_count: u64,
    worst_stall_ns: u64,
    events: Vec<Event>,
    machine: Machine,
}

/// Runs the command.
pub(super) fn run(args: &DemoArgs, common: Common) -> Outcome {
    let time = args.seconds.unwrap_or(SECONDS);
    let rate = args.rate.unwrap_or(RATE);
    let machine = Machine::look();
    let stop = Stop::install()?;
    let mut crew = Crew::start(args.size, rate, args.capacity, &stop)?;
    let say = |line: &str| if common.json { Ok(()) } else { print(line) };
    say(&head(args.size, rate, time))?;
    let begun = Instant::now();
    let mut events = Vec::new();
    for (turn, (action, member)) in (0_u32..).zip(TURNS.into_iter().cycle()) {
        let due = EVERY / 2 + EVERY * turn;
        // An action takes less than half of the time to the next.
        let is_last = due + EVERY / 2 > time;
        if !wait_until(begun + if is_last { time } else { due }, &stop) || is_last {
            break;
        }
        let at = begun.elapsed();
        let event = Event::new(at, action, member, crew.act(action, member)?);
        say(&event.line())?;
        events.push(event);
    }
    let published = crew.finish()?;
    let mut counts = Counts::default();
    for one in 0..SUBSCRIBERS {
        counts.add(&crew.seen(one, |seen| seen.counts(published)));
    }
    let redelivered = (0..SUBSCRIBERS).map(|one| crew.seen(one, seen::Seen::redelivered));
    let stalls = (0..SUBSCRIBERS).map(|one| crew.seen(one, seen::Seen::worst).ns);
    let of = |action| events.iter().filter(|one| one.action == action).count();
    let report = Report {
        outline: Outline::of(&counts, args.size, rate, &stop),
        publishers_count: PUBLISHERS,
        subscribers_count: SUBSCRIBERS,
        killed_count: of(Action::Kill),
        stopped_count: of(Action::Stop),
        messages_count: published,
        counts,
        redelivered_count: redelivered.sum(),
        worst_stall_ns: stalls.max().unwrap_or(0),
        events,
        machine,
    };
    drop(crew);
    if common.json {
        print_json(&report)?;
    } else {
        print(&report.text())?;
    }
    report.outline.judge(&stop)
}

/// Waits for a time; false if a request to stop comes first.
#[expect(
    clippy::disallowed_methods,
    reason = "the time of an action comes, and no condition"
)]
fn wait_until(time: Instant, stop: &Stop) -> bool {
    while Instant::now() < time {
        if stop.now() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    !stop.now()
}

fn head(size: u64, rate: f64, time: Duration) -> String {
    format!(
        "{PUBLISHERS} publishers, {} each, \
         and {SUBSCRIBERS} subscribers with durable names, {}, {}.\n\
         SIGKILL and a new process, or SIGSTOP for {}. Every byte is checked.\n\n\
         {:>6}  {:<4}  {:<12}  {:>10}  {:>10}\n",
        text::short_rate(rate),
        text::bytes(size),
        short(time),
        short(crew::STOPPED),
        "TIME",
        "WHAT",
        "WHO",
        "NOTICED IN",
        "BACK IN",
    )
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
fn short(time: Duration) -> String {
    text::short_nanos(time.as_nanos() as f64)
}

impl Event {
    fn new(at: Duration, action: Action, member: Member, taken: Taken) -> Self {
        Self {
            at_ns: nanos(at),
            action,
            participant: member.to_string(),
            noticed_ns: taken.noticed.map(nanos),
            back_ns: taken.back.map(nanos),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn line(&self) -> String {
        let shown =
            |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| text::nanos(ns as f64));
        let what = match self.action {
            Action::Kill => "kill",
            Action::Stop => "stop",
        };
        format!(
            "{:>4.1} s  {what:<4}  {:<12}  {:>10}  {:>10}\n",
            self.at_ns as f64 / 1e9,
            self.participant,
            shown(self.noticed_ns),
            shown(self.back_ns),
        )
    }
}

impl Report {
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    fn text(&self) -> String {
        let interrupted = if self.outline.interrupted {
            " (interrupted)"
        } else {
            ""
        };
        let mut out = format!(
            "\n{} lost, {} repeated, {} torn{interrupted}\n",
            text::count(self.counts.lost),
            text::count(self.counts.repeated),
            text::count(self.counts.corrupt),
        );
        if self.counts.reordered > 0 {
            out.push_str(&format!(
                "{} out of order\n",
                text::count(self.counts.reordered)
            ));
        }
        out.push_str(&format!(
            "{} messages, each to {} subscribers; {} kills, {} stops\n\
             {} came again: in work when its subscriber was killed\n\
             worst stall {} between two participants left alone; load {:.1} on {}\n",
            text::count(self.messages_count),
            self.subscribers_count,
            self.killed_count,
            self.stopped_count,
            text::plural(self.redelivered_count, "message"),
            text::nanos(self.worst_stall_ns as f64),
            self.machine.load_average_1m,
            text::plural(self.machine.cpus_allowed as u64, "CPU"),
        ));
        out
    }
}
