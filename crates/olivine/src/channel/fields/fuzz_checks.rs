//! Checks of the text of fields, and of what a control file has in its place, for any bytes.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::stored;
use crate::error::MessageTypeError;
use crate::fuzz_checks::input::Input;
use crate::message::Fields;
use crate::region::{Memory, Words};
use crate::ring::layout::{FIELDS_BYTES, checksum, control, fields_to_words, pack};
use crate::sync::Ordering;

/// Words of a control header.
const HEADER_WORDS: usize = 512;
/// The hash of a type.
const TYPE_HASH: u64 = 7;

/// Checks that a text is refused by the name of a field, or means the same after it is printed.
/// Checks that stored words of any content are the fields of their text, or none. The check word of
/// most inputs matches, so that their text is read.
///
/// # Panics
///
/// If a check fails.
pub fn check_fields(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let length = (choice & 1 == 1).then(|| input.word());
    let bytes = input.bytes(FIELDS_BYTES);
    let text = str::from_utf8(bytes);
    if let Ok(text) = text {
        let far = Fields::of_far_side(text);
        assert!(far.to_string().len() <= FIELDS_BYTES, "{text:?}");
        match text.parse() {
            Ok(fields) => {
                hold(&fields);
                assert!(far.is_empty() || far == fields, "{text:?}");
            }
            Err(error) => {
                refused(text, &error);
                assert!(far.is_empty(), "{text:?}");
            }
        }
    }
    let found = read_back(bytes, length, choice & 2 == 0);
    if !found.is_empty() {
        hold(&found);
        let whole = length.is_none_or(|length| length == bytes.len() as u64);
        if whole && let Ok(text) = text {
            assert_eq!(text.parse().as_ref(), Ok(&found), "{text:?}");
        }
        assert!(choice & 2 == 0, "the check word is another one");
    }
}

/// Checks that these fields are in order, and the same after they are printed.
fn hold(fields: &Fields) {
    let written = fields.to_string();
    assert_eq!(written.parse().as_ref(), Ok(fields), "{written:?}");
    assert_eq!(fields.first_difference(fields), None, "{written:?}");
    let payload = [0; 64];
    let mut end = 0;
    for field in fields.iter() {
        assert!(field.offset() >= end && field.size() > 0, "{written:?}");
        end = field.offset() + field.size();
        let bytes = field.bytes(&payload).map(<[u8]>::len);
        assert_eq!(bytes, (end <= 64).then_some(field.size()), "{written:?}");
    }
    assert_eq!(fields.end(), end, "{written:?}");
}

fn refused(text: &str, error: &MessageTypeError) {
    let MessageTypeError::Field { field, .. } = error else {
        panic!("{text:?}: {error}");
    };
    assert!(text.contains(field.as_str()), "{text:?}: {error}");
}

/// The fields that a participant reads where these bytes are stored, with this length.
fn read_back(bytes: &[u8], length: Option<u64>, right_check: bool) -> Fields {
    let control = Words::new(&Memory::heap(HEADER_WORDS * 8), 0, HEADER_WORDS);
    // Bytes that are not UTF-8 are stored like text.
    let mut words = fields_to_words(TYPE_HASH, "");
    pack(bytes, &mut words[2..]);
    words[0] = length.unwrap_or(bytes.len() as u64);
    let mut checked = words;
    (checked[0], checked[1]) = (TYPE_HASH, words[0]);
    words[1] = checksum(&checked) ^ u64::from(!right_check);
    for (n, word) in words.into_iter().enumerate() {
        let place = control.word(control::FIELDS_LENGTH + n);
        place.store(word, Ordering::Relaxed);
    }
    assert!(stored(&control, TYPE_HASH + 1).is_empty());
    assert!(stored(&control, 0).is_empty());
    stored(&control, TYPE_HASH)
}
