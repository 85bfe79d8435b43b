//! Where an engine listens: addresses, Unix sockets, and sockets that it was given.

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Weak},
};

use crate::{
    config::{AcceptMode, EngineConfig},
    error::StartError,
    sync::Flag,
    sys::{
        self,
        socket::{self, ListenOptions},
    },
};

mod unix;

/// A place to listen on; [`EngineConfig::listen`] adds it to an engine.
///
/// ```
/// use olivine_net::{EngineConfig, Listen};
///
/// let config = EngineConfig::new("127.0.0.1:8000".parse()?)
///     .listen(Listen::unix("/run/app/http.sock").mode(0o660));
/// # assert!(config.validate().is_ok());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it does nothing until an engine is started with it"]
pub struct Listen {
    pub(crate) place: ListenAt,
    #[cfg(feature = "rustls")]
    pub(crate) plain: bool,
    pub(crate) mode: Option<u32>,
    name: String,
}

#[derive(Clone, Debug)]
pub(crate) enum ListenAt {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Given(Arc<OwnedFd>),
}

impl Listen {
    fn at(place: ListenAt) -> Self {
        Self {
            place,
            #[cfg(feature = "rustls")]
            plain: false,
            mode: None,
            name: String::new(),
        }
    }

    /// A TCP address; port 0 lets the system choose one, see
    /// [`Engine::addresses`](crate::Engine::addresses).
    pub fn tcp(address: SocketAddr) -> Self {
        Self::at(ListenAt::Tcp(address))
    }

    /// A Unix socket at `path`. A socket there that no process listens on is removed first; another
    /// file is refused. The engine removes its socket when it has stopped, unless the listener was
    /// handed out ([`Engine::listeners`](crate::Engine::listeners)).
    ///
    /// Of several engines that start at once with one path, one gets it. While an engine starts or
    /// stops, it holds a lock on an empty file beside the socket, `.NAME.olivine-lock`; the other
    /// waits for at most 5 s.
    ///
    /// Connections are shared out over the shards by the first one, and have no peer address.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(ListenAt::Unix(path.into()))
    }

    /// A socket that listens already, such as one of another process. Starting refuses others.
    ///
    /// Where as many sockets with one address are given as the engine has shards, each shard
    /// accepts from one of them; with fewer, connections are shared out over all shards.
    pub fn given(listener: impl Into<OwnedFd>) -> Self {
        Self::at(ListenAt::Given(Arc::new(listener.into())))
    }

    /// The sockets that the process's parent has passed to it by socket activation, as systemd and
    /// its equals do: `LISTEN_FDS` of them, from descriptor 3 on, if `LISTEN_PID` is this process;
    /// none otherwise. They are closed on `exec` from then on, and only the first call gets them.
    ///
    /// Each must be a stream socket that listens, and must not be closed on `exec`: a descriptor
    /// that this process has opened is, and the parent's cannot be. A refusal takes none of them,
    /// so that a later call may try again.
    ///
    /// ```
    /// use olivine_net::{EngineConfig, Listen};
    ///
    /// let mut given = Listen::inherited()?;
    /// if given.is_empty() {
    ///     given.push(Listen::tcp("127.0.0.1:0".parse()?));
    /// }
    /// let config = given.into_iter().fold(EngineConfig::client(), EngineConfig::listen);
    /// # assert!(config.validate().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the variables are malformed, or a descriptor is not what it must be; the text names it.
    pub fn inherited() -> io::Result<Vec<Self>> {
        let number = |name: &str| match std::env::var(name) {
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(_) => Err(malformed(name)),
            Ok(text) => text.parse::<u32>().map(Some).map_err(|_| malformed(name)),
        };
        // What is meant for another process need not make sense to this one.
        if number("LISTEN_PID")? != Some(std::process::id()) {
            return Ok(Vec::new());
        }
        let count = number("LISTEN_FDS")?.unwrap_or(0);
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let listeners = sys::take_inherited(count)?.into_iter();
        Ok(listeners
            .map(|listener| Self {
                name: names.next().unwrap_or_default().to_owned(),
                ..Self::given(listener)
            })
            .collect())
    }

    /// The name that the parent gave to an inherited socket (`LISTEN_FDNAMES`); empty otherwise.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Permission bits of a Unix socket, 0 to 0o777. Default: those of the process's file mode
    /// mask.
    pub fn mode(mut self, bits: u32) -> Self {
        self.mode = Some(bits);
        self
    }

    /// No TLS here, although the engine serves TLS.
    #[cfg(feature = "rustls")]
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{name} is not a number"),
    )
}

