//! crossbeam: its bounded queue and its bounded channel, between threads.

use crossbeam_channel::{Receiver, Sender};
use crossbeam_queue::ArrayQueue;
use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{
    Append, Copies, Driver, Fixed, Method, Pop, Rendezvous, Side, drive_in_threads,
};
use olivine_arena::run;
use std::process::ExitCode;
use std::sync::Arc;

/// Messages of a queue.
const CAPACITY: usize = 4096;
/// Pause instructions between two looks while a side waits, in round trips and in streams: of 0 to
/// 8 the fastest with this ring.
const PAUSES: (u32, u32) = (2, 8);

const QUEUE: Method = Method::new(
    "crossbeam-queue",
    "crossbeam ArrayQueue between threads, spinning with 2 pauses between two looks, 8 in \
            streams",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => queue::<N>(side, rendezvous)),
)
.streaming()
.in_threads()
.lacking("threads of one process only, fixed size");

const CHANNEL: Method = Method::new(
    "crossbeam-channel",
    "crossbeam bounded channel between threads, spinning with try_recv and 2 pauses \
            between two looks, 8 in streams",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => channel::<N>(side, rendezvous)),
)
.streaming()
.in_threads()
.lacking("threads of one process only, fixed size");

fn main() -> ExitCode {
    static METHODS: [Method; 2] = [QUEUE, CHANNEL];
    run(&METHODS)
}

fn queue<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    drive_in_threads(side, rendezvous, N, || {
        let make = || Arc::new(ArrayQueue::<[u8; N]>::new(CAPACITY));
        let (there, back) = (make(), make());
        let asks = end(End(Arc::clone(&there)), End(Arc::clone(&back)));
        Ok((asks, end(End(back), End(there))))
    })
}

fn channel<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    drive_in_threads(side, rendezvous, N, || {
        let (there, taken) = crossbeam_channel::bounded::<[u8; N]>(CAPACITY);
        let (back, answered) = crossbeam_channel::bounded::<[u8; N]>(CAPACITY);
        Ok((end(To(there), From(answered)), end(To(back), From(taken))))
    })
}

fn end<T: Append<N>, F: Pop<N>, const N: usize>(to: T, from: F) -> Fixed<Copies<T, N>, F, N> {
    Fixed::new(Copies::new(to), from).pausing(PAUSES.0, PAUSES.1)
}

struct End<const N: usize>(Arc<ArrayQueue<[u8; N]>>);

impl<const N: usize> Append<N> for End<N> {
    #[inline(always)]
    fn append(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.push(*message).is_ok())
    }
}

impl<const N: usize> Pop<N> for End<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        Ok(self.0.pop().as_ref().map(handle))
    }
}

struct To<const N: usize>(Sender<[u8; N]>);

impl<const N: usize> Append<N> for To<N> {
    #[inline(always)]
    fn append(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_send(*message).is_ok())
    }
}

struct From<const N: usize>(Receiver<[u8; N]>);

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        Ok(self.0.try_recv().ok().as_ref().map(handle))
    }
}
