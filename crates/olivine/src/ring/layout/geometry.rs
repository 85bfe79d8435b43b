//! The geometry of a channel: its settings, and the word offsets that follow from them.

use super::{LANE_HEADER_BYTES, NO_POSITION, control, fixed, lane_entry, slot};
use core::fmt;

/// Longest type name kept in the control header, in bytes.
pub(crate) const TYPE_NAME_BYTES: usize = 64;

/// The geometry of a channel, copied to private memory when a channel is opened.
///
/// It is **open** until the first publisher fixes it. An open channel has slots for subscribers,
/// but neither lanes nor positions. A setting that no participant named is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of each ring.
    pub(crate) capacity: u64,
    /// Padding of frames in bytes.
    pub(crate) align: u64,
    /// Lanes.
    pub(crate) publishers_max: u64,
    /// Slots.
    pub(crate) subscribers_max: u64,
    /// First position of every lane.
    pub(crate) origin: u64,
    /// Nanoseconds after which a slow subscriber is evicted; 0 for never.
    pub(crate) evict_after_ns: u64,
    /// Hash of the message type; 0 for untyped bytes.
    pub(crate) type_hash: u64,
    /// Name of the message type, empty for untyped bytes.
    pub(crate) type_name: String,
    /// Bits of [`fixed::KEYS`] that a participant named while the channel was open, and
    /// [`fixed::SHAPED`].
    pub(crate) fixed: u64,
    /// Process that fixed each of [`fixed::KEYS`], for messages.
    pub(crate) fixed_by: [u64; 6],
}

/// The name of a message type as errors and tools show it.
pub(crate) fn type_shown(name: &str) -> String {
    if name.is_empty() {
        "untyped bytes".to_owned()
    } else {
        name.to_owned()
    }
}

/// Values that a word of a geometry can have.
#[derive(Clone, Copy)]
enum Range {
    Any,
    /// A power of two from the first to the second.
    Power(u64, u64),
    /// From 1 to this.
    Count(u64),
    /// A multiple of 4096 up to this.
    Pages(u64),
}

impl Range {
    fn holds(self, value: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Power(min, max) => value.is_power_of_two() && (min..=max).contains(&value),
            Self::Count(max) => (1..=max).contains(&value),
            Self::Pages(max) => value.is_multiple_of(4096) && value <= max,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any number"),
            Self::Power(min, max) => write!(f, "a power of two from {min} to {max}"),
            Self::Count(max) => write!(f, "1 to {max}"),
            Self::Pages(max) => write!(f, "a multiple of 4096 up to {max}"),
        }
    }
}

impl Geometry {
    /// The geometry as words of the control header. The last word is a check over the others.
    pub(crate) fn to_words(&self) -> [u64; control::GEOMETRY_WORDS] {
        let mut words = [0; control::GEOMETRY_WORDS];
        words[0] = self.capacity;
        words[1] = self.align;
        words[2] = self.publishers_max;
        words[3] = self.subscribers_max;
        words[4] = self.origin;
        words[5] = self.evict_after_ns;
        words[6] = self.type_hash;
        words[7] = self.type_name.len() as u64;
        pack(self.type_name.as_bytes(), &mut words[8..16]);
        words[16] = self.fixed;
        words[17..23].copy_from_slice(&self.fixed_by);
        words[23] = checksum(&words[..23]);
        words
    }

    /// Reads the words back.
    ///
    /// # Errors
    ///
    /// What is wrong: the check word, or a value that no participant writes.
    pub(crate) fn from_words(words: &[u64; control::GEOMETRY_WORDS]) -> Result<Self, String> {
        if words[23] != checksum(&words[..23]) {
            return Err(
                "its geometry check does not match: the file is damaged; remove it with \
                 'olivine rm --force'"
                    .into(),
            );
        }
        let name = unpack(&words[8..16], words[7]).unwrap_or_default();
        let geometry = Self {
            capacity: words[0],
            align: words[1],
            publishers_max: words[2],
            subscribers_max: words[3],
            origin: words[4],
            evict_after_ns: words[5],
            type_hash: words[6],
            type_name: name,
            fixed: words[16],
            fixed_by: [17, 18, 19, 20, 21, 22].map(|word| words[word]),
        };
        geometry.check().map(|()| geometry)
    }

    fn check(&self) -> Result<(), String> {
        use crate::uri::{CAPACITY_RANGE, PUBLISHERS_LIMIT, SUBSCRIBERS_LIMIT};
        if self.fixed >= fixed::SHAPED * 2 {
            return Err(format!(
                "its mark of fixed settings is {:#x}, which no participant writes",
                self.fixed
            ));
        }
        // A setting that no participant has named yet is 0.
        let unless_open = |key, value: u64, range| match value {
            0 if !self.is_fixed(key) => Range::Any,
            _ => range,
        };
        let align_max = match self.capacity {
            0 => 4096,
            capacity => (capacity / 2).min(4096),
        };
        let (capacity_min, capacity_max) = CAPACITY_RANGE;
        let capacity = Range::Power(capacity_min, capacity_max);
        let checks = [
            (
                "capacity",
                self.capacity,
                unless_open(fixed::CAPACITY, self.capacity, capacity),
            ),
            (
                "align",
                self.align,
                unless_open(fixed::ALIGN, self.align, Range::Power(8, align_max)),
            ),
            (
                "publishers_max",
                self.publishers_max,
                unless_open(
                    fixed::PUBLISHERS_MAX,
                    self.publishers_max,
                    Range::Count(PUBLISHERS_LIMIT),
                ),
            ),
            (
                "subscribers_max",
                self.subscribers_max,
                Range::Count(SUBSCRIBERS_LIMIT),
            ),
            ("origin", self.origin, Range::Pages(NO_POSITION / 2)),
        ];
        checks.into_iter().try_for_each(|(key, value, range)| {
            let wrong = || format!("its {key} is {value}, which must be {range}");
            range.holds(value).then_some(()).ok_or_else(wrong)
        })
    }

