//! What the files of a journal say about it, without reading all of it.

use super::failure;
use super::format::{BlockHeader, Kind, RunHeader};
use super::lane::{self, Lane, Lanes};
use super::replay::{Replay, ReplayState, Run};
use super::search::Search;
use super::stop_when::StopWhen;
use super::term::{self, Found, Source};
use super::walk::{Step, Walk};
use crate::error::JournalError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most block headers read in a row, in the newest file if it has no index.
const HEADERS_MAX: usize = if cfg!(test) { 8 } else { 4096 };
/// Bytes at the end of such a file in which its last block is searched first; then four times as
/// many, and so on.
const TAIL_BYTES: u64 = if cfg!(test) { 256 } else { 1 << 20 };
/// Bytes of the oldest file in which the starts of lanes are looked for.
const FIRST_BYTES: u64 = 8 << 20;
/// Blocks of frames that are read.
const BLOCKS_READ: usize = 32;
/// Bytes of blocks after which no further block is read.
const BYTES_READ: u64 = 16 << 20;
/// Most different topics that are counted separately.
const TOPICS_MAX: usize = 1024;

/// A journal in short: its files, lanes, times and ending.
///
/// It comes from the headers and indexes of the files and from at most 32 blocks of frames, spread
/// over the journal. So it costs little for a journal of any length. Damage between these places
/// stays unseen: only [`Replay`] reads and checks every byte.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// The files, oldest first.
    pub files: Vec<OutlineFile>,
    /// The lanes that were found; all of them if `has_all_lanes`.
    pub lanes: Vec<OutlineLane>,
    /// Whether `lanes` are all lanes of the journal.
    pub has_all_lanes: bool,
    /// Journal position of the oldest frame in the files.
    pub start: u64,
    /// Journal position behind the newest frame.
    pub end: u64,
    /// When the first run was recorded, in nanoseconds since 1970; `None` without a run.
    pub first_ns: Option<u64>,
    /// When the newest run was recorded, in nanoseconds since 1970; `None` without a run.
    pub last_ns: Option<u64>,
    /// Bytes of all lanes that were never recorded, between recorded runs. `None` if indexes and
    /// the blocks that were read do not tell.
    pub missed_bytes: Option<u64>,
    /// The end of the journal.
    pub state: ReplayState,
    /// Damage at a place that was read. Nothing behind it was read.
    pub damage: Option<String>,
    /// Counts of the blocks that were read.
    pub read: BlocksRead,
}

/// A file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Journal position of its first frame.
    pub start: u64,
    /// Whether it ends with an index.
    pub has_index: bool,
}

/// A lane of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLane {
    /// Whose frames it has.
    pub lane: Lane,
    /// Position of its first recorded frame, if it was found.
    pub start: Option<u64>,
    /// Position behind its last recorded frame, if the journal ends with an index.
    pub end: Option<u64>,
    /// Its messages in the blocks that were read.
    pub messages: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
}

/// Counts of the blocks of frames that an [`Outline`] read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlocksRead {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of their frames.
    pub frame_bytes: u64,
    /// Their messages.
    pub messages: u64,
    /// Payload bytes of these messages.
    pub payload_bytes: u64,
    /// Messages for each topic, of at most 1,024 topics; "" for messages without a topic.
    pub topics: BTreeMap<String, u64>,
    /// Messages of further topics.
    pub other_topics: u64,
}

/// Where a block of frames starts.
#[derive(Clone, Copy, Debug)]
struct Spot {
    term: u64,
    offset: u64,
    sequence: u64,
}

