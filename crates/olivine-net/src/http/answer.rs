//! The server of a shard as a service sees it between requests: answers that are put off, streamed
//! answers, and the writing of all of them.

use std::{fs::File, ops::Range, sync::Arc, time::Duration};

use crate::{error::NotSent, handler::ConnectionId, shard::Shard};

use super::{
    chunk,
    connection::{Exchange, Pending, RequestStage, State},
    event::{self, Event},
    message::{
        AnswerError, Extent, Keep, StaticAnswer, check, check_fields, has_content, write_head,
        write_trailers,
    },
    request::CONTINUE,
    service::StreamId,
};

/// The server of one shard: its unfinished answers, and the shard.
pub struct Http<'a, M> {
    pub(crate) shard: &'a mut Shard<M>,
    pub(crate) state: &'a mut State,
}

impl<M> std::fmt::Debug for Http<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

/// The content of a complete answer.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Copied(&'a [u8]),
    Shared(Arc<[u8]>),
    File(Arc<File>, Range<u64>),
}

impl Content<'_> {
    /// A part of a file, which must have it.
    pub(super) fn file(file: &Arc<File>, range: Range<u64>) -> Result<Self, AnswerError> {
        let length = match file.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) => return Err(AnswerError::File { kind: error.kind() }),
        };
        if range.start > range.end || range.end > length {
            return Err(AnswerError::Range {
                length,
                end: range.end,
            });
        }
        Ok(Content::File(Arc::clone(file), range))
    }

    fn length(&self) -> u64 {
        match self {
            Self::Copied(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }
}

impl<M> Http<'_, M> {
    /// The shard, for messages, timers and addresses.
    pub fn shard(&mut self) -> &mut Shard<M> {
        self.shard
    }

    /// Hands a connection to another shard between two requests, or an upgraded one: as
    /// [`Shard::hand_over`]. There
    /// [`Service::on_handed_over`](super::Service::on_handed_over) says what it speaks. From within
    /// `on_request` it is possible after the complete answer; what the peer has sent behind the
    /// request goes along.
    ///
    /// # Errors
    ///
    /// As [`Shard::hand_over`]; [`NotSent::Busy`] while a request comes, its body included, or is
    /// not completely answered. The connection then stays here.
    pub fn hand_over(&mut self, id: ConnectionId, shard: usize, token: u64) -> Result<(), NotSent> {
        let connection = self.state.connections.get(id).ok_or(NotSent::Closed)?;
        match connection.stage {
            RequestStage::Head | RequestStage::Upgraded => self.shard.pass_on(id, shard, token),
            _ => Err(NotSent::Busy),
        }
    }

    /// Whether an unfinished answer is still wanted: its peer has not left.
    #[must_use]
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.pending(stream).is_some() && self.shard.is_open(stream.connection)
    }

    /// Whether the peer of an unfinished answer has ended its direction.
    #[must_use]
    pub fn is_half_closed(&self, stream: StreamId) -> bool {
        let connection = self.state.connections.get(stream.connection);
        self.pending(stream).is_some()
            && connection.is_some_and(|connection| connection.half_closed.is_some())
    }

    /// Gives an unfinished answer up and resets its connection. `on_stream_closed` is not called
    /// for it.
    pub fn abort(&mut self, stream: StreamId) {
        if self.pending(stream).is_some() {
            self.state
                .end_entry(stream.connection, false, self.shard.tick);
            if let Some(connection) = self.state.connections.get_mut(stream.connection) {
                connection.pending = None;
                connection.cut = true;
                connection.stage = RequestStage::Closing;
            }
            self.shard.abort(stream.connection);
        }
    }

    fn pending(&self, stream: StreamId) -> Option<Pending> {
        let pending = self.state.connections.get(stream.connection)?.pending?;
        (pending.serial == stream.serial).then_some(pending)
    }

    /// Gives an answer that [`Responder::later`](super::Responder::later) put off. Nothing happens
    /// if its peer has left, or the answer has been given.
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
        self.respond_with(stream, status, headers, Content::Copied(body))
    }

    /// As [`Http::respond`], without a copy of the body.
    ///
    /// # Errors
    ///
    /// As [`Http::respond`].
    pub fn respond_shared(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        body: Arc<[u8]>,
    ) -> Result<(), AnswerError> {
        self.respond_with(stream, status, headers, Content::Shared(body))
    }

    /// As [`Http::respond`], with a part of a file, as
    /// [`Responder::send_file`](super::Responder::send_file).
    ///
    /// # Errors
    ///
    /// As [`Responder::send_file`](super::Responder::send_file); then the answer is still pending.
    pub fn respond_file(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        file: &Arc<File>,
        range: Range<u64>,
    ) -> Result<(), AnswerError> {
        self.respond_with(stream, status, headers, Content::file(file, range)?)
    }

    fn respond_with(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        content: Content<'_>,
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        if let Some(Pending {
            exchange,
            extent: None,
            ..
        }) = self.pending(stream)
        {
            let id = stream.connection;
            let stage = self.write_answer(id, exchange, status, headers, content);
            self.complete(id, stage);
        }
        Ok(())
    }

    /// Begins the body of an answer that [`Responder::later`](super::Responder::later) put off, as
    /// [`Responder::stream`](super::Responder::stream).
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
        self.open_body(stream, status, headers, None);
        Ok(())
    }

    /// As [`Http::begin`], for a body of exactly `length` bytes, as
    /// [`Responder::stream_sized`](super::Responder::stream_sized).
    ///
    /// # Errors
    ///
    /// As [`Http::begin`].
    pub fn begin_sized(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        length: u64,
    ) -> Result<(), AnswerError> {
        check(status, headers)?;
        self.open_body(stream, status, headers, Some(length));
        Ok(())
    }

    /// Sends a piece of a streamed body, all or nothing.
    ///
    /// # Errors
    ///
    /// [`NotSent::BackPressured`] while too much is queued, and then `on_writable` follows;
    /// [`NotSent::TooLong`] if the body has less room left than that;
    /// [`NotSent::Closed`] if the answer is finished, not begun, or its peer has left.
    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) -> Result<(), NotSent> {
        let Some(extent) = self.take_room(stream, bytes.len())? else {
            return Ok(());
        };
        let out = self.shard.writer(stream.connection)?;
        match extent {
            Extent::Chunked => chunk::encode(out, bytes),
            _ => out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// As [`Http::write`], without a copy: the same bytes may be on the way to any number of peers.
    ///
    /// # Errors
    ///
    /// As [`Http::write`].
    pub fn write_shared(&mut self, stream: StreamId, bytes: Arc<[u8]>) -> Result<(), NotSent> {
        if bytes.is_empty() {
            return self.write(stream, &[]);
        }
        let Some(extent) = self.take_room(stream, bytes.len())? else {
            return Ok(());
        };
        let id = stream.connection;
        let out = self.shard.writer(id)?;
        if extent == Extent::Chunked {
            chunk::begin(out, bytes.len());
        }
        self.shard.append_shared(id, bytes);
        if extent == Extent::Chunked {
            self.shard.append(id, chunk::END);
        }
        Ok(())
    }

    /// Sends a server-sent event, without allocating.
    ///
    /// # Errors
    ///
    /// As [`Http::write`].
    pub fn event(&mut self, stream: StreamId, event: &Event<'_>) -> Result<(), NotSent> {
        self.write_rendered(stream, event.length(), |out| {
            event.render(&mut |piece| out.extend_from_slice(piece));
        })
    }

    /// Sends a comment in a stream of server-sent events, which clients ignore: it shows that the
    /// peer is still there, and keeps proxies from closing a silent stream.
    ///
    /// # Errors
    ///
    /// As [`Http::write`].
    pub fn comment(&mut self, stream: StreamId, text: &str) -> Result<(), NotSent> {
        let mut length = 1;
        event::lines(&mut |piece| length += piece.len(), b": ", text);
        self.write_rendered(stream, length, |out| {
            event::lines(&mut |piece| out.extend_from_slice(piece), b": ", text);
            out.push(b'\n');
        })
    }

    fn write_rendered(
        &mut self,
        stream: StreamId,
        length: usize,
        render: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), NotSent> {
        let Some(extent) = self.take_room(stream, length)? else {
            return Ok(());
        };
        let out = self.shard.writer(stream.connection)?;
        if extent == Extent::Chunked {
            chunk::begin(out, length);
            render(out);
            out.extend_from_slice(chunk::END);
        } else {
            render(out);
        }
        Ok(())
    }

    /// Checks that a streamed body takes `bytes` more, and counts them; `None` if what is written
    /// is left out.
    fn take_room(&mut self, stream: StreamId, bytes: usize) -> Result<Option<Extent>, NotSent> {
        let pending = self.pending(stream).ok_or(NotSent::Closed)?;
        let extent = pending.extent.ok_or(NotSent::Closed)?;
        // Asked before anything is counted: a piece that is refused comes again.
        self.shard.writer(stream.connection)?;
        let Some(connection) = self.state.connections.get_mut(stream.connection) else {
            return Err(NotSent::Closed);
        };
        if !has_content(connection.status) {
            return Ok(None);
        }
        if let (Extent::Length(_), Some(pending)) = (extent, &mut connection.pending) {
            pending.left = pending
                .left
                .checked_sub(bytes as u64)
                .ok_or(NotSent::TooLong)?;
        }
        if pending.exchange.is_head {
            return Ok(None);
        }
        connection.content_bytes += bytes as u64;
        Ok(Some(extent))
    }

    /// Ends a streamed body. The next request of the connection is served after it. A body that is
    /// shorter than announced resets the connection: its peer must not take it for the whole.
    pub fn finish(&mut self, stream: StreamId) {
        // No fields, so no error.
        let _ = self.finish_with(stream, &[]);
    }

    /// As [`Http::finish`], with trailer fields, such as a check sum. Only a chunked body has a
    /// place for them: others end without.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Header`] if a field cannot be sent; then the answer is still pending.
    pub fn finish_with(
        &mut self,
        stream: StreamId,
        trailers: &[(&str, &str)],
    ) -> Result<(), AnswerError> {
        check_fields(trailers)?;
        let Some(Pending {
            exchange,
            extent: Some(extent),
            left,
            ..
        }) = self.pending(stream)
        else {
            return Ok(());
        };
        let id = stream.connection;
        match extent {
            Extent::Chunked if !exchange.is_head => {
                self.shard
                    .append_with(id, |out| write_trailers(out, trailers));
            }
            Extent::Length(_) if left > 0 && !exchange.is_head => {
                self.abort(stream);
                return Ok(());
            }
            _ => {}
        }
        let stage = self.after(id, exchange.keep);
        self.complete(id, stage);
        Ok(())
    }

    /// Stops showing the body of a streamed request to the service, and soon reading it at all,
    /// until [`Http::resume_body`]. The time of a pause does not count for the peer's rate.
    pub fn pause_body(&mut self, stream: StreamId) {
        self.hold_body(stream, true);
    }

    /// Ends a [`Http::pause_body`].
    pub fn resume_body(&mut self, stream: StreamId) {
        self.hold_body(stream, false);
    }

    fn hold_body(&mut self, stream: StreamId, hold: bool) {
        let streamed = self.pending(stream).is_some();
        let tick = self.shard.tick;
        let Some(connection) = self.state.connections.get_mut(stream.connection) else {
            return;
        };
        let under_way = streamed && connection.stage == RequestStage::Streaming;
        if !under_way || connection.body_held == hold {
            return;
        }
        let Some(arriving) = &mut connection.arriving else {
            return;
        };
        connection.body_held = hold;
        if hold {
            arriving.rate_left = arriving.rate_until.saturating_sub(tick);
            if connection.half_closed.is_some() {
                connection.half_closed = Some(self.shard.tick);
                if let Some(timeout) = self.state.limits.half_closed_timeout {
                    self.shard.set_deadline(stream.connection, Some(timeout));
                }
            }
            self.shard.pause(stream.connection);
        } else {
            // The peer has the rest of its time, which the pause has not used up.
            let left = Duration::from_millis(arriving.rate_left);
            arriving.rate_until = self.shard.tick_after(left);
            self.shard.set_deadline(stream.connection, Some(left));
            self.shard.resume(stream.connection);
        }
    }

    /// Answers from within `on_request`.
    pub(super) fn answer_now(
        &mut self,
        id: ConnectionId,
        exchange: Exchange,
        status: u16,
        headers: &[(&str, &str)],
        content: Content<'_>,
    ) {
        let stage = self.write_answer(id, exchange, status, headers, content);
        if let Some(connection) = self.state.connections.get_mut(id) {
            connection.stage = stage;
        }
    }

    pub(super) fn answer_static(
        &mut self,
        id: ConnectionId,
        exchange: Exchange,
        answer: &mut StaticAnswer,
    ) {
        let tick = self.shard.tick;
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        let Exchange { keep, is_head, .. } = connection.exchange(exchange);
        connection.stage = RequestStage::Closing;
        if let Ok(out) = self.shard.writer(id) {
            connection.status = answer.status();
            connection.content_bytes = answer.content_bytes();
            answer.write(out, keep, is_head, self.state.date.at(tick));
            if keep == Keep::Close {
                self.shard.close(id);
            } else {
                connection.stage = RequestStage::Head;
            }
        } else {
            self.no_room(id);
        }
    }

    /// Puts an answer off.
    pub(super) fn owe(&mut self, id: ConnectionId, exchange: Exchange) -> StreamId {
        let mut serial = 0;
        if let Some(connection) = self.state.connections.get_mut(id) {
            connection.serial = connection.serial.wrapping_add(1);
            serial = connection.serial;
            connection.pending = Some(Pending {
                serial,
                exchange,
                extent: None,
                left: 0,
            });
            // A body that is streamed is read on.
            if connection.stage != RequestStage::Streaming {
                connection.stage = RequestStage::Responding;
                self.shard.pause(id);
            }
        }
        StreamId {
            connection: id,
            serial,
        }
    }

    /// Writes the head of an answer whose body follows in pieces, if it has not begun.
    pub(super) fn open_body(
        &mut self,
        stream: StreamId,
        status: u16,
        headers: &[(&str, &str)],
        length: Option<u64>,
    ) {
        let Some(Pending {
            exchange,
            extent: None,
            ..
        }) = self.pending(stream)
        else {
            return;
        };
        let id = stream.connection;
        let extent = Extent::of(status, length, exchange.http_10);
        let keep = match extent {
            Extent::UntilClose => Keep::Close,
            _ => exchange.keep,
        };
        let tick = self.shard.tick;
        let mut continues = false;
        if let Some(connection) = self.state.connections.get_mut(id) {
            connection.status = status;
            // A service that streams its answer reads the body beside it.
            let arriving = connection.arriving.as_mut();
            continues = arriving.is_some_and(|one| std::mem::take(&mut one.awaits_continue));
            if let Some(pending) = &mut connection.pending {
                pending.exchange.keep = keep;
                pending.extent = Some(extent);
                pending.left = match extent {
                    Extent::Length(length) => length,
                    _ => 0,
                };
            }
        }
        match self.shard.writer(id) {
            Ok(out) => {
                if continues {
                    out.extend_from_slice(CONTINUE);
                }
                let date = self.state.date.at(tick).0;
                write_head(out, status, headers, extent, keep, date);
            }
            Err(_) => drop(self.no_room(id)),
        }
    }

    /// Ends a pending answer.
    pub(super) fn complete(&mut self, id: ConnectionId, stage: RequestStage) {
        self.state.end_entry(id, true, self.shard.tick);
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        connection.pending = None;
        connection.body_held = false;
        if connection.stage == RequestStage::Streaming {
            // The rest of its body looks like a request.
            connection.stage = RequestStage::Closing;
            self.shard.close(id);
            return;
        }
        connection.stage = stage;
        if connection.ended {
            self.shard.close(id);
        } else {
            if stage == RequestStage::Head {
                let idle_timeout = self.state.limits.idle_timeout;
                self.shard.set_deadline(id, Some(idle_timeout));
            }
            self.shard.resume(id);
        }
    }

    /// Writes a complete reply, and returns how the connection continues.
    pub(super) fn write_answer(
        &mut self,
        id: ConnectionId,
        exchange: Exchange,
        status: u16,
        headers: &[(&str, &str)],
        content: Content<'_>,
    ) -> RequestStage {
        let tick = self.shard.tick;
        let Some(connection) = self.state.connections.get_mut(id) else {
            return RequestStage::Closing;
        };
        let exchange = connection.exchange(exchange);
        let Ok(out) = self.shard.writer(id) else {
            return self.no_room(id);
        };
        let keep = exchange.keep;
        let extent = Extent::of(status, Some(content.length()), exchange.http_10);
        write_head(
            out,
            status,
            headers,
            extent,
            keep,
            self.state.date.at(tick).0,
        );
        connection.status = status;
        connection.content_bytes = 0;
        if !exchange.is_head && has_content(status) {
            connection.content_bytes = content.length();
            match content {
                Content::Copied(body) => out.extend_from_slice(body),
                Content::Shared(body) => self.shard.append_shared(id, body),
                Content::File(file, range) => self.shard.append_file(id, file, range),
            }
        }
        self.after(id, keep)
    }

    /// What follows an answer for which there was no room: the end of the connection, since the
    /// next answer would be taken for the missing one. The server asks for room before it serves a
    /// request, so only a service that fills the connection gets here.
    fn no_room(&mut self, id: ConnectionId) -> RequestStage {
        self.shard.close(id);
        RequestStage::Closing
    }

    /// What follows a complete answer.
    fn after(&mut self, id: ConnectionId, keep: Keep) -> RequestStage {
        if keep == Keep::Close {
            self.shard.close(id);
            RequestStage::Closing
        } else {
            RequestStage::Head
        }
    }
}
