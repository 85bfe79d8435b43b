//! Bridges: what carries the messages of a ring to another place, or from there into a ring.
//!
//! Every channel is a ring in memory. A program that opens `tcp://` (or `nats://`, `file://`) gets the ordinary
//! handle of a ring of its own, and behind it a thread that runs a bridge between that ring and the place:
//!
//! ```text
//!   Publisher -> ring -> [Egress] -> Outlet  ~~~ place ~~~  Inlet -> [Ingress] -> ring -> Subscriber
//! ```
//!
//! [`between::Bridge`] runs the same between two URIs, as a process of its own: there the ring is a channel in shared
//! memory, which outlives the bridge.
//!
//! # What loses and repeats nothing
//!
//! * [`egress::Egress`] is a reliable subscriber whose position moves only when the far side acknowledges. What is
//!   not acknowledged stays in the ring and holds publishers back: that is all there is of back-pressure.
//! * [`ingress::Ingress`] is a publisher for each lane of the source. It acknowledges what is committed, and its
//!   lanes remember where at the source they are, in the lane's own memory. Over shared memory, whoever comes after
//!   a killed bridge asks for exactly what is missing.
//!
//! # How a new kind of place plugs in
//!
//! It supplies an [`Outlet`], an [`Inlet`] or both, and an arm in [`outlet`] and [`inlet`]. Either runs on a thread
//! of its own until there is nothing left to do, `control.must_stop()`, or a failure that time will not heal; what
//! time may heal it waits out, and says so by `control.report`. An outlet ends with `Ok` once
//! `control.stopping()` is some and everything was delivered. Its ring:
//!
//! * a single far side (a journal, a stream of a server): [`Source::take_first`], subscribed before the publisher
//!   was handed out, so that it has every message from the first;
//! * any number of far sides: [`Source::subscribe`] for each one that comes.

pub(crate) mod between;
pub(crate) mod egress;
pub(crate) mod ingress;
#[cfg(feature = "journal")]
pub mod journal;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "nats", feature = "tcp"))]
mod reconnect;
mod relay;
#[cfg(any(feature = "nats", feature = "tcp"))]
mod secret;
#[cfg(feature = "tcp")]
mod tcp;
#[cfg(feature = "tcp")]
pub(crate) mod wire;

#[cfg(feature = "tcp")]
use crate::channel::attach;
use crate::channel::attach::{Part, TypeTag, draw, least_for};
use crate::error::{LinkError, OpenError};
use crate::link::Control;
#[cfg(feature = "tcp")]
use crate::ring::layout::Geometry;
use crate::uri::{Config, Scheme};
use egress::Egress;
use ingress::Ingress;
use std::sync::Arc;

/// Carries frames from a ring to another place.
pub(crate) trait Outlet: Send {
    /// Whether the place has a single far side, which then gets every message from the first.
    fn is_single(&self) -> bool;

    /// What its subscriber does with a shape that is open.
    fn part(&self) -> Part {
        Part::Names
    }

    /// Carries until everything was delivered and nothing more is to come, or until it is told to stop. With
    /// `until_end` it ends as well once every publisher of the ring has closed.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: what time does not heal.
    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError>;
}

/// Carries frames from another place into a ring.
pub(crate) trait Inlet: Send {
    /// Changes the settings of a ring that is about to be made for it alone to what suits the messages.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if it is known already that nothing can be brought.
    fn shape(&mut self, _ring: &mut Config) -> Result<(), OpenError> {
        Ok(())
    }

    /// Carries until it is told to stop; with `until_end` until the place has ended.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: what time does not heal.
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError>;
}

/// The ring that an inlet carries into.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    ring: Config,
    typed: TypeTag,
    control: Arc<Control>,
}

impl Destination {
    /// The ring of `ring`'s settings, made with this type if need be, for the bridge of `control`.
    pub(crate) fn new(ring: &Config, typed: TypeTag, control: &Arc<Control>) -> Self {
        Self {
            ring: ring.clone(),
            typed,
            control: Arc::clone(control),
        }
    }

    /// Opens the ring for a source. `who` says who brings the messages: the same words each time, so that it finds
    /// the lanes it left; others for others.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`]; [`LinkError::Settings`] if the ring is of another type.
    pub(crate) fn ingress(&self, who: &str) -> Result<Ingress, LinkError> {
        let opened = Ingress::open(&self.ring, self.typed.clone(), who, &self.control);
        opened.map_err(|error| match error {
            OpenError::Type { asked, found, .. } => LinkError::Settings {
                far: "the source".into(),
                key: "type",
                theirs: asked,
                ours: found,
                rule: ingress::TYPE_RULE,
            },
            other => ring_error(other),
        })
    }

    /// The shape that the ring has or would get, and whether its type is fixed; nothing is made.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`] if the settings exclude each other.
    #[cfg(feature = "tcp")]
    pub(crate) fn look(&self) -> Result<(Geometry, bool), LinkError> {
        attach::look(&self.ring, &self.typed).map_err(ring_error)
    }

    /// The type of the ring's messages.
    pub(crate) fn typed(&self) -> &TypeTag {
        &self.typed
    }

    /// Takes over the type of the source, where the ring takes any; one that exists must be of this type then. A ring
    /// that is made without a `capacity=` gets at least that of the source, if a default can be so large.
    pub(crate) fn adopt(&mut self, hash: u64, name: &str, capacity: u64) {
        self.ring.capacity_least = least_for(capacity);
        if self.typed.any {
            let name = name.to_owned().into();
            let any = false;
            self.typed = TypeTag { hash, name, any };
        }
    }
}

