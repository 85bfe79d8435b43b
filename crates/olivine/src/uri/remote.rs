//! Where a channel is when it is not in this machine's memory, and the settings of the way there.
//!
//! | scheme | after `://` | what the channel's name is |
//! |---|---|---|
//! | `tcp` | `HOST:PORT/CHANNEL`; HOST is a name, an IPv4 address, or an IPv6 address in brackets | the last part |
//! | `nats` | `HOST[:PORT]/CHANNEL`; port 4222 unless given | the last part |
//! | `shm+fd` | an absolute path of a socket | the file's name up to its last dot |
//! | `file` | an absolute path | `channel=`, else the file's name up to its last dot |

use super::nats::Nats;
use super::parse::is_name;
use super::{
    Compression, Config, Pace, Peers, Role, Rotation, Scheme, Start, SyncPolicy, Unfinished,
    UriError, sealed,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Port of `nats://` where the URI names none.
const NATS_PORT: u16 = 4222;
/// Longest host name in bytes.
const HOST_LENGTH_MAX: usize = 253;
/// Longest token in bytes.
pub(super) const TOKEN_LENGTH_MAX: usize = 256;
/// Shortest and longest `timeout=`.
pub(super) const TIMEOUT_RANGE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(3600));
/// Silence after which a connection is given up, where the URI says nothing.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What only channels outside this machine's memory have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Of `tcp://` and `nats://`.
    pub(crate) address: Option<Address>,
    /// Of `file://`, and the socket of `shm+fd://`.
    pub(crate) path: Option<PathBuf>,
    /// The name was given by `channel=`, not taken from the file's name.
    pub(crate) named: bool,
    pub(crate) role: Option<Role>,
    pub(crate) tls: bool,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) token: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) peers: Peers,
    pub(crate) sync: Option<SyncPolicy>,
    pub(crate) rotate: Option<Rotation>,
    pub(crate) compress: Option<Compression>,
    pub(crate) follow: bool,
    pub(crate) pace: Option<Pace>,
    pub(crate) unfinished: Option<Unfinished>,
    pub(crate) nats: Nats,
}

impl Config {
    /// Host and port of a `tcp://` or `nats://` channel.
    pub fn address(mut self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        self.remote.address = Some(Address { host, port });
        self
    }

    /// File of a `file://` channel, socket of a `shm+fd://` channel: an absolute path. The socket's name up to its
    /// last dot is the name of its channel.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if self.scheme == Scheme::Sealed {
            self.channel = sealed::name_of(&path);
        }
        self.remote.path = Some(path);
        self.remote.named = true;
        self
    }

    /// Which side of `tcp://` waits for connections. Default: the publisher listens, subscribers connect.
    pub fn role(mut self, role: Role) -> Self {
        self.remote.role = Some(role);
        self
    }

    /// Encrypts and authenticates `tcp://` by TLS. Default: not.
    ///
    /// Who listens needs [`Config::tls_cert`] and [`Config::tls_key`], who connects [`Config::tls_ca`]. The listener's
    /// certificate must be for the host name or address that the URI names. Needs the feature `tls`.
    pub fn tls(mut self, on: bool) -> Self {
        self.remote.tls = on;
        self
    }

    /// PEM file with our own certificate, followed by its chain.
    pub fn tls_cert(mut self, path: impl Into<PathBuf>) -> Self {
        self.remote.tls_cert = Some(path.into());
        self
    }

    /// PEM file with the private key of our own certificate.
    pub fn tls_key(mut self, path: impl Into<PathBuf>) -> Self {
        self.remote.tls_key = Some(path.into());
        self
    }

    /// PEM file with the authorities that sign the other side's certificate.
    ///
    /// Who connects checks the listener with it. Who listens and names it asks for a certificate of everybody who
    /// connects: mutual TLS.
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.remote.tls_ca = Some(path.into());
        self
    }

    /// Word that both sides of `tcp://` must give: 1 to 256 visible ASCII characters without `&`; `@PATH` reads it
    /// from a file. Default: none.
    ///
    /// It travels as it is: use TLS where others can listen.
    pub fn token(mut self, token: &str) -> Self {
        self.remote.token = Some(token.to_owned());
        self
    }

    /// Silence after which a connection is given up and made again: 100 ms to 1 h. Default 5 s.
    ///
    /// Of `shm+fd://` how long opening a subscriber waits for its publisher.
    pub fn timeout(mut self, silence: Duration) -> Self {
        self.remote.timeout = Some(silence);
        self
    }

    /// What a message recorded in a `file://` journal survives. Default [`SyncPolicy::Block`].
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.remote.sync = Some(policy);
        self
    }

    /// When a `file://` journal that is recorded goes on in its next file. Default [`Rotation::NEVER`].
    pub fn rotate(mut self, when: Rotation) -> Self {
        self.remote.rotate = Some(when);
        self
    }

    /// How a `file://` journal is packed. Default [`Compression::No`].
    pub fn compress(mut self, how: Compression) -> Self {
        self.remote.compress = Some(how);
        self
    }

    /// Whether a subscriber of a `file://` journal waits for the next recorder at its end. Default: no. Either way it
    /// follows a recorder that is at work until that one closes the journal.
    pub fn follow(mut self, on: bool) -> Self {
        self.remote.follow = on;
        self
    }

    /// How fast a `file://` journal is replayed. Default [`Pace::Full`].
    pub fn pace(mut self, pace: Pace) -> Self {
        self.remote.pace = Some(pace);
        self
    }

    /// What a subscriber of a `file://` journal makes of a recording that was not finished. Default [`Unfinished::Fail`].
    pub fn unfinished(mut self, unfinished: Unfinished) -> Self {
        self.remote.unfinished = Some(unfinished);
        self
    }

    /// Host and port, if the scheme has them.
    #[must_use]
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        let address = self.remote.address.as_ref()?;
        Some((&address.host, address.port))
    }

    /// The file of a `file://` channel.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        let path = self.remote.path.as_deref();
        path.filter(|_| self.scheme == Scheme::File)
    }
}

