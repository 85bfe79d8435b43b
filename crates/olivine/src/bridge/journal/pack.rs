//! Compression of blocks, if the build has it.

use crate::error::JournalError;
use crate::uri::Compression;
use std::path::Path;

#[cfg(feature = "zstd")]
pub(super) use with_zstd::{Packer, unpack};
#[cfg(not(feature = "zstd"))]
pub(super) use without::{Packer, unpack};

#[cfg(feature = "zstd")]
mod with_zstd {
    use super::{Compression, JournalError, Path};
    use std::io::Read;

    /// Compresses bodies of blocks.
    pub(in super::super) struct Packer {
        zstd: Option<zstd::bulk::Compressor<'static>>,
    }

    impl Packer {
        pub(in super::super) fn new(how: Compression, path: &Path) -> Result<Self, JournalError> {
            let zstd = match how {
                Compression::No => None,
                Compression::Zstd(level) => {
                    let made = zstd::bulk::Compressor::new(level.into());
                    Some(made.map_err(super::super::term::refused("start zstd for", path))?)
                }
            };
            Ok(Self { zstd })
        }

        /// `body` compressed and padded to 8 bytes; `None` if that saves nothing.
        pub(in super::super) fn pack(&mut self, body: &[&[u8]]) -> Option<Vec<u8>> {
            let zstd = self.zstd.as_mut()?;
            let whole = body.concat();
            let mut packed = zstd.compress(&whole).ok()?;
            packed.resize(packed.len().next_multiple_of(8), 0);
            (packed.len() < whole.len()).then_some(packed)
        }
    }

    /// Decompresses to exactly `plain` bytes; `None` if it is damaged. Memory grows with the bytes,
    /// so a false length costs nothing.
    pub(in super::super) fn unpack(
        stored: &[u8],
        plain: u64,
        path: &Path,
    ) -> Result<Option<Vec<u8>>, JournalError> {
        let decoder = zstd::stream::read::Decoder::with_buffer(stored)
            .map_err(super::super::term::refused("start zstd for", path))?
            .single_frame();
        let mut bytes = Vec::new();
        let read = decoder.take(plain + 1).read_to_end(&mut bytes);
        Ok((read.is_ok() && bytes.len() as u64 == plain).then_some(bytes))
    }
}

#[cfg(not(feature = "zstd"))]
mod without {
    use super::{Compression, JournalError, Path};

    /// Compresses nothing: this build has no zstd.
    pub(in super::super) struct Packer;

    impl Packer {
        pub(in super::super) fn new(how: Compression, path: &Path) -> Result<Self, JournalError> {
            match how {
                Compression::No => Ok(Self),
                Compression::Zstd(_) => Err(refused(path)),
            }
        }

        #[allow(clippy::unused_self, reason = "as in the build with zstd")]
        pub(in super::super) fn pack(&mut self, _body: &[&[u8]]) -> Option<Vec<u8>> {
            None
        }
    }

    pub(in super::super) fn unpack(
        _stored: &[u8],
        _plain: u64,
        path: &Path,
    ) -> Result<Option<Vec<u8>>, JournalError> {
        Err(refused(path))
    }

    fn refused(path: &Path) -> JournalError {
        JournalError::NoZstd {
            path: path.to_owned(),
        }
    }
}
