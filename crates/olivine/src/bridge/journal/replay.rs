//! Replaying: reads blocks from files. Each is fully checked before its messages are returned.

use super::format::{self, Sealed, TERM_BYTES};
use super::lane::Lane;
use super::recover::Torn;
use super::term::{self, Source};
use super::walk::{Step, Walk};
use super::watch::Watch;
use crate::error::JournalError;
use core::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reads a journal run by run in the order of the recording, also while it is recorded.
///
/// It returns a message only from a block with valid checksums. A torn tail ends it, and
/// [`Replay::state`] reports it. Damage that whole blocks follow is an error that repeats until
/// [`Replay::skip_damage`]. It writes nothing and needs no write permission. Any number of readers
/// may read one journal.
pub struct Replay {
    base: PathBuf,
    walk: Walk,
    /// The next run of the walk's block, the start of its frames, and the position of the block.
    run: usize,
    at: usize,
    block_position: u64,
    /// Runs and frames before this are skipped.
    wanted: Wanted,
    torn: Option<Torn>,
    watch: Option<Watch>,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    All,
    FromPosition(u64),
    FromTime(u64),
}

/// Frames of one lane that were recorded together.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Run<'a> {
    /// Their lane.
    pub lane: &'a Lane,
    /// Position of the first frame in its lane.
    pub position: u64,
    /// Position of the first frame in the journal: frame bytes recorded before it.
    pub journal_position: u64,
    /// Recording time in nanoseconds since 1970. Never decreases from run to run.
    pub time_ns: u64,
    /// The frames, unchanged from the ring.
    pub frames: &'a [u8],
    /// Bytes of its lane that are missing before the first frame. They were published while no
    /// recorder kept them: it was stopped without a durable name, or evicted. A replay that begins
    /// inside the run reports 0.
    pub missed_bytes: u64,
}

/// A message of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunMessage<'a> {
    /// The number that the publisher gave; 0 if none.
    pub tag: u32,
    /// Its topic; empty for a message without a topic.
    pub topic: &'a str,
    /// Its payload, without the topic.
    pub payload: &'a [u8],
    /// Start of its frame in its lane.
    pub position: u64,
}

impl<'a> Run<'a> {
    /// The messages of the run.
    pub fn messages(&self) -> impl Iterator<Item = RunMessage<'a>> + use<'a> {
        let (frames, align, first) = (self.frames, self.lane.align(), self.position);
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= frames.len() {
                return None;
            }
            // Validated when the block was read.
            let frame = format::frame(frames, at, align).ok()?;
            let position = first + at as u64;
            at = frame.end;
            Some(RunMessage {
                tag: frame.tag,
                topic: std::str::from_utf8(frame.topic).unwrap_or_default(),
                payload: frame.payload,
                position,
            })
        })
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("channel", &self.lane.channel)
            .field("publisher", &self.lane.publisher)
            .field("position", &self.position)
            .field("time_ns", &self.time_ns)
            .field("bytes", &self.frames.len())
            .field("missed_bytes", &self.missed_bytes)
            .finish_non_exhaustive()
    }
}

/// What follows the last run that could be returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayState {
    /// A recorder is active: more may come.
    Growing,
    /// No recorder is active, and the journal ends with a whole block. `is_sealed` if it was closed
    /// in order; otherwise its recorder died between two blocks, or the file was cut exactly there.
    Ended {
        /// Whether the last file ends with its index.
        is_sealed: bool,
    },
    /// No recorder is active, and the last file says that the journal continues in a next one. That
    /// file was removed, or its recorder was killed before it had created it.
    NextMissing {
        /// Path of the missing file.
        path: PathBuf,
    },
    /// No recorder is active, and the last block is not whole: the recorder died, or the power
    /// failed, during a write. Nothing of it was returned.
    Torn(Torn),
}

/// What was left out by skipping damage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// File and offset where reading continues.
    pub path: PathBuf,
    /// Bytes from its start.
    pub offset: u64,
    /// Lost frame bytes over all lanes.
    pub lost_bytes: u64,
}

