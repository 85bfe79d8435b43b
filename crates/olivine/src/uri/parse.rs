//! The grammar of URIs, and the checks of settings that exclude each other.

use super::groups::{self, ConnectionSettings, Has as _};
use super::keys::{self, JOURNAL_RULE};
use super::remote;
use super::topic::is_topic;
use super::{Config, Delivery, End, Expire, Role, Scheme, Start, UriError};
use std::str::FromStr;

/// The rule for `align` and `capacity`.
pub(crate) const TWO_FRAMES_RULE: &str = "the ring must hold at least two frames of 'align' bytes";

/// The rule for `bind` and the side that listens.
pub(crate) const BIND_RULE: &str =
    "the side that listens has its address in the URI; drop bind=, or add role=connect";

/// Whether a ring of `capacity` bytes holds two frames.
pub(crate) fn holds_two_frames(align: u64, capacity: u64) -> bool {
    align * 2 <= capacity
}

/// Reads a whole URI, and further settings as if they were at its end.
pub(super) fn config<'a>(
    uri: &'a str,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Config, UriError> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(UriError::NoScheme {
            uri: uri.escape_default().to_string(),
        });
    };
    let scheme = Scheme::from_str(scheme).map_err(|_| UriError::UnknownScheme {
        scheme: scheme.escape_default().to_string(),
    })?;
    let (channel, query) = rest
        .split_once('?')
        .map_or((rest, None), |(name, query)| (name, Some(query)));
    let mut config = remote::read(scheme, channel)?;
    let is_path = matches!(scheme, Scheme::File | Scheme::Sealed);
    if config.channel().is_empty() && !is_path {
        return Err(UriError::NoName {
            uri: format!("{scheme}://{}", channel.escape_default()),
            form: match config.address() {
                Some(address) => format!("{scheme}://{address}/NAME"),
                None => format!("{scheme}://NAME"),
            },
        });
    }
    if scheme != Scheme::File {
        check_channel(config.channel())?;
    }
    let mut seen: Vec<&str> = Vec::new();
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    for (key, value) in pairs.chain(settings) {
        if seen.contains(&key) {
            return Err(UriError::Repeated {
                key: key.to_owned(),
            });
        }
        seen.push(key);
        let known = keys::find(key).ok_or_else(|| unknown(key))?;
        known.read(&mut config, value)?;
    }
    validate(&config)?;
    Ok(config)
}

/// Whether `text` consists of 1 to `longest` name characters, and the first is not a dot.
pub(super) fn is_name(text: &str, longest: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=longest).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.')
}

/// Whether `name` can be the name of a channel.
pub(crate) fn is_channel_name(name: &str) -> bool {
    is_name(name, 64)
}

fn check_channel(name: &str) -> Result<(), UriError> {
    if is_channel_name(name) {
        return Ok(());
    }
    Err(UriError::Name {
        name: name.escape_default().to_string(),
    })
}

fn unknown(key: &str) -> UriError {
    let known: Vec<_> = keys::all().map(|key| key.name).collect();
    UriError::UnknownKey {
        key: key.escape_default().to_string(),
        hint: keys::nearest(key)
            .map_or_else(String::new, |meant| format!("did you mean '{meant}'? ")),
        known: known.join(", "),
    }
}

/// Checks what the settings mean for one end of the channel, after [`validate`].
pub(super) fn validate_for(config: &Config, end: End) -> Result<(), UriError> {
    validate(config)?;
    match &config.topic {
        Some(topic) if end == End::Publisher && !is_topic(topic.as_bytes()) => {
            Err(UriError::Value {
                key: "topic",
                value: topic.escape_default().to_string(),
                rule: "a publisher has one topic without * and >, such as orders.eu.created; \
                       filters are for subscribers",
            })
        }
        _ => Ok(()),
    }
}

/// Checks the place, each key, and pairs of keys: everything that setting one key cannot check.
pub(super) fn validate(config: &Config) -> Result<(), UriError> {
    remote::check_place(config)?;
    check_channel(config.channel())?;
    for key in keys::all() {
        key.check_scheme(config)?;
    }
    groups::check(config)?;
    for key in keys::all() {
        key.check_value(config)?;
    }
    pairs(config)
}

