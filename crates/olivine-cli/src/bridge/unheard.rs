//! Whether a bridge carries into a ring without a subscriber.

use crate::{awaited, log};
use olivine::admin::{self, ChannelInfo};
use olivine::{Config, LinkStatus, Scheme};

/// The ring that a bridge carries into, until it has a subscriber or the lack is reported.
#[derive(Debug)]
pub(super) struct Unheard {
    ring: Option<Config>,
    /// Subscribers that it had before.
    earlier: u64,
}

impl Unheard {
    /// The ring as it is before the bridge starts.
    pub(super) fn new(destination: &Config) -> Self {
        let is_ring = destination.scheme() == Scheme::Shm;
        let found = is_ring.then(|| admin::inspect(destination).ok()).flatten();
        let heard = found.as_ref().is_some_and(is_heard);
        Self {
            ring: (is_ring && !heard).then(|| destination.clone()),
            earlier: found.map_or(0, |info| info.subscribers_ever),
        }
    }

    /// Reports once that there is no subscriber: when messages are overwritten, or at the end.
    pub(super) fn tell(&mut self, status: &LinkStatus, is_over: bool) {
        if status.messages == 0 {
            return;
        }
        // Without the channel, everything was read.
        let Some(info) = self
            .ring
            .as_ref()
            .and_then(|ring| admin::inspect(ring).ok())
        else {
            return;
        };
        if is_heard(&info) || info.subscribers_ever > self.earlier {
            self.ring = None;
        } else if (is_over || status.bytes > info.capacity_bytes)
            && let Some(ring) = self.ring.take()
        {
            log::info(&awaited::unheard(&ring, info.capacity_bytes));
        }
    }
}

/// Whether a subscriber is attached, or publishers wait for an absent one.
fn is_heard(info: &ChannelInfo) -> bool {
    let mut subscribers = info.subscribers.iter();
    subscribers.any(|subscriber| subscriber.alive || subscriber.gates)
}
