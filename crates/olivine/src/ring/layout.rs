//! The memory layout of a channel: each word, its writer, and the edges that order accesses.
//!
//! A channel is one **control** file, mapped writable by every participant, and one **lane** file
//! per publisher. Its publisher maps a lane writable, subscribers map it read-only. All words are
//! 64 bits, little endian. `docs/layout.md` shows the byte offsets; a test compares both.
//!
//! # Single writers
//!
//! | word | written by |
//! |---|---|
//! | lane: cursor, limit, state, counters, frames | the publisher that holds the lane's lock |
//! | control: a slot's position, delivery, park … | the subscriber in the slot, or its reclaimer |
//! | control: gating and attached bits | the same, one bit each, by atomic read-modify-write |
//! | control: a lane's park word | set by its publisher, cleared by its waker |
//! | control: sleepers | raised and counted by sleepers, lowered by wakers; only a hint |
//! | control: evictions, reclaims | any publisher, by atomic read-modify-write |
//! | control: member_pid, fields, what opening writes | the holder of the membership lock |
//!
//! A publisher that evicts a subscriber also writes its slot's state and clears its gating bit. So
//! does a participant that finds a name expired, or removes it.
//!
//! # Edges
//!
//! * **COMMIT**: the release store of a frame's header makes its payload, and the zero of the next
//!   header, visible to the subscriber whose acquire load sees it.
//! * **CURSOR**: the release store of the cursor makes every frame before it visible to the
//!   subscriber whose acquire load sees it, and the zero after them. A subscriber that starts there
//!   never reads older bytes as a header.
//! * **REUSE**: the release store of a subscriber's position gives the bytes before it back. The
//!   publisher's acquire load in the gate scan sees it.
//! * **JOIN**: a joiner stores its position and gating bit, fences, and reads the limit. A
//!   publisher stores a new limit, fences, and scans again. The second of the two sees the first.
//! * **OVERRUN**: a publisher stores the limit and fences before it writes into the freed bytes. A
//!   lossy subscriber fences after its copy and reads the limit again. So it detects an overwritten
//!   copy.
//! * **SLEEP**: a sleeper raises its flags, passes a heavy barrier and looks again; a publisher
//!   commits, passes a light barrier and reads the hint. One of them sees the other. While the hint
//!   stands, a fence on each side does: the publisher's comes before it reads the park words.
//! * **WAKE**: a sleeper raises its park word, then counts the hint up and raises it, each by
//!   read-modify-write. A waker reads the hint, takes each park word by read-modify-write, and
//!   lowers the hint only if the count has not changed. No flag is lost, even if a waker dies or
//!   stops half way.
//! * **END**: the release store of a lane's state as closed makes its last frames and its failure,
//!   if any, visible to the subscriber whose acquire load sees it closed.
//! * **ROOM**: SLEEP with the roles exchanged. A publisher that waits for room raises its park
//!   word. A subscriber that releases a position looks at it.

mod fields;
mod geometry;

pub(crate) use fields::{FIELDS_ALL, FIELDS_BYTES, fields_from_words, fields_to_words};
pub(crate) use geometry::{
    Geometry, TYPE_NAME_BYTES, checksum, fnv, fnv_on, pack, type_shown, unpack,
};

/// "OLIVINE1" as a little-endian word: first word of a control file.
pub(crate) const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"OLIVINE1");
/// "OLIVLANE" as a little-endian word: first word of a lane file.
pub(crate) const LANE_MAGIC: u64 = u64::from_le_bytes(*b"OLIVLANE");
/// Version of this layout. Any change of meaning or offset raises it.
pub(crate) const LAYOUT_VERSION: u64 = 6;

/// Bytes of the lane's header page, before the ring.
pub(crate) const LANE_HEADER_BYTES: u64 = 4096;
/// No lane reaches this position. A larger value read from shared memory is replaced by this one.
pub(crate) const POSITION_MAX: u64 = (u64::MAX / 4 * 3) & !4095;
/// A position word that gates nothing: the slot is free or does not gate this lane.
pub(crate) const NO_POSITION: u64 = u64::MAX;

