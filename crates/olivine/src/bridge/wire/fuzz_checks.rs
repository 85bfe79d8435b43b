//! What must hold of the decoder for any bytes, in any pieces.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::{
    Arrived, Decoder, FRAMES_MAX, HEAD_BYTES, HEADER_BYTES, HELLO_MAX, MAGIC, PREAMBLE_BYTES,
    SUM_BYTES, TLS_ALERT, TLS_HANDSHAKE, WIRE_VERSION, WireError, word32,
};

/// What a decoder returned for some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Received blocks, without frames.
    pub(super) blocks: Vec<String>,
    /// Bytes of all frames, and the end of each run.
    pub(super) frames: Vec<u8>,
    pub(super) end: Result<(), WireError>,
}

/// Feeds `bytes` in pieces of `sizes`, repeated.
pub(super) fn hear(bytes: &[u8], sizes: &[usize]) -> Heard {
    let mut decoder = Decoder::new();
    let mut heard = Heard {
        blocks: Vec::new(),
        frames: Vec::new(),
        end: Ok(()),
    };
    let mut sizes = sizes.iter().cycle();
    let mut rest = bytes;
    // Lane and position of the next frames; one run may arrive in several pieces.
    let mut runs_on = None;
    loop {
        loop {
            match decoder.next() {
                Ok(Some(Arrived::Frames {
                    lane,
                    position,
                    bytes,
                })) => {
                    assert!(bytes.len().is_multiple_of(8) && !bytes.is_empty());
                    if runs_on != Some((lane, position)) {
                        heard.blocks.push(format!("frames of {lane} at {position}"));
                    }
                    let count = bytes.len();
                    runs_on = Some((lane, position.wrapping_add(count as u64)));
                    heard.frames.extend(bytes);
                    decoder.took(count);
                }
                Ok(Some(other)) => {
                    runs_on = None;
                    heard.blocks.push(format!("{other:?}"));
                }
                Ok(None) => break,
                Err(error) => {
                    heard.end = Err(error);
                    return heard;
                }
            }
        }
        if rest.is_empty() {
            return heard;
        }
        let space = decoder.space();
        assert!(!space.is_empty(), "no space, and nothing to consume");
        let count = (*sizes.next().unwrap_or(&1))
            .clamp(1, rest.len())
            .min(space.len());
        space[..count].copy_from_slice(&rest[..count]);
        decoder.filled(count);
        rest = &rest[count..];
    }
}

/// Checks that `data`, whose first byte selects the pieces, decodes equally in any pieces, and
/// never makes the decoder reserve memory or panic. Also with corrected checksums: otherwise only
/// checksum errors would be tested.
///
/// # Panics
///
/// If a claim does not hold.
pub fn check_wire(data: &[u8]) {
    let Some((&seed, bytes)) = data.split_first() else {
        return;
    };
    let pieces = usize::from(seed).max(1);
    for bytes in [bytes.to_vec(), sealed(bytes)] {
        let whole = hear(&bytes, &[bytes.len()]);
        assert_eq!(hear(&bytes, &[pieces]), whole, "in pieces of {pieces}");
        assert_eq!(hear(&bytes, &[1]), whole, "byte by byte");
        if let Err(error) = &whole.end {
            refused(&bytes, error);
        }
    }
}

/// Checks that the reason is true for these bytes.
fn refused(bytes: &[u8], error: &WireError) {
    let is_true = match error {
        WireError::Magic => !bytes.starts_with(&MAGIC),
        WireError::Tls => matches!(bytes.first(), Some(&(TLS_ALERT | TLS_HANDSHAKE))),
        WireError::Version { found } => *found != WIRE_VERSION,
        WireError::Length { found, most, .. } => found > most,
        WireError::Checksum { what } => !what.is_empty(),
        WireError::Invalid(problem) => !problem.is_empty(),
    };
    assert!(is_true, "{error}");
}

/// `bytes` with correct checksums, as far as its lengths lead.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let length =
        |bytes: &[u8], at| word32(bytes, at).and_then(|length| usize::try_from(length).ok());
    let Some(fields) = length(&bytes, PREAMBLE_BYTES - 4).filter(|length| *length <= HELLO_MAX)
    else {
        return bytes;
    };
    let mut at = PREAMBLE_BYTES + fields;
    seal(&mut bytes, 0..at, at);
    at += SUM_BYTES;
    while let Some(body) = length(&bytes, at + 4).filter(|length| *length <= FRAMES_MAX) {
        let start = at + HEADER_BYTES;
        seal(&mut bytes, start..start + body, at + HEAD_BYTES);
        let head = at + HEAD_BYTES + SUM_BYTES;
        seal(&mut bytes, at..head, head);
        at = start + body;
    }
    bytes
}

/// Writes the checksum of a part of `bytes` at `at`, if both exist.
fn seal(bytes: &mut [u8], part: std::ops::Range<usize>, at: usize) {
    let sum = bytes
        .get(part)
        .map(|part| crc32c::crc32c(part).to_le_bytes());
    let into = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    if let (Some(sum), Some(into)) = (sum, into) {
        *into = sum;
    }
}
