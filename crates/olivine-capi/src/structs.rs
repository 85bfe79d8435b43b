//! The structures of the interface. Those that the library writes begin with their size, so that
//! later versions can add fields at the end.

use core::ffi::{c_char, c_void};
use olivine::{Message as RustMessage, PublisherStats as RustStats};

/// A structure that begins with its size.
///
/// # Safety
///
/// The structure is `repr(C)`, `Copy`, and its first field is `struct_size`, a `usize`.
pub(crate) unsafe trait Versioned: Copy {
    /// Bytes of its first version: no caller's is smaller.
    const FIRST: usize;
}

/// A setting by key and value, as a URI has them: `{"capacity", "4MiB"}`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key; never NULL.
    pub key: *const c_char,
    /// Its value; never NULL.
    pub value: *const c_char,
}

/// The type of a channel's messages. This structure does not change between versions.
///
/// A channel compares name, size and alignment: a value that Rust, C++ or Python states alike is of
/// the same type (docs/types.md).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Type {
    /// Name and version of the layout, 1 to 64 bytes: change it when a field changes. Never NULL.
    pub name: *const c_char,
    /// Bytes of a value: `sizeof`. Every message has this length.
    pub size: usize,
    /// `_Alignof`, in C99 the size of the largest member: 1, 2, 4 or 8.
    pub align: usize,
    /// The fields, such as `bid i64, symbol text[8]` (docs/types.md), for openers and tools; NULL
    /// if they are not stated.
    pub fields: *const c_char,
}

/// What travels with a message besides its bytes. This structure does not change between versions.
/// Where a function takes NULL for it, the tag is 0 and the topic the publisher's own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// What the message is about (`orders.eu.created`), on a channel with topics. NULL: the topic
    /// that the publisher was opened with (`topic=`), if any; an empty text: none.
    pub topic: *const c_char,
    /// A number that the program chooses.
    pub tag: u32,
}

/// A message to publish, one of several. This structure does not change between versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its bytes; may be NULL if there are none.
    pub data: *const c_void,
    /// How many.
    pub length: usize,
    /// As in `olivine_label`.
    pub topic: *const c_char,
    /// As in `olivine_label`.
    pub tag: u32,
}

/// A received message: a view of the ring, nothing copied. Begin with `OLIVINE_MESSAGE_INIT`.
///
/// `data` and `topic` live until the next call with this subscriber that receives, polls, waits,
/// releases or closes; inside a handler, until it returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Bytes of this structure, for later versions of it.
    pub struct_size: usize,
    /// Its bytes, at an address that is a multiple of 8 where nothing is copied out; never NULL.
    pub data: *const u8,
    /// How many.
    pub length: usize,
    /// Where its frame starts in its publisher's lane, in bytes.
    pub position: u64,
    /// What it is about; not ended by a NUL. Empty for a message without a topic; never NULL.
    pub topic: *const c_char,
    /// Bytes of the topic.
    pub topic_length: usize,
    /// The number that its publisher gave with it; 0 if none.
    pub tag: u32,
    /// Index of its publisher's lane.
    pub lane: u32,
}

// SAFETY: `repr(C)`, `struct_size` first.
unsafe impl Versioned for Message {
    const FIRST: usize = 56;
}

impl Message {
    /// No message yet.
    pub(crate) const NONE: Self = Self {
        struct_size: 0,
        data: core::ptr::null(),
        length: 0,
        position: 0,
        topic: core::ptr::null(),
        topic_length: 0,
        tag: 0,
        lane: 0,
    };

    /// What `message` is in C. The pointers live as long as `message` would.
    pub(crate) fn of(message: &RustMessage<'_>) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            data: message.as_ptr(),
            length: message.len(),
            position: message.position().0,
            topic: message.topic().as_ptr().cast(),
            topic_length: message.topic().len(),
            tag: message.tag(),
            // At most 256 lanes.
            lane: u32::try_from(message.lane()).unwrap_or(u32::MAX),
        }
    }
}

/// What came with a message that was copied into an array. This structure does not change between
/// versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// The number that its publisher gave with it; 0 if none.
    pub tag: u32,
    /// Index of its publisher's lane.
    pub lane: u32,
    /// Where its frame starts in its publisher's lane, in bytes.
    pub position: u64,
}

impl Detail {
    pub(crate) fn of(message: &RustMessage<'_>) -> Self {
        let Message {
            tag,
            lane,
            position,
            ..
        } = Message::of(message);
        Self {
            tag,
            lane,
            position,
        }
    }
}

/// A message that is being filled in place. Begin with `OLIVINE_CLAIM_INIT`.
///
/// `data` may be written until the claim is committed or aborted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Bytes of this structure, for later versions of it.
    pub struct_size: usize,
    /// Where to write; what it holds at first is unspecified. Never NULL.
    pub data: *mut u8,
    /// How many bytes.
    pub length: usize,
}

// SAFETY: `repr(C)`, `struct_size` first.
unsafe impl Versioned for Claim {
    const FIRST: usize = 24;
}

/// Counters of a publisher; the first three include those of its lane's earlier publishers. Begin
/// with `OLIVINE_STATS_INIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PublisherStats {
    /// Bytes of this structure, for later versions of it.
    pub struct_size: usize,
    /// Times it found no room.
    pub back_pressure_count: u64,
    /// Nanoseconds it had no room, from finding none to finding some.
    pub back_pressure_ns: u64,
    /// Parked subscribers it woke.
    pub wakes: u64,
    /// Subscribers it evicted.
    pub evicted: u64,
    /// Dead subscribers it reclaimed.
    pub reclaimed: u64,
}

// SAFETY: `repr(C)`, `struct_size` first.
unsafe impl Versioned for PublisherStats {
    const FIRST: usize = 48;
}

impl From<RustStats> for PublisherStats {
    fn from(stats: RustStats) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            back_pressure_count: stats.back_pressure_count,
            back_pressure_ns: stats.back_pressure_ns,
            wakes: stats.wakes,
            evicted: stats.evicted,
            reclaimed: stats.reclaimed,
        }
    }
}

// What a program was compiled with does not change under it.
const _: () = assert!(size_of::<Message>() == Message::FIRST);
const _: () = assert!(size_of::<Claim>() == Claim::FIRST);
const _: () = assert!(size_of::<PublisherStats>() == PublisherStats::FIRST);
const _: () = assert!(
    size_of::<Detail>() == 16
        && size_of::<Part>() == 32
        && size_of::<Label>() == 16
        && size_of::<Setting>() == 16
        && size_of::<Type>() == 32
);
