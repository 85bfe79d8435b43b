//! Chunked bodies: a byte that chooses the cuts, then any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine_net::fuzzing::check_chunked(data));
