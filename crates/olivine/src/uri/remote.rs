//! The place of a channel outside this machine's memory.
//!
//! HOST is a name, an IPv4 address, or an IPv6 address in brackets.
//!
//! | scheme | after `://` | what the channel's name is |
//! |---|---|---|
//! | `tcp` | `HOST:PORT/CHANNEL` | the last part |
//! | `nats` | `HOST[:PORT]/CHANNEL`; port 4222 unless given | the last part |
//! | `shm+fd` | an absolute path of a socket | the file's name up to its last dot |
//! | `file` | an absolute path | `channel=`, else the file's name up to its last dot |

use super::parse::is_channel_name;
use super::{Config, Scheme, UriError, sealed};
use std::path::Path;
use std::time::Duration;

/// Port of `nats://` if the URI names none.
const NATS_PORT: u16 = 4222;
/// Longest host name in bytes.
const HOST_LENGTH_MAX: usize = 253;
/// Shortest and longest `timeout=`.
pub(super) const TIMEOUT_RANGE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(3600));
/// Silence after which a connection is closed, if the URI names none.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// The rule for the name of a `nats://` channel.
const SUBJECT_RULE: &str =
    "for nats:// a channel's name is a subject: words of A-Z a-z 0-9 _ - with one '.' between them";

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

/// Host and port as a URI has them: an IPv6 address is in brackets.
#[must_use]
pub fn host_and_port(host: &str, port: u16) -> String {
    let host = host.to_owned();
    Address { host, port }.to_string()
}

impl Config {
    /// Host and port, if the scheme has them.
    pub(crate) fn address(&self) -> Option<&Address> {
        match self.scheme {
            Scheme::Tcp => self.groups.tcp.address.as_ref(),
            Scheme::Nats => self.groups.nats.address.as_ref(),
            Scheme::Shm | Scheme::Sealed | Scheme::Inproc | Scheme::File => None,
        }
    }

    /// The path of the journal or the socket, if the scheme has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self.scheme {
            Scheme::File => self.groups.file.path.as_deref(),
            Scheme::Sealed => self.groups.sealed.path.as_deref(),
            Scheme::Shm | Scheme::Inproc | Scheme::Tcp | Scheme::Nats => None,
        }
    }
}

/// Reads the part between `://` and `?`.
pub(super) fn read(scheme: Scheme, place: &str) -> Result<Config, UriError> {
    match scheme {
        Scheme::Shm | Scheme::Inproc => Ok(Config::new(scheme, place)),
        Scheme::Sealed => sealed::read(place),
        Scheme::File => {
            let path = Path::new(place);
            let name = path.file_stem().and_then(|stem| stem.to_str());
            let mut config = Config::new(scheme, name.unwrap_or_default());
            config.groups.file.path = Some(path.to_owned());
            Ok(config)
        }
        Scheme::Tcp | Scheme::Nats => {
            let (address, channel) = place.split_once('/').unwrap_or((place, ""));
            let mut config = Config::new(scheme, channel);
            let address = Some(read_address(scheme, address)?);
            if scheme == Scheme::Tcp {
                config.groups.tcp.address = address;
            } else {
                config.groups.nats.address = address;
            }
            Ok(config)
        }
    }
}

/// The rule for ports as a URI has them.
const PORT_RULE: &str = "the port must be a number from 1 to 65535; tcp:// also takes 0, where the \
                         side that listens lets the system choose";

pub(super) fn read_address(scheme: Scheme, text: &str) -> Result<Address, UriError> {
    let refused = |rule| UriError::Address {
        address: text.escape_default().to_string(),
        rule,
    };
    // The last colon outside brackets separates host and port.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => (scheme == Scheme::Nats).then_some(NATS_PORT),
    };
    let port = port.ok_or_else(|| refused(PORT_RULE))?;
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

/// The part between `://` and `?`.
pub(super) fn show(config: &Config) -> String {
    let (address, path) = (config.address(), config.path());
    match (address, path) {
        (Some(address), _) => format!("{address}/{}", config.channel),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => config.channel.clone(),
    }
}

/// Checks the part between `://` and `?`.
pub(super) fn check_place(config: &Config) -> Result<(), UriError> {
    match (config.scheme, config.address(), config.path()) {
        (Scheme::Tcp | Scheme::Nats, Some(address), _) => {
            check_address(address, &address.to_string())?;
            // With port 0 the system chooses a port. Only a listener, which reports its port, can
            // use that.
            if address.port == 0 && config.scheme == Scheme::Nats {
                return Err(UriError::Address {
                    address: address.to_string(),
                    rule: "the port must be a number from 1 to 65535",
                });
            }
            let words = &mut config.channel.split('.');
            if config.scheme == Scheme::Nats && words.any(str::is_empty) {
                return Err(UriError::Value {
                    key: "channel",
                    value: config.channel.escape_default().to_string(),
                    rule: SUBJECT_RULE,
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
            let text = path.and_then(Path::to_str);
            if !text.is_some_and(plain) {
                return Err(UriError::Path {
                    path: text.unwrap_or_default().escape_default().to_string(),
                });
            }
            if !is_channel_name(&config.channel) {
                return Err(UriError::Pair {
                    first: "the file's name",
                    second: "no channel",
                    rule: "the file's name is not a channel name; name the channel with channel=",
                });
            }
        }
        (Scheme::Sealed, ..) => return sealed::check_place(config),
        (Scheme::Shm | Scheme::Inproc, ..) => {}
    }
    Ok(())
}
