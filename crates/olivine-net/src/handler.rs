//! What a protocol supplies: plain methods on a plain struct, one value per shard.

use std::fmt;

use crate::{
    error::{CloseReason, ConnectError},
    shard::Shard,
};

/// Names a connection for as long as it lives; never given to another one.
///
/// It is a small `Copy` value: copy it freely. An operation on an ended connection is refused,
/// never misdirected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(crate) shard: u16,
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// The shard the connection lives on.
    #[must_use]
    pub fn shard(self) -> usize {
        usize::from(self.shard)
    }

    /// The connection's place in its shard: small, dense, used again after it ends. See
    /// [`Slots`](crate::Slots).
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.shard, self.slot, self.generation)
    }
}

/// Where a connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A peer connected to us.
    Accepted,
    /// We connected; `token` is the one given to [`Shard::connect`].
    Connected {
        /// The caller's token.
        token: u64,
    },
    /// Another shard handed it over ([`Shard::hand_over`]).
    HandedOver {
        /// The caller's token.
        token: u64,
    },
    /// The program passed the socket in ([`EngineHandle::adopt`](crate::EngineHandle::adopt)).
    Adopted {
        /// The caller's token.
        token: u64,
    },
}

/// A protocol, or an application of one. Each shard has its own handler, used by that shard's
/// thread alone, so its state needs no lock.
///
/// Every method gets the [`Shard`], through which it writes, closes, sets timers, connects and
/// posts messages. Nothing may block: a method that waits stalls every connection of its shard.
///
/// A panic of a method is caught: the shard resets the connection of that call, calls
/// [`Handler::on_panic`], and continues. Only a panic of [`Handler::on_start`] ends its shard: the
/// other shards continue, and [`Engine::health`](crate::Engine::health) says why it ended. Programs
/// that abort on panic get neither.
pub trait Handler: 'static {
    /// What other shards and threads may post to this one; `()` where nothing is posted.
    type Message: Send + 'static;

    /// The shard has started; a place for timers and first connections.
    fn on_start(&mut self, shard: &mut Shard<Self::Message>) {
        let _ = shard;
    }

    /// A connection is open.
    fn on_open(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId, origin: Origin) {
        let _ = (shard, id, origin);
    }

    /// Bytes arrived. `data` is everything not yet consumed, old bytes first; returns how many were
    /// consumed (more than there are counts as all). The rest is kept and shown again, followed by
    /// what arrives next.
    ///
    /// Everything written meanwhile leaves in one send after the method returns.
    fn on_data(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId, data: &[u8])
    -> usize;

    /// The write queue fell to the low-water mark after writing had been refused, or after
    /// [`Shard::notify_writable`].
    fn on_writable(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId) {
        let _ = (shard, id);
    }

    /// The peer has ended its direction; what it sent before was all shown. By default the
    /// connection is closed once everything queued is sent; a handler that has more to say does
    /// something else here and closes later.
    fn on_end(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId) {
        shard.close(id);
    }

    /// The peer has ended its direction while reading is paused, by [`Shard::pause`] or by
    /// back-pressure. It may have left, or only stopped sending. Called once at most; what it sent
    /// before is shown when reading resumes, and `on_end` follows it. By default nothing happens:
    /// the idle time-out ends a connection that stays paused.
    fn on_half_close(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId) {
        let _ = (shard, id);
    }

    /// A method of this handler panicked with `message`; `id` is the connection of that call, which
    /// is reset next. State that the method was changing is as the panic left it. By default
    /// nothing happens: the panic was counted, and the process's panic hook has run.
    fn on_panic(
        &mut self,
        shard: &mut Shard<Self::Message>,
        id: Option<ConnectionId>,
        message: &str,
    ) {
        let _ = (shard, id, message);
    }

    /// The connection is gone. Called once for each opened connection.
    fn on_close(
        &mut self,
        shard: &mut Shard<Self::Message>,
        id: ConnectionId,
        reason: CloseReason,
    ) {
        let _ = (shard, id, reason);
    }

    /// A timer of [`Shard::set_timer`] fired.
    fn on_timer(&mut self, shard: &mut Shard<Self::Message>, token: u64) {
        let _ = (shard, token);
    }

    /// The deadline of [`Shard::set_deadline`] passed. By default the connection is aborted.
    fn on_deadline(&mut self, shard: &mut Shard<Self::Message>, id: ConnectionId) {
        shard.expire(id);
    }

    /// A message was posted to this shard.
    fn on_message(&mut self, shard: &mut Shard<Self::Message>, message: Self::Message) {
        let _ = (shard, message);
    }

    /// A connection could not be made; `token` is the one given to [`Shard::connect`].
    fn on_connect_failed(
        &mut self,
        shard: &mut Shard<Self::Message>,
        token: u64,
        error: ConnectError,
    ) {
        let _ = (shard, token, error);
    }

    /// The engine is stopping: no new connection comes, and each open one is closed as soon as it
    /// is idle.
    fn on_stop(&mut self, shard: &mut Shard<Self::Message>) {
        let _ = shard;
    }

    /// Whether nothing is going on between the peer and us, so that a stopping engine may close the
    /// connection. Unsent and unconsumed bytes are accounted for already. By default `true`.
    fn is_idle(&self, id: ConnectionId) -> bool {
        let _ = id;
        true
    }
}
