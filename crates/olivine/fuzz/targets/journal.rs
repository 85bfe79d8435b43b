//! Journals: any bytes of a file, or blocks whose checks match.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_journal(data));
