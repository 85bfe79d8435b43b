//! The HTTP/1.1 server: a [`Handler`] that reads requests and asks a [`Service`].
//!
//! A request that is whole in the receive buffer, the ordinary case, is parsed and answered in
//! place. Only incomplete requests are kept: an unfinished head by the engine, an unfinished body
//! here, beside a copy of its head.

use crate::{
    config::EngineConfig,
    engine::Engine,
    error::{CloseReason, StartError},
    handler::{ConnectionId, Handler, Origin},
    shard::{LOOK_AGAIN, Shard, guard::caught},
    slots::Slots,
};

use super::{
    body::{is_complete, take_body},
    chunk::Decoder,
    connection::{HttpConnection, Incoming, RequestStage},
    date::Date,
    head::{self, Field, Framing, Head},
    limits::Limits,
    message::{Keep, Request},
    service::{Exchange, Http, Pending, Responder, Service, StreamId, answer},
    status::Reject,
};

/// Below this length an unfinished head is read again whenever a piece arrives, so that nonsense is
/// refused early; above it only when it has grown by an eighth or its end is there, so that
/// one-byte pieces cost no quadratic time.
const REREAD_BYTES: usize = 4096;

/// Reads, a millisecond apart, of a request whose time is over: a socket's buffer needs fewer.
const LATE_LOOKS_MAX: u8 = 100;

/// An HTTP/1.1 server over a [`Service`]; [`serve`] starts one per shard.
#[derive(Debug)]
pub struct Server<S> {
    pub(super) service: S,
    pub(super) limits: Limits,
    pub(super) connections: Slots<HttpConnection>,
    fields: Vec<Field>,
    pub(super) date: Date,
    scratch: Vec<u8>,
    /// Bytes that bodies which are not complete hold, with their heads.
    pub(super) held: usize,
}

/// The outcome of a read.
pub(super) enum Step {
    /// So many bytes are processed.
    Used(usize),
    /// More must arrive first.
    Wait,
}

/// Starts an engine that serves HTTP/1.1. `service` is called once on each shard's thread, with the
/// shard's index.
///
/// An unfinished head is kept by the engine, so `unconsumed_max` is raised to `head_bytes_max` and
/// one `receive_buffer` where it is below that. Every other setting is obeyed as it is.
///
/// # Errors
///
/// [`StartError`], as [`Engine::start`]; also for limits out of range.
pub fn serve<S, F>(
    config: EngineConfig,
    limits: Limits,
    service: F,
) -> Result<Engine<Server<S>>, StartError>
where
    S: Service,
    F: Fn(usize) -> S + Send + Sync + 'static,
{
    limits.validate()?;
    let mut config = config;
    config.unconsumed_max = config
        .unconsumed_max
        .max(limits.head_bytes_max + config.receive_buffer);
    Engine::start(config, move |shard| Server {
        service: service(shard),
        limits: limits.clone(),
        connections: Slots::new(),
        fields: Vec::new(),
        date: Date::new(),
        scratch: Vec::new(),
        held: 0,
    })
}

