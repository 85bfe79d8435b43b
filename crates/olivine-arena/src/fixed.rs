//! Queues of values of one type, like most in-memory queues: messages are arrays of bytes.
//!
//! Messages are filled and checked in the queue's memory if the queue allows it, as in a channel of
//! this library. [`Copies`] is for queues that take and return values, with one copy in and one
//! out.

use crate::error::{ArenaError, Result};
use crate::harness::End;
use crate::rendezvous::Rendezvous;

/// The sending end of a queue of `N`-byte messages.
pub trait Push<const N: usize> {
    /// Appends a message, completely written by `fill`, unless the queue is full; returns whether
    /// it did. If not, the next call is for the same message.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool>;

    /// Appends a message from other memory unless the queue is full; returns whether it did.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    #[inline(always)]
    fn push_copy(&mut self, message: &[u8; N]) -> Result<bool> {
        self.push(|place| *place = *message)
    }

    /// Appends up to `count` messages, as many as fit; `fill` gets each number. Returns how many.
    /// The default appends one. Messages that did not fit may be filled again.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    #[inline(always)]
    fn push_some(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8; N]),
    ) -> Result<usize> {
        let _ = count;
        let pushed = self.push(|place| fill(0, place))?;
        Ok(usize::from(pushed))
    }
}

/// The receiving end of a queue of `N`-byte messages.
pub trait Pop<const N: usize> {
    /// Passes the oldest message, if there is one; in place if the queue allows it.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>>;

    /// Handles up to `limit` available messages; returns how many. The default handles one.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let _ = limit;
        let popped = self.pop(|message| handle(message))?;
        Ok(usize::from(popped.is_some()))
    }
}

/// A queue that copies messages in, because it takes them by value.
pub trait Append<const N: usize> {
    /// Appends a message unless the queue is full; returns whether it did.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    fn append(&mut self, message: &[u8; N]) -> Result<bool>;

    /// Appends as many messages as fit; returns how many. The default appends one.
    ///
    /// # Errors
    ///
    /// Errors of the queue.
    #[inline(always)]
    fn append_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        let Some(first) = messages.first() else {
            return Ok(0);
        };
        Ok(usize::from(self.append(first)?))
    }
}

/// The sending end of a queue that takes messages by value: they are built here.
#[derive(Debug)]
pub struct Copies<Q, const N: usize> {
    queue: Q,
    message: [u8; N],
    /// Whether `message` had no room.
    waits: bool,
    stage: Vec<[u8; N]>,
}

impl<Q, const N: usize> Copies<Q, N> {
    /// The sending end of `queue`.
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            message: [0; N],
            waits: false,
            stage: Vec::new(),
        }
    }
}

impl<Q: Append<N>, const N: usize> Push<N> for Copies<Q, N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        if !self.waits {
            fill(&mut self.message);
        }
        let pushed = self.queue.append(&self.message)?;
        self.waits = !pushed;
        Ok(pushed)
    }

    #[inline(always)]
    fn push_copy(&mut self, message: &[u8; N]) -> Result<bool> {
        self.queue.append(message)
    }

    #[inline(always)]
    fn push_some(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8; N]),
    ) -> Result<usize> {
        if self.stage.len() < count {
            self.stage.resize(count, [0; N]);
        }
        let stage = &mut self.stage[..count];
        for (number, message) in stage.iter_mut().enumerate() {
            fill(number, message);
        }
        self.queue.append_some(stage)
    }
}

/// How a queue is set up for a load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tuning {
    /// Bytes of the messages in its ring.
    pub ring_bytes: usize,
    /// Pause instructions between two looks of a side that waits.
    pub pauses: u32,
}

impl Tuning {
    /// A ring of so many bytes, and so many pause instructions between two looks.
    #[must_use]
    pub const fn new(ring_bytes: usize, pauses: u32) -> Self {
        Self { ring_bytes, pauses }
    }

    /// Messages of `size` bytes in its ring: a power of two, at least 4.
    #[must_use]
    pub const fn messages(self, size: usize) -> usize {
        let fit = self.ring_bytes / size;
        if fit < 4 { 4 } else { 1 << fit.ilog2() }
    }
}

/// How a queue is set up for round trips and for streams: the best of the one is often not the best
/// of the other.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tunings {
    round_trips: Tuning,
    streams: Tuning,
}

impl Tunings {
    /// Of a queue that is best so.
    #[must_use]
    pub const fn new(round_trips: Tuning, streams: Tuning) -> Self {
        Self {
            round_trips,
            streams,
        }
    }

