//! The keys that only `nats://` has: the stream behind a channel, and the client's credentials.

use crate::uri::key::{Schemes, given, is_secret, is_within, keys, path, secret, whole, word};
use crate::uri::parse::is_name;
use crate::uri::remote::read_address;
use crate::uri::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use crate::uri::{Retention, Scheme, Storage};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most further servers of a cluster that a URI names.
const SERVERS_MAX: usize = 16;
/// Shortest and longest window in which the server recognizes a repeated message.
const DUPLICATES_RANGE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(24 * 3600));

const NATS: Schemes = Schemes {
    has: &[Scheme::Nats],
    refusals: &[(
        "this scheme",
        "only a channel in a NATS server has it; use nats://, or drop it",
    )],
    listed: true,
};

keys! { KEYS {
    /// Stream of the server that keeps a `nats://` channel.
    stream(config, name: &str) {
        value: "NAME", schemes: NATS, end: Both,
        default: "the stream that keeps the channel's subject, else a new one with the channel's \
                  name",
        rule: "1 to 64 of A-Z a-z 0-9 _ -",
        read: Some, put: config.remote.nats.stream = Some(name.to_owned()),
        show: |config| config.remote.nats.stream.clone(),
        holds: |config| {
            let name = config.remote.nats.stream.as_deref();
            name.is_none_or(|name| is_name(name, 64) && !name.contains('.'))
        },
    }

    /// Servers of the cluster that keep a copy of a new `nats://` stream.
    ///
    /// A message counts as delivered once most of them have it.
    replicas(config, count: u8) {
        value: "COUNT", schemes: NATS, end: Both,
        default: "1", rule: "a number from 1 to 5",
        read: whole, put: config.remote.nats.replicas = Some(count),
        show: |config| given(&config.remote.nats.replicas),
        holds: |config| is_within(config.remote.nats.replicas, (1, 5)),
    }

    /// Where a new `nats://` stream stores its messages.
    storage(config, storage: Storage) {
        value: "KIND", schemes: NATS, end: Both,
        default: "file", rule: "one of file, memory",
        read: word, put: config.remote.nats.storage = Some(storage),
        show: |config| given(&config.remote.nats.storage),
    }

    /// How long a new `nats://` stream keeps a message.
    retention(config, retention: Retention) {
        value: "POLICY", schemes: NATS, end: Both,
        default: "limits", rule: "one of limits, interest",
        read: word, put: config.remote.nats.retention = Some(retention),
        show: |config| given(&config.remote.nats.retention),
    }

    /// Largest size of a new `nats://` stream in bytes.
    ///
    /// A full stream refuses messages: publishers wait, and no unread message is dropped.
    max_bytes(config, bytes: u64) {
        value: "BYTES", schemes: NATS, end: Both,
        default: "as the server allows", rule: "a size from 4KiB, such as 1GiB",
        read: parse_bytes, put: config.remote.nats.max_bytes = Some(bytes),
        show: |config| config.remote.nats.max_bytes.map(show_bytes),
        holds: |config| is_within(config.remote.nats.max_bytes, (4096, i64::MAX as u64)),
    }

    /// Age at which a new `nats://` stream deletes a message, read or not.
    ///
    /// A subscriber gets an error about missing messages after the messages that it has. It gets no
    /// error about missing messages of other programs.
    max_age(config, age: Duration) {
        value: "DURATION", schemes: NATS, end: Both,
        default: "never", rule: "a duration from 100ms, such as 1h",
        read: parse_duration, put: config.remote.nats.max_age = Some(age),
        show: |config| config.remote.nats.max_age.map(show_duration),
        holds: |config| config.remote.nats.max_age.is_none_or(|age| age >= DUPLICATES_RANGE.0),
    }

    /// How long the server of a new `nats://` stream recognizes a message sent twice.
    ///
    /// Subscribers of this library recognize repeated messages of up to `publishers_max`
    /// publishers; the window is for others.
    duplicates(config, window: Duration) {
        value: "DURATION", schemes: NATS, end: Both,
        default: "2m, or max_age= if that is shorter",
        rule: "a duration from 100ms to 24h, and no longer than max_age=",
        read: parse_duration, put: config.remote.nats.duplicates = Some(window),
        show: |config| config.remote.nats.duplicates.map(show_duration),
        holds: |config| {
            let (window, age) = (config.remote.nats.duplicates, config.remote.nats.max_age);
            is_within(window, DUPLICATES_RANGE) && age.is_none_or(|age| window <= Some(age))
        },
    }

    /// Further servers of the same cluster, tried when the first does not answer.
    servers() {
        value: "SERVERS", schemes: NATS, end: Both,
        default: "none", rule: "1 to 16 of HOST or HOST:PORT, with commas between them",
        set: |config, text| {
            let servers = text.split(',').map(|server| read_address(Scheme::Nats, server));
            config.remote.nats.servers = servers.collect::<Result<_, _>>()?;
            Ok(())
        },
        show: |config| {
            let servers = config.remote.nats.servers.iter();
            let servers: Vec<_> = servers.map(ToString::to_string).collect();
            (!servers.is_empty()).then(|| servers.join(","))
        },
        holds: |config| config.remote.nats.servers.len() <= SERVERS_MAX,
    }

    /// User name for a `nats://` server; `@PATH` reads it from a file of at most 4 KiB.
    user(config, name: &str) {
        value: "NAME", schemes: NATS, end: Both,
        default: "$NATS_USER",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: config.remote.nats.user = Some(name.to_owned()),
        show: |config| config.remote.nats.user.clone(),
        holds: |config| config.remote.nats.user.as_deref().is_none_or(is_secret),
    }

    /// Password of `user`; `@PATH` reads it from a file of at most 4 KiB.
    password(config, password: &str) {
        value: "WORD", schemes: NATS, end: Both,
        default: "$NATS_PASSWORD",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: config.remote.nats.password = Some(password.to_owned()),
        show: |config| secret(&config.remote.nats.password),
        holds: |config| config.remote.nats.password.as_deref().is_none_or(is_secret),
    }

    /// Seed of an NKey for a `nats://` server; `@PATH` reads it from a file of at most 4 KiB.
    nkey(config, seed: &str) {
        value: "SEED", schemes: NATS, end: Both,
        default: "the file $NATS_NKEY",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: config.remote.nats.nkey = Some(seed.to_owned()),
        show: |config| secret(&config.remote.nats.nkey),
        holds: |config| config.remote.nats.nkey.as_deref().is_none_or(is_secret),
    }

    /// File with a JWT and its NKey for a `nats://` server, of at most 1 MiB.
    creds(config, file: impl Into<PathBuf>) {
        value: "PATH", schemes: NATS, end: Both,
        default: "the file $NATS_CREDS", rule: "an absolute path of a file",
        read: Some, put: config.remote.nats.creds = Some(file.into()),
        show: |config| path(&config.remote.nats.creds),
        holds: |config| {
            let file = config.remote.nats.creds.as_deref();
            let is_file = |path: &str| path.starts_with('/') && !path.contains(char::is_control);
            file.is_none_or(|file| Path::to_str(file).is_some_and(is_file))
        },
    }
} }
