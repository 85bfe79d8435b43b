//! The codec with splits at every byte, with garbage, and with false lengths.

use super::fuzz_checks::hear;
use super::hello::Side;
use super::*;
use crate::message::KnownType;
use crate::uri::Start;
use std::time::Duration;

fn hello() -> Hello {
    Hello {
        side: Side::Destination,
        channel: "ticks".into(),
        token: "sesame".into(),
        instance: 7,
        incarnation: u64::MAX,
        capacity: 1 << 20,
        align: 64,
        known: KnownType::new(9, "quote v1", "bid i64, ask i64"),
        any_type: true,
        name: "audit".into(),
        expire: Duration::from_secs(30),
        from: Start::Oldest,
        timeout: Duration::from_millis(1500),
    }
}

/// One of each block.
fn session() -> Vec<u8> {
    let mut out = Vec::new();
    hello().put(&mut out);
    let place = |lane, position, open| LaneResume {
        lane,
        position,
        open,
    };
    put_resume(
        &mut out,
        3,
        &[place(0, 64, true), place(255, u64::MAX, false)],
    );
    put_lane(&mut out, 1, 4096);
    let frames: Vec<u8> = (1..=24).collect();
    out.extend(frames_header(1, 4096, &frames));
    out.extend(frames);
    put_want(&mut out, 1, 100);
    put_ack(&mut out, 1, 4120, 8192);
    put_beat(&mut out);
    out.extend(frames_header(1, 4120, &[]));
    put_lane_end(&mut out, 1);
    put_close(&mut out, Close::End, "done");
    out
}

/// Every block as text, frames joined; fed in pieces of `sizes`, repeated.
fn decode(bytes: &[u8], sizes: &[usize]) -> Result<Vec<String>, WireError> {
    let heard = hear(bytes, sizes);
    heard.end?;
    let mut found = heard.blocks;
    found.push(format!("{:?}", heard.frames));
    Ok(found)
}

#[test]
fn session_decodes_equally_in_any_split() {
    let bytes = session();
    let whole = decode(&bytes, &[bytes.len()]).unwrap();
    assert_eq!(whole.len(), 10, "{whole:?}");
    for at in 1..bytes.len() {
        assert_eq!(
            decode(&bytes, &[at, bytes.len()]).unwrap(),
            whole,
            "at {at}"
        );
        assert_eq!(decode(&bytes, &[at]).unwrap(), whole, "every {at}");
    }
}

#[test]
fn hello_round_trips() {
    let mut bytes = Vec::new();
    hello().put(&mut bytes);
    let mut decoder = Decoder::new();
    decoder.space()[..bytes.len()].copy_from_slice(&bytes);
    decoder.filled(bytes.len());
    assert_eq!(decoder.next(), Ok(Some(Arrived::Hello(hello()))));
    assert!(!format!("{:?}", hello()).contains("sesame"));
}

#[test]
fn cut_session_decodes_its_whole_blocks() {
    let bytes = session();
    let whole = decode(&bytes, &[64]).unwrap();
    for end in 0..bytes.len() {
        let found = decode(&bytes[..end], &[64]).unwrap();
        let blocks = found.len() - 1;
        assert_eq!(found[..blocks], whole[..blocks], "cut at {end}");
    }
}

/// The bytes of a session, for other implementations: `docs/wire.md` explains them.
#[test]
fn session_matches_the_golden_bytes() {
    let golden = include_str!("../../../tests/golden/wire-3.txt");
    let session = session();
    let hex = session.iter().map(|byte| format!("{byte:02x}"));
    let lines: Vec<String> = hex
        .collect::<Vec<_>>()
        .chunks(32)
        .map(<[_]>::concat)
        .collect();
    assert_eq!(lines.join("\n"), golden.trim_end());
    assert_eq!(fuzz_checks::sealed(&session), session);
}

#[test]
fn flipped_bit_is_found_before_its_block_is_used() {
    let bytes = session();
    let whole = hear(&bytes, &[64]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let heard = hear(&bytes, &[64]);
            let Err(error) = heard.end else {
                // A hello with a greater length waits for its rest, as if the connection is cut.
                assert!((12..PREAMBLE_BYTES).contains(&at) && heard.blocks.is_empty());
                continue;
            };
            let named = at < PREAMBLE_BYTES && error.is_of_the_preamble();
            let found = matches!(error, WireError::Checksum { .. });
            assert!(named || found, "byte {at}, bit {bit}: {error}");
            assert!(heard.blocks.len() < whole.blocks.len());
            assert_eq!(heard.blocks, whole.blocks[..heard.blocks.len()]);
            assert!(whole.frames.starts_with(&heard.frames));
        }
    }
}

