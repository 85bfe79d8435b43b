//! rtrb: bounded single-producer single-consumer ring between threads.

use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{
    Driver, Fixed, Method, Pop, Push, Rendezvous, Side, Tuning, Tunings, drive_in_threads,
};
use olivine_arena::run;
use rtrb::chunks::{ChunkError, WriteChunkUninit};
use std::process::ExitCode;

/// Its ring and its pauses in round trips and in streams: the fastest of rings of 128 KiB to 4 MiB,
/// of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 1), Tuning::new(4 << 20, 512));

const RTRB: Method = Method::new(
    "rtrb",
    "rtrb ring between threads, one by one or in chunks, spinning with a pause between two \
            looks, 512 in streams, with rings of 4 MiB",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => open::<N>(side, rendezvous)),
)
.batching()
.in_threads()
.lacking("threads of one process only, one reader, fixed size");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [RTRB];
    run(&METHODS)
}

struct To<const N: usize>(rtrb::Producer<[u8; N]>);
struct From<const N: usize>(rtrb::Consumer<[u8; N]>);

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let tuning = TUNINGS.of(rendezvous);
    let ring = || ring::<N>(tuning.messages(N));
    drive_in_threads(side, rendezvous, N, || {
        Ok(Fixed::both(ring(), ring(), tuning.pauses))
    })
}

/// A ring whose slots all hold bytes, so that they can be filled in place.
fn ring<const N: usize>(messages: usize) -> (To<N>, From<N>) {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(messages);
    while producer.push([0; N]).is_ok() {}
    while consumer.pop().is_ok() {}
    (To(producer), From(consumer))
}

/// Fills a chunk and hands it over; returns its length.
#[inline(always)]
fn hand_over<const N: usize>(
    mut chunk: WriteChunkUninit<'_, [u8; N]>,
    mut fill: impl FnMut(usize, &mut [u8; N]),
) -> usize {
    let count = chunk.len();
    let (first, second) = chunk.as_mut_slices();
    for (number, slot) in first.iter_mut().chain(second).enumerate() {
        // SAFETY: every slot has held bytes since `ring`, and popping leaves them: any bytes are a
        // value.
        fill(number, unsafe { slot.assume_init_mut() });
    }
    // SAFETY: as above, all of it holds values.
    unsafe { chunk.commit_all() };
    count
}

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        let Ok(chunk) = self.0.write_chunk_uninit(1) else {
            return Ok(false);
        };
        let mut fill = Some(fill);
        hand_over(chunk, |_, slot| {
            if let Some(fill) = fill.take() {
                fill(slot);
            }
        });
        Ok(true)
    }

    #[inline(always)]
    fn push_some(&mut self, count: usize, fill: impl FnMut(usize, &mut [u8; N])) -> Result<usize> {
        // The producer reads the consumer's position only if its own copy shows too little room.
        let room = match self.0.write_chunk_uninit(count) {
            Ok(chunk) => return Ok(hand_over(chunk, fill)),
            // Nothing to send: a commit would still write the cache line that the consumer reads.
            Err(ChunkError::TooFewSlots(0)) => return Ok(0),
            Err(ChunkError::TooFewSlots(room)) => room,
        };
        let chunk = self.0.write_chunk_uninit(room);
        Ok(chunk.map_or(0, |chunk| hand_over(chunk, fill)))
    }
}

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        let Ok(chunk) = self.0.read_chunk(1) else {
            return Ok(None);
        };
        let handled = chunk.as_slices().0.first().map(handle);
        chunk.commit_all();
        Ok(handled)
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let limit = limit.min(self.0.buffer().capacity());
        let count = match self.0.read_chunk(limit) {
            Ok(_) => limit,
            Err(ChunkError::TooFewSlots(0)) => return Ok(0),
            Err(ChunkError::TooFewSlots(count)) => count,
        };
        let Ok(chunk) = self.0.read_chunk(count) else {
            return Ok(0);
        };
        let (first, second) = chunk.as_slices();
        first
            .iter()
            .chain(second)
            .for_each(|message| handle(message));
        chunk.commit_all();
        Ok(count)
    }
}
