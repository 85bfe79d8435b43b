//! Into the lane of a replay: its pace, its room and its holes.

use super::failed::Failures;
use super::{AT_HOLE, LANE};
use crate::bridge::ingress::{Ingress, NotTaken};
use crate::bridge::journal::lane::Lane;
use crate::bridge::journal::outlet::link_error;
use crate::bridge::journal::pace::Pacer;
use crate::bridge::journal::replay::{ReplayState, Run};
use crate::error::{JournalError, LinkError};
use crate::link::Control;
use crate::message::KnownType;
use crate::region::HEADER_BYTES;
use crate::ring::layout::frame_bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two checks for room in the ring.
const ROOM_NAP: Duration = Duration::from_micros(100);

pub(super) struct Replaying {
    /// Path of the journal, for messages.
    pub(super) path: String,
    pub(super) destination: Ingress,
    pub(super) journal: u64,
    /// The number that the lane stores: that of the journal, or with [`PAST_HOLE`].
    pub(super) source: u64,
    /// Journal position behind the last delivered frame.
    pub(super) position: u64,
    pub(super) pacer: Pacer,
    /// The channel whose messages are delivered.
    pub(super) channel: Option<String>,
    /// Type of the messages of the last run.
    pub(super) checked: Option<KnownType>,
    /// The lane is open.
    pub(super) is_open: bool,
    /// A replay before this one delivered messages.
    pub(super) is_resumed: bool,
    /// A recorder was active since the last end of the journal.
    pub(super) is_live: bool,
    /// The last look found no recorder.
    pub(super) saw_end: bool,
    /// Recordings that failed.
    pub(super) failures: Failures,
    /// Holes that were passed, and the bytes that are missing there.
    pub(super) holes: (u64, u64),
    /// Bytes of all channels that were removed with the oldest files and passed.
    pub(super) removed: u64,
    /// Nothing before this journal position is left to deliver.
    pub(super) passed: u64,
    /// They do not end the replay.
    pub(super) accepts_holes: bool,
    /// Position of a hole that a replay before this one reported.
    pub(super) reported_hole: Option<u64>,
    /// Where a replay before this one stopped, for the status; empty if there was none.
    pub(super) continues: String,
    pub(super) bytes: u64,
}

impl Replaying {
    /// Opens the lane at the position of the ring.
    pub(super) fn open(&mut self) -> Result<(), LinkError> {
        if self.is_open {
            return Ok(());
        }
        if let Some(position) = resumed_at(&self.destination, self.source) {
            self.position = position;
        }
        let opened = self.destination.open_from(self.source, LANE, self.position);
        opened.map_err(|why| not_taken(why, &self.path))?;
        self.is_open = true;
        self.pass_to(self.passed)
    }

    /// At the end of a followed journal: a recorder that closed it in order ends the stream, like a
    /// publisher that closes. The next one begins it again. Returns `true` if one more look must
    /// show that nothing was recorded before the end was seen.
    pub(super) fn looks_again(
        &mut self,
        state: &ReplayState,
        control: &Control,
    ) -> Result<bool, LinkError> {
        let is_closed = matches!(state, ReplayState::Ended { is_sealed: true });
        self.is_live |= *state == ReplayState::Growing;
        let sees_first = is_closed && self.is_live && !self.saw_end;
        if is_closed && self.is_live && self.saw_end {
            if !self.pass_failures(control)? {
                // The request to end leaves no time for the next look.
                control.leave_undelivered(0);
                return Ok(true);
            }
            // Also if nothing was recorded: a lane must report the end.
            self.open()?;
            self.destination.close_lane(LANE);
            (self.is_open, self.is_live) = (false, false);
        }
        self.saw_end = sees_first;
        Ok(sees_first)
    }

    /// Fails if messages are missing before `run`, unless a replay before this one reported that.
    pub(super) fn check_hole(&mut self, run: &Run<'_>, control: &Control) -> Result<(), LinkError> {
        let (bytes, journal_position) = (run.missed_bytes, run.journal_position);
        if bytes == 0 {
            return Ok(());
        }
        let is_reported = self.reported_hole == Some(journal_position);
        if !self.accepts_holes && !is_reported {
            // The lane is closed with this error. The next replay goes on.
            self.open()?;
            // Runs of other channels, or before the start, may lie before the hole.
            let skipped = self.destination.skip_to(LANE, journal_position);
            skipped.map_err(|why| not_taken(why, &self.path))?;
            self.position = journal_position;
            self.source = self.journal ^ AT_HOLE;
            self.destination.rename(LANE, self.source);
            return Err(link_error(JournalError::Hole {
                path: self.path.clone().into(),
                channel: run.lane.channel.clone(),
                lane: run.lane.publisher,
                position: run.position - bytes,
                journal_position,
                bytes,
            }));
        }
        let (holes, sum) = &mut self.holes;
        (*holes, *sum) = (*holes + 1, *sum + bytes);
        let note = self.holes_note();
        control.report(|status| status.note = note);
        Ok(())
    }

