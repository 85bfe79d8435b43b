//! The settings of a channel as flags. They have the names of the URI keys.

use crate::failure::{Failure, Outcome};
use olivine::{Config, Scheme};
use std::borrow::Cow;

/// Settings of both roles, in the URI or as flags. A flag overrides the URI.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ChannelArgs {
    /// Bytes of one publisher's ring: a power of two, 4KiB to 2GiB [default:
    /// twice the second-level cache, 1MiB to 4MiB]
    #[arg(long, value_name = "BYTES")]
    capacity: Option<String>,
    /// Bytes to which messages are padded: 8 to 4096 [default: 8]
    #[arg(long, value_name = "BYTES")]
    align: Option<String>,
    /// How to wait: spin, yield, park, adaptive [default: adaptive]
    #[arg(long, value_name = "STRATEGY")]
    wait: Option<String>,
    /// Slow subscribers: wait for them, or evict:DURATION [default: wait]
    #[arg(long, value_name = "POLICY")]
    slow: Option<String>,
    /// Most publishers at a time: 1 to 256 [default: 16]
    #[arg(long, value_name = "COUNT", alias = "publishers_max")]
    publishers_max: Option<String>,
    /// Most subscribers at a time: 1 to 1024 [default: 64]
    #[arg(long, value_name = "COUNT", alias = "subscribers_max")]
    subscribers_max: Option<String>,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    dir: Option<String>,
    /// Permission bits of the channel's files [default: 0600]
    #[arg(long, value_name = "BITS")]
    mode: Option<String>,
    /// Group that owns the channel's files [default: yours]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Large pages for the ring: no, try, require [default: no]
    #[arg(long, value_name = "CHOICE")]
    hugepages: Option<String>,
    /// CPU to run on [default: any]
    #[arg(long, value_name = "N")]
    cpu: Option<String>,
}

/// Settings of a publisher.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct PublisherArgs {
    /// Wait for this many subscribers before the first message [default: 0]
    #[arg(long, value_name = "COUNT", visible_alias = "wait-for")]
    subscribers: Option<String>,
    /// Longest wait at the end until everything is read [default: shm:// no
    /// wait; other schemes until everything is delivered]
    #[arg(long, value_name = "DURATION")]
    linger: Option<String>,
    /// Topic of the messages, such as orders.eu [default: none]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// NUMA node for the memory of a new ring [default: any]
    #[arg(long, value_name = "NODE")]
    numa: Option<String>,
    /// tcp://, nats://, file://: keep undelivered messages under this name
    /// across restarts [default: none]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// With --name: how long undelivered messages are kept [default: forever]
    #[arg(long, value_name = "DURATION")]
    expire: Option<String>,
    #[command(flatten)]
    both: ChannelArgs,
}

/// Settings of a subscriber.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct SubscriberArgs {
    /// reliable (publishers wait for it) or latest (they do not) [default:
    /// reliable]
    #[arg(long, value_name = "KIND")]
    delivery: Option<String>,
    /// First message: the next one (now) or the oldest in the ring (oldest)
    /// [default: now; file:// oldest]
    #[arg(long, value_name = "START")]
    from: Option<String>,
    /// Durable subscriber of this name: its position is kept when it ends
    /// [default: none]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long the position of an absent durable subscriber is kept [default:
    /// forever]
    #[arg(long, value_name = "DURATION")]
    expire: Option<String>,
    /// Topics to receive, such as orders.* or >, separated by commas [default:
    /// all]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    #[command(flatten)]
    both: ChannelArgs,
}

const HEADING: &str = "Channel settings (also keys of the URI; a flag overrides the URI)";

/// A key of the URI and the value of its flag.
type Flag<'a> = (&'static str, &'a Option<String>);

impl ChannelArgs {
    fn flags(&self) -> [Flag<'_>; 11] {
        [
            ("capacity", &self.capacity),
            ("align", &self.align),
            ("wait", &self.wait),
            ("slow", &self.slow),
            ("publishers_max", &self.publishers_max),
            ("subscribers_max", &self.subscribers_max),
            ("dir", &self.dir),
            ("mode", &self.mode),
            ("group", &self.group),
            ("hugepages", &self.hugepages),
            ("cpu", &self.cpu),
        ]
    }
}

impl PublisherArgs {
    /// The URI with the flags added, checked by the library's parser.
    ///
    /// # Errors
    ///
    /// A setting is invalid, or has no meaning for a publisher of this scheme.
    pub(crate) fn config(&self, uri: &str) -> Outcome<Config> {
        let own = [
            ("subscribers", &self.subscribers),
            ("linger", &self.linger),
            ("topic", &self.topic),
            ("numa", &self.numa),
            ("name", &self.name),
            ("expire", &self.expire),
        ];
        let config = configured(uri, &own, &self.both)?;
        let is_here = matches!(config.scheme(), Scheme::Shm | Scheme::Sealed);
        let of_subscribers = [("name", &self.name), ("expire", &self.expire)];
        match of_subscribers
            .into_iter()
            .find(|(_, value)| value.is_some())
        {
            Some((key, _)) if is_here => Err(Failure::usage(format!(
                "--{key} has no meaning for a publisher of {}: it names a durable subscriber; use \
                 it with 'olivine sub', or to publish to tcp://, nats:// or file://",
                crate::settings::short(&config)
            ))),
            _ => Ok(config),
        }
    }
}

