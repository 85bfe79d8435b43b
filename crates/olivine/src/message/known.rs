//! The type of a channel's messages, as a bridge knows it.

use super::fields::Fields;
use crate::ring::layout::{fnv, fnv_on, type_shown};

/// The largest values, in bytes, whose size is found from the hash of their type.
const SIZE_FOUND_MAX: usize = 4 << 10;

/// The type of a channel's messages, as a far side states it: without size and alignment, which the
/// hash covers. [`KnownType::default`] is that of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KnownType {
    /// Hash over name, size and alignment; 0 for bytes without a type.
    pub hash: u64,
    /// Its name; empty for bytes.
    pub name: String,
    /// Its fields; empty if none are known.
    pub fields: Fields,
}

impl KnownType {
    /// The type with this hash and name, and with the text of its fields. A text that this version
    /// cannot read, or that no channel stores, counts as no fields.
    #[must_use]
    pub fn new(hash: u64, name: &str, fields: &str) -> Self {
        Self {
            hash,
            name: name.to_owned(),
            fields: Fields::of_far_side(fields),
        }
    }

    /// The names of this type and of `other`, if they differ. Where the names are equal, both say
    /// what differs: the first field of another name, kind or offset, if both state fields. Else
    /// both say their size and alignment.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<(String, String)> {
        let has_both = !self.fields.is_empty() && !other.fields.is_empty();
        let field = has_both.then(|| self.fields.first_difference(&other.fields));
        let field = field.flatten();
        if self.hash == other.hash && field.is_none() {
            return None;
        }
        let (mut ours, mut theirs) = (type_shown(&self.name), type_shown(&other.name));
        if ours == theirs {
            match field {
                Some((of_ours, of_theirs)) => {
                    ours += &format!(" ({of_ours})");
                    theirs += &format!(" ({of_theirs})");
                }
                None => {
                    ours += &self.size_shown();
                    theirs += &other.size_shown();
                }
            }
        }
        Some((ours, theirs))
    }

    /// Size and alignment of a value, for errors. A channel stores only their hash, so both are
    /// searched, also while other participants wait: 16 steps of the hash for each of 7,680 pairs.
    fn size_shown(&self) -> String {
        let name = fnv(self.name.bytes());
        let sizes = 1..=SIZE_FOUND_MAX;
        let mut pairs = sizes.flat_map(|size| [1, 2, 4, 8].map(|align| (size, align)));
        let found = pairs.find(|&(size, align)| {
            size.is_multiple_of(align) && hash_on(name, size, align) == self.hash
        });
        match found {
            Some((1, _)) => " (1 byte)".to_owned(),
            Some((size, align)) => format!(" ({size} bytes, aligned to {align})"),
            None => format!(
                " (not found among sizes up to {SIZE_FOUND_MAX} bytes, hash {:016x})",
                self.hash
            ),
        }
    }

    /// Takes the fields of `other` if it is this type, and these are not known.
    pub(crate) fn take_fields(&mut self, other: &Self) {
        if self.hash == other.hash && self.fields.is_empty() {
            self.fields.clone_from(&other.fields);
        }
    }
}

/// What a channel stores and compares of a type; never 0. `name` is the hash of its name.
fn hash_on(name: u64, size: usize, align: usize) -> u64 {
    let numbers = [size as u64, align as u64];
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    fnv_on(name, numbers).max(1)
}

/// As [`hash_on`], for the name itself.
pub(super) fn hash_of(name: &str, size: usize, align: usize) -> u64 {
    hash_on(fnv(name.bytes()), size, align)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::layout::FIELDS_BYTES;

    #[test]
    fn difference_is_the_name_then_the_first_field_then_the_size() {
        let shown = |a: (u64, &str, &str), b: (u64, &str, &str)| {
            let known = |(hash, name, fields)| KnownType::new(hash, name, fields);
            known(a).difference(&known(b))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        let quote = (7, "quote v1", "bid i64, ask i64");
        assert_eq!(shown(quote, quote), None);
        assert_eq!(shown(quote, (7, "quote v1", "")), None);
        assert_eq!(
            shown(quote, (7, "quote v1", "bid i64, ask u64")),
            pair(
                "quote v1 (ask i64 at byte 8)",
                "quote v1 (ask u64 at byte 8)"
            )
        );
        assert_eq!(
            shown(quote, (9, "quote v1", "bid i64")),
            pair("quote v1 (ask i64 at byte 8)", "quote v1 (only 1 field)")
        );
        assert_eq!(
            shown(quote, (9, "order v1", "bid u8")),
            pair("quote v1", "order v1")
        );
        assert_eq!(shown(quote, (0, "", "")), pair("quote v1", "untyped bytes"));
    }

    #[test]
    fn difference_of_equal_names_has_both_sizes_and_alignments() {
        let shown = |a: (usize, usize), b: (usize, usize)| {
            let name = "quote v1";
            let known = |(size, align)| KnownType::new(hash_of(name, size, align), name, "");
            known(a).difference(&known(b)).unwrap()
        };
        for (size, align, text) in [
            (1, 1, "quote v1 (1 byte)".to_owned()),
            (12, 4, "quote v1 (12 bytes, aligned to 4)".to_owned()),
            (16, 8, "quote v1 (16 bytes, aligned to 8)".to_owned()),
            (
                SIZE_FOUND_MAX,
                8,
                format!("quote v1 ({SIZE_FOUND_MAX} bytes, aligned to 8)"),
            ),
        ] {
            let (ours, theirs) = shown((size, align), (16, 4));
            assert_eq!(ours, text);
            assert_eq!(theirs, "quote v1 (16 bytes, aligned to 4)");
        }
        let larger = (SIZE_FOUND_MAX + 8, 8);
        let (_, theirs) = shown((16, 8), larger);
        let hash = hash_of("quote v1", larger.0, larger.1);
        let text = format!(
            "quote v1 (not found among sizes up to {SIZE_FOUND_MAX} bytes, hash {hash:016x})"
        );
        assert_eq!(theirs, text);
    }

    #[test]
    fn text_of_fields_from_elsewhere_is_bounded_and_read_or_counts_as_none() {
        let count = |text: &str| KnownType::new(7, "t", text).fields.iter().len();
        assert_eq!(count("bid i64, ask i64"), 2);
        assert_eq!(count("bid i64, ask i65"), 0);
        assert_eq!(count("bid i64 \u{1b}[2J"), 0);
        let names: Vec<_> = (0..FIELDS_BYTES).map(|n| format!("{n} u8")).collect();
        let of = |bytes: usize| {
            let count = (1..).find(|n| names[..*n].join(",").len() >= bytes);
            names[..count.unwrap()].join(",")
        };
        // Printed it has a space behind each comma, and is longer than a channel stores.
        let tight = of(FIELDS_BYTES - 50);
        assert!(tight.len() <= FIELDS_BYTES && count(&tight) == 0);
        assert_eq!(count(&of(FIELDS_BYTES + 1)), 0);
        assert!(count(&of(FIELDS_BYTES / 2)) > 50);
    }
}
