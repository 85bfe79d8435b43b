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
    shard::{LOOK_AGAIN, Shard},
    slots::Slots,
};

use super::{
    answer::{Content, Http},
    connection::{Exchange, HttpConnection, Pending, RequestStage, State},
    date::Date,
    head::{self, Field},
    limits::Limits,
    message::Keep,
    service::{Handed, Service, StreamId},
    status::Refusal,
};

/// Below this length an unfinished head is read again whenever a piece arrives, so that nonsense is
/// refused early; above it only when it has grown by an eighth or its end is there, so that
/// one-byte pieces cost no quadratic time.
const REREAD_BYTES: usize = 4096;

/// Reads, a millisecond apart, of a request whose time is over: a socket's buffer needs fewer.
pub(super) const LATE_LOOKS_MAX: u8 = 100;

/// An HTTP/1.1 server over a [`Service`]; [`serve`] starts one per shard.
#[derive(Debug)]
pub struct Server<S> {
    pub(super) service: S,
    pub(super) state: State,
    pub(super) fields: Vec<Field>,
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
        state: State {
            connections: Slots::new(),
            limits: limits.clone(),
            date: Date::new(),
            held: 0,
            ended: Vec::new(),
            spare: Vec::new(),
        },
        fields: Vec::new(),
    })
}

