//! The fields of a message type: names, kinds and offsets, as text that every language can state.

use crate::error::MessageTypeError;
use crate::ring::layout::FIELDS_BYTES;
use core::fmt;
use core::str::FromStr;

/// Longest name of a field in bytes.
const NAME_BYTES: usize = 64;

/// What a field holds. Numbers are little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldKind {
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// An unsigned number of 32 bits.
    U32,
    /// An unsigned number of 64 bits.
    U64,
    /// A signed number of 8 bits.
    I8,
    /// A signed number of 16 bits.
    I16,
    /// A signed number of 32 bits.
    I32,
    /// A signed number of 64 bits.
    I64,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A byte that is 0 or 1.
    Bool,
    /// A byte of text in UTF-8. A text ends at its first zero, or with the field.
    Text,
}

/// Each kind with its word and its size in bytes.
const KINDS: [(FieldKind, &str, usize); 12] = [
    (FieldKind::U8, "u8", 1),
    (FieldKind::U16, "u16", 2),
    (FieldKind::U32, "u32", 4),
    (FieldKind::U64, "u64", 8),
    (FieldKind::I8, "i8", 1),
    (FieldKind::I16, "i16", 2),
    (FieldKind::I32, "i32", 4),
    (FieldKind::I64, "i64", 8),
    (FieldKind::F32, "f32", 4),
    (FieldKind::F64, "f64", 8),
    (FieldKind::Bool, "bool", 1),
    (FieldKind::Text, "text", 1),
];

impl FieldKind {
    /// Its word, as in `docs/types.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or("", |(_, word, _)| word)
    }

    /// Bytes of one value.
    #[must_use]
    pub fn size(self) -> usize {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.map_or(0, |(.., size)| *size)
    }
}

/// A field of a [`MessageType`](crate::MessageType).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    name: String,
    kind: FieldKind,
    count: Option<usize>,
    offset: usize,
}

impl Field {
    /// Its name; a part of a nested structure has the names of all levels, with dots between.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> FieldKind {
        self.kind
    }

    /// Number of values, of an array or a text; `None` for a single value.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        self.count
    }

    /// Bytes from the start of the message to the field.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes of the field.
    #[must_use]
    pub fn size(&self) -> usize {
        self.kind.size().saturating_mul(self.count.unwrap_or(1))
    }

    /// Its bytes in the message `payload`; `None` if the message is too short for it.
    ///
    /// The fields of a channel come from other programs, and a message has any length. So do not
    /// slice a message by [`Field::offset`] and [`Field::size`] alone: that panics where this is
    /// `None`.
    ///
    /// ```
    /// let fields: olivine::Fields = "bid i64, size u32".parse()?;
    /// let size = fields.iter().last().unwrap();
    /// assert_eq!(size.bytes(&[7; 12]), Some(&[7; 4][..]));
    /// assert_eq!(size.bytes(&[7; 11]), None);
    /// # Ok::<(), olivine::MessageTypeError>(())
    /// ```
    #[must_use]
    pub fn bytes<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        payload.get(self.offset..self.end())
    }

    /// Whether two programs mean the same field: text is bytes, too.
    fn is_like(&self, other: &Self) -> bool {
        let as_bytes = |field: &Self| Self {
            kind: match field.kind {
                FieldKind::Text => FieldKind::U8,
                kind => kind,
            },
            ..field.clone()
        };
        as_bytes(self) == as_bytes(other)
    }

    /// A field of a structure, for [`plain!`](crate::plain).
    pub(super) fn of_structure(
        name: String,
        kind: FieldKind,
        count: Option<usize>,
        offset: usize,
    ) -> Self {
        Self {
            name,
            kind,
            count,
            offset,
        }
    }

    fn end(&self) -> usize {
        self.offset.saturating_add(self.size())
    }
}

/// `bid i64`: without the offset.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind.word())?;
        self.count.map_or(Ok(()), |count| write!(f, "[{count}]"))
    }
}