impl Replay {
    /// Opens the journal at `path` at its oldest message.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: `Missing`, `NotAJournal`, `Version`, `Damaged`, `Io`.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let walk = Walk::new(oldest(path, || term::list(path))?);
        Ok(Self {
            base: path.to_owned(),
            block_position: walk.position,
            walk,
            run: 0,
            at: 0,
            wanted: Wanted::All,
            torn: None,
            watch: None,
        })
    }

    /// Goes to the first message at journal position `position` or later.
    ///
    /// A position before the oldest remaining file means the oldest message; one after the last
    /// message means future messages.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn seek_position(&mut self, position: u64) -> Result<(), JournalError> {
        // A block that begins there may follow a description of its lanes, which shows a hole: the
        // walk begins before both.
        let (file, block) = (|at, _| at <= position, |at, _| at < position);
        self.seek(Wanted::FromPosition(position), file, block)
    }

    /// Goes to the first run recorded at `time_ns`, in nanoseconds since 1970, or later.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn seek_time(&mut self, time_ns: u64) -> Result<(), JournalError> {
        let is_before = |_, time| time < time_ns;
        self.seek(Wanted::FromTime(time_ns), is_before, is_before)
    }

    /// Goes to the end of everything recorded so far.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; also `Damaged` for damage in between.
    pub fn seek_end(&mut self) -> Result<(), JournalError> {
        let newest = term::list(&self.base)?.last().copied().unwrap_or(0);
        self.enter(source(&self.base, newest)?);
        if !self.walk.jump_to_seal()? {
            self.walk.seek(|_, _| true)?;
            while self.advance()? {}
        }
        self.run = self.walk.runs.len();
        (self.at, self.block_position) = (0, self.walk.position);
        Ok(())
    }

    /// Stays behind the last whole block of a file, where `walk` is.
    pub(super) fn stay_behind(&mut self, walk: Walk) -> Result<(), JournalError> {
        (self.run, self.at, self.block_position) = (walk.runs.len(), 0, walk.position);
        (self.walk, self.wanted) = (walk, Wanted::All);
        let tail = self.tail()?;
        self.torn = Some(tail).filter(|tail| tail.bytes > 0);
        Ok(())
    }

    /// Finds the file, then the block; the rest is skipped run by run.
    fn seek(
        &mut self,
        wanted: Wanted,
        file_is_before: impl Fn(u64, u64) -> bool,
        block_is_before: impl Fn(u64, u64) -> bool,
    ) -> Result<(), JournalError> {
        let terms = term::list(&self.base)?;
        let mut found = None;
        for term in terms {
            let Some(next) = Source::open(&self.base, term)? else {
                // One of the oldest, removed since the listing. In the middle it is found later.
                continue;
            };
            // A file's header has its start and the newest time of the files before it.
            let starts_before = file_is_before(next.header.position.get(), next.header.time.get());
            if found.is_some() && !starts_before {
                break;
            }
            found = Some(next);
        }
        if let Some(found) = found {
            self.enter(found);
        }
        self.walk.seek(block_is_before)?;
        self.block_position = self.walk.position;
        self.wanted = wanted;
        Ok(())
    }

    fn enter(&mut self, source: Source) {
        self.walk = Walk::new(source);
        (self.run, self.at, self.block_position) = (0, 0, self.walk.position);
        self.wanted = Wanted::All;
        self.torn = None;
    }

    /// The next run; `None` if there is none now: [`Replay::state`] then says why. Does not wait.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. `Damaged` repeats until [`Replay::skip_damage`].
    pub fn next_run(&mut self) -> Result<Option<Run<'_>>, JournalError> {
        loop {
            while let Some(header) = self.walk.runs.get(self.run) {
                let bytes = usize::try_from(header.bytes.get()).unwrap_or(usize::MAX);
                let first = self.at;
                let skip = self.unwanted(first, bytes, header.time.get());
                (self.run, self.at) = (self.run + 1, first + bytes);
                if skip < bytes {
                    return Ok(Some(self.run_at(
                        self.run - 1,
                        first + skip,
                        bytes - skip,
                        skip,
                    )));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    fn run_at(&self, index: usize, first: usize, bytes: usize, skip: usize) -> Run<'_> {
        let header = &self.walk.runs[index];
        Run {
            // Validated when the block was read.
            lane: &self.walk.lanes[header.lane.get() as usize].lane,
            position: header.position.get() + skip as u64,
            journal_position: self.block_position + first as u64,
            time_ns: header.time.get(),
            frames: self.walk.frames(first, bytes),
            missed_bytes: if skip == 0 {
                self.walk.missed.get(index).copied().unwrap_or(0)
            } else {
                0
            },
        }
    }

    /// Bytes of the coming run that are to be skipped.
    fn unwanted(&mut self, first: usize, bytes: usize, time: u64) -> usize {
        let skip = match self.wanted {
            Wanted::All => return 0,
            Wanted::FromTime(from) if time < from => return bytes,
            Wanted::FromTime(_) => 0,
            Wanted::FromPosition(from) => {
                let start = self.block_position + first as u64;
                let run = self.walk.frames(first, bytes);
                let lane = self.walk.runs[self.run].lane.get() as usize;
                let align = self.walk.lanes[lane].lane.align();
                let mut at = 0;
                while at < bytes && start + (at as u64) < from {
                    at = format::frame(run, at, align).map_or(bytes, |frame| frame.end);
                }
                at
            }
        };
        if skip < bytes {
            self.wanted = Wanted::All;
        }
        skip
    }

    /// Moves over one more block; `false` at the end.
    fn advance(&mut self) -> Result<bool, JournalError> {
        self.torn = None;
        let position = self.walk.position;
        let mut step = self.walk.step()?;
        if matches!(step, Step::End | Step::Not(_)) {
            let next = self.next_term()?;
            let has_more =
                next.is_some() || matches!(step, Step::Not(_)) && self.whole_block_follows()?;
            if has_more {
                // A block that was half written at the first look is whole now if more was written
                // after it.
                step = self.walk.step()?;
            }
            match (step, next) {
                (Step::End, Some(next)) => {
                    self.check_follows(&next)?;
                    self.enter_going_on(next);
                    return Ok(true);
                }
                (Step::End, None) => return Ok(false),
                (Step::Not(problem), _) if has_more => return Err(self.damaged(problem)),
                (Step::Not(_), _) => {
                    self.torn = Some(self.tail()?);
                    return Ok(false);
                }
                _ => {}
            }
        }
        (self.run, self.at, self.block_position) = (0, 0, position);
        Ok(true)
    }

    /// Continues with the next file; the seek is still in progress.
    fn enter_going_on(&mut self, next: Source) {
        let wanted = self.wanted;
        self.enter(next);
        self.wanted = wanted;
    }

    fn next_term(&self) -> Result<Option<Source>, JournalError> {
        let next = self.walk.source.header.term.get() + 1;
        if let Some(source) = Source::open(&self.base, next)? {
            return Ok(Some(source));
        }
        if term::is_recorded_into(&self.walk.source.path)? {
            // The newest file has the lock: no file follows it.
            return Ok(None);
        }
        let Some(later) = term::list(&self.base)?.into_iter().find(|n| *n >= next) else {
            return Ok(None);
        };
        crate::points::look("journal.listed");
        // The file was created since the listing, or the listing missed it in a changing folder.
        // Only then is there no gap.
        match Source::open(&self.base, next)? {
            Some(source) => Ok(Some(source)),
            None => Source::open(&self.base, later),
        }
    }

    /// Whether `next` continues the walk.
    fn check_follows(&self, next: &Source) -> Result<(), JournalError> {
        let (ours, theirs) = (&self.walk.source.header, &next.header);
        let problem = if ours.journal != theirs.journal {
            "it belongs to another journal"
        } else if theirs.sequence.get() != self.walk.sequence
            || theirs.position.get() != self.walk.position
        {
            "blocks are missing before this file"
        } else {
            return Ok(());
        };
        Err(JournalError::Damaged {
            path: next.path.clone(),
            offset: 0,
            problem,
        })
    }

    fn whole_block_follows(&self) -> Result<bool, JournalError> {
        let found = self
            .walk
            .source
            .whole_after(self.walk.offset, self.walk.sequence)?;
        Ok(found.is_some())
    }

    fn damaged(&self, problem: &'static str) -> JournalError {
        JournalError::Damaged {
            path: self.walk.source.path.clone(),
            offset: self.walk.offset,
            problem,
        }
    }

    fn tail(&self) -> Result<Torn, JournalError> {
        let length = self.walk.source.length()?;
        Ok(Torn {
            path: self.walk.source.path.clone(),
            offset: self.walk.offset,
            bytes: length.saturating_sub(self.walk.offset),
        })
    }

    /// After [`JournalError::Damaged`]: continues with the next whole block, and returns what that
    /// leaves out.
    ///
    /// If no whole block follows, returns `None` and changes nothing.
    ///
    /// # Errors
    ///
    /// Errors of the system; [`JournalError::NoZstd`].
    pub fn skip_damage(&mut self) -> Result<Option<Skipped>, JournalError> {
        let before = self.walk.position;
        let (offset, sequence) = (self.walk.offset, self.walk.sequence);
        let here = match self.walk.source.look(offset)? {
            term::Found::End => None,
            _ => self.walk.source.whole_after(offset, sequence)?,
        };
        if let Some((offset, header)) = here {
            self.walk.jump(offset, &header);
            // What is missing there was reported as damage.
            self.walk.forget_ends();
            (self.run, self.at, self.block_position) = (0, 0, self.walk.position);
            return Ok(Some(self.skipped(before)));
        }
        let term = self.walk.source.header.term.get();
        for next in term::list(&self.base)?
            .into_iter()
            .filter(|next| *next > term)
        {
            match Source::open(&self.base, next) {
                Ok(Some(source)) => {
                    self.enter_going_on(source);
                    return Ok(Some(self.skipped(before)));
                }
                Ok(None) | Err(JournalError::Damaged { .. } | JournalError::NotAJournal { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn skipped(&self, before: u64) -> Skipped {
        Skipped {
            path: self.walk.source.path.clone(),
            offset: self.walk.offset.max(TERM_BYTES),
            lost_bytes: self.walk.position.saturating_sub(before),
        }
    }

    /// What follows the last run. Meaningful after [`Replay::next_run`] returned `None`.
    #[must_use]
    pub fn state(&self) -> ReplayState {
        // If the system cannot tell, the recorder counts as active.
        let grows = self.may_grow().unwrap_or(true);
        crate::points::look("journal.looked");
        if grows {
            return ReplayState::Growing;
        }
        match (&self.torn, self.walk.sealed) {
            (Some(torn), _) => ReplayState::Torn(torn.clone()),
            (None, Sealed::GoesOn) => ReplayState::NextMissing {
                path: self.next_path(),
            },
            (None, sealed) => ReplayState::Ended {
                is_sealed: sealed == Sealed::Closed,
            },
        }
    }

    /// Whether the recording was finished: its last file ends with its index, every block before
    /// that is whole, and no recorder is active. Meaningful after [`Replay::next_run`] returned
    /// `None`. Call that once more to find what was recorded in the meantime.
    ///
    /// # Errors
    ///
    /// [`JournalError::Unfinished`].
    pub fn check_finished(&self) -> Result<(), JournalError> {
        self.check_ended(self.state())
    }

    /// As [`Replay::check_finished`]; `false` while a recorder is active: it continues what was
    /// unfinished.
    pub(super) fn is_finished(&self) -> Result<bool, JournalError> {
        // One look: a recorder may come or leave between two.
        match self.state() {
            ReplayState::Growing => Ok(false),
            state => self.check_ended(state).map(|()| true),
        }
    }

    fn check_ended(&self, state: ReplayState) -> Result<(), JournalError> {
        let (path, offset, problem) = match state {
            ReplayState::Ended { is_sealed: true } => return Ok(()),
            ReplayState::Growing => {
                let path = self.walk.source.path.clone();
                (path, self.walk.offset, "a recorder is at work".to_owned())
            }
            ReplayState::Ended { is_sealed: false } => {
                let path = self.walk.source.path.clone();
                (path, self.walk.offset, "no index follows".to_owned())
            }
            ReplayState::Torn(torn) => {
                let problem = format!("the last {} bytes are not a whole block", torn.bytes);
                (torn.path, torn.offset, problem)
            }
            ReplayState::NextMissing { path } => {
                let problem = format!("the next file {} is missing", path.display());
                (self.walk.source.path.clone(), self.walk.offset, problem)
            }
        };
        Err(JournalError::Unfinished {
            path,
            offset,
            position: self.walk.position,
            problem,
        })
    }

    fn next_path(&self) -> PathBuf {
        term::path_of(&self.base, self.walk.source.header.term.get() + 1)
    }

    /// Whether a recorder is active on this file, or has begun the next one.
    fn may_grow(&self) -> Result<bool, JournalError> {
        // In this order: a recorder creates the next file before it releases this one.
        Ok(term::is_recorded_into(&self.walk.source.path)? || self.next_path().exists())
    }

    /// Whether a recorder is active on any file of the journal.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn is_recorded_into(&self) -> Result<bool, JournalError> {
        let newest = term::list(&self.base)?.last().copied().unwrap_or(0);
        term::is_recorded_into(&term::path_of(&self.base, newest))
    }

    /// Sleeps until the journal may have grown, at most for `timeout`; may return early.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), JournalError> {
        self.wait_or(timeout, None)
    }

    /// Like [`Replay::wait`], also until `wake` is readable.
    pub(super) fn wait_or(
        &mut self,
        timeout: Duration,
        wake: Option<BorrowedFd<'_>>,
    ) -> Result<(), JournalError> {
        let folder = term::folder_of(&self.base);
        let watch = self.watch.get_or_insert_with(|| Watch::new(folder));
        watch
            .wait(timeout, wake)
            .map_err(term::refused("watch", folder))
    }

    /// Number of the journal.
    pub(super) fn journal(&self) -> u64 {
        self.walk.source.header.journal.get()
    }

    /// Journal position after the last returned run.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.block_position + self.at as u64
    }
}

/// The oldest file of the journal at `base`, found by `list`. It may be removed after it was
/// listed: then the next one is the oldest.
fn oldest(
    base: &Path,
    list: impl Fn() -> Result<Vec<u64>, JournalError>,
) -> Result<Source, JournalError> {
    let mut gone = None;
    loop {
        let term = list()?.first().copied();
        if let Some(source) = Source::open(base, term.unwrap_or(0))? {
            return Ok(source);
        }
        // A name that is listed again leads nowhere.
        if term.is_none() || gone == term {
            let path = term::path_of(base, term.unwrap_or(0));
            return Err(JournalError::Missing { path });
        }
        gone = term;
    }
}

fn source(base: &Path, term: u64) -> Result<Source, JournalError> {
    Source::open(base, term)?.ok_or_else(|| JournalError::Missing {
        path: term::path_of(base, term),
    })
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("path", &self.walk.source.path)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Recorder, RecorderSettings};
    use super::*;
    use crate::uri::{Rotation, SyncPolicy};

    /// Records `count` frames of 2 KiB into files of a block or two.
    fn record(path: &Path, count: u64) {
        let settings = RecorderSettings::default()
            .sync(SyncPolicy::Never)
            .rotate(Rotation::by_size(4096));
        let mut recorder = Recorder::open(path, &settings).unwrap();
        let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
        let mut frame = vec![7; 2048];
        frame[..8].copy_from_slice(&[0, 8, 0, 0, 9, 0, 0, 0]);
        let first = recorder.end(lane);
        for n in 0..count {
            recorder.append(lane, first + n * 2048, n, &frame).unwrap();
            recorder.flush().unwrap();
        }
        recorder.close().unwrap();
    }

    #[test]
    fn files_are_found_without_one_listing_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("many.olv");
        record(&path, 120);
        assert!(std::fs::read_dir(folder.path()).unwrap().count() > 50);
        let before = term::LISTINGS.with(std::cell::Cell::get);
        let mut replay = Replay::open(&path).unwrap();
        let mut runs = 0;
        while replay.next_run().unwrap().is_some() {
            runs += 1;
        }
        replay.check_finished().unwrap();
        assert_eq!(runs, 120);
        let listings = term::LISTINGS.with(std::cell::Cell::get) - before;
        assert!(
            listings <= 2,
            "{listings} listings: one to open, one at the end"
        );
    }

    #[test]
    fn journal_whose_oldest_file_is_removed_after_the_listing_opens_at_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shrinks.olv");
        record(&path, 12);
        let remove_listed = || {
            let terms = term::list(&path)?;
            if terms.first() < Some(&2) {
                std::fs::remove_file(term::path_of(&path, terms[0])).unwrap();
            }
            Ok(terms)
        };
        assert_eq!(oldest(&path, remove_listed).unwrap().header.term.get(), 2);
        // A link that leads nowhere is listed each time.
        let link = folder.path().join("link.olv");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let error = Replay::open(&link).unwrap_err();
        assert!(matches!(error, JournalError::Missing { .. }), "{error}");
    }

    /// A recorder that begins behind an unfinished end made that end look finished.
    #[test]
    fn growing_journal_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grows.olv");
        record(&path, 3);
        let recorder = Recorder::open(&path, &RecorderSettings::default()).unwrap();
        let mut replay = Replay::open(&path).unwrap();
        while replay.next_run().unwrap().is_some() {}
        let error = replay.check_finished().unwrap_err().to_string();
        assert!(error.contains("a recorder is at work"), "{error}");
        recorder.close().unwrap();
        replay.check_finished().unwrap();
    }

    /// A recorder that left during the check gave a failure with that reason.
    #[test]
    fn recorder_may_leave_during_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.olv");
        record(&path, 3);
        let recorder = Recorder::open(&path, &RecorderSettings::default()).unwrap();
        let mut replay = Replay::open(&path).unwrap();
        while replay.next_run().unwrap().is_some() {}
        crate::points::hook::at("journal.looked", move || {
            recorder.close().unwrap();
        });
        assert!(!replay.is_finished().unwrap());
        assert!(replay.is_finished().unwrap());
    }

    /// A file may come between the first look for it and the listing.
    #[test]
    fn gap_is_believed_only_after_a_second_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late.olv");
        record(&path, 12);
        let (second, aside) = (term::path_of(&path, 2), folder.path().join("aside"));
        std::fs::rename(&second, &aside).unwrap();
        let read = || {
            let mut replay = Replay::open(&path).unwrap();
            let mut runs = 0;
            while replay.next_run()?.is_some() {
                runs += 1;
            }
            Ok::<_, JournalError>(runs)
        };
        let error = read().unwrap_err().to_string();
        assert!(error.contains("blocks are missing"), "{error}");
        crate::points::hook::at("journal.listed", move || {
            std::fs::rename(&aside, &second).unwrap();
        });
        assert_eq!(read().unwrap(), 12);
    }

    #[test]
    fn journal_without_its_newest_file_is_unfinished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.olv");
        record(&path, 12);
        let newest = *term::list(&path).unwrap().last().unwrap();
        let read = || {
            let mut replay = Replay::open(&path).unwrap();
            while replay.next_run().unwrap().is_some() {}
            (replay.state(), replay.check_finished())
        };
        assert!(read().1.is_ok());
        for gone in (1..=newest).rev() {
            let missing = term::path_of(&path, gone);
            std::fs::remove_file(&missing).unwrap();
            let (state, finished) = read();
            let text = finished.unwrap_err().to_string();
            let shown = missing.display().to_string();
            assert!(text.contains(&format!("{shown} is missing")), "{text}");
            assert_eq!(state, ReplayState::NextMissing { path: missing });
        }
        // The next recorder continues, and finishes it.
        record(&path, 3);
        assert!(read().1.is_ok());
    }
}
