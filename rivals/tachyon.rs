//! Tachyon: its single-producer single-consumer bus in shared memory, between processes.

use olivine_arena::error::{ArenaError, Result};
use olivine_arena::fixed::pause;
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, Tuning, Tunings, drive};
use olivine_arena::run;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tachyon_ipc::{Bus, TachyonError, TxGuard};

/// Its ring in round trips and in streams, and its pauses in streams after a refused message and
/// after a batch that was all: the fastest of rings of 128 KiB to 16 MiB, and of 1, 512 and 2,000
/// pauses.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 0), Tuning::new(1 << 20, 512));
/// Bytes before each message; with them it ends at a multiple of as many.
const HEADER: usize = 64;
/// Messages that a ring has room for, at least: its consumer gives room back for 32 at once.
const MESSAGES_MIN: usize = 64;
/// Longest message, in bytes: the size of a ring is a power of two below 4 GiB.
const SIZE_MAX: usize = (1 << 31) / MESSAGES_MIN - HEADER;
/// Looks for a message before a side would sleep: it never does.
const LOOKS: u32 = u32::MAX;
/// Longest wait until the other side listens.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Messages taken at once, at most: each time the library allocates a list for as many.
const TAKEN: usize = 256;
/// What each message is called: the library's own kinds begin above.
const KIND: u32 = 1;

const TACHYON: Method = Method::new(
    "tachyon",
    "Tachyon bus in shared memory, in its polling mode, spinning with a pause between two looks, \
            in streams with rings of 1 MiB and 512 pauses after a refused message or the last one",
    "spin",
    open,
)
.batching()
.lacking("one reader; a dead side is not noticed");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [TACHYON];
    run(&METHODS)
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "Tachyon",
        message: error.to_string(),
    }
}

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Driver>> {
    if size > SIZE_MAX {
        return Err(ArenaError::TooLong {
            bytes: size,
            max: SIZE_MAX,
            limit: "Tachyon's largest ring of messages",
        });
    }
    let tuning = TUNINGS.of(rendezvous);
    let slot = (HEADER + size).next_multiple_of(HEADER);
    let capacity = tuning
        .ring_bytes
        .max((MESSAGES_MIN * slot).next_power_of_two());
    let there = rendezvous.folder().join("there");
    let back = rendezvous.folder().join("back");
    // A side that listens waits for the other one.
    let (to, from) = match side {
        Side::Client => (listen(&there, capacity)?, connect(&back)?),
        Side::Server => {
            let from = connect(&there)?;
            (listen(&back, capacity)?, from)
        }
    };
    from.set_polling_mode(1);
    rendezvous.exchange("connected")?;
    let pauses = tuning.pauses;
    let end = Buses {
        to,
        from,
        size,
        pauses,
    };
    Ok(drive(end, size))
}

fn listen(path: &Path, capacity: usize) -> Result<Bus> {
    Bus::listen(&path.to_string_lossy(), capacity).map_err(says)
}

/// Connects as soon as the other side listens.
fn connect(path: &Path) -> Result<Bus> {
    let begun = Instant::now();
    loop {
        match Bus::connect(&path.to_string_lossy()) {
            Ok(bus) => return Ok(bus),
            Err(error) if begun.elapsed() > CONNECT_MAX => return Err(says(error)),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

struct Buses {
    to: Bus,
    from: Bus,
    size: usize,
    pauses: u32,
}

impl Buses {
    /// Room for a message.
    #[inline(always)]
    fn room(&self) -> Result<TxGuard<'_>> {
        loop {
            match self.to.acquire_tx(self.size) {
                Ok(room) => return Ok(room),
                Err(TachyonError::BufferFull) => {
                    self.to.flush();
                    pause(self.pauses);
                }
                Err(error) => return Err(says(error)),
            }
        }
    }
}

impl End for Buses {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut room = self.room()?;
        // SAFETY: exactly the room that was asked for, of a mapped file, whose bytes are values.
        fill(unsafe { room.as_mut_slice() });
        room.commit(self.size, KIND).map_err(says)
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let message = self.from.acquire_rx(LOOKS).map_err(says)?;
        let handled = handle(message.data());
        message.commit().map_err(says)?;
        Ok(handled)
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let message = self.from.acquire_rx(LOOKS).map_err(says)?;
        let fits = check(message.data()) && message.data().len() == self.size;
        if fits {
            // From memory to memory, as its authors echo.
            let room = self.room()?;
            room.write(message.data());
            room.commit(self.size, KIND).map_err(says)?;
        }
        message.commit().map_err(says)?;
        Ok(fits)
    }

    #[inline(always)]
    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        for number in 0..count {
            let mut room = self.room()?;
            // SAFETY: as in `send`.
            fill(number, unsafe { room.as_mut_slice() });
            room.commit_unflushed(self.size, KIND).map_err(says)?;
        }
        self.to.flush();
        Ok(())
    }

    #[inline(always)]
    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let batch = self.from.drain_batch(limit.min(TAKEN), LOOKS);
        let batch = batch.map_err(says)?;
        let count = batch.len();
        batch
            .iter()
            .take(count)
            .for_each(|message| handle(message.data()));
        batch.commit().map_err(says)?;
        if count < TAKEN {
            // It was all: a look takes the line that the other side is about to write.
            pause(self.pauses);
        }
        Ok(count)
    }
}
