//! One file of a journal, block by block. Each is fully checked before it is used.

use super::failure;
use super::format::{
    BLOCK_BYTES, BlockHeader, COUNT_MAX, Codec, Kind, RunHeader, Seal, Sealed, TERM_BYTES,
    TermHeader, count_frames,
};
use super::index::Index;
use super::lane::{self, Known, Lanes};
use super::pack;
use super::search::Search;
use super::stop_when::StopWhen;
use super::term::{Found, Source};
use crate::error::JournalError;
use std::path::Path;
use zerocopy::FromBytes;

/// What is wrong with a run whose lane is not known.
pub(super) const UNKNOWN_LANE: &str =
    "a run belongs to a lane whose description is damaged, and no other block describes it";

/// A position between two blocks of a file, and the facts from the blocks before it.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) source: Source,
    /// Start of the next block.
    pub(super) offset: u64,
    /// Number of the next block.
    pub(super) sequence: u64,
    /// Position of the next frame.
    pub(super) position: u64,
    /// Time of the newest run.
    pub(super) time: u64,
    pub(super) lanes: Lanes,
    /// Starts of the blocks walked so far.
    pub(super) index: Index,
    /// Whether the block before the position is an index, and what it says.
    pub(super) sealed: Sealed,
    /// The reason, if the block before the position says that its recorder failed.
    pub(super) failure: Option<String>,
    /// The reasons of earlier blocks, oldest first, which other recorders went on behind: no run
    /// was found since.
    pub(super) failed_before: Vec<String>,
    /// `failure` is not for what follows.
    is_failure_forgotten: bool,
    /// Runs of the block before the position.
    pub(super) runs: Vec<RunHeader>,
    /// For each run the bytes of its lane that are missing before it.
    pub(super) missed: Vec<u64>,
    /// Its stored body, and the decompressed one if it is compressed.
    stored: Vec<u8>,
    plain: Option<Vec<u8>>,
}

/// Where reading can go on behind damage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Position of its first frame.
    pub(super) position: u64,
    /// No run before it is newer.
    pub(super) time: u64,
}

impl Behind {
    /// At the block with this header.
    pub(super) fn of(header: &BlockHeader) -> Self {
        Self {
            position: header.position.get(),
            time: header.time.get(),
        }
    }
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A block of frames, now in `runs`.
    Runs,
    /// Another block.
    Passed,
    /// The end of the file; the position is unchanged.
    End,
    /// Invalid bytes, and the reason; the position is unchanged.
    Not(&'static str),
}

impl Walk {
    /// At the first block of a file.
    pub(super) fn new(source: Source) -> Self {
        let header = &source.header;
        Self {
            offset: TERM_BYTES,
            sequence: header.sequence.get(),
            position: header.position.get(),
            time: header.time.get(),
            lanes: Lanes::default(),
            index: Index::default(),
            sealed: Sealed::No,
            failure: None,
            failed_before: Vec::new(),
            is_failure_forgotten: false,
            runs: Vec::new(),
            missed: Vec::new(),
            stored: Vec::new(),
            plain: None,
            source,
        }
    }

    /// Frame bytes of the block before the position, from `at` on.
    pub(super) fn frames(&self, at: usize, bytes: usize) -> &[u8] {
        let body = self.plain.as_deref().unwrap_or(&self.stored);
        let first = self.runs.len() * size_of::<RunHeader>() + at;
        body.get(first..first + bytes).unwrap_or_default()
    }

