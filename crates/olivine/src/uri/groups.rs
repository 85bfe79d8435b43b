//! The settings that belong to one scheme, in a group for each.
//!
//! The rows in [`super::keys`] make the methods. What `tcp://`, `nats://` and `shm+fd://` share is
//! a [`ConnectionSettings`] in each of their groups.

use super::remote::Address;
use super::{
    Compression, Config, Pace, Peers, Retention, Role, Rotation, Scheme, Storage, SyncPolicy,
    Unfinished, UriError, sealed,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A value in which a part has its place: the row of a key names the part that it sets.
pub(super) trait Has<T> {
    fn part(&self) -> &T;
    fn part_mut(&mut self) -> &mut T;
}

impl<T> Has<T> for T {
    fn part(&self) -> &T {
        self
    }

    fn part_mut(&mut self) -> &mut T {
        self
    }
}

/// The groups of a [`Config`]. Only that of its scheme may differ from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) tcp: TcpSettings,
    pub(crate) nats: NatsSettings,
    pub(crate) file: FileSettings,
    pub(crate) sealed: SealedSettings,
}

/// A connection to another process, and who is trusted at its other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    pub(crate) token: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tls: bool,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Settings that `tcp://` channels have, for [`Config::tcp`].
///
/// ```
/// use olivine::{Config, Role, Scheme};
/// let config = Config::new(Scheme::Tcp, "ticks")
///     .tcp(|tcp| tcp.address("example.org", 9000).role(Role::Connect).token("@/run/token"));
/// assert_eq!(config.uri(), "tcp://example.org:9000/ticks?role=connect&token=@/run/token");
/// assert_eq!(config.get_tcp().get_role(), Some(Role::Connect));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are in a config"]
pub struct TcpSettings {
    pub(crate) address: Option<Address>,
    pub(crate) connection: ConnectionSettings,
    pub(crate) role: Option<Role>,
    pub(crate) bind: Option<IpAddr>,
}

/// Settings that `nats://` channels have, for [`Config::nats`].
///
/// ```
/// use olivine::{Config, Scheme, Storage};
/// let config = Config::new(Scheme::Nats, "orders")
///     .nats(|nats| nats.address("h", 4222).server("g", 4222).storage(Storage::Memory));
/// assert_eq!(config.uri(), "nats://h:4222/orders?storage=memory&servers=g:4222");
/// assert_eq!(config.get_nats().get_storage(), Some(Storage::Memory));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are in a config"]
pub struct NatsSettings {
    pub(crate) address: Option<Address>,
    pub(crate) connection: ConnectionSettings,
    pub(crate) stream: Option<String>,
    pub(crate) replicas: Option<u8>,
    pub(crate) storage: Option<Storage>,
    pub(crate) retention: Option<Retention>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) max_messages: Option<u64>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) duplicates: Option<Duration>,
    pub(crate) servers: Vec<Address>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) nkey: Option<String>,
    pub(crate) creds: Option<PathBuf>,
}

/// Settings that `file://` channels have, for [`Config::file`].
///
/// ```
/// use olivine::{Config, Scheme, SyncPolicy};
/// let config = Config::new(Scheme::File, "ticks")
///     .file(|file| file.path("/data/monday.olv").sync(SyncPolicy::Never));
/// assert_eq!(config.uri(), "file:///data/monday.olv?channel=ticks&sync=never");
/// assert_eq!(config.get_file().get_sync(), Some(SyncPolicy::Never));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are in a config"]
pub struct FileSettings {
    pub(crate) path: Option<PathBuf>,
    /// The name was given by `channel=`, not taken from the file's name.
    pub(crate) named: bool,
    pub(crate) sync: Option<SyncPolicy>,
    pub(crate) rotate: Option<Rotation>,
    pub(crate) compress: Option<Compression>,
    pub(crate) follow: bool,
    pub(crate) pace: Option<Pace>,
    pub(crate) unfinished: Option<Unfinished>,
}

/// Settings that `shm+fd://` channels have, for [`Config::sealed`].
///
/// ```
/// use olivine::{Config, Peers, Scheme};
/// let config = Config::new(Scheme::Sealed, "ticks")
///     .sealed(|sealed| sealed.path("/run/ticks.sock").peers(Peers::Any));
/// assert_eq!(config.uri(), "shm+fd:///run/ticks.sock?peers=any");
/// assert_eq!(config.get_sealed().get_peers(), &Peers::Any);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are in a config"]
pub struct SealedSettings {
    pub(crate) path: Option<PathBuf>,
    pub(crate) connection: ConnectionSettings,
    pub(crate) peers: Peers,
}

