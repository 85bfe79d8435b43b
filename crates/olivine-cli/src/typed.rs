//! `--type`: a message type as text, and its messages from JSON.

use olivine::{Field, FieldKind, Fields, MessageType};
use serde_json::{Map, Value};

/// Reads `NAME: FIELDS`, with `; size=BYTES` and `; align=BYTES` for what differs from C.
///
/// Without them the alignment is that of the largest field, or 1 where a field is not aligned, and
/// the size is the end of the last field, rounded up to the alignment.
pub(crate) fn parse(text: &str) -> Result<MessageType, String> {
    const FORM: &str = "write NAME: FIELDS, such as 'quote v1: bid i64, ask i64'";
    let mut parts = text.split(';');
    let stated = parts.next().unwrap_or_default();
    // A name may contain colons, and a field none.
    let (name, fields) = stated.rsplit_once(':').ok_or(FORM)?;
    let known: Fields = fields.parse().map_err(|error| format!("{error}"))?;
    if known.is_empty() {
        return Err(FORM.to_owned());
    }
    let (mut size, mut align) = (None, None);
    for part in parts {
        let setting = part.split_once('=').and_then(|(key, value)| {
            let value: usize = value.trim().parse().ok()?;
            match key.trim() {
                "size" => Some(size.insert(value)),
                "align" => Some(align.insert(value)),
                _ => None,
            }
        });
        if setting.is_none() {
            let part = part.trim();
            return Err(format!("'{part}' is neither size=BYTES nor align=BYTES"));
        }
    }
    let is_aligned = |field: &Field| field.offset().is_multiple_of(field.kind().size());
    let align = align.unwrap_or_else(|| {
        let sizes = known.iter().map(|field| field.kind().size());
        let all = known.iter().all(is_aligned);
        sizes.max().filter(|_| all).unwrap_or(1)
    });
    let end = known.iter().map(|field| field.offset() + field.size());
    let end = end.max().unwrap_or(0);
    let size = size.or_else(|| end.checked_next_multiple_of(align));
    MessageType::new(name.trim(), size.unwrap_or(end), align)
        .and_then(|stated| stated.with_fields(fields))
        .map_err(|error| error.to_string())
}

/// Makes a message of `stated` in `message` from an object with a member for each field, or from a
/// line of `olivine sub --out json`. What belongs to no field is 0.
pub(crate) fn encode(
    stated: &MessageType,
    json: &[u8],
    message: &mut Vec<u8>,
) -> Result<(), String> {
    let parsed: Result<Map<String, Value>, _> = serde_json::from_slice(json);
    let mut members = parsed.map_err(|error| format!("it is not an object in JSON: {error}"))?;
    if members.get("event").and_then(Value::as_str) == Some("message") {
        match members.remove("fields") {
            Some(Value::Object(fields)) => members = fields,
            _ => return Err("this message has no fields".to_owned()),
        }
    }
    message.clear();
    message.resize(stated.size(), 0);
    for field in stated.fields().iter() {
        let name = field.name();
        let value = members
            .remove(name)
            .ok_or_else(|| format!("field '{name}' is missing"))?;
        let place = field.offset()..field.offset() + field.size();
        let written = message.get_mut(place).and_then(|at| put(field, &value, at));
        written.ok_or_else(|| format!("{value} is not a value of the field '{field}'"))?;
    }
    match members.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("the type has no field '{name}'")),
    }
}

/// Writes `value` to the bytes of `field`; `None` if it does not fit.
fn put(field: &Field, value: &Value, bytes: &mut [u8]) -> Option<()> {
    let kind = field.kind();
    if kind == FieldKind::Text {
        let text = value.as_str().filter(|text| !text.contains('\0'))?;
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        return Some(());
    }
    let Some(count) = field.count() else {
        return put_single(kind, value, bytes);
    };
    let values = value.as_array().filter(|values| values.len() == count)?;
    let places = bytes.chunks_exact_mut(kind.size());
    let mut pairs = values.iter().zip(places);
    pairs.try_for_each(|(value, bytes)| put_single(kind, value, bytes))
}

