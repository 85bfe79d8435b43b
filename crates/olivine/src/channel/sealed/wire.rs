//! The datagrams of a sealed channel's socket: one hello, one answer, and perhaps one refusal at
//! the end.
//!
//! Each is one datagram of a `SOCK_SEQPACKET` socket, little endian, 32 bytes. The text of a
//! refusal follows its 32 bytes. The table is in `docs/layout.md`. Unused bytes are zero, and
//! anything else is refused.

use crate::ring::layout::LAYOUT_VERSION;
use crate::uri::{Config, Delivery, Start, WaitStrategy};

/// "OLIVSEAL": the first bytes of each datagram.
const MAGIC: [u8; 8] = *b"OLIVSEAL";
/// Version of everything in this file.
pub(crate) const SOCKET_VERSION: u16 = 2;
/// Bytes of a datagram without its text.
const FIXED: usize = 32;
/// Longest text of a refusal in bytes.
const TEXT_MAX: usize = 200;
/// Ends a list of holders that is longer.
const AND_MORE: &str = ", and more";
/// Longest datagram in bytes. A buffer has one byte more, to detect a longer datagram.
pub(super) const LONGEST: usize = FIXED + TEXT_MAX;

/// What a subscriber asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) delivery: Delivery,
    /// Start with the oldest message in the ring, not with the next one.
    pub(super) oldest: bool,
    pub(super) wait: WaitStrategy,
}

/// The answer, beside the descriptors of the lane and of the subscriber's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandshakeReply {
    /// Largest number of subscribers at a time.
    pub(super) subscribers_max: u32,
    /// Position of its first frame.
    pub(super) start: u64,
}

/// Why a subscriber is refused or expelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: RefusalCode,
    pub(super) text: String,
}

/// The kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalCode {
    /// No slot is free; the number of slots.
    Full(u32),
    /// It broke the protocol.
    Protocol,
    /// Its user is not allowed.
    User,
    /// Its position is impossible.
    Position,
    /// It was too slow.
    Slow,
    /// The system of the publisher refused.
    Unable,
}

/// Any datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datagram {
    Hello(Hello),
    Welcome(HandshakeReply),
    Refusal(Refusal),
}

impl Hello {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            delivery: config.delivery,
            oldest: config.from == Start::Oldest,
            wait: config.wait,
        }
    }

    /// Applies the hello to `config`, for joining on behalf of the subscriber.
    pub(super) fn apply(self, config: &mut Config) {
        config.delivery = self.delivery;
        config.from = if self.oldest {
            Start::Oldest
        } else {
            Start::Now
        };
        config.wait = self.wait;
    }
}

impl Refusal {
    pub(super) fn new(code: RefusalCode, text: &str) -> Self {
        let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
        if text.len() > TEXT_MAX {
            let is_list = matches!(code, RefusalCode::Full(_));
            let more = if is_list { AND_MORE } else { "" };
            while text.len() > TEXT_MAX - more.len() {
                text.pop();
            }
            // A holder that is cut may look like another one.
            if let Some(at) = text.rfind(", ").filter(|_| is_list) {
                text.truncate(at);
            }
            text.push_str(more);
        }
        Self { code, text }
    }
}

/// The start of each datagram: magic, version, kind, layout version.
fn start(kind: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LONGEST);
    bytes.extend(MAGIC);
    bytes.extend(SOCKET_VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    #[allow(clippy::cast_possible_truncation, reason = "a small constant")]
    bytes.extend((LAYOUT_VERSION as u32).to_le_bytes());
    bytes
}

impl Datagram {
    /// The bytes of the datagram.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes;
        match self {
            Self::Hello(hello) => {
                bytes = start(1);
                bytes.push(u8::from(hello.delivery == Delivery::Latest));
                bytes.push(u8::from(hello.oldest));
                let wait = WaitStrategy::ALL
                    .iter()
                    .position(|wait| *wait == hello.wait);
                bytes.push(wait.and_then(|n| u8::try_from(n).ok()).unwrap_or(0));
                bytes.resize(FIXED, 0);
            }
            Self::Welcome(welcome) => {
                bytes = start(2);
                bytes.extend(welcome.subscribers_max.to_le_bytes());
                bytes.extend([0; 4]);
                bytes.extend(welcome.start.to_le_bytes());
            }
            Self::Refusal(refusal) => {
                bytes = start(3);
                let (code, number) = match refusal.code {
                    RefusalCode::Full(places) => (1_u16, places),
                    RefusalCode::Protocol => (2, 0),
                    RefusalCode::User => (3, 0),
                    RefusalCode::Position => (4, 0),
                    RefusalCode::Slow => (5, 0),
                    RefusalCode::Unable => (6, 0),
                };
                bytes.extend(code.to_le_bytes());
                let length = u16::try_from(refusal.text.len()).unwrap_or(0);
                bytes.extend(length.to_le_bytes());
                bytes.extend(number.to_le_bytes());
                bytes.resize(FIXED, 0);
                bytes.extend(refusal.text.as_bytes());
            }
        }
        bytes
    }

    /// Reads a datagram.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut left = Bytes(bytes);
        if left.take::<8>() != Some(MAGIC) {
            let length = bytes.len();
            return Err(format!(
                "it sent {length} bytes that do not start with the mark of a sealed channel"
            ));
        }
        let version = left.half().unwrap_or_default();
        if version != SOCKET_VERSION {
            return Err(format!(
                "it speaks version {version} of the socket's protocol, this build speaks \
                 {SOCKET_VERSION}: run matching versions"
            ));
        }
        let kind = left.half();
        let layout = left.word().unwrap_or_default();
        if u64::from(layout) != LAYOUT_VERSION {
            return Err(format!(
                "it has memory layout {layout}, this build has {LAYOUT_VERSION}: run \
                 matching versions"
            ));
        }
        let said = match kind {
            Some(1) => left.hello().map(Self::Hello),
            Some(2) => left.welcome().map(Self::Welcome),
            Some(3) => left.refusal().map(Self::Refusal),
            _ => None,
        };
        said.filter(|_| left.0.is_empty())
            .ok_or_else(|| format!("it sent {} bytes that mean nothing", bytes.len()))
    }
}

