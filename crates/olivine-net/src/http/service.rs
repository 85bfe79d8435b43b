//! The interface of an HTTP application, and the handles for its answers.

use std::time::Duration;

use crate::{error::NotSent, handler::ConnectionId, shard::Shard, slots::Slots};

use super::{
    chunk,
    connection::{HttpConnection, RequestStage},
    date::Date,
    message::{AnswerError, Extent, Keep, Request, StaticAnswer, check, has_content, write_head},
};

/// An HTTP application: plain methods on a plain struct, one value per shard, used by that shard's
/// thread alone. Routing is a `match` on method and path.
pub trait Service: 'static {
    /// What other shards and threads may post to this one; `()` where nothing is posted.
    type Message: Send + 'static;

    /// A complete request came. The [`Responder`] answers it, now or later; dropped unused, the
    /// peer gets 500.
    fn on_request(&mut self, request: &Request<'_>, responder: Responder<'_, Self::Message>);

    /// The shard has started.
    fn on_start(&mut self, http: &mut Http<'_, Self::Message>) {
        let _ = http;
    }

    /// A streamed reply accepts bytes again after it had refused some.
    fn on_writable(&mut self, http: &mut Http<'_, Self::Message>, stream: StreamId) {
        let _ = (http, stream);
    }

    /// The peer has ended its direction while this answer is pending: it has left, or has only
    /// stopped sending. By default nothing happens until
    /// [`Limits::half_closed_timeout`](super::Limits::half_closed_timeout); a service that knows
    /// that its clients do not end their direction early calls [`Http::abort`].
    fn on_half_close(&mut self, http: &mut Http<'_, Self::Message>, stream: StreamId) {
        let _ = (http, stream);
    }

    /// A method of this service panicked with `message`. Its request got 500, or
    /// its connection is reset if the answer had begun. State that the method was changing is as
    /// the panic left it.
    fn on_panic(&mut self, http: &mut Http<'_, Self::Message>, message: &str) {
        let _ = (http, message);
    }

    /// An unfinished streamed or later answer ends: its peer left, or its time is over.
    fn on_stream_closed(&mut self, http: &mut Http<'_, Self::Message>, stream: StreamId) {
        let _ = (http, stream);
    }

    /// A timer of [`Shard::set_timer`] fired.
    fn on_timer(&mut self, http: &mut Http<'_, Self::Message>, token: u64) {
        let _ = (http, token);
    }

    /// A message was posted to this shard.
    fn on_message(&mut self, http: &mut Http<'_, Self::Message>, message: Self::Message) {
        let _ = (http, message);
    }

    /// The engine is stopping; endless streams should be finished now, the others are waited for.
    fn on_stop(&mut self, http: &mut Http<'_, Self::Message>) {
        let _ = http;
    }
}

/// A buffer for events that grew beyond this is freed.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

/// Names an answer that is not finished yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    pub(crate) connection: ConnectionId,
    pub(crate) serial: u32,
}

/// How this exchange is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) keep: Keep,
    /// The request was HEAD: headers only.
    pub(crate) is_head: bool,
    pub(crate) http_10: bool,
}

/// An answer under way over several calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) serial: u32,
    pub(crate) exchange: Exchange,
    /// The head is out; `None` before.
    pub(crate) extent: Option<Extent>,
}

/// Answers one request.
///
/// Each way to reply consumes the responder, so a request cannot be answered twice.
#[must_use = "dropping the responder answers 500"]
pub struct Responder<'a, M> {
    pub(crate) shard: &'a mut Shard<M>,
    pub(crate) state: &'a mut HttpConnection,
    pub(crate) date: &'a mut Date,
    pub(crate) id: ConnectionId,
    pub(crate) exchange: Exchange,
}

impl<M> std::fmt::Debug for Responder<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responder")
            .field("connection", &self.id)
            .finish_non_exhaustive()
    }
}

