//! Recording a ring: frames go from the ring into the journal. Their room is freed once `sync=` is
//! satisfied.

use super::lane::Lane;
use super::recorder::{LaneId, Recorder};
use super::settings::RecorderSettings;
use super::syncer::Syncer;
use super::term;
use crate::bridge::egress::Egress;
use crate::bridge::{Outlet, Source};
use crate::clock::wall_ns;
use crate::error::{JournalError, LinkError, ReceiveError};
use crate::link::{Control, LinkStage};
use crate::uri::{Config, Scheme, SyncPolicy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one lane before the next lane's turn: the longest block, unless one frame is longer.
const TURN_BYTES: u64 = 1 << 20;
/// Most bytes appended before they are flushed.
const FLUSH_BYTES: u64 = 4 << 20;
/// Frames of a lane that were found within this time are one run, with the time of the last ones.
const RUN_SPAN: Duration = Duration::from_micros(100);
/// Pause before another attempt on a full disk.
const FULL_DISK_PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for messages between two looks.
const NAP_MAX: Duration = Duration::from_secs(1);

/// Records a ring into the journal of a `file://` channel.
#[derive(Debug)]
pub(crate) struct JournalOutlet {
    config: Config,
    /// Made by [`Outlet::open`].
    recorder: Option<Recorder>,
}

/// Refuses a journal that cannot be made; a full disk may have room later. Whether it is there.
pub(crate) fn check(config: &Config) -> Result<bool, LinkError> {
    let Some(path) = config.path() else {
        return Ok(false);
    };
    // The oldest files may be removed.
    if !term::list(path).map_err(link_error)?.is_empty() {
        return Ok(true);
    }
    match term::check_creation(path, JournalOutlet::settings(config).mode.0) {
        Ok(()) | Err(JournalError::NoSpace { .. }) => Ok(false),
        Err(error) => Err(link_error(error)),
    }
}

impl JournalOutlet {
    /// Into the journal that `config` names.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            recorder: None,
        }
    }

    fn recorder(&mut self) -> Result<Recorder, LinkError> {
        if let Some(opened) = self.recorder.take() {
            return Ok(opened);
        }
        let path = self.config.path().unwrap_or_else(|| Path::new(""));
        let opened = Recorder::open(path, &Self::settings(&self.config));
        let mut recorder = opened.map_err(link_error)?;
        // An exit by an error, also before the first message, is not the end of the recording.
        recorder.finish_only_by_close_once_begun();
        recorder.merge_runs_within(RUN_SPAN);
        Ok(recorder)
    }

    fn settings(config: &Config) -> RecorderSettings {
        let file = &config.groups.file;
        let mut settings = RecorderSettings::default()
            .sync(file.sync.unwrap_or_default())
            .rotate(file.rotate.unwrap_or_default())
            .compress(file.compress.unwrap_or_default());
        if let Some(bits) = config.mode {
            settings = settings.mode(bits);
        }
        settings
    }

    /// Name of the ring's channel in the journal: its own, unless the URI gives one or the ring was
    /// created for this journal.
    fn channel(&self, ring: &Config) -> String {
        let is_own = ring.scheme() == Scheme::Shm && self.config.name.is_none();
        if is_own && !self.config.groups.file.named {
            ring.channel().to_owned()
        } else {
            self.config.channel().to_owned()
        }
    }
}

impl Outlet for JournalOutlet {
    fn needs_geometry(&self) -> bool {
        // A journal stores align and type with each lane.
        false
    }

    fn is_single(&self) -> bool {
        true
    }

    fn open(&mut self) -> Result<(), LinkError> {
        self.recorder = Some(self.recorder()?);
        Ok(())
    }

    fn run(
        mut self: Box<Self>,
        mut source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let channel = self.channel(source.ring());
        let recorder = self.recorder()?;
        let config = self.config;
        let mut egress = source.take_first()?;
        if recorder.recovered().is_some() && egress.is_resumed() {
            // The recorder before may have been killed after it recorded everything and before it
            // reported the end.
            egress.accept_closed_as_end();
        }
        let mut recording = Recording {
            egress,
            syncer: Syncer::start(recorder.path()).map_err(link_error)?,
            syncing: None,
            recorder,
            channel,
            lanes: Vec::new(),
            described: None,
            naps: match config.groups.file.sync {
                Some(SyncPolicy::Interval(every)) => every.min(NAP_MAX),
                _ => NAP_MAX,
            },
        };
        // Refuses another type before the first message, if a publisher is there.
        if recording.egress.look().map_err(receive_error)? > 0 {
            recording.lane(0)?;
        }
        control.report(|status| {
            status.stage = LinkStage::Connected;
            status.peers = 1;
            status.connections = 1;
            status.note = recording.found();
        });
        control.tried();
        recording.recorder.finish_only_by_close();
        recording.run(control, until_end)
    }
}

