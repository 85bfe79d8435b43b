//! Both ends of a method, in two processes.

use crate::error::{BenchError, Result};
use crate::method::{Driver, MeetingFolder, Method, Side};
use crate::payload;
use crate::peer::{Order, Peer, Role};

/// Both ends of a method: ours, and that of the second process.
pub(super) struct Pair {
    pub(super) role: Role,
    pub(super) driver: Box<dyn Driver>,
    // Last, so that our end is closed before its objects are removed.
    _place: MeetingFolder,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("place", &self._place).finish()
    }
}

impl Pair {
    /// Opens both ends for messages of `size` bytes.
    pub(super) fn open(
        method: &dyn Method,
        peer: &mut Peer,
        size: usize,
        settings: &str,
    ) -> Result<Self> {
        Self::open_as(Role::Measured, method, peer, size, settings)
    }

    /// The same in a role. What is measured is opened before the bare stream.
    pub(super) fn open_as(
        role: Role,
        method: &dyn Method,
        peer: &mut Peer,
        size: usize,
        settings: &str,
    ) -> Result<Self> {
        if size < payload::SIZE_MIN {
            return Err(BenchError::TooShort { bytes: size });
        }
        let place = MeetingFolder::make()?;
        peer.begin(&Order::Join {
            role,
            method: method.name().to_owned(),
            settings: settings.to_owned(),
            size_bytes: size,
            folder: place.folder().to_path_buf(),
        })?;
        let opened = place
            .welcome()
            .and_then(|mut rendezvous| method.open(Side::Client, &mut rendezvous, size, settings));
        let driver = opened.map_err(|error| match error {
            // Only a consequence of the other side's error.
            BenchError::EndClosed | BenchError::PeerSilent { .. } => peer.or_its_reason(error),
            other => other,
        })?;
        peer.end()?;
        Ok(Self {
            role,
            driver,
            _place: place,
        })
    }

    /// Closes both ends.
    pub(super) fn close(self, peer: &mut Peer) -> Result<()> {
        peer.run(&Order::Close)?;
        Ok(())
    }
}
