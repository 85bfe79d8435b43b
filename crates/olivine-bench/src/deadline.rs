//! Limits on waiting: no wait is endless.

use crate::channel::is_back_pressure;
use crate::error::{BenchError, Result};
use olivine::{NotSent, Publisher, clock};
use std::marker::PhantomData;
use std::time::Duration;

/// Spins between two checks of the time and the other process.
const SPINS_BETWEEN_LOOKS: u32 = 1 << 16;
/// Longest single wait for room, so that the other process is checked.
const ROOM_STEP: Duration = Duration::from_millis(200);

/// Limits a wait: checks periodically that time is left.
///
/// Spinning code calls [`Deadline::spend`] each time round; code that sleeps in the kernel calls
/// [`Deadline::look`] whenever a call returns without what it waited for.
#[derive(Debug)]
pub struct Deadline<'a> {
    of: PhantomData<&'a ()>,
    limit: Duration,
    left: u32,
    give_up_ns: Option<u64>,
}

impl Deadline<'_> {
    /// Limits a wait to `limit` from its first check on.
    #[must_use]
    pub fn of(limit: Duration) -> Self {
        Self {
            of: PhantomData,
            limit,
            left: SPINS_BETWEEN_LOOKS,
            give_up_ns: None,
        }
    }

    /// Counts one spin.
    ///
    /// # Errors
    ///
    /// Like [`Deadline::look`], which it calls periodically.
    #[inline(always)]
    pub fn spend(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 { self.look() } else { Ok(()) }
    }

    /// There was progress: the time starts again.
    #[inline(always)]
    pub fn renew(&mut self) {
        self.give_up_ns = None;
        self.left = SPINS_BETWEEN_LOOKS;
    }

    /// Checks the time.
    ///
    /// # Errors
    ///
    /// [`BenchError::PeerSilent`] after the time-out.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self) -> Result<()> {
        self.left = SPINS_BETWEEN_LOOKS;
        let now = clock::monotonic_ns();
        let limit = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
        if now
            > *self
                .give_up_ns
                .get_or_insert_with(|| now.saturating_add(limit))
        {
            return Err(BenchError::PeerSilent {
                seconds: self.limit.as_secs(),
            });
        }
        Ok(())
    }

    /// Waits until a message of `length` bytes has room, after a refusal with `error`.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_room(
        &mut self,
        publisher: &mut Publisher,
        length: usize,
        error: NotSent,
    ) -> Result<()> {
        let mut error = error;
        while is_back_pressure(error) {
            self.look()?;
            match publisher.wait_for_room(length, Some(ROOM_STEP)) {
                Ok(()) => {
                    self.renew();
                    return Ok(());
                }
                Err(refused) => error = refused,
            }
        }
        Err(error.into())
    }
}
