//! Recording: runs of frames go into blocks, blocks into files.

mod blocks;
mod ending;
#[cfg(test)]
mod tests;

use super::format::{LANES_MAX, RunHeader, Sealed, TERM_BYTES, count_frames, frame};
use super::index::Index;
use super::lane::{Known, Lane};
use super::pack::Packer;
use super::recover::{self, Recovered};
use super::settings::RecorderSettings;
use super::term;
use crate::error::JournalError;
use crate::fork::{ClosedInChildren, ForkPage};
use crate::liveness::Locks;
use crate::ring::layout::type_shown;
use crate::uri::SyncPolicy;
use core::fmt;
use ending::OnDrop;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Frame bytes that are collected before a block is written without a flush. A longer run is a
/// block.
const BLOCK_TARGET: usize = 256 << 10;

/// Records runs of frames into a journal. At most one recorder of a journal is open, in any
/// process.
///
/// Appended frames are recorded when [`Recorder::flush`] has returned: then they have what the
/// [`SyncPolicy`] promises. Calls block while the system writes, and with a policy other than
/// `never` also while the disk writes.
///
/// ```
/// use olivine::journal::{Lane, Recorder, RecorderSettings, Replay};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks.olv");
/// let mut recorder = Recorder::open(&path, &RecorderSettings::default())?;
/// let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1))?;
/// // A frame: length of header and payload, tag, payload, padding.
/// let frame = [13, 0, 0, 0, 7, 0, 0, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0];
/// recorder.append(lane, 0, 1_000, &frame)?;
/// recorder.close()?;
///
/// let mut replay = Replay::open(&path)?;
/// let run = replay.next_run()?.expect("one run");
/// let message = run.messages().next().expect("one message");
/// assert_eq!((message.tag, message.payload), (7, &b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    base: PathBuf,
    /// The newest file: its number, path and descriptor. The descriptor holds the lock.
    term: u64,
    path: PathBuf,
    locks: Locks,
    journal: u64,
    /// The file has the newest version of the format. An older one gets nothing new but its index.
    is_newest: bool,
    /// Offset and number of the next block, and the position of its first frame.
    offset: u64,
    sequence: u64,
    position: u64,
    /// Time of the newest run.
    time: u64,
    /// The lanes, each with its end in the written blocks.
    lanes: Vec<Known>,
    /// End of each lane with appended frames that are in no block yet.
    appended: Vec<u64>,
    /// How many of them this file describes.
    described: usize,
    /// Those that it describes again behind its last block of frames, because a hole follows.
    holed: BTreeSet<usize>,
    index: Index,
    /// The ending of the file.
    sealed: Sealed,
    drop: OnDrop,
    /// Appended, not written.
    runs: Vec<RunHeader>,
    /// Time of the first frames of the last of them.
    run_began: u64,
    /// Runs that continue each other within so many nanoseconds become one, of the later time.
    merged_ns: u64,
    frames: Vec<u8>,
    packer: Packer,
    settings: RecorderSettings,
    opened: Instant,
    synced: Instant,
    /// Written since the last sync.
    dirty: bool,
    /// End of the part that is on the disk as far as this recorder knows: a failed sync removes the
    /// rest.
    synced_end: BlockStart,
    /// End of the part that an outside sync covers. The file is not ended in the meantime.
    syncing: Option<BlockStart>,
    /// A sync failed.
    unsynced: bool,
    page: ForkPage,
    recovered: Option<Recovered>,
    stats: RecorderStats,
}

/// Where a block may start: its byte in the file, its number, and the position of its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockStart {
    offset: u64,
    sequence: u64,
    position: u64,
}

/// Number of a lane in a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(usize);

/// The state of a file when a recorder opens it.
pub(super) struct TakenUp {
    pub(super) journal: u64,
    /// See [`Recorder::is_newest`].
    pub(super) is_newest: bool,
    pub(super) offset: u64,
    pub(super) sequence: u64,
    pub(super) position: u64,
    pub(super) time: u64,
    pub(super) lanes: Vec<Known>,
    /// How many of them this file describes.
    pub(super) described: usize,
    pub(super) index: Index,
    pub(super) sealed: Sealed,
    pub(super) recovered: Option<Recovered>,
}

