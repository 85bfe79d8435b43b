//! The label of each message: its lane and its frame. The server uses it as the message id;
//! subscribers use it to find repeated and missing messages.

use std::fmt;
use std::str::FromStr;

/// Header with the id, which a server uses to drop repeats within its window.
pub(super) const ID_HEADER: &str = "Nats-Msg-Id";
/// Header with the tag of a message; left out for 0.
pub(super) const TAG_HEADER: &str = "Olivine-Tag";
/// Header with the topic of a message; left out without a topic.
pub(super) const TOPIC_HEADER: &str = "Olivine-Topic";
/// Header of the first message that a bridge sends of a lane: earlier messages will not come.
pub(super) const START_HEADER: &str = "Olivine-Start";

/// The label: `INCARNATION.LANE.POSITION.ALIGN`, then `.rN` for the Nth repair of an order that the
/// server broke, and `.end` or `.failed.NUMBER` if it is the end of the lane, not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Of the channel at the source.
    pub(super) incarnation: u64,
    pub(super) lane: u32,
    /// Start of the frame in the lane.
    pub(super) position: u64,
    /// Bytes to which frames are padded there.
    pub(super) align: u32,
    pub(super) repair: u32,
    pub(super) kind: Kind,
}

/// What the message with a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of the lane.
    Message,
    /// The end: the lane's publisher has closed it.
    End,
    /// The lane's publisher has failed. The payload is the reason. The number grows from one
    /// failure of the lane to the next.
    Failed(u64),
}

impl Kind {
    /// Last word of the label.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Message => None,
            Self::End => Some("end"),
            Self::Failed(_) => Some("failed"),
        }
    }

    /// Whether it has no frame in the lane.
    pub(super) fn is_end(self) -> bool {
        self != Self::Message
    }
}

/// Longest reason in bytes, as in a lane.
const REASON_MAX: usize = 480;

/// The reason of a failure, from the payload that any client of the server may have written: one
/// line of limited length.
pub(super) fn reason_of(payload: &[u8]) -> String {
    let text = payload.get(..REASON_MAX).unwrap_or(payload);
    let mut reason = String::from_utf8_lossy(text).replace(char::is_control, " ");
    // A byte that is not UTF-8 became three.
    while reason.len() > REASON_MAX {
        reason.pop();
    }
    match reason.trim() {
        "" => "it gave no reason".to_owned(),
        reason => reason.to_owned(),
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            incarnation,
            lane,
            position,
            align,
            ..
        } = self;
        write!(f, "{incarnation:016x}.{lane}.{position}.{align}")?;
        if self.repair > 0 {
            write!(f, ".r{}", self.repair)?;
        }
        if let Some(word) = self.kind.word() {
            write!(f, ".{word}")?;
        }
        match self.kind {
            Kind::Failed(number) => write!(f, ".{number}"),
            Kind::Message | Kind::End => Ok(()),
        }
    }
}

/// Why a text is not a label of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLabel {
    /// The message is from another program.
    Foreign,
    /// It ends with a word that this version does not know: the message is from a later version,
    /// and is not a message of a lane.
    Later,
}

impl FromStr for Label {
    type Err = NoLabel;

    fn from_str(text: &str) -> Result<Self, NoLabel> {
        // `parse` accepts a sign, but a label has none.
        fn number<T: FromStr>(word: Option<&str>) -> Result<T, NoLabel> {
            let word = word.filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
            word.and_then(|word| word.parse().ok())
                .ok_or(NoLabel::Foreign)
        }
        let mut words = text.split('.');
        let hex = words.next().ok_or(NoLabel::Foreign)?;
        let plain = hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let mut label = Self {
            incarnation: u64::from_str_radix(hex, 16).map_err(|_| NoLabel::Foreign)?,
            lane: number(words.next())?,
            position: number(words.next())?,
            align: number(words.next())?,
            repair: 0,
            kind: Kind::Message,
        };
        let fits = label.position.is_multiple_of(8)
            && label.align.is_power_of_two()
            && (8..=4096).contains(&label.align);
        if !plain || !fits {
            return Err(NoLabel::Foreign);
        }
        let mut word = words.next();
        if let Some(repair) = word.and_then(|word| word.strip_prefix('r')) {
            label.repair = number(Some(repair))?;
            word = words.next();
        }
        label.kind = match word {
            Some("end") => Kind::End,
            Some("failed") => number(words.next()).map_or(Kind::Message, Kind::Failed),
            _ => Kind::Message,
        };
        // Only one form is valid, so an id names one message.
        let known = label.to_string();
        match text.strip_prefix(&known).map(|rest| rest.strip_prefix('.')) {
            Some(None) if known == text => Ok(label),
            Some(Some(word)) if is_word(word) => Err(NoLabel::Later),
            _ => Err(NoLabel::Foreign),
        }
    }
}

