//! The grammar of URIs, and the checks of settings that exclude each other.

#[cfg(test)]
mod tests;

use super::groups::{self, ConnectionSettings, Has as _};
use super::keys::{self, JOURNAL_RULE};
use super::remote;
use super::topic::is_topic;
use super::{Config, Delivery, End, Expire, Scheme, Start, UriError};
use std::str::FromStr;

/// The rule for `align` and `capacity`.
pub(crate) const TWO_FRAMES_RULE: &str = "the ring must hold at least two frames of 'align' bytes";

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
    if config.scheme == Scheme::Sealed && config.publishers_max.is_some_and(|count| count != 1) {
        return refuse(
            "publishers_max",
            "shm+fd://",
            "a sealed channel has one publisher, which serves its socket; give each a socket",
        );
    }
    if config.scheme != Scheme::File && matches!(config.from, Start::Time(_) | Start::Position(_)) {
        return refuse("from", "this scheme", JOURNAL_RULE);
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
