//! Evidence from the system and from the ring. It is read when a message is among the worst, and
//! now and then while nothing is to be read, so that each reading covers a short time.

use super::{Evidence, LateCause};
use crate::clock::TickClock;
use crate::kernel::{CpuTimes, STEP_MS, behind_name, cpu_times, nth, waited_ns};
use olivine::admin::{ChannelInfo, Observer};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two readings of everything, in nanoseconds. A reading keeps messages waiting.
const EVERY_NS: u64 = 1_000_000_000;
/// The same where no message has come for [`QUIET_NS`].
const EVERY_QUIET_NS: u64 = 100_000_000;
/// See [`EVERY_QUIET_NS`].
const QUIET_NS: u64 = 10_000_000;
/// A reading at the request of a message comes no earlier than so many times as long as the last
/// one took: messages that wait for readings must not cause further readings.
const PAUSE_TIMES: u64 = 20;
/// Time between two readings of the counts of the calling thread, in nanoseconds.
const EVERY_OWN_NS: u64 = 10_000_000;
/// A longest time between two readings is forgotten after so long.
const GAP_NS: u64 = 10_000_000_000;
/// Nanoseconds in a step of `/proc/stat`.
const STEP_NS: u64 = STEP_MS * 1_000_000;
/// What mapping or filling a page takes at most, in nanoseconds.
const MINOR_FAULT_NS: u64 = 10_000;
/// What reading a page from disk takes at most, in nanoseconds.
const MAJOR_FAULT_NS: u64 = 20_000_000;
/// A fault counts only if it was counted within this time: in a longer one it may be of another
/// message.
const FAULT_SPAN_NS: u64 = 5_000_000;
/// Share of a CPU from which a process is named, in percent.
const NAMED_PERCENT: u64 = 5;

/// Reads evidence about the calling thread and the publishers of a channel.
#[derive(Debug)]
pub(super) struct Witness {
    clock: TickClock,
    schedstat: Option<File>,
    stat: Option<File>,
    own: Own,
    /// Set when this process continues after a stop.
    continued: Arc<AtomicBool>,
    ring: Option<Observer>,
    lanes: BTreeMap<usize, LaneSeen>,
    cpus: BTreeMap<u32, CpuTimes>,
    cpus_at: u64,
    /// When everything was read last, in ticks.
    at: u64,
    /// When `own` was read last, in ticks.
    own_at: u64,
    /// The longest time between two readings of `own` lately, in ticks.
    gap: (u64, u64),
    /// No message causes a reading before this, in ticks.
    rests_until: u64,
    /// When a message came last, in ticks.
    received: u64,
    before: BTreeMap<u32, Process>,
    begun: u64,
}

/// Counts of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// Nanoseconds ready without a CPU.
    waited_ns: u64,
    minor_faults: u64,
    major_faults: u64,
    cpu: u32,
}

/// What was seen of a lane and its publisher.
#[derive(Clone, Debug, Default)]
struct LaneSeen {
    pid: u64,
    waited_ns: u64,
    held_ns: u64,
    /// The subscriber that held it back, when it was last seen to.
    held_by: Option<String>,
    /// Since when its process is stopped, in ticks.
    stopped_at: Option<u64>,
}

/// A process, for the name of what had a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Process {
    name: String,
    /// CPU time in steps.
    used: u64,
    cpu: u32,
}

impl Witness {
    /// A witness of the calling thread. `continued` is set by the signal handler of `SIGCONT`.
    /// `ring` looks at the channel, if it is in shared memory.
    #[must_use]
    pub(super) fn new(continued: Arc<AtomicBool>, ring: Option<Observer>) -> Self {
        let open = |name: &str| File::open(format!("/proc/thread-self/{name}")).ok();
        let now = TickClock::ticks();
        let mut witness = Self {
            clock: TickClock::calibrate(),
            schedstat: open("schedstat"),
            stat: open("stat"),
            own: Own::default(),
            continued,
            ring,
            lanes: BTreeMap::new(),
            cpus: BTreeMap::new(),
            cpus_at: now,
            at: now,
            own_at: now,
            gap: (now, now),
            rests_until: now,
            received: now,
            before: processes(),
            begun: now,
        };
        // Later readings are compared with the first.
        witness.gather();
        witness
    }

    /// A message came at `at`, in ticks.
    #[inline]
    pub(super) fn received(&mut self, at: u64) {
        self.received = at;
    }

    /// Reads again if it is time. Call it while nothing is to be read.
    pub(super) fn idle(&mut self) -> Vec<Evidence> {
        let now = TickClock::ticks();
        let since = |at: u64| self.clock.nanos(now.saturating_sub(at));
        let is_quiet = since(self.received) >= QUIET_NS;
        let every_ns = if is_quiet { EVERY_QUIET_NS } else { EVERY_NS };
        if since(self.at) >= every_ns {
            return self.gather();
        }
        let mut found = Vec::new();
        if since(self.own_at) >= EVERY_OWN_NS {
            self.look_at_self(now, &mut found);
        }
        found
    }

