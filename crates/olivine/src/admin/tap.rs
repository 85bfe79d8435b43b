//! Reading the messages of a channel from outside, without a place in it.

use super::Observer;
use super::observer::{is_overwritten, padded_bytes};
use crate::channel::attached::Attached;
use crate::channel::backing::Backing;
use crate::error::OpenError;
use crate::region::Words;
use crate::ring::layout::{Geometry, LANE_HEADER_BYTES, frame_bytes, frame_tag, has_topic, lane};
use crate::segment::{lane_name, open_file};
use crate::sync::Ordering;
use crate::uri::{Config, topic};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::OwnedFd;

/// Bytes of a ring that one read copies while messages are short.
const CHUNK_BYTES: usize = 64 << 10;
/// Frames longer than this are read one by one, without the rest of their payload.
const LONG_FRAME_BYTES: u64 = 4 << 10;
/// Bytes of a frame's header.
const HEADER_BYTES: usize = size_of::<u64>();
/// Longest trailer of a message with a topic: the topic, and its length in a byte.
const TRAILER_BYTES_MAX: usize = 256;

/// Follows the messages of one channel from outside.
///
/// It takes no slot and no lock, maps the channel read-only, wakes no participant and stores
/// nothing in shared memory. So no publisher waits for it: it misses what is overwritten before it
/// looks, and says how much.
///
/// The first look starts behind the messages that exist then. A lane or a channel that is made
/// later is read from its first message.
///
/// ```
/// use olivine::admin::{Tap, Tapped};
/// use olivine::{Config, Publisher};
///
/// # let dir = tempfile::tempdir()?;
/// # let uri = format!("shm://ticks?dir={}", dir.path().display());
/// let mut publisher = Publisher::open(&uri)?;
/// let mut tap = Tap::new(&Config::parse(&uri)?);
/// tap.look(8, |_| {})?;
/// publisher.publish(b"hello, tap")?;
/// tap.look(8, |seen| {
///     let Tapped::Message(message) = seen else { panic!("{seen:?}") };
///     assert_eq!((message.payload_bytes, message.head), (10, &b"hello, t"[..]));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tap {
    observer: Observer,
    /// Whether there was a look: what is made later is read from its start.
    looked: bool,
    incarnation: u64,
    lanes: BTreeMap<usize, Followed>,
    chunk: Vec<u8>,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tapped<'a> {
    /// A message.
    Message(TappedMessage<'a>),
    /// Messages of a lane that may have been overwritten before they were read.
    Missed {
        /// The lane.
        lane: usize,
        /// Bytes of the frames, with headers and padding.
        bytes: u64,
    },
    /// A frame that no publisher writes. The lane is read on behind the newest message.
    Damaged {
        /// The lane.
        lane: usize,
        /// Where the frame starts.
        position: u64,
    },
}

/// A message, as far as it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TappedMessage<'a> {
    /// The lane of its publisher.
    pub lane: usize,
    /// Where its frame starts: the count of bytes before it in the lane.
    pub position: u64,
    /// Its tag.
    pub tag: u32,
    /// Its topic; empty for a message without one.
    pub topic: &'a [u8],
    /// Length of its payload, without the topic.
    pub payload_bytes: u64,
    /// The first bytes of the payload.
    pub head: &'a [u8],
}

/// A lane that is read.
#[derive(Debug)]
struct Followed {
    file: OwnedFd,
    /// Start of the next frame.
    position: u64,
    /// Bytes of the last frame.
    frame_bytes: u64,
}

impl Tap {
    /// A tap of the channel of these settings, which need not exist yet. Of `config` only the name
    /// and the folder are used.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            observer: Observer::new(config),
            looked: false,
            incarnation: 0,
            lanes: BTreeMap::new(),
            chunk: Vec::new(),
        }
    }

    /// Hands over the messages since the last look, lane by lane, each lane in order. Copies up to
    /// `head_max` bytes of each payload, at most 4,096. It does not wait.
    ///
    /// Of a channel that was removed since the last look it hands over the last messages of the
    /// lanes that it knows. A lane that came and went between two looks is not seen.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Missing` if there is no channel. The next look tries again.
    pub fn look(
        &mut self,
        head_max: usize,
        mut handler: impl FnMut(Tapped<'_>),
    ) -> Result<(), OpenError> {
        let head_max = head_max.min(4096);
        let from_start = std::mem::replace(&mut self.looked, true);
        // In this order: nothing is published in a channel that was removed before the drain. The
        // next look notices a later removal.
        let stays = self.observer.is_current(None);
        self.drain(head_max, &mut handler);
        let incarnation = self.observer.look_again(stays)?.incarnation;
        if std::mem::replace(&mut self.incarnation, incarnation) != incarnation {
            self.lanes.clear();
        }
        let Some(mapped) = &self.observer.mapped else {
            return Ok(());
        };
        for (&index, words) in &mapped.lanes {
            if let Entry::Vacant(entry) = self.lanes.entry(index)
                && let Some(followed) = Followed::open(&mapped.attached, index, words, from_start)?
            {
                entry.insert(followed);
            }
        }
        self.drain(head_max, &mut handler);
        Ok(())
    }

    /// Hands over the messages of the lanes that are read.
    fn drain(&mut self, head_max: usize, handler: &mut impl FnMut(Tapped<'_>)) {
        let Some(mapped) = &self.observer.mapped else {
            return;
        };
        for (&index, followed) in &mut self.lanes {
            let Some(words) = mapped.lanes.get(&index) else {
                continue;
            };
            let mut reading = Reading {
                geometry: &mapped.attached.geometry,
                words,
                lane: index,
                head_max,
                followed,
                chunk: &mut self.chunk,
            };
            reading.drain(handler);
        }
    }
}

impl Followed {
    fn open(
        attached: &Attached,
        index: usize,
        words: &Words,
        from_start: bool,
    ) -> Result<Option<Self>, OpenError> {
        // Other channels have no name in a folder.
        let Backing::Files(folder) = &attached.backing else {
            return Ok(None);
        };
        let Some(file) = open_file(folder, &lane_name(index), false)? else {
            return Ok(None);
        };
        let start = if from_start {
            lane::ORIGIN
        } else {
            lane::CURSOR
        };
        Ok(Some(Self {
            file,
            position: words.word(start).load(Ordering::Acquire),
            frame_bytes: 0,
        }))
    }
}

/// Why a walk over a chunk ended.
enum End {
    /// The next chunk is to be read.
    Chunk,
    Overwritten,
    Damaged,
}

/// One look at one lane.
struct Reading<'a> {
    geometry: &'a Geometry,
    words: &'a Words,
    lane: usize,
    head_max: usize,
    followed: &'a mut Followed,
    chunk: &'a mut Vec<u8>,
}

