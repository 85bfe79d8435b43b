//! Channels that a measurement creates and removes, and waits on them.

use crate::error::Result;
use olivine::{Config, Message, NotSent, Subscriber, UriError, admin};
use std::time::Duration;

/// Longest single wait for a message, so that a total limit holds.
pub(crate) const WAIT_STEP: Duration = Duration::from_millis(200);
/// Messages taken in one poll.
pub(crate) const POLL_LIMIT: usize = 1 << 16;

/// A channel with a private name in the usual folder; removed when this is dropped.
///
/// After a `kill -9` it is left unused, and `olivine gc` removes it.
#[derive(Debug)]
pub struct TemporaryChannel {
    config: Config,
}

impl TemporaryChannel {
    /// Names a channel after `purpose`, this process and a number; `settings` is the query of its
    /// URI.
    ///
    /// # Errors
    ///
    /// [`UriError`] if a setting is not usable.
    pub fn new(purpose: &str, serial: u32, settings: &str) -> std::result::Result<Self, UriError> {
        let mark = if settings.is_empty() { "" } else { "?" };
        let name = format!("{purpose}-{}-{serial}", std::process::id());
        Ok(Self {
            config: Config::parse(&format!("shm://{name}{mark}{settings}"))?,
        })
    }

    /// The channel's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The channel's URI with every setting.
    #[must_use]
    pub fn uri(&self) -> String {
        self.config.uri()
    }
}

impl Drop for TemporaryChannel {
    fn drop(&mut self) {
        // Nothing to remove is the usual case: the last user of a channel may have done so.
        let _ = admin::remove(&self.config, true);
    }
}

/// Receives one message and returns the result of `handle`. Waits by the subscriber's strategy;
/// `look` decides periodically whether to continue.
#[inline(always)]
pub(crate) fn receive<T>(
    subscriber: &mut Subscriber,
    mut look: impl FnMut() -> Result<()>,
    mut handle: impl FnMut(&Message<'_>) -> T,
) -> Result<T> {
    let mut result = None;
    loop {
        if !subscriber.wait(WAIT_STEP)? {
            look()?;
        }
        subscriber.poll(|message| result = Some(handle(&message)), 1)?;
        if let Some(result) = result {
            return Ok(result);
        }
    }
}

/// Whether a send was refused only because there is no room yet.
pub(crate) fn is_back_pressure(error: NotSent) -> bool {
    matches!(error, NotSent::BackPressured | NotSent::NotConnected)
}
