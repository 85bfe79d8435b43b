//! One look at all channels and at the processes of their participants. It reads only.

use crate::failure::with_id;
use crate::process::{self, Stat};
use olivine::admin::{self, ChannelInfo, Failures, Names, Observer, PublisherInfo, SubscriberInfo};
use olivine::{Config, Delivery, LaneState, OpenError, Scheme, clock};
use olivine_bench::error::chain;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything that was seen at one time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at_ns: u64,
    /// By name.
    pub(crate) channels: Vec<Seen>,
}

/// One channel, or why it cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) looked: Result<Channel, String>,
}

/// What the difference of two samples needs of a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channel {
    pub(crate) incarnation: u64,
    /// 0 while no publisher has fixed it.
    pub(crate) capacity: u64,
    pub(crate) totals: Totals,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) readers: Vec<Reader>,
    /// Processes that are known to be participants, by number.
    pub(crate) processes: BTreeMap<u64, Process>,
}

/// What a channel counts since it was made, and what it occupies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) file_bytes: u64,
    pub(crate) publishers_max: u64,
    pub(crate) subscribers_max: u64,
    pub(crate) subscribers_ever: u64,
    pub(crate) evictions: u64,
    pub(crate) reclaims: u64,
}

/// What a lane counts since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneTotals {
    /// Times without room.
    pub(crate) waits: u64,
    pub(crate) wakes: u64,
    pub(crate) takeovers: u64,
}

/// A lane and its publisher.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) index: usize,
    pub(crate) pid: u64,
    pub(crate) state: LaneState,
    pub(crate) parked: bool,
    pub(crate) cursor: u64,
    /// Nanoseconds without room, up to now.
    pub(crate) waited_ns: u64,
    /// Nanoseconds of the current wait for room; 0 if it does not wait.
    pub(crate) blocked_ns: u64,
    pub(crate) blocked_by: Option<usize>,
    /// Mean bytes of some frames, with header and padding, if it moved since the last sample.
    pub(crate) frame_bytes: Option<f64>,
    /// That of its oldest frames, if it is new in this sample. What it publishes now may differ.
    pub(crate) old_frame_bytes: Option<f64>,
    pub(crate) totals: LaneTotals,
    pub(crate) failures: Option<Failures>,
}

/// A slot and its subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) slot: usize,
    pub(crate) ticket: u64,
    pub(crate) pid: u64,
    pub(crate) alive: bool,
    pub(crate) evicted: bool,
    pub(crate) gates: bool,
    pub(crate) name: Option<String>,
    pub(crate) delivery: Delivery,
    pub(crate) parked: bool,
    pub(crate) absent_ns: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) overruns: u64,
    pub(crate) parks: u64,
    /// Its released position in each of `Channel::lanes`.
    pub(crate) positions: Vec<u64>,
}

/// A process of a participant.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Escaped.
    pub(crate) command: Arc<str>,
    pub(crate) stat: Stat,
}

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    dir: PathBuf,
    names: Names,
    /// Channels that were asked for; all of the folder if empty.
    asked: Vec<Config>,
    /// Why some of them could not be read in the last sample, with the names of the errors.
    unreadable: Vec<String>,
    observers: HashMap<String, Watched>,
    /// Commands by process number and start.
    commands: HashMap<(u64, u64), Arc<str>>,
}

/// What was read of processes in one sample, by number.
#[derive(Debug, Default)]
struct Processes {
    stats: HashMap<u64, Option<Stat>>,
    /// Inodes of the files that new participants have mapped.
    mapped: HashMap<u64, HashSet<u64>>,
    /// Of one channel, each once.
    ids: Vec<u64>,
}

#[derive(Debug)]
struct Watched {
    observer: Observer,
    /// Incarnation and inode of the control file.
    control: (u64, u64),
    /// Processes that have mapped it, by number and start.
    members: Vec<(u64, u64)>,
    /// Cursors of the last sample, by lane.
    cursors: Vec<(usize, u64)>,
}

impl Sampler {
    pub(crate) fn new(dir: PathBuf, asked: Vec<Config>) -> Self {
        Self {
            names: Names::new(&dir),
            dir,
            asked,
            unreadable: Vec::new(),
            observers: HashMap::new(),
            commands: HashMap::new(),
        }
    }

    /// The folder whose channels are looked at.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Why channels that were asked for could not be read in the last sample.
    pub(crate) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Unmaps and closes all channels. The next look opens them again.
    pub(crate) fn release(&mut self) {
        self.observers.clear();
    }

    /// Looks at everything once, with `sizes` also at headers of frames, for their mean size.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read or trusted. A channel that cannot be read is in the sample.
    pub(crate) fn sample(&mut self, sizes: bool) -> Result<Sample, admin::AdminError> {
        let Self {
            dir,
            names,
            asked,
            unreadable,
            observers,
            commands,
        } = self;
        unreadable.clear();
        let shown: Vec<&str> = if asked.is_empty() {
            names.look()?;
            names.last().iter().map(String::as_str).collect()
        } else {
            asked.iter().map(Config::channel).collect()
        };
        let mut seen = Processes::default();
        let mut channels = Vec::with_capacity(shown.len());
        for &name in &shown {
            let watched = match observers.get_mut(name) {
                Some(watched) => watched,
                None => {
                    let config = asked.iter().find(|config| config.channel() == name);
                    let config = config.cloned();
                    let config =
                        config.unwrap_or_else(|| Config::new(Scheme::Shm, name).dir(&*dir));
                    let new = observers.entry(name.to_owned());
                    new.or_insert_with(|| Watched::new(&config))
                }
            };
            let looked = match asked.is_empty() {
                true => watched.observer.look_behind(names),
                false => watched.observer.look(),
            };
            let looked = match looked {
                Ok(info) => Ok(watched.channel(info, sizes, &mut seen, commands)),
                // It was removed since it was listed, or is being made.
                Err(OpenError::Missing { .. }) if asked.is_empty() => continue,
                Err(error) => {
                    let reason = chain(&error);
                    if !asked.is_empty() {
                        unreadable.push(with_id(&error.into()));
                    }
                    Err(reason)
                }
            };
            let name = name.to_owned();
            channels.push(Seen { name, looked });
        }
        if observers.len() > shown.len() {
            let present: HashSet<&str> = shown.into_iter().collect();
            observers.retain(|name, _| present.contains(name.as_str()));
        }
        let living: HashSet<(u64, u64)> = seen
            .stats
            .iter()
            .filter_map(|(id, stat)| Some((*id, stat.as_ref()?.started)))
            .collect();
        commands.retain(|key, _| living.contains(key));
        Ok(Sample {
            at_ns: clock::monotonic_ns(),
            channels,
        })
    }
}

