//! The interface of an HTTP application.

use crate::{error::CloseReason, handler::ConnectionId};

use super::{
    answer::Http,
    log::Served,
    message::{Request, Trailers},
    responder::Responder,
    status::Refusal,
};

/// An HTTP application: plain methods on a plain struct, one value per shard, used by that shard's
/// thread alone. Routing is a `match` on method and path.
///
/// Every method gets the [`Http`] of its shard, through which it answers requests now and later,
/// streams, posts messages and sets timers. Nothing may block.
pub trait Service: 'static {
    /// What other shards and threads may post to this one; `()` where nothing is posted.
    type Message: Send + 'static;

    /// Whether [`Service::on_served`] is called. Where it is `false`, a log costs nothing.
    const LOGS: bool = false;

    /// A request came. The [`Responder`] answers it, now or later; dropped unused, the peer gets
    /// 500.
    fn on_request(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        request: &Request<'_>,
        responder: Responder<'_>,
    );

    /// The head of a request with a body came: whether the body is wanted, how much of it, and in
    /// which form. It is asked before `100 Continue` is sent, and before memory is taken for the
    /// body. Requests without a body, or whose `Content-Length` is 0, go to `on_request` directly,
    /// and no call about a body follows. By default the body is collected
    /// up to [`Limits::body_bytes_max`](super::Limits::body_bytes_max).
    fn on_head(&mut self, http: &mut Http<'_, Self::Message>, request: &Request<'_>) -> Admit {
        let _ = (http, request);
        Admit::Whole
    }

    /// A piece of a streamed body came ([`Admit::Stream`]); `stream` names its answer.
    ///
    /// All of it is taken. A service that must wait first calls
    /// [`Http::pause_body`]: then one more piece at most comes, of what has arrived.
    ///
    /// Writing to a file can block. A service that may not wait for the disk passes copies of the
    /// pieces to another thread, pauses the body while too many wait there, and resumes it by a
    /// message ([`Service::on_message`]).
    fn on_body(&mut self, http: &mut Http<'_, Self::Message>, stream: StreamId, piece: &[u8]) {
        let _ = (http, stream, piece);
    }

    /// A streamed body is complete. The answer is still owed, unless the service has begun one.
    ///
    /// If the answer was complete before the body, neither it nor `on_stream_closed` is called: the
    /// service drops what it keeps for that body with the answer.
    fn on_body_end(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        stream: StreamId,
        trailers: Trailers<'_>,
    ) {
        let _ = (http, stream, trailers);
    }

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

    /// A method of this service panicked with `message`. After [`Service::on_head`],
    /// [`Service::on_request`], [`Service::on_body`] and [`Service::on_body_end`] the peer gets
    /// 500, or its connection is reset if the answer had begun. After another method about a
    /// connection that one is reset. Its pending answer ends by [`Service::on_stream_closed`].
    /// State that the method was changing is as the panic left it.
    fn on_panic(&mut self, http: &mut Http<'_, Self::Message>, message: &str) {
        let _ = (http, message);
    }

    /// An unfinished streamed or later answer ends: its peer left, its body was refused, or its
    /// time is over.
    fn on_stream_closed(&mut self, http: &mut Http<'_, Self::Message>, stream: StreamId) {
        let _ = (http, stream);
    }

    /// The server refused a request on this connection, which it closes now. The counters of
    /// [`Counters`](crate::Counters) have it already.
    fn on_refused(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        connection: ConnectionId,
        refusal: Refusal,
    ) {
        let _ = (http, connection, refusal);
    }

    /// A request of the service has its answer: all of it is queued for sending, or it was cut off.
    /// Called only where [`Service::LOGS`] is `true`. Refused requests go to `on_refused`.
    fn on_served(&mut self, http: &mut Http<'_, Self::Message>, served: &Served<'_>) {
        let _ = (http, served);
    }

    /// A timer of [`Shard::set_timer`](crate::Shard::set_timer) fired.
    fn on_timer(&mut self, http: &mut Http<'_, Self::Message>, token: u64) {
        let _ = (http, token);
    }

    /// A message was posted to this shard.
    fn on_message(&mut self, http: &mut Http<'_, Self::Message>, message: Self::Message) {
        let _ = (http, message);
    }

    /// The engine is stopping; endless streams should be finished now, the others are waited for.
    /// Until they have ended, or the deadline has passed, timers and messages keep coming.
    fn on_stop(&mut self, http: &mut Http<'_, Self::Message>) {
        let _ = http;
    }

    /// Bytes arrived on an upgraded connection ([`Responder::upgrade`]). As
    /// [`Handler::on_data`](crate::Handler::on_data): returns how many were consumed, and the rest
    /// is shown again with what follows. The service writes by
    /// [`Shard::offer`](crate::Shard::offer), and closes.
    fn on_raw_data(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        id: ConnectionId,
        data: &[u8],
    ) -> usize {
        let _ = (http, id);
        data.len()
    }

    /// Another shard has handed this connection over ([`Http::hand_over`]), with `token`: what it
    /// speaks. By default HTTP.
    fn on_handed_over(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        id: ConnectionId,
        token: u64,
    ) -> Handed {
        let _ = (http, id, token);
        Handed::Http
    }

    /// As [`Handler::on_writable`](crate::Handler::on_writable), of an upgraded connection.
    fn on_raw_writable(&mut self, http: &mut Http<'_, Self::Message>, id: ConnectionId) {
        let _ = (http, id);
    }

    /// As [`Handler::on_end`](crate::Handler::on_end), of an upgraded connection. By default it
    /// is closed.
    fn on_raw_end(&mut self, http: &mut Http<'_, Self::Message>, id: ConnectionId) {
        http.shard().close(id);
    }

    /// As [`Handler::on_deadline`](crate::Handler::on_deadline), of an upgraded connection. By
    /// default it is aborted.
    fn on_raw_deadline(&mut self, http: &mut Http<'_, Self::Message>, id: ConnectionId) {
        http.shard().expire(id);
    }

    /// An upgraded connection is gone. Called once for each.
    fn on_raw_close(
        &mut self,
        http: &mut Http<'_, Self::Message>,
        id: ConnectionId,
        reason: CloseReason,
    ) {
        let _ = (http, id, reason);
    }
}