impl Outline {
    /// Reads the outline of the journal at `path`. Waits for nothing; reads a few MiB at most, and
    /// from damage on to the next whole block.
    ///
    /// # Errors
    ///
    /// [`JournalError`]: `Missing`, `NotAJournal`, `Version`, `Damaged` for a file's header or a
    /// missing file, `Io`, `NoZstd`.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        Self::read_by(path, &Search::default())
    }

    /// As [`Outline::read`], until `asked` returns true: the search for the next whole block may
    /// take long in a damaged file.
    ///
    /// # Errors
    ///
    /// As [`Outline::read`]; [`JournalError::Io`] as from [`Replay::stop_when`].
    pub fn read_until(
        path: &Path,
        asked: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, JournalError> {
        Self::read_by(path, &Search::until(StopWhen::new(asked)))
    }

    fn read_by(path: &Path, search: &Search) -> Result<Self, JournalError> {
        let mut replay = Replay::open(path)?;
        let mut known = Lanes::default();
        let mut spots = Vec::new();
        let mut files: Vec<OutlineFile> = Vec::new();
        let mut damage = None;
        let mut all_lanes = true;
        let mut last_ns = None;
        // Where the file before ended, if it ended with an index.
        let mut before: Option<(u64, u64)> = None;
        let mut journal = None;
        for term in term::list(path)? {
            let source = match Source::open(path, term) {
                Ok(Some(source)) => source,
                // The oldest one was removed since the listing.
                Ok(None) if files.is_empty() => continue,
                Ok(None) => return Err(missing(path, term)),
                Err(error) if files.is_empty() => {
                    // Later files may be whole.
                    damage = Some(replay.lost_file().ok_or(error)?.to_string());
                    continue;
                }
                Err(error) => {
                    damage.get_or_insert_with(|| error.to_string());
                    break;
                }
            };
            let (bytes, start) = (source.length()?, source.header.position.get());
            let begins = (source.header.sequence.get(), start);
            let ours = *journal.get_or_insert(source.header.journal);
            if ours != source.header.journal || before.is_some_and(|end| end != begins) {
                let place = source.path.display();
                damage.get_or_insert_with(|| format!("blocks are missing before {place}"));
            }
            let mut walk = Walk::new(source);
            let has_index = walk.jump_to_seal()?;
            files.push(OutlineFile {
                path: walk.source.path.clone(),
                bytes,
                start,
                has_index,
            });
            if has_index {
                known.clone_from(&walk.lanes);
                let places = walk.index.places();
                spots.extend(places.map(|(offset, sequence)| Spot {
                    term,
                    offset,
                    sequence,
                }));
                before = Some((walk.sequence, walk.position));
                all_lanes = true;
                last_ns = Some(walk.time);
            } else {
                before = None;
                walk.lanes.clone_from(&known);
                let (newest, complete) =
                    without_index(&mut walk, term, &mut spots, &mut damage, search)?;
                last_ns = newest.or(last_ns);
                known.clone_from(&walk.lanes);
                all_lanes = complete;
            }
            replay.stay_behind(walk)?;
        }
        if files.is_empty() {
            return Err(missing(path, 0));
        }
        let (state, end) = (replay.state(), replay.position());
        let has_index = files.last().is_some_and(|file| file.has_index);
        let start = files.first().map_or(0, |file| file.start);
        let mut outline = Self {
            files,
            lanes: known
                .iter()
                .map(|known| OutlineLane {
                    lane: known.lane.clone(),
                    start: None,
                    end: Some(known.end).filter(|_| has_index),
                    messages: 0,
                    payload_bytes: 0,
                })
                .collect(),
            has_all_lanes: all_lanes,
            start,
            end,
            first_ns: None,
            last_ns: last_ns.filter(|_| end > start),
            missed_bytes: None,
            state,
            damage,
            read: BlocksRead::default(),
        };
        outline.read_first(path, search)?;
        outline.read_some(path, &known, &spots, search)?;
        outline.missed_bytes = outline.missed();
        Ok(outline)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Finds the first run, and where the lanes of the first block begin.
    fn read_first(&mut self, path: &Path, search: &Search) -> Result<(), JournalError> {
        let mut walk = Walk::new(Replay::open(path)?.into_source());
        while walk.offset < FIRST_BYTES {
            let ends: Vec<u64> = walk.lanes.iter().map(|known| known.end).collect();
            match walk.step()? {
                Step::Passed => continue,
                Step::End => break,
                Step::Not(problem) => {
                    // Behind everything it is the torn tail.
                    if walk.position < self.end {
                        note_damage(&mut self.damage, &walk, problem, search);
                    }
                    break;
                }
                Step::Runs => {}
            }
            if self.first_ns.is_none() {
                self.first_ns = walk.runs.first().map(|run| run.time.get());
                for (lane, end) in self.lanes.iter_mut().zip(ends) {
                    // Recorded in files that were removed since.
                    lane.start = Some(end).filter(|end| *end > 0);
                }
            }
            for run in &walk.runs {
                if let Some(lane) = self.lanes.get_mut(run.lane.get() as usize) {
                    lane.start.get_or_insert_with(|| run.position.get());
                }
            }
            if self.lanes.iter().all(|lane| lane.start.is_some()) {
                break;
            }
        }
        Ok(())
    }

    /// Counts the messages of some blocks, spread over the journal.
    fn read_some(
        &mut self,
        path: &Path,
        known: &Lanes,
        spots: &[Spot],
        search: &Search,
    ) -> Result<(), JournalError> {
        let mut bytes = 0;
        let mut open: Option<(u64, Walk)> = None;
        for spot in spread(spots) {
            if bytes >= BYTES_READ {
                break;
            }
            let mut walk = match open.take() {
                Some((term, walk)) if term == spot.term => walk,
                _ => match Source::open(path, spot.term)? {
                    Some(source) => Walk::new(source),
                    // Removed since the listing.
                    None => continue,
                },
            };
            walk.lanes = known.clone();
            // Damage is at this place, not where the walk stands.
            (walk.offset, walk.sequence) = (spot.offset, spot.sequence);
            let Found::Block(header) = walk.source.look(spot.offset)? else {
                note_damage(
                    &mut self.damage,
                    &walk,
                    "an index names a block that is not there",
                    search,
                );
                break;
            };
            if header.sequence.get() != spot.sequence || header.kind() != Some(Kind::Frames) {
                note_damage(
                    &mut self.damage,
                    &walk,
                    "an index names another block",
                    search,
                );
                break;
            }
            walk.jump(spot.offset, &header);
            match walk.step()? {
                Step::Runs => self.count(&walk),
                Step::Not(problem) if self.has_all_lanes => {
                    note_damage(&mut self.damage, &walk, problem, search);
                    break;
                }
                _ => {}
            }
            bytes += header.bytes();
            open = Some((spot.term, walk));
        }
        Ok(())
    }

    /// Counts the messages of the block before the position of `walk`.
    fn count(&mut self, walk: &Walk) {
        self.read.blocks += 1;
        let mut at = 0;
        for header in &walk.runs {
            // Checked when the block was read.
            let bytes = usize::try_from(header.bytes.get()).unwrap_or(usize::MAX);
            let lane = header.lane.get() as usize;
            let Some(known) = walk.lanes.get(lane) else {
                continue;
            };
            let run = Run {
                lane: &known.lane,
                position: header.position.get(),
                journal_position: 0,
                time_ns: header.time.get(),
                frames: walk.frames(at, bytes),
                missed_bytes: 0,
                failed_before: &[],
            };
            at += bytes;
            self.read.frame_bytes += bytes as u64;
            let (mut messages, mut payload_bytes) = (0, 0);
            for message in run.messages() {
                messages += 1;
                payload_bytes += message.payload.len() as u64;
                self.read.count_topic(message.topic);
            }
            self.read.messages += messages;
            self.read.payload_bytes += payload_bytes;
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.messages += messages;
                lane.payload_bytes += payload_bytes;
            }
        }
    }

    /// What the ends of the lanes say about bytes that were never recorded.
    fn missed(&self) -> Option<u64> {
        let mut spans = 0_u64;
        for lane in &self.lanes {
            match (lane.start, lane.end) {
                (Some(start), Some(end)) => {
                    spans = spans.checked_add(end.checked_sub(start)?)?;
                }
                // It has a description and no frame.
                (None, Some(0)) => {}
                _ => return None,
            }
        }
        let recorded = self.end.checked_sub(self.start)?;
        spans.checked_sub(recorded).filter(|_| self.has_all_lanes)
    }
}

