//! Opening a channel of any scheme: its ring, and the bridge behind the ring if the channel is
//! remote.
//!
//! Settings are validated here, once. A [`Bridge`](crate::Bridge) does so for its two channels.

use crate::bridge::{self, Destination, Source};
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::channel::typed::tag_of;
use crate::error::{LinkError, OpenError};
use crate::link::{Control, Link};
use crate::message::Plain;
use crate::uri::{Config, End, Scheme};
use std::sync::Arc;
use std::time::Duration;

/// How long opening waits for the first answer of a far side. The handle's next call reports a
/// later one.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(1);

impl Publisher {
    /// Opens the channel that `uri` names as a publisher of bytes; makes it if needed.
    ///
    /// The far side of a remote channel (`tcp://`) may come later: a thread of this handle waits
    /// for it, and messages go into its ring. See [`Publisher::link_status`].
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing is left behind.
    pub fn open(uri: &str) -> Result<Self, OpenError> {
        Self::open_with(&Config::parse(uri)?)
    }

    /// As [`Publisher::open`], from settings.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing is left behind.
    pub fn open_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, TypeTag::default())
    }
}

impl<T: Plain> Publisher<T> {
    /// Opens the channel that `uri` names as a publisher of `T`.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    pub fn typed(uri: &str) -> Result<Self, OpenError> {
        Self::typed_with(&Config::parse(uri)?)
    }

    /// As [`Publisher::typed`], from settings.
    ///
    /// # Errors
    ///
    /// As [`Publisher::typed`].
    pub fn typed_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, tag_of::<T>())
    }
}

impl<T: ?Sized> Publisher<T> {
    fn open_anywhere(config: &Config, typed: TypeTag) -> Result<Self, OpenError> {
        config.validate_for(End::Publisher)?;
        if is_here(config) {
            return Self::open_as(config, &typed, None);
        }
        let outlet = bridge::outlet(config)?;
        let ring = bridge::ring_of(config, "publisher");
        let mut publisher = Self::open_as(&ring, &typed, None)?;
        let mut follower = ring;
        // The bridge carries every topic.
        (follower.cpu, follower.subscribers, follower.topic) = (None, 0, None);
        let source = Source::new(&follower, outlet.is_single(), outlet.part())?;
        let link = start(config, move |control| outlet.run(source, control, false))?;
        link.wait_tried(FIRST_ANSWER_MAX)?;
        publisher.set_link(link);
        Ok(publisher)
    }
}

impl Subscriber {
    /// Opens the channel that `uri` names as a subscriber of bytes; makes it if needed.
    ///
    /// The far side of a remote channel (`tcp://`) may come later: a thread of this handle waits
    /// for it. See [`Subscriber::link_status`].
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing is left behind.
    pub fn open(uri: &str) -> Result<Self, OpenError> {
        Self::open_with(&Config::parse(uri)?)
    }

    /// As [`Subscriber::open`], from settings.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing is left behind.
    pub fn open_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, TypeTag::default())
    }
}

impl<T: Plain> Subscriber<T> {
    /// Opens the channel that `uri` names as a subscriber of `T`.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    pub fn typed(uri: &str) -> Result<Self, OpenError> {
        Self::typed_with(&Config::parse(uri)?)
    }

    /// As [`Subscriber::typed`], from settings.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::typed`].
    pub fn typed_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, tag_of::<T>())
    }
}

impl<T: ?Sized> Subscriber<T> {
    fn open_anywhere(config: &Config, typed: TypeTag) -> Result<Self, OpenError> {
        config.validate_for(End::Subscriber)?;
        if is_here(config) {
            return Self::open_as(config, &typed, ShapeRole::Leaves);
        }
        let mut inlet = bridge::inlet(config)?;
        let mut ring = bridge::ring_of(config, "subscriber");
        // The ring is new, and everything in it is for this subscriber.
        ring.from = crate::uri::Start::Oldest;
        // The far publisher decides how many subscribers it waits for.
        ring.subscribers = 0;
        inlet.shape(&mut ring)?;
        let in_ring = in_ring(&typed);
        let mut subscriber = Self::open_as(&ring, &typed, ShapeRole::Leaves)?;
        let link = start(config, move |control| {
            let destination = Destination::new(&ring, in_ring, control);
            inlet.run(destination, control, false)
        })?;
        link.wait_tried(FIRST_ANSWER_MAX)?;
        subscriber.set_link(link);
        Ok(subscriber)
    }
}

/// The type of the ring in front of a remote channel, for a subscriber of this type. A subscriber
/// of bytes reads any type, so its ring takes the type of the source.
fn in_ring(typed: &TypeTag) -> TypeTag {
    TypeTag {
        any: typed.hash == 0,
        ..typed.clone()
    }
}

/// Whether the channel is a ring of this machine, without a bridge.
fn is_here(config: &Config) -> bool {
    matches!(
        config.scheme(),
        Scheme::Shm | Scheme::Sealed | Scheme::Inproc
    )
}

/// Starts the bridge behind a handle.
fn start(
    config: &Config,
    bridge: impl FnOnce(&Arc<Control>) -> Result<(), LinkError> + Send + 'static,
) -> Result<Link, OpenError> {
    let refused = |source: std::io::Error| LinkError::Io {
        action: "start a thread for",
        place: config.uri(),
        source: Arc::new(source),
    };
    let control = Control::new().map_err(refused)?;
    Ok(Link::start(config.uri(), control, bridge).map_err(refused)?)
}