/// Whether `word` could be the last word of a label.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_round_trip() {
        let label = Label {
            incarnation: 0xab,
            lane: 3,
            position: 1 << 40,
            align: 64,
            repair: 0,
            kind: Kind::Message,
        };
        let forms = [
            (label, "00000000000000ab.3.1099511627776.64"),
            (
                Label { repair: 2, ..label },
                "00000000000000ab.3.1099511627776.64.r2",
            ),
            (
                Label {
                    kind: Kind::End,
                    ..label
                },
                "00000000000000ab.3.1099511627776.64.end",
            ),
            (
                Label {
                    repair: 1,
                    kind: Kind::End,
                    ..label
                },
                "00000000000000ab.3.1099511627776.64.r1.end",
            ),
            (
                Label {
                    kind: Kind::Failed(12),
                    ..label
                },
                "00000000000000ab.3.1099511627776.64.failed.12",
            ),
        ];
        for (label, text) in forms {
            assert_eq!(label.to_string(), text);
            assert_eq!(text.parse(), Ok(label));
        }
    }

    #[test]
    fn invalid_label_means_another_program_or_a_later_version() {
        for text in [
            "",
            "order-17",
            "00000000000000ab.3.8",
            "00000000000000ab.3.8.7",
            "00000000000000ab.3.9.8",
            "00000000000000ab.3.8.8192",
            "00000000000000AB.3.8.8",
            "ab.3.8.8",
            "00000000000000ab.+3.8.8",
            "00000000000000ab.03.8.8",
            "00000000000000ab.3.8.8.r0",
            "00000000000000ab.3.8.8.rX",
            "00000000000000ab.3.8.8.end.r1",
            "00000000000000ab.3.8.8.END",
            "00000000000000ab.3.8.8.failed.x",
            "00000000000000ab.3.8.8.failed.04",
            "00000000000000ab.3.8.8.",
            "00000000000000ab.4294967296.8.8",
            "00000000000000ab.3.18446744073709551616.8",
        ] {
            assert_eq!(text.parse::<Label>(), Err(NoLabel::Foreign), "{text}");
        }
        for text in [
            "00000000000000ab.3.8.8.paused",
            "00000000000000ab.3.8.8.r1.paused",
            "00000000000000ab.3.8.8.end.failed",
            "00000000000000ab.3.8.8.failed",
        ] {
            assert_eq!(text.parse::<Label>(), Err(NoLabel::Later), "{text}");
        }
    }

    #[test]
    fn reason_of_any_payload_is_one_short_line() {
        assert_eq!(reason_of(b"torn"), "torn");
        assert_eq!(reason_of(b"a\x1b[2J\nb\0c"), "a [2J b c");
        assert_eq!(reason_of(b"\xff\xfe!"), "\u{fffd}\u{fffd}!");
        for nothing in [&b""[..], b" \n\0"] {
            assert_eq!(reason_of(nothing), "it gave no reason");
        }
        for payload in [&b"x"[..], &b"\xff"[..], "\u{e4}".as_bytes()] {
            let reason = reason_of(&payload.repeat(1 << 20));
            assert!(reason.len() <= REASON_MAX, "{}", reason.len());
        }
    }
}