/// Makes a group reachable: `part` of a config or a group is its `place`.
macro_rules! places {
    ($($owner:ident: $part:ident at $($place:ident).+;)+) => { $(
        impl Has<$part> for $owner {
            fn part(&self) -> &$part {
                &self.$($place).+
            }

            fn part_mut(&mut self) -> &mut $part {
                &mut self.$($place).+
            }
        }
    )+ };
}
places! {
    TcpSettings: ConnectionSettings at connection;
    NatsSettings: ConnectionSettings at connection;
    SealedSettings: ConnectionSettings at connection;
    Config: TcpSettings at groups.tcp;
    Config: NatsSettings at groups.nats;
    Config: FileSettings at groups.file;
    Config: SealedSettings at groups.sealed;
}

/// That of the scheme. For a scheme without one: what was given anyway, so that a check refuses it.
impl Has<ConnectionSettings> for Config {
    fn part(&self) -> &ConnectionSettings {
        let Groups {
            tcp, nats, sealed, ..
        } = &*self.groups;
        let default = ConnectionSettings::default();
        let all = [&tcp.connection, &nats.connection, &sealed.connection];
        match self.scheme {
            Scheme::Tcp => &tcp.connection,
            Scheme::Nats => &nats.connection,
            Scheme::Sealed => &sealed.connection,
            Scheme::Shm | Scheme::Inproc | Scheme::File => {
                let mut given = all.into_iter().filter(|found| **found != default);
                given.next().unwrap_or(&tcp.connection)
            }
        }
    }

    fn part_mut(&mut self) -> &mut ConnectionSettings {
        match self.scheme {
            Scheme::Nats => &mut self.groups.nats.connection,
            Scheme::Sealed => &mut self.groups.sealed.connection,
            _ => &mut self.groups.tcp.connection,
        }
    }
}

/// The address of a channel over the network, in each group of one.
macro_rules! addresses {
    ($($owner:ident of $scheme:literal),+) => { $(
        impl $owner {
            #[doc = concat!("Host and port of a `", $scheme, "://` channel.")]
            pub fn address(mut self, host: &str, port: u16) -> Self {
                let host = host.to_owned();
                self.address = Some(Address { host, port });
                self
            }

            /// Host and port.
            #[must_use]
            pub fn get_address(&self) -> Option<(&str, u16)> {
                let address = self.address.as_ref()?;
                Some((&address.host, address.port))
            }
        }
    )+ };
}
addresses!(TcpSettings of "tcp", NatsSettings of "nats");

impl NatsSettings {
    /// One more server of a cluster, at most 16, tried when the first does not answer.
    pub fn server(mut self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        self.servers.push(Address { host, port });
        self
    }
}

