//! A publisher with the claim that it has open, and the length of its messages.

use crate::failure::Failure;
use olivine::{ClaimingPublisher, NotSent, Outgoing, Publisher as RustPublisher};
use std::time::Duration;

/// The time-out of verbs that never wait.
pub(crate) const NOT_AT_ALL: Option<Duration> = Some(Duration::ZERO);

/// A publisher, its claim if one is open, and the length of its messages if it has a type.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) publisher: ClaimingPublisher,
    length: Option<usize>,
}

impl Sending {
    /// `length`: of each message, if the channel has a type.
    pub(crate) fn new(publisher: RustPublisher, length: Option<usize>) -> Self {
        let publisher = ClaimingPublisher::new(publisher);
        Self { publisher, length }
    }

    /// Refuses a message that is not one value.
    #[inline(always)]
    pub(crate) fn check(&self, argument: &'static str, length: usize) -> Result<(), Failure> {
        match self.length {
            Some(value) if value != length => Err(not_a_value(argument, length, value)),
            _ => Ok(()),
        }
    }

    /// The publisher, for whatever an open claim forbids.
    #[inline(always)]
    pub(crate) fn idle(&mut self) -> Result<&mut RustPublisher, Failure> {
        // No failure is made, and dropped, where there is none.
        match self.publisher.publisher_mut() {
            Some(publisher) => Ok(publisher),
            None => Err(Failure::ClaimOpen),
        }
    }

    /// The publisher, to look at.
    pub(crate) fn look(&self) -> &RustPublisher {
        self.publisher.publisher()
    }

    /// The publisher, to close it; an open claim is given up.
    pub(crate) fn into_publisher(self) -> RustPublisher {
        self.publisher.into_publisher()
    }

    /// `failure`, with what the publisher knows of it. Back-pressure, which is an everyday outcome,
    /// stays as it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Sent(NotSent::BackPressured) => failure,
            Failure::Sent(error) => self.described(error),
            other => other,
        }
    }

    /// `error` with what the publisher knows of it, also of back-pressure after a wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn described(&self, error: NotSent) -> Failure {
        self.look().describe(error).into()
    }

    /// Waits until the publisher reaches something, as `wait` does.
    pub(crate) fn reach(
        &mut self,
        wait: impl FnOnce(&mut RustPublisher) -> Result<bool, NotSent>,
    ) -> Result<(), Failure> {
        if wait(self.idle()?)? {
            return Ok(());
        }
        Err(Failure::timed_out(self.look().link_status()))
    }

    /// Reserves a message within a time; returns its place. `again` makes the same `room`: so the
    /// room stays in registers, and the slow path makes its own.
    #[inline(always)]
    pub(crate) fn claim<'m>(
        &mut self,
        room: Outgoing<'m, usize>,
        again: impl FnOnce() -> Result<Outgoing<'m, usize>, Failure>,
        timeout: Option<Duration>,
    ) -> Result<*mut u8, Failure> {
        if self.publisher.is_claimed() {
            return Err(Failure::ClaimOpen);
        }
        match self.publisher.try_claim(room) {
            Ok(place) => Ok(place.as_mut_ptr()),
            Err(NotSent::BackPressured | NotSent::NotConnected) if timeout != NOT_AT_ALL => {
                self.claim_later(again, timeout)
            }
            Err(error) => Err(error.into()),
        }
    }

    #[cold]
    #[inline(never)]
    fn claim_later<'m>(
        &mut self,
        room: impl FnOnce() -> Result<Outgoing<'m, usize>, Failure>,
        timeout: Option<Duration>,
    ) -> Result<*mut u8, Failure> {
        let room = room()?;
        let waited = self.idle()?.wait_for_room(room, timeout);
        waited.map_err(|error| self.described(error))?;
        Ok(self.publisher.try_claim(room)?.as_mut_ptr())
    }

    /// Makes the claimed message visible.
    #[inline(always)]
    pub(crate) fn commit(&mut self) -> Result<u64, Failure> {
        match self.publisher.commit() {
            Some(sent) => Ok(sent?.0),
            None => Err(Failure::NoClaim),
        }
    }
}

#[cold]
fn not_a_value(argument: &'static str, length: usize, value: usize) -> Failure {
    Failure::Bad {
        argument,
        problem: format!("is {length}, and values of the channel's type have {value} bytes").into(),
    }
}