struct Recording {
    egress: Egress,
    recorder: Recorder,
    /// Syncs while the next block is collected.
    syncer: Syncer,
    /// A running sync: what it brings to the disk.
    syncing: Option<Written>,
    channel: String,
    /// The recorder's number of each lane of the ring.
    lanes: Vec<LaneId>,
    /// The check word of the fields with which they were described.
    described: Option<u64>,
    naps: Duration,
}

/// What counts as recorded after the sync.
#[derive(Debug)]
struct Written {
    /// For each lane.
    positions: Vec<u64>,
    messages: u64,
    bytes: u64,
}

impl Recording {
    /// What an earlier recorder left, for messages.
    fn found(&self) -> String {
        let Some(found) = self.recorder.recovered() else {
            return String::new();
        };
        let path = self.recorder.path().display();
        if let Some(reason) = &found.failed {
            return format!("the recorder of {path} before this one failed: {reason}");
        }
        match (&found.damaged, &found.torn) {
            (Some(offset), _) => format!(
                "the file before {path} is damaged from byte {offset} on; it was left as it is"
            ),
            (_, Some(torn)) => format!(
                "cut a torn tail of {} bytes off {path}: its recorder was killed during a write",
                torn.bytes
            ),
            _ => format!("{path} was not closed in order; every block in it is whole"),
        }
    }

    fn run(mut self, control: &Arc<Control>, until_end: bool) -> Result<(), LinkError> {
        let ended = self.record(control, until_end);
        // An error may come while a block is being synced. A failed sync is the error then: its
        // messages are not recorded, and the next recorder finds the failure of a lane again.
        let ended = self.end_sync(control).and(ended);
        if let Err(error) = &ended {
            // This program gets the error, and readers of the journal get its text by the mark.
            let source = error.of_source();
            let marked = self.recorder.end_failed(&source.unwrap_or(error).reason());
            if source.is_some() {
                marked.map_err(link_error)?;
                control.failure_delivered();
            }
        }
        ended
    }

