//! The bridge of each scheme, and the ring in front of it.

#[cfg(any(feature = "journal", feature = "nats", feature = "tcp"))]
use crate::bridge;
use crate::bridge::{Inlet, Outlet};
use crate::channel::attach::random_id;
use crate::channel::behind;
use crate::error::OpenError;
use crate::uri::{Config, End, Expire, Scheme, Start, UriError};

/// The outlet for the place that `config` names.
///
/// # Errors
///
/// [`OpenError`]; `NoBridge` if this build does not contain it.
pub(super) fn outlet(config: &Config) -> Result<Box<dyn Outlet>, OpenError> {
    let outlet: Box<dyn Outlet> = match config.scheme() {
        #[cfg(feature = "journal")]
        Scheme::File => Box::new(bridge::journal::outlet::JournalOutlet::new(config)),
        #[cfg(feature = "nats")]
        Scheme::Nats => Box::new(bridge::nats::Nats::new(config)?),
        #[cfg(feature = "tcp")]
        Scheme::Tcp => Box::new(bridge::tcp::Tcp::new(
            config,
            bridge::wire::hello::Side::Source,
        )?),
        _ => return Err(no_bridge(config)),
    };
    // At a NATS server other subscribers count, too.
    if config.scheme() != Scheme::Nats && outlet.is_single() && config.subscribers > 1 {
        return Err(OpenError::Uri(UriError::Pair {
            first: "subscribers above 1",
            second: "a single far side",
            rule: "a file, and a tcp:// publisher that connects, count as one subscriber, so it \
                   would wait for ever: give 'subscribers=1' or 0",
        }));
    }
    Ok(outlet)
}

/// As [`outlet`], for a bridge, whose ring has other publishers: they do not wait while it recovers
/// a journal, and a journal that it cannot make takes none of their messages. It makes none before
/// it has the ring: a reader that had opened it would wait for ever if the ring is refused.
///
/// # Errors
///
/// As [`outlet`]; also why the journal cannot be recorded into, or cannot be made.
pub(super) fn outlet_of_bridge(config: &Config) -> Result<Box<dyn Outlet>, OpenError> {
    let mut outlet = outlet(config)?;
    #[cfg(feature = "journal")]
    if config.scheme() == Scheme::File && bridge::journal::outlet::check(config)? {
        outlet.open()?;
    }
    Ok(outlet)
}

/// The inlet for the place that `config` names.
///
/// # Errors
///
/// As [`outlet`].
pub(super) fn inlet(config: &Config) -> Result<Box<dyn Inlet>, OpenError> {
    match config.scheme() {
        #[cfg(feature = "journal")]
        Scheme::File => Ok(Box::new(bridge::journal::inlet::JournalInlet::new(config))),
        #[cfg(feature = "nats")]
        Scheme::Nats => Ok(Box::new(bridge::nats::Nats::new(config)?)),
        #[cfg(feature = "tcp")]
        Scheme::Tcp => Ok(Box::new(bridge::tcp::Tcp::new(
            config,
            bridge::wire::hello::Side::Destination,
        )?)),
        _ => Err(no_bridge(config)),
    }
}

fn no_bridge(config: &Config) -> OpenError {
    OpenError::NoBridge {
        scheme: config.scheme().word(),
    }
}

/// Settings of the ring in front of the place that `config` names. It is memory of this process,
/// or, for a durable `name`, shared memory that the next process of that name finds again. `end`
/// names the handle in front: a publisher and a subscriber of one URI have different rings.
pub(super) fn ring_of(config: &Config, end: End) -> Config {
    let mut ring = config.clone();
    *ring.groups = Default::default();
    if config.scheme == Scheme::Nats {
        // The other subscribers are at the server: its bridge counts them.
        ring.subscribers = ring.subscribers.min(1);
    }
    ring.from = Start::default_of(Scheme::Shm);
    match &config.name {
        Some(name) => {
            ring.scheme = Scheme::Shm;
            ring.channel = behind::ring(end, config, name);
            ring.note = Some(behind::note(end, config));
        }
        None => {
            ring.scheme = Scheme::Inproc;
            ring.channel = behind::unnamed_ring(random_id());
            (ring.dir, ring.mode, ring.group) = (None, None, None);
            ring.expire = Expire::Never;
        }
    }
    ring
}
