//! Opening an existing journal: exclusively, and at the end of its last whole block.

use super::format::{Sealed, TERM_BYTES, TermHeader};
use super::index::Index;
use super::lane::Known;
use super::recorder::TakenUp;
use super::search::Search;
use super::settings::RecorderSettings;
use super::term::{self, Source};
use super::walk::{Step, Walk};
use crate::error::JournalError;
use crate::liveness::Locks;
use crate::uri::SyncPolicy;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// Bytes at the end of a file that are not a whole block: a process died, or the power failed,
/// during a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// End of the last whole block, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes behind it.
    pub bytes: u64,
}

/// What an earlier recorder left unfinished.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Bytes of frames that are recorded in whole blocks, over all files.
    pub position: u64,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<Torn>,
    /// Why the recorder before failed, if it did and could say so.
    pub failed: Option<String>,
    /// Start of damage that whole blocks follow: byte of the newest file. It is left unchanged;
    /// recording continues in the next file.
    pub damaged: Option<u64>,
}

/// Locks the newest file of the journal at `base`, or a new one, and reads its state.
pub(super) fn take(
    base: &Path,
    settings: &RecorderSettings,
) -> Result<(u64, Locks, TakenUp), JournalError> {
    if base.file_name().is_none() {
        return Err(JournalError::NotAJournal {
            path: base.to_owned(),
            problem: "it names a folder",
        });
    }
    loop {
        let Some(newest) = term::list(base)?.last().copied() else {
            let header = TermHeader::new(settings.journal.unwrap_or_else(any_number), 0, 0, 0, 0);
            let sync = settings.sync != SyncPolicy::Never;
            match term::create(base, &header, settings.mode.0, sync)? {
                Some(locks) => return Ok((0, locks, begun(&header))),
                None => continue,
            }
        };
        let path = term::path_of(base, newest);
        if settings.only_new {
            return Err(JournalError::Exists { path });
        }
        let Some(file) = term::open(&path, true)? else {
            continue;
        };
        let Some(locks) = term::lock(file, &path)? else {
            return Err(JournalError::InUse { path });
        };
        // The last owner of the lock may have begun the next file before it released this one.
        if term::list(base)?.last() != Some(&newest) {
            continue;
        }
        let found = take_up(base, newest, &locks, settings)?;
        return Ok((newest, locks, found));
    }
}

/// A number that no other journal has.
fn any_number() -> u64 {
    // Seeded by the system's random numbers.
    RandomState::new().build_hasher().finish()
}

fn begun(header: &TermHeader) -> TakenUp {
    TakenUp {
        journal: header.journal.get(),
        is_newest: true,
        offset: TERM_BYTES,
        sequence: 0,
        position: 0,
        time: 0,
        described: 0,
        lanes: Vec::new(),
        index: Index::default(),
        sealed: Sealed::No,
        recovered: None,
    }
}

fn take_up(
    base: &Path,
    term: u64,
    locks: &Locks,
    settings: &RecorderSettings,
) -> Result<TakenUp, JournalError> {
    let path = term::path_of(base, term);
    let file = term::descriptor(locks).ok_or(JournalError::Forked)?;
    let length = rustix::fs::fstat(file)
        .map_err(term::refused("look at", &path))?
        .st_size;
    if length == 0 && term == 0 {
        // An empty file that another process created.
        let header = TermHeader::new(settings.journal.unwrap_or_else(any_number), 0, 0, 0, 0);
        term::write_at(file, &mut [IoSlice::new(header.as_bytes())], 0, &path)?;
        return Ok(begun(&header));
    }
    let Some(source) = Source::open(base, term)? else {
        return Err(JournalError::Missing { path });
    };
    if settings.sync != SyncPolicy::Never {
        // The creator of the file may have died before its name was on the disk.
        term::sync_folder(&path)?;
    }
    let mut walk = Walk::new(source);
    let mut recovered = None;
    if !walk.jump_to_seal()? {
        recovered = Some(walk_to_the_end(&mut walk)?);
    }
    if let Some(Recovered {
        torn: Some(torn),
        damaged: None,
        ..
    }) = &recovered
    {
        rustix::fs::ftruncate(file, torn.offset)
            .map_err(term::refused("cut the torn tail of", &path))?;
        if settings.sync != SyncPolicy::Never {
            rustix::fs::fdatasync(file).map_err(term::refused("force to the disk", &path))?;
        }
    }
    Ok(TakenUp {
        journal: walk.source.header.journal.get(),
        is_newest: walk.source.header.is_newest(),
        offset: walk.offset,
        sequence: walk.sequence,
        position: walk.position,
        time: walk.time,
        described: walk.lanes.len(),
        lanes: if walk.lanes.is_empty() {
            lanes_before(base, term)?
        } else {
            walk.lanes.into()
        },
        index: walk.index,
        sealed: walk.sealed,
        // An empty file that was never closed has nothing to report.
        recovered: recovered.filter(|found| {
            found.torn.is_some()
                || found.damaged.is_some()
                || walk.sealed == Sealed::No && walk.offset > TERM_BYTES
        }),
    })
}

/// The lanes as described in the newest file before `term` that has any. The creator of file `term`
/// died before it described them there; they continue at their ends.
fn lanes_before(base: &Path, term: u64) -> Result<Vec<Known>, JournalError> {
    for earlier in term::list(base)?.into_iter().rev() {
        if earlier >= term {
            continue;
        }
        let Some(source) = Source::open(base, earlier)? else {
            continue;
        };
        let mut walk = Walk::new(source);
        if !walk.jump_to_seal()? {
            walk_to_the_end(&mut walk)?;
        }
        if !walk.lanes.is_empty() {
            return Ok(walk.lanes.into());
        }
    }
    Ok(Vec::new())
}

/// Walks to the last whole block, over damage if whole blocks follow it.
fn walk_to_the_end(walk: &mut Walk) -> Result<Recovered, JournalError> {
    let mut damaged = None;
    let search = Search::default();
    loop {
        match walk.step()? {
            Step::Runs | Step::Passed => {}
            Step::End => break,
            Step::Not(_) => {
                let whole = walk
                    .source
                    .whole_after(walk.offset, walk.sequence, &search)?;
                let Some((offset, header)) = whole else {
                    break;
                };
                damaged.get_or_insert(walk.offset);
                walk.jump(offset, &header);
            }
        }
    }
    let bytes = walk.source.length()?.saturating_sub(walk.offset);
    Ok(Recovered {
        position: walk.position,
        torn: (bytes > 0 && damaged.is_none()).then(|| Torn {
            path: walk.source.path.clone(),
            offset: walk.offset,
            bytes,
        }),
        failed: walk.failure.clone(),
        damaged,
    })
}