/// Words of the control header.
pub(crate) mod control {
    /// [`super::CONTROL_MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// [`super::LAYOUT_VERSION`].
    pub(crate) const VERSION: usize = 1;
    /// [`LIVE`] or [`REMOVED`].
    pub(crate) const STATE: usize = 2;
    /// Which of the two geometry records is valid: 0 or 1.
    pub(crate) const GEOMETRY_TURN: usize = 3;
    /// Process that created the channel, for display.
    pub(crate) const CREATOR_PID: usize = 20;
    /// Process that took the membership lock last, for error messages.
    pub(crate) const MEMBER_PID: usize = 21;
    /// The incarnation: a number drawn when the channel was made.
    pub(crate) const INCARNATION: usize = 22;
    /// Two words: the id of the boot in which the channel was made; 0 if unknown.
    pub(crate) const BOOT: usize = 23;
    /// Words of [`BOOT`].
    pub(crate) const BOOT_WORDS: usize = 2;
    /// Counts the publishers that took a lane, new or existing, and the end of a sealed channel's
    /// lane.
    pub(crate) const LANES_EPOCH: usize = 32;
    /// The hint. Lowest bit: a subscriber may be parked; publishers read it after each commit. Next
    /// bit: a heavy barrier has passed since. The bits above count the sleeps and lowerings.
    pub(crate) const SLEEPERS: usize = 48;
    /// Bitmap of slots that gate publishers.
    pub(crate) const GATING: usize = 64;
    /// Bitmap of slots in use.
    pub(crate) const ATTACHED: usize = 80;
    /// Words of each bitmap.
    pub(crate) const BITMAP_WORDS: usize = 16;
    /// Subscribers that ever attached.
    pub(crate) const SUBSCRIBERS_EVER: usize = 96;
    /// Subscribers evicted.
    pub(crate) const EVICTIONS: usize = 97;
    /// Dead subscribers reclaimed.
    pub(crate) const RECLAIMS: usize = 98;
    /// Always 1, like a raised hint. A publisher without membarrier reads this word, so it always
    /// takes the careful path.
    pub(crate) const ALWAYS: usize = 112;
    /// Bytes of the text of the type's fields; 0 for none.
    pub(crate) const FIELDS_LENGTH: usize = 128;
    /// Check over the hash of the type, the length and the text.
    pub(crate) const FIELDS_CHECK: usize = 129;
    /// The text of the type's fields.
    pub(crate) const FIELDS: usize = 130;
    /// Words of [`FIELDS`].
    pub(crate) const FIELDS_WORDS: usize = 126;
    /// First word of the two geometry records. The valid record never changes.
    pub(crate) const GEOMETRY: usize = 256;
    /// Number of words of a geometry record, the check word included.
    pub(crate) const GEOMETRY_WORDS: usize = 24;
    /// First word of the slots.
    pub(crate) const SLOTS: usize = 512;

    /// The channel is in use.
    pub(crate) const LIVE: u64 = 1;
    /// The channel is being removed; a participant that reads this starts over.
    pub(crate) const REMOVED: u64 = 2;
}

/// Which settings of a channel are fixed: bits of `geometry.fixed`.
pub(crate) mod fixed {
    /// Settings with a bit in `geometry.fixed` and a word in `geometry.fixed_by`. The index is the
    /// bit.
    pub(crate) const KEYS: [&str; 6] = [
        "capacity",
        "align",
        "publishers_max",
        "subscribers_max",
        "slow",
        "type",
    ];
    /// Index of `capacity`.
    pub(crate) const CAPACITY: usize = 0;
    /// Index of `align`.
    pub(crate) const ALIGN: usize = 1;
    /// Index of `publishers_max`.
    pub(crate) const PUBLISHERS_MAX: usize = 2;
    /// Index of `subscribers_max`.
    pub(crate) const SUBSCRIBERS_MAX: usize = 3;
    /// Index of `slow`.
    pub(crate) const SLOW: usize = 4;
    /// Index of the type.
    pub(crate) const TYPE: usize = 5;
    /// A publisher has fixed every setting, and laid out the lane table and the positions. Valid
    /// once a lane is present.
    pub(crate) const SHAPED: u64 = 1 << KEYS.len();
}

