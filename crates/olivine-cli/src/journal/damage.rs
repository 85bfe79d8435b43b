//! Damage in a journal, and what is lost by it.

use olivine::journal::JournalError;
use std::path::PathBuf;

/// Most places that are listed. All are counted.
const LISTED_MAX: usize = 1024;

/// Damage that was found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    pub(super) places: u64,
    /// Places whose bytes are unknown, and the bytes of frames of the others.
    unknown: u64,
    known_bytes: u64,
    /// The first of them.
    pub(super) listed: Vec<DamagedPlace>,
}

/// A damaged part of a journal.
#[derive(Debug)]
pub(super) struct DamagedPlace {
    /// The file, and the byte at which it begins there.
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    pub(super) problem: &'static str,
    /// Journal position behind it; `None` if nothing behind it can be read.
    pub(super) next: Option<u64>,
    /// Bytes of frames that were lost, over all lanes; `None` if they are unknown.
    pub(super) lost_bytes: Option<u64>,
}

impl Damage {
    /// The damage of this error: the bytes that are lost there, and the position behind it.
    pub(super) fn add(&mut self, error: &JournalError, lost_bytes: Option<u64>, next: Option<u64>) {
        self.places += 1;
        self.unknown += u64::from(lost_bytes.is_none());
        // A forged file may name any positions.
        self.known_bytes = self.known_bytes.saturating_add(lost_bytes.unwrap_or(0));
        if let JournalError::Damaged {
            path,
            offset,
            problem,
            ..
        } = error
            && self.listed.len() < LISTED_MAX
        {
            self.listed.push(DamagedPlace {
                path: path.clone(),
                offset: *offset,
                problem,
                next,
                lost_bytes,
            });
        }
    }

    /// The damage of this error, behind which nothing can be read.
    pub(super) fn add_last(&mut self, error: &JournalError) {
        if let JournalError::Damaged { lost_bytes, .. } = error {
            self.add(error, *lost_bytes, None);
        }
    }

    /// All bytes of frames that were lost, if they are known.
    pub(super) fn bytes(&self) -> Option<u64> {
        (self.unknown == 0).then_some(self.known_bytes)
    }

    /// What is lost.
    pub(super) fn sentence(&self) -> Option<String> {
        let bytes = match self.bytes() {
            Some(bytes) => bytes.to_string(),
            None => "an unknown number of".to_owned(),
        };
        let places = match self.places {
            0 => return None,
            1 => "1 place".to_owned(),
            places => format!("{places} places"),
        };
        Some(format!(
            "{bytes} bytes of frames were lost by damage, in {places}"
        ))
    }

    /// As [`Damage::sentence`], where all of it was skipped.
    pub(super) fn skipped_sentence(&self) -> Option<String> {
        let is = if self.places == 1 { "was" } else { "were" };
        Some(format!("{} that {is} skipped", self.sentence()?))
    }
}
