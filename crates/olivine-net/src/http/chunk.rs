//! Chunked bodies: a decoder fed any pieces, byte by byte if need be.
//!
//! Strict where attackers have used laxity for smuggling: sizes are hexadecimal digits and nothing
//! else before the extension or the line end, lines end in CR LF, sizes that overflow are refused.
//! Extensions are checked for their form, bounded and skipped; trailer fields are checked for
//! form, bounded and kept apart from the header fields.

use super::{
    scan::{TOKEN, VALUE},
    status::Refusal,
};

/// Bytes of leading zeros, extensions and trailers allowed in one body: more is an attack, not a
/// message.
const EXTRA_MAX: u32 = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    /// Behind a semicolon.
    Extension,
    ExtensionName,
    /// Spaces behind the name.
    ExtensionNameEnd,
    /// Behind the equals sign.
    ExtensionValue,
    ExtensionToken,
    ExtensionQuoted,
    ExtensionEscape,
    /// Behind the closing quotation mark.
    ExtensionQuotedEnd,
    /// Spaces behind the value.
    ExtensionValueEnd,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a line behind the last chunk.
    Trailer,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
}

impl State {
    fn is_extension(self) -> bool {
        use State::{
            Extension, ExtensionEscape, ExtensionName, ExtensionNameEnd, ExtensionQuoted,
            ExtensionQuotedEnd, ExtensionToken, ExtensionValue, ExtensionValueEnd,
        };
        matches!(
            self,
            Extension
                | ExtensionName
                | ExtensionNameEnd
                | ExtensionValue
                | ExtensionToken
                | ExtensionQuoted
                | ExtensionEscape
                | ExtensionQuotedEnd
                | ExtensionValueEnd
        )
    }

    /// The state behind `byte` of an extension (RFC 9112 7.1.1); `None` if it cannot be there.
    fn extension(self, byte: u8) -> Option<Self> {
        let token = TOKEN[usize::from(byte)];
        let text = VALUE[usize::from(byte)];
        Some(match (self, byte) {
            (Self::Extension | Self::ExtensionNameEnd | Self::ExtensionValue, b' ' | b'\t') => self,
            (Self::Extension | Self::ExtensionName, _) if token => Self::ExtensionName,
            (Self::ExtensionName, b' ' | b'\t') => Self::ExtensionNameEnd,
            (Self::ExtensionName | Self::ExtensionNameEnd, b'=') => Self::ExtensionValue,
            (Self::ExtensionValue | Self::ExtensionToken, _) if token => Self::ExtensionToken,
            (Self::ExtensionValue, b'"') => Self::ExtensionQuoted,
            (Self::ExtensionQuoted, b'"') => Self::ExtensionQuotedEnd,
            (Self::ExtensionQuoted, b'\\') => Self::ExtensionEscape,
            (Self::ExtensionQuoted | Self::ExtensionEscape, _) if text => Self::ExtensionQuoted,
            (
                Self::ExtensionToken | Self::ExtensionQuotedEnd | Self::ExtensionValueEnd,
                b' ' | b'\t',
            ) => Self::ExtensionValueEnd,
            (Self::ExtensionName | Self::ExtensionNameEnd, b';')
            | (Self::ExtensionToken | Self::ExtensionQuotedEnd | Self::ExtensionValueEnd, b';') => {
                Self::Extension
            }
            _ => return None,
        })
    }
}