    /// Reads what happened since the last reading, unless that was just now.
    pub(super) fn look(&mut self) -> Vec<Evidence> {
        if TickClock::ticks() < self.rests_until {
            return Vec::new();
        }
        self.gather()
    }

    /// Reads what happened since the last reading.
    pub(super) fn gather(&mut self) -> Vec<Evidence> {
        let now = TickClock::ticks();
        let from = self.at;
        let mut found = Vec::new();
        self.look_at_self(now, &mut found);
        self.look_at_ring(from, now, &mut found);
        self.look_at_cpus(now, &mut found);
        // Without the faults of this reading itself.
        self.own = read_own(self.schedstat.as_ref(), self.stat.as_ref());
        (self.at, self.own_at) = (now, TickClock::ticks());
        self.rests_until = self.own_at + PAUSE_TIMES * (self.own_at - now);
        let measuring = LateCause::Measuring;
        found.push(Evidence::new(now, self.own_at, None, measuring));
        found
    }

    fn look_at_self(&mut self, now: u64, found: &mut Vec<Evidence>) {
        let from = self.own_at;
        let mut add = |cause, ns: u64| {
            let ticks = Some(self.clock.ticks_for(ns));
            found.extend((ns > 0).then(|| Evidence::new(from, now, ticks, cause)));
        };
        let own = read_own(self.schedstat.as_ref(), self.stat.as_ref());
        let since = |now: u64, before: u64| now.saturating_sub(before);
        add(
            LateCause::Preempted,
            since(own.waited_ns, self.own.waited_ns),
        );
        let span = self.clock.nanos(now.saturating_sub(from));
        if span <= FAULT_SPAN_NS {
            let minor = since(own.minor_faults, self.own.minor_faults);
            let major = since(own.major_faults, self.own.major_faults);
            add(LateCause::MinorFault, minor.min(100) * MINOR_FAULT_NS);
            add(LateCause::MajorFault, major.min(100) * MAJOR_FAULT_NS);
        }
        let length = |(from, to): (u64, u64)| self.clock.nanos(to.saturating_sub(from));
        let is_past = length((self.gap.1, now)) > GAP_NS;
        if is_past || span >= length(self.gap) {
            self.gap = (from, now);
        }
        // Relaxed: the flag carries no other data.
        if self.continued.swap(false, Ordering::Relaxed) {
            // The handler may run on another thread, after the first readings behind the stop.
            let late = span < length(self.gap) / 10;
            let (from, to) = if late { self.gap } else { (from, now) };
            let stopped = LateCause::SubscriberStopped;
            found.push(Evidence::new(from, to, Some(to - from), stopped));
        }
        (self.own, self.own_at) = (own, now);
    }

    fn look_at_ring(&mut self, from: u64, now: u64, found: &mut Vec<Evidence>) {
        let Some(Ok(info)) = self.ring.as_mut().map(Observer::look) else {
            return;
        };
        for publisher in &info.publishers {
            let mut seen = self.lanes.remove(&publisher.lane).unwrap_or_default();
            let is_new = seen.pid != publisher.pid;
            let waited_ns = waited_ns(publisher.pid);
            let mut add = |cause, from: u64, ns: u64, by: Option<String>| {
                let ticks = Some(self.clock.ticks_for(ns));
                found.push(Evidence {
                    lane: Some(publisher.lane),
                    by,
                    ..Evidence::new(from, now, ticks, cause)
                });
            };
            let who = Some(format!("pid {}", publisher.pid));
            if let Some(slot) = publisher.blocked_by {
                seen.held_by = Some(subscriber(&info, slot));
            }
            if !is_new && publisher.back_pressure_ns > seen.held_ns {
                let ns = publisher.back_pressure_ns - seen.held_ns;
                add(LateCause::RingFull, from, ns, seen.held_by.clone());
            }
            if publisher.blocked_by.is_none() {
                seen.held_by = None;
            }
            if !is_new && waited_ns > seen.waited_ns {
                let ns = waited_ns - seen.waited_ns;
                add(LateCause::PublisherPreempted, from, ns, who.clone());
            }
            if is_stopped(publisher.pid) {
                seen.stopped_at.get_or_insert(now);
            } else if let Some(stopped_at) = seen.stopped_at.take() {
                let ns = self.clock.nanos(now.saturating_sub(stopped_at));
                add(LateCause::PublisherStopped, stopped_at, ns, who);
            }
            seen.pid = publisher.pid;
            seen.waited_ns = waited_ns;
            // A publisher takes back what it counted before it counts it from an earlier start.
            seen.held_ns = seen.held_ns.max(publisher.back_pressure_ns);
            self.lanes.insert(publisher.lane, seen);
        }
    }

    fn look_at_cpus(&mut self, now: u64, found: &mut Vec<Evidence>) {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpus = cpu_times(&text);
        let cpu = self.own.cpu;
        if let (Some(after), Some(before)) = (cpus.get(&cpu), self.cpus.get(&cpu)) {
            let mut add = |cause, steps: u64| {
                let ticks = Some(self.clock.ticks_for(steps * STEP_NS));
                found.extend((steps > 0).then(|| Evidence {
                    step: self.clock.ticks_for(STEP_NS),
                    by: Some(format!("CPU {cpu}")),
                    ..Evidence::new(self.cpus_at, now, ticks, cause)
                }));
            };
            add(
                LateCause::Stolen,
                after.stolen.saturating_sub(before.stolen),
            );
            add(
                LateCause::Interrupts,
                after.interrupts.saturating_sub(before.interrupts),
            );
        }
        (self.cpus, self.cpus_at) = (cpus, now);
    }

