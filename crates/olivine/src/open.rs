//! Opening a channel of any scheme: its ring, and the bridge behind the ring if the channel is
//! remote.
//!
//! Settings are validated here, once. A [`Bridge`](crate::Bridge) does so for its two channels.

mod rings;
mod schemes;

use crate::bridge::behind;
use crate::bridge::between::{Bridge, default_name, named, refuse_topic};
use crate::bridge::relay::Relay;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::error::OpenError;
use crate::message::{MessageType, Plain};
use crate::uri::{Config, End, Scheme, UriError};
pub use rings::rings_behind;
use schemes::{inlet, outlet, outlet_of_bridge, ring_of};

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

    /// As [`Publisher::open_with`], for values of a type that the program states. The handle sends
    /// messages of any length, so it must publish whole values: a typed subscriber refuses a
    /// message of another length as corrupt.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    pub fn open_for(config: &Config, stated: &MessageType) -> Result<Self, OpenError> {
        Self::open_anywhere(config, stated.into())
    }
}

impl<T: Plain> Publisher<T> {
    /// Opens the channel that `uri` names as a publisher of `T`.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    ///
    /// # Panics
    ///
    /// As [`MessageType::of`].
    pub fn typed(uri: &str) -> Result<Self, OpenError> {
        Self::typed_with(&Config::parse(uri)?)
    }

    /// As [`Publisher::typed`], from settings.
    ///
    /// # Errors
    ///
    /// As [`Publisher::typed`].
    ///
    /// # Panics
    ///
    /// As [`MessageType::of`].
    pub fn typed_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, (&MessageType::of::<T>()).into())
    }
}

impl<T: ?Sized> Publisher<T> {
    fn open_anywhere(config: &Config, typed: TypeTag) -> Result<Self, OpenError> {
        config.validate_for(End::Publisher)?;
        if is_here(config) {
            return Self::open_as(config, &typed, None);
        }
        let ring = ring_of(config, End::Publisher);
        behind::publisher(&ring, &typed, config.uri(), outlet(config)?)
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

    /// As [`Subscriber::open_with`], for values of a type that the program states.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    pub fn open_for(config: &Config, stated: &MessageType) -> Result<Self, OpenError> {
        Self::open_anywhere(config, stated.into())
    }
}

impl<T: Plain> Subscriber<T> {
    /// Opens the channel that `uri` names as a subscriber of `T`.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Type` if the channel has another type.
    ///
    /// # Panics
    ///
    /// As [`MessageType::of`].
    pub fn typed(uri: &str) -> Result<Self, OpenError> {
        Self::typed_with(&Config::parse(uri)?)
    }

    /// As [`Subscriber::typed`], from settings.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::typed`].
    ///
    /// # Panics
    ///
    /// As [`MessageType::of`].
    pub fn typed_with(config: &Config) -> Result<Self, OpenError> {
        Self::open_anywhere(config, (&MessageType::of::<T>()).into())
    }
}

impl<T: ?Sized> Subscriber<T> {
    fn open_anywhere(config: &Config, typed: TypeTag) -> Result<Self, OpenError> {
        config.validate_for(End::Subscriber)?;
        if is_here(config) {
            return Self::open_as(config, &typed, ShapeRole::Leaves);
        }
        let inlet = inlet(config)?;
        let ring = ring_of(config, End::Subscriber);
        behind::subscriber(&ring, &typed, config.uri(), inlet)
    }
}

/// Whether the channel is a ring of this machine, without a bridge.
fn is_here(config: &Config) -> bool {
    matches!(
        config.scheme(),
        Scheme::Shm | Scheme::Sealed | Scheme::Inproc
    )
}

impl Bridge {
    /// Starts a thread that copies messages from `source` to `destination`. With `until_end` it
    /// ends once every publisher of the source has closed and everything is delivered. Otherwise it
    /// runs until it is stopped.
    ///
    /// A `name` in the remote URI names this bridge at the far side; one in the ring's URI names
    /// its position there, which is then kept. The default name is made from the two URIs, with all
    /// their keys, and the host name, so the next bridge between the two continues at this one's
    /// position. A position with a default name is given up when the source has ended and
    /// everything is delivered, and by [`Bridge::leave`].
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing is left behind. Two remote channels are refused as a pair.
    pub fn start(
        source: &Config,
        destination: &Config,
        until_end: bool,
    ) -> Result<Self, OpenError> {
        source.validate()?;
        destination.validate()?;
        refuse_topic(source)?;
        refuse_topic(destination)?;
        let words = format!("{} to {}", source.uri(), destination.uri());
        let name = default_name(&words);
        match (is_here(source), is_here(destination)) {
            (true, true) => {
                let outlet = Box::new(Relay::new(destination));
                Self::out_of(source, words, outlet, until_end)
            }
            (true, false) => {
                let outlet = outlet_of_bridge(&named(destination, &name))?;
                Self::out_of(source, words, outlet, until_end)
            }
            (false, true) => {
                let inlet = inlet(&named(source, &name))?;
                Self::into_ring(destination, words, inlet, until_end)
            }
            (false, false) => Err(UriError::Pair {
                first: "a source elsewhere",
                second: "a destination elsewhere",
                rule: "put a channel in shared memory between them, and two bridges",
            }
            .into()),
        }
    }
}
