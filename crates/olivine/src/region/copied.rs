//! A message copied out of a ring to a word boundary.

use zerocopy::IntoBytes;

/// Bytes that start on an 8-byte boundary, as payloads in a ring do. So typed messages can be
/// read in place in both.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    words: Vec<u64>,
    length: usize,
}

impl Copied {
    /// Holds the first `length` bytes of `words` from now on.
    pub(super) fn set(&mut self, words: impl Iterator<Item = u64>, length: usize) {
        self.words.clear();
        self.words.extend(words);
        self.length = length.min(self.words.len() * size_of::<u64>());
    }

    /// What was copied.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.words.as_bytes().get(..self.length).unwrap_or_default()
    }
}
