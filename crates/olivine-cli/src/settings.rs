//! Settings of a channel that the tool needs.

use crate::args::values;
use olivine::{Config, Scheme};
use std::time::Duration;

/// The value of `key` in the canonical URI; `None` for the default.
fn value(config: &Config, key: &str) -> Option<String> {
    let uri = config.uri();
    let (_, query) = uri.split_once('?')?;
    let pair = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    pair.map(str::to_owned)
}

/// Subscribers that a publisher waits for before its first message.
pub(crate) fn subscribers(config: &Config) -> usize {
    value(config, "subscribers")
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// How long a publisher waits at the end until everything is read.
pub(crate) fn linger(config: &Config) -> Duration {
    value(config, "linger")
        .and_then(|text| values::duration(&text).ok())
        .unwrap_or(Duration::ZERO)
}

/// Whether this endpoint spins while it waits.
pub(crate) fn spins(config: &Config) -> bool {
    value(config, "wait").as_deref() == Some("spin")
}

/// Whether this subscriber keeps its position after its end.
pub(crate) fn is_durable(config: &Config) -> bool {
    value(config, "name").is_some()
}

/// Whether this subscriber begins with the oldest message.
pub(crate) fn from_oldest(config: &Config) -> bool {
    value(config, "from").as_deref() == Some("oldest")
}

/// The channel's URI without its settings, for notices.
pub(crate) fn short(config: &Config) -> String {
    let uri = config.uri();
    uri.split('?').next().unwrap_or_default().to_owned()
}

/// CPU to which this endpoint pins the thread that opens it.
pub(crate) fn cpu(config: &Config) -> Option<u32> {
    value(config, "cpu").and_then(|cpu| cpu.parse().ok())
}

/// How long a close waits for an absent far side; `None` means without limit, for a full disk.
pub(crate) fn close_timeout(config: &Config) -> Option<Duration> {
    matches!(config.scheme(), Scheme::Tcp | Scheme::Nats).then(|| config.close_timeout())
}

/// Whether a bridge in this process carries the messages to a remote channel: undelivered ones end
/// with the process.
pub(crate) fn is_elsewhere(config: &Config) -> bool {
    matches!(config.scheme(), Scheme::Tcp | Scheme::Nats | Scheme::File)
}

/// Whether messages of this source end without a request to stop: those of a journal, unless
/// `follow=yes` waits for later recordings.
pub(crate) fn has_end(source: &Config) -> bool {
    source.scheme() == Scheme::File && !source.get_file().get_follow()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_canonical_uri() {
        let config =
            Config::parse("shm://x?subscribers_max=9&subscribers=3&linger=1500ms&wait=spin")
                .unwrap();
        assert_eq!(subscribers(&config), 3);
        assert_eq!(linger(&config), Duration::from_millis(1500));
        assert!(spins(&config));
        let config = Config::parse("shm://x?subscribers_max=9").unwrap();
        assert_eq!(
            (subscribers(&config), linger(&config), spins(&config)),
            (0, Duration::ZERO, false)
        );
        assert_eq!(short(&config), "shm://x");
        let far = Config::parse("tcp://host:9000/x?token=abc").unwrap();
        assert_eq!(short(&far), "tcp://host:9000/x");
        let far = Config::parse("tcp://host:9000/x?name=a&expire=2s").unwrap();
        assert_eq!(close_timeout(&far), Some(Duration::from_secs(2)));
        assert_eq!(close_timeout(&config), None);
        assert!(!is_durable(&config));
        assert!(is_durable(&Config::parse("shm://x?name=reader").unwrap()));
    }
}
