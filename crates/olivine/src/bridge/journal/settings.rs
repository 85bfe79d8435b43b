//! How a journal is recorded.

use crate::error::JournalError;
use crate::uri::{Compression, Rotation, SyncPolicy};

/// How a journal is recorded. The defaults lose nothing in a power failure and keep one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until a recorder is opened with them"]
pub struct RecorderSettings {
    pub(super) sync: SyncPolicy,
    pub(super) compress: Compression,
    pub(super) rotate: Rotation,
    pub(super) mode: Mode,
    pub(super) only_new: bool,
    pub(super) mixed_types: bool,
    /// Number of a new journal; any if absent.
    pub(super) journal: Option<u64>,
}

/// Permission bits of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(pub(super) u32);

impl Default for Mode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl RecorderSettings {
    /// When blocks are synced to the disk. Default [`SyncPolicy::Block`].
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.sync = policy;
        self
    }

    /// How blocks are compressed. Default [`Compression::No`].
    pub fn compress(mut self, how: Compression) -> Self {
        self.compress = how;
        self
    }

    /// When recording continues in the next file. Default [`Rotation::NEVER`].
    pub fn rotate(mut self, when: Rotation) -> Self {
        self.rotate = when;
        self
    }

    /// Permission bits of new files, from `0o600` to `0o666`, independent of the umask. Default
    /// `0o600`.
    pub fn mode(mut self, bits: u32) -> Self {
        self.mode = Mode(bits);
        self
    }

    /// Whether an existing journal is refused with [`JournalError::Exists`], instead of continued.
    /// Default no.
    pub fn only_new(mut self, yes: bool) -> Self {
        self.only_new = yes;
        self
    }

    /// Whether a channel may have messages of several types. For copies: earlier
    /// recorders wrote such channels.
    #[doc(hidden)]
    pub fn mixed_types(mut self, yes: bool) -> Self {
        self.mixed_types = yes;
        self
    }

    /// Number of a new journal; random by default. For tests that compare bytes.
    #[doc(hidden)]
    pub fn journal(mut self, number: u64) -> Self {
        self.journal = Some(number);
        self
    }

    pub(super) fn check(&self) -> Result<(), JournalError> {
        let Mode(bits) = self.mode;
        if bits & !0o666 != 0 || bits & 0o600 != 0o600 {
            return Err(JournalError::Value {
                what: "mode",
                value: format!("{bits:04o}"),
                rule: "octal permission bits from 0600 to 0666 that keep 0600, such as 0660",
            });
        }
        if let Compression::Zstd(level) = self.compress
            && !(1..=19).contains(&level)
        {
            return Err(JournalError::Value {
                what: "compress",
                value: self.compress.to_string(),
                rule: "no, or zstd:LEVEL with a level from 1 to 19",
            });
        }
        Ok(())
    }
}
