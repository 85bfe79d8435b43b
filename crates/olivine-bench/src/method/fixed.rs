//! Queues of values of one type, which most in-memory queues are: messages are arrays of bytes.

use super::player::End;
use crate::error::{BenchError, Result};
use crate::peer::Patience;

/// The sending end of a queue of `N`-byte messages.
pub trait Push<const N: usize> {
    /// Appends a message unless the queue is full; tells whether it did.
    ///
    /// # Errors
    ///
    /// What the queue says.
    fn push(&mut self, message: &[u8; N]) -> Result<bool>;

    /// Appends as many messages as there is room for; returns how many. One by one unless there is better.
    ///
    /// # Errors
    ///
    /// What the queue says.
    fn push_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        for (count, message) in messages.iter().enumerate() {
            if !self.push(message)? {
                return Ok(count);
            }
        }
        Ok(messages.len())
    }
}

/// The receiving end of a queue of `N`-byte messages.
pub trait Pop<const N: usize> {
    /// Takes the oldest message, if there is one.
    ///
    /// # Errors
    ///
    /// What the queue says.
    fn pop(&mut self) -> Result<Option<[u8; N]>>;

    /// Hands over up to `limit` messages that are there; returns how many. One unless there is better.
    ///
    /// # Errors
    ///
    /// What the queue says.
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let _ = limit;
        let popped = self.pop()?;
        Ok(popped.map(|message| handle(&message)).map_or(0, |()| 1))
    }
}

/// Two queues, one for each direction; both sides spin.
#[derive(Debug)]
pub struct Fixed<P, C, const N: usize> {
    to: P,
    from: C,
    stage: Vec<[u8; N]>,
}

impl<P: Push<N>, C: Pop<N>, const N: usize> Fixed<P, C, N> {
    /// An end that sends to one queue and receives from the other.
    pub fn new(to: P, from: C) -> Self {
        let stage = Vec::new();
        Self { to, from, stage }
    }
}

impl<P: Push<N>, C: Pop<N>, const N: usize> End for Fixed<P, C, N> {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), patience: &mut Patience<'_>) -> Result<()> {
        let mut message = [0; N];
        fill(&mut message);
        while !self.to.push(&message)? {
            patience.spend()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        patience: &mut Patience<'_>,
    ) -> Result<T> {
        loop {
            if let Some(message) = self.from.pop()? {
                return Ok(handle(&message));
            }
            patience.spend()?;
        }
    }

    #[inline(always)]
    fn echo(
        &mut self,
        _stage: &mut [u8],
        check: impl FnOnce(&[u8]) -> bool,
        patience: &mut Patience<'_>,
    ) -> Result<bool> {
        let message = self.receive(
            |message| <[u8; N]>::try_from(message).ok().filter(|m| check(m)),
            patience,
        )?;
        let Some(message) = message else {
            return Ok(false);
        };
        while !self.to.push(&message)? {
            patience.spend()?;
        }
        Ok(true)
    }

    fn send_many(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        self.stage.resize(count, [0; N]);
        for (number, message) in self.stage.iter_mut().enumerate() {
            fill(number, message);
        }
        let mut left = self.stage.as_slice();
        while !left.is_empty() {
            let pushed = self.to.push_some(left)?;
            left = &left[pushed..];
            if pushed == 0 {
                patience.spend()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn receive_many(
        &mut self,
        limit: usize,
        mut handle: impl FnMut(&[u8]),
        patience: &mut Patience<'_>,
    ) -> Result<usize> {
        loop {
            let popped = self.from.pop_some(limit, &mut handle)?;
            if popped > 0 {
                return Ok(popped);
            }
            patience.spend()?;
        }
    }
}

/// The sizes for which queues of arrays are built, in bytes.
pub const FIXED_SIZES: [usize; 9] = [16, 32, 64, 100, 128, 256, 1024, 4096, 8192];

/// Refuses a size for which no queue of arrays is built.
#[must_use]
pub fn no_such_size(bytes: usize) -> BenchError {
    let known = FIXED_SIZES.map(|size| size.to_string()).join(", ");
    BenchError::NoSize { bytes, known }
}

/// Evaluates an expression with a constant in place of one of the sizes: `for_size!(size, N => open::<N>())`.
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
            other => Err($crate::method::no_such_size(other)),
        }
    }};
}
