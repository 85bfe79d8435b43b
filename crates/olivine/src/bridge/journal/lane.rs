//! The lanes of a journal: the origin of its runs.

use super::format::{COUNT_MAX, LANES_MAX, LaneHeader, TEXT_MAX};
use crate::error::JournalError;
use crate::message::{Fields, KnownType};
use crate::ring::layout::FIELDS_BYTES;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the texts of fields that a reader of one journal parses: later ones count as none.
const PARSED_MAX: usize = 1 << 20;

/// Origin of the frames of a run: one publisher's lane of one channel incarnation.
///
/// Positions continue within a lane. A new channel of the same name is another incarnation, so its
/// lanes are others even with equal numbers. The fields of the type tell no lanes apart: they may
/// become known later than the lane.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lane {
    /// Name of the channel, 1 to 1024 bytes.
    pub channel: String,
    /// Index of the publisher's lane in the channel.
    pub publisher: u32,
    /// Bytes to which frames are padded: a power of two from 8 to 4096.
    pub align: u32,
    /// A number that differs for each incarnation of the channel.
    pub incarnation: u64,
    /// Type of the messages, with a name of up to 1024 bytes.
    pub message_type: KnownType,
}

impl Lane {
    fn identity(&self) -> (&str, u32, u32, u64, u64, &str) {
        let KnownType { hash, name, .. } = &self.message_type;
        (
            &self.channel,
            self.publisher,
            self.align,
            self.incarnation,
            *hash,
            name,
        )
    }

    /// Lane `publisher` of an untyped channel with frames padded to `align` bytes.
    #[must_use]
    pub fn new(channel: &str, publisher: u32, align: u32, incarnation: u64) -> Self {
        Self {
            channel: channel.to_owned(),
            publisher,
            align,
            incarnation,
            message_type: KnownType::default(),
        }
    }

    /// The same with a message type.
    #[must_use]
    pub fn typed(mut self, message_type: KnownType) -> Self {
        self.message_type = message_type;
        self
    }

    /// Whether one journal may have messages of both: the channels differ, or have one type and one
    /// `align`.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let same_type = || self.message_type.difference(&other.message_type).is_none();
        self.channel != other.channel || self.align == other.align && same_type()
    }

    pub(super) fn check(&self) -> Result<(), JournalError> {
        let refuse = |what, value: String, rule| Err(JournalError::Value { what, value, rule });
        let is_text = |text: &str| text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
        if self.channel.is_empty() || !is_text(&self.channel) {
            let shown = self.channel.escape_default().to_string();
            return refuse(
                "a channel's name",
                shown,
                "1 to 1024 bytes of printable text",
            );
        }
        let name = &self.message_type.name;
        if !is_text(name) {
            let shown = name.escape_default().to_string();
            return refuse("a type's name", shown, "up to 1024 bytes of printable text");
        }
        if !self.align.is_power_of_two() || !(8..=4096).contains(&self.align) {
            let shown = self.align.to_string();
            return refuse("align", shown, "a power of two from 8 to 4096");
        }
        Ok(())
    }

    /// Padding as an index bound.
    pub(super) fn align(&self) -> usize {
        self.align as usize
    }
}

impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Lane {}

impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// A lane and the end of its recorded frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) lane: Lane,
    /// Position after its last recorded frame; 0 before the first.
    pub(super) end: u64,
}

impl Known {
    /// Bytes of the lane that were never recorded, if its next run begins at `position`.
    pub(super) fn missed_before(&self, position: u64) -> u64 {
        // A lane begins where its recorder joined it.
        if self.end == 0 {
            return 0;
        }
        position.saturating_sub(self.end)
    }
}

/// The lanes that were read from a journal.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    known: Vec<Known>,
    /// Bytes of the texts of fields that were parsed, whatever came of it.
    parsed_bytes: usize,
}

impl Lanes {
    /// Parses the fields of a lane that has none yet, up to [`PARSED_MAX`] over all lanes: the
    /// file may be hostile.
    fn take_fields(&mut self, number: usize, fields: &str) {
        let Some(known) = self.known.get_mut(number) else {
            return;
        };
        let found = &mut known.lane.message_type.fields;
        if found.is_empty() && self.parsed_bytes + fields.len() <= PARSED_MAX {
            self.parsed_bytes += fields.len();
            *found = Fields::of_far_side(fields);
        }
    }
}

impl Deref for Lanes {
    type Target = [Known];

    fn deref(&self) -> &[Known] {
        &self.known
    }
}

impl DerefMut for Lanes {
    fn deref_mut(&mut self) -> &mut [Known] {
        &mut self.known
    }
}

impl From<Lanes> for Vec<Known> {
    fn from(lanes: Lanes) -> Self {
        lanes.known
    }
}

/// Bytes that the descriptions of `lanes` take.
pub(super) fn bytes(lanes: &[Known]) -> u64 {
    let bytes = |known: &Known| {
        let fields = known.lane.message_type.fields.to_string();
        let texts: usize = texts(&known.lane, &fields).map(str::len).iter().sum();
        (size_of::<LaneHeader>() + texts).next_multiple_of(8) as u64
    };
    lanes.iter().map(bytes).sum()
}

/// The texts of a description, in their order.
fn texts<'a>(lane: &'a Lane, fields: &'a str) -> [&'a str; 3] {
    [&lane.channel, &lane.message_type.name, fields]
}

