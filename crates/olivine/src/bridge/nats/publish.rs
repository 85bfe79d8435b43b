//! Out of a ring into a stream: many messages in flight, released in order once they are stored.

mod failures;

use super::connect::{self, Connection, Connector, SessionEnd};
use super::label::{ID_HEADER, Kind, Label, START_HEADER, TAG_HEADER, TOPIC_HEADER};
use super::settings::Settings;
use super::stream::{self, ChannelStream};
use super::window::{Disorder, Window};
use crate::raw::{CheckedEgress, Control, Frame, Frames, NotRead, Source, Stop};
use crate::{End, LinkError};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Error as Refusal, ErrorCode};
use async_nats::{HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use failures::OwedFailure;
use futures_util::{FutureExt as _, StreamExt as _};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Most messages in flight, and most bytes of their frames.
pub(super) const WINDOW_MESSAGES: usize = 1024;
const WINDOW_BYTES: u64 = 8 << 20;
/// Messages of one lane before the next lane's turn, and the bytes that are examined for them.
const TURN_MESSAGES: usize = 256;
const RUN_BYTES: u64 = 1 << 16;
/// First and longest pause before a stream that is full is tried again.
const FULL_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// Longest sleep without a check of everything.
const NAP: Duration = Duration::from_millis(100);
/// Pause between two counts of the stream's subscribers.
const COUNT_NAP: Duration = Duration::from_millis(50);
/// Bytes reserved for headers out of the server's `max_payload`.
const HEADERS_MAX: usize = 512;

/// Publishes a ring until an end is requested and everything is delivered, or, with `until_end`,
/// until every publisher has closed.
pub(super) async fn run(
    settings: &Settings,
    mut source: Source,
    control: &Control,
    until_end: bool,
) -> Result<(), LinkError> {
    let mut egress = source.egress()?;
    let io = |source: io::Error| LinkError::Io {
        action: "wait for messages to",
        place: settings.place(),
        source: Arc::new(source),
    };
    let ready = egress.event_fd().and_then(|fd| fd.try_clone_to_owned());
    let mut outgoing = Outgoing {
        settings,
        control,
        until_end,
        ready: ready.and_then(connect::watched).map_err(io)?,
        wake: connect::wake_of(control).map_err(io)?,
        egress,
        window: Window::default(),
        lanes: Vec::new(),
        failures: Vec::new(),
        turn: 0,
        most: WINDOW_MESSAGES,
        calm: WINDOW_MESSAGES,
        growth: 0,
        full: None,
        full_pause: FULL_PAUSE.0,
        settled: Instant::now(),
        silences: 0,
        stream: None,
        is_awaited: settings.config.get_subscribers() > 0,
    };
    outgoing.mark_in_doubt()?;
    let ended = Connector::new(settings)
        .attempts(
            control,
            &mut outgoing,
            Outgoing::is_delivered,
            Outgoing::session,
        )
        .await;
    // A failure is an error only once it is stored.
    let is_failure_stored = matches!(&ended, Err(error) if error.of_source().is_some());
    if is_failure_stored {
        control.failure_delivered();
    }
    let is_over = outgoing.is_delivered() || is_failure_stored;
    // Also of lanes beside a failed one.
    let left = outgoing.egress.undelivered();
    if left > 0 || !is_over {
        control.leave_undelivered(left);
    }
    ended
}

/// A ring that is sent into a stream.
struct Outgoing<'a> {
    settings: &'a Settings,
    control: &'a Control,
    until_end: bool,
    egress: CheckedEgress,
    /// Readable once the ring has more.
    ready: AsyncFd<OwnedFd>,
    /// Readable once an end is requested.
    wake: AsyncFd<OwnedFd>,
    window: Window,
    lanes: Vec<Lane>,
    /// Failures of lanes that are not stored.
    failures: Vec<OwedFailure>,
    /// The lane that is sent first.
    turn: usize,
    /// Most messages in flight now: few while the stream is full.
    most: usize,
    /// Slow-start limit of `most`, and the acknowledgements since the last increase.
    calm: usize,
    growth: usize,
    /// Why the stream refused a message; the replies to the other messages in flight are awaited.
    full: Option<String>,
    full_pause: Duration,
    /// Time of the last settled message, or of the first send.
    settled: Instant,
    /// Connections in a row that were closed because the server acknowledged nothing.
    silences: u32,
    /// Creation time of the known stream.
    stream: Option<u64>,
    /// Nothing is sent before the stream has as many subscribers as the settings say.
    is_awaited: bool,
}

