//! The hello of each side.
//!
//! Fields have a tag and a length of 16 bits each, and a value. Unknown fields are skipped;
//! repeated fields and impossible values are refused. Each field has a default.
#![forbid(unsafe_code)]

use super::{HELLO_MAX, MAGIC, WIRE_VERSION, WireError, invalid, word64};
use crate::message::{Fields, KnownType};
use crate::ring::layout::FIELDS_BYTES;
use crate::uri::Start;
use std::fmt;
use std::time::Duration;

/// Direction of the frames of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Side {
    /// It sends them.
    #[default]
    Source,
    /// It receives them.
    Destination,
}

/// Identity and wishes of one side.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) side: Side,
    pub(crate) channel: String,
    pub(crate) token: String,
    /// Random, for the handle or bridge: distinguishes a restored connection from another one.
    pub(crate) instance: u64,
    /// Of the source's channel.
    pub(crate) incarnation: u64,
    /// Bytes of a ring on this side.
    pub(crate) capacity: u64,
    /// Padding of frames on this side.
    pub(crate) align: u64,
    /// Type of the messages.
    pub(crate) known: KnownType,
    /// This side accepts any type.
    pub(crate) any_type: bool,
    /// Durable name of the destination, or empty.
    pub(crate) name: String,
    /// How long the source keeps the destination's session without a connection; zero for ever.
    pub(crate) expire: Duration,
    /// Where a new destination starts.
    pub(crate) from: Start,
    /// Silence after which this side gives the connection up.
    pub(crate) timeout: Duration,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token: the output may be public.
        f.debug_struct("Hello")
            .field("side", &self.side)
            .field("channel", &self.channel)
            .field("instance", &self.instance)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

const SIDE: u16 = 1;
const CHANNEL: u16 = 2;
const TOKEN: u16 = 3;
const INSTANCE: u16 = 4;
const INCARNATION: u16 = 5;
const CAPACITY: u16 = 6;
const ALIGN: u16 = 7;
const TYPE_HASH: u16 = 8;
const TYPE_NAME: u16 = 9;
const ANY_TYPE: u16 = 10;
const NAME: u16 = 11;
const EXPIRE_MS: u16 = 12;
const FROM: u16 = 13;
const TIMEOUT_MS: u16 = 14;
const FIELDS: u16 = 15;
/// Longest text of a field in bytes.
const TEXT_MAX: usize = 256;

impl Hello {
    /// Puts the preamble, the hello and their checksum.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::new();
        let mut field = |tag: u16, value: &[u8]| {
            // The callers check texts: no value is longer.
            let most = if tag == FIELDS {
                FIELDS_BYTES
            } else {
                TEXT_MAX
            };
            let value = &value[..value.len().min(most)];
            fields.extend(tag.to_le_bytes());
            fields.extend(u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
            fields.extend(value);
        };
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let numbers = [
            (SIDE, u64::from(self.side == Side::Destination)),
            (INSTANCE, self.instance),
            (INCARNATION, self.incarnation),
            (CAPACITY, self.capacity),
            (ALIGN, self.align),
            (TYPE_HASH, self.known.hash),
            (ANY_TYPE, u64::from(self.any_type)),
            (EXPIRE_MS, ms(self.expire)),
            (FROM, u64::from(self.from == Start::Oldest)),
            (TIMEOUT_MS, ms(self.timeout)),
        ];
        for (tag, number) in numbers {
            field(tag, &number.to_le_bytes());
        }
        let texts = [
            (CHANNEL, &self.channel),
            (TOKEN, &self.token),
            (TYPE_NAME, &self.known.name),
            (NAME, &self.name),
            (FIELDS, &self.known.fields.to_string()),
        ];
        for (tag, text) in texts {
            field(tag, text.as_bytes());
        }
        debug_assert!(fields.len() <= HELLO_MAX);
        let start = out.len();
        out.extend(MAGIC);
        out.extend(WIRE_VERSION.to_le_bytes());
        out.extend(u32::try_from(fields.len()).unwrap_or(0).to_le_bytes());
        out.extend(fields);
        let sum = crc32c::crc32c(&out[start..]);
        out.extend(sum.to_le_bytes());
    }

    /// Reads the fields of a hello.
    pub(super) fn decode(mut fields: &[u8]) -> Result<Self, WireError> {
        let mut hello = Self::default();
        let mut seen = Vec::new();
        while let Some((head, rest)) = fields.split_first_chunk::<4>() {
            let [tag_low, tag_high, length_low, length_high] = *head;
            let tag = u16::from_le_bytes([tag_low, tag_high]);
            let length = usize::from(u16::from_le_bytes([length_low, length_high]));
            let Some((value, rest)) = rest.split_at_checked(length) else {
                return Err(invalid(format!("field {tag} of the hello is cut")));
            };
            fields = rest;
            if seen.contains(&tag) {
                return Err(invalid(format!("field {tag} of the hello comes twice")));
            }
            seen.push(tag);
            hello.set(tag, value)?;
        }
        if !fields.is_empty() {
            return Err(invalid("the hello ends inside a field"));
        }
        Ok(hello)
    }

    fn set(&mut self, tag: u16, value: &[u8]) -> Result<(), WireError> {
        let wrong = || invalid(format!("field {tag} of the hello is impossible"));
        let number = || match value.len() {
            8 => word64(value, 0).ok_or_else(wrong),
            _ => Err(wrong()),
        };
        let flag = || match number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong()),
        };
        let text_of = |most: usize| {
            let text = std::str::from_utf8(value).map_err(|_| wrong())?;
            let plain = text.len() <= most && !text.chars().any(char::is_control);
            plain.then(|| text.to_owned()).ok_or_else(wrong)
        };
        let text = || text_of(TEXT_MAX);
        match tag {
            SIDE => {
                self.side = if flag()? {
                    Side::Destination
                } else {
                    Side::Source
                }
            }
            CHANNEL => self.channel = text()?,
            TOKEN => self.token = text()?,
            INSTANCE => self.instance = number()?,
            INCARNATION => self.incarnation = number()?,
            CAPACITY => self.capacity = number()?,
            ALIGN => self.align = number()?,
            TYPE_HASH => self.known.hash = number()?,
            TYPE_NAME => self.known.name = text()?,
            ANY_TYPE => self.any_type = flag()?,
            NAME => self.name = text()?,
            EXPIRE_MS => self.expire = Duration::from_millis(number()?),
            FROM => self.from = if flag()? { Start::Oldest } else { Start::Now },
            TIMEOUT_MS => self.timeout = Duration::from_millis(number()?),
            FIELDS => self.known.fields = Fields::of_far_side(&text_of(FIELDS_BYTES)?),
            // From a later version, which requires a new version number for fields that must be
            // understood.
            _ => {}
        }
        Ok(())
    }
}