/// All fields of a message type, in the order of their offsets. Empty for a type that states none.
///
/// As text: `NAME KIND`, `NAME KIND[COUNT]` for an array, with commas between them. A field begins
/// at the first multiple of its alignment, as in C, unless `@OFFSET` says where.
///
/// ```
/// use olivine::Fields;
///
/// let fields: Fields = "bid i64, symbol text[6], size u32".parse()?;
/// let offsets: Vec<usize> = fields.iter().map(|field| field.offset()).collect();
/// assert_eq!(offsets, [0, 8, 16]);
/// let packed: Fields = "bid i64, symbol text[6], size u32 @14".parse()?;
/// assert_eq!(packed.to_string(), "bid i64, symbol text[6], size u32 @14");
/// # Ok::<(), olivine::MessageTypeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// The fields.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Field> {
        self.0.iter()
    }

    /// Whether the type states no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first byte behind the last field.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn end(&self) -> usize {
        self.0.last().map_or(0, Field::end)
    }

    /// The first field that differs, as `self` and as `other` have it.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<(String, String)> {
        let most = self.0.len().max(other.0.len());
        let shown = |fields: &Self, index: usize| match fields.0.get(index) {
            Some(field) => format!("{field} at byte {}", field.offset),
            None if index == 1 => "only 1 field".to_owned(),
            None => format!("only {} fields", fields.0.len()),
        };
        let mut indices = 0..most;
        let index = indices.find(|&index| match (self.0.get(index), other.0.get(index)) {
            (Some(ours), Some(theirs)) => !ours.is_like(theirs),
            _ => true,
        })?;
        Some((shown(self, index), shown(other, index)))
    }

    /// These fields, or none where their text is too long to be stored.
    pub(crate) fn storable(self) -> Self {
        if self.to_string().len() > FIELDS_BYTES {
            return Self::default();
        }
        self
    }

    /// The fields of a text from elsewhere, of any length and content; none where no channel would
    /// store them, or this version cannot read them.
    pub(crate) fn of_far_side(text: &str) -> Self {
        if text.len() > FIELDS_BYTES {
            return Self::default();
        }
        let fields: Self = text.parse().unwrap_or_default();
        fields.storable()
    }

    /// Fields of a structure, in any order. For [`plain!`](crate::plain);
    /// [`MessageType::of`](crate::MessageType::of) checks them.
    #[doc(hidden)]
    #[must_use]
    pub fn of_structure(mut fields: Vec<Field>) -> Self {
        fields.sort_by_key(|field| field.offset);
        Self(fields)
    }

    /// These fields of a value of `size` bytes, as they are read back from their text.
    ///
    /// # Errors
    ///
    /// [`MessageTypeError::Field`]: a field cannot be read back, or ends behind the value.
    pub(super) fn checked(&self, size: usize) -> Result<Self, MessageTypeError> {
        let read: Self = self.to_string().parse()?;
        match read.0.last() {
            Some(last) if last.end() > size => Err(MessageTypeError::Field {
                field: last.to_string(),
                problem: "it ends behind the value",
            }),
            _ => Ok(read),
        }
    }
}

/// Where the next field begins without an `@OFFSET`.
fn natural(end: usize, kind: FieldKind) -> usize {
    end.checked_next_multiple_of(kind.size())
        .unwrap_or(usize::MAX)
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = 0;
        for (index, field) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{field}")?;
            if field.offset != natural(end, field.kind) {
                write!(f, " @{}", field.offset)?;
            }
            end = field.end();
        }
        Ok(())
    }
}

impl FromStr for Fields {
    type Err = MessageTypeError;

    /// Reads the text form; an empty text has no fields.
    ///
    /// # Errors
    ///
    /// [`MessageTypeError::Field`]: it names the field, and what is wrong with it.
    fn from_str(text: &str) -> Result<Self, MessageTypeError> {
        let mut fields: Vec<Field> = Vec::new();
        if text.trim().is_empty() {
            return Ok(Self(fields));
        }
        for part in text.split(',') {
            let end = fields.last().map_or(0, Field::end);
            let field = parse(part, end).and_then(|field| {
                let is_twice = fields.iter().any(|other| other.name == field.name);
                if is_twice {
                    Err("another field has this name")
                } else if field.offset < end {
                    Err("it begins before the end of the field before it")
                } else if field.end() > isize::MAX.unsigned_abs() {
                    Err("it ends behind every message")
                } else {
                    Ok(field)
                }
            });
            let field = field.map_err(|problem| MessageTypeError::Field {
                field: part.trim().to_owned(),
                problem,
            });
            fields.push(field?);
        }
        Ok(Self(fields))
    }
}