/// An address that an engine listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// TCP, with the real port.
    Tcp(SocketAddr),
    /// A Unix socket; `None` for one without a path.
    Unix(Option<PathBuf>),
    /// A Unix socket that was given, with an abstract name of Linux, which no file has.
    Abstract(Vec<u8>),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            // Escaped: a path may hold anything.
            Self::Unix(Some(path)) => {
                write!(f, "unix:{}", path.display().to_string().escape_debug())
            }
            Self::Unix(None) => f.write_str("unix:"),
            Self::Abstract(name) => write!(f, "unix:@{}", name.escape_ascii()),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct ListenSocket {
    pub(crate) fd: OwnedFd,
    /// Its place in the settings.
    pub(crate) index: u16,
    /// Other processes may have it too: it must not be shut down.
    pub(crate) shared: Flag,
    /// To be removed with it.
    file: Option<unix::Bound>,
}

impl Drop for ListenSocket {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && !self.shared.get()
        {
            file.remove();
        }
    }
}

/// What the shards know of a place.
#[derive(Debug)]
pub(crate) struct ListenPlace {
    /// Connections are handed to all shards in turn.
    pub(crate) hand_over: bool,
    #[cfg(feature = "rustls")]
    pub(crate) plain: bool,
    pub(crate) is_tcp: bool,
}

/// All listeners of an engine.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// By shard.
    pub(crate) sockets: Vec<Vec<Arc<ListenSocket>>>,
    pub(crate) places: Vec<ListenPlace>,
    pub(crate) addresses: Vec<ListenAddress>,
}

impl Listeners {
    /// Binds, or checks what was given.
    pub(crate) fn open(config: &EngineConfig, shards: usize) -> Result<Self, StartError> {
        let mut listeners = Self {
            sockets: (0..shards).map(|_| Vec::new()).collect(),
            ..Self::default()
        };
        let per_shard = match config.accept {
            AcceptMode::Auto => socket::REUSE_PORT_SPREADS,
            AcceptMode::PerShard => true,
            AcceptMode::HandOver => false,
        };
        for listen in &config.listen {
            match &listen.place {
                ListenAt::Tcp(address) => {
                    listeners.open_tcp(config, listen, *address, per_shard)?;
                }
                ListenAt::Unix(path) => {
                    let (socket, file) = unix::listen(path, options(config).backlog, listen.mode)
                        .map_err(|source| failed(path.display(), source))?;
                    let address = ListenAddress::Unix(Some(path.clone()));
                    listeners.add_place(listen, address, true);
                    listeners.add_socket(0, socket, Some(file), false);
                }
                ListenAt::Given(_) => {}
            }
        }
        listeners.open_given(config, per_shard)?;
        Ok(listeners)
    }

