//! disruptor-rs: single producer and event poller, between threads.

use disruptor::{
    BusySpin, EventPoller, Producer as _, SingleConsumerBarrier, SingleProducer,
    SingleProducerBarrier, build_single_producer,
};
use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{Driver, Fixed, Method, Pop, Push, Rendezvous, Side, drive_in_threads};
use olivine_arena::run;
use std::process::ExitCode;

/// Events of a ring.
const CAPACITY: usize = 4096;
/// Pause instructions between two looks while a side waits, in round trips and in streams: of 0 to
/// 8 the fastest with this ring.
const PAUSES: (u32, u32) = (2, 8);

const DISRUPTOR: Method = Method::new(
    "disruptor",
    "disruptor-rs single producer with an event poller, between threads, spinning with 2 \
            pauses between two looks, 8 in streams",
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

fn ring<const N: usize>() -> (To<N>, From<N>) {
    let builder = build_single_producer(CAPACITY, || [0; N], BusySpin);
    let (poller, builder) = builder.new_event_poller();
    (To(builder.build()), From(poller))
}

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    drive_in_threads(side, rendezvous, N, || {
        let ((there, taken), (back, answered)) = (ring::<N>(), ring::<N>());
        let pausing = |end: Fixed<_, _, N>| end.pausing(PAUSES.0, PAUSES.1);
        Ok((
            pausing(Fixed::new(there, answered)),
            pausing(Fixed::new(back, taken)),
        ))
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