/// One field, behind a field that ends at `end`.
fn parse(text: &str, end: usize) -> Result<Field, &'static str> {
    const FORM: &str = "write NAME KIND, NAME KIND[COUNT], or one of them with @OFFSET";
    let mut words = text.split_whitespace();
    let (Some(name), Some(kind)) = (words.next(), words.next()) else {
        return Err(FORM);
    };
    let offset = match words.next().map(|word| word.strip_prefix('@')) {
        None => None,
        Some(digits) => Some(digits.and_then(|digits| digits.parse().ok()).ok_or(FORM)?),
    };
    let plain = |c: char| !c.is_control() && !"@[]\"\\".contains(c);
    if words.next().is_some() || !name.chars().all(plain) {
        return Err(FORM);
    }
    if name.len() > NAME_BYTES {
        return Err("a name has at most 64 bytes");
    }
    let (word, count) = match kind.split_once('[') {
        None => (kind, None),
        Some((word, count)) => {
            let count = count.strip_suffix(']').and_then(|count| count.parse().ok());
            let count = count.filter(|count| *count > 0);
            (word, Some(count.ok_or("a count is a number from 1")?))
        }
    };
    let found = KINDS.iter().find(|(_, known, _)| *known == word);
    let (kind, ..) = *found.ok_or(
        "the kinds are u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, bool and text[COUNT]",
    )?;
    if kind == FieldKind::Text && count.is_none() {
        return Err("a text has a count: text[COUNT]");
    }
    Ok(Field {
        name: name.to_owned(),
        kind,
        count,
        offset: offset.unwrap_or_else(|| natural(end, kind)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Fields>().unwrap_err().to_string()
    }

    #[test]
    fn text_of_fields_is_read_and_written_alike() {
        for text in [
            "",
            "bid i64",
            "side u8, bid i64, symbol text[6], size u32",
            "side u8, bid i64 @1, flags bool[3]",
            "a.x f32, a.y f32[2] @16, b u16",
        ] {
            let fields: Fields = text.parse().unwrap();
            assert_eq!(fields.to_string(), text);
            assert_eq!(fields.is_empty(), text.is_empty());
        }
        let fields: Fields = " side  u8,bid i64 @8 , n u16[2] @ 16"
            .replace("@ ", "@")
            .parse()
            .unwrap();
        assert_eq!(fields.to_string(), "side u8, bid i64, n u16[2]");
        assert_eq!(fields.end(), 20);
    }

    #[test]
    fn fields_that_no_message_has_are_refused_by_name() {
        for (text, part) in [
            ("bid", "write NAME KIND"),
            ("bid i64 8", "write NAME KIND"),
            ("bid i64 @8 9", "write NAME KIND"),
            ("bid i64 @-1", "write NAME KIND"),
            ("bid i64,", "write NAME KIND"),
            ("b\"d i64", "write NAME KIND"),
            ("bid int", "the kinds are"),
            ("bid i64[0]", "from 1"),
            ("bid i64[3", "from 1"),
            ("bid text", "text[COUNT]"),
            ("bid i64, bid u8", "this name"),
            ("bid i64, ask i64 @7", "before the end"),
            ("bid u64[18446744073709551615], ask u64", "behind every"),
            ("bid u8 @18446744073709551615, ask u64", "behind every"),
        ] {
            let said = refused(text);
            assert!(said.contains(part), "{text}: {said}");
        }
        assert!(refused(&format!("{} u8", "n".repeat(65))).contains("64 bytes"));
    }

    #[test]
    fn first_difference_names_the_field_of_both() {
        let fields = |text: &str| text.parse::<Fields>().unwrap();
        let difference = |a, b| fields(a).first_difference(&fields(b));
        assert_eq!(difference("a u8, b u16", "a u8, b u16"), None);
        let found = difference("a u8, b u16", "a u8, b i16").unwrap();
        assert_eq!(
            found,
            ("b u16 at byte 2".to_owned(), "b i16 at byte 2".to_owned())
        );
        assert_eq!(difference("a u8[2]", "a text[2]"), None);
        let (a, b) = difference("a u8", "a u8, b i16").unwrap();
        assert_eq!((&*a, &*b), ("only 1 field", "b i16 at byte 2"));
        let (a, b) = difference("a u8, b i16, c u8", "a u8, b i16").unwrap();
        assert_eq!((&*a, &*b), ("c u8 at byte 4", "only 2 fields"));
    }
}
