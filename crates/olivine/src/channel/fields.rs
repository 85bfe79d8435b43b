//! The fields of a channel's message type, in its control header.
//!
//! An opener that states them stores them once it has joined, unless those of the same type are
//! there. It holds the membership lock. So an opener that fails or dies before it has joined leaves
//! none, and a subscriber that sees a message sees the fields which its publisher stated. The check
//! word covers the hash of the type, so the fields of another type, or half of a text, count as
//! nothing.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;

use crate::message::{Fields, KnownType};
use crate::region::{Word, Words};
use crate::ring::layout::{FIELDS_ALL, Geometry, control, fields_from_words, fields_to_words};
use crate::sync::Ordering;

/// The fields that are stored for this type; none for a text that no opener writes.
pub(crate) fn stored(control: &Words, type_hash: u64) -> Fields {
    // Relaxed: the check word finds a write at the same time.
    let load = |n: usize| {
        control
            .word(control::FIELDS_LENGTH + n)
            .load(Ordering::Relaxed)
    };
    if load(0) == 0 {
        return Fields::default();
    }
    let words: [u64; FIELDS_ALL] = std::array::from_fn(load);
    let text = fields_from_words(type_hash, &words).unwrap_or_default();
    Fields::of_far_side(&text)
}

/// The check word of the fields that are stored, which also tells a change of them.
#[derive(Debug)]
pub(crate) struct CheckWord(Word);

impl CheckWord {
    pub(crate) fn of(control: &Words) -> Self {
        Self(control.resolve(control::FIELDS_CHECK))
    }

    /// 0 if there are no fields. Read after frames were found, it covers what their publishers have
    /// stated.
    pub(crate) fn value(&self) -> u64 {
        // Relaxed: a publisher stores its fields before its first message, which was found.
        self.0.load(Ordering::Relaxed)
    }
}

/// The type of a channel of this geometry, with the fields that are stored.
pub(crate) fn known_type(control: &Words, geometry: &Geometry) -> KnownType {
    KnownType {
        hash: geometry.type_hash,
        name: geometry.type_name.clone(),
        fields: stored(control, geometry.type_hash),
    }
}

/// Stores the fields of this type, which are [`Fields::storable`]. The caller holds the membership
/// lock, or is the only one to know the memory.
pub(super) fn store(control: &Words, type_hash: u64, fields: &Fields) {
    if fields.is_empty() {
        return;
    }
    let words = fields_to_words(type_hash, &fields.to_string());
    clear(control);
    // Relaxed: a reader without the lock compares the check word.
    let put = |n: usize| {
        let word = control.word(control::FIELDS_LENGTH + n);
        word.store(words[n], Ordering::Relaxed);
    };
    (2..FIELDS_ALL).for_each(put);
    put(0);
    crate::points::pass("fields.unchecked");
    put(1);
}

/// Takes the fields of an earlier type away. The caller holds the membership lock.
pub(super) fn clear(control: &Words) {
    // Relaxed: as in `store`.
    for word in [control::FIELDS_CHECK, control::FIELDS_LENGTH] {
        control.word(word).store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageType;
    use crate::uri::Config;
    use crate::{Publisher, Subscriber};

    fn stated(fields: &str) -> MessageType {
        let stated = MessageType::new("trade v1", 16, 8).unwrap();
        stated.with_fields(fields).unwrap()
    }

    /// No participant is known to leave fields like that, but a publisher that fixes the type must
    /// not depend on it.
    #[test]
    #[cfg_attr(miri, ignore = "maps memory twice")]
    fn a_publisher_that_fixes_the_type_finds_no_fields_of_an_earlier_one() {
        let config = Config::parse("inproc://fields-left-behind").unwrap();
        let subscriber = Subscriber::open_with(&config).unwrap();
        let (left, own) = (stated("price u32, size u32"), stated("price i64"));
        store(&subscriber.attached().control, left.hash(), left.fields());
        assert_eq!(
            &stored(&subscriber.attached().control, left.hash()),
            left.fields()
        );
        let _publisher = Publisher::open_for(&config, &own).unwrap();
        assert_eq!(&subscriber.fields(), own.fields());
    }
}
