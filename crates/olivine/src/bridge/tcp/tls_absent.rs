//! TLS in a build without it: every use is refused.

use super::socket::SocketError;
use crate::error::LinkError;
use crate::uri::Role;
use crate::uri::groups::ConnectionSettings;
use crate::uri::remote::Address;

/// Has no values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tls {}

impl Tls {
    /// Refuses: data that should be encrypted is never sent in plain text.
    ///
    /// # Errors
    ///
    /// [`LinkError::Tls`], always.
    pub(super) fn new(
        _: Role,
        address: &Address,
        _: &ConnectionSettings,
    ) -> Result<Self, LinkError> {
        Err(LinkError::Tls {
            far: address.to_string(),
            problem: "this build has no TLS: build it with the feature 'tls'".into(),
        })
    }

    pub(super) fn session(&self) -> Result<session::TlsSession, SocketError> {
        match *self {}
    }
}

pub(super) mod session {
    use crate::bridge::tcp::socket::{ReadOutcome, SocketError};
    use std::io::{self, IoSlice};
    use std::os::fd::BorrowedFd;

    /// Has no values.
    #[derive(Debug)]
    pub(in crate::bridge::tcp) enum TlsSession {}

    impl TlsSession {
        pub(in crate::bridge::tcp) fn read(
            &mut self,
            _: BorrowedFd<'_>,
            _: &mut [u8],
        ) -> Result<ReadOutcome, SocketError> {
            match *self {}
        }

        pub(in crate::bridge::tcp) fn has_arrived(&self) -> bool {
            match *self {}
        }

        pub(in crate::bridge::tcp) fn write(
            &mut self,
            _: BorrowedFd<'_>,
            _: &[IoSlice<'_>],
        ) -> io::Result<usize> {
            match *self {}
        }

        pub(in crate::bridge::tcp) fn holds_bytes(&self) -> bool {
            match *self {}
        }

        pub(in crate::bridge::tcp) fn finish(&mut self, _: BorrowedFd<'_>) {
            match *self {}
        }
    }
}