impl SubscriberArgs {
    /// The URI with the flags added, checked by the library's parser.
    ///
    /// # Errors
    ///
    /// A setting is invalid.
    pub(crate) fn config(&self, uri: &str) -> Outcome<Config> {
        let own = [
            ("delivery", &self.delivery),
            ("from", &self.from),
            ("name", &self.name),
            ("expire", &self.expire),
            ("topic", &self.topic),
        ];
        configured(uri, &own, &self.both)
    }
}

/// The full URI of a channel: `ticks` is short for `shm://ticks`.
pub(crate) fn full_uri(text: &str) -> Cow<'_, str> {
    if text.contains("://") {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("shm://{text}"))
    }
}

/// The URI with the flags of one role and of both roles added.
fn configured(uri: &str, own: &[Flag<'_>], both: &ChannelArgs) -> Outcome<Config> {
    let uri = full_uri(uri);
    let flags = both.flags();
    let given: Vec<(&'static str, &str)> = (own.iter().chain(&flags))
        .filter_map(|(key, value)| Some((*key, value.as_deref()?)))
        .collect();
    if let Some((key, value)) = given.iter().find(|(_, value)| value.contains('&')) {
        return Err(Failure::usage(format!(
            "--{key} '{value}' is not usable: it contains a '&'"
        )));
    }
    let (place, query) = uri
        .split_once('?')
        .map_or((&*uri, None), |(place, query)| (place, Some(query)));
    let kept = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| {
            let key = pair.split_once('=').map_or(*pair, |(key, _)| key);
            given.iter().all(|(flag, _)| *flag != key)
        });
    let pairs: Vec<String> = kept
        .map(str::to_owned)
        .chain(given.iter().map(|(key, value)| format!("{key}={value}")))
        .collect();
    let mark = if pairs.is_empty() { "" } else { "?" };
    shm_only(Config::parse(&format!("{place}{mark}{}", pairs.join("&")))?)
}

/// Refuses channels that another process cannot reach.
pub(crate) fn shm_only(config: Config) -> Outcome<Config> {
    if config.scheme() == Scheme::Inproc {
        return Err(Failure::usage(format!(
            "inproc://{} is memory of one program that the tool cannot reach: use shm://{}",
            config.channel(),
            config.channel()
        )));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Outcome<Config>) -> String {
        match result {
            Ok(config) => config.uri(),
            Err(Failure::Usage(error) | Failure::Failed(error)) => format!("error: {error:#}"),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn a_flag_wins_over_the_same_key_of_the_uri() {
        let args = SubscriberArgs {
            both: ChannelArgs {
                capacity: Some("64KiB".to_owned()),
                wait: Some("park".to_owned()),
                ..ChannelArgs::default()
            },
            ..SubscriberArgs::default()
        };
        assert_eq!(
            text(args.config("shm://x")),
            "shm://x?capacity=64KiB&wait=park"
        );
        assert_eq!(
            text(args.config("shm://x?wait=spin&linger=2s")),
            "shm://x?capacity=64KiB&wait=park&linger=2s"
        );
    }

    #[test]
    fn a_flag_can_complete_what_the_uri_alone_would_miss() {
        let args = SubscriberArgs {
            name: Some("audit".to_owned()),
            ..SubscriberArgs::default()
        };
        assert_eq!(
            text(args.config("shm://x?expire=30s")),
            "shm://x?name=audit&expire=30s"
        );
    }

    #[test]
    fn refusals_name_key_and_value() {
        let args = SubscriberArgs {
            both: ChannelArgs {
                capacity: Some("1000".to_owned()),
                ..ChannelArgs::default()
            },
            ..SubscriberArgs::default()
        };
        assert!(text(args.config("shm://x")).contains("capacity=1000 is not usable"));
        let args = SubscriberArgs {
            name: Some("a&wait=spin".to_owned()),
            ..SubscriberArgs::default()
        };
        assert!(text(args.config("shm://x")).contains("contains a '&'"));
        let plain = SubscriberArgs::default();
        assert!(text(plain.config("shm://x?")).contains("unknown key ''"));
        assert_eq!(text(plain.config("x")), "shm://x");
        assert_eq!(text(plain.config("x?wait=spin")), "shm://x?wait=spin");
        assert!(text(plain.config("./x")).starts_with("error: "));
        assert!(text(plain.config("inproc://x")).contains("use shm://x"));
    }

    #[test]
    fn a_publisher_here_has_no_name_and_one_elsewhere_has() {
        let args = PublisherArgs {
            name: Some("feed".to_owned()),
            ..PublisherArgs::default()
        };
        assert!(text(args.config("shm://x")).contains("--name has no meaning for a publisher"));
        assert!(text(args.config("tcp://h:1/x?token=t")).contains("name=feed"));
    }
}
