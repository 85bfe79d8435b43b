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
    /// A connection on loopback; the publisher listens.
    Tcp(u16),
    /// The same, and the subscriber listens.
    TcpReversed(u16),
    /// A stream of a NATS server.
    #[cfg(feature = "nats")]
    Nats(crate::nats_server::Server),
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
    let mut transports = vec![
        Transport::Inproc(next),
        Transport::Shm(PlaceOf(Place::new())),
        Transport::Tcp(free_port()),
    ];
    #[cfg(feature = "nats")]
    transports.extend(crate::nats_server::server("").map(Transport::Nats));
    // One at a time: a server goes when its test is over.
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
        }
    }

    /// What joins one more setting to a URI.
    pub(crate) fn and(&self, uri: &str) -> &'static str {
        if uri.contains('?') { "&" } else { "?" }
    }

    /// What makes the place hold only so much, where it does not by itself.
    pub(crate) fn bounded(&self) -> &'static str {
        match self {
            #[cfg(feature = "nats")]
            Self::Nats(_) => "&retention=interest&max_bytes=64KiB",
            _ => "",
        }
    }

    /// Waits until the place has `bytes` of frames of a publisher, where it takes them by itself: who subscribes
    /// then comes later than they.
    pub(crate) fn settle(&self, publisher: &olivine::Publisher, bytes: u64) {
        #[cfg(feature = "nats")]
        if let Self::Nats(_) = self {
            crate::common::until("the stream has what was published", || {
                let status = publisher.link_status().expect("a link");
                status.acknowledged_bytes >= bytes
            });
        }
        let _ = (publisher, bytes);
    }

    /// Waits until the publisher's messages reach the subscriber.
    pub(crate) fn join(&self, publisher: &olivine::Publisher, subscriber: &olivine::Subscriber) {
        crate::common::until("the subscriber is there", || {
            let status = subscriber.link_status();
            let is_connected =
                |status: olivine::LinkStatus| status.stage == olivine::LinkStage::Connected;
            publisher.subscribers() == 1 && status.is_none_or(is_connected)
        });
    }

    /// Whether there is a bridge behind a handle.
    pub(crate) fn is_far(&self) -> bool {
        !matches!(self, Self::Inproc(_) | Self::Shm(_))
    }
}