impl<S: Service> Server<S> {
    pub(super) fn http<'a>(
        &'a mut self,
        shard: &'a mut Shard<S::Message>,
    ) -> (&'a mut S, Http<'a, S::Message>) {
        let Self { service, state, .. } = self;
        (service, Http { shard, state })
    }

    fn read_head(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, data: &[u8]) -> Step {
        let Some(connection) = self.state.connections.get_mut(id) else {
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
        // Matched by reference: a copy of what was just written would wait for it.
        match &head::parse(data, &self.state.limits, &mut self.fields) {
            Ok(Some(head)) => {
                connection.scanned = 0;
                if std::mem::take(&mut connection.armed) {
                    shard.set_deadline(id, None);
                }
                self.read_message(shard, id, head, data)
            }
            Ok(None) => {
                connection.scanned = data.len();
                if !connection.armed {
                    (connection.armed, connection.late_looks) = (true, 0);
                    shard.set_deadline(id, Some(self.state.limits.header_timeout));
                }
                Step::Wait
            }
            Err(refusal) => self.refuse(shard, id, *refusal, data.len()),
        }
    }

    /// Answers with an error and closes: what follows cannot be trusted to be a request.
    pub(super) fn refuse(
        &mut self,
        shard: &mut Shard<S::Message>,
        id: ConnectionId,
        refusal: Refusal,
        used: usize,
    ) -> Step {
        let exchange = Exchange {
            keep: Keep::Close,
            is_head: false,
            http_10: false,
            upgrade: false,
        };
        refusal.count(shard.count_up());
        let (service, mut http) = self.http(shard);
        http.answer_now(id, exchange, refusal.status(), &[], Content::Copied(b""));
        service.on_refused(&mut http, id, refusal);
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

    fn on_open(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, origin: Origin) {
        let mut connection = HttpConnection::new();
        shard.bind(id);
        if let Origin::HandedOver { token } = origin {
            let (service, mut http) = self.http(shard);
            if service.on_handed_over(&mut http, id, token) == Handed::Raw {
                connection.stage = RequestStage::Upgraded;
                self.state.connections.insert(id, connection);
                return;
            }
        }
        self.state.connections.insert(id, connection);
        shard.set_deadline(id, Some(self.state.limits.header_timeout));
    }

    fn on_data(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, data: &[u8]) -> usize {
        let mut at = 0;
        while at < data.len() {
            // Answers to a long pipeline wait until the peer has read the earlier ones: no request
            // is served without room for its answer, be it the next of this batch or the first of
            // the next one.
            // What follows on a connection that closes or goes to another shard is not served here.
            if !shard.has_room(id) {
                break;
            }
            let Some(connection) = self.state.connections.get(id) else {
                return data.len();
            };
            let rest = &data[at..];
            let step = match connection.stage {
                RequestStage::Head => self.read_head(shard, id, rest),
                RequestStage::Body => self.read_body(shard, id, rest),
                RequestStage::Streaming => self.read_stream(shard, id, rest),
                RequestStage::Responding => break,
                RequestStage::Upgraded => {
                    let (service, mut http) = self.http(shard);
                    let used = service.on_raw_data(&mut http, id, rest);
                    return at + used.min(rest.len());
                }
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
                .state
                .connections
                .get(id)
                .is_some_and(HttpConnection::is_idle)
        {
            shard.set_deadline(id, Some(self.state.limits.idle_timeout));
        }
        self.tell_ended(shard);
        at
    }

    fn on_writable(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.state.connections.get(id) else {
            return;
        };
        let (stage, pending) = (connection.stage, connection.pending);
        let (service, mut http) = self.http(shard);
        if stage == RequestStage::Upgraded {
            service.on_raw_writable(&mut http, id);
        } else if let Some(Pending { serial, .. }) = pending {
            let stream = StreamId {
                connection: id,
                serial,
            };
            service.on_writable(&mut http, stream);
        }
        self.tell_ended(shard);
    }

    fn on_end(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        let Some(connection) = self.state.connections.get_mut(id) else {
            return;
        };
        connection.ended = true;
        // A peer may end its direction and still wait for the answer.
        if connection.stage == RequestStage::Upgraded {
            let (service, mut http) = self.http(shard);
            service.on_raw_end(&mut http, id);
        } else if connection.stage != RequestStage::Responding {
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

    fn on_close(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId, reason: CloseReason) {
        self.free_body(shard, id);
        self.state.end_entry(id, false, shard.tick);
        let Some(connection) = self.state.connections.remove(id) else {
            return;
        };
        let (service, mut http) = self.http(shard);
        if connection.stage == RequestStage::Upgraded {
            service.on_raw_close(&mut http, id, reason);
        } else if let Some(Pending { serial, .. }) = connection.pending {
            let stream = StreamId {
                connection: id,
                serial,
            };
            service.on_stream_closed(&mut http, stream);
        }
        self.tell_ended(shard);
    }

    fn on_deadline(&mut self, shard: &mut Shard<S::Message>, id: ConnectionId) {
        match self.state.connections.get_mut(id) {
            Some(connection) if connection.is_idle() => {
                let left = shard.quiet_left(id, self.state.limits.idle_timeout);
                if left.is_zero() {
                    shard.close_idle(id);
                } else {
                    // The last answer was in flight until recently (the engine bounds that time),
                    // or the next request has come and is still to be read.
                    shard.set_deadline(id, Some(left));
                }
            }
            Some(connection) => match connection.stage {
                RequestStage::Body | RequestStage::Streaming => self.body_late(shard, id),
                // All of a request that came in time is read first, even if the shard is late. A
                // peer that never stops sending gains no more than these looks.
                RequestStage::Head
                    if connection.late_looks < LATE_LOOKS_MAX && shard.has_unshown_of(id) =>
                {
                    connection.late_looks += 1;
                    shard.set_deadline(id, Some(LOOK_AGAIN));
                }
                // A peer that never sent a byte gets no answer.
                RequestStage::Head if connection.scanned == 0 => {
                    connection.stage = RequestStage::Closing;
                    shard.close_late(id, CloseReason::Deadline);
                }
                RequestStage::Head => drop(self.refuse(shard, id, Refusal::Timeout, 0)),
                RequestStage::Responding => self.answer_late(shard, id),
                RequestStage::Upgraded => {
                    let (service, mut http) = self.http(shard);
                    service.on_raw_deadline(&mut http, id);
                }
                RequestStage::Closing => {}
            },
            None => {}
        }
        self.tell_ended(shard);
    }

    fn on_timer(&mut self, shard: &mut Shard<S::Message>, token: u64) {
        let (service, mut http) = self.http(shard);
        service.on_timer(&mut http, token);
        self.tell_ended(shard);
    }

    fn on_message(&mut self, shard: &mut Shard<S::Message>, message: S::Message) {
        let (service, mut http) = self.http(shard);
        service.on_message(&mut http, message);
        self.tell_ended(shard);
    }

    fn on_stop(&mut self, shard: &mut Shard<S::Message>) {
        let (service, mut http) = self.http(shard);
        service.on_stop(&mut http);
        self.tell_ended(shard);
    }

    fn is_idle(&self, id: ConnectionId) -> bool {
        self.state.connections.get(id).is_none_or(|connection| {
            matches!(connection.stage, RequestStage::Head | RequestStage::Closing)
        })
    }
}
