//! Topics of messages, and the filters that choose messages by topic.
//!
//! A topic is one or more words joined by dots, such as `orders.eu.created`. A filter is a topic
//! with wildcards: `*` matches any one word, and `>` at its end matches one or more.
//! `docs/layout.md` says how a message carries its topic.

/// Longest topic or filter in bytes.
pub(crate) const TOPIC_LENGTH_MAX: usize = 128;
/// Most filters of one subscriber.
const FILTERS_MAX: usize = 16;

/// Whether `text` can be the topic of a message. Reads each byte once, because subscribers check
/// every message.
#[must_use]
pub fn is_topic(text: &[u8]) -> bool {
    let mut word = 0;
    for byte in text {
        match byte {
            b'.' if word == 0 => return false,
            b'.' => word = 0,
            byte if is_plain(*byte) => word += 1,
            _ => return false,
        }
    }
    word > 0 && text.len() <= TOPIC_LENGTH_MAX
}

/// Whether a word may contain it.
#[inline]
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Chooses messages by topic, as the key `topic=` of a subscriber does: those that any of 1 to 16
/// filters matches.
///
/// A filter is a topic of up to 128 bytes in which `*` matches any one word, and `>` at its end one
/// or more.
///
/// ```
/// use olivine::TopicFilter;
///
/// let filter: TopicFilter = "orders.*.created,alarms.>".parse()?;
/// assert!(filter.matches(b"orders.eu.created") && filter.matches(b"alarms.fire.hall"));
/// assert!(!filter.matches(b"orders.eu") && !filter.matches(b""));
/// assert!("orders..eu".parse::<TopicFilter>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFilter {
    filters: Vec<Box<[u8]>>,
}

impl TopicFilter {
    /// Reads filters, separated by commas; `None` if the text is invalid.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let filters: Vec<Box<[u8]>> = text.split(',').map(|one| one.as_bytes().into()).collect();
        let usable = filters.len() <= FILTERS_MAX && filters.iter().all(|one| is_filter(one));
        usable.then_some(Self { filters })
    }

    /// Whether a filter matches a message of this topic. Allocates nothing.
    #[must_use]
    pub fn matches(&self, topic: &[u8]) -> bool {
        self.filters.iter().any(|filter| matches(filter, topic))
    }
}

impl core::str::FromStr for TopicFilter {
    type Err = String;

    /// Reads filters, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| {
            format!(
                "'{}' is not one of up to 16 filters such as orders.*.created or orders.>, \
                 separated by commas",
                text.escape_default()
            )
        })
    }
}

/// Whether a topic or filter is valid: no word is empty, and wildcards are whole words.
fn is_filter(text: &[u8]) -> bool {
    let mut ended = false;
    (1..=TOPIC_LENGTH_MAX).contains(&text.len())
        && text.split(|byte| *byte == b'.').all(|word| {
            let is_word = !word.is_empty() && word.iter().all(|byte| is_plain(*byte));
            // `>` matches all the rest, so nothing may follow it.
            let usable = !ended && (word == b"*" || word == b">" || is_word);
            ended = word == b">";
            usable
        })
}

/// Whether the filter matches the topic. Both are valid.
fn matches(filter: &[u8], topic: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    while let (Some(wanted), Some(found)) = (filter.get(at), topic.get(place)) {
        match wanted {
            b'>' => return true,
            b'*' => place += word_length(&topic[place..]),
            wanted if wanted == found => place += 1,
            _ => return false,
        }
        at += 1;
    }
    at == filter.len() && place == topic.len()
}

/// Bytes up to the next dot.
fn word_length(text: &[u8]) -> usize {
    text.iter()
        .position(|byte| *byte == b'.')
        .unwrap_or(text.len())
}

/// Bytes after a message's payload that carry its topic: the topic, and one byte for its length.
pub(crate) fn trailer_length(topic: &str) -> usize {
    topic.len() + 1
}

/// Writes the topic into the bytes after a message's payload; they are `trailer_length` long.
pub(crate) fn write_trailer(into: &mut [u8], topic: &str) {
    if let Some((length, name)) = into.split_last_mut() {
        name.copy_from_slice(topic.as_bytes());
        *length = u8::try_from(topic.len()).unwrap_or(u8::MAX);
    }
}

/// Splits the payload of a frame with a topic into the message and the topic; `None` if no
/// publisher writes such bytes.
pub(crate) fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_last()?;
    let (payload, topic) = rest.split_at_checked(rest.len().checked_sub((*length).into())?)?;
    is_topic(topic).then_some((payload, topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_choose_by_words() {
        let cases = [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a.b", "a", false),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("*.b", "a.b", true),
            ("*", "a", true),
            ("*", "a.b", false),
            ("a.>", "a", false),
            ("a.>", "a.b", true),
            ("a.>", "a.b.c", true),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d", false),
            ("*.*.>", "a.b", false),
            ("*.*.>", "a.b.c.d", true),
            (">", "a.b.c", true),
            ("x,a.*", "a.b", true),
            ("x,y.>", "a.b", false),
        ];
        for (filter, topic, expected) in cases {
            let found = TopicFilter::read(filter).expect(filter);
            assert_eq!(
                found.matches(topic.as_bytes()),
                expected,
                "{filter} {topic}"
            );
        }
    }

    #[test]
    fn invalid_filter_is_refused() {
        let long = "a".repeat(TOPIC_LENGTH_MAX + 1);
        let many = ["a"; FILTERS_MAX + 1].join(",");
        for text in [
            "", ".", "a.", ".a", "a..b", "a.>.b", ">.a", "a*", "a.b>", "a b", "a,", "ä", &long,
            &many,
        ] {
            assert_eq!(TopicFilter::read(text), None, "{text}");
        }
        assert!(TopicFilter::read(&"a".repeat(TOPIC_LENGTH_MAX)).is_some());
    }

    #[test]
    fn a_topic_has_no_wildcards() {
        assert!(is_topic(b"orders.eu-1.created_at"));
        for text in ["a.*", ">", "a,b", "", "a."] {
            assert!(!is_topic(text.as_bytes()), "{text}");
        }
    }

    /// Splitting returns what was written, and refuses all other bytes.
    #[test]
    fn topic_trailer_round_trips() {
        for (payload, topic) in [(&b""[..], "a"), (b"payload", "a.b.c")] {
            let mut bytes = payload.to_vec();
            bytes.resize(payload.len() + trailer_length(topic), 0xff);
            write_trailer(&mut bytes[payload.len()..], topic);
            assert_eq!(split(&bytes), Some((payload, topic.as_bytes())));
            // Cut short, it never reads before the first byte.
            for cut in 0..bytes.len() {
                let _ = split(&bytes[cut..]);
            }
            assert_eq!(split(&bytes[..bytes.len() - 1]), None);
        }
        for bytes in [
            &[][..],
            &[0],
            &[1],
            b"a\x02",
            b"*\x01",
            b"\xff\x01",
            &[0xff; 300],
        ] {
            assert_eq!(split(bytes), None, "{bytes:?}");
        }
    }
}
