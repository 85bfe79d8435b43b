//! Runs of bytes of one class, and where they end: looked for sixteen bytes at a time where the
//! processor has vectors (x86-64: SSE2), and eight at a time elsewhere.
//!
//! A request of fifty bytes is four runs, so this is most of what reading it costs. Vectors and
//! words know a part of each class, and stop early; the table of the class decides from there on.

use crate::sys::bytes;

/// A run of bytes in the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "heads are at most 1 MiB (Limits::validate)"
    )]
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes
            .get(self.start as usize..self.end as usize)
            .unwrap_or(&[])
    }
}

/// Builds a table of the bytes that match a pattern, at compile time.
macro_rules! bytes {
    ($($pattern:pat_param)|+) => {{
        let mut table = [false; 256];
        let mut byte = 0_u8;
        loop {
            table[byte as usize] = matches!(byte, $($pattern)|+);
            if byte == u8::MAX {
                break;
            }
            byte += 1;
        }
        table
    }};
}

/// RFC 9110 `tchar`.
pub(crate) static TOKEN: [bool; 256] = bytes!(
    b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
    | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z'
);

/// Bytes of a field value: visible ones, space, tab, and those above ASCII.
pub(crate) static VALUE: [bool; 256] = bytes!(b'\t' | 0x20..=0x7e | 0x80..=0xff);

/// Bytes of a request target: visible ASCII but the fragment mark, which never goes over the wire.
static TARGET: [bool; 256] = bytes!(0x21 | 0x22 | 0x24..=0x7e);

/// As [`TARGET`], without the mark that begins a query.
static PATH: [bool; 256] = bytes!(0x21 | 0x22 | 0x24..=0x3e | 0x40..=0x7e);

/// RFC 3986 `unreserved` and `sub-delims` but the comma, which joins repeated fields.
pub(super) static NAME: [bool; 256] = bytes!(
    b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~'
    | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'='
);

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// How many bytes at the start of a host are letters, digits, `-`, `.` or another byte of [`NAME`].
#[inline]
pub(super) fn name(host: &[u8]) -> usize {
    let known = known(host, word::letters, bytes::letters);
    let rest = host[known..]
        .iter()
        .position(|byte| !NAME[usize::from(*byte)]);
    rest.map_or(host.len(), |ahead| known + ahead)
}

/// The run of token bytes from `start`, and the byte that ends it; `None` if the data ends it.
#[inline]
pub(super) fn token(data: &[u8], start: usize) -> Option<(Span, u8)> {
    let known = known(data.get(start..)?, word::letters, bytes::letters);
    run(data, start, known, &TOKEN)
}

/// As [`token`], for the bytes of a request target; ends at a `?`, too.
#[inline]
pub(super) fn path(data: &[u8], start: usize) -> Option<(Span, u8)> {
    let known = known(data.get(start..)?, word::path, bytes::path);
    run(data, start, known, &PATH)
}

/// As [`token`], for the bytes of a request target.
#[inline]
pub(super) fn target(data: &[u8], start: usize) -> Option<(Span, u8)> {
    let known = known(data.get(start..)?, word::target, bytes::target);
    run(data, start, known, &TARGET)
}

/// As [`token`], for the bytes of a field value.
#[inline]
pub(super) fn value(data: &[u8], start: usize) -> Option<(Span, u8)> {
    // Also stops at a tab, which `run` passes over.
    let known = known(data.get(start..)?, word::value, bytes::value);
    run(data, start, known, &VALUE)
}

