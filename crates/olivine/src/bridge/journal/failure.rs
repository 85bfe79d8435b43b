//! The mark of a recorder that failed: the last block of its recording, with the reason.

use crate::ring::ending;

/// The body of the mark for this reason, and the bytes of the reason in it.
pub(super) fn encode(reason: &str) -> (u32, Vec<u8>) {
    let mut body = ending::printable(reason).into_bytes();
    // At most a few hundred bytes.
    let bytes = u32::try_from(body.len()).unwrap_or(0);
    body.resize(body.len().next_multiple_of(8), 0);
    (bytes, body)
}

/// The reason of `bytes` bytes in the body of a mark: one line of text, of bounded length.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn decode(bytes: u32, body: &[u8]) -> Result<String, &'static str> {
    let bytes = bytes as usize;
    if bytes > ending::TEXT_MAX || body.len() != bytes.next_multiple_of(8) {
        return Err("the length of a failure's reason is not possible");
    }
    let (reason, padding) = body.split_at(bytes);
    if padding.iter().any(|byte| *byte != 0) {
        return Err("something follows a failure's reason");
    }
    match std::str::from_utf8(reason) {
        // A forger may have written it: it must not move the cursor of a terminal.
        Ok(reason) => Ok(ending::printable(reason)),
        Err(_) => Err("a failure's reason is not text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_comes_back_as_one_line_of_bounded_length() {
        for (reason, expected) in [
            ("", ""),
            ("the sensor is gone", "the sensor is gone"),
            ("12345678", "12345678"),
            ("a\u{1b}[2J\nb", "a [2J b"),
        ] {
            let (bytes, body) = encode(reason);
            assert_eq!(decode(bytes, &body), Ok(expected.to_owned()));
        }
        let (bytes, body) = encode(&"ä".repeat(1 << 16));
        assert_eq!(decode(bytes, &body).unwrap().len(), ending::TEXT_MAX);
    }

    #[test]
    fn forged_reason_is_refused_or_cleaned() {
        let long = vec![b'a'; ending::TEXT_MAX + 8];
        for (bytes, body) in [
            (u32::MAX, &b"12345678"[..]),
            (9, b"12345678"),
            (8, b""),
            (0, b"12345678"),
            (4, b"12345678"),
            (2, b"\xff\xfe\0\0\0\0\0\0"),
            (u32::try_from(long.len()).unwrap(), &long),
        ] {
            assert!(decode(bytes, body).is_err(), "{bytes} bytes of {body:?}");
        }
        let cleaned = decode(8, b"a\x1b[2J\r\nb");
        assert_eq!(cleaned, Ok("a [2J  b".to_owned()));
    }
}
