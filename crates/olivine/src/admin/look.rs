//! What a channel looks like from outside: its lanes and slots, read from mapped memory.

use super::{ChannelInfo, Failures, PublisherInfo, SubscriberInfo};
use crate::channel::attach::open_control;
use crate::channel::attached::{Attached, is_current};
use crate::channel::backing::Backing;
use crate::channel::behind;
use crate::channel::fields;
use crate::channel::slots;
use crate::channel::status::LaneState;
use crate::clock::monotonic_ns;
use crate::error::OpenError;
use crate::region::Words;
use crate::ring::ending;
use crate::ring::gate::has_bit;
use crate::ring::layout::{control, lane, lane_entry, lock_byte, slot};
use crate::segment::{CONTROL, ChannelFolder, Folder, FolderState};
use crate::sync::Ordering;
use crate::uri::{Delivery, End, Slow, WaitStrategy};
use core::fmt;
use rustix::fs::AtFlags;
use std::collections::BTreeMap;
use std::time::Duration;

/// A channel mapped for reading, with the headers of its lanes as far as they were needed.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) attached: Attached,
    pub(super) lanes: BTreeMap<usize, Words>,
    file_bytes: u64,
    elsewhere: Option<(End, String)>,
    /// What the folders said when the name last led to this channel.
    checked: Option<[FolderState; 2]>,
}

impl Mapped {
    /// Maps the channel; `None` if it does not exist.
    pub(super) fn open(files: ChannelFolder, name: &str) -> Result<Option<Self>, OpenError> {
        let file_bytes = files.bytes();
        let elsewhere = behind::stored(&files, name);
        let attached = open_control(files, name, false)?;
        Ok(attached.map(|attached| Self {
            attached,
            lanes: BTreeMap::new(),
            file_bytes,
            elsewhere,
            checked: None,
        }))
    }

    /// Whether the channel's name still leads to it. While the folders on the way to it say what
    /// they said, what an earlier look found there is true. `all` is what the folder of all
    /// channels said a moment ago, if that is known.
    pub(super) fn is_current(&mut self, all: Option<FolderState>) -> bool {
        let Backing::Files(folder) = &self.attached.backing else {
            return true;
        };
        // Read before the names: the next look sees a change from now on.
        let now = folder.states(all);
        if now.is_some() && now == self.checked {
            return true;
        }
        let is_current = folder.is_at_its_path() && is_current(&self.attached);
        self.checked = now.filter(|_| is_current);
        is_current
    }

    /// The channel now, without the states of its processes.
    pub(super) fn look(&mut self) -> ChannelInfo {
        self.map_lanes();
        let publishers = publishers(&self.attached, &self.lanes);
        let subscribers = subscribers(&self.attached, &publishers);
        let Attached {
            backing,
            control,
            geometry,
            ..
        } = &self.attached;
        // Relaxed: for display.
        let counter = |index: usize| control.word(index).load(Ordering::Relaxed);
        ChannelInfo {
            name: self.attached.channel.clone(),
            path: backing.path().to_owned(),
            elsewhere: self.elsewhere.clone(),
            incarnation: self.attached.incarnation(),
            capacity_bytes: geometry.capacity,
            align_bytes: geometry.align,
            publishers_max: geometry.publishers_max,
            subscribers_max: geometry.subscribers_max,
            slow: match geometry.evict_after_ns {
                0 => Slow::Wait,
                ns => Slow::Evict(Duration::from_nanos(ns)),
            },
            fields: fields::stored(control, geometry.type_hash),
            type_name: (!geometry.type_name.is_empty()).then(|| geometry.type_name.clone()),
            file_bytes: self.file_bytes,
            subscribers_ever: counter(control::SUBSCRIBERS_EVER),
            evictions: counter(control::EVICTIONS),
            reclaims: counter(control::RECLAIMS),
            publishers,
            subscribers,
        }
    }