    /// Moves over the next block, if it is whole.
    ///
    /// # Errors
    ///
    /// Errors of the system; [`JournalError::NoZstd`]. Damage is a result, not an error.
    pub(super) fn step(&mut self) -> Result<Step, JournalError> {
        let header = match self.source.look(self.offset)? {
            Found::Block(header) => header,
            Found::End => return Ok(Step::End),
            Found::Not(problem) => return Ok(Step::Not(problem)),
        };
        if header.sequence.get() != self.sequence || header.position.get() != self.position {
            return Ok(Step::Not("blocks are missing before this one"));
        }
        if !self.source.body(self.offset, &header, &mut self.stored)? {
            self.runs.clear();
            return Ok(Step::Not("the check of a block's body does not match"));
        }
        if !self.runs.is_empty() {
            self.failed_before.clear();
        }
        self.runs.clear();
        let before = self.failure.take();
        let sealed = match self.take_in(&header) {
            Ok(Ok(sealed)) => sealed,
            // The failure stays that of the last block that was read.
            Ok(Err(problem)) => {
                self.failure = before;
                self.runs.clear();
                return Ok(Step::Not(problem));
            }
            Err(error) => {
                self.failure = before;
                return Err(error);
            }
        };
        let before = before.filter(|_| !std::mem::take(&mut self.is_failure_forgotten));
        self.failed_before.extend(before);
        let kind = header.kind();
        if kind == Some(Kind::Frames) {
            let (offset, sequence) = (self.offset, self.sequence);
            self.index
                .add(offset, sequence, header.position.get(), header.time.get());
        }
        self.sealed = sealed;
        self.sequence += 1;
        self.offset += header.bytes();
        Ok(if kind == Some(Kind::Frames) {
            Step::Runs
        } else {
            Step::Passed
        })
    }

    /// Uses a body with a valid checksum as far as it is consistent, and returns its seal, if it is
    /// an index.
    fn take_in(
        &mut self,
        header: &BlockHeader,
    ) -> Result<Result<Sealed, &'static str>, JournalError> {
        self.plain = None;
        if header.codec() == Some(Codec::Zstd) {
            let unpacked = pack::unpack(&self.stored, header.plain.get(), &self.source.path)?;
            let Some(plain) = unpacked else {
                return Ok(Err("a block cannot be unpacked"));
            };
            self.plain = Some(plain);
        }
        let body = self.plain.as_deref().unwrap_or(&self.stored);
        let count = header.count.get();
        Ok(match header.kind() {
            Some(Kind::Lanes) => match lane::decode(count, body, &mut self.lanes) {
                Ok([]) => Ok(Sealed::No),
                Ok(_) => Err("something follows the description of the lanes"),
                Err(problem) => Err(problem),
            },
            Some(Kind::Index) => {
                Index::decode(count, body, &mut self.lanes).map(|(_, seal)| seal.sealed())
            }
            Some(Kind::Frames) => {
                let (lanes, runs) = (&mut self.lanes, &mut self.runs);
                let last = read_runs(count, body, lanes, runs, &mut self.missed);
                last.map(|(bytes, time)| {
                    self.position += bytes;
                    self.time = self.time.max(time);
                    Sealed::No
                })
            }
            Some(Kind::Failure) => failure::decode(count, body).map(|reason| {
                self.failure = Some(reason);
                Sealed::No
            }),
            None => Err("a block is of an unknown kind"),
        })
    }

    /// Moves to a later block with a known header.
    pub(super) fn jump(&mut self, offset: u64, header: &BlockHeader) {
        self.offset = offset;
        self.sequence = header.sequence.get();
        self.position = header.position.get();
        self.time = self.time.max(header.time.get());
        self.sealed = Sealed::No;
        self.failure = None;
        self.failed_before.clear();
        self.is_failure_forgotten = false;
        self.runs.clear();
    }

    /// Why the recorders before the position failed, oldest first, also where another one goes on
    /// behind that: each whose failure no run follows.
    pub(super) fn take_failures(&mut self) -> Vec<String> {
        let failure = self.failure.take();
        let failure = failure.filter(|_| !std::mem::take(&mut self.is_failure_forgotten));
        let mut failures = std::mem::take(&mut self.failed_before);
        failures.extend(failure);
        failures
    }

    /// The run behind this place does not have the failures before it.
    pub(super) fn forget_failures(&mut self) {
        self.failed_before.clear();
        self.is_failure_forgotten = self.failure.is_some();
    }

    /// The first whole block behind this place in its file.
    pub(super) fn whole_behind(&self, search: &Search) -> Result<Option<Behind>, JournalError> {
        let found = self
            .source
            .whole_after(self.offset, self.sequence, search)?;
        Ok(found.map(|(_, header)| Behind::of(&header)))
    }

