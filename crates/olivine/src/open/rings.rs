//! The rings of this machine behind the ends of channels elsewhere.

use super::schemes::ring_of;
use crate::admin::{self, AdminError};
use crate::uri::{Config, End, Scheme};
use std::path::Path;

/// The channels of shared memory in which programs with the `name=` of `config` keep what they send
/// to a channel elsewhere, or receive from it, as far as they are there: that of its publisher,
/// then that of its subscriber. Their names are such as `link.3a41d71a1b027139`.
///
/// Only `tcp://`, `nats://` and `file://` with a `name=` have such channels. They are looked for in
/// the folder of `config`.
///
/// # Errors
///
/// [`AdminError`] if the folder cannot be read or trusted.
pub fn rings_behind(config: &Config) -> Result<Vec<(End, Config)>, AdminError> {
    let is_elsewhere = matches!(config.scheme(), Scheme::Tcp | Scheme::Nats | Scheme::File);
    if !is_elsewhere || config.get_name().is_none() {
        return Ok(Vec::new());
    }
    let folder = config
        .get_dir()
        .map_or_else(admin::default_dir, Path::to_owned);
    let there = admin::names(&folder)?;
    let rings = [End::Publisher, End::Subscriber].map(|end| (end, ring_of(config, end)));
    let found = rings
        .into_iter()
        .filter(|(_, ring)| there.iter().any(|name| name == ring.channel()));
    Ok(found.collect())
}
