//! Files whose header cannot be read. Later files of the journal can.

use super::Replay;
use crate::bridge::journal::term::{self, Source};
use crate::error::JournalError;
use std::path::{Path, PathBuf};

/// A file without a usable header: what it holds is lost.
#[derive(Debug)]
pub(super) struct Headless {
    term: u64,
    pub(super) path: PathBuf,
    pub(super) problem: &'static str,
}

impl Headless {
    /// The file `term`, which `error` refused.
    ///
    /// # Errors
    ///
    /// `error`, if it does not say that the file is damaged.
    pub(super) fn of(error: JournalError, term: u64) -> Result<Self, JournalError> {
        match error {
            JournalError::Damaged { path, problem, .. }
            | JournalError::NotAJournal { path, problem } => Ok(Self {
                term,
                path,
                problem,
            }),
            other => Err(other),
        }
    }

    /// The damage; reading goes on at `next`.
    pub(super) fn error(&self, next: Option<u64>) -> JournalError {
        JournalError::Damaged {
            path: self.path.clone(),
            offset: 0,
            problem: self.problem,
            next,
            lost_bytes: next.zip(self.start()).map(|(next, start)| next - start),
        }
    }

    /// Position of its first frame; `None` if files before it were removed.
    pub(super) fn start(&self) -> Option<u64> {
        (self.term == 0).then_some(0)
    }
}

impl Replay {
    /// The damage, if the oldest file of the journal cannot be read, and the replay is at the start
    /// of the first readable one.
    pub(in crate::bridge::journal) fn lost_file(&self) -> Option<JournalError> {
        let lost = self.headless.as_ref()?;
        Some(lost.error(Some(self.walk.position)))
    }

    /// The file at which it stands.
    pub(in crate::bridge::journal) fn into_source(self) -> Source {
        self.walk.source
    }
}

/// The oldest readable file of the journal at `base`, found by `list`, and the one before it if it
/// cannot be read. It may be removed after it was listed: then the next one is the oldest.
pub(super) fn oldest(
    base: &Path,
    list: impl Fn() -> Result<Vec<u64>, JournalError>,
) -> Result<(Source, Option<Headless>), JournalError> {
    let mut gone = None;
    loop {
        let terms = list()?;
        let (term, number) = (terms.first().copied(), terms.first().copied().unwrap_or(0));
        match Source::open(base, number) {
            Ok(Some(source)) => return Ok((source, None)),
            Ok(None) => {}
            Err(error) => {
                let later = first_whole(base, terms.into_iter().skip(1))?;
                return match later {
                    Some(later) => Ok((later, Some(Headless::of(error, number)?))),
                    None => Err(error),
                };
            }
        }
        // A name that is listed again leads nowhere.
        if term.is_none() || gone == term {
            let path = term::path_of(base, number);
            return Err(JournalError::Missing { path });
        }
        gone = term;
    }
}

/// The first of the files `terms` with a whole header.
pub(super) fn first_whole(
    base: &Path,
    terms: impl Iterator<Item = u64>,
) -> Result<Option<Source>, JournalError> {
    for term in terms {
        match Source::open(base, term) {
            Ok(Some(source)) => return Ok(Some(source)),
            Ok(None) => {}
            Err(error) => drop(Headless::of(error, term)?),
        }
    }
    Ok(None)
}
