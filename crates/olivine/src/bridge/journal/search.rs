//! The search for the next whole block behind damage.
//!
//! It may read a whole file, so it is made once: readers of one journal that are opened one after
//! another share what was found. Holes of a sparse file are passed without reading them.

use super::format::{BLOCK_BYTES, BLOCK_MAGIC, BlockHeader};
use super::stop_when::StopWhen;
use super::term::{self, Found, Source};
use crate::error::JournalError;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes per read.
const WINDOW: usize = 1 << 20;
/// Files whose searches are kept.
const FILES_MAX: usize = 16;
/// Searches that are kept of one file.
const SEARCHES_MAX: usize = 128;

#[cfg(test)]
thread_local! {
    /// Windows that this thread read in searches.
    pub(super) static WINDOWS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How a reader searches: what ends that early, and what was found before. Clones share the latter.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    pub(super) stop: StopWhen,
    files: Arc<Mutex<VecDeque<Searched>>>,
}

/// What searches of one file found, as long as nothing is written to it.
#[derive(Debug)]
struct Searched {
    file: State,
    /// Bytes of bodies that were read and not whole.
    spent: u64,
    found: VecDeque<((u64, u64), WholeBlock)>,
}

/// The first whole block behind a place; `None` if there is none.
type WholeBlock = Option<(u64, BlockHeader)>;

/// What changes if a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    id: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    fn of(file: &Metadata) -> Self {
        Self {
            id: (file.dev(), file.ino()),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl Search {
    /// A search that `stop` ends.
    pub(super) fn until(stop: StopWhen) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Knows what this one found, and is ended by `stop`.
    pub(super) fn with(&self, stop: StopWhen) -> Self {
        Self {
            stop,
            files: Arc::clone(&self.files),
        }
    }

    fn with_files<R>(&self, use_it: impl FnOnce(&mut VecDeque<Searched>) -> R) -> R {
        use_it(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the search from there found in this file; else the bytes of bodies that were read.
    fn known(&self, file: State, from: (u64, u64)) -> Result<WholeBlock, u64> {
        self.with_files(|files| {
            let Some(searched) = files.iter().find(|searched| searched.file == file) else {
                return Err(0);
            };
            let found = searched.found.iter().find(|(place, _)| *place == from);
            found.map_or(Err(searched.spent), |(_, found)| Ok(found.clone()))
        })
    }

    fn keep(&self, file: State, from: (u64, u64), found: &WholeBlock, spent: u64) {
        self.with_files(|files| {
            files.retain(|searched| searched.file == file || searched.file.id != file.id);
            let place = files.iter().position(|searched| searched.file == file);
            let mut searched = place.and_then(|at| files.remove(at)).unwrap_or(Searched {
                file,
                spent: 0,
                found: VecDeque::new(),
            });
            searched.spent = searched.spent.max(spent);
            searched.found.push_back((from, found.clone()));
            if searched.found.len() > SEARCHES_MAX {
                searched.found.pop_front();
            }
            files.push_back(searched);
            if files.len() > FILES_MAX {
                files.pop_front();
            }
        });
    }
}

impl Source {
    /// The first whole block behind damage at `offset`: with a number from `sequence` on, at
    /// `offset` itself with a later one. Bytes may have been cut out or put in, so any byte may be
    /// its first.
    ///
    /// Bodies are checked as long as those that are not whole are no longer than the file twice,
    /// over all searches in it. After that, only headers are checked, so that a forged file cannot
    /// cause endless reads. Reading the block finds the damage then.
    pub(super) fn whole_after(
        &self,
        offset: u64,
        sequence: u64,
        search: &Search,
    ) -> Result<WholeBlock, JournalError> {
        let file = State::of(&self.metadata()?);
        let mut spent = match search.known(file, (offset, sequence)) {
            Ok(found) => return Ok(found),
            Err(spent) => spent,
        };
        let found = self.look_for(offset, sequence, file.bytes, &mut spent, &search.stop)?;
        search.keep(file, (offset, sequence), &found, spent);
        Ok(found)
    }

    fn look_for(
        &self,
        offset: u64,
        sequence: u64,
        length: u64,
        spent: &mut u64,
        stop: &StopWhen,
    ) -> Result<WholeBlock, JournalError> {
        let (mut window, mut body) = (Vec::new(), Vec::new());
        let mut at = offset;
        while at + BLOCK_BYTES <= length {
            stop.check(&self.path)?;
            match self.data_from(at)? {
                Some(data) => at = data,
                None => break,
            }
            self.read(at, WINDOW as u64, &mut window)?;
            #[cfg(test)]
            WINDOWS.with(|count| count.set(count.get() + 1));
            for n in magics(&window) {
                let place = at + n as u64;
                stop.check(&self.path)?;
                let Found::Block(header) = self.look(place)? else {
                    continue;
                };
                let is_at_damage = place == offset && header.sequence.get() == sequence;
                if header.sequence.get() < sequence || is_at_damage {
                    continue;
                }
                let cost = header.stored.get();
                let sum = spent.saturating_add(cost);
                if sum > length.saturating_mul(2) || self.body(place, &header, &mut body)? {
                    return Ok(Some((place, header)));
                }
                *spent = sum;
            }
            // The text may begin in the last bytes of this window.
            let Some(read @ 1..) = (window.len() + 1).checked_sub(BLOCK_MAGIC.len()) else {
                break;
            };
            at += read as u64;
        }
        Ok(None)
    }

    /// The first byte from `at` on that is not in a hole of the file; `None` if there is none. No
    /// byte of the text of a block is 0, so none of it is in a hole.
    fn data_from(&self, at: u64) -> Result<Option<u64>, JournalError> {
        match rustix::fs::seek(self.file(), SeekFrom::Data(at)) {
            Ok(data) => Ok(Some(data.max(at))),
            Err(Errno::NXIO) => Ok(None),
            // A file system that does not tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(at)),
            Err(errno) => Err(term::refused("search", &self.path)(errno)),
        }
    }
}

/// Where the text of a block begins in `window`. Looks at every eighth byte where none of that text
/// is: a damaged part may be many GiB long.
fn magics(window: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let text = window.get(at..at + BLOCK_MAGIC.len())?;
            let begin = at;
            at += SHIFTS[usize::from(text[BLOCK_MAGIC.len() - 1])];
            if text == BLOCK_MAGIC {
                return Some(begin);
            }
        }
    })
}

/// For each last byte of eight how far the next eight that may be the text of a block are.
const SHIFTS: [usize; 256] = {
    let mut shifts = [BLOCK_MAGIC.len(); 256];
    let mut n = 0;
    while n + 1 < BLOCK_MAGIC.len() {
        shifts[BLOCK_MAGIC[n] as usize] = BLOCK_MAGIC.len() - 1 - n;
        n += 1;
    }
    shifts
};

#[cfg(all(test, not(loom)))]
mod tests;