fn pairs(config: &Config) -> Result<(), UriError> {
    let refuse = |first, second, rule| {
        Err(UriError::Pair {
            first,
            second,
            rule,
        })
    };
    if config.name.is_some() && config.delivery == Delivery::Latest {
        return refuse(
            "name",
            "delivery=latest",
            "a durable subscriber is reliable; drop one of the two",
        );
    }
    let keeps_place =
        config.name.is_some() || matches!(config.scheme(), Scheme::Tcp | Scheme::Nats);
    if !keeps_place && config.expire != Expire::Never {
        return refuse(
            "expire",
            "no name",
            "only a durable subscriber expires; add name=",
        );
    }
    if let (Some(align), Some(capacity)) = (config.align, config.capacity)
        && !holds_two_frames(align, capacity)
    {
        return refuse("align", "capacity", TWO_FRAMES_RULE);
    }
    if config
        .subscribers_max
        .is_some_and(|most| config.subscribers > most)
    {
        return refuse(
            "subscribers",
            "subscribers_max",
            "a channel cannot wait for more subscribers than it has room for",
        );
    }
    let misplaced = |key, value, rule| {
        let scheme = config.scheme.word();
        Err(UriError::Misplaced {
            key,
            value,
            scheme,
            rule,
        })
    };
    if let (Scheme::Sealed, Some(count @ (0 | 2..))) = (config.scheme, config.publishers_max) {
        return misplaced(
            "publishers_max",
            count.to_string(),
            "a sealed channel has one publisher, which serves its socket; give each a socket",
        );
    }
    if config.scheme != Scheme::File && matches!(config.from, Start::Time(_) | Start::Position(_)) {
        return misplaced("from", config.from.to_string(), JOURNAL_RULE);
    }
    let connection: &ConnectionSettings = config.part();
    if connection.tls_cert.is_some() != connection.tls_key.is_some() {
        return refuse(
            "tls_cert",
            "tls_key",
            "a certificate and its private key come together; give both",
        );
    }
    if !connection.tls && (connection.tls_cert.is_some() || connection.tls_ca.is_some()) {
        return refuse(
            "tls_cert or tls_ca",
            "tls=no",
            "certificates are for TLS; add tls=yes",
        );
    }
    let tcp = &config.groups.tcp;
    if tcp.bind.is_some() && tcp.role == Some(Role::Listen) {
        return refuse("bind", "role=listen", BIND_RULE);
    }
    let nats = &config.groups.nats;
    if nats.user.is_some() != nats.password.is_some() {
        return refuse("user", "password", "the two come together; give both");
    }
    let ways = [
        connection.token.is_some(),
        nats.user.is_some(),
        nats.nkey.is_some(),
        nats.creds.is_some(),
    ];
    if config.scheme == Scheme::Nats && ways.into_iter().filter(|given| *given).count() > 1 {
        return refuse(
            "one of token, user, nkey, creds",
            "another of them",
            "a server asks for one of them; drop the others",
        );
    }
    Ok(())
}

