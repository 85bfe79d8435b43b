//! The settings of a channel as flags: the same words as the keys of a URI.

use crate::failure::{Failure, Outcome};
use olivine::{Config, Scheme};

/// Settings that may stand in the URI or here; a flag wins over the URI.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Channel settings (also keys of the URI; a flag wins)")]
pub(crate) struct ChannelArgs {
    /// Bytes of one publisher's ring: a power of two, 4KiB to 2GiB [default: 1MiB]
    #[arg(long, value_name = "BYTES")]
    capacity: Option<String>,
    /// Bytes to which messages are padded: 8 to 4096 [default: 8]
    #[arg(long, value_name = "BYTES")]
    align: Option<String>,
    /// How to wait: spin, yield, park, adaptive [default: adaptive]
    #[arg(long, value_name = "STRATEGY")]
    wait: Option<String>,
    /// Subscriber: reliable (publishers wait for it) or latest (they do not)
    /// [default: reliable]
    #[arg(long, value_name = "KIND")]
    delivery: Option<String>,
    /// Subscriber: start with the next message (now) or the oldest in the ring
    /// [default: now; file:// oldest]
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Subscriber: durable under this name; its position outlives it [default:
    /// none]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Subscriber: how long an absent durable one keeps its place [default:
    /// never given up]
    #[arg(long, value_name = "DURATION")]
    expire: Option<String>,
    /// Publisher: wait for this many subscribers before the first message
    /// [default: 0]
    #[arg(long, value_name = "COUNT", visible_alias = "wait-for")]
    subscribers: Option<String>,
    /// What happens to a slow subscriber: wait, or evict:DURATION [default:
    /// wait]
    #[arg(long, value_name = "POLICY")]
    slow: Option<String>,
    /// Publishers at a time: 1 to 256 [default: 16]
    #[arg(long, value_name = "COUNT", alias = "publishers_max")]
    publishers_max: Option<String>,
    /// Subscribers at a time: 1 to 1024 [default: 64]
    #[arg(long, value_name = "COUNT", alias = "subscribers_max")]
    subscribers_max: Option<String>,
    /// Folder of the channels [default: $OLIVINE_DIR or /dev/shm/olivine-UID]
    #[arg(long, value_name = "PATH")]
    dir: Option<String>,
    /// Permission bits of the channel's files [default: 0600]
    #[arg(long, value_name = "BITS")]
    mode: Option<String>,
    /// Group that owns the channel's files [default: one's own]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Large pages for the ring: no, try, require [default: no]
    #[arg(long, value_name = "CHOICE")]
    hugepages: Option<String>,
    /// NUMA node whose memory a new ring takes [default: any]
    #[arg(long, value_name = "NODE")]
    numa: Option<String>,
    /// Publisher: how long to wait at the end until everything is read
    /// [default: not at all; elsewhere until it is delivered]
    #[arg(long, value_name = "DURATION")]
    linger: Option<String>,
    /// CPU to run on [default: any]
    #[arg(long, value_name = "N")]
    cpu: Option<String>,
    /// Publisher: what messages are about, such as orders.eu; subscriber: which
    /// to receive, such as orders.* or >, several with commas [default: none;
    /// all]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
}

impl ChannelArgs {
    /// The flags that were given, as keys and values.
    fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("capacity", &self.capacity),
            ("align", &self.align),
            ("wait", &self.wait),
            ("delivery", &self.delivery),
            ("from", &self.from),
            ("name", &self.name),
            ("expire", &self.expire),
            ("subscribers", &self.subscribers),
            ("slow", &self.slow),
            ("publishers_max", &self.publishers_max),
            ("subscribers_max", &self.subscribers_max),
            ("dir", &self.dir),
            ("mode", &self.mode),
            ("group", &self.group),
            ("hugepages", &self.hugepages),
            ("numa", &self.numa),
            ("linger", &self.linger),
            ("cpu", &self.cpu),
            ("topic", &self.topic),
        ];
        all.into_iter()
            .filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }

    /// The URI with the flags worked in, checked by the library's own parser.
    pub(crate) fn config(&self, uri: &str) -> Outcome<Config> {
        let given: Vec<_> = self.given().collect();
        if let Some((key, value)) = given.iter().find(|(_, value)| value.contains('&')) {
            return Err(Failure::usage(format!(
                "--{key} '{value}' is not usable: it holds a '&'"
            )));
        }
        let (place, query) = uri
            .split_once('?')
            .map_or((uri, None), |(place, query)| (place, Some(query)));
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
        let args = ChannelArgs {
            capacity: Some("64KiB".to_owned()),
            wait: Some("park".to_owned()),
            ..ChannelArgs::default()
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
        let args = ChannelArgs {
            name: Some("audit".to_owned()),
            ..ChannelArgs::default()
        };
        assert_eq!(
            text(args.config("shm://x?expire=30s")),
            "shm://x?name=audit&expire=30s"
        );
    }

    #[test]
    fn refusals_name_key_and_value() {
        let args = ChannelArgs {
            capacity: Some("1000".to_owned()),
            ..ChannelArgs::default()
        };
        assert!(text(args.config("shm://x")).contains("capacity=1000 is not usable"));
        let args = ChannelArgs {
            name: Some("a&wait=spin".to_owned()),
            ..ChannelArgs::default()
        };
        assert!(text(args.config("shm://x")).contains("holds a '&'"));
        let plain = ChannelArgs::default();
        assert!(text(plain.config("shm://x?")).contains("unknown key ''"));
        assert!(text(plain.config("inproc://x")).contains("use shm://x"));
    }
}