impl Watched {
    fn new(config: &Config) -> Self {
        Self {
            observer: Observer::new(config),
            control: (0, 0),
            members: Vec::new(),
            cursors: Vec::new(),
        }
    }

    /// What is needed of a channel, with its processes, and with the mean sizes of frames if
    /// `sizes`. A process is read once a sample (`seen`).
    fn channel(
        &mut self,
        info: ChannelInfo,
        sizes: bool,
        seen: &mut Processes,
        commands: &mut HashMap<(u64, u64), Arc<str>>,
    ) -> Channel {
        if self.control.0 != info.incarnation {
            let control = std::fs::metadata(info.path.join("control"));
            self.control = (info.incarnation, control.map_or(0, |control| control.ino()));
            self.members.clear();
            self.cursors.clear();
        }
        let Processes { stats, mapped, ids } = seen;
        ids.clear();
        ids.extend(process::participants(&info).map(|(_, id)| id));
        ids.sort_unstable();
        ids.dedup();
        let mut processes = BTreeMap::new();
        let mut members = Vec::with_capacity(ids.len());
        for &id in &*ids {
            let stat = stats.entry(id).or_insert_with(|| Stat::of(id));
            let Some(stat) = stat else { continue };
            let key = (id, stat.started);
            if !self.members.contains(&key) {
                let mapped = mapped.entry(id);
                let mapped = mapped.or_insert_with(|| process::mapped(id));
                if !mapped.contains(&self.control.1) {
                    continue;
                }
            }
            members.push(key);
            let command = commands.entry(key);
            let command =
                command.or_insert_with(|| process::command(id).unwrap_or_default().into());
            let one = Process {
                command: Arc::clone(command),
                stat: stat.clone(),
            };
            processes.insert(id, one);
        }
        self.members = members;
        let mut lanes: Vec<Lane> = info.publishers.iter().map(lane).collect();
        if sizes {
            self.measure(&info, &mut lanes);
        }
        self.cursors.clear();
        let cursors = lanes.iter().map(|lane| (lane.index, lane.cursor));
        self.cursors.extend(cursors);
        Channel {
            incarnation: info.incarnation,
            capacity: info.capacity_bytes,
            totals: Totals {
                file_bytes: info.file_bytes,
                publishers_max: info.publishers_max,
                subscribers_max: info.subscribers_max,
                subscribers_ever: info.subscribers_ever,
                evictions: info.evictions,
                reclaims: info.reclaims,
            },
            lanes,
            readers: info.subscribers.into_iter().map(reader).collect(),
            processes,
        }
    }

    /// The mean size of some frames of each lane that is new here, or moved since the last sample.
    fn measure(&self, info: &ChannelInfo, lanes: &mut [Lane]) {
        for (one, lane) in info.publishers.iter().zip(lanes) {
            // The frames since then, else older frames, not overwritten yet: a frame starts a
            // ring's length before the limit.
            let mut cursors = self.cursors.iter();
            let before = cursors.find(|(index, _)| *index == one.lane);
            let before = before.map(|(_, cursor)| *cursor);
            let mean = |from| self.observer.mean_frame_bytes(one.lane, from);
            let oldest = one.limit.saturating_sub(info.capacity_bytes);
            match before {
                // A lane that is held at the first look may not move for long.
                None => lane.old_frame_bytes = mean(oldest),
                Some(before) if before < one.cursor => {
                    lane.frame_bytes = mean(before).or_else(|| mean(oldest));
                }
                Some(_) => {}
            }
        }
    }
}

fn lane(one: &PublisherInfo) -> Lane {
    Lane {
        index: one.lane,
        pid: one.pid,
        state: one.state,
        parked: one.parked,
        cursor: one.cursor,
        waited_ns: one.back_pressure_ns,
        blocked_ns: one.blocked_ns,
        blocked_by: one.blocked_by,
        frame_bytes: None,
        old_frame_bytes: None,
        totals: LaneTotals {
            waits: one.back_pressure_count,
            wakes: one.wakes,
            takeovers: one.takeovers,
        },
        failures: one.failures.clone(),
    }
}

fn reader(one: SubscriberInfo) -> Reader {
    Reader {
        slot: one.slot,
        ticket: one.ticket,
        pid: one.pid,
        alive: one.alive,
        evicted: one.evicted,
        gates: one.gates,
        name: one.name,
        delivery: one.delivery,
        parked: one.parked,
        absent_ns: one.absent_ns,
        lost_bytes: one.lost_bytes,
        overruns: one.overruns,
        parks: one.parks,
        positions: one.positions,
    }
}
