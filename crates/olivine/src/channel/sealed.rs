//! `shm+fd://`: channels of peers that do not trust each other (ADR 0013).
//!
//! The publisher [`listen`]s at a socket, and a thread [`serve`]s it. A subscriber [`connect`]s,
//! and a thread [`watch`]es for the end of its publisher. [`wire`] holds their datagrams,
//! [`memory`] the memory that they share. Rings, gate and sleeping are those of every channel.
//! [`crate::ring::pages`] holds what is special to sealed channels.

mod connect;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_checks;
mod listen;
mod memory;
mod serve;
mod watch;
mod wire;

use super::attach::TypeTag;
use super::attached::Attached;
use super::join::consumer;
use crate::error::{LinkError, OpenError, SealedError};
use crate::link::{Control, Link};
use crate::ring::consume::Consumer;
use crate::ring::pages::Pages;
use crate::ring::publish::Producer;
use crate::uri::{Config, Scheme};
use listen::Listener;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A bound socket that a publisher will serve.
#[derive(Debug)]
pub(super) struct Rendezvous(Listener);

impl Rendezvous {
    /// Binds the socket of a sealed channel; `None` for other schemes.
    ///
    /// # Errors
    ///
    /// [`SealedError`]: another publisher serves it, or the system refused.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, OpenError> {
        if config.scheme() != Scheme::Sealed {
            return Ok(None);
        }
        Ok(Some(Self(Listener::bind(config, path_of(config))?)))
    }

    /// Seals the lane of `producer`, and starts the thread that admits subscribers.
    ///
    /// # Errors
    ///
    /// What the system refused.
    pub(super) fn open(
        self,
        config: &Config,
        attached: &Attached,
        producer: &mut Producer,
    ) -> Result<Link, OpenError> {
        let path = path_of(config);
        let refused = |action| listen::refused(action, path);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fault_event: Arc<OwnedFd> =
            Arc::new(rustix::event::eventfd(0, flags).map_err(refused("watch"))?);
        let signal = Arc::clone(&fault_event);
        let pages = Pages::new(&attached.control, &attached.geometry, move || {
            // An eventfd whose count is full is readable already.
            let _ = rustix::io::write(&*signal, &1_u64.to_ne_bytes());
        });
        let attached_again = attached.attach_again()?;
        let seal = memory::with_lane(&attached_again, |lane| {
            memory::seal(lane, memory::lane_seals(), path)
        });
        seal.ok_or_else(|| refused("seal the lane of")(Errno::NODEV))??;
        producer.use_private_pages(&pages);
        let server = serve::Server {
            config: config.clone(),
            listener: self.0,
            attached: attached_again,
            pages,
            fault_event,
            connections: Vec::new(),
            admitted: 0,
        };
        start(config, move |control| server.run(control))
    }
}

/// What a subscriber of a sealed channel starts with.
#[derive(Debug)]
pub(super) struct JoinedChannel {
    pub(super) attached: Attached,
    pub(super) lane: Consumer,
    /// The thread that waits for the end of the publisher.
    pub(super) link: Link,
}

/// Joins the sealed channel of `config`; waits up to `timeout` for its publisher.
///
/// # Errors
///
/// [`OpenError`]; nothing is left behind.
pub(super) fn join(config: &Config, typed: &TypeTag) -> Result<JoinedChannel, OpenError> {
    let connect::AcceptedAnswer {
        attached,
        lane: (words, ring),
        start: position,
        publisher_watch,
    } = connect::join(config, path_of(config), typed)?;
    let lane = consumer(&attached, config, 0, 0, words, ring, position);
    let link = start(config, move |control| publisher_watch.run(control))?;
    Ok(JoinedChannel {
        attached,
        lane,
        link,
    })
}

fn path_of(config: &Config) -> &Path {
    config.path().unwrap_or_else(|| Path::new(""))
}

/// Starts the thread of one end.
fn start(
    config: &Config,
    run: impl FnOnce(&Arc<Control>) -> Result<(), LinkError> + Send + 'static,
) -> Result<Link, OpenError> {
    let refused = |source| SealedError::Io {
        action: "start a thread for",
        socket: path_of(config).to_owned(),
        source,
    };
    let control = Control::new().map_err(refused)?;
    Ok(Link::start(config.uri(), control, run).map_err(refused)?)
}
