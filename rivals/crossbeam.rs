//! crossbeam: its bounded queue and its bounded channel, between threads.

use crossbeam_channel::{Receiver, Sender};
use crossbeam_queue::ArrayQueue;
use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{
    Append, Copies, Driver, Fixed, Method, Pop, Rendezvous, Side, Tuning, Tunings, drive_in_threads,
};
use olivine_arena::run;
use std::process::ExitCode;
use std::sync::Arc;

/// Its ring and its pauses in round trips and in streams: the fastest of rings of 128 KiB to 4 MiB,
/// of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 1), Tuning::new(128 << 10, 1024));

const QUEUE: Method = Method::new(
    "crossbeam-queue",
    "crossbeam ArrayQueue between threads, spinning with a pause between two looks, 1,024 in \
            streams",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => queue::<N>(side, rendezvous)),
)
.streaming()
.in_threads()
.lacking("threads of one process only, fixed size");

const CHANNEL: Method = Method::new(
    "crossbeam-channel",
    "crossbeam bounded channel between threads, spinning with try_recv and a pause between two \
            looks, 1,024 in streams",
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
    let tuning = TUNINGS.of(rendezvous);
    let queue = || {
        let queue = Arc::new(ArrayQueue::<[u8; N]>::new(tuning.messages(N)));
        (Copies::new(End(Arc::clone(&queue))), End(queue))
    };
    drive_in_threads(side, rendezvous, N, || {
        Ok(Fixed::both(queue(), queue(), tuning.pauses))
    })
}

fn channel<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let tuning = TUNINGS.of(rendezvous);
    let channel = || {
        let (to, from) = crossbeam_channel::bounded::<[u8; N]>(tuning.messages(N));
        (Copies::new(To(to)), From(from))
    };
    drive_in_threads(side, rendezvous, N, || {
        Ok(Fixed::both(channel(), channel(), tuning.pauses))
    })
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
