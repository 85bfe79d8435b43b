//! Replaying: reads blocks from files. Each is fully checked before its messages are returned.

mod headless;
mod lanes;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use run::{Run, RunMessage};
pub use state::ReplayState;

use super::format::{self, TERM_BYTES, TermHeader};
use super::recover::Torn;
use super::search::Search;
use super::stop_when::StopWhen;
use super::term::{self, Source};
use super::walk::{Behind, Step, UNKNOWN_LANE, Walk};
use super::watch::Watch;
use crate::error::JournalError;
use core::fmt;
use headless::{Headless, first_whole, oldest};
use lanes::LostFrames;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Damages that a seek passes at most: a forged file has no end of them.
pub(super) const PASSES_MAX: u32 = 64;

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
    /// Why the recordings before the first run of the block failed, oldest first.
    failed_before: Vec<String>,
    /// Runs and frames before this are skipped.
    wanted: Wanted,
    /// Damages that this seek has passed.
    passes: u32,
    torn: Option<Torn>,
    /// The oldest file, if only a later one can be read: the walk is at the start of that one.
    headless: Option<Headless>,
    /// Lanes that are not described in their place were looked for in this file.
    has_sought_lanes: bool,
    lost_frames: Option<LostFrames>,
    search: Search,
    watch: Option<Watch>,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    All,
    FromPosition {
        from: u64,
        /// Also where nothing before `from` was read: damage between the runs that end and begin
        /// there may have hidden a hole or a failure.
        passes_damage: bool,
    },
    FromTime(u64),
}

impl Wanted {
    /// Whether a reader had stopped where the file of this header begins.
    fn is_resumed_at(self, header: &TermHeader) -> bool {
        matches!(self, Self::FromPosition { from, passes_damage: false }
            if from == header.position.get())
    }

    /// Whether nothing before `next` is wanted, from the end of what was read at `read` on.
    fn is_behind(self, next: Behind, read: u64) -> bool {
        match self {
            Self::All => false,
            Self::FromPosition {
                from,
                passes_damage,
            } => next.position <= from && (passes_damage || read < from),
            // What is lost may have been recorded at the time of the next block.
            Self::FromTime(from) => next.time < from,
        }
    }

    /// Whether something before the place that is wanted is in a block of this position and time.
    fn begins_behind(self, position: u64, time: u64) -> bool {
        match self {
            Self::All => false,
            Self::FromPosition { from, .. } => position < from,
            Self::FromTime(from) => time < from,
        }
    }
}

/// What was left out by skipping damage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// File and offset where reading continues.
    pub path: PathBuf,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes of frames left out, over all lanes. `None` if they are unknown: the files before those
    /// that were left out were removed, or another journal follows.
    pub lost_bytes: Option<u64>,
}