    /// Maps the headers of lanes that are present and not mapped yet. A present lane stays until
    /// the channel is removed.
    fn map_lanes(&mut self) {
        let Self {
            attached, lanes, ..
        } = self;
        let Attached {
            backing, geometry, ..
        } = &*attached;
        let mut known = lanes.keys().copied().peekable();
        let is_new =
            |index: &usize| known.next_if_eq(index).is_none() && is_present(attached, *index);
        let new: Vec<usize> = (0..geometry.lanes()).filter(is_new).collect();
        let known = lanes.len();
        for index in new {
            if let Ok(Some(words)) = backing.look_at_lane(&attached.lane(index)) {
                lanes.insert(index, words);
            }
        }
        if lanes.len() > known
            && let Backing::Files(folder) = backing
        {
            if known > 0 {
                self.file_bytes = folder.bytes();
            }
            // It is stored once the first end has joined.
            if self.elsewhere.is_none() {
                self.elsewhere = behind::stored(folder, &attached.channel);
            }
        }
    }
}

/// Inspects a channel once, with the states of its processes.
pub(super) fn inspect_channel(
    folder: &Folder,
    name: &str,
) -> Result<Option<ChannelInfo>, OpenError> {
    let Some(files) = folder.channel(name, false)? else {
        return Ok(None);
    };
    let Some(mut mapped) = Mapped::open(files, name)? else {
        return Ok(None);
    };
    let mut info = mapped.look();
    for one in info.subscribers.iter_mut().filter(|one| one.alive) {
        one.process = ProcessState::of(&mapped.attached, one.pid);
    }
    Ok(Some(info))
}

/// The lanes and the slots of a channel that is attached for another purpose.
pub(super) fn participants(attached: &Attached) -> (Vec<PublisherInfo>, Vec<SubscriberInfo>) {
    let lanes = (0..attached.geometry.lanes())
        .filter(|index| is_present(attached, *index))
        .filter_map(|index| {
            let words = attached.backing.look_at_lane(&attached.lane(index));
            Some((index, words.ok()??))
        });
    let publishers = publishers(attached, &lanes.collect());
    let subscribers = subscribers(attached, &publishers);
    (publishers, subscribers)
}

/// Whether lane `index` exists.
fn is_present(attached: &Attached, index: usize) -> bool {
    let entry = attached.geometry.lane_entry(index);
    let present = attached.control.word(entry + lane_entry::PRESENT);
    present.load(Ordering::Acquire) != 0
}

fn publishers(attached: &Attached, lanes: &BTreeMap<usize, Words>) -> Vec<PublisherInfo> {
    let Attached {
        control,
        geometry,
        locks,
        ..
    } = attached;
    let mut found = Vec::with_capacity(lanes.len());
    for (&index, words) in lanes {
        let entry = geometry.lane_entry(index);
        // Acquire: positions are compared with each other; stronger than needed for the rest.
        let word = |at: usize| words.word(at).load(Ordering::Acquire);
        let state = LaneState::of(word(lane::STATE), locks, index);
        // A publisher that died during a wait left these words. How long it waited is unknown.
        let (since, slot) = match state {
            LaneState::Open => (
                word(lane::BACK_PRESSURE_SINCE),
                word(lane::BACK_PRESSURE_SLOT),
            ),
            _ => (0, 0),
        };
        let blocked_ns = match since {
            0 => 0,
            since => monotonic_ns().saturating_sub(since),
        };
        let failures = ending::failure(words).map(|failure| {
            let (first, last) = (word(lane::FAILURE_FIRST), word(lane::FAILURE_LAST));
            let now = monotonic_ns();
            Failures {
                count: word(lane::FAILURE_COUNT),
                since_first_ns: now.saturating_sub(first),
                since_last_ns: now.saturating_sub(last),
                reason: failure.reason,
            }
        });
        let slot = usize::try_from(slot.wrapping_sub(1)).ok();
        found.push(PublisherInfo {
            lane: index,
            pid: control
                .word(entry + lane_entry::PID)
                .load(Ordering::Relaxed),
            state,
            parked: control
                .word(entry + lane_entry::PARK)
                .load(Ordering::Relaxed)
                != 0,
            cursor: word(lane::CURSOR),
            limit: word(lane::LIMIT),
            back_pressure_count: word(lane::BACK_PRESSURE_COUNT),
            back_pressure_ns: word(lane::BACK_PRESSURE_NS).wrapping_add(blocked_ns),
            blocked_ns,
            blocked_by: slot.filter(|slot| since != 0 && *slot < geometry.slots()),
            wakes: word(lane::WAKES),
            takeovers: word(lane::TAKEOVERS),
            failures,
        });
    }
    found
}

