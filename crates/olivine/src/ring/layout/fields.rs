//! The fields of a channel's message type as words of the control header: their length, their
//! check, and their text.

use super::control::{FIELDS, FIELDS_CHECK, FIELDS_LENGTH, FIELDS_WORDS};
use super::{checksum, pack, unpack};

/// Longest text of fields that a channel stores, in bytes.
pub(crate) const FIELDS_BYTES: usize = FIELDS_WORDS * 8;
/// Words from the length to the end of the text.
pub(crate) const FIELDS_ALL: usize = 2 + FIELDS_WORDS;

// The check and the text follow the length.
const _: () = assert!(FIELDS_CHECK == FIELDS_LENGTH + 1 && FIELDS == FIELDS_LENGTH + 2);

/// The check over the hash of the type, the length and all words of the text.
fn check(type_hash: u64, words: &[u64; FIELDS_ALL]) -> u64 {
    let mut checked = *words;
    (checked[0], checked[1]) = (type_hash, words[0]);
    checksum(&checked)
}

/// The words for a text of up to [`FIELDS_BYTES`] bytes; the rest of a longer one is left out.
pub(crate) fn fields_to_words(type_hash: u64, text: &str) -> [u64; FIELDS_ALL] {
    let mut words = [0; FIELDS_ALL];
    words[0] = text.len() as u64;
    pack(text.as_bytes(), &mut words[2..]);
    words[1] = check(type_hash, &words);
    words
}

/// The text; `None` if the words have none, another type's, or one no opener writes.
pub(crate) fn fields_from_words(type_hash: u64, words: &[u64; FIELDS_ALL]) -> Option<String> {
    let is_whole = words[0] > 0 && type_hash != 0 && words[1] == check(type_hash, words);
    is_whole.then(|| unpack(&words[2..], words[0])).flatten()
}
