//! `shm+fd://`: channels of peers that do not trust each other (ADR 0013).
//!
//! The publisher [`listen`]s at a socket and [`serve`]s it from a thread; a subscriber [`connect`]s, and [`watch`]es from a
//! thread of its own for the end of its publisher. What they say is in [`wire`], what they hand out in [`memory`]. The
//! rings, the gate and the sleeping are those of every channel; what is special is in [`crate::ring::pages`].

#[cfg(any(test, fuzzing))]
pub(crate) mod claims;
mod connect;
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

/// A socket that a publisher is about to serve.
#[derive(Debug)]
pub(super) struct Door(Listener);

impl Door {
    /// Takes the socket of a sealed channel; `None` for channels of other schemes.
    ///
    /// # Errors
    ///
    /// [`SealedError`]: another publisher serves it, or the system refused.
    pub(super) fn of(config: &Config) -> Result<Option<Self>, OpenError> {
        if config.scheme() != Scheme::Sealed {
            return Ok(None);
        }
        config.validate()?;
        Ok(Some(Self(Listener::bind(config, path_of(config))?)))
    }

    /// Seals the lane of `producer` and lets subscribers in, on a thread.
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
        let bell: Arc<OwnedFd> =
            Arc::new(rustix::event::eventfd(0, flags).map_err(refused("watch"))?);
        let rung = Arc::clone(&bell);
        let pages = Pages::new(&attached.control, &attached.geometry, move || {
            // One that is full is readable already.
            let _ = rustix::io::write(&*rung, &1_u64.to_ne_bytes());
        });
        let beside = attached.beside()?;
        let seal = memory::with_lane(&beside, |lane| {
            memory::seal(lane, memory::lane_seals(), path)
        });
        seal.ok_or_else(|| refused("seal the lane of")(Errno::NODEV))??;
        producer.use_private_pages(&pages);
        let server = serve::Server {
            config: config.clone(),
            listener: self.0,
            attached: beside,
            pages,
            bell,
            connections: Vec::new(),
            admitted: 0,
        };
        start(config, move |control| server.run(control))
    }
}

/// What a subscriber of a sealed channel begins with.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) attached: Attached,
    pub(super) lane: Consumer,
    /// The thread that waits for the publisher's end.
    pub(super) link: Link,
}

/// Joins the sealed channel of `config`; waits for its publisher as long as `timeout` says.
///
/// # Errors
///
/// [`OpenError`]; nothing stays behind.
pub(super) fn enter(config: &Config, typed: &TypeTag) -> Result<Entered, OpenError> {
    let connect::Joined {
        attached,
        lane: (words, ring),
        start: position,
        lifeline,
    } = connect::join(config, path_of(config), typed)?;
    let lane = consumer(&attached, config, 0, 0, words, ring, position);
    let link = start(config, move |control| lifeline.run(control))?;
    Ok(Entered {
        attached,
        lane,
        link,
    })
}

fn path_of(config: &Config) -> &Path {
    config.socket().unwrap_or_else(|| Path::new(""))
}

/// Runs one end's thread.
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
