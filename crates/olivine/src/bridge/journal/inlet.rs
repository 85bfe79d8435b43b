//! Replaying into a ring.
//!
//! Everything goes through one lane, in the order of the recording, whose positions at the source are those of the
//! journal: whoever comes after a killed replay into shared memory goes on exactly where it ended.

use super::lane::Lane;
use super::outlet::link_error;
use super::pace::Pacer;
use super::replay::{Replay, ReplayState};
use crate::bridge::ingress::{Ingress, NotTaken};
use crate::bridge::{Destination, Inlet};
use crate::error::JournalError;
use crate::error::{LinkError, OpenError};
use crate::link::{Control, LinkStage};
use crate::region::HEADER_BYTES;
use crate::ring::layout::{Geometry, frame_bytes};
use crate::uri::{Config, Start};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The only lane.
const LANE: u32 = 0;
/// Wait between two looks for room in the ring.
const ROOM_NAP: Duration = Duration::from_micros(100);
/// Wait between two looks for a journal that is not there yet.
const MISSING_NAP: Duration = Duration::from_millis(100);
/// Longest wait for a journal to grow.
const GROW_NAP: Duration = Duration::from_secs(1);

/// Replays the journal of a `file://` channel.
#[derive(Debug)]
pub(crate) struct JournalInlet {
    config: Config,
}

impl JournalInlet {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
        }
    }

    fn path(&self) -> &Path {
        self.config.file().unwrap_or_else(|| Path::new(""))
    }

    /// Who brings the messages.
    fn who(&self) -> String {
        let channel = if self.config.remote.named {
            self.config.channel()
        } else {
            ""
        };
        format!("journal {} {channel}", self.path().display())
    }

    /// Whether `lane` is of the channel that is asked for.
    fn wants(&self, lane: &Lane) -> bool {
        !self.config.remote.named || lane.channel == self.config.channel()
    }

    /// Opens the journal; one that is followed may still be to come.
    fn open(&self, control: &Arc<Control>) -> Result<Option<Replay>, LinkError> {
        loop {
            match Replay::open(self.path()) {
                Ok(replay) => return Ok(Some(replay)),
                Err(JournalError::Missing { .. }) if self.config.remote.follow => {
                    control.report(|status| {
                        status.note =
                            format!("waiting for {} to be recorded", self.path().display());
                    });
                    control.tried();
                    control.pause(MISSING_NAP);
                    if control.stopping().is_some() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(link_error(error)),
            }
        }
    }

    /// Goes to where the ring goes on, or else to where the settings say.
    fn seek(&self, replay: &mut Replay, destination: &Ingress) -> Result<(), JournalError> {
        let resumed = destination.resume(replay.journal());
        if let Some((_, position)) = resumed.iter().find(|(lane, _)| *lane == LANE) {
            return replay.seek_position(*position);
        }
        match self.config.from {
            Start::Oldest => Ok(()),
            Start::Now => replay.seek_end(),
            Start::Time(time) => replay.seek_time(time),
            Start::Position(position) => replay.seek_position(position),
        }
    }
}

impl Inlet for JournalInlet {
    fn shape(&self, ring: &mut Config) -> Result<(), OpenError> {
        let first = Replay::open(self.path()).and_then(|mut replay| {
            while let Some(run) = replay.next_run()? {
                if self.wants(run.lane) {
                    return Ok(Some(run.lane.align));
                }
            }
            Ok(None)
        });
        // What is wrong with the journal is said when it is replayed.
        if let (Ok(Some(align)), None) = (first, ring.align) {
            ring.align = Some(align.into());
        }
        Ok(())
    }

    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        _until_end: bool,
    ) -> Result<(), LinkError> {
        let destination = destination.ingress(&self.who())?;
        let Some(mut replay) = self.open(control)? else {
            return Ok(());
        };
        self.seek(&mut replay, &destination).map_err(link_error)?;
        let mut replaying = Replaying {
            path: self.path().display().to_string(),
            position: replay.position(),
            journal: replay.journal(),
            pacer: Pacer::new(self.config.remote.pace.unwrap_or_default()),
            channel: None,
            destination,
            bytes: 0,
        };
        replaying.open()?;
        control.report(|status| {
            status.stage = LinkStage::Connected;
            status.peers = 1;
            status.connections = 1;
            status.note.clear();
        });
        control.tried();
        let mut note = String::new();
        loop {
            if control.must_stop() {
                return Ok(());
            }
            if let Some(run) = replay.next_run().map_err(link_error)? {
                if self.wants(run.lane) {
                    replaying.check(run.lane)?;
                    let (position, time) = (run.journal_position, run.time_ns);
                    if !replaying.deliver(position, time, run.frames, control)? {
                        return Ok(());
                    }
                }
                continue;
            }
            if let ReplayState::Torn(torn) = replay.state() {
                note = format!(
                    "the last {} bytes of {} are no whole block and were not replayed: its recorder was killed while writing",
                    torn.bytes,
                    torn.path.display()
                );
                control.report(|status| status.note.clone_from(&note));
            }
            if !self.config.remote.follow {
                break;
            }
            let wake = control.wake_fd();
            replay.wait_or(GROW_NAP, Some(wake)).map_err(link_error)?;
        }
        if self.config.name.is_some() {
            // Who comes back under this name goes on behind what it had.
            replaying.destination.close_lane(LANE);
        } else {
            replaying.destination.end();
        }
        control.report(|status| {
            status.stage = LinkStage::Ended;
            status.note = note;
        });
        Ok(())
    }
}

