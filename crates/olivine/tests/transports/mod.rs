//! Transports of a channel, for suites that run on all of them.

#![allow(dead_code, reason = "no suite needs all of it")]

#[cfg(feature = "tls")]
use crate::common::certificates::{Authority, Purpose};
use crate::common::{TestFolder, free_port, until};
use olivine::{LinkStage, Publisher, Subscriber};
use std::sync::atomic::{AtomicU64, Ordering};

/// A transport of one test.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Memory of this process.
    Inproc(u64),
    /// Shared memory.
    Shm(PlaceOf),
    /// Sealed memory, handed over a socket.
    Sealed(PlaceOf),
    /// A connection on loopback; the publisher listens.
    Tcp(u16),
    /// The same, with the subscriber listening.
    TcpReversed(u16),
    /// A stream of a NATS server.
    #[cfg(feature = "nats")]
    Nats(Box<crate::nats_server::Server>),
    /// Like `Tcp`, under TLS.
    #[cfg(feature = "tls")]
    Tls(u16, Box<TlsFiles>),
    /// A journal that is followed during the recording.
    #[cfg(feature = "journal")]
    File(PlaceOf),
}

/// Features that some transports lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// A subscriber that does not read holds the publisher back.
    BackPressure,
}

/// Certificates of both sides, as settings.
#[cfg(feature = "tls")]
pub(crate) struct TlsFiles {
    _folder: Authority,
    publisher: String,
    subscriber: String,
}

#[cfg(feature = "tls")]
impl TlsFiles {
    fn new() -> Self {
        let authority = Authority::new("conformance");
        let ca = authority.ca();
        let (server, client) = (
            authority.sign("publisher", Purpose::Server, |_| {}),
            authority.sign("subscriber", Purpose::Client, |_| {}),
        );
        Self {
            publisher: format!("tls=yes&{server}&tls_ca={}", ca.display()),
            subscriber: format!("tls=yes&{client}&tls_ca={}", ca.display()),
            _folder: authority,
        }
    }
}

#[cfg(feature = "tls")]
impl std::fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mutual TLS")
    }
}

pub(crate) struct PlaceOf(TestFolder);

impl std::fmt::Debug for PlaceOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("files")
    }
}

/// Runs a test over every transport on which one publisher and one subscriber meet.
pub(crate) fn each_pair(test: impl Fn(&Transport)) {
    each(&test);
    let reversed = Transport::TcpReversed(free_port());
    eprintln!("over {reversed:?}");
    test(&reversed);
}

/// Runs a test over every transport on which subscribers come to a publisher.
pub(crate) fn each(test: impl Fn(&Transport)) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let transports = vec![
        Transport::Inproc(next),
        Transport::Shm(PlaceOf(TestFolder::new())),
        Transport::Sealed(PlaceOf(TestFolder::new())),
        Transport::Tcp(free_port()),
        #[cfg(feature = "tls")]
        Transport::Tls(free_port(), Box::new(TlsFiles::new())),
        #[cfg(feature = "journal")]
        Transport::File(PlaceOf(TestFolder::new())),
    ];
    #[cfg(feature = "nats")]
    let transports = transports
        .into_iter()
        .chain(crate::nats_server::server("").map(|server| Transport::Nats(Box::new(server))));
    // One at a time: a server ends with its test.
    for transport in transports {
        eprintln!("over {transport:?}");
        test(&transport);
    }
}