    /// The one for the load of the two ends that meet here.
    #[must_use]
    pub fn of(&self, rendezvous: &Rendezvous) -> Tuning {
        match rendezvous.streamed() {
            true => self.streams,
            false => self.round_trips,
        }
    }
}

/// Two queues, one for each direction; both sides spin.
#[derive(Debug)]
pub struct Fixed<P, C, const N: usize> {
    to: P,
    from: C,
    /// Pause instructions between two looks.
    pauses: u32,
}

impl<P: Push<N>, C: Pop<N>, const N: usize> Fixed<P, C, N> {
    /// An end that sends to one queue and receives from the other.
    pub fn new(to: P, from: C) -> Self {
        Self {
            to,
            from,
            pauses: 0,
        }
    }

    /// With `count` pause instructions between two looks of a side that waits. The default is none.
    #[must_use]
    pub fn pausing(mut self, count: u32) -> Self {
        self.pauses = count;
        self
    }

    /// Both ends of two queues: first the end that sends to `there`, then the end that sends to
    /// `back`.
    #[must_use]
    pub fn both(there: (P, C), back: (P, C), pauses: u32) -> (Self, Self) {
        let ((there, taken), (back, answered)) = (there, back);
        (
            Self::new(there, answered).pausing(pauses),
            Self::new(back, taken).pausing(pauses),
        )
    }
}

impl<P: Push<N>, C: Pop<N>, const N: usize> End for Fixed<P, C, N> {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut fill = Some(fill);
        loop {
            let pushed = self.to.push(|place| {
                if let Some(fill) = fill.take() {
                    fill(place);
                }
            })?;
            if pushed {
                return Ok(());
            }
            pause(self.pauses);
        }
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut handle = Some(handle);
        loop {
            let handled = self
                .from
                .pop(|message| handle.take().map(|handle| handle(message)))?;
            if let Some(handled) = handled.flatten() {
                return Ok(handled);
            }
            pause(self.pauses);
        }
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let Self {
            to, from, pauses, ..
        } = self;
        let mut check = Some(check);
        loop {
            // Sent back in place, as a program would.
            let echoed = from.pop(|message| {
                if check.take().is_none_or(|check| !check(message)) {
                    return Ok(false);
                }
                while !to.push_copy(message)? {}
                Ok(true)
            })?;
            if let Some(echoed) = echoed {
                return echoed;
            }
            pause(*pauses);
        }
    }

    #[inline(always)]
    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        let mut done = 0;
        while done < count {
            let fill = |number: usize, place: &mut [u8; N]| fill(done + number, place);
            let pushed = self.to.push_some(count - done, fill)?;
            if pushed == 0 {
                pause(self.pauses);
            }
            done += pushed;
        }
        Ok(())
    }

    #[inline(always)]
    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        loop {
            let popped = self.from.pop_some(limit, |message| handle(message))?;
            if popped > 0 {
                return Ok(popped);
            }
            pause(self.pauses);
        }
    }
}

/// `count` pause instructions: a look takes its cache line from the side that is about to write to
/// it, so a side that waits is often faster if it looks less often.
#[inline(always)]
pub fn pause(count: u32) {
    for _ in 0..count {
        std::hint::spin_loop();
    }
}

/// The sizes with a queue of arrays, in bytes.
pub const FIXED_SIZES: [usize; 9] = [16, 32, 64, 100, 128, 256, 1024, 4096, 8192];

/// Refuses a size without a queue of arrays.
#[must_use]
pub fn no_such_size(bytes: usize) -> ArenaError {
    let known = FIXED_SIZES.map(|size| size.to_string()).join(", ");
    ArenaError::NoSize { bytes, known }
}

/// Evaluates an expression with a constant in place of one of the sizes: `for_size!(size, N =>
/// open::<N>())`.
///
/// An `Err` of [`no_such_size`] for any other size.
#[macro_export]
macro_rules! for_size {
    ($size:expr, $constant:ident => $body:expr) => {{
        macro_rules! with {
            ($bytes:literal) => {{
                const $constant: usize = $bytes;
                $body
            }};
        }
        match $size {
            16 => with!(16),
            32 => with!(32),
            64 => with!(64),
            100 => with!(100),
            128 => with!(128),
            256 => with!(256),
            1024 => with!(1024),
            4096 => with!(4096),
            8192 => with!(8192),
            other => Err($crate::fixed::no_such_size(other)),
        }
    }};
}