/// One entry of the lane table in the control file.
pub(crate) mod lane_entry {
    /// Words of an entry.
    pub(crate) const STRIDE: usize = 32;
    /// 1 once the lane's file is in place.
    pub(crate) const PRESENT: usize = 0;
    /// Process of the newest publisher, for display and for watches.
    pub(crate) const PID: usize = 1;
    /// PID namespace of that process; 0 if unknown.
    pub(crate) const PID_SPACE: usize = 2;
    /// The publisher's park word: 1 while it sleeps for room.
    pub(crate) const PARK: usize = 16;
}

/// One subscriber slot in the control file.
pub(crate) mod slot {
    /// Words of a slot.
    pub(crate) const STRIDE: usize = 48;
    /// What the slot holds: [`FREE`], [`ATTACHED`], [`DURABLE`] or [`EVICTED`].
    pub(crate) const STATE: usize = 0;
    /// Process, for display and for watches.
    pub(crate) const PID: usize = 1;
    /// 0 reliable, 1 latest.
    pub(crate) const DELIVERY: usize = 2;
    /// Index of the wait strategy, for display.
    pub(crate) const WAIT: usize = 3;
    /// Bytes lost by overruns.
    pub(crate) const LOST_BYTES: usize = 4;
    /// Monotonic nanoseconds when a durable subscriber was found absent; 0 while present.
    pub(crate) const ABSENT_SINCE: usize = 5;
    /// Nanoseconds of absence after which it expires; 0 for never.
    pub(crate) const EXPIRE_NS: usize = 6;
    /// Length of the durable name in bytes, then the name.
    pub(crate) const NAME_LENGTH: usize = 7;
    /// Six words of name.
    pub(crate) const NAME: usize = 8;
    /// Counts the subscribers that took the slot. So each one is timed separately. Clearing keeps
    /// it.
    pub(crate) const TICKET: usize = 14;
    /// Bytes that a durable name missed because its slot was taken, in total.
    pub(crate) const MISSED_BYTES: usize = 15;
    /// The part of [`MISSED_BYTES`] that was reported to its subscribers.
    pub(crate) const TOLD_BYTES: usize = 16;
    /// 1 if the evicted subscriber received the `Evicted` error before it left.
    pub(crate) const TOLD_EVICTED: usize = 17;
    /// PID namespace of the process; 0 if unknown.
    pub(crate) const PID_SPACE: usize = 18;
    /// The end of stream that was reported last to this durable name, so that it is reported once;
    /// 0 for none.
    pub(crate) const TOLD_END: usize = 19;
    /// The failures that were reported to this durable name: the sum over all lanes of
    /// [`super::lane::FAILURE_STATE`], for the newest failure that was reported.
    pub(crate) const TOLD_FAILURES: usize = 20;
    /// Times that this subscriber slept in the kernel. Threads that sleep for it share the word.
    pub(crate) const PARKS: usize = 21;
    /// Overruns of this subscriber.
    pub(crate) const OVERRUNS: usize = 22;
    /// The park word: 1 while the subscriber sleeps.
    pub(crate) const PARK: usize = 32;
    /// No subscriber has it.
    pub(crate) const FREE: u64 = 0;
    /// A subscriber has it. If the slot's lock is free, that subscriber is dead.
    pub(crate) const ATTACHED: u64 = 1;
    /// A durable subscriber has it, present or absent.
    pub(crate) const DURABLE: u64 = 2;
    /// Taken from a subscriber that was too slow, or from an expired durable name. With a name the
    /// slot is kept until the name returns, to report the eviction. An expired name's slot is
    /// reused if no other is free.
    pub(crate) const EVICTED: u64 = 3;
}