impl BlocksRead {
    fn count_topic(&mut self, topic: &str) {
        if let Some(count) = self.topics.get_mut(topic) {
            *count += 1;
        } else if self.topics.len() < TOPICS_MAX {
            self.topics.insert(topic.to_owned(), 1);
        } else {
            self.other_topics += 1;
        }
    }
}

fn missing(path: &Path, term: u64) -> JournalError {
    JournalError::Missing {
        path: term::path_of(path, term),
    }
}

/// Some of `spots`, evenly spread; in an order in which also the first few are spread.
fn spread(spots: &[Spot]) -> impl Iterator<Item = Spot> + '_ {
    let count = spots.len().min(BLOCKS_READ);
    // 13 and a count up to 32 have a common divisor at 13 and 26 only.
    let step = if count.is_multiple_of(13) { 11 } else { 13 };
    (0..count).filter_map(move |n| {
        let place = n * step % count;
        spots.get(place * spots.len() / count).copied()
    })
}

/// Walks a file without an index to its end: from header to header at its start, then from the
/// last blocks on. Notes the blocks of frames on the way.
///
/// Returns the time of the newest run if there is one, and whether each header was read.
fn without_index(
    walk: &mut Walk,
    term: u64,
    spots: &mut Vec<Spot>,
    damage: &mut Option<String>,
    search: &Search,
) -> Result<(Option<u64>, bool), JournalError> {
    let mut last: Option<(u64, BlockHeader)> = None;
    let mut complete = true;
    let mut budget = HEADERS_MAX;
    loop {
        let problem = match walk.source.look(walk.offset)? {
            Found::End => break,
            Found::Not(problem) => problem,
            Found::Block(header)
                if header.sequence.get() != walk.sequence
                    || header.position.get() != walk.position =>
            {
                "blocks are missing before this one"
            }
            Found::Block(_) if budget == 0 && complete => {
                complete = false;
                ""
            }
            Found::Block(header) if !describe(walk, &header)? => {
                "the check of a block's body does not match"
            }
            Found::Block(header) => {
                if header.kind() == Some(Kind::Frames) {
                    spots.push(Spot {
                        term,
                        offset: walk.offset,
                        sequence: header.sequence.get(),
                    });
                    last = Some((walk.offset, header.clone()));
                }
                pass(walk, &header);
                budget = budget.saturating_sub(1);
                continue;
            }
        };
        let Some((offset, header)) = last_blocks(walk, search)? else {
            if problem.is_empty() {
                // The whole block here is the last one.
                continue;
            }
            // The torn tail.
            break;
        };
        if !problem.is_empty() {
            complete = false;
            note_damage(damage, walk, problem, search);
        }
        walk.jump(offset, &header);
    }
    let Some((offset, header)) = last else {
        return Ok((None, complete));
    };
    let time = last_time(walk, offset, &header)?;
    if time.is_none() && walk.offset == offset + header.bytes() {
        // The body of the last block is not whole: it is the torn tail.
        spots.pop();
        walk.offset = offset;
        walk.position = header.position.get();
    }
    Ok((time.or_else(|| Some(header.time.get())), complete))
}