impl<S: Service> Server<S> {
    pub(super) fn http<'a>(
        &'a mut self,
        shard: &'a mut Shard<S::Message>,
    ) -> (&'a mut S, Http<'a, S::Message>) {
        let Self {
            service,
            connections,
            date,
            scratch,
            limits,
            ..
        } = self;
        (
            service,
            Http {
                shard,
                connections,
                date,
                scratch,
                idle_timeout: limits.idle_timeout,
            },
        )
    }

    fn read_head(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, data: &[u8]) -> Step {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        let scanned = connection.scanned;
        let worth_reading = scanned == 0
            || data.len() < REREAD_BYTES
            || data.len() >= scanned + scanned / 8
            || memchr::memmem::find(&data[scanned.saturating_sub(3)..], b"\r\n\r\n").is_some();
        if !worth_reading {
            return Step::Wait;
        }
        match head::parse(data, &self.limits, &mut self.fields) {
            Ok(Some(head)) => {
                connection.scanned = 0;
                if std::mem::take(&mut connection.armed) {
                    shard.set_deadline(id, None);
                }
                self.read_message(shard, id, &head, data)
            }
            Ok(None) => {
                connection.scanned = data.len();
                if !connection.armed {
                    (connection.armed, connection.late_looks) = (true, 0);
                    shard.set_deadline(id, Some(self.limits.header_timeout));
                }
                Step::Wait
            }
            Err(reject) => self.refuse(shard, id, reject, data.len()),
        }
    }

    /// Serves a request with a complete body; otherwise prepares to wait for it.
    fn read_message(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        head: &Head,
        data: &[u8],
    ) -> Step {
        let max = self.limits.body_bytes_max;
        let (bytes, behind) = data.split_at(head.length);
        let (length, mut incoming) = match head.framing {
            Framing::Length(length) if length > max => {
                return self.refuse(shard, id, Reject::BodyTooLong, data.len());
            }
            Framing::Length(length) => (length, Incoming::Length(length)),
            Framing::Chunked => (u64::MAX, Incoming::Chunked(Decoder::new())),
        };
        if let Some(body) = usize::try_from(length)
            .ok()
            .and_then(|length| behind.get(..length))
        {
            let used = head.length + body.len();
            self.serve(shard, id, head, bytes, body, used < data.len());
            return Step::Used(used);
        }
        let (mut body, room) = (shard.take_buffer(), self.room());
        let taken = match take_body(&mut incoming, behind, &mut body, max, room) {
            Ok(taken) => taken,
            Err(reject) => {
                shard.give_back(body);
                return self.refuse(shard, id, reject, data.len());
            }
        };
        let used = head.length + taken;
        if is_complete(&incoming) {
            self.serve(shard, id, head, bytes, &body, used < data.len());
            shard.give_back(body);
            return Step::Used(used);
        }
        let mut head_copy = shard.take_buffer();
        head_copy.extend_from_slice(bytes);
        if body.capacity() + head_copy.capacity() > room {
            shard.give_back(head_copy);
            shard.give_back(body);
            return self.refuse(shard, id, Reject::BodiesTooMany, data.len());
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Used(used);
        };
        (connection.head, connection.incoming, connection.body) = (head_copy, incoming, body);
        connection.stage = RequestStage::Body;
        (connection.armed, connection.late_looks) = (true, 0);
        shard.set_deadline(id, Some(self.limits.body_timeout));
        self.count_body(shard, id);
        if head.expects_continue && taken == 0 {
            shard.append(id, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        Step::Used(used)
    }

    fn read_body(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, data: &[u8]) -> Step {
        let (max, room) = (self.limits.body_bytes_max, self.room());
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        let taken = match take_body(
            &mut connection.incoming,
            data,
            &mut connection.body,
            max,
            room,
        ) {
            Ok(taken) => taken,
            Err(reject) => return self.refuse(shard, id, reject, data.len()),
        };
        self.count_body(shard, id);
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        if !is_complete(&connection.incoming) {
            return Step::Used(taken);
        }
        connection.stage = RequestStage::Head;
        connection.armed = false;
        shard.set_deadline(id, None);
        let (bytes, body) = (
            std::mem::take(&mut connection.head),
            std::mem::take(&mut connection.body),
        );
        self.count_body(shard, id);
        // The copy of a head that was accepted is accepted again.
        match head::parse(&bytes, &self.limits, &mut self.fields) {
            Ok(Some(head)) => self.serve(shard, id, &head, &bytes, &body, taken < data.len()),
            Ok(None) | Err(_) => drop(self.refuse(shard, id, Reject::RequestLine, 0)),
        }
        shard.give_back(bytes);
        shard.give_back_body(body);
        Step::Used(taken)
    }

    /// Calls the service. `more` tells whether bytes of another request are available.
    fn serve(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        head: &Head,
        bytes: &[u8],
        body: &[u8],
        more: bool,
    ) {
        let Self {
            service,
            connections,
            fields,
            date,
            ..
        } = self;
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        let request = Request {
            bytes,
            head,
            fields,
            body,
        };
        let http_10 = head.minor == 0;
        // While stopping, the reply to the last available request announces the close.
        let keep = match head.keep_alive && (more || !shard.is_stopping()) {
            false => Keep::Close,
            true if http_10 => Keep::Alive,
            true => Keep::Silent,
        };
        let exchange = Exchange {
            keep,
            is_head: head.method.of(bytes) == b"HEAD",
            http_10,
        };
        connection.stage = RequestStage::Closing;
        let serial = connection.serial;
        let responder = Responder {
            shard,
            state: connection,
            date,
            id,
            exchange,
        };
        // Caught here, where the request can still be answered.
        let outcome = caught(|| service.on_request(&request, responder));
        let Some(connection) = connections.get_mut(id) else {
            return;
        };
        let unanswered = connection.stage == RequestStage::Closing
            && connection.serial == serial
            && shard.is_open(id);
        if unanswered {
            let exchange = Exchange {
                keep: Keep::Close,
                ..exchange
            };
            connection.stage = answer(shard, date, id, exchange, 500, &[], b"");
        }
        if let Err(message) = outcome {
            self.request_panicked(shard, id, &message);
        } else if connection.stage == RequestStage::Responding {
            self.owe(shard, id);
        }
    }

    /// Answers with an error and closes: what follows cannot be trusted to be a request.
    pub(super) fn refuse(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        reject: Reject,
        used: usize,
    ) -> Step {
        let exchange = Exchange {
            keep: Keep::Close,
            is_head: false,
            http_10: false,
        };
        let stage = answer(
            shard,
            &mut self.date,
            id,
            exchange,
            reject.status(),
            &[],
            b"",
        );
        shard.count_up().refused_requests.add(1);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = stage;
        }
        self.free_body(shard, id);
        Step::Used(used)
    }
}