/// Words of a lane's header page.
pub(crate) mod lane {
    /// [`super::LANE_MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// [`super::LAYOUT_VERSION`].
    pub(crate) const VERSION: usize = 1;
    /// Bytes of the ring.
    pub(crate) const CAPACITY: usize = 2;
    /// Index of the lane.
    pub(crate) const INDEX: usize = 3;
    /// Position of the first frame ever.
    pub(crate) const ORIGIN: usize = 4;
    /// Incarnation of the channel that the lane was made for.
    pub(crate) const INCARNATION: usize = 5;
    /// Every frame before this position is committed.
    pub(crate) const CURSOR: usize = 16;
    /// The publisher may write up to this position.
    pub(crate) const LIMIT: usize = 32;
    /// Twice the number of publishers so far, plus 1 while the newest has not closed.
    pub(crate) const STATE: usize = 33;
    /// Times the publisher found no room.
    pub(crate) const BACK_PRESSURE_COUNT: usize = 48;
    /// Nanoseconds it spent waiting for room.
    pub(crate) const BACK_PRESSURE_NS: usize = 49;
    /// Sleepers it woke.
    pub(crate) const WAKES: usize = 50;
    /// Times a publisher took the lane over from a dead one.
    pub(crate) const TAKEOVERS: usize = 51;
    /// Monotonic time in nanoseconds since which the publisher has had no room; 0 once it has
    /// found room or closed, and from a time-out until it finds no room again.
    pub(crate) const BACK_PRESSURE_SINCE: usize = 52;
    /// Slot of the subscriber that holds it back, plus 1; 0 for none.
    pub(crate) const BACK_PRESSURE_SLOT: usize = 53;
    /// Hash of the source whose messages a bridge publishes here; 0 for the lane of a program. A
    /// lane with a hash is kept for that bridge.
    pub(crate) const LINK_KEY: usize = 64;
    /// Index of the lane at the source.
    pub(crate) const LINK_LANE: usize = 65;
    /// Which of the two records counts: 0 or 1.
    pub(crate) const LINK_TURN: usize = 66;
    /// Two records: incarnation of the source, and the number to add to a position here for the
    /// position there.
    pub(crate) const LINK_RECORDS: usize = 68;
    /// [`FAILURE_STATE`] of the last failure that the bridge passed on from the source. While it
    /// equals [`STATE`], the lane is closed because its publisher at the source failed, and the
    /// bridge itself goes on.
    pub(crate) const LINK_FAILURE: usize = 72;
    /// Milliseconds for which the lane is kept while its source is away; 0: until it comes back.
    pub(crate) const LINK_EXPIRE: usize = 73;
    /// The state word of the lane when it was closed with a failure last; 0 if never.
    pub(crate) const FAILURE_STATE: usize = 128;
    /// End of the last frame before that.
    pub(crate) const FAILURE_POSITION: usize = 129;
    /// Bytes of the reason.
    pub(crate) const FAILURE_LENGTH: usize = 130;
    /// Check over the words of the reason.
    pub(crate) const FAILURE_CHECK: usize = 131;
    /// First word of the reason: zero padded text.
    pub(crate) const FAILURE_TEXT: usize = 132;
    /// Words of the reason.
    pub(crate) const FAILURE_TEXT_WORDS: usize = 60;
    /// Failures since the lane was made.
    pub(crate) const FAILURE_COUNT: usize = 192;
    /// Monotonic nanoseconds at the first of them.
    pub(crate) const FAILURE_FIRST: usize = 193;
    /// Monotonic nanoseconds at the last of them.
    pub(crate) const FAILURE_LAST: usize = 194;
    /// Words of the page.
    pub(crate) const WORDS: usize = (super::LANE_HEADER_BYTES / 8) as usize;
}