/// The first whole block in the last MiB of the file, or in the last four, and so on.
fn last_blocks(walk: &Walk, search: &Search) -> Result<Option<(u64, BlockHeader)>, JournalError> {
    let length = walk.source.length()?;
    let mut window = TAIL_BYTES;
    loop {
        let from = length.saturating_sub(window).max(walk.offset);
        let found = walk.source.whole_after(from, walk.sequence, search)?;
        if found.is_some() || from == walk.offset {
            return Ok(found);
        }
        window = window.saturating_mul(4);
    }
}

fn note_damage(damage: &mut Option<String>, walk: &Walk, problem: &'static str, search: &Search) {
    damage.get_or_insert_with(|| {
        let (path, offset) = (walk.source.path.clone(), walk.offset);
        let error = JournalError::Damaged {
            path,
            offset,
            problem,
            next: walk
                .whole_behind(search)
                .ok()
                .flatten()
                .map(|behind| behind.position),
            // The walk may not have read up to here.
            lost_bytes: None,
        };
        error.to_string()
    });
}

/// Takes in the lanes that a block describes, or the failure that it reports; `false` if it is
/// damaged.
fn describe(walk: &mut Walk, header: &BlockHeader) -> Result<bool, JournalError> {
    let kind = header.kind();
    if kind != Some(Kind::Lanes) && kind != Some(Kind::Failure) {
        walk.failure = None;
        return Ok(true);
    }
    let mut body = Vec::new();
    if !walk.source.body(walk.offset, header, &mut body)? {
        return Ok(false);
    }
    if kind == Some(Kind::Failure) {
        walk.failure = failure::decode(header.count.get(), &body).ok();
        return Ok(walk.failure.is_some());
    }
    walk.failure = None;
    // A lane between the start and the end of the file may be unknown.
    let _ = lane::decode(header.count.get(), &body, &mut walk.lanes);
    Ok(true)
}

/// Moves over a block whose body is not read.
fn pass(walk: &mut Walk, header: &BlockHeader) {
    walk.offset += header.bytes();
    walk.sequence += 1;
    if header.kind() == Some(Kind::Frames) {
        let table = u64::from(header.count.get()) * size_of::<RunHeader>() as u64;
        walk.position += header.plain.get().saturating_sub(table);
    }
}

/// Time of the last run of the block at `offset`; `None` if its body is damaged.
fn last_time(walk: &Walk, offset: u64, header: &BlockHeader) -> Result<Option<u64>, JournalError> {
    let mut body = Vec::new();
    if !walk.source.body(offset, header, &mut body)? {
        return Ok(None);
    }
    super::walk::last_run_time(header, &body, &walk.source.path)
}

#[cfg(test)]
mod tests;