impl Replay {
    /// Opens the journal at `path` at its oldest message.
    ///
    /// If the header of the oldest file is damaged, and a later file is whole, that is damage as
    /// elsewhere: [`Replay::next_run`] returns it, and a seek may pass it.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: `Missing`, `NotAJournal`, `Version`, `Damaged`, `Io`.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let (source, headless) = oldest(path, || term::list(path))?;
        let walk = Walk::new(source);
        Ok(Self {
            base: path.to_owned(),
            block_position: walk.position,
            walk,
            run: 0,
            at: 0,
            failed_before: Vec::new(),
            wanted: Wanted::All,
            passes: 0,
            torn: None,
            headless,
            has_sought_lanes: false,
            lost_frames: None,
            search: Search::default(),
            watch: None,
        })
    }

    /// From now on each call that reads ends early once `asked` returns true, with an
    /// [`JournalError::Io`] whose source has the kind `Interrupted`: a seek, and a search behind
    /// damage, may read long before they return. It is called for each block. Repeat a seek that
    /// ended early: the replay is not at its place.
    pub fn stop_when(&mut self, asked: impl Fn() -> bool + Send + Sync + 'static) {
        self.search = self.search.with(StopWhen::new(asked));
    }

    /// Searches behind damage like this from now on.
    pub(super) fn search_by(&mut self, search: &Search) {
        self.search = search.clone();
    }

    /// How it searches behind damage.
    pub(super) fn search(&self) -> &Search {
        &self.search
    }

    /// Goes to the first message at journal position `position` or later.
    ///
    /// A position before the oldest remaining file means the oldest message; one after the last
    /// message means future messages. Damage that ends there or before is passed in silence; other
    /// damage is that of the next run.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn seek_position(&mut self, position: u64) -> Result<(), JournalError> {
        self.seek_to(position, true)
    }

    /// As [`Replay::seek_position`], to where a reader stopped: it may not know of damage there.
    pub(super) fn seek_resumed(&mut self, position: u64) -> Result<(), JournalError> {
        self.seek_to(position, false)
    }

    fn seek_to(&mut self, position: u64, passes_damage: bool) -> Result<(), JournalError> {
        // A block that begins there may follow a description of its lanes, which shows a hole: the
        // walk begins before both.
        let (file, block) = (|at, _| at <= position, |at, _| at < position);
        let wanted = Wanted::FromPosition {
            from: position,
            passes_damage,
        };
        self.seek(wanted, file, block)
    }

    /// Goes to the first run recorded at `time_ns`, in nanoseconds since 1970, or later.
    ///
    /// Damage before a block that was recorded earlier than `time_ns` is passed in silence; other
    /// damage is that of the next run.
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
            self.walk.seek(|_, _| true, &self.search.stop)?;
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
        let (mut found, mut before) = (None, Vec::new());
        let mut refused = None;
        for term in terms {
            let next = match Source::open(&self.base, term) {
                Ok(Some(next)) => next,
                // One of the oldest, removed since the listing. In the middle it is found later.
                Ok(None) => continue,
                // The place may be in a later file. If not, reading comes to this one.
                Err(error) => {
                    let lost = Headless::of(error, term)?;
                    refused.get_or_insert(lost);
                    continue;
                }
            };
            // A file's header has its start and the newest time of the files before it.
            let starts_before = file_is_before(next.header.position.get(), next.header.time.get());
            if found.is_some() && !starts_before {
                break;
            }
            if !starts_before && let Some(lost) = refused {
                // The place may be in the lost file: the next run is this damage.
                self.enter(next);
                self.headless = Some(lost);
                (self.wanted, self.passes) = (wanted, 0);
                return Ok(());
            }
            // What was recorded there without a message may be unread: reading comes to it from the
            // file before.
            if refused.take().is_some() && found.is_some() && wanted.is_resumed_at(&next.header) {
                break;
            }
            found = Some(next);
            before.push(term);
        }
        before.pop();
        match (found, refused) {
            (Some(found), _) => self.enter(found),
            (None, Some(lost)) => return Err(lost.error(None)),
            (None, None) => {}
        }
        let begin = self.walk.offset;
        self.walk.seek(block_is_before, &self.search.stop)?;
        if self.walk.offset == begin {
            // The file before ends at this place: its last recorder may have failed.
            self.walk.failed_before = self.failures_before(&before)?;
        }
        self.block_position = self.walk.position;
        (self.wanted, self.passes) = (wanted, 0);
        Ok(())
    }

    /// Why the recordings before the file at which the walk begins failed, oldest first, from the
    /// files `terms` before it. A replay from the start finds what is wrong there, and comes no
    /// further.
    ///
    /// # Errors
    ///
    /// It is asked to stop.
    fn failures_before(&self, terms: &[u64]) -> Result<Vec<String>, JournalError> {
        let mut header = self.walk.source.header.clone();
        let mut failures = Vec::new();
        for term in terms.iter().rev() {
            let Some((found, has_run, begin)) = self.failures_of(*term, &header) else {
                // That may be why.
                self.search.stop.check(&self.walk.source.path)?;
                break;
            };
            failures.splice(0..0, found);
            if has_run {
                break;
            }
            header = begin;
        }
        Ok(failures)
    }

    /// The failures behind the last run of the file `term`, whether it has a run, and its header;
    /// `None` if it is not whole, or the file of `next` does not follow it.
    fn failures_of(&self, term: u64, next: &TermHeader) -> Option<(Vec<String>, bool, TermHeader)> {
        let mut walk = Walk::new(Source::open(&self.base, term).ok()??);
        walk.seek(|_, _| true, &self.search.stop).ok()?;
        let mut has_run = walk.offset != TERM_BYTES;
        loop {
            match walk.step().ok()? {
                Step::Runs => {
                    walk.failed_before.clear();
                    has_run = true;
                }
                Step::Passed => {}
                Step::End => break,
                Step::Not(_) => return None,
            }
        }
        let goes_on = walk.does_not_go_on(next).is_none();
        goes_on.then(|| (walk.take_failures(), has_run, walk.source.header))
    }

    fn enter(&mut self, source: Source) {
        self.walk = Walk::new(source);
        (self.run, self.at, self.block_position) = (0, 0, self.walk.position);
        self.wanted = Wanted::All;
        self.torn = None;
        self.headless = None;
        (self.has_sought_lanes, self.lost_frames) = (false, None);
    }

    /// The next run; `None` if there is none now: [`Replay::state`] then says why. Does not wait.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. `Damaged` repeats until [`Replay::skip_damage`].
    pub fn next_run(&mut self) -> Result<Option<Run<'_>>, JournalError> {
        if let Some(error) = self.lost_file() {
            return Err(error);
        }
        loop {
            while let Some(header) = self.walk.runs.get(self.run) {
                let bytes = usize::try_from(header.bytes.get()).unwrap_or(usize::MAX);
                let first = self.at;
                let skip = self.unwanted(first, bytes, header.time.get());
                (self.run, self.at) = (self.run + 1, first + bytes);
                if skip > 0 {
                    self.failed_before.clear();
                }
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
            failed_before: match index {
                0 => &self.failed_before,
                _ => &[],
            },
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
            Wanted::FromPosition { from, .. } => {
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
        self.search.stop.check(&self.walk.source.path)?;
        self.torn = None;
        let position = self.walk.position;
        let mut step = self.walk.step()?;
        if step == Step::Not(UNKNOWN_LANE) && self.find_lanes()? {
            step = self.walk.step()?;
        }
        let is_whole = step == Step::Not(UNKNOWN_LANE);
        if matches!(step, Step::End | Step::Not(_)) {
            let here = match step {
                Step::Not(_) if is_whole => self.behind_lost_frames()?,
                Step::Not(_) => self.walk.whole_behind(&self.search)?,
                _ => None,
            };
            let next = match self.next_term() {
                Ok(next) => next,
                Err(error) => {
                    let lost = Headless::of(error, self.walk.source.header.term.get() + 1)?;
                    if here.is_none() {
                        return self.pass(lost.path, 0, lost.problem, None);
                    }
                    // The damage here comes first.
                    None
                }
            };
            let has_more = next.is_some() || here.is_some();
            if has_more {
                // A block that was half written at the first look is whole now if more was written
                // after it.
                step = self.walk.step()?;
            }
            match (step, next) {
                (Step::End, Some(next)) => {
                    if let Some(problem) = self.walk.does_not_go_on(&next.header) {
                        return self.pass(next.path, 0, problem, None);
                    }
                    self.enter_going_on(next);
                    return Ok(true);
                }
                (Step::End, None) => return Ok(false),
                // Whole blocks without a lane are not a torn tail, also at the end.
                (Step::Not(problem), _) if has_more || is_whole => {
                    let (path, offset) = (self.walk.source.path.clone(), self.walk.offset);
                    return self.pass(path, offset, problem, here);
                }
                (Step::Not(_), _) => {
                    self.torn = Some(self.tail()?);
                    return Ok(false);
                }
                _ => {}
            }
        }
        if step == Step::Runs {
            self.failed_before = std::mem::take(&mut self.walk.failed_before);
        }
        (self.run, self.at, self.block_position) = (0, 0, position);
        Ok(true)
    }

    /// Goes on behind this damage if nothing of it is wanted. Else it is the error, with the
    /// position of the next whole block: `here` is that of this file.
    fn pass(
        &mut self,
        path: PathBuf,
        offset: u64,
        problem: &'static str,
        here: Option<Behind>,
    ) -> Result<bool, JournalError> {
        let next = match here {
            Some(here) => Some(here),
            None => {
                let ours = self.walk.source.header.journal;
                let later = self.later_file()?;
                later
                    .filter(|file| file.header.journal == ours)
                    .map(|file| Behind {
                        position: file.header.position.get(),
                        time: file.header.time.get(),
                    })
            }
        };
        // A file of another journal may begin before it.
        let next = next.filter(|next| next.position >= self.walk.position);
        if next.is_some_and(|next| self.wanted.is_behind(next, self.walk.position))
            && self.passes < PASSES_MAX
            && self.skip_damage()?.is_some()
        {
            self.passes += 1;
            let wanted = self.wanted;
            self.walk
                .seek(|at, time| wanted.begins_behind(at, time), &self.search.stop)?;
            self.block_position = self.walk.position;
            return Ok(true);
        }
        let next = next.map(|next| next.position);
        Err(JournalError::Damaged {
            path,
            offset,
            problem,
            next,
            lost_bytes: match next {
                Some(next) => Some(next - self.walk.position),
                None => self.lost_frame_bytes(),
            },
        })
    }

    /// Continues with the next file; the seek is still in progress.
    fn enter_going_on(&mut self, next: Source) {
        let (wanted, failed) = (self.wanted, self.walk.take_failures());
        self.enter(next);
        (self.wanted, self.walk.failed_before) = (wanted, failed);
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

    /// The first file behind that of the walk with a whole header.
    fn later_file(&self) -> Result<Option<Source>, JournalError> {
        let term = self.walk.source.header.term.get();
        let later = term::list(&self.base)?.into_iter().filter(|n| *n > term);
        first_whole(&self.base, later)
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
        if let Some(lost) = self.headless.take() {
            return Ok(Some(self.skipped(lost.start())));
        }
        let before = self.walk.position;
        let (offset, sequence) = (self.walk.offset, self.walk.sequence);
        let here = match self.walk.source.look(offset)? {
            term::Found::End => None,
            _ if self.skipped_frames().is_some() => self.skipped_frames().flatten(),
            _ => self
                .walk
                .source
                .whole_after(offset, sequence, &self.search)?,
        };
        if let Some((offset, header)) = here {
            // The next run has those before the damage.
            let failures = self.walk.take_failures();
            self.walk.jump(offset, &header);
            self.walk.failed_before = failures;
            self.walk.take_lanes_of_index()?;
            // What is missing there was reported as damage.
            self.walk.forget_ends();
            (self.run, self.at, self.block_position) = (0, 0, self.walk.position);
            return Ok(Some(self.skipped(Some(before))));
        }
        let Some(later) = self.later_file()? else {
            return Ok(None);
        };
        let is_ours = later.header.journal == self.walk.source.header.journal;
        self.enter_going_on(later);
        Ok(Some(self.skipped(is_ours.then_some(before))))
    }

    fn skipped(&self, before: Option<u64>) -> Skipped {
        Skipped {
            path: self.walk.source.path.clone(),
            offset: self.walk.offset.max(TERM_BYTES),
            lost_bytes: before.and_then(|before| self.walk.position.checked_sub(before)),
        }
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

    /// Path of the journal.
    pub(super) fn path(&self) -> &Path {
        &self.base
    }

    /// Position of the first frame of the newest file.
    pub(super) fn newest_start(&self) -> Result<u64, JournalError> {
        let newest = term::list(&self.base)?.last().copied().unwrap_or(0);
        Ok(source(&self.base, newest)?.header.position.get())
    }

    /// Number of the journal.
    pub(super) fn journal(&self) -> u64 {
        self.walk.source.header.journal.get()
    }

    /// Why the recordings behind the last returned run failed, oldest first, where another one
    /// follows that has no run yet. As [`Run::failed_before`]; a failure without a later recording
    /// is a [`Replay::state`].
    #[must_use]
    pub fn failed_before(&self) -> &[String] {
        &self.walk.failed_before
    }

    /// Why the recordings before the place of the replay failed, if no run was returned since, also
    /// where the journal ends with that: once.
    pub(super) fn take_failures(&mut self) -> Vec<String> {
        self.walk.take_failures()
    }

    /// The failures before this place are not for the next run.
    pub(super) fn forget_failures(&mut self) {
        self.failed_before.clear();
        self.walk.forget_failures();
    }

    /// As [`Replay::failed_before`], once: the run behind it does not have it again.
    pub(super) fn take_failed_before(&mut self) -> Vec<String> {
        std::mem::take(&mut self.walk.failed_before)
    }

    /// Journal position after the last returned run.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.block_position + self.at as u64
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
