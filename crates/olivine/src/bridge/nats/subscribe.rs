//! Out of a stream into a ring: pulled through a consumer of the server, in the order of the
//! stream, acknowledged once it is in the ring.
//!
//! The server would deliver messages of a broken connection again only later, after new ones. So
//! all messages between the last acknowledged and the last delivered one are requested first.

use super::connect::{self, Connection, Connector, SessionEnd};
use super::label::{ID_HEADER, NoLabel, START_HEADER, TAG_HEADER, TOPIC_HEADER};
use super::seen::Seen;
use super::settings::Settings;
use super::sources::{Arrived, Sources, TakeResult};
use super::stream::{self, ChannelStream};
use crate::raw::{Control, Destination, is_topic};
use crate::{End, LinkError, Start};
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, Info, pull};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{ConsumerErrorKind, LastRawMessageErrorKind, RetentionPolicy};
use async_nats::jetstream::{ErrorCode, Message};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Messages requested at a time.
const PULL_MESSAGES: usize = 256;
/// Messages taken before they become visible and are acknowledged.
const TURN_MESSAGES: usize = 512;
/// How long the server waits for an acknowledgement before it delivers a message again.
const ACK_WAIT: Duration = Duration::from_secs(3600);
/// Interval of the server's heartbeats while there are no messages.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Lifetime of a request for messages.
const EXPIRES: Duration = Duration::from_secs(30);
/// Pause between two checks for room in the ring.
const ROOM_NAP: Duration = Duration::from_millis(1);
/// Longest time for leaving.
const LEAVE_MAX: Duration = Duration::from_millis(500);
/// While there are no messages: interval at which the server is asked whether it delivered some.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Most messages examined for the one before an early message: twice what a publisher has in
/// flight.
const LOOK_BACK_MAX: usize = 2 * super::publish::WINDOW_MESSAGES;
/// Longest sleep without a check of everything.
const NAP: Duration = Duration::from_millis(100);

/// Receives messages into a ring until it is asked to stop, or, with `until_end`, until every
/// publisher has closed.
pub(super) async fn run(
    settings: &Settings,
    destination: Destination,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let wake = connect::wake_of(control).map_err(|source: io::Error| LinkError::Io {
        action: "wait for messages of",
        place: settings.place(),
        source: Arc::new(source),
    })?;
    let mut incoming = Incoming {
        settings,
        control,
        until_end,
        destination,
        wake,
        sources: None,
        stream: None,
        done: None,
        done_ns: 0,
        seen: Seen::default(),
        handed_out: 0,
    };
    let nothing_to_deliver = |_: &mut Incoming<'_>| true;
    let ended = Connector::new(settings)
        .attempts(
            control,
            &mut incoming,
            nothing_to_deliver,
            Incoming::session,
        )
        .await;
    // Before the lanes close: closing looks like the end of the stream.
    ended.inspect_err(|error| control.give_up(error))
}

/// A stream that is received into a ring.
struct Incoming<'a> {
    settings: &'a Settings,
    control: &'a Control,
    until_end: bool,
    destination: Destination,
    /// Readable once an end is requested.
    wake: AsyncFd<OwnedFd>,
    sources: Option<Sources>,
    /// Creation time of the known stream.
    stream: Option<u64>,
    /// Sequence number of the last message in the ring.
    done: Option<u64>,
    /// Latest storing time of the messages in the ring, by the server's clock: nanoseconds since
    /// 1970.
    done_ns: u64,
    /// The last messages in the ring.
    seen: Seen,
    /// Consumer sequence number of the last delivered message.
    handed_out: u64,
}

