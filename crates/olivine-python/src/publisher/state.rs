//! What a publisher is in the middle of.

use super::Publisher;
use crate::errors::{Closed, closed, in_use, viewed};
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

    /// Refused while the bytes of its claim are looked at.
    pub(super) fn unviewed(&self) -> PyResult<()> {
        match self {
            Self::Claimed { views, .. } if views.count() > 0 => {
                Err(viewed("the claim", views.count()))
            }
            _ => Ok(()),
        }
    }

    /// Takes the publisher out, and aborts its claim; `None` if that was done before.
    pub(super) fn end(&mut self) -> Option<Box<RustPublisher>> {
        match std::mem::replace(self, Self::Closed) {
            Self::Open(publisher) => Some(publisher),
            Self::Claimed { claim, .. } => Some(claim.abort()),
            Self::Closed => None,
        }
    }

    /// Takes the claim of this number out, if it is open; refuses while its bytes are looked at.
    pub(crate) fn take_claim(&mut self, wanted: u64) -> PyResult<Option<OwnedClaim>> {
        if !self.has_claim(wanted) {
            return Ok(None);
        }
        self.unviewed()?;
        match std::mem::replace(self, Self::Closed) {
            Self::Claimed { claim, .. } => Ok(Some(claim)),
            other => {
                *self = other;
                Ok(None)
            }
        }
    }

    /// Whether the claim of this number is open.
    pub(crate) fn has_claim(&self, wanted: u64) -> bool {
        matches!(self, Self::Claimed { serial, .. } if *serial == wanted)
    }

    /// Why a claim that is not open has no bytes any more.
    pub(crate) fn claim_is_over(&self) -> PyErr {
        match self {
            Self::Closed => Closed::new_err(
                "the publisher was closed, which aborts its open claim: open another one",
            ),
            _ => PyValueError::new_err("the claim was committed or aborted before: claim again"),
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
