//! One event loop and its connections, as a handler sees them.
//!
//! [`Shard`] holds everything a handler may touch; `shard/run.rs` drives it. Handlers call in, so
//! nothing here calls a handler: closing, resuming and connecting take effect when the handler has
//! returned.

use std::{
    fs::File,
    net::SocketAddr,
    ops::Range,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{
    config::EngineConfig,
    driver::{Driver, Slot},
    error::{CloseReason, ConnectError, NotPosted, NotSent},
    handle::EngineHandle,
    handler::ConnectionId,
    health::{Counters, ShardCounters, Vitals},
    listen::{ListenPlace, ListenSocket},
    mailbox::Mailbox,
    sync::Gauge,
    sys::socket,
    wheel::{Key, Wheel},
};

mod admit;
pub(crate) mod connection;
mod deliver;
mod expire;
pub(crate) mod guard;
mod inner;
pub(crate) mod run;
mod settle;
mod spin;

use connection::{Attempt, Connection, End, Leaving, NEVER, Phase};
pub(crate) use inner::LOOK_AGAIN;

/// Room in a fresh buffer: enough for most batches, so that few ever grow.
const BUFFER_BYTES: usize = 16 * 1024;
/// Initial buffers of a shard: the number that a few busy connections use at once.
const POOL_START: usize = 16;
/// Buffers kept for use again; more are freed.
const POOL_MAX: usize = 1024;
/// Bytes of all buffers kept for use again; more are freed.
const POOL_BYTES_MAX: usize = POOL_MAX * BUFFER_BYTES;
/// A buffer that grew beyond this is freed, so that large answers and bodies hold no memory once
/// they are gone.
const POOLED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of freed bodies after which memory is given back to the system.
const TRIM_BYTES: usize = 32 << 20;
/// Milliseconds from then until it is done, so that uploads one after another cost it once.
const TRIM_AFTER: u64 = 1000;

/// Shared state of all shards of an engine.
#[derive(Debug)]
pub(crate) struct Common<M> {
    pub(crate) config: EngineConfig,
    pub(crate) mailboxes: Vec<Mailbox<M>>,
    pub(crate) counters: Vec<ShardCounters>,
    pub(crate) connections: Gauge,
    pub(crate) vitals: Vec<Vitals>,
    pub(crate) places: Vec<ListenPlace>,
    /// Not kept open by this.
    pub(crate) listeners: Vec<Weak<ListenSocket>>,
}

/// What a timer is for.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// Look at a connection's time-outs.
    Connection { slot: Slot, generation: u32 },
    /// Tell the handler.
    Handler { token: u64 },
}

/// A timer of [`Shard::set_timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId(Key);

/// An event loop, as its handler sees it: connections to write to and close, timers, messages.
///
/// `M` is the type of message that other threads may post to it. Every method returns at once.
pub struct Shard<M> {
    pub(crate) index: usize,
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) free: Vec<Slot>,
    /// Slots that become free once the reports of `ended` are made.
    pub(crate) freed: Vec<Slot>,
    /// Connections that are not free, those still being released included.
    pub(crate) live: usize,
    pub(crate) wheel: Wheel<Alarm>,
    pub(crate) started: Instant,
    pub(crate) now: Instant,
    pub(crate) tick: u64,
    /// Connections to be looked at before the loop waits.
    pub(crate) dirty: Vec<Slot>,
    /// Ended connections that are still to be reported to the handler.
    pub(crate) ended: Vec<(ConnectionId, CloseReason, Option<Box<Attempt>>)>,
    pub(crate) pool: Vec<Vec<u8>>,
    /// Capacity of all buffers in the pool.
    pub(crate) pool_bytes: usize,
    pub(crate) common: Arc<Common<M>>,
    pub(crate) stop_at: Option<Instant>,
    pub(crate) cut: u64,
    /// Bytes of bodies freed since memory was last given back to the system.
    pub(crate) freed_bytes: usize,
    /// The tick at which that is done again.
    pub(crate) trim_at: Option<u64>,
}

impl<M> Drop for Shard<M> {
    /// Connections of a shard that ended early are closed with it, and no longer count.
    fn drop(&mut self) {
        for _ in 0..self.live {
            self.common.connections.give();
        }
        self.count_up().open.set(0);
    }
}

impl<M> std::fmt::Debug for Shard<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("index", &self.index)
            .field("backend", &self.driver.name())
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