/// Lock bytes of the control file: open-file-description locks, held as long as the holder lives.
pub(crate) mod lock_byte {
    /// Held briefly while joining, leaving, creating and removing.
    pub(crate) const MEMBERSHIP: u64 = 1 << 40;
    /// Plus the lane index: held by the lane's publisher.
    pub(crate) const LANE: u64 = (1 << 40) + (1 << 16);
    /// Plus the slot index: held by the slot's subscriber.
    pub(crate) const SLOT: u64 = (1 << 40) + (1 << 17);
    /// End of the range of participants' locks.
    pub(crate) const END: u64 = (1 << 40) + (1 << 18);
}

/// Bit of a header word: the payload ends with a topic. No frame is long enough to reach it.
pub(crate) const TOPIC: u64 = 1 << TOPIC_BIT;
const TOPIC_BIT: u32 = 31;

/// The header word of a frame: `tag` above, bytes of header and payload below. Never 0. `payload`
/// is a length, which [`with_topic`] may have marked.
#[inline(always)]
pub(crate) const fn header_word(tag: u32, payload: usize) -> u64 {
    (tag as u64) << 32 | (payload as u64 + crate::region::HEADER_BYTES)
}

/// Bytes of header and payload in a header word.
#[inline(always)]
pub(crate) const fn frame_bytes(word: u64) -> u64 {
    word & (TOPIC - 1)
}

/// The lower half of a header word: bytes of header and payload, and [`TOPIC`]. It equals
/// [`frame_bytes`] for a message without a topic, and exceeds every length for one with a topic.
#[inline(always)]
pub(crate) const fn frame_half(word: u64) -> u64 {
    word & 0xffff_ffff
}

/// Whether the payload ends with a topic.
#[inline(always)]
pub(crate) const fn has_topic(word: u64) -> bool {
    word & TOPIC != 0
}

/// Marks a payload of `length` bytes that ends with a topic, for [`header_word`].
pub(crate) const fn with_topic(length: usize) -> usize {
    length | (1 << TOPIC_BIT)
}

/// The tag in a header word.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the upper half of 64 bits")]
pub(crate) const fn frame_tag(word: u64) -> u32 {
    (word >> 32) as u32
}

// Words of different writers must not share a cache line, nor the pair of lines that the
// adjacent-line prefetcher joins: 128 bytes = 16 words.
const _: () = {
    assert!(control::LANES_EPOCH.is_multiple_of(16) && control::SLEEPERS.is_multiple_of(16));
    assert!(control::GATING.is_multiple_of(16) && control::ATTACHED.is_multiple_of(16));
    assert!(control::GEOMETRY_TURN < control::CREATOR_PID);
    assert!(control::INCARNATION < control::BOOT);
    assert!(control::BOOT + control::BOOT_WORDS <= control::LANES_EPOCH);
    assert!(control::BITMAP_WORDS as u64 * 64 >= crate::uri::SUBSCRIBERS_LIMIT);
    assert!(lane::CURSOR.is_multiple_of(16) && lane::LIMIT.is_multiple_of(16));
    assert!(lane::FAILURE_STATE.is_multiple_of(16));
    assert!(lane::FAILURE_TEXT + lane::FAILURE_TEXT_WORDS <= lane::FAILURE_COUNT);
    assert!(lane::FAILURE_LAST < lane::WORDS);
    assert!(slot::PARK.is_multiple_of(16) && slot::STRIDE.is_multiple_of(16));
    assert!(control::FIELDS_LENGTH > control::ALWAYS + 15);
    assert!(control::FIELDS + control::FIELDS_WORDS <= control::GEOMETRY);
    assert!(control::GEOMETRY + 2 * control::GEOMETRY_WORDS <= control::SLOTS);
    assert!(slot::OVERRUNS < slot::PARK && slot::PARK < slot::STRIDE);
    assert!(lane_entry::PARK.is_multiple_of(16) && lane_entry::STRIDE.is_multiple_of(16));
};