/// The protocol of a connection that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handed {
    /// HTTP/1.1: requests follow.
    Http,
    /// It was upgraded: it belongs to the service.
    Raw,
}

/// What is to happen with the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admit {
    /// It is collected, up to [`Limits::body_bytes_max`](super::Limits::body_bytes_max); then
    /// `on_request` gets it.
    Whole,
    /// As [`Admit::Whole`], up to this many bytes, which may be more or fewer; 413 beyond. What all
    /// bodies of the shard hold together has its limit too
    /// ([`Limits::bodies_bytes_max`](super::Limits::bodies_bytes_max)).
    WholeUpTo(u64),
    /// `on_request` is called at once, and the body follows in pieces, by
    /// [`Service::on_body`]: each of at most
    /// [`EngineConfig::receive_buffer`](crate::EngineConfig::receive_buffer) bytes, but after a
    /// [`Http::pause_body`] all at once that came meanwhile; 413 beyond this many bytes in all. A
    /// head that announces more gets it before `100 Continue`, and `on_request` is not called.
    ///
    /// `on_request` puts its answer off ([`Responder::later`]) or begins it
    /// ([`Responder::stream`]). An answer that is complete before the body closes the connection.
    Stream(u64),
    /// `on_request` is called at once, without the body, which is not read: the connection closes
    /// after the answer. For refusals that need header fields, such as 401, or 405
    /// with `Allow`.
    Unread,
    /// The peer gets this status (400 to 599), without content, and the connection closes. The body
    /// is not read.
    Refuse(u16),
}

/// Names an answer that is not finished yet; never given to another one, also on its connection.
///
/// It may be sent to another thread. Once the answer has ended, a call with it does nothing or is
/// refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    pub(crate) connection: ConnectionId,
    pub(crate) serial: u32,
}

impl StreamId {
    /// The connection on which the answer goes out; [`ConnectionId::shard`] says to which shard a
    /// message about it is to be posted.
    #[must_use]
    pub fn connection(self) -> ConnectionId {
        self.connection
    }
}