    /// What is wrong if the file of this header follows here.
    pub(super) fn does_not_go_on(&self, next: &TermHeader) -> Option<&'static str> {
        if self.source.header.journal != next.journal {
            Some("it belongs to another journal")
        } else if (next.sequence.get(), next.position.get()) != (self.sequence, self.position) {
            Some("blocks are missing before this file")
        } else {
            None
        }
    }

    /// From here on no end of a lane is known: a run shows what is missing before it once the ends
    /// are described again, or another run of its lane was read.
    pub(super) fn forget_ends(&mut self) {
        for known in self.lanes.iter_mut() {
            known.end = 0;
        }
    }

    /// Takes lanes that are not known here from the index at the end of the file, if it has one:
    /// the block that described them may be damaged.
    pub(super) fn take_lanes_of_index(&mut self) -> Result<(), JournalError> {
        if let Some((.., lanes, _)) = self.read_seal()?
            && lanes.len() > self.lanes.len()
        {
            self.lanes = lanes;
        }
        Ok(())
    }

    /// Moves to the end of a closed file without reading what is before. Returns `false`, and
    /// changes nothing, if it does not end with an index.
    pub(super) fn jump_to_seal(&mut self) -> Result<bool, JournalError> {
        let Some((offset, header, seal, lanes, index)) = self.read_seal()? else {
            return Ok(false);
        };
        self.jump(offset, &header);
        self.offset += header.bytes();
        self.sequence += 1;
        self.time = seal.time.get();
        self.lanes = lanes;
        self.index = index;
        self.sealed = seal.sealed();
        Ok(true)
    }

    #[allow(clippy::type_complexity, reason = "taken apart at once by its callers")]
    fn read_seal(&self) -> Result<Option<(u64, BlockHeader, Seal, Lanes, Index)>, JournalError> {
        let length = self.source.length()?;
        let mut bytes = Vec::new();
        let Some(at) = length.checked_sub(size_of::<Seal>() as u64) else {
            return Ok(None);
        };
        self.source.read(at, size_of::<Seal>() as u64, &mut bytes)?;
        let Ok(seal) = Seal::read_from_bytes(&bytes) else {
            return Ok(None);
        };
        let offset = seal.offset.get();
        if offset < TERM_BYTES || offset > length - BLOCK_BYTES.min(length) {
            return Ok(None);
        }
        let Found::Block(header) = self.source.look(offset)? else {
            return Ok(None);
        };
        if header.kind() != Some(Kind::Index) || offset + header.bytes() != length {
            return Ok(None);
        }
        let mut body = Vec::new();
        if !self.source.body(offset, &header, &mut body)? {
            return Ok(None);
        }
        let mut lanes = Lanes::default();
        let Ok((index, seal)) = Index::decode(header.count.get(), &body, &mut lanes) else {
            return Ok(None);
        };
        Ok((seal.offset.get() == offset).then_some((offset, header, seal, lanes, index)))
    }

    /// Moves to the last frame block whose position and time `is_before` the target, or stays at
    /// this block. Reads only headers. Damage ends the search, and the next step finds it; `stop`
    /// ends it, too.
    pub(super) fn seek(
        &mut self,
        is_before: impl Fn(u64, u64) -> bool,
        stop: &StopWhen,
    ) -> Result<(), JournalError> {
        if let Some((.., lanes, index)) = self.read_seal()? {
            let near = index.last(|place| is_before(place.position.get(), place.time.get()));
            if let Some(place) = near
                && place.offset.get() >= self.offset
                && let Found::Block(header) = self.source.look(place.offset.get())?
                && header.sequence == place.sequence
                && header.position == place.position
            {
                self.lanes = lanes;
                self.jump(place.offset.get(), &header);
            }
        }
        let (mut at, mut sequence) = (self.offset, self.sequence);
        while let Found::Block(header) = self.source.look(at)? {
            stop.check(&self.source.path)?;
            if header.sequence.get() != sequence {
                break;
            }
            match header.kind() {
                Some(Kind::Frames) => {
                    if !is_before(header.position.get(), header.time.get()) {
                        break;
                    }
                    self.jump(at, &header);
                }
                Some(Kind::Lanes) => {
                    let mut body = Vec::new();
                    let whole = self.source.body(at, &header, &mut body)?;
                    if !whole || lane::decode(header.count.get(), &body, &mut self.lanes).is_err() {
                        break;
                    }
                }
                _ => {}
            }
            at += header.bytes();
            sequence += 1;
        }
        // Some were described behind the position.
        self.forget_ends();
        Ok(())
    }
}