impl Recorder {
    /// Opens the journal at `path`, or creates it, and continues after its last whole block.
    ///
    /// A torn tail, left by a killed recorder, is cut off; [`Recorder::recovered`] reports it. If
    /// whole blocks follow damage, nothing is cut: recording continues in the next file.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: `InUse` if another recorder has it, `NotAJournal`, `Version`, `Io`,
    /// `NoSpace`, `NoZstd`, `Value`.
    pub fn open(path: &Path, settings: &RecorderSettings) -> Result<Self, JournalError> {
        settings.check()?;
        let packer = Packer::new(settings.compress, path)?;
        let page = ForkPage::new().map_err(term::refused("map a private page for", path))?;
        let (number, locks, found) = recover::take(path, settings)?;
        let now = Instant::now();
        let mut recorder = Self {
            base: path.to_owned(),
            term: number,
            path: term::path_of(path, number),
            locks,
            journal: found.journal,
            is_newest: found.is_newest,
            offset: found.offset,
            sequence: found.sequence,
            position: found.position,
            time: found.time,
            appended: found.lanes.iter().map(|known| known.end).collect(),
            lanes: found.lanes,
            described: found.described,
            holed: BTreeSet::new(),
            index: found.index,
            sealed: found.sealed,
            drop: OnDrop::Close,
            runs: Vec::new(),
            run_began: 0,
            merged_ns: 0,
            frames: Vec::new(),
            packer,
            settings: settings.clone(),
            opened: now,
            synced: now,
            // Blocks of a killed recorder may not have reached the disk, also before a seal, which
            // it writes before it syncs. The next sync covers them.
            dirty: found.offset > TERM_BYTES,
            // Blocks of an earlier recorder are never removed: it may have confirmed them.
            synced_end: BlockStart {
                offset: found.offset,
                sequence: found.sequence,
                position: found.position,
            },
            syncing: None,
            unsynced: false,
            page,
            recovered: found.recovered,
            stats: RecorderStats::default(),
        };
        if recorder
            .recovered
            .as_ref()
            .is_some_and(|found| found.damaged.is_some())
        {
            recorder.begin_next()?;
        } else if recorder.offset == TERM_BYTES {
            recorder.stats.files = 1;
        }
        Ok(recorder)
    }

    /// What an earlier recorder left unfinished; `None` if it closed its file, or if there was
    /// none.
    #[must_use]
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// The number of `lane` in this recorder; equal descriptions have equal numbers.
    ///
    /// # Errors
    ///
    /// [`JournalError::Value`] if the description cannot be stored, is the 65,537th, or has another
    /// type, other fields or another `align` than the messages recorded of its channel. Then
    /// nothing has changed.
    pub fn lane(&mut self, lane: &Lane) -> Result<LaneId, JournalError> {
        lane.check()?;
        self.check_type(lane)?;
        if let Some(index) = self.lanes.iter().position(|known| known.lane == *lane) {
            // A file that describes the lane already does not say them; the next one does.
            let known = &mut self.lanes[index].lane.message_type;
            known.take_fields(&lane.message_type);
            return Ok(LaneId(index));
        }
        if self.lanes.len() == LANES_MAX {
            return Err(JournalError::Value {
                what: "the number of lanes",
                value: (LANES_MAX + 1).to_string(),
                rule: "at most 65536 in one journal: record into another file",
            });
        }
        self.lanes.push(Known {
            lane: lane.clone(),
            end: 0,
        });
        self.appended.push(0);
        Ok(LaneId(self.lanes.len() - 1))
    }

    /// Refuses another type or `align` than the messages of the channel have, and other fields than
    /// the lane itself has. Another lane without messages decides nothing, and a lane with messages
    /// has its type and `align` already: only its fields are compared with those of its type.
    fn check_type(&self, lane: &Lane) -> Result<(), JournalError> {
        if self.settings.mixed_types {
            return Ok(());
        }
        let lanes = self.lanes.iter().zip(&self.appended);
        let continues = lanes
            .clone()
            .any(|(known, end)| *end > 0 && known.lane == *lane);
        let is_like = |other: &Lane| {
            other.align == lane.align && other.message_type.hash == lane.message_type.hash
        };
        let mut compared = lanes
            .filter(|(known, end)| **end > 0 || known.lane == *lane)
            .map(|(known, _)| known)
            .filter(|known| !continues || is_like(&known.lane));
        let Some(other) = compared.find(|known| !known.lane.agrees_with(lane)) else {
            return Ok(());
        };
        let (ours, theirs) = (&lane.message_type, &other.lane.message_type);
        let equal = || (type_shown(&ours.name), type_shown(&theirs.name));
        let (asked, found) = ours.difference(theirs).unwrap_or_else(equal);
        let shown = |name, lane: &Lane| format!("{name}, align={}", lane.align);
        let (asked, found) = (shown(asked, lane), shown(found, &other.lane));
        Err(JournalError::Value {
            what: "the type",
            value: format!(
                "channel {}: {asked} (recorded are messages of {found})",
                lane.channel
            ),
            rule: "a channel in a journal has one type and one 'align=': record into another \
                   file, or give another 'channel='",
        })
    }

