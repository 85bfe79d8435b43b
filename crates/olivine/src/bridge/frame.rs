//! Frames as bytes: a header of 8 bytes, the payload, and padding to the ring's `align`.

use crate::error::{Damage, NotSent};
use crate::message::Outgoing;
use crate::region::HEADER_BYTES;
use crate::ring::layout::{TOPIC, frame_bytes, frame_tag, has_topic, header_word, with_topic};
use crate::uri::topic::{is_topic, split, trailer_length, write_trailer};

/// Whole frames of one lane as in the ring, padding included. Iterating gives each [`Frame`].
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    pub(crate) position: u64,
    pub(crate) bytes: &'a [u8],
    pub(crate) align: u64,
}

/// One message of [`Frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    position: u64,
    padded: u64,
    tag: u32,
    payload: &'a [u8],
    topic: Option<&'a str>,
}

/// The bytes at a position are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no whole frame is at position {position}: {damage}")]
pub struct NoFrame {
    /// Where a frame should start.
    pub position: u64,
    /// What is there.
    pub damage: Damage,
}

impl<'a> Frames<'a> {
    /// The frames in `bytes`, the first of which starts at `position` of its lane. `align` is that
    /// of the ring which they come from, in bytes; below 8 it counts as 8. Any bytes are accepted:
    /// iterating finds out whether they are frames.
    #[must_use]
    pub fn new(position: u64, align: u64, bytes: &'a [u8]) -> Self {
        let align = align.max(HEADER_BYTES);
        Self {
            position,
            bytes,
            align,
        }
    }

    /// Start of the first frame in its lane.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// End of the last frame in its lane: the start of the next one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position.wrapping_add(self.bytes.len() as u64)
    }

    /// Headers, payloads and padding.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there is no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// An error ends the iteration.
impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, NoFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let found = first(self);
        let behind = found.as_ref().ok().and_then(|frame| {
            let bytes = self.bytes.get(usize::try_from(frame.padded).ok()?..)?;
            Some((frame.end(), bytes))
        });
        (self.position, self.bytes) = behind.unwrap_or_else(|| (self.end(), &[]));
        Some(found)
    }
}

/// The first of `frames`.
fn first<'a>(frames: &Frames<'a>) -> Result<Frame<'a>, NoFrame> {
    let (position, bytes) = (frames.position, frames.bytes);
    let fault = |damage| NoFrame { position, damage };
    let short = |bytes, max| {
        let min = HEADER_BYTES;
        fault(Damage::Frame { bytes, min, max })
    };
    let all = bytes.len() as u64;
    let Some((header, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(short(all, all));
    };
    let header = u64::from_le_bytes(*header);
    let length = frame_bytes(header);
    let padded = length.next_multiple_of(frames.align);
    if length < HEADER_BYTES || padded > all {
        return Err(short(length, all));
    }
    let carried = usize::try_from(length - HEADER_BYTES).unwrap_or(usize::MAX);
    let carried = rest.get(..carried).unwrap_or_default();
    let (payload, topic) = if has_topic(header) {
        let parts = split(carried).and_then(|(payload, topic)| {
            let topic = std::str::from_utf8(topic).ok()?;
            Some((payload, Some(topic)))
        });
        let bytes = carried.len() as u64;
        parts.ok_or_else(|| fault(Damage::Topic { bytes }))?
    } else {
        (carried, None)
    };
    Ok(Frame {
        position,
        padded,
        tag: frame_tag(header),
        payload,
        topic,
    })
}

impl<'a> Frame<'a> {
    /// Start of the frame in its lane.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// End of the frame in its lane: the start of the next one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position.wrapping_add(self.padded)
    }

    /// Bytes of header, payload, topic and padding.
    #[must_use]
    pub fn padded_bytes(&self) -> u64 {
        self.padded
    }

    /// The tag of the message.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// The topic of the message, if it has one.
    #[must_use]
    pub fn topic(&self) -> Option<&'a str> {
        self.topic
    }

    /// The message, without its topic.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Appends the frame of `message` for a ring of this `align`, whose longest payload has `max`
