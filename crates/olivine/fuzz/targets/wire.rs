//! What arrives on a connection: a byte that chooses the pieces, then any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_wire(data));
