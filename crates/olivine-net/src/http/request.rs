//! From a complete head to the service: bodies that are collected, streamed or refused, and the
//! call of the service.

use std::time::Duration;

use crate::{
    handler::ConnectionId,
    shard::{Shard, guard::caught},
};

use super::{
    answer::{Content, Http},
    body::{is_complete, take_body},
    chunk::Decoder,
    connection::{Exchange, Incoming, Pending, RequestStage},
    head::{self, Framing, Head},
    log::{Entry, Served},
    message::{Keep, Request, Trailers},
    responder::Responder,
    server::{Server, Step},
    service::{Admit, Service, StreamId},
    status::Refusal,
};

/// A request that goes to the service.
struct Arrived<'a> {
    head: &'a Head,
    /// The bytes of the head.
    bytes: &'a [u8],
    body: &'a [u8],
    trailers: Trailers<'a>,
    rest: Rest,
}

/// What follows a request that goes to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// The next request, of which bytes are there already if `more`.
    Requests { more: bool },
    /// Its body, in pieces.
    Pieces,
    /// Its body, which is not read.
    Unread,
}

impl<S: Service> Server<S> {
    /// Serves a request with a complete body; otherwise prepares to wait for it.
    pub(super) fn read_message(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        head: &Head,
        data: &[u8],
    ) -> Step {
        let (bytes, behind) = data.split_at(head.length);
        let mut max = self.state.limits.body_bytes_max;
        let mut arrived = Arrived {
            head,
            bytes,
            body: &[],
            trailers: Trailers::default(),
            rest: Rest::Requests { more: false },
        };
        let mut streamed = false;
        if head.framing != Framing::Length(0) {
            match self.admit(shard, id, head, bytes) {
                None => return Step::Used(data.len()),
                Some(Admit::Whole) => {}
                Some(Admit::WholeUpTo(most)) => max = most,
                Some(Admit::Stream(most)) => (max, streamed) = (most, true),
                Some(Admit::Unread) => {
                    arrived.rest = Rest::Unread;
                    self.serve(shard, id, &arrived);
                    return Step::Used(data.len());
                }
                Some(Admit::Refuse(status)) => {
                    let status = if (400..=599).contains(&status) {
                        status
                    } else {
                        500
                    };
                    return self.refuse(shard, id, Refusal::Service(status), data.len());
                }
            }
        }
        let (length, mut incoming) = match head.framing {
            Framing::Length(length) if length > max => {
                return self.refuse(shard, id, Refusal::BodyTooLong, data.len());
            }
            Framing::Length(length) => (length, Incoming::Length(length)),
            Framing::Chunked => (u64::MAX, Incoming::Chunked(Decoder::new())),
        };
        if streamed {
            return self.begin_stream(shard, id, &mut arrived, incoming, max);
        }
        if let Some(body) = usize::try_from(length)
            .ok()
            .and_then(|length| behind.get(..length))
        {
            let used = head.length + body.len();
            arrived.body = body;
            arrived.rest = Rest::Requests {
                more: used < data.len(),
            };
            self.serve(shard, id, &arrived);
            return Step::Used(used);
        }
        let (mut body, room) = (shard.take_buffer(), self.room());
        let taken = match take_body(&mut incoming, behind, &mut body, max, room) {
            Ok(taken) => taken,
            Err(refusal) => {
                shard.give_back(body);
                return self.refuse(shard, id, refusal, data.len());
            }
        };
        let used = head.length + taken;
        if is_complete(&incoming) {
            arrived.body = &body;
            arrived.trailers = trailers(&incoming);
            arrived.rest = Rest::Requests {
                more: used < data.len(),
            };
            self.serve(shard, id, &arrived);
            shard.give_back(body);
            return Step::Used(used);
        }
        let mut head_copy = shard.take_buffer();
        head_copy.extend_from_slice(bytes);
        if body.capacity() + head_copy.capacity() > room {
            shard.give_back(head_copy);
            shard.give_back(body);
            return self.refuse(shard, id, Refusal::BodiesTooMany, data.len());
        }
        let timeout = self.state.limits.body_timeout;
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(used);
        };
        (connection.head, connection.incoming, connection.body) = (head_copy, incoming, body);
        (connection.stage, connection.body_max) = (RequestStage::Body, max);
        (connection.armed, connection.late_looks) = (true, 0);
        connection.rate_bytes = taken as u64;
        connection.body_until = shard.tick_after(timeout);
        let window = self.state.limits.body_rate_window;
        shard.set_deadline(id, Some(timeout.min(window)));
        self.count_body(shard, id);
        if head.expects_continue && taken == 0 {
            shard.append(id, CONTINUE);
        }
        Step::Used(used)
    }

    pub(super) fn read_body(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        data: &[u8],
    ) -> Step {
        let room = self.room();
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        let taken = match take_body(
            &mut connection.incoming,
            data,
            &mut connection.body,
            connection.body_max,
            room,
        ) {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse(shard, id, refusal, data.len()),
        };
        connection.rate_bytes = connection.rate_bytes.saturating_add(taken as u64);
        self.count_body(shard, id);
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        if !is_complete(&connection.incoming) {
            return Step::Used(taken);
        }
        connection.stage = RequestStage::Head;
        connection.armed = false;
        shard.set_deadline(id, None);
        let incoming = std::mem::replace(&mut connection.incoming, Incoming::Length(0));
        let (bytes, body) = (
            std::mem::take(&mut connection.head),
            std::mem::take(&mut connection.body),
        );
        self.count_body(shard, id);
        // The copy of a head that was accepted is accepted again.
        match head::parse(&bytes, &self.state.limits, &mut self.fields) {
            Ok(Some(head)) => {
                let arrived = Arrived {
                    head: &head,
                    bytes: &bytes,
                    body: &body,
                    trailers: trailers(&incoming),
                    rest: Rest::Requests {
                        more: taken < data.len(),
                    },
                };
                self.serve(shard, id, &arrived);
            }
            Ok(None) | Err(_) => drop(self.refuse(shard, id, Refusal::RequestLine, 0)),
        }
        shard.give_back(bytes);
        shard.give_back_body(body);
        Step::Used(taken)
    }

    /// Asks the service what to do with a body; `None` if it panicked, and its peer got 500.
    fn admit(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        head: &Head,
        bytes: &[u8],
    ) -> Option<Admit> {
        let Self {
            service,
            state,
            fields,
        } = self;
        let request = Request {
            bytes,
            head,
            fields,
            body: &[],
            trailers: Trailers::default(),
        };
        let mut http = Http { shard, state };
        let set_stage = |http: &mut Http<'_, S::Message>, stage| {
            if let Some(connection) = http.state.connections.get_mut(id) {
                connection.stage = stage;
            }
        };
        // Behind a head with a body it is not known where the next request begins.
        set_stage(&mut http, RequestStage::Closing);
        match caught(|| service.on_head(&mut http, &request)) {
            Ok(admit) => {
                set_stage(&mut http, RequestStage::Head);
                Some(admit)
            }
            Err(message) => {
                let exchange = exchange(head, bytes, Keep::Close, false);
                http.answer_now(id, exchange, 500, &[], Content::Copied(b""));
                self.request_panicked(shard, id, &message);
                None
            }
        }
    }

    /// Serves a request whose body follows in pieces.
    fn begin_stream(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        arrived: &mut Arrived<'_>,
        incoming: Incoming,
        max: u64,
    ) -> Step {
        let used = arrived.head.length;
        let window = self.state.limits.body_rate_window;
        if let Some(connection) = self.state.connections.get_mut(id) {
            connection.stage = RequestStage::Streaming;
            (connection.incoming, connection.body_max) = (incoming, max);
            (connection.armed, connection.late_looks) = (true, 0);
            (connection.rate_bytes, connection.body_until) = (0, u64::MAX);
            connection.rate_until = shard.tick_after(window);
            connection.body_held = false;
            connection.awaits_continue = arrived.head.expects_continue;
            shard.set_deadline(id, Some(window));
        }
        arrived.rest = Rest::Pieces;
        self.serve(shard, id, arrived);
        if let Some(connection) = self.state.connections.get_mut(id)
            && std::mem::take(&mut connection.awaits_continue)
            && connection.stage == RequestStage::Streaming
            && connection.pending.is_some()
        {
            shard.append(id, CONTINUE);
        }
        Step::Used(used)
    }

    /// Passes a piece of a streamed body to the service.
    pub(super) fn read_stream(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        data: &[u8],
    ) -> Step {
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(data.len());
        };
        let Some(Pending { serial, .. }) = connection.pending else {
            return Step::Used(data.len());
        };
        if connection.body_held {
            return Step::Wait;
        }
        let mut decoded = Vec::new();
        let (piece, taken) = match &mut connection.incoming {
            Incoming::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                *left -= take as u64;
                (&data[..take], take)
            }
            Incoming::Chunked(decoder) => {
                decoded = shard.take_buffer();
                match decoder.feed(data, &mut decoded, connection.body_max) {
                    Ok(taken) => (&decoded[..], taken),
                    Err(refusal) => {
                        shard.give_back(decoded);
                        self.refuse_stream(shard, id, refusal);
                        return Step::Used(data.len());
                    }
                }
            }
        };
        connection.rate_bytes = connection.rate_bytes.saturating_add(taken as u64);
        let stream = StreamId {
            connection: id,
            serial,
        };
        let mut outcome = Ok(());
        if !piece.is_empty() {
            let (service, mut http) = self.http(shard);
            // Caught here, where the request can still be answered.
            outcome = caught(|| service.on_body(&mut http, stream, piece));
        }
        shard.give_back(decoded);
        if let Err(message) = outcome {
            self.request_panicked(shard, id, &message);
            return Step::Used(data.len());
        }
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(taken);
        };
        if connection.stage == RequestStage::Streaming && is_complete(&connection.incoming) {
            let incoming = std::mem::replace(&mut connection.incoming, Incoming::Length(0));
            connection.stage = RequestStage::Responding;
            (connection.armed, connection.body_held) = (false, false);
            shard.set_deadline(id, None);
            shard.pause(id);
            self.owe(shard, id);
            let (service, mut http) = self.http(shard);
            if http.is_open(stream)
                && let Err(message) =
                    caught(|| service.on_body_end(&mut http, stream, trailers(&incoming)))
            {
                self.request_panicked(shard, id, &message);
            }
        }
        Step::Used(taken)
    }

    /// Calls the service.
    fn serve(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, arrived: &Arrived<'_>) {
        let Self {
            service,
            state,
            fields,
        } = self;
        let Some(connection) = state.connections.get_mut(id) else {
            return;
        };
        let (head, bytes) = (arrived.head, arrived.bytes);
        let request = Request {
            bytes,
            head,
            fields,
            body: arrived.body,
            trailers: arrived.trailers,
        };
        let more = arrived.rest == Rest::Requests { more: true };
        // While stopping, the reply to the last available request announces the close.
        let keep = match head.keep_alive && (more || !shard.is_stopping()) {
            false => Keep::Close,
            _ if arrived.rest == Rest::Unread => Keep::Close,
            true if head.minor == 0 => Keep::Alive,
            true => Keep::Silent,
        };
        let whole = matches!(arrived.rest, Rest::Requests { .. });
        let exchange = exchange(head, bytes, keep, whole);
        if arrived.rest != Rest::Pieces {
            connection.stage = RequestStage::Closing;
        }
        (connection.status, connection.content_bytes) = (0, 0);
        connection.begun = shard.tick;
        let before = connection.serial;
        shard.count_up().requests.add(1);
        let responder = Responder::new(id, exchange);
        let mut http = Http { shard, state };
        // Caught here, where the request can still be answered.
        let outcome = caught(|| service.on_request(&mut http, &request, responder));
        let Some(connection) = http.state.connections.get_mut(id) else {
            return;
        };
        let unanswered = match connection.stage {
            RequestStage::Closing => connection.serial == before,
            RequestStage::Streaming => connection.pending.is_none(),
            _ => false,
        };
        if unanswered && http.shard.is_open(id) {
            let exchange = Exchange {
                keep: Keep::Close,
                ..exchange
            };
            http.answer_now(id, exchange, 500, &[], Content::Copied(b""));
        }
        if S::LOGS {
            log(service, &mut http, id, &request);
        }
        if let Err(message) = outcome {
            self.request_panicked(shard, id, &message);
        } else if let Some(connection) = self.state.connections.get(id)
            && connection.stage == RequestStage::Responding
        {
            self.owe(shard, id);
        }
    }
}

