//! From a complete head to the service: bodies that are collected, streamed or refused, and the
//! call of the service.

use std::time::Duration;

use crate::{
    handler::ConnectionId,
    shard::{Shard, guard::caught},
};

use super::{
    answer::{Content, Http},
    body::{Incoming, is_complete, take_body},
    chunk::Decoder,
    connection::{Exchange, Pending, RequestStage},
    head::{self, Framing, Head},
    log::{Entry, Served},
    message::{Keep, Message, Request, Trailers},
    responder::Responder,
    server::{Server, Step},
    service::{Admit, Service, StreamId},
    status::Refusal,
};

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
        let without_body = Message {
            head,
            bytes,
            body: &[],
            trailers: Trailers::default(),
        };
        if head.framing == Framing::Length(0) {
            let more = !behind.is_empty();
            self.serve(shard, id, &without_body, Rest::Requests { more });
            return Step::Used(head.length);
        }
        let mut streamed = false;
        match self.admit(shard, id, &without_body) {
            None => return Step::Used(data.len()),
            Some(Admit::Whole) => {}
            Some(Admit::WholeUpTo(most)) => max = most,
            Some(Admit::Stream(most)) => (max, streamed) = (most, true),
            Some(Admit::Unread) => {
                self.serve(shard, id, &without_body, Rest::Unread);
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
        let (length, mut incoming) = match head.framing {
            Framing::Length(length) if length > max => {
                return self.refuse(shard, id, Refusal::BodyTooLong, data.len());
            }
            Framing::Length(length) => (length, Incoming::Length(length)),
            Framing::Chunked => (u64::MAX, Incoming::Chunked(Decoder::new())),
        };
        if streamed {
            return self.begin_stream(shard, id, &without_body, incoming, max);
        }
        if let Some(body) = usize::try_from(length)
            .ok()
            .and_then(|length| behind.get(..length))
        {
            let used = head.length + body.len();
            let more = used < data.len();
            let message = Message {
                body,
                ..without_body
            };
            self.serve(shard, id, &message, Rest::Requests { more });
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
            let more = used < data.len();
            let message = Message {
                body: &body,
                trailers: trailers(&incoming),
                ..without_body
            };
            self.serve(shard, id, &message, Rest::Requests { more });
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
        let mut arriving = self.state.arriving(incoming, max);
        (arriving.head, arriving.body) = (head_copy, body);
        arriving.rate_bytes = taken as u64;
        arriving.until = shard.tick_after(timeout);
        let Some(connection) = self.state.connections.get_mut(id) else {
            return Step::Used(used);
        };
        (connection.stage, connection.arriving) = (RequestStage::Body, Some(arriving));
        (connection.armed, connection.late_looks) = (true, 0);
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
        let Some(arriving) = &mut connection.arriving else {
            return Step::Used(data.len());
        };
        let taken = match take_body(
            &mut arriving.incoming,
            data,
            &mut arriving.body,
            arriving.max,
            room,
        ) {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse(shard, id, refusal, data.len()),
        };
        arriving.rate_bytes = arriving.rate_bytes.saturating_add(taken as u64);
        if !is_complete(&arriving.incoming) {
            self.count_body(shard, id);
            return Step::Used(taken);
        }
        connection.stage = RequestStage::Head;
        connection.armed = false;
        shard.set_deadline(id, None);
        let Some(arriving) = self.take_arriving(shard, id) else {
            return Step::Used(taken);
        };
        let bytes = &arriving.head;
        // The copy of a head that was accepted is accepted again.
        match head::parse(bytes, &self.state.limits, &mut self.fields) {
            Ok(Some(head)) => {
                let message = Message {
                    head: &head,
                    bytes,
                    body: &arriving.body,
                    trailers: trailers(&arriving.incoming),
                };
                let more = taken < data.len();
                self.serve(shard, id, &message, Rest::Requests { more });
            }
            Ok(None) | Err(_) => drop(self.refuse(shard, id, Refusal::RequestLine, 0)),
        }
        self.release(shard, arriving);
        Step::Used(taken)
    }

    /// Asks the service what to do with a body; `None` if it panicked, and its peer got 500.
    fn admit(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        message: &Message<'_>,
    ) -> Option<Admit> {
        let Self {
            service,
            state,
            fields,
        } = self;
        let request = Request { message, fields };
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
            Err(panic) => {
                let exchange = exchange(message, Keep::Close, false);
                http.answer_now(id, exchange, 500, &[], Content::Copied(b""));
                self.request_panicked(shard, id, &panic);
                None
            }
        }
    }

    /// Serves a request whose body follows in pieces.
    fn begin_stream(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        message: &Message<'_>,
        incoming: Incoming,
        max: u64,
    ) -> Step {
        let used = message.head.length;
        let window = self.state.limits.body_rate_window;
        let mut arriving = self.state.arriving(incoming, max);
        arriving.rate_until = shard.tick_after(window);
        arriving.awaits_continue = message.head.expects_continue;
        if let Some(connection) = self.state.connections.get_mut(id) {
            (connection.stage, connection.arriving) = (RequestStage::Streaming, Some(arriving));
            (connection.armed, connection.late_looks) = (true, 0);
            connection.body_held = false;
            shard.set_deadline(id, Some(window));
        }
        self.serve(shard, id, message, Rest::Pieces);
        if let Some(connection) = self.state.connections.get_mut(id)
            && let Some(arriving) = &mut connection.arriving
            && std::mem::take(&mut arriving.awaits_continue)
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
        let Some(arriving) = &mut connection.arriving else {
            return Step::Used(data.len());
        };
        let mut decoded = Vec::new();
        let (piece, taken) = match &mut arriving.incoming {
            Incoming::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                *left -= take as u64;
                (&data[..take], take)
            }
            Incoming::Chunked(decoder) => {
                decoded = shard.take_buffer();
                match decoder.feed(data, &mut decoded, arriving.max) {
                    Ok(taken) => (&decoded[..], taken),
                    Err(refusal) => {
                        shard.give_back(decoded);
                        self.refuse_stream(shard, id, refusal);
                        return Step::Used(data.len());
                    }
                }
            }
        };
        arriving.rate_bytes = arriving.rate_bytes.saturating_add(taken as u64);
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
        if connection.stage == RequestStage::Streaming
            && let Some(arriving) = connection
                .arriving
                .take_if(|arriving| is_complete(&arriving.incoming))
        {
            connection.stage = RequestStage::Responding;
            (connection.armed, connection.body_held) = (false, false);
            shard.set_deadline(id, None);
            shard.pause(id);
            self.owe(shard, id);
            let (service, mut http) = self.http(shard);
            let mut outcome = Ok(());
            if http.is_open(stream) {
                let trailers = trailers(&arriving.incoming);
                outcome = caught(|| service.on_body_end(&mut http, stream, trailers));
            }
            self.release(shard, arriving);
            if let Err(message) = outcome {
                self.request_panicked(shard, id, &message);
            }
        }
        Step::Used(taken)
    }

    /// Calls the service.
    fn serve(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        message: &Message<'_>,
        rest: Rest,
    ) {
        let Self {
            service,
            state,
            fields,
        } = self;
        let Some(connection) = state.connections.get_mut(id) else {
            return;
        };
        let request = Request { message, fields };
        let head = message.head;
        let more = rest == Rest::Requests { more: true };
        // While stopping, the reply to the last available request announces the close.
        let keep = match head.keep_alive && (more || !shard.is_stopping()) {
            false => Keep::Close,
            _ if rest == Rest::Unread => Keep::Close,
            true if head.minor == 0 => Keep::Alive,
            true => Keep::Silent,
        };
        let whole = matches!(rest, Rest::Requests { .. });
        let exchange = exchange(message, keep, whole);
        if rest != Rest::Pieces {
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
        let owed = connection.stage == RequestStage::Responding;
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
        if let Err(panic) = outcome {
            self.request_panicked(shard, id, &panic);
        } else if owed && self.state.stage(id) == Some(RequestStage::Responding) {
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
fn exchange(message: &Message<'_>, keep: Keep, whole: bool) -> Exchange {
    let Message { head, bytes, .. } = message;
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
