//! Opening a channel of any scheme: its ring, and the bridge behind the ring if the channel is
//! remote.
//!
//! Settings are validated here, once. A [`Bridge`](crate::Bridge) does so for its two channels.

mod pair;
mod schemes;

use crate::bridge::behind;
use crate::channel::attach::{ShapeRole, TypeTag};
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::channel::typed::tag_of;
use crate::error::OpenError;
use crate::message::Plain;
use crate::uri::{Config, End, Scheme};

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
        let outlet = schemes::outlet(config)?;
        let ring = schemes::ring_of(config, "publisher");
        behind::publisher(&ring, &typed, config.uri(), outlet)
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
        let inlet = schemes::inlet(config)?;
        let ring = schemes::ring_of(config, "subscriber");
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