/// With correct checksums other errors must be found: a peer with correct checksums is still
/// untrusted.
#[test]
fn flipped_bit_with_valid_checksums_never_panics() {
    let bytes = session();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            hear(&fuzz_checks::sealed(&bytes), &[64]);
        }
    }
}

#[test]
fn false_lengths_and_marks_are_refused_by_the_header() {
    let mut preamble = MAGIC.to_vec();
    preamble.extend(WIRE_VERSION.to_le_bytes());
    preamble.extend(u32::MAX.to_le_bytes());
    let refused = decode(&preamble, &[64]).unwrap_err();
    assert!(matches!(
        refused,
        WireError::Length {
            what: "a hello",
            ..
        }
    ));
    assert_eq!(decode(b"GET / HTTP/1.1\r\n", &[1]), Err(WireError::Magic));
    assert_eq!(decode(b"OLIVX", &[1]), Err(WireError::Magic));
    let mut later = MAGIC.to_vec();
    later.extend(99_u32.to_le_bytes());
    assert_eq!(decode(&later, &[3]), Err(WireError::Version { found: 99 }));

    let after_hello = |header: [u8; HEADER_BYTES]| {
        let mut bytes = Vec::new();
        hello().put(&mut bytes);
        bytes.extend(header);
        decode(&bytes, &[64])
    };
    // Only the header is there: its length announces the rest.
    let block = |kind, code, lane, length: usize, position| {
        let mut bytes = header(kind, code, lane, position, &[]);
        bytes[4..8].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    for (header, text) in [
        (block(KIND_FRAMES, 0, 0, FRAMES_MAX + 8, 0), "frames of"),
        (block(KIND_FRAMES, 0, 0, 12, 0), "12 bytes of frames"),
        (block(KIND_FRAMES, 0, 0, 8, 4), "at position 4"),
        (block(KIND_RESUME, 0, 0, 1 << 20, 0), "a resume of"),
        (block(KIND_CLOSE, 1, 0, 1 << 30, 0), "a close of"),
        (block(KIND_BEAT, 0, 0, 8, 0), "a block without a body"),
        (block(KIND_LANE, 0, 256, 0, 0), "lane 256"),
        (block(99, 0, 0, 0, 0), "kind 99"),
        (block(KIND_CLOSE, 200, 0, 0, 0), "close 200"),
    ] {
        let error = after_hello(header).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn frames_without_room_stay() {
    let mut bytes = Vec::new();
    hello().put(&mut bytes);
    bytes.extend(frames_header(0, 0, &[1; 16]));
    bytes.extend([1; 16]);
    let mut decoder = Decoder::new();
    decoder.space()[..bytes.len()].copy_from_slice(&bytes);
    decoder.filled(bytes.len());
    assert!(matches!(decoder.next(), Ok(Some(Arrived::Hello(_)))));
    let mut left = Vec::new();
    for taken in [0, 8, 8] {
        let Ok(Some(Arrived::Frames {
            position, bytes, ..
        })) = decoder.next()
        else {
            panic!("frames are there");
        };
        left.push((position, bytes.len()));
        decoder.took(taken);
    }
    assert_eq!(left, [(0, 16), (0, 16), (8, 8)]);
    assert_eq!(decoder.next(), Ok(None));
}

/// A peer with correct checksums may send any text.
#[test]
fn text_of_fields_is_bounded_and_counts_as_none_if_it_is_not_understood() {
    let decoded = |text: &[u8]| {
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        let hello = Hello::decode(&[&[15, 0], &length[..], text].concat());
        hello.map(|hello| hello.known.fields.to_string())
    };
    let fields = "bid i64, ask i64";
    assert_eq!(decoded(fields.as_bytes()), Ok(fields.to_owned()));
    for none in [&b""[..], b"bid i128", b"a u8, a u8", &[b' '; 1008]] {
        assert_eq!(decoded(none), Ok(String::new()));
    }
    for wrong in [&b"bid i64\n"[..], b"\xff u8", &[b' '; 1009]] {
        decoded(wrong).unwrap_err();
    }
}

/// As in the table of docs/wire.md.
#[test]
fn close_codes_are_one_to_seventeen_and_others_are_refused() {
    for code in 0..=u8::MAX {
        let close = Close::of(code).map(|close| close as u8);
        assert_eq!(close, (1..=17).contains(&code).then_some(code));
    }
    assert_eq!(Close::of(17), Some(Close::Gone));
}