impl<M> Responder<'_, M> {
    /// The shard, for messages, timers and addresses.
    pub fn shard(&mut self) -> &mut Shard<M> {
        self.shard
    }

    /// The connection the request came on.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.id
    }

    /// Sends an answer. For HEAD, and for 204, 205 and 304, the body is left out.
    ///
    /// Content-Length, Connection and Date are written by the server.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent; the peer gets 500.
    pub fn send(
        self,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        self.state.stage = answer(
            self.shard,
            self.date,
            self.id,
            self.exchange,
            status,
            headers,
            body,
        );
        Ok(())
    }

    /// Sends an answer that was rendered before.
    pub fn send_static(self, answer: &mut StaticAnswer) {
        let tick = self.shard.tick;
        let Exchange { keep, is_head, .. } = self.exchange;
        self.state.stage = if let Ok(out) = self.shard.writer(self.id) {
            answer.write(out, keep, is_head, self.date.at(tick));
            after(self.shard, self.id, keep)
        } else {
            no_room(self.shard, self.id)
        };
    }

    /// Defers the answer; [`Http::respond`] or [`Http::begin`] sends it, within
    /// [`Limits::answer_timeout`](super::Limits::answer_timeout). Meanwhile nothing more of
    /// this connection is read, so that answers keep their order.
    pub fn later(self) -> StreamId {
        self.state.serial = self.state.serial.wrapping_add(1);
        let serial = self.state.serial;
        self.state.pending = Some(Pending {
            serial,
            exchange: self.exchange,
            extent: None,
        });
        self.state.stage = RequestStage::Responding;
        self.shard.pause(self.id);
        StreamId {
            connection: self.id,
            serial,
        }
    }

    /// Begins an answer whose body follows by [`Http::write`] and ends by [`Http::finish`]:
    /// chunked, or for HTTP/1.0 ended by closing the connection. For HEAD, and for 204, 205 and
    /// 304, what is written is left out.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent; the peer gets 500.
    pub fn stream(self, status: u16, headers: &[(&str, &str)]) -> Result<StreamId, AnswerError> {
        check(status, headers)?;
        let id = self.id;
        let (exchange, extent) =
            open_body(self.shard, self.date, id, self.exchange, status, headers);
        self.state.serial = self.state.serial.wrapping_add(1);
        let serial = self.state.serial;
        self.state.pending = Some(Pending {
            serial,
            exchange,
            extent: Some(extent),
        });
        self.state.stage = RequestStage::Responding;
        self.shard.pause(id);
        Ok(StreamId {
            connection: id,
            serial,
        })
    }

    /// Begins a stream of server-sent events; [`Http::event`] sends them.
    ///
    /// # Errors
    ///
    /// None in practice; the type is that of [`Responder::stream`].
    pub fn events(self) -> Result<StreamId, AnswerError> {
        self.stream(
            200,
            &[
                ("Content-Type", "text/event-stream"),
                ("Cache-Control", "no-store"),
            ],
        )
    }
}

/// The server of one shard, between requests: unfinished answers, and the shard.
pub struct Http<'a, M> {
    pub(crate) shard: &'a mut Shard<M>,
    pub(crate) connections: &'a mut Slots<HttpConnection>,
    pub(crate) date: &'a mut Date,
    pub(crate) scratch: &'a mut Vec<u8>,
    pub(crate) idle_timeout: Duration,
}

impl<M> std::fmt::Debug for Http<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

