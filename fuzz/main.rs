//! The fuzz targets, in one program: the variable `OLIVINE_FUZZ_TARGET` chooses one of them.
#![no_main]

use olivine::fuzzing as core;
use olivine_net::fuzzing as net;
use std::sync::LazyLock;

static CHECK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let target = std::env::var("OLIVINE_FUZZ_TARGET").unwrap_or_default();
    match target.as_str() {
        // Chunked bodies: a byte that chooses the cuts, then any bytes.
        "chunked" => net::check_chunked,
        // Files of a channel: which settings open it, then words that are changed.
        "control" => core::check_control,
        // Fields of a type: a byte that says whether a length follows and whether the check word
        // matches, then the text, as an opener states it and as a channel stores it.
        "fields" => core::check_fields,
        // Both ends of a lane in heap memory: alignment and origin, then what each end does and
        // which words are changed.
        "frames" => core::check_frames,
        // Request heads: any bytes.
        "head" => net::check_head,
        // Journals: any bytes of a file, or blocks whose checks match.
        "journal" => core::check_journal,
        // Sealed channels: a datagram, or a hostile end of the socket with what it says, hands
        // over and writes.
        "sealed" => core::check_sealed,
        // URIs: any text.
        "uri" => core::check_uri,
        // What arrives on a connection: a byte that chooses the pieces, then any bytes.
        "wire" => core::check_wire,
        name => panic!("OLIVINE_FUZZ_TARGET={name}: no such target"),
    }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHECK(data));
