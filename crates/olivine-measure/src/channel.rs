//! Channels that a measurement creates and removes, and waits on them.
//!
//! A measured channel is given by a URI of the library, in which three words mean more:
//! `wait=spin:N`, a list of topics, and `take=receive`. `Channel` reads them.

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

/// Prefix of the wait that looks a number of times, and then sleeps.
pub const SPIN_THEN_PARK: &str = "spin:";
/// The setting of a stream whose messages are received one by one.
pub const BY_RECEIVE: &str = "take=receive";

/// The settings of a measured channel.
#[derive(Debug)]
pub struct Channel {
    /// Those of a subscriber. With topics it filters by all of them.
    pub subscriber: Config,
    /// Those of a publisher.
    pub(crate) publisher: Config,
    /// How often both sides look before they sleep.
    pub(crate) looks: u32,
    /// The topics that a publisher's messages have in turns.
    pub(crate) topics: Vec<String>,
    /// Whether a subscriber of a stream receives one message at a call, in place of polling.
    pub(crate) receives: bool,
}

impl Channel {
    /// Reads a URI: with `wait=spin:N` both sides look N times and then sleep as with `wait=park`.
    ///
    /// # Errors
    ///
    /// A key or value that [`Config`] refuses.
    pub fn parse(uri: &str) -> std::result::Result<Self, UriError> {
        let (place, query) = uri.split_once('?').unwrap_or((uri, ""));
        let (mut looks, mut topics, mut receives) = (0, Vec::new(), false);
        let (mut both, mut filters) = (Vec::new(), Vec::new());
        for pair in query.split_terminator('&') {
            let spins = pair.strip_prefix("wait=").and_then(looks_of);
            if let Some(count) = spins {
                looks = count;
                both.push("wait=park");
            } else if let Some(list) = pair.strip_prefix("topic=") {
                topics = list.split(',').map(str::to_owned).collect();
                filters.push(pair);
            } else if pair == BY_RECEIVE {
                receives = true;
            } else {
                both.push(pair);
            }
        }
        let uri = |pairs: &[&str]| {
            let mark = if pairs.is_empty() { "" } else { "?" };
            Config::parse(&format!("{place}{mark}{}", pairs.join("&")))
        };
        let publisher = uri(&both)?;
        both.append(&mut filters);
        Ok(Self {
            subscriber: uri(&both)?,
            publisher,
            looks,
            topics,
            receives,
        })
    }
}

/// The N of `spin:N`.
fn looks_of(wait: &str) -> Option<u32> {
    wait.strip_prefix(SPIN_THEN_PARK)?.parse().ok()
}

/// Looks that are left before a side sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    most: u32,
    left: u32,
}

impl Looks {
    /// So many before each sleep.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, left: most }
    }

    /// Whether to look once more; else it is time to sleep.
    pub(crate) fn again(&mut self) -> bool {
        let again = self.left > 0;
        self.left = if again { self.left - 1 } else { self.most };
        again
    }

    /// Something was found.
    #[inline(always)]
    pub(crate) fn found(&mut self) {
        self.left = self.most;
    }
}

impl Drop for TemporaryChannel {
    fn drop(&mut self) {
        // Nothing to remove is the usual case: the last user of a channel may have done so.
        let _ = admin::remove(&self.config, true);
    }
}

/// Receives one message and returns the result of `handle`. Looks `looks` times, and then waits by
/// the subscriber's strategy.
///
/// # Errors
///
/// Those of [`Subscriber::poll`] and [`Subscriber::wait`].
#[inline(always)]
pub fn receive<T>(
    subscriber: &mut Subscriber,
    looks: u32,
    mut handle: impl FnMut(&Message<'_>) -> T,
) -> Result<T> {
    let mut result = None;
    for _ in 0..looks {
        let polled = subscriber.poll(|message| result = Some(handle(&message)), 1);
        polled.map_err(ArenaError::method)?;
        if let Some(result) = result {
            return Ok(result);
        }
    }
    loop {
        subscriber.wait(WAIT_STEP).map_err(ArenaError::method)?;
        let polled = subscriber.poll(|message| result = Some(handle(&message)), 1);
        polled.map_err(ArenaError::method)?;
        if let Some(result) = result {
            return Ok(result);
        }
    }
}

/// Looks `looks` times whether a message of `length` bytes has room, and then waits for it, after a
/// refusal with `error`.
#[cold]
#[inline(never)]
pub(crate) fn await_room(
    publisher: &mut Publisher,
    length: usize,
    error: NotSent,
    longest: Option<Duration>,
    looks: u32,
) -> Result<()> {
    for _ in 0..looks {
        // Dropped without a commit, a claim publishes nothing.
        if publisher.try_claim(length).is_ok() {
            return Ok(());
        }
    }
    match error {
        NotSent::BackPressured | NotSent::NotConnected => {
            let waited = publisher.wait_for_room(length, longest);
            waited.map_err(ArenaError::method)
        }
        other => Err(ArenaError::method(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_and_topics_are_read_and_all_else_is_the_librarys() {
        let found = Channel::parse("shm://x?wait=spin:70&capacity=64KiB&topic=a.b,c").unwrap();
        assert_eq!((found.looks, found.topics.len()), (70, 2));
        let uri = found.subscriber.uri();
        assert!(
            uri.contains("wait=park") && uri.contains("topic=a.b"),
            "{uri}"
        );
        let uri = found.publisher.uri();
        assert!(
            uri.contains("capacity=64KiB") && !uri.contains("topic"),
            "{uri}"
        );
        let plain = Channel::parse("shm://x").unwrap();
        assert_eq!(
            (plain.looks, plain.topics.len(), plain.receives),
            (0, 0, false)
        );
        assert!(Channel::parse("shm://x?take=receive").unwrap().receives);
        for wrong in [
            "wait=spin:",
            "wait=spin:x",
            "topic=a..b",
            "topic=a,,b",
            "take=give",
            "colour=red",
        ] {
            assert!(
                Channel::parse(&format!("shm://x?{wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn so_many_looks_come_before_each_sleep() {
        let mut looks = Looks::new(2);
        for _ in 0..2 {
            assert_eq!(
                [looks.again(), looks.again(), looks.again()],
                [true, true, false]
            );
        }
        assert!(looks.again());
        looks.found();
        assert_eq!(
            [looks.again(), looks.again(), looks.again()],
            [true, true, false]
        );
        assert!(!Looks::new(0).again());
    }
}
