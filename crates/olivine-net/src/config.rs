//! Settings of an engine, each with its unit, range and default.

use std::{net::SocketAddr, time::Duration};

use crate::{error::ConfigError, listen::Listen};

/// How a shard waits while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Never sleeps: the lowest latency, and a whole CPU for each shard even when idle.
    Spin,
    /// Spins for this long after the last event, then sleeps, as long as most pauses end while it
    /// spins. Otherwise it sleeps at once, and tries again in one of up to 256 pauses. Any time,
    /// zero being as [`WaitStrategy::Block`]. The default, with 50 µs.
    Adaptive(Duration),
    /// Sleeps at once: the least CPU time, and tens of microseconds to wake up.
    Block,
}

/// Which kernel interface the shards use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Readiness by mio (epoll, kqueue): works everywhere. The default.
    #[default]
    Mio,
    /// io_uring on Linux; starting fails where the kernel or a container profile forbids it.
    IoUring,
    /// io_uring where a probe finds it usable, otherwise mio.
    Auto,
}

/// Which shards accept connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptMode {
    /// Each shard has its own listener if the system spreads connections over them (Linux);
    /// elsewhere as [`AcceptMode::HandOver`]. The default.
    #[default]
    Auto,
    /// Each shard has its own listener; the kernel spreads connections by a hash.
    PerShard,
    /// The first shard accepts and hands connections to all shards in turn.
    HandOver,
}

/// Settings of an [`Engine`](crate::Engine). Each setting is obeyed or refused, never ignored.
///
/// ```
/// use olivine_net::{EngineConfig, WaitStrategy};
///
/// let config = EngineConfig::new("127.0.0.1:0".parse()?)
///     .threads(1)
///     .connections_max(10_000)
///     .wait(WaitStrategy::Block);
/// assert!(config.validate().is_ok());
/// assert!(config.backlog(0).validate().is_err());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a config does nothing until an engine is started with it"]
pub struct EngineConfig {
    pub(crate) listen: Vec<Listen>,
    pub(crate) ipv6_only: bool,
    pub(crate) backlog: u32,
    pub(crate) nodelay: bool,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) threads: usize,
    pub(crate) cpus: Vec<usize>,
    pub(crate) pin: bool,
    pub(crate) backend: Backend,
    pub(crate) accept: AcceptMode,
    pub(crate) wait: WaitStrategy,
    pub(crate) receive_buffer: usize,
    pub(crate) unconsumed_max: usize,
    pub(crate) high_water: usize,
    pub(crate) low_water: usize,
    pub(crate) send_kernel_bytes: Option<usize>,
    pub(crate) receive_kernel_bytes: Option<usize>,
    pub(crate) connections_max: u64,
    pub(crate) mailbox_max: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) write_timeout: Option<Duration>,
    pub(crate) write_rate_min: Option<u32>,
    pub(crate) linger: Duration,
    #[cfg(feature = "rustls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ServerConfig>>,
}

impl EngineConfig {
    /// Settings for an engine that listens on `address`; port 0 lets the system choose one, see
    /// [`Engine::local_address`](crate::Engine::local_address).
    pub fn new(address: SocketAddr) -> Self {
        Self::client().listen(Listen::tcp(address))
    }

    /// Settings for an engine that only makes connections, or that gets its listeners by
    /// [`EngineConfig::listen`].
    pub fn client() -> Self {
        Self {
            listen: Vec::new(),
            ipv6_only: false,
            backlog: 4096,
            nodelay: true,
            keep_alive: Some(Duration::from_secs(60)),
            threads: 0,
            cpus: Vec::new(),
            pin: true,
            backend: Backend::default(),
            accept: AcceptMode::default(),
            wait: WaitStrategy::Adaptive(Duration::from_micros(50)),
            receive_buffer: 64 * 1024,
            unconsumed_max: 1024 * 1024,
            high_water: 1024 * 1024,
            low_water: 256 * 1024,
            send_kernel_bytes: None,
            receive_kernel_bytes: None,
            connections_max: 1_000_000,
            mailbox_max: 65_536,
            idle_timeout: Some(Duration::from_secs(600)),
            write_timeout: Some(Duration::from_secs(30)),
            write_rate_min: Some(240),
            linger: Duration::from_secs(2),
            #[cfg(feature = "rustls")]
            tls: None,
        }
    }

