//! Channels that a measurement creates and removes, and waits on them.

use olivine::{Config, Message, NotSent, Publisher, Subscriber, UriError, admin};
use olivine_arena::error::{ArenaError, Result};
use std::time::Duration;

/// Longest single wait for a message.
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

/// Receives one message and returns the result of `handle`. Waits by the subscriber's strategy.
#[inline(always)]
pub(crate) fn receive<T>(
    subscriber: &mut Subscriber,
    mut handle: impl FnMut(&Message<'_>) -> T,
) -> Result<T> {
    let mut result = None;
    loop {
        subscriber.wait(WAIT_STEP).map_err(ArenaError::method)?;
        let polled = subscriber.poll(|message| result = Some(handle(&message)), 1);
        polled.map_err(ArenaError::method)?;
        if let Some(result) = result {
            return Ok(result);
        }
    }
}

/// Waits until a message of `length` bytes has room, after a refusal with `error`.
#[cold]
#[inline(never)]
pub(crate) fn await_room(
    publisher: &mut Publisher,
    length: usize,
    error: NotSent,
    longest: Option<Duration>,
) -> Result<()> {
    match error {
        NotSent::BackPressured | NotSent::NotConnected => {
            let waited = publisher.wait_for_room(length, longest);
            waited.map_err(ArenaError::method)
        }
        other => Err(ArenaError::method(other)),
    }
}
