//! Frames of lanes whose description is damaged: another block of the file may describe them, or
//! an earlier file.

use super::Replay;
use crate::bridge::journal::format::{BlockHeader, Codec, Kind, RunHeader, TERM_BYTES};
use crate::bridge::journal::index::Index;
use crate::bridge::journal::lane::{self, Lanes};
use crate::bridge::journal::pack;
use crate::bridge::journal::search::Search;
use crate::bridge::journal::term::{self, Found, Source};
use crate::bridge::journal::walk::{Behind, Walk};
use crate::error::JournalError;
use zerocopy::FromBytes;

/// Earlier files that are asked for lanes.
const FILES_MAX: usize = 64;

/// Whole blocks in a row that have frames of lanes that are described nowhere.
#[derive(Debug)]
pub(super) struct LostFrames {
    /// Where they begin in the file.
    offset: u64,
    /// The block behind them in the file.
    behind: Option<(u64, BlockHeader)>,
    /// Journal position behind the last of them.
    end: u64,
}

impl Replay {
    /// At a run of a lane that is not described here: takes the lanes that another block of the
    /// file describes, or the newest file before it that describes any. Numbers of lanes continue
    /// from file to file. `false` if there are not more of them, or if they were looked for
    /// before.
    pub(super) fn find_lanes(&mut self) -> Result<bool, JournalError> {
        if self.has_sought_lanes {
            return Ok(false);
        }
        let mut found = self.walk.lanes_of_file(&self.search)?;
        if found.len() <= self.walk.lanes.len() {
            found = self.lanes_before()?;
        }
        self.has_sought_lanes = true;
        if found.len() <= self.walk.lanes.len() {
            return Ok(false);
        }
        self.walk.lanes = found;
        self.walk.forget_ends();
        Ok(true)
    }

    fn lanes_before(&self) -> Result<Lanes, JournalError> {
        let ours = &self.walk.source.header;
        let terms = term::list(&self.base)?.into_iter().rev();
        for term in terms.filter(|n| *n < ours.term.get()).take(FILES_MAX) {
            // Its header may be damaged, too.
            let Ok(Some(source)) = Source::open(&self.base, term) else {
                continue;
            };
            if source.header.journal != ours.journal {
                break;
            }
            let mut walk = Walk::new(source);
            walk.seek(|_, _| true, &self.search.stop)?;
            if !walk.lanes.is_empty() {
                return Ok(walk.lanes);
            }
        }
        Ok(Lanes::default())
    }

    /// Where reading goes on behind the blocks here whose lanes are described nowhere; `None` if
    /// none of this file can be read behind them.
    pub(super) fn behind_lost_frames(&mut self) -> Result<Option<Behind>, JournalError> {
        let known = self.lost_frames.take().filter(|lost| self.is_at(lost));
        let lost = match known {
            Some(lost) => lost,
            None => self.look_over_lost_frames()?,
        };
        let behind = lost.behind.as_ref().map(|(_, header)| Behind::of(header));
        self.lost_frames = Some(lost);
        Ok(behind)
    }

    fn look_over_lost_frames(&self) -> Result<LostFrames, JournalError> {
        let (walk, source) = (&self.walk, &self.walk.source);
        let (mut at, mut sequence) = (walk.offset, walk.sequence);
        let mut end = walk.position;
        let mut body = Vec::new();
        let behind = loop {
            self.search.stop.check(&source.path)?;
            let header = match source.look(at)? {
                Found::Block(header) if header.sequence.get() >= sequence => Some((at, header)),
                Found::End => None,
                _ => source.whole_after(at, sequence, &self.search)?,
            };
            let Some((place, header)) = header else {
                break None;
            };
            let Some(bytes) = walk.frames_without_lane(place, &header, &mut body)? else {
                break Some((place, header));
            };
            end = end.max(header.position.get().saturating_add(bytes));
            (at, sequence) = (place + header.bytes(), header.sequence.get() + 1);
        };
        Ok(LostFrames {
            offset: walk.offset,
            behind,
            end,
        })
    }

    fn is_at(&self, lost: &LostFrames) -> bool {
        lost.offset == self.walk.offset
    }

    /// The block behind the frames here whose lanes are described nowhere; `None` if that is not
    /// the damage here.
    pub(super) fn skipped_frames(&self) -> Option<Option<(u64, BlockHeader)>> {
        let lost = self.lost_frames.as_ref().filter(|lost| self.is_at(lost))?;
        Some(lost.behind.clone())
    }

    /// Bytes of them.
    pub(super) fn lost_frame_bytes(&self) -> Option<u64> {
        let lost = self.lost_frames.as_ref().filter(|lost| self.is_at(lost))?;
        lost.end.checked_sub(self.walk.position)
    }
}

impl Walk {
    /// The most lanes that a block of the file describes from the first one on. Reads headers, and
    /// the blocks without frames.
    fn lanes_of_file(&self, search: &Search) -> Result<Lanes, JournalError> {
        let (mut at, mut sequence) = (TERM_BYTES, self.source.header.sequence.get());
        let (mut most, mut body) = (Lanes::default(), Vec::new());
        loop {
            search.stop.check(&self.source.path)?;
            let found = match self.source.look(at)? {
                Found::Block(header) if header.sequence.get() >= sequence => Some((at, header)),
                Found::End => None,
                _ => self.source.whole_after(at, sequence, search)?,
            };
            let Some((place, header)) = found else {
                return Ok(most);
            };
            let kind = header.kind();
            if matches!(kind, Some(Kind::Index | Kind::Lanes))
                && self.source.body(place, &header, &mut body)?
            {
                let (count, mut lanes) = (header.count.get(), Lanes::default());
                let is_read = match kind {
                    Some(Kind::Index) => Index::decode(count, &body, &mut lanes).is_ok(),
                    _ => lane::decode(count, &body, &mut lanes).is_ok_and(<[u8]>::is_empty),
                };
                if is_read && lanes.len() > most.len() {
                    most = lanes;
                }
            }
            (at, sequence) = (place + header.bytes(), header.sequence.get() + 1);
        }
    }

    /// Bytes of the frames of the block at `offset`, if a run of it belongs to a lane that is not
    /// known; `None` if not, or if the body is damaged.
    fn frames_without_lane(
        &self,
        offset: u64,
        header: &BlockHeader,
        body: &mut Vec<u8>,
    ) -> Result<Option<u64>, JournalError> {
        if header.kind() != Some(Kind::Frames) || !self.source.body(offset, header, body)? {
            return Ok(None);
        }
        let plain = match header.codec() {
            Some(Codec::Zstd) => pack::unpack(body, header.plain.get(), &self.source.path)?,
            _ => None,
        };
        let body = plain.as_deref().unwrap_or(body);
        let table = (header.count.get() as usize).checked_mul(size_of::<RunHeader>());
        let Some((table, frames)) = table.and_then(|bytes| body.split_at_checked(bytes)) else {
            return Ok(None);
        };
        let mut runs = table.chunks_exact(size_of::<RunHeader>());
        let is_unknown = runs.any(|run| {
            RunHeader::read_from_bytes(run)
                .is_ok_and(|run| run.lane.get() as usize >= self.lanes.len())
        });
        Ok(is_unknown.then_some(frames.len() as u64))
    }
}
