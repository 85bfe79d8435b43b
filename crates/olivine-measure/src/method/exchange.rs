//! Plain shared memory: one slot for each direction, its number in the same cache line, both sides
//! spin.
//!
//! No queue, no history, one message at a time: the usual first attempt, and the minimum of shared
//! memory. The three variants differ in the source of the memory.

use super::{Driven, End, Method, Rendezvous, Side, drive};
use olivine_arena::error::{ArenaError, Result, io};
use olivine_arena::rendezvous::{Object, memory_folder};
use olivine_arena::sys::mapping::{Mapping, page};
use std::sync::atomic::Ordering;

pub(super) const POSIX: Method = Method::new(
    "posix-shm",
    "POSIX shared memory (/dev/shm), one slot each way, spinning",
    "spin",
    |side, rendezvous, size, _settings| open(Memory::Posix, side, rendezvous, size),
)
.lacking(super::ONE_SLOT);
pub(super) const SYSTEM_V: Method = Method::new(
    "sysv-shm",
    "System V shared memory, one slot each way, spinning",
    "spin",
    |side, rendezvous, size, _settings| open(Memory::SystemV, side, rendezvous, size),
)
.lacking(super::ONE_SLOT);
pub(super) const FILE: Method = Method::new(
    "mmap-file",
    "memory-mapped file in the temporary folder, one slot each way, spinning",
    "spin",
    |side, rendezvous, size, _settings| open(Memory::File, side, rendezvous, size),
)
.lacking(super::ONE_SLOT);

/// Source of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Posix,
    SystemV,
    File,
}

/// Memory of `length` zero bytes shared by both sides. It ends with its users.
pub(super) fn share(
    memory: Memory,
    side: Side,
    rendezvous: &mut Rendezvous,
    length: usize,
) -> Result<Mapping> {
    let length = length.next_multiple_of(page());
    if memory == Memory::SystemV {
        let id = match side {
            Side::Client => {
                let id = Mapping::make_segment(length).map_err(io("make a System V segment"))?;
                rendezvous.note(&Object::Segment(id))?;
                rendezvous.tell(id)?;
                id
            }
            Side::Server => rendezvous.hear_number()?,
        };
        return Mapping::segment(id, length).map_err(io("attach a System V segment"));
    }
    let folder = match memory {
        Memory::File => std::env::temp_dir(),
        Memory::Posix | Memory::SystemV => memory_folder().to_path_buf(),
    };
    let file = rendezvous.share_file(side, &folder, length)?;
    Mapping::file(&file, length).map_err(io("map shared memory"))
}

fn open(memory: Memory, side: Side, rendezvous: &mut Rendezvous, size: usize) -> Driven {
    let slots = Slots::open(memory, side, rendezvous, size)?;
    Ok(drive(SlotsEnd(slots, Spin), size))
}

/// Opens slots in POSIX shared memory whose sides sleep and wake each other.
pub(super) fn open_with(
    wakeup: impl Wakeup + 'static,
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
) -> Driven {
    let slots = Slots::open(Memory::Posix, side, rendezvous, size)?;
    Ok(drive(SlotsEnd(slots, wakeup), size))
}

/// Two slots, each a number and the bytes of a message right behind it.
///
/// The asking side writes slot 0 and reads slot 1, the answering side the other way round. Messages
/// and answers alternate, so a side that has received the answer to its last message, or the next
/// message to answer, owns its own slot: the other side is done with it.
#[derive(Debug)]
pub(super) struct Slots {
    mapping: Mapping,
    ours: usize,
    theirs: usize,
    size: usize,
    sent: u64,
    received: u64,
    /// How many more the asking side sends than it has received.
    lead: u64,
}

const NUMBER: usize = 8;

impl Slots {
    pub(super) fn open(
        memory: Memory,
        side: Side,
        rendezvous: &mut Rendezvous,
        size: usize,
    ) -> Result<Self> {
        // Slots begin two cache lines apart or more, because prefetchers fetch pairs.
        let stride = (NUMBER + size).next_multiple_of(128);
        let mapping = share(memory, side, rendezvous, 2 * stride)?;
        let (ours, theirs) = side.pick((0, stride), (stride, 0));
        Ok(Self {
            mapping,
            ours,
            theirs,
            size,
            sent: 0,
            received: 0,
            lead: side.pick(1, 0),
        })
    }