impl Incoming<'_> {
    /// Receives over one connection.
    async fn session(&mut self, connection: &Connection) -> Result<(), SessionEnd> {
        let typed = self.destination.message_type().cloned();
        let typed = typed.unwrap_or_default();
        let place = stream::open(self.settings, connection, &typed, End::Subscriber).await?;
        if place.typed.hash != 0 {
            self.destination.adopt(&place.typed, 0);
        }
        let known = self.stream.replace(place.created);
        if known.is_some_and(|created| created != place.created) {
            // A new stream counts from 1. Lanes drop messages that they have.
            self.done = Some(0);
            self.seen.clear();
            if let Some(sources) = &mut self.sources {
                sources.remade(place.created);
            }
        }
        let mut sources = match self.sources.take() {
            Some(sources) => sources,
            None => {
                let who = format!(
                    "{} {}",
                    self.settings.place(),
                    place.stream.cached_info().config.name
                );
                let ingress = self.destination.ingress(&who)?;
                Sources::new(ingress, self.settings.place(), place.created)
            }
        };
        let outcome = self.receive(connection, &place, &mut sources).await;
        self.sources = Some(sources);
        if let Err(SessionEnd::Stopped) = outcome {
            self.leave(connection, &place).await;
        }
        outcome
    }

    /// Sends the last acknowledgements, and deletes a consumer without a name: it is never used
    /// again.
    async fn leave(&self, connection: &Connection, place: &ChannelStream) {
        let last_words = async {
            let flushed = connection.client.flush().await;
            if flushed.is_ok() && self.settings.config.get_name().is_none() {
                // If this fails, the server deletes it after a while.
                let _ = place.stream.delete_consumer(&self.name()).await;
            }
        };
        let _ = tokio::time::timeout(LEAVE_MAX, last_words).await;
    }

    /// Name of our consumer at the server.
    fn name(&self) -> String {
        match self.settings.config.get_name() {
            // The server forbids '.'; the replacement keeps names distinct.
            Some(name) => name.replace('_', "__").replace('.', "_-"),
            None => format!("olivine-{:016x}", self.settings.instance),
        }
    }

    async fn receive(
        &mut self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &mut Sources,
    ) -> Result<(), SessionEnd> {
        let last = place.stream.cached_info().state.last_sequence;
        let reached = self.done.max(sources.others_reached());
        if reached.is_some_and(|reached| reached > last) {
            // The server lost the stream's last messages and reuses their sequence numbers.
            self.done = None;
            sources.rewound(self.done_ns);
        }
        let (consumer, info) = self.consumer(connection, place).await?;
        connect::connected(self.control, connection, "");
        self.handed_out = info.delivered.consumer_sequence;
        let acknowledged = info.ack_floor.stream_sequence;
        self.done = Some(self.done.unwrap_or(acknowledged).max(acknowledged));
        self.catch_up(connection, place, sources, &info).await?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(PULL_MESSAGES)
            .expires(EXPIRES)
            .heartbeat(HEARTBEAT)
            .messages()
            .await;
        let mut messages = messages.map_err(|error| SessionEnd::Away(error.to_string()))?;
        let mut heard = Instant::now();
        loop {
            self.go_on(connection)?;
            if heard.elapsed() > ASK_EVERY {
                let info = consumer.get_info().await;
                let info = info.map_err(|error| self.away(connection, &error))?;
                self.catch_up(connection, place, sources, &info).await?;
                if self.has_ended(sources, &info) {
                    return ended(sources);
                }
                heard = Instant::now();
            }
            let asked = self.control.stopping().is_some();
            let first = tokio::select! {
                message = messages.next() => Some(message),
                woken = self.wake.readable(), if !asked => {
                    if let Ok(mut woken) = woken {
                        woken.clear_ready();
                    }
                    None
                }
                () = tokio::time::sleep(NAP) => None,
            };
            let Some(mut next) = first else {
                continue;
            };
            heard = Instant::now();
            let mut last = None;
            for _ in 0..TURN_MESSAGES {
                let message = next
                    .transpose()
                    .map_err(|error| SessionEnd::Away(error.to_string()))?;
                let Some(message) = message else {
                    return Err(SessionEnd::Away(
                        "the server has ended the request for messages".to_owned(),
                    ));
                };
                self.arrive(connection, place, sources, &message).await?;
                last = Some(message);
                match messages.next().now_or_never() {
                    Some(more) => next = more,
                    None => break,
                }
            }
            self.flush(connection, sources).await?;
            if let Some(reply) = last.and_then(|message| message.message.reply) {
                self.acknowledge(connection, reply.to_string()).await?;
            }
            if self.until_end && sources.is_ended() {
                let info = consumer.get_info().await;
                let info = info.map_err(|error| self.away(connection, &error))?;
                if self.has_ended(sources, &info) {
                    let flushed = connection.client.flush();
                    let flushed = tokio::time::timeout(LEAVE_MAX, flushed).await;
                    let away = |why: String| SessionEnd::Away(why);
                    flushed
                        .map_err(|_| {
                            away("the last acknowledgements were not taken in time".into())
                        })?
                        .map_err(|error| away(error.to_string()))?;
                    return ended(sources);
                }
            }
        }
    }

    /// Our consumer at the server: found, or created.
    async fn consumer(
        &self,
        connection: &Connection,
        place: &ChannelStream,
    ) -> Result<(Consumer<pull::Config>, Info), SessionEnd> {
        let name = self.name();
        match place.stream.consumer_info(&name).await {
            Ok(info) => self.check(&name, &info)?,
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {
                self.make(connection, place, &name).await?;
            }
            Err(error) => return Err(self.away(connection, &error)),
        }
        let consumer: Result<Consumer<pull::Config>, _> = place.stream.get_consumer(&name).await;
        let mut consumer = consumer.map_err(|error| SessionEnd::Away(error.to_string()))?;
        let info = consumer
            .info()
            .await
            .map_err(|error| self.away(connection, &error))?
            .clone();
        if info.num_waiting > 0 {
            // Two subscribers would share the messages.
            return Err(SessionEnd::Away(format!(
                "another subscriber uses consumer {name}: close it, or use another 'name='"
            )));
        }
        Ok((consumer, info))
    }

    fn away(&self, connection: &Connection, error: &dyn std::error::Error) -> SessionEnd {
        stream::unanswered(self.settings, connection, &error.to_string())
    }

    async fn make(
        &self,
        connection: &Connection,
        place: &ChannelStream,
        name: &str,
    ) -> Result<(), SessionEnd> {
        let config = &self.settings.config;
        let deliver_policy = match (self.done, config.get_from()) {
            (Some(done), _) => DeliverPolicy::ByStartSequence {
                start_sequence: done + 1,
            },
            // The stream lost its last messages, and the consumer is gone, too.
            (None, _) if self.done_ns > 0 => DeliverPolicy::ByStartTime {
                start_time: place.stream.cached_info().created
                    + Duration::from_nanos(self.done_ns.saturating_sub(place.created)),
            },
            (None, Start::Oldest) => DeliverPolicy::All,
            (None, _) => DeliverPolicy::New,
        };
        let wanted = pull::Config {
            durable_name: config.get_name().is_some().then(|| name.to_owned()),
            name: Some(name.to_owned()),
            description: Some("an Olivine subscriber".to_owned()),
            deliver_policy,
            ack_policy: AckPolicy::All,
            ack_wait: ACK_WAIT,
            filter_subject: config.channel().to_owned(),
            inactive_threshold: self.settings.expire().unwrap_or_default(),
            num_replicas: place.stream.cached_info().config.num_replicas,
            ..pull::Config::default()
        };
        let made = place.stream.create_consumer(wanted).await;
        made.map(|_| ()).map_err(|error| match error.kind() {
            ConsumerErrorKind::JetStream(refusal) => {
                stream::refused(self.settings, "make consumer", name, &refusal)
            }
            _ => self.away(connection, &error),
        })
    }

    /// Refuses a consumer of our name that another program created.
    fn check(&self, name: &str, info: &Info) -> Result<(), SessionEnd> {
        let theirs = &info.config;
        let subject = self.settings.config.channel();
        let fits = theirs.ack_policy == AckPolicy::All && theirs.filter_subject == subject;
        if fits {
            return Ok(());
        }
        Err(SessionEnd::Failed(LinkError::Settings {
            far: self.settings.place(),
            key: "name",
            theirs: format!(
                "{name} (ack policy {:?}, filter '{}')",
                theirs.ack_policy, theirs.filter_subject
            ),
            ours: format!("{name} (ack policy All, filter '{subject}')"),
            rule: "the consumer was made by another program: use another 'name=', or remove it \
            there",
        }))
    }

    /// Fetches what the server delivered to a broken connection, and acknowledges it.
    async fn catch_up(
        &mut self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &mut Sources,
        info: &Info,
    ) -> Result<(), SessionEnd> {
        let handed_out = info.delivered.stream_sequence;
        let before = self.done.unwrap_or(0);
        self.fetch(connection, place, sources, handed_out).await?;
        if self.done.unwrap_or(0) <= before && info.num_ack_pending == 0 {
            return Ok(());
        }
        self.flush(connection, sources).await?;
        // Parts of an acknowledgement; the message's own reply subject was lost with its
        // connection.
        let (stream, name) = (&info.stream_name, &info.name);
        let consumer_sequence = info.delivered.consumer_sequence;
        let reply = format!("$JS.ACK.{stream}.{name}.1.{handed_out}.{consumer_sequence}.0.0");
        self.acknowledge(connection, reply).await
    }

    /// Fetches the messages after the last one in the ring up to number `last`, one by one.
    async fn fetch(
        &mut self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &mut Sources,
        last: u64,
    ) -> Result<(), SessionEnd> {
        let subject = self.settings.config.channel();
        while let Some(done) = self.done.filter(|done| *done < last) {
            self.go_on(connection)?;
            let found = place
                .stream
                .get_first_raw_message_by_subject(subject, done + 1)
                .await;
            let found = match found {
                Ok(found) if found.sequence <= last => found,
                Ok(_) => break,
                Err(error) if is_nothing(&error.kind()) => break,
                Err(error) => return Err(self.away(connection, &error)),
            };
            let arrived = Arrived::new(
                found.sequence,
                u64::try_from(found.time.unix_timestamp_nanos()).unwrap_or(0),
                Some(&found.headers),
                found.payload,
            );
            self.take(connection, place, sources, &arrived).await?;
        }
        self.done = self.done.max(Some(last));
        Ok(())
    }

    /// Takes a pulled message.
    async fn arrive(
        &mut self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &mut Sources,
        message: &Message,
    ) -> Result<(), SessionEnd> {
        let info = message
            .info()
            .map_err(|error| SessionEnd::Away(error.to_string()))?;
        let sequence = info.stream_sequence;
        let before = stream::number_before(sequence, self.settings.place());
        let before = before.map_err(SessionEnd::Failed)?;
        let follows = info.consumer_sequence.checked_sub(1) == Some(self.handed_out);
        self.handed_out = info.consumer_sequence;
        if !follows {
            // A new leader of the consumer: messages delivered by the old one may be lost.
            self.fetch(connection, place, sources, before).await?;
        }
        let time_ns = u64::try_from(info.published.unix_timestamp_nanos()).unwrap_or(0);
        if self.done.is_some_and(|done| sequence <= done) {
            let is_again = match self.seen.time_of(sequence) {
                Some(seen_ns) => time_ns == seen_ns,
                None => time_ns <= self.done_ns,
            };
            if is_again {
                // Delivered again: it is in the ring.
                return Ok(());
            }
            // Another message had this number.
            sources.rewound(self.done_ns);
        }
        let arrived = Arrived::new(
            sequence,
            time_ns,
            message.headers.as_ref(),
            message.payload.clone(),
        );
        self.take(connection, place, sources, &arrived).await
    }

    /// Writes a message into the ring, once there is room.
    async fn take(
        &mut self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &mut Sources,
        arrived: &Arrived,
    ) -> Result<(), SessionEnd> {
        let seen = self.seen.time_of(arrived.sequence);
        let replaces = seen.is_some_and(|seen_ns| seen_ns != arrived.time_ns);
        if sources.is_new(arrived) {
            // A stream created by a subscriber has the type of its first publisher, which set it
            // before this message.
            let info = place.stream.get_info().await;
            let info = info.map_err(|error| self.away(connection, &error))?;
            sources.adopt(&stream::type_of(&info.config))?;
        }
        loop {
            match sources.take(arrived, replaces)? {
                TakeResult::Done => break,
                TakeResult::NoRoom => self.flush(connection, sources).await?,
                // Either it comes again after the missing ones, or they were removed before they
                // were read.
                TakeResult::Early
                    if self.is_removed(connection, place, sources, arrived).await? =>
                {
                    let problem = "the stream removed them before they were read";
                    return Err(SessionEnd::Failed(sources.lose(arrived, problem)));
                }
                TakeResult::Early => break,
            }
        }
        self.done = Some(arrived.sequence);
        self.done_ns = self.done_ns.max(arrived.time_ns);
        self.seen.took(arrived.sequence, arrived.time_ns);
        Ok(())
    }

    /// Whether the messages that an early message waits for were removed: no earlier message of the
    /// lane is left.
    async fn is_removed(
        &self,
        connection: &Connection,
        place: &ChannelStream,
        sources: &Sources,
        arrived: &Arrived,
    ) -> Result<bool, SessionEnd> {
        let info = place.stream.get_info().await;
        let info = info.map_err(|error| self.away(connection, &error))?;
        if info.config.retention != RetentionPolicy::Limits {
            // Removed because all subscribers have it, not because it is old.
            return Ok(false);
        }
        for sequence in (0..arrived.sequence).rev().take(LOOK_BACK_MAX) {
            if sequence < info.state.first_sequence {
                return Ok(true);
            }
            self.go_on(connection)?;
            match place.stream.get_raw_message(sequence).await {
                Ok(found) => {
                    let label = found.headers.get(ID_HEADER).map(|id| id.as_str().parse());
                    let label = label.and_then(Result::ok);
                    if label.is_some_and(|label| sources.is_behind(arrived, &label)) {
                        return Ok(false);
                    }
                }
                Err(error) if is_nothing(&error.kind()) => {}
                Err(error) => return Err(self.away(connection, &error)),
            }
        }
        Ok(false)
    }

    /// Makes the taken messages visible, once there is room.
    async fn flush(
        &self,
        connection: &Connection,
        sources: &mut Sources,
    ) -> Result<(), SessionEnd> {
        while !sources.flush()? {
            while sources.retry_room() {
                self.go_on(connection)?;
                tokio::time::sleep(ROOM_NAP).await;
            }
        }
        let messages = sources.messages();
        self.control.report(|status| status.messages = messages);
        Ok(())
    }

    async fn acknowledge(&self, connection: &Connection, reply: String) -> Result<(), SessionEnd> {
        let sent = connection
            .client
            .publish(reply, Bytes::from_static(b"+ACK"))
            .await;
        sent.map_err(|error| SessionEnd::Away(error.to_string()))
    }

    /// Whether every publisher has closed, and the server has no more messages for us.
    fn has_ended(&self, sources: &Sources, info: &Info) -> bool {
        let is_drained =
            info.num_pending == 0 && info.delivered.stream_sequence <= self.done.unwrap_or(0);
        self.until_end && sources.is_ended() && is_drained
    }

    /// # Errors
    ///
    /// [`SessionEnd`] once we are asked to stop, or the connection broke.
    fn go_on(&self, connection: &Connection) -> Result<(), SessionEnd> {
        if self.control.stopping().is_some() {
            return Err(SessionEnd::Stopped);
        }
        connection.live()
    }
}