/// The bytes that are left to read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// `N` bytes that must be zero.
    fn zeros<const N: usize>(&mut self) -> Option<()> {
        (self.take::<N>()? == [0; N]).then_some(())
    }

    fn hello(&mut self) -> Option<Hello> {
        let [delivery, oldest, wait] = self.take()?;
        self.zeros::<13>()?;
        let flag = |byte: u8| (byte <= 1).then_some(byte == 1);
        Some(Hello {
            delivery: match flag(delivery)? {
                true => Delivery::Latest,
                false => Delivery::Reliable,
            },
            oldest: flag(oldest)?,
            wait: *WaitStrategy::ALL.get(usize::from(wait))?,
        })
    }

    fn welcome(&mut self) -> Option<HandshakeReply> {
        let subscribers_max = self.word()?;
        self.zeros::<4>()?;
        Some(HandshakeReply {
            subscribers_max,
            start: self.take().map(u64::from_le_bytes)?,
        })
    }

    fn refusal(&mut self) -> Option<Refusal> {
        let (code, length, number) = (self.half()?, self.half()?, self.word()?);
        self.zeros::<8>()?;
        let code = match (code, number) {
            (1, places) => RefusalCode::Full(places),
            (2, 0) => RefusalCode::Protocol,
            (3, 0) => RefusalCode::User,
            (4, 0) => RefusalCode::Position,
            (5, 0) => RefusalCode::Slow,
            (6, 0) => RefusalCode::Unable,
            _ => return None,
        };
        let text = std::str::from_utf8(self.0).ok()?;
        if text.len() != usize::from(length) || text.len() > TEXT_MAX {
            return None;
        }
        self.0 = &[];
        // Escapes control characters, which must not reach a terminal.
        let text = text.escape_debug().to_string();
        Some(Refusal { code, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: a number that was cut named another process.
    #[test]
    fn list_of_holders_is_cut_behind_a_whole_holder() {
        let holders = |count| {
            let all = (0..count).map(|n| format!("process 123456{n} (10 times)"));
            all.collect::<Vec<String>>().join(", ")
        };
        let full = |text: &str| Refusal::new(RefusalCode::Full(64), text).text;
        assert_eq!(full(&holders(7)), holders(7));
        assert_eq!(full(&holders(8)), holders(6) + ", and more");
        let other = Refusal::new(RefusalCode::Protocol, &"a, b".repeat(100)).text;
        assert_eq!(other, "a, b".repeat(50));
    }

    fn all() -> Vec<(&'static str, Datagram)> {
        vec![
            (
                "hello",
                Datagram::Hello(Hello {
                    delivery: Delivery::Latest,
                    oldest: true,
                    wait: WaitStrategy::Park,
                }),
            ),
            (
                "welcome",
                Datagram::Welcome(HandshakeReply {
                    subscribers_max: 64,
                    start: 0x0102_0304_0506_0708,
                }),
            ),
            (
                "refusal",
                Datagram::Refusal(Refusal::new(RefusalCode::Full(64), "every place is taken")),
            ),
            (
                "farewell",
                Datagram::Refusal(Refusal::new(
                    RefusalCode::Position,
                    "its position went back",
                )),
            ),
        ]
    }

    /// A published golden file is never changed: another form needs another `SOCKET_VERSION`.
    /// A new `LAYOUT_VERSION` also needs one: each datagram names it.
    #[test]
    fn datagrams_match_published_golden_file() {
        let mut text = String::new();
        for (name, said) in all() {
            let bytes = said.to_bytes();
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{name}\n");
            for line in hex.chunks(16) {
                text += &format!("  {}\n", line.join(" "));
            }
            assert_eq!(Datagram::from_bytes(&bytes), Ok(said), "{name}");
        }
        let golden = include_str!("../../../tests/golden/sealed-2.txt");
        assert_eq!(
            text, golden,
            "the bytes of version {SOCKET_VERSION} changed"
        );
    }

    /// A15: every length, and every bit of every byte.
    #[test]
    fn a15_cut_or_flipped_datagram_is_refused_or_differs() {
        let mut seen = 0;
        for (name, said) in all() {
            let bytes = said.to_bytes();
            for cut in 0..bytes.len() {
                assert!(
                    Datagram::from_bytes(&bytes[..cut]).is_err(),
                    "{name} of {cut}"
                );
                seen += 1;
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(
                    Datagram::from_bytes(&flipped).as_ref(),
                    Ok(&said),
                    "{name} bit {bit}"
                );
                seen += 1;
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(Datagram::from_bytes(&longer).is_err(), "{name} and more");
        }
        assert!(seen > 1000);
    }

    #[test]
    fn control_characters_of_refusal_are_escaped() {
        let mut bytes = Datagram::Refusal(Refusal::new(RefusalCode::Slow, "-[2J")).to_bytes();
        bytes[FIXED] = 0x1b;
        let Ok(Datagram::Refusal(refusal)) = Datagram::from_bytes(&bytes) else {
            panic!("a refusal");
        };
        assert_eq!(refusal.text, "\\u{1b}[2J");
    }
}