/// Reads what stands between `://` and `?`.
pub(super) fn read(scheme: Scheme, place: &str) -> Result<Config, UriError> {
    match scheme {
        Scheme::Shm | Scheme::Inproc => Ok(Config::new(scheme, place)),
        Scheme::Sealed => sealed::read(place),
        Scheme::File => {
            let path = Path::new(place);
            let name = path.file_stem().and_then(|stem| stem.to_str());
            let mut config = Config::new(scheme, name.unwrap_or_default());
            config.remote.path = Some(path.to_owned());
            Ok(config)
        }
        Scheme::Tcp | Scheme::Nats => {
            let (address, channel) = place.split_once('/').unwrap_or((place, ""));
            let mut config = Config::new(scheme, channel);
            config.remote.address = Some(read_address(scheme, address)?);
            Ok(config)
        }
    }
}

pub(super) fn read_address(scheme: Scheme, text: &str) -> Result<Address, UriError> {
    let refused = |rule| UriError::Address {
        address: text.escape_default().to_string(),
        rule,
    };
    // The last colon outside brackets divides.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => (scheme == Scheme::Nats).then_some(NATS_PORT),
    };
    let port = port.ok_or_else(|| refused("the port must be a number from 1 to 65535"))?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = Address {
        host: bare.unwrap_or(host).to_owned(),
        port,
    };
    if bare.is_some() != address.host.contains(':') {
        return Err(refused(
            "an IPv6 address, and nothing else, stands in brackets, such as [::1]:9000",
        ));
    }
    check_address(&address, text)?;
    Ok(address)
}

fn check_address(address: &Address, text: &str) -> Result<(), UriError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let name = !address.host.is_empty()
        && address.host.len() <= HOST_LENGTH_MAX
        && address.host.bytes().all(plain);
    let numbers = address.host.parse::<std::net::Ipv6Addr>().is_ok();
    if !name && !numbers {
        return Err(UriError::Address {
            address: text.escape_default().to_string(),
            rule: "the host must be a name, an IPv4 address, or an IPv6 address in brackets",
        });
    }
    Ok(())
}

/// What stands between `://` and `?`.
pub(super) fn show(config: &Config) -> String {
    match (config.scheme, &config.remote.address, &config.remote.path) {
        (Scheme::Tcp | Scheme::Nats, Some(address), _) => format!("{address}/{}", config.channel),
        (Scheme::File | Scheme::Sealed, _, Some(path)) => path.display().to_string(),
        _ => config.channel.clone(),
    }
}

