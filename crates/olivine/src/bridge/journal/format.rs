//! The layout of a journal's files. `docs/journal.md` describes it with pictures; a golden test
//! compares the two.
//!
//! All numbers are little endian. Every structure is a multiple of 8 bytes long.

use crate::error::JournalError;
use crate::region::HEADER_BYTES;
use crate::ring::layout::{frame_bytes, frame_tag, has_topic};
use crate::uri::topic;
use std::path::Path;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every file.
const TERM_MAGIC: [u8; 8] = *b"OLVJRNL1";
/// First bytes of every block.
pub(super) const BLOCK_MAGIC: [u8; 8] = *b"OLVBLOCK";
/// Last bytes of a file that ends with an index and of a journal that was closed in order.
const CLOSED_MAGIC: [u8; 8] = *b"OLVINDEX";
/// Last bytes of a file with an index, if the journal continues in the next file.
const GOES_ON_MAGIC: [u8; 8] = *b"OLVINEXT";
/// Version of everything in this file. Any change of meaning or position raises it.
pub(super) const FORMAT_VERSION: u32 = 5;
/// The oldest version that is read: it has everything but failures.
const VERSION_MIN: u32 = 4;

/// Upper bound of block numbers, positions and lane ends: no recording comes near it, and additions
/// do not overflow.
pub(super) const COUNT_MAX: u64 = u64::MAX / 4 * 3;
/// Longest body of a block, compressed or not: more than the largest ring holds.
pub(super) const BODY_MAX: u64 = (1 << 31) + (1 << 24);
/// Most lanes of one journal.
pub(super) const LANES_MAX: usize = 1 << 16;
/// Longest name of a channel or type, in bytes.
pub(super) const TEXT_MAX: usize = 1024;

/// First 64 bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TermHeader {
    magic: [u8; 8],
    version: U32,
    check: U32,
    /// Same in every file of the journal, different for every journal.
    pub(super) journal: U64,
    /// Number of the file, from 0.
    pub(super) term: U64,
    /// Number of its first block.
    pub(super) sequence: U64,
    /// Position of its first frame.
    pub(super) position: U64,
    /// Lower bound of the run times in this file and later ones: nanoseconds since 1970.
    pub(super) time: U64,
    reserved: U64,
}

/// Bytes of a [`TermHeader`].
pub(super) const TERM_BYTES: u64 = size_of::<TermHeader>() as u64;

impl TermHeader {
    pub(super) fn new(journal: u64, term: u64, sequence: u64, position: u64, time: u64) -> Self {
        let mut header = Self {
            magic: TERM_MAGIC,
            version: FORMAT_VERSION.into(),
            check: 0.into(),
            journal: journal.into(),
            term: term.into(),
            sequence: sequence.into(),
            position: position.into(),
            time: time.into(),
            reserved: 0.into(),
        };
        header.check = crc32c::crc32c(header.as_bytes()).into();
        header
    }

    /// Whether its check matches.
    fn is_whole(&self) -> bool {
        let mut blank = self.clone();
        blank.check = 0.into();
        crc32c::crc32c(blank.as_bytes()) == self.check.get()
    }

    /// The header with one bit flipped back, if it is whole then. So it was written, because
    /// two whole headers never differ in fewer than six bits.
    fn mended(&self) -> Option<Self> {
        (0..size_of::<Self>() * 8).find_map(|bit| {
            let mut tried = self.clone();
            tried.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            (tried.magic == TERM_MAGIC && tried.is_whole()).then_some(tried)
        })
    }

    /// Reads the first bytes of a file, also if one bit of them was flipped.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotAJournal`], [`JournalError::Version`], or [`JournalError::Damaged`] at
    /// byte 0.
    pub(super) fn read(bytes: &[u8], path: &Path) -> Result<Self, JournalError> {
        let not = |problem| JournalError::NotAJournal {
            path: path.to_owned(),
            problem,
        };
        let (stored, _) = Self::read_from_prefix(bytes)
            .map_err(|_| not("it is shorter than a journal's header"))?;
        let whole = match stored.is_whole() {
            true => Some(stored.clone()),
            false => stored.mended(),
        };
        let is_whole = whole.is_some();
        let header = whole.unwrap_or(stored);
        if header.magic != TERM_MAGIC {
            return Err(not("it does not start with OLVJRNL1"));
        }
        let found = header.version.get();
        if is_whole && !(VERSION_MIN..=FORMAT_VERSION).contains(&found) {
            return Err(JournalError::Version {
                path: path.to_owned(),
                found,
                expected: FORMAT_VERSION,
            });
        }
        let damaged = |problem| JournalError::Damaged {
            path: path.to_owned(),
            offset: 0,
            problem,
            next: None,
            lost_bytes: None,
        };
        if !is_whole || header.reserved.get() != 0 {
            return Err(damaged("the check of the file's header does not match"));
        }
        if [header.term, header.sequence, header.position]
            .iter()
            .any(|count| count.get() > COUNT_MAX)
        {
            return Err(damaged("a number in the file's header is not possible"));
        }
        Ok(header)
    }