fn subscribers(attached: &Attached, publishers: &[PublisherInfo]) -> Vec<SubscriberInfo> {
    let Attached {
        control, geometry, ..
    } = attached;
    let cursors: Vec<(usize, u64)> = publishers.iter().map(|p| (p.lane, p.cursor)).collect();
    // All states first: the words of slots lie apart in memory, and loads that do not depend on
    // each other wait for it together.
    let state = |index| (index, slots::state(control, geometry, index));
    let states = (0..geometry.slots()).map(state);
    let taken: Vec<(usize, u64)> = states.filter(|(_, state)| *state != slot::FREE).collect();
    let taken = taken.into_iter();
    taken
        .map(|(index, state)| subscriber(attached, index, state, &cursors))
        .collect()
}

fn subscriber(
    attached: &Attached,
    index: usize,
    state: u64,
    cursors: &[(usize, u64)],
) -> SubscriberInfo {
    let Attached {
        control,
        geometry,
        locks,
        ..
    } = attached;
    let base = geometry.slot(index);
    // Relaxed: for display.
    let word = |at: usize| control.word(base + at).load(Ordering::Relaxed);
    let gates = has_bit(control, control::GATING, index);
    let position = |lane: usize| {
        control
            .word(geometry.position(index, lane))
            .load(Ordering::Acquire)
    };
    let lag = |(lane, cursor): &(usize, u64)| cursor.saturating_sub(position(*lane));
    let wait = usize::try_from(word(slot::WAIT))
        .ok()
        .and_then(|n| WaitStrategy::ALL.get(n).copied());
    let byte = lock_byte::SLOT + index as u64;
    let alive = locks.held_by_others(byte, byte + 1);
    let absent_since = word(slot::ABSENT_SINCE);
    SubscriberInfo {
        slot: index,
        ticket: word(slot::TICKET),
        pid: word(slot::PID),
        alive,
        process: ProcessState::Unknown,
        absent_ns: match absent_since {
            0 => 0,
            _ if alive => 0,
            since => monotonic_ns().saturating_sub(since),
        },
        gates,
        evicted: state == slot::EVICTED,
        name: slots::name(control, geometry, index),
        delivery: if word(slot::DELIVERY) == 1 {
            Delivery::Latest
        } else {
            Delivery::Reliable
        },
        wait: wait.unwrap_or_default(),
        parked: word(slot::PARK) != 0,
        lag_bytes: if gates {
            // Saturating: a participant may have stored any number.
            cursors.iter().map(lag).fold(0, u64::saturating_add)
        } else {
            0
        },
        lost_bytes: word(slot::LOST_BYTES),
        overruns: word(slot::OVERRUNS),
        parks: word(slot::PARKS),
        positions: cursors.iter().map(|(lane, _)| position(*lane)).collect(),
    }
}

/// Whether a participant's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessState {
    /// It runs or sleeps.
    Running,
    /// It is stopped, by a signal or a debugger. It loses nothing and keeps its place.
    Stopped,
    /// It is dead, in another PID namespace, or not visible to this user.
    Unknown,
}

impl fmt::Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        })
    }
}

impl ProcessState {
    /// The state of process `pid`, if it has mapped this channel.
    ///
    /// The id is from the process's PID namespace: in ours it may be that of an unrelated process.
    /// So the mappings are checked.
    pub(super) fn of(attached: &Attached, pid: u64) -> Self {
        Self::find(attached, pid).unwrap_or(Self::Unknown)
    }

