//! The grammar of URIs, one arm a key: reading, printing and checking a setting stand together.

#[cfg(test)]
mod tests;

use super::values::{parse_bytes, parse_duration, show_bytes, show_duration};
use super::{
    CAPACITY_RANGE, Config, Delivery, Expire, NAME_LENGTH_MAX, PUBLISHERS_LIMIT, SUBSCRIBERS_LIMIT,
    Scheme, Slow, Start, UriError, nats,
    remote::{self, TIMEOUT_RANGE, is_token, show_token},
    topic::Filter,
};
use std::str::FromStr;

/// Every key, in canonical order.
pub(super) const KEYS: &[&str] = &[
    "capacity",
    "align",
    "wait",
    "delivery",
    "from",
    "name",
    "expire",
    "subscribers",
    "slow",
    "publishers_max",
    "subscribers_max",
    "dir",
    "mode",
    "group",
    "hugepages",
    "numa",
    "linger",
    "cpu",
    "topic",
    "channel",
    "role",
    "token",
    "timeout",
    "peers",
    "tls",
    "tls_cert",
    "tls_key",
    "tls_ca",
    "sync",
    "rotate",
    "compress",
    "follow",
    "pace",
    "unfinished",
    "stream",
    "replicas",
    "storage",
    "retention",
    "max_bytes",
    "max_age",
    "duplicates",
    "servers",
    "user",
    "password",
    "nkey",
    "creds",
];

const CAPACITY_RULE: &str = "a power of two from 4KiB to 2GiB, such as 64KiB or 1MiB";
const ALIGN_RULE: &str = "a power of two from 8 to 4096";
const WAIT_RULE: &str = "one of spin, yield, park, adaptive";
const DELIVERY_RULE: &str = "one of reliable, latest";
const FROM_RULE: &str = "one of now, oldest, or for file:// time:DATE such as time:2026-01-31T08:30:00Z, or position:BYTES";
const NAME_RULE: &str = "1 to 48 of A-Z a-z 0-9 . _ -";
const EXPIRE_RULE: &str = "never, or a duration such as 30s";
const SUBSCRIBERS_RULE: &str = "a number from 0 to 1024";
const SLOW_RULE: &str = "wait, or evict:DURATION with a duration above 0 such as evict:500ms";
const PUBLISHERS_MAX_RULE: &str = "a number from 1 to 256";
const SUBSCRIBERS_MAX_RULE: &str = "a number from 1 to 1024";
const DIR_RULE: &str = "an absolute path without control characters, '&' or '?'";
const MODE_RULE: &str = "octal permission bits from 0600 to 0666 that keep 0600, such as 0660";
const GROUP_RULE: &str = "a group name of this machine";
const HUGEPAGES_RULE: &str = "one of no, try, require";
const NUMA_RULE: &str = "a node number from 0 to 63";
const LINGER_RULE: &str = "a duration such as 500ms, 2s or 1m";
const CPU_RULE: &str = "a CPU number from 0 to 1023";
const TOPIC_RULE: &str = "words of A-Z a-z 0-9 _ - joined by dots, such as orders.eu.created, 128 bytes at most; for subscribers also filters with * for a word and > for the rest, 16 at most, separated by commas";
pub(crate) const TOPIC_OF_PUBLISHER_RULE: &str = "a publisher has one topic without * and >, such as orders.eu.created; filters are for subscribers";
const CHANNEL_RULE: &str = "for file:// only: 1 to 64 of A-Z a-z 0-9 . _ -";
const ROLE_RULE: &str = "one of listen, connect";
const TOKEN_RULE: &str = "1 to 256 visible ASCII characters, or @ and the path of a file with them";
const TIMEOUT_RULE: &str = "a duration from 100ms to 1h";
const PEERS_RULE: &str = "own, any, or up to 32 user ids such as 1000,1001";
const TLS_RULE: &str = "one of yes, no";
const SYNC_RULE: &str = "block, never, or interval:DURATION such as interval:1s";
const ROTATE_RULE: &str =
    "never, a size from 4KiB such as 1GiB, a duration such as 1h, or both as 1GiB,1h";
const COMPRESS_RULE: &str = "no, zstd, or zstd:LEVEL with a level from 1 to 19";
const FOLLOW_RULE: &str = "one of yes, no";
const UNFINISHED_RULE: &str = "fail or accept";
const PACE_RULE: &str = "full, original, or a factor such as 2x or 0.5x";
const FILE_RULE: &str = "an absolute path of a file";

