//! The keys of a channel outside this machine's memory: its name, its connection and its trust.

use crate::uri::groups::ConnectionSettings as Connection;
use crate::uri::key::{
    Schemes, changed, given, is_path, is_secret, is_within, keys, on, path, secret, word, yes_or_no,
};
use crate::uri::parse::is_channel_name;
use crate::uri::remote::TIMEOUT_RANGE;
use crate::uri::values::{parse_duration, show_duration};
use crate::uri::{Config, NatsSettings, Peers, Role, Scheme, SealedSettings, TcpSettings};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NETWORK: Schemes = Schemes {
    has: &[Scheme::Tcp, Scheme::Nats],
    refusals: &[(
        "this scheme",
        "only a channel over the network has it; use tcp://, or drop it",
    )],
};

const TCP: Schemes = Schemes {
    has: &[Scheme::Tcp],
    ..NETWORK
};

const WITH_TIMEOUT: Schemes = Schemes {
    has: &[Scheme::Sealed, Scheme::Tcp, Scheme::Nats],
    ..NETWORK
};

const SEALED: Schemes = Schemes {
    has: &[Scheme::Sealed],
    refusals: &[(
        "this scheme",
        "only the socket of a sealed channel tells who is there; use shm+fd://, or drop it",
    )],
};

const FILE: Schemes = Schemes {
    has: &[Scheme::File],
    refusals: &[],
};

/// Whether a socket can be bound to `address` for connections, without a zone.
fn is_of_one_interface(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_general = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        // It needs a zone.
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_general || address.is_unspecified() || address.is_multicast())
}

