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
/// server broke, and `.end` if it is the end of the lane, not a message.
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
    pub(super) is_end: bool,
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
        if self.is_end {
            f.write_str(".end")?;
        }
        Ok(())
    }
}

/// The text is not a label: the message is from another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoLabel;

impl FromStr for Label {
    type Err = NoLabel;

    fn from_str(text: &str) -> Result<Self, NoLabel> {
        // `parse` accepts a sign, but a label has none.
        fn number<T: FromStr>(word: Option<&str>) -> Result<T, NoLabel> {
            let word = word.filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
            word.and_then(|word| word.parse().ok()).ok_or(NoLabel)
        }
        let mut words = text.split('.');
        let hex = words.next().ok_or(NoLabel)?;
        let plain = hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let mut label = Self {
            incarnation: u64::from_str_radix(hex, 16).map_err(|_| NoLabel)?,
            lane: number(words.next())?,
            position: number(words.next())?,
            align: number(words.next())?,
            repair: 0,
            is_end: false,
        };
        let fits = label.position.is_multiple_of(8)
            && label.align.is_power_of_two()
            && (8..=4096).contains(&label.align);
        if !plain || !fits {
            return Err(NoLabel);
        }
        let mut word = words.next();
        if let Some(repair) = word.and_then(|word| word.strip_prefix('r')) {
            label.repair = number(Some(repair))?;
            word = words.next();
        }
        if word == Some("end") {
            label.is_end = true;
            word = words.next();
        }
        // Only one form is valid, so an id names one message.
        if word.is_some() || label.to_string() != text {
            return Err(NoLabel);
        }
        Ok(label)
    }
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
            is_end: false,
        };
        let forms = [
            (label, "00000000000000ab.3.1099511627776.64"),
            (
                Label { repair: 2, ..label },
                "00000000000000ab.3.1099511627776.64.r2",
            ),
            (
                Label {
                    is_end: true,
                    ..label
                },
                "00000000000000ab.3.1099511627776.64.end",
            ),
            (
                Label {
                    repair: 1,
                    is_end: true,
                    ..label
                },
                "00000000000000ab.3.1099511627776.64.r1.end",
            ),
        ];
        for (label, text) in forms {
            assert_eq!(label.to_string(), text);
            assert_eq!(text.parse(), Ok(label));
        }
    }

    #[test]
    fn invalid_label_means_another_program() {
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
            "00000000000000ab.3.8.8.rx",
            "00000000000000ab.3.8.8.end.r1",
            "00000000000000ab.3.8.8.",
            "00000000000000ab.4294967296.8.8",
            "00000000000000ab.3.18446744073709551616.8",
        ] {
            assert_eq!(text.parse::<Label>(), Err(NoLabel), "{text}");
        }
    }
}
