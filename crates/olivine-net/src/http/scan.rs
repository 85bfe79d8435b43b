//! Runs of bytes of one class, and where they end: looked for eight bytes at a time.
//!
//! A request of fifty bytes is four runs, so this is most of what reading it costs.

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

/// RFC 3986 `unreserved` and `sub-delims` but the comma, which joins repeated fields.
pub(super) static NAME: [bool; 256] = bytes!(
    b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~'
    | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'='
);

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Marks, by their high bit, the bytes of `word` below `bound`, which is at most 0x80.
///
/// The lowest mark is right; those above it may be too many, because a byte that is marked borrows
/// from the next one.
const fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * bound as u64) & !word & HIGH
}

/// Marks the bytes equal to `byte`, as [`below`] does.
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

/// How many bytes at the start of `bytes` are of `class`.
#[inline]
pub(super) fn prefix(bytes: &[u8], class: &[bool; 256]) -> usize {
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk::<8>() {
        match eight.iter().position(|byte| !class[usize::from(*byte)]) {
            Some(ahead) => return at + ahead,
            None => at += 8,
        }
    }
    let rest = bytes[at..]
        .iter()
        .position(|byte| !class[usize::from(*byte)]);
    rest.map_or(bytes.len(), |ahead| at + ahead)
}

/// The run of token bytes from `start`, and the byte that ends it; `None` if the data ends it.
#[inline]
pub(super) fn token(data: &[u8], start: usize) -> Option<(Span, u8)> {
    let rest = data.get(start..)?;
    let length = prefix(rest, &TOKEN);
    let end = *rest.get(length)?;
    Some((Span::new(start, start + length), end))
}

/// As [`token`], for the bytes of a request target.
#[inline]
pub(super) fn target(data: &[u8], start: usize) -> Option<(Span, u8)> {
    let others = |word| below(word, 0x21) | equal(word, b'#') | equal(word, 0x7f) | word & HIGH;
    run(data, start, words(data.get(start..)?, others), &TARGET)
}

/// As [`token`], for the bytes of a field value.
#[inline]
pub(super) fn value(data: &[u8], start: usize) -> Option<(Span, u8)> {
    // Also stops at a tab, which `run` passes over.
    let others = |word| below(word, 0x20) | equal(word, 0x7f);
    run(data, start, words(data.get(start..)?, others), &VALUE)
}

/// How many bytes at the start of `rest` are free of marks, as far as whole words go.
#[inline]
fn words(rest: &[u8], marks: impl Fn(u64) -> u64) -> usize {
    let mut at = 0;
    while let Some(eight) = rest[at..].first_chunk::<8>() {
        let marks = marks(u64::from_le_bytes(*eight));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
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
        for (filling, last) in [(b'v', b'v'), (b'v', b'\r'), (b'v', b' '), (b'7', 0xff)] {
            for byte in 0..=u8::MAX {
                for at in 0..20 {
                    for length in [at + 1, 20] {
                        let mut line = vec![filling; length];
                        line[at] = byte;
                        line.push(last);
                        assert_eq!(token(&line, 0), slow(&line, &TOKEN), "{line:?}");
                        assert_eq!(target(&line, 0), slow(&line, &TARGET), "{line:?}");
                        assert_eq!(value(&line, 0), slow(&line, &VALUE), "{line:?}");
                        let names = line.iter().take_while(|byte| NAME[usize::from(**byte)]);
                        assert_eq!(prefix(&line, &NAME), names.count(), "{line:?}");
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 4 * 256 * 20 * 2);
    }

    #[test]
    fn two_end_bytes_in_one_word_are_both_found() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let line = [b'a', first, second, b'a', b'a', b'a', b'a', b'a', b'\r'];
                assert_eq!(value(&line, 0), slow(&line, &VALUE), "{line:?}");
                assert_eq!(target(&line, 0), slow(&line, &TARGET), "{line:?}");
            }
        }
    }
}