/// Every key with its range, and what is refused.
#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_key_round_trips_through_its_canonical_form() {
        let far = "tcp://[::1]:9000/a?expire=5s&role=connect&bind=::1&token=@/run/token&timeout=2s\
               &tls=yes&tls_cert=/etc/c.pem&tls_key=/etc/k.pem&tls_ca=/etc/ca.pem";
        let round = |uri: &str| Config::parse(uri).map(|config| config.uri());
        assert_eq!(round(far).as_deref(), Ok(far));
        let file = "file:///data/day-1.olv?from=time:2026-01-31T08:30:00.25Z&channel=ticks\
                &sync=interval:1s&rotate=1GiB,60s&compress=zstd:3&follow=yes\
                &pace=0.5x&unfinished=accept";
        assert_eq!(round(file).as_deref(), Ok(file));
        let nats = "nats://h:4222/a.b?token=@/run/token&stream=s&replicas=3&storage=memory\
                &retention=interest&max_bytes=1GiB&max_messages=9&max_age=3600s&duplicates=60s\
                &servers=g:4222,[::1]:4223";
        assert_eq!(round(nats).as_deref(), Ok(nats));
        let keys = "nats://h:4222/a?nkey=@/etc/seed";
        assert_eq!(round(keys).as_deref(), Ok(keys));
        let user = "nats://h:4222/a?user=u&password=@/etc/p";
        assert_eq!(round(user).as_deref(), Ok(user));
        let creds = "nats://h:4222/a?creds=/etc/c.creds";
        assert_eq!(round(creds).as_deref(), Ok(creds));
        let sealed = "shm+fd:///run/ticks.sock?timeout=2s&peers=0,1000";
        assert_eq!(round(sealed).as_deref(), Ok(sealed));
        let uri = "shm://a.b-c_9?capacity=64KiB&align=64&wait=spin&from=oldest&name=audit&expire=\
               30s&subscribers=3&slow=evict:500ms&publishers_max=2&subscribers_max=1024&dir=/tmp/x\
               &mode=0660&group=trading&hugepages=try&numa=0&linger=2s&cpu=1&topic=a.*,b.>";
        let config = Config::parse(uri).unwrap();
        assert_eq!(config.uri(), uri);
        for key in Config::keys().map(|key| key.name) {
            assert!(
                key == "delivery"
                    || [uri, far, file, nats, keys, user, creds, sealed]
                        .iter()
                        .any(|uri| uri.contains(&format!("{key}="))),
                "the test misses {key}"
            );
        }
    }

    #[test]
    fn ipv4_address_in_the_form_of_ipv6_binds_as_ipv4() {
        let config = Config::parse("tcp://h:1/x?bind=::ffff:192.0.2.7").unwrap();
        assert_eq!(config.uri(), "tcp://h:1/x?bind=192.0.2.7");
    }

    #[test]
    fn refusals_name_the_part_the_value_and_the_rule() {
        let cases = [
            ("ticks", "is not a channel URI"),
            ("", "is not a channel URI"),
            ("tpc://x", "unknown scheme 'tpc'"),
            ("shm://", "write shm://NAME"),
            ("shm://..", "channel name '..'"),
            ("shm://a/b", "channel name 'a/b'"),
            ("shm://a\0b", "channel name 'a\\u{0}b'"),
            (
                "shm://x?capacity=0",
                "capacity=0 is not usable: a power of two",
            ),
            ("shm://x?capacity=1000", "capacity=1000"),
            (
                "shm://x?capacity=99999999999999999999",
                "capacity=99999999999999999999",
            ),
            ("shm://x?capacity=8GiB", "capacity=8GiB"),
            ("shm://x?capacity", "capacity= is not usable"),
            ("shm://x?align=4", "align=4"),
            ("shm://x?align=4096&capacity=4096", "at least two frames"),
            ("shm://x?wait=nap", "wait=nap is not usable: one of spin"),
            ("shm://x?delivery=maybe", "delivery=maybe"),
            ("shm://x?from=yesterday", "from=yesterday"),
            ("shm://x?name=", "name= is not usable"),
            ("shm://x?name=a&expire=soon", "expire=soon"),
            ("shm://x?subscribers=-1", "subscribers=-1"),
            ("shm://x?subscribers=5000", "subscribers=5000"),
            ("shm://x?slow=evict", "slow=evict is not usable"),
            ("shm://x?slow=evict:0", "slow=evict:0"),
            ("shm://x?publishers_max=0", "publishers_max=0"),
            ("shm://x?subscribers_max=1025", "subscribers_max=1025"),
            ("shm://x?dir=relative", "dir=relative"),
            ("shm://x?mode=0777", "mode=0777"),
            ("shm://x?mode=9", "mode=9"),
            ("shm://x?mode=+660", "mode=+660"),
            ("shm://x?group=", "group= is not usable"),
            ("shm://x?hugepages=2M", "hugepages=2M"),
            ("shm://x?numa=64", "numa=64"),
            ("shm://x?linger=5", "linger=5"),
            ("shm://x?cpu=two", "cpu=two"),
            ("shm://x?cpu=+1", "cpu=+1"),
            ("shm://x?topic=", "topic= is not usable: words of"),
            ("shm://x?topic=a..b", "topic=a..b is not usable"),
            ("shm://x?topic=a.>.b", "topic=a.>.b is not usable"),
            ("shm://x?wait=spin&wait=park", "key 'wait' is given twice"),
            (
                "shm://x?speed=11",
                "unknown key 'speed': the documentation of Config",
            ),
            ("shm://x?capasity=1", "did you mean 'capacity'?"),
            (
                "shm://x?Subscribers-Max=1",
                "did you mean 'subscribers_max'?",
            ),
            ("shm://x?dup=1s", "did you mean 'duplicates'?"),
            ("shm://x?tls-cert=a", "did you mean 'tls_cert'?"),
            ("shm://x?", "unknown key ''"),
            (
                "shm://x?name=a&delivery=latest",
                "name and delivery=latest cannot be combined",
            ),
            ("shm://x?expire=1s", "expire and no name"),
            ("inproc://x?expire=1s", "expire=1s and inproc://"),
            (
                "shm://x?subscribers=9&subscribers_max=8",
                "subscribers and subscribers_max",
            ),
            ("inproc://x?dir=/tmp", "dir=/tmp and inproc://"),
            ("inproc://x?name=a", "name=a and inproc://"),
            (
                "tcp://h:1/x?role=listen&bind=127.0.0.1",
                "bind and role=listen cannot be combined",
            ),
            ("tcp://h:1/x?bind=fe80::1", "bind=fe80::1 is not usable"),
            ("tcp://h:1/x?bind=0.0.0.0", "bind=0.0.0.0 is not usable"),
            ("tcp://h:1/x?bind=224.0.0.1", "bind=224.0.0.1 is not usable"),
            ("tcp://h:1/x?bind=255.255.255.255", "is not usable"),
            ("tcp://h:1/x?bind=::ffff:0.0.0.0", "is not usable"),
            ("tcp://x", "address 'x' is not usable: the port"),
            ("tcp://:9000/x", "address ':9000' is not usable: the host"),
            ("tcp://h:70000/x", "the port must be"),
            ("tcp://h:/x", "the port must be"),
            ("tcp://::1:9000/x", "stands in brackets"),
            ("tcp://[h]:9000/x", "stands in brackets"),
            ("tcp://u@h:9000/x", "the host must be"),
            (
                "tcp://h:9000",
                "'tcp://h:9000' names no channel: write tcp://h:9000/NAME",
            ),
            ("tcp://h:9000/a/b", "channel name 'a/b'"),
            (
                "tcp://h:9/x?role=both",
                "role=both is not usable: one of listen, connect",
            ),
            ("tcp://h:9/x?token=", "token=*** is not usable: 1 to 256"),
            ("tcp://h:9/x?timeout=1ms", "timeout=1ms is not usable"),
            ("tcp://h:9/x?tls=maybe", "tls=maybe is not usable"),
            ("tcp://h:9/x?tls_ca=/a", "tls_cert or tls_ca and tls=no"),
            ("tcp://h:9/x?tls=yes&tls_key=/a", "tls_cert and tls_key"),
            ("tcp://h:9/x?tls=yes&tls_ca=a", "tls_ca=a is not usable"),
            ("shm://x?role=listen", "role=listen and shm://"),
            (
                "shm://x?channel=y",
                "channel=y is not usable: for file:// only",
            ),
            ("file:///x?group=trading", "group=trading and file://"),
            ("shm://x?sync=block", "sync=block and shm://"),
            ("shm://x?from=position:5", "from=position:5 and shm://"),
            ("file:///x?sync=maybe", "sync=maybe is not usable: block"),
            ("file:///x?rotate=1", "rotate=1 is not usable: never"),
            ("file:///x?compress=gzip", "compress=gzip is not usable: no"),
            ("file:///x?follow=true", "follow=true is not usable"),
            ("file:///x?pace=fast", "pace=fast is not usable: full"),
            (
                "file:///x?unfinished=ignore",
                "unfinished=ignore is not usable: fail or accept",
            ),
            ("file:///x?from=time:noon", "from=time:noon is not usable"),
            (
                "file:///x?from=position:-1",
                "from=position:-1 is not usable",
            ),
            ("nats:///x", "the host must be"),
            ("nats://h/a..b", "channel=a..b is not usable"),
            ("nats://h/a.", "channel=a. is not usable"),
            ("nats://h/x?stream=a.b", "stream=a.b is not usable: 1 to 64"),
            ("nats://h/x?replicas=0", "replicas=0 is not usable"),
            ("nats://h/x?replicas=+3", "replicas=+3 is not usable"),
            (
                "nats://h/x?storage=tape",
                "storage=tape is not usable: one of file",
            ),
            ("nats://h/x?retention=work", "retention=work is not usable"),
            ("nats://h/x?max_bytes=5", "max_bytes=5 is not usable"),
            ("nats://h/x?max_messages=0", "max_messages=0 is not usable"),
            (
                "nats://h/x?max_messages=1K",
                "max_messages=1K is not usable",
            ),
            ("nats://h/x?max_age=1ms", "max_age=1ms is not usable"),
            (
                "nats://h/x?max_age=1s&duplicates=2s",
                "duplicates=2s is not usable",
            ),
            ("nats://h/x?servers=", "the host must be"),
            ("nats://h/x?user=a", "user and password cannot"),
            ("nats://h/x?user=a&password=", "password=*** is not usable"),
            ("nats://h/x?creds=a", "creds=a is not usable"),
            (
                "nats://h/x?token=a&nkey=b",
                "one of token, user, nkey, creds and another",
            ),
            ("shm://x?stream=a", "stream=a and shm://"),
            ("file://relative", "path 'relative' is not usable"),
            ("file:///", "path '/' is not usable"),
            ("file:///data/.hidden", "the file's name and no channel"),
        ];
        for (uri, expected) in cases {
            let error = Config::parse(uri).expect_err(uri).to_string();
            assert!(error.contains(expected), "{uri:?} gave: {error}");
        }
        let long = format!("shm://{}", "n".repeat(65));
        assert!(
            Config::parse(&long)
                .unwrap_err()
                .to_string()
                .contains("1 to 64")
        );
    }

    #[test]
    fn close_timeout_follows_expire() {
        let of = |query: &str| {
            let config = Config::parse(&format!("tcp://h:1/c{query}")).unwrap();
            config.close_timeout()
        };
        assert_eq!(of(""), crate::uri::EXPIRE_DEFAULT);
        assert_eq!(of("?expire=5s"), Duration::from_secs(5));
    }
}