    /// Waits until the first of these frames has room; `false` if an end request leaves no time.
    fn wait_for_room(&mut self, frames: &[u8], control: &Control) -> bool {
        let length = frame_bytes(first_header(frames)).saturating_sub(HEADER_BYTES);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.destination.request_room(LANE, length);
        while self.destination.retry_room() {
            if control.must_stop() {
                return false;
            }
            control.pause(ROOM_NAP);
        }
        true
    }

    /// The removed files, failures and holes that were passed, for the status.
    pub(super) fn holes_note(&self) -> String {
        let mut notes = Vec::new();
        if self.removed > 0 {
            notes.push(format!(
                "{} bytes were removed with the oldest files of {} before they were replayed",
                self.removed, self.path
            ));
        }
        notes.extend(self.failures.note(&self.path));
        if let (holes @ 1.., bytes) = self.holes {
            notes.push(format!(
                "{bytes} bytes were never recorded in {}, in {holes} places",
                self.path
            ));
        }
        notes.join("; ")
    }

    /// Refuses lanes that do not fit the ring.
    pub(super) fn check(&mut self, lane: &Lane) -> Result<(), LinkError> {
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
        // Nothing was recorded when the ring was opened.
        self.destination.adopt(&lane.message_type);
        let align = self.destination.geometry().align;
        if align != u64::from(lane.align) {
            return Err(LinkError::Settings {
                far: far(),
                key: "align",
                theirs: lane.align.to_string(),
                ours: align.to_string(),
                rule: "replay into a channel with the 'align=' of the recording",
            });
        }
        if self.checked.as_ref() == Some(&lane.message_type) {
            return Ok(());
        }
        let ours = self.destination.known_type();
        if let Some((theirs, ours)) = lane.message_type.difference(&ours)
            && self.destination.geometry().type_hash != 0
        {
            return Err(LinkError::Settings {
                far: far(),
                key: "type",
                theirs,
                ours,
                rule: "open the journal with the type that was recorded",
            });
        }
        self.checked = Some(lane.message_type.clone());
        Ok(())
    }

    /// Publishes whole frames once they are due and have room; `false` if an end request leaves no
    /// time.
    pub(super) fn deliver(
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
        self.open()?;
        (self.is_live, self.saw_end) = (true, false);
        if position != self.position {
            let skipped = self.destination.skip_to(LANE, position);
            skipped.map_err(|why| not_taken(why, &far))?;
        }
        if self.source != self.journal {
            // First, so that a kill between the two repeats the report of the hole, and hides none.
            if !self.wait_for_room(frames, control) {
                return Ok(false);
            }
            self.source = self.journal;
            self.destination.rename(LANE, self.source);
        }
        let mut done = 0;
        loop {
            match self
                .destination
                .take(LANE, position + done as u64, &frames[done..])
            {
                Ok(()) => break,
                Err(NotTaken::NoRoom { taken }) => {
                    done += taken;
                    // A request to end may come while it waits.
                    self.report(position, done, control);
                }
                Err(NotTaken::Closed) => return Ok(false),
                Err(why) => return Err(not_taken(why, &far)),
            }
            if !self.wait_for_room(&frames[done..], control) {
                return Ok(false);
            }
        }
        self.failures.delivered();
        self.pacer.delivered(time_ns, Instant::now());
        self.report(position, frames.len(), control);
        self.position = position + frames.len() as u64;
        self.bytes += frames.len() as u64;
        Ok(true)
    }

    /// Reports that the first `done` bytes of a run are in the ring, which begins at `position` of
    /// the journal.
    fn report(&self, position: u64, done: usize, control: &Control) {
        let messages = self.destination.messages();
        let bytes = self.bytes + done as u64;
        control.report(|status| {
            status.journal_position = position + done as u64;
            status.messages = messages;
            status.bytes = bytes;
            status.acknowledged_bytes = bytes;
        });
    }
}

/// The header of the first of these frames; 0 if there is none.
fn first_header(frames: &[u8]) -> u64 {
    u64::from_le_bytes(frames.first_chunk().copied().unwrap_or_default())
}

pub(super) fn not_taken(why: NotTaken, place: &str) -> LinkError {
    match why {
        NotTaken::Ring(source) => crate::bridge::ring_error(source),
        other => LinkError::Damaged {
            place: place.to_owned(),
            problem: format!(
                "it cannot be replayed into this channel: {other}; longer messages need a larger \
                'capacity='"
            ),
        },
    }
}

/// Position in the journal up to which a replay before this one delivered it.
pub(super) fn resumed_at(destination: &Ingress, journal: u64) -> Option<u64> {
    let lanes = destination.resume(journal);
    let lane = lanes.iter().find(|(lane, _)| *lane == LANE);
    lane.map(|(_, position)| *position)
}