    fn record(&mut self, control: &Arc<Control>, until_end: bool) -> Result<(), LinkError> {
        let ready = self
            .egress
            .event_fd()
            .and_then(|fd| fd.try_clone_to_owned());
        let ready =
            ready.map_err(|source| io_error("wait for messages of", &self.recorder, source))?;
        loop {
            if control.must_stop() {
                self.settle(control)?;
                return self.give_up(control);
            }
            let is_asked = control.stopping().is_some();
            if is_asked {
                self.egress.set_goal().map_err(receive_error)?;
            }
            if self.pass(control)? > 0 {
                continue;
            }
            if is_asked || until_end && self.egress.is_ended() {
                self.settle(control)?;
                if self.egress.is_delivered().map_err(receive_error)? {
                    return self.close(control);
                }
                // Messages may have been committed before the publisher was seen to have closed.
                continue;
            }
            self.egress.arm();
            if self.pass(control)? > 0 {
                continue;
            }
            self.recorder.tick().map_err(link_error)?;
            let nap = Timespec::try_from(self.naps).unwrap_or_default();
            let wake = control.wake_fd();
            let mut waited = [
                PollFd::new(&ready, PollFlags::IN),
                PollFd::new(&wake, PollFlags::IN),
                PollFd::new(&self.syncer, PollFlags::IN),
            ];
            match poll(&mut waited, Some(&nap)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(io_error(
                        "wait for messages of",
                        &self.recorder,
                        errno.into(),
                    ));
                }
            }
        }
    }

    /// Appends what is there, up to a few megabytes, and acknowledges what is recorded. Returns the
    /// bytes appended, or 1 if something else has changed.
    fn pass(&mut self, control: &Arc<Control>) -> Result<u64, LinkError> {
        let places = self.egress.look().map_err(receive_error)?;
        let fields_check = self.egress.fields_check();
        let mut total = 0;
        loop {
            let before = total;
            for place in 0..places {
                let mut lane = self.lane(place)?;
                let found = self.egress.next_frames(place, TURN_BYTES);
                let mut found = found.map_err(receive_error)?;
                if found.is_empty() {
                    continue;
                }
                let fields = fields_check.value();
                if self.described != Some(fields) {
                    // A publisher has stated them since: the lanes are described with them.
                    let length = found.bytes().len() as u64;
                    self.lanes.clear();
                    self.described = Some(fields);
                    lane = self.lane(place)?;
                    let again = self.egress.next_frames(place, length);
                    found = again.map_err(receive_error)?;
                }
                let (end, bytes) = (found.end(), found.bytes().len() as u64);
                match self
                    .recorder
                    // Read now: no frame is recorded at a time before it was committed.
                    .append(lane, found.position(), wall_ns(), found.bytes())
                {
                    Ok(()) => {}
                    Err(error @ JournalError::NoSpace { .. }) => {
                        // A finished sync gives room back, also on a full disk.
                        self.collect(control)?;
                        return self.wait_for_room(error, control).map(|()| total.max(1));
                    }
                    Err(error) => return Err(link_error(error)),
                }
                self.egress.advance(place, end);
                total += bytes;
            }
            if total == before || total >= FLUSH_BYTES {
                break;
            }
        }
        let synced = self.collect(control)?;
        if self.syncing.is_none() && (total > 0 || synced) {
            self.write(control)?;
        }
        Ok(total.max(synced.into()))
    }

    /// The recorder's number of the lane at `place`.
    fn lane(&mut self, place: usize) -> Result<LaneId, LinkError> {
        while self.lanes.len() <= place {
            let next = self.lanes.len();
            let incarnation = self.egress.incarnation();
            let publisher = self.egress.lane(next);
            // A power of two from 8 to 4096.
            let align = u32::try_from(self.egress.geometry().align).unwrap_or(u32::MAX);
            let lane = Lane::new(&self.channel, publisher, align, incarnation)
                .typed(self.egress.known_type());
            self.lanes
                .push(self.recorder.lane(&lane).map_err(link_error)?);
        }
        Ok(self.lanes[place])
    }

    /// Writes everything appended, and starts a sync if the policy asks for one; otherwise it
    /// counts as recorded.
    fn write(&mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        let file = loop {
            match self.recorder.write_for_sync() {
                Ok(file) => break file,
                Err(error @ JournalError::NoSpace { .. }) => self.wait_for_room(error, control)?,
                Err(error) => return Err(link_error(error)),
            }
        };
        let stats = self.recorder.stats();
        let written = Written {
            positions: (0..self.lanes.len())
                .map(|place| self.egress.position(place))
                .collect(),
            messages: stats.messages,
            bytes: stats.frame_bytes,
        };
        match file {
            Some(file) => {
                self.syncer.begin(file);
                self.syncing = Some(written);
            }
            None => self.recorded(&written, control),
        }
        Ok(())
    }

    /// What was written is recorded: frees its room.
    fn recorded(&mut self, written: &Written, control: &Arc<Control>) {
        for (place, position) in written.positions.iter().enumerate() {
            self.egress.acknowledge(place, *position);
        }
        control.report(|status| {
            status.stage = LinkStage::Connected;
            status.messages = written.messages;
            status.bytes = written.bytes;
            status.acknowledged_bytes = written.bytes;
        });
    }

    /// Checks whether the running sync is done; `true` if it is.
    fn collect(&mut self, control: &Arc<Control>) -> Result<bool, LinkError> {
        if self.syncing.is_none() {
            return Ok(false);
        }
        let Some(outcome) = self.syncer.outcome() else {
            return Ok(false);
        };
        self.synced(outcome, control).map(|()| true)
    }

    /// Waits for the running sync, and then records the rest.
    fn settle(&mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        while self.syncing.is_some() {
            self.end_sync(control)?;
            self.write(control)?;
        }
        Ok(())
    }

    /// Waits for the running sync, if there is one.
    fn end_sync(&mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        if self.syncing.is_none() {
            return Ok(());
        }
        let outcome = self.syncer.wait();
        self.synced(outcome, control)
    }

    fn synced(
        &mut self,
        outcome: Result<(), Errno>,
        control: &Arc<Control>,
    ) -> Result<(), LinkError> {
        let written = self.syncing.take();
        if let Err(errno) = outcome {
            return Err(link_error(self.recorder.sync_failed(errno)));
        }
        self.recorder.sync_done();
        if let Some(written) = written {
            self.recorded(&written, control);
        }
        Ok(())
    }

    /// The disk is full: reports it and pauses, unless an end request leaves no time.
    fn wait_for_room(&self, error: JournalError, control: &Arc<Control>) -> Result<(), LinkError> {
        if control.must_stop() {
            return Err(link_error(error));
        }
        control.report(|status| {
            status.stage = LinkStage::Waiting;
            status.failures += 1;
            status.note = error.to_string();
        });
        control.pause(FULL_DISK_PAUSE);
        Ok(())
    }

    /// Ends the journal with its index, after everything was recorded. Waits on a full disk, as
    /// while recording.
    fn close(&mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        loop {
            match self.recorder.try_close() {
                Ok(()) => return Ok(()),
                Err(error @ JournalError::NoSpace { .. }) => self.wait_for_room(error, control)?,
                Err(error) => return Err(link_error(error)),
            }
        }
    }

    /// No time is left to record the rest: counts it. The journal is marked as failed, so that
    /// readers do not take it for complete.
    fn give_up(&mut self, control: &Arc<Control>) -> Result<(), LinkError> {
        self.egress.set_goal().map_err(receive_error)?;
        if self.egress.is_delivered().map_err(receive_error)? {
            self.close(control)?;
        } else {
            let messages = self.egress.undelivered();
            control.leave_undelivered(messages);
            let reason = format!(
                "it was closed before it had recorded everything: {messages} messages were left"
            );
            // It says that on its own end as well.
            let _ = self.recorder.end_failed(&reason);
        }
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // After a panic. A block whose sync fails must not stay in the file: the next recorder
        // would take it for recorded.
        if self.syncing.is_some()
            && let Err(errno) = self.syncer.wait()
        {
            let _ = self.recorder.sync_failed(errno);
        }
    }
}