/// Time of the last run of a block of frames with this stored body; `None` if the body is not one.
pub(super) fn last_run_time(
    header: &BlockHeader,
    stored: &[u8],
    path: &Path,
) -> Result<Option<u64>, JournalError> {
    let plain = match header.codec() {
        Some(Codec::Zstd) => pack::unpack(stored, header.plain.get(), path)?,
        _ => None,
    };
    let body = plain.as_deref().unwrap_or(stored);
    let last = (header.count.get() as usize)
        .checked_sub(1)
        .and_then(|last| last.checked_mul(size_of::<RunHeader>()));
    let run = last.and_then(|at| RunHeader::read_from_prefix(body.get(at..)?).ok());
    Ok(run.map(|(run, _)| run.time.get()))
}

/// Reads the run table of a frame block and walks every frame. Puts the bytes that are missing
/// before each run into `missed`. Returns the total frame bytes and the time of the last run.
fn read_runs(
    count: u32,
    body: &[u8],
    lanes: &mut [Known],
    runs: &mut Vec<RunHeader>,
    missed: &mut Vec<u64>,
) -> Result<(u64, u64), &'static str> {
    let table = (count as usize)
        .checked_mul(size_of::<RunHeader>())
        .filter(|table| count > 0 && *table <= body.len())
        .ok_or("a block's run table is cut")?;
    let (table, frames) = body.split_at(table);
    let mut rest = frames;
    let mut time = 0;
    for bytes in table.chunks_exact(size_of::<RunHeader>()) {
        let run = RunHeader::read_from_bytes(bytes).map_err(|_| "a block's run table is cut")?;
        let known = lanes.get(run.lane.get() as usize).ok_or(UNKNOWN_LANE)?;
        let (frames, after) = usize::try_from(run.bytes.get())
            .ok()
            .and_then(|bytes| rest.split_at_checked(bytes))
            .ok_or("a run goes on after the end of its block")?;
        let end = run.position.get().checked_add(run.bytes.get());
        if end.is_none_or(|end| end > COUNT_MAX) || frames.is_empty() {
            return Err("a run's position is not possible");
        }
        count_frames(frames, known.lane.align()).map_err(|_| "a run is not made of frames")?;
        rest = after;
        time = run.time.get();
        runs.push(run);
    }
    if !rest.is_empty() {
        return Err("something follows the last run of a block");
    }
    missed.clear();
    for run in runs.iter() {
        let mut hole = 0;
        if let Some(known) = lanes.get_mut(run.lane.get() as usize) {
            hole = known.missed_before(run.position.get());
            known.end = run.position.get() + run.bytes.get();
        }
        missed.push(hole);
    }
    Ok((frames.len() as u64, time))
}

#[cfg(test)]
mod tests {
    use super::super::format::{BlockFacts, TermHeader};
    use super::super::lane::Lane;
    use super::*;
    use zerocopy::IntoBytes;

    /// A number derived from the seed, as an index bound.
    fn place(seed: &mut u64, bound: usize) -> usize {
        usize::try_from(next(seed)).unwrap() % bound
    }

    /// A number derived from the seed.
    fn next(seed: &mut u64) -> u64 {
        *seed = seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        *seed >> 20
    }