fn put_single(kind: FieldKind, value: &Value, bytes: &mut [u8]) -> Option<()> {
    let signed = value.as_i64().map(i128::from);
    let whole = signed.or_else(|| value.as_u64().map(i128::from));
    macro_rules! integer {
        ($type:ty) => {
            bytes.copy_from_slice(&<$type>::try_from(whole?).ok()?.to_le_bytes())
        };
    }
    // A number that is not finite is printed as null.
    macro_rules! float {
        ($type:ty) => {{
            let digits = value.as_number().map(ToString::to_string);
            let number = digits.and_then(|digits| digits.parse::<$type>().ok());
            let number = number.filter(|number| number.is_finite());
            let number = number.or_else(|| value.is_null().then_some(<$type>::NAN));
            bytes.copy_from_slice(&number?.to_le_bytes())
        }};
    }
    match kind {
        FieldKind::U8 => integer!(u8),
        FieldKind::U16 => integer!(u16),
        FieldKind::U32 => integer!(u32),
        FieldKind::U64 => integer!(u64),
        FieldKind::I8 => integer!(i8),
        FieldKind::I16 => integer!(i16),
        FieldKind::I32 => integer!(i32),
        FieldKind::I64 => integer!(i64),
        FieldKind::F32 => float!(f32),
        FieldKind::F64 => float!(f64),
        FieldKind::Bool => bytes.copy_from_slice(&[u8::from(value.as_bool()?)]),
        // Kinds of a later version of the library.
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Values;

    const EVERY: &str = "every v1: a u8, b u16, c u32, d u64, e i8, f i16, g i32, h i64, i f32, \
                         j f64, k bool, l text[6], m i16[2], n f32[2]";

    fn shape(text: &str) -> (String, usize, usize) {
        let stated = parse(text).unwrap();
        (stated.name().to_owned(), stated.size(), stated.align())
    }

    fn encoded(text: &str, json: &str) -> Result<Vec<u8>, String> {
        let mut message = vec![1; 3];
        encode(&parse(text).unwrap(), json.as_bytes(), &mut message).map(|()| message)
    }

    #[test]
    fn size_and_alignment_are_those_of_c_unless_stated() {
        let named = |size, align| ("quote v1".to_owned(), size, align);
        assert_eq!(shape("quote v1: bid i64, ask i64"), named(16, 8));
        assert_eq!(shape("quote v1: bid i64, n u16"), named(16, 8));
        assert_eq!(shape("quote v1:text text[5]"), named(5, 1));
        assert_eq!(shape("quote v1: n u8, bid i64 @1"), named(9, 1));
        assert_eq!(shape("quote v1: bid i64; size=64"), named(64, 8));
        assert_eq!(
            shape("quote v1: bid i64 ; align=4; size = 12"),
            named(12, 4)
        );
        assert_eq!(shape("a::Quote: bid i64").0, "a::Quote");
    }

    #[test]
    fn type_that_is_not_understood_is_refused_with_the_reason() {
        for (text, part) in [
            ("quote v1", "write NAME: FIELDS"),
            ("quote v1:", "write NAME: FIELDS"),
            (": bid i64", "1 to 64 bytes"),
            ("quote v1: bid int", "the kinds are"),
            ("quote v1: bid i64; size=4", "size"),
            ("quote v1: bid i64; align=3", "3"),
            ("quote v1: bid i64; bytes=8", "'bytes=8' is neither"),
            ("quote v1: bid i64; size=x", "'size=x' is neither"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_printed_of_a_message_makes_the_same_message() {
        let stated = parse(EVERY).unwrap();
        let json = r#"{"a":255,"b":1,"c":2,"d":18446744073709551615,"e":-128,"f":-1,"g":0,
            "h":-9223372036854775808,"i":0.1,"j":1e300,"k":true,"l":"abcdef","m":[-1,2],
            "n":[null,2]}"#;
        let first = encoded(EVERY, json).unwrap();
        assert_eq!(first.len(), stated.size());
        let printed = serde_json::to_string(&Values::of(stated.fields(), &first).unwrap()).unwrap();
        assert_eq!(encoded(EVERY, &printed).unwrap(), first, "{printed}");
        let line = format!(r#"{{"event":"message","lane":0,"tag":0,"fields":{printed}}}"#);
        assert_eq!(encoded(EVERY, &line).unwrap(), first);
    }

    #[test]
    fn value_that_does_not_fit_its_field_is_refused_by_name() {
        let of_type = "t v1: n u8, x f32, s text[2], m i16[2]";
        let good = r#"{"n":1,"x":2,"s":"a","m":[1,2]}"#;
        assert!(encoded(of_type, good).is_ok());
        for (from, to, part) in [
            (
                r#""n":1"#,
                r#""n":256"#,
                "256 is not a value of the field 'n u8'",
            ),
            (r#""n":1"#, r#""n":-1"#, "'n u8'"),
            (r#""n":1"#, r#""n":1.5"#, "'n u8'"),
            (r#""n":1"#, r#""n":"1""#, "'n u8'"),
            (r#""n":1,"#, "", "field 'n' is missing"),
            (r#""n":1"#, r#""n":1,"o":1"#, "no field 'o'"),
            (r#""x":2"#, r#""x":1e39"#, "'x f32'"),
            (r#""s":"a""#, r#""s":"abc""#, "'s text[2]'"),
            (r#""s":"a""#, r#""s":"\u0000""#, "'s text[2]'"),
            ("[1,2]", "[1]", "'m i16[2]'"),
            ("[1,2]", "[1,40000]", "'m i16[2]'"),
            ("{", "", "not an object in JSON"),
            ("{", r#"{"event":"message","#, "has no fields"),
        ] {
            let said = encoded(of_type, &good.replacen(from, to, 1)).unwrap_err();
            assert!(said.contains(part), "{to}: {said}");
        }
    }
}
