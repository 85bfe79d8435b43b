//! Reading that a request may end, however far it is from the next message.

use super::term;
use crate::error::{JournalError, LinkError};
use core::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// Whether reading is to stop; never by default.
#[derive(Clone, Default)]
pub(super) struct StopWhen(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl StopWhen {
    pub(super) fn new(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }

    /// # Errors
    ///
    /// [`JournalError::Io`] of the kind `Interrupted`, if it is asked to stop.
    pub(super) fn check(&self, path: &Path) -> Result<(), JournalError> {
        if self.is_asked() {
            let stopped = io::Error::new(ErrorKind::Interrupted, "it was asked to stop");
            return Err(term::refused("read on in", path)(stopped));
        }
        Ok(())
    }

    /// Whether `error` is that of a reader that was asked to stop.
    pub(super) fn is_why(&self, error: &JournalError) -> bool {
        matches!(error, JournalError::Io { source, .. } if self.has_interrupted(source))
    }

    /// As [`StopWhen::is_why`], where the error is that of a bridge.
    pub(super) fn has_ended(&self, error: &LinkError) -> bool {
        matches!(error, LinkError::Io { source, .. } if self.has_interrupted(source))
    }

    fn has_interrupted(&self, source: &io::Error) -> bool {
        source.kind() == ErrorKind::Interrupted && self.is_asked()
    }
}

impl fmt::Debug for StopWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopWhen").field(&self.is_asked()).finish()
    }
}