/// Reads a whole URI, and settings as if they stood at its end.
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
        set(&mut config, key, value)?;
    }
    validate(&config)?;
    Ok(config)
}

/// Whether `text` consists of 1 to `longest` name characters and is no dot file.
pub(super) fn is_name(text: &str, longest: usize) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=longest).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.')
}

fn check_channel(name: &str) -> Result<(), UriError> {
    if is_name(name, 64) {
        return Ok(());
    }
    Err(UriError::Name {
        name: name.escape_default().to_string(),
    })
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), UriError> {
    // One parser for all values: `None` from it means "refused", with the key's own rule.
    fn read<T>(
        key: &'static str,
        value: &str,
        rule: &'static str,
        parsed: Option<T>,
    ) -> Result<T, UriError> {
        parsed.ok_or_else(|| UriError::Value {
            key,
            value: value.escape_default().to_string(),
            rule,
        })
    }
    fn whole(value: &str) -> Option<u32> {
        value
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| value.parse().ok())?
    }
    fn yes_or_no(value: &str) -> Option<bool> {
        match value {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
    match key {
        "capacity" => {
            config.capacity = Some(read("capacity", value, CAPACITY_RULE, parse_bytes(value))?)
        }
        "align" => config.align = Some(read("align", value, ALIGN_RULE, parse_bytes(value))?),
        "wait" => config.wait = read("wait", value, WAIT_RULE, value.parse().ok())?,
        "delivery" => config.delivery = read("delivery", value, DELIVERY_RULE, value.parse().ok())?,
        "from" => config.from = read("from", value, FROM_RULE, value.parse().ok())?,
        "name" => config.name = Some(value.to_owned()),
        "expire" => config.expire = read("expire", value, EXPIRE_RULE, value.parse().ok())?,
        "subscribers" => {
            config.subscribers = read("subscribers", value, SUBSCRIBERS_RULE, whole(value))?
        }
        "slow" => config.slow = Some(read("slow", value, SLOW_RULE, value.parse().ok())?),
        "publishers_max" => {
            config.publishers_max = Some(read(
                "publishers_max",
                value,
                PUBLISHERS_MAX_RULE,
                whole(value),
            )?);
        }
        "subscribers_max" => {
            config.subscribers_max = Some(read(
                "subscribers_max",
                value,
                SUBSCRIBERS_MAX_RULE,
                whole(value),
            )?);
        }
        "dir" => config.dir = Some(value.into()),
        "mode" => {
            let octal = value
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| u32::from_str_radix(value, 8).ok());
            config.mode = Some(read("mode", value, MODE_RULE, octal.flatten())?);
        }
        "group" => config.group = Some(value.to_owned()),
        "hugepages" => {
            config.hugepages = read("hugepages", value, HUGEPAGES_RULE, value.parse().ok())?
        }
        "numa" => config.numa = Some(read("numa", value, NUMA_RULE, whole(value))?),
        "linger" => config.linger = read("linger", value, LINGER_RULE, parse_duration(value))?,
        "cpu" => config.cpu = Some(read("cpu", value, CPU_RULE, whole(value))?),
        "topic" => config.topic = Some(value.to_owned()),
        "channel" => {
            let fits = config.scheme() == Scheme::File && is_name(value, 64);
            config.channel = read(
                "channel",
                value,
                CHANNEL_RULE,
                fits.then(|| value.to_owned()),
            )?;
            config.remote.named = true;
        }
        "role" => config.remote.role = Some(read("role", value, ROLE_RULE, value.parse().ok())?),
        "token" => config.remote.token = Some(value.to_owned()),
        "timeout" => {
            config.remote.timeout =
                Some(read("timeout", value, TIMEOUT_RULE, parse_duration(value))?);
        }
        "peers" => config.remote.peers = read("peers", value, PEERS_RULE, value.parse().ok())?,
        "tls" => config.remote.tls = read("tls", value, TLS_RULE, yes_or_no(value))?,
        "tls_cert" => config.remote.tls_cert = Some(value.into()),
        "tls_key" => config.remote.tls_key = Some(value.into()),
        "tls_ca" => config.remote.tls_ca = Some(value.into()),
        "sync" => config.remote.sync = Some(read("sync", value, SYNC_RULE, value.parse().ok())?),
        "rotate" => {
            config.remote.rotate = Some(read("rotate", value, ROTATE_RULE, value.parse().ok())?);
        }
        "compress" => {
            let how = read("compress", value, COMPRESS_RULE, value.parse().ok())?;
            config.remote.compress = Some(how);
        }
        "follow" => config.remote.follow = read("follow", value, FOLLOW_RULE, yes_or_no(value))?,
        "pace" => config.remote.pace = Some(read("pace", value, PACE_RULE, value.parse().ok())?),
        "unfinished" => {
            config.remote.unfinished = Some(read(
                "unfinished",
                value,
                UNFINISHED_RULE,
                value.parse().ok(),
            )?)
        }
        _ if nats::set(config, key, value)? => {}
        _ => {
            return Err(UriError::UnknownKey {
                key: key.escape_default().to_string(),
                hint: nearest(key)
                    .map_or_else(String::new, |meant| format!("did you mean '{meant}'? ")),
                known: KEYS.join(", "),
            });
        }
    }
    Ok(())
}