    fn good_body(kind: Kind, lanes: &[Known]) -> (u32, Vec<u8>) {
        let mut body = Vec::new();
        match kind {
            Kind::Lanes => lane::encode(0, lanes, &mut body),
            Kind::Index => {
                let mut index = Index::default();
                index.add(TERM_BYTES, 0, 0, 5);
                index.add(TERM_BYTES + (1 << 20), 9, 800, 6);
                body = index.encode(lanes, 64, 7, Sealed::Closed);
            }
            Kind::Frames => {
                let run = RunHeader {
                    lane: 0.into(),
                    reserved: 0.into(),
                    position: 0.into(),
                    time: 1.into(),
                    bytes: 16.into(),
                };
                body.extend_from_slice(run.as_bytes());
                body.extend_from_slice(&[9, 0, 0, 0, 1, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0]);
            }
            Kind::Failure => return failure::encode("the sensor is gone"),
        }
        (1, body)
    }

    /// A forger computes valid checksums: the content may be anything.
    #[test]
    fn forged_bodies_are_refused_or_consistent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("forged.olv");
        let lanes = [Known {
            lane: Lane::new("ticks", 0, 8, 1),
            end: 0,
        }];
        let (mut refused, mut taken) = (0, 0);
        for seed in 0..1200 {
            let mut random = seed;
            let kind = Kind::ALL[usize::try_from(seed % 4).unwrap()];
            let mut file = TermHeader::new(7, 0, 0, 0, 0).as_bytes().to_vec();
            let mut sequence = 0;
            let mut block = |kind, count, body: &[u8]| {
                let facts = BlockFacts {
                    journal: 7,
                    sequence,
                    position: 0,
                    time: 0,
                    kind,
                    codec: Codec::Plain,
                    count,
                    plain: body.len() as u64,
                };
                sequence += 1;
                [BlockHeader::new(&facts, &[body]).as_bytes(), body].concat()
            };
            let (count, body) = good_body(Kind::Lanes, &lanes);
            file.extend(block(Kind::Lanes, count, &body));
            let (mut count, mut body) = good_body(kind, &lanes);
            for _ in 0..next(&mut random) % 4 {
                match next(&mut random) % 4 {
                    0 => count = u32::try_from(next(&mut random) & 0xffff_ffff).unwrap(),
                    1 => body.truncate(place(&mut random, body.len() + 1) / 8 * 8),
                    2 => {
                        let word = [0, 1, u64::MAX, 1 << 63, next(&mut random)];
                        let word = word[place(&mut random, 5)];
                        let at = place(&mut random, body.len() / 8 + 1) * 8;
                        if let Some(place) = body.get_mut(at..at + 8) {
                            place.copy_from_slice(&word.to_le_bytes());
                        }
                    }
                    _ => {
                        let at = place(&mut random, body.len() + 1);
                        if let Some(byte) = body.get_mut(at) {
                            *byte = next(&mut random).to_le_bytes()[0];
                        }
                    }
                }
            }
            file.extend(block(kind, count, &body));
            std::fs::write(&path, &file).unwrap();
            let mut walk = Walk::new(Source::open(&path, 0).unwrap().unwrap());
            assert_eq!(walk.step().unwrap(), Step::Passed, "seed {seed}");
            match walk.step().unwrap() {
                Step::Not(_) => refused += 1,
                Step::Runs => {
                    let bytes: u64 = walk.runs.iter().map(|run| run.bytes.get()).sum();
                    let frames = walk.frames(0, usize::try_from(bytes).unwrap());
                    assert_eq!(frames.len() as u64, bytes, "seed {seed}");
                    assert_eq!(
                        count_frames(frames, 8).map_err(|_| ()),
                        Ok(1),
                        "seed {seed}"
                    );
                    taken += 1;
                }
                Step::Passed => {
                    let is_failure = kind == Kind::Failure;
                    assert_eq!(walk.failure.is_some(), is_failure, "seed {seed}");
                    taken += 1;
                }
                Step::End => panic!("seed {seed}: the block is not seen"),
            }
            // A seek in it does not panic either.
            let mut walk = Walk::new(Source::open(&path, 0).unwrap().unwrap());
            let _ = walk.jump_to_seal().unwrap();
            let wanted = next(&mut random);
            walk.seek(|position, _| position <= wanted, &StopWhen::default())
                .unwrap();
            let _ = walk.step().unwrap();
        }
        assert!(
            refused > 100 && taken > 100,
            "{refused} refused, {taken} taken"
        );
    }
}
