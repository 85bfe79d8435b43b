//! The stream of a channel: found, or created with the settings.

use super::connect::{Connection, SessionEnd};
use super::settings::Settings;
use crate::raw::KnownType;
use crate::{End, LinkError, Retention, Storage};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{Context, Error as Refusal, ErrorCode};
use std::collections::HashMap;
use std::time::Duration;

/// Window in which a server recognizes a repeated message, by default.
const DUPLICATES_DEFAULT: Duration = Duration::from_secs(120);
/// Names in a stream's description under which the type of the messages is kept.
const TYPE_HASH: &str = "olivine-type-hash";
const TYPE_NAME: &str = "olivine-type-name";
const TYPE_FIELDS: &str = "olivine-type-fields";

/// The stream of a channel.
#[derive(Debug)]
pub(super) struct ChannelStream {
    pub(super) stream: Stream,
    /// Creation time in nanoseconds since 1970: distinguishes it from earlier and later streams of
    /// its name.
    pub(super) created: u64,
    /// Type of the messages; hash 0 if none is set.
    pub(super) typed: KnownType,
}

impl ChannelStream {
    /// A warning to publishers about what "stored" means here, or empty. The server does not tell
    /// its clients how often it syncs its files.
    pub(super) fn warning(&self) -> &'static str {
        let config = &self.stream.cached_info().config;
        if config.storage == StorageType::File && config.num_replicas <= 1 {
            "; unless its configuration has 'sync_interval: always', it flushes its files every 2 \
             minutes: a power cut may \
             take messages that it has acknowledged since"
        } else {
            ""
        }
    }
}

/// The server's reply to a request.
enum Reply {
    Info(Box<Info>),
    Refused(Refusal),
}

/// Finds or creates the stream of the channel for one end of it. `typed` is the type of the
/// messages, with hash 0 if it is open.
pub(super) async fn open(
    settings: &Settings,
    connection: &Connection,
    typed: &KnownType,
    end: End,
) -> Result<ChannelStream, SessionEnd> {
    let mut context = async_nats::jetstream::new(connection.client.clone());
    context.set_timeout(settings.timeout);
    let subject = settings.config.channel();
    let name = match settings.nats().get_stream() {
        Some(name) => Some(name.to_owned()),
        None => match context.stream_by_subject(subject).await {
            Ok(name) => Some(name),
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => None,
            Err(error) => return Err(unanswered(settings, connection, &error.to_string())),
        },
    };
    let name = name.unwrap_or_else(|| subject.replace('.', "_"));
    let info = match request(settings, connection, &context, "INFO", &name, None).await? {
        Reply::Info(info) => found(settings, connection, &context, *info, typed, end).await?,
        Reply::Refused(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            let config = wanted(settings, &name, typed);
            match request(
                settings,
                connection,
                &context,
                "CREATE",
                &name,
                Some(&config),
            )
            .await?
            {
                Reply::Info(info) => *info,
                // Another client created it first: check its settings like those of any other.
                Reply::Refused(error) if error.error_code().0 == NAME_IN_USE => {
                    return Err(SessionEnd::Away(format!(
                        "another client is creating stream {name}"
                    )));
                }
                Reply::Refused(error) => return Err(refused(settings, "make", &name, &error)),
            }
        }
        Reply::Refused(error) => return Err(refused(settings, "find", &name, &error)),
    };
    let stored = type_of(&info.config);
    // Bytes can be read of every type, and values of none but theirs.
    let reads_bytes = typed.hash == 0 && end == End::Subscriber;
    if stored.hash != 0 && !reads_bytes {
        check_type(settings, &stored, typed)?;
    }
    let created = info.created.unix_timestamp_nanos();
    let stream = context.get_stream(&name).await;
    Ok(ChannelStream {
        stream: stream.map_err(|error| unanswered(settings, connection, &error.to_string()))?,
        created: u64::try_from(created).unwrap_or(0),
        typed: stored,
    })
}

/// The type of a stream's messages; hash 0 if none is set.
pub(super) fn type_of(config: &Config) -> KnownType {
    let word = |key: &str| config.metadata.get(key).map_or("", String::as_str);
    let hash = u64::from_str_radix(word(TYPE_HASH), 16).unwrap_or(0);
    KnownType::new(hash, word(TYPE_NAME), word(TYPE_FIELDS))
}

/// The server's code for a stream that exists with other settings.
const NAME_IN_USE: u64 = 10058;