/// Tells the service of a request that is answered, and keeps what the log needs of another.
fn log<S: Service>(
    service: &mut S,
    http: &mut Http<'_, S::Message>,
    id: ConnectionId,
    request: &Request<'_>,
) {
    let Some(connection) = http.state.connections.get_mut(id) else {
        return;
    };
    let (method, target) = (request.method(), request.target());
    if connection.pending.is_some() {
        connection.entry = Some(Box::new(Entry {
            connection: id,
            line: [method, target].concat(),
            method: method.len(),
            status: 0,
            content_bytes: 0,
            is_whole: false,
            milliseconds: 0,
        }));
        return;
    }
    let served = Served {
        connection: id,
        method,
        target,
        status: connection.status,
        content_bytes: connection.content_bytes,
        is_whole: connection.status != 0 && !connection.cut,
        duration: Duration::ZERO,
    };
    service.on_served(http, &served);
}

/// The interim answer to `Expect: 100-continue`.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How a request is to be answered. `whole`: nothing of it is still to come.
fn exchange(head: &Head, bytes: &[u8], keep: Keep, whole: bool) -> Exchange {
    Exchange {
        keep,
        is_head: head.method.of(bytes) == b"HEAD",
        http_10: head.minor == 0,
        upgrade: head.upgrade && whole,
    }
}

/// The trailer fields of a complete body.
fn trailers(incoming: &Incoming) -> Trailers<'_> {
    match incoming {
        Incoming::Length(_) => Trailers::default(),
        Incoming::Chunked(decoder) => Trailers(decoder.trailers()),
    }
}
