//! The error of closing that a far side did not acknowledge in time.

use crate::uri::Config;
use std::time::Duration;

/// How much a far side has not acknowledged, and how long closing waited for it.
// One number, as in `TooLong`: so a result of the hot path stays in two registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unacknowledged(u64);

/// Set in [`Unacknowledged`] if `linger=` ended the wait.
const LINGER_IS_OVER: u64 = 1 << 63;
/// Set in [`Unacknowledged`] if the publisher has a `name=`.
const HAS_NAME: u64 = 1 << 62;
/// Set in [`Unacknowledged`] if a far side was given up.
const HAS_GIVEN_UP: u64 = 1 << 61;
/// Most messages that [`Unacknowledged`] counts.
const MESSAGES_MAX: u64 = (1 << 29) - 1;

impl Unacknowledged {
    /// `abandoned`: far sides that were given up. `config`: that of the publisher. Its `linger` is
    /// 0 for no bound.
    pub(crate) fn new(messages: u64, abandoned: u64, waited: Duration, config: &Config) -> Self {
        let (linger, time_most) = (config.linger, u64::from(u32::MAX));
        let milliseconds = u64::try_from(waited.as_millis()).unwrap_or(time_most);
        let bound = match !linger.is_zero() && waited >= linger {
            true => LINGER_IS_OVER,
            false => 0,
        };
        let named = config.name.as_ref().map_or(0, |_| HAS_NAME);
        let given_up = match abandoned {
            0 => 0,
            _ => HAS_GIVEN_UP,
        };
        Self(
            bound
                | named
                | given_up
                | messages.min(MESSAGES_MAX) << 32
                | milliseconds.min(time_most),
        )
    }

    /// What delivers the rest, and what waits longer.
    pub(super) fn remedy(self) -> String {
        // Without 'expire=' a name never expires, but closing waits for 30 s.
        let longer = match (self.is_linger_over(), self.messages()) {
            (true, _) => "use a longer 'linger='",
            (false, 0) => "state a 'timeout=' and an 'expire=' longer than that",
            (false, _) => "state an 'expire=' longer than that",
        };
        match (self.has_name(), self.has_given_up()) {
            (true, false) => {
                format!("the next program of this 'name=' delivers the rest; or {longer}")
            }
            (true, true) => format!(
                "the next program of this 'name=' delivers the rest, but not to a far side that \
                 has expired or was evicted; or {longer}"
            ),
            (false, false) => {
                format!("{longer}, or use a 'name=', whose next program delivers the rest")
            }
            // A 'name=' would not have kept the place either.
            (false, true) => longer.to_owned(),
        }
    }

    /// Whether a far side was given up since the publisher was opened: it has expired or was
    /// evicted, and its place is gone. No later program delivers what it had not acknowledged
    /// ([`crate::LinkStatus::abandoned`] counts them).
    #[must_use]
    pub const fn has_given_up(self) -> bool {
        self.0 & HAS_GIVEN_UP != 0
    }

    /// Whether the publisher has a `name=`: the next program of that name delivers the rest, but
    /// not to a far side that was given up ([`Self::has_given_up`]).
    #[must_use]
    pub const fn has_name(self) -> bool {
        self.0 & HAS_NAME != 0
    }

    /// Whether `linger=` ended the wait. Otherwise a far side was away for longer than `expire=`,
    /// its own or that of the publisher: 30 s if not given. If it has every
    /// message, it had the time that `timeout=` gives for the end of the stream.
    #[must_use]
    pub const fn is_linger_over(self) -> bool {
        self.0 & LINGER_IS_OVER != 0
    }

    /// Messages that it did not acknowledge, counted for each served far side; 0 if only the end of
    /// the stream is missing, or the reason of `close_failed`.
    #[must_use]
    pub const fn messages(self) -> u64 {
        self.0 >> 32 & MESSAGES_MAX
    }

    /// How long closing waited.
    #[must_use]
    pub const fn waited(self) -> Duration {
        Duration::from_millis(self.0 & 0xffff_ffff)
    }
}

impl std::fmt::Debug for Unacknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unacknowledged")
            .field("messages", &self.messages())
            .field("waited", &self.waited())
            .field("is_linger_over", &self.is_linger_over())
            .field("has_name", &self.has_name())
            .field("has_given_up", &self.has_given_up())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NotSent;

    /// It gave the advice to use a `name=` that was there, and a longer `expire=` than never; its
    /// `Debug` text was a packed number.
    #[test]
    fn unacknowledged_advises_what_the_publisher_has_not_done() {
        let left = |uri: &str, waited| {
            let config = Config::parse(uri).unwrap();
            let left = Unacknowledged::new(3, 0, Duration::from_secs(waited), &config);
            (left, NotSent::Unacknowledged(left).to_string())
        };
        let uri = "tcp://127.0.0.1:1/a?linger=40s";
        let (bare, text) = left(uri, 30);
        assert!(text.ends_with(
            "closing waited 30 s, and the far side has not acknowledged 3 messages: state an \
             'expire=' longer than that, or use a 'name=', whose next program delivers the rest"
        ));
        let (named, text) = left(&format!("{uri}&name=a"), 30);
        assert!(text.ends_with(
            "3 messages: the next program of this 'name=' delivers the rest; or state an \
             'expire=' longer than that"
        ));
        let (linger, text) = left(&format!("{uri}&name=a"), 40);
        assert!(
            text.ends_with("the rest; or use a longer 'linger='"),
            "{text}"
        );
        assert_eq!((bare.has_name(), named.has_name()), (false, true));
        assert!(linger.is_linger_over() && !named.is_linger_over());
        let bare = Config::parse(uri).unwrap();
        let most = Unacknowledged::new(u64::MAX, 0, Duration::MAX, &bare);
        assert_eq!(most.messages(), MESSAGES_MAX);
        assert!(most.is_linger_over() && !most.has_name() && !most.has_given_up());
        // The rest of a far side whose place is gone is delivered by no program.
        let named_config = bare.clone().name("a");
        for (config, expected) in [
            (
                &named_config,
                "3 messages: the next program of this 'name=' delivers the rest, but not to a far \
                 side that has expired or was evicted; or state an 'expire=' longer than that",
            ),
            (&bare, "3 messages: state an 'expire=' longer than that"),
        ] {
            let left = Unacknowledged::new(3, 1, Duration::from_secs(30), config);
            assert!(left.has_given_up());
            let text = NotSent::Unacknowledged(left).to_string();
            assert!(text.ends_with(expected), "{text}");
        }
        assert_eq!(
            format!("{:?}", NotSent::Unacknowledged(named)),
            "Unacknowledged(Unacknowledged { messages: 3, waited: 30s, is_linger_over: false, \
             has_name: true, has_given_up: false })"
        );
    }
}