impl<S: Service> Handler for Server<S> {
    type Message = S::Message;

    fn on_start(&mut self, shard: &mut Shard<S::Message>) {
        let (service, mut http) = self.http(shard);
        service.on_start(&mut http);
    }

    fn on_open(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, _: Origin) {
        self.connections.insert(id, HttpConnection::new());
        shard.set_deadline(id, Some(self.limits.header_timeout));
    }

    fn on_data(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, data: &[u8]) -> usize {
        let mut at = 0;
        while at < data.len() {
            // Answers to a long pipeline wait until the peer has read the earlier ones: no request
            // is served without room for its answer, be it the next of this batch or the first of
            // the next one.
            if shard.is_over(id) {
                break;
            }
            let Some(connection) = self.connections.get(id) else {
                return data.len();
            };
            let rest = &data[at..];
            let step = match connection.stage {
                RequestStage::Head => self.read_head(shard, id, rest),
                RequestStage::Body => self.read_body(shard, id, rest),
                RequestStage::Responding => break,
                RequestStage::Closing => return data.len(),
            };
            match step {
                Step::Used(used) => at += used,
                Step::Wait => break,
            }
        }
        // Once for each batch of requests. No call clears it: a new request sets another deadline,
        // or is not idle time.
        if at == data.len()
            && self
                .connections
                .get(id)
                .is_some_and(HttpConnection::is_idle)
        {
            shard.set_deadline(id, Some(self.limits.idle_timeout));
        }
        at
    }

    fn on_writable(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        if let Some(Pending { serial, .. }) = self
            .connections
            .get(id)
            .and_then(|connection| connection.pending)
        {
            let (service, mut http) = self.http(shard);
            service.on_writable(
                &mut http,
                StreamId {
                    connection: id,
                    serial,
                },
            );
        }
    }

    fn on_end(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.ended = true;
        // A peer may end its direction and still wait for the answer.
        if connection.stage != RequestStage::Responding {
            shard.close(id);
        } else if connection.half_closed.is_none() {
            self.half_closed(shard, id);
        }
    }

    fn on_half_close(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        self.half_closed(shard, id);
    }

    fn on_panic(&mut self, shard: &mut Shard<S::Message>, _: Option<ConnectionId>, message: &str) {
        let (service, mut http) = self.http(shard);
        service.on_panic(&mut http, message);
    }

    fn on_close(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, _: CloseReason) {
        self.free_body(shard, id);
        let Some(connection) = self.connections.remove(id) else {
            return;
        };
        if let Some(Pending { serial, .. }) = connection.pending {
            let (service, mut http) = self.http(shard);
            service.on_stream_closed(
                &mut http,
                StreamId {
                    connection: id,
                    serial,
                },
            );
        }
    }

    fn on_deadline(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        match self.connections.get_mut(id) {
            Some(connection) if connection.is_idle() => {
                let left = shard.quiet_left(id, self.limits.idle_timeout);
                if left.is_zero() {
                    shard.close_idle(id);
                } else {
                    // The last answer was in flight until recently (the engine bounds that time),
                    // or the next request has come and is still to be read.
                    shard.set_deadline(id, Some(left));
                }
            }
            // All of a request that came in time is read first, even if the shard is late. A peer
            // that never stops sending gains no more than these looks.
            Some(connection)
                if matches!(connection.stage, RequestStage::Head | RequestStage::Body)
                    && connection.late_looks < LATE_LOOKS_MAX
                    && shard.has_unshown_of(id) =>
            {
                connection.late_looks += 1;
                shard.set_deadline(id, Some(LOOK_AGAIN));
            }
            // A peer that never sent a byte gets no answer.
            Some(connection)
                if connection.stage == RequestStage::Head && connection.scanned == 0 =>
            {
                connection.stage = RequestStage::Closing;
                shard.close_late(id, CloseReason::Deadline);
            }
            Some(connection)
                if matches!(connection.stage, RequestStage::Head | RequestStage::Body) =>
            {
                self.refuse(shard, id, Reject::Timeout, 0);
            }
            Some(connection) if connection.stage == RequestStage::Responding => {
                self.answer_late(shard, id)
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, shard: &mut Shard<S::Message>, token: u64) {
        let (service, mut http) = self.http(shard);
        service.on_timer(&mut http, token);
    }

    fn on_message(&mut self, shard: &mut Shard<S::Message>, message: S::Message) {
        let (service, mut http) = self.http(shard);
        service.on_message(&mut http, message);
    }

    fn on_stop(&mut self, shard: &mut Shard<S::Message>) {
        let (service, mut http) = self.http(shard);
        service.on_stop(&mut http);
    }

    fn is_idle(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_none_or(|connection| {
            matches!(connection.stage, RequestStage::Head | RequestStage::Closing)
        })
    }
}
