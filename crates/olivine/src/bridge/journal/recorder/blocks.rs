//! Appended frames into blocks, and blocks into files.

use super::Recorder;
use crate::bridge::journal::format::{
    BLOCK_BYTES, BlockFacts, BlockHeader, Codec, Kind, RunHeader, Sealed, TERM_BYTES, TermHeader,
};
use crate::bridge::journal::index::Index;
use crate::bridge::journal::{failure, lane, term};
use crate::error::JournalError;
use crate::uri::SyncPolicy;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Instant;
use zerocopy::IntoBytes;

impl Recorder {
    pub(super) fn descriptor(&self) -> Result<BorrowedFd<'_>, JournalError> {
        term::descriptor(&self.locks).ok_or(JournalError::Forked)
    }

    pub(super) fn write_collected(&mut self) -> Result<(), JournalError> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let (mut runs, mut frames) = (
            core::mem::take(&mut self.runs),
            core::mem::take(&mut self.frames),
        );
        let written = self.write_runs(&runs, &frames);
        if written.is_ok() {
            runs.clear();
            frames.clear();
        }
        (self.runs, self.frames) = (runs, frames);
        written
    }

    /// Writes one block of frames; begins the next file first if this one is full or old.
    pub(super) fn write_runs(
        &mut self,
        runs: &[RunHeader],
        frames: &[u8],
    ) -> Result<(), JournalError> {
        let table = runs.as_bytes();
        let packed = self.packer.pack(&[table, frames]);
        let stored = packed.as_ref().map_or(table.len() + frames.len(), Vec::len);
        if !self.is_newest || self.must_rotate(BLOCK_BYTES + stored as u64) {
            self.seal(Sealed::GoesOn)?;
            self.begin_next()?;
        }
        self.describe_holes(runs)?;
        self.describe_lanes()?;
        let (offset, sequence) = (self.offset, self.sequence);
        let time = runs.first().map_or(self.time, |run| run.time.get());
        let facts = BlockFacts {
            codec: if packed.is_some() {
                Codec::Zstd
            } else {
                Codec::Plain
            },
            // A block collects at most BLOCK_TARGET bytes, and a frame is at least 8.
            count: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            plain: (table.len() + frames.len()) as u64,
            ..self.facts(Kind::Frames, time)
        };
        match &packed {
            Some(packed) => self.write_block(&facts, &[packed])?,
            None => self.write_block(&facts, &[table, frames])?,
        }
        self.holed.clear();
        for run in runs {
            // At most 65,536 lanes.
            let lane = usize::try_from(run.lane.get()).unwrap_or(usize::MAX);
            if let Some(known) = self.lanes.get_mut(lane) {
                known.end = run.position.get() + run.bytes.get();
            }
        }
        self.index.add(offset, sequence, self.position, time);
        self.position += frames.len() as u64;
        Ok(())
    }

    fn must_rotate(&self, block_bytes: u64) -> bool {
        // A failed sync must find its blocks in the open file.
        let can_end = !self.index.is_empty() && self.syncing.is_none();
        let full = |bytes| {
            let room = self.index.bytes() + lane::bytes(&self.lanes) + 2 * BLOCK_BYTES;
            self.offset + block_bytes + room > bytes
        };
        let rotate = &self.settings.rotate;
        can_end
            && (rotate.bytes.is_some_and(full)
                || rotate
                    .after
                    .is_some_and(|after| self.opened.elapsed() >= after))
    }

    /// Describes the lanes that miss bytes before one of these runs again, each with its end. A
    /// reader that starts near there then finds the hole.
    pub(super) fn describe_holes(&mut self, runs: &[RunHeader]) -> Result<(), JournalError> {
        let (mut seen, mut holed, mut body) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for run in runs {
            // At most 65,536 lanes.
            let lane = usize::try_from(run.lane.get()).unwrap_or(usize::MAX);
            let known = self.lanes.get(lane).filter(|_| lane < self.described);
            // Once, also if the block of frames finds no room and is written again.
            if let Some(known) = known
                && seen.insert(lane)
                && !self.holed.contains(&lane)
                && known.missed_before(run.position.get()) > 0
            {
                lane::encode(lane, std::slice::from_ref(known), &mut body);
                holed.insert(lane);
            }
        }
        if holed.is_empty() {
            return Ok(());
        }
        let facts = BlockFacts {
            // At most 65,536 lanes.
            count: u32::try_from(holed.len()).unwrap_or(u32::MAX),
            plain: body.len() as u64,
            ..self.facts(Kind::Lanes, self.time)
        };
        self.write_block(&facts, &[&body])?;
        self.holed.append(&mut holed);
        Ok(())
    }

    /// Describes the lanes that this file does not have yet.
    fn describe_lanes(&mut self) -> Result<(), JournalError> {
        if self.described == self.lanes.len() {
            return Ok(());
        }
        let mut body = Vec::new();
        lane::encode(self.described, &self.lanes[self.described..], &mut body);
        let facts = BlockFacts {
            count: u32::try_from(self.lanes.len() - self.described).unwrap_or(u32::MAX),
            plain: body.len() as u64,
            ..self.facts(Kind::Lanes, self.time)
        };
        self.write_block(&facts, &[&body])?;
        self.described = self.lanes.len();
        Ok(())
    }

    /// Ends the file with its index, which says whether the journal continues in the next file.
    pub(super) fn seal(&mut self, sealed: Sealed) -> Result<(), JournalError> {
        if self.sealed == sealed {
            return Ok(());
        }
        self.describe_lanes()?;
        let body = self
            .index
            .encode(&self.lanes, self.offset, self.time, sealed);
        let facts = BlockFacts {
            count: u32::try_from(self.lanes.len()).unwrap_or(u32::MAX),
            plain: body.len() as u64,
            ..self.facts(Kind::Index, self.time)
        };
        self.write_block(&facts, &[&body])?;
        self.sealed = sealed;
        Ok(())
    }

    /// Marks the recording as failed, until something follows.
    pub(super) fn write_failure(&mut self, reason: &str) -> Result<(), JournalError> {
        if !self.is_newest {
            self.begin_next()?;
        }
        let (count, body) = failure::encode(reason);
        let facts = BlockFacts {
            count,
            plain: body.len() as u64,
            ..self.facts(Kind::Failure, self.time)
        };
        self.write_block(&facts, &[&body])
    }

    fn facts(&self, kind: Kind, time: u64) -> BlockFacts {
        BlockFacts {
            journal: self.journal,
            sequence: self.sequence,
            position: self.position,
            time,
            kind,
            codec: Codec::Plain,
            count: 0,
            plain: 0,
        }
    }

    /// Writes one whole block, or leaves the file unchanged.
    fn write_block(&mut self, facts: &BlockFacts, body: &[&[u8]]) -> Result<(), JournalError> {
        let header = BlockHeader::new(facts, body);
        let mut parts = vec![IoSlice::new(header.as_bytes())];
        parts.extend(body.iter().map(|part| IoSlice::new(part)));
        let file = self.descriptor()?;
        if let Err(error) = term::write_at(file, &mut parts, self.offset, &self.path) {
            // Readers then find an end, not a partial block. If this fails too, the next write
            // overwrites it.
            let _ = rustix::fs::ftruncate(file, self.offset);
            return Err(error);
        }
        self.offset += header.bytes();
        self.sequence += 1;
        self.dirty = true;
        // Unless it is the index: `seal` stores that then.
        self.sealed = Sealed::No;
        self.stats.blocks += 1;
        self.stats.file_bytes += header.bytes();
        Ok(())
    }

    /// Continues in a new file. The old one is on the disk before: no later sync covers it.
    pub(super) fn begin_next(&mut self) -> Result<(), JournalError> {
        let must_sync = self.settings.sync != SyncPolicy::Never;
        if must_sync {
            self.sync()?;
        }
        let (sequence, position) = (self.sequence, self.position);
        let header = TermHeader::new(self.journal, self.term + 1, sequence, position, self.time);
        let made = term::create(&self.base, &header, self.settings.mode.0, must_sync)?;
        let path = term::path_of(&self.base, self.term + 1);
        let Some(locks) = made else {
            return Err(JournalError::InUse { path });
        };
        // Only now, so that the newest file is locked at every moment.
        self.locks = locks;
        self.path = path;
        self.term += 1;
        self.offset = TERM_BYTES;
        self.synced_end = self.next_block();
        self.is_newest = true;
        self.described = 0;
        self.holed.clear();
        self.index = Index::default();
        self.sealed = Sealed::No;
        self.opened = Instant::now();
        self.stats.files += 1;
        self.stats.file_bytes += TERM_BYTES;
        Ok(())
    }
}
