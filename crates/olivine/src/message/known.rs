//! The type of a channel's messages, as a bridge knows it.

use super::fields::Fields;
use crate::ring::layout::type_shown;

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

    /// The names of this type and of `other`, if they differ. Where the names are equal, they say
    /// what differs: the first field of another name, kind or offset, if both state fields. Else
    /// the second name says that the size or the alignment is another one.
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
                    ours = format!("{ours} with {of_ours}");
                    theirs = format!("{theirs} with {of_theirs}");
                }
                None => theirs += " of another size or alignment",
            }
        }
        Some((ours, theirs))
    }

    /// Takes the fields of `other` if it is this type, and these are not known.
    pub(crate) fn take_fields(&mut self, other: &Self) {
        if self.hash == other.hash && self.fields.is_empty() {
            self.fields.clone_from(&other.fields);
        }
    }
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
                "quote v1 with 'ask i64' at byte 8",
                "quote v1 with 'ask u64' at byte 8"
            )
        );
        assert_eq!(
            shown(quote, (8, "quote v1", "bid i64, ask i64")),
            pair("quote v1", "quote v1 of another size or alignment")
        );
        assert_eq!(
            shown(quote, (9, "order v1", "bid u8")),
            pair("quote v1", "order v1")
        );
        assert_eq!(shown(quote, (0, "", "")), pair("quote v1", "untyped bytes"));
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
