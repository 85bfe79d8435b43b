//! Starting, addressing and stopping all shards of a process.

use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::{Arc, Weak, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    config::{Backend, EngineConfig},
    driver::{Driver, Waker, readiness::Readiness},
    error::{NotPosted, StartError},
    handle::EngineHandle,
    handler::Handler,
    health::{Counters, ShardCounters, ShardHealth, Vitals},
    listen::{ListenAddress, ListenSocket, Listeners},
    mailbox::Mailbox,
    shard::{Common, Shard, guard::caught, run::Runner},
    sync::Gauge,
    sys,
    topology::Topology,
};

/// All shards of a process: one pinned event loop per physical core.
///
/// Dropping an engine resets its connections. [`Engine::stop`] closes them in order.
#[derive(Debug)]
#[must_use = "dropping an engine stops it"]
pub struct Engine<H: Handler> {
    common: Arc<Common<H::Message>>,
    threads: Vec<JoinHandle<io::Result<u64>>>,
    addresses: Vec<ListenAddress>,
    cpus: Vec<Option<usize>>,
    backend: &'static str,
}

/// How a stop went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Connections that were not idle when the deadline passed, and were reset.
    pub cut: u64,
    /// Shards that had ended before, by a panic of [`Handler::on_start`] or a failing kernel
    /// interface.
    pub failed_shards: Vec<usize>,
    /// Why each of [`StopReport::failed_shards`] had ended, in the same order.
    pub reasons: Vec<String>,
}

/// What a shard's thread reports once it can run.
type Ready = Result<&'static str, StartError>;

impl<H: Handler> Engine<H> {
    /// Starts the shards. `handler` is called once on each shard's own thread, with the shard's
    /// index, and makes its handler.
    ///
    /// Returns when every shard listens; connections are served from then on.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a setting out of range, CPUs that are not there, an address that cannot be
    /// listened on, a back end that is forbidden. Nothing is left running.
    pub fn start<F>(config: EngineConfig, handler: F) -> Result<Self, StartError>
    where
        F: Fn(usize) -> H + Send + Sync + 'static,
    {
        config.validate()?;
        let cpus = choose_cpus(&config)?;
        let listeners = Listeners::open(&config, cpus.len())?;
        // Handles keep the settings, but must not keep given sockets listening.
        let mut config = config;
        config.listen = Vec::new();
        let watched = listeners.watched();
        let common = Arc::new(Common {
            mailboxes: cpus
                .iter()
                .map(|_| Mailbox::new(config.mailbox_max))
                .collect(),
            counters: cpus.iter().map(|_| ShardCounters::default()).collect(),
            connections: Gauge::default(),
            vitals: cpus.iter().map(|_| Vitals::default()).collect(),
            places: listeners.places,
            listeners: watched,
            config,
        });
        let mut engine = Self {
            common,
            threads: Vec::new(),
            addresses: listeners.addresses,
            cpus,
            backend: "mio",
        };
        let handler = Arc::new(handler);
        let (report, reports) = mpsc::channel::<Ready>();
        for (index, listeners) in listeners.sockets.into_iter().enumerate() {
            let seat = Seat {
                index,
                cpu: engine.cpus[index],
                listeners,
                report: report.clone(),
            };
            let (common, handler) = (Arc::clone(&engine.common), Arc::clone(&handler));
            let thread = thread::Builder::new()
                .name(format!("olivine-net-{index}"))
                .spawn(move || seat.run(common, &*handler))
                .map_err(|source| StartError::Thread {
                    shard: index,
                    source,
                })?;
            engine.threads.push(thread);
        }
        drop(report);
        for shard in 0..engine.threads.len() {
            // A thread that ends without a report has panicked before it could run.
            engine.backend = reports.recv().unwrap_or_else(|_| {
                let source = io::Error::other("the handler could not be made");
                Err(StartError::Thread { shard, source })
            })?;
        }
        Ok(engine)
    }

    /// The first TCP address listened on, with the real port; `None` if there is none.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.addresses.iter().find_map(|address| match address {
            ListenAddress::Tcp(address) => Some(*address),
            _ => None,
        })
    }

    /// All places listened on: first those that were named, in their order, then those that were
    /// given, each address once.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Copies of the sockets that the engine listens on, for another process or engine
    /// ([`Listen::given`](crate::Listen::given)) that goes on with them. From then on this engine
    /// leaves connections that it has not accepted to the others when it stops: so a restart
    /// refuses none.
    ///
    /// # Errors
    ///
    /// If descriptors have run out, or the engine no longer listens.
    pub fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        let sockets = self.common.listeners.iter();
        let copy = |socket: &Weak<ListenSocket>| {
            let socket = socket.upgrade().ok_or(io::ErrorKind::NotConnected)?;
            socket.shared.set(true);
            socket.fd.try_clone()
        };
        sockets.map(copy).collect()
    }

    /// The CPU each shard is pinned to, by index; `None` where pinning is off.
    #[must_use]
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// The back end in use: `mio` or `io_uring`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// What other threads use the engine through: it posts, reads counters, and stops.
    #[must_use]
    pub fn handle(&self) -> EngineHandle<H::Message> {
        EngineHandle::new(Arc::clone(&self.common))
    }

    /// Readings of the shards' counters, by index.
    #[must_use]
    pub fn counters(&self) -> Vec<Counters> {
        self.handle().counters()
    }

    /// How each shard is, by index: whether it runs or why it ended, its back end, connections,
    /// panics and memory.
    #[must_use]
    pub fn health(&self) -> Vec<ShardHealth> {
        self.handle().health()
    }

    /// Posts a message to shard `index`; its handler's `on_message` gets it.
    ///
    /// # Errors
    ///
    /// [`NotPosted`] gives the message back if the mailbox is full or the shard does not exist.
    pub fn post(&self, index: usize, message: H::Message) -> Result<(), NotPosted<H::Message>> {
        self.handle().post(index, message)
    }

    /// Stops: takes no more connections, closes each one as soon as it is idle, and after
    /// `deadline` resets the rest. Returns when all shards have ended, which is as soon as nothing
    /// is left. [`EngineHandle::stop`] does it from another thread.
    pub fn stop(mut self, deadline: Duration) -> StopReport {
        self.halt(deadline)
    }

    /// Waits until all shards have ended: by an [`EngineHandle::stop`], or each by its own failure.
    pub fn wait(mut self) -> StopReport {
        self.join()
    }

    fn halt(&mut self, deadline: Duration) -> StopReport {
        self.handle().stop(deadline);
        self.join()
    }

    fn join(&mut self) -> StopReport {
        let mut report = StopReport::default();
        for (index, thread) in self.threads.drain(..).enumerate() {
            match thread.join() {
                Ok(Ok(cut)) => report.cut += cut,
                Ok(Err(_)) | Err(_) => {
                    let reason = self.common.vitals[index].ended.get().cloned();
                    report.failed_shards.push(index);
                    report.reasons.push(reason.unwrap_or_default());
                }
            }
        }
        report
    }
}

