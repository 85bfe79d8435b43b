//! The right to answer one request.

use std::{fs::File, marker::PhantomData, ops::Range, sync::Arc};

use crate::handler::ConnectionId;

use super::{
    answer::{Content, Http},
    connection::RequestStage,
    message::{AnswerError, StaticAnswer, check, write_upgrade},
    service::StreamId,
};

use super::connection::Exchange;

/// Answers one request.
///
/// Each way to reply consumes the responder, so a request cannot be answered twice, and it cannot
/// be kept after the call that got it.
#[derive(Debug)]
#[must_use = "dropping the responder answers 500"]
pub struct Responder<'r> {
    id: ConnectionId,
    exchange: Exchange,
    call: PhantomData<&'r mut ()>,
}

impl Responder<'_> {
    pub(super) fn new(id: ConnectionId, exchange: Exchange) -> Self {
        Self {
            id,
            exchange,
            call: PhantomData,
        }
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
    pub fn send<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), AnswerError> {
        self.send_content(http, status, headers, Content::Copied(body))
    }

    /// As [`Responder::send`], without a copy of the body: the same bytes may be on the way to any
    /// number of peers. Pays off from a few KiB up.
    ///
    /// # Errors
    ///
    /// As [`Responder::send`].
    pub fn send_shared<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
        body: Arc<[u8]>,
    ) -> Result<(), AnswerError> {
        self.send_content(http, status, headers, Content::Shared(body))
    }

    /// Sends the bytes of `range` of a file, which the kernel copies where it can. Answers of any
    /// length hold no memory. The file may be on the way to any number of peers.
    ///
    /// Reading a file that is not in memory stalls the shard as long as the disk takes. A file that
    /// becomes shorter meanwhile breaks the connection.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent, the file has no length or is
    /// shorter than `range`; the peer gets 500.
    pub fn send_file<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
        file: &Arc<File>,
        range: Range<u64>,
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        let content = Content::file(file, range)?;
        http.answer_now(self.id, self.exchange, status, headers, content);
        Ok(())
    }

    fn send_content<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
        content: Content<'_>,
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        http.answer_now(self.id, self.exchange, status, headers, content);
        Ok(())
    }

    /// Sends an answer that was rendered before.
    pub fn send_static<M>(self, http: &mut Http<'_, M>, answer: &mut StaticAnswer) {
        http.answer_static(self.id, self.exchange, answer);
    }

    /// Defers the answer; [`Http::respond`] or [`Http::begin`] sends it, within
    /// [`Limits::answer_timeout`](super::Limits::answer_timeout). Meanwhile no further request of
    /// this connection is read, so that answers keep their order.
    pub fn later<M>(self, http: &mut Http<'_, M>) -> StreamId {
        http.owe(self.id, self.exchange)
    }

    /// Begins an answer whose body follows by [`Http::write`] and ends by [`Http::finish`]:
    /// chunked, or for HTTP/1.0 ended by closing the connection. For HEAD, and for 204, 205 and
    /// 304, what is written is left out.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] if the status or a header cannot be sent; the peer gets 500.
    pub fn stream<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
    ) -> Result<StreamId, AnswerError> {
        check(status, headers)?;
        let stream = http.owe(self.id, self.exchange);
        http.open_body(stream, status, headers, None);
        Ok(stream)
    }

    /// As [`Responder::stream`], for a body of exactly `length` bytes: the peer knows it from the
    /// head. More are refused, and finishing with fewer resets the connection.
    ///
    /// # Errors
    ///
    /// As [`Responder::stream`].
    pub fn stream_sized<M>(
        self,
        http: &mut Http<'_, M>,
        status: u16,
        headers: &[(&str, &str)],
        length: u64,
    ) -> Result<StreamId, AnswerError> {
        check(status, headers)?;
        let stream = http.owe(self.id, self.exchange);
        http.open_body(stream, status, headers, Some(length));
        Ok(stream)
    }

    /// Begins a stream of server-sent events; [`Http::event`] sends them.
    ///
    /// As [`Responder::stream`], with 200, `Content-Type: text/event-stream` and `Cache-Control:
    /// no-store`. For other fields begin it by that method. An endless stream never finishes the
    /// answer to HEAD: give that one by [`Responder::send`].
    pub fn events<M>(self, http: &mut Http<'_, M>) -> StreamId {
        let headers = [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-store"),
        ];
        let stream = http.owe(self.id, self.exchange);
        http.open_body(stream, 200, &headers, None);
        stream
    }

    /// Accepts the upgrade that the request offers ([`Request::upgrade`](super::Request::upgrade)):
    /// sends 101 with `protocol` and `headers`. From then on the connection belongs to the service:
    /// [`Service::on_raw_data`](super::Service::on_raw_data) gets all that arrives.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Upgrade`] if the request offers none, its body is not read yet, or `protocol`
    /// cannot be sent; [`AnswerError::Header`] if a header cannot be sent. The peer gets 500.
    pub fn upgrade<M>(
        self,
        http: &mut Http<'_, M>,
        protocol: &str,
        headers: &[(&str, &str)],
    ) -> Result<ConnectionId, AnswerError> {
        check(200, headers)?;
        let fine = !protocol.is_empty() && check(200, &[("Upgrade", protocol)]).is_ok();
        if !self.exchange.upgrade || !fine {
            return Err(AnswerError::Upgrade);
        }
        let Ok(out) = http.shard.writer(self.id) else {
            return Err(AnswerError::Upgrade);
        };
        write_upgrade(out, protocol, headers);
        http.shard.set_deadline(self.id, None);
        if let Some(connection) = http.state.connections.get_mut(self.id) {
            connection.stage = RequestStage::Upgraded;
            connection.status = 101;
        }
        Ok(self.id)
    }
}