    /// Adds a place to listen on: an address, a Unix socket or a socket that was given. Up to 1,000
    /// of them.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen.push(listen);
        self
    }

    /// Whether an IPv6 listener refuses IPv4 clients. Default `false`: `[::]` serves both.
    pub fn ipv6_only(mut self, only: bool) -> Self {
        self.ipv6_only = only;
        self
    }

    /// Connections the kernel may hold for us before we accept them, 1 to 65,535 per listener.
    /// Default 4,096; the kernel cuts it to `net.core.somaxconn`.
    ///
    /// A flood fills it while a shard gets no CPU. Linux then ignores new connections: they try
    /// again after 1 s, 3 s and 7 s. So a first answer may take seconds although the shard is idle.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Whether small sends go out at once (`TCP_NODELAY`). Default `true`; each batch is already
    /// one send, so that delaying it gains nothing.
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// Idle time after which the kernel asks the peer whether it still lives, 1 s to 9 h. Default
    /// 60 s; `None`: it never asks.
    ///
    /// It asks six times, 10 s apart (or as far apart as the idle time, where that is less), and
    /// then the connection is broken. By default the shard notices the loss of a machine or network
    /// after at most two minutes.
    pub fn keep_alive(mut self, idle: Option<Duration>) -> Self {
        self.keep_alive = idle;
        self
    }

    /// Number of shards, each a thread; at most 1,024. Default 0: one for each physical core, or
    /// for each CPU named by [`EngineConfig::cpus`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The CPUs to pin the shards to, in order: kernel numbers of CPUs that this process may run
    /// on. Default empty: one CPU of each physical core. With [`EngineConfig::threads`] also set,
    /// both must agree in number.
    pub fn cpus(mut self, cpus: impl Into<Vec<usize>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Whether shards are pinned. Default `true`. Without pinning there may be more shards than
    /// cores.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// The kernel interface: [`Backend::Mio`], [`Backend::IoUring`] or [`Backend::Auto`]. Default
    /// [`Backend::Mio`]; [`Engine::backend`](crate::Engine::backend) says which one is in use.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Which shards accept: [`AcceptMode::Auto`], [`AcceptMode::PerShard`] or
    /// [`AcceptMode::HandOver`]. Default [`AcceptMode::Auto`].
    pub fn accept(mut self, accept: AcceptMode) -> Self {
        self.accept = accept;
        self
    }

    /// How a shard waits. Default [`WaitStrategy::Adaptive`] with 50 µs.
    pub fn wait(mut self, wait: WaitStrategy) -> Self {
        self.wait = wait;
        self
    }

    /// Bytes received at once, 512 to 16 MiB. Default 64 KiB.
    ///
    /// The buffers belong to the shard (a few of them with mio, 64 with io_uring), not to the
    /// connections: idle connections hold none.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = bytes;
        self
    }

    /// Bytes a handler may leave unconsumed on one connection before it is closed, 1 to 1 GiB.
    /// Default 1 MiB.
    pub fn unconsumed_max(mut self, bytes: usize) -> Self {
        self.unconsumed_max = bytes;
        self
    }

    /// Bytes queued for sending on one connection above which [`Shard::offer`](crate::Shard::offer)
    /// answers back-pressure and reading stops; 1 to 1 GiB. Default 1 MiB.
    pub fn high_water(mut self, bytes: usize) -> Self {
        self.high_water = bytes;
        self
    }

    /// Bytes queued for sending at or below which reading resumes and
    /// [`Handler::on_writable`](crate::Handler::on_writable) is called; less than the high-water
    /// mark. Default 256 KiB.
    pub fn low_water(mut self, bytes: usize) -> Self {
        self.low_water = bytes;
        self
    }

    /// The kernel's send buffer of each connection (`SO_SNDBUF`), 1 KiB to 1 GiB; the kernel
    /// doubles it and applies its own limits. Default `None`: the kernel adapts it.
    pub fn send_kernel_bytes(mut self, bytes: Option<usize>) -> Self {
        self.send_kernel_bytes = bytes;
        self
    }

    /// The kernel's receive buffer of each connection (`SO_RCVBUF`), as
    /// [`EngineConfig::send_kernel_bytes`].
    pub fn receive_kernel_bytes(mut self, bytes: Option<usize>) -> Self {
        self.receive_kernel_bytes = bytes;
        self
    }

    /// Connections all shards hold together, at least 1. A further connection is accepted and reset
    /// at once, so its peer notices. Default 1,000,000.
    pub fn connections_max(mut self, connections: u64) -> Self {
        self.connections_max = connections;
        self
    }

    /// Messages that may wait for one shard, at least 1. Default 65,536. A further message is given
    /// back to the caller that posts it.
    pub fn mailbox_max(mut self, messages: usize) -> Self {
        self.mailbox_max = messages;
        self
    }

    /// Time without a byte in either direction after which a connection is closed, 1 ms to 24 h.
    /// Default 10 minutes; `None`: never. It ends connections that a handler has paused as well,
    /// and silent streams of HTTP. Bytes that have arrived are read first, however late, unless
    /// reading is paused. With TLS the bytes it carries count on arrival, and neither new keys nor
    /// a record that is not whole.
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Time a peer may take without accepting a byte of what is queued for it, 1 ms to 24 h, and
    /// over which [`EngineConfig::write_rate_min`] is measured. Default 30 s; `None` waits without
    /// limit, whatever the rate.
    pub fn write_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Bytes per second that a peer must accept, on average over each `write_timeout`, while bytes
    /// are queued for it; 1 to 1 Gi. Default 240; with `None` one byte in each `write_timeout` is
    /// enough. The first period begins when the kernel takes no more. Slower connections are reset.
    /// So a peer that reads slowly cannot hold the memory of its answers for long. Bytes that the
    /// kernel takes into its send buffer count as accepted.
    pub fn write_rate_min(mut self, bytes_per_second: Option<u32>) -> Self {
        self.write_rate_min = bytes_per_second;
        self
    }

    /// Bytes that a peer must accept in each `write_timeout`.
    pub(crate) fn write_bytes_min(&self) -> u64 {
        match (self.write_rate_min, self.write_timeout) {
            (Some(rate), Some(window)) => bytes_in(rate, window).max(1),
            _ => 1,
        }
    }

    /// Time given to a peer to read our last bytes and close after we have, at most 1 h. Default 2
    /// s.
    ///
    /// Closing at once while bytes of the peer are unread would make the kernel reset the
    /// connection and destroy our last bytes in flight.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Serves TLS on accepted connections. Default `None`: plain TCP.
    ///
    /// Handlers see plain text and need no change.
    #[cfg(feature = "rustls")]
    pub fn tls(mut self, tls: Option<std::sync::Arc<rustls::ServerConfig>>) -> Self {
        self.tls = tls;
        self
    }

    /// Checks every setting, and the settings against each other. Starting an engine does this
    /// first.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the setting, its value and the rule it breaks.
    pub fn validate(&self) -> Result<(), ConfigError> {
        const GIB: usize = 1 << 30;
        within("backlog", self.backlog as usize, 1..=65_535)?;
        within("threads", self.threads, 0..=1024)?;
        within("listen", self.listen.len(), 0..=1000)?;
        for mode in self.listen.iter().filter_map(|listen| listen.mode) {
            within(
                "mode",
                usize::try_from(mode).unwrap_or(usize::MAX),
                0..=0o777,
            )?;
        }
        within("receive_buffer", self.receive_buffer, 512..=16 << 20)?;
        within("unconsumed_max", self.unconsumed_max, 1..=GIB)?;
        within("high_water", self.high_water, 1..=GIB)?;
        within("low_water", self.low_water, 0..=self.high_water - 1)?;
        within("mailbox_max", self.mailbox_max, 1..=usize::MAX)?;
        for (setting, bytes) in [
            ("send_kernel_bytes", self.send_kernel_bytes),
            ("receive_kernel_bytes", self.receive_kernel_bytes),
        ] {
            bytes.map_or(Ok(()), |bytes| within(setting, bytes, 1024..=GIB))?;
        }
        if self.connections_max == 0 {
            return Err(ConfigError::range("connections_max", 0, "at least 1"));
        }
        let day = Duration::from_secs(86_400);
        for (setting, timeout) in [
            ("idle_timeout", self.idle_timeout),
            ("write_timeout", self.write_timeout),
        ] {
            if timeout.is_some_and(|t| t < Duration::from_millis(1) || t > day) {
                return Err(ConfigError::duration(setting, timeout, "1 ms to 24 h"));
            }
        }
        if let Some(rate) = self.write_rate_min {
            let rate = usize::try_from(rate).unwrap_or(usize::MAX);
            within("write_rate_min", rate, 1..=GIB)?;
        }
        if self
            .keep_alive
            .is_some_and(|t| t < Duration::from_secs(1) || t.as_secs() > 32_400)
        {
            return Err(ConfigError::duration(
                "keep_alive",
                self.keep_alive,
                "1 s to 9 h",
            ));
        }
        if self.linger > Duration::from_secs(3600) {
            return Err(ConfigError::duration(
                "linger",
                Some(self.linger),
                "at most 1 h",
            ));
        }
        if self.threads != 0 && !self.cpus.is_empty() && self.threads != self.cpus.len() {
            return Err(ConfigError::Disagree {
                threads: self.threads,
                cpus: self.cpus.len(),
            });
        }
        if !self.pin && !self.cpus.is_empty() {
            return Err(ConfigError::CpusWithoutPin);
        }
        #[cfg(feature = "rustls")]
        if let Some(tls) = &self.tls {
            crate::tls::Session::new(tls.clone()).map_err(|error| ConfigError::Tls {
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }
}

/// Bytes that `rate` bytes per second bring in `window`.
pub(crate) fn bytes_in(rate: u32, window: Duration) -> u64 {
    let milliseconds = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    u64::from(rate).saturating_mul(milliseconds) / 1000
}

fn within(
    setting: &'static str,
    value: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(ConfigError::Range {
        setting,
        value,
        rule: format!("{low} to {high}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_out_of_range_is_refused_by_its_name() {
        let fine = || EngineConfig::new("127.0.0.1:0".parse().unwrap());
        assert!(fine().validate().is_ok());
        let long = Some(Duration::from_secs(100_000));
        for (setting, config) in [
            ("backlog", fine().backlog(65_536)),
            ("threads", fine().threads(1025)),
            ("mode", fine().listen(Listen::unix("x").mode(0o1777))),
            ("receive_buffer", fine().receive_buffer(511)),
            ("unconsumed_max", fine().unconsumed_max(0)),
            ("high_water", fine().high_water(0).low_water(0)),
            ("low_water", fine().high_water(10).low_water(10)),
            ("send_kernel_bytes", fine().send_kernel_bytes(Some(1))),
            ("receive_kernel_bytes", fine().receive_kernel_bytes(Some(1))),
            ("connections_max", fine().connections_max(0)),
            ("mailbox_max", fine().mailbox_max(0)),
            ("idle_timeout", fine().idle_timeout(Some(Duration::ZERO))),
            ("write_timeout", fine().write_timeout(long)),
            ("write_rate_min", fine().write_rate_min(Some(0))),
            (
                "keep_alive",
                fine().keep_alive(Some(Duration::from_millis(1))),
            ),
            ("linger", fine().linger(Duration::from_secs(3601))),
            ("threads", fine().threads(2).cpus([0])),
            ("pin", fine().pin(false).cpus([0])),
        ] {
            let text = config.validate().expect_err(setting).to_string();
            assert!(text.contains(setting), "{text:?} must name {setting}");
        }
    }
}
