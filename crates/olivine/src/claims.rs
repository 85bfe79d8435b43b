//! What must hold for any bytes at all: the fuzz targets (`fuzz/`) and the replay of the kept inputs check the same claims.
//!
//! A claim that does not hold panics, which is what a fuzzer and a test look for. What leaves a buffer is found by
//! AddressSanitizer, under which the fuzz targets run.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

mod control;

#[cfg(feature = "journal")]
pub use crate::bridge::journal::claims::check_journal;
#[cfg(feature = "tcp")]
pub use crate::bridge::wire::claims::check_wire;
pub use crate::ring::claims::check_frames;
pub use crate::uri::claims::check_uri;
pub use control::check_control;

/// Bytes of a fuzzer as numbers; zeros once they are used up.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut found = [0; N];
        let bytes = self.bytes(N);
        found[..bytes.len()].copy_from_slice(bytes);
        found
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Checks every kept input of a target; returns how many there were.
    fn replay(target: &str, check: fn(&[u8])) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let files: Vec<_> = std::fs::read_dir(folder.join(target))
            .unwrap_or_else(|error| panic!("corpus of {target}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        for file in &files {
            println!("{}", file.display());
            check(&std::fs::read(file).unwrap());
        }
        println!("{target}: {} kept inputs hold", files.len());
        files.len()
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn every_kept_input_of_the_fuzz_targets_holds() {
        assert!(replay("uri", check_uri) > 20);
        assert!(replay("control", check_control) > 20);
        assert!(replay("frames", check_frames) > 20);
        #[cfg(feature = "tcp")]
        assert!(replay("wire", check_wire) > 20);
        #[cfg(feature = "journal")]
        assert!(replay("journal", check_journal) > 20);
    }

    #[test]
    fn an_input_that_is_used_up_goes_on_with_zeros() {
        let mut input = Input::new(&[1, 2, 3, 4]);
        assert_eq!((input.byte(), input.half(), input.word()), (1, 0x302, 4));
        assert!(input.is_empty() && input.bytes(3).is_empty() && input.word() == 0);
    }
}
