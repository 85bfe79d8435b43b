//! Sealed channels: a datagram, or a hostile end of the socket with what it says, hands over and
//! writes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_sealed(data));
