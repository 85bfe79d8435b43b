//! Checks that must hold for any input bytes. The fuzz targets (`fuzz/` in the root of the
//! repository) and the replay of the kept inputs run the same checks.
//!
//! A module `fuzz_checks` beside the code has the check `check_NAME`. This module collects them,
//! `olivine::fuzzing` hands them out, and `fuzz/main.rs` runs the check of the target `NAME`.
//! CONTRIBUTING.md says how to add a target.
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

    /// The program with all targets, and the modules whose tests replay kept inputs.
    const PROGRAM: &str = "fuzz/main.rs";
    const REPLAYS: [&str; 2] = [
        "crates/olivine/src/fuzz_checks.rs",
        "crates/olivine-net/src/http/fuzz_checks.rs",
    ];

    /// Lines of a file of the repository, without comments and the spaces before them.
    fn code(path: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("//"));
        lines.map(str::to_owned).collect()
    }

    /// Checks every kept input of a target. Returns their number.
    fn replay(target: &str, check: fn(&[u8])) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
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

    /// A target without a line of `replay` would be checked by the fuzzer only, and one without
    /// kept inputs by no test.
    #[test]
    #[cfg_attr(miri, ignore = "reads a folder")]
    fn every_fuzz_target_has_kept_inputs_and_a_replay() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let files = std::fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut kept: Vec<_> = files.collect();
        kept.sort_unstable();
        let program = code(PROGRAM);
        let arms = program.iter();
        let arms = arms.filter_map(|line| line.strip_prefix('"')?.split_once("\" =>"));
        let mut targets: Vec<_> = arms.map(|(name, _)| format!("{name}.hex")).collect();
        targets.sort_unstable();
        assert!(targets.len() >= 8, "{targets:?}");
        assert_eq!(kept, targets, "files of fuzz/corpus, arms of fuzz/main.rs");
        let replays: Vec<_> = REPLAYS.into_iter().flat_map(code).collect();
        for target in targets {
            let name = target.trim_end_matches(".hex");
            let start = format!("assert!(replay(\"{name}\", ");
            let is_replayed = replays.iter().any(|line| line.starts_with(&start));
            assert!(is_replayed, "no test replays the kept inputs of {name}");
        }
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