/// The place in a chunked body.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    state: State,
    /// Of the chunk under way: bytes still to come.
    left: u64,
    /// Bytes of the body that have come.
    seen: u64,
    extra: u32,
    /// Trailer fields, as lines; bounded as `extra` is.
    trailers: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            state: State::SizeStart,
            left: 0,
            seen: 0,
            extra: 0,
            trailers: Vec::new(),
        }
    }

    /// The trailer fields of a body that is done, as lines.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads `data`, appends body bytes to `body`, and returns how many bytes of `data` belong to
    /// this body. A body of more than `max` bytes, over all calls, is refused.
    pub(crate) fn feed(
        &mut self,
        data: &[u8],
        body: &mut Vec<u8>,
        max: u64,
    ) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < data.len() && self.state != State::Done {
            if self.state == State::Data {
                let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                let take = left.min(data.len() - at);
                body.extend_from_slice(&data[at..at + take]);
                at += take;
                self.left -= take as u64;
                self.seen += take as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.step(data[at], max)?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8, max: u64) -> Result<State, Refusal> {
        let next = match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                if self.left == 0 && digit == 0 {
                    // Leading zeros would let a size line grow without limit; other digits end at
                    // an overflow.
                    self.spend()?;
                }
                let left = self.left.checked_mul(16).ok_or(Refusal::Chunk)?;
                self.left = left + u64::from(digit);
                State::Size
            }
            (State::Size, b';' | b'\r') if self.seen.saturating_add(self.left) > max => {
                return Err(Refusal::BodyTooLong);
            }
            (State::Size, b';') => State::Extension,
            (
                State::Size
                | State::ExtensionName
                | State::ExtensionToken
                | State::ExtensionQuotedEnd,
                b'\r',
            ) => State::SizeLf,
            (state, _) if state.is_extension() => {
                self.spend()?;
                state.extension(byte).ok_or(Refusal::Chunk)?
            }
            (State::SizeLf, b'\n') if self.left == 0 => State::Trailer,
            (State::SizeLf, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::SizeStart,
            (State::Trailer, b'\r') => State::LastLf,
            (State::Trailer | State::TrailerName, _) if TOKEN[usize::from(byte)] => {
                self.keep(byte)?;
                State::TrailerName
            }
            (State::TrailerName, b':') => {
                self.keep(byte)?;
                State::TrailerValue
            }
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerValue, _) if VALUE[usize::from(byte)] => {
                self.keep(byte)?;
                State::TrailerValue
            }
            (State::TrailerLf, b'\n') => {
                self.keep(byte)?;
                State::Trailer
            }
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(Refusal::Chunk),
        };
        Ok(next)
    }

    /// Keeps a byte of the trailer.
    fn keep(&mut self, byte: u8) -> Result<(), Refusal> {
        self.spend()?;
        self.trailers.push(byte);
        Ok(())
    }

    fn spend(&mut self) -> Result<(), Refusal> {
        self.extra += 1;
        if self.extra > EXTRA_MAX {
            Err(Refusal::Chunk)
        } else {
            Ok(())
        }
    }
}

/// Appends `bytes` as one chunk; nothing for no bytes, because an empty chunk would end the body.
pub(crate) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    begin(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(END);
}

