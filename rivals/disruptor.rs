//! disruptor-rs: single producer and event poller, between threads.

use disruptor::{
    BusySpin, EventPoller, Producer as _, SingleConsumerBarrier, SingleProducer,
    SingleProducerBarrier, build_single_producer,
};
use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{
    Driver, Fixed, Method, Pop, Push, Rendezvous, Side, Tuning, Tunings, drive_in_threads,
};
use olivine_arena::run;
use std::process::ExitCode;

/// Its ring and its pauses in round trips and in streams: the fastest of rings of 128 KiB to 4 MiB,
/// of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 1), Tuning::new(4 << 20, 512));

const DISRUPTOR: Method = Method::new(
    "disruptor",
    "disruptor-rs single producer with an event poller, between threads, spinning with a \
            pause between two looks, 512 in streams, with rings of 4 MiB",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => open::<N>(side, rendezvous)),
)
.batching()
.in_threads()
.lacking("threads of one process only, fixed size");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [DISRUPTOR];
    run(&METHODS)
}

struct To<const N: usize>(SingleProducer<[u8; N], SingleConsumerBarrier>);
struct From<const N: usize>(EventPoller<[u8; N], SingleProducerBarrier>);

fn ring<const N: usize>(messages: usize) -> (To<N>, From<N>) {
    let builder = build_single_producer(messages, || [0; N], BusySpin);
    let (poller, builder) = builder.new_event_poller();
    (To(builder.build()), From(poller))
}

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let tuning = TUNINGS.of(rendezvous);
    let ring = || ring::<N>(tuning.messages(N));
    drive_in_threads(side, rendezvous, N, || {
        Ok(Fixed::both(ring(), ring(), tuning.pauses))
    })
}

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        Ok(self.0.try_publish(fill).is_ok())
    }

    #[inline(always)]
    fn push_some(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8; N]),
    ) -> Result<usize> {
        let published = self.0.try_batch_publish(count, |events| {
            for (number, event) in events.enumerate() {
                fill(number, event);
            }
        });
        Ok(published.map_or(0, |_| count))
    }
}

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        let Ok(mut events) = self.0.take(1) else {
            return Ok(None);
        };
        Ok((&mut events).next().map(handle))
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let Ok(mut events) = self.0.take(limit as u64) else {
            return Ok(0);
        };
        let mut count = 0;
        for event in &mut events {
            handle(event);
            count += 1;
        }
        Ok(count)
    }
}