/// The token as a URI shows it: a file's name as it is, a word not at all.
pub(super) fn show_token(config: &Config) -> Option<String> {
    let token = config.remote.token.as_deref()?;
    Some(if token.starts_with('@') { token } else { "***" }.to_owned())
}

/// Whether `text` can be a token.
pub(crate) fn is_token(text: &str) -> bool {
    let visible = |b: u8| b.is_ascii_graphic() && b != b'&';
    (1..=TOKEN_LENGTH_MAX).contains(&text.len()) && text.bytes().all(visible) && text != "@"
}

/// Checks the place and the pairs of these settings.
pub(super) fn validate(config: &Config) -> Result<(), UriError> {
    let remote = &config.remote;
    let pair = |first, second, rule| {
        Err(UriError::Pair {
            first,
            second,
            rule,
        })
    };
    match (config.scheme, &remote.address, &remote.path) {
        (Scheme::Tcp | Scheme::Nats, Some(address), _) => {
            check_address(address, &address.to_string())?;
            // A port of 0 lets the system choose: only a listener that tells its port can use that.
            if address.port == 0 && config.scheme == Scheme::Nats {
                return Err(UriError::Address {
                    address: address.to_string(),
                    rule: "the port must be a number from 1 to 65535",
                });
            }
        }
        (Scheme::Tcp | Scheme::Nats, None, _) => {
            return Err(UriError::Address {
                address: String::new(),
                rule: "host and port are missing",
            });
        }
        (Scheme::File, _, path) => {
            let plain = |path: &str| {
                path.starts_with('/')
                    && !path.ends_with('/')
                    && !path.contains(|c: char| c.is_control() || "&?".contains(c))
            };
            let text = path.as_ref().and_then(|path| path.to_str());
            if !text.is_some_and(plain) {
                return Err(UriError::Path {
                    path: text.unwrap_or_default().escape_default().to_string(),
                });
            }
            if !is_name(&config.channel, 64) {
                return pair(
                    "the file's name",
                    "no channel",
                    "the file's name is no channel name; name the channel with channel=",
                );
            }
        }
        _ => {}
    }
    let given = [
        ("role", remote.role.is_some()),
        ("tls", remote.tls),
        ("tls_cert", remote.tls_cert.is_some()),
        ("tls_key", remote.tls_key.is_some()),
        ("tls_ca", remote.tls_ca.is_some()),
        ("token", remote.token.is_some()),
        ("timeout", remote.timeout.is_some()),
    ];
    let far = [Scheme::Tcp, Scheme::Nats];
    for (key, given) in given {
        let fits = match key {
            "role" => config.scheme == Scheme::Tcp,
            "timeout" => config.scheme == Scheme::Sealed || far.contains(&config.scheme),
            _ => far.contains(&config.scheme),
        };
        if given && !fits {
            return pair(
                key,
                "this scheme",
                "only a channel over the network has it; use tcp://, or drop it",
            );
        }
    }
    sealed::validate(config)?;
    let given = [
        ("sync", remote.sync.is_some()),
        ("rotate", remote.rotate.is_some()),
        ("compress", remote.compress.is_some()),
        ("follow", remote.follow),
        ("pace", remote.pace.is_some()),
        ("unfinished", remote.unfinished.is_some()),
        (
            "from",
            matches!(config.from, Start::Time(_) | Start::Position(_)),
        ),
    ];
    for (key, given) in given {
        if given && config.scheme != Scheme::File {
            return pair(
                key,
                "this scheme",
                "only a journal has it; use file://, or another value",
            );
        }
    }
    if config.scheme == Scheme::File && config.group.is_some() {
        return pair(
            "group",
            "file://",
            "the group of a journal's files is the recording process's; give their mode=, and change the group outside",
        );
    }
    if remote.tls_cert.is_some() != remote.tls_key.is_some() {
        return pair(
            "tls_cert",
            "tls_key",
            "a certificate and its private key come together; give both",
        );
    }
    if !remote.tls && (remote.tls_cert.is_some() || remote.tls_ca.is_some()) {
        return pair(
            "tls_cert or tls_ca",
            "tls=no",
            "certificates are for TLS; add tls=yes",
        );
    }
    Ok(())
}