    fn open_tcp(
        &mut self,
        config: &EngineConfig,
        listen: &Listen,
        mut address: SocketAddr,
        per_shard: bool,
    ) -> Result<(), StartError> {
        let shards = self.sockets.len();
        let options = ListenOptions {
            reuse_port: per_shard && shards > 1,
            ..options(config)
        };
        let failed = |address, source| failed(address, source);
        if options.reuse_port && address.port() != 0 {
            // SO_REUSEPORT would let us share the port of another program of this user that also
            // set it, and the kernel would give each of us some of the connections. A bind without
            // it tells.
            let alone = ListenOptions {
                reuse_port: false,
                ..options
            };
            drop(socket::listen(address, alone).map_err(|source| failed(address, source))?);
        }
        for shard in 0..if options.reuse_port { shards } else { 1 } {
            let listener =
                socket::listen(address, options).map_err(|source| failed(address, source))?;
            if shard == 0 {
                address = socket::local_address(listener.as_fd())
                    .map_err(|source| failed(address, source))?;
                let place = ListenAddress::Tcp(address);
                self.add_place(listen, place, !options.reuse_port);
            }
            self.add_socket(shard, listener, None, false);
        }
        Ok(())
    }

    /// Takes in the sockets that were given, grouped by their addresses.
    fn open_given(&mut self, config: &EngineConfig, per_shard: bool) -> Result<(), StartError> {
        let mut given = Vec::new();
        for listen in &config.listen {
            let ListenAt::Given(listener) = &listen.place else {
                continue;
            };
            let wrong = |source| failed("a given socket", source);
            let address = socket::listens_on(listener.as_fd()).map_err(wrong)?;
            let listener = listener.try_clone().map_err(wrong)?;
            socket::make_nonblocking(listener.as_fd()).map_err(wrong)?;
            if matches!(address, ListenAddress::Tcp(_)) {
                // Accepted sockets inherit it, as with listeners that the engine makes.
                socket::inherit_keep_alive(listener.as_fd(), config.keep_alive).map_err(wrong)?;
            }
            given.push((listen, address, Some(listener)));
        }
        while let Some(first) = given.iter().position(|(_, _, socket)| socket.is_some()) {
            let (listen, address) = (given[first].0, given[first].1.clone());
            let same = given.iter_mut().filter(|(_, other, _)| *other == address);
            let group: Vec<OwnedFd> = same.filter_map(|(_, _, socket)| socket.take()).collect();
            let shards = self.sockets.len();
            self.add_place(listen, address, !per_shard || group.len() < shards);
            for (n, listener) in group.into_iter().enumerate() {
                self.add_socket(n % shards, listener, None, true);
            }
        }
        Ok(())
    }

    fn add_place(&mut self, listen: &Listen, address: ListenAddress, hand_over: bool) {
        #[cfg(not(feature = "rustls"))]
        let _ = listen;
        self.places.push(ListenPlace {
            hand_over: hand_over && self.sockets.len() > 1,
            #[cfg(feature = "rustls")]
            plain: listen.plain,
            is_tcp: matches!(address, ListenAddress::Tcp(_)),
        });
        self.addresses.push(address);
    }

    /// Adds a socket of the place added last.
    fn add_socket(
        &mut self,
        shard: usize,
        fd: OwnedFd,
        file: Option<unix::Bound>,
        is_shared: bool,
    ) {
        let shared = Flag::default();
        shared.set(is_shared);
        self.sockets[shard].push(Arc::new(ListenSocket {
            fd,
            // At most 1,000 (`EngineConfig::validate`).
            index: u16::try_from(self.places.len() - 1).unwrap_or(u16::MAX),
            shared,
            file,
        }));
    }

    /// The sockets without keeping them open.
    pub(crate) fn watched(&self) -> Vec<Weak<ListenSocket>> {
        self.sockets.iter().flatten().map(Arc::downgrade).collect()
    }
}

fn options(config: &EngineConfig) -> ListenOptions {
    ListenOptions {
        // At most 65,535 by `validate`.
        backlog: i32::try_from(config.backlog).unwrap_or(i32::MAX),
        reuse_port: false,
        ipv6_only: config.ipv6_only,
        receive_kernel_bytes: config.receive_kernel_bytes,
        keep_alive: config.keep_alive,
    }
}

fn failed(place: impl fmt::Display, source: io::Error) -> StartError {
    StartError::Listen {
        place: place.to_string(),
        source,
    }
}