async fn request(
    settings: &Settings,
    connection: &Connection,
    context: &Context,
    action: &str,
    name: &str,
    config: Option<&Config>,
) -> Result<Reply, SessionEnd> {
    let subject = format!("STREAM.{action}.{name}");
    let answer: Result<Response<Info>, RequestError> = match config {
        Some(config) => context.request(subject, config).await,
        None => context.request(subject, &()).await,
    };
    match answer {
        Ok(Response::Ok(info)) => Ok(Reply::Info(Box::new(info))),
        Ok(Response::Err { error }) => Ok(Reply::Refused(error)),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(SessionEnd::Away(
            "the server has no JetStream, or its cluster has no leader yet".to_owned(),
        )),
        Err(error) => Err(unanswered(settings, connection, &error.to_string())),
    }
}

/// A request without a reply: the permission is missing, or the server is away.
pub(super) fn unanswered(
    settings: &Settings,
    connection: &Connection,
    problem: &str,
) -> SessionEnd {
    match connection.refusal() {
        Some(reason) => SessionEnd::Failed(LinkError::Refused {
            far: settings.place(),
            reason: format!("{reason}: its user may not use JetStream so"),
        }),
        None => SessionEnd::Away(problem.to_owned()),
    }
}

/// A negative reply.
pub(super) fn refused(
    settings: &Settings,
    action: &str,
    what: &str,
    error: &Refusal,
) -> SessionEnd {
    let problem = format!("cannot {action} {what}: {error}");
    // 5xx: the cluster is not ready, or lacks a resource for now.
    if error.code() >= 500 {
        return SessionEnd::Away(problem);
    }
    SessionEnd::Failed(LinkError::Refused {
        far: settings.place(),
        reason: problem,
    })
}

/// The number before that of a message of the server `far`.
///
/// # Errors
///
/// [`LinkError::Protocol`] if there is none: streams number their messages from 1.
pub(super) fn number_before(number: u64, far: String) -> Result<u64, LinkError> {
    number.checked_sub(1).ok_or_else(|| LinkError::Protocol {
        far,
        problem: "it sent message 0 of the stream, where the first is 1".into(),
    })
}

fn differs(settings: &Settings, key: &'static str, theirs: String, ours: String) -> SessionEnd {
    SessionEnd::Failed(LinkError::Settings {
        far: settings.place(),
        key,
        theirs,
        ours,
        rule: "the stream exists already: leave the setting out, use the same value, or change \
        the stream",
    })
}

/// Refuses another type than that of the stream.
fn check_type(
    settings: &Settings,
    stored: &KnownType,
    typed: &KnownType,
) -> Result<(), SessionEnd> {
    match stored.difference(typed) {
        None => Ok(()),
        Some((theirs, ours)) => Err(SessionEnd::Failed(LinkError::Settings {
            far: settings.place(),
            key: "type",
            theirs,
            ours,
            rule: "use the type of the stream, or a channel in another stream",
        })),
    }
}