impl<H: Handler> Drop for Engine<H> {
    fn drop(&mut self) {
        self.halt(Duration::ZERO);
    }
}

/// What one shard's thread starts with.
#[derive(Debug)]
struct Seat {
    index: usize,
    cpu: Option<usize>,
    listeners: Vec<Arc<ListenSocket>>,
    report: mpsc::Sender<Ready>,
}

impl Seat {
    fn run<H: Handler>(
        self,
        common: Arc<Common<H::Message>>,
        handler: &impl Fn(usize) -> H,
    ) -> io::Result<u64> {
        sys::block_pipe_signal();
        let guard = CloseMailbox {
            index: self.index,
            common: Arc::clone(&common),
        };
        if let Some(cpu) = self.cpu
            && let Err(source) = sys::pin(cpu)
        {
            // The engine that waits for this report is the only one to hear it.
            let _ = self.report.send(Err(StartError::Pin { cpu, source }));
            return Ok(0);
        }
        let vitals = &common.vitals[self.index];
        let (mut driver, waker) = match open_driver(&common.config, vitals) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = self.report.send(Err(error));
                return Ok(0);
            }
        };
        let mut listeners = self.listeners.into_iter();
        if let Err(source) = listeners.try_for_each(|listener| driver.listen(listener)) {
            let backend = driver.name();
            let _ = self
                .report
                .send(Err(StartError::Backend { backend, source }));
            return Ok(0);
        }
        common.mailboxes[self.index].set_waker(waker);
        let name = driver.name();
        let _ = vitals.backend.set(name);
        let shard = Shard::new(self.index, driver, Arc::clone(&common));
        let runner = Runner::new(shard, handler(self.index));
        let _ = self.report.send(Ok(name));
        drop(self.report);
        // Handlers are caught call by call: what comes here is a panic of `on_start`, or a fault of
        // this crate.
        let result = caught(|| runner.run())
            .unwrap_or_else(|message| Err(io::Error::other(format!("panicked: {message}"))));
        if let Err(error) = &result {
            common.vitals[self.index].end(error.to_string());
        }
        drop(guard);
        result
    }
}

/// Closes the shard's mailbox however its thread ends, so that a later post is refused.
struct CloseMailbox<M> {
    index: usize,
    common: Arc<Common<M>>,
}

impl<M> Drop for CloseMailbox<M> {
    fn drop(&mut self) {
        for _ in 0..self.common.mailboxes[self.index].close() {
            // Handed over and not taken in: they are closed, and no longer count.
            self.common.connections.give();
        }
    }
}

/// A CPU for each shard, or `None` where pinning is off.
fn choose_cpus(config: &EngineConfig) -> Result<Vec<Option<usize>>, StartError> {
    let topology = Topology::detect()?;
    if !config.cpus.is_empty() {
        topology.check(&config.cpus)?;
        return Ok(config.cpus.iter().copied().map(Some).collect());
    }
    if !config.pin {
        let count = if config.threads == 0 {
            topology.cores().len()
        } else {
            config.threads
        };
        return Ok(vec![None; count]);
    }
    Ok(topology
        .choose(config.threads)?
        .into_iter()
        .map(Some)
        .collect())
}

fn open_driver(
    config: &EngineConfig,
    vitals: &Vitals,
) -> Result<(Box<dyn Driver>, Waker), StartError> {
    let mio = || match Readiness::new(config.receive_buffer) {
        Ok((driver, waker)) => Ok((Box::new(driver) as Box<dyn Driver>, waker)),
        Err(source) => Err(StartError::Backend {
            backend: "mio",
            source,
        }),
    };
    let uring = || -> Result<(Box<dyn Driver>, Waker), StartError> {
        #[cfg(target_os = "linux")]
        let opened = sys::uring::Uring::new(config.receive_buffer)
            .map(|(driver, waker)| (Box::new(driver) as Box<dyn Driver>, waker));
        #[cfg(not(target_os = "linux"))]
        let opened = Err(io::ErrorKind::Unsupported.into());
        opened.map_err(|source| StartError::Backend {
            backend: "io_uring",
            source,
        })
    };
    match config.backend {
        Backend::Mio => mio(),
        Backend::IoUring => uring(),
        Backend::Auto => uring().or_else(|error| {
            if let StartError::Backend { source, .. } = error {
                let _ = vitals.fallback.set(source.to_string());
            }
            mio()
        }),
    }
}
