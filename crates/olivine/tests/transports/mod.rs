//! Places where a channel can be, for suites that run over all of them.

use crate::common::{Place, free_port};
use std::sync::atomic::{AtomicU64, Ordering};

/// A place of its own for one test.
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
    /// The same, and the subscriber listens.
    TcpReversed(u16),
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
        Transport::Sealed(PlaceOf(Place::new())),
        Transport::Tcp(free_port()),
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
        }
    }

    /// What joins one more setting to a URI.
    pub(crate) fn and(&self, uri: &str) -> &'static str {
        if uri.contains('?') { "&" } else { "?" }
    }

    /// Whether there is a thread behind a handle: a bridge, or whatever watches the other end.
    pub(crate) fn has_link(&self) -> bool {
        !matches!(self, Self::Inproc(_) | Self::Shm(_))
    }

    /// Whether a subscriber belongs to the publisher it was opened beside, and is opened again for the next one.
    pub(crate) fn is_opened_again(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }
}
