//! Places where a channel can be, for suites that run over all of them.

#![allow(dead_code, reason = "no suite needs all of it")]

#[cfg(feature = "tls")]
use crate::common::certificates::{Authority, Purpose};
use crate::common::{Place, free_port, until};
use olivine::{LinkStage, Publisher, Subscriber};
use std::sync::atomic::{AtomicU64, Ordering};

/// A place of its own for one test.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Memory of this process.
    Inproc(u64),
    /// Shared memory.
    Shm(PlaceOf),
    /// A connection on loopback; the publisher listens.
    Tcp(u16),
    /// The same, and the subscriber listens.
    TcpReversed(u16),
    /// As `Tcp`, under TLS.
    #[cfg(feature = "tls")]
    Tls(u16, Box<TlsFiles>),
    /// A journal that is followed while it is recorded.
    #[cfg(feature = "journal")]
    File(PlaceOf),
}

/// What not every place of a channel has.
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

pub(crate) struct PlaceOf(Place);

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
    for transport in [
        Transport::Inproc(next),
        Transport::Shm(PlaceOf(Place::new())),
        Transport::Tcp(free_port()),
        #[cfg(feature = "tls")]
        Transport::Tls(free_port(), Box::new(TlsFiles::new())),
        #[cfg(feature = "journal")]
        Transport::File(PlaceOf(Place::new())),
    ] {
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
            #[cfg(feature = "tls")]
            Self::Tls(port, files) => {
                let and = if query.is_empty() { "" } else { "&" };
                let uri = |files| format!("tcp://127.0.0.1:{port}/conformance?{query}{and}{files}");
                (uri(&files.publisher), uri(&files.subscriber))
            }
            #[cfg(feature = "journal")]
            Self::File(PlaceOf(place)) => {
                // The only subscriber that a journal's publisher counts is the recorder; nobody needs to be waited
                // for, because who reads later misses nothing.
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

    /// Whether this place has it; says so where it has not.
    pub(crate) fn has(&self, ability: Ability) -> bool {
        #[cfg(feature = "journal")]
        if let (Self::File(_), Ability::BackPressure) = (self, ability) {
            eprintln!("{self:?} has no {ability:?}: a journal takes what the disk takes");
            return false;
        }
        let Ability::BackPressure = ability;
        true
    }

    /// Waits until everything published is where a subscriber that comes later starts behind it.
    pub(crate) fn wait_kept(&self, publisher: &Publisher) {
        #[cfg(feature = "journal")]
        if let Self::File(_) = self {
            until("it is recorded", || {
                let status = publisher.link_status().expect("a bridge");
                status.acknowledged_bytes > 0
            });
        }
        let _ = publisher;
    }

    /// Waits until a subscriber gets whatever is published from then on.
    pub(crate) fn wait_joined(&self, publisher: &Publisher, subscriber: &Subscriber) {
        until("a subscriber is there", || publisher.subscribers() == 1);
        #[cfg(feature = "journal")]
        if let Self::File(_) = self {
            until("it has found where to start", || {
                let status = subscriber.link_status().expect("a bridge");
                status.stage == LinkStage::Connected
            });
        }
        let _ = subscriber;
    }

    /// What joins one more setting to a URI.
    pub(crate) fn and(&self, uri: &str) -> &'static str {
        if uri.contains('?') { "&" } else { "?" }
    }

    /// Whether there is a bridge behind a handle.
    pub(crate) fn is_far(&self) -> bool {
        !matches!(self, Self::Inproc(_) | Self::Shm(_))
    }
}
