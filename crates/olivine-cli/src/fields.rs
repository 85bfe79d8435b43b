//! Values of the fields of a message, as JSON.

use olivine::{Field, FieldKind, Fields};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

/// The fields of a message with their values.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    fields: &'a Fields,
    payload: &'a [u8],
}

impl<'a> Values<'a> {
    /// `None` if the channel states no fields, or the message is too short for them.
    pub(crate) fn of(fields: &'a Fields, payload: &'a [u8]) -> Option<Self> {
        let fits = |field: &Field| field.bytes(payload).is_some();
        let all = !fields.is_empty() && fields.iter().all(fits);
        all.then_some(Self { fields, payload })
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.iter().len()))?;
        for field in self.fields.iter() {
            let bytes = field.bytes(self.payload).unwrap_or_default();
            map.serialize_entry(field.name(), &Value { field, bytes })?;
        }
        map.end()
    }
}

struct Value<'a> {
    field: &'a Field,
    bytes: &'a [u8],
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.field.kind();
        if kind == FieldKind::Text {
            let text = self.bytes.split(|byte| *byte == 0).next();
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            return serializer.serialize_str(&text);
        }
        if self.field.count().is_none() {
            return Single {
                kind,
                bytes: self.bytes,
            }
            .serialize(serializer);
        }
        let mut list = serializer.serialize_seq(self.field.count())?;
        for bytes in self.bytes.chunks_exact(kind.size()) {
            list.serialize_element(&Single { kind, bytes })?;
        }
        list.end()
    }
}

struct Single<'a> {
    kind: FieldKind,
    bytes: &'a [u8],
}

/// The first bytes as an array: all of them, in a field of its size.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

impl Serialize for Single<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.bytes;
        match self.kind {
            FieldKind::U8 => serializer.serialize_u8(u8::from_le_bytes(array(bytes))),
            FieldKind::U16 => serializer.serialize_u16(u16::from_le_bytes(array(bytes))),
            FieldKind::U32 => serializer.serialize_u32(u32::from_le_bytes(array(bytes))),
            FieldKind::U64 => serializer.serialize_u64(u64::from_le_bytes(array(bytes))),
            FieldKind::I8 => serializer.serialize_i8(i8::from_le_bytes(array(bytes))),
            FieldKind::I16 => serializer.serialize_i16(i16::from_le_bytes(array(bytes))),
            FieldKind::I32 => serializer.serialize_i32(i32::from_le_bytes(array(bytes))),
            FieldKind::I64 => serializer.serialize_i64(i64::from_le_bytes(array(bytes))),
            FieldKind::F32 => serializer.serialize_f32(f32::from_le_bytes(array(bytes))),
            FieldKind::F64 => serializer.serialize_f64(f64::from_le_bytes(array(bytes))),
            FieldKind::Bool => serializer.serialize_bool(bytes != [0]),
            // Kinds of a later version of the library.
            _ => serializer.serialize_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(fields: &str, payload: &[u8]) -> Option<String> {
        let fields: Fields = fields.parse().unwrap();
        let values = Values::of(&fields, payload)?;
        Some(serde_json::to_string(&values).unwrap())
    }

    #[test]
    fn each_kind_is_shown_in_the_order_of_the_fields() {
        let kinds = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
        let fields = kinds.map(|kind| format!("of_{kind} {kind}")).join(", ");
        let shown = json(&fields, &[0xff; 64]).unwrap();
        let values = kinds.map(|kind| {
            let value = match kind.split_at(1) {
                ("u", bits) => ((1_u128 << bits.parse::<u32>().unwrap()) - 1).to_string(),
                _ => "-1".to_owned(),
            };
            format!("\"of_{kind}\":{value}")
        });
        assert_eq!(shown, format!("{{{}}}", values.join(",")));
        let mut payload = Vec::new();
        payload.extend(1.5_f64.to_le_bytes());
        payload.extend(f32::NAN.to_le_bytes());
        payload.extend([2, 0, 3, 0]);
        payload.extend(*b"a\"\xff\0b\x01");
        let fields = "z f64, a f32, n i16[2], name text[5], on bool";
        assert_eq!(
            json(fields, &payload).unwrap(),
            r#"{"z":1.5,"a":null,"n":[2,3],"name":"a\"�","on":true}"#
        );
    }

    #[test]
    fn message_without_stated_fields_or_too_short_for_them_has_none() {
        assert_eq!(json("", b"bytes"), None);
        assert_eq!(json("a u32", b"abc"), None);
        assert_eq!(json("a u8 @9223372036854775806", b"abc"), None);
        assert_eq!(json("a u8", b"abc").unwrap(), r#"{"a":97}"#);
    }
}