impl<M> Http<'_, M> {
    /// The shard, for messages, timers and addresses.
    pub fn shard(&mut self) -> &mut Shard<M> {
        self.shard
    }

    /// Whether an unfinished answer is still wanted: its peer has not left.
    #[must_use]
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.pending(stream).is_some() && self.shard.is_open(stream.connection)
    }

    /// Whether the peer of an unfinished answer has ended its direction.
    #[must_use]
    pub fn is_half_closed(&self, stream: StreamId) -> bool {
        let connection = self.connections.get(stream.connection);
        self.pending(stream).is_some()
            && connection.is_some_and(|connection| connection.half_closed.is_some())
    }

    /// Gives an unfinished answer up and resets its connection. `on_stream_closed` is not called
    /// for it.
    pub fn abort(&mut self, stream: StreamId) {
        if self.pending(stream).is_some()
            && let Some(connection) = self.connections.get_mut(stream.connection)
        {
            connection.pending = None;
            connection.stage = RequestStage::Closing;
            self.shard.abort(stream.connection);
        }
    }

    fn pending(&self, stream: StreamId) -> Option<Pending> {
        let pending = self.connections.get(stream.connection)?.pending?;
        (pending.serial == stream.serial).then_some(pending)
    }

    /// Gives an answer that [`Responder::later`] put off.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent; then the answer is still pending.
    pub fn respond(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        let Some(Pending {
            exchange,
            extent: None,
            ..
        }) = self.pending(stream)
        else {
            return Ok(());
        };
        let id = stream.connection;
        let stage = answer(self.shard, self.date, id, exchange, status, headers, body);
        self.complete(id, stage);
        Ok(())
    }

    /// Begins the body of an answer that [`Responder::later`] put off, as [`Responder::stream`].
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent; then the answer is still pending.
    pub fn begin(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        let Some(Pending {
            exchange,
            extent: None,
            serial,
        }) = self.pending(stream)
        else {
            return Ok(());
        };
        let id = stream.connection;
        let (exchange, extent) = open_body(self.shard, self.date, id, exchange, status, headers);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.pending = Some(Pending {
                serial,
                exchange,
                extent: Some(extent),
            });
        }
        Ok(())
    }

    /// Sends a piece of a streamed body, all or nothing.
    ///
    /// # Errors
    ///
    /// [`NotSent::BackPressured`] while too much is queued, and then `on_writable` follows;
    /// [`NotSent::Closed`] if the answer is finished, not begun, or its peer has left.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), NotSent> {
        let pending = self.pending(stream).ok_or(NotSent::Closed)?;
        let extent = pending.extent.ok_or(NotSent::Closed)?;
        let out = self.shard.writer(stream.connection)?;
        match extent {
            _ if pending.exchange.is_head => {}
            Extent::Chunked => chunk::encode(out, bytes),
            Extent::UntilClose => out.extend_from_slice(bytes),
            Extent::Length(_) | Extent::Nothing => {}
        }
        Ok(())
    }

    /// Sends a server-sent event: `name` unless empty, and `data`, whose lines may end in any way.
    ///
    /// # Errors
    ///
    /// As [`Http::write`].
    pub fn event(&mut self, stream: StreamId, name: &str, data: &str) -> Result<(), NotSent> {
        let mut text = std::mem::take(self.scratch);
        text.clear();
        if !name.is_empty() {
            text.extend_from_slice(b"event: ");
            // A line end in the name would begin another field.
            text.extend(name.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')));
            text.push(b'\n');
        }
        let mut rest = data.as_bytes();
        loop {
            let end = memchr::memchr2(b'\r', b'\n', rest);
            text.extend_from_slice(b"data: ");
            text.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            text.push(b'\n');
            let Some(end) = end else { break };
            let both = rest[end..].starts_with(b"\r\n");
            rest = &rest[end + if both { 2 } else { 1 }..];
        }
        text.push(b'\n');
        let result = self.write(stream, &text);
        if text.capacity() <= SCRATCH_BYTES_MAX {
            *self.scratch = text;
        }
        result
    }

    /// Ends a streamed body. The next request of the connection is served after it.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(Pending {
            exchange,
            extent: Some(extent),
            ..
        }) = self.pending(stream)
        else {
            return;
        };
        let id = stream.connection;
        if extent == Extent::Chunked && !exchange.is_head {
            self.shard.append(id, chunk::LAST);
        }
        let stage = after(self.shard, id, exchange.keep);
        self.complete(id, stage);
    }

    fn complete(&mut self, id: ConnectionId, stage: RequestStage) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.pending = None;
        connection.stage = stage;
        if connection.ended {
            self.shard.close(id);
        } else {
            if stage == RequestStage::Head {
                self.shard.set_deadline(id, Some(self.idle_timeout));
            }
            self.shard.resume(id);
        }
    }
}

/// Writes a complete reply, and returns how the connection continues.
pub(crate) fn answer<M>(
    shard: &mut Shard<M>,
    date: &mut Date,
    id: ConnectionId,
    exchange: Exchange,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> RequestStage {
    let tick = shard.tick;
    let Ok(out) = shard.writer(id) else {
        return no_room(shard, id);
    };
    let extent = Extent::of(status, Some(body.len()), exchange.http_10);
    let keep = exchange.keep;
    write_head(out, status, headers, extent, keep, date.at(tick).0);
    if !exchange.is_head && has_content(status) {
        out.extend_from_slice(body);
    }
    after(shard, id, keep)
}

/// Writes the head of an answer whose body follows in pieces; says how the body ends, and how the
/// connection goes on.
fn open_body<M>(
    shard: &mut Shard<M>,
    date: &mut Date,
    id: ConnectionId,
    exchange: Exchange,
    status: u16,
    headers: &[(&str, &str)],
) -> (Exchange, Extent) {
    let extent = Extent::of(status, None, exchange.http_10);
    let keep = match extent {
        Extent::UntilClose => Keep::Close,
        _ => exchange.keep,
    };
    let tick = shard.tick;
    if let Ok(out) = shard.writer(id) {
        write_head(out, status, headers, extent, keep, date.at(tick).0);
    } else {
        no_room(shard, id);
    }
    (Exchange { keep, ..exchange }, extent)
}

/// What follows an answer for which there was no room: the end of the connection, since the next
/// answer would be taken for the missing one. The server asks for room before it serves a request,
/// so only a service that fills the connection gets here.
fn no_room<M>(shard: &mut Shard<M>, id: ConnectionId) -> RequestStage {
    shard.close(id);
    RequestStage::Closing
}

/// What follows a complete answer.
fn after<M>(shard: &mut Shard<M>, id: ConnectionId, keep: Keep) -> RequestStage {
    if keep == Keep::Close {
        shard.close(id);
        RequestStage::Closing
    } else {
        RequestStage::Head
    }
}