/// How many bytes at the start of `rest` are without a mark, as far as whole vectors and words go:
/// each function marks the bytes that may end the run.
#[inline(always)]
fn known(rest: &[u8], words: fn(u64) -> u64, vectors: fn(&[u8; 16]) -> u32) -> usize {
    let mut at = 0;
    if bytes::AVAILABLE {
        while let Some(sixteen) = rest[at..].first_chunk::<16>() {
            let marks = vectors(sixteen);
            if marks != 0 {
                return at + marks.trailing_zeros() as usize;
            }
            at += 16;
        }
    }
    while let Some(eight) = rest[at..].first_chunk::<8>() {
        let marks = words(u64::from_le_bytes(*eight)) & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// Marks in the high bits of the bytes of a word; other bits mean nothing.
///
/// The lowest mark is right, or one too many; those above it may be wrong, because a byte that is
/// marked borrows from the next one.
mod word {
    use super::ONES;

    /// All but letters, by their high bits.
    #[inline(always)]
    pub(super) const fn letters(word: u64) -> u64 {
        let small = word | (ONES * 0x20);
        // Letters have bit 6, and are 0x61 to 0x7a in small.
        small.wrapping_sub(ONES * 0x61) | small.wrapping_add(ONES * 5) | word | !(word << 1)
    }

    /// Spaces and below, `#`, and 0x7f and above.
    #[inline(always)]
    pub(super) const fn target(word: u64) -> u64 {
        let hash = (word ^ (ONES * b'#' as u64)).wrapping_sub(ONES);
        word.wrapping_sub(ONES * 0x21) | hash | word.wrapping_add(ONES) | word
    }

    /// As `target`, and `?`.
    #[inline(always)]
    pub(super) const fn path(word: u64) -> u64 {
        target(word) | (word ^ (ONES * b'?' as u64)).wrapping_sub(ONES)
    }

    /// Control bytes.
    #[inline(always)]
    pub(super) const fn value(word: u64) -> u64 {
        // A byte above 0x7e that is added to is 0x7f, or has no mark.
        (word.wrapping_sub(ONES * 0x20) | word.wrapping_add(ONES)) & !word
    }
}

/// The run of bytes of `class` from `start`, of which the first `known` are in it, and the byte
/// that ends it; `None` if the data ends it.
#[inline]
fn run(data: &[u8], start: usize, known: usize, class: &[bool; 256]) -> Option<(Span, u8)> {
    // Nearly always the byte behind them ends it.
    let rest = data.get(start + known..)?;
    let length = rest.iter().position(|byte| !class[usize::from(*byte)])?;
    let end = start + known + length;
    Some((Span::new(start, end), rest[length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`run`], byte by byte.
    fn slow(data: &[u8], class: &[bool; 256]) -> Option<(Span, u8)> {
        let end = data.iter().position(|byte| !class[usize::from(*byte)])?;
        Some((Span::new(0, end), data[end]))
    }

    /// Every byte at every place of a word and beyond, before bytes that any class holds or none
    /// does.
    #[test]
    fn scan_by_words_equals_scan_by_bytes() {
        let mut compared = 0;
        for (filling, last) in [
            (b'v', b'v'),
            (b'Z', b'\r'),
            (b'v', b' '),
            (b'7', 0xff),
            (b'!', b'~'),
        ] {
            for byte in 0..=u8::MAX {
                for at in 0..40 {
                    for length in [at + 1, 40] {
                        let mut line = vec![filling; length];
                        line[at] = byte;
                        line.push(last);
                        assert_eq!(token(&line, 0), slow(&line, &TOKEN), "{line:?}");
                        assert_eq!(target(&line, 0), slow(&line, &TARGET), "{line:?}");
                        assert_eq!(value(&line, 0), slow(&line, &VALUE), "{line:?}");
                        assert_eq!(path(&line, 0), slow(&line, &PATH), "{line:?}");
                        let names = line.iter().take_while(|byte| NAME[usize::from(**byte)]);
                        assert_eq!(name(&line), names.count(), "{line:?}");
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 5 * 256 * 40 * 2);
    }

    #[test]
    fn two_end_bytes_in_one_word_are_both_found() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                for length in [9, 17] {
                    let mut line = vec![b'a'; length];
                    (line[1], line[2], line[length - 1]) = (first, second, b'\r');
                    assert_eq!(value(&line, 0), slow(&line, &VALUE), "{line:?}");
                    assert_eq!(target(&line, 0), slow(&line, &TARGET), "{line:?}");
                    assert_eq!(path(&line, 0), slow(&line, &PATH), "{line:?}");
                    assert_eq!(token(&line, 0), slow(&line, &TOKEN), "{line:?}");
                }
            }
        }
    }
}