/// The ring that an outlet carries away.
#[derive(Debug)]
pub(crate) struct Source {
    ring: Config,
    first: Option<Egress>,
    part: Part,
}

impl Source {
    /// The ring of `ring`'s settings. With `first`, subscribed from here on.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(crate) fn new(ring: &Config, first: bool, part: Part) -> Result<Self, OpenError> {
        let first = first.then(|| Egress::open(ring, part)).transpose()?;
        Ok(Self {
            ring: ring.clone(),
            part,
            first,
        })
    }

    /// For a bridge that drew its name. An earlier bridge of this name may have carried everything
    /// and told the end, and was stopped or killed before it gave its place up. The end that is
    /// there then ends this bridge, too.
    pub(crate) fn expect_end(&mut self) {
        if let Some(first) = self.first.as_mut().filter(|first| first.is_resumed()) {
            first.expect_end();
        }
    }

    /// The subscriber of a single far side.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ring`] if it was taken already and cannot be opened again.
    pub(crate) fn take_first(&mut self) -> Result<Egress, LinkError> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => Egress::open(&self.ring, self.part).map_err(ring_error),
        }
    }

    /// The ring's settings: change what concerns one subscriber, and open it by [`Egress::open`].
    pub(crate) fn ring(&self) -> &Config {
        &self.ring
    }
}

/// A ring that could not be opened.
pub(crate) fn ring_error(source: OpenError) -> LinkError {
    let source = Arc::new(source);
    LinkError::Ring { source }
}

/// What carries frames to the place that `config` names.
///
/// # Errors
///
/// [`OpenError`]; `NoBridge` where this build cannot.
pub(crate) fn outlet(config: &Config) -> Result<Box<dyn Outlet>, OpenError> {
    match config.scheme() {
        #[cfg(feature = "journal")]
        Scheme::File => Ok(Box::new(journal::outlet::JournalOutlet::new(config)?)),
        #[cfg(feature = "nats")]
        Scheme::Nats => Ok(Box::new(nats::Nats::new(config)?)),
        #[cfg(feature = "tcp")]
        Scheme::Tcp => Ok(Box::new(tcp::Tcp::new(config, wire::hello::Side::Source)?)),
        _ => Err(no_bridge(config)),
    }
}

/// What carries frames from the place that `config` names.
///
/// # Errors
///
/// As [`outlet`].
pub(crate) fn inlet(config: &Config) -> Result<Box<dyn Inlet>, OpenError> {
    match config.scheme() {
        #[cfg(feature = "journal")]
        Scheme::File => Ok(Box::new(journal::inlet::JournalInlet::new(config))),
        #[cfg(feature = "nats")]
        Scheme::Nats => Ok(Box::new(nats::Nats::new(config)?)),
        #[cfg(feature = "tcp")]
        Scheme::Tcp => Ok(Box::new(tcp::Tcp::new(
            config,
            wire::hello::Side::Destination,
        )?)),
        _ => Err(no_bridge(config)),
    }
}

fn no_bridge(config: &Config) -> OpenError {
    OpenError::NoBridge {
        scheme: config.scheme().word(),
    }
}

/// Settings of the ring in front of the place that `config` names: memory of this process, or, for a durable
/// `name`, shared memory that the next process of that name finds again. `end` is the word for the handle in front: a
/// publisher and a subscriber of one URI have nothing in common here.
pub(crate) fn ring_of(config: &Config, end: &str) -> Config {
    let mut ring = config.clone();
    *ring.remote = Default::default();
    if config.scheme == Scheme::Nats {
        // The others are at the server: its bridge counts them.
        ring.subscribers = ring.subscribers.min(1);
    }
    ring.from = crate::uri::Start::default_of(Scheme::Shm);
    match &config.name {
        Some(name) => {
            ring.scheme = Scheme::Shm;
            let mut uri = config.clone();
            uri.remote.token = None;
            let path = || Some(uri.remote.path.as_ref()?.display().to_string());
            let address = uri.remote.address.as_ref().map(ToString::to_string);
            let place = address.or_else(path);
            let words = format!(
                "{end} {}://{}/{}/{name}",
                config.scheme().word(),
                place.unwrap_or_default(),
                config.channel()
            );
            let hash = crate::ring::layout::fnv(words.bytes());
            ring.channel = format!("link.{hash:016x}");
        }
        None => {
            ring.scheme = Scheme::Inproc;
            ring.channel = format!("link.{:016x}", draw());
            (ring.dir, ring.mode, ring.group) = (None, None, None);
            ring.expire = crate::uri::Expire::Never;
        }
    }
    ring
}

/// The type of a ring whose messages nobody here looks into.
pub(crate) fn any_type() -> TypeTag {
    TypeTag {
        any: true,
        ..TypeTag::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_of_remote_channel_belongs_to_one_side_and_scheme() {
        let ring = |uri: &str, end| ring_of(&Config::parse(uri).unwrap(), end).channel;
        let (tcp, nats) = ("tcp://h:4222/t?name=a", "nats://h:4222/t?name=a");
        assert_eq!(ring(tcp, "subscriber"), ring(tcp, "subscriber"));
        assert_ne!(ring(tcp, "subscriber"), ring(tcp, "publisher"));
        assert_ne!(ring(tcp, "subscriber"), ring(nats, "subscriber"));
    }
}