impl FileSettings {
    /// The journal's file: an absolute path.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self.named = true;
        self
    }

    /// The journal's file.
    #[must_use]
    pub fn get_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl SealedSettings {
    /// The channel's socket: an absolute path. Its file name up to the last dot is the name of the
    /// channel.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// The channel's socket.
    #[must_use]
    pub fn get_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Settings of one scheme. [`Config::validate`] refuses those of another scheme.
impl Config {
    /// Changes the settings that `tcp://` channels have.
    pub fn tcp(mut self, change: impl FnOnce(TcpSettings) -> TcpSettings) -> Self {
        self.groups.tcp = change(std::mem::take(&mut self.groups.tcp));
        self
    }

    /// The settings that `tcp://` channels have.
    pub fn get_tcp(&self) -> &TcpSettings {
        &self.groups.tcp
    }

    /// Changes the settings that `nats://` channels have.
    pub fn nats(mut self, change: impl FnOnce(NatsSettings) -> NatsSettings) -> Self {
        self.groups.nats = change(std::mem::take(&mut self.groups.nats));
        self
    }

    /// The settings that `nats://` channels have.
    pub fn get_nats(&self) -> &NatsSettings {
        &self.groups.nats
    }

    /// Changes the settings that `file://` channels have.
    pub fn file(mut self, change: impl FnOnce(FileSettings) -> FileSettings) -> Self {
        self.groups.file = change(std::mem::take(&mut self.groups.file));
        self
    }

    /// The settings that `file://` channels have.
    pub fn get_file(&self) -> &FileSettings {
        &self.groups.file
    }

    /// Changes the settings that `shm+fd://` channels have. Their path names the channel.
    pub fn sealed(mut self, change: impl FnOnce(SealedSettings) -> SealedSettings) -> Self {
        self.groups.sealed = change(std::mem::take(&mut self.groups.sealed));
        if let (Scheme::Sealed, Some(path)) = (self.scheme, &self.groups.sealed.path) {
            self.channel = sealed::name_of(path);
        }
        self
    }

    /// The settings that `shm+fd://` channels have.
    pub fn get_sealed(&self) -> &SealedSettings {
        &self.groups.sealed
    }
}

/// Refuses settings in the group of another scheme.
pub(super) fn check(config: &Config) -> Result<(), UriError> {
    let (groups, none) = (&*config.groups, Groups::default());
    let all = [
        (Scheme::Tcp, "tcp settings", groups.tcp == none.tcp),
        (Scheme::Nats, "nats settings", groups.nats == none.nats),
        (Scheme::File, "file settings", groups.file == none.file),
        (
            Scheme::Sealed,
            "sealed settings",
            groups.sealed == none.sealed,
        ),
    ];
    let is_foreign =
        |(scheme, _, is_default): &&(Scheme, _, bool)| *scheme != config.scheme && !is_default;
    match all.iter().find(is_foreign) {
        None => Ok(()),
        Some((_, first, _)) => Err(UriError::Pair {
            first,
            second: config.scheme.word(),
            rule: "give the settings in the group of the channel's scheme, or drop them",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn settings_of_another_scheme_are_refused() {
        let tcp = || Config::new(Scheme::Tcp, "t").tcp(|tcp| tcp.address("h", 1));
        let cases = [
            (
                Config::new(Scheme::Shm, "t").tcp(|tcp| tcp.token("w")),
                "token=*** and shm://",
            ),
            (
                Config::new(Scheme::Shm, "t").nats(|nats| nats.token("w")),
                "token=*** and shm://",
            ),
            (
                Config::new(Scheme::Shm, "t").tcp(|tcp| tcp.address("h", 1)),
                "tcp settings and",
            ),
            (
                tcp().nats(|nats| nats.token("w")),
                "nats settings and tcp cannot",
            ),
            (tcp().nats(|nats| nats.replicas(3)), "replicas=3 and tcp://"),
            (
                tcp().file(|file| file.follow(true)),
                "follow=yes and tcp://",
            ),
            (
                tcp().file(|file| file.path("/x")),
                "file settings and tcp cannot",
            ),
            (
                tcp().sealed(|sealed| sealed.peers(Peers::Any)),
                "peers=any and tcp://",
            ),
            (
                tcp().sealed(|sealed| sealed.path("/x")),
                "sealed settings and tcp cannot",
            ),
        ];
        for (config, expected) in cases {
            let error = config.validate().expect_err(expected).to_string();
            assert!(error.contains(expected), "{config:?} gave: {error}");
        }
        assert_eq!(tcp().validate(), Ok(()));
    }

    #[test]
    fn getters_return_what_a_uri_or_a_setter_set() {
        let config = Config::parse("tcp://h:1/t?token=w&timeout=2s&tls=yes&tls_ca=/ca").unwrap();
        let tcp = config.get_tcp();
        assert_eq!(tcp.get_address(), Some(("h", 1)));
        assert_eq!((tcp.get_token(), tcp.get_tls()), (Some("w"), true));
        assert_eq!(tcp.get_timeout(), Some(Duration::from_secs(2)));
        assert_eq!(tcp.get_tls_ca(), Some(Path::new("/ca")));
        assert_eq!((tcp.get_role(), tcp.get_tls_key()), (None, None));
        assert_eq!(config.get_nats(), &NatsSettings::default());

        let config = Config::parse("nats://h/t?servers=g,[::1]:5&max_age=1h&user=u&password=p");
        let config = config.unwrap().nats(|nats| nats.server("f", 6));
        let nats = config.get_nats();
        let servers: Vec<_> = nats.get_servers().collect();
        assert_eq!(servers, [("g", 4222), ("::1", 5), ("f", 6)]);
        assert_eq!(nats.get_max_age(), Some(Duration::from_secs(3600)));
        assert_eq!(
            (nats.get_user(), nats.get_password()),
            (Some("u"), Some("p"))
        );

        let config = Config::new(Scheme::Shm, "t")
            .capacity(8192)
            .dir("/d")
            .name("n");
        assert_eq!(
            (config.get_capacity(), config.get_align()),
            (Some(8192), None)
        );
        assert_eq!(
            (config.get_dir(), config.get_name()),
            (Some(Path::new("/d")), Some("n"))
        );
    }
}
