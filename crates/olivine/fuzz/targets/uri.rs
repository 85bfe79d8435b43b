//! URIs: any text.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_uri(data));
