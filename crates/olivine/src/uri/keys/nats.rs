//! The keys that only `nats://` has: the stream behind a channel, and the client's credentials.

use crate::uri::key::{Schemes, given, is_secret, is_within, keys, path, secret, whole, word};
use crate::uri::parse::is_name;
use crate::uri::remote::read_address;
use crate::uri::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use crate::uri::{NatsSettings, Retention, Scheme, Storage};
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
};

keys! { KEYS {
    /// Stream of the server that keeps a `nats://` channel.
    stream(nats: NatsSettings, name: &str) in NatsSettings {
        getter: get_stream -> Option<&str> = nats.stream.as_deref(),
        value: "NAME", schemes: NATS, end: Both,
        default: "the stream that keeps the channel's subject, else a new one with the channel's \
                  name",
        rule: "1 to 64 of A-Z a-z 0-9 _ -",
        read: Some, put: nats.stream = Some(name.to_owned()),
        show: nats.stream.clone(),
        holds: {
            let name = nats.stream.as_deref();
            name.is_none_or(|name| is_name(name, 64) && !name.contains('.'))
        },
    }

    /// Servers of the cluster that keep a copy of a new `nats://` stream.
    ///
    /// A message counts as delivered once most of them have it.
    replicas(nats: NatsSettings, count: u8) in NatsSettings {
        getter: get_replicas -> Option<u8> = nats.replicas,
        value: "COUNT", schemes: NATS, end: Both,
        default: "1", rule: "a number from 1 to 5",
        read: whole, put: nats.replicas = Some(count),
        show: given(&nats.replicas),
        holds: is_within(nats.replicas, (1, 5)),
    }

    /// Where a new `nats://` stream stores its messages.
    storage(nats: NatsSettings, storage: Storage) in NatsSettings {
        getter: get_storage -> Option<Storage> = nats.storage,
        value: "KIND", schemes: NATS, end: Both,
        default: "file", rule: "one of file, memory",
        read: word, put: nats.storage = Some(storage),
        show: given(&nats.storage),
    }

    /// How long a new `nats://` stream keeps a message.
    retention(nats: NatsSettings, retention: Retention) in NatsSettings {
        getter: get_retention -> Option<Retention> = nats.retention,
        value: "POLICY", schemes: NATS, end: Both,
        default: "limits", rule: "one of limits, interest",
        read: word, put: nats.retention = Some(retention),
        show: given(&nats.retention),
    }

    /// Largest size of a new `nats://` stream in bytes.
    ///
    /// A full stream refuses messages: publishers wait, and no unread message is dropped.
    max_bytes(nats: NatsSettings, bytes: u64) in NatsSettings {
        getter: get_max_bytes -> Option<u64> = nats.max_bytes,
        value: "BYTES", schemes: NATS, end: Both,
        default: "as the server allows", rule: "a size from 4KiB, such as 1GiB",
        read: parse_bytes, put: nats.max_bytes = Some(bytes),
        show: nats.max_bytes.map(show_bytes),
        holds: is_within(nats.max_bytes, (4096, i64::MAX as u64)),
    }

    /// Largest number of messages in a new `nats://` stream.
    ///
    /// A full stream refuses messages: publishers wait, and no unread message is dropped.
    max_messages(nats: NatsSettings, count: u64) in NatsSettings {
        getter: get_max_messages -> Option<u64> = nats.max_messages,
        value: "COUNT", schemes: NATS, end: Both,
        default: "as the server allows", rule: "a number above 0, such as 1000000",
        read: whole, put: nats.max_messages = Some(count),
        show: given(&nats.max_messages),
        holds: is_within(nats.max_messages, (1, i64::MAX as u64)),
    }

    /// Age at which a new `nats://` stream deletes a message, read or not.
    ///
    /// A subscriber gets an error about missing messages after the messages that it has. It gets no
    /// error about missing messages of other programs.
    max_age(nats: NatsSettings, age: Duration) in NatsSettings {
        getter: get_max_age -> Option<Duration> = nats.max_age,
        value: "DURATION", schemes: NATS, end: Both,
        default: "never", rule: "a duration from 100ms, such as 1h",
        read: parse_duration, put: nats.max_age = Some(age),
        show: nats.max_age.map(show_duration),
        holds: nats.max_age.is_none_or(|age| age >= DUPLICATES_RANGE.0),
    }

    /// How long the server of a new `nats://` stream recognizes a message sent twice.
    ///
    /// Subscribers of this library recognize repeated messages of up to `publishers_max`
    /// publishers; the window is for others.
    duplicates(nats: NatsSettings, window: Duration) in NatsSettings {
        getter: get_duplicates -> Option<Duration> = nats.duplicates,
        value: "DURATION", schemes: NATS, end: Both,
        default: "2m, or max_age= if that is shorter",
        rule: "a duration from 100ms to 24h, and no longer than max_age=",
        read: parse_duration, put: nats.duplicates = Some(window),
        show: nats.duplicates.map(show_duration),
        holds: {
            let (window, age) = (nats.duplicates, nats.max_age);
            is_within(window, DUPLICATES_RANGE) && age.is_none_or(|age| window <= Some(age))
        },
    }

    /// Further servers of the same cluster, tried when the first does not answer.
    servers(nats: NatsSettings) in NatsSettings {
        getter: get_servers -> impl Iterator<Item = (&str, u16)> =
            nats.servers.iter().map(|server| (&*server.host, server.port)),
        value: "SERVERS", schemes: NATS, end: Both,
        default: "none", rule: "1 to 16 of HOST or HOST:PORT, with commas between them",
        set: |nats, text| {
            let servers = text.split(',').map(|server| read_address(Scheme::Nats, server));
            nats.servers = servers.collect::<Result<_, _>>()?;
            Ok(())
        },
        show: {
            let servers = nats.servers.iter();
            let servers: Vec<_> = servers.map(ToString::to_string).collect();
            (!servers.is_empty()).then(|| servers.join(","))
        },
        holds: nats.servers.len() <= SERVERS_MAX,
    }

    /// User name for a `nats://` server; `@PATH` reads it from a file of at most 4 KiB.
    user(nats: NatsSettings, name: &str) in NatsSettings {
        getter: get_user -> Option<&str> = nats.user.as_deref(),
        value: "NAME", schemes: NATS, end: Both,
        default: "$NATS_USER",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: nats.user = Some(name.to_owned()),
        show: nats.user.clone(),
        holds: nats.user.as_deref().is_none_or(is_secret),
    }

    /// Password of `user`; `@PATH` reads it from a file of at most 4 KiB.
    password(nats: NatsSettings, password: &str) in NatsSettings {
        getter: get_password -> Option<&str> = nats.password.as_deref(),
        value: "WORD", schemes: NATS, end: Both,
        default: "$NATS_PASSWORD",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: nats.password = Some(password.to_owned()),
        show: secret(&nats.password),
        holds: nats.password.as_deref().is_none_or(is_secret),
    }

    /// Seed of an NKey for a `nats://` server; `@PATH` reads it from a file of at most 4 KiB.
    nkey(nats: NatsSettings, seed: &str) in NatsSettings {
        getter: get_nkey -> Option<&str> = nats.nkey.as_deref(),
        value: "SEED", schemes: NATS, end: Both,
        default: "the file $NATS_NKEY",
        rule: "1 to 256 visible ASCII characters without '&', or @ and the path of a file with \
               them",
        read: Some, put: nats.nkey = Some(seed.to_owned()),
        show: secret(&nats.nkey),
        holds: nats.nkey.as_deref().is_none_or(is_secret),
    }

    /// File with a JWT and its NKey for a `nats://` server, of at most 1 MiB.
    creds(nats: NatsSettings, file: impl Into<PathBuf>) in NatsSettings {
        getter: get_creds -> Option<&Path> = nats.creds.as_deref(),
        value: "PATH", schemes: NATS, end: Both,
        default: "the file $NATS_CREDS", rule: "an absolute path of a file",
        read: Some, put: nats.creds = Some(file.into()),
        show: path(&nats.creds),
        holds: {
            let file = nats.creds.as_deref();
            let is_file = |path: &str| path.starts_with('/') && !path.contains(char::is_control);
            file.is_none_or(|file| Path::to_str(file).is_some_and(is_file))
        },
    }
} }