    /// Whether no publisher has fixed the geometry yet.
    pub(crate) fn is_open(&self) -> bool {
        self.fixed & fixed::SHAPED == 0
    }

    /// Whether a participant has fixed setting `key` of [`fixed::KEYS`].
    pub(crate) fn is_fixed(&self, key: usize) -> bool {
        !self.is_open() || self.fixed >> key & 1 == 1
    }

    /// The geometry before a publisher fixed it, for a publisher that died before its lane was
    /// present.
    pub(crate) fn reopened(&self) -> Self {
        let mut open = Self {
            fixed: self.fixed & !fixed::SHAPED,
            ..self.clone()
        };
        let named = |key: usize, value: u64| if open.is_fixed(key) { value } else { 0 };
        let capacity = named(fixed::CAPACITY, self.capacity);
        let align = named(fixed::ALIGN, self.align);
        let publishers_max = named(fixed::PUBLISHERS_MAX, self.publishers_max);
        let evict_after_ns = named(fixed::SLOW, self.evict_after_ns);
        let type_hash = named(fixed::TYPE, self.type_hash);
        if !open.is_fixed(fixed::TYPE) {
            open.type_name.clear();
        }
        Self {
            capacity,
            align,
            publishers_max,
            evict_after_ns,
            type_hash,
            ..open
        }
    }

    /// Lanes as an index bound; 0 before the geometry is fixed.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked against a limit of 256"
    )]
    pub(crate) fn lanes(&self) -> usize {
        if self.is_open() {
            0
        } else {
            self.publishers_max as usize
        }
    }

    /// Slots as an index bound.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "checked against a limit of 1024"
    )]
    pub(crate) fn slots(&self) -> usize {
        self.subscribers_max as usize
    }

    /// First word of slot `index`.
    pub(crate) fn slot(&self, index: usize) -> usize {
        debug_assert!(index < self.slots());
        control::SLOTS + index * slot::STRIDE
    }

    /// First word of the lane table, after the slots.
    pub(crate) fn lane_table(&self) -> usize {
        control::SLOTS + self.slots() * slot::STRIDE
    }

    /// First word of lane `index` in the lane table.
    pub(crate) fn lane_entry(&self, index: usize) -> usize {
        debug_assert!(index < self.lanes());
        self.lane_table() + index * lane_entry::STRIDE
    }

    /// First word of the positions, after the lane table.
    pub(crate) fn positions(&self) -> usize {
        self.lane_table() + self.lanes() * lane_entry::STRIDE
    }

    /// Word of slot `index`'s position in lane `lane`.
    pub(crate) fn position(&self, index: usize, lane: usize) -> usize {
        debug_assert!(index < self.slots() && lane < self.lanes());
        self.positions() + index * self.lanes().next_multiple_of(16) + lane
    }

    /// Words of the whole control file.
    pub(crate) fn control_words(&self) -> usize {
        self.positions() + self.slots() * self.lanes().next_multiple_of(16)
    }

    /// Bytes of the control file: whole pages.
    pub(crate) fn control_bytes(&self) -> u64 {
        (self.control_words() as u64 * 8).next_multiple_of(4096)
    }

    /// Bytes of a lane file.
    pub(crate) fn lane_bytes(&self) -> u64 {
        LANE_HEADER_BYTES + self.capacity
    }

    /// Longest payload in bytes. It fits together with its header and the next header.
    pub(crate) fn message_max(&self) -> u64 {
        self.capacity - self.align.max(crate::region::HEADER_BYTES) - crate::region::HEADER_BYTES
    }
}

/// Writes text into words, zero padded.
pub(crate) fn pack(bytes: &[u8], words: &mut [u64]) {
    for (word, part) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..part.len()].copy_from_slice(part);
        *word = u64::from_le_bytes(whole);
    }
}

/// Reads text of `length` bytes back; `None` if it is not printable or too long for the words.
pub(crate) fn unpack(words: &[u64], length: u64) -> Option<String> {
    let length = usize::try_from(length).ok()?;
    let words = words.get(..length.div_ceil(8))?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = bytes.get(..length)?;
    let text = std::str::from_utf8(text).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// FNV-1a over the words' bytes (Fowler, Noll, Vo; 64-bit parameters): finds accidents, not
/// attackers.
pub(crate) fn checksum(words: &[u64]) -> u64 {
    let mut hash = FNV_START;
    for word in words {
        // Not by iterators: the tests run an opening one instruction at a time.
        let mut shift = 0;
        while shift < 64 {
            hash = fnv_step(hash, word >> shift & 0xff);
            shift += 8;
        }
    }
    hash
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

#[inline(always)]
fn fnv_step(hash: u64, byte: u64) -> u64 {
    (hash ^ byte).wrapping_mul(0x0000_0100_0000_01b3)
}

/// FNV-1a, 64 bits.
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    fnv_on(FNV_START, bytes)
}

/// The hash of what `hash` is of, and of these bytes behind it.
pub(crate) fn fnv_on(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    let bytes = bytes.into_iter().map(u64::from);
    bytes.fold(hash, fnv_step)
}
