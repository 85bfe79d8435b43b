//! moodycamel's ReaderWriterQueue (C++): single-producer single-consumer queue between threads.

use olivine_arena::error::Result;
use olivine_arena::for_size;
use olivine_arena::method::{
    Driver, Fixed, Method, Pop, Push, Rendezvous, Side, Tuning, Tunings, drive_in_threads,
};
use olivine_arena::run;
use std::ffi::c_void;
use std::process::ExitCode;
use std::sync::Arc;

/// Its ring and its pauses in round trips and in streams: the fastest, or equal to it, of rings of
/// 128 KiB to 4 MiB, of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 4), Tuning::new(1 << 20, 512));

const QUEUE: Method = Method::new(
    "readerwriterqueue",
    "moodycamel ReaderWriterQueue between threads, try_emplace, peek and pop, spinning with 4 \
            pauses between two looks, 512 in streams, with queues of 1 MiB in one block; inlined \
            into Rust on x86-64",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => open::<N>(side, rendezvous)),
)
.streaming()
.in_threads()
.lacking("threads of one process only, one reader, fixed size");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [QUEUE];
    run(&METHODS)
}

/// Writes a message to its place in the queue.
type Fill = unsafe extern "C" fn(context: *mut c_void, place: *mut u8);

/// The functions of `readerwriterqueue.cpp` for messages of one size.
///
/// # Safety
///
/// `new` makes a queue, which lives until `delete`. One thread pushes; one thread peeks and pops.
/// What `peek` returned is valid until `pop`. `push` calls `fill` with `context`.
struct Functions {
    new: unsafe extern "C" fn(messages: usize) -> *mut c_void,
    push: unsafe extern "C" fn(queue: *mut c_void, fill: Fill, context: *mut c_void) -> bool,
    peek: unsafe extern "C" fn(queue: *const c_void) -> *const u8,
    pop: unsafe extern "C" fn(queue: *mut c_void) -> bool,
    delete: unsafe extern "C" fn(queue: *mut c_void),
}

struct Bytes<const N: usize>;

trait Known {
    const FUNCTIONS: Functions;
}

macro_rules! known {
    ($($size:literal)*) => {$(
        impl Known for Bytes<$size> {
            const FUNCTIONS: Functions = {
                // `# Safety`: that of `Functions`.
                unsafe extern "C" {
                    #[link_name = concat!("readerwriterqueue_new_", $size)]
                    fn new(messages: usize) -> *mut c_void;
                    #[link_name = concat!("readerwriterqueue_push_", $size)]
                    fn push(queue: *mut c_void, fill: Fill, context: *mut c_void) -> bool;
                    #[link_name = concat!("readerwriterqueue_peek_", $size)]
                    fn peek(queue: *const c_void) -> *const u8;
                    #[link_name = concat!("readerwriterqueue_pop_", $size)]
                    fn pop(queue: *mut c_void) -> bool;
                    #[link_name = concat!("readerwriterqueue_delete_", $size)]
                    fn delete(queue: *mut c_void);
                }
                Functions { new, push, peek, pop, delete }
            };
        }
    )*};
}
known!(16 32 64 100 128 256 1024 4096 8192);

/// A queue, deleted with the later one of its two ends.
struct Queue<const N: usize>(*mut c_void)
where
    Bytes<N>: Known;

// SAFETY: a queue may be used by two threads, one for each end; each end is in one thread.
unsafe impl<const N: usize> Send for Queue<N> where Bytes<N>: Known {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Queue<N> where Bytes<N>: Known {}

impl<const N: usize> Drop for Queue<N>
where
    Bytes<N>: Known,
{
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no end has it any more.
        unsafe { (Bytes::<N>::FUNCTIONS.delete)(self.0) }
    }
}

struct To<const N: usize>(Arc<Queue<N>>)
where
    Bytes<N>: Known;

struct From<const N: usize>(Arc<Queue<N>>)
where
    Bytes<N>: Known;

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>>
where
    Bytes<N>: Known,
{
    let tuning = TUNINGS.of(rendezvous);
    drive_in_threads(side, rendezvous, N, || {
        let messages = tuning.messages(N);
        Ok(Fixed::both(
            queue(messages)?,
            queue(messages)?,
            tuning.pauses,
        ))
    })
}

/// A queue whose memory all holds bytes, so that messages can be filled there.
fn queue<const N: usize>(messages: usize) -> Result<(To<N>, From<N>)>
where
    Bytes<N>: Known,
{
    // A block has room for a message less than its power of two.
    // SAFETY: it may be called with any number; it ends the process if there is no memory.
    let queue = unsafe { (Bytes::<N>::FUNCTIONS.new)(messages - 1) };
    let queue = Arc::new(Queue::<N>(queue));
    let (mut to, mut from) = (To(Arc::clone(&queue)), From(queue));
    while to.push_by(zero::<N>, std::ptr::null_mut()) {}
    while from.pop(|_| ())?.is_some() {}
    Ok((to, from))
}

/// Writes zeros.
///
/// # Safety
///
/// `place` has room for `N` bytes.
unsafe extern "C" fn zero<const N: usize>(_context: *mut c_void, place: *mut u8) {
    // SAFETY: the queue gives room for a message.
    unsafe { place.write_bytes(0, N) }
}

/// Calls the closure at `context` with the message at `place`.
///
/// # Safety
///
/// `context` is an `Option<F>`, which nothing else uses meanwhile; `place` has `N` bytes.
unsafe extern "C" fn fill<const N: usize, F: FnOnce(&mut [u8; N])>(
    context: *mut c_void,
    place: *mut u8,
) {
    // SAFETY: `push` gives its closure, which nothing else uses meanwhile.
    let fill = unsafe { &mut *context.cast::<Option<F>>() };
    if let Some(fill) = fill.take() {
        // SAFETY: the queue gives room for a message, of bytes since `queue`.
        fill(unsafe { &mut *place.cast::<[u8; N]>() });
    }
}

impl<const N: usize> To<N>
where
    Bytes<N>: Known,
{
    #[inline(always)]
    fn push_by(&mut self, fill: Fill, context: *mut c_void) -> bool {
        // SAFETY: the queue lives, and this is its only producer.
        unsafe { (Bytes::<N>::FUNCTIONS.push)(self.0.0, fill, context) }
    }
}

impl<const N: usize> Push<N> for To<N>
where
    Bytes<N>: Known,
{
    #[inline(always)]
    fn push(&mut self, with: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        fn of<const N: usize, F: FnOnce(&mut [u8; N])>(_with: &Option<F>) -> Fill {
            fill::<N, F>
        }
        let mut with = Some(with);
        let fill = of(&with);
        Ok(self.push_by(fill, (&raw mut with).cast()))
    }
}

impl<const N: usize> Pop<N> for From<N>
where
    Bytes<N>: Known,
{
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        // SAFETY: the queue lives, and this is its only consumer.
        let first = unsafe { (Bytes::<N>::FUNCTIONS.peek)(self.0.0) };
        // SAFETY: a message, which stays until it is popped.
        let Some(message) = (unsafe { first.cast::<[u8; N]>().as_ref() }) else {
            return Ok(None);
        };
        let handled = handle(message);
        // SAFETY: as above; nothing uses the message any more.
        unsafe { (Bytes::<N>::FUNCTIONS.pop)(self.0.0) };
        Ok(Some(handled))
    }
}