fn receive_error(source: ReceiveError) -> LinkError {
    let source = Arc::new(source);
    LinkError::Receive { source }
}

fn io_error(action: &'static str, recorder: &Recorder, source: io::Error) -> LinkError {
    LinkError::Io {
        action,
        place: recorder.path().display().to_string(),
        source: Arc::new(source),
    }
}

/// A journal's error as an error of a bridge.
pub(super) fn link_error(error: JournalError) -> LinkError {
    match error {
        JournalError::Io {
            action,
            path,
            source,
        } => LinkError::Io {
            action,
            place: path.display().to_string(),
            source: Arc::new(source),
        },
        other => LinkError::Journal(Arc::new(other)),
    }
}

/// A recorder that ends while a block is being synced.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Publisher;
    use crate::bridge::journal::replay::Replay;
    use crate::channel::attach::ShapeRole;
    use std::sync::mpsc::{Sender, channel};

    /// Bytes of the frame of one message.
    const FRAME: u64 = 32;

    /// Records `ring` at `path`. Each sync waits for its outcome from the test.
    fn recording(ring: &Config, path: &Path) -> (Recording, Sender<Result<(), Errno>>) {
        let settings = RecorderSettings::default().sync(SyncPolicy::Block);
        let (outcomes, taken) = channel();
        let syncer =
            Syncer::start_with(path, move |_| taken.recv().unwrap_or(Err(Errno::CANCELED)));
        let mut recorder = Recorder::open(path, &settings).unwrap();
        recorder.finish_only_by_close();
        let recording = Recording {
            egress: Egress::open(ring, ShapeRole::Names).unwrap(),
            recorder,
            syncer: syncer.unwrap(),
            syncing: None,
            channel: "ticks".to_owned(),
            lanes: Vec::new(),
            described: None,
            naps: NAP_MAX,
        };
        (recording, outcomes)
    }

    /// One publisher fails while a block of the other is being synced. Without the sync's outcome
    /// the next recorder would find the block in memory and confirm its messages.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no ring twice")]
    fn block_whose_sync_fails_while_a_publisher_fails_is_recorded_again() {
        for (outcome, recorded) in [(Err(Errno::IO), 0), (Ok(()), FRAME)] {
            for is_run in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("torn.olv");
                let dir = folder.path().join("channels");
                let config = format!("shm://torn?dir={}", dir.display());
                let config = Config::parse(&config).unwrap();
                let ring = config.clone().name("archive");
                let (mut recording, outcomes) = recording(&ring, &path);
                let failing = Publisher::open_with(&config).unwrap();
                let mut sending = Publisher::open_with(&config).unwrap();
                sending.publish(&[7; 24]).unwrap();
                let control = Control::new().unwrap();
                assert_eq!(recording.pass(&control).unwrap(), FRAME);
                assert!(recording.syncing.is_some());
                failing.close_failed("torn").unwrap();
                outcomes.send(outcome).unwrap();
                // It looks for failures before it collects the outcome.
                let error = if is_run {
                    recording.run(&control, false).unwrap_err()
                } else {
                    let error = recording.pass(&control).unwrap_err();
                    drop(recording);
                    error
                };
                let expected = match outcome {
                    Err(_) if is_run => "force to the disk",
                    _ => "torn",
                };
                let error = format!("{error:?}");
                assert!(error.contains(expected), "{error}");

                let mut replay = Replay::open(&path).unwrap();
                while replay.next_run().unwrap().is_some() {}
                let told = format!("{:?}", replay.state());
                let expected = match outcome {
                    Err(_) if is_run => "cannot force to the disk",
                    Err(_) => "the disk refused",
                    Ok(()) if is_run => "torn",
                    Ok(()) => "is_sealed: false",
                };
                assert!(told.contains(expected), "{outcome:?}, {is_run}: {told}");
                let settings = RecorderSettings::default();
                let recorder = Recorder::open(&path, &settings).unwrap();
                assert_eq!(recorder.position(), recorded, "{outcome:?}, {is_run}");
                let mut egress = Egress::open(&ring, ShapeRole::Names).unwrap();
                let acknowledged = if is_run { recorded } else { 0 };
                assert_eq!(egress.acknowledged(1), acknowledged);
                egress.unsubscribe();
            }
        }
    }
}
