//! `nats://`: messages in a stream of a NATS server, with acknowledgement. `docs/nats.md` describes what is stored.
//!
//! Each message of a ring is one message of the stream, so that any NATS client can read it, and a message that any
//! NATS client publishes on the channel's subject reaches the subscribers. Who publishes and who subscribes meet
//! nowhere but in the stream.
//!
//! * [`publish`] sends many at a time; [`window`] says what is stored and may be given back.
//! * [`subscribe`] pulls through a consumer of the server, in the order of the stream; [`sources`] puts each lane
//!   together in a lane of this side, which remembers how far it is.
//! * [`label`] is what ties the two: each message says which frame of which lane it is.
//!
//! The client library is asynchronous: each bridge runs it on its own thread, and nothing of it shows elsewhere.

mod connect;
mod label;
mod publish;
mod settings;
mod sources;
mod stream;
mod subscribe;
mod window;

use super::{Destination, Inlet, Outlet, Source};
use crate::error::{LinkError, OpenError};
use crate::link::Control;
use crate::uri::Config;
use settings::Settings;
use std::sync::Arc;

/// One side of `nats://`, as its settings say.
#[derive(Debug)]
pub(super) struct Nats {
    settings: Settings,
}

impl Nats {
    /// Reads what the settings name.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub(super) fn new(config: &Config) -> Result<Self, OpenError> {
        let settings = Settings::new(config)?;
        Ok(Self { settings })
    }
}

/// What runs the client library on the thread of the bridge.
fn runtime(settings: &Settings) -> Result<tokio::runtime::Runtime, LinkError> {
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    built.map_err(|source| LinkError::Io {
        action: "start an event loop for",
        place: settings.place(),
        source: Arc::new(source),
    })
}

impl Outlet for Nats {
    fn is_single(&self) -> bool {
        true
    }

    fn run(
        self: Box<Self>,
        source: Source,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let run = publish::run(&self.settings, source, control, until_end);
        runtime(&self.settings)?.block_on(run)
    }
}

impl Inlet for Nats {
    fn run(
        self: Box<Self>,
        destination: Destination,
        control: &Arc<Control>,
        until_end: bool,
    ) -> Result<(), LinkError> {
        let run = subscribe::run(&self.settings, destination, control, until_end);
        runtime(&self.settings)?.block_on(run)
    }
}