/// Appends what stands before the bytes of a chunk; `length` is not 0.
pub(crate) fn begin(out: &mut Vec<u8>, length: usize) {
    let mut digits = [0; 16];
    let mut at = digits.len();
    let mut rest = length;
    while rest > 0 {
        at -= 1;
        digits[at] = b"0123456789abcdef"[rest % 16];
        rest /= 16;
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(END);
}

/// What stands behind the bytes of a chunk.
pub(crate) const END: &[u8] = b"\r\n";

/// What ends a chunked body.
#[cfg(any(test, fuzzing))]
pub(crate) const LAST: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::seeded_cases;
    use proptest::prelude::*;

    fn decode(data: &[u8]) -> Result<(Vec<u8>, usize, bool), Refusal> {
        let (mut decoder, mut body) = (Decoder::new(), Vec::new());
        let used = decoder.feed(data, &mut body, 1000)?;
        Ok((body, used, decoder.is_done()))
    }

    #[test]
    fn reads_chunks_extensions_and_trailers_and_leaves_the_rest() {
        let data = b"5;a=\"b\"; c ; d = e;f=\"\\\"\t;\"\r\nhello\r\n0A\r\n0123456789\r\n\
            0\r\nX-Sum: 1\r\nY:\r\n\r\nGET";
        assert_eq!(
            decode(data),
            Ok((b"hello0123456789".to_vec(), data.len() - 3, true))
        );
    }

    #[test]
    fn refuses_what_has_been_used_for_smuggling() {
        for bad in [
            "g\r\n",
            "\r\n",
            ";x\r\n",
            "5 \r\n",
            " 5\r\n",
            "+5\r\n",
            "-1\r\n",
            "0x5\r\n",
            "5\n",
            "5\rx",
            "5;a\nb\r\n",
            "5;\r\n",
            "5;a;\r\n",
            "5;=b\r\n",
            "5;a=\r\n",
            "5;a b\r\n",
            "5;a \r\n",
            "5;a=b c\r\n",
            "5;a=b \r\n",
            "5;a[=b\r\n",
            "5;a=\"b\r\n",
            "5;a=\"b\"c\r\n",
            "5;a=\"\\\r\n",
            "5\r\nhello5",
            "5\r\nhello\n",
            "5\r\nhelloX\r\n",
            "10000000000000000\r\n",
            "fffffffffffffffff\r\n",
            "0\r\nbad trailer\r\n",
            "0\r\n folded: x\r\n",
            "0\r\nx:\0\r\n",
            "0\r\n\rx",
            "0\r\n\n",
            "5_0\r\n",
        ] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad:?} must be refused");
        }
        assert_eq!(decode(b"3e9\r\n"), Err(Refusal::BodyTooLong));
        let many = b"3e8\r\n".iter().chain(&[b'x'; 1000]).copied();
        let many: Vec<u8> = many.chain(*b"\r\n1\r\n").collect();
        assert_eq!(decode(&many), Err(Refusal::BodyTooLong));
        let long = format!("5;{}\r\n", "x".repeat(20_000));
        assert_eq!(decode(long.as_bytes()), Err(Refusal::Chunk));
        assert_eq!(decode("0".repeat(20_000).as_bytes()), Err(Refusal::Chunk));
    }

    #[test]
    fn trailer_fields_are_kept_apart_from_the_body() {
        let (mut decoder, mut body) = (Decoder::new(), Vec::new());
        for byte in b"1\r\nx\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n" {
            decoder.feed(&[*byte], &mut body, 1000).unwrap();
        }
        assert_eq!(
            (&body[..], decoder.trailers()),
            (&b"x"[..], &b"X-Sum: 1\nY:\n"[..])
        );
    }

    #[test]
    fn body_in_many_small_chunks_is_read() {
        let (mut wire, body) = (Vec::new(), [b'x'; 100].repeat(10_000));
        body.chunks(100).for_each(|part| encode(&mut wire, part));
        wire.extend_from_slice(LAST);
        let (mut decoder, mut decoded) = (Decoder::new(), Vec::new());
        assert_eq!(decoder.feed(&wire, &mut decoded, 1 << 20), Ok(wire.len()));
        assert!(decoder.is_done() && decoded == body);
        // Zeros are counted over the whole body.
        let padded = format!("{}1\r\nx\r\n", "0".repeat(5_000)).repeat(4);
        assert_eq!(decode(padded.as_bytes()), Err(Refusal::Chunk));
    }

    proptest! {
        #![proptest_config(seeded_cases(5_000))]

        /// What is encoded, in any pieces, decodes to the same bytes when fed in any other pieces.
        #[test]
        fn decodes_what_was_encoded(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let mut wire = Vec::new();
            for part in &parts {
                encode(&mut wire, part);
            }
            wire.extend_from_slice(LAST);
            wire.extend_from_slice(b"next");
            let (mut decoder, mut body, mut used) = (Decoder::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (used + cut).min(wire.len());
                used += decoder.feed(&wire[used..end], &mut body, 1000).unwrap();
                if decoder.is_done() {
                    break;
                }
            }
            prop_assert_eq!(body, parts.concat());
            prop_assert_eq!(&wire[used..], b"next");
        }
    }
}