    /// Position after the last appended or earlier recorded frame of `lane`; 0 before its first.
    #[must_use]
    pub fn end(&self, lane: LaneId) -> u64 {
        self.appended.get(lane.0).copied().unwrap_or(0)
    }

    /// Frame bytes in the journal over all lanes and files, including appended ones.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position + self.frames.len() as u64
    }

    /// Appends whole frames of `lane`, unchanged, the first at `position`.
    ///
    /// `time_ns` is the time of arrival in nanoseconds since 1970; if it is before the time of
    /// earlier runs, theirs is used. Frames that were appended before are left out, so a
    /// publisher's unconfirmed messages may be appended again after a crash. The run is recorded
    /// when [`Recorder::flush`] has returned; it may be written before.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; then nothing of the run was taken. `Value` if it is the first run of
    /// `lane`, and the channel has messages of another type or `align` since [`Recorder::lane`].
    pub fn append(
        &mut self,
        lane: LaneId,
        position: u64,
        time_ns: u64,
        frames: &[u8],
    ) -> Result<(), JournalError> {
        self.usable()?;
        let known = self.lanes.get(lane.0).ok_or_else(|| JournalError::Value {
            what: "a lane",
            value: lane.0.to_string(),
            rule: "a number that this recorder gave",
        })?;
        let (align, end) = (known.lane.align(), self.end(lane));
        let bad = |(offset, problem)| JournalError::Frames {
            offset: offset as u64,
            problem,
        };
        let known_bytes = repeated(frames, align, position, end).map_err(bad)?;
        let new = &frames[known_bytes..];
        let messages =
            count_frames(new, align).map_err(|(at, why)| bad((known_bytes + at, why)))?;
        if position.checked_add(frames.len() as u64).is_none() {
            return Err(bad((0, "would be behind the largest position")));
        }
        self.stats.repeated_bytes += known_bytes as u64;
        if messages == 0 {
            return Ok(());
        }
        if end == 0 {
            self.check_type(&known.lane)?;
        }
        let first = position + known_bytes as u64;
        let run = RunHeader {
            // At most 65,536 lanes.
            lane: u32::try_from(lane.0).unwrap_or(u32::MAX).into(),
            reserved: 0.into(),
            position: first.into(),
            time: time_ns.max(self.time).into(),
            bytes: (new.len() as u64).into(),
        };
        if self.frames.len() + new.len() > BLOCK_TARGET {
            self.write_collected()?;
        }
        if new.len() >= BLOCK_TARGET {
            // Directly from the ring.
            self.write_runs(std::slice::from_ref(&run), new)?;
        } else {
            self.frames.extend_from_slice(new);
            self.collect(&run, first);
        }
        self.time = run.time.get();
        self.stats.messages += messages;
        self.stats.frame_bytes += new.len() as u64;
        if end != 0 {
            self.stats.missed_bytes += first - end;
        }
        if let Some(end) = self.appended.get_mut(lane.0) {
            *end = first + new.len() as u64;
        }
        Ok(())
    }

    /// Adds a run of collected frames; if it continues the last run, it becomes part of it.
    fn collect(&mut self, run: &RunHeader, first: u64) {
        if let Some(last) = self.runs.last_mut()
            && last.lane == run.lane
            && run.time.get() - self.run_began <= self.merged_ns
            && last.position.get() + last.bytes.get() == first
        {
            last.bytes = (last.bytes.get() + run.bytes.get()).into();
            last.time = run.time;
        } else {
            self.runs.push(run.clone());
            self.run_began = run.time.get();
        }
    }

    /// From now on runs that continue each other within `span` become one, of the later time.
    pub(super) fn merge_runs_within(&mut self, span: core::time::Duration) {
        self.merged_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Records everything appended so far, as the sync policy says.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. After `NoSpace` or `Io` while writing nothing is lost: call again. After a
    /// failed sync, frames appended since the last successful one are not recorded, and every call
    /// returns `Unsynced`.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        self.usable()?;
        self.write_collected()?;
        match self.settings.sync {
            SyncPolicy::Block => self.sync(),
            _ => self.tick(),
        }
    }

    /// Writes everything appended so far, and leaves the sync of the policy `block` to the caller:
    /// it syncs the returned file, on any thread. `None` if there is nothing to sync, or the policy
    /// does not ask for it.
    ///
    /// # Errors
    ///
    /// As [`Recorder::flush`].
    pub(super) fn write_for_sync(&mut self) -> Result<Option<ClosedInChildren>, JournalError> {
        self.usable()?;
        self.write_collected()?;
        if self.settings.sync != SyncPolicy::Block {
            self.tick()?;
            return Ok(None);
        }
        if !self.dirty {
            return Ok(None);
        }
        let descriptor = self.descriptor()?;
        // It holds the lock as well: a forked child that kept it would keep the journal locked.
        let file = ClosedInChildren::open(|| Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 0)?))
            .map_err(|source| JournalError::Io {
            action: "force to the disk",
            path: self.path.clone(),
            source,
        })?;
        self.dirty = false;
        self.syncing = Some(self.next_block());
        Ok(Some(file))
    }

    /// The sync of a file from [`Recorder::write_for_sync`] is done.
    pub(super) fn sync_done(&mut self) {
        self.synced_end = self.syncing.take().unwrap_or(self.synced_end);
        self.stats.syncs += 1;
    }

    /// A sync failed, here or of a file from [`Recorder::write_for_sync`]: nothing more is
    /// recorded.
    pub(super) fn sync_failed(&mut self, errno: Errno) -> JournalError {
        // The kernel may have dropped pages that it could not write. Another sync would then
        // succeed, and the next recorder would find the blocks in memory and take them for
        // recorded. So the blocks are removed. Their sender got no confirmation and sends them
        // again. With another policy they were confirmed when they were written, and stay.
        self.unsynced = true;
        self.syncing = None;
        if self.settings.sync == SyncPolicy::Block
            && let Ok(file) = self.descriptor()
        {
            let _ = rustix::fs::ftruncate(file, self.synced_end.offset);
            let BlockStart {
                offset,
                sequence,
                position,
            } = self.synced_end;
            (self.offset, self.sequence, self.position) = (offset, sequence, position);
        }
        term::refused("force to the disk", &self.path)(errno)
    }

    /// Does periodic work: call it now and then while there is nothing to record.
    ///
    /// # Errors
    ///
    /// As [`Recorder::flush`].
    pub fn tick(&mut self) -> Result<(), JournalError> {
        self.usable()?;
        if let SyncPolicy::Interval(every) = self.settings.sync
            && self.dirty
            && self.synced.elapsed() >= every
        {
            self.sync()?;
        }
        Ok(())
    }

    /// Counts so far.
    #[must_use]
    pub fn stats(&self) -> RecorderStats {
        self.stats
    }

    /// The current file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn usable(&self) -> Result<(), JournalError> {
        if !self.page.is_ours() {
            return Err(JournalError::Forked);
        }
        if self.unsynced {
            return Err(JournalError::Unsynced {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn next_block(&self) -> BlockStart {
        BlockStart {
            offset: self.offset,
            sequence: self.sequence,
            position: self.position,
        }
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.synced = Instant::now();
        if !self.dirty {
            return Ok(());
        }
        if let Err(errno) = rustix::fs::fdatasync(self.descriptor()?) {
            return Err(self.sync_failed(errno));
        }
        self.dirty = false;
        self.synced_end = self.next_block();
        self.stats.syncs += 1;
        Ok(())
    }
}

/// Bytes at the start of `frames` that are before `end`, the recorded end of the lane.
///
/// # Errors
///
/// Where the frames contradict the recorded ones, and how.
fn repeated(
    frames: &[u8],
    align: usize,
    position: u64,
    end: u64,
) -> Result<usize, (usize, &'static str)> {
    let mut at = 0;
    while at < frames.len() && position + (at as u64) < end {
        at = frame(frames, at, align).map_err(|why| (at, why))?.end;
    }
    if at > 0 && position + at as u64 > end {
        return Err((
            at,
            "is inside a frame that was recorded with another length",
        ));
    }
    Ok(at)
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.path)
            .field("position", &self.position())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What a recorder did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStats {
    /// Messages recorded.
    pub messages: u64,
    /// Bytes of their frames, headers and padding included.
    pub frame_bytes: u64,
    /// Bytes written to files.
    pub file_bytes: u64,
    /// Blocks written, of any kind.
    pub blocks: u64,
    /// Number of syncs to the disk.
    pub syncs: u64,
    /// Files begun.
    pub files: u64,
    /// Frame bytes that were appended a second time and left out.
    pub repeated_bytes: u64,
    /// Frame bytes missing between runs of a lane: they were published while no recorder was
    /// attached.
    pub missed_bytes: u64,
}