    /// Whether the file may hold every kind of block. A program of the version of an older file
    /// would take an unknown kind for damage.
    pub(super) fn is_newest(&self) -> bool {
        self.version.get() == FORMAT_VERSION
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A run table and the frames of its runs.
    Frames,
    /// Descriptions of lanes that no block of this file described before.
    Lanes,
    /// Where blocks start, every lane, and a seal at the end.
    Index,
    /// The reason of a recorder that failed.
    Failure,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Frames, Self::Lanes, Self::Index, Self::Failure];

    fn number(self) -> u16 {
        match self {
            Self::Frames => 1,
            Self::Lanes => 2,
            Self::Index => 3,
            Self::Failure => 4,
        }
    }
}

/// How a block's body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Plain,
    Zstd,
}

impl Codec {
    fn number(self) -> u16 {
        match self {
            Self::Plain => 0,
            Self::Zstd => 1,
        }
    }
}

/// First 64 bytes of a block.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BlockHeader {
    magic: [u8; 8],
    /// Number of the block in the journal; numbers increase by one, across files.
    pub(super) sequence: U64,
    /// Position of its first frame: the number of frame bytes before it.
    pub(super) position: U64,
    /// Time of its first run; without runs, the time of the newest run before it.
    pub(super) time: U64,
    kind: U16,
    codec: U16,
    /// Number of runs or lanes in its body; of an index the number of its lanes; of a failure the
    /// bytes of its reason.
    pub(super) count: U32,
    /// Bytes of the body in the file, padding to 8 included.
    pub(super) stored: U64,
    /// Bytes of the uncompressed body.
    pub(super) plain: U64,
    body_check: U32,
    check: U32,
}

/// Bytes of a [`BlockHeader`].
pub(super) const BLOCK_BYTES: u64 = size_of::<BlockHeader>() as u64;

/// Facts of a block, without its body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFacts {
    pub(super) journal: u64,
    pub(super) sequence: u64,
    pub(super) position: u64,
    pub(super) time: u64,
    pub(super) kind: Kind,
    pub(super) codec: Codec,
    pub(super) count: u32,
    pub(super) plain: u64,
}

impl BlockHeader {
    /// The header of a block with the body `body`, given in parts.
    pub(super) fn new(facts: &BlockFacts, body: &[&[u8]]) -> Self {
        let stored: u64 = body.iter().map(|part| part.len() as u64).sum();
        let body_check = body
            .iter()
            .fold(0, |check, part| crc32c::crc32c_append(check, part));
        let mut header = Self {
            magic: BLOCK_MAGIC,
            sequence: facts.sequence.into(),
            position: facts.position.into(),
            time: facts.time.into(),
            kind: facts.kind.number().into(),
            codec: facts.codec.number().into(),
            count: facts.count.into(),
            stored: stored.into(),
            plain: facts.plain.into(),
            body_check: body_check.into(),
            check: 0.into(),
        };
        header.check = header.checksum(facts.journal).into();
        header
    }

    /// CRC over the journal's number and all fields except the CRC. So a block of another journal,
    /// for example recorded inside a message, does not match.
    fn checksum(&self, journal: u64) -> u32 {
        let bytes = self.as_bytes();
        crc32c::crc32c_append(
            crc32c::crc32c(&journal.to_le_bytes()),
            &bytes[..bytes.len() - 4],
        )
    }

    /// Reads a header of this journal.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn read(bytes: &[u8], journal: u64) -> Result<Self, &'static str> {
        let (header, _) = Self::read_from_prefix(bytes).map_err(|_| "a block's header is cut")?;
        if header.magic != BLOCK_MAGIC {
            return Err("no block starts here");
        }
        if header.checksum(journal) != header.check.get() {
            return Err("the check of a block's header does not match");
        }
        if header.kind().is_none() || header.codec().is_none() {
            return Err("a block is of an unknown kind");
        }
        if header.sequence.get() > COUNT_MAX || header.position.get() > COUNT_MAX {
            return Err("a block's number is not possible");
        }
        let (stored, plain) = (header.stored.get(), header.plain.get());
        if stored > BODY_MAX || plain > BODY_MAX || !stored.is_multiple_of(8) {
            return Err("a block's length is not possible");
        }
        if header.codec() == Some(Codec::Plain) && stored != plain {
            return Err("a block's lengths contradict each other");
        }
        Ok(header)
    }

    /// Whether the stored `body` is what was written.
    pub(super) fn matches(&self, body: &[u8]) -> bool {
        body.len() as u64 == self.stored.get() && crc32c::crc32c(body) == self.body_check.get()
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.number() == self.kind.get())
    }

    pub(super) fn codec(&self) -> Option<Codec> {
        [Codec::Plain, Codec::Zstd]
            .into_iter()
            .find(|codec| codec.number() == self.codec.get())
    }

    /// Bytes of the whole block in the file.
    pub(super) fn bytes(&self) -> u64 {
        BLOCK_BYTES + self.stored.get()
    }
}