struct Replaying {
    /// The journal, for people.
    path: String,
    destination: Ingress,
    journal: u64,
    /// Journal position behind what was delivered.
    position: u64,
    pacer: Pacer,
    /// The channel whose messages are delivered.
    channel: Option<String>,
    bytes: u64,
}

impl Replaying {
    fn open(&mut self) -> Result<(), LinkError> {
        let (journal, position) = (self.journal, self.position);
        let resumed = self.destination.resume(journal);
        let at = resumed.iter().find(|(lane, _)| *lane == LANE);
        let at = at.map_or(position, |(_, at)| *at);
        self.position = at;
        let opened = self.destination.open_from(journal, LANE, at);
        opened.map_err(|why| not_taken(why, &self.path))
    }

    /// Refuses what does not fit the ring.
    fn check(&mut self, lane: &Lane) -> Result<(), LinkError> {
        let far = || self.path.clone();
        match &self.channel {
            Some(channel) if *channel == lane.channel => {}
            Some(channel) => {
                return Err(LinkError::Settings {
                    far: far(),
                    key: "channel",
                    theirs: lane.channel.clone(),
                    ours: channel.clone(),
                    rule: "the journal holds several channels: choose one with 'channel='",
                });
            }
            None => self.channel = Some(lane.channel.clone()),
        }
        let Geometry {
            align,
            type_hash,
            type_name,
            ..
        } = self.destination.geometry();
        if *align != u64::from(lane.align) {
            return Err(LinkError::Settings {
                far: far(),
                key: "align",
                theirs: lane.align.to_string(),
                ours: align.to_string(),
                rule: "replay into a channel with the 'align=' of the recording",
            });
        }
        if *type_hash != lane.type_hash && *type_hash != 0 {
            return Err(LinkError::Settings {
                far: far(),
                key: "type",
                theirs: lane.type_name.clone(),
                ours: type_name.clone(),
                rule: "open the journal with the type that was recorded",
            });
        }
        Ok(())
    }

    /// Publishes whole frames once they are due and there is room; `false` if there is no time left to.
    fn deliver(
        &mut self,
        position: u64,
        time_ns: u64,
        frames: &[u8],
        control: &Arc<Control>,
    ) -> Result<bool, LinkError> {
        loop {
            let left = self.pacer.left(time_ns, Instant::now());
            if left.is_zero() {
                break;
            }
            control.pause(left);
            if control.stopping().is_some() {
                return Ok(false);
            }
        }
        let far = self.path.clone();
        if position != self.position {
            let skipped = self.destination.skip_to(LANE, position);
            skipped.map_err(|why| not_taken(why, &far))?;
        }
        let mut done = 0;
        loop {
            let rest = &frames[done..];
            match self.destination.take(LANE, position + done as u64, rest) {
                Ok(()) => break,
                Err(NotTaken::NoRoom { taken }) => done += taken,
                Err(NotTaken::Closed) => return Ok(false),
                Err(why) => return Err(not_taken(why, &far)),
            }
            let next = frames[done..]
                .first_chunk::<8>()
                .copied()
                .unwrap_or_default();
            let length = frame_bytes(u64::from_le_bytes(next)).saturating_sub(HEADER_BYTES);
            self.destination
                .want(LANE, usize::try_from(length).unwrap_or(usize::MAX));
            while self.destination.press() {
                if control.must_stop() {
                    return Ok(false);
                }
                control.pause(ROOM_NAP);
            }
        }
        self.position = position + frames.len() as u64;
        self.bytes += frames.len() as u64;
        let (messages, bytes) = (self.destination.messages(), self.bytes);
        control.report(|status| {
            status.messages = messages;
            status.bytes = bytes;
            status.acknowledged_bytes = bytes;
        });
        Ok(true)
    }
}

fn not_taken(why: NotTaken, place: &str) -> LinkError {
    match why {
        NotTaken::Ring(source) => crate::bridge::ring_error(source),
        other => LinkError::Damaged {
            place: place.to_owned(),
            problem: format!("it cannot be replayed into this channel: {other}"),
        },
    }
}