impl Transport {
    /// URIs of a publisher and a subscriber of one channel, with these settings.
    pub(crate) fn pair(&self, query: &str) -> (String, String) {
        let mark = if query.is_empty() { "" } else { "?" };
        match self {
            Self::Inproc(number) => {
                let uri = format!("inproc://conformance-{number}{mark}{query}");
                (uri.clone(), uri)
            }
            Self::Shm(PlaceOf(place)) => {
                let uri = place.uri("conformance", query);
                (uri.clone(), uri)
            }
            Self::Sealed(PlaceOf(place)) => {
                let socket = place.file("conformance.sock");
                let uri = format!("shm+fd://{}{mark}{query}", socket.display());
                (uri.clone(), uri)
            }
            Self::Tcp(port) => {
                let uri = format!("tcp://127.0.0.1:{port}/conformance{mark}{query}");
                (uri.clone(), uri)
            }
            Self::TcpReversed(port) => {
                let and = if query.is_empty() { "" } else { "&" };
                let uri =
                    |role| format!("tcp://127.0.0.1:{port}/conformance?{query}{and}role={role}");
                (uri("connect"), uri("listen"))
            }
            #[cfg(feature = "nats")]
            Self::Nats(server) => {
                let uri = server.uri("conformance", query);
                (uri.clone(), uri)
            }
            #[cfg(feature = "tls")]
            Self::Tls(port, files) => {
                let and = if query.is_empty() { "" } else { "&" };
                let uri = |files| format!("tcp://127.0.0.1:{port}/conformance?{query}{and}{files}");
                (uri(&files.publisher), uri(&files.subscriber))
            }
            #[cfg(feature = "journal")]
            Self::File(PlaceOf(place)) => {
                // The only subscriber that a journal's publisher counts is the recorder. There is
                // no need to wait for readers: later ones miss nothing.
                let kept: Vec<&str> = (query.split('&'))
                    .filter(|pair| !pair.is_empty() && !pair.starts_with("subscribers="))
                    .collect();
                let mark = if kept.is_empty() { "" } else { "?" };
                let file = place.file("conformance.olv");
                let publish = format!("file://{}{mark}{}", file.display(), kept.join("&"));
                let subscribe = format!("{publish}{}follow=yes", self.and(&publish));
                (publish, subscribe)
            }
        }
    }

    /// Whether this transport has it; prints if it does not.
    pub(crate) fn has(&self, ability: Ability) -> bool {
        #[cfg(feature = "journal")]
        if let (Self::File(_), Ability::BackPressure) = (self, ability) {
            eprintln!("{self:?} has no {ability:?}: a journal takes what the disk takes");
            return false;
        }
        let Ability::BackPressure = ability;
        true
    }

    /// Waits until everything published is stored, so that a later subscriber starts after it.
    pub(crate) fn wait_kept(&self, publisher: &Publisher) {
        if self.is_store() {
            until("it is stored", || {
                let status = publisher.link_status().expect("a bridge");
                status.acknowledged_bytes > 0
            });
        }
    }

    /// Waits until a subscriber gets every later message.
    pub(crate) fn wait_joined(&self, publisher: &Publisher, subscriber: &Subscriber) {
        until("a subscriber is there", || {
            publisher.count_subscribers() == 1
        });
        if self.is_store() {
            until("it has found where to start", || {
                let status = subscriber.link_status().expect("a bridge");
                status.stage == LinkStage::Connected
            });
        }
    }

    /// Whether the transport stores messages without a subscriber.
    fn is_store(&self) -> bool {
        match self {
            #[cfg(feature = "journal")]
            Self::File(_) => true,
            #[cfg(feature = "nats")]
            Self::Nats(_) => true,
            _ => false,
        }
    }

    /// The separator for one more setting of a URI.
    pub(crate) fn and(&self, uri: &str) -> &'static str {
        if uri.contains('?') { "&" } else { "?" }
    }

    /// Settings that bound the stored messages, if the transport needs them.
    pub(crate) fn bounded(&self) -> &'static str {
        match self {
            #[cfg(feature = "nats")]
            Self::Nats(_) => "&retention=interest&max_bytes=64KiB",
            _ => "",
        }
    }

    /// Whether a thread works for a handle: a bridge, or a monitor of the other end.
    pub(crate) fn has_link(&self) -> bool {
        !matches!(self, Self::Inproc(_) | Self::Shm(_))
    }

    /// Whether a subscriber belongs to one publisher, and must be opened again for the next one.
    pub(crate) fn is_opened_again(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }
}
