//! What a publisher is in the middle of, and the length of its messages.

use crate::failure::Failure;
use olivine::{NotSent, Outgoing, OwnedClaim, Publisher as RustPublisher};
use std::time::Duration;

/// The time-out of verbs that never wait.
pub(crate) const NOT_AT_ALL: Option<Duration> = Some(Duration::ZERO);

/// A publisher, and the length of its messages if it has a type.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) state: State,
    length: Option<usize>,
}

impl Sending {
    /// `length`: of each message, if the channel has a type.
    pub(crate) fn new(publisher: RustPublisher, length: Option<usize>) -> Self {
        let state = State::Open(Box::new(publisher));
        Self { state, length }
    }

    /// Refuses a message that is not one value.
    #[inline(always)]
    pub(crate) fn check(&self, argument: &'static str, length: usize) -> Result<(), Failure> {
        match self.length {
            Some(value) if value != length => Err(not_a_value(argument, length, value)),
            _ => Ok(()),
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

/// What a publisher is in the middle of.
#[derive(Debug)]
pub(crate) enum State {
    Open(Box<RustPublisher>),
    Claimed(OwnedClaim),
    /// A call panicked half way.
    Gone,
}

impl State {
    /// The publisher, for whatever an open claim forbids.
    #[inline(always)]
    pub(crate) fn idle(&mut self) -> Result<&mut RustPublisher, Failure> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed(_) => Err(Failure::ClaimOpen),
            Self::Gone => Err(Failure::Panicked),
        }
    }

    /// The publisher, to look at.
    pub(crate) fn look(&self) -> Result<&RustPublisher, Failure> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed(claim) => Ok(claim.publisher()),
            Self::Gone => Err(Failure::Panicked),
        }
    }

    /// `failure`, with the reason where the link has failed.
    #[cold]
    #[inline(never)]
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Sent(NotSent::LinkFailed) => Failure::Link(
                self.look()
                    .ok()
                    .and_then(|publisher| publisher.link_failure())
                    .map(Box::new),
            ),
            other => other,
        }
    }

    #[inline(always)]
    pub(crate) fn claim(
        &mut self,
        room: Outgoing<'_, usize>,
        timeout: Option<Duration>,
    ) -> Result<(*mut u8, usize), Failure> {
        match self.try_claim(room) {
            Err(Failure::Sent(NotSent::BackPressured | NotSent::NotConnected))
                if timeout != NOT_AT_ALL =>
            {
                self.idle()?.wait_for_room(room, timeout)?;
                self.try_claim(room)
            }
            done => done,
        }
    }

    #[inline(always)]
    fn try_claim(&mut self, room: Outgoing<'_, usize>) -> Result<(*mut u8, usize), Failure> {
        self.idle()?;
        let Self::Open(publisher) = core::mem::replace(self, Self::Gone) else {
            return Err(Failure::Panicked);
        };
        match OwnedClaim::try_claim(publisher, room) {
            Ok(mut claim) => {
                let place = (claim.as_mut_ptr(), claim.len());
                *self = Self::Claimed(claim);
                Ok(place)
            }
            Err((publisher, error)) => {
                *self = Self::Open(publisher);
                Err(error.into())
            }
        }
    }

    #[inline(always)]
    pub(crate) fn commit(&mut self) -> Result<u64, Failure> {
        match core::mem::replace(self, Self::Gone) {
            Self::Claimed(claim) => {
                let (publisher, position) = claim.commit();
                *self = Self::Open(publisher);
                Ok(position?.0)
            }
            other => {
                *self = other;
                Err(Failure::NoClaim)
            }
        }
    }

    /// The publisher, to close it; an open claim is given up.
    pub(crate) fn into_publisher(self) -> Result<RustPublisher, Failure> {
        match self {
            Self::Open(publisher) => Ok(*publisher),
            Self::Claimed(claim) => Ok(*claim.abort()),
            Self::Gone => Err(Failure::Panicked),
        }
    }

    pub(crate) fn abort(&mut self) {
        match core::mem::replace(self, Self::Gone) {
            Self::Claimed(claim) => *self = Self::Open(claim.abort()),
            other => *self = other,
        }
    }
}
