//! Checks that must hold for any input bytes. The fuzz targets (`fuzz/`) and the replay of the kept
//! inputs run the same checks.
//!
//! A failed check panics, which fuzzers and tests detect. The fuzz targets run under
//! AddressSanitizer, which detects accesses outside a buffer.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

mod control;
pub(crate) mod input;
mod refusals;

use crate::error::{LinkError, OpenError, ReceiveError};

#[cfg(feature = "journal")]
pub use crate::bridge::journal::fuzz_checks::check_journal;
#[cfg(feature = "tcp")]
pub use crate::bridge::wire::fuzz_checks::check_wire;
pub use crate::channel::sealed::fuzz_checks::check_sealed;
pub use crate::ring::fuzz_checks::check_frames;
pub use crate::uri::fuzz_checks::check_uri;
pub use control::check_control;

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use std::path::Path;

    /// Checks every kept input of a target. Returns their number.
    fn replay(target: &str, check: fn(&[u8])) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let packed = std::fs::read_to_string(folder.join(format!("{target}.hex")))
            .unwrap_or_else(|error| panic!("corpus of {target}: {error}"));
        for line in packed.lines() {
            println!("{line}");
            check(&HEXLOWER.decode(line.as_bytes()).unwrap());
        }
        let count = packed.lines().count();
        println!("{target}: {count} kept inputs hold");
        count
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn kept_fuzz_inputs_pass_all_checks() {
        assert!(replay("uri", check_uri) > 20);
        assert!(replay("control", check_control) > 20);
        assert!(replay("frames", check_frames) > 20);
        assert!(replay("sealed", check_sealed) > 20);
        #[cfg(feature = "tcp")]
        assert!(replay("wire", check_wire) > 20);
        #[cfg(feature = "journal")]
        assert!(replay("journal", check_journal) > 20);
    }
}