impl<M> Shard<M> {
    pub(crate) fn new(index: usize, driver: Box<dyn Driver>, common: Arc<Common<M>>) -> Self {
        let now = Instant::now();
        let mut pool = Vec::with_capacity(POOL_MAX);
        pool.extend((0..POOL_START).map(|_| Vec::with_capacity(BUFFER_BYTES)));
        Self {
            index,
            driver,
            connections: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            live: 0,
            wheel: Wheel::new(),
            started: now,
            now,
            tick: 0,
            dirty: Vec::with_capacity(POOL_MAX),
            ended: Vec::with_capacity(64),
            pool,
            pool_bytes: POOL_START * BUFFER_BYTES,
            common,
            stop_at: None,
            cut: 0,
            freed_bytes: 0,
            trim_at: None,
        }
    }

    /// This shard's index, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of shards of the engine.
    #[must_use]
    pub fn count(&self) -> usize {
        self.common.mailboxes.len()
    }

    /// The back end in use: `mio` or `io_uring`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.driver.name()
    }

    /// What other threads and the rest of the program use the engine through.
    #[must_use]
    pub fn handle(&self) -> EngineHandle<M> {
        EngineHandle::new(Arc::clone(&self.common))
    }

    /// The time when this round of the loop began; reading it costs nothing.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whole milliseconds from the shard's start to [`Shard::now`].
    #[must_use]
    pub fn tick_ms(&self) -> u64 {
        self.tick
    }

    /// Whether the engine is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    /// A reading of this shard's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.count_up().read()
    }

    /// Readings of all shards' counters, by index.
    #[must_use]
    pub fn all_counters(&self) -> Vec<Counters> {
        self.common
            .counters
            .iter()
            .map(ShardCounters::read)
            .collect()
    }

    /// Whether a connection is open: bytes offered would be taken or answered with back-pressure.
    #[must_use]
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.find(id)
            .is_some_and(|connection| connection.phase == Phase::Open)
    }

    /// The place that accepted a connection, as an index into
    /// [`Engine::addresses`](crate::Engine::addresses); `None` if no listener did, or it is gone.
    #[must_use]
    pub fn listener(&self, id: ConnectionId) -> Option<usize> {
        Some(usize::from(self.find(id)?.listener?))
    }

    /// Hands an open connection to another shard: what is queued is sent first, and what the
    /// handler has not consumed goes along. There the handler's
    /// [`on_open`](crate::Handler::on_open) gets [`Origin::HandedOver`](crate::Origin::HandedOver)
    /// with `token`; here [`on_close`](crate::Handler::on_close) gets
    /// [`CloseReason::HandedOver`]. No more is shown or taken here. Handing over to this shard
    /// works too, and gives the connection a new id.
    ///
    /// If that shard has ended meanwhile, the connection is reset, with [`CloseReason::Aborted`].
    ///
    /// # Errors
    ///
    /// [`NotSent::Closed`] if the connection is not open, its peer has ended its direction, or
    /// there is no such shard. [`NotSent::Busy`] on a connection of an HTTP server, which
    /// [`Http::hand_over`](crate::http::Http::hand_over) moves.
    pub fn hand_over(&mut self, id: ConnectionId, shard: usize, token: u64) -> Result<(), NotSent> {
        if self.find_open(id)?.bound {
            return Err(NotSent::Busy);
        }
        self.pass_on(id, shard, token)
    }

    /// As [`Shard::hand_over`], for a protocol that has bound the connection.
    pub(crate) fn pass_on(
        &mut self,
        id: ConnectionId,
        shard: usize,
        token: u64,
    ) -> Result<(), NotSent> {
        let connection = self.find_open(id)?;
        if connection.end != End::No {
            return Err(NotSent::Closed);
        }
        if shard >= self.count() {
            return Err(NotSent::Closed);
        }
        let connection = &mut self.connections[id.slot as usize];
        connection.phase = Phase::Leaving;
        connection.deadline = NEVER;
        connection.leaving = Some(Box::new(Leaving {
            shard,
            token,
            taken: false,
        }));
        self.mark(id.slot);
        Ok(())
    }

    /// The TLS session of a connection: the server name that the peer asked for (SNI), the protocol
    /// agreed on (ALPN), its certificates. `None` without TLS. All is known before the first bytes
    /// are shown.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn tls(&self, id: ConnectionId) -> Option<&rustls::ServerConnection> {
        self.find(id)?
            .tls
            .as_ref()
            .map(|session| session.connection())
    }

    /// The open connections of this shard, by slot.
    pub fn open(&self) -> impl Iterator<Item = ConnectionId> {
        let open = |connection: &Connection| connection.phase == Phase::Open;
        let slots = self
            .connections
            .iter()
            .enumerate()
            .filter(move |(_, c)| open(c));
        // Slots are u32; the table was filled by them.
        slots.filter_map(|(slot, _)| Some(self.id(Slot::try_from(slot).ok()?)))
    }

    /// The address at the other end; `None` once it is gone. Costs a system call.
    #[must_use]
    pub fn peer_address(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.find(id)?;
        self.driver.peer_address(id.slot)
    }

    /// Queues a copy of `bytes` for sending, all or nothing. They leave in one send with everything
    /// else written in this round.
    ///
    /// The queue may pass the high-water mark by one such piece; after that it refuses.
    ///
    /// # Errors
    ///
    /// [`NotSent::BackPressured`] while the queue is over the high-water mark, and then
    /// `on_writable` follows; [`NotSent::Closed`] if the connection is not open.
    pub fn offer(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<(), NotSent> {
        self.writer(id)?.extend_from_slice(bytes);
        Ok(())
    }

    /// As [`Shard::offer`], but without a copy: the same bytes may be queued on any number of
    /// connections. Pays off from a few KiB up; a short piece is cheaper copied.
    ///
    /// # Errors
    ///
    /// As [`Shard::offer`].
    pub fn offer_shared(&mut self, id: ConnectionId, bytes: Arc<[u8]>) -> Result<(), NotSent> {
        self.writer(id)?;
        self.append_shared(id, bytes);
        Ok(())
    }

    /// As [`Shard::offer`], for a part of a file. The kernel copies it to the network where it can
    /// (Linux, without TLS), and no length of it holds memory. The file may be on the way to any
    /// number of peers.
    ///
    /// Reading a file that is not in memory stalls the shard as long as the disk takes. If the file
    /// ends before `range`, the connection breaks with
    /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof).
    ///
    /// # Errors
    ///
    /// As [`Shard::offer`].
    pub fn offer_file(
        &mut self,
        id: ConnectionId,
        file: Arc<File>,
        range: Range<u64>,
    ) -> Result<(), NotSent> {
        self.writer(id)?;
        self.append_file(id, file, range.start..range.end.max(range.start));
        Ok(())
    }

    /// Sends from `bytes` at once, without a copy and without queueing, as much as the kernel
    /// takes; returns how many bytes that was.
    ///
    /// For callers that hold the bytes anyway (a ring, a mapped file): what was not taken is
    /// offered again from `on_writable`, which follows.
    ///
    /// # Errors
    ///
    /// [`NotSent::BackPressured`] if anything is queued or the kernel takes nothing;
    /// [`NotSent::Closed`] if the connection is not open.
    pub fn send_now(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, NotSent> {
        let connection = self.find_open(id)?;
        #[cfg(feature = "rustls")]
        if connection.tls.is_some() {
            return self.offer(id, bytes).map(|()| bytes.len());
        }
        if connection.queued() > 0 {
            self.notify_writable(id);
            return Err(NotSent::BackPressured);
        }
        match self.driver.send_now(id.slot, bytes) {
            Ok(length) => {
                let counters = self.count_up();
                counters.sends.add(1);
                counters.sent_bytes.add(length as u64);
                self.connections[id.slot as usize].activity = self.tick;
                if length == bytes.len() {
                    return Ok(length);
                }
                // The byte behind those taken goes the ordinary way: its completion tells when the
                // kernel takes bytes again.
                self.writer(id)?.push(bytes[length]);
                self.notify_writable(id);
                Ok(length + 1)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if let Some(first) = bytes.first() {
                    self.writer(id)?.push(*first);
                    self.notify_writable(id);
                    return Ok(1);
                }
                Err(NotSent::BackPressured)
            }
            Err(_) => Err(NotSent::Closed),
        }
    }

    /// Bytes queued on a connection that the kernel has not taken yet; 0 if it is not open.
    #[must_use]
    pub fn queued_bytes(&self, id: ConnectionId) -> usize {
        self.find(id).map_or(0, Connection::queued)
    }

    /// Asks for one `on_writable` when the queue is next at or below the low-water mark.
    pub fn notify_writable(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.find_open(id) {
            connection.notify = true;
            self.mark(id.slot);
        }
    }

    /// Stops showing the connection's bytes to the handler, and soon reading them at all, until
    /// [`Shard::resume`].
    pub fn pause(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.find_open(id) {
            connection.held = true;
            self.mark(id.slot);
        }
    }

    /// Ends a [`Shard::pause`]. Bytes that were kept are shown again soon.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.find_open(id)
            && connection.held
        {
            connection.held = false;
            connection.resume = true;
            self.mark(id.slot);
        }
    }

    /// Closes a connection in good order: sends what is queued, ends our direction, and waits for
    /// the peer's end for at most `linger`. No more bytes are shown or taken.
    pub fn close(&mut self, id: ConnectionId) {
        self.close_for(id, CloseReason::Closed);
    }

    pub(crate) fn close_for(&mut self, id: ConnectionId, reason: CloseReason) {
        match self.find(id).map(|connection| connection.phase) {
            Some(Phase::Open) => {
                let connection = &mut self.connections[id.slot as usize];
                connection.phase = Phase::Finishing;
                let peer_first = connection.end != End::No && reason == CloseReason::Closed;
                connection.reason = if peer_first {
                    CloseReason::PeerClosed
                } else {
                    reason
                };
                connection.deadline = NEVER;
                let rest = std::mem::take(&mut connection.rest);
                self.give_back(rest);
                self.mark(id.slot);
            }
            Some(Phase::Connecting) => self.detach(id.slot, reason, false),
            _ => {}
        }
    }

    /// Resets a connection at once. What is queued is lost.
    pub fn abort(&mut self, id: ConnectionId) {
        if self.find(id).is_some() {
            self.detach(id.slot, CloseReason::Aborted, true);
        }
    }

    /// Ends a connection at once because a deadline has passed: `on_close` gets
    /// [`CloseReason::Deadline`]. What is queued is lost.
    pub fn expire(&mut self, id: ConnectionId) {
        if self.find(id).is_some() {
            self.count_up().timed_out.add(1);
            self.detach(id.slot, CloseReason::Deadline, true);
        }
    }

    /// Has `on_deadline` called for this connection when `after` has passed, in place of any
    /// deadline set before; `None` takes it back. Exact to about a millisecond, never early.
    pub fn set_deadline(&mut self, id: ConnectionId, after: Option<Duration>) {
        let at = after.map_or(NEVER, |after| self.tick_after(after));
        if let Ok(connection) = self.find_open(id) {
            connection.deadline = at;
            if at != NEVER {
                self.arm(id.slot);
            }
        }
    }

    /// Has `on_timer` called with `token` when `after` has passed. Exact to about a millisecond,
    /// never early.
    pub fn set_timer(&mut self, after: Duration, token: u64) -> TimerId {
        TimerId(
            self.wheel
                .insert(self.tick_after(after), Alarm::Handler { token }),
        )
    }

    /// Takes a timer back; `false` if it has fired or was cancelled before.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.wheel.cancel(timer.0).is_some()
    }

    /// Starts connecting to `address`. `on_open` or `on_connect_failed` follows, with `token`.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the system refuses at once, the connection cap is reached or the engine
    /// is stopping; then nothing follows.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        timeout: Duration,
        token: u64,
    ) -> Result<ConnectionId, ConnectError> {
        if self.is_stopping()
            || !self
                .common
                .connections
                .take(self.common.config.connections_max)
        {
            return Err(ConnectError::Refused);
        }
        let refused = |source| ConnectError::Io { address, source };
        let slot = self.allocate();
        let attached = socket::connect(address, self.stream_options())
            .and_then(|socket| self.driver.attach(slot, socket, true));
        if let Err(source) = attached {
            self.unallocate(slot);
            self.count_up().connect_failed.add(1);
            return Err(refused(source));
        }
        let deadline = self.tick_after(timeout);
        let connection = &mut self.connections[slot as usize];
        connection.phase = Phase::Connecting;
        connection.deadline = deadline;
        connection.attempt = Some(Box::new(Attempt {
            address,
            timeout,
            token,
        }));
        self.arm(slot);
        Ok(self.id(slot))
    }

    /// Posts a message to shard `index` (this one too); its handler's `on_message` gets it.
    ///
    /// # Errors
    ///
    /// [`NotPosted`] gives the message back if the mailbox is full or the shard does not exist.
    pub fn post(&self, index: usize, message: M) -> Result<(), NotPosted<M>> {
        match self.common.mailboxes.get(index) {
            Some(mailbox) => mailbox.post(message),
            None => Err(NotPosted::Closed(message)),
        }
    }
}
