//! What the HTTP server knows about one connection; and pending answers and bodies: their
//! time-outs, peers that leave meanwhile, and panics.

use std::time::Duration;

use crate::{
    config::bytes_in,
    handler::ConnectionId,
    shard::{LOOK_AGAIN, Shard, guard::caught},
    slots::Slots,
};

use super::{
    answer::Content,
    body::Arriving,
    date::Date,
    limits::Limits,
    log::Entry,
    message::{Extent, Keep},
    server::{LATE_LOOKS_MAX, Server},
    service::{Service, StreamId},
    status::Refusal,
};

/// What the server of a shard has beside its service.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) connections: Slots<HttpConnection>,
    pub(super) limits: Limits,
    pub(super) date: Date,
    /// Bytes that bodies which are not complete hold, with their heads.
    pub(super) held: usize,
    /// Answers that were put off and have ended, for the log.
    pub(super) ended: Vec<Entry>,
    /// What bodies that are complete leave for others.
    #[allow(
        clippy::vec_box,
        reason = "connections hold boxes, so nothing is copied or allocated"
    )]
    pub(super) spare: Vec<Box<Arriving>>,
}

impl State {
    /// What a connection waits for.
    pub(super) fn stage(&self, id: ConnectionId) -> Option<RequestStage> {
        self.connections.get(id).map(|connection| connection.stage)
    }

    /// Moves the log's entry of a pending answer to those that have ended.
    pub(super) fn end_entry(&mut self, id: ConnectionId, is_whole: bool, tick: u64) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(mut entry) = connection.entry.take()
        {
            entry.status = connection.status;
            entry.content_bytes = connection.content_bytes;
            entry.is_whole = is_whole;
            entry.milliseconds = tick.saturating_sub(connection.begun);
            self.ended.push(*entry);
        }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// A head is awaited.
    Head,
    /// The rest of a body is awaited.
    Body,
    /// The rest of a body that the service gets in pieces is awaited, and maybe an answer.
    Streaming,
    /// The service owes an answer.
    Responding,
    /// The connection belongs to the service.
    Upgraded,
    /// Nothing more is read.
    Closing,
}

/// How this exchange is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) keep: Keep,
    /// The request was HEAD: headers only.
    pub(crate) is_head: bool,
    pub(crate) http_10: bool,
    /// The request offers an upgrade that can be accepted.
    pub(crate) upgrade: bool,
}

/// An answer under way over several calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) serial: u32,
    pub(crate) exchange: Exchange,
    /// The head is out; `None` before.
    pub(crate) extent: Option<Extent>,
    /// Bytes that a body of known length still lacks.
    pub(crate) left: u64,
}

/// The HTTP state of one connection: little, because most are idle.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(super) stage: RequestStage,
    pub(super) pending: Option<Pending>,
    pub(super) serial: u32,
    /// The peer has ended its direction, and all it sent before was read.
    pub(super) ended: bool,
    /// The service has paused its streamed body.
    pub(super) body_held: bool,
    /// A time-out for the request under way is set; else one for the time between requests may be.
    pub(super) armed: bool,
    /// Checks a timed-out request that is not completely read.
    pub(super) late_looks: u8,
    /// The status of the answer under way, or of the last one.
    pub(super) status: u16,
    /// The content of that answer.
    pub(super) content_bytes: u64,
    /// The service has given that answer up.
    pub(super) cut: bool,
    /// The tick at which its request came.
    pub(super) begun: u64,
    /// What the log needs of a request whose answer is put off.
    pub(super) entry: Option<Box<Entry>>,
    /// The tick from which an answer that is owed has its time.
    pub(super) owed_since: u64,
    /// The tick from which a peer that has ended its direction has its time.
    pub(super) half_closed: Option<u64>,
    /// Bytes of the unfinished head that were read without reaching its end.
    pub(super) scanned: usize,
    /// The body that comes in pieces.
    pub(super) arriving: Option<Box<Arriving>>,
}

impl HttpConnection {
    pub(super) fn new() -> Self {
        Self {
            stage: RequestStage::Head,
            pending: None,
            serial: 0,
            ended: false,
            body_held: false,
            armed: true,
            late_looks: 0,
            status: 0,
            content_bytes: 0,
            cut: false,
            begun: 0,
            entry: None,
            owed_since: 0,
            half_closed: None,
            scanned: 0,
            arriving: None,
        }
    }

    /// Whether a request may come and none has begun to, after there was one before.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == RequestStage::Head && !self.armed
    }

    /// How an exchange is answered now: an answer that comes before the end of a body closes the
    /// connection.
    pub(super) fn exchange(&self, exchange: Exchange) -> Exchange {
        match self.stage {
            RequestStage::Streaming => Exchange {
                keep: Keep::Close,
                ..exchange
            },
            _ => exchange,
        }
    }
}