    /// The number that the other side increments: it changes with each message.
    pub(super) fn their_number(&self) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.theirs)
    }

    /// The low half of that number, as a futex.
    pub(super) fn their_half(&self) -> &std::sync::atomic::AtomicU32 {
        self.mapping.half(self.theirs + Self::low())
    }

    /// The low half of our number, as a futex.
    pub(super) fn our_half(&self) -> &std::sync::atomic::AtomicU32 {
        self.mapping.half(self.ours + Self::low())
    }

    /// Where in a word its low half is.
    const fn low() -> usize {
        if cfg!(target_endian = "little") { 0 } else { 4 }
    }

    /// How many messages were received so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Writes a message into our slot and publishes it.
    #[inline(always)]
    pub(super) fn put(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        if self.sent + 1 != self.received + self.lead {
            return Err(ArenaError::OneAtATime);
        }
        // SAFETY: the other side has answered our last message, so it reads this slot no more, and
        // will not before it sees the number that is stored below.
        fill(unsafe { self.mapping.bytes_mut(self.ours + NUMBER, self.size) });
        self.sent += 1;
        // Release: the message is complete; pairs with the load in `is_filled`.
        self.mapping
            .word(self.ours)
            .store(self.sent, Ordering::Release);
        Ok(())
    }

    /// Whether there is a message to take.
    #[inline(always)]
    pub(super) fn is_filled(&self) -> bool {
        // Acquire: pairs with the store in `put`.
        self.their_number().load(Ordering::Acquire) == self.received + 1
    }

    /// Handles the message that [`Slots::is_filled`] saw.
    #[inline(always)]
    pub(super) fn take<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> T {
        // SAFETY: the other side has published a message, and writes the slot again only after our
        // reply.
        let result = handle(unsafe { self.mapping.bytes(self.theirs + NUMBER, self.size) });
        self.received += 1;
        result
    }

    /// Takes the message, and copies it into our slot if `check` accepts it.
    #[inline(always)]
    pub(super) fn put_back(&mut self, check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        // SAFETY: the other side has published a message, and writes the slot again only after our
        // reply.
        let message = unsafe { self.mapping.bytes(self.theirs + NUMBER, self.size) };
        self.received += 1;
        if !check(message) {
            return Ok(false);
        }
        // SAFETY: the other side has sent its next message, so it is done with this slot.
        let place = unsafe { self.mapping.bytes_mut(self.ours + NUMBER, self.size) };
        place.copy_from_slice(message);
        self.sent += 1;
        // Release: the message is complete; pairs with the load in `is_filled`.
        self.mapping
            .word(self.ours)
            .store(self.sent, Ordering::Release);
        Ok(true)
    }
}

/// Wakes the other side, and waits for its message.
pub(super) trait Wakeup {
    /// Reports that our slot has a message.
    fn wake(&self, slots: &Slots) -> Result<()>;

    /// Returns once their slot has a message.
    fn wait(&self, slots: &Slots) -> Result<()>;
}

/// Calls `sleep`, which returns when the other side wakes this one or after a while, until their
/// slot has a message.
pub(super) fn sleep_until_filled(slots: &Slots, sleep: impl Fn() -> Result<()>) -> Result<()> {
    loop {
        sleep()?;
        if slots.is_filled() {
            return Ok(());
        }
    }
}

/// Polls the slot; the other side does the same.
struct Spin;

impl Wakeup for Spin {
    #[inline(always)]
    fn wake(&self, _slots: &Slots) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn wait(&self, slots: &Slots) -> Result<()> {
        while !slots.is_filled() {}
        Ok(())
    }
}

/// Slots with a wakeup.
struct SlotsEnd<W>(Slots, W);

impl<W: Wakeup> End for SlotsEnd<W> {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        self.0.put(fill)?;
        self.1.wake(&self.0)
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.1.wait(&self.0)?;
        Ok(self.0.take(handle))
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        self.1.wait(&self.0)?;
        let fits = self.0.put_back(check)?;
        if fits {
            self.1.wake(&self.0)?;
        }
        Ok(fits)
    }
}
