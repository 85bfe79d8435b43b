//! What a publisher is in the middle of.

use super::Publisher;
use crate::errors::{closed, in_use, viewed};
use crate::exclusive::Taken;
use crate::views::Views;
use olivine::{OwnedClaim, Publisher as RustPublisher};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A publisher, and what it is in the middle of.
pub(crate) enum State {
    Open(Box<RustPublisher>),
    Claimed {
        claim: OwnedClaim,
        serial: u64,
        views: Views,
    },
    Closed,
}

impl State {
    /// The publisher, for whatever an open claim forbids.
    pub(super) fn idle(&mut self) -> PyResult<&mut RustPublisher> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed { .. } => Err(PyValueError::new_err(
                "the publisher has an open claim: commit or abort it first",
            )),
            Self::Closed => Err(closed("publisher")),
        }
    }

    /// The publisher, to look at.
    pub(super) fn look(&self) -> PyResult<&RustPublisher> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed { claim, .. } => Ok(claim.publisher()),
            Self::Closed => Err(closed("publisher")),
        }
    }

    /// Takes the claim of this number out, if it is open; refuses while its bytes are looked at.
    pub(crate) fn take_claim(&mut self, wanted: u64) -> PyResult<Option<OwnedClaim>> {
        match self {
            Self::Claimed { serial, views, .. } if *serial == wanted => {
                if views.count() > 0 {
                    return Err(viewed("the claim", views.count()));
                }
            }
            _ => return Ok(None),
        }
        match std::mem::replace(self, Self::Closed) {
            Self::Claimed { claim, .. } => Ok(Some(claim)),
            other => {
                *self = other;
                Ok(None)
            }
        }
    }
}

/// The state, unless another thread is in the middle of a call. After a panic, which was an
/// exception already, it is whole.
#[inline]
pub(crate) fn lock<'a>(py: Python<'a>, publisher: &'a Publisher) -> PyResult<Taken<'a, State>> {
    let taken = publisher.state.take(py);
    taken.ok_or_else(|| publisher.refusal(in_use("publisher")))
}