/// Settings of a new stream.
fn wanted(settings: &Settings, name: &str, typed: &KnownType) -> Config {
    let nats = settings.nats();
    let max_age = nats.get_max_age().unwrap_or_default();
    let usual = DUPLICATES_DEFAULT.min(nats.get_max_age().unwrap_or(DUPLICATES_DEFAULT));
    let window = nats.get_duplicates().unwrap_or(usual);
    // -1 is "no limit".
    let most =
        |limit: Option<u64>| limit.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
    let mut config = Config {
        name: name.to_owned(),
        subjects: vec![settings.config.channel().to_owned()],
        retention: retention_of(nats.get_retention().unwrap_or_default()),
        storage: storage_of(nats.get_storage().unwrap_or_default()),
        num_replicas: nats.get_replicas().unwrap_or(1).into(),
        max_bytes: most(nats.get_max_bytes()),
        max_messages: most(nats.get_max_messages()),
        max_messages_per_subject: -1,
        max_consumers: -1,
        max_age,
        duplicate_window: window,
        // A full stream refuses messages: publishers wait. The other policy drops unread messages.
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    if typed.hash != 0 {
        config.metadata = type_words(typed);
    }
    config
}

fn type_words(typed: &KnownType) -> HashMap<String, String> {
    let words = [
        (TYPE_HASH, format!("{:016x}", typed.hash)),
        (TYPE_NAME, typed.name.clone()),
        (TYPE_FIELDS, typed.fields.to_string()),
    ];
    let stated = words.into_iter().filter(|(_, value)| !value.is_empty());
    stated.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn retention_of(retention: Retention) -> RetentionPolicy {
    if retention == Retention::Interest {
        RetentionPolicy::Interest
    } else {
        RetentionPolicy::Limits
    }
}

fn storage_of(storage: Storage) -> StorageType {
    if storage == Storage::Memory {
        StorageType::Memory
    } else {
        StorageType::File
    }
}

/// Checks an existing stream, and adds the channel's subject if it is missing. A publisher of
/// values also adds their type, unless the stream has had messages of bytes, and their fields, if
/// the server lets it.
async fn found(
    settings: &Settings,
    connection: &Connection,
    context: &Context,
    info: Info,
    typed: &KnownType,
    end: End,
) -> Result<Info, SessionEnd> {
    let (nats, theirs) = (settings.nats(), &info.config);
    let check = |key, theirs: String, ours: Option<String>| match ours {
        Some(ours) if ours != theirs => Err(differs(settings, key, theirs, ours)),
        _ => Ok(()),
    };
    let words = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    check(
        "replicas",
        theirs.num_replicas.to_string(),
        nats.get_replicas().map(|count| count.to_string()),
    )?;
    check(
        "storage",
        words(&theirs.storage),
        nats.get_storage()
            .map(|storage| words(&storage_of(storage))),
    )?;
    check(
        "retention",
        words(&theirs.retention),
        nats.get_retention()
            .map(|retention| words(&retention_of(retention))),
    )?;
    check(
        "max_bytes",
        theirs.max_bytes.to_string(),
        nats.get_max_bytes().map(|bytes| bytes.to_string()),
    )?;
    check(
        "max_messages",
        theirs.max_messages.to_string(),
        nats.get_max_messages().map(|count| count.to_string()),
    )?;
    check(
        "max_age",
        words(&theirs.max_age),
        nats.get_max_age().map(|age| words(&age)),
    )?;
    check(
        "duplicates",
        words(&theirs.duplicate_window),
        nats.get_duplicates().map(|window| words(&window)),
    )?;
    let subject = settings.config.channel();
    let mut config = info.config.clone();
    let takes_it = config.subjects.iter().any(|taken| covers(taken, subject));
    let states_type = typed.hash != 0 && end == End::Publisher;
    let lacks_type = states_type && !config.metadata.contains_key(TYPE_HASH);
    let stored = type_of(&config);
    let lacks_fields = states_type
        && stored.hash == typed.hash
        && !config.metadata.contains_key(TYPE_FIELDS)
        && !typed.fields.is_empty();
    // Older servers keep no type, so their streams are not known to have bytes.
    let keeps_type = || connection.client.is_server_compatible(2, 10, 0);
    if lacks_type && info.state.last_sequence > 0 && keeps_type() {
        check_type(settings, &KnownType::default(), typed)?;
    }
    if takes_it && !lacks_type && !lacks_fields {
        return Ok(info);
    }
    if !takes_it {
        config.subjects.push(subject.to_owned());
    }
    if lacks_type || lacks_fields {
        config.metadata.extend(type_words(typed));
    }
    let name = config.name.clone();
    let adds_only_fields = takes_it && !lacks_type;
    let changed = request(
        settings,
        connection,
        context,
        "UPDATE",
        &name,
        Some(&config),
    );
    match changed.await {
        Ok(Reply::Info(_)) => {}
        // Messages need no fields. The stream may be sealed, or this user may not change it.
        Ok(Reply::Refused(_)) | Err(_) if adds_only_fields => {
            connection.forget_refusal();
            return Ok(info);
        }
        Ok(Reply::Refused(error)) => {
            let action = "add the channel to stream";
            return Err(refused(settings, action, &name, &error));
        }
        Err(end) => return Err(end),
    }
    // Another client may have changed an earlier copy at the same time: the later change counts.
    match request(settings, connection, context, "INFO", &name, None).await? {
        Reply::Info(info) => Ok(*info),
        Reply::Refused(error) => Err(refused(settings, "find", &name, &error)),
    }
}

/// Whether a subject with wildcards matches `subject`.
fn covers(pattern: &str, subject: &str) -> bool {
    let mut words = subject.split('.');
    for part in pattern.split('.') {
        match (part, words.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (part, Some(word)) if part == word => {}
            _ => return false,
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::{covers, number_before};
    use crate::LinkError;

    #[test]
    fn message_zero_is_refused() {
        let before = |number| number_before(number, "nats.example".into());
        assert_eq!(before(1).unwrap(), 0);
        let refused = before(0).unwrap_err();
        assert!(matches!(refused, LinkError::Protocol { .. }), "{refused}");
    }

    #[test]
    fn wildcards_cover_words() {
        for (pattern, subject, holds) in [
            ("ticks", "ticks", true),
            ("ticks", "ticks.eu", false),
            ("ticks.*", "ticks.eu", true),
            ("ticks.*", "ticks", false),
            ("ticks.*", "ticks.eu.de", false),
            ("ticks.>", "ticks.eu.de", true),
            ("ticks.>", "ticks", false),
            (">", "ticks", true),
            ("*.eu", "ticks.eu", true),
        ] {
            assert_eq!(covers(pattern, subject), holds, "{pattern} {subject}");
        }
    }
}