keys! { KEYS {
    /// Name of the channel in a journal.
    channel(config: Config) {
        value: "NAME", schemes: FILE, end: Both,
        default: "the file's name up to its last dot",
        rule: "for file:// only: 1 to 64 of A-Z a-z 0-9 . _ -",
        set: |config, text| {
            if config.scheme != Scheme::File || !is_channel_name(text) {
                return Err(None);
            }
            text.clone_into(&mut config.channel);
            config.groups.file.named = true;
            Ok(())
        },
        show: {
            let given = config.scheme == Scheme::File && config.groups.file.named;
            given.then(|| config.channel.clone())
        },
    }

    /// Which side of `tcp://` waits for connections.
    ///
    /// With port 0 the side that listens lets the system choose a free port: `link_status` has it
    /// in `address`.
    role(tcp: TcpSettings, role: Role) in TcpSettings {
        getter: get_role -> Option<Role> = tcp.role,
        value: "SIDE", schemes: TCP, end: Both,
        default: "the publisher listens, subscribers connect", rule: "one of listen, connect",
        read: word, put: tcp.role = Some(role),
        show: given(&tcp.role),
    }

    /// Address of this machine from which the side of `tcp://` that connects does so.
    ///
    /// It selects a network interface on machines with several. The side that listens has its
    /// address in the URI. Addresses of the far side of another family, IPv4 or IPv6, are not
    /// tried. While this machine does not have the address, opening succeeds, and the connection is
    /// tried again, as with a far side that is not there; `link_status` says why it waits. An IPv4
    /// address in the form of IPv6, such as `::ffff:192.0.2.7`, is one of IPv4.
    bind(tcp: TcpSettings, address: IpAddr) in TcpSettings {
        getter: get_bind -> Option<IpAddr> = tcp.bind,
        value: "ADDRESS", schemes: TCP, end: Both,
        default: "chosen by the system",
        rule: "an IP address of one interface, such as 192.0.2.7 or 2001:db8::7, and not a \
               link-local one (fe80::), which needs a zone",
        read: word::<IpAddr>, put: tcp.bind = Some(address.to_canonical()),
        show: given(&tcp.bind),
        holds: tcp.bind.is_none_or(is_of_one_interface),
    }

    /// Word that both sides of `tcp://` must give, or that a `nats://` server requires.
    ///
    /// `@PATH` reads it from a file of at most 4 KiB. It is sent unencrypted without TLS: use TLS
    /// if others can listen.
    token(connection: Connection, token: &str) in TcpSettings, NatsSettings {
        getter: get_token -> Option<&str> = connection.token.as_deref(),
        value: "WORD", schemes: NETWORK, end: Both,
        default: "none",
        rule: "1 to 256 visible ASCII characters, or @ and the path of a file with them",
        read: Some, put: connection.token = Some(token.to_owned()),
        show: secret(&connection.token),
        holds: connection.token.as_deref().is_none_or(is_secret),
    }

    /// Silence after which a connection is closed and made again.
    ///
    /// A side of `tcp://` that connects also waits so long for each step of the handshake, 5 s at
    /// most. For `shm+fd://`: how long opening a subscriber waits for its publisher.
    timeout(connection: Connection, silence: Duration)
        in TcpSettings, NatsSettings, SealedSettings {
        getter: get_timeout -> Option<Duration> = connection.timeout,
        value: "DURATION", schemes: WITH_TIMEOUT, end: Both,
        default: "5s", rule: "a duration from 100ms to 1h",
        read: parse_duration, put: connection.timeout = Some(silence),
        show: connection.timeout.map(show_duration),
        holds: is_within(connection.timeout, TIMEOUT_RANGE),
    }

    /// Users whose processes may be at the other end of a `shm+fd://` channel.
    ///
    /// The kernel names the user. Both ends check: a publisher refuses subscribers of other users,
    /// and a subscriber maps no memory from a publisher of another user. Other users also need
    /// `mode`, or they cannot connect to the socket.
    peers(sealed: SealedSettings, peers: Peers) in SealedSettings {
        getter: get_peers -> &Peers = &sealed.peers,
        value: "USERS", schemes: SEALED, end: Both,
        default: "own", rule: "own, any, or up to 32 user ids such as 1000,1001",
        read: word, put: sealed.peers = peers,
        show: changed(&sealed.peers),
    }

    /// Encrypts and authenticates `tcp://` and `nats://` by TLS. Needs the feature `tls`.
    ///
    /// The listener of `tcp://` needs `tls_cert` and `tls_key`, the side that connects `tls_ca`.
    /// The listener's certificate must be for the host name or address that the URI names.
    tls(connection: Connection, on: bool) in TcpSettings, NatsSettings {
        getter: get_tls -> bool = connection.tls,
        value: "CHOICE", schemes: NETWORK, end: Both,
        default: "no", rule: "one of yes, no",
        read: yes_or_no, put: connection.tls = on,
        show: on(connection.tls),
    }

    /// PEM file with the certificate of this side, followed by its chain, of at most 1 MiB.
    tls_cert(connection: Connection, file: impl Into<PathBuf>) in TcpSettings, NatsSettings {
        getter: get_tls_cert -> Option<&Path> = connection.tls_cert.as_deref(),
        value: "PATH", schemes: NETWORK, end: Both,
        default: "none", rule: "an absolute path of a file",
        read: Some, put: connection.tls_cert = Some(file.into()),
        show: path(&connection.tls_cert),
        holds: is_path(&connection.tls_cert),
    }

    /// PEM file with the private key of `tls_cert`, of at most 1 MiB.
    tls_key(connection: Connection, file: impl Into<PathBuf>) in TcpSettings, NatsSettings {
        getter: get_tls_key -> Option<&Path> = connection.tls_key.as_deref(),
        value: "PATH", schemes: NETWORK, end: Both,
        default: "none", rule: "an absolute path of a file",
        read: Some, put: connection.tls_key = Some(file.into()),
        show: path(&connection.tls_key),
        holds: is_path(&connection.tls_key),
    }

    /// PEM file with the authorities that sign the other side's certificate, of at most 1 MiB.
    ///
    /// The side that connects checks the listener with it. A listener with `tls_ca` asks every
    /// connection for a certificate: mutual TLS.
    tls_ca(connection: Connection, file: impl Into<PathBuf>) in TcpSettings, NatsSettings {
        getter: get_tls_ca -> Option<&Path> = connection.tls_ca.as_deref(),
        value: "PATH", schemes: NETWORK, end: Both,
        default: "none", rule: "an absolute path of a file",
        read: Some, put: connection.tls_ca = Some(file.into()),
        show: path(&connection.tls_ca),
        holds: is_path(&connection.tls_ca),
    }
} }