impl Reading<'_> {
    /// Hands over every message before the cursor.
    fn drain(&mut self, handler: &mut impl FnMut(Tapped<'_>)) {
        let lane = self.lane;
        let cursor = self.words.word(lane::CURSOR).load(Ordering::Acquire);
        while self.followed.position < cursor {
            let end = if self.copy(cursor - self.followed.position) {
                self.walk(cursor, handler)
            } else {
                End::Overwritten
            };
            let position = self.followed.position;
            let bytes = cursor - position;
            match end {
                End::Chunk => continue,
                End::Overwritten => handler(Tapped::Missed { lane, bytes }),
                End::Damaged => handler(Tapped::Damaged { lane, position }),
            }
            self.followed.position = cursor;
        }
    }

    /// Copies the next part of the ring, at most `most` bytes; `false` if a publisher may have
    /// written there.
    fn copy(&mut self, most: u64) -> bool {
        let wanted = if self.followed.frame_bytes > LONG_FRAME_BYTES {
            HEADER_BYTES + self.head_max
        } else {
            CHUNK_BYTES
        };
        let length = usize::try_from(most).map_or(wanted, |most| wanted.min(most));
        let mut chunk = std::mem::take(self.chunk);
        chunk.resize(length, 0);
        let copied = self.read(self.followed.position, &mut chunk);
        *self.chunk = chunk;
        copied
    }

    /// Copies bytes of the ring; `false` if a publisher may have written there.
    fn read(&self, mut position: u64, mut into: &mut [u8]) -> bool {
        let (from, capacity) = (position, self.geometry.capacity);
        while !into.is_empty() {
            let place = position % capacity;
            let whole =
                usize::try_from(capacity - place).map_or(into.len(), |end| end.min(into.len()));
            let part = &mut into[..whole];
            let read = rustix::io::pread(&self.followed.file, part, LANE_HEADER_BYTES + place);
            let Ok(read @ 1..) = read else { return false };
            position += read as u64;
            into = &mut into[read..];
        }
        !is_overwritten(self.words, self.geometry, from)
    }

    /// Hands over the messages of the chunk and moves behind them.
    fn walk(&mut self, cursor: u64, handler: &mut impl FnMut(Tapped<'_>)) -> End {
        let start = self.followed.position;
        let mut trailer = [0; TRAILER_BYTES_MAX];
        loop {
            let position = self.followed.position;
            let offset = usize::try_from(position - start).unwrap_or(usize::MAX);
            let Some((header, rest)) = self
                .chunk
                .get(offset..)
                .and_then(<[u8]>::split_first_chunk::<HEADER_BYTES>)
            else {
                // No cursor is within a header.
                return if offset > 0 { End::Chunk } else { End::Damaged };
            };
            let word = u64::from_le_bytes(*header);
            let Some(padded) = padded_bytes(word, self.geometry, cursor - position) else {
                return End::Damaged;
            };
            let frame = usize::try_from(frame_bytes(word)).unwrap_or(usize::MAX);
            let length = frame - HEADER_BYTES;
            if rest.len() < length && offset > 0 {
                // The next chunk starts with this frame.
                return End::Chunk;
            }
            let copied = &rest[..length.min(rest.len())];
            let split = if !has_topic(word) {
                Some((length, &[][..]))
            } else if copied.len() == length {
                topic::split(copied).map(|(payload, topic)| (payload.len(), topic))
            } else {
                let tail = &mut trailer[..length.min(TRAILER_BYTES_MAX)];
                if !self.read(position + (HEADER_BYTES + length - tail.len()) as u64, tail) {
                    return End::Overwritten;
                }
                let before = length - tail.len();
                topic::split(tail).map(|(payload, topic)| (before + payload.len(), topic))
            };
            let Some((payload_bytes, topic)) = split else {
                return End::Damaged;
            };
            handler(Tapped::Message(TappedMessage {
                lane: self.lane,
                position,
                tag: frame_tag(word),
                topic,
                payload_bytes: payload_bytes as u64,
                head: &copied[..payload_bytes.min(self.head_max).min(copied.len())],
            }));
            self.followed.frame_bytes = padded;
            self.followed.position += padded;
        }
    }
}
