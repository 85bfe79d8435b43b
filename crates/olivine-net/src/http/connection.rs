//! What the HTTP server knows about one connection; and deferred and streamed answers: their
//! time-outs, peers that leave meanwhile, and panics.

use std::time::Duration;

use crate::{
    handler::ConnectionId,
    shard::{Shard, guard::caught},
};

use super::{
    chunk::Decoder,
    message::Keep,
    server::Server,
    service::{Exchange, Pending, Service, StreamId, answer},
};

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// A head is awaited.
    Head,
    /// The rest of a body is awaited.
    Body,
    /// The service owes an answer.
    Responding,
    /// Nothing more is read.
    Closing,
}

/// How the rest of an incomplete body is read.
#[derive(Clone, Debug)]
pub(super) enum Incoming {
    Length(u64),
    Chunked(Decoder),
}

/// The HTTP state of one connection.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) stage: RequestStage,
    pub(crate) pending: Option<Pending>,
    pub(crate) serial: u32,
    /// The peer has ended its direction, and all it sent before was read.
    pub(crate) ended: bool,
    /// The tick from which an answer that is owed has its time.
    pub(super) owed_since: u64,
    /// The tick from which a peer that has ended its direction has its time.
    pub(super) half_closed: Option<u64>,
    /// A time-out for the request under way is set; else one for the time between requests may be.
    pub(super) armed: bool,
    /// Checks a timed-out request that is not completely read.
    pub(super) late_looks: u8,
    /// Bytes of the unfinished head that were read without reaching its end.
    pub(super) scanned: usize,
    pub(super) incoming: Incoming,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Capacity of `head` and `body` as the server has counted it.
    pub(super) held: usize,
}

impl HttpConnection {
    pub(super) fn new() -> Self {
        Self {
            stage: RequestStage::Head,
            pending: None,
            serial: 0,
            ended: false,
            owed_since: 0,
            half_closed: None,
            armed: true,
            late_looks: 0,
            scanned: 0,
            incoming: Incoming::Length(0),
            head: Vec::new(),
            body: Vec::new(),
            held: 0,
        }
    }

    /// Whether a request may come and none has begun to, after there was one before.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == RequestStage::Head && !self.armed
    }
}

impl<S: Service> Server<S> {
    /// An answer is pending from now on.
    pub(super) fn owe(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.owed_since = shard.tick;
        if connection.half_closed.is_some() {
            // The peer's end was seen behind this request.
            self.half_closed(shard, id);
        } else {
            self.set_answer_deadline(shard, id);
        }
    }

    /// The peer has ended its direction.
    pub(super) fn half_closed(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.half_closed = Some(shard.tick);
        if connection.stage != RequestStage::Responding {
            return;
        }
        self.set_answer_deadline(shard, id);
        if let Some(stream) = self.owed(id) {
            let (service, mut http) = self.http(shard);
            service.on_half_close(&mut http, stream);
        }
    }

    /// Checks whether the time of an answer is over.
    pub(super) fn answer_late(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        match self.answer_left(shard, id) {
            None => {}
            Some(left) if left.is_zero() => self.give_up(shard, id),
            Some(left) => shard.set_deadline(id, Some(left)),
        }
    }

    /// A request panicked with `message`; where nothing was answered, 500 is queued.
    #[cold]
    pub(super) fn request_panicked(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        message: &str,
    ) {
        shard.count_up().panics.add(1);
        let (service, mut http) = self.http(shard);
        if caught(|| service.on_panic(&mut http, message)).is_err() {
            shard.count_up().panics.add(1);
        }
        match self
            .connections
            .get(id)
            .and_then(|connection| connection.pending)
        {
            // The peer must not take the sent part for the whole answer.
            Some(Pending {
                extent: Some(_), ..
            }) => shard.abort(id),
            Some(Pending { extent: None, .. }) => self.fail(shard, id, 500),
            None => {
                // Answered; requests after the panic are not served.
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.stage = RequestStage::Closing;
                }
                shard.close(id);
            }
        }
    }

    fn owed(&self, id: ConnectionId) -> Option<StreamId> {
        let Pending { serial, .. } = self.connections.get(id)?.pending?;
        Some(StreamId {
            connection: id,
            serial,
        })
    }

    fn set_answer_deadline(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        if let Some(left) = self.answer_left(shard, id) {
            shard.set_deadline(id, Some(left));
        }
    }

    /// The rest of the time of a pending answer; `None` without a limit.
    fn answer_left(&self, shard: &Shard<S::Message>, id: ConnectionId) -> Option<Duration> {
        let connection = self.connections.get(id)?;
        let pending = connection.pending?;
        let left = |since: u64, timeout: Duration| {
            timeout.saturating_sub(Duration::from_millis(shard.tick.saturating_sub(since)))
        };
        let owed = self
            .limits
            .answer_timeout
            .filter(|_| pending.extent.is_none());
        let owed = owed.map(|timeout| left(connection.owed_since, timeout));
        let silent = match (connection.half_closed, self.limits.half_closed_timeout) {
            (Some(since), Some(timeout)) => {
                Some(left(since, timeout).max(shard.quiet_left(id, timeout)))
            }
            _ => None,
        };
        [owed, silent].into_iter().flatten().min()
    }

    /// Ends a timed-out reply.
    fn give_up(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        match self
            .connections
            .get(id)
            .and_then(|connection| connection.pending)
        {
            Some(Pending { extent: None, .. }) => {
                shard.count_up().timed_out.add(1);
                self.fail(shard, id, 503);
            }
            _ => shard.expire(id),
        }
    }

    /// Answers in place of the service, closes, and reports it to the service.
    fn fail(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, status: u16) {
        let stream = self.owed(id);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(Pending { exchange, .. }) = connection.pending.take() else {
            return;
        };
        let exchange = Exchange {
            keep: Keep::Close,
            ..exchange
        };
        connection.stage = answer(shard, &mut self.date, id, exchange, status, &[], b"");
        if let Some(stream) = stream {
            let (service, mut http) = self.http(shard);
            service.on_stream_closed(&mut http, stream);
        }
    }
}
