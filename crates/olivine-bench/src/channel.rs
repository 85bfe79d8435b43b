//! Channels that a measurement makes for itself and takes away again.

use olivine::{Config, UriError, admin};

/// A channel with a private name in the usual folder; removed when this is dropped.
///
/// After a `kill -9` it is left without users, and `olivine gc` collects it.
#[derive(Debug)]
pub struct TemporaryChannel {
    config: Config,
}

impl TemporaryChannel {
    /// Names a channel after `purpose`, this process and a number; `settings` is the query of its URI.
    ///
    /// # Errors
    ///
    /// [`UriError`] if a setting is not usable.
    pub fn new(purpose: &str, serial: u32, settings: &str) -> Result<Self, UriError> {
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