impl Arrived {
    fn new(sequence: u64, time_ns: u64, headers: Option<&HeaderMap>, payload: Bytes) -> Self {
        let word = |name: &str| Some(headers?.get(name)?.as_str());
        Self {
            sequence,
            time_ns,
            label: word(ID_HEADER).map_or(Err(NoLabel::Foreign), str::parse),
            tag: word(TAG_HEADER)
                .and_then(|tag| tag.parse().ok())
                .unwrap_or(0),
            topic: word(TOPIC_HEADER)
                .filter(|topic| is_topic(topic.as_bytes()))
                .map(str::to_owned),
            is_start: word(START_HEADER).is_some(),
            payload,
        }
    }
}

/// Every publisher has ended, some of them with a failure.
fn ended(sources: &Sources) -> Result<(), SessionEnd> {
    sources
        .failure()
        .map_or(Ok(()), |failure| Err(SessionEnd::Failed(failure)))
}

fn is_nothing(kind: &LastRawMessageErrorKind) -> bool {
    match kind {
        LastRawMessageErrorKind::NoMessageFound => true,
        LastRawMessageErrorKind::JetStream(error) => {
            [ErrorCode::NO_MESSAGE_FOUND, ErrorCode::SEQUENCE_NOT_FOUND]
                .contains(&error.error_code())
        }
        _ => false,
    }
}
