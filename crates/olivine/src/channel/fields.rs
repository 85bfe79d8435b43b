//! The fields of a channel's message type, in its control header.
//!
//! An opener that states them writes them under the membership lock, unless those of the same type
//! are there. The check word covers the hash of the type, so what an earlier type left, or a death
//! half way, counts as nothing.

use crate::message::Fields;
use crate::region::Words;
use crate::ring::layout::{checksum, control, pack, unpack};
use crate::sync::Ordering;

/// Words that the check covers: the hash of the type, the length, and the text.
const CHECKED: usize = 2 + control::FIELDS_WORDS;

fn check(type_hash: u64, length: u64, text: &[u64]) -> u64 {
    let mut checked = [0; CHECKED];
    (checked[0], checked[1]) = (type_hash, length);
    checked[2..].copy_from_slice(text);
    checksum(&checked)
}

/// The fields that are stored for this type; none for a text that no opener writes.
pub(crate) fn stored(control: &Words, type_hash: u64) -> Fields {
    // Relaxed: the check word finds a write at the same time.
    let load = |word: usize| control.word(word).load(Ordering::Relaxed);
    let length = load(control::FIELDS_LENGTH);
    if length == 0 || type_hash == 0 {
        return Fields::default();
    }
    let text: [u64; control::FIELDS_WORDS] = std::array::from_fn(|n| load(control::FIELDS + n));
    if load(control::FIELDS_CHECK) != check(type_hash, length, &text) {
        return Fields::default();
    }
    let text = unpack(&text, length).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Stores the fields of this type. A text that is too long is not stored. The caller holds the
/// membership lock, or is the only one to know the memory.
pub(super) fn store(control: &Words, type_hash: u64, fields: &Fields) {
    let text = fields.to_string();
    if text.is_empty() || text.len() > control::FIELDS_WORDS * 8 {
        return;
    }
    let mut words = [0; control::FIELDS_WORDS];
    pack(text.as_bytes(), &mut words);
    let length = text.len() as u64;
    // Relaxed: a reader without the lock compares the check word.
    let put = |word: usize, value: u64| control.word(word).store(value, Ordering::Relaxed);
    put(control::FIELDS_CHECK, 0);
    put(control::FIELDS_LENGTH, length);
    for (n, word) in words.iter().enumerate() {
        put(control::FIELDS + n, *word);
    }
    put(control::FIELDS_CHECK, check(type_hash, length, &words));
}
