//! Files of a channel: which settings open it, then words that are changed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_control(data));
