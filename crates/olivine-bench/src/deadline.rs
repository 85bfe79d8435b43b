//! Bounds on waiting: nobody waits for ever, and nobody waits for the dead.

use super::{Line, is_back_pressure};
use crate::error::{BenchError, Result};
use olivine::{NotSent, Publisher, clock};
use std::time::Duration;

/// Spins between two looks at the time and at the other process.
const SPINS_BETWEEN_LOOKS: u32 = 1 << 16;
/// Longest single wait for room, so that the other process is looked at.
const ROOM_STEP: Duration = Duration::from_millis(200);

/// Bounds a wait: looks now and then whether the other process lives and the time is not up.
///
/// Spinning code calls [`Patience::spend`] each time round; code that sleeps in the kernel calls
/// [`Patience::look`] whenever a call returns without what it waited for.
#[derive(Debug)]
pub struct Patience<'a> {
    /// The other process; the second one learns of the end of the first by other means.
    line: Option<&'a mut Line>,
    limit: Duration,
    left: u32,
    give_up_ns: Option<u64>,
}

impl<'a> Patience<'a> {
    pub(super) fn with(line: &'a mut Line, limit: Duration) -> Self {
        Self {
            line: Some(line),
            ..Self::of(limit)
        }
    }

    /// Bounds a wait to `limit` from its first look on.
    #[must_use]
    pub fn of(limit: Duration) -> Self {
        Self {
            line: None,
            limit,
            left: SPINS_BETWEEN_LOOKS,
            give_up_ns: None,
        }
    }

    /// Counts one spin.
    ///
    /// # Errors
    ///
    /// As [`Patience::look`], which it calls now and then.
    #[inline(always)]
    pub fn spend(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 { self.look() } else { Ok(()) }
    }

    /// Something moved: the time starts anew.
    #[inline(always)]
    pub fn renew(&mut self) {
        self.give_up_ns = None;
        self.left = SPINS_BETWEEN_LOOKS;
    }

    /// Looks at the time and at the other process.
    ///
    /// # Errors
    ///
    /// [`BenchError::PeerSilent`] once the time is up; what is known of the other process if it is gone or failed.
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
        self.line.as_mut().map_or(Ok(()), |line| line.look())
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