impl<S: Service> Server<S> {
    /// An answer is pending from now on.
    pub(super) fn owe(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.state.connections.get_mut(id) else {
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
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        connection.half_closed = Some(shard.tick);
        if connection.stage == RequestStage::Streaming && connection.body_held {
            // It may have left; what it sent is not read while the service has paused it.
            if let Some(timeout) = self.state.limits.half_closed_timeout {
                shard.set_deadline(id, Some(timeout));
            }
            return;
        }
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
            .state
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
                if let Some(connection) = self.state.connections.get_mut(id) {
                    connection.stage = RequestStage::Closing;
                }
                shard.close(id);
            }
        }
    }

    fn owed(&self, id: ConnectionId) -> Option<StreamId> {
        let Pending { serial, .. } = self.state.connections.get(id)?.pending?;
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
        let connection = self.state.connections.get(id)?;
        let pending = connection.pending?;
        let left = |since: u64, timeout: Duration| {
            timeout.saturating_sub(Duration::from_millis(shard.tick.saturating_sub(since)))
        };
        let owed = self
            .state
            .limits
            .answer_timeout
            .filter(|_| pending.extent.is_none());
        let owed = owed.map(|timeout| left(connection.owed_since, timeout));
        let silent = match (
            connection.half_closed,
            self.state.limits.half_closed_timeout,
        ) {
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
            .state
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
    pub(super) fn fail(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, status: u16) {
        let stream = self.owed(id);
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        let Some(Pending { exchange, .. }) = connection.pending.take() else {
            return;
        };
        let exchange = Exchange {
            keep: Keep::Close,
            ..exchange
        };
        self.http(shard)
            .1
            .answer_now(id, exchange, status, &[], Content::Copied(b""));
        self.state.end_entry(id, true, shard.tick);
        if let Some(stream) = stream {
            let (service, mut http) = self.http(shard);
            service.on_stream_closed(&mut http, stream);
        }
    }

    /// Refuses the rest of a body that the service gets in pieces.
    pub(super) fn refuse_stream(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        refusal: Refusal,
    ) {
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        let begun = connection
            .pending
            .is_some_and(|pending| pending.extent.is_some());
        refusal.count(shard.count_up());
        if begun {
            connection.stage = RequestStage::Closing;
            // The peer must not take the sent part for the whole answer; `on_close` reports it.
            shard.abort(id);
        } else {
            self.fail(shard, id, refusal.status());
        }
        let (service, mut http) = self.http(shard);
        service.on_refused(&mut http, id, refusal);
    }

    /// Checks how fast a body comes, and whether its time is over.
    pub(super) fn body_late(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let window = self.state.limits.body_rate_window;
        let least = self.state.limits.body_rate_min;
        let timeout = self.state.limits.half_closed_timeout;
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        let Some(arriving) = &mut connection.arriving else {
            return;
        };
        let left = Duration::from_millis(arriving.until.saturating_sub(shard.tick));
        let waits = connection.body_held || shard.is_blocked(id);
        let enough = least.is_none_or(|least| arriving.rate_bytes >= bytes_in(least, window));
        let half_closed = connection.half_closed.filter(|_| connection.body_held);
        // The rest of the time of a peer that has ended its direction and is not read.
        let silent = half_closed.zip(timeout).map_or(window, |(since, timeout)| {
            timeout.saturating_sub(Duration::from_millis(shard.tick.saturating_sub(since)))
        });
        if !left.is_zero() && !silent.is_zero() && (waits || enough) {
            let next = window.min(left).min(silent);
            // What came before a pause counts together with what comes after it.
            if !connection.body_held {
                (arriving.rate_bytes, arriving.rate_until) = (0, shard.tick_after(next));
            }
            shard.set_deadline(id, Some(next));
        } else if connection.late_looks < LATE_LOOKS_MAX && shard.has_unshown_of(id) {
            // All that came in time is read first, even if the shard is late. A peer that never
            // stops sending gains no more than these looks.
            connection.late_looks += 1;
            shard.set_deadline(id, Some(LOOK_AGAIN));
        } else if connection.stage == RequestStage::Streaming {
            self.refuse_stream(shard, id, Refusal::Timeout);
        } else {
            self.refuse(shard, id, Refusal::Timeout, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{driver::readiness, shard::connection::Connection, wheel};

    /// Everything that is kept for a connection of which nothing is under way, once the tables have
    /// their size. `tests/process.rs` measures it.
    #[test]
    fn an_idle_connection_takes_at_most_500_bytes() {
        let shard = size_of::<Connection>() + wheel::entry_bytes::<crate::shard::Alarm>();
        let http = size_of::<Option<(ConnectionId, HttpConnection)>>();
        let mut drivers = vec![("mio", readiness::STATE_BYTES)];
        #[cfg(target_os = "linux")]
        drivers.push(("io_uring", crate::sys::uring::STATE_BYTES));
        for (name, driver) in drivers {
            let all = shard + http + driver;
            println!("{name}: {shard} in the shard, {driver} in the driver, {http} HTTP: {all}");
            assert!(all <= 500, "{name}: {all} bytes");
        }
    }
}
