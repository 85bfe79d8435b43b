//! Settings that only `nats://` has: the stream behind a channel, and who we are to the server.

use super::parse::is_name;
use super::remote::{Address, read_address};
use super::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use super::{Config, Retention, Scheme, Storage, UriError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest user name, password or NKey seed in bytes.
const SECRET_LENGTH_MAX: usize = 256;
/// Most replicas that a server takes.
const REPLICAS_MAX: u8 = 5;
/// Most further servers of a cluster that a URI names.
const SERVERS_MAX: usize = 16;
/// Shortest and longest window in which the server knows a message again.
const DUPLICATES_RANGE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(24 * 3600));

const STREAM_RULE: &str = "1 to 64 of A-Z a-z 0-9 _ -";
const REPLICAS_RULE: &str = "a number from 1 to 5";
const STORAGE_RULE: &str = "one of file, memory";
const RETENTION_RULE: &str = "one of limits, interest";
const MAX_BYTES_RULE: &str = "a size from 4KiB, such as 1GiB";
const MAX_AGE_RULE: &str = "a duration from 100ms, such as 1h";
const DUPLICATES_RULE: &str = "a duration from 100ms to 24h, and no longer than max_age=";
const SERVERS_RULE: &str = "1 to 16 of HOST or HOST:PORT, with commas between them";
const SECRET_RULE: &str =
    "1 to 256 visible ASCII characters without '&', or @ and the path of a file with them";
const CREDS_RULE: &str = "an absolute path of a file";
const CHANNEL_RULE: &str =
    "for nats:// a channel's name is a subject: words of A-Z a-z 0-9 _ - with one '.' between them";

/// What only channels in a NATS server have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nats {
    pub(crate) stream: Option<String>,
    pub(crate) replicas: Option<u8>,
    pub(crate) storage: Option<Storage>,
    pub(crate) retention: Option<Retention>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) duplicates: Option<Duration>,
    pub(crate) servers: Vec<Address>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) nkey: Option<String>,
    pub(crate) creds: Option<PathBuf>,
}

impl Config {
    /// Stream of the server that keeps a `nats://` channel: 1 to 64 of `A-Za-z0-9_-`. Default: the stream that
    /// keeps the channel's subject, else one named after the channel, made if need be.
    pub fn stream(mut self, name: &str) -> Self {
        self.remote.nats.stream = Some(name.to_owned());
        self
    }

    /// Servers of the cluster that keep a copy of a `nats://` stream that is made: 1 to 5. Default 1.
    ///
    /// A message counts as delivered once most of them have it.
    pub fn replicas(mut self, count: u8) -> Self {
        self.remote.nats.replicas = Some(count);
        self
    }

    /// What a `nats://` stream that is made keeps its messages on. Default [`Storage::File`].
    pub fn storage(mut self, storage: Storage) -> Self {
        self.remote.nats.storage = Some(storage);
        self
    }

    /// How long a `nats://` stream that is made keeps a message. Default [`Retention::Limits`].
    pub fn retention(mut self, retention: Retention) -> Self {
        self.remote.nats.retention = Some(retention);
        self
    }

