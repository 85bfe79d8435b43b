//! rtrb: bounded single-producer single-consumer ring between threads.

use olivine_bench::error::Result;
use olivine_bench::for_size;
use olivine_bench::method::{
    Described, Fixed, Method, OLIVINE, Player, Pop, Push, Side, play_in_threads,
};
use olivine_bench::rival;
use rtrb::chunks::ChunkError;
use std::process::ExitCode;

/// Messages of a ring.
const CAPACITY: usize = 4096;

static RTRB: Described = Described {
    name: "rtrb",
    about: "rtrb ring between threads, one by one or in chunks, spinning",
    wait: "spin",
    streams: true,
    lacks: "threads of one process only, one reader, fixed size",
    open: |side, door, size, _| for_size!(size, N => open::<N>(side, door)),
};

fn main() -> ExitCode {
    static METHODS: [&dyn Method; 2] = [OLIVINE, &RTRB];
    rival::main(&METHODS)
}

struct To<const N: usize>(rtrb::Producer<[u8; N]>);
struct From<const N: usize>(rtrb::Consumer<[u8; N]>);

fn open<const N: usize>(
    side: Side,
    door: &mut olivine_bench::method::Door,
) -> Result<Box<dyn Player>> {
    play_in_threads(side, door, N, || {
        let (there, taken) = rtrb::RingBuffer::new(CAPACITY);
        let (back, answered) = rtrb::RingBuffer::new(CAPACITY);
        Ok((
            Fixed::new(To::<N>(there), From(answered)),
            Fixed::new(To(back), From(taken)),
        ))
    })
}

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.push(*message).is_ok())
    }

    #[inline(always)]
    fn push_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        // Only where what the producer remembers is not enough does it look at the consumer's place.
        let room = match self.0.write_chunk_uninit(messages.len()) {
            Ok(chunk) => return Ok(chunk.fill_from_iter(messages.iter().copied())),
            Err(ChunkError::TooFewSlots(room)) => room,
        };
        let chunk = self.0.write_chunk_uninit(room);
        Ok(chunk.map_or(0, |chunk| chunk.fill_from_iter(messages.iter().copied())))
    }
}

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop(&mut self) -> Result<Option<[u8; N]>> {
        Ok(self.0.pop().ok())
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let limit = limit.min(CAPACITY);
        let count = match self.0.read_chunk(limit) {
            Ok(_) => limit,
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