    fn find(attached: &Attached, pid: u64) -> Option<Self> {
        let Backing::Files(folder) = &attached.backing else {
            return None;
        };
        let control = rustix::fs::statat(folder, CONTROL, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let inode = control.st_ino.to_string();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let is_it = maps
            .lines()
            .any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        is_it.then(|| Self::read(&stat))
    }

    /// From a line of `/proc/PID/stat`: number, name in parentheses, and a letter.
    fn read(stat: &str) -> Self {
        let behind_name = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        match behind_name.and_then(|rest| rest.chars().next()) {
            Some('T' | 't') => Self::Stopped,
            Some('R' | 'S' | 'D' | 'I' | 'P' | 'K' | 'W') => Self::Running,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Observer;
    use crate::region::used;
    use crate::{Config, Publisher, Subscriber};
    use std::collections::BTreeSet;

    /// Bytes of a cache line.
    const LINE: usize = 64;

    /// The cache lines in which two copies of a file differ.
    fn changed(before: &[u8], after: &[u8]) -> BTreeSet<usize> {
        let lines = before.chunks(LINE).zip(after.chunks(LINE)).enumerate();
        lines
            .filter(|(_, (a, b))| a != b)
            .map(|(at, _)| at)
            .collect()
    }

    /// A line that its owner has written since comes from that owner's cache; the others stay in
    /// that of the observer.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn look_reads_two_lines_of_a_lane_that_its_publisher_writes() {
        let place = tempfile::tempdir().unwrap();
        let uri = format!("shm://x?capacity=4KiB&dir={}", place.path().display());
        let config = Config::parse(&uri).unwrap();
        let (mut publisher, mut subscriber) = (
            Publisher::open(&uri).unwrap(),
            Subscriber::open(&uri).unwrap(),
        );
        let mut observer = Observer::new(&config);
        observer.look().unwrap();
        let files = || {
            let read = |name| std::fs::read(place.path().join("x").join(name)).unwrap();
            let header = usize::try_from(crate::ring::layout::LANE_HEADER_BYTES).unwrap();
            (read(CONTROL), read("lane-0")[..header].to_vec())
        };
        let before = files();
        // Several laps.
        for _ in 0..1000 {
            publisher.publish(&[1; 24]).unwrap();
            while subscriber.try_receive().unwrap().is_some() {}
        }
        let after = files();
        let addresses = used::during(|| assert_eq!(observer.look().unwrap().publishers.len(), 1));
        let Some(Mapped {
            attached, lanes, ..
        }) = &observer.mapped
        else {
            panic!("not mapped");
        };
        let lines = |words: &Words, bytes: usize| -> BTreeSet<usize> {
            let base = std::ptr::from_ref(words.word(0)).addr();
            let lines = addresses.range(base..base + bytes);
            lines.map(|address| (address - base) / LINE).collect()
        };
        let shared = |seen: &BTreeSet<usize>, changed: BTreeSet<usize>| -> Vec<usize> {
            seen.intersection(&changed).copied().collect()
        };
        let of_lane = lines(&lanes[&0], before.1.len());
        let expected = [lane::CURSOR * 8 / LINE, lane::LIMIT * 8 / LINE];
        assert_eq!(shared(&of_lane, changed(&before.1, &after.1)), expected);
        // The subscriber writes its position, for the publisher.
        let of_channel = lines(&attached.control, before.0.len());
        let position = attached.geometry.position(0, 0) * 8 / LINE;
        let of_channel = shared(&of_channel, changed(&before.0, &after.0));
        assert_eq!(of_channel, [position]);
    }

    #[test]
    fn process_state_is_read_after_any_process_name() {
        let cases = [
            ("1 (reader) S 0 1", ProcessState::Running),
            ("1 (a) T (b) R 0 1", ProcessState::Running),
            ("1 (reader) T 0 1", ProcessState::Stopped),
            ("1 (reader) t 0 1", ProcessState::Stopped),
            ("1 (reader) Z 0 1", ProcessState::Unknown),
            ("1 (reader)", ProcessState::Unknown),
            ("", ProcessState::Unknown),
        ];
        for (line, expected) in cases {
            assert_eq!(ProcessState::read(line), expected, "{line}");
        }
    }
}
