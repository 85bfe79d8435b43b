//! What other threads use an engine through.

use std::{
    fmt,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    error::{NotAdopted, NotPosted},
    handler::Origin,
    health::{Counters, ShardCounters, ShardHealth},
    mailbox::{Letter, Passed},
    shard::Common,
    sys::socket,
};

/// Posts to an engine's shards, reads their state and stops them, from any thread.
///
/// It is `Send`, `Sync` and cheap to clone, and keeps nothing running: once the engine has stopped,
/// posts are refused. [`Engine::handle`](crate::Engine::handle) and
/// [`Shard::handle`](crate::Shard::handle) make one.
///
/// ```
/// use olivine_net::{ConnectionId, Engine, EngineConfig, Handler, Shard};
/// use std::{sync::mpsc, time::Duration};
///
/// struct Sum(u64, mpsc::Sender<u64>);
///
/// impl Handler for Sum {
///     type Message = u64;
///
///     fn on_data(&mut self, _: &mut Shard<u64>, _: ConnectionId, data: &[u8]) -> usize {
///         data.len()
///     }
///
///     fn on_message(&mut self, _: &mut Shard<u64>, message: u64) {
///         self.0 += message;
///         self.1.send(self.0).unwrap();
///     }
/// }
///
/// let (sums, seen) = mpsc::channel();
/// let config = EngineConfig::client().threads(1).pin(false);
/// let engine = Engine::start(config, move |_| Sum(0, sums.clone()))?;
/// let handle = engine.handle();
/// std::thread::spawn(move || {
///     handle.post(0, 3).unwrap();
///     handle.post(0, 4).unwrap();
///     handle.stop(Duration::from_secs(1));
/// });
/// assert_eq!(engine.wait().cut, 0);
/// assert_eq!(seen.iter().collect::<Vec<_>>(), [3, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineHandle<M> {
    common: Arc<Common<M>>,
}

impl<M> Clone for EngineHandle<M> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.common))
    }
}

impl<M> fmt::Debug for EngineHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineHandle")
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}

impl<M> EngineHandle<M> {
    pub(crate) fn new(common: Arc<Common<M>>) -> Self {
        Self { common }
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.common.mailboxes.len()
    }

    /// Posts a message to shard `index`; its handler's
    /// [`on_message`](crate::Handler::on_message) gets it. A shard that sleeps wakes up.
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

    /// Passes a connected stream socket of TCP or Unix to shard `index`, which serves it like an
    /// accepted one, with TLS if the engine serves TLS. The handler's
    /// [`on_open`](crate::Handler::on_open) gets [`Origin::Adopted`] with `token`.
    ///
    /// # Errors
    ///
    /// [`NotAdopted`] gives the socket back.
    pub fn adopt(
        &self,
        index: usize,
        socket: impl Into<OwnedFd>,
        token: u64,
    ) -> Result<(), NotAdopted> {
        let socket = socket.into();
        let Some(mailbox) = self.common.mailboxes.get(index) else {
            return Err(NotAdopted::Closed(socket));
        };
        if socket::take_over(socket.as_fd()).is_err() {
            return Err(NotAdopted::Unusable(socket));
        }
        let connections = &self.common.connections;
        if !connections.take(self.common.config.connections_max) {
            return Err(NotAdopted::Full(socket));
        }
        let passed = Passed::fresh(socket, None, Origin::Adopted { token });
        match mailbox.command(Letter::Connection(passed)) {
            Err(Letter::Connection(passed)) => {
                connections.give();
                Err(NotAdopted::Closed(passed.socket))
            }
            _ => Ok(()),
        }
    }

    /// Readings of the shards' counters, by index.
    #[must_use]
    pub fn counters(&self) -> Vec<Counters> {
        self.common
            .counters
            .iter()
            .map(ShardCounters::read)
            .collect()
    }

    /// How each shard is, by index: whether it runs or why it ended, its back end, connections,
    /// panics and memory.
    #[must_use]
    pub fn health(&self) -> Vec<ShardHealth> {
        let vitals = self.common.vitals.iter().zip(self.counters());
        vitals
            .map(|(vitals, counters)| vitals.read(counters.open, counters.panics))
            .collect()
    }

    /// Has the engine stop, and returns at once: it takes no more connections, closes each one as
    /// soon as it is idle, and resets the rest after `deadline`.
    /// [`Engine::wait`](crate::Engine::wait) returns once all shards have ended. Of several orders
    /// the earliest deadline counts.
    ///
    /// An engine handles no signals: for SIGTERM, a thread of the program that waits for it calls
    /// this.
    pub fn stop(&self, deadline: Duration) {
        let now = Instant::now();
        // A time that cannot be represented is as good as the end of a century.
        let at = now
            .checked_add(deadline)
            .unwrap_or(now + Duration::from_secs(3_000_000_000));
        for mailbox in &self.common.mailboxes {
            // A shard that has ended needs no stopping.
            let _ = mailbox.command(Letter::Stop(at));
        }
    }
}
