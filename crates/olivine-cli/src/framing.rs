//! Splitting a stream of bytes into messages, and back: lines, frames, raw chunks.
//!
//! * json, input: as lines, of which `typed` makes messages.
//! * lines: each line without its newline is a message. A last line without a newline has the
//!   tag [`OPEN_LINE`], so that it is written without one.
//! * frames: length (u32), tag (u32), both little endian, then the payload.
//! * json, output only: one object per line.
//! * raw: chunks of input; on output, the payload bytes.

use crate::args::{InputForm, OutputForm};
use crate::fields::Values;
use crate::terminal;
use data_encoding::BASE64;
use olivine::Fields;
use olivine::admin::TappedMessage;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tag of a last line without a newline.
pub(crate) const OPEN_LINE: u32 = u32::MAX;
/// Bytes before the payload of a frame: length and tag.
const FRAME_HEADER: usize = 8;

/// Result of splitting the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Split<'a> {
    /// A whole message, and the bytes of input that it used.
    Message {
        tag: u32,
        payload: &'a [u8],
        used: usize,
    },
    /// More bytes are needed.
    More,
    /// The next message is too long for the channel; its length as far as known.
    TooLong { bytes: u64 },
    /// The input ended within a frame.
    Torn { missing: u64 },
}

/// Splits a stream of bytes into messages of at most `message_max` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Splitter {
    pub(crate) form: InputForm,
    pub(crate) tag: u32,
    pub(crate) message_max: usize,
}

impl Splitter {
    /// The next message of `bytes`; `ended` means that nothing follows. The first `scanned` bytes
    /// contain no newline.
    pub(crate) fn next<'a>(&self, bytes: &'a [u8], scanned: usize, ended: bool) -> Split<'a> {
        match self.form {
            InputForm::Lines | InputForm::Json => self.line(bytes, scanned, ended),
            InputForm::Frames => self.frame(bytes, ended),
            InputForm::Raw if bytes.is_empty() => Split::More,
            InputForm::Raw => {
                let payload = &bytes[..bytes.len().min(self.message_max)];
                Split::Message {
                    tag: self.tag,
                    payload,
                    used: payload.len(),
                }
            }
        }
    }

    fn line<'a>(&self, bytes: &'a [u8], scanned: usize, ended: bool) -> Split<'a> {
        let end = bytes[scanned..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + scanned);
        let length = end.unwrap_or(bytes.len());
        if length > self.message_max {
            return Split::TooLong {
                bytes: length as u64,
            };
        }
        match end {
            Some(end) => Split::Message {
                tag: self.tag,
                payload: &bytes[..end],
                used: end + 1,
            },
            None if ended && !bytes.is_empty() => Split::Message {
                tag: OPEN_LINE,
                payload: bytes,
                used: bytes.len(),
            },
            None => Split::More,
        }
    }

    fn frame<'a>(&self, bytes: &'a [u8], ended: bool) -> Split<'a> {
        let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
            if ended && !bytes.is_empty() {
                return Split::Torn {
                    missing: (FRAME_HEADER - bytes.len()) as u64,
                };
            }
            return Split::More;
        };
        let [a, b, c, d, e, f, g, h] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let tag = u32::from_le_bytes([e, f, g, h]);
        if length > self.message_max {
            return Split::TooLong {
                bytes: length as u64,
            };
        }
        match rest.get(..length) {
            Some(payload) => Split::Message {
                tag,
                payload,
                used: FRAME_HEADER + length,
            },
            None if ended => Split::Torn {
                missing: (length - rest.len()) as u64,
            },
            None => Split::More,
        }
    }
}

/// A message to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    /// Its publisher.
    pub(crate) lane: usize,
    pub(crate) tag: u32,
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    /// Fields of the channel's type; may be empty.
    pub(crate) fields: &'a Fields,
    /// For a terminal: control characters are escaped.
    pub(crate) escape: bool,
}