/// bytes.
///
/// # Errors
///
/// [`NotSent::TooLong`], [`NotSent::Topic`]; nothing was appended.
pub(crate) fn add(
    into: &mut Vec<u8>,
    message: Outgoing<'_>,
    align: u64,
    max: u64,
) -> Result<(), NotSent> {
    let Outgoing { body, label } = message;
    let topic = label.topic.filter(|topic| !topic.is_empty());
    if topic.is_some_and(|topic| !is_topic(topic.as_bytes())) {
        return Err(NotSent::Topic);
    }
    let trailer = topic.map_or(0, trailer_length);
    let carried = body.len().saturating_add(trailer);
    // The length shares a word with the mark of a topic.
    let max = max.min(TOPIC - 1 - HEADER_BYTES);
    if carried as u64 > max {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let max = max.saturating_sub(trailer);
        return Err(NotSent::TooLong { max });
    }
    let header = header_word(label.tag, topic.map_or(carried, |_| with_topic(carried)));
    let start = into.len();
    into.extend_from_slice(&header.to_le_bytes());
    into.extend_from_slice(body);
    if let Some(topic) = topic {
        let end = into.len();
        into.resize(end + trailer, 0);
        write_trailer(&mut into[end..], topic);
    }
    let padded = (into.len() - start).next_multiple_of(usize::try_from(align).unwrap_or(8));
    into.resize(start + padded, 0);
    Ok(())
}

/// Bytes of the payload, topic included, in the frame that `bytes` start with.
pub(crate) fn carried_bytes(bytes: &[u8]) -> usize {
    let header = bytes.first_chunk::<8>().copied().unwrap_or_default();
    let length = frame_bytes(u64::from_le_bytes(header)).saturating_sub(HEADER_BYTES);
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_frames_are_parsed_back() {
        for align in [8, 64] {
            let mut bytes = Vec::new();
            let messages = [
                Outgoing::new(b"one").tag(7),
                Outgoing::new(b"").topic("a.b"),
                Outgoing::new(&[3; 100]).tag(u32::MAX).topic("c"),
                Outgoing::new(b"").topic(""),
            ];
            let mut ends = vec![1 << 20];
            for message in messages {
                add(&mut bytes, message, align, 200).unwrap();
                ends.push((1 << 20) + bytes.len() as u64);
            }
            let frames = Frames::new(1 << 20, align, &bytes);
            assert_eq!(Some(frames.end()), ends.last().copied());
            let found: Vec<Frame<'_>> = frames.map(Result::unwrap).collect();
            let shown = found
                .iter()
                .map(|frame| (frame.tag(), frame.topic(), frame.payload()));
            let expected: [(u32, Option<&str>, &[u8]); 4] = [
                (7, None, b"one"),
                (0, Some("a.b"), b""),
                (u32::MAX, Some("c"), &[3; 100]),
                (0, None, b""),
            ];
            assert!(shown.eq(expected));
            let places = found.iter().map(|frame| (frame.position(), frame.end()));
            assert!(places.eq(ends.windows(2).map(|pair| (pair[0], pair[1]))));
            assert!(
                found
                    .iter()
                    .all(|frame| frame.padded_bytes().is_multiple_of(align))
            );
        }
    }

    #[test]
    fn message_that_does_not_fit_is_not_added() {
        let mut bytes = vec![1];
        let mut add = |message: Outgoing<'_>, max| add(&mut bytes, message, 8, max).unwrap_err();
        let long = NotSent::TooLong { max: 4 };
        assert_eq!(add(Outgoing::new(b"12345"), 4), long);
        assert_eq!(add(Outgoing::new(b"12345").topic("a"), 6), long);
        assert_eq!(add(Outgoing::new(b"1").topic("a b"), 99), NotSent::Topic);
        assert_eq!(bytes, [1]);
    }

    /// Any bytes may come from a far side.
    #[test]
    fn bytes_that_are_not_frames_are_refused() {
        let cases: [(&[u8], u64); 6] = [
            (&[1, 2, 3], 8),
            (&[0; 16], 8),
            (&7_u64.to_le_bytes(), 8),
            (&16_u64.to_le_bytes(), 8),
            (&9_u64.to_le_bytes(), u64::MAX),
            (&(8 | TOPIC).to_le_bytes(), 0),
        ];
        for (bytes, align) in cases {
            let mut frames = Frames::new(u64::MAX, align, bytes);
            let fault = frames.next().unwrap().unwrap_err();
            assert_eq!(fault.position, u64::MAX, "{bytes:?}");
            assert!(frames.next().is_none(), "{bytes:?}");
        }
    }
}