    /// Bytes that a `nats://` stream that is made may hold, from 4 KiB. Default: as the server allows.
    ///
    /// A full stream refuses messages, so that publishers wait; it never drops what is unread.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.remote.nats.max_bytes = Some(bytes);
        self
    }

    /// Age at which a `nats://` stream that is made deletes a message, read or not, from 100 ms. Default: never.
    ///
    /// A subscriber that comes too late is told that messages are missing.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.remote.nats.max_age = Some(age);
        self
    }

    /// How long the server of a `nats://` stream that is made knows a message again that is sent twice: 100 ms to
    /// 24 h. Default 2 min, or `max_age` if that is shorter.
    ///
    /// Subscribers of this library know repeats by themselves, for ever; the window is for others.
    pub fn duplicates(mut self, window: Duration) -> Self {
        self.remote.nats.duplicates = Some(window);
        self
    }

    /// One more server of the same cluster, at most 16, tried when the first is not there.
    pub fn server(mut self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        self.remote.nats.servers.push(Address { host, port });
        self
    }

    /// User name for a `nats://` server; `@PATH` reads it from a file. Default: `$NATS_USER`.
    pub fn user(mut self, name: &str) -> Self {
        self.remote.nats.user = Some(name.to_owned());
        self
    }

    /// Password of [`Config::user`]; `@PATH` reads it from a file. Default: `$NATS_PASSWORD`.
    pub fn password(mut self, password: &str) -> Self {
        self.remote.nats.password = Some(password.to_owned());
        self
    }

    /// Seed of an NKey for a `nats://` server; `@PATH` reads it from a file. Default: the file `$NATS_NKEY`.
    pub fn nkey(mut self, seed: &str) -> Self {
        self.remote.nats.nkey = Some(seed.to_owned());
        self
    }

    /// File with a JWT and its NKey for a `nats://` server. Default: the file `$NATS_CREDS`.
    pub fn creds(mut self, path: impl Into<PathBuf>) -> Self {
        self.remote.nats.creds = Some(path.into());
        self
    }
}