/// The key that was probably meant by one that does not exist: one letter in three may be wrong, or the rest missing.
fn nearest(key: &str) -> Option<&'static str> {
    let longest = KEYS.iter().map(|known| known.len()).max().unwrap_or(0);
    if key.len() < 2 || key.len() > longest * 2 {
        return None;
    }
    let key = key.to_ascii_lowercase().replace('-', "_");
    let (distance, meant) = KEYS
        .iter()
        .map(|known| (edits(&key, known), *known))
        .min_by_key(|(distance, _)| *distance)?;
    let begins = |known: &&&str| key.len() > 2 && known.starts_with(&key);
    if distance * 3 <= key.len() {
        Some(meant)
    } else {
        KEYS.iter().find(begins).copied()
    }
}

/// Letters to put in, take out or change to make one word the other.
///
/// # Source
///
/// The distance of Levenshtein, row by row.
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (taken, ours) in from.bytes().enumerate() {
        let mut corner = taken;
        let mut left = taken + 1;
        let mut next = vec![left];
        for (above, theirs) in row.iter().skip(1).zip(to.bytes()) {
            left = (corner + usize::from(ours != theirs))
                .min(left + 1)
                .min(above + 1);
            corner = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// The value of `key` as a URI shows it; `None` where it is the default.
pub(super) fn show(config: &Config, key: &str) -> Option<String> {
    fn unless_default<T: Default + PartialEq + ToString>(value: &T) -> Option<String> {
        (*value != T::default()).then(|| value.to_string())
    }
    match key {
        "capacity" => config.capacity.map(show_bytes),
        "align" => config.align.map(|bytes| bytes.to_string()),
        "wait" => unless_default(&config.wait),
        "delivery" => unless_default(&config.delivery),
        "from" => {
            (config.from != Start::default_of(config.scheme())).then(|| config.from.to_string())
        }
        "name" => config.name.clone(),
        "expire" => unless_default(&config.expire),
        "subscribers" => unless_default(&config.subscribers),
        "slow" => config.slow.map(|slow| slow.to_string()),
        "publishers_max" => config.publishers_max.map(|count| count.to_string()),
        "subscribers_max" => config.subscribers_max.map(|count| count.to_string()),
        "dir" => config.dir.as_ref().map(|dir| dir.display().to_string()),
        "mode" => config.mode.map(|bits| format!("{bits:04o}")),
        "group" => config.group.clone(),
        "hugepages" => unless_default(&config.hugepages),
        "numa" => config.numa.map(|node| node.to_string()),
        "linger" => (!config.linger.is_zero()).then(|| show_duration(config.linger)),
        "cpu" => config.cpu.map(|cpu| cpu.to_string()),
        "topic" => config.topic.clone(),
        "channel" => {
            let given = config.scheme() == Scheme::File && config.remote.named;
            given.then(|| config.channel().to_owned())
        }
        "role" => config.remote.role.map(|role| role.to_string()),
        "token" => show_token(config),
        "timeout" => config.remote.timeout.map(show_duration),
        "peers" => unless_default(&config.remote.peers),
        "tls" => config.remote.tls.then(|| "yes".to_owned()),
        "tls_cert" => show_path(config.remote.tls_cert.as_deref()),
        "tls_key" => show_path(config.remote.tls_key.as_deref()),
        "tls_ca" => show_path(config.remote.tls_ca.as_deref()),
        "sync" => config.remote.sync.map(|policy| policy.to_string()),
        "rotate" => config.remote.rotate.map(|when| when.to_string()),
        "compress" => config.remote.compress.map(|how| how.to_string()),
        "follow" => config.remote.follow.then(|| "yes".to_owned()),
        "pace" => config.remote.pace.map(|pace| pace.to_string()),
        "unfinished" => config.remote.unfinished.map(|choice| choice.to_string()),
        _ => nats::show(config, key),
    }
}

fn show_path(path: Option<&std::path::Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Checks ranges and pairs; every rule that `set` could not know from the value's form.
pub(super) fn validate(config: &Config) -> Result<(), UriError> {
    remote::validate(config)?;
    nats::validate(config)?;
    check_channel(config.channel())?;
    let refuse = |key: &'static str, rule: &'static str| {
        let value = show(config, key).unwrap_or_default();
        Err(UriError::Value {
            key,
            value: value.escape_default().to_string(),
            rule,
        })
    };
    let power = |value: Option<u64>, low: u64, high: u64| {
        value.is_none_or(|n| n.is_power_of_two() && (low..=high).contains(&n))
    };
    let within = |value: Option<u32>, low: u64, high: u64| {
        value.is_none_or(|n| (low..=high).contains(&u64::from(n)))
    };
    if !power(config.capacity, CAPACITY_RANGE.0, CAPACITY_RANGE.1) {
        return refuse("capacity", CAPACITY_RULE);
    }
    if !power(config.align, 8, 4096) {
        return refuse("align", ALIGN_RULE);
    }
    if config
        .name
        .as_ref()
        .is_some_and(|name| !is_name(name, NAME_LENGTH_MAX))
    {
        return refuse("name", NAME_RULE);
    }
    if !within(config.publishers_max, 1, PUBLISHERS_LIMIT) {
        return refuse("publishers_max", PUBLISHERS_MAX_RULE);
    }
    if !within(config.subscribers_max, 1, SUBSCRIBERS_LIMIT) {
        return refuse("subscribers_max", SUBSCRIBERS_MAX_RULE);
    }
    if u64::from(config.subscribers) > SUBSCRIBERS_LIMIT {
        return refuse("subscribers", SUBSCRIBERS_RULE);
    }
    if matches!(config.slow, Some(Slow::Evict(after)) if after.is_zero()) {
        return refuse("slow", SLOW_RULE);
    }
    let plain = |path: &str| {
        path.starts_with('/') && !path.contains(|c: char| c.is_control() || "&?".contains(c))
    };
    if config
        .dir
        .as_ref()
        .is_some_and(|dir| !dir.to_str().is_some_and(plain))
    {
        return refuse("dir", DIR_RULE);
    }
    if config
        .mode
        .is_some_and(|bits| bits & !0o666 != 0 || bits & 0o600 != 0o600)
    {
        return refuse("mode", MODE_RULE);
    }
    if config
        .group
        .as_ref()
        .is_some_and(|group| !is_name(group, 32))
    {
        return refuse("group", GROUP_RULE);
    }
    if config.numa.is_some_and(|node| node > 63) {
        return refuse("numa", NUMA_RULE);
    }
    if config.cpu.is_some_and(|cpu| cpu > 1023) {
        return refuse("cpu", CPU_RULE);
    }
    if config
        .topic
        .as_ref()
        .is_some_and(|topic| Filter::read(topic).is_none())
    {
        return refuse("topic", TOPIC_RULE);
    }
    let far = &config.remote;
    if far.token.as_deref().is_some_and(|token| !is_token(token)) {
        return refuse("token", TOKEN_RULE);
    }
    if far
        .timeout
        .is_some_and(|timeout| timeout < TIMEOUT_RANGE.0 || timeout > TIMEOUT_RANGE.1)
    {
        return refuse("timeout", TIMEOUT_RULE);
    }
    let files = [
        ("tls_cert", &far.tls_cert),
        ("tls_key", &far.tls_key),
        ("tls_ca", &far.tls_ca),
    ];
    for (key, path) in files {
        let path = path.as_ref().map(|path| path.to_str().is_some_and(plain));
        if path == Some(false) {
            return refuse(key, FILE_RULE);
        }
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
    if config.scheme() == Scheme::Inproc {
        let files = [
            ("dir", config.dir.is_some()),
            ("mode", config.mode.is_some()),
            ("group", config.group.is_some()),
        ];
        for (key, given) in files {
            if given {
                return refuse(
                    key,
                    "inproc://",
                    "a channel inside one process has no files; use shm://",
                );
            }
        }
        if config.name.is_some() {
            return refuse(
                "name",
                "inproc://",
                "nothing outlives the process; use shm:// for a durable subscriber",
            );
        }
    }
    Ok(())
}