/// What the server knows of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Start of our first message.
    start: u64,
    /// Position of the last end or failure that was stored.
    ended: u64,
    /// It has a publisher, or a part of it was sent, and its end was not stored.
    is_open: bool,
    /// Its end is in flight.
    is_ending: bool,
    /// [`crate::raw::LaneFailure::number`] of the last failure that was stored; 0 for none.
    stored_failure: u64,
}

/// A connection with the facts that the sender needs.
struct Session<'c> {
    connection: &'c Connection,
    place: ChannelStream,
    subject: Subject,
    inbox: String,
    acks: Subscriber,
    /// Bytes that a message may have.
    payload_max: usize,
}

/// Why sending must restart from the last settled message.
enum SendRetry {
    SessionEnd(SessionEnd),
    /// The stream accepts nothing for now.
    Full(String),
    /// The order was broken, and is repaired.
    Disorder,
}

impl From<SessionEnd> for SendRetry {
    fn from(broken: SessionEnd) -> Self {
        Self::SessionEnd(broken)
    }
}

impl From<NotRead> for SendRetry {
    fn from(error: NotRead) -> Self {
        Self::SessionEnd(SessionEnd::Failed(error.into()))
    }
}

impl Outgoing<'_> {
    /// An earlier bridge may have sent messages of the ring. The ends and failures of lanes may be
    /// unsent: each is sent once more, which changes nothing if it is stored.
    fn mark_in_doubt(&mut self) -> Result<(), NotRead> {
        let is_resumed = self.egress.is_resumed();
        for place in 0..self.look()? {
            let end = self.egress.position(place)? + self.egress.waiting(place)?;
            self.window.mark_in_doubt(place, end);
            let start = self.egress.position(place)?;
            self.lanes.push(Lane {
                start,
                is_open: is_resumed,
                ..Lane::default()
            });
            let failure = self.egress.failure_in_doubt(place)?;
            if let Some(failure) = failure.filter(|_| is_resumed) {
                self.owe(failure);
            }
        }
        Ok(())
    }

    /// Publishes over one connection.
    async fn session(&mut self, connection: &Connection) -> Result<(), SessionEnd> {
        let away = |problem: String| SessionEnd::Away(problem);
        let typed = self.egress.message_type();
        let place = stream::open(self.settings, connection, &typed, End::Publisher).await?;
        let known = self.stream.replace(place.created);
        let is_new = known.is_some_and(|created| created != place.created);
        let info = place.stream.cached_info();
        // A new leader of a cluster may not know yet what is stored.
        let is_alone = info.config.num_replicas <= 1;
        if is_new || is_alone && self.window.last() > info.state.last_sequence {
            // The stream reuses sequence numbers.
            self.window.forget_order();
        }
        let inbox = connection.client.new_inbox();
        let acks = connection.client.subscribe(format!("{inbox}.*")).await;
        let payload_max = connection.client.max_payload().saturating_sub(HEADERS_MAX);
        let mut session = Session {
            connection,
            place,
            subject: Subject::from(self.settings.config.channel()),
            inbox,
            acks: acks.map_err(|error| away(error.to_string()))?,
            payload_max,
        };
        match self.silences {
            0 => connect::connected(self.control, connection, session.place.warning()),
            count => connect::connected(self.control, connection, &silent(count)),
        }
        loop {
            match self.carry(&mut session).await {
                Ok(()) => return Ok(()),
                Err(SendRetry::SessionEnd(broken)) => return Err(broken),
                Err(SendRetry::Disorder) => {}
                Err(SendRetry::Full(reason)) => self.wait_for_space(&session, &reason).await?,
            }
        }
    }

    /// Sends what is in the ring, from the last settled message on.
    async fn carry(&mut self, session: &mut Session<'_>) -> Result<(), SendRetry> {
        self.window.restart();
        self.egress.rewind();
        for place in 0..self.look()? {
            let settled = self.window.settled(place);
            if settled > self.egress.position(place)? {
                self.egress.advance(place, settled)?;
            }
        }
        self.full = None;
        for lane in &mut self.lanes {
            lane.is_ending = false;
        }
        for owed in &mut self.failures {
            owed.is_in_flight = false;
        }
        self.settled = Instant::now();
        loop {
            if self.control.must_stop() {
                return Err(SessionEnd::Stopped.into());
            }
            if self.control.stopping().is_some() {
                // What is published after a failure is not awaited: the bridge ends with it.
                let goal = self.egress.set_goal();
                self.unless_owed(goal)?;
            }
            session.connection.live()?;
            let mut heard = session.acks.next().now_or_never().flatten();
            while let Some(message) = heard {
                self.handle_reply(&message)?;
                heard = session.acks.next().now_or_never().flatten();
            }
            self.settle()?;
            if self.full.is_some() && self.window.is_answered() {
                return Err(SendRetry::Full(self.full.take().unwrap_or_default()));
            }
            let sent = self.full.is_none()
                && self.has_subscribers(session).await?
                && self.send_pending(session).await?;
            if self.is_done()? {
                return Ok(());
            }
            if self.window.len() > 0 && self.settled.elapsed() > self.settings.timeout {
                self.silences = self.silences.saturating_add(1);
                let silence = self.settings.timeout.as_millis();
                let problem = format!("the server has acknowledged no message for {silence} ms");
                return Err(SessionEnd::Away(problem).into());
            }
            if !sent {
                self.sleep(session).await?;
            } else {
                // The client library sends while we wait.
                tokio::task::yield_now().await;
            }
        }
    }

    /// One reply to a message.
    fn handle_reply(&mut self, message: &Message) -> Result<(), SendRetry> {
        let number = message.subject.rsplit('.').next();
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            return Ok(());
        };
        if !self.window.is_under_way(number) {
            return Ok(());
        }
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let problem =
                "no stream takes the channel's messages, or its cluster has no leader yet";
            return Err(SessionEnd::Away(problem.to_owned()).into());
        }
        match serde_json::from_slice(&message.payload) {
            Ok(Response::Ok(PublishAck { sequence, .. })) => self.window.stored(number, sequence),
            Ok(Response::Err { error }) => {
                self.full = Some(self.refusal(&error)?);
                self.window.refused(number);
            }
            Err(error) => {
                let reason = format!("an invalid reply: {error}");
                return Err(self.refused(reason).into());
            }
        }
        Ok(())
    }

    fn refused(&self, reason: String) -> SessionEnd {
        let far = self.settings.place();
        SessionEnd::Failed(LinkError::Refused { far, reason })
    }

    /// Why the server did not store a message, if it may do so later.
    fn refusal(&self, error: &Refusal) -> Result<String, SessionEnd> {
        // Known but not stored yet: it is in flight through the cluster.
        let is_under_way = error.error_code() == ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT;
        // The limit of the account, which the server does not count among its own.
        let is_account_full = error.error_code() == ErrorCode::ACCOUNT_RESOURCES_EXCEEDED;
        if error.code() >= 500 || is_under_way || is_account_full {
            return Ok(error.to_string());
        }
        Err(self.refused(format!("it stores no more messages: {error}")))
    }

    /// Releases what is settled.
    fn settle(&mut self) -> Result<(), SendRetry> {
        let (mut bytes, mut disorder) = (0, None);
        loop {
            match self.window.settle() {
                Ok(None) => break,
                Ok(Some((flight, is_given_back))) => {
                    bytes += flight.bytes;
                    self.settled = Instant::now();
                    self.full_pause = FULL_PAUSE.0;
                    self.silences = 0;
                    self.grow();
                    if flight.bytes == 0 {
                        self.end_stored(flight.place);
                    }
                    if is_given_back {
                        self.egress.acknowledge(flight.place, flight.end)?;
                    }
                }
                Err(Disorder { place }) => {
                    disorder = Some(place);
                    break;
                }
            }
        }
        if bytes > 0 {
            self.control
                .report(|status| status.acknowledged_bytes += bytes);
        }
        if let Some(place) = disorder {
            self.window.repair(place);
            self.control.report(|status| {
                status.failures += 1;
                "the server stored messages out of order: they are sent again"
                    .clone_into(&mut status.note);
            });
            return Err(SendRetry::Disorder);
        }
        Ok(())
    }

    /// Sends as much as the window permits; `true` if anything was sent.
    async fn send_pending(&mut self, session: &Session<'_>) -> Result<bool, SendRetry> {
        let lanes = self.look()?;
        for place in self.lanes.len()..lanes {
            let start = self.egress.position(place)?;
            self.lanes.push(Lane {
                start,
                ..Lane::default()
            });
        }
        let mut sent = self.send_failures(session).await?;
        for turn in 0..lanes {
            let place = (self.turn + turn) % lanes;
            if !self.lanes[place].is_open && !self.egress.is_lane_ended(place)? {
                self.lanes[place].is_open = true;
            }
            sent |= self.send_lane(session, place).await?;
        }
        self.turn = self.turn.wrapping_add(1);
        Ok(sent)
    }

    /// A message was stored: raises the limit of messages in flight, slower near the level at which
    /// the stream was full.
    fn grow(&mut self) {
        self.growth += 1;
        let wanted = if self.most < self.calm { 1 } else { self.most };
        if self.growth >= wanted {
            self.growth = 0;
            self.most = (self.most + 1).min(WINDOW_MESSAGES);
        }
    }

    fn has_room(&self) -> bool {
        self.window.len() < self.most && self.window.bytes() < WINDOW_BYTES
    }

    /// Sends the next messages of a lane, and its end after the last one.
    async fn send_lane(&mut self, session: &Session<'_>, place: usize) -> Result<bool, SendRetry> {
        if !self.has_room() || self.owes_failure(place) {
            return Ok(false);
        }
        let frames = self.egress.frames(place, RUN_BYTES)?;
        let position = frames.position();
        if frames.is_empty() {
            return self.send_end(session, place, position).await;
        }
        // One copy for the run; each message is a slice of it.
        let bytes = Bytes::copy_from_slice(frames.bytes());
        let mut frames = Frames::new(position, self.egress.align(), &bytes);
        let mut sent = 0;
        let mut count = 0;
        while self.has_room() && count < TURN_MESSAGES {
            let Some(frame) = frames.next() else {
                break;
            };
            let frame = frame.map_err(|error| SessionEnd::Failed(error.into()))?;
            self.send_message(session, place, &bytes, &frame).await?;
            self.egress.advance(place, frame.end())?;
            sent += frame.padded_bytes();
            count += 1;
        }
        if sent > 0 {
            self.control.report(|status| status.bytes += sent);
        }
        Ok(sent > 0)
    }

    /// Sends the message in `frame`, which is a part of `bytes`.
    async fn send_message(
        &mut self,
        session: &Session<'_>,
        place: usize,
        bytes: &Bytes,
        frame: &Frame<'_>,
    ) -> Result<(), SendRetry> {
        let payload = bytes.slice_ref(frame.payload());
        if payload.len() > session.payload_max {
            let reason = format!(
                "a message of {} bytes, where its 'max_payload' leaves room for {}: raise that, \
                 or send smaller messages",
                payload.len(),
                session.payload_max
            );
            return Err(self.refused(reason).into());
        }
        let mut headers = self.headers(place, frame.position(), frame.tag(), Kind::Message)?;
        if let Some(topic) = frame.topic() {
            headers.insert(TOPIC_HEADER, topic);
        }
        let number = self.window.send(place, frame.end(), frame.padded_bytes());
        Ok(post(session, number, headers, payload).await?)
    }

    /// Sends the end of a lane that has ended.
    async fn send_end(
        &mut self,
        session: &Session<'_>,
        place: usize,
        position: u64,
    ) -> Result<bool, SendRetry> {
        let Lane {
            is_open, is_ending, ..
        } = self.lanes[place];
        if !is_open || is_ending || !self.egress.is_lane_ended(place)? {
            return Ok(false);
        }
        if self.look()? != self.lanes.len() || self.must_hold_end(place)? {
            return Ok(false);
        }
        self.lanes[place].is_ending = true;
        let number = self.window.send(place, position, 0);
        let headers = self.headers(place, position, 0, Kind::End)?;
        post(session, number, headers, Bytes::new()).await?;
        Ok(true)
    }

    /// Whether subscribers may take the end of this lane for that of the stream: they may not know
    /// another lane, or a failure.
    fn must_hold_end(&mut self, ending: usize) -> Result<bool, NotRead> {
        if !self.failures.is_empty() {
            return Ok(true);
        }
        // END: the first message of a publisher that opened before this one closed comes first. A
        // full stream may refuse a message and take the end, which is shorter.
        for place in (0..self.lanes.len()).filter(|place| *place != ending) {
            let Lane { start, ended, .. } = self.lanes[place];
            let is_known = self.window.settled(place) > start.max(ended);
            let is_sent = self.window.has_message(place);
            if !is_known && (is_sent || !self.egress.frames(place, 1)?.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn headers(
        &mut self,
        place: usize,
        position: u64,
        tag: u32,
        kind: Kind,
    ) -> Result<HeaderMap, NotRead> {
        let label = Label {
            incarnation: self.egress.incarnation(),
            lane: self.egress.lane(place)?,
            position,
            align: u32::try_from(self.egress.align()).unwrap_or(u32::MAX),
            repair: self.window.repair_of(place, position, kind.is_end()),
            kind,
        };
        let mut headers = HeaderMap::new();
        headers.insert(ID_HEADER, label.to_string());
        if tag != 0 {
            headers.insert(TAG_HEADER, tag.to_string());
        }
        if position == self.lanes[place].start {
            headers.insert(START_HEADER, "1");
        }
        Ok(headers)
    }

    /// Whether the stream has as many subscribers as the first message waits for.
    async fn has_subscribers(&mut self, session: &Session<'_>) -> Result<bool, SessionEnd> {
        if !self.is_awaited {
            return Ok(true);
        }
        let wanted = self.settings.config.get_subscribers();
        let info = session.place.stream.get_info().await;
        let info = info.map_err(|error| {
            stream::unanswered(self.settings, session.connection, &error.to_string())
        })?;
        let there = info.state.consumer_count;
        if there >= usize::try_from(wanted).unwrap_or(usize::MAX) {
            self.is_awaited = false;
            return Ok(true);
        }
        self.control.report(|status| {
            status.note = format!("waiting for {wanted} subscribers, {there} are there");
        });
        tokio::time::sleep(COUNT_NAP).await;
        Ok(false)
    }

    /// The stream refused a message for now: reports it, pauses, and continues with one message at
    /// a time.
    async fn wait_for_space(
        &mut self,
        session: &Session<'_>,
        reason: &str,
    ) -> Result<(), SessionEnd> {
        let note = format!("the stream accepts no messages for now: {reason}");
        self.control.report(|status| status.note = note);
        (self.calm, self.most) = ((self.most / 2).max(1), 1);
        tokio::time::sleep(self.full_pause).await;
        self.full_pause = (self.full_pause * 2).min(FULL_PAUSE.1);
        if self.control.must_stop() {
            return Err(SessionEnd::Stopped);
        }
        session.connection.live()
    }

    /// Whether everything is delivered, up to the requested end if there is one, including the ends
    /// of lanes.
    fn is_delivered(&mut self) -> bool {
        let goal = match self.control.stopping() {
            Some(_) => self.egress.set_goal(),
            None => Ok(()),
        };
        let delivered = goal.and_then(|()| Ok(self.egress.is_delivered()? && !self.owes_end()?));
        delivered.unwrap_or(false) && self.failures.is_empty()
    }

    /// Whether the end of a lane is not stored yet.
    fn owes_end(&mut self) -> Result<bool, NotRead> {
        for (place, lane) in self.lanes.iter().enumerate() {
            if lane.is_open && self.egress.is_lane_ended(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether everything is delivered and nothing more will come.
    fn is_done(&mut self) -> Result<bool, SendRetry> {
        let asked = matches!(self.control.stopping(), Some(Stop::Delivered(_)));
        if !(asked || self.until_end && self.egress.is_ended()) || self.window.len() > 0 {
            return Ok(false);
        }
        if !self.failures.is_empty() || self.owes_end()? {
            return Ok(false);
        }
        let is_delivered = self.egress.is_delivered();
        let is_delivered = self.unless_owed(is_delivered)?.unwrap_or(false);
        Ok(is_delivered && self.look()? == self.lanes.len())
    }

    /// Waits for a reply, for more messages if the window has room, or for a request to end.
    async fn sleep(&mut self, session: &mut Session<'_>) -> Result<(), SendRetry> {
        let idle = self.has_room() && !self.is_awaited && self.full.is_none();
        if idle {
            self.egress.arm();
            if self.has_more()? {
                return Ok(());
            }
        }
        let asked = self.control.stopping().is_some();
        let heard = tokio::select! {
            heard = session.acks.next() => heard,
            ready = self.ready.readable(), if idle => {
                if let Ok(mut ready) = ready {
                    ready.clear_ready();
                }
                None
            }
            woken = self.wake.readable(), if !asked => {
                if let Ok(mut woken) = woken {
                    woken.clear_ready();
                }
                None
            }
            () = tokio::time::sleep(NAP) => None,
        };
        match heard {
            Some(message) => self.handle_reply(&message),
            None => Ok(()),
        }
    }

    /// Whether the ring has unsent messages.
    fn has_more(&mut self) -> Result<bool, SendRetry> {
        let lanes = self.look()?;
        if lanes != self.lanes.len() || self.failures.iter().any(|owed| self.is_sendable(owed)) {
            return Ok(true);
        }
        for place in 0..lanes {
            if self.owes_failure(place) {
                continue;
            }
            let lane = self.lanes[place];
            let owes_end = lane.is_open && !lane.is_ending && self.egress.is_lane_ended(place)?;
            // An end that is held waits for replies.
            if self.egress.waiting(place)? > 0 || owes_end && !self.must_hold_end(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Note about a server that replies, but acknowledged nothing on the last `count` connections.
fn silent(count: u32) -> String {
    format!(
        ", which acknowledged no message on the last {count} connections: if its log says \
         'critical write error', start the server again; a stream with 'no_ack' cannot be used"
    )
}

/// Passes one message to the client library.
async fn post(
    session: &Session<'_>,
    number: u64,
    headers: HeaderMap,
    payload: Bytes,
) -> Result<(), SessionEnd> {
    let reply = format!("{}.{number}", session.inbox);
    let posted = session
        .connection
        .client
        .publish_with_reply_and_headers(session.subject.clone(), reply, headers, payload)
        .await;
    posted.map_err(|error| SessionEnd::Away(error.to_string()))
}