/// A run of one lane's frames in a block's run table.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RunHeader {
    /// Number of the lane in this journal.
    pub(super) lane: U32,
    pub(super) reserved: U32,
    /// Position of its first frame in the lane.
    pub(super) position: U64,
    /// When it was recorded: nanoseconds since 1970.
    pub(super) time: U64,
    /// Bytes of its frames.
    pub(super) bytes: U64,
}

/// A lane's description, before its texts.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LaneHeader {
    /// Number of the lane in this journal.
    pub(super) lane: U32,
    /// Index of the publisher's lane in its channel.
    pub(super) publisher: U32,
    /// Bytes to which its frames are padded.
    pub(super) align: U16,
    /// Bytes of the text of the message type's fields.
    pub(super) fields_bytes: U16,
    /// Bytes of the channel's name.
    pub(super) channel_bytes: U16,
    /// Bytes of the message type's name.
    pub(super) type_bytes: U16,
    /// Which incarnation of the channel.
    pub(super) incarnation: U64,
    /// Hash of the message type; 0 for untyped bytes.
    pub(super) type_hash: U64,
    /// End of its recorded frames, as far as earlier blocks say.
    pub(super) end: U64,
}

/// An entry of an index: the start of a block of frames.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct IndexEntry {
    /// Bytes from the start of the file.
    pub(super) offset: U64,
    pub(super) sequence: U64,
    pub(super) position: U64,
    pub(super) time: U64,
}

/// The end of an index block, and so of a file that was closed.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Seal {
    /// Where the index block starts, in bytes from the start of the file.
    pub(super) offset: U64,
    /// Time of the newest run.
    pub(super) time: U64,
    pub(super) magic: [u8; 8],
}

/// How the blocks of a file end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sealed {
    /// Without an index: a recorder is active or was killed, or the file was cut.
    #[default]
    No,
    /// With an index that says that the journal continues in the next file.
    GoesOn,
    /// With an index: the journal was closed in order.
    Closed,
}

impl Seal {
    /// The seal of an index at `offset` for this ending.
    pub(super) fn new(offset: u64, time: u64, sealed: Sealed) -> Self {
        Self {
            offset: offset.into(),
            time: time.into(),
            magic: match sealed {
                Sealed::GoesOn => GOES_ON_MAGIC,
                Sealed::No | Sealed::Closed => CLOSED_MAGIC,
            },
        }
    }

    /// The ending that it says; `No` if it is not a seal.
    pub(super) fn sealed(&self) -> Sealed {
        match self.magic {
            CLOSED_MAGIC => Sealed::Closed,
            GOES_ON_MAGIC => Sealed::GoesOn,
            _ => Sealed::No,
        }
    }
}

/// One frame of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) tag: u32,
    pub(super) payload: &'a [u8],
    /// Empty for a message without a topic.
    pub(super) topic: &'a [u8],
    /// Start of the next frame in the run.
    pub(super) end: usize,
}

/// The frame at byte `at` of a run padded to `align`.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn frame(run: &[u8], at: usize, align: usize) -> Result<Frame<'_>, &'static str> {
    let rest = run.get(at..).unwrap_or_default();
    let (word, _) = U64::read_from_prefix(rest).map_err(|_| "is in a frame's header")?;
    let bytes = frame_bytes(word.get());
    if bytes < HEADER_BYTES {
        return Err("starts a frame that was never committed");
    }
    #[allow(clippy::cast_possible_truncation, reason = "32 bits of length")]
    let bytes = bytes as usize;
    let end = bytes.next_multiple_of(align);
    if end > rest.len() {
        return Err("starts a frame that goes on after the end");
    }
    let carried = &rest[size_of::<U64>()..bytes];
    let (payload, topic) = if has_topic(word.get()) {
        topic::split(carried)
            .ok_or("starts a frame that is marked as one with a topic and has none")?
    } else {
        (carried, &[][..])
    };
    Ok(Frame {
        tag: frame_tag(word.get()),
        payload,
        topic,
        end: at + end,
    })
}

/// Walks a run of whole frames; returns how many there are.
///
/// # Errors
///
/// Where the first invalid frame starts, and what is wrong with it.
pub(super) fn count_frames(run: &[u8], align: usize) -> Result<u64, (usize, &'static str)> {
    let (mut at, mut count) = (0, 0);
    while at < run.len() {
        at = frame(run, at, align).map_err(|problem| (at, problem))?.end;
        count += 1;
    }
    Ok(count)
}
