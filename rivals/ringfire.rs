//! ringfire: lossless rings in shared memory, between processes.

use olivine_arena::error::{ArenaError, Result};
use olivine_arena::for_size;
use olivine_arena::method::{
    Append, Copies, Driver, Fixed, Method, Pop, Rendezvous, Side, Tuning, Tunings, drive,
};
use olivine_arena::run;
use ringfire::{FlowControl, RingConsumer, RingConsumerBuilder, RingProducer, RingProducerBuilder};
use std::process::ExitCode;

/// Messages taken at once.
const TAKEN: usize = 256;
/// Its ring and its pauses in round trips and in streams: the fastest of rings of 128 KiB to 4 MiB,
/// of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 1), Tuning::new(4 << 20, 512));

const RINGFIRE: Method = Method::new(
    "ringfire",
    "ringfire in shared memory, lossless back-pressure, spinning with a pause between two \
            looks, 512 in streams, with rings of 4 MiB",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => open::<N>(side, rendezvous)),
)
.batching()
.lacking("fixed size of messages, copies out; a dead reader is known by its process number");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [RINGFIRE];
    run(&METHODS)
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "ringfire",
        message: error.to_string(),
    }
}

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let (there, back) = (
        rendezvous.folder().join("there"),
        rendezvous.folder().join("back"),
    );
    let (from, to) = side.from_to(there, back);
    let tuning = TUNINGS.of(rendezvous);
    let producer = RingProducerBuilder::new(tuning.messages(N) as u64)
        .flow_control(FlowControl::LosslessBackpressure)
        .build::<[u8; N], _>(&to)
        .map_err(says)?;
    rendezvous.exchange("made")?;
    let consumer = RingConsumerBuilder::<[u8; N]>::new()
        .consumer_name("bench")
        .start_from_head()
        .attach(&from)
        .map_err(says)?;
    rendezvous.exchange("attached")?;
    let stage = vec![[0; N]; TAKEN];
    let from = From { consumer, stage };
    let end = Fixed::new(Copies::new(To(producer)), from);
    Ok(drive(end.pausing(tuning.pauses), N))
}

struct To<const N: usize>(RingProducer<[u8; N]>);

impl<const N: usize> Append<N> for To<N> {
    #[inline(always)]
    fn append(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_push(message).is_ok())
    }

    #[inline(always)]
    fn append_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        // The first message shows whether there is room, by the producer's copy of the slowest
        // reader's position. The rest is lossless too: the library waits if the ring is full.
        let Some((first, rest)) = messages.split_first() else {
            return Ok(0);
        };
        if self.0.try_push(first).is_err() {
            return Ok(0);
        }
        self.0.push_batch(rest);
        Ok(messages.len())
    }
}

struct From<const N: usize> {
    consumer: RingConsumer<[u8; N]>,
    stage: Vec<[u8; N]>,
}

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        Ok(self.consumer.try_recv().as_ref().map(handle))
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let room = limit.min(TAKEN);
        let count = self.consumer.recv_batch(&mut self.stage[..room]);
        self.stage[..count]
            .iter()
            .for_each(|message| handle(message));
        Ok(count)
    }
}