    /// Who had the CPU of the calling thread: the process with the most CPU time since the start
    /// that ran there last, if it had a twentieth of it.
    #[must_use]
    pub(super) fn neighbour(&self) -> Option<String> {
        let elapsed = self
            .clock
            .nanos(TickClock::ticks().saturating_sub(self.begun));
        let steps = (elapsed / STEP_NS).max(1);
        let own = std::process::id();
        let used = |(pid, process): (u32, Process)| {
            let before = self.before.get(&pid).filter(|old| old.name == process.name);
            let used = process.used - before.map_or(0, |old| old.used).min(process.used);
            (used, pid, process)
        };
        let there = processes().into_iter();
        let there = there.filter(|(pid, process)| *pid != own && process.cpu == self.own.cpu);
        let (used, pid, process) = there.map(used).max_by_key(|(used, ..)| *used)?;
        let percent = used * 100 / steps;
        (percent >= NAMED_PERCENT).then(|| {
            format!(
                "'{}' (pid {pid}) had {} % of CPU {}",
                process.name.escape_debug(),
                percent.min(100),
                self.own.cpu
            )
        })
    }
}

/// A subscriber, for people.
fn subscriber(info: &ChannelInfo, slot: usize) -> String {
    let found = info.subscribers.iter().find(|one| one.slot == slot);
    match found {
        Some(one) if one.pid == u64::from(std::process::id()) => "this subscriber".to_owned(),
        Some(one) => match &one.name {
            Some(name) => format!("'{}' (pid {})", name.escape_debug(), one.pid),
            None => format!("pid {}", one.pid),
        },
        None => format!("slot {slot}"),
    }
}

/// The text of a file of `/proc` that stays open: each reading is a new one.
fn reread(file: Option<&File>) -> String {
    let mut bytes = [0; 1024];
    let read = file.and_then(|file| file.read_at(&mut bytes, 0).ok());
    String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned()
}

fn read_own(schedstat: Option<&File>, stat: Option<&File>) -> Own {
    let stat = reread(stat);
    Own {
        waited_ns: nth(&reread(schedstat), 1),
        minor_faults: nth(behind_name(&stat), 7),
        major_faults: nth(behind_name(&stat), 9),
        cpu: u32::try_from(nth(behind_name(&stat), 36)).unwrap_or(0),
    }
}

/// Whether a process is stopped by a signal or a debugger.
fn is_stopped(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = behind_name(&stat).trim_start().chars().next();
    matches!(state, Some('T' | 't'))
}

/// Every process that can be seen.
fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, process(&stat)?))
    });
    found.collect()
}

fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    Some(Process {
        name: name.to_owned(),
        used: nth(rest, 11) + nth(rest, 12),
        cpu: u32::try_from(nth(rest, 36)).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read_behind_any_name() {
        let numbers: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        let stat = format!("7 (a) b (c) R {}", numbers[1..].join(" "));
        let found = process(&stat).unwrap();
        assert_eq!(found.name, "a) b (c");
        // Fields 14, 15 and 39 of the manual page.
        assert_eq!((found.used, found.cpu), (14 + 15, 39));
        assert_eq!(process("nothing"), None);
    }

    #[test]
    fn continued_process_was_stopped_since_the_reading_before() {
        let continued = Arc::new(AtomicBool::new(false));
        let mut witness = Witness::new(Arc::clone(&continued), None);
        let stopped = |found: &[Evidence]| {
            let cause = LateCause::SubscriberStopped;
            found.iter().filter(|one| one.cause == cause).count()
        };
        assert_eq!(stopped(&witness.gather()), 0);
        continued.store(true, Ordering::Relaxed);
        assert_eq!(stopped(&witness.gather()), 1);
        assert_eq!(stopped(&witness.gather()), 0, "once");
    }

    /// A regression: the messages of a stop were taken for those of a sleep.
    #[test]
    fn flag_that_comes_after_a_reading_is_of_the_longest_gap_before() {
        let continued = Arc::new(AtomicBool::new(false));
        let mut witness = Witness::new(Arc::clone(&continued), None);
        // Half of the time since the start of the machine, which may be a minute.
        let from = witness.own_at / 2;
        witness.own_at = from;
        let _unflagged = witness.gather();
        continued.store(true, Ordering::Relaxed);
        let found = witness.gather();
        let stopped = found
            .iter()
            .find(|one| one.cause == LateCause::SubscriberStopped);
        assert_eq!(stopped.map(|one| one.from), Some(from));
    }

    #[test]
    fn each_reading_is_evidence_of_itself() {
        let mut witness = Witness::new(Arc::default(), None);
        assert_eq!(witness.idle(), []);
        let found = witness.gather();
        assert_eq!(found.last().unwrap().cause, LateCause::Measuring);
    }
}