/// Sets `key` if it is one of ours; `false` if it is not.
pub(super) fn set(config: &mut Config, key: &str, value: &str) -> Result<bool, UriError> {
    let refused = |key, rule| UriError::Value {
        key,
        value: value.escape_default().to_string(),
        rule,
    };
    let nats = &mut config.remote.nats;
    let own = || Some(value.to_owned());
    match key {
        "stream" => nats.stream = own(),
        "replicas" => {
            let digits = value.bytes().all(|b| b.is_ascii_digit());
            let count = digits.then(|| value.parse().ok()).flatten();
            nats.replicas = Some(count.ok_or_else(|| refused("replicas", REPLICAS_RULE))?);
        }
        "storage" => {
            let storage = value.parse().map_err(|_| refused("storage", STORAGE_RULE));
            nats.storage = Some(storage?);
        }
        "retention" => {
            let kept = value.parse();
            nats.retention = Some(kept.map_err(|_| refused("retention", RETENTION_RULE))?);
        }
        "max_bytes" => {
            let bytes = parse_bytes(value);
            nats.max_bytes = Some(bytes.ok_or_else(|| refused("max_bytes", MAX_BYTES_RULE))?);
        }
        "max_age" => {
            let age = parse_duration(value);
            nats.max_age = Some(age.ok_or_else(|| refused("max_age", MAX_AGE_RULE))?);
        }
        "duplicates" => {
            let window = parse_duration(value);
            nats.duplicates = Some(window.ok_or_else(|| refused("duplicates", DUPLICATES_RULE))?);
        }
        "servers" => {
            let all = value
                .split(',')
                .map(|text| read_address(Scheme::Nats, text));
            nats.servers = all.collect::<Result<_, _>>()?;
        }
        "user" => nats.user = own(),
        "password" => nats.password = own(),
        "nkey" => nats.nkey = own(),
        "creds" => nats.creds = Some(value.into()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The value of `key` as a URI shows it; `None` where it is the default. Secrets are not shown.
pub(super) fn show(config: &Config, key: &str) -> Option<String> {
    let nats = &config.remote.nats;
    let secret = |secret: &Option<String>| {
        let secret = secret.as_deref()?;
        Some(
            if secret.starts_with('@') {
                secret
            } else {
                "***"
            }
            .to_owned(),
        )
    };
    match key {
        "stream" => nats.stream.clone(),
        "replicas" => nats.replicas.map(|count| count.to_string()),
        "storage" => nats.storage.map(|storage| storage.to_string()),
        "retention" => nats.retention.map(|retention| retention.to_string()),
        "max_bytes" => nats.max_bytes.map(show_bytes),
        "max_age" => nats.max_age.map(show_duration),
        "duplicates" => nats.duplicates.map(show_duration),
        "servers" => {
            let all: Vec<_> = nats.servers.iter().map(ToString::to_string).collect();
            (!all.is_empty()).then(|| all.join(","))
        }
        "user" => nats.user.clone(),
        "password" => secret(&nats.password),
        "nkey" => secret(&nats.nkey),
        "creds" => nats.creds.as_ref().map(|path| path.display().to_string()),
        _ => None,
    }
}

/// Checks ranges and pairs.
pub(super) fn validate(config: &Config) -> Result<(), UriError> {
    let nats = &config.remote.nats;
    let pair = |first, second, rule| {
        Err(UriError::Pair {
            first,
            second,
            rule,
        })
    };
    if config.scheme() != Scheme::Nats {
        if *nats == Nats::default() {
            return Ok(());
        }
        return pair(
            "stream, replicas, storage, retention, max_bytes, max_age, duplicates, servers, user, password, nkey or creds",
            "this scheme",
            "only a channel in a NATS server has it; use nats://, or drop it",
        );
    }
    let words = config.channel().split('.');
    if words.into_iter().any(str::is_empty) {
        return Err(UriError::Value {
            key: "channel",
            value: config.channel().escape_default().to_string(),
            rule: CHANNEL_RULE,
        });
    }
    let is_stream = |name: &str| is_name(name, 64) && !name.contains('.');
    let is_secret = |secret: &str| {
        let visible = |b: u8| b.is_ascii_graphic() && b != b'&';
        (1..=SECRET_LENGTH_MAX).contains(&secret.len())
            && secret.bytes().all(visible)
            && secret != "@"
    };
    let window = nats.duplicates.is_none_or(|window| {
        (DUPLICATES_RANGE.0..=DUPLICATES_RANGE.1).contains(&window)
            && nats.max_age.is_none_or(|age| window <= age)
    });
    let creds = nats.creds.as_deref().and_then(Path::to_str);
    let is_file = |path: &str| path.starts_with('/') && !path.contains(char::is_control);
    let holds = [
        (
            "stream",
            nats.stream.as_deref().is_none_or(is_stream),
            STREAM_RULE,
        ),
        (
            "replicas",
            nats.replicas
                .is_none_or(|count| (1..=REPLICAS_MAX).contains(&count)),
            REPLICAS_RULE,
        ),
        (
            "max_bytes",
            nats.max_bytes
                .is_none_or(|bytes| (4096..=i64::MAX as u64).contains(&bytes)),
            MAX_BYTES_RULE,
        ),
        (
            "max_age",
            nats.max_age.is_none_or(|age| age >= DUPLICATES_RANGE.0),
            MAX_AGE_RULE,
        ),
        ("duplicates", window, DUPLICATES_RULE),
        ("servers", nats.servers.len() <= SERVERS_MAX, SERVERS_RULE),
        (
            "user",
            nats.user.as_deref().is_none_or(is_secret),
            SECRET_RULE,
        ),
        (
            "password",
            nats.password.as_deref().is_none_or(is_secret),
            SECRET_RULE,
        ),
        (
            "nkey",
            nats.nkey.as_deref().is_none_or(is_secret),
            SECRET_RULE,
        ),
        (
            "creds",
            nats.creds.is_none() || creds.is_some_and(is_file),
            CREDS_RULE,
        ),
    ];
    if let Some((key, _, rule)) = holds.into_iter().find(|(_, holds, _)| !holds) {
        return Err(UriError::Value {
            key,
            value: show(config, key)
                .unwrap_or_default()
                .escape_default()
                .to_string(),
            rule,
        });
    }
    if nats.user.is_some() != nats.password.is_some() {
        return pair("user", "password", "the two come together; give both");
    }
    let ways = [
        config.remote.token.is_some(),
        nats.user.is_some(),
        nats.nkey.is_some(),
        nats.creds.is_some(),
    ];
    if ways.into_iter().filter(|given| *given).count() > 1 {
        return pair(
            "one of token, user, nkey, creds",
            "another of them",
            "a server asks for one of them; drop the others",
        );
    }
    Ok(())
}