/// A message as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    lane: usize,
    tag: u32,
    /// When the tool received it, in nanoseconds since 1970.
    received_unix_ns: u64,
    /// Where its frame starts, and the length of the whole payload; of a tap only.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    /// The payload, if the channel's type has fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Values<'a>>,
    /// The payload, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The payload, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> Line<'a> {
    /// A message now, of which `head` are the first bytes of `length`.
    fn of(lane: usize, tag: u32, topic: &'a str, head: &'a [u8], length: u64) -> Self {
        let text = match std::str::from_utf8(head) {
            Ok(text) => Some(text),
            // The end of the head cuts a character.
            Err(error) if error.error_len().is_none() && (head.len() as u64) < length => {
                std::str::from_utf8(&head[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        Self {
            event: "message",
            lane,
            tag,
            received_unix_ns: unix_ns(),
            position: None,
            payload_bytes: None,
            topic: Some(topic).filter(|topic| !topic.is_empty()),
            fields: None,
            text,
            base64: text.is_none().then(|| BASE64.encode(head)),
        }
    }

    /// A message now, by its fields.
    fn of_fields(lane: usize, tag: u32, topic: &'a str, values: Values<'a>) -> Self {
        Self {
            fields: Some(values),
            text: None,
            base64: None,
            ..Self::of(lane, tag, topic, &[], 0)
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        terminal::write_json(out, self)?;
        out.write_all(b"\n")
    }
}

/// Writes one message in a format.
pub(crate) fn write_message(
    out: &mut impl Write,
    form: OutputForm,
    message: &Written<'_>,
) -> io::Result<()> {
    let Written {
        lane,
        tag,
        topic,
        payload,
        fields,
        escape: _,
    } = *message;
    match form {
        OutputForm::Json => match Values::of(fields, payload) {
            Some(values) => Line::of_fields(lane, tag, topic, values),
            None => Line::of(lane, tag, topic, payload, payload.len() as u64),
        }
        .write(out),
        OutputForm::Lines | OutputForm::Topics => {
            if form == OutputForm::Topics {
                out.write_all(topic.as_bytes())?;
                out.write_all(b"\t")?;
            }
            if message.escape {
                terminal::write_payload(out, payload)?;
            } else {
                out.write_all(payload)?;
            }
            if tag == OPEN_LINE {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        }
        OutputForm::Frames => {
            // A message is shorter than a ring, so its length fits.
            let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            out.write_all(&length.to_le_bytes())?;
            out.write_all(&tag.to_le_bytes())?;
            out.write_all(payload)
        }
        OutputForm::Raw => out.write_all(payload),
        OutputForm::None => Ok(()),
    }
}

/// Writes the start of a message that was read from outside, as JSON.
pub(crate) fn write_tapped(out: &mut impl Write, message: &TappedMessage<'_>) -> io::Result<()> {
    let TappedMessage {
        lane,
        position,
        tag,
        payload_bytes,
        head,
        ..
    } = *message;
    // A topic is ASCII.
    let topic = std::str::from_utf8(message.topic).unwrap_or_default();
    let line = Line {
        position: Some(position),
        payload_bytes: Some(payload_bytes),
        ..Line::of(lane, tag, topic, head, payload_bytes)
    };
    line.write(out)
}

/// Nanoseconds since 1970; 0 if the clock is before it.
#[allow(
    clippy::disallowed_methods,
    reason = "a date for readers of the output; nothing is measured with it"
)]
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static NO_FIELDS: std::sync::OnceLock<Fields> = std::sync::OnceLock::new();

    fn written(tag: u32, payload: &[u8]) -> Written<'_> {
        let topic = "a.b";
        Written {
            lane: 0,
            tag,
            topic,
            payload,
            fields: NO_FIELDS.get_or_init(Fields::default),
            escape: false,
        }
    }

    #[test]
    fn topics_are_written_before_their_messages() {
        let mut output = Vec::new();
        write_message(&mut output, OutputForm::Topics, &written(0, b"hello")).unwrap();
        assert_eq!(output, b"a.b\thello\n");
    }

    /// Feeds `input` in pieces of `step` bytes; writes every message out again.
    fn through(
        form: InputForm,
        out: OutputForm,
        input: &[u8],
        step: usize,
        max: usize,
    ) -> Result<Vec<u8>, String> {
        let splitter = Splitter {
            form,
            tag: 0,
            message_max: max,
        };
        let (mut held, mut output, mut fed) = (Vec::new(), Vec::new(), 0);
        loop {
            let ended = fed == input.len();
            let mut scanned = 0;
            loop {
                match splitter.next(&held, scanned, ended) {
                    Split::Message { tag, payload, used } => {
                        write_message(&mut output, out, &written(tag, payload)).unwrap();
                        held.drain(..used);
                        scanned = 0;
                    }
                    Split::More => break,
                    other => return Err(format!("{other:?}")),
                }
            }
            if ended {
                return Ok(output);
            }
            let piece = &input[fed..input.len().min(fed + step)];
            held.extend_from_slice(piece);
            fed += piece.len();
        }
    }

    #[test]
    fn lines_round_trip_byte_for_byte() {
        let inputs: [&[u8]; 8] = [
            b"",
            b"\n",
            b"\n\n\n",
            b"a",
            b"a\n",
            b"one\n\nthree\nno end",
            b"\r\n\0\xFF\n",
            b"a\n\n",
        ];
        for input in inputs {
            for step in [1, 2, 3, 100] {
                let output = through(InputForm::Lines, OutputForm::Lines, input, step, 64);
                assert_eq!(output.as_deref(), Ok(input), "step {step}");
            }
        }
    }

    #[test]
    fn frames_and_raw_bytes_round_trip() {
        let mut frames = Vec::new();
        for (tag, payload) in [(7, &b"hello"[..]), (0, b""), (u32::MAX, b"\n\n")] {
            write_message(&mut frames, OutputForm::Frames, &written(tag, payload)).unwrap();
        }
        assert_eq!(&frames[..8], &[5, 0, 0, 0, 7, 0, 0, 0]);
        for step in [1, 3, 8, 100] {
            let again = through(InputForm::Frames, OutputForm::Frames, &frames, step, 64);
            assert_eq!(again.as_deref(), Ok(&frames[..]), "step {step}");
            let raw = through(InputForm::Raw, OutputForm::Raw, &frames, step, 4);
            assert_eq!(raw.as_deref(), Ok(&frames[..]), "step {step}");
        }
    }

    #[test]
    fn too_long_or_cut_input_is_refused() {
        let long = through(InputForm::Lines, OutputForm::Lines, b"12345\n", 100, 4).unwrap_err();
        assert_eq!(long, "TooLong { bytes: 5 }");
        assert!(through(InputForm::Lines, OutputForm::Lines, b"1234\n", 100, 4).is_ok());
        let frame = through(
            InputForm::Frames,
            OutputForm::Raw,
            &[9, 0, 0, 0, 0, 0, 0, 0, 1],
            100,
            64,
        );
        assert_eq!(frame.unwrap_err(), "Torn { missing: 8 }");
        let header = through(InputForm::Frames, OutputForm::Raw, &[1, 0, 0], 100, 64);
        assert_eq!(header.unwrap_err(), "Torn { missing: 5 }");
        let huge = through(InputForm::Frames, OutputForm::Raw, &[255; 8], 100, 64);
        assert_eq!(
            huge.unwrap_err(),
            format!("TooLong {{ bytes: {} }}", u32::MAX)
        );
    }
}
