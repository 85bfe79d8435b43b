//! Both ends of a lane in heap memory: alignment and origin, then what each end does and which
//! words are changed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| olivine::fuzzing::check_frames(data));