/// Appends the descriptions of `lanes`; the first has the number `first`.
pub(super) fn encode(first: usize, lanes: &[Known], into: &mut Vec<u8>) {
    for (index, Known { lane, end }) in lanes.iter().enumerate() {
        let fields = lane.message_type.fields.to_string();
        let texts = texts(lane, &fields);
        // Checked when the lane was added: at most 65,536 lanes, an `align` of at most 4096, texts
        // of at most 1024 bytes.
        #[allow(
            clippy::cast_possible_truncation,
            reason = "bounded by LANES_MAX, TEXT_MAX and FIELDS_BYTES"
        )]
        let (number, align, [channel, kind, fields]) = (
            (first + index) as u32,
            lane.align as u16,
            texts.map(|text| text.len() as u16),
        );
        let header = LaneHeader {
            lane: number.into(),
            publisher: lane.publisher.into(),
            align: align.into(),
            fields_bytes: fields.into(),
            channel_bytes: channel.into(),
            type_bytes: kind.into(),
            incarnation: lane.incarnation.into(),
            type_hash: lane.message_type.hash.into(),
            end: (*end).into(),
        };
        into.extend_from_slice(header.as_bytes());
        for text in texts {
            into.extend_from_slice(text.as_bytes());
        }
        into.resize(into.len().next_multiple_of(8), 0);
    }
}

/// Reads `count` descriptions from the start of `body` into `lanes`; returns the bytes after them.
///
/// The description of a known lane must be equal; only its end may be newer.
///
/// # Errors
///
/// What is wrong with them.
pub(super) fn decode<'a>(
    count: u32,
    mut body: &'a [u8],
    lanes: &mut Lanes,
) -> Result<&'a [u8], &'static str> {
    for _ in 0..count {
        let (header, rest) =
            LaneHeader::read_from_prefix(body).map_err(|_| "a lane's description is cut")?;
        let lengths = [header.channel_bytes, header.type_bytes, header.fields_bytes];
        let [channel_bytes, type_bytes, fields_bytes] =
            lengths.map(|length| usize::from(length.get()));
        let texts = channel_bytes + type_bytes + fields_bytes;
        let padded =
            (size_of::<LaneHeader>() + texts).next_multiple_of(8) - size_of::<LaneHeader>();
        let (text, padding) = rest
            .get(..padded)
            .and_then(|padded| padded.split_at_checked(texts))
            .ok_or("a lane's description is cut")?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err("a lane's description has something in its padding");
        }
        if fields_bytes > FIELDS_BYTES {
            return Err("a lane's description is not possible");
        }
        let (channel, rest_of_text) = text.split_at(channel_bytes);
        let (kind, fields) = rest_of_text.split_at(type_bytes);
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "a lane's name is not text");
        let lane = Lane {
            channel: text(channel)?.to_owned(),
            publisher: header.publisher.get(),
            align: header.align.get().into(),
            incarnation: header.incarnation.get(),
            message_type: KnownType::new(header.type_hash.get(), text(kind)?, ""),
        };
        let fields = text(fields)?;
        lane.check()
            .map_err(|_| "a lane's description is not possible")?;
        let number = header.lane.get() as usize;
        let end = header.end.get();
        if end > COUNT_MAX {
            return Err("a lane's end is not possible");
        }
        let count = lanes.known.len();
        match lanes.known.get_mut(number) {
            Some(known) if known.lane == lane => known.end = known.end.max(end),
            None if number == count && number < LANES_MAX => lanes.known.push(Known { lane, end }),
            _ => return Err("a lane is described twice, or out of order"),
        }
        lanes.take_fields(number, fields);
        body = &rest[padded..];
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(count: u32, fields: &str) -> Vec<Known> {
        let typed = KnownType::new(9, "quote v1", fields);
        let lane = |n| Lane::new("ticks", n, 8, 5).typed(typed.clone());
        let known = |n| Known {
            lane: lane(n),
            end: 0,
        };
        (0..count).map(known).collect()
    }

    /// A hostile file made a reader parse all, and keep about 150 fields for each lane.
    #[test]
    fn fields_of_one_journal_are_parsed_up_to_a_mebibyte() {
        let names: Vec<_> = (0..100).map(|n| format!("n{n} u8")).collect();
        let text = names.join(", ");
        let mut body = Vec::new();
        encode(0, &lanes(2_000, &text), &mut body);
        let mut read = Lanes::default();
        for _ in 0..2 {
            assert!(decode(2_000, &body, &mut read).unwrap().is_empty());
            let with = read
                .iter()
                .filter(|known| known.lane.message_type.fields.iter().len() > 0);
            assert_eq!(with.count(), PARSED_MAX / text.len());
            assert_eq!(read.parsed_bytes, PARSED_MAX / text.len() * text.len());
        }
    }

    #[test]
    fn repeated_description_adds_fields_and_replaces_none() {
        let mut read = Lanes::default();
        for (fields, expected) in [("", ""), ("bid u64", "bid u64"), ("bid i64", "bid u64")] {
            let mut body = Vec::new();
            encode(0, &lanes(1, fields), &mut body);
            decode(1, &body, &mut read).unwrap();
            assert_eq!(read[0].lane.message_type.fields.to_string(), expected);
            assert_eq!(read.parsed_bytes, expected.len());
        }
    }
}
